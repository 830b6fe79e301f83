//! Who may join, under which identity; and who leaves.

use super::members::Seat;
use super::message::{Action, Admission, FrameBytes, Joining, Refusal, SessionId};
use super::{Phase, Server};
use crate::config::{Mode, Role};
use crate::event::{Event, Join, Leave};
use crate::ids::WorkerId;
use std::sync::Arc;

impl Server {
    pub(super) fn join(&mut self, session: SessionId, joining: Box<Joining>, out: &mut Vec<Action>) {
        match self.admissible(&joining) {
            Ok(worker) => self.admit(session, *joining, worker, out),
            Err(refusal) => out.push(Action::Refuse { session, refusal }),
        }
    }

    /// The identity that it would get.
    fn admissible(&self, joining: &Joining) -> Result<Option<WorkerId>, Refusal> {
        if matches!(self.phase, Phase::Draining { .. } | Phase::Finished) {
            return Err(Refusal::Over);
        }
        let (parameters, limit) = (
            joining.layout.parameters() as u64,
            self.config.server.max_parameters,
        );
        if parameters > limit {
            return Err(Refusal::TooLarge { parameters, limit });
        }
        if let Some(difference) = self
            .layout
            .as_ref()
            .and_then(|ours| ours.difference(&joining.layout))
        {
            return Err(Refusal::Layout(difference));
        }
        if joining.role == Role::Evaluator {
            return Ok(None);
        }
        let before = || self.members.of_incarnation(joining.incarnation);
        let worker = joining
            .wanted
            .or_else(before)
            .unwrap_or_else(|| self.members.lowest_free());
        let expected = self.config.workload.num_workers;
        if self.mode == Mode::Sync && worker.0 >= expected {
            return Err(Refusal::Full(expected));
        }
        Ok(Some(worker))
    }

    fn admit(
        &mut self,
        session: SessionId,
        joining: Joining,
        worker: Option<WorkerId>,
        out: &mut Vec<Action>,
    ) {
        let known = worker.and_then(|worker| self.members.trainer(worker));
        let same_process = known.is_some_and(|trainer| trainer.incarnation == joining.incarnation);
        let ghost = match worker {
            Some(_) => known.and_then(|trainer| trainer.session),
            None => self.members.evaluator_of(joining.incarnation),
        };
        if let Some(worker) = worker.filter(|_| !same_process) {
            self.round.forget(worker);
        }
        if let Some(session) = ghost {
            self.members.remove(session);
            let taken_over = worker.filter(|_| !same_process);
            let refusal = taken_over.map_or(Refusal::Superseded, Refusal::Replaced);
            out.push(Action::Close { session, refusal });
        }
        let rejoined = same_process || (worker.is_none() && ghost.is_some());
        self.layout.get_or_insert_with(|| Arc::new(joining.layout));
        let seat = Seat {
            role: joining.role,
            worker,
            incarnation: joining.incarnation,
            name: joining.name,
            rejoined,
            waiting: None,
            given: None,
        };
        if self.began.is_some() {
            out.push(Action::Emit(Event::Join(self.join_event(&seat))));
        }
        self.members.seat_at(session, seat);
        let needs_parameters =
            worker.is_some() && self.parameters.is_none() && self.members.initialiser.is_none();
        if needs_parameters {
            self.members.initialiser = Some(session);
        }
        let admission = Admission {
            worker,
            generation: self.generation,
            needs_parameters,
        };
        out.push(Action::Admit { session, admission });
        self.begin_if_ready(out);
    }

    pub(super) fn join_event(&self, seat: &Seat) -> Join {
        Join {
            worker_id: seat.worker,
            role: seat.role.as_str().to_owned(),
            name: seat.name.clone(),
            rejoined: seat.rejoined,
            elapsed_s: self.elapsed_s(),
        }
    }

    pub(super) fn leave(
        &mut self,
        session: SessionId,
        reason: &str,
        frames: FrameBytes,
        out: &mut Vec<Action>,
    ) {
        let Some(seat) = self.members.remove(session) else {
            return;
        };
        if self.began.is_some() {
            out.push(Action::Emit(Event::Leave(Leave {
                worker_id: seat.worker,
                role: seat.role.as_str().to_owned(),
                reason: reason.to_owned(),
                uplink_frame_bytes: frames.uplink,
                downlink_frame_bytes: frames.downlink,
                elapsed_s: self.elapsed_s(),
            })));
        }
        if self.parameters.is_none() && self.members.initialiser.is_none() {
            self.members.initialiser = self.members.any_trainer_session();
            out.extend(
                self.members
                    .initialiser
                    .map(|session| Action::AskParameters { session }),
            );
        }
        // The slowest of an SSP run may have been the one that left.
        self.answer_waiting(out);
    }
}
