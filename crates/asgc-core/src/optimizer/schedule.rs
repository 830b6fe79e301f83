//! The learning rate as a function of the version before the update.
//!
//! Warm-up: `lr * (v + 1) / warmup` for `v < warmup`. Step: `lr`, times `gamma` from
//! `floor(max_updates * decay_frac)` on (never, for a fraction of 0). Cosine: `lr/2 * (1 + cos(pi * v / max))`
//! (Loshchilov and Hutter, ICLR 2017, equation 5, without restarts).

use crate::config::{Config, ScheduleKind};
use crate::ids::Version;

/// A schedule over versions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    lr: f64,
    warmup: u64,
    max_updates: u64,
    shape: Shape,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Constant,
    Step { from: u64, gamma: f64 },
    Cosine,
}

impl Schedule {
    /// The schedule that a checked configuration describes.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let (workload, optimizer) = (&config.workload, &config.optimizer);
        let shape = match optimizer.schedule {
            ScheduleKind::Cosine => Shape::Cosine,
            ScheduleKind::Step if workload.lr_decay_frac > 0.0 => Shape::Step {
                from: (workload.max_updates as f64 * workload.lr_decay_frac) as u64,
                gamma: workload.lr_gamma,
            },
            ScheduleKind::Step => Shape::Constant,
        };
        Self {
            lr: workload.lr,
            warmup: optimizer.warmup_updates,
            max_updates: workload.max_updates,
            shape,
        }
    }

    /// The rate of the update that is applied to version `v`.
    #[must_use]
    pub fn at(&self, v: Version) -> f64 {
        if v.0 < self.warmup {
            return self.lr * (v.0 + 1) as f64 / self.warmup as f64;
        }
        match self.shape {
            Shape::Constant => self.lr,
            Shape::Step { from, gamma } => self.lr * if v.0 >= from { gamma } else { 1.0 },
            Shape::Cosine => {
                let done = (v.0 as f64 / self.max_updates as f64).min(1.0);
                self.lr / 2.0 * (1.0 + (std::f64::consts::PI * done).cos())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(change: impl FnOnce(&mut Config), versions: &[u64]) -> Vec<f64> {
        let mut config = Config::default();
        config.workload.lr = 0.1;
        config.workload.max_updates = 10;
        change(&mut config);
        let schedule = Schedule::new(&config);
        versions
            .iter()
            .map(|&v| (schedule.at(Version(v)) * 1e6).round() / 1e6)
            .collect()
    }

    #[test]
    fn a_step_falls_at_its_share_of_the_updates() {
        let step = |c: &mut Config| c.workload.lr_decay_frac = 0.5;
        assert_eq!(rates(step, &[0, 4, 5, 9, 99]), [0.1, 0.1, 0.01, 0.01, 0.01]);
        assert_eq!(rates(|_| {}, &[0, 9]), [0.1, 0.1]);
    }

    #[test]
    fn a_cosine_ends_at_zero() {
        let cosine = |c: &mut Config| c.optimizer.schedule = ScheduleKind::Cosine;
        assert_eq!(rates(cosine, &[0, 5, 10, 11]), [0.1, 0.05, 0.0, 0.0]);
    }

    #[test]
    fn warm_up_rises_to_the_rate() {
        let warm = |c: &mut Config| c.optimizer.warmup_updates = 4;
        assert_eq!(rates(warm, &[0, 1, 3, 4]), [0.025, 0.05, 0.1, 0.1]);
    }
}
