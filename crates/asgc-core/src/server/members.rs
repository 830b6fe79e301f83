//! Who is there: sessions, and the trainers behind them.

use super::ledger::Ledger;
use super::message::{Pull, SessionId};
use crate::config::Role;
use crate::ids::{Incarnation, Version, WorkerId};
use std::collections::BTreeMap;

/// A session that was let in.
#[derive(Debug, Clone)]
pub(super) struct Seat {
    pub(super) role: Role,
    /// `None` for an evaluator.
    pub(super) worker: Option<WorkerId>,
    pub(super) incarnation: Incarnation,
    pub(super) name: String,
    /// This process had a seat before.
    pub(super) rejoined: bool,
    /// A pull without an answer yet.
    pub(super) waiting: Option<Pull>,
    /// Evaluator: the version it was given, and the `elapsed_s` of that moment.
    pub(super) given: Option<(Version, f64)>,
}

/// A trainer's identity; outlives its sessions.
#[derive(Debug, Clone)]
pub(super) struct Trainer {
    pub(super) session: Option<SessionId>,
    pub(super) incarnation: Incarnation,
    pub(super) ledger: Ledger,
    /// Pushes decided: the worker's clock in the sense of SSP.
    pub(super) clock: u64,
}

#[derive(Debug, Default)]
pub(super) struct Members {
    seats: BTreeMap<SessionId, Seat>,
    trainers: BTreeMap<WorkerId, Trainer>,
    /// Who was asked for initial parameters.
    pub(super) initialiser: Option<SessionId>,
}

impl Members {
    pub(super) fn seat(&self, session: SessionId) -> Option<&Seat> {
        self.seats.get(&session)
    }

    pub(super) fn seat_mut(&mut self, session: SessionId) -> Option<&mut Seat> {
        self.seats.get_mut(&session)
    }

    pub(super) fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.seats.values()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// Sessions whose pull waits for an answer.
    pub(super) fn waiting(&self) -> Vec<SessionId> {
        self.seats
            .iter()
            .filter(|(_, seat)| seat.waiting.is_some())
            .map(|(&session, _)| session)
            .collect()
    }

    pub(super) fn trainer(&self, worker: WorkerId) -> Option<&Trainer> {
        self.trainers.get(&worker)
    }

    pub(super) fn trainer_mut(&mut self, worker: WorkerId) -> Option<&mut Trainer> {
        self.trainers.get_mut(&worker)
    }

    /// Trainers with a session.
    pub(super) fn live_trainers(&self) -> usize {
        self.live().count()
    }

    /// The lowest clock of a trainer with a session.
    pub(super) fn slowest_clock(&self) -> Option<u64> {
        self.live().map(|(_, trainer)| trainer.clock).min()
    }

    /// A trainer's session that could send initial parameters.
    pub(super) fn any_trainer_session(&self) -> Option<SessionId> {
        self.live().find_map(|(_, trainer)| trainer.session)
    }

    /// The lowest identity without a session.
    pub(super) fn lowest_free(&self) -> WorkerId {
        let taken = |id: &WorkerId| self.trainers.get(id).is_some_and(|t| t.session.is_some());
        (0..=u32::MAX)
            .map(WorkerId)
            .find(|id| !taken(id))
            .unwrap_or_default()
    }

    /// The identity that this process has or had.
    pub(super) fn of_incarnation(&self, incarnation: Incarnation) -> Option<WorkerId> {
        let theirs = |(_, trainer): &(&WorkerId, &Trainer)| trainer.incarnation == incarnation;
        self.trainers.iter().find(theirs).map(|(&worker, _)| worker)
    }

    /// An evaluator's seat that the same process left behind.
    pub(super) fn evaluator_of(&self, incarnation: Incarnation) -> Option<SessionId> {
        let theirs =
            |(_, seat): &(&SessionId, &Seat)| seat.role == Role::Evaluator && seat.incarnation == incarnation;
        self.seats.iter().find(theirs).map(|(&session, _)| session)
    }

    /// Seats `session`, and a trainer under its identity: a new life of the process starts a new ledger.
    pub(super) fn seat_at(&mut self, session: SessionId, seat: Seat) {
        if let Some(worker) = seat.worker {
            let clock = self.slowest_clock().unwrap_or(0);
            let fresh = Trainer {
                session: None,
                incarnation: seat.incarnation,
                ledger: Ledger::default(),
                // A newcomer starts level with the slowest: it neither waits for it nor holds it back.
                clock,
            };
            let trainer = self.trainers.entry(worker).or_insert_with(|| fresh.clone());
            if trainer.incarnation != seat.incarnation {
                *trainer = fresh;
            }
            trainer.clock = trainer.clock.max(clock);
            trainer.session = Some(session);
        }
        self.seats.insert(session, seat);
    }

    /// Removes a seat; the identity behind it stays.
    pub(super) fn remove(&mut self, session: SessionId) -> Option<Seat> {
        let seat = self.seats.remove(&session)?;
        if self.initialiser == Some(session) {
            self.initialiser = None;
        }
        if let Some(trainer) = seat.worker.and_then(|worker| self.trainers.get_mut(&worker)) {
            trainer.session = trainer.session.filter(|&current| current != session);
        }
        Some(seat)
    }

    fn live(&self) -> impl Iterator<Item = (&WorkerId, &Trainer)> {
        self.trainers
            .iter()
            .filter(|(_, trainer)| trainer.session.is_some())
    }
}
