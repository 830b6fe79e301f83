//! Quantized entries: small whole numbers that share a scale.

use crate::BLOCK;

/// What the random numbers of one slice depend on. Number `i` is a function of the key and `i`, so that they can be drawn
/// in any order and at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key(pub [u32; 2]);

/// A number in `[0, 1)`, uniform over 24 bits: the counter `i` through MurmurHash3's finaliser (Appleby 2011), with
/// half of the key added before it and the other half within.
#[must_use]
#[inline(always)]
pub fn uniform(Key([outer, inner]): Key, i: u32) -> f32 {
    let mut x = i.wrapping_mul(0x9e37_79b1).wrapping_add(outer);
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b) ^ inner;
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^= x >> 16;
    // By way of a signed number, which processors convert many at once.
    (x >> 8).cast_signed() as f32 * (1.0 / (1u32 << 24) as f32)
}

kernel! {
    /// Rounds `values / scale` up or down at random, with the right expectation, to whole numbers of at most `levels` a
    /// side. Value `i` draws number `first + i`.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn quantize(values: &[f32], to: (f32, f32), random: (Key, u32), codes: &mut [i8]) = round;
}

kernel! {
    /// As [`quantize`], and leaves in `values` what rounding took away from them.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn quantize_in_place(values: &mut [f32], to: (f32, f32), random: (Key, u32), codes: &mut [i8]) = round_in_place;
}

kernel! {
    /// `target += alpha * (code * scale)`; the product in brackets is rounded first, as a worker sees it.
    pub fn add_scaled_codes(alpha: f32, scale: f32, codes: &[i8], target: &mut [f32]) = add;
}

#[inline(always)]
fn round(values: &[f32], (scale, levels): (f32, f32), (key, first): (Key, u32), codes: &mut [i8]) {
    assert_eq!(values.len(), codes.len(), "a code for each value");
    for (i, (code, &value)) in codes.iter_mut().zip(values).enumerate() {
        let up_or_down = (value / scale + uniform(key, first.wrapping_add(i as u32))).floor();
        // |u| <= norm holds exactly, but the quotient can exceed the levels by a rounding.
        let level = up_or_down.max(-levels).min(levels);
        // A whole number added to this lies in the lower bits of the sum, as two's complement.
        *code = (level + 12_582_912.0).to_bits() as i8;
    }
}

#[inline(always)]
fn round_in_place(values: &mut [f32], to: (f32, f32), (key, first): (Key, u32), codes: &mut [i8]) {
    let blocks = values.chunks_mut(BLOCK).zip(codes.chunks_mut(BLOCK)).enumerate();
    for (b, (values, codes)) in blocks {
        round(values, to, (key, first.wrapping_add((b * BLOCK) as u32)), codes);
        for (value, &code) in values.iter_mut().zip(&*codes) {
            *value -= f32::from(code) * to.0;
        }
    }
}

#[inline(always)]
fn add(alpha: f32, scale: f32, codes: &[i8], target: &mut [f32]) {
    for (t, &code) in target.iter_mut().zip(codes) {
        *t += alpha * (f32::from(code) * scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::tests::{at, levels};
    use proptest::prelude::*;

    #[test]
    fn numbers_are_uniform() {
        let n = 1 << 16;
        for key in [Key([0, 0]), Key([1, 0]), Key([0xdead_beef, 7])] {
            let mut bins = [0u32; 64];
            (0..n).for_each(|i| bins[(uniform(key, i) * 64.0) as usize] += 1);
            let expected = f64::from(n) / 64.0;
            let chi2: f64 = bins
                .iter()
                .map(|&b| (f64::from(b) - expected).powi(2) / expected)
                .sum();
            // 63 degrees of freedom: 5 standard deviations beyond the mean.
            assert!(chi2 < 63.0 + 5.0 * 126f64.sqrt(), "{chi2}");
        }
    }

    #[test]
    fn keys_draw_different_numbers() {
        let draw = |key| (0..100).map(|i| uniform(key, i)).collect::<Vec<_>>();
        assert_ne!(draw(Key([1, 2])), draw(Key([2, 2])));
        assert_ne!(draw(Key([1, 2])), draw(Key([1, 3])));
    }

    proptest! {
        #[test]
        fn codes_are_neighbours_of_the_value_and_all_builds_agree(
            values in prop::collection::vec(-1.0f32..1.0, 0..300), scale in 0.01f32..1.0, key: [u32; 2], first: u32
        ) {
            let (to, random) = ((scale, 127.0), (Key(key), first));
            let mut codes = vec![0; values.len()];
            round(&values, to, random, &mut codes);
            let (mut again, mut left) = (codes.clone(), values.clone());
            for level in levels() {
                at(level, || quantize(&values, to, random, &mut again));
                prop_assert_eq!(&codes, &again);
                left.clone_from(&values);
                at(level, || quantize_in_place(&mut left, to, random, &mut again));
                prop_assert_eq!(&codes, &again);
            }
            for ((&value, &code), &left) in values.iter().zip(&codes).zip(&left) {
                prop_assert!((f32::from(code) - value / scale).abs() <= 1.0 || code.unsigned_abs() == 127);
                prop_assert_eq!(left, value - f32::from(code) * scale);
            }
            let mut expected = vec![1.0; codes.len()];
            add(-0.5, scale, &codes, &mut expected);
            for level in levels() {
                let mut target = vec![1.0; codes.len()];
                at(level, || add_scaled_codes(-0.5, scale, &codes, &mut target));
                prop_assert_eq!(&target, &expected);
            }
        }
    }
}
