//! Which pulls are answered, and which wait.
//!
//! | mode | a trainer's pull waits while |
//! |---|---|
//! | `async` | never |
//! | `ssp` | its clock is more than `slack` ahead of the slowest (Ho et al., NeurIPS 2013) |
//! | `sync` | it holds the current version, and its push for that is held or on its way: the round is not over |
//!
//! In sync mode one that is behind is answered at once, and so is one whose push for the current version
//! was refused or never made (a gradient that is not finite): the round waits for it, so it must go on.
//!
//! An evaluator's pull waits until the next multiple of `eval_interval`, but for one that came back without
//! the evaluation that it owes. Nobody is answered before the
//! run begins; once it is over trainers are stopped, and an evaluator first gets the final version.

use super::members::{Owed, Seat, Waiting};
use super::message::{Action, Answer, Pull, Refusal, SessionId};
use super::{Evaluation, Phase, Server};
use crate::config::{Mode, Role};
use crate::downlink::Delta;
use crate::event::{Eval, Event};
use crate::ids::Version;
use std::time::Duration;

impl Server {
    pub(super) fn pull(&mut self, session: SessionId, pull: Pull, out: &mut Vec<Action>) {
        let since = self.now;
        let Some(seat) = self.members.seat_mut(session) else {
            return;
        };
        seat.waiting = Some(Waiting { pull, since });
        self.answer(session, out);
    }

    /// Answers every waiting pull that need not wait any more.
    pub(super) fn answer_waiting(&mut self, out: &mut Vec<Action>) {
        for session in self.members.waiting() {
            self.answer(session, out);
        }
    }

    fn answer(&mut self, session: SessionId, out: &mut Vec<Action>) {
        let Some(seat) = self.members.seat(session) else {
            return;
        };
        let Some(Waiting { pull, since }) = seat.waiting else {
            return;
        };
        let answer = match seat.role {
            Role::Trainer => self.answer_trainer(seat, pull),
            Role::Evaluator => self.answer_evaluator(seat, pull),
        };
        let Some(answer) = answer else { return };
        let owed = match (seat.role, &answer) {
            (Role::Evaluator, &(Answer::Snapshot { version, .. } | Answer::Delta(Delta { version, .. }))) => {
                Some(Owed {
                    version,
                    elapsed_s: self.elapsed_s(),
                })
            }
            _ => None,
        };
        // Before the run began nobody waited for a consistency mode.
        let held = self
            .began
            .map_or(Duration::ZERO, |began| self.now.saturating_sub(since.max(began)));
        if let Some(seat) = self.members.seat_mut(session) {
            seat.waiting = None;
            seat.held += held;
            seat.given = owed.map(|owed| owed.version).or(seat.given);
            seat.owed = owed.or(seat.owed);
        }
        if owed.is_some() {
            let interval = self.config.workload.eval_interval;
            self.next_eval = Version((self.version.0 / interval + 1).saturating_mul(interval));
        }
        out.push(Action::Answer { session, answer });
    }

    fn answer_trainer(&self, seat: &Seat, pull: Pull) -> Option<Answer> {
        let current = pull.known == Some((self.generation, self.offered()));
        match &self.phase {
            Phase::Gathering => None,
            Phase::Running if self.must_wait(seat, current) => None,
            Phase::Running if current => Some(Answer::Unchanged {
                generation: self.generation,
                version: self.offered(),
            }),
            Phase::Running => self.newer(seat, pull),
            Phase::Draining { reason, .. } => Some(Answer::Stop {
                reason: reason.clone(),
            }),
            Phase::Finished => Some(Answer::Stop {
                reason: "the run is over".into(),
            }),
        }
    }

    fn must_wait(&self, seat: &Seat, current: bool) -> bool {
        match self.mode {
            Mode::Async => false,
            Mode::Sync => {
                let held = seat.worker.is_some_and(|worker| self.round.of(worker).is_some());
                current && (held || seat.announced == Some(self.version))
            }
            Mode::Ssp => {
                let clock = seat
                    .worker
                    .and_then(|worker| self.members.trainer(worker))
                    .map(|t| t.clock);
                let slowest = self.members.slowest_clock();
                clock
                    .zip(slowest)
                    .is_some_and(|(mine, slowest)| mine > slowest.saturating_add(self.config.server.slack))
            }
        }
    }

    fn answer_evaluator(&self, seat: &Seat, pull: Pull) -> Option<Answer> {
        match &self.phase {
            Phase::Gathering => None,
            Phase::Running if self.version >= self.next_eval => self.newer(seat, pull),
            // It lost the parameters with its connection.
            Phase::Running if seat.owed.is_some() && seat.given.is_none() => self.newer(seat, pull),
            Phase::Running => None,
            Phase::Draining { reason, .. } => {
                let reported = self
                    .last_eval
                    .as_ref()
                    .is_some_and(|eval| eval.version == self.version);
                let given = seat.given == Some(self.version);
                match reported || given || self.began.is_none() {
                    true => Some(Answer::Stop {
                        reason: reason.clone(),
                    }),
                    false => self.newer(seat, pull),
                }
            }
            Phase::Finished => Some(Answer::Stop {
                reason: "the run is over".into(),
            }),
        }
    }

    /// An evaluator's report: logged, and read by the stopping rule.
    pub(super) fn report(&mut self, session: SessionId, evaluation: Evaluation, out: &mut Vec<Action>) {
        let Some(seat) = self.members.seat(session) else {
            return;
        };
        if seat.role != Role::Evaluator {
            let refusal = Refusal::WrongRole("a trainer does not report evaluations");
            out.push(Action::Close { session, refusal });
            return;
        }
        // A version that this evaluator does not owe: of a life before, never handed out, or reported already.
        let owed = seat.owed.filter(|owed| owed.version == evaluation.version);
        let Some(Owed { version, elapsed_s }) = owed else {
            return;
        };
        if self.phase == Phase::Finished {
            return;
        }
        let eval = Eval {
            version,
            test_accuracy: evaluation.accuracy,
            test_loss: evaluation.loss,
            elapsed_s,
            reported_s: self.elapsed_s(),
            eval_s: evaluation.eval_s,
        };
        self.log(Event::Eval(eval), out);
        if let Some(seat) = self.members.seat_mut(session) {
            seat.owed = None;
        }
        self.last_eval = Some(evaluation);
        self.stop_if_due(out);
    }
}
