//! The way down: what a worker is sent instead of all parameters.
//!
//! | `downlink.mode` | what a [`Delta`] holds | what a worker then has |
//! |---|---|---|
//! | `delta` | the updates since its version, as they were pushed ([`history`]), or the entries that they changed ([`changes`]), whichever is shorter | the server's parameters, to the bit |
//! | `lossy` | the broadcasts since its version ([`broadcast`]) | the view that all trainers share, to rounding |
//!
//! An update is a payload that the server has already and one factor, so that an exact delta costs the server no work and
//! the worker as many operations as the updates had. Of its own pushes a worker needs the factor only.

mod broadcast;
mod changes;
mod history;
#[cfg(test)]
mod tests;

pub(crate) use broadcast::Broadcast;
pub(crate) use history::{History, Step};

use crate::codec::{CheckedPayload, Payload};
use crate::ids::{Generation, PushId, Version};
use crate::layout::Layout;
use crate::parameters::{Chunk, Parameters};
use std::sync::Arc;

/// What a record's values are for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum How {
    /// Added, times this factor.
    Add(f32),
    /// Put in the place of what is there.
    Set,
}

/// One part of a delta, as it travels.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// What its values are for.
    pub how: How,
    /// The reader's own push that this is; its payload need not be sent.
    pub own: Option<PushId>,
    /// Which entries, and their values.
    pub payload: Payload,
}

/// The way from one version to another: its records, one after the other.
#[derive(Debug, Clone)]
pub struct Delta {
    /// The server's life.
    pub generation: Generation,
    /// The version that the worker holds.
    pub base: Version,
    /// The version that it leads to.
    pub version: Version,
    /// In order.
    pub records: Vec<Record>,
    /// Layout and parameters at `version`, for [`Delta::shortest`]; `None` where the records are short as they are.
    pub whole: Option<(Arc<Layout>, Vec<Chunk>)>,
}

impl Delta {
    /// What its payloads come to, in bytes.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        payload_bytes(&self.records)
    }

    /// The same with the entries that were changed in place of the records, where that is shorter. It may take a moment: not
    /// for whoever applies updates.
    #[must_use]
    pub fn shortest(mut self) -> Self {
        let Some((layout, chunks)) = self.whole.take() else {
            return self;
        };
        match changes::changes(&self.records, &chunks, &layout) {
            Some(payload) if (payload.bytes.len() as u64) < self.payload_bytes() => {
                self.records = vec![Record {
                    how: How::Set,
                    own: None,
                    payload,
                }];
                self
            }
            _ => self,
        }
    }
}

fn payload_bytes(records: &[Record]) -> u64 {
    let sent = records.iter().filter(|record| record.own.is_none());
    sent.map(|record| record.payload.bytes.len() as u64).sum()
}

/// A record that was found sound for the model.
#[derive(Debug, Clone)]
pub struct Change {
    how: How,
    payload: CheckedPayload,
}

impl Change {
    /// Of a record whose payload was checked.
    #[must_use]
    pub fn new(how: How, payload: CheckedPayload) -> Self {
        Self { how, payload }
    }

    /// Makes the change in the entries `[from, from + target.len())` of the parameters.
    pub fn make_within(&self, from: usize, target: &mut [f32]) {
        match self.how {
            How::Add(factor) => self.payload.add_scaled_within(factor, from, target),
            How::Set => self.payload.set_within(from, target),
        }
    }

    /// Makes the change in chunked parameters; those chunks that others read and it touches are copied.
    pub fn make(&self, parameters: &mut Parameters) {
        parameters.for_each_touched(&self.payload, |from, chunk| self.make_within(from, chunk));
    }
}
