//! The median of the last few values: one slow step, or one quick one, says nothing.

use std::collections::VecDeque;

/// Values that are kept: half of them are enough to follow a link that changed.
const KEPT: usize = 15;

/// Fewer say too little.
const ENOUGH: usize = 3;

/// The last values of one measurement.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recent {
    values: VecDeque<f64>,
}

impl Recent {
    /// Takes one more; what is not a number is left out.
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        if self.values.len() == KEPT {
            self.values.pop_front();
        }
        self.values.push_back(value);
    }

    /// The median; `None` until there are enough values.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// The smallest value that at least the share `q` of the values does not exceed.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if self.values.len() < ENOUGH {
            return None;
        }
        let mut sorted = self.values.iter().copied().collect::<Vec<_>>();
        sorted.sort_by(f64::total_cmp);
        let rank = (q * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.clamp(1, sorted.len()) - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent(values: &[f64]) -> Recent {
        let mut recent = Recent::default();
        values.iter().for_each(|&value| recent.add(value));
        recent
    }

    #[test]
    fn an_outlier_says_nothing() {
        assert_eq!(recent(&[1.0, 2.0]).median(), None);
        assert_eq!(recent(&[1.0, 900.0, 2.0]).median(), Some(2.0));
        assert_eq!(recent(&[3.0, f64::NAN, f64::INFINITY, 1.0]).median(), None);
        assert_eq!(recent(&[4.0, 1.0, 2.0, 3.0]).quantile(0.9), Some(4.0));
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut recent = recent(&[9.0; KEPT]);
        (0..KEPT / 2).for_each(|_| recent.add(1.0));
        assert_eq!(recent.median(), Some(9.0));
        recent.add(1.0);
        assert_eq!(recent.median(), Some(1.0));
    }
}
