//! The `budget` policy: each trainer compresses as hard as its own link demands, and no harder.
//!
//! With the cost model of [`crate::cost`] and the medians of its recent steps, a trainer's codec is
//!
//! 1. no compression, where sending everything takes at most `comm_share_max` of a step, or is no slower;
//! 2. else Top-K with the greatest `rho` whose upload keeps that share. A trainer of which more than
//!    `reject_frac_max` is rejected gets half of the share: what it sends arrives sooner;
//! 3. but no less than the floors: of the guard ([`super::guard`]), and of the noise `N(rho, tau) <= noise_max` at
//!    the 90th percentile of its staleness;
//! 4. no less than now while the ratio of residual to gradient norm exceeds `residual_ratio_max`, and more again once
//!    it is twice that;
//! 5. down by `max_factor_rho` at once, up by its fourth root, and within `rho_bounds`. Buffers let a small payload
//!    pass as if the link were free, so that what it can bear is only known from payloads of about that size; for the
//!    same reason compression is switched off only from where the next step up would send as much.
//!
//! A change by less than a fifth is not made. Quantize has one size, so only the first rule applies to it.

use super::links::Line;
use crate::codec::Codec;
use crate::config::Controller;
use crate::cost::{Costs, even_rho, rho_for_noise};
use crate::ids::Density;

/// Smaller changes of `rho` are not worth one.
const LEAST_CHANGE: f64 = 1.2;

/// The power of `max_factor_rho` that `rho` may rise by.
const UPWARD: f64 = 0.25;

/// As many bytes as without compression: where `rho` starts from when it was off, and ends at most.
const DENSE_RHO: f64 = 0.5;

/// The rejected share of its pushes from which on a trainer does not fit, and of how many.
const UNFIT_FRAC: f64 = 0.9;
const UNFIT_PUSHES: u64 = 10;

/// What is to become of a trainer's codec, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// From here on.
    pub codec: Codec,
    /// In words.
    pub reason: String,
}

impl Choice {
    fn new(codec: Codec, reason: impl Into<String>) -> Self {
        Self {
            codec,
            reason: reason.into(),
        }
    }
}

/// The codec for a trainer that uses `at` where `configured` was set up, with the guard's `floor`.
#[must_use]
pub fn choose(config: &Controller, line: &Line, (configured, at): (Codec, Codec), floor: f64) -> Choice {
    let Some(costs) = line.costs() else {
        return Choice::new(at, "not measured yet");
    };
    match configured {
        Codec::Identity => Choice::new(at, "compression.mode is identity"),
        Codec::Sign => Choice::new(at, "compression.mode is sign, which has no strength"),
        Codec::Quantize(_) => quantize(config, &costs, (configured, at)),
        Codec::TopK(_) => topk(config, line, &costs, (at, floor)),
    }
}

fn quantize(config: &Controller, costs: &Costs, (configured, at): (Codec, Codec)) -> Choice {
    if spare(config, costs, configured, at) {
        dense(config, costs)
    } else {
        Choice::new(configured, share_of(costs, configured))
    }
}

fn topk(config: &Controller, line: &Line, costs: &Costs, (at, floor): (Codec, f64)) -> Choice {
    let [lowest, highest] = config.rho_bounds;
    let now = rho_of(at);
    let late = line.window().rejected_frac() > config.reject_frac_max;
    let share = config.comm_share_max / if late { 2.0 } else { 1.0 };
    let link = costs.rho_for_share(share);
    let noise = rho_for_noise(config.noise_max, line.staleness_p90().unwrap_or(0.0));
    let bound = |rho: f64| rho.clamp(lowest, highest.min(DENSE_RHO).max(lowest));
    let mut wanted = bound(link.max(floor).max(noise));
    let mut why = if wanted > link {
        let held = [(floor, "held up by the guard"), (noise, "held up by staleness")];
        let by = held
            .into_iter()
            .find(|(least, _)| *least >= wanted && *least > lowest);
        by.map_or("at the lower bound", |(_, why)| why).to_owned()
    } else if late {
        format!("late: {:.0} % rejected", 100.0 * line.window().rejected_frac())
    } else {
        "the link's share".to_owned()
    };
    let ratio = line.residual_ratio().unwrap_or(0.0) / config.residual_ratio_max.max(f64::MIN_POSITIVE);
    if ratio > 1.0 && wanted < now {
        (wanted, why) = (now, "held: the residual is large".to_owned());
    }
    if ratio > 2.0 {
        (wanted, why) = (
            bound(wanted.max(now * LEAST_CHANGE)),
            "backing off: the residual is large".to_owned(),
        );
    }
    // Whether compressing pays is asked of where it leads to, not of the first step there.
    let up = config.max_factor_rho.powf(UPWARD);
    let near = at == Codec::Identity || now * up >= DENSE_RHO.min(highest);
    if near && keep(wanted).is_none_or(|goal| spare(config, costs, goal, at)) {
        return dense(config, costs);
    }
    let stepped = even_rho(bound(wanted.clamp(now / config.max_factor_rho, now * up)));
    let small = at != Codec::Identity && stepped.max(now) < LEAST_CHANGE * stepped.min(now);
    let codec = keep(stepped).filter(|_| !small).unwrap_or(at);
    Choice::new(codec, format!("{why}, {}", share_of(costs, codec)))
}

fn keep(rho: f64) -> Option<Codec> {
    Density::new(rho).ok().map(Codec::TopK)
}

/// Whether a trainer can do without compression: its link bears everything, or compressing gains nothing.
fn spare(config: &Controller, costs: &Costs, codec: Codec, at: Codec) -> bool {
    costs.bears_dense(config.comm_share_max) || !costs.worth_compressing(codec, at != Codec::Identity)
}

fn dense(config: &Controller, costs: &Costs) -> Choice {
    let why = if costs.bears_dense(config.comm_share_max) {
        "the link bears everything"
    } else {
        "compressing gains nothing"
    };
    Choice::new(
        Codec::Identity,
        format!("{why}, {}", share_of(costs, Codec::Identity)),
    )
}

fn share_of(costs: &Costs, codec: Codec) -> String {
    format!("upload {:.0} % of a step", 100.0 * costs.comm_share(codec))
}

fn rho_of(codec: Codec) -> f64 {
    match codec {
        Codec::TopK(rho) => rho.get(),
        Codec::Identity | Codec::Quantize(_) | Codec::Sign => DENSE_RHO,
    }
}

/// Whether the run has a place for a trainer: false when nearly all of many pushes were rejected.
#[must_use]
pub fn fits(line: &Line) -> bool {
    let counts = line.window();
    counts.pushes < UNFIT_PUSHES || counts.rejected_frac() < UNFIT_FRAC
}

#[cfg(test)]
#[path = "tests/budget.rs"]
mod tests;
