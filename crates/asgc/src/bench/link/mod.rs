//! `asgc bench link`: strategies on one shaped link, run one after the other with real processes.

mod net;
pub(crate) mod rate;
mod row;

use super::compute;
use crate::cluster::{self, Plan};
use crate::local::{Programs, Setup, runtime};
use crate::output::{self, Screen};
use anyhow::{Context as _, Result, bail};
use asgc_core::codec::Codec;
use asgc_core::cost::payload_bytes;
use asgc_daemon::event_log::EVENTS_FILE;
use asgc_lab::plan::{Setting, time_codec};
use asgc_lab::read_log;
use net::Network;
use rate::{Change, Rate, Uplink};
use row::Row;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;
use tokio::time::sleep;

/// `--uplink auto`: an uncompressed push takes so many times a step's compute.
const AUTO_RATIO: f64 = 10.0;

/// Compare strategies on a shaped link: needs root, ip and tc
///
/// Each worker gets a network namespace of its own, whose uplink `tc tbf` holds to the rate; the evaluator is not held
/// back. The configurations run one after the other. With `--uplink auto` the rate is such that an uncompressed push
/// takes about ten times a step's compute, as measured here. Everything that was set up is removed at the end.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Experiment files, TOML or YAML
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Set one key in all of them
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Rate of each worker's uplink: auto, none, 6mbit, or one for each worker, 8mbit,2mbit
    #[arg(long, value_name = "RATE", default_value = "auto")]
    uplink: Uplink,
    /// Rate of each worker's downlink [not held back]
    #[arg(long, value_name = "RATE")]
    downlink: Option<Rate>,
    /// Change all uplinks in mid-run, SECONDS=RATE from the run's start; may be given several times
    #[arg(long, value_name = "S=RATE")]
    change_at: Vec<Change>,
    /// Seconds of measuring how fast workers compute
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Print JSON, one object a run
    #[arg(long)]
    json: bool,
}

/// What all runs have in common.
struct Bench<'a> {
    args: &'a Args,
    programs: Programs,
    /// Seconds that a worker needs for a gradient, all of them at it.
    compute_s: f64,
    uplinks: Vec<Option<Rate>>,
    /// `None` where nothing is shaped.
    network: Option<Rc<Network>>,
}

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    let programs = Programs::find()?;
    // Checked before minutes of measuring; all must agree in what is shaped.
    let setups = args
        .files
        .iter()
        .map(|file| load(args, file, None))
        .collect::<Result<Vec<_>>>()?;
    let first = setups.first().context("no files")?;
    let workload = &first.config().workload;
    if let Some(other) = setups
        .iter()
        .find(|setup| setup.config().workload.num_workers != workload.num_workers)
    {
        let name = &other.config().run.name;
        bail!("{name} has another workload.num_workers: runs that are compared need the same");
    }
    let rows = runtime()?.block_on(async {
        let mut signals = cluster::forward_signals()?;
        let bench = Bench::prepare(args, programs, first, &mut signals).await?;
        let mut rows = Vec::new();
        for file in &args.files {
            let row = bench.run(file, &mut signals).await?;
            output::note(&row.line());
            rows.push(row);
        }
        anyhow::Ok(rows)
    })?;
    for text in if args.json {
        row::json(&rows)?
    } else {
        vec![row::table(&rows)]
    } {
        output::say(&text);
    }
    Ok(ExitCode::SUCCESS)
}

fn load(args: &Args, file: &Path, host: Option<&str>) -> Result<Setup> {
    let listen = host.map(|host| format!("server.listen={host}:0"));
    let set = args.set.iter().cloned().chain(listen).collect();
    Ok(Setup::load(Some(file.to_owned()), set, true)?)
}

impl<'a> Bench<'a> {
    async fn prepare(
        args: &'a Args,
        programs: Programs,
        setup: &Setup,
        signals: &mut Receiver<u8>,
    ) -> Result<Self> {
        let workload = &setup.config().workload;
        let (workers, parameters) = (workload.num_workers, workload.model.parameters());
        let steps_per_s = tokio::select! {
            rate = compute::steps_per_s(args.seconds, setup, &programs) => rate?,
            Some(_) = signals.recv() => bail!("interrupted"),
        };
        let delays = &setup.config().heterogeneity.compute_delay;
        let delay_s = delays.values().sum::<f64>() / f64::from(workers);
        let compute_s = f64::from(workers) / steps_per_s + delay_s;
        let dense_bytes = payload_bytes(Codec::Identity, parameters);
        let uplinks = uplinks(&args.uplink, workers, dense_bytes / (AUTO_RATIO * compute_s))?;
        let shaped = uplinks.iter().any(Option::is_some) || args.downlink.is_some();
        let network = if shaped {
            Some(Rc::new(Network::new(workers)?))
        } else {
            None
        };
        output::note(&format!(
            "{workers} workers at once compute a gradient in {:.1} ms, injected delay included",
            1e3 * compute_s
        ));
        for (worker, rate) in uplinks.iter().enumerate() {
            let Some(rate) = rate else { continue };
            let times = dense_bytes / rate.bytes_per_s() / compute_s;
            output::note(&format!(
                "worker {worker}: uplink {rate}; all of a gradient takes {times:.1} times as long"
            ));
        }
        Ok(Self {
            args,
            programs,
            compute_s,
            uplinks,
            network,
        })
    }

    async fn run(&self, file: &Path, signals: &mut Receiver<u8>) -> Result<Row> {
        let host = self.network.as_ref().map(|network| network.host());
        let setup = load(self.args, file, host.as_deref())?;
        self.shape()?;
        let (plan, folder) = (self.plan(&setup), setup.folder());
        output::note(&format!(
            "{}: at most {:.0} s",
            setup.config().run.name,
            setup.config().workload.max_wall_time_s
        ));
        let mut screen = Screen::new();
        let outcome = tokio::select! {
            outcome = cluster::run(&plan, &mut screen, signals) => outcome?,
            failed = self.change_rates(folder.join(EVENTS_FILE)) => return Err(failed),
        };
        if outcome.interrupted {
            bail!("interrupted");
        }
        if !outcome.server_ok {
            bail!("the run did not end properly; see {}", folder.display());
        }
        let log = read_log(&folder.join(EVENTS_FILE))?;
        Ok(Row::new(setup.config(), &log.events, self.predicted(&setup)))
    }

    fn shape(&self) -> Result<()> {
        let Some(network) = &self.network else {
            return Ok(());
        };
        for (worker, rate) in (0..).zip(&self.uplinks) {
            network.shape_uplink(worker, *rate)?;
            network.shape_downlink(worker, self.args.downlink)?;
        }
        Ok(())
    }

    /// The plan of `asgc local`, with trainers in their namespaces.
    fn plan(&self, setup: &Setup) -> Plan {
        let mut plan = setup.plan(&self.programs);
        let Some(network) = self.network.clone() else {
            return plan;
        };
        let workers = plan.workers;
        plan.workers = Box::new(move |endpoints| {
            let mut specs = workers(endpoints);
            for (worker, spec) in (0..).zip(specs.iter_mut().filter(|spec| spec.trainer)) {
                let program = std::mem::replace(&mut spec.program, "ip".into());
                let mut args = network.prefix(worker);
                args.push(program.display().to_string());
                args.append(&mut spec.args);
                spec.args = args;
            }
            specs
        });
        plan
    }

    /// Changes the rates when it is time; returns only when that fails.
    async fn change_rates(&self, log: PathBuf) -> anyhow::Error {
        let mut changes = self.args.change_at.clone();
        changes.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        let Some(network) = self.network.as_ref().filter(|_| !changes.is_empty()) else {
            return std::future::pending().await;
        };
        // The log of the run before is moved away when the server starts, before there is a new one.
        sleep(Duration::from_secs(1)).await;
        while log.metadata().map_or(0, |log| log.len()) == 0 {
            sleep(Duration::from_millis(20)).await;
        }
        let mut now_s = 0.0;
        for change in changes {
            sleep(Duration::from_secs_f64(change.at_s - now_s)).await;
            now_s = change.at_s;
            output::note(&format!("{now_s} s: uplinks now {}", change.rate));
            for worker in (0..).take(self.uplinks.len()) {
                if let Err(error) = network.shape_uplink(worker, Some(change.rate)) {
                    return error;
                }
            }
        }
        std::future::pending().await
    }

    /// Updates a second that the plan's model expects with the configured codec, where that stays as it is.
    fn predicted(&self, setup: &Setup) -> Option<f64> {
        let config = setup.config();
        if config.controller.enabled || config.compression.auto || !self.args.change_at.is_empty() {
            return None;
        }
        let parameters = config.workload.model.parameters();
        let codec = config.compression.codec().ok()?;
        let of = |uplink: &Option<Rate>| {
            let setting = Setting {
                parameters,
                compute_s: self.compute_s,
                uplink_bytes_per_s: uplink.map_or(f64::INFINITY, Rate::bytes_per_s),
                downlink_bytes_per_s: self.args.downlink.map_or(f64::INFINITY, Rate::bytes_per_s),
                rtt_s: 0.0,
                workers: 1,
                compressed: time_codec(codec, parameters),
                dense: time_codec(Codec::Identity, parameters),
            };
            setting.predict(codec).updates_per_s
        };
        Some(self.uplinks.iter().map(of).sum())
    }
}

/// One rate a worker.
fn uplinks(wanted: &Uplink, workers: u32, auto_bytes_per_s: f64) -> Result<Vec<Option<Rate>>> {
    let auto = || Rate::of_bytes_per_s(auto_bytes_per_s).context("computing was too slow to choose a rate");
    let rates = match wanted {
        Uplink::None => vec![None],
        Uplink::Auto => vec![Some(auto()?)],
        Uplink::Rates(rates) => rates.iter().copied().map(Some).collect(),
    };
    let last = rates.last().copied().flatten();
    Ok((0..workers as usize)
        .map(|worker| rates.get(worker).copied().unwrap_or(last))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_has_a_rate() {
        let bits = |wanted: &str| {
            let found = uplinks(&wanted.parse().unwrap(), 3, 125_000.0).unwrap();
            found
                .into_iter()
                .map(|rate| rate.map(Rate::bits_per_s))
                .collect::<Vec<_>>()
        };
        assert_eq!(bits("none"), [None, None, None]);
        assert_eq!(bits("auto"), [Some(1_000_000); 3]);
        assert_eq!(
            bits("8mbit,2mbit"),
            [Some(8_000_000), Some(2_000_000), Some(2_000_000)]
        );
    }
}
