//! The controls in words.

use asgc_core::codec::Codec;
use asgc_core::controller::report::{Report, WorkerReport};
use asgc_core::event::{Control, WorkerControl};
use asgc_lab::units;
use std::fmt::Write as _;

/// What is in force, each worker, and the last decisions.
pub(super) fn report(report: &Report) -> String {
    let mut text = format!("policy {}", report.policy);
    if report.auto {
        text.push_str(", compression.auto");
    }
    let bound = report
        .s_max
        .map_or("no bound on staleness".into(), |s_max| format!("s_max {s_max}"));
    let pinned = if report.s_max_pinned {
        " (pinned by hand)"
    } else {
        ""
    };
    let _ = write!(
        text,
        ", {bound}{pinned}, after {}",
        units::seconds(report.elapsed_s)
    );
    if report.workers.is_empty() {
        text.push_str("\nno trainer has joined yet");
    }
    for worker in &report.workers {
        let _ = write!(text, "\n\n{}", trainer(worker));
    }
    if !report.decisions.is_empty() {
        text.push_str("\n\nlast decisions");
    }
    for control in &report.decisions {
        let _ = write!(text, "\n{}", decision(control));
    }
    text
}

fn trainer(worker: &WorkerReport) -> String {
    let state = &worker.state;
    let pinned = if worker.pinned { ", pinned by hand" } else { "" };
    let mut text = format!("worker {}: {}{pinned}", state.worker_id, state.new_codec);
    if worker.confirmed_revision < worker.revision {
        text.push_str(" (not confirmed yet)");
    }
    let _ = write!(text, "\n  {}", link(state));
    let _ = write!(text, "\n  {}", benefit(state));
    let rejected = format!(
        "{} of {} pushes rejected",
        units::percent(state.rejected_frac),
        state.pushes
    );
    let residual = units::or_missing(state.residual_ratio, |ratio| format!("{ratio:.1}"));
    let _ = write!(
        text,
        "\n  {rejected} since the last decision, residual {residual} gradient norms"
    );
    if !state.fits {
        text.push_str("\n  does not fit this run: nearly all that it computes is thrown away");
    }
    text
}

/// The link and the machine behind it.
fn link(state: &WorkerControl) -> String {
    let Some(link) = &state.link else {
        return "link not measured yet".to_owned();
    };
    format!(
        "link {}/s, round trip {}; a step takes {}, of which {} computing, {} uploading",
        units::bytes(link.goodput_bytes_per_s as u64),
        units::seconds(link.rtt_s),
        units::seconds(link.step_s),
        units::seconds(link.compute_s),
        units::percent(link.comm_share),
    )
}

/// Whether compression pays, in words, with what was predicted beside what was achieved.
fn benefit(state: &WorkerControl) -> String {
    let Some((predicted, dense)) = state.predicted_updates_per_s.zip(state.dense_updates_per_s) else {
        return "whether compression pays is not known yet".to_owned();
    };
    let achieved = format!(
        "predicted {}, achieved {}",
        units::per_second(predicted),
        units::per_second(state.achieved_updates_per_s)
    );
    match (state.compression_beneficial, state.new_codec) {
        (_, Codec::Identity) => format!("no compression: {achieved}"),
        (Some(true), _) => {
            format!(
                "compression pays: {achieved}, without it {}",
                units::per_second(dense)
            )
        }
        (Some(false), _) => format!(
            "compression does not pay here: {achieved}, without it {}; compression.auto = true would switch it off",
            units::per_second(dense)
        ),
        (None, _) => achieved,
    }
}

/// A decision in a few lines.
pub(super) fn decision(control: &Control) -> String {
    let mut text = format!("{:>8}  {}", units::seconds(control.elapsed_s), control.reason);
    let signals = [
        (
            "loss trend",
            control.loss_trend.map(|trend| format!("{trend:+.3}")),
        ),
        (
            "rebound",
            control.loss_variability.map(|rebound| format!("{rebound:.3}")),
        ),
        ("rejected", Some(units::percent(control.rejected_frac))),
        (
            "payload",
            Some(format!("{}/s", units::bytes(control.bytes_per_s as u64))),
        ),
    ];
    let signals = signals
        .iter()
        .filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?)));
    let _ = write!(text, "\n          {}", signals.collect::<Vec<_>>().join(", "));
    if control.old_s_max != control.new_s_max {
        let _ = write!(text, "; s_max {} -> {}", control.old_s_max, control.new_s_max);
    }
    for worker in control
        .workers
        .iter()
        .filter(|worker| worker.old_codec != worker.new_codec)
    {
        let (id, old, new) = (worker.worker_id, worker.old_codec, worker.new_codec);
        let _ = write!(text, "\n          worker {id}: {old} -> {new}: {}", worker.reason);
    }
    text
}
