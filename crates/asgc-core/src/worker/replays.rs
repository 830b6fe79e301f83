//! The pushes that the worker's parameters lack: a delta names them, and does not bring them again.

use super::{MAX_IN_FLIGHT, Worker};
use crate::codec::{Payload, PayloadError};
use crate::downlink::{Change, Record};
use crate::ids::{PushId, Version};
use std::collections::BTreeMap;

/// A record that cannot be made use of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// A push that the worker does not have any more: all parameters are needed.
    #[error("the delta names push {0}, which this worker does not have any more")]
    Forgotten(PushId),
    /// Its payload is none.
    #[error(transparent)]
    Payload(#[from] PayloadError),
}

/// Payloads that were applied, by push, with the version that they led to.
#[derive(Debug, Default)]
pub(super) struct Replays {
    applied: BTreeMap<PushId, (Version, Payload)>,
}

impl Replays {
    /// A push led to `version`. Of more than can have been made since the last pull, the oldest goes.
    pub(super) fn keep(&mut self, push: PushId, version: Version, payload: Payload) {
        self.applied.insert(push, (version, payload));
        if self.applied.len() > 2 * MAX_IN_FLIGHT {
            self.applied.pop_first();
        }
    }

    pub(super) fn clear(&mut self) {
        self.applied.clear();
    }
}

impl Worker {
    /// The worker has the parameters of `version`.
    pub fn pulled(&mut self, version: Version) {
        self.replays.applied.retain(|_, (led_to, _)| *led_to > version);
    }

    /// What a record of a delta changes.
    ///
    /// # Errors
    /// When its payload does not fit the model, or it is a push that was forgotten.
    pub fn change(&self, record: Record) -> Result<Change, Unusable> {
        let payload = match record.own {
            None => record.payload,
            Some(push) => self.own(push).cloned().ok_or(Unusable::Forgotten(push))?,
        };
        Ok(Change::new(record.how, payload.check(self.layout())?))
    }

    fn own(&self, push: PushId) -> Option<&Payload> {
        let applied = self.replays.applied.get(&push).map(|(_, payload)| payload);
        // Its verdict may still be on its way.
        applied.or_else(|| self.in_flight.get(&push).map(|push| &push.payload))
    }
}
