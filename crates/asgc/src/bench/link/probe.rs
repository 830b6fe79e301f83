//! What a link carries in fact: bytes from a worker's namespace to the server's address, timed where they arrive.

use super::net::Network;
use super::rate::Rate;
use anyhow::{Context as _, Result, bail};
use asgc_lab::units;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::time::timeout;

/// How long a probe is to take on a link that carries its rate.
const SECONDS: f64 = 1.0;
/// Fewest bytes of a probe, and most, which is also what a link without a rate gets.
const BYTES: (u64, u64) = (10_000, 16_000_000);
/// For a connection, and then for the bytes.
const PATIENCE: Duration = Duration::from_secs(30);

/// What runs in the namespace: sends so many bytes and waits until they have been read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    to: SocketAddr,
    bytes: u64,
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let mut stream = TcpStream::connect_timeout(&args.to, PATIENCE).with_context(|| args.to.to_string())?;
    let block = [0; 1 << 14];
    let mut left = args.bytes;
    while left > 0 {
        let count = left.min(block.len() as u64) as usize;
        stream.write_all(&block[..count])?;
        left -= count as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_end(&mut Vec::new())?;
    Ok(ExitCode::SUCCESS)
}

/// Payload bytes a second that worker `worker`'s uplink carries.
pub(super) async fn goodput(network: &Network, worker: u32, rate: Option<Rate>) -> Result<f64> {
    let bytes = rate.map_or(BYTES.1, |rate| {
        ((rate.bytes_per_s() * SECONDS) as u64).clamp(BYTES.0, BYTES.1)
    });
    let listener = TcpListener::bind((network.host(), 0)).await?;
    let mut sender = Command::new("ip")
        .args(network.prefix(worker))
        .arg(std::env::current_exe()?)
        .args(["bench", "link-probe"])
        .args([listener.local_addr()?.to_string(), bytes.to_string()])
        .stdin(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .context("ip")?;
    let probed = tokio::select! {
        probed = timeout(PATIENCE * 2, receive(&listener)) => probed.with_context(|| {
            format!("worker {worker} cannot reach {}: does a firewall of this machine stand between them?", network.host())
        })??,
        ended = sender.wait() => bail!("the probe of worker {worker}'s link ended by itself: {}", ended?),
    };
    if probed.bytes != bytes {
        bail!(
            "worker {worker}'s link lost bytes: {} of {bytes} arrived",
            probed.bytes
        );
    }
    sender.wait().await?;
    Ok(probed.bytes_per_s)
}

struct Probed {
    bytes: u64,
    bytes_per_s: f64,
}

async fn receive(listener: &TcpListener) -> Result<Probed> {
    let (mut stream, _) = listener.accept().await?;
    let mut block = vec![0; 1 << 16];
    // What the first read brings began before the clock.
    let first = stream.read(&mut block).await? as u64;
    let began = Instant::now();
    let mut bytes = first;
    loop {
        let count = stream.read(&mut block).await?;
        if count == 0 {
            break;
        }
        bytes += count as u64;
    }
    let bytes_per_s = (bytes - first) as f64 / began.elapsed().as_secs_f64();
    Ok(Probed { bytes, bytes_per_s })
}

/// What the bench says of a link: what it is set to, what it carries, and how that compares with computing.
pub(super) fn describe(rate: Option<Rate>, goodput: f64, dense_bytes: f64, compute_s: f64) -> String {
    let (set, push_s) = (
        rate.map_or("not shaped".to_owned(), |rate| rate.to_string()),
        dense_bytes / goodput,
    );
    let carries =
        Rate::of_bytes_per_s(goodput).map_or_else(|| units::MISSING.to_owned(), |rate| rate.to_string());
    format!(
        "uplink {set}, carries {carries} of payload; an uncompressed push of {} takes {:.0} ms, {:.1} times a step's \
         compute, {} of the two together",
        units::bytes(dense_bytes as u64),
        push_s * 1e3,
        push_s / compute_s,
        units::percent(push_s / (push_s + compute_s))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_are_counted_to_the_last() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let args = Args {
            to: listener.local_addr().unwrap(),
            bytes: 1_234_567,
        };
        let sender = tokio::task::spawn_blocking(move || main(&args));
        let probed = receive(&listener).await.unwrap();
        assert_eq!(probed.bytes, 1_234_567);
        assert!(probed.bytes_per_s > 0.0);
        sender.await.unwrap().unwrap();
    }

    #[test]
    fn a_link_is_set_beside_a_steps_compute() {
        let text = describe(Some("8mbit".parse().unwrap()), 950_000.0, 221_352.0, 0.0233);
        assert_eq!(
            text,
            "uplink 8.00 Mbit/s, carries 7.60 Mbit/s of payload; an uncompressed push of 221 kB takes 233 ms, \
             10.0 times a step's compute, 90.9 % of the two together"
        );
        assert!(describe(None, 1e9, 1e6, 0.01).starts_with("uplink not shaped, carries 8.00 Gbit/s"));
    }
}
