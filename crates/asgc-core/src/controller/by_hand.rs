//! Changes by an operator: at once, within the bounds, with who and why in the log.

use super::Controller;
use super::budget::Choice;
use crate::event::{Control, Direction, Operator, Override};
use crate::ids::WorkerId;

/// Longest `by` and `why`, in characters: they go into the log as they are.
const MAX_WORDS: usize = 200;

impl Controller {
    /// Changes the controls as an operator wants. The window goes on; unless pinned, the next decision may move on
    /// from there.
    ///
    /// # Errors
    /// Says in words what cannot be: nothing is changed then.
    pub fn set_by_hand(&mut self, elapsed_s: f64, operator: Operator) -> Result<Control, String> {
        self.check(&operator)?;
        let before = (self.mean_strength(), self.s_max);
        let set = operator.set.clone();
        let concerned = set
            .worker_id
            .map_or_else(|| self.assignments.workers(), |worker| vec![worker]);
        let mut workers = Vec::new();
        if let Some(codec) = set.codec {
            let choice = Choice {
                codec,
                reason: "set by hand".to_owned(),
            };
            for &worker in &concerned {
                let line = self.links.get(worker).cloned().unwrap_or_default();
                let old = self.assignments.of(worker).codec;
                workers.push(self.worker_control((worker, &line), old, &choice, elapsed_s));
            }
            let common = if set.worker_id.is_none() {
                codec
            } else {
                self.assignments.common()
            };
            let own = concerned
                .iter()
                .map(|&worker| (worker, codec))
                .collect::<Vec<_>>();
            self.assignments.assign(common, &own);
        }
        self.s_max = set.s_max.unwrap_or(self.s_max);
        self.pin(&set);
        let signals = self.window.signals(self.evaluators > 0);
        let reason = format!("set by hand by {}: {}", operator.by, operator.why);
        let control = Control {
            workers,
            operator: Some(operator),
            ..self.event(elapsed_s, &signals, before, (Direction::Hold, reason))
        };
        self.remember(&control);
        Ok(control)
    }

    fn check(&self, operator: &Operator) -> Result<(), String> {
        let Override {
            worker_id,
            codec,
            s_max,
            pin,
        } = operator.set;
        for (words, what) in [(&operator.by, "who sets them"), (&operator.why, "why")] {
            let length = words.chars().count();
            if words.trim().is_empty() || length > MAX_WORDS || words.chars().any(char::is_control) {
                return Err(format!(
                    "{what} must be said, in one line of 1 to {MAX_WORDS} characters"
                ));
            }
        }
        if codec.is_none() && s_max.is_none() && pin.is_none() {
            return Err("nothing to set: give a codec, s_max, or whether to pin".to_owned());
        }
        if let Some(worker) = worker_id.filter(|&worker| !self.assignments.knows(worker)) {
            return Err(format!(
                "no trainer {worker} in this run; there are: {}",
                list(&self.assignments.workers())
            ));
        }
        if worker_id.is_some() && s_max.is_some() {
            return Err("s_max is the server's, one for all: set it without a worker".to_owned());
        }
        if s_max.is_some() && !self.bounded {
            return Err(
                "there is no bound on staleness to set: staleness.enabled is false, or the mode is sync"
                    .to_owned(),
            );
        }
        self.bounds.check(codec, s_max)
    }

    fn pin(&mut self, set: &Override) {
        let Some(pin) = set.pin else { return };
        // Pinning without naming what keeps, or frees, both.
        let both = set.codec.is_none() && set.s_max.is_none();
        if set.codec.is_some() || both {
            self.assignments.pin(set.worker_id, pin);
        }
        if set.s_max.is_some() || (both && set.worker_id.is_none()) {
            self.s_max_pinned = pin;
        }
    }
}

fn list(workers: &[WorkerId]) -> String {
    let names = workers.iter().map(ToString::to_string).collect::<Vec<_>>();
    if names.is_empty() {
        "none yet".to_owned()
    } else {
        names.join(", ")
    }
}
