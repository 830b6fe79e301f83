//! The runs of a comparison: what is measured first, and then one run after the other.

use super::change::{self, Timed};
use super::net::Network;
use super::rate::{Rate, Uplink};
use super::row::Row;
use super::{Args, probe};
use crate::bench::compute;
use crate::cluster::{self, Plan, WorkersOf};
use crate::local::{Programs, Setup};
use crate::output::{self, Screen};
use anyhow::{Context as _, Result, bail};
use asgc_core::codec::{Codec, Form};
use asgc_daemon::event_log::EVENTS_FILE;
use asgc_lab::plan::{Setting, time_codec};
use asgc_lab::read_log;
use std::path::Path;
use std::rc::Rc;
use tokio::sync::mpsc::Receiver;

/// `--uplink auto`: an uncompressed push takes so many times a step's compute.
const AUTO_RATIO: f64 = 10.0;

/// Shares of its rate that a link may carry as payload. Of a full frame of 1514 bytes 1448 are payload.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.85..=1.05;

/// How a series of runs ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// All of them ran.
    Whole,
    /// A run failed, and that was told.
    Failed,
    /// A signal ended it.
    Interrupted,
    /// A second signal cut a run short; its exit code.
    CutShort(u8),
}

/// What all runs have in common.
pub(super) struct Series<'a> {
    args: &'a Args,
    programs: Programs,
    /// Seconds that a worker needs for a gradient, all of them at it; the mean of injected delays included.
    compute_s: f64,
    /// Worker by worker.
    uplinks: Vec<Option<Rate>>,
    /// In order of time.
    changes: Vec<Timed>,
    /// `None` where nothing is shaped.
    network: Option<Rc<Network>>,
}

impl<'a> Series<'a> {
    /// Measures computing, sets up the network, and measures what it carries.
    pub(super) async fn prepare(
        args: &'a Args,
        workers: u32,
        programs: Programs,
        signals: &mut Receiver<u8>,
    ) -> Result<Self> {
        let changes = changes(args, workers)?;
        // A wrong number of rates is told before anything is measured.
        uplinks(&args.uplink, workers, 1.0)?;
        let setup = Setup::load(args.files.first().cloned(), args.set.clone(), true)?;
        let steps_per_s = tokio::select! {
            rate = compute::steps_per_s(args.seconds, &setup, &programs) => rate?,
            Some(_) = signals.recv() => bail!("interrupted"),
        };
        let delays = &setup.config().heterogeneity.compute_delay;
        let delay_s = (0..workers).filter_map(|id| delays.get(&id)).sum::<f64>() / f64::from(workers);
        let compute_s = f64::from(workers) / steps_per_s + delay_s;
        output::note(&format!(
            "a gradient takes {:.1} ms to compute, {workers} trainers at once and no evaluator; {:.1} ms of it injected delay",
            1e3 * compute_s,
            1e3 * delay_s
        ));
        let dense_bytes = Form::default().payload_bytes(Codec::Identity, setup.config().parameters());
        let uplinks = uplinks(&args.uplink, workers, dense_bytes / (AUTO_RATIO * compute_s))?;
        let network = match args.shapes() {
            true => Some(Rc::new(Network::new(workers)?)),
            false => None,
        };
        let series = Self {
            args,
            programs,
            compute_s,
            uplinks,
            changes,
            network,
        };
        series.shape()?;
        tokio::select! {
            probed = series.probe(dense_bytes) => probed?,
            Some(_) = signals.recv() => bail!("interrupted"),
        }
        Ok(series)
    }

    /// Says what each link carries.
    async fn probe(&self, dense_bytes: f64) -> Result<()> {
        let Some(network) = &self.network else {
            output::note("links are not shaped");
            return Ok(());
        };
        for (worker, rate) in (0..).zip(&self.uplinks) {
            let goodput = probe::goodput(network, worker, *rate).await?;
            let words = probe::describe(*rate, goodput, dense_bytes, self.compute_s);
            output::note(&format!("worker {worker}: {words}"));
            let Some(rate) = rate else { continue };
            if !PLAUSIBLE.contains(&(goodput / rate.bytes_per_s())) {
                output::note(&format!(
                    "worker {worker}: this machine does not hold that rate; try a lower one"
                ));
            }
        }
        Ok(())
    }

    /// All runs, round by round; those that ended before a signal came.
    pub(super) async fn run(&self, signals: &mut Receiver<u8>) -> Result<(Vec<Row>, Ending)> {
        let mut rows = Vec::new();
        let rounds =
            (1..=self.args.repeat).flat_map(|round| self.args.files.iter().map(move |file| (file, round)));
        let total = self.args.files.len() * self.args.repeat as usize;
        for (file, round) in rounds {
            let setup = self.setup(file, round)?;
            let (run, most_s) = (&setup.config().run.name, setup.config().workload.max_wall_time_s);
            let number = rows.len() + 1;
            output::note(&format!("{run}: run {number} of {total}, at most {most_s:.0} s"));
            let ended = match self.one(&setup, signals).await {
                Ok(Ending::Whole) => self.row(&setup, file, round).map(Ok),
                ended => ended.map(Err),
            };
            let ending = match ended {
                Ok(Ok(row)) => {
                    rows.push(row);
                    continue;
                }
                Ok(Err(ending)) => ending,
                Err(error) if rows.is_empty() => return Err(error),
                // What the runs before came to took minutes, and is shown.
                Err(error) => {
                    output::note(&format!("{error:#}"));
                    Ending::Failed
                }
            };
            output::note(&format!("interrupted: {} of {total} runs ended", rows.len()));
            return Ok((rows, ending));
        }
        Ok((rows, Ending::Whole))
    }

    /// The configuration of a run. Later rounds have a folder and a seed of their own.
    fn setup(&self, file: &Path, round: u32) -> Result<Setup> {
        let mut set = self.args.set.clone();
        if let Some(network) = &self.network {
            set.push(format!("server.listen={}:0", network.host()));
        }
        if round > 1 {
            let first = Setup::load(Some(file.to_owned()), set.clone(), true)?;
            let run = &first.config().run;
            set.push(format!("run.name={}-{round}", run.name));
            set.push(format!(
                "run.seed={}",
                run.seed.wrapping_add(u64::from(round) - 1)
            ));
        }
        Ok(Setup::load(Some(file.to_owned()), set, true)?)
    }

    async fn one(&self, setup: &Setup, signals: &mut Receiver<u8>) -> Result<Ending> {
        // Also after a change in the run before.
        self.shape()?;
        let (plan, folder) = (self.plan(setup), setup.folder());
        let mut screen = Screen::new();
        let outcome = tokio::select! {
            outcome = cluster::run(&plan, &mut screen, signals) => outcome?,
            failed = change::apply(&self.changes, self.network.as_deref(), folder.join(EVENTS_FILE)) => {
                return Err(failed);
            }
        };
        match outcome.cut_short {
            Some(code) => Ok(Ending::CutShort(code)),
            None if outcome.interrupted => Ok(Ending::Interrupted),
            None if outcome.server_ok => Ok(Ending::Whole),
            None => bail!("the run did not end properly; see {}", folder.display()),
        }
    }

    fn row(&self, setup: &Setup, file: &Path, round: u32) -> Result<Row> {
        let log = read_log(&setup.folder().join(EVENTS_FILE))?;
        let row = Row::new(setup.config(), &log.events);
        output::note(&row.line());
        let bits = self.uplinks.iter().map(|rate| rate.map(Rate::bits_per_s));
        Ok(Row {
            // All rounds go by the name of the first.
            name: self.setup(file, 1)?.config().run.name.clone(),
            round,
            uplinks_bits_per_s: bits.collect(),
            predicted_updates_per_s: self.predicted(setup),
            ..row
        })
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
        plan.workers = plan.workers.map(|workers| -> WorkersOf {
            Box::new(move |endpoints| {
                let mut specs = workers(endpoints);
                for (worker, spec) in (0..).zip(specs.iter_mut().filter(|spec| spec.trainer)) {
                    spec.run_by("ip", network.prefix(worker));
                }
                specs
            })
        });
        plan
    }

    /// Updates a second that the plan's model expects with the configured codec, where that stays as it is.
    fn predicted(&self, setup: &Setup) -> Option<f64> {
        let config = setup.config();
        if config.controller.enabled || config.compression.auto || !self.changes.is_empty() {
            return None;
        }
        let parameters = config.parameters();
        let codec = config.compression.codec().ok()?;
        let of = |uplink: &Option<Rate>| {
            let setting = Setting {
                parameters,
                form: config.compression.form(),
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
    Ok(match wanted {
        Uplink::None => vec![None; workers as usize],
        Uplink::Auto => {
            let rate = Rate::of_bytes_per_s(auto_bytes_per_s);
            vec![Some(rate.context("computing was too slow to choose a rate")?); workers as usize]
        }
        Uplink::Rates(rates) => {
            let rates = rates
                .of_workers(workers)
                .map_err(anyhow::Error::msg)
                .context("--uplink")?;
            rates.into_iter().map(Some).collect()
        }
    })
}

fn changes(args: &Args, workers: u32) -> Result<Vec<Timed>> {
    let timed = |change: &super::rate::Change| {
        let rates = change.rates.of_workers(workers).map_err(anyhow::Error::msg);
        Ok(Timed {
            at_s: change.at_s,
            rates: rates.context("--change-at")?,
        })
    };
    let mut changes = args.change_at.iter().map(timed).collect::<Result<Vec<_>>>()?;
    changes.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_has_a_rate() {
        let bits = |wanted: &str| {
            let found =
                uplinks(&wanted.parse().unwrap(), 2, 125_000.0).map_err(|error| format!("{error:#}"))?;
            let bits = found.into_iter().map(|rate| rate.map(Rate::bits_per_s));
            Ok::<_, String>(bits.collect::<Vec<_>>())
        };
        assert_eq!(bits("none"), Ok(vec![None, None]));
        assert_eq!(bits("auto"), Ok(vec![Some(1_000_000); 2]));
        assert_eq!(bits("8mbit,2mbit"), Ok(vec![Some(8_000_000), Some(2_000_000)]));
        let error = bits("8mbit,2mbit,1mbit").unwrap_err();
        assert!(error.starts_with("--uplink: 3 rates for 2 workers"), "{error}");
    }
}
