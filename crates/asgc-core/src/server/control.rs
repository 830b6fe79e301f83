//! The controller's decisions: taken when they are due, before the input that finds them due. A new bound on
//! staleness holds at once; a new codec holds from the next gradient that a trainer encodes after it heard of it.

use super::message::{Action, SessionId};
use super::{Phase, Server};
use crate::event::Event;
use crate::ids::{Revision, WorkerId};

impl Server {
    /// Takes the controller's decision if one is due, and tells everybody whom it concerns.
    pub(super) fn control_if_due(&mut self, out: &mut Vec<Action>) {
        if self.phase != Phase::Running {
            return;
        }
        let elapsed_s = self.elapsed_s();
        let Some(controller) = &mut self.controller else {
            return;
        };
        let before = controller.controls();
        let Some(control) = controller.decide(elapsed_s) else {
            return;
        };
        let controls = controller.controls();
        self.policy.set_s_max(controller.s_max());
        self.log(Event::Control(control), out);
        if controls != before {
            let told = self.members.trainer_sessions();
            out.extend(told.map(|session| Action::Controls { session, controls }));
        }
    }

    /// Tells a trainer that was just let in what has changed since the configuration that it knows.
    pub(super) fn bring_up_to_date(
        &self,
        session: SessionId,
        worker: Option<WorkerId>,
        out: &mut Vec<Action>,
    ) {
        let controls = self.controller.as_ref().map(|controller| controller.controls());
        let changed = controls.filter(|controls| controls.revision > Revision(0));
        let told = changed.filter(|_| worker.is_some());
        out.extend(told.map(|controls| Action::Controls { session, controls }));
    }
}
