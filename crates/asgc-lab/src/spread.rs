//! Mean and spread of a figure over runs that differ by their seed only.

use std::fmt;

/// A figure over several runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation, with `n - 1`; `None` for a single run.
    pub deviation: Option<f64>,
    /// Runs.
    pub n: usize,
}

impl Spread {
    /// Of the values that are there; `None` where none is. A value that is not finite makes the mean so.
    pub fn of(values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let values = values.into_iter().flatten().collect::<Vec<_>>();
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let deviation = (n > 1).then(|| (squares / (n - 1) as f64).sqrt());
        Some(Self { mean, deviation, n })
    }

    /// As text, mean and deviation by the same `show`: `87.5 % ± 0.2 %`.
    pub fn show(&self, show: impl Fn(f64) -> String) -> String {
        let deviation = self.deviation.map(|deviation| format!(" ± {}", show(deviation)));
        format!("{}{}", show(self.mean), deviation.unwrap_or_default())
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        f.write_str(&self.show(|value| format!("{value:.digits$}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_sample_deviation() {
        let spread = Spread::of([Some(1.0), None, Some(3.0), Some(5.0)]).unwrap();
        assert_eq!((spread.mean, spread.deviation, spread.n), (3.0, Some(2.0), 3));
        assert_eq!(format!("{spread:.1}"), "3.0 ± 2.0");
    }

    #[test]
    fn one_run_has_no_spread_and_none_has_nothing() {
        assert_eq!(Spread::of([Some(2.0)]).unwrap().to_string(), "2.00");
        assert_eq!(Spread::of([None, None]), None);
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn a_run_that_diverged_is_not_hidden() {
        assert!(Spread::of([Some(1.0), Some(f64::NAN)]).unwrap().mean.is_nan());
    }
}
