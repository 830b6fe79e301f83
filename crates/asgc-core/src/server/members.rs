//! Who is there: sessions, and the trainers behind them.

use super::ledger::Ledger;
use super::message::{Pull, SessionId};
use crate::config::Role;
use crate::ids::{Incarnation, Version, WorkerId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Identities that are kept; beyond, those of absent trainers go, the highest first.
const MAX_TRAINERS: usize = 4096;

/// Processes that lost their identity and are remembered, so that what they pushed stays decided.
const MAX_RETIRED: usize = 256;

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
    pub(super) waiting: Option<Waiting>,
    /// How long pulls were held since the last push was decided, while the run was on.
    pub(super) held: Duration,
    /// Trainer: the base of a push whose header was welcomed and whose payload is on its way.
    pub(super) announced: Option<Version>,
    /// Evaluator: the last version that this session was given.
    pub(super) given: Option<Version>,
    /// Evaluator: what it has not reported yet, be it from a session before.
    pub(super) owed: Option<Owed>,
}

/// A pull, and since when it waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) pull: Pull,
    pub(super) since: Duration,
}

/// An evaluation that was handed out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Owed {
    pub(super) version: Version,
    /// When the version was handed out.
    pub(super) elapsed_s: f64,
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
    /// Processes that another took the identity of, the latest last.
    retired: VecDeque<(Incarnation, Ledger)>,
    /// The evaluator that left last, and what it owed.
    absent_evaluator: Option<(Incarnation, Option<Owed>)>,
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

    /// How many trainers and lost identities are kept in memory.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> (usize, usize) {
        (self.trainers.len(), self.retired.len())
    }

    /// Sessions whose pull waits for an answer.
    pub(super) fn waiting(&self) -> Vec<SessionId> {
        self.seats
            .iter()
            .filter(|(_, seat)| seat.waiting.is_some())
            .map(|(&session, _)| session)
            .collect()
    }

    /// The trainer behind `worker`, be it there or absent.
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

    /// The clock of a newcomer: level with the slowest, so that it neither waits for it nor holds it back.
    /// When nobody is there, level with the furthest, for those who may come back.
    fn level(&self) -> u64 {
        let furthest = || self.trainers.values().map(|trainer| trainer.clock).max();
        self.slowest_clock().or_else(furthest).unwrap_or(0)
    }

    /// A trainer's session that could send initial parameters.
    pub(super) fn any_trainer_session(&self) -> Option<SessionId> {
        self.live().find_map(|(_, trainer)| trainer.session)
    }

    /// All trainers' sessions.
    pub(super) fn trainer_sessions(&self) -> impl Iterator<Item = (SessionId, WorkerId)> {
        self.live()
            .filter_map(|(&worker, trainer)| Some((trainer.session?, worker)))
    }

    /// The lowest of the `expected` identities that nobody had yet, or else the lowest without a session:
    /// one who is cut off for a moment keeps its identity while there are others.
    pub(super) fn lowest_free(&self, expected: u32) -> WorkerId {
        let unused = |id: &WorkerId| !self.trainers.contains_key(id);
        let free = |id: &WorkerId| self.trainers.get(id).is_none_or(|t| t.session.is_none());
        let first =
            |ids: std::ops::Range<u32>, fits: &dyn Fn(&WorkerId) -> bool| ids.map(WorkerId).find(fits);
        first(0..expected, &unused)
            .or_else(|| first(0..u32::MAX, &free))
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

    /// Whether this process lost its identity to another.
    pub(super) fn is_retired(&self, incarnation: Incarnation) -> bool {
        self.retired.iter().any(|&(theirs, _)| theirs == incarnation)
    }

    /// Whether this process had a seat before, in whatever role.
    pub(super) fn knows(&self, incarnation: Incarnation) -> bool {
        self.of_incarnation(incarnation).is_some()
            || self.is_retired(incarnation)
            || self.evaluator_of(incarnation).is_some()
            || self
                .absent_evaluator
                .is_some_and(|(theirs, _)| theirs == incarnation)
    }

    /// Takes out what is known of an evaluator that left: `None` when it is a new one.
    pub(super) fn recall_evaluator(&mut self, incarnation: Incarnation) -> Option<Option<Owed>> {
        let (_, owed) = self
            .absent_evaluator
            .take_if(|(theirs, _)| *theirs == incarnation)?;
        Some(owed)
    }

    /// Seats `session`, and a trainer under its identity.
    pub(super) fn seat_at(&mut self, session: SessionId, seat: Seat) {
        if let Some(worker) = seat.worker {
            self.take_identity(worker, seat.incarnation, session);
        }
        self.seats.insert(session, seat);
    }

    /// Another process starts a new ledger; its predecessor's is kept, should that one come back elsewhere.
    fn take_identity(&mut self, worker: WorkerId, incarnation: Incarnation, session: SessionId) {
        let level = self.level();
        let mut trainer = match self.trainers.remove(&worker) {
            Some(known) if known.incarnation == incarnation => known,
            other => {
                let ledger = self.recall_ledger(incarnation);
                self.retired
                    .extend(other.map(|trainer| (trainer.incarnation, trainer.ledger)));
                Trainer {
                    session: None,
                    incarnation,
                    ledger,
                    clock: level,
                }
            }
        };
        trainer.clock = trainer.clock.max(level);
        trainer.session = Some(session);
        self.trainers.insert(worker, trainer);
        self.drop_surplus();
    }

    /// The verdicts given to this process under an identity that it lost.
    fn recall_ledger(&mut self, incarnation: Incarnation) -> Ledger {
        let place = self.retired.iter().position(|&(theirs, _)| theirs == incarnation);
        place
            .and_then(|place| self.retired.remove(place))
            .map_or_else(Ledger::default, |(_, ledger)| ledger)
    }

    /// Keeps the memory of those who left within bounds.
    fn drop_surplus(&mut self) {
        while self.trainers.len() > MAX_TRAINERS {
            let absent = |(_, trainer): &(&WorkerId, &Trainer)| trainer.session.is_none();
            let Some(worker) = self.trainers.iter().rev().find(absent).map(|(&worker, _)| worker) else {
                break;
            };
            let trainer = self.trainers.remove(&worker);
            self.retired
                .extend(trainer.map(|trainer| (trainer.incarnation, trainer.ledger)));
        }
        let surplus = self.retired.len().saturating_sub(MAX_RETIRED);
        self.retired.drain(..surplus);
    }

    /// Removes a seat; the identity behind it stays.
    pub(super) fn remove(&mut self, session: SessionId) -> Option<Seat> {
        let seat = self.seats.remove(&session)?;
        if self.initialiser == Some(session) {
            self.initialiser = None;
        }
        if seat.role == Role::Evaluator {
            self.absent_evaluator = Some((seat.incarnation, seat.owed));
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
