//! `asgc run`: one experiment file, simulated or as real processes.

use crate::local::{self, Programs, Setup};
use crate::programs;
use anyhow::{Result, bail};
use clap::ValueEnum;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run an experiment file: simulated on virtual time, or as real processes
///
/// simulate: one process, virtual time, real gradients. Machines and links are what the section simulation says, and
/// what heterogeneity adds. The same file gives the same events.jsonl, byte for byte.
///
/// processes: the daemons on this machine, as asgc local starts them; delays and rates of heterogeneity are injected by
/// the workers. For links that are really shaped see asgc bench link.
///
/// Either way the log goes to <run.results_dir>/<run.name>/events.jsonl. The first Ctrl-C or SIGTERM drains the run,
/// the second ends it at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Experiment file, TOML or YAML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Virtual time, or real processes
    #[arg(long, value_enum, default_value_t = Mode::Simulate)]
    mode: Mode,
    /// Set one key, over file and environment
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
}

/// How an experiment is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// On virtual time.
    Simulate,
    /// By the daemons.
    Processes,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let setup = Setup::load(Some(args.file.clone()), args.set.clone(), true)?;
    let plan = match args.mode {
        Mode::Simulate => setup.simulation(programs::find("asgc-simulator")?),
        Mode::Processes => {
            let model = setup.config().workload.model;
            if model.is_synthetic() {
                let model = model.as_str();
                bail!(
                    "workload.model = \"{model}\" is an objective, which workers do not compute; use --mode simulate"
                );
            }
            setup.plan(&Programs::find()?)
        }
    };
    local::run(&setup, &plan)
}
