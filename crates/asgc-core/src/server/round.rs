//! Sync mode: pushes for the current version are held until enough trainers have sent theirs; the mean is
//! applied once.

use super::Server;
use super::decide::Ruling;
use super::message::{Action, Pushed};
use crate::ids::{PushId, Staleness, WorkerId};
use crate::push::Verdict;
use std::collections::BTreeMap;

/// The pushes held for the current version, at most one a trainer.
#[derive(Debug, Default)]
pub(super) struct Round {
    held: BTreeMap<WorkerId, Box<Pushed>>,
}

impl Round {
    /// Whether this very push is held, so that a repetition is no second push.
    pub(super) fn holds(&self, worker: WorkerId, push: PushId) -> bool {
        self.of(worker) == Some(push)
    }

    /// The push that is held of this worker.
    pub(super) fn of(&self, worker: WorkerId) -> Option<PushId> {
        self.held.get(&worker).map(|pushed| pushed.header.push)
    }

    /// Ends the round, whatever it held.
    pub(super) fn take(&mut self) -> BTreeMap<WorkerId, Box<Pushed>> {
        std::mem::take(&mut self.held)
    }

    /// Forgets what a process pushed that another took the identity of: it was never told a verdict.
    pub(super) fn forget(&mut self, worker: WorkerId) {
        self.held.remove(&worker);
    }
}

impl Server {
    /// Pushes that release a round. Never fewer because workers are missing: only a quorum lowers it.
    fn needed(&self) -> usize {
        self.config
            .server
            .quorum
            .unwrap_or(self.config.workload.num_workers) as usize
    }

    /// Holds a sound push for the current version; releases the round when it was the last one.
    pub(super) fn hold(&mut self, worker: WorkerId, pushed: Box<Pushed>, out: &mut Vec<Action>) {
        self.round.held.insert(worker, pushed);
        if self.round.held.len() >= self.needed() {
            self.release(out);
        }
    }

    /// Applies the mean, then tells everybody.
    fn release(&mut self, out: &mut Vec<Action>) {
        let held = self.round.take();
        let payloads = held
            .values()
            .filter_map(|pushed| pushed.payload.as_ref())
            .collect::<Vec<_>>();
        let Some(parameters) = &mut self.parameters else {
            return;
        };
        // In order of worker ids, so that the sum does not depend on who came first.
        let target = Self::target(parameters, &mut self.downlink);
        let moved = self.optimizer.apply_mean(target, &payloads, self.version);
        self.version = self.version.next();
        self.tally.applied += 1;
        self.note_update(moved, held.iter().map(|(&worker, pushed)| (worker, &**pushed)));
        let weight = 1.0 / held.len() as f64;
        for (worker, pushed) in held {
            // The push counts in full; its weight in the mean says nothing about staleness.
            let verdict = Verdict {
                weight,
                ..Verdict::applied(1.0, Staleness(0), self.version)
            };
            self.settle(
                worker,
                &pushed.header,
                Ruling::applied(verdict, moved.lr, &pushed),
                out,
            );
        }
        self.after_update(out);
    }
}
