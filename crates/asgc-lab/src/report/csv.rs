//! The summary as a CSV file: the reference's columns, then ours.

use super::run::Run;
use crate::units::MISSING;

type Column = (&'static str, fn(&Run, Option<f64>) -> String);

/// In order. The first fourteen are those of the reference's plotting script.
const COLUMNS: [Column; 30] = [
    ("run", |r, _| r.label.clone()),
    ("dataset", |r, _| of_start(r, |s| s.dataset.clone())),
    ("final_accuracy", |r, _| number(r.summary.accuracy(), 4)),
    ("final_loss", |r, _| number(r.summary.loss(), 4)),
    ("applied", |r, _| r.summary.applied().to_string()),
    ("rejected_frac", |r, _| number(r.summary.rejected_share(), 4)),
    ("total_gb", |r, _| gigabytes(r.summary.payload_bytes())),
    ("compression_ratio", |r, _| {
        number(r.summary.compression_ratio(), 3)
    }),
    ("updates_per_sec", |r, _| number(r.summary.updates_per_s(), 3)),
    ("mean_staleness", |r, _| number(r.summary.mean_staleness(), 3)),
    ("max_staleness", |r, _| {
        r.summary
            .max_staleness()
            .map_or(MISSING.into(), |tau| tau.to_string())
    }),
    ("max_acc_drop", |r, _| number(r.summary.max_accuracy_drop(), 4)),
    ("wall_s", |r, _| number(Some(r.summary.wall_s()), 2)),
    ("time_to_target_s", |r, target| {
        number(r.summary.time_to_target(target), 2)
    }),
    ("model", |r, _| of_start(r, |s| s.model.clone())),
    ("mode", |r, _| of_start(r, |s| s.mode.clone())),
    ("compression", |r, _| of_start(r, |s| s.compression.clone())),
    ("error_feedback", |r, _| {
        of_start(r, |s| s.error_feedback.to_string())
    }),
    ("seed", |r, _| of_start(r, |s| s.seed.to_string())),
    ("simulated", |r, _| of_start(r, |s| s.simulated.to_string())),
    ("train_loss", |r, _| number(r.train_loss, 4)),
    ("bytes_per_update", |r, _| number(r.bytes_per_update(), 1)),
    ("sync_idle_s", |r, _| number(Some(r.sync_idle_s), 3)),
    ("sync_idle_share", |r, _| number(r.sync_idle_share(), 4)),
    ("communication_share", |r, _| number(r.communicating, 4)),
    ("divergence_events", |r, _| r.divergence_events().to_string()),
    ("downweighted_frac", |r, _| {
        number(r.summary.downweighted_share(), 4)
    }),
    ("received_gb", |r, _| gigabytes(r.summary.received_bytes())),
    ("downlink_gb", |r, _| {
        r.summary
            .frame_bytes()
            .map_or(MISSING.into(), |(_, down)| gigabytes(down))
    }),
    ("ended", |r, _| r.summary.ending().to_owned()),
];

fn of_start(run: &Run, of: fn(&asgc_core::event::RunStart) -> String) -> String {
    run.summary.start.as_ref().map_or(MISSING.into(), of)
}

fn number(value: Option<f64>, digits: usize) -> String {
    let finite = value.filter(|value| value.is_finite());
    finite.map_or(MISSING.into(), |value| format!("{value:.digits$}"))
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.3}", bytes as f64 / 1e9)
}

/// A row a run; what a log does not tell is `-`.
///
/// # Errors
/// None in practice: it is written to memory.
pub(super) fn csv(runs: &[Run], target: Option<f64>) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS.iter().map(|(name, _)| *name))?;
    for run in runs {
        writer.write_record(COLUMNS.iter().map(|(_, cell)| cell(run, target)))?;
    }
    writer
        .into_inner()
        .map_err(|error| csv::Error::from(error.into_error()))
}
