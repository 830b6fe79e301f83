//! `simulation` and `objective`: machines, links and synthetic problems of simulated runs.

use super::{Config, by_worker};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where the seconds of a simulated step come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepTime {
    /// The median of some steps on this machine, timed once before the run; the log says what was found.
    Measured,
    /// `step_s`, always.
    Fixed,
    /// Log-normal with mean `step_s` and coefficient of variation `step_spread`.
    Lognormal,
    /// Exponential with mean `step_s`.
    Exponential,
}

/// Machines and links of `asgc run --mode simulate`. Rates of 0 are no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Simulation {
    /// How long a trainer computes one gradient, injected delay aside.
    pub step: StepTime,
    /// Seconds of a step; under `measured` this is filled in.
    pub step_s: f64,
    /// Seconds of a step of single workers, over `step_s`.
    #[serde(deserialize_with = "by_worker")]
    pub step_by_worker: BTreeMap<u32, f64>,
    /// Standard deviation over mean, of `lognormal`.
    pub step_spread: f64,
    /// Seconds of an evaluation.
    pub eval_s: f64,
    /// Seconds that the server needs for a push; pushes wait for one another.
    pub server_s: f64,
    /// Mbit/s from a worker to the server.
    pub uplink_mbps: f64,
    /// The same, of single workers.
    #[serde(deserialize_with = "by_worker")]
    pub uplink_by_worker: BTreeMap<u32, f64>,
    /// All workers share one uplink of `uplink_mbps`.
    pub uplink_shared: bool,
    /// Mbit/s from the server to a worker.
    pub downlink_mbps: f64,
    /// The same, of single workers.
    #[serde(deserialize_with = "by_worker")]
    pub downlink_by_worker: BTreeMap<u32, f64>,
    /// All workers share one downlink of `downlink_mbps`.
    pub downlink_shared: bool,
    /// Milliseconds that a message travels, either way.
    pub latency_ms: f64,
    /// The same, of single workers.
    #[serde(deserialize_with = "by_worker")]
    pub latency_by_worker: BTreeMap<u32, f64>,
    /// Share of packets that are lost and sent again, in [0, 1).
    pub loss: f64,
    /// Threads that compute gradients; 0 is one a core. Changes no result.
    pub threads: usize,
}

impl Default for Simulation {
    fn default() -> Self {
        Self {
            step: StepTime::Measured,
            step_s: 0.0,
            step_by_worker: BTreeMap::new(),
            step_spread: 0.1,
            eval_s: 1.0,
            server_s: 0.0,
            uplink_mbps: 0.0,
            uplink_by_worker: BTreeMap::new(),
            uplink_shared: false,
            downlink_mbps: 0.0,
            downlink_by_worker: BTreeMap::new(),
            downlink_shared: false,
            latency_ms: 0.0,
            latency_by_worker: BTreeMap::new(),
            loss: 0.0,
            threads: 0,
        }
    }
}

/// A problem whose gradient is a formula.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Objective {
    /// Entries of the parameter vector.
    pub dimension: usize,
    /// `logistic`: samples of all workers together.
    pub samples: usize,
    /// `quadratic`: standard deviation of one sample's gradient noise. `logistic`: share of labels that are wrong.
    pub noise: f64,
    /// `quadratic`: largest over smallest curvature.
    pub condition: f64,
    /// `quadratic`: how far each worker's optimum lies from the common one, as a standard deviation.
    pub skew: f64,
}

impl Default for Objective {
    fn default() -> Self {
        Self {
            dimension: 100,
            samples: 50_000,
            noise: 0.1,
            condition: 10.0,
            skew: 0.0,
        }
    }
}

impl Config {
    /// Entries of the model's tensors.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let dimension = self.objective.dimension as u64;
        self.workload.model.parameters().unwrap_or(dimension)
    }
}
