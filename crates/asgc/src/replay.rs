//! `asgc replay`: whether a log is what the server must have logged.

use crate::output;
use crate::summary::log_of;
use anyhow::Result;
use asgc_daemon::exit::FAILURE;
use asgc_lab::replay::replay;
use indicatif::ProgressBar;
use std::path::PathBuf;
use std::process::ExitCode;

/// Between two looks at the progress, in events.
const SHOW_EVERY: u64 = 10_000;

/// Recompute a log: every window, decision, version and total
///
/// Ends with exit code 1 at the first line that does not follow from those before it, and says what differs. A log
/// without run_end (of a run that was killed, or goes on) is checked as far as it goes, and ends with 1 too.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// events.jsonl, or the folder of a run
    #[arg(value_name = "LOG")]
    log: PathBuf,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let path = log_of(&args.log);
    let spinner = ProgressBar::new_spinner();
    let replayed = replay(&path, |events| {
        if events.is_multiple_of(SHOW_EVERY) {
            spinner.set_message(format!("{events} events"));
            spinner.tick();
        }
    });
    spinner.finish_and_clear();
    let replayed = replayed?;
    output::say(&format!(
        "{} events: {} versions, {} decisions{}: as logged",
        replayed.events,
        replayed.versions,
        replayed.decisions,
        if replayed.ended { " and the totals" } else { "" }
    ));
    if replayed.ended {
        return Ok(ExitCode::SUCCESS);
    }
    output::note("the log has no run_end: the run was cut short, or goes on");
    Ok(ExitCode::from(FAILURE))
}
