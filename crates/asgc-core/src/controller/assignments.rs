//! Which trainer compresses with what, since when, and what an operator has pinned.

use crate::codec::Codec;
use crate::ids::{Revision, WorkerId};
use crate::push::Controls;
use std::collections::{BTreeMap, BTreeSet};

/// Trainers with a codec of their own: as many as the server keeps identities of.
const MAX_KNOWN: usize = 4096;

/// The codecs in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignments {
    /// For trainers that have none of their own yet.
    common: Controls,
    own: BTreeMap<WorkerId, Controls>,
    /// The latest revision that was given out.
    latest: Revision,
    pinned: BTreeSet<WorkerId>,
    all_pinned: bool,
}

impl Assignments {
    /// Everybody with the configured codec.
    #[must_use]
    pub fn new(codec: Codec) -> Self {
        let revision = Revision(0);
        Self {
            common: Controls { revision, codec },
            own: BTreeMap::new(),
            latest: revision,
            pinned: BTreeSet::new(),
            all_pinned: false,
        }
    }

    /// What a trainer is to use.
    #[must_use]
    pub fn of(&self, worker: WorkerId) -> Controls {
        self.own.get(&worker).copied().unwrap_or(self.common)
    }

    /// The latest revision.
    #[must_use]
    pub fn latest(&self) -> Revision {
        self.latest
    }

    /// The codec of trainers that have none of their own.
    #[must_use]
    pub fn common(&self) -> Codec {
        self.common.codec
    }

    /// Makes a trainer known: what holds for it now stays until it is changed. Beyond a limit, trainers share what is
    /// common.
    pub fn know(&mut self, worker: WorkerId) {
        if self.own.len() < MAX_KNOWN {
            self.own.entry(worker).or_insert(self.common);
        }
    }

    /// Whether a trainer is known.
    #[must_use]
    pub fn knows(&self, worker: WorkerId) -> bool {
        self.own.contains_key(&worker)
    }

    /// The codecs of all known trainers; the common one where there are none.
    #[must_use]
    pub fn codecs(&self) -> Vec<Codec> {
        if self.own.is_empty() {
            return vec![self.common.codec];
        }
        self.own.values().map(|controls| controls.codec).collect()
    }

    /// All known trainers.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerId> {
        self.own.keys().copied().collect()
    }

    /// Gives out codecs: to trainers, and to all that are yet to come. What differs from what holds gets one new
    /// revision; what does not, keeps its own.
    pub fn assign(&mut self, common: Codec, own: &[(WorkerId, Codec)]) {
        let next = self.latest.next();
        let mut renew = |controls: &mut Controls, codec: Codec| {
            if controls.codec != codec {
                *controls = Controls {
                    revision: next,
                    codec,
                };
                self.latest = next;
            }
        };
        renew(&mut self.common, common);
        for &(worker, codec) in own {
            let controls = self.own.entry(worker).or_insert(self.common);
            renew(controls, codec);
        }
    }

    /// Keeps a trainer's codec, or everybody's, against the policy; or lets go of it.
    pub fn pin(&mut self, worker: Option<WorkerId>, pin: bool) {
        match (worker, pin) {
            (None, pin) => {
                self.all_pinned = pin;
                self.pinned.clear();
            }
            (Some(worker), true) => drop(self.pinned.insert(worker)),
            (Some(worker), false) => drop(self.pinned.remove(&worker)),
        }
    }

    /// Whether a trainer's codec is kept against the policy.
    #[must_use]
    pub fn is_pinned(&self, worker: WorkerId) -> bool {
        self.all_pinned || self.pinned.contains(&worker)
    }

    /// Whether everybody's is.
    #[must_use]
    pub fn all_pinned(&self) -> bool {
        self.all_pinned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Density;

    fn topk(rho: f64) -> Codec {
        Codec::TopK(Density::new(rho).unwrap())
    }

    fn shown(assignments: &Assignments, worker: u32) -> (u64, String) {
        let controls = assignments.of(WorkerId(worker));
        (controls.revision.0, controls.codec.to_string())
    }

    #[test]
    fn only_what_changes_gets_a_revision() {
        let mut assignments = Assignments::new(topk(0.5));
        assignments.assign(topk(0.5), &[(WorkerId(0), topk(0.5)), (WorkerId(1), topk(0.1))]);
        assert_eq!(shown(&assignments, 0), (0, "topk(rho=0.5)".into()));
        assert_eq!(shown(&assignments, 1), (1, "topk(rho=0.1)".into()));
        assignments.assign(topk(0.2), &[(WorkerId(0), topk(0.2)), (WorkerId(1), topk(0.1))]);
        assert_eq!(shown(&assignments, 0), (2, "topk(rho=0.2)".into()));
        assert_eq!(shown(&assignments, 1), (1, "topk(rho=0.1)".into()));
        assert_eq!(shown(&assignments, 7), (2, "topk(rho=0.2)".into()));
        assignments.assign(topk(0.2), &[]);
        assert_eq!(assignments.latest(), Revision(2));
    }

    #[test]
    fn a_pin_of_all_and_of_one() {
        let mut assignments = Assignments::new(topk(0.5));
        assignments.pin(Some(WorkerId(1)), true);
        assert!(assignments.is_pinned(WorkerId(1)) && !assignments.is_pinned(WorkerId(0)));
        assignments.pin(None, true);
        assert!(assignments.is_pinned(WorkerId(0)) && assignments.all_pinned());
        assignments.pin(None, false);
        assert!(!assignments.is_pinned(WorkerId(1)), "all means all");
    }
}
