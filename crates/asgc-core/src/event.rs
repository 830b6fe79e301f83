//! The schema of `events.jsonl`: one object a line, the field `event` first.
//!
//! Events are the single source of every table, plot, metric and decision. Fields are added, never
//! renamed. Times are seconds since the run's start; sizes are bytes.

mod control;

pub use control::{Control, Direction, LinkReport, LossSource, Operator, Override, WorkerControl};

use crate::codec::Format;
use crate::config::Config;
use crate::ids::{Generation, PushId, Revision, Staleness, Version, WorkerId};
use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The file name of the `number`-th full piece of a log, counted from 1; what is written to is `events.jsonl`.
#[must_use]
pub fn segment_name(number: u32) -> String {
    format!("events.{number:05}.jsonl")
}

/// The number of the piece that has this file name.
#[must_use]
pub fn segment_number(name: &str) -> Option<u32> {
    let number = name
        .strip_prefix("events.")?
        .strip_suffix(".jsonl")?
        .parse()
        .ok()?;
    (number > 0 && segment_name(number) == name).then_some(number)
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The first line.
    RunStart(RunStart),
    /// A worker joined, or came back.
    Join(Join),
    /// A worker left, or its session broke.
    Leave(Leave),
    /// The server decided on a push.
    Update(Update),
    /// The evaluator reported.
    Eval(Eval),
    /// The controller decided.
    Control(Control),
    /// The last line.
    RunEnd(RunEnd),
}

/// What is run, so that the log can be read on its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStart {
    /// `run.name`.
    pub config_name: String,
    /// Trainers expected.
    pub num_workers: u32,
    /// The data set's name.
    pub dataset: String,
    /// The model's name.
    pub model: String,
    /// Samples a batch.
    pub batch_size: usize,
    /// Injected delay by worker, seconds.
    #[serde(deserialize_with = "crate::config::by_worker")]
    pub compute_delay: BTreeMap<u32, f64>,
    /// Injected communication delay.
    pub comm_delay_ms: f64,
    /// Injected uplink rate, 0 for none.
    pub bandwidth_mbps: f64,
    /// Unix time, seconds.
    pub started_at: f64,
    /// Seed of the run.
    pub seed: u64,
    /// The server's life.
    pub generation: Generation,
    /// `async`, `ssp` or `sync`.
    pub mode: String,
    /// The codec that workers start with, as text.
    pub compression: String,
    /// Whether error feedback is on.
    pub error_feedback: bool,
    /// Entries of all tensors.
    pub parameters: u64,
    /// The layout's fingerprint.
    pub layout: String,
    /// Stopping rule, so that progress can be told.
    pub max_updates: u64,
    /// Accuracy whose first reaching is reported.
    pub target_accuracy: Option<f64>,
    /// Time is virtual: all seconds of this log come from a model, none from a clock.
    #[serde(default)]
    pub simulated: bool,
    /// The whole configuration, so that the log can be replayed; absent in logs of older programs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub config: Option<Box<Config>>,
}

/// A worker joined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Join {
    /// Its identity; absent for an evaluator.
    pub worker_id: Option<WorkerId>,
    /// `trainer` or `evaluator`.
    pub role: String,
    /// What it calls itself: host and process.
    pub name: String,
    /// Whether this process had joined before.
    pub rejoined: bool,
    /// Seconds since the start.
    pub elapsed_s: f64,
}

/// A worker left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leave {
    /// Its identity; absent for an evaluator.
    pub worker_id: Option<WorkerId>,
    /// `trainer` or `evaluator`.
    pub role: String,
    /// Why, in words.
    pub reason: String,
    /// Bytes of its connection that the server received, framing included; 0 where the connection was still
    /// open, being replaced by a newer one (`run_end` counts those bytes too).
    pub uplink_frame_bytes: u64,
    /// Bytes of its connection that the server sent, framing included; 0 as above.
    pub downlink_frame_bytes: u64,
    /// Seconds since the start.
    pub elapsed_s: f64,
}

/// What became of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Applied with full weight.
    Accepted,
    /// Applied with less weight, being stale.
    Downweighted,
    /// Not applied.
    Rejected,
}

impl Decision {
    /// The name in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Downweighted => "downweighted",
            Self::Rejected => "rejected",
        }
    }
}

/// Why a push was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectReason {
    /// `tau > s_max`.
    Stale,
    /// Sync mode: its round had been released.
    Late,
    /// A NaN or an infinity among its values.
    NonFinite,
    /// Computed in another life of the server.
    WrongGeneration,
    /// Computed from a version that does not exist yet.
    FutureVersion,
    /// Its id was used before, and the verdict is no longer known.
    ForgottenId,
    /// The run was over.
    Stopped,
}

impl RejectReason {
    /// The name in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Late => "late",
            Self::NonFinite => "non_finite",
            Self::WrongGeneration => "wrong_generation",
            Self::FutureVersion => "future_version",
            Self::ForgottenId => "forgotten_id",
            Self::Stopped => "stopped",
        }
    }
}

/// JSON has no NaN and no infinity, and a diverged model has such a loss: written as `null`, read as NaN.
fn or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_one(depth: &u32) -> bool {
    *depth == 1
}

/// The server decided on a push.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// Who pushed.
    pub worker_id: WorkerId,
    /// The server's version after the decision; a rejection leaves it as it was.
    pub version: Version,
    /// `tau`; 0 in sync mode.
    pub staleness: Staleness,
    /// What the codec emitted.
    pub payload_bytes: u64,
    /// How much of it arrived: less than `payload_bytes` when the push was refused early.
    pub received_bytes: u64,
    /// Seconds the worker waited until it could begin to compute: for parameters, and with a pipeline for earlier pushes
    /// to be settled.
    #[serde(deserialize_with = "or_nan")]
    pub fetch_s: f64,
    /// Seconds the worker computed, injected delay included.
    #[serde(deserialize_with = "or_nan")]
    pub compute_s: f64,
    /// Seconds the worker encoded.
    #[serde(deserialize_with = "or_nan")]
    pub encode_s: f64,
    /// What was decided.
    pub decision: Decision,
    /// Why it was rejected.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<RejectReason>,
    /// Weight of the gradient in the update; 0 when rejected.
    pub weight: f64,
    /// L2 norm of the worker's residual after encoding.
    #[serde(deserialize_with = "or_nan")]
    pub residual_norm: f64,
    /// Mean training loss of the batch.
    #[serde(deserialize_with = "or_nan")]
    pub loss: f64,
    /// Samples in the batch.
    pub samples: u32,
    /// The push's number at its worker.
    pub push_id: PushId,
    /// Learning rate of the update; 0 when rejected.
    pub lr: f64,
    /// The revision of the controls that the push was encoded under.
    #[serde(default)]
    pub controls_revision: Revision,
    /// How the payload was encoded; absent in logs of older programs.
    #[serde(default)]
    pub compression_mode: Option<Format>,
    /// The version that the gradient was computed from.
    #[serde(default)]
    pub base_version: Version,
    /// L2 norm of the gradient, before the residual was added to it.
    #[serde(default, deserialize_with = "or_nan")]
    pub gradient_norm: f64,
    /// Signed sum of what the bound on the residual took away since the push before.
    #[serde(default, deserialize_with = "or_nan")]
    pub residual_dropped: f64,
    /// L2 norm of the same.
    #[serde(default, deserialize_with = "or_nan")]
    pub residual_dropped_norm: f64,
    /// Seconds the server took to check and decode the payload; 0 when it was refused early.
    #[serde(default)]
    pub decode_s: f64,
    /// Round trip of an empty message, as the worker last measured it.
    #[serde(default)]
    pub rtt_s: Option<f64>,
    /// Payload of the earlier push that `upload_s` is about.
    #[serde(default)]
    pub upload_bytes: Option<u64>,
    /// Seconds that those bytes took beyond the round trip and the server's own time.
    #[serde(default)]
    pub upload_s: Option<f64>,
    /// Pushes that its worker lets be unsettled while it computes (`worker.pipeline_depth`); absent is 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub pipeline_depth: u32,
    /// Seconds that the server held the worker's pulls since its push before, as the consistency mode wants: time lost to
    /// waiting for others.
    #[serde(default)]
    pub pull_held_s: f64,
    /// Seconds since the start.
    pub elapsed_s: f64,
}

/// The evaluator reported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Eval {
    /// The version that was measured.
    pub version: Version,
    /// Share of the test set that was classified rightly.
    #[serde(deserialize_with = "or_nan")]
    pub test_accuracy: f64,
    /// Mean cross-entropy on the test set.
    #[serde(deserialize_with = "or_nan")]
    pub test_loss: f64,
    /// Seconds since the start when the measured version was current.
    pub elapsed_s: f64,
    /// Seconds since the start when the report arrived.
    pub reported_s: f64,
    /// Seconds that the evaluation took.
    #[serde(deserialize_with = "or_nan")]
    pub eval_s: f64,
}

/// The sums of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// Updates applied (rounds, in sync mode).
    pub applied_updates: u64,
    /// Pushes rejected.
    pub rejected_updates: u64,
    /// Rejected share of all pushes.
    pub rejected_frac: f64,
    /// Payload bytes of all pushes, as the codecs emitted them.
    pub total_bytes: u64,
    /// Payload bytes that arrived: less than `total_bytes` by what early refusal saved.
    pub received_bytes: u64,
    /// Dense bytes times pushes.
    pub raw_bytes: u64,
    /// `raw_bytes / total_bytes`.
    pub compression_ratio: f64,
    /// Applied updates a second, up to the stop.
    pub updates_per_sec: f64,
    /// Seconds from the start to the stop; draining is not in it.
    pub elapsed_s: f64,
    /// Mean staleness of all pushes.
    pub mean_staleness: f64,
    /// Largest staleness.
    pub max_staleness: u64,
    /// Of the last evaluation.
    pub final_test_accuracy: Option<f64>,
    /// Of the last evaluation.
    pub final_test_loss: Option<f64>,
    /// Bytes received on workers' connections, framing included.
    pub uplink_frame_bytes: u64,
    /// Bytes sent on workers' connections, framing included.
    pub downlink_frame_bytes: u64,
    /// Why the run stopped, in words.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_reads_back_what_was_written() {
        let mut delayed = Config::default();
        delayed.heterogeneity.compute_delay = [(0, 0.5), (10, 0.3)].into();
        let start = Event::RunStart(RunStart {
            config_name: "x".into(),
            num_workers: 2,
            dataset: "procedural".into(),
            model: "small_cnn".into(),
            batch_size: 8,
            compute_delay: [(0, 0.5), (10, 0.3)].into(),
            comm_delay_ms: 0.0,
            bandwidth_mbps: 0.0,
            started_at: 1.75e9,
            seed: u64::MAX,
            generation: Generation(1),
            mode: "async".into(),
            compression: "identity".into(),
            error_feedback: false,
            parameters: 1,
            layout: "l".into(),
            max_updates: 1,
            target_accuracy: None,
            simulated: false,
            config: Some(Box::new(delayed)),
        });
        let line = serde_json::to_string(&start).unwrap();
        assert!(line.starts_with(r#"{"event":"run_start","#), "{line}");
        assert!(line.contains(r#""compute_delay":{"0":0.5,"10":0.3}"#), "{line}");
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), start);
    }

    #[test]
    fn pieces_of_a_log_have_numbers() {
        assert_eq!(segment_number("events.00007.jsonl"), Some(7));
        assert_eq!(segment_number(&segment_name(123_456)), Some(123_456));
        for other in [
            "events.jsonl",
            "events.7.jsonl",
            "events.00000.jsonl",
            "events.-0001.jsonl",
            "events.x.jsonl",
        ] {
            assert_eq!(segment_number(other), None, "{other}");
        }
    }

    #[test]
    fn the_log_of_a_diverged_model_can_be_read() {
        let eval = Event::Eval(Eval {
            version: Version(3),
            test_accuracy: 0.1,
            test_loss: f64::NAN,
            elapsed_s: 1.0,
            reported_s: 2.0,
            eval_s: f64::INFINITY,
        });
        let line = serde_json::to_string(&eval).unwrap();
        assert!(line.starts_with(r#"{"event":"eval","version":3,"#), "{line}");
        assert!(line.contains(r#""test_loss":null"#), "{line}");
        let Event::Eval(read) = serde_json::from_str(&line).unwrap() else {
            panic!("{line}");
        };
        assert!(read.test_loss.is_nan() && read.eval_s.is_nan());
        assert_eq!(read.test_accuracy, 0.1);
    }
}
