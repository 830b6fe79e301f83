//! The client's process: sends and pulls what it is told to, over one connection.

use crate::bench::{peer, synthetic};
use anyhow::{Result, bail};
use asgc_client::Wire;
use asgc_core::codec::{Format, Payload};
use asgc_core::event::{Decision, RejectReason};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::time::Instant;

/// The first order: where the server is, and how large the model.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) server: String,
    pub(super) parameters: usize,
    /// Pushes that may wait for their verdicts at once.
    pub(super) in_flight: usize,
}

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Work {
    /// Dense pushes that the server receives, puts together and checks to the last value, which is NaN: rejected.
    Receive,
    /// Dense pushes that the server applies.
    Apply,
    /// Snapshots.
    Pull,
}

/// Do something so many times.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) work: Work,
    pub(super) count: u32,
}

/// It took so long, and so many payload bytes crossed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) seconds: f64,
    pub(super) bytes: u64,
}

/// What `asgc bench wire` starts.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(in crate::bench) fn main(_: &Args) -> Result<ExitCode> {
    // As a worker has it: one thread computes, others move bytes.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve())?;
    Ok(ExitCode::SUCCESS)
}

async fn serve() -> Result<()> {
    let Some(hello) = peer::next_order::<Hello>()? else {
        return Ok(());
    };
    let layout = synthetic::layout(hello.parameters)?;
    let mut values = synthetic::gradient(&layout, 0);
    let sound = dense(&values);
    if let Some(last) = values.last_mut() {
        *last = f32::NAN;
    }
    let unsound = dense(&values);
    let mut wire = Wire::join(&hello.server, layout).await?;
    peer::reply(&())?;
    while let Some(order) = peer::next_order::<Order>()? {
        let began = Instant::now();
        let bytes = match order.work {
            Work::Pull => pull(&mut wire, order.count).await?,
            Work::Receive => push(&mut wire, &unsound, (order.count, hello.in_flight)).await?,
            Work::Apply => push(&mut wire, &sound, (order.count, hello.in_flight)).await?,
        };
        peer::reply(&Done {
            seconds: began.elapsed().as_secs_f64(),
            bytes,
        })?;
    }
    Ok(())
}

fn dense(values: &[f32]) -> Payload {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    Payload {
        format: Format::Identity,
        entries: Vec::new(),
        bytes: Bytes::copy_from_slice(bytes),
    }
}

async fn pull(wire: &mut Wire, count: u32) -> Result<u64> {
    let mut bytes = 0;
    for _ in 0..count {
        bytes += 4 * wire.pull().await? as u64;
    }
    Ok(bytes)
}

/// Pushes, with at most `in_flight` of them undecided, until the last verdict.
async fn push(wire: &mut Wire, payload: &Payload, (count, in_flight): (u32, usize)) -> Result<u64> {
    let expect = match is_sound(payload) {
        true => (Decision::Accepted, None),
        false => (Decision::Rejected, Some(RejectReason::NonFinite)),
    };
    let mut open = 0;
    for sent in 0..=count {
        let most = if sent == count { 0 } else { in_flight.max(1) - 1 };
        while open > most {
            let verdict = wire.verdict().await?;
            if (verdict.decision, verdict.reason) != expect {
                bail!("a push was to be {expect:?}, and the server said {verdict:?}");
            }
            open -= 1;
        }
        if sent < count {
            wire.push(payload.clone()).await?;
            open += 1;
        }
    }
    Ok(u64::from(count) * payload.bytes.len() as u64)
}

fn is_sound(payload: &Payload) -> bool {
    payload
        .bytes
        .as_chunks::<4>()
        .0
        .last()
        .is_none_or(|&last| f32::from_le_bytes(last).is_finite())
}
