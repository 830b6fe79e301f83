//! The sections, key by key.

use crate::codec::{Codec, Form, Scope, Values, Warmup};
use crate::feedback::Bound;
use crate::ids::{Bits, Density};
use crate::momentum::Correction;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name, seed and places of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// Names the folder of the run under `results_dir`.
    pub name: String,
    /// Fixes initial parameters, batch order, augmentation and stochastic rounding.
    pub seed: u64,
    /// Where runs leave their logs and models.
    pub results_dir: String,
    /// Where data sets lie.
    pub data_root: String,
    /// `auto`, `cpu`, `cuda` or `cuda:N`.
    pub device: String,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            name: "asgc".into(),
            seed: 0,
            results_dir: "results".into(),
            data_root: "data".into(),
            device: "auto".into(),
        }
    }
}

/// Gives each variant the name that it has in files, logs and metrics.
macro_rules! names {
    ($type:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        impl $type {
            /// The name in files, logs and metrics.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
    };
}

names!(Dataset { FashionMnist = "fashion_mnist", Cifar10 = "cifar10", Procedural = "procedural", Synthetic = "synthetic" });
names!(Model {
    SmallCnn = "small_cnn",
    ToyCnn = "toy_cnn",
    Resnet8 = "resnet8",
    Resnet18 = "resnet18",
    Quadratic = "quadratic",
    Logistic = "logistic",
});
names!(Mode { Async = "async", Ssp = "ssp", Sync = "sync" });
names!(Role { Trainer = "trainer", Evaluator = "evaluator" });

/// A training and test set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dataset {
    /// 60,000 + 10,000 grey images of 28 x 28, ten classes.
    FashionMnist,
    /// 50,000 + 10,000 colour images of 32 x 32, ten classes.
    Cifar10,
    /// Images of 28 x 28 drawn by a seeded procedure, ten classes; needs no files.
    Procedural,
    /// What `[objective]` describes, for `quadratic` and `logistic`.
    Synthetic,
}

/// A model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// Two convolutions and two linear layers for 28 x 28 images, 55,338 parameters.
    SmallCnn,
    /// Two convolutions without padding and two linear layers for 28 x 28 images, 56,714 parameters: what others count
    /// bytes on.
    ToyCnn,
    /// A residual network of 8 layers for CIFAR, 78,042 parameters: what two cores can train.
    Resnet8,
    /// ResNet-18 for CIFAR, 11,173,962 parameters.
    Resnet18,
    /// A noisy quadratic bowl with an analytic gradient; simulated only.
    Quadratic,
    /// Binary logistic regression with an analytic gradient; simulated only.
    Logistic,
}

impl Model {
    /// Entries of all its tensors; `None` where `objective.dimension` says.
    #[must_use]
    pub fn parameters(self) -> Option<u64> {
        match self {
            Self::SmallCnn => Some(55_338),
            Self::ToyCnn => Some(56_714),
            Self::Resnet8 => Some(78_042),
            Self::Resnet18 => Some(11_173_962),
            Self::Quadratic | Self::Logistic => None,
        }
    }

    /// Whether it is an objective with an analytic gradient, which needs no libtorch.
    #[must_use]
    pub fn is_synthetic(self) -> bool {
        self.parameters().is_none()
    }
}

/// What is trained, for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Workload {
    /// The data set.
    pub dataset: Dataset,
    /// The model.
    pub model: Model,
    /// Samples in a worker's batch.
    pub batch_size: usize,
    /// How many trainers share the data; sync mode waits for this many.
    pub num_workers: u32,
    /// Learning rate at the server.
    pub lr: f64,
    /// Share of `max_updates` after which the rate is multiplied by `lr_gamma`; 0 is never.
    pub lr_decay_frac: f64,
    /// Factor of that step.
    pub lr_gamma: f64,
    /// Stop after this many applied updates (rounds, in sync mode).
    pub max_updates: u64,
    /// Stop after this many seconds.
    pub max_wall_time_s: f64,
    /// Versions between evaluations.
    pub eval_interval: u64,
    /// Accuracy whose first reaching is reported; stops the run only with `server.stop_at_target`.
    pub target_accuracy: Option<f64>,
    /// Synchronous rounds; the same as `server.mode = "sync"`.
    pub sync: bool,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            dataset: Dataset::FashionMnist,
            model: Model::SmallCnn,
            batch_size: 128,
            num_workers: 3,
            lr: 0.05,
            lr_decay_frac: 0.0,
            lr_gamma: 0.1,
            max_updates: 500,
            max_wall_time_s: 600.0,
            eval_interval: 50,
            target_accuracy: None,
            sync: false,
        }
    }
}

/// Delays injected to make machines and links unequal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Heterogeneity {
    /// Seconds added to each step, by worker id.
    #[serde(deserialize_with = "by_worker")]
    pub compute_delay: BTreeMap<u32, f64>,
    /// Milliseconds added to each push and to each pull, at the worker.
    pub comm_delay_ms: f64,
    /// Uplink rate in Mbit/s that pushes are held to, per worker; 0 is unlimited.
    pub bandwidth_mbps: f64,
}

/// JSON's keys are strings, and inside a tagged enum serde does not turn them back into numbers.
pub(crate) fn by_worker<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<u32, f64>, D::Error> {
    let wrong = "the key must be a whole number, 0 or more";
    let parse = |(id, delay): (String, f64)| Ok((id.parse().map_err(|_| D::Error::custom(wrong))?, delay));
    BTreeMap::<String, f64>::deserialize(from)?
        .into_iter()
        .map(parse)
        .collect()
}

/// A codec's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompressionMode {
    /// Every value as it is.
    Identity,
    /// The largest entries of each tensor.
    Topk,
    /// Stochastically rounded integers (QSGD).
    Quantize,
    /// Signs, times their mean magnitude.
    Sign,
}

/// How pushes are compressed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Compression {
    /// The codec.
    pub mode: CompressionMode,
    /// Share of entries that `topk` keeps, in (0, 1].
    pub rho: f64,
    /// Width of an entry under `quantize`, 2 to 8.
    pub bits: u8,
    /// How values are written: `f32`, `bf16`, and `fp16` for `identity` or `int8` for packed `topk`.
    pub values: Values,
    /// `topk`: versions over which the density falls to its setting; 0 is none.
    pub warmup_updates: u64,
    /// `topk`: the density that a warm-up begins with.
    pub warmup_rho: f64,
    /// `topk`: indices as coded gaps; `quantize`: `bits` bits an entry rather than 8.
    pub packed: bool,
    /// Whether `topk` keeps its share of each tensor or of the whole model.
    pub scope: Scope,
    /// Workers whose link makes it slower than sending everything do not compress.
    pub auto: bool,
}

impl Default for Compression {
    fn default() -> Self {
        Self {
            mode: CompressionMode::Identity,
            rho: 0.25,
            bits: 8,
            values: Values::default(),
            packed: false,
            scope: Scope::default(),
            warmup_updates: 0,
            warmup_rho: 0.25,
            auto: false,
        }
    }
}

impl Compression {
    /// The codec that these settings name; errors when `rho` or `bits` is out of range.
    pub fn codec(&self) -> Result<Codec, crate::ids::OutOfRange> {
        Ok(match self.mode {
            CompressionMode::Identity => Codec::Identity,
            CompressionMode::Topk => Codec::TopK(Density::new(self.rho)?),
            CompressionMode::Quantize => Codec::Quantize(Bits::new(self.bits)?),
            CompressionMode::Sign => Codec::Sign,
        })
    }

    /// How the density begins; `None` for as it goes on.
    #[must_use]
    pub fn warmup(&self) -> Option<Warmup> {
        let start = Density::new(self.warmup_rho).ok()?;
        (self.warmup_updates > 0).then_some(Warmup {
            start,
            updates: self.warmup_updates,
        })
    }

    /// How payloads are written.
    #[must_use]
    pub fn form(&self) -> Form {
        Form {
            values: self.values,
            packed: self.packed,
            scope: self.scope,
        }
    }
}

/// How stale a push may be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Staleness {
    /// Off: every push counts in full.
    pub enabled: bool,
    /// Full weight up to here.
    pub s_low: u64,
    /// Rejected beyond here.
    pub s_max: u64,
    /// Attenuation `1 / (1 + beta * tau)` between the two.
    pub beta: f64,
    /// The worker takes back the share that attenuation left out.
    pub reclaim: bool,
}

impl Default for Staleness {
    fn default() -> Self {
        Self {
            enabled: false,
            s_low: 2,
            s_max: 6,
            beta: 0.5,
            reclaim: false,
        }
    }
}

/// How a residual is kept from growing without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResidualBound {
    /// Not at all: nothing is ever dropped.
    None,
    /// Its norm is held to `cap` times the mean norm of the worker's gradients.
    Cap,
    /// Each rejection drops the share `decay` of it.
    Decay,
}

/// Whether what compression leaves out is kept for later pushes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ErrorFeedback {
    /// On or off.
    pub enabled: bool,
    /// What keeps the residual of a worker that is nearly always rejected from growing without end.
    pub bound: ResidualBound,
    /// `cap`: the largest norm of the residual, in mean gradient norms.
    pub cap: f64,
    /// `decay`: the share of the residual that each rejection drops, in (0, 1].
    pub decay: f64,
    /// Whether the residual is scaled where the learning rate changes, so that what waits counts as it would have.
    pub follow_rate: bool,
    /// Momentum correction at the worker: the momentum of its velocity; 0 is none.
    pub momentum: f64,
    /// Whether entries that Top-K sends are cleared from the velocity.
    pub masking: bool,
    /// Gradients are scaled down to this norm, divided by the root of `workload.num_workers`; 0 is not at all.
    pub clip_norm: f64,
}

impl Default for ErrorFeedback {
    fn default() -> Self {
        Self {
            enabled: false,
            bound: ResidualBound::Cap,
            cap: 100.0,
            decay: 0.1,
            follow_rate: false,
            momentum: 0.0,
            masking: true,
            clip_norm: 0.0,
        }
    }
}

impl ErrorFeedback {
    /// Momentum correction, at each of so many workers.
    #[must_use]
    pub fn correction(&self, workers: u32) -> Correction {
        let clip = self.clip_norm / f64::from(workers.max(1)).sqrt();
        Correction {
            momentum: self.momentum as f32,
            masking: self.masking,
            clip: (self.clip_norm > 0.0).then_some(clip),
        }
    }

    /// The bound on the residual; `None` with error feedback off.
    #[must_use]
    pub fn residual(&self) -> Option<Bound> {
        self.enabled.then_some(match self.bound {
            ResidualBound::None => Bound::None,
            ResidualBound::Cap => Bound::Cap(self.cap),
            ResidualBound::Decay => Bound::Decay(self.decay),
        })
    }
}

/// Learning rate over versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleKind {
    /// One rate, but for `workload.lr_decay_frac`.
    Step,
    /// From `lr` to 0 along half a cosine over `max_updates`.
    Cosine,
}

/// The server's update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Optimizer {
    /// Momentum of SGD, in [0, 1).
    pub momentum: f64,
    /// Nesterov's variant; needs momentum.
    pub nesterov: bool,
    /// L2 penalty added to the gradient.
    pub weight_decay: f64,
    /// How the rate moves.
    pub schedule: ScheduleKind,
    /// Versions over which the rate rises linearly from `lr / warmup_updates` to `lr`.
    pub warmup_updates: u64,
}

impl Default for Optimizer {
    fn default() -> Self {
        Self {
            momentum: 0.0,
            nesterov: false,
            weight_decay: 0.0,
            schedule: ScheduleKind::Step,
            warmup_updates: 0,
        }
    }
}

/// How pushes of different workers are held together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Each push is applied as it comes.
    Async,
    /// As async, but the fastest waits for the slowest beyond `server.slack` steps.
    Ssp,
    /// Rounds: the mean of all workers' pushes is applied once.
    Sync,
}

/// The server daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Address for workers; port 0 takes a free one.
    pub listen: String,
    /// Host name or address in the line that the server prints for workers; default: the one it listens on.
    pub advertise: Option<String>,
    /// `async`, `ssp` or `sync`; absent means what `workload.sync` says.
    pub mode: Option<Mode>,
    /// `ssp`: steps that a worker may be ahead of the slowest.
    pub slack: u64,
    /// `sync`: pushes that release a round; absent means all of `workload.num_workers`.
    pub quorum: Option<u32>,
    /// Trainers that must have joined before the first parameters go out.
    pub min_workers: u32,
    /// Safetensors file to start from, instead of parameters drawn from `run.seed`.
    pub initial_parameters: Option<String>,
    /// Stop once `workload.target_accuracy` is reached.
    pub stop_at_target: bool,
    /// Seconds that a drain may take.
    pub drain_s: f64,
    /// Seconds without a sign of life after which a connection is closed.
    pub liveness_s: f64,
    /// Sessions at once; one more is refused.
    pub max_sessions: usize,
    /// Messages waiting for the owner before sessions are held back.
    pub queue_depth: usize,
    /// Bytes of a parameter or payload chunk on the wire.
    pub chunk_bytes: usize,
    /// Threads that an update of a large model is divided among; 0 for one a processor, up to eight.
    pub threads: usize,
    /// Largest model that is accepted, in parameters.
    pub max_parameters: u64,
    /// File to write the chosen addresses to, as JSON, once the server is ready.
    pub address_file: Option<String>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7070".into(),
            advertise: None,
            mode: None,
            slack: 3,
            quorum: None,
            min_workers: 1,
            initial_parameters: None,
            stop_at_target: false,
            drain_s: 30.0,
            liveness_s: 20.0,
            max_sessions: 1024,
            queue_depth: 256,
            chunk_bytes: 1 << 20,
            threads: 0,
            max_parameters: 1 << 30,
            address_file: None,
        }
    }
}

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Computes and pushes gradients.
    Trainer,
    /// Measures loss and accuracy of the server's parameters on the test set.
    Evaluator,
}

/// The worker daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Worker {
    /// The server's address, `http://HOST:PORT`.
    pub server: String,
    /// `trainer` or `evaluator`.
    pub role: Role,
    /// The identity to ask for; absent takes the lowest that is free.
    pub id: Option<u32>,
    /// Intra-op threads of libtorch.
    pub threads: usize,
    /// Seconds to go on trying to reach the server before giving up.
    pub give_up_after_s: f64,
    /// Samples in a batch of the evaluation.
    pub eval_batch_size: usize,
    /// Training batches that recalibrate batch-norm statistics before an evaluation.
    pub recalibration_batches: usize,
    /// Pushes that may be unsettled before computing waits, 1 to 16; 1 computes and pushes by turns.
    pub pipeline_depth: u32,
    /// SGD steps of its own that a trainer takes for each push, 1 to 1000.
    pub local_steps: u32,
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            server: "http://127.0.0.1:7070".into(),
            role: Role::Trainer,
            id: None,
            threads: 1,
            give_up_after_s: 60.0,
            eval_batch_size: 512,
            recalibration_batches: 64,
            pipeline_depth: 1,
            local_steps: 1,
        }
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Logs and metrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// `error`, `warn`, `info`, `debug`, `trace`, or directives such as `info,asgc_server=debug`.
    pub log: String,
    /// `human` or `json`.
    pub log_format: LogFormat,
    /// Address of `/metrics`, `/healthz` and `/readyz`; port 0 takes a free one, absent is off.
    pub metrics_listen: Option<String>,
    /// Workers that get label values of their own; the rest share `other`.
    pub max_worker_labels: usize,
    /// Size of `events.jsonl` from which on it becomes a numbered piece and a new one is begun; 0 is never.
    pub events_max_bytes: u64,
    /// What becomes of the run when events cannot be written any more.
    pub events_on_error: OnLogError,
}

/// What becomes of a run whose log ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLogError {
    /// It goes on without a log.
    Continue,
    /// It drains.
    Stop,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            log: "info".into(),
            log_format: LogFormat::Human,
            metrics_listen: None,
            max_worker_labels: 64,
            events_max_bytes: 256 << 20,
            events_on_error: OnLogError::Continue,
        }
    }
}
