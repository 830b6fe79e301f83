//! `asgc bench train`: how near training comes to what the same workers reach with computing alone.

use super::compute;
use crate::cluster;
use crate::local::{Programs, Setup, runtime};
use crate::output::{self, Screen};
use anyhow::{Context as _, Result, bail};
use asgc_daemon::event_log::EVENTS_FILE;
use asgc_lab::{rate, read_log, units};
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::sync::mpsc::Receiver;

/// Updates before this share of a run are its start, and not counted.
const START_SHARE: f64 = 0.1;

/// Compare updates/s with what the same workers reach by forward and backward passes alone
///
/// Without FILE: plain asynchronous training of small_cnn, batch 128, three workers, no delays. Each round
/// measures computing, training, computing, training (both without an evaluator), and training with an
/// evaluator, one after the other, since a shared machine is fast one minute and slow the next. Medians are
/// shown. The first tenth of each run's updates does not count.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Experiment file, TOML or YAML
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Set one key, over file and environment
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Updates of each training run [workload.max_updates]
    #[arg(long, value_name = "N", default_value_t = 1500, value_parser = clap::value_parser!(u64).range(20..))]
    updates: u64,
    /// Rounds of the five measurements
    #[arg(long, value_name = "R", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of each measurement of computing
    #[arg(long, value_name = "S", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

/// All measurements, in steps or updates a second.
#[derive(Debug, Default)]
struct Figures {
    compute: Vec<f64>,
    train: Vec<f64>,
    with_evaluator: Vec<f64>,
}

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    let programs = Programs::find()?;
    // Checked once before minutes of measuring.
    let setup = setup(args, "bench", false)?;
    let workers = setup.config().workload.num_workers;
    let figures = runtime()?.block_on(measure(args, &programs))?;
    output::say(&figures.report(workers));
    Ok(ExitCode::SUCCESS)
}

fn setup(args: &Args, suffix: &str, evaluator: bool) -> Result<Setup> {
    let name = Setup::load(args.file.clone(), args.set.clone(), false)?
        .config()
        .run
        .name
        .clone();
    let own = [
        format!("run.name={name}-{suffix}"),
        format!("workload.max_updates={}", args.updates),
    ];
    Ok(Setup::load(
        args.file.clone(),
        args.set.iter().cloned().chain(own).collect(),
        evaluator,
    )?)
}

async fn measure(args: &Args, programs: &Programs) -> Result<Figures> {
    let mut signals = cluster::forward_signals()?;
    let mut figures = Figures::default();
    for round in 1..=args.rounds {
        for _ in 0..2 {
            let setup = setup(args, "bench", false)?;
            let computed = compute::steps_per_s(args.seconds, &setup, programs);
            let rate = tokio::select! {
                rate = computed => rate?,
                // The children die with their handles.
                Some(_) = signals.recv() => bail!("interrupted"),
            };
            output::note(&format!(
                "round {round}: computing alone {}",
                units::per_second(rate)
            ));
            figures.compute.push(rate);
            let rate = train(&setup, programs, &mut signals).await?;
            output::note(&format!("round {round}: training {}", units::per_second(rate)));
            figures.train.push(rate);
        }
        let rate = train(&setup(args, "bench-eval", true)?, programs, &mut signals).await?;
        output::note(&format!(
            "round {round}: training with an evaluator {}",
            units::per_second(rate)
        ));
        figures.with_evaluator.push(rate);
    }
    Ok(figures)
}

/// Updates a second of one run.
async fn train(setup: &Setup, programs: &Programs, signals: &mut Receiver<u8>) -> Result<f64> {
    let outcome = cluster::run(&setup.plan(programs), &mut Screen::Quiet, signals).await?;
    let folder = setup.folder();
    if outcome.interrupted {
        bail!("interrupted");
    }
    if !outcome.server_ok {
        bail!("the run did not end properly; see {}", folder.display());
    }
    let log = read_log(&folder.join(EVENTS_FILE))?;
    rate::steady(&log.events, START_SHARE)
        .with_context(|| format!("{} holds too few updates to measure", folder.display()))
}

impl Figures {
    fn report(&self, workers: u32) -> String {
        let middle = |values: &[f64]| rate::median(values).unwrap_or(f64::NAN);
        let (compute, train) = (middle(&self.compute), middle(&self.train));
        let evaluated = middle(&self.with_evaluator);
        let spread = |values: &[f64]| {
            let (low, high) = values
                .iter()
                .fold((f64::INFINITY, 0.0_f64), |(l, h), &v| (l.min(v), h.max(v)));
            format!("{low:.1} to {high:.1}, {} measurements", values.len())
        };
        format!(
            "computing alone, {workers} workers  {compute:.1} steps/s    ({})\n\
             training, no evaluator      {train:.1} updates/s  ({})\n\
             training / computing        {:.3}\n\
             an evaluator costs          {} of the updates/s ({evaluated:.1} updates/s with it)",
            spread(&self.compute),
            spread(&self.train),
            train / compute,
            units::percent(1.0 - evaluated / train),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_ratio_and_cost() {
        let figures = Figures {
            compute: vec![100.0, 110.0, 90.0],
            train: vec![95.0, 60.0, 97.0],
            with_evaluator: vec![76.0],
        };
        let expect = "\
computing alone, 3 workers  100.0 steps/s    (90.0 to 110.0, 3 measurements)
training, no evaluator      95.0 updates/s  (60.0 to 97.0, 3 measurements)
training / computing        0.950
an evaluator costs          20.0 % of the updates/s (76.0 updates/s with it)";
        assert_eq!(figures.report(3), expect);
    }
}
