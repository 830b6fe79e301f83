//! Percentiles and fairness.

/// The value below which a share `p` in [0, 1] of `sorted` lies (nearest rank); `None` of nothing.
pub(super) fn percentile<T: Copy>(sorted: &[T], p: f64) -> Option<T> {
    let rank = (p * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1).min(sorted.len().checked_sub(1)?))
        .copied()
}

/// The most that a worker got, over the least; infinite where one got nothing. `None` without workers.
pub(super) fn fairness(counts: &[u64]) -> Option<f64> {
    let (least, most) = (counts.iter().min()?, counts.iter().max()?);
    Some(if most == least {
        1.0
    } else {
        *most as f64 / *least as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_are_nearest() {
        let sorted: Vec<u32> = (1..=100).collect();
        assert_eq!(percentile(&sorted, 0.5), Some(50));
        assert_eq!(percentile(&sorted, 0.99), Some(99));
        assert_eq!(percentile(&sorted, 0.0), Some(1));
        assert_eq!(percentile(&sorted, 1.0), Some(100));
        assert_eq!(percentile(&[7], 0.99), Some(7));
        assert_eq!(percentile::<u32>(&[], 0.5), None);
    }

    #[test]
    fn fairness_is_most_over_least() {
        assert_eq!(fairness(&[4, 2, 3]), Some(2.0));
        assert_eq!(fairness(&[0, 0]), Some(1.0));
        assert_eq!(fairness(&[1, 0]), Some(f64::INFINITY));
        assert_eq!(fairness(&[]), None);
    }

    proptest! {
        #[test]
        fn a_percentile_is_one_of_the_values(mut values: Vec<u32>, p in 0.0..=1.0f64) {
            values.sort_unstable();
            let found = percentile(&values, p);
            prop_assert_eq!(found.is_some(), !values.is_empty());
            prop_assert!(found.is_none_or(|found| values.contains(&found)));
        }
    }
}
