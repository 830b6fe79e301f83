//! `asgc matrix`: configurations times seeds.

mod file;
mod job;
mod progress;
mod runner;
#[cfg(test)]
mod tests;

use crate::cluster::{self, Plan};
use crate::local::{Programs, runtime};
use crate::output;
use crate::programs;
use crate::run::Mode;
use anyhow::{Context as _, Result};
use asgc_daemon::exit::FAILURE;
use asgc_lab::Summary;
use asgc_lab::seeds::{self, Group};
use file::Matrix;
use job::{Found, Job};
use progress::Board;
use runner::{Ended, Runner};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run configurations with several seeds, and compare them
///
/// FILE names experiment files (configs) and seeds, and perhaps settings over all of them (set). Each run is called
/// NAME_sSEED and leaves its log like any other. A run that fails is told and the others go on; at the end comes a table
/// with the mean over seeds and its standard deviation, also as <results_dir>/<matrix>.csv.
///
/// The first Ctrl-C or SIGTERM drains the runs that are under way and starts no more, the second ends them at once; with
/// --resume the matrix goes on from there later.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Matrix file, TOML or YAML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Runs at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Leave out runs whose log is there, whole and of the same settings
    #[arg(long)]
    resume: bool,
    /// Virtual time, or real processes
    #[arg(long, value_enum, default_value_t = Mode::Simulate)]
    mode: Mode,
    /// Set one key in all runs, over files and environment
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let matrix = Matrix::read(&args.file)?;
    let jobs = job::jobs(&matrix, &args.set)?;
    job::check(&jobs, args.mode)?;
    let plan_of = plan_of(args.mode)?;
    let mut board = Board::new(jobs.len(), args.jobs.into());
    let mut todo = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        match job.found(args.mode) {
            Found::Done if args.resume => board.skipped(&job.name),
            Found::Other if args.resume => {
                board.remark(&format!(
                    "{}: there, but with other settings; it is run again",
                    job.name
                ));
                todo.push(number);
            }
            _ => todo.push(number),
        }
    }
    let ended = runtime()?.block_on(async {
        let signals = cluster::forward_signals()?;
        let plan = |number: usize| plan_of(&jobs[number]);
        let name = |number: usize| (jobs[number].name.clone(), jobs[number].group.clone());
        Runner::new(args.jobs.into(), &plan, &name)
            .run(todo, &mut board, signals)
            .await
    })?;
    board.finish();
    conclude(args, &jobs, &ended)
}

type PlanOf = Box<dyn Fn(&Job) -> Plan>;

/// How a job is carried out.
fn plan_of(mode: Mode) -> Result<PlanOf> {
    Ok(match mode {
        Mode::Simulate => {
            let simulator = programs::find("asgc-simulator")?;
            Box::new(move |job| job.setup.simulation(simulator.clone()))
        }
        Mode::Processes => {
            let programs = Programs::find()?;
            Box::new(move |job| job.setup.plan(&programs))
        }
    })
}

fn conclude(args: &Args, jobs: &[Job], ended: &Ended) -> Result<ExitCode> {
    let groups = groups(args.mode, jobs, ended);
    output::say(&seeds::table(&groups));
    if let Some(first) = jobs.first() {
        let name = args.file.file_stem().unwrap_or_default().to_string_lossy();
        let results = PathBuf::from(&first.setup.config().run.results_dir);
        let path = results.join(format!("{name}.csv"));
        write(&path, &seeds::csv(&groups))?;
        output::say(&path.display().to_string());
    }
    for failure in ended.failed.values() {
        output::note(failure);
    }
    if ended.left > 0 {
        output::note(&format!("{} runs are left; go on with --resume", ended.left));
    }
    Ok(match ended.cut_short {
        Some(code) => ExitCode::from(code),
        None if ended.failed.is_empty() && ended.left == 0 => ExitCode::SUCCESS,
        None => ExitCode::from(FAILURE),
    })
}

fn write(path: &Path, text: &str) -> Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// Runs that have ended, by configuration, in the order of the matrix.
///
/// A run that was not made now counts if its log is of the very run. What an earlier matrix left under the same name, with
/// other settings, would pass for a figure of this one.
fn groups(mode: Mode, jobs: &[Job], ended: &Ended) -> Vec<Group> {
    let mut groups = Vec::<Group>::new();
    for (number, job) in jobs.iter().enumerate() {
        let place = groups
            .iter()
            .position(|group| group.name == job.group)
            .unwrap_or_else(|| {
                groups.push(Group {
                    name: job.group.clone(),
                    runs: Vec::new(),
                });
                groups.len() - 1
            });
        let counts = |run: &Summary| {
            let known = ended.made.contains(&number)
                || !ended.failed.contains_key(&number) && job.compare(Some(run), mode) == Found::Done;
            known && run.is_complete()
        };
        groups[place].runs.extend(job.summary().filter(counts));
    }
    groups
}
