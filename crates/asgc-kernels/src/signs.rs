//! One bit a value: its sign, the first in the lowest bit. A set bit is negative.

kernel! {
    /// Writes the signs of `values`, and leaves in them what `scale` in each direction took away.
    ///
    /// # Panics
    /// When `out` is not a bit a value, rounded up to whole bytes.
    pub fn encode_signs(values: &mut [f32], scale: f32, out: &mut [u8]) = encode;
}

kernel! {
    /// Adds `alpha * scale` with the sign of each bit to `target`, the first bit being `skip` (0 to 7) into the first byte.
    pub fn add_scaled_signs(alpha: f32, scale: f32, signs: (&[u8], usize), target: &mut [f32]) = add;
}

#[inline(always)]
fn encode(values: &mut [f32], scale: f32, out: &mut [u8]) {
    assert_eq!(out.len(), values.len().div_ceil(8), "a bit a value");
    for (values, out) in values.chunks_mut(8).zip(out) {
        let mut byte = 0;
        for (i, value) in values.iter_mut().enumerate() {
            let negative = u8::from(value.is_sign_negative());
            byte |= negative << i;
            *value -= signed(scale, negative);
        }
        *out = byte;
    }
}

#[inline(always)]
fn add(alpha: f32, scale: f32, (signs, skip): (&[u8], usize), target: &mut [f32]) {
    let step = alpha * scale;
    let (head, rest) = target.split_at_mut(((8 - skip) % 8).min(target.len()));
    for (i, t) in (skip..).zip(head.iter_mut()) {
        *t += signed(step, signs[0] >> i & 1);
    }
    let signs = &signs[usize::from(skip > 0 && !signs.is_empty())..];
    let (eights, last) = rest.as_chunks_mut::<8>();
    let last_signs = signs.get(eights.len()).copied().unwrap_or(0);
    for (eight, &byte) in eights.iter_mut().zip(signs) {
        for (i, t) in eight.iter_mut().enumerate() {
            *t += signed(step, byte >> i & 1);
        }
    }
    for (i, t) in last.iter_mut().enumerate() {
        *t += signed(step, last_signs >> i & 1);
    }
}

/// `value`, negated where the bit is set.
#[inline(always)]
fn signed(value: f32, bit: u8) -> f32 {
    f32::from_bits(value.to_bits() ^ (u32::from(bit) << 31))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::tests::{at, levels};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn signs_come_back_from_any_place(
            values in prop::collection::vec(-1.0f32..1.0, 0..60), from in 0usize..60, scale in 0.0f32..2.0
        ) {
            let (mut left, mut bytes) = (values.clone(), vec![0xff; values.len().div_ceil(8)]);
            encode(&mut left, scale, &mut bytes);
            let from = from.min(values.len());
            let mut target = vec![0.0f32; values.len() - from];
            add(-1.0, scale, (&bytes[from / 8..], from % 8), &mut target);
            for level in levels() {
                let (mut again, mut bytes_again) = (vec![0.0f32; values.len() - from], bytes.clone());
                at(level, || add_scaled_signs(-1.0, scale, (&bytes[from / 8..], from % 8), &mut again));
                prop_assert_eq!(&target, &again);
                let mut left_again = values.clone();
                at(level, || encode_signs(&mut left_again, scale, &mut bytes_again));
                prop_assert_eq!((&left_again, &bytes_again), (&left, &bytes));
            }
            for ((&value, &sent), &left) in values[from..].iter().zip(&target).zip(&left[from..]) {
                prop_assert_eq!(sent, if value.is_sign_negative() { scale } else { -scale });
                prop_assert_eq!(left, value + sent);
            }
        }
    }
}
