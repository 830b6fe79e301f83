//! The trainers' part: what they send next, and when they compute.

use super::{Cluster, Happening};
use crate::simulate::Error;
use crate::simulate::network::Place;
use crate::simulate::trainer::{Outgoing, Step};

impl Cluster<'_> {
    /// Wants parameters.
    pub(super) fn pull(&mut self, place: Place) {
        let now = self.agenda.now();
        match self.trainers.get_mut(place) {
            Some(trainer) => {
                trainer.wish(now);
                self.send(place);
            }
            None => self.ask(place),
        }
    }

    /// Sends what a trainer has to send, as far as nothing of it waits.
    pub(super) fn send(&mut self, place: Place) {
        let now = self.agenda.now();
        while let Some(outgoing) = self.trainers[place].next_outgoing() {
            let trainer = &mut self.trainers[place];
            match outgoing {
                Outgoing::Pull(from) if trainer.leaves(from) <= now => self.ask(place),
                Outgoing::Pull(from) => {
                    trainer.pulling = true;
                    self.agenda.at(trainer.leaves(from), Happening::Ask(place));
                }
                Outgoing::Push(push, from) if push.asks_first => {
                    trainer.begin(push, from);
                    self.ask_first(place);
                }
                Outgoing::Push(push, from) => {
                    let id = push.header.push;
                    trainer.begin(push, from);
                    let wait = trainer.ready(now);
                    self.agenda.after(wait, Happening::Upload(place, id));
                }
            }
        }
    }

    /// The delay before a pull is over.
    pub(super) fn pull_leaves(&mut self, place: Place) {
        let trainer = &mut self.trainers[place];
        trainer.pulling = false;
        if !trainer.gone {
            self.ask(place);
            self.send(place);
        }
    }

    /// Begins a gradient where one may begin.
    pub(super) fn compute(&mut self, place: Place) {
        let now = self.agenda.now();
        if let Some(takes) = self.trainers[place].compute(now, &self.pool) {
            self.agenda.after(takes, Happening::Computed(place));
        }
    }

    pub(super) fn computed(&mut self, place: Place) -> Result<(), Error> {
        let now = self.agenda.now();
        let trainer = &mut self.trainers[place];
        // It may have been told to stop while it computed.
        if trainer.gone {
            return Ok(());
        }
        match trainer.computed(now)? {
            Step::Diverged(reason) => return self.leave(place, &reason),
            Step::Unfit => self.pull(place),
            Step::Push(push) => {
                let deep = trainer.pipeline.is_deep();
                trainer.hand_in(push, now);
                if deep {
                    trainer.wish(now);
                }
                self.send(place);
            }
        }
        self.compute(place);
        Ok(())
    }
}
