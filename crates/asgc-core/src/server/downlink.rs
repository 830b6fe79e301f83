//! What a pull is answered with: all parameters, or what leads to them from those that the worker holds.

use super::Server;
use super::members::Seat;
use super::message::{Answer, Pull, Pushed};
use crate::codec::Payload;
use crate::config::{DownlinkDtype, DownlinkMode, Role};
use crate::downlink::{Broadcast, Delta, History, Record, Step};
use crate::ids::{Version, WorkerId};
use crate::optimizer::{Moved, Target};
use crate::parameters::Parameters;
use bytes::Bytes;
use std::sync::Arc;

/// Payloads that are kept for deltas come to at most this share of the parameters' bytes.
const MOST_OF_SNAPSHOT: u64 = 2;

/// Where records come to more than this share of a snapshot, the entries that they changed may be shorter.
const LONG: u64 = 8;

/// Payloads of fewer bytes are copied when they are kept.
const SHORT: usize = 1 << 16;

/// What is kept for those who hold an older version.
#[derive(Debug)]
pub(super) enum Downlink {
    /// Nothing.
    Snapshot,
    /// The updates of the last versions.
    Exact(History),
    /// The view that trainers share.
    Lossy(Box<Broadcast>),
}

impl Server {
    /// Parameters and layout are as they stay: from here on there are versions to come from.
    pub(super) fn open_downlink(&mut self) {
        let Some(layout) = self.layout.clone() else { return };
        let most = layout.dense_bytes() / MOST_OF_SNAPSHOT;
        let settings = &self.config.downlink;
        let lossy = || Broadcast::new(settings, layout, (self.version, most)).ok();
        self.downlink = match settings.mode {
            DownlinkMode::Delta => Downlink::Exact(History::new(self.version, most)),
            DownlinkMode::Lossy => lossy().map_or(Downlink::Snapshot, |view| Downlink::Lossy(view.into())),
            DownlinkMode::Snapshot => Downlink::Snapshot,
        };
    }

    /// What the next update moves.
    pub(super) fn target<'a>(parameters: &'a mut Parameters, downlink: &'a mut Downlink) -> Target<'a> {
        Target {
            theta: parameters,
            shadow: match downlink {
                Downlink::Lossy(broadcast) => Some(broadcast.pending_mut()),
                Downlink::Snapshot | Downlink::Exact(_) => None,
            },
        }
    }

    /// An update of these pushes led to the present version.
    pub(super) fn note_update<'a>(
        &mut self,
        moved: Moved,
        pushes: impl Iterator<Item = (WorkerId, &'a Pushed)>,
    ) {
        let (version, members) = (self.version, &self.members);
        match (&mut self.downlink, moved.factor) {
            (Downlink::Snapshot, _) => {}
            (Downlink::Lossy(broadcast), _) => broadcast.moved(version),
            (Downlink::Exact(history), None) => history.begin_anew(version),
            (Downlink::Exact(history), Some(factor)) => {
                for (worker, pushed) in pushes {
                    let author = members.trainer(worker).map(|trainer| trainer.incarnation);
                    let author = author.map(|author| (author, pushed.header.push));
                    let payload = pushed.payload.as_ref().map(|checked| kept(checked.payload()));
                    let step = payload.map(|payload| Step {
                        version,
                        factor,
                        author,
                        payload,
                    });
                    step.into_iter().for_each(|step| history.push(step));
                }
            }
        }
    }

    /// The version that a trainer can have now.
    pub(super) fn offered(&self) -> Version {
        match &self.downlink {
            Downlink::Lossy(broadcast) => broadcast.at(),
            Downlink::Snapshot | Downlink::Exact(_) => self.version,
        }
    }

    /// Newer parameters than those of `pull`.
    pub(super) fn newer(&self, seat: &Seat, pull: Pull) -> Option<Answer> {
        let known = pull
            .known
            .filter(|&(generation, _)| generation == self.generation);
        let known = known.map(|(_, version)| version);
        match (&self.downlink, seat.role) {
            (Downlink::Lossy(broadcast), Role::Trainer) => known
                .and_then(|base| self.delta(base, broadcast.since(base)?))
                .or_else(|| self.view(broadcast)),
            (Downlink::Exact(history), _) => known
                .and_then(|base| self.delta(base, history.since(base, seat.incarnation)?))
                .or_else(|| self.snapshot(seat.role)),
            (Downlink::Snapshot, _) | (Downlink::Lossy(_), Role::Evaluator) => self.snapshot(seat.role),
        }
    }

    fn delta(&self, base: Version, records: Vec<Record>) -> Option<Answer> {
        let mut delta = Delta {
            generation: self.generation,
            base,
            version: self.offered(),
            records,
            whole: None,
        };
        let layout = self.layout.as_ref()?;
        let exact = matches!(self.downlink, Downlink::Exact(_));
        if exact && delta.records.len() > 1 && delta.payload_bytes() > layout.dense_bytes() / LONG {
            delta.whole = Some((Arc::clone(layout), self.parameters.as_ref()?.snapshot()));
        }
        Some(Answer::Delta(delta))
    }

    fn view(&self, broadcast: &Broadcast) -> Option<Answer> {
        Some(Answer::Snapshot {
            generation: self.generation,
            version: broadcast.at(),
            chunks: broadcast.view(self.parameters.as_ref()?),
            rounded: self.rounds(Role::Trainer),
        })
    }

    fn snapshot(&self, role: Role) -> Option<Answer> {
        Some(Answer::Snapshot {
            generation: self.generation,
            version: self.version,
            chunks: self.parameters.as_ref()?.snapshot(),
            rounded: self.rounds(role),
        })
    }

    /// Whether snapshots for this role are rounded: what an evaluator measures is what the run made.
    fn rounds(&self, role: Role) -> bool {
        role == Role::Trainer && self.config.downlink.dtype == DownlinkDtype::Bf16
    }
}

/// A short payload may be a small part of the buffer that it arrived in, which would be kept with it.
fn kept(payload: &Payload) -> Payload {
    let bytes = match payload.bytes.len() < SHORT {
        true => Bytes::copy_from_slice(&payload.bytes),
        false => payload.bytes.clone(),
    };
    Payload {
        bytes,
        ..payload.clone()
    }
}
