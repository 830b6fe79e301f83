//! The verdicts given to one worker: what makes a repeated push harmless.

use crate::ids::PushId;
use crate::push::Verdict;
use crate::worker::MAX_IN_FLIGHT;
use std::collections::VecDeque;

/// Verdicts kept for each worker. A worker has fewer pushes than this in flight.
const KEPT: usize = 64;
const _: () = assert!(MAX_IN_FLIGHT < KEPT);

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

/// The last verdicts of one incarnation of a worker. Those decided longest ago are dropped first, so that
/// a low id decided late (held for a round while others were refused) is remembered like any other.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger {
    verdicts: VecDeque<(PushId, Verdict)>,
    /// Ids up to here may have been dropped.
    forgotten: PushId,
}

impl Ledger {
    pub(super) fn look_up(&self, push: PushId) -> Known {
        match self.verdicts.iter().rev().find(|&&(id, _)| id == push) {
            Some(&(_, verdict)) => Known::Decided(verdict),
            None if push <= self.forgotten => Known::Forgotten,
            None => Known::New,
        }
    }

    pub(super) fn record(&mut self, push: PushId, verdict: Verdict) {
        self.verdicts.push_back((push, verdict));
        if self.verdicts.len() > KEPT
            && let Some((dropped, _)) = self.verdicts.pop_front()
        {
            self.forgotten = self.forgotten.max(dropped);
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
