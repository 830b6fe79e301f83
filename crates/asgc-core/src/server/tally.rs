//! The sums that `run_end` reports.

use crate::event::{Decision, Update};

#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Applied updates: rounds, in sync mode.
    pub(super) applied: u64,
    pub(super) pushes: u64,
    pub(super) rejected: u64,
    pub(super) payload_bytes: u64,
    pub(super) received_bytes: u64,
    staleness_sum: u64,
    pub(super) staleness_max: u64,
}

impl Tally {
    pub(super) fn count(&mut self, update: &Update) {
        self.pushes += 1;
        self.rejected += u64::from(update.decision == Decision::Rejected);
        // A header may claim any length.
        self.payload_bytes = self.payload_bytes.saturating_add(update.payload_bytes);
        self.received_bytes = self.received_bytes.saturating_add(update.received_bytes);
        self.staleness_sum = self.staleness_sum.saturating_add(update.staleness.0);
        self.staleness_max = self.staleness_max.max(update.staleness.0);
    }

    pub(super) fn rejected_frac(&self) -> f64 {
        ratio(self.rejected as f64, self.pushes as f64)
    }

    pub(super) fn mean_staleness(&self) -> f64 {
        ratio(self.staleness_sum as f64, self.pushes as f64)
    }
}

/// `a / b`, and 0 where there is nothing to divide by.
pub(super) fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}
