//! When the run is over, and how it drains.

use super::Server;
use super::decide::Ruling;
use super::message::{Action, FrameBytes};
use super::tally::ratio;
use crate::event::{Event, RejectReason, RunEnd};
use crate::ids::Staleness;
use std::sync::Arc;
use std::time::Duration;

/// Where in its life the run is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    /// Waiting for parameters and trainers.
    Gathering,
    /// Training.
    Running,
    /// Over: members are stopped, the final version is evaluated.
    Draining { reason: Arc<str>, at: Duration },
    /// Drained.
    Finished,
}

impl Server {
    /// Applies the stopping rules.
    pub(super) fn stop_if_due(&mut self, out: &mut Vec<Action>) {
        if self.phase != Phase::Running {
            return;
        }
        let workload = &self.config.workload;
        let accuracy = self.last_eval.as_ref().map(|eval| eval.accuracy);
        let reached = accuracy
            .zip(workload.target_accuracy)
            .filter(|(found, target)| found >= target);
        let due = if self.version.0 >= workload.max_updates {
            Some(format!("max_updates = {} reached", workload.max_updates))
        } else if self.elapsed_s() >= workload.max_wall_time_s {
            Some(format!("max_wall_time_s = {} reached", workload.max_wall_time_s))
        } else if self.config.server.stop_at_target {
            reached.map(|(found, target)| format!("target_accuracy = {target} reached with {found:.4}"))
        } else {
            None
        };
        if let Some(reason) = due {
            self.stop(&reason, out);
        }
    }

    /// Ends the run: nothing is applied from here on.
    pub(super) fn stop(&mut self, reason: &str, out: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Draining { .. } | Phase::Finished) {
            return;
        }
        self.phase = Phase::Draining {
            reason: reason.into(),
            at: self.now,
        };
        // A round that was under way never comes about.
        for (worker, pushed) in self.round.take() {
            let ruling = Ruling::rejected(RejectReason::Stopped, Staleness(0), self.version, &pushed);
            self.settle(worker, &pushed.header, ruling, out);
        }
        self.answer_waiting(out);
    }

    /// Time passed: the wall-time rule, and the end of draining.
    pub(super) fn tick(&mut self, frames: FrameBytes, out: &mut Vec<Action>) {
        self.frames = frames;
        self.stop_if_due(out);
        let Phase::Draining { reason, at } = &self.phase else {
            return;
        };
        let overdue = self.now.saturating_sub(*at) >= Duration::from_secs_f64(self.config.server.drain_s);
        if !self.members.is_empty() && !overdue {
            return;
        }
        if let Some(began) = self.began {
            let elapsed_s = at.saturating_sub(began).as_secs_f64();
            let end = self.run_end(reason, elapsed_s);
            self.log(Event::RunEnd(end), out);
        }
        self.phase = Phase::Finished;
        self.answer_waiting(out);
        out.push(Action::Finish);
    }

    fn run_end(&self, reason: &str, elapsed_s: f64) -> RunEnd {
        let tally = &self.tally;
        let dense = self.layout.as_ref().map_or(0, |layout| layout.dense_bytes());
        let raw_bytes = dense.saturating_mul(tally.pushes);
        RunEnd {
            applied_updates: tally.applied,
            rejected_updates: tally.rejected,
            rejected_frac: tally.rejected_frac(),
            total_bytes: tally.payload_bytes,
            received_bytes: tally.received_bytes,
            raw_bytes,
            compression_ratio: ratio(raw_bytes as f64, tally.payload_bytes as f64),
            updates_per_sec: ratio(tally.applied as f64, elapsed_s),
            elapsed_s,
            mean_staleness: tally.mean_staleness(),
            max_staleness: tally.staleness_max,
            final_test_accuracy: self.last_eval.as_ref().map(|eval| eval.accuracy),
            final_test_loss: self.last_eval.as_ref().map(|eval| eval.loss),
            uplink_frame_bytes: self.frames.uplink,
            downlink_frame_bytes: self.frames.downlink,
            reason: reason.to_owned(),
        }
    }
}
