//! The verdicts given to one worker: what makes a repeated push harmless.

use crate::ids::PushId;
use crate::push::Verdict;
use std::collections::BTreeMap;

/// Verdicts kept for each worker. A worker has fewer pushes than this in flight.
pub(super) const KEPT: usize = 64;

/// What is known of a push id.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Known {
    /// Never seen.
    New,
    /// Decided, and this was the verdict.
    Decided(Verdict),
    /// Decided so long ago that the verdict was dropped.
    Forgotten,
}

/// The last verdicts of one incarnation of a worker.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger {
    verdicts: BTreeMap<PushId, Verdict>,
    /// Ids up to here may have been dropped.
    forgotten: PushId,
}

impl Ledger {
    pub(super) fn look_up(&self, push: PushId) -> Known {
        match self.verdicts.get(&push) {
            Some(&verdict) => Known::Decided(verdict),
            None if push <= self.forgotten => Known::Forgotten,
            None => Known::New,
        }
    }

    pub(super) fn record(&mut self, push: PushId, verdict: Verdict) {
        self.verdicts.insert(push, verdict);
        while self.verdicts.len() > KEPT {
            if let Some((dropped, _)) = self.verdicts.pop_first() {
                self.forgotten = self.forgotten.max(dropped);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Staleness, Version};

    #[test]
    fn old_verdicts_are_dropped_but_their_ids_stay_used() {
        let mut ledger = Ledger::default();
        let verdict = Verdict::applied(1.0, Staleness(0), Version(1));
        for id in 1..=KEPT as u64 + 2 {
            assert_eq!(ledger.look_up(PushId(id)), Known::New);
            ledger.record(PushId(id), verdict);
        }
        assert_eq!(ledger.look_up(PushId(1)), Known::Forgotten);
        assert_eq!(ledger.look_up(PushId(2)), Known::Forgotten);
        assert_eq!(ledger.look_up(PushId(3)), Known::Decided(verdict));
        assert_eq!(ledger.look_up(PushId(0)), Known::Forgotten, "ids start at 1");
    }
}
