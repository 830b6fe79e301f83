//! `asgc local`: a server and its workers on this machine, from one file.

mod plan;

pub(crate) use plan::{Programs, Setup};

use crate::cluster::{self, Outcome};
use crate::output::{self, Screen};
use crate::summary;
use anyhow::{Context as _, Result};
use asgc_daemon::event_log::EVENTS_FILE;
use asgc_daemon::exit::FAILURE;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

/// Train on this machine: start a server, its workers and an evaluator
///
/// All of them are processes of their own. The server takes free ports of 127.0.0.1 unless the file sets
/// server.listen or telemetry.metrics_listen. Logs (server.log, worker-0.log, …), events.jsonl and
/// model.safetensors go to <run.results_dir>/<run.name>.
///
/// The first Ctrl-C or SIGTERM lets the server drain, the second ends everything at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Experiment file, TOML or YAML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Set one key, over file and environment
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Trainers to start [workload.num_workers]
    #[arg(long, value_name = "N")]
    workers: Option<u32>,
    /// Start no evaluator: no accuracy, no loss
    #[arg(long)]
    no_evaluator: bool,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let workers = args.workers.map(|n| format!("workload.num_workers={n}"));
    let set = args.set.iter().cloned().chain(workers).collect();
    let setup = Setup::load(Some(args.file.clone()), set, !args.no_evaluator)?;
    run(&setup, &setup.plan(&Programs::find()?))
}

/// Carries out `plan`, shows how it goes, and tells its figures.
pub(crate) fn run(setup: &Setup, plan: &cluster::Plan) -> Result<ExitCode> {
    let started = SystemTime::now();
    let outcome = runtime()?.block_on(async {
        let mut signals = cluster::forward_signals()?;
        cluster::run(plan, &mut Screen::new(), &mut signals).await
    })?;
    report(setup, &outcome, started)
}

/// One thread is enough to wait for processes.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

fn report(setup: &Setup, outcome: &Outcome, started: SystemTime) -> Result<ExitCode> {
    let folder = setup.folder();
    let summary = summary::read(&folder)?;
    let ended = summary.end.is_some();
    summary::print(&[summary], None);
    for file in [EVENTS_FILE, "model.safetensors"].map(|name| folder.join(name)) {
        // An earlier run may have left a model that this one did not come to replace.
        if file
            .metadata()
            .and_then(|meta| meta.modified())
            .is_ok_and(|written| written >= started)
        {
            output::say(&file.display().to_string());
        }
    }
    if !outcome.failed_workers.is_empty() {
        output::note(&format!("failed: {}", outcome.failed_workers.join(", ")));
    }
    Ok(match outcome.cut_short {
        Some(code) => ExitCode::from(code),
        None if outcome.server_ok && ended => ExitCode::SUCCESS,
        None => ExitCode::from(FAILURE),
    })
}
