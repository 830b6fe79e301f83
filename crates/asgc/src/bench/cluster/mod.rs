//! `asgc bench cluster`: a real server and many real sessions, with gradients that are ready before the clock starts.

pub(super) mod client;
mod limits;
mod report;
mod slow;

use super::daemon::{Daemon, sum};
use super::peer::Peer;
use super::process;
use super::roofline;
use crate::bench::coding::Coding;
use crate::cluster;
use crate::local::runtime;
use crate::output;
use anyhow::{Result, bail};
use client::{Go, Hello, Served, Slow};
use report::{Report, Row};
use std::process::ExitCode;
use std::time::Duration;

/// Measure a server and many workers over real sockets, with ready-made gradients
///
/// Starts the real server and the sessions of so many workers, in two processes. Each session pulls, pushes and hears the
/// verdict, over and over; encoding is part of it, with error feedback, and computing is not: a few gradients are drawn
/// before the clock starts. Needs no libtorch.
///
/// With --slow one worker is measured alone and beside a second one that waits so long before each push, in turn.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Workers
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    workers: u32,
    /// Parameters of the model
    #[arg(long, value_name = "D", default_value_t = 11_173_962, value_parser = clap::value_parser!(u32).range(1..))]
    parameters: u32,
    /// What gradients are compressed with; several are measured one after the other
    #[arg(long, value_name = "CODEC", default_value = "topk(rho=0.01)")]
    codec: Vec<Coding>,
    /// Seconds of each measurement
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    seconds: f64,
    /// End each session after so many pushes, if that comes first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    updates: Option<u64>,
    /// Compare a worker alone with the same beside one that is slower by so many milliseconds
    #[arg(long, value_name = "MS", conflicts_with_all = ["workers", "updates"])]
    slow: Option<f64>,
    /// Set one key of the server
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The server brings its metrics up to what its sockets counted every 50 ms.
const TRAFFIC_IS_NOTED: Duration = Duration::from_millis(100);

/// One measurement.
#[derive(Debug, Clone, Copy)]
struct Case {
    workers: u32,
    codec: Coding,
    slow: Option<Slow>,
}

pub(super) fn main(args: &Args) -> Result<ExitCode> {
    if !(args.seconds > 0.0 && args.seconds <= 86_400.0) {
        bail!("--seconds must be above 0 and at most 86400");
    }
    limits::raise(args.workers)?;
    let text = runtime()?.block_on(async {
        let mut signals = cluster::forward_signals()?;
        tokio::select! {
            text = measure(args) => text,
            // The processes die with their handles.
            Some(_) = signals.recv() => bail!("interrupted"),
        }
    })?;
    output::say(&text);
    Ok(ExitCode::SUCCESS)
}

async fn measure(args: &Args) -> Result<String> {
    // Beside a model that hardly fits, vectors to measure memory with must not be as large.
    let vector = args.parameters.clamp(1 << 22, 1 << 25) as usize;
    let machine = tokio::task::spawn_blocking(move || roofline::measure(vector, 3)).await??;
    if let Some(ms) = args.slow {
        let report = slow::measure(args, Duration::try_from_secs_f64(ms / 1e3)?, machine).await?;
        return if args.json {
            Ok(serde_json::to_string(&report)?)
        } else {
            Ok(report.text())
        };
    }
    let mut rows = Vec::new();
    for &codec in &args.codec {
        let case = Case {
            workers: args.workers,
            codec,
            slow: None,
        };
        output::note(&format!(
            "{codec}: {} workers, {} parameters, {} s",
            args.workers, args.parameters, args.seconds
        ));
        let (row, _) = one(args, case).await?;
        rows.push(row);
    }
    let report = Report::new(args.workers, args.parameters, (machine, rows));
    if args.json {
        Ok(serde_json::to_string(&report)?)
    } else {
        Ok(report.text())
    }
}

/// Processes and what they had used at some moment.
struct Cluster {
    server: Daemon,
    clients: Vec<Peer>,
    /// The server's memory before anybody joined.
    idle_bytes: u64,
}

/// Counts that rise.
#[derive(Debug, Clone, Copy)]
struct Used {
    server_s: f64,
    clients_s: f64,
    uplink: f64,
    downlink: f64,
}

impl Cluster {
    /// Starts all processes; returns once every session has pulled.
    async fn start(args: &Args, case: Case) -> Result<Self> {
        let settings = [
            format!("workload.num_workers={}", case.workers),
            format!("server.min_workers={}", case.workers),
            format!("server.max_sessions={}", 2 * case.workers + 16),
            "workload.lr=0.000001".to_owned(),
        ];
        let server = Daemon::start(&settings, &args.set).await?;
        let idle_bytes = process::peak_memory(server.pid())?;
        let mut clients = Vec::new();
        for ids in shares(case.workers) {
            let mut client = Peer::start("cluster-client")?;
            client
                .order(&Hello {
                    server: server.url(),
                    parameters: args.parameters as usize,
                    codec: case.codec,
                    ids,
                    updates: args.updates,
                    slow: case.slow,
                })
                .await?;
            clients.push(client);
        }
        for client in &mut clients {
            client.answer::<()>().await?;
        }
        Ok(Self {
            server,
            clients,
            idle_bytes,
        })
    }

    async fn used(&self) -> Result<Used> {
        // The server notes now and then what its sockets have counted.
        tokio::time::sleep(TRAFFIC_IS_NOTED).await;
        let page = self.server.metrics().await?;
        let frames = |way| sum(&page, "asgc_server_frame_bytes_total", way);
        let mut clients_s = 0.0;
        for client in &self.clients {
            clients_s += process::cpu_s(client.pid)?;
        }
        Ok(Used {
            server_s: process::cpu_s(self.server.pid())?,
            clients_s,
            uplink: frames("uplink"),
            downlink: frames("downlink"),
        })
    }

    async fn go(&mut self, seconds: f64) -> Result<Vec<Served>> {
        for client in &mut self.clients {
            client.order(&Go { seconds }).await?;
        }
        let mut served = Vec::new();
        for client in &mut self.clients {
            served.extend(client.answer::<Vec<Served>>().await?);
        }
        Ok(served)
    }
}

async fn one(args: &Args, case: Case) -> Result<(Row, Vec<Served>)> {
    let mut cluster = Cluster::start(args, case).await?;
    let before = cluster.used().await?;
    let served = cluster.go(args.seconds).await?;
    let after = cluster.used().await?;
    let mut memory = (process::peak_memory(cluster.server.pid())?, 0);
    for client in &cluster.clients {
        memory.1 += process::peak_memory(client.pid)?;
    }
    let used = Used {
        server_s: after.server_s - before.server_s,
        clients_s: after.clients_s - before.clients_s,
        uplink: after.uplink - before.uplink,
        downlink: after.downlink - before.downlink,
    };
    let row = Row::new(&case.codec.to_string(), &served, used).with_memory(
        4 * u64::from(args.parameters),
        (cluster.idle_bytes, memory.0, memory.1),
    );
    Ok((row, served))
}

/// Which ids each of two processes gets; one process for one worker.
fn shares(workers: u32) -> Vec<(u32, u32)> {
    let half = workers.div_ceil(2);
    [(0, half), (half, workers)]
        .into_iter()
        .filter(|(first, end)| first < end)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_is_in_one_process() {
        assert_eq!(shares(1), [(0, 1)]);
        assert_eq!(shares(2), [(0, 1), (1, 2)]);
        assert_eq!(shares(5), [(0, 3), (3, 5)]);
    }
}
