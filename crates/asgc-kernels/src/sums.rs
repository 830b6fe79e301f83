//! Sums and checks: one read of the data.
//!
//! Sums are taken in 32 lanes of `f32` over a [`BLOCK`] and then in `f64`, in an order that depends on the length alone. A block whose squares leave the range of `f32` is summed again in `f64`.

use crate::{BLOCK, INFINITE, magnitude_bits};

/// Lanes of a partial sum: four registers of eight.
const LANES: usize = 32;

kernel! {
    /// The sum of squares.
    pub fn sum_squares(values: &[f32]) -> f64 = squares;
}

kernel! {
    /// The sum of magnitudes.
    pub fn sum_magnitudes(values: &[f32]) -> f64 = magnitudes;
}

kernel! {
    /// Whether no value is NaN or infinite.
    pub fn all_finite(values: &[f32]) -> bool = finite;
}

kernel! {
    /// Whether no `f32` among little-endian words is NaN or infinite. A remainder of less than a word is not looked at.
    pub fn all_finite_bytes(bytes: &[u8]) -> bool = finite_bytes;
}

kernel! {
    /// The greatest [`magnitude_bits`]; 0 of nothing.
    pub fn largest_bits(values: &[f32]) -> u32 = largest;
}

#[inline(always)]
fn squares(values: &[f32]) -> f64 {
    let exact = |block: &[f32]| block.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
    let sums = values.chunks(BLOCK).map(|block| (lanes(block, |v| v * v), block));
    sums.map(|(sum, block)| {
        // Nothing but zeros, which is common, is no loss to underflow.
        if in_range(sum) || sum == 0.0 && largest(block) == 0 {
            f64::from(sum)
        } else {
            exact(block)
        }
    })
    .sum()
}

#[inline(always)]
fn magnitudes(values: &[f32]) -> f64 {
    values
        .chunks(BLOCK)
        .map(|block| {
            let sum = lanes(block, f32::abs);
            if sum.is_finite() {
                f64::from(sum)
            } else {
                block.iter().map(|&v| f64::from(v.abs())).sum()
            }
        })
        .sum()
}

/// Whether a sum of squares of a block neither overflowed nor lost too much to underflow.
#[inline(always)]
pub(crate) fn in_range(sum: f32) -> bool {
    (1e-28..=f32::MAX).contains(&sum)
}

/// `sum of f(value)`, lane by lane.
#[inline(always)]
fn lanes(values: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0f32; LANES];
    let (rows, rest) = values.as_chunks::<LANES>();
    for row in rows {
        for (sum, &value) in sums.iter_mut().zip(row) {
            *sum += f(value);
        }
    }
    for (sum, &value) in sums.iter_mut().zip(rest) {
        *sum += f(value);
    }
    fold(&sums)
}

/// The sum of the lanes, in halves; their number is a power of two.
#[inline(always)]
pub(crate) fn fold<const N: usize>(sums: &[f32; N]) -> f32 {
    let mut sums = *sums;
    let mut width = N / 2;
    while width > 0 {
        for i in 0..width {
            sums[i] += sums[i + width];
        }
        width /= 2;
    }
    sums[0]
}

#[inline(always)]
fn finite(values: &[f32]) -> bool {
    largest(values) < INFINITE
}

#[inline(always)]
fn finite_bytes(bytes: &[u8]) -> bool {
    let words = bytes.as_chunks::<4>().0;
    words
        .iter()
        .fold(0, |most, &word| most.max(u32::from_le_bytes(word) & 0x7fff_ffff))
        < INFINITE
}

#[inline(always)]
fn largest(values: &[f32]) -> u32 {
    values
        .iter()
        .fold(0, |most, &value| most.max(magnitude_bits(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::tests::{at, levels};
    use proptest::prelude::*;

    #[test]
    fn squares_beyond_the_range_of_f32_are_summed_in_f64() {
        assert_eq!(sum_squares(&[1e30, 1e30]), 2.0 * f64::from(1e30f32).powi(2));
        let tiny = sum_squares(&[1e-30; 3]);
        assert!((tiny / (3.0 * f64::from(1e-30f32).powi(2)) - 1.0).abs() < 1e-12);
        assert_eq!(sum_squares(&[]), 0.0);
        assert!(sum_squares(&[f32::NAN]).is_nan());
        assert_eq!(sum_magnitudes(&[f32::MAX, -f32::MAX]), 2.0 * f64::from(f32::MAX));
    }

    #[test]
    fn what_is_not_finite_is_found_wherever_it_is() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in [0, 7, 31, 32, 99] {
                let mut values = vec![f32::MAX; 100];
                assert!(all_finite(&values));
                values[at] = bad;
                let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                assert!(!all_finite(&values) && !all_finite_bytes(&bytes));
            }
        }
    }

    proptest! {
        #[test]
        fn sums_are_near_the_exact_ones(values in prop::collection::vec(-1e3f32..1e3, 0..20_000)) {
            let exact = |f: fn(f64) -> f64| values.iter().map(|&v| f(f64::from(v))).sum::<f64>();
            prop_assert!((sum_squares(&values) - exact(|v| v * v)).abs() <= 1e-5 * exact(|v| v * v));
            prop_assert!((sum_magnitudes(&values) - exact(f64::abs)).abs() <= 1e-5 * exact(f64::abs));
            // All builds of a kernel agree to the bit.
            for level in levels() {
                prop_assert_eq!(at(level, || sum_squares(&values)).to_bits(), squares(&values).to_bits());
                prop_assert_eq!(at(level, || sum_magnitudes(&values)).to_bits(), magnitudes(&values).to_bits());
                prop_assert_eq!(at(level, || largest_bits(&values)), largest(&values));
            }
        }
    }
}
