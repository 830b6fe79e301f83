//! What an `update` must say, given the version and the bounds in force.

use super::{Difference, Replay, differs, same};
use asgc_core::codec::Format;
use asgc_core::config::Mode;
use asgc_core::event::{Decision, RejectReason, Update};
use asgc_core::ids::{Staleness, Version, WorkerId};
use std::collections::BTreeSet;

/// The updates of one round of sync mode, which share a version.
#[derive(Debug, Default)]
pub(super) struct Round {
    workers: BTreeSet<WorkerId>,
    weight: f64,
}

impl Round {
    /// All pushes of a round weigh the same, and together 1.
    pub(super) fn end(&mut self) -> Result<(), Difference> {
        let round = std::mem::take(self);
        if round.workers.is_empty() {
            return Ok(());
        }
        same(
            "weight in a round",
            round.weight,
            1.0 / round.workers.len() as f64,
        )
    }
}

impl Replay {
    pub(super) fn check_update(&mut self, update: &Update) -> Result<(), Difference> {
        self.check_payload(update)?;
        let latest = self.revision(update.worker_id);
        if update.controls_revision.0 > latest {
            return Err(differs(
                "controls_revision",
                update.controls_revision,
                format!("at most {latest}"),
            ));
        }
        match update.decision {
            Decision::Rejected => self.check_rejected(update),
            Decision::Accepted | Decision::Downweighted if self.mode == Mode::Sync => {
                self.check_round(update)
            }
            Decision::Accepted | Decision::Downweighted => self.check_applied(update),
        }
    }

    fn check_payload(&self, update: &Update) -> Result<(), Difference> {
        match update.compression_mode {
            Some(Format::Identity) => {
                let dense = 4 * self.parameters;
                same("payload_bytes", update.payload_bytes, dense)?;
            }
            Some(Format::TopK) => same("payload_bytes, in entries of 8", update.payload_bytes % 8, 0)?,
            // Their length depends on the layout or on the bytes.
            Some(_) | None => {}
        }
        if update.decision != Decision::Rejected {
            return same("received_bytes", update.received_bytes, update.payload_bytes);
        }
        if update.received_bytes > update.payload_bytes {
            return Err(differs(
                "received_bytes",
                update.received_bytes,
                "at most payload_bytes",
            ));
        }
        Ok(())
    }

    fn check_rejected(&self, update: &Update) -> Result<(), Difference> {
        same("version after a rejection", update.version.0, self.version.0)?;
        same("weight", update.weight, 0.0)?;
        same("lr", update.lr, 0.0)?;
        let Some(reason) = update.reason else {
            return Err(differs("reason", "none", "a reason for the rejection"));
        };
        let tau = self.version.staleness_of(update.base_version);
        let taken = tau.is_some_and(|tau| self.mode == Mode::Sync || self.policy.weigh(tau).is_some());
        match reason {
            RejectReason::Stale | RejectReason::Late | RejectReason::NonFinite => {
                same("staleness", update.staleness.0, tau.map_or(0, |tau| tau.0))?;
                let expected = (reason != RejectReason::Stale).to_string();
                if self.mode != Mode::Sync {
                    same("whether the bound would take it", taken.to_string(), expected)?;
                }
                Ok(())
            }
            RejectReason::FutureVersion => same("a base that does not exist", tau.is_none(), true),
            RejectReason::WrongGeneration | RejectReason::ForgottenId | RejectReason::Stopped => {
                same("staleness", update.staleness.0, 0)
            }
        }
    }

    fn check_applied(&mut self, update: &Update) -> Result<(), Difference> {
        let Some(tau) = self.version.staleness_of(update.base_version) else {
            return Err(differs(
                "base_version",
                update.base_version,
                format!("at most {}", self.version),
            ));
        };
        same("staleness", update.staleness.0, tau.0)?;
        let weight = self.policy.weigh(tau);
        same("weight", update.weight, weight.unwrap_or(0.0))?;
        let expected = if update.weight < 1.0 {
            Decision::Downweighted
        } else {
            Decision::Accepted
        };
        same("decision", update.decision.as_str(), expected.as_str())?;
        same("lr", update.lr, self.schedule.at(self.version))?;
        let next = self.version.next();
        same("version", update.version.0, next.0)?;
        self.version = next;
        Ok(())
    }

    /// The first of a round moves the version, the others are of the same.
    fn check_round(&mut self, update: &Update) -> Result<(), Difference> {
        let begins = update.version != self.version || self.round.workers.contains(&update.worker_id);
        if begins {
            self.round.end()?;
            same("version", update.version.0, self.version.next().0)?;
            self.version = self.version.next();
            self.round.weight = update.weight;
        }
        self.round.workers.insert(update.worker_id);
        same("weight in a round", update.weight, self.round.weight)?;
        same("decision", update.decision.as_str(), Decision::Accepted.as_str())?;
        same("staleness", update.staleness.0, Staleness(0).0)?;
        let before = Version(self.version.0.saturating_sub(1));
        same("base_version", update.base_version.0, before.0)?;
        same("lr", update.lr, self.schedule.at(before))
    }
}
