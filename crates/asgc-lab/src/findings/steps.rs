//! How the gain of asynchrony falls as steps grow beside a fixed delay.

use super::evidence::{Evidence, to_target};
use crate::report::chart;
use asgc_core::ids::Version;

/// Milliseconds of a step, of the runs `async_<ms>ms`.
const STEPS_MS: [u32; 5] = [10, 45, 150, 500, 1500];

/// The slow worker's delay in those runs, in seconds.
const DELAY_S: f64 = 0.3;

/// Steps (s), seconds to the target asynchronously and synchronously.
pub(super) fn rows(evidence: &Evidence) -> Vec<(f64, f64, f64)> {
    let Some(rounds) = rounds(evidence) else {
        return Vec::new();
    };
    let row = |ms: u32| {
        let step_s = f64::from(ms) / 1e3;
        let quick = evidence.spread(&format!("async_{ms}ms"), to_target)?.mean;
        Some((step_s, quick, rounds * (step_s + DELAY_S)))
    };
    STEPS_MS.into_iter().filter_map(row).collect()
}

/// Rounds that synchronous training needed: its updates do not depend on time, so one run tells of all steps.
fn rounds(evidence: &Evidence) -> Option<f64> {
    let run = evidence.runs("sync_rounds").next()?;
    let target = run.summary.target()?;
    let reached = run.summary.evals.iter().find(|eval| eval.test_accuracy >= target);
    reached.map(|eval| {
        let Version(version) = eval.version;
        version as f64
    })
}

/// The table in Markdown, and its plot.
pub(super) fn show(evidence: &Evidence) -> Option<(String, String)> {
    let rows = rows(evidence);
    if rows.len() < 2 {
        return None;
    }
    let mut text =
        String::from("| step (ms) | async to 0.85 (s) | sync to 0.85 (s) | gain |\n|---:|---:|---:|---:|");
    for (step_s, quick, slow) in &rows {
        text += &format!(
            "\n| {:.0} | {quick:.1} | {slow:.1} | {:.1} |",
            1e3 * step_s,
            slow / quick
        );
    }
    let gains = rows
        .iter()
        .map(|(step_s, quick, slow)| (1e3 * step_s, slow / quick))
        .collect();
    let axes = [
        "step (ms), beside a delay of 300 ms",
        "gain of asynchrony (times sooner to 0.85)",
    ];
    let plot = chart(
        "Gain of asynchrony against step",
        axes,
        vec![("sync / async".into(), gains)],
    )
    .ok()?;
    Some((text, plot))
}
