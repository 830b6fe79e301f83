//! `asgc explain`: a readable account of a run.

use crate::output;
use crate::summary::log_of;
use anyhow::Result;
use asgc_lab::explain::explain;
use asgc_lab::read_log;
use std::path::PathBuf;
use std::process::ExitCode;

/// Width where there is no terminal.
const WIDTH: usize = 80;

/// Tell how a run went: its course in small charts, each decision and why it happened, and how each worker did
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// events.jsonl, or the folder of a run
    #[arg(value_name = "LOG")]
    log: PathBuf,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let log = read_log(&log_of(&args.log))?;
    let terminal = terminal_size::terminal_size_of(std::io::stdout());
    let width = terminal.map_or(WIDTH, |(width, _)| usize::from(width.0));
    output::say(&explain(&log.events, width.clamp(40, 200)));
    Ok(ExitCode::SUCCESS)
}
