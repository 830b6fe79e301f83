//! What a matrix takes for its own: logs, made now or found.

use super::file::Matrix;
use super::job::{self, Found, Job};
use super::runner::Ended;
use super::{Mode, groups};
use asgc_core::config::Config;
use asgc_daemon::event_log::EVENTS_FILE;
use serde_json::json;
use std::fs;
use std::path::Path;

/// One configuration with two seeds; results lie in `dir`.
fn jobs(dir: &Path, set: &[&str]) -> Vec<Job> {
    let file = dir.join("a.toml");
    let text = format!("[run]\nname = \"a\"\nresults_dir = \"{}\"\n", dir.display());
    fs::write(&file, text).unwrap();
    let matrix = Matrix {
        configs: vec![file],
        seeds: vec![0, 1],
        set: set.iter().map(ToString::to_string).collect(),
    };
    job::jobs(&matrix, &[]).unwrap()
}

/// Leaves the log of a simulated run of `config` where `job` looks for its own.
fn leave_log(job: &Job, config: &Config, reason: &str) {
    let start = json!({
        "event": "run_start", "config_name": job.name, "num_workers": 3, "dataset": "fashion_mnist",
        "model": "small_cnn", "batch_size": 128, "compute_delay": {}, "comm_delay_ms": 0.0, "bandwidth_mbps": 0.0,
        "started_at": 0.0, "seed": config.run.seed, "generation": 1, "mode": "async", "compression": "identity",
        "error_feedback": false, "parameters": 1, "layout": "l", "max_updates": 1, "target_accuracy": null,
        "simulated": true, "config": config,
    });
    let end = json!({
        "event": "run_end", "applied_updates": 1, "rejected_updates": 0, "rejected_frac": 0.0, "total_bytes": 4,
        "received_bytes": 4, "raw_bytes": 4, "compression_ratio": 1.0, "updates_per_sec": 1.0, "elapsed_s": 1.0,
        "mean_staleness": 0.0, "max_staleness": 0, "final_test_accuracy": 0.5, "final_test_loss": 1.0,
        "uplink_frame_bytes": 0, "downlink_frame_bytes": 0, "reason": reason,
    });
    let folder = job.setup.folder();
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(EVENTS_FILE), format!("{start}\n{end}\n")).unwrap();
}

/// As [`leave_log`], of the very run.
fn leave_own_log(job: &Job) {
    leave_log(job, job.setup.config(), "max_updates");
}

/// How many runs the table's only row counts.
fn counted(mode: Mode, jobs: &[Job], ended: &Ended) -> usize {
    let groups = groups(mode, jobs, ended);
    assert_eq!(groups.len(), 1, "one configuration, one row");
    groups[0].runs.len()
}

#[test]
fn a_log_is_taken_for_the_run_that_it_is_of() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = jobs(dir.path(), &[]);
    let job = &jobs[0];
    assert_eq!(job.found(Mode::Simulate), Found::Nothing);
    leave_own_log(job);
    assert_eq!(job.found(Mode::Simulate), Found::Done);
    assert_eq!(job.found(Mode::Processes), Found::Other, "its time was virtual");

    let mut other = job.setup.config().clone();
    other.workload.lr *= 2.0;
    leave_log(job, &other, "max_updates");
    assert_eq!(job.found(Mode::Simulate), Found::Other);
    leave_log(job, job.setup.config(), "asked to stop");
    assert_eq!(job.found(Mode::Simulate), Found::Nothing, "it was drained");
}

#[test]
fn logs_with_other_settings_are_no_figures_of_this_matrix() {
    let dir = tempfile::tempdir().unwrap();
    jobs(dir.path(), &["workload.lr=0.4"])
        .iter()
        .for_each(leave_own_log);
    let jobs = jobs(dir.path(), &[]);
    // A signal came before either was started: nothing of this matrix is there.
    let ended = Ended {
        left: 2,
        ..Ended::default()
    };
    assert_eq!(counted(Mode::Simulate, &jobs, &ended), 0);
    leave_own_log(&jobs[1]);
    assert_eq!(counted(Mode::Simulate, &jobs, &ended), 1);
    assert_eq!(
        counted(Mode::Processes, &jobs, &ended),
        0,
        "virtual seconds are no real ones"
    );
}

#[test]
fn a_run_that_failed_has_no_figures_and_one_made_now_has() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = jobs(dir.path(), &[]);
    jobs.iter().for_each(leave_own_log);
    // It failed before it wrote a line, so that an older log is still there.
    let ended = Ended {
        made: [1].into(),
        failed: [(0, "a_s0: failed".to_owned())].into(),
        ..Ended::default()
    };
    assert_eq!(counted(Mode::Simulate, &jobs, &ended), 1);
}
