//! `asgc calibrate`: a real run's times, for simulating it.

use crate::output;
use crate::summary::log_of;
use anyhow::{Context as _, Result};
use asgc_lab::{calibrate, read_log};
use std::path::PathBuf;
use std::process::ExitCode;

/// Read off a real run how long steps take, for simulating it
///
/// Prints the settings of the section simulation with which asgc run --mode simulate takes as long as this run did.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder of a run, such as results/demo, or its events.jsonl
    #[arg(value_name = "DIR")]
    run: PathBuf,
    /// As flags of asgc run and asgc matrix, in one line
    #[arg(long)]
    flags: bool,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let log = read_log(&log_of(&args.run))?;
    let found = calibrate::calibrate(&log.events).with_context(|| {
        format!(
            "{}: too few pushes to tell how long a step takes",
            args.run.display()
        )
    })?;
    let settings = found.settings().into_iter();
    let text = match args.flags {
        true => settings
            .map(|(key, value)| format!("--set {key}={value}"))
            .collect::<Vec<_>>()
            .join(" "),
        false => settings
            .map(|(key, value)| format!("{key} = {value}"))
            .collect::<Vec<_>>()
            .join("\n"),
    };
    output::say(&text);
    Ok(ExitCode::SUCCESS)
}
