//! The signals of a window of events.
//!
//! ```text
//! trend     = L(last) - L(first)                                    of the window's evaluations
//! rebound   = mean over consecutive ones of max(0, L(next) - L(previous))
//! span      = max(1 s, latest - earliest event)
//! bytes/s   = sum of payload bytes / span        updates/s = pushes / span, rejected ones included
//! ```
//!
//! A loss that only falls, however fast, has rebound 0: spread is no instability. With fewer than two
//! evaluations there is nothing to compare, and the loss signals are absent, which is not the same as 0; in a run
//! without an evaluator the training loss stands in ([`super::smoothed`]). A loss that is not finite counts as
//! [`DIVERGED_LOSS`], and ending on one is a rise whatever came before.

use super::smoothed::Smoothed;
use crate::event::{Decision, Eval, Event, LossSource, Update};
use crate::ids::Version;
use std::collections::BTreeMap;

/// What a loss that is not finite reads as: above every tolerance, and far enough from infinity to be summed,
/// weighed and written as JSON.
pub const DIVERGED_LOSS: f64 = 1e30;

/// Rates over less than this would be noise.
const MIN_SPAN_S: f64 = 1.0;

/// The events since the last decision.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Window {
    pushes: u64,
    rejected: u64,
    payload_bytes: u64,
    staleness_sum: u64,
    residual_norm: Variance,
    /// Test losses in the order of versions, however evaluators were late.
    losses: BTreeMap<Version, f64>,
    /// Test accuracies likewise.
    accuracies: BTreeMap<Version, f64>,
    training_loss: Smoothed,
    /// Times of the earliest and the latest event.
    times: Option<(f64, f64)>,
}

/// What a window says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Signals {
    /// Decided pushes.
    pub pushes: u64,
    /// Absent with fewer than two evaluations, where there is an evaluator.
    pub loss: Option<LossSignals>,
    /// What `loss` is made of.
    pub loss_source: Option<LossSource>,
    /// Greatest and last test accuracy of the window.
    pub accuracy: Option<Accuracy>,
    /// In versions, over all pushes.
    pub mean_staleness: f64,
    /// Rejected share of the pushes.
    pub rejected_frac: f64,
    /// Payload bytes a second, of all pushes.
    pub bytes_per_s: f64,
    /// Pushes a second, rejected ones included.
    pub updates_per_s: f64,
    /// Population variance of the residual's norm over pushes.
    pub residual_norm_var: f64,
}

/// Test accuracies of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accuracy {
    /// The greatest.
    pub best: f64,
    /// That of the latest version.
    pub last: f64,
}

/// What a window's evaluations say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossSignals {
    /// Last less first.
    pub trend: f64,
    /// Mean upward move between consecutive ones; 0 for any monotone fall.
    pub rebound: f64,
}

impl Window {
    /// Takes one more event; only updates and evaluations count.
    pub fn fold(&mut self, event: &Event) {
        match event {
            Event::Update(update) => self.update(update),
            Event::Eval(eval) => self.eval(eval),
            _ => {}
        }
    }

    fn update(&mut self, update: &Update) {
        self.pushes += 1;
        self.rejected += u64::from(update.decision == Decision::Rejected);
        // A header may claim any length.
        self.payload_bytes = self.payload_bytes.saturating_add(update.payload_bytes);
        self.staleness_sum = self.staleness_sum.saturating_add(update.staleness.0);
        self.residual_norm.add(update.residual_norm);
        self.training_loss.add(update.loss);
        self.at(update.elapsed_s);
    }

    fn eval(&mut self, eval: &Eval) {
        let loss = if eval.test_loss.is_finite() {
            eval.test_loss.clamp(-DIVERGED_LOSS, DIVERGED_LOSS)
        } else {
            DIVERGED_LOSS
        };
        self.losses.insert(eval.version, loss);
        if eval.test_accuracy.is_finite() {
            self.accuracies.insert(eval.version, eval.test_accuracy);
        }
        // When it was reported: the version may have been current before the window began.
        self.at(eval.reported_s);
    }

    fn at(&mut self, time_s: f64) {
        let (first, last) = self.times.unwrap_or((time_s, time_s));
        self.times = Some((first.min(time_s), last.max(time_s)));
    }

    /// What the window says; `evaluated` tells whether somebody evaluates.
    #[must_use]
    pub fn signals(&self, evaluated: bool) -> Signals {
        let span_s = self
            .times
            .map_or(MIN_SPAN_S, |(first, last)| (last - first).max(MIN_SPAN_S));
        let pushes = self.pushes as f64;
        let per_push = |sum: u64| if pushes > 0.0 { sum as f64 / pushes } else { 0.0 };
        let tested = self.loss().map(|loss| (loss, LossSource::Test));
        let stand_in = || self.training_loss.signals().filter(|_| !evaluated);
        let loss = tested.or_else(|| stand_in().map(|loss| (loss, LossSource::Train)));
        Signals {
            pushes: self.pushes,
            loss: loss.map(|(loss, _)| loss),
            loss_source: loss.map(|(_, source)| source),
            accuracy: self.accuracy(),
            mean_staleness: per_push(self.staleness_sum),
            rejected_frac: per_push(self.rejected),
            bytes_per_s: self.payload_bytes as f64 / span_s,
            updates_per_s: pushes / span_s,
            residual_norm_var: self.residual_norm.get(),
        }
    }

    fn accuracy(&self) -> Option<Accuracy> {
        let last = *self.accuracies.values().next_back()?;
        let best = self.accuracies.values().copied().fold(last, f64::max);
        Some(Accuracy { best, last })
    }

    fn loss(&self) -> Option<LossSignals> {
        let mut rises = self.losses.values().zip(self.losses.values().skip(1));
        let (first, last) = (self.losses.values().next()?, self.losses.values().next_back()?);
        let pairs = rises.len();
        let rebound = rises
            .by_ref()
            .map(|(from, to)| rise(*from, *to).max(0.0))
            .sum::<f64>();
        (pairs > 0).then(|| LossSignals {
            trend: rise(*first, *last),
            rebound: rebound / pairs as f64,
        })
    }
}

/// A model that stays diverged does not thereby become stable.
fn rise(from: f64, to: f64) -> f64 {
    if to >= DIVERGED_LOSS {
        DIVERGED_LOSS
    } else {
        to - from
    }
}

/// Population variance in one pass (Welford 1962): the textbook difference of squares loses all digits when
/// the mean is large.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Variance {
    count: u64,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
}

impl Variance {
    fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    fn get(self) -> f64 {
        let variance = self.squares / self.count.max(1) as f64;
        // A worker may report any norm; the log has no infinities.
        variance.min(f64::MAX)
    }
}
