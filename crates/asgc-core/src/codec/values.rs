//! Values of a group of entries.
//!
//! | values | bytes of a group with `n` entries | length |
//! |---|---|---|
//! | `f32` | `n` x `f32` | `4n` |
//! | `bf16` | `n` x bfloat16, rounded to the nearest | `2n` |
//! | `int8` | bfloat16 `low`, bfloat16 `high`, `n` codes | `n + 4` |
//!
//! A code is the sign in its highest bit and, below it, the level `c` (0 to 127) of the magnitude
//! `low + c * (high - low) / 127`. What Top-K keeps exceeds a threshold, so levels between the least and the largest are
//! finer than levels from 0 on.

use super::Values;
use asgc_kernels::{bf16_bits, bf16_value};

/// The highest level.
const LEVELS: f32 = 127.0;

/// Length of `n` values, in bytes.
pub(super) fn len(n: usize, values: Values) -> usize {
    match values {
        Values::F32 => 4 * n,
        Values::Bf16 | Values::Fp16 => 2 * n,
        Values::Int8 => n + 4,
    }
}

/// Appends a group, and leaves in `group` what a decoder will not see of it.
pub(super) fn write(group: &mut [f32], values: Values, out: &mut Vec<u8>) {
    match values {
        Values::F32 => {
            for value in group {
                out.extend_from_slice(&std::mem::take(value).to_le_bytes());
            }
        }
        Values::Bf16 | Values::Fp16 => {
            for value in group {
                let bits = bf16_bits(*value);
                out.extend_from_slice(&bits.to_le_bytes());
                *value -= bf16_value(bits);
            }
        }
        Values::Int8 => write_levels(group, out),
    }
}

/// Appends the values of a group of `n` entries, whose bytes these are. They may be anything, also not finite.
pub(super) fn read(bytes: &[u8], values: Values, out: &mut Vec<f32>) {
    let half = |bytes: &[u8; 2]| bf16_value(u16::from_le_bytes(*bytes));
    match values {
        Values::F32 => out.extend(
            bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|&word| f32::from_le_bytes(word)),
        ),
        Values::Bf16 | Values::Fp16 => out.extend(bytes.as_chunks::<2>().0.iter().map(half)),
        Values::Int8 => {
            if let Some((&[a, b, c, d], codes)) = bytes.split_first_chunk::<4>() {
                let levels = Levels::between(half(&[a, b]), half(&[c, d]));
                out.extend(codes.iter().map(|&code| levels.value(code)));
            }
        }
    }
}

fn write_levels(group: &mut [f32], out: &mut Vec<u8>) {
    let magnitudes = || group.iter().map(|value| value.abs());
    let least = magnitudes().fold(f32::INFINITY, f32::min);
    let largest = magnitudes().fold(0.0, f32::max);
    // Downwards, so that no magnitude lies below the lowest level.
    let low = (least.to_bits() >> 16) as u16;
    let high = bf16_bits(largest);
    out.extend_from_slice(&low.to_le_bytes());
    out.extend_from_slice(&high.to_le_bytes());
    let levels = Levels::between(bf16_value(low), bf16_value(high));
    for value in group {
        let code = levels.code(*value);
        out.push(code);
        *value -= levels.value(code);
    }
}

#[derive(Clone, Copy)]
struct Levels {
    low: f32,
    step: f32,
}

impl Levels {
    fn between(low: f32, high: f32) -> Self {
        Self {
            low,
            step: (high - low) / LEVELS,
        }
    }

    fn code(self, value: f32) -> u8 {
        let level = match self.step > 0.0 {
            true => ((value.abs() - self.low) / self.step)
                .round_ties_even()
                .clamp(0.0, LEVELS),
            false => 0.0,
        };
        level as u8 | (u8::from(value.is_sign_negative()) << 7)
    }

    fn value(self, code: u8) -> f32 {
        let magnitude = self.low + f32::from(code & 0x7f) * self.step;
        if code & 0x80 == 0 { magnitude } else { -magnitude }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_group_comes_back_within_its_bound(group in prop::collection::vec(prop_oneof![-1.0f32..1.0, -1e38f32..1e38, -1e-40f32..1e-40], 1..=128)) {
            for kind in [Values::F32, Values::Bf16, Values::Int8] {
                let (mut left, mut bytes, mut seen) = (group.clone(), Vec::new(), Vec::new());
                write(&mut left, kind, &mut bytes);
                prop_assert_eq!(bytes.len(), len(group.len(), kind));
                read(&bytes, kind, &mut seen);
                prop_assert_eq!(seen.len(), group.len());
                let largest = group.iter().fold(0.0f32, |most, v| most.max(v.abs()));
                for ((&value, &seen), &left) in group.iter().zip(&seen).zip(&left) {
                    prop_assert_eq!(left, value - seen);
                    let bound = match kind {
                        Values::F32 => 0.0,
                        Values::Bf16 | Values::Fp16 => value.abs() / 256.0 + 1e-40,
                        // Half a level, and what rounding the largest to bfloat16 cuts off.
                        Values::Int8 => largest * (0.5 / 127.0 + 1.0 / 256.0) + 1e-40,
                    };
                    prop_assert!((value - seen).abs() <= bound, "{} became {} as {:?}", value, seen, kind);
                    prop_assert!(seen.is_finite());
                }
            }
        }

        #[test]
        fn rubbish_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            for kind in [Values::F32, Values::Bf16, Values::Int8] {
                read(&bytes, kind, &mut Vec::new());
            }
        }
    }
}
