//! `asgc bench wire`: dense pushes and snapshots through the real server, beside what loopback carries without it.

pub(super) mod client;
mod report;

use super::daemon::Daemon;
use super::peer::Peer;
use super::process;
use super::roofline::{self, loopback, middle};
use crate::cluster;
use crate::local::runtime;
use crate::output;
use anyhow::{Result, bail};
use client::{Done, Hello, Order, Work};
use report::{Report, Row};
use std::process::ExitCode;

/// Compare dense pushes and snapshots through gRPC with what loopback carries
///
/// Starts the real server and a client in a process of its own. Each round measures raw TCP over loopback, pushes that
/// the server receives whole, checks and rejects (their last value is NaN), raw TCP again, pushes that it applies, and
/// snapshots, one after the other, since a shared machine is fast one moment and slow the next. Ratios are taken within
/// a round; medians over rounds are shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Parameters of the model, 4 bytes each
    #[arg(long, value_name = "N", default_value_t = 11_173_962, value_parser = clap::value_parser!(u32).range(1..))]
    parameters: u32,
    /// Rounds
    #[arg(long, value_name = "R", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Gigabytes of each measurement
    #[arg(long, value_name = "GB", default_value_t = 1.0)]
    gigabytes: f64,
    /// Pushes that may wait for their verdicts at once
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=16))]
    in_flight: u32,
    /// Set one key of the server
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    if !(args.gigabytes > 0.0 && args.gigabytes <= 1000.0) {
        bail!("--gigabytes must be above 0 and at most 1000");
    }
    let machine = roofline::measure(args.parameters as usize, args.repeat.min(5))?;
    let rows = runtime()?.block_on(async {
        let mut signals = cluster::forward_signals()?;
        tokio::select! {
            rows = measure(args) => rows,
            // The processes die with their handles.
            Some(_) = signals.recv() => bail!("interrupted"),
        }
    })?;
    let report = Report::new(args.parameters, machine, rows);
    output::say(&if args.json {
        serde_json::to_string(&report)?
    } else {
        report.table()
    });
    Ok(ExitCode::SUCCESS)
}

/// One measurement.
#[derive(Debug, Clone, Copy)]
struct Sample {
    gb_s: f64,
    /// Against raw TCP of the same round.
    ratio: f64,
    /// CPU seconds a GB; of raw TCP, whose ends are threads of one process, `client` has both.
    client: f64,
    server: f64,
    /// CPU time against that of raw TCP.
    cpu_ratio: f64,
}

async fn measure(args: &Args) -> Result<Vec<Row>> {
    let server = Daemon::start(&["workload.lr=0.000001".into()], &args.set).await?;
    let mut client = Peer::start("wire-client")?;
    let hello = Hello {
        server: server.url(),
        parameters: args.parameters as usize,
        in_flight: args.in_flight as usize,
    };
    client.ask::<()>(&hello).await?;
    let works = [Work::Receive, Work::Apply, Work::Pull];
    let bytes = (args.gigabytes * 1e9) as u64;
    let count = (bytes as f64 / 4.0 / f64::from(args.parameters)).ceil().max(1.0) as u32;
    let mut samples = works.map(|_| Vec::new());
    let mut raw = Vec::new();
    // The first round warms up, and does not count.
    for round in 0..=args.repeat {
        for (work, samples) in works.iter().zip(&mut samples) {
            let tcp = crossing(bytes).await?;
            let sample = one(&server, &mut client, Order { work: *work, count }, tcp).await?;
            if round > 0 {
                raw.push(tcp);
                samples.push(sample);
            }
        }
        if round > 0 {
            let last = |samples: &Vec<Sample>| samples.last().map_or(f64::NAN, |sample| sample.gb_s);
            let [receive, apply, pull] = samples.each_ref().map(last);
            output::note(&format!(
                "round {round}: raw TCP {:.2} GB/s, pushes received {receive:.2}, applied {apply:.2}, pulls {pull:.2}",
                last(&raw)
            ));
        }
    }
    let names = ["push, received and rejected", "push, applied", "pull"];
    let rows = names
        .iter()
        .zip(&samples)
        .map(|(name, samples)| Row::new(name, samples));
    Ok(std::iter::once(Row::new("raw TCP", &raw)).chain(rows).collect())
}

async fn crossing(bytes: u64) -> Result<Sample> {
    let crossed = tokio::task::spawn_blocking(move || loopback(bytes)).await??;
    let gb = bytes as f64 / 1e9;
    Ok(Sample {
        gb_s: gb / crossed.seconds,
        ratio: 1.0,
        client: crossed.cpu_s / gb,
        server: 0.0,
        cpu_ratio: 1.0,
    })
}

async fn one(server: &Daemon, client: &mut Peer, order: Order, raw: Sample) -> Result<Sample> {
    let cpu =
        |client: &Peer| Ok::<_, anyhow::Error>((process::cpu_s(client.pid)?, process::cpu_s(server.pid())?));
    let before = cpu(client)?;
    let done: Done = client.ask(&order).await?;
    let after = cpu(client)?;
    let gb = done.bytes as f64 / 1e9;
    let gb_s = gb / done.seconds;
    let (client, server) = ((after.0 - before.0) / gb, (after.1 - before.1) / gb);
    Ok(Sample {
        gb_s,
        ratio: gb_s / raw.gb_s,
        client,
        server,
        cpu_ratio: (client + server) / raw.client,
    })
}

impl Row {
    fn new(name: &str, samples: &[Sample]) -> Self {
        let of = |value: fn(&Sample) -> f64| middle(&samples.iter().map(value).collect::<Vec<_>>());
        Self {
            name: name.to_owned(),
            gb_s: of(|sample| sample.gb_s),
            ratio: of(|sample| sample.ratio),
            client_s_per_gb: of(|sample| sample.client),
            server_s_per_gb: of(|sample| sample.server),
            cpu_s_per_gb: of(|sample| sample.client + sample.server),
            cpu_ratio: of(|sample| sample.cpu_ratio),
        }
    }
}
