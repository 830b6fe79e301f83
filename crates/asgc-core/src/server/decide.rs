//! What becomes of a push: repeated, refused, held for its round, or applied.

use super::ledger::Known;
use super::message::{Action, Pushed, Refusal, SessionId};
use super::{Phase, Server};
use crate::config::Mode;
use crate::event::{Event, RejectReason, Update};
use crate::ids::{Staleness, Version, WorkerId};
use crate::push::{PushHeader, Verdict};
use crate::worker::MAX_IN_FLIGHT;

/// What the header alone says.
enum Outlook {
    /// Decided before: the same verdict again.
    Repeated(Verdict),
    /// Will not be taken, whatever the payload.
    Refused(RejectReason, Staleness),
    /// May be taken: how stale it is now, and the weight it would have.
    Welcome(Staleness, f64),
}

/// A verdict with what the log says of it.
#[derive(Clone, Copy)]
pub(super) struct Ruling {
    verdict: Verdict,
    lr: f64,
    received_bytes: u64,
    decode_s: f64,
}

impl Ruling {
    /// Applied; the payload arrived whole.
    pub(super) fn applied(verdict: Verdict, lr: f64, pushed: &Pushed) -> Self {
        Self {
            verdict,
            lr,
            received_bytes: pushed.header.payload_bytes,
            decode_s: pushed.decode_s,
        }
    }

    /// Rejected, after the payload arrived whole.
    pub(super) fn rejected(reason: RejectReason, tau: Staleness, v: Version, pushed: &Pushed) -> Self {
        Self::applied(Verdict::rejected(reason, tau, v), 0.0, pushed)
    }

    /// Rejected before the whole payload arrived.
    fn early(reason: RejectReason, tau: Staleness, v: Version, received_bytes: u64) -> Self {
        Self {
            verdict: Verdict::rejected(reason, tau, v),
            lr: 0.0,
            received_bytes,
            decode_s: 0.0,
        }
    }
}

impl Server {
    /// A header ahead of its payload. Staleness only grows, so a push that is too stale now is refused now.
    pub(super) fn announce(
        &mut self,
        session: SessionId,
        header: &PushHeader,
        (asks, received_bytes): (bool, u64),
        out: &mut Vec<Action>,
    ) {
        let Some(worker) = self.trainer_behind(session, out) else {
            return;
        };
        let push = header.push;
        if self.round.holds(worker, push) {
            return;
        }
        match self.outlook(worker, header) {
            Outlook::Repeated(verdict) => out.push(Action::Verdict {
                session,
                push,
                verdict,
            }),
            Outlook::Refused(reason, tau) => {
                let ruling = Ruling::early(reason, tau, self.version, received_bytes);
                self.reject(worker, header, ruling, out);
            }
            Outlook::Welcome(..) => {
                if let Some(seat) = self.members.seat_mut(session) {
                    seat.announced = Some(header.base);
                }
                out.extend(asks.then_some(Action::Proceed { session, push }));
            }
        }
    }

    pub(super) fn push(&mut self, session: SessionId, pushed: Box<Pushed>, out: &mut Vec<Action>) {
        let Some(worker) = self.trainer_behind(session, out) else {
            return;
        };
        if let Some(seat) = self.members.seat_mut(session) {
            seat.announced = None;
        }
        let (header, push) = (&pushed.header, pushed.header.push);
        if self.round.holds(worker, push) {
            return;
        }
        let rejected = |reason, tau| Ruling::rejected(reason, tau, self.version, &pushed);
        match (self.outlook(worker, header), &pushed.payload) {
            (Outlook::Repeated(verdict), _) => out.push(Action::Verdict {
                session,
                push,
                verdict,
            }),
            (Outlook::Refused(reason, tau), _) => self.reject(worker, header, rejected(reason, tau), out),
            (Outlook::Welcome(tau, _), None) => {
                self.reject(worker, header, rejected(RejectReason::NonFinite, tau), out);
            }
            (Outlook::Welcome(..), Some(_)) if self.mode == Mode::Sync => self.hold(worker, pushed, out),
            (Outlook::Welcome(tau, weight), Some(payload)) => {
                let Some(parameters) = &mut self.parameters else {
                    return;
                };
                let target = Self::target(parameters, &mut self.downlink);
                let moved = self.optimizer.apply(target, payload, weight, self.version);
                self.version = self.version.next();
                self.tally.applied += 1;
                self.note_update(moved, std::iter::once((worker, &*pushed)));
                let verdict = Verdict::applied(weight, tau, self.version);
                self.settle(worker, header, Ruling::applied(verdict, moved.lr, &pushed), out);
                self.after_update(out);
            }
        }
    }

    /// The trainer of a session; an evaluator that pushes is sent away.
    fn trainer_behind(&self, session: SessionId, out: &mut Vec<Action>) -> Option<WorkerId> {
        let worker = self.members.seat(session)?.worker;
        if worker.is_none() {
            let refusal = Refusal::WrongRole("an evaluator does not push gradients");
            out.push(Action::Close { session, refusal });
        }
        worker
    }

    fn outlook(&self, worker: WorkerId, header: &PushHeader) -> Outlook {
        let known = self
            .members
            .trainer(worker)
            .map(|trainer| trainer.ledger.look_up(header.push));
        match known {
            Some(Known::Decided(verdict)) => return Outlook::Repeated(verdict),
            Some(Known::Forgotten) => return Outlook::Refused(RejectReason::ForgottenId, Staleness(0)),
            Some(Known::New) | None => {}
        }
        if matches!(self.phase, Phase::Draining { .. } | Phase::Finished) {
            return Outlook::Refused(RejectReason::Stopped, Staleness(0));
        }
        if header.generation != self.generation {
            return Outlook::Refused(RejectReason::WrongGeneration, Staleness(0));
        }
        if self.phase == Phase::Gathering {
            return Outlook::Refused(RejectReason::FutureVersion, Staleness(0));
        }
        let Some(tau) = self.version.staleness_of(header.base) else {
            return Outlook::Refused(RejectReason::FutureVersion, Staleness(0));
        };
        if self.mode == Mode::Sync {
            // One push a round: a second one is as late as one for a round that is over.
            return match (tau, self.round.of(worker)) {
                (Staleness(0), None) => Outlook::Welcome(tau, 1.0),
                _ => Outlook::Refused(RejectReason::Late, tau),
            };
        }
        match self.policy.weigh(tau) {
            Some(weight) => Outlook::Welcome(tau, weight),
            None => Outlook::Refused(RejectReason::Stale, tau),
        }
    }

    fn reject(&mut self, worker: WorkerId, header: &PushHeader, ruling: Ruling, out: &mut Vec<Action>) {
        self.settle(worker, header, ruling, out);
        // SSP counts decided pushes, so somebody may have waited for this one.
        self.answer_waiting(out);
    }

    /// Records a verdict, logs it and tells the worker. Pushes that come after the stop are no part of the
    /// run: they are answered, but not logged.
    pub(super) fn settle(
        &mut self,
        worker: WorkerId,
        header: &PushHeader,
        ruling: Ruling,
        out: &mut Vec<Action>,
    ) {
        let verdict = ruling.verdict;
        let elapsed_s = self.elapsed_s();
        let Some(trainer) = self.members.trainer_mut(worker) else {
            return;
        };
        if verdict.reason != Some(RejectReason::ForgottenId) {
            trainer.ledger.record(header.push, verdict);
            trainer.clock += 1;
        }
        let session = trainer.session;
        if self.began.is_some() && verdict.reason != Some(RejectReason::Stopped) {
            let held = session
                .and_then(|session| self.members.seat_mut(session))
                .map(|seat| std::mem::take(&mut seat.held));
            let update = Update {
                pull_held_s: held.unwrap_or_default().as_secs_f64(),
                ..update_event(worker, header, &ruling, elapsed_s)
            };
            self.tally.count(&update);
            self.log(Event::Update(update), out);
        }
        out.extend(session.map(|session| Action::Verdict {
            session,
            push: header.push,
            verdict,
        }));
    }

    /// The version moved: the run may be over, and pulls may have waited for it.
    pub(super) fn after_update(&mut self, out: &mut Vec<Action>) {
        self.stop_if_due(out);
        self.answer_waiting(out);
    }
}

fn update_event(worker: WorkerId, header: &PushHeader, ruling: &Ruling, elapsed_s: f64) -> Update {
    let (verdict, measured) = (ruling.verdict, header.measured);
    Update {
        worker_id: worker,
        version: verdict.version,
        staleness: verdict.staleness,
        payload_bytes: header.payload_bytes,
        received_bytes: ruling.received_bytes,
        fetch_s: measured.fetch_s,
        compute_s: measured.compute_s,
        encode_s: measured.encode_s,
        decision: verdict.decision,
        reason: verdict.reason,
        weight: verdict.weight,
        residual_norm: measured.residual_norm,
        loss: measured.loss,
        samples: measured.samples,
        push_id: header.push,
        lr: ruling.lr,
        controls_revision: header.controls,
        compression_mode: Some(header.format),
        base_version: header.base,
        gradient_norm: measured.gradient_norm,
        residual_dropped: measured.dropped.sum,
        residual_dropped_norm: measured.dropped.norm,
        decode_s: ruling.decode_s,
        rtt_s: measured.link.map(|link| link.rtt_s),
        upload_bytes: measured.link.map(|link| link.upload_bytes),
        upload_s: measured.link.map(|link| link.upload_s),
        pipeline_depth: measured.pipeline_depth.clamp(1, MAX_IN_FLIGHT as u32),
        pull_held_s: 0.0,
        elapsed_s,
    }
}
