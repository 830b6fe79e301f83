//! Adding to a vector: dense, from bytes, and sparse.

kernel! {
    /// `target += alpha * values`, the yardstick of all that is measured here.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn axpy(alpha: f32, values: &[f32], target: &mut [f32]) = scaled;
}

kernel! {
    /// `target += alpha * values`, where `values` are little-endian words at any address. What is missing at either end is
    /// left out.
    pub fn add_scaled_bytes(alpha: f32, values: &[u8], target: &mut [f32]) = from_bytes;
}

/// `target[i - from] += alpha * v` for each index `i` and value `v`.
///
/// # Panics
/// When an index lies outside the target.
pub fn add_scaled_sparse(alpha: f32, (indices, values): (&[u32], &[f32]), from: usize, target: &mut [f32]) {
    for (&index, &value) in indices.iter().zip(values) {
        target[index as usize - from] += alpha * value;
    }
}

/// `target += alpha * value` in all entries.
pub fn add_scaled(alpha: f32, value: f32, target: &mut [f32]) {
    let step = alpha * value;
    target.iter_mut().for_each(|t| *t += step);
}

#[inline(always)]
fn scaled(alpha: f32, values: &[f32], target: &mut [f32]) {
    assert_eq!(values.len(), target.len(), "vectors of one length");
    for (t, &v) in target.iter_mut().zip(values) {
        *t += alpha * v;
    }
}

#[inline(always)]
fn from_bytes(alpha: f32, values: &[u8], target: &mut [f32]) {
    for (t, &word) in target.iter_mut().zip(values.as_chunks::<4>().0) {
        *t += alpha * f32::from_le_bytes(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::tests::{at, levels};
    use proptest::prelude::*;

    #[test]
    fn sparse_entries_land_where_they_belong() {
        let mut target = [1.0f32; 4];
        add_scaled_sparse(-0.5, (&[10, 13], &[2.0, 4.0]), 10, &mut target);
        assert_eq!(target, [0.0, 1.0, 1.0, -1.0]);
    }

    proptest! {
        #[test]
        fn all_builds_and_both_sources_agree(alpha: f32, pairs in prop::collection::vec(any::<(f32, f32)>(), 0..200)) {
            let (values, start): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let bits = |f: &dyn Fn(&mut [f32])| {
                let mut target = start.clone();
                f(&mut target);
                target.iter().map(|t| t.to_bits()).collect::<Vec<_>>()
            };
            let expected = bits(&|t| t.iter_mut().zip(&values).for_each(|(t, v)| *t += alpha * v));
            // Which NaN comes out of two is the processor's affair.
            prop_assume!(start.iter().chain(&values).all(|v| !v.is_nan()) && !alpha.is_nan());
            for level in levels() {
                prop_assert_eq!(&bits(&|t| at(level, || axpy(alpha, &values, t))), &expected);
                prop_assert_eq!(&bits(&|t| at(level, || add_scaled_bytes(alpha, &bytes, t))), &expected);
            }
        }
    }
}
