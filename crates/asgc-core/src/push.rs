//! A push and its verdict: what worker and server say to each other about one gradient.

use crate::codec::{Codec, Format, Payload};
use crate::event::{Decision, RejectReason};
use crate::ids::{Generation, PushId, Revision, Staleness, Version};

/// What a worker measured while it made a push. Times in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Measured {
    /// Waited until it could begin to compute: for parameters, and with a pipeline for earlier pushes to be settled.
    pub fetch_s: f64,
    /// Computed the gradient, injected delay included.
    pub compute_s: f64,
    /// Encoded it.
    pub encode_s: f64,
    /// L2 norm of the residual after encoding.
    pub residual_norm: f64,
    /// Mean training loss of the batch.
    pub loss: f64,
    /// Samples in the batch.
    pub samples: u32,
    /// L2 norm of the gradient, before the residual was added to it.
    pub gradient_norm: f64,
    /// What the bound on the residual took away since the push before.
    pub dropped: Dropped,
    /// The link, as an earlier push found it.
    pub link: Option<LinkSample>,
    /// `worker.pipeline_depth` of the worker; 0 where it does not say, which is 1.
    pub pipeline_depth: u32,
}

/// Gradient mass that the bound on a residual took away: no longer owed to anybody.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Dropped {
    /// Signed sum of the entries, so that the conservation of gradient mass can be checked with what was dropped.
    pub sum: f64,
    /// L2 norm; of several drops, the sum of their norms.
    pub norm: f64,
}

/// One payload's way to the server, as its worker timed it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkSample {
    /// Round trip of a message without content, in seconds.
    pub rtt_s: f64,
    /// Length of the payload.
    pub upload_bytes: u64,
    /// Seconds from the encoded payload to its verdict, less the round trip and the time that the server held it.
    pub upload_s: f64,
}

/// What goes ahead of a payload.
#[derive(Debug, Clone, PartialEq)]
pub struct PushHeader {
    /// The push's number at its worker.
    pub push: PushId,
    /// The server's life that `base` belongs to.
    pub generation: Generation,
    /// `v_i`: the version that the gradient was computed from.
    pub base: Version,
    /// How the payload is to be read.
    pub format: Format,
    /// Top-K: entries of each tensor.
    pub entries: Vec<u32>,
    /// Length of the payload.
    pub payload_bytes: u64,
    /// The controls that it was encoded under.
    pub controls: Revision,
    /// What the worker measured.
    pub measured: Measured,
}

/// What workers are told to compress with from here on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Controls {
    /// Tells pushes encoded before the change from those after it.
    pub revision: Revision,
    /// The codec.
    pub codec: Codec,
}

/// A gradient on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Push {
    /// Announces the payload.
    pub header: PushHeader,
    /// The compressed gradient.
    pub payload: Payload,
    /// The worker waits for a go-ahead before it sends the payload.
    pub asks_first: bool,
}

/// What became of a push.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// Accepted, down-weighted or rejected.
    pub decision: Decision,
    /// Why it was rejected.
    pub reason: Option<RejectReason>,
    /// Its weight in the update; 0 when rejected.
    pub weight: f64,
    /// How stale it was.
    pub staleness: Staleness,
    /// The server's version after the decision.
    pub version: Version,
}

impl Verdict {
    /// A push that was not applied.
    #[must_use]
    pub fn rejected(reason: RejectReason, staleness: Staleness, version: Version) -> Self {
        Self {
            decision: Decision::Rejected,
            reason: Some(reason),
            weight: 0.0,
            staleness,
            version,
        }
    }

    /// A push that was applied with `weight`; `version` is the one it made.
    #[must_use]
    pub fn applied(weight: f64, staleness: Staleness, version: Version) -> Self {
        let decision = if weight < 1.0 {
            Decision::Downweighted
        } else {
            Decision::Accepted
        };
        Self {
            decision,
            reason: None,
            weight,
            staleness,
            version,
        }
    }
}
