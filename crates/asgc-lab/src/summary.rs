//! The figures of a run, as a fold over its events.
//!
//! Where `run_end` is there, its totals count, since it knows what the events cannot tell (bytes of frames,
//! and events that a full disk lost). A run that was killed has none: then everything is summed from the
//! events, up to the last of them.

use asgc_core::event::{Control, Decision, Eval, Event, RunEnd, RunStart, Update};
use asgc_core::ids::{Version, WorkerId};
use std::collections::BTreeMap;

/// Bytes of a dense parameter.
const DENSE_BYTES: u64 = 4;

/// One trainer's part.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkerSummary {
    /// Pushes that the server decided on.
    pub pushes: u64,
    /// Those that were applied, with full or less weight.
    pub applied: u64,
    /// Those that were applied with less weight.
    pub downweighted: u64,
    /// Payload bytes of its pushes.
    pub payload_bytes: u64,
    staleness_sum: u64,
    compute_s_sum: f64,
    fetch_s_sum: f64,
}

impl WorkerSummary {
    /// In versions, over all its pushes; `None` when it made none.
    #[must_use]
    pub fn mean_staleness(&self) -> Option<f64> {
        mean(self.staleness_sum as f64, self.pushes)
    }

    /// Seconds of a step's computation, injected delay included.
    #[must_use]
    pub fn mean_compute_s(&self) -> Option<f64> {
        mean(self.compute_s_sum, self.pushes)
    }

    /// Seconds of waiting for parameters.
    #[must_use]
    pub fn mean_fetch_s(&self) -> Option<f64> {
        mean(self.fetch_s_sum, self.pushes)
    }

    fn add(&mut self, update: &Update) {
        self.pushes += 1;
        self.applied += u64::from(update.decision != Decision::Rejected);
        self.downweighted += u64::from(update.decision == Decision::Downweighted);
        self.payload_bytes += update.payload_bytes;
        self.staleness_sum += update.staleness.0;
        self.compute_s_sum += update.compute_s;
        self.fetch_s_sum += update.fetch_s;
    }
}

/// How far the controller went.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlSummary {
    /// The first decision: where it started from.
    pub first: Control,
    /// The last one: where it ended.
    pub last: Control,
    /// How many there were.
    pub decisions: u64,
}

/// The figures of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// The first line of the log.
    pub start: Option<RunStart>,
    /// The last line; absent while the run goes on, or when it was killed.
    pub end: Option<RunEnd>,
    /// In order.
    pub evals: Vec<Eval>,
    /// By trainer.
    pub workers: BTreeMap<WorkerId, WorkerSummary>,
    /// Absent where nothing was adapted.
    pub control: Option<ControlSummary>,
    /// Steps of the version seen in the events: updates in async mode, rounds in sync mode.
    steps: u64,
    version: Option<Version>,
    max_staleness: u64,
    received_bytes: u64,
    last_elapsed_s: f64,
}

impl Summary {
    /// Folds over a whole log.
    pub fn from_events<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut summary = Self::default();
        for event in events {
            summary.add(event);
        }
        summary
    }

    /// Takes one more event.
    pub fn add(&mut self, event: &Event) {
        let elapsed_s = match event {
            Event::RunStart(start) => {
                self.start = Some(start.clone());
                0.0
            }
            Event::Update(update) => {
                self.add_update(update);
                update.elapsed_s
            }
            Event::Eval(eval) => {
                self.evals.push(eval.clone());
                eval.elapsed_s
            }
            Event::RunEnd(end) => {
                self.end = Some(end.clone());
                end.elapsed_s
            }
            Event::Control(control) => {
                self.add_control(control);
                control.elapsed_s
            }
            Event::Join(join) => join.elapsed_s,
            Event::Leave(leave) => leave.elapsed_s,
        };
        self.last_elapsed_s = self.last_elapsed_s.max(elapsed_s);
    }

    fn add_update(&mut self, update: &Update) {
        self.workers.entry(update.worker_id).or_default().add(update);
        self.max_staleness = self.max_staleness.max(update.staleness.0);
        self.received_bytes += update.received_bytes;
        // In sync mode all pushes of a round carry the same version: that is one step.
        if update.decision != Decision::Rejected && self.version.is_none_or(|seen| update.version > seen) {
            self.steps += 1;
            self.version = Some(update.version);
        }
    }

    fn add_control(&mut self, control: &Control) {
        let summary = self.control.get_or_insert_with(|| ControlSummary {
            first: control.clone(),
            last: control.clone(),
            decisions: 0,
        });
        summary.last = control.clone();
        summary.decisions += 1;
    }

    /// `run.name`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.start
            .as_ref()
            .map_or("?", |start| start.config_name.as_str())
    }

    fn sum(&self, of: impl Fn(&WorkerSummary) -> u64) -> u64 {
        self.workers.values().map(of).sum()
    }

    /// Pushes decided on.
    #[must_use]
    pub fn pushes(&self) -> u64 {
        self.sum(|worker| worker.pushes)
    }

    /// Updates applied (rounds, in sync mode).
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.end.as_ref().map_or(self.steps, |end| end.applied_updates)
    }

    /// Rejected share of all pushes; `None` when there were none.
    #[must_use]
    pub fn rejected_share(&self) -> Option<f64> {
        mean(
            (self.pushes() - self.sum(|worker| worker.applied)) as f64,
            self.pushes(),
        )
    }

    /// Share of all pushes that were applied with less weight.
    #[must_use]
    pub fn downweighted_share(&self) -> Option<f64> {
        mean(self.sum(|worker| worker.downweighted) as f64, self.pushes())
    }

    /// Payload bytes of all pushes, as the codecs emitted them.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.end
            .as_ref()
            .map_or_else(|| self.sum(|worker| worker.payload_bytes), |end| end.total_bytes)
    }

    /// Payload bytes that arrived: less, by what early refusal saved.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.end
            .as_ref()
            .map_or(self.received_bytes, |end| end.received_bytes)
    }

    /// Bytes on the sockets, uplink and downlink; only a run that ended knows them.
    #[must_use]
    pub fn frame_bytes(&self) -> Option<(u64, u64)> {
        self.end
            .as_ref()
            .map(|end| (end.uplink_frame_bytes, end.downlink_frame_bytes))
    }

    /// Dense bytes over payload bytes.
    #[must_use]
    pub fn compression_ratio(&self) -> Option<f64> {
        if let Some(end) = &self.end {
            return Some(end.compression_ratio);
        }
        let raw = self.start.as_ref()?.parameters * DENSE_BYTES * self.pushes();
        mean(raw as f64, self.payload_bytes())
    }

    /// Applied updates a second, from the start to the stop or the last event.
    #[must_use]
    pub fn updates_per_s(&self) -> Option<f64> {
        if let Some(end) = &self.end {
            return Some(end.updates_per_sec);
        }
        (self.last_elapsed_s > 0.0).then(|| self.steps as f64 / self.last_elapsed_s)
    }

    /// In versions, over all pushes.
    #[must_use]
    pub fn mean_staleness(&self) -> Option<f64> {
        mean(self.sum(|worker| worker.staleness_sum) as f64, self.pushes())
    }

    /// In versions; `None` when there were no pushes.
    #[must_use]
    pub fn max_staleness(&self) -> Option<u64> {
        (self.pushes() > 0).then_some(self.max_staleness)
    }

    /// Of the last evaluation, as a fraction.
    #[must_use]
    pub fn accuracy(&self) -> Option<f64> {
        self.evals.last().map(|eval| eval.test_accuracy)
    }

    /// Of the last evaluation.
    #[must_use]
    pub fn loss(&self) -> Option<f64> {
        self.evals.last().map(|eval| eval.test_loss)
    }

    /// Largest fall of the accuracy between two consecutive evaluations, as a fraction; 0 when it never fell.
    #[must_use]
    pub fn max_accuracy_drop(&self) -> Option<f64> {
        let falls = self
            .evals
            .windows(2)
            .map(|pair| (pair[0].test_accuracy - pair[1].test_accuracy).max(0.0));
        falls.reduce(f64::max)
    }

    /// The accuracy whose first reaching is asked about.
    #[must_use]
    pub fn target(&self) -> Option<f64> {
        self.start.as_ref()?.target_accuracy
    }

    /// Seconds until the first evaluated version whose accuracy reached `target`; `None` when none did.
    #[must_use]
    pub fn time_to(&self, target: f64) -> Option<f64> {
        self.evals
            .iter()
            .find(|eval| eval.test_accuracy >= target)
            .map(|eval| eval.elapsed_s)
    }

    /// Seconds from the start to the stop, or to the last event.
    #[must_use]
    pub fn wall_s(&self) -> f64 {
        self.end.as_ref().map_or(self.last_elapsed_s, |end| end.elapsed_s)
    }

    /// `name` without the `_sSEED` that a matrix gives it: runs that differ by their seed only share it.
    #[must_use]
    pub fn without_seed<'a>(&self, name: &'a str) -> &'a str {
        let seed = self.start.as_ref().map(|start| format!("_s{}", start.seed));
        seed.and_then(|seed| name.strip_suffix(seed.as_str()))
            .unwrap_or(name)
    }

    /// Seconds until `target` was reached, or the run's own target where none is given.
    #[must_use]
    pub fn time_to_target(&self, target: Option<f64>) -> Option<f64> {
        self.time_to(target.or_else(|| self.target())?)
    }

    /// Whether the run came to an end of its own: by one of its stopping rules, not because somebody asked it to stop.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        // The words of a drain begin so, in the daemon and in the simulation.
        self.end
            .as_ref()
            .is_some_and(|end| !end.reason.starts_with("asked to "))
    }

    /// Why the run stopped; says so when the log does not tell.
    #[must_use]
    pub fn ending(&self) -> &str {
        self.end
            .as_ref()
            .map_or("no run_end: killed, or still running", |end| end.reason.as_str())
    }
}

fn mean(sum: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn a_run_that_ended() {
        let summary = Summary::from_events(&samples::run());
        assert_eq!(summary.name(), "demo");
        assert_eq!((summary.applied(), summary.pushes()), (3, 4));
        assert_eq!(summary.rejected_share(), Some(0.25));
        assert_eq!(summary.downweighted_share(), Some(0.25));
        assert_eq!(
            (summary.mean_staleness(), summary.max_staleness()),
            (Some(2.5), Some(7))
        );
        assert_eq!((summary.payload_bytes(), summary.received_bytes()), (400, 310));
        assert_eq!(summary.frame_bytes(), Some((500, 600)));
        assert_eq!(summary.compression_ratio(), Some(2.0));
        assert_eq!((summary.accuracy(), summary.loss()), (Some(0.86), Some(0.4)));
        assert_eq!((summary.time_to(0.85), summary.time_to(0.9)), (Some(2.0), None));
        assert_eq!(summary.max_accuracy_drop(), Some(0.0));
        assert_eq!((summary.wall_s(), summary.updates_per_s()), (4.0, Some(0.75)));
        assert_eq!(summary.ending(), "max_updates");
        let straggler = &summary.workers[&WorkerId(1)];
        assert_eq!(
            (straggler.pushes, straggler.applied, straggler.mean_staleness()),
            (2, 1, Some(5.0))
        );
    }

    #[test]
    fn a_run_that_was_killed_gives_the_same_sums_and_says_so() {
        let mut events = samples::run();
        events.pop();
        let summary = Summary::from_events(&events);
        assert_eq!(
            (
                summary.applied(),
                summary.payload_bytes(),
                summary.received_bytes()
            ),
            (3, 400, 310)
        );
        assert_eq!(summary.compression_ratio(), Some(2.0));
        assert_eq!(summary.frame_bytes(), None);
        assert_eq!(summary.updates_per_s(), Some(3.0 / 3.5));
        assert_eq!(summary.ending(), "no run_end: killed, or still running");
    }

    #[test]
    fn the_controller_is_told_from_its_first_to_its_last_decision() {
        let decisions = [
            samples::control((0.25, 0.2), (4, 5)),
            samples::control((0.2, 0.25), (5, 4)),
            samples::control((0.25, 0.3), (4, 3)),
        ];
        let events = decisions.clone().map(Event::Control);
        let control = Summary::from_events(&events).control.unwrap();
        assert_eq!((&control.first, &control.last), (&decisions[0], &decisions[2]));
        assert_eq!(control.decisions, 3);
        assert_eq!(Summary::from_events(&samples::run()).control, None);
    }

    #[test]
    fn runs_of_a_matrix_are_known_without_their_seed() {
        let summary = Summary::from_events(&samples::run());
        let names = ["a_s0", "a_s1", "a"].map(|name| summary.without_seed(name));
        assert_eq!(names, ["a", "a_s1", "a"], "the sample's seed is 0");
        assert_eq!(Summary::default().without_seed("a_s0"), "a_s0");
    }

    #[test]
    fn a_target_of_ones_own_goes_before_the_runs() {
        let summary = Summary::from_events(&samples::run());
        assert_eq!(summary.time_to_target(None), summary.time_to(0.85));
        assert_eq!(summary.time_to_target(Some(0.9)), None);
    }

    #[test]
    fn a_run_that_was_asked_to_stop_is_not_complete() {
        let mut events = samples::run();
        assert!(Summary::from_events(&events).is_complete());
        if let Some(Event::RunEnd(end)) = events.last_mut() {
            end.reason = "asked to stop".into();
        }
        assert!(!Summary::from_events(&events).is_complete());
        events.pop();
        assert!(!Summary::from_events(&events).is_complete());
    }

    #[test]
    fn rounds_count_once() {
        let events = samples::round(1)
            .into_iter()
            .chain(samples::round(2))
            .collect::<Vec<_>>();
        let summary = Summary::from_events(&events);
        assert_eq!((summary.applied(), summary.pushes()), (2, 6));
    }

    #[test]
    fn an_empty_log_has_no_figures() {
        let summary = Summary::from_events(&[]);
        assert_eq!(
            (
                summary.accuracy(),
                summary.rejected_share(),
                summary.updates_per_s()
            ),
            (None, None, None)
        );
        assert_eq!(
            (summary.max_staleness(), summary.compression_ratio()),
            (None, None)
        );
    }
}
