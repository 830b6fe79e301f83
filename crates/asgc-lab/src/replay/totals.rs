//! The sums of `run_end`, from the lines before it.

use super::{Difference, differs, same};
use asgc_core::event::{Decision, Eval, RunEnd, Update};
use asgc_core::ids::Version;

#[derive(Debug, Default)]
pub(super) struct Totals {
    pushes: u64,
    rejected: u64,
    payload_bytes: u64,
    received_bytes: u64,
    staleness_sum: u64,
    staleness_max: u64,
    accuracy: Option<f64>,
    loss: Option<f64>,
}

impl Totals {
    pub(super) fn update(&mut self, update: &Update) {
        self.pushes += 1;
        self.rejected += u64::from(update.decision == Decision::Rejected);
        self.payload_bytes = self.payload_bytes.saturating_add(update.payload_bytes);
        self.received_bytes = self.received_bytes.saturating_add(update.received_bytes);
        self.staleness_sum = self.staleness_sum.saturating_add(update.staleness.0);
        self.staleness_max = self.staleness_max.max(update.staleness.0);
    }

    pub(super) fn eval(&mut self, eval: &Eval) {
        // What is not finite is `null` in the log, there as here.
        self.accuracy = Some(eval.test_accuracy).filter(|accuracy| accuracy.is_finite());
        self.loss = Some(eval.test_loss).filter(|loss| loss.is_finite());
    }

    pub(super) fn check(&self, end: &RunEnd, version: Version, parameters: u64) -> Result<(), Difference> {
        let raw_bytes = (4 * parameters).saturating_mul(self.pushes);
        same("applied_updates", end.applied_updates, version.0)?;
        same("rejected_updates", end.rejected_updates, self.rejected)?;
        same("total_bytes", end.total_bytes, self.payload_bytes)?;
        same("received_bytes", end.received_bytes, self.received_bytes)?;
        same("raw_bytes", end.raw_bytes, raw_bytes)?;
        same("max_staleness", end.max_staleness, self.staleness_max)?;
        let pushes = self.pushes as f64;
        same(
            "rejected_frac",
            end.rejected_frac,
            ratio(self.rejected as f64, pushes),
        )?;
        same(
            "mean_staleness",
            end.mean_staleness,
            ratio(self.staleness_sum as f64, pushes),
        )?;
        let compression = ratio(raw_bytes as f64, self.payload_bytes as f64);
        same("compression_ratio", end.compression_ratio, compression)?;
        same(
            "updates_per_sec",
            end.updates_per_sec,
            ratio(version.0 as f64, end.elapsed_s),
        )?;
        same(
            "final_test_accuracy",
            shown(end.final_test_accuracy),
            shown(self.accuracy),
        )?;
        same("final_test_loss", shown(end.final_test_loss), shown(self.loss))?;
        if end.uplink_frame_bytes > 0 && end.uplink_frame_bytes < self.received_bytes {
            return Err(differs(
                "uplink_frame_bytes",
                end.uplink_frame_bytes,
                "at least received_bytes",
            ));
        }
        Ok(())
    }
}

fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}
