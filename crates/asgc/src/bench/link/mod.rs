//! `asgc bench link`: strategies on one shaped link, run one after the other with real processes.
//!
//! | module | what it does |
//! |---|---|
//! | [`rate`] | rates and their changes, as people write them |
//! | [`commands`] | the lines that `ip` and `tc` are given |
//! | [`leftovers`] | what a killed process left, and which addresses are free |
//! | [`net`] | a network that is there as long as its value |
//! | [`probe`] | what a link carries in fact |
//! | [`change`] | rates that change in mid-run |
//! | [`series`] | the runs |
//! | [`row`], [`table`] | what they came to |

mod change;
mod commands;
mod leftovers;
mod net;
pub(super) mod probe;
pub(crate) mod rate;
mod row;
mod series;
mod table;

use crate::cluster;
use crate::local::{Programs, Setup, runtime};
use crate::output;
use anyhow::{Result, bail};
use asgc_daemon::exit::FAILURE;
use rate::{Change, Rate, Uplink};
use series::{Ending, Series};
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare strategies on a shaped link: needs root, ip and tc
///
/// Each worker gets a network namespace of its own, whose uplink `tc tbf` holds to the rate; the evaluator is not held
/// back. The configurations run one after the other, and one table compares them. With `--uplink auto` the rate is
/// such that an uncompressed push takes about ten times a step's compute, as measured here with all trainers
/// computing at once.
///
/// Everything that was set up is removed at the end, also after Ctrl-C; what a killed `asgc` left is removed by the
/// next. The first Ctrl-C or SIGTERM drains the run and ends the series, the second ends everything at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Experiment files, TOML or YAML
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Set one key in all of them
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Rate of each worker's uplink: auto, none, 6mbit, or one for each worker, 8mbit,2mbit
    #[arg(long, value_name = "RATE[,RATE…]", default_value = "auto")]
    uplink: Uplink,
    /// Rate of each worker's downlink [not held back]
    #[arg(long, value_name = "RATE")]
    downlink: Option<Rate>,
    /// Change the uplinks in mid-run, seconds from the run's start; may be given several times
    #[arg(long, value_name = "SECONDS=RATE[,RATE…]")]
    change_at: Vec<Change>,
    /// Run all of them so many times, in turn, and show medians; run.seed goes up by 1 each time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Seconds of measuring how fast workers compute
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Print JSON, one object a run
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Whether anything is to be shaped.
    fn shapes(&self) -> bool {
        self.uplink != Uplink::None || self.downlink.is_some()
    }
}

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    // All that can be wrong is told before anything is touched, and before minutes of measuring.
    if !args.change_at.is_empty() && args.uplink == Uplink::None {
        bail!("--change-at needs links with a rate: give --uplink");
    }
    let setups = args
        .files
        .iter()
        .map(|file| Setup::load(Some(file.clone()), args.set.clone(), true))
        .collect::<Result<Vec<_>, _>>()?;
    let workers = workers(&setups)?;
    let programs = Programs::find()?;
    if args.shapes() {
        net::check_means()?;
    }
    let (rows, ending) = runtime()?.block_on(async {
        let mut signals = cluster::forward_signals()?;
        let series = Series::prepare(args, workers, programs, &mut signals).await?;
        series.run(&mut signals).await
    })?;
    if args.json {
        table::json(&rows)?.iter().for_each(|line| output::say(line));
    } else if !rows.is_empty() {
        output::say(&table::table(&rows));
    }
    if let Some(words) = table::unequal(&rows) {
        output::note(&words);
    }
    Ok(match ending {
        Ending::Whole => ExitCode::SUCCESS,
        Ending::Failed | Ending::Interrupted => ExitCode::from(FAILURE),
        Ending::CutShort(code) => ExitCode::from(code),
    })
}

/// How many trainers all the runs have.
fn workers(setups: &[Setup]) -> Result<u32> {
    let of = |setup: &Setup| setup.config().workload.num_workers;
    let workers = setups.first().map_or(0, of);
    for setup in setups {
        if of(setup) != workers {
            bail!(
                "{} has {} for workload.num_workers, others {workers}: runs that are compared need the same",
                setup.config().run.name,
                of(setup)
            );
        }
    }
    let mut names = std::collections::BTreeSet::new();
    for name in setups.iter().map(|setup| &setup.config().run.name) {
        if !names.insert(name) {
            bail!(
                "two of the files have the run.name {name}: they would share a row and a folder of results"
            );
        }
    }
    Ok(workers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(name: &str, workers: u32) -> Setup {
        let set = vec![
            format!("run.name={name}"),
            format!("workload.num_workers={workers}"),
        ];
        Setup::load(None, set, true).unwrap()
    }

    #[test]
    fn runs_that_cannot_be_compared_are_refused() {
        assert_eq!(workers(&[setup("a", 2), setup("b", 2)]).unwrap(), 2);
        let error = workers(&[setup("a", 2), setup("b", 3)]).unwrap_err().to_string();
        assert!(
            error.starts_with("b has 3 for workload.num_workers, others 2"),
            "{error}"
        );
        let error = workers(&[setup("a", 2), setup("a", 2)]).unwrap_err().to_string();
        assert!(
            error.starts_with("two of the files have the run.name a"),
            "{error}"
        );
    }
}
