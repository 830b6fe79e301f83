//! The controller's decisions, and changes by hand.

use crate::codec::Codec;
use crate::ids::{Revision, WorkerId};
use serde::{Deserialize, Serialize};

/// Where a decision of the controller leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// More of every gradient, less staleness.
    Safer,
    /// As it is.
    Hold,
    /// Less of every gradient, more staleness.
    Aggressive,
}

impl Direction {
    /// The name in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Safer => "safer",
            Self::Hold => "hold",
            Self::Aggressive => "aggressive",
        }
    }
}

/// The controller decided: what it saw in its window, and what it made of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// `threshold`, `score` or `budget`; `none` where only operators and `compression.auto` change anything.
    pub policy: String,
    /// Last less first loss; `null` where the window has none to compare.
    pub loss_trend: Option<f64>,
    /// Loss rebound: mean upward move between consecutive evaluations; `null` as above.
    pub loss_variability: Option<f64>,
    /// Over all pushes.
    pub mean_staleness: f64,
    /// Rejected share of the pushes.
    pub rejected_frac: f64,
    /// Payload bytes a second.
    pub bytes_per_s: f64,
    /// Pushes a second, rejected ones included.
    pub updates_per_s: f64,
    /// Population variance of the residual's norm.
    pub residual_norm_var: f64,
    /// The codec: what the next two are.
    pub compression_mode: String,
    /// `rho` or bits before; `null` for identity.
    pub old_compression: Option<f64>,
    /// `rho` or bits from here on; `null` for identity.
    pub new_compression: Option<f64>,
    /// `s_max` before.
    pub old_s_max: u64,
    /// `s_max` from here on.
    pub new_s_max: u64,
    /// Where it leads, also where a bound holds it.
    pub direction: Direction,
    /// Why, in words.
    pub reason: String,
    /// The revision of the controls from here on; pushes carry the one that they were encoded under.
    pub revision: Revision,
    /// Where the loss signals come from; `null` where there are none.
    #[serde(default)]
    pub loss_source: Option<LossSource>,
    /// Best test accuracy so far less that of the window's last evaluation; `null` without one.
    #[serde(default)]
    pub accuracy_drop: Option<f64>,
    /// `budget`: the least `rho` that the quality guard lets anybody use.
    #[serde(default)]
    pub rho_floor: Option<f64>,
    /// Each trainer that pushed since the last decision.
    #[serde(default)]
    pub workers: Vec<WorkerControl>,
    /// Set by hand: by whom, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<Operator>,
}

/// What loss signals are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossSource {
    /// Evaluations on the test set.
    Test,
    /// The batches' losses, smoothed, where there is no evaluator.
    Train,
}

impl LossSource {
    /// The name in logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Train => "train",
        }
    }
}

/// What the controller saw of one trainer, and what it made of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerControl {
    /// Who.
    pub worker_id: WorkerId,
    /// Its codec before.
    pub old_codec: Codec,
    /// Its codec from here on.
    pub new_codec: Codec,
    /// Why, in words.
    pub reason: String,
    /// Its pushes in the window.
    pub pushes: u64,
    /// Rejected share of them.
    pub rejected_frac: f64,
    /// What its link and machine do; `null` until measured.
    pub link: Option<LinkReport>,
    /// Norm of its residual over that of its gradient; `null` without either.
    pub residual_ratio: Option<f64>,
    /// Pushes a second in the window.
    pub achieved_updates_per_s: f64,
    /// Pushes a second that the cost model expects with the new codec.
    pub predicted_updates_per_s: Option<f64>,
    /// The same without compression.
    pub dense_updates_per_s: Option<f64>,
    /// Whether compression makes its steps shorter; `null` until measured.
    pub compression_beneficial: Option<bool>,
    /// False for a worker nearly all of whose pushes are rejected.
    pub fits: bool,
}

/// Medians of a worker's recent steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// Payload bytes a second on the way to the server.
    pub goodput_bytes_per_s: f64,
    /// Round trip of an empty message.
    pub rtt_s: f64,
    /// Computing a gradient.
    pub compute_s: f64,
    /// Encoding it.
    pub encode_s: f64,
    /// From one push to the next.
    pub step_s: f64,
    /// Share of the step that the upload takes.
    pub comm_share: f64,
}

/// Who changed the controls by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operator {
    /// Who, in their own words.
    pub by: String,
    /// Why, in their own words.
    pub why: String,
    /// What was asked for.
    pub set: Override,
}

/// A change by hand. What is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Override {
    /// The trainer whose codec is meant; absent: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// The codec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codec: Option<Codec>,
    /// The staleness beyond which pushes are rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s_max: Option<u64>,
    /// Keep what is set against the policy, until a change by hand with `pin = false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<bool>,
}
