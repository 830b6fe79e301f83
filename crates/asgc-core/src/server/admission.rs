//! Who may join, under which identity; and who leaves.

use super::members::{Seat, Trainer};
use super::message::{Action, Admission, FrameBytes, Joining, Refusal, SessionId};
use super::{Phase, Server};
use crate::config::{Mode, Role};
use crate::event::{Event, Join, Leave};
use crate::ids::WorkerId;
use crate::initial::{Digest, Recipe};
use crate::layout::Layout;
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
        match self.phase {
            // One that was cut off may still learn what became of its pushes, or report.
            Phase::Draining { .. } if self.members.knows(joining.incarnation) => {}
            Phase::Draining { .. } | Phase::Finished => return Err(Refusal::Over),
            Phase::Gathering | Phase::Running => {}
        }
        let (parameters, limit) = (
            joining.layout.parameters() as u64,
            self.config.server.max_parameters,
        );
        if parameters > limit {
            return Err(Refusal::TooLarge { parameters, limit });
        }
        if let Some(difference) = self.difference(&joining.layout) {
            return Err(Refusal::Layout(difference));
        }
        if joining.role == Role::Evaluator {
            return Ok(None);
        }
        let before = || self.members.of_incarnation(joining.incarnation);
        let expected = self.config.workload.num_workers;
        let worker = joining
            .wanted
            .or_else(before)
            .unwrap_or_else(|| self.members.lowest_free(expected));
        if self.mode == Mode::Sync && worker.0 >= expected {
            return Err(Refusal::Full(expected));
        }
        let other =
            |trainer: &Trainer| trainer.session.is_some() && trainer.incarnation != joining.incarnation;
        // The newest process of an identity has it: an older one does not drive it out again.
        if self.members.trainer(worker).is_some_and(other) && self.members.is_retired(joining.incarnation) {
            return Err(Refusal::Replaced(worker));
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
        // A session that the same process left behind, or that another process loses its identity with.
        let ghost = match worker {
            Some(_) => known.and_then(|trainer| trainer.session),
            None => self.members.evaluator_of(joining.incarnation),
        };
        if let Some(worker) = worker.filter(|_| !same_process) {
            self.round.forget(worker);
        }
        if let Some(session) = ghost {
            let taken_over = worker.filter(|_| !same_process);
            let refusal = taken_over.map_or(Refusal::Superseded, Refusal::Replaced);
            // Its bytes are not known: the connection is still open.
            self.unseat(session, &refusal.to_string(), FrameBytes::default(), out);
            out.push(Action::Close { session, refusal });
        }
        let owed = match joining.role {
            Role::Evaluator => self.members.recall_evaluator(joining.incarnation),
            Role::Trainer => None,
        };
        self.take_layout(joining.layout);
        if let Some(recipe) = joining.recipe.filter(|_| worker.is_some()) {
            self.draw_parameters(&recipe);
        }
        let seat = Seat {
            role: joining.role,
            worker,
            incarnation: joining.incarnation,
            name: joining.name,
            rejoined: same_process || owed.is_some(),
            waiting: None,
            held: std::time::Duration::ZERO,
            announced: None,
            given: None,
            owed: owed.flatten(),
        };
        self.log(Event::Join(self.join_event(&seat)), out);
        self.members.seat_at(session, seat);
        let needs_parameters = worker.is_some()
            && self.phase == Phase::Gathering
            && self.parameters.is_none()
            && self.members.initialiser.is_none();
        if needs_parameters {
            self.members.initialiser = Some(session);
        }
        let admission = Admission {
            worker,
            generation: self.generation,
            needs_parameters,
            initial: self.drawn,
        };
        out.push(Action::Admit { session, admission });
        self.bring_up_to_date(session, worker, out);
        self.begin_if_ready(out);
        // Who came back to an SSP run may have been the slowest, and is so no more.
        self.answer_waiting(out);
    }

    /// How a model differs from the run's, in words.
    fn difference(&self, theirs: &Layout) -> Option<String> {
        let ours = self.layout.as_ref()?;
        match self.order_open {
            true => ours.ranges_in_order_of(theirs).err(),
            false => ours.difference(theirs),
        }
    }

    /// The first layout is the run's; initial parameters from a file are put in its order.
    fn take_layout(&mut self, layout: Layout) {
        let file = self.layout.as_ref().filter(|_| self.order_open);
        let ranges = file.and_then(|file| file.ranges_in_order_of(&layout).ok());
        if let Some((ranges, parameters)) = ranges.zip(self.parameters.as_ref()) {
            let values = parameters.to_vec();
            let ordered = ranges.into_iter().flat_map(|range| values[range].iter().copied());
            self.parameters = Some(self.chunked(&ordered.collect::<Vec<_>>()));
            self.layout = None;
        }
        self.order_open = false;
        self.layout.get_or_insert_with(|| Arc::new(layout));
    }

    /// Draws the first parameters, where there are none and nobody was asked for them.
    fn draw_parameters(&mut self, recipe: &Recipe) {
        let Some(layout) = self.layout.clone() else { return };
        if self.parameters.is_none() && self.members.initialiser.is_none() {
            let values = recipe.draw(&layout, self.config.run.seed);
            self.drawn = Some(Digest::of(&values));
            self.parameters = Some(self.chunked(&values));
        }
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
        if !self.unseat(session, reason, frames, out) {
            return;
        }
        if self.phase == Phase::Gathering && self.members.is_empty() && self.drawn.take().is_some() {
            // They are of the layout that nobody vouches for any more.
            self.parameters = None;
        }
        if self.phase == Phase::Gathering && self.parameters.is_none() {
            self.ask_another(out);
        }
        // The slowest of an SSP run may have been the one that left.
        self.answer_waiting(out);
    }

    /// Takes a session's seat, and logs that it left; `false` when it had none.
    fn unseat(
        &mut self,
        session: SessionId,
        reason: &str,
        frames: FrameBytes,
        out: &mut Vec<Action>,
    ) -> bool {
        let Some(seat) = self.members.remove(session) else {
            return false;
        };
        let leave = Leave {
            worker_id: seat.worker,
            role: seat.role.as_str().to_owned(),
            reason: reason.to_owned(),
            uplink_frame_bytes: frames.uplink,
            downlink_frame_bytes: frames.downlink,
            elapsed_s: self.elapsed_s(),
        };
        self.log(Event::Leave(leave), out);
        true
    }

    /// Asks a trainer for initial parameters if the one that was asked has left.
    fn ask_another(&mut self, out: &mut Vec<Action>) {
        if self.members.is_empty() {
            // Nobody is left who vouches for the layout: the first to join may have had the wrong model.
            self.layout = None;
        }
        if self.members.initialiser.is_none() {
            self.members.initialiser = self.members.any_trainer_session();
            let asked = self.members.initialiser;
            out.extend(asked.map(|session| Action::AskParameters { session }));
        }
    }
}
