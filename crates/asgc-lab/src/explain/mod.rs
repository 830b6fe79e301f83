//! A readable account of a run: how it went, what was decided and why, and how each trainer did.

mod chart;
mod decisions;
mod workers;

use crate::Summary;
use crate::units;
use asgc_core::codec::Codec;
use asgc_core::controller::links::Links;
use asgc_core::event::{Control, Decision, Event, RunStart};
use asgc_core::ids::{PushId, Revision, WorkerId};
use chart::{Join, chart};
use std::collections::BTreeMap;

/// Seconds over which bytes are averaged for the chart, as a share of the run.
const SLICES: f64 = 60.0;

/// What the account is made of.
#[derive(Debug, Default)]
struct Facts {
    start: Option<RunStart>,
    controls: Vec<Control>,
    evals: Vec<(f64, f64, f64)>,
    payloads: Vec<(f64, u64)>,
    /// The first push of each trainer under each revision.
    confirmed: BTreeMap<(WorkerId, Revision), PushId>,
    trainers: BTreeMap<WorkerId, Trainer>,
    links: Links,
}

/// One trainer's sums.
#[derive(Debug, Default)]
struct Trainer {
    pushes: u64,
    rejected: u64,
    staleness_sum: u64,
    dropped_norm: f64,
    /// What a decision gave it last.
    codec: Option<Codec>,
}

impl Trainer {
    fn codec(&self, facts: &Facts) -> Codec {
        let configured = facts
            .start
            .as_ref()
            .and_then(|start| start.compression.parse().ok());
        self.codec.or(configured).unwrap_or(Codec::Identity)
    }
}

impl Facts {
    fn add(&mut self, event: &Event) {
        self.links.fold(event);
        match event {
            Event::RunStart(start) => self.start = Some(start.clone()),
            Event::Control(control) => {
                for worker in &control.workers {
                    self.trainers.entry(worker.worker_id).or_default().codec = Some(worker.new_codec);
                }
                self.controls.push(control.clone());
            }
            Event::Eval(eval) => self
                .evals
                .push((eval.elapsed_s, eval.test_accuracy, eval.test_loss)),
            Event::Update(update) => {
                self.payloads.push((update.elapsed_s, update.received_bytes));
                let key = (update.worker_id, update.controls_revision);
                self.confirmed.entry(key).or_insert(update.push_id);
                let trainer = self.trainers.entry(update.worker_id).or_default();
                trainer.pushes += 1;
                trainer.rejected += u64::from(update.decision == Decision::Rejected);
                trainer.staleness_sum += update.staleness.0;
                trainer.dropped_norm += update.residual_dropped_norm;
            }
            Event::Join(_) | Event::Leave(_) | Event::RunEnd(_) => {}
        }
    }

    /// Payload bytes a second, slice by slice.
    fn rates(&self) -> Vec<(f64, f64)> {
        let Some(&(end_s, _)) = self.payloads.last() else {
            return Vec::new();
        };
        let slice_s = (end_s / SLICES).max(0.1);
        let mut slices = BTreeMap::<u64, u64>::new();
        for (at_s, bytes) in &self.payloads {
            *slices.entry((at_s / slice_s) as u64).or_default() += bytes;
        }
        let rate = |(slice, bytes): (u64, u64)| ((slice as f64 + 0.5) * slice_s, bytes as f64 / slice_s);
        slices.into_iter().map(rate).collect()
    }
}

/// The account of `events`, with charts at most `width` columns wide.
#[must_use]
pub fn explain(events: &[Event], width: usize) -> String {
    let mut facts = Facts::default();
    events.iter().for_each(|event| facts.add(event));
    let summary = Summary::from_events(events);
    let mut parts = vec![heading(&facts), outcome(&summary)];
    parts.extend(charts(&facts, width));
    if facts.controls.is_empty() {
        parts.push("no decisions: controller.enabled is false, or the run was too short for one".to_owned());
    } else {
        parts.push(format!("decisions{}", decisions::decisions(&facts)));
    }
    parts.push(workers::workers(&facts));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

fn heading(facts: &Facts) -> String {
    let Some(start) = &facts.start else {
        return "the log has no run_start: what was run is not known".to_owned();
    };
    let feedback = if start.error_feedback {
        " with error feedback"
    } else {
        ""
    };
    let mut text = format!(
        "{}: {} on {}, {} trainers, {}, {}{feedback}",
        start.config_name, start.model, start.dataset, start.num_workers, start.mode, start.compression
    );
    if let Some(config) = &start.config {
        let staleness = &config.staleness;
        if staleness.enabled {
            text.push_str(&format!(
                ", full weight to tau {}, at most {}",
                staleness.s_low, staleness.s_max
            ));
        }
        if config.controller.enabled {
            text.push_str(&format!("; policy {}", config.controller.policy.as_str()));
        }
        if config.compression.auto {
            text.push_str("; compression.auto");
        }
    }
    text
}

fn outcome(summary: &Summary) -> String {
    format!(
        "{} after {}: {} updates, {} rejected, accuracy {}, {} of payload, compression {}",
        summary.ending(),
        units::seconds(summary.wall_s()),
        summary.applied(),
        units::or_missing(summary.rejected_share(), units::percent),
        units::or_missing(summary.accuracy(), units::accuracy),
        units::bytes(summary.received_bytes()),
        units::or_missing(summary.compression_ratio(), |ratio| format!("{ratio:.1}x")),
    )
}

fn charts(facts: &Facts, width: usize) -> Vec<String> {
    let accuracy = facts
        .evals
        .iter()
        .map(|eval| (eval.0, eval.1))
        .collect::<Vec<_>>();
    let loss = facts
        .evals
        .iter()
        .map(|eval| (eval.0, eval.2))
        .collect::<Vec<_>>();
    let mut strength = Vec::new();
    let mut s_max = Vec::new();
    for control in &facts.controls {
        if strength.is_empty() {
            strength.extend(control.old_compression.map(|old| (0.0, old)));
            s_max.push((0.0, control.old_s_max as f64));
        }
        strength.extend(control.new_compression.map(|new| (control.elapsed_s, new)));
        s_max.push((control.elapsed_s, control.new_s_max as f64));
    }
    let mode = facts
        .controls
        .first()
        .map_or("", |control| control.compression_mode.as_str());
    let name = units::strength_name(mode).unwrap_or("strength");
    let plain = |digits: usize| move |y: f64| format!("{y:.digits$}");
    let rate = |y: f64| format!("{}/s", units::bytes(y.max(0.0) as u64));
    let share = |y: f64| format!("{:.1} %", 100.0 * y);
    vec![
        chart("test accuracy", &accuracy, Join::Line, (width, &share)),
        chart("test loss", &loss, Join::Line, (width, &plain(3))),
        chart(
            &format!("{name}, mean over trainers"),
            &strength,
            Join::Step,
            (width, &plain(4)),
        ),
        chart("s_max", &s_max, Join::Step, (width, &plain(0))),
        chart("payload", &facts.rates(), Join::Line, (width, &rate)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use proptest::prelude::*;

    #[test]
    fn an_account_of_a_small_run() {
        let mut events = samples::run();
        let control = Event::Control(samples::control((0.25, 0.05), (4, 5)));
        events.insert(3, control);
        let text = explain(&events, 80);
        for words in [
            "decisions\n",
            "s_max 4 -> 5, at once",
            "worker 0: ",
            "rejected",
            "test accuracy",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    proptest! {
        #[test]
        fn any_part_of_a_log_can_be_explained(from in 0usize..12, to in 0usize..12, width in 0usize..200) {
            let events = samples::run();
            let (from, to) = (from.min(events.len()), to.min(events.len()));
            let text = explain(&events[from.min(to)..to.max(from)], width);
            let charts = text.lines().filter(|line| line.contains('│'));
            for line in charts {
                prop_assert!(line.chars().count() <= width);
            }
        }
    }
}
