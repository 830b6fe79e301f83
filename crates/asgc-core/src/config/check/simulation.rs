//! `simulation` and `objective`.

use super::{Rule, SECONDS, is_duration};
use crate::config::{Config, Model, Objective, Simulation, StepTime};
use std::collections::BTreeMap;

const RATE: &str = "must be a number of Mbit/s, or 0 for no limit";

/// A vector of this many entries is 1 GiB.
const MAX_DIMENSION: usize = 1 << 28;

pub(super) fn check(config: &Config, rule: &mut Rule<'_>) {
    check_steps(&config.simulation, rule);
    check_links(&config.simulation, rule);
    if config.workload.model.is_synthetic() {
        check_objective(config, rule);
    }
}

fn check_steps(s: &Simulation, rule: &mut Rule<'_>) {
    rule(is_duration(s.step_s), "simulation.step_s", SECONDS);
    rule(
        s.step == StepTime::Measured || s.step_s > 0.0,
        "simulation.step_s",
        "must be above 0 unless simulation.step is measured: a run whose steps take no time never moves on",
    );
    rule(
        s.step_by_worker
            .values()
            .all(|&step_s| is_duration(step_s) && step_s > 0.0),
        "simulation.step_by_worker",
        "must be seconds above 0",
    );
    rule(
        (0.0..=10.0).contains(&s.step_spread),
        "simulation.step_spread",
        "must lie between 0 and 10",
    );
    rule(is_duration(s.eval_s), "simulation.eval_s", SECONDS);
    rule(is_duration(s.server_s), "simulation.server_s", SECONDS);
    rule(s.threads <= 1024, "simulation.threads", "must be at most 1024");
}

fn check_links(s: &Simulation, rule: &mut Rule<'_>) {
    let rate = |&mbps: &f64| mbps.is_finite() && mbps >= 0.0;
    let rates = |by_worker: &BTreeMap<u32, f64>| by_worker.values().all(rate);
    rule(rate(&s.uplink_mbps), "simulation.uplink_mbps", RATE);
    rule(rate(&s.downlink_mbps), "simulation.downlink_mbps", RATE);
    rule(rates(&s.uplink_by_worker), "simulation.uplink_by_worker", RATE);
    rule(
        rates(&s.downlink_by_worker),
        "simulation.downlink_by_worker",
        RATE,
    );
    rule(
        !s.uplink_shared || s.uplink_by_worker.is_empty(),
        "simulation.uplink_by_worker",
        "has no meaning with simulation.uplink_shared: there is one uplink for all",
    );
    rule(
        !s.downlink_shared || s.downlink_by_worker.is_empty(),
        "simulation.downlink_by_worker",
        "has no meaning with simulation.downlink_shared: there is one downlink for all",
    );
    let latency = |&ms: &f64| is_duration(ms);
    rule(
        latency(&s.latency_ms) && s.latency_by_worker.values().all(latency),
        "simulation.latency_ms",
        "must be a number of ms, 0 or more",
    );
    rule(
        (0.0..0.9).contains(&s.loss),
        "simulation.loss",
        "must be at least 0 and below 0.9",
    );
}

fn check_objective(config: &Config, rule: &mut Rule<'_>) {
    let Objective {
        dimension,
        samples,
        noise,
        condition,
        skew,
    } = config.objective;
    rule(
        (1..=MAX_DIMENSION).contains(&dimension),
        "objective.dimension",
        "must lie between 1 and 268435456",
    );
    let logistic = config.workload.model == Model::Logistic;
    rule(
        !logistic || samples >= config.workload.num_workers as usize,
        "objective.samples",
        "must be at least workload.num_workers: each worker needs a sample",
    );
    rule(
        !logistic || samples.saturating_mul(dimension) <= 4 * MAX_DIMENSION,
        "objective.samples",
        "times objective.dimension must be at most 1073741824, which is 4 GiB",
    );
    rule(
        noise.is_finite() && noise >= 0.0 && (!logistic || noise <= 0.5),
        "objective.noise",
        "must be 0 or more, and at most 0.5 of logistic's labels can be wrong",
    );
    rule(
        condition.is_finite() && condition >= 1.0,
        "objective.condition",
        "must be at least 1",
    );
    rule(
        skew.is_finite() && skew >= 0.0,
        "objective.skew",
        "must be 0 or more",
    );
}
