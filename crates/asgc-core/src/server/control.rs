//! The controller's decisions: taken when they are due, before the input that finds them due. A new bound on
//! staleness holds at once; a new codec holds from the next gradient that a trainer encodes after it heard of it.
//! An operator's changes hold in the same way.

use super::message::{Action, SessionId, Ticket};
use super::{Phase, Server};
use crate::event::{Control, Event, Operator};
use crate::ids::{Revision, WorkerId};
use crate::push::Controls;

impl Server {
    /// Takes the controller's decision if one is due, and tells everybody whom it concerns.
    pub(super) fn control_if_due(&mut self, out: &mut Vec<Action>) {
        if self.phase != Phase::Running {
            return;
        }
        let elapsed_s = self.elapsed_s();
        if !self.controller.is_on() || !self.controller.is_due(elapsed_s) {
            return;
        }
        let before = self.told();
        if let Some(control) = self.controller.decide(elapsed_s) {
            self.let_hold(control, before, out);
        }
    }

    /// Changes the controls by hand, and answers whoever asked.
    pub(super) fn set_controls(&mut self, ticket: Ticket, operator: Operator, out: &mut Vec<Action>) {
        let before = self.told();
        let elapsed_s = self.elapsed_s();
        let outcome = match self.phase {
            Phase::Running => self.controller.set_by_hand(elapsed_s, operator),
            Phase::Gathering => Err("the run has not begun: it waits for workers".to_owned()),
            Phase::Draining { .. } | Phase::Finished => Err("the run is over".to_owned()),
        };
        if let Ok(control) = &outcome {
            self.let_hold(control.clone(), before, out);
        }
        let outcome = outcome.map(Box::new);
        out.push(Action::ControlsSet { ticket, outcome });
    }

    /// Logs what was decided, moves the bound, and tells the trainers whose codec changed.
    fn let_hold(
        &mut self,
        control: Control,
        before: Vec<(SessionId, WorkerId, Controls)>,
        out: &mut Vec<Action>,
    ) {
        self.policy.set_s_max(self.controller.s_max());
        self.log(Event::Control(control), out);
        for (session, worker, told) in before {
            let controls = self.controller.controls(worker);
            if controls != told {
                out.push(Action::Controls { session, controls });
            }
        }
    }

    /// What each trainer that is there knows of.
    fn told(&self) -> Vec<(SessionId, WorkerId, Controls)> {
        let controls = |(session, worker)| (session, worker, self.controller.controls(worker));
        self.members.trainer_sessions().map(controls).collect()
    }

    /// Tells a trainer that was just let in what has changed since the configuration that it knows.
    pub(super) fn bring_up_to_date(
        &self,
        session: SessionId,
        worker: Option<WorkerId>,
        out: &mut Vec<Action>,
    ) {
        let controls = worker.map(|worker| self.controller.controls(worker));
        let changed = controls.filter(|controls| controls.revision > Revision(0));
        out.extend(changed.map(|controls| Action::Controls { session, controls }));
    }
}
