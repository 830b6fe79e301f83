//! What a run came to, as a row of the table.

use anyhow::Result;
use asgc_core::config::Config;
use asgc_core::event::{Decision, Event};
use asgc_lab::{Summary, units};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    name: String,
    updates_per_s: f64,
    /// By the plan's model; `None` where the codec changes.
    predicted_updates_per_s: Option<f64>,
    time_to_target_s: Option<f64>,
    target: Option<f64>,
    final_accuracy: Option<f64>,
    best_accuracy: Option<f64>,
    payload_bytes: u64,
    bytes_a_push: f64,
    mean_staleness: Option<f64>,
    rejected_frac: Option<f64>,
    workers: Vec<Worker>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Worker {
    worker_id: u32,
    accepted: u64,
    pushes: u64,
    /// At the end; `None` without a decision about it.
    codec: Option<String>,
}

impl Row {
    pub(super) fn new(config: &Config, events: &[Event], predicted_updates_per_s: Option<f64>) -> Self {
        let summary = Summary::from_events(events);
        let target = config.workload.target_accuracy;
        let accuracies = events.iter().filter_map(|event| match event {
            Event::Eval(eval) => Some(eval.test_accuracy),
            _ => None,
        });
        Self {
            name: summary.name().to_owned(),
            updates_per_s: summary.updates_per_s().unwrap_or(0.0),
            predicted_updates_per_s,
            time_to_target_s: target.and_then(|target| summary.time_to(target)),
            target,
            final_accuracy: summary.accuracy(),
            best_accuracy: accuracies.reduce(f64::max),
            payload_bytes: summary.payload_bytes(),
            bytes_a_push: summary.payload_bytes() as f64 / summary.pushes().max(1) as f64,
            mean_staleness: summary.mean_staleness(),
            rejected_frac: summary.rejected_share(),
            workers: workers(events),
        }
    }

    /// In one line, when the run is over.
    pub(super) fn line(&self) -> String {
        format!(
            "{}: {}, target after {}, accuracy {}",
            self.name,
            units::per_second(self.updates_per_s),
            units::or_missing(self.time_to_target_s, units::seconds),
            units::or_missing(self.final_accuracy, units::accuracy)
        )
    }
}

fn workers(events: &[Event]) -> Vec<Worker> {
    let mut workers = BTreeMap::<u32, Worker>::new();
    let mut codecs = BTreeMap::new();
    for event in events {
        match event {
            Event::Update(update) => {
                let id = update.worker_id.0;
                let worker = workers.entry(id).or_insert(Worker {
                    worker_id: id,
                    accepted: 0,
                    pushes: 0,
                    codec: None,
                });
                worker.pushes += 1;
                worker.accepted += u64::from(update.decision != Decision::Rejected);
            }
            Event::Control(control) => {
                codecs.extend(
                    control
                        .workers
                        .iter()
                        .map(|worker| (worker.worker_id.0, worker.new_codec.to_string())),
                );
            }
            _ => {}
        }
    }
    for (id, worker) in &mut workers {
        worker.codec = codecs.remove(id);
    }
    workers.into_values().collect()
}

/// One object a run.
pub(super) fn json(rows: &[Row]) -> Result<Vec<String>> {
    Ok(rows.iter().map(serde_json::to_string).collect::<Result<_, _>>()?)
}

/// All runs as a Markdown table.
pub(super) fn table(rows: &[Row]) -> String {
    let target = rows
        .iter()
        .find_map(|row| row.target)
        .map_or(String::new(), |t| format!(" {}", units::accuracy(t)));
    let mut text = format!(
        "| run | updates/s | predicted | time to{target} | against the first | final accuracy | best | payload | bytes a push | \
         staleness | rejected | accepted by worker, codec at the end |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    let first = rows.first().and_then(|row| row.time_to_target_s);
    for row in rows {
        let ratio = row.time_to_target_s.zip(first).map(|(time, first)| time / first);
        let workers = row.workers.iter().map(|worker| {
            let codec = worker
                .codec
                .as_ref()
                .map_or(String::new(), |codec| format!(" {codec}"));
            format!(
                "{}: {}/{}{codec}",
                worker.worker_id, worker.accepted, worker.pushes
            )
        });
        let cells = [
            row.name.clone(),
            format!("{:.1}", row.updates_per_s),
            units::or_missing(row.predicted_updates_per_s, |rate| format!("{rate:.1}")),
            units::or_missing(row.time_to_target_s, units::seconds),
            units::or_missing(ratio, |ratio| format!("{ratio:.2}")),
            units::or_missing(row.final_accuracy, units::accuracy),
            units::or_missing(row.best_accuracy, units::accuracy),
            units::bytes(row.payload_bytes),
            format!("{:.0}", row.bytes_a_push),
            units::or_missing(row.mean_staleness, |tau| format!("{tau:.2}")),
            units::or_missing(row.rejected_frac, units::percent),
            workers.collect::<Vec<_>>().join("; "),
        ];
        let _ = write!(text, "\n| {} |", cells.join(" | "));
    }
    text
}
