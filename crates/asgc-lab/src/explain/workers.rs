//! An account of each trainer.

use super::{Facts, Trainer};
use crate::units;
use asgc_core::codec::Codec;
use asgc_core::ids::WorkerId;
use std::fmt::Write as _;

/// A nearly always rejected trainer.
const UNHEARD: f64 = 0.5;

pub(super) fn workers(facts: &Facts) -> String {
    let accounts = facts
        .trainers
        .iter()
        .map(|(&id, trainer)| account(facts, id, trainer));
    accounts.collect::<Vec<_>>().join("\n")
}

fn account(facts: &Facts, id: WorkerId, trainer: &Trainer) -> String {
    let rejected = trainer.rejected as f64 / trainer.pushes.max(1) as f64;
    let mut text = format!(
        "worker {id}: {} pushes, {} rejected, staleness {:.1} on average",
        trainer.pushes,
        units::percent(rejected),
        trainer.staleness_sum as f64 / trainer.pushes.max(1) as f64
    );
    let Some(line) = facts.links.get(id) else {
        return text;
    };
    if let Some((costs, link)) = line.costs().zip(line.report(trainer.codec(facts))) {
        let _ = write!(
            text,
            "\n  at the end: link {}/s, round trip {}, step {} ({} computing), upload {}",
            units::bytes(link.goodput_bytes_per_s as u64),
            units::seconds(link.rtt_s),
            units::seconds(link.step_s),
            units::seconds(link.compute_s),
            units::percent(link.comm_share)
        );
        let codec = trainer.codec(facts);
        if codec != Codec::Identity && line.has_compressed() {
            let (with, without) = (costs.updates_per_s(codec), costs.updates_per_s(Codec::Identity));
            let verdict = if costs.beneficial(codec) {
                "pays"
            } else {
                "does not pay"
            };
            let _ = write!(
                text,
                "\n  compression {verdict}: {} with {codec}, {} without",
                units::per_second(with),
                units::per_second(without)
            );
        }
    }
    if let Some(ratio) = line.residual_ratio().filter(|ratio| *ratio > 0.0) {
        let _ = write!(text, "\n  residual of {ratio:.1} gradient norms");
    }
    if trainer.dropped_norm > 0.0 {
        let _ = write!(
            text,
            "; the bound on it dropped {:.3e} in norm",
            trainer.dropped_norm
        );
    }
    if rejected > UNHEARD {
        text.push_str("\n  look at this: most of what it computes is thrown away; ");
        text.push_str("compress harder, widen s_max, or give it less to compute");
    }
    text
}
