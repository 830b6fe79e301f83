//! The updates of the last versions, as they were pushed.

use super::{How, Record};
use crate::codec::Payload;
use crate::ids::{Incarnation, PushId, Version};
use std::collections::VecDeque;

/// Numbers that a delta's head may hold, so that it fits in one message however many tensors a model has.
const MAX_NUMBERS: usize = 1 << 18;

/// One push of one version: `theta += factor * D(payload)`.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// The version that it led to; in sync mode, together with the others of its round.
    pub(crate) version: Version,
    pub(crate) factor: f32,
    /// Who pushed it, and how it is called there; `None` for what no worker has.
    pub(crate) author: Option<(Incarnation, PushId)>,
    pub(crate) payload: Payload,
}

/// Steps that lead from [`History::reach`] to now, without a gap.
#[derive(Debug)]
pub(crate) struct History {
    steps: VecDeque<Step>,
    /// The oldest version that a delta can begin at.
    reach: Version,
    bytes: u64,
    most: u64,
}

impl History {
    /// From `version` on; keeps payloads of up to `most` bytes.
    pub(crate) fn new(version: Version, most: u64) -> Self {
        Self {
            steps: VecDeque::new(),
            reach: version,
            bytes: 0,
            most,
        }
    }

    pub(crate) fn push(&mut self, step: Step) {
        self.bytes += step.payload.bytes.len() as u64;
        self.steps.push_back(step);
        while self.bytes > self.most {
            let Some(oldest) = self.steps.front().map(|step| step.version) else {
                return;
            };
            // The steps of a round stand and fall together.
            while let Some(step) = self.steps.pop_front_if(|step| step.version == oldest) {
                self.bytes -= step.payload.bytes.len() as u64;
            }
            self.reach = oldest;
        }
    }

    /// All entries moved on the way to `version`: no delta leads across.
    pub(crate) fn begin_anew(&mut self, version: Version) {
        *self = Self::new(version, self.most);
    }

    /// What leads from `base` to now, for `reader`; `None` where that is not known any more.
    pub(crate) fn since(&self, base: Version, reader: Incarnation) -> Option<Vec<Record>> {
        if base < self.reach {
            return None;
        }
        let from = self.steps.partition_point(|step| step.version <= base);
        let steps = self.steps.range(from..);
        let numbers = steps.clone().map(|step| 4 + step.payload.entries.len());
        if numbers.sum::<usize>() > MAX_NUMBERS {
            return None;
        }
        let own = |step: &Step| step.author.filter(|&(author, _)| author == reader);
        let record = |step: &Step| Record {
            how: How::Add(step.factor),
            own: own(step).map(|(_, push)| push),
            payload: step.payload.clone(),
        };
        Some(steps.map(record).collect())
    }
}
