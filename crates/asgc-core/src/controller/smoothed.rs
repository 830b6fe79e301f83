//! The training loss as a stand-in for evaluations, where nobody evaluates.
//!
//! A batch's loss is noise around the loss that matters. The window's losses are cut into four parts of equally many
//! pushes; a part's mean stands for an evaluation. A rise from one part to the next counts only for what exceeds twice
//! its standard error: `max(0, m2 - m1 - 2 sqrt(v1/n1 + v2/n2))`.

use super::window::{DIVERGED_LOSS, LossSignals};

/// Parts of a window.
const PARTS: usize = 4;

/// Buckets that are kept; when they are full, neighbours are put together.
const MAX_BUCKETS: usize = 64;

/// Fewer losses say nothing.
const ENOUGH: u64 = 2 * PARTS as u64;

/// Rises below so many standard errors are noise.
const ERRORS: f64 = 2.0;

/// Losses in the order in which they came, in buckets of equally many.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Smoothed {
    buckets: Vec<Moments>,
    /// Losses in a full bucket, as a power of two.
    log_size: u32,
    diverged: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Moments {
    count: u64,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
}

impl Moments {
    fn of(value: f64) -> Self {
        Self {
            count: 1,
            mean: value,
            squares: 0.0,
        }
    }

    /// Both together (Chan, Golub and LeVeque 1983).
    fn and(self, other: Self) -> Self {
        let count = self.count + other.count;
        let apart = other.mean - self.mean;
        let share = other.count as f64 / count.max(1) as f64;
        Self {
            count,
            mean: self.mean + apart * share,
            squares: self.squares + other.squares + apart * apart * share * self.count as f64,
        }
    }

    /// Squared standard error of the mean.
    fn error_squared(self) -> f64 {
        let n = self.count as f64;
        self.squares / ((n - 1.0).max(1.0) * n.max(1.0))
    }
}

impl Smoothed {
    /// Takes the loss of one more batch.
    pub fn add(&mut self, loss: f64) {
        if !loss.is_finite() {
            self.diverged = true;
            return;
        }
        let loss = loss.clamp(-DIVERGED_LOSS, DIVERGED_LOSS);
        match self.buckets.last_mut() {
            Some(last) if last.count < 1 << self.log_size => *last = last.and(Moments::of(loss)),
            _ => self.begin_bucket(loss),
        }
    }

    fn begin_bucket(&mut self, loss: f64) {
        if self.buckets.len() == MAX_BUCKETS {
            self.buckets = self.buckets.chunks(2).map(together).collect();
            self.log_size += 1;
        }
        self.buckets.push(Moments::of(loss));
    }

    /// What the losses say; `None` when they are too few.
    #[must_use]
    pub fn signals(&self) -> Option<LossSignals> {
        if self.diverged {
            return Some(LossSignals {
                trend: DIVERGED_LOSS,
                rebound: DIVERGED_LOSS,
            });
        }
        let all = together(&self.buckets);
        if all.count < ENOUGH {
            return None;
        }
        let parts = self.parts();
        let rises = parts.iter().zip(parts.iter().skip(1)).map(|(a, b)| rise(*a, *b));
        let rebound = rises.map(|rise| rise.max(0.0)).sum::<f64>() / (PARTS - 1) as f64;
        let trend = match (parts.first(), parts.last()) {
            (Some(first), Some(last)) => rise(*first, *last),
            _ => 0.0,
        };
        Some(LossSignals { trend, rebound })
    }

    fn parts(&self) -> Vec<Moments> {
        let len = self.buckets.len();
        let cut = |part: usize| part * len / PARTS;
        (0..PARTS)
            .filter_map(|part| self.buckets.get(cut(part)..cut(part + 1)))
            .map(together)
            .collect()
    }
}

fn together(buckets: &[Moments]) -> Moments {
    buckets.iter().copied().fold(Moments::default(), Moments::and)
}

/// A move upwards less what noise would make of it; moves downwards as they are.
fn rise(from: Moments, to: Moments) -> f64 {
    let moved = to.mean - from.mean;
    let noise = ERRORS * (from.error_squared() + to.error_squared()).sqrt();
    if moved > 0.0 {
        (moved - noise).max(0.0)
    } else {
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn signals(losses: impl IntoIterator<Item = f64>) -> Option<LossSignals> {
        let mut smoothed = Smoothed::default();
        losses.into_iter().for_each(|loss| smoothed.add(loss));
        smoothed.signals()
    }

    #[test]
    fn too_few_say_nothing() {
        assert_eq!(signals([]), None);
        assert_eq!(signals([1.0; 7]), None);
        assert_eq!(
            signals([1.0; 8]),
            Some(LossSignals {
                trend: 0.0,
                rebound: 0.0
            })
        );
    }

    #[test]
    fn noise_is_no_rebound_and_a_rise_is() {
        let zigzag = |step: u32| if step.is_multiple_of(2) { 0.9 } else { 1.1 };
        let calm = signals((0..400).map(zigzag)).unwrap();
        assert!(calm.rebound < 1e-3, "{calm:?}");
        let risen = signals((0..400).map(|step| zigzag(step) + if step < 300 { 0.0 } else { 1.0 })).unwrap();
        assert!(risen.rebound > 0.3 && risen.trend > 0.9, "{risen:?}");
    }

    #[test]
    fn a_diverged_batch_is_unstable_under_any_tolerance() {
        assert_eq!(signals([1.0, f64::NAN]).unwrap().rebound, DIVERGED_LOSS);
    }

    proptest! {
        #[test]
        fn a_monotone_fall_is_no_rebound(start in 0.1..10.0f64, falls in prop::collection::vec(0.0..0.5f64, 8..600)) {
            let mut loss = start;
            let losses = falls.iter().map(|fall| { loss -= fall; loss }).collect::<Vec<_>>();
            let signals = signals(losses).unwrap();
            prop_assert_eq!(signals.rebound, 0.0);
            prop_assert!(signals.trend <= 0.0);
        }

        #[test]
        fn memory_is_bounded(losses in 0usize..5000) {
            let mut smoothed = Smoothed::default();
            (0..losses).for_each(|loss| smoothed.add(loss as f64));
            prop_assert!(smoothed.buckets.len() <= MAX_BUCKETS);
            prop_assert_eq!(together(&smoothed.buckets).count, losses as u64);
        }
    }
}
