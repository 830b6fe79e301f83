//! `asgc findings`: the reference's findings, from logs.

use crate::output;
use anyhow::{Context as _, Result};
use asgc_lab::findings::{self, Evidence, PLOT};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write the reference's findings, as measured here, from the logs of the matrices in configs/findings
///
/// make findings makes the runs and then calls this.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder with the runs
    #[arg(value_name = "DIR", default_value = "results/findings")]
    runs: PathBuf,
    /// The document; its plot goes beside it
    #[arg(long, value_name = "FILE", default_value = "docs/findings.md")]
    out: PathBuf,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let document = findings::document(&Evidence::read(&args.runs)?);
    let plot = args.out.with_file_name(PLOT);
    fs::write(&args.out, &document.text).with_context(|| args.out.display().to_string())?;
    output::say(&args.out.display().to_string());
    if let Some(svg) = &document.plot {
        fs::write(&plot, svg).with_context(|| plot.display().to_string())?;
        output::say(&plot.display().to_string());
    }
    Ok(ExitCode::SUCCESS)
}
