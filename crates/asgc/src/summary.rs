//! `asgc summary`: the figures of runs, from their logs.

use crate::output;
use anyhow::Result;
use asgc_core::event::Event;
use asgc_daemon::event_log::EVENTS_FILE;
use asgc_lab::{Summary, read_log, table};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show the figures of one or several runs, side by side
///
/// Everything is read from the runs' events.jsonl, also of runs that were killed or still go on.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folders of runs, such as results/demo, or their events.jsonl
    #[arg(required = true, value_name = "DIR")]
    runs: Vec<PathBuf>,
    /// Ask for the time to this accuracy (0 to 1) instead of each run's own target
    #[arg(long, value_name = "FRACTION", value_parser = fraction)]
    target: Option<f64>,
}

pub(crate) fn fraction(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err("must lie between 0 and 1".into())
    }
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let summaries = args
        .runs
        .iter()
        .map(|run| read(run))
        .collect::<Result<Vec<_>>>()?;
    print(&summaries, args.target);
    Ok(ExitCode::SUCCESS)
}

/// The log of a run that is named by its folder, or by the log itself.
pub(crate) fn log_of(run: &Path) -> PathBuf {
    if run.is_dir() {
        run.join(EVENTS_FILE)
    } else {
        run.to_owned()
    }
}

/// The figures of the run in folder `run`; remarks on what was left out of its log.
pub(crate) fn read(run: &Path) -> Result<Summary> {
    Ok(Summary::from_events(&read_events(run)?))
}

/// The figures of the run in folder `run`, where it has a log that can be read.
pub(crate) fn find(run: &Path) -> Option<Summary> {
    let log = read_log(&log_of(run)).ok()?;
    Some(Summary::from_events(&log.events))
}

/// The events of the run in folder `run`; remarks on what was left out.
pub(crate) fn read_events(run: &Path) -> Result<Vec<Event>> {
    let path = log_of(run);
    let log = read_log(&path)?;
    if log.truncated {
        output::note(&format!(
            "{}: the last line is cut short and was left out",
            path.display()
        ));
    }
    if log.unknown > 0 {
        output::note(&format!(
            "{}: {} events of kinds unknown to this version",
            path.display(),
            log.unknown
        ));
    }
    Ok(log.events)
}

/// Prints the table; of a single run also its trainers.
pub(crate) fn print(summaries: &[Summary], target: Option<f64>) {
    output::say(&table::runs(summaries, target));
    if let [summary] = summaries
        && !summary.workers.is_empty()
    {
        output::say(&format!("\n{}", table::workers(summary)));
    }
}
