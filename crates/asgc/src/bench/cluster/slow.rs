//! Whether a slow worker holds a fast one up.

use super::client::{Served, Slow};
use super::{Args, Case, one};
use crate::bench::roofline::{Roofline, middle};
use crate::bench::table::machine;
use crate::output;
use anyhow::{Context as _, Result};
use serde::Serialize;
use std::time::Duration;

/// Times that both are measured, in turn.
const ROUNDS: u32 = 3;

/// Updates a second of one worker; medians.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    parameters: u32,
    codec: String,
    delay_s: f64,
    machine: Roofline,
    alone_per_s: f64,
    beside_per_s: f64,
    /// Beside the slow one, against alone: of measurements that followed one another.
    ratio: f64,
}

pub(super) async fn measure(args: &Args, delay: Duration, machine: Roofline) -> Result<Comparison> {
    let codec = *args.codec.first().context("there is no codec")?;
    let (mut alone, mut beside, mut ratios) = (vec![], vec![], vec![]);
    for round in 1..=ROUNDS {
        let case = |workers, slow| Case { workers, codec, slow };
        let (_, served) = one(args, case(1, None)).await?;
        let (_, both) = one(args, case(2, Some(Slow { id: 1, delay }))).await?;
        let rates = (rate(&served)?, rate(&both)?);
        output::note(&format!(
            "round {round}: {:.1}/s alone, {:.1}/s beside",
            rates.0, rates.1
        ));
        alone.push(rates.0);
        beside.push(rates.1);
        ratios.push(rates.1 / rates.0);
    }
    Ok(Comparison {
        parameters: args.parameters,
        codec: codec.to_string(),
        delay_s: delay.as_secs_f64(),
        machine,
        alone_per_s: middle(&alone),
        beside_per_s: middle(&beside),
        ratio: middle(&ratios),
    })
}

/// Updates a second of worker 0.
fn rate(served: &[Served]) -> Result<f64> {
    let first = served.first().context("no session was served")?;
    Ok(first.accepted as f64 / first.seconds)
}

impl Comparison {
    pub(super) fn text(&self) -> String {
        format!(
            "{} parameters, {}\n{}\n\n\
             a worker alone                     {:.1} updates/s\n\
             beside one slower by {:>6.0} ms     {:.1} updates/s\n\
             beside / alone                     {:.3}",
            self.parameters,
            self.codec,
            machine(&self.machine),
            self.alone_per_s,
            self.delay_s * 1e3,
            self.beside_per_s,
            self.ratio
        )
    }
}
