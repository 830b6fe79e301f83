//! Values of 16 bits: bfloat16 and IEEE's binary16.
//!
//! Rounding is to the nearest, ties to even. A finite value beyond the format's range becomes the largest that it has, so
//! that encoding never makes an infinity; with error feedback the rest stays in the residual.

use crate::BLOCK;
use half::slice::HalfFloatSliceExt as _;
use half::{bf16, f16};

/// The largest finite bfloat16.
const BF16_MAX: u32 = 0x7f7f;

/// The largest finite binary16.
const FP16_MAX: f32 = 65504.0;

/// The bfloat16 nearest to a finite value.
#[must_use]
#[inline(always)]
pub fn bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, magnitude) = ((bits >> 16) & 0x8000, bits & 0x7fff_ffff);
    // Half of what is cut off, less one where the bit above it is even.
    let rounded = (magnitude + 0x7fff + ((magnitude >> 16) & 1)) >> 16;
    (sign | rounded.min(BF16_MAX)) as u16
}

/// The value of a bfloat16.
#[must_use]
#[inline(always)]
pub fn bf16_value(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

kernel! {
    /// Writes finite values as little-endian bfloat16, and leaves in `values` what rounding took away from them.
    ///
    /// # Panics
    /// When `out` is not two bytes a value.
    pub fn encode_bf16(values: &mut [f32], out: &mut [u8]) = to_bf16;
}

kernel! {
    /// `target += alpha * values`, where `values` are little-endian bfloat16. What is missing at either end is left out.
    pub fn add_scaled_bf16(alpha: f32, values: &[u8], target: &mut [f32]) = from_bf16;
}

kernel! {
    /// Whether no bfloat16 among little-endian half-words is NaN or infinite.
    pub fn finite_bf16(values: &[u8]) -> bool = all_finite_bf16;
}

kernel! {
    /// Whether no binary16 among little-endian half-words is NaN or infinite.
    pub fn finite_fp16(values: &[u8]) -> bool = all_finite_fp16;
}

/// Writes finite values as little-endian binary16, and leaves in `values` what rounding took away from them.
///
/// # Panics
/// When `out` is not two bytes a value.
pub fn encode_fp16(values: &mut [f32], out: &mut [u8]) {
    assert_eq!(out.len(), 2 * values.len(), "two bytes a value");
    let (mut halves, mut wide) = ([f16::ZERO; BLOCK], [0.0f32; BLOCK]);
    for (values, out) in values.chunks_mut(BLOCK).zip(out.chunks_mut(2 * BLOCK)) {
        let (halves, wide) = (&mut halves[..values.len()], &mut wide[..values.len()]);
        wide.iter_mut()
            .zip(&*values)
            .for_each(|(w, v)| *w = v.clamp(-FP16_MAX, FP16_MAX));
        halves.convert_from_f32_slice(wide);
        halves.convert_to_f32_slice(wide);
        values.iter_mut().zip(wide).for_each(|(v, w)| *v -= *w);
        for (out, half) in out.as_chunks_mut::<2>().0.iter_mut().zip(halves) {
            *out = half.to_le_bytes();
        }
    }
}

/// `target += alpha * values`, where `values` are little-endian binary16. What is missing at either end is left out.
pub fn add_scaled_fp16(alpha: f32, values: &[u8], target: &mut [f32]) {
    let (mut halves, mut wide) = ([f16::ZERO; BLOCK], [0.0f32; BLOCK]);
    for (values, target) in values.chunks(2 * BLOCK).zip(target.chunks_mut(BLOCK)) {
        let values = values.as_chunks::<2>().0;
        let len = values.len().min(target.len());
        let (halves, wide) = (&mut halves[..len], &mut wide[..len]);
        halves
            .iter_mut()
            .zip(values)
            .for_each(|(h, &v)| *h = f16::from_le_bytes(v));
        halves.convert_to_f32_slice(wide);
        target.iter_mut().zip(wide).for_each(|(t, w)| *t += alpha * *w);
    }
}

#[inline(always)]
fn to_bf16(values: &mut [f32], out: &mut [u8]) {
    assert_eq!(out.len(), 2 * values.len(), "two bytes a value");
    for (value, out) in values.iter_mut().zip(out.as_chunks_mut::<2>().0) {
        let bits = bf16_bits(*value);
        *out = bits.to_le_bytes();
        *value -= bf16_value(bits);
    }
}

#[inline(always)]
fn from_bf16(alpha: f32, values: &[u8], target: &mut [f32]) {
    for (t, &value) in target.iter_mut().zip(values.as_chunks::<2>().0) {
        *t += alpha * bf16_value(u16::from_le_bytes(value));
    }
}

#[inline(always)]
fn all_finite_bf16(values: &[u8]) -> bool {
    largest(values) < bf16::INFINITY.to_bits()
}

#[inline(always)]
fn all_finite_fp16(values: &[u8]) -> bool {
    largest(values) < f16::INFINITY.to_bits()
}

#[inline(always)]
fn largest(values: &[u8]) -> u16 {
    let halves = values.as_chunks::<2>().0;
    halves
        .iter()
        .fold(0, |most, &half| most.max(u16::from_le_bytes(half) & 0x7fff))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::tests::{at, levels};
    use proptest::prelude::*;

    fn encoded(values: &[f32], encode: fn(&mut [f32], &mut [u8])) -> (Vec<u8>, Vec<f32>) {
        let (mut left, mut bytes) = (values.to_vec(), vec![0; 2 * values.len()]);
        encode(&mut left, &mut bytes);
        (bytes, left)
    }

    #[test]
    fn values_beyond_the_range_become_the_largest() {
        let (bytes, left) = encoded(&[1e6, -1e6], encode_fp16);
        let mut decoded = [0.0; 2];
        add_scaled_fp16(1.0, &bytes, &mut decoded);
        assert_eq!(
            (decoded, left),
            ([65504.0, -65504.0], vec![1e6 - 65504.0, 65504.0 - 1e6])
        );
        let (bytes, _) = encoded(&[f32::MAX, f32::MIN], encode_bf16);
        assert!(finite_bf16(&bytes));
        assert!(!finite_bf16(&f32::INFINITY.to_le_bytes()[2..]) && !finite_fp16(&f16::NAN.to_le_bytes()));
    }

    proptest! {
        #[test]
        fn what_is_sent_and_what_is_left_are_the_value(values in prop::collection::vec(-6e4f32..6e4, 0..100)) {
            for (encode, add, digits) in [
                (encode_bf16 as fn(&mut [f32], &mut [u8]), add_scaled_bf16 as fn(f32, &[u8], &mut [f32]), 8),
                (encode_fp16, add_scaled_fp16, 11),
            ] {
                let (bytes, left) = encoded(&values, encode);
                let mut decoded = vec![0.0; values.len()];
                add(1.0, &bytes, &mut decoded);
                for ((&value, &decoded), &left) in values.iter().zip(&decoded).zip(&left) {
                    prop_assert_eq!(value - decoded, left);
                    prop_assert!(left.abs() <= value.abs() * 0.5f32.powi(digits) + 1e-7);
                }
            }
        }

        #[test]
        fn bf16_is_what_the_library_makes_of_it(value: f32) {
            prop_assume!(value.is_finite() && bf16::from_f32(value).is_finite());
            prop_assert_eq!(bf16_bits(value), bf16::from_f32(value).to_bits());
            prop_assert_eq!(bf16_value(bf16_bits(value)), bf16::from_f32(value).to_f32());
        }

        #[test]
        fn all_builds_agree(values in prop::collection::vec(-1e30f32..1e30, 0..100)) {
            let (bytes, left) = encoded(&values, to_bf16);
            let mut expected = vec![1.0; values.len()];
            from_bf16(0.1, &bytes, &mut expected);
            for level in levels() {
                prop_assert_eq!(at(level, || encoded(&values, encode_bf16)), (bytes.clone(), left.clone()));
                let mut target = vec![1.0; values.len()];
                at(level, || add_scaled_bf16(0.1, &bytes, &mut target));
                prop_assert_eq!(&target, &expected);
            }
        }
    }
}
