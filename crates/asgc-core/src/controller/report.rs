//! What is in force, for whoever asks while the run goes on.

use super::Controller;
use super::budget::Choice;
use crate::event::{Control, WorkerControl};
use crate::ids::{Revision, WorkerId};
use serde::{Deserialize, Serialize};

/// The controls now, and how they came about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Seconds since the run's start.
    pub elapsed_s: f64,
    /// `threshold`, `score` or `budget`; `none` where only operators and `compression.auto` change anything.
    pub policy: String,
    /// Whether those who lose by it do not compress.
    pub auto: bool,
    /// Beyond this staleness a push is rejected; `None` without a bound.
    pub s_max: Option<u64>,
    /// Whether an operator keeps `s_max` against the policy.
    pub s_max_pinned: bool,
    /// The latest revision of anybody's controls.
    pub revision: Revision,
    /// Each trainer.
    pub workers: Vec<WorkerReport>,
    /// The last decisions, the latest last.
    pub decisions: Vec<Control>,
}

/// One trainer's controls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Since which revision its codec holds.
    pub revision: Revision,
    /// The revision that its last push was encoded under.
    pub confirmed_revision: Revision,
    /// Whether an operator keeps its codec against the policy.
    pub pinned: bool,
    /// Its codec (old and new are the same) and what is known of it.
    pub state: WorkerControl,
}

impl Controller {
    /// What is in force at `elapsed_s`.
    #[must_use]
    pub fn report(&self, elapsed_s: f64) -> Report {
        let workers = self.assignments.workers();
        Report {
            elapsed_s,
            policy: self.policy_name().to_owned(),
            auto: self.auto,
            s_max: self.bounded.then_some(self.s_max),
            s_max_pinned: self.s_max_pinned,
            revision: self.assignments.latest(),
            workers: workers
                .into_iter()
                .map(|worker| self.worker_report(worker, elapsed_s))
                .collect(),
            decisions: self.recent.iter().cloned().collect(),
        }
    }

    fn worker_report(&self, worker: WorkerId, elapsed_s: f64) -> WorkerReport {
        let controls = self.assignments.of(worker);
        let line = self.links.get(worker).cloned().unwrap_or_default();
        let choice = Choice {
            codec: controls.codec,
            reason: "in force".to_owned(),
        };
        WorkerReport {
            revision: controls.revision,
            confirmed_revision: line.confirmed(),
            pinned: self.assignments.is_pinned(worker),
            state: self.worker_control((worker, &line), controls.codec, &choice, elapsed_s),
        }
    }
}
