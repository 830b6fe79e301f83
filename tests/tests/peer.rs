//! A script that shares no code with us, and knows the reference's names alone, reads our logs as we do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use asgc_core::config::{CompressionMode, Config, Dataset, Model, StepTime};
use asgc_core::event::Event;
use asgc_core::task::BoxError;
use asgc_lab::simulate::{Observer, simulate};
use asgc_lab::{Summary, objective};
use asgc_tests::programs;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const COLUMNS: [&str; 14] = [
    "run",
    "dataset",
    "final_accuracy",
    "final_loss",
    "applied",
    "rejected_frac",
    "total_gb",
    "compression_ratio",
    "updates_per_sec",
    "mean_staleness",
    "max_staleness",
    "max_acc_drop",
    "wall_s",
    "time_to_target_s",
];

/// The reference's kinds of lines, and the names of its fields.
const KINDS: [&str; 5] = ["run_start", "update", "eval", "control", "run_end"];
const FIELDS: &str = "event config_name num_workers dataset model batch_size compute_delay comm_delay_ms \
    bandwidth_mbps started_at worker_id version staleness payload_bytes fetch_s compute_s decision weight \
    residual_norm elapsed_s test_accuracy test_loss loss_trend loss_variability mean_staleness rejected_frac \
    bytes_per_s updates_per_s residual_norm_var old_compression new_compression old_s_max new_s_max reason \
    applied_updates rejected_updates total_bytes raw_bytes compression_ratio updates_per_sec max_staleness \
    final_test_accuracy final_test_loss";

const TARGET: f64 = 0.53;

#[derive(Default)]
struct Keeper(Vec<Event>);

impl Observer for Keeper {
    fn event(&mut self, event: Event) -> Result<(), BoxError> {
        self.0.push(event);
        Ok(())
    }
}

/// A short run of three workers, one of which is slow, on virtual time.
fn run(name: &str, change: impl FnOnce(&mut Config)) -> Vec<Event> {
    let mut config = Config::default();
    config.run.name = name.into();
    (config.workload.model, config.workload.dataset) = (Model::Logistic, Dataset::Synthetic);
    (config.workload.lr, config.workload.batch_size) = (0.01, 16);
    (config.workload.max_updates, config.workload.eval_interval) = (200, 20);
    (config.objective.dimension, config.objective.samples) = (4000, 300);
    (config.simulation.step, config.simulation.step_s) = (StepTime::Fixed, 0.045);
    config.heterogeneity.compute_delay = [(1, 0.3)].into();
    change(&mut config);
    assert_eq!(asgc_core::config::validate(&config), []);
    let mut keeper = Keeper::default();
    let task = objective::task(&config).unwrap();
    simulate(&config, task.as_ref(), 1, &mut keeper).unwrap();
    keeper.0
}

/// All that moves a column: refused pushes, compression, the controller; rounds; a run that was killed.
fn runs() -> Vec<(&'static str, Vec<Event>)> {
    let adaptive = run("adaptive", |config| {
        (config.compression.mode, config.error_feedback.enabled) = (CompressionMode::Topk, true);
        config.staleness.enabled = true;
        (config.controller.enabled, config.controller.interval_s) = (true, 0.5);
        config.controller.comm_pressure_min = 1000.0;
    });
    let sync = run("sync", |config| {
        (config.workload.sync, config.workload.max_updates) = (true, 60);
    });
    let mut killed = run("killed", |_| {});
    assert!(matches!(killed.pop(), Some(Event::RunEnd(_))));
    vec![("adaptive", adaptive), ("sync", sync), ("killed", killed)]
}

fn write(results: &Path, name: &str, lines: &[Value]) {
    let folder = results.join(name);
    fs::create_dir_all(&folder).unwrap();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(folder.join("events.jsonl"), text).unwrap();
}

/// What the reference would have written of `line`, if anything.
fn without_ours(line: &Value) -> Option<Value> {
    let fields = line.as_object().unwrap();
    let kind = fields["event"].as_str().unwrap();
    let known = |name: &str| FIELDS.split_whitespace().any(|field| field == name);
    let kept = fields.iter().filter(|(name, _)| known(name));
    let kept = kept.map(|(name, value)| (name.clone(), value.clone()));
    KINDS.contains(&kind).then(|| Value::Object(kept.collect()))
}

/// The rows that the script writes, and what it prints; `None` where there is no Python.
fn plotted(results: &Path, names: &[&str]) -> Option<(String, String)> {
    let mut python = Command::new("python3");
    python.arg(programs::repository().join("tests/peer/plot_results.py"));
    python.arg("--runs").args(names);
    python.arg("--results-dir").arg(results);
    let output = match python.args(["--target", &TARGET.to_string()]).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: there is no python3");
            return None;
        }
        other => other.unwrap(),
    };
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let csv = fs::read_to_string(results.join("plot/summary.csv")).unwrap();
    Some((csv, String::from_utf8(output.stdout).unwrap()))
}

fn numbers(summary: &Summary) -> BTreeMap<&'static str, Option<f64>> {
    let end = summary.end.as_ref();
    let of_end = |value: Option<f64>| end.and(value);
    [
        ("final_accuracy", of_end(summary.accuracy())),
        ("final_loss", of_end(summary.loss())),
        ("applied", of_end(Some(summary.applied() as f64))),
        ("rejected_frac", of_end(summary.rejected_share())),
        ("total_gb", of_end(Some(summary.payload_bytes() as f64 / 1e9))),
        ("compression_ratio", of_end(summary.compression_ratio())),
        ("updates_per_sec", of_end(summary.updates_per_s())),
        ("mean_staleness", of_end(summary.mean_staleness())),
        (
            "max_staleness",
            of_end(summary.max_staleness().map(|tau| tau as f64)),
        ),
        ("max_acc_drop", summary.max_accuracy_drop()),
        ("wall_s", of_end(Some(summary.wall_s()))),
        ("time_to_target_s", summary.time_to(TARGET)),
    ]
    .into()
}

/// Holds one row of the script's against the summary of the same log.
fn compare(row: &str, name: &str, summary: &Summary) {
    let cells: Vec<&str> = row.split(',').collect();
    assert_eq!(
        (cells.len(), cells[0], cells[1]),
        (COLUMNS.len(), name, "synthetic")
    );
    let expect = numbers(summary);
    for (column, cell) in COLUMNS.iter().zip(cells).skip(2) {
        let Some(number) = expect[column] else {
            assert_eq!(cell, "-", "{name}.{column}");
            continue;
        };
        let digits = cell.split_once('.').map_or(0, |(_, digits)| digits.len());
        let found: f64 = cell.parse().unwrap();
        let tolerance = 0.500_001 * 10_f64.powi(-(digits as i32));
        assert!(
            (found - number).abs() <= tolerance,
            "{name}.{column}: {cell}, ours {number}"
        );
    }
}

#[test]
fn a_peer_reads_our_logs_as_we_do() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, plain) = (dir.path().join("whole"), dir.path().join("plain"));
    let runs = runs();
    for (name, events) in &runs {
        let lines = events.iter().map(|event| serde_json::to_value(event).unwrap());
        let lines = lines.collect::<Vec<_>>();
        write(&whole, name, &lines);
        write(
            &plain,
            name,
            &lines.iter().filter_map(without_ours).collect::<Vec<_>>(),
        );
    }
    let names = runs.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let Some((csv, table)) = plotted(&whole, &names) else {
        return;
    };
    let rows = csv.lines().collect::<Vec<_>>();
    assert_eq!(rows[0], COLUMNS.join(","));
    assert_eq!(
        (rows.len(), table.lines().count()),
        (1 + runs.len(), 1 + runs.len())
    );
    for ((name, events), row) in runs.iter().zip(&rows[1..]) {
        compare(row, name, &Summary::from_events(events));
    }
    let adaptive = numbers(&Summary::from_events(&runs[0].1));
    let told = ["rejected_frac", "max_acc_drop", "time_to_target_s"].map(|column| adaptive[column]);
    assert!(
        told.iter().all(|value| value.is_some_and(|value| value > 0.0)),
        "{adaptive:?}"
    );
    assert!(adaptive["compression_ratio"] > Some(1.5), "{adaptive:?}");
    // It asked for nothing that only our logs have.
    assert_eq!(plotted(&plain, &names), Some((csv, table)));
}

/// Written by hand as the reference writes, with the NaN of Python's own JSON.
#[test]
fn a_peer_reads_logs_of_the_reference() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("theirs");
    fs::create_dir_all(&folder).unwrap();
    let log = r#"{"event": "run_start", "config_name": "theirs", "num_workers": 3, "dataset": "cifar10", "model": "resnet18", "batch_size": 128, "compute_delay": {"1": 0.5}, "comm_delay_ms": 0.0, "bandwidth_mbps": 250.0, "started_at": 1.75e9}
{"event": "eval", "version": 0, "test_accuracy": 0.1, "test_loss": NaN, "elapsed_s": 0.5}
{"event": "eval", "version": 500, "test_accuracy": 0.8, "test_loss": 0.6, "elapsed_s": 93.0}
{"event": "eval", "version": 1000, "test_accuracy": 0.75, "test_loss": 0.7, "elapsed_s": 180.0}
{"event": "run_end", "applied_updates": 1000, "rejected_updates": 0, "rejected_frac": 0.0, "total_bytes": 44695848000, "raw_bytes": 44695848000, "compression_ratio": 1.0, "updates_per_sec": 5.5, "elapsed_s": 182.0, "mean_staleness": 2.0, "max_staleness": 9, "final_test_accuracy": 0.75, "final_test_loss": 0.7}
"#;
    fs::write(folder.join("events.jsonl"), log).unwrap();
    if let Some((csv, _)) = plotted(dir.path(), &["theirs"]) {
        let row = csv.lines().nth(1).unwrap();
        let expect =
            "theirs,cifar10,0.7500,0.7000,1000,0.0000,44.696,1.0000,5.5000,2.0000,9,0.0500,182.0000,93.0000";
        assert_eq!(row, expect);
    }
}
