//! `asgc report`: runs side by side, drawn.

use crate::output;
use crate::summary::{fraction, print, read_events};
use anyhow::{Context as _, Result, bail};
use asgc_lab::report::{self, Run};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare runs: a table, a page with plots, and the plots as files
///
/// Everything comes from the runs' events.jsonl. The page, report.html, opens from a file and needs nothing else; beside
/// it lie summary.csv and each plot as SVG and PNG.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folders of runs, such as results/demo, or their events.jsonl
    #[arg(required = true, value_name = "DIR")]
    runs: Vec<PathBuf>,
    /// Where the report goes
    #[arg(long, value_name = "DIR", default_value = "results/report")]
    out: PathBuf,
    /// Ask for the time to this accuracy (0 to 1) instead of each run's own target
    #[arg(long, value_name = "FRACTION", value_parser = fraction)]
    target: Option<f64>,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let labels = labels(&args.runs)?;
    // One log at a time in memory: a run keeps of it what a report shows.
    let read = |(path, label): (&PathBuf, String)| Ok(Run::of(&read_events(path)?, label));
    let runs = args
        .runs
        .iter()
        .zip(labels)
        .map(read)
        .collect::<Result<Vec<_>>>()?;
    let summaries = runs.iter().map(|run| run.summary().clone()).collect::<Vec<_>>();
    print(&summaries, args.target);
    let files = report::write(&runs, &args.out, args.target)?;
    for file in files.iter().take(2) {
        output::say(&file.display().to_string());
    }
    output::say(&format!(
        "{} plots beside them, as SVG and PNG",
        files.len() / 2 - 1
    ));
    Ok(ExitCode::SUCCESS)
}

/// The folders' names, or as much of their paths as tells them apart.
fn labels(runs: &[PathBuf]) -> Result<Vec<String>> {
    let folder = |path: &Path| match path.is_file() {
        true => path.parent().map(Path::to_owned).unwrap_or_default(),
        false => path.to_owned(),
    };
    let folders = runs
        .iter()
        .map(|run| std::path::absolute(folder(run)))
        .collect::<Result<Vec<_>, _>>();
    let folders = folders.context("cannot tell the current folder")?;
    let distinct = folders.iter().collect::<BTreeSet<_>>().len();
    if distinct < folders.len() {
        bail!("a run is named twice");
    }
    for parts in 1..=folders
        .iter()
        .map(|folder| folder.iter().count())
        .max()
        .unwrap_or(1)
    {
        let labels = folders
            .iter()
            .map(|folder| end_of(folder, parts))
            .collect::<Vec<_>>();
        if labels.iter().collect::<BTreeSet<_>>().len() == labels.len() {
            return Ok(labels);
        }
    }
    bail!("the runs cannot be told apart by their folders")
}

fn end_of(folder: &Path, parts: usize) -> String {
    let all = folder
        .iter()
        .map(|part| part.to_string_lossy())
        .collect::<Vec<_>>();
    all[all.len().saturating_sub(parts)..].join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(runs: &[&str]) -> Result<Vec<String>> {
        labels(&runs.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    #[test]
    fn runs_are_called_by_their_folders_as_far_as_need_be() {
        assert_eq!(of(&["results/a", "results/b"]).unwrap(), ["a", "b"]);
        assert_eq!(of(&["x/a", "y/a"]).unwrap(), ["x/a", "y/a"]);
        assert!(of(&["x/a", "x/a/"]).is_err());
    }
}
