//! What a window's signals mean: a direction, and the reason in words.
//!
//! `threshold`: unstable when `trend > worsen_tol`, `rebound > variability_tol` or
//! `rejected_frac > reject_frac_max`. Unstable for `instability_persistence` windows in a row: safer. Stable, and
//! `bytes/s >= comm_pressure_min`: aggressive. Else hold.
//!
//! `score`, denominators at least 1e-9:
//!
//! ```text
//! R = a trend/worsen_tol + b rebound/variability_tol + c (1 - bytes_per_s/comm_pressure_min)
//!   + d rejected_frac/reject_frac_max
//! ```
//!
//! `R > 0.25`: safer. `R < -0.25`: aggressive. Else hold.
//!
//! Absent loss signals are no sign of instability, contribute nothing to the score, and are named in the
//! reason, as is a training loss that stands in. A window without a single push says nothing: hold.

use super::window::Signals;
use crate::config::{ControlPolicy, Controller};
use crate::event::{Direction, LossSource};

/// Scores this near to 0 hold.
const DEAD_BAND: f64 = 0.25;

/// Tolerances of 0 are allowed, and are divided by.
const LEAST_DENOMINATOR: f64 = 1e-9;

/// Where to go, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Where to.
    pub direction: Direction,
    /// Why, in words.
    pub reason: String,
}

/// Judges a window; `streak` counts unstable ones in a row.
#[must_use]
pub fn judge(config: &Controller, signals: &Signals, streak: &mut u32) -> Verdict {
    let (direction, mut reason) = match config.policy {
        _ if signals.pushes == 0 => (Direction::Hold, "hold (no pushes)".to_owned()),
        ControlPolicy::Threshold => threshold(config, signals, streak),
        ControlPolicy::Score => score(config, signals),
        // Decided trainer by trainer: `super::budget`.
        ControlPolicy::Budget => (Direction::Hold, "hold".to_owned()),
    };
    reason.push_str(loss_note(signals));
    Verdict { direction, reason }
}

/// What is to be said of the loss signals, to be put behind a reason.
#[must_use]
pub fn loss_note(signals: &Signals) -> &'static str {
    match signals.loss_source {
        Some(LossSource::Test) => "",
        Some(LossSource::Train) => ", by training loss",
        None => ", no loss signal",
    }
}

fn threshold(config: &Controller, signals: &Signals, streak: &mut u32) -> (Direction, String) {
    let worse = |loss: super::window::LossSignals| {
        loss.trend > config.worsen_tol || loss.rebound > config.variability_tol
    };
    let unstable = signals.loss.is_some_and(worse) || signals.rejected_frac > config.reject_frac_max;
    if unstable {
        *streak = streak.saturating_add(1);
        let needed = config.instability_persistence;
        return if *streak < needed {
            (Direction::Hold, format!("hold (unstable {streak}/{needed})"))
        } else {
            (Direction::Safer, "instability".to_owned())
        };
    }
    *streak = 0;
    if signals.bytes_per_s >= config.comm_pressure_min {
        (Direction::Aggressive, "stable+comm_pressure".to_owned())
    } else {
        (Direction::Hold, "hold".to_owned())
    }
}

fn score(config: &Controller, signals: &Signals) -> (Direction, String) {
    let over = |value: f64, limit: f64| value / limit.max(LEAST_DENOMINATOR);
    let weights = config.score_weights;
    let loss = signals.loss.map_or(0.0, |loss| {
        weights.a * over(loss.trend, config.worsen_tol)
            + weights.b * over(loss.rebound, config.variability_tol)
    });
    let r = loss
        + weights.c * (1.0 - over(signals.bytes_per_s, config.comm_pressure_min))
        + weights.d * over(signals.rejected_frac, config.reject_frac_max);
    let direction = if r > DEAD_BAND {
        Direction::Safer
    } else if r < -DEAD_BAND {
        Direction::Aggressive
    } else {
        Direction::Hold
    };
    (direction, format!("{} (R={r:.3})", direction.as_str()))
}
