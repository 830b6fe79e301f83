//! The learning rates that a residual was gathered at.
//!
//! A residual is in units of gradients, and what it comes to in parameters is decided by the rate of the update that takes it
//! in. Where the rate falls to a tenth, everything that still waits would count for a tenth. So the residual is scaled by
//! `lr(old)/lr(new)` where the rate changes: `u = g + (lr_(t-1)/lr_t) e` (Zheng, Huang, Kwok, "Communication-efficient
//! distributed blockwise momentum SGD with error-feedback", NeurIPS 2019, algorithm 1).

use crate::ids::Version;
use crate::optimizer::Schedule;

/// Which rate the residual's units are of. Does nothing without a schedule.
#[derive(Debug)]
pub(super) struct Rates {
    schedule: Option<Schedule>,
    /// That of the last gradient.
    now: Option<f64>,
}

impl Rates {
    pub(super) fn new(schedule: Option<Schedule>) -> Self {
        Self { schedule, now: None }
    }

    /// A gradient of version `base` comes: what the residual is to be scaled by before it.
    pub(super) fn move_to(&mut self, base: Version) -> f64 {
        let Some(schedule) = self.schedule else { return 1.0 };
        let rate = schedule.at(base);
        let before = self.now.replace(rate).unwrap_or(rate);
        ratio(before, rate)
    }

    /// What a push of a gradient of version `base` is to be scaled by when it is put back.
    pub(super) fn since(&self, base: Version) -> f64 {
        match (self.schedule, self.now) {
            (Some(schedule), Some(now)) => ratio(schedule.at(base), now),
            _ => 1.0,
        }
    }
}

/// 1 where either rate is 0: what a rate of 0 takes in is lost whatever its scale.
fn ratio(before: f64, after: f64) -> f64 {
    if before > 0.0 && after > 0.0 {
        before / after
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// The rate falls to a tenth at version 5.
    fn falling() -> Schedule {
        let mut config = Config::default();
        config.workload.max_updates = 10;
        (config.workload.lr_decay_frac, config.workload.lr_gamma) = (0.5, 0.1);
        Schedule::new(&config)
    }

    #[test]
    fn factors_are_those_between_the_rates() {
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-12, "{found}");
        let mut rates = Rates::new(Some(falling()));
        near(rates.move_to(Version(3)), 1.0);
        near(rates.move_to(Version(5)), 10.0);
        near(rates.move_to(Version(6)), 1.0);
        near(rates.since(Version(4)), 10.0);
        near(rates.since(Version(5)), 1.0);
        // A server that forgot updates goes back.
        near(rates.move_to(Version(1)), 0.1);
    }

    #[test]
    fn without_a_schedule_or_with_a_rate_of_zero_nothing_is_scaled() {
        let mut rates = Rates::new(None);
        assert_eq!((rates.move_to(Version(9)), rates.since(Version(1))), (1.0, 1.0));
        assert_eq!((ratio(0.0, 0.1), ratio(0.1, 0.0)), (1.0, 1.0));
    }
}
