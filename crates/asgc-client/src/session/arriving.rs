//! An answer to a pull that is coming in, message by message.
//!
//! A snapshot is written over the parameters as it comes, which are none until it is whole. A delta is kept until it is
//! whole, and made then: cut off half-way, it leaves the parameters as they were.

use super::{Outgoing, Pulled, Session};
use crate::error::Meaning;
use asgc_core::ids::{Generation, Version};
use asgc_core::initial::Digest;
use asgc_core::parameters::from_bf16;
use asgc_core::worker::Unusable;
use asgc_proto::convert::{self, Arrived};
use asgc_proto::{bytes_to_floats, v1};
use bytes::{Bytes, BytesMut};
use std::time::Instant;

/// What is coming in.
#[derive(Debug)]
pub(super) enum Arriving {
    /// A snapshot of this version, its values rounded or not.
    Snapshot((Generation, Version), bool),
    /// A delta, and what is there of its payloads.
    Delta(Box<Arrived>, BytesMut),
}

impl Session {
    pub(super) fn begin_snapshot(&mut self, snapshot: &v1::Snapshot) -> Result<(), Meaning> {
        self.answered()?;
        let rounded = convert::parameter_type(snapshot.r#type).map_err(malformed)?;
        let dense = self.layout().dense_bytes();
        if snapshot.size_bytes != if rounded { dense / 2 } else { dense } {
            return Err(super::drive::protocol(
                "a snapshot of another size than the model",
            ));
        }
        // Until it is whole, there is nothing to train on.
        self.known = None;
        self.parameters.clear();
        let at = (Generation(snapshot.generation), Version(snapshot.version));
        self.arriving = Some(Arriving::Snapshot(at, rounded));
        self.take_chunk(&snapshot.data)
    }

    pub(super) fn begin_delta(&mut self, message: &v1::Delta) -> Result<(), Meaning> {
        self.answered()?;
        // More than a snapshot would have been: the server sends no such thing.
        let arrived = convert::delta(message, self.layout().dense_bytes()).map_err(malformed)?;
        let delta = &arrived.delta;
        if self.known != Some((delta.generation, delta.base)) {
            return Err(super::drive::protocol("a delta from another version"));
        }
        let payloads = BytesMut::with_capacity(arrived.size_bytes() as usize);
        self.arriving = Some(Arriving::Delta(Box::new(arrived), payloads));
        self.take_chunk(&message.data)
    }

    pub(super) fn take_chunk(&mut self, data: &[u8]) -> Result<(), Meaning> {
        let whole = self.layout().parameters();
        match self.arriving.take() {
            None => Err(super::drive::protocol("a chunk of nothing")),
            Some(Arriving::Snapshot(at, rounded)) => {
                match rounded {
                    true => from_bf16(data, &mut self.parameters),
                    false => bytes_to_floats(data, &mut self.parameters),
                }
                if self.parameters.len() > whole {
                    return Err(super::drive::protocol("a snapshot longer than it said"));
                }
                if self.parameters.len() == whole {
                    self.fresh(at);
                } else {
                    self.arriving = Some(Arriving::Snapshot(at, rounded));
                }
                Ok(())
            }
            Some(Arriving::Delta(arrived, mut payloads)) => {
                payloads.extend_from_slice(data);
                if payloads.len() as u64 >= arrived.size_bytes() {
                    return self.advance(*arrived, payloads.freeze());
                }
                self.arriving = Some(Arriving::Delta(arrived, payloads));
                Ok(())
            }
        }
    }

    /// Makes the changes of a delta, all or none.
    fn advance(&mut self, arrived: Arrived, payloads: Bytes) -> Result<(), Meaning> {
        let delta = arrived.with(payloads).map_err(malformed)?;
        let records = delta.records.into_iter();
        let changes = records.map(|record| self.worker.change(record));
        match changes.collect::<Result<Vec<_>, _>>() {
            Ok(changes) => {
                let parameters = &mut self.parameters;
                changes
                    .iter()
                    .for_each(|change| change.make_within(0, parameters));
                self.fresh((delta.generation, delta.version));
                Ok(())
            }
            Err(Unusable::Forgotten(push)) => {
                tracing::debug!(
                    push = push.0,
                    "a delta names a push that is forgotten: pulling all"
                );
                self.known = None;
                self.outgoing.push_front(Outgoing::Pull(Instant::now()));
                Ok(())
            }
            Err(Unusable::Payload(error)) => Err(super::drive::protocol(&format!("a delta: {error}"))),
        }
    }

    /// Version 0, where the server drew it and this side draws the same.
    pub(super) fn draw_initial(&mut self) {
        let digest = &self.link.admitted.initial_sha256[..];
        let Some((recipe, seed)) = self.options.initial.as_ref().filter(|_| !digest.is_empty()) else {
            return;
        };
        if self.known.is_some() {
            return;
        }
        let values = recipe.draw(self.layout(), *seed);
        if Digest::of(&values).0[..] == *digest {
            self.parameters = values;
            self.known = Some((self.generation(), Version(0)));
        } else {
            tracing::info!(
                "the server's first parameters are not those that this program draws: pulling them"
            );
        }
    }

    fn fresh(&mut self, at: (Generation, Version)) {
        self.known = Some(at);
        self.worker.pulled(at.1);
        self.answer = Some(Pulled::Fresh);
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err hands over")]
fn malformed(error: convert::Malformed) -> Meaning {
    super::drive::protocol(&error.to_string())
}
