//! The adaptive controller: how hard workers compress and how stale a push may be, from events alone.
//!
//! Every `interval_s` it reads the window of events since its last decision, says whether the run should move
//! to a safer or a more aggressive point, and steps towards it. It sees nothing but the events that are
//! logged, so that replaying a log gives the same decisions.
//!
//! | room | what it does |
//! |---|---|
//! | [`window`] | events into signals |
//! | [`policy`] | signals into a direction and a reason |
//! | [`bounds`] | a direction into a step that keeps its limits |
//!
//! Safer is more of every gradient and less staleness; aggressive is the reverse. `s_low` and `beta` never move.

pub mod bounds;
pub mod policy;
pub mod window;

#[cfg(test)]
mod tests;

use crate::config::{self, Config};
use crate::event::{Control, Event};
use crate::ids::{Revision, Staleness};
use crate::push::Controls;
use bounds::{Bounds, Vector};
use policy::Verdict;
use window::{Signals, Window};

/// The controller of one run.
#[derive(Debug, Clone)]
pub struct Controller {
    config: config::Controller,
    bounds: Bounds,
    window: Window,
    vector: Vector,
    revision: Revision,
    /// Unstable windows in a row.
    streak: u32,
    /// When the next decision is due, in seconds of the run.
    due_s: f64,
}

impl Controller {
    /// The controller that a checked configuration describes; `None` where it is switched off.
    #[must_use]
    pub fn new(config: &Config) -> Option<Self> {
        let codec = config.compression.codec().ok()?;
        config.controller.enabled.then(|| Self {
            config: config.controller.clone(),
            bounds: Bounds::new(&config.controller),
            window: Window::default(),
            vector: Vector {
                codec,
                s_max: config.staleness.s_max,
            },
            revision: Revision(0),
            streak: 0,
            due_s: config.controller.interval_s,
        })
    }

    /// Takes note of an event, in the order of the log.
    pub fn observe(&mut self, event: &Event) {
        self.window.fold(event);
    }

    /// Decides if a decision is due, and empties the window.
    pub fn decide(&mut self, elapsed_s: f64) -> Option<Control> {
        if elapsed_s < self.due_s {
            return None;
        }
        self.due_s = next_due(elapsed_s, self.config.interval_s);
        let signals = std::mem::take(&mut self.window).signals();
        let verdict = policy::judge(&self.config, &signals, &mut self.streak);
        let old = self.vector;
        self.vector = self.bounds.step(old, verdict.direction);
        if self.vector.codec != old.codec {
            self.revision = self.revision.next();
        }
        Some(self.event(elapsed_s, old, &signals, verdict))
    }

    /// What workers are to use now.
    #[must_use]
    pub fn controls(&self) -> Controls {
        Controls {
            revision: self.revision,
            codec: self.vector.codec,
        }
    }

    /// Beyond this staleness a push is rejected now.
    #[must_use]
    pub fn s_max(&self) -> Staleness {
        Staleness(self.vector.s_max)
    }

    fn event(&self, elapsed_s: f64, old: Vector, signals: &Signals, verdict: Verdict) -> Control {
        let new = self.vector;
        Control {
            elapsed_s,
            policy: self.config.policy.as_str().to_owned(),
            loss_trend: signals.loss.map(|loss| loss.trend),
            loss_variability: signals.loss.map(|loss| loss.rebound),
            mean_staleness: signals.mean_staleness,
            rejected_frac: signals.rejected_frac,
            bytes_per_s: signals.bytes_per_s,
            updates_per_s: signals.updates_per_s,
            residual_norm_var: signals.residual_norm_var,
            compression_mode: new.codec.format().as_str().to_owned(),
            old_compression: old.strength(),
            new_compression: new.strength(),
            old_s_max: old.s_max,
            new_s_max: new.s_max,
            direction: verdict.direction,
            reason: verdict.reason,
            revision: self.revision,
            loss_source: signals.loss.map(|_| crate::event::LossSource::Test),
            accuracy_drop: None,
            rho_floor: None,
            workers: Vec::new(),
            operator: None,
        }
    }
}

/// The first multiple of the interval after `elapsed_s`: a decision that came late leaves those that it missed
/// out, since their windows would be empty.
fn next_due(elapsed_s: f64, interval_s: f64) -> f64 {
    let passed = (elapsed_s / interval_s).floor();
    let due = (passed + 1.0) * interval_s;
    // The quotient may have been rounded down to a whole number.
    if due > elapsed_s { due } else { due + interval_s }
}
