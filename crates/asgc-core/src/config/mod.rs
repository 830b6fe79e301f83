//! The one configuration schema of all programs: plain data with defaults and rules, no files.
//!
//! `asgc-daemon` reads it from files, environment and flags. Seconds and bytes appear here as they are
//! written in files (`_s`, `_bytes`); the methods hand out checked core types.

mod check;
mod controller;
mod downlink;
mod sections;
mod simulation;

pub use check::{Invalid, validate};
pub use controller::{ControlPolicy, Controller, ScoreWeights};
pub use downlink::{Downlink, DownlinkDtype, DownlinkMode};
pub(crate) use sections::by_worker;
pub use sections::*;
pub use simulation::{Objective, Simulation, StepTime};

use serde::{Deserialize, Serialize};

/// Everything that can be set, by section. An absent section or key has its default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Name, seed and places of a run.
    pub run: Run,
    /// What is trained, for how long.
    pub workload: Workload,
    /// Delays injected to make machines and links unequal.
    pub heterogeneity: Heterogeneity,
    /// How pushes are compressed.
    pub compression: Compression,
    /// How stale a push may be.
    pub staleness: Staleness,
    /// Whether what compression leaves out is kept for later pushes.
    pub error_feedback: ErrorFeedback,
    /// How compression and the staleness bound adapt while the run goes on.
    pub controller: Controller,
    /// How workers come by newer parameters.
    pub downlink: Downlink,
    /// The server's update.
    pub optimizer: Optimizer,
    /// The server daemon.
    pub server: Server,
    /// The worker daemon.
    pub worker: Worker,
    /// Logs and metrics.
    pub telemetry: Telemetry,
    /// Machines and links of `asgc run --mode simulate`.
    pub simulation: Simulation,
    /// What `workload.dataset = "synthetic"` is made of.
    pub objective: Objective,
}
