//! What goes into the server's state machine, and what comes out.

use crate::codec::CheckedPayload;
use crate::config::Role;
use crate::downlink::Delta;
use crate::event::{Control, Event, Operator};
use crate::ids::{Generation, Incarnation, PushId, Version, WorkerId};
use crate::initial::{Digest, Recipe};
use crate::layout::Layout;
use crate::parameters::Chunk;
use crate::push::{Controls, PushHeader, Verdict};
use std::sync::Arc;

/// One connection of one worker; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// One question of an operator; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Bytes that crossed sockets, framing included, as the server counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameBytes {
    /// Worker to server.
    pub uplink: u64,
    /// Server to worker.
    pub downlink: u64,
}

/// A wish to join.
#[derive(Debug, Clone)]
pub struct Joining {
    /// Trainer or evaluator.
    pub role: Role,
    /// The identity it asks for; `None` takes the one it had, or the lowest that is free.
    pub wanted: Option<WorkerId>,
    /// The life of its process.
    pub incarnation: Incarnation,
    /// The tensors of its model.
    pub layout: Layout,
    /// What it calls itself.
    pub name: String,
    /// How its model starts, if that can be drawn.
    pub recipe: Option<Recipe>,
}

/// A wish for parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pull {
    /// The version that the worker holds, if any, and the life it belongs to.
    pub known: Option<(Generation, Version)>,
}

/// A push whose payload arrived whole.
#[derive(Debug, Clone)]
pub struct Pushed {
    /// What went ahead of the payload.
    pub header: PushHeader,
    /// The payload; `None` where its values are not finite.
    pub payload: Option<CheckedPayload>,
    /// Seconds that checking and decoding it took.
    pub decode_s: f64,
}

/// What an evaluator measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The version that was measured.
    pub version: Version,
    /// Share of the test set that was classified rightly.
    pub accuracy: f64,
    /// Mean cross-entropy on the test set.
    pub loss: f64,
    /// Seconds that it took.
    pub eval_s: f64,
    /// Batch-norm statistics that belong to the version, as a safetensors file; may be empty.
    pub buffers: bytes::Bytes,
}

/// Something happened.
#[derive(Debug)]
pub enum Input {
    /// Somebody wants to join; answered by [`Action::Admit`] or [`Action::Refuse`].
    Join {
        /// The session it would have.
        session: SessionId,
        /// The wish.
        joining: Box<Joining>,
    },
    /// The trainer that was asked for initial parameters sent them.
    Initialise {
        /// Who.
        session: SessionId,
        /// Flat, in layout order.
        values: Vec<f32>,
    },
    /// A worker wants parameters.
    Pull {
        /// Who.
        session: SessionId,
        /// What it has.
        pull: Pull,
    },
    /// A push's header arrived ahead of its payload.
    Announce {
        /// Who.
        session: SessionId,
        /// The header.
        header: Box<PushHeader>,
        /// The worker waits for a go-ahead.
        asks: bool,
        /// Payload bytes that came along with it.
        received_bytes: u64,
    },
    /// A push arrived whole.
    Push {
        /// Who.
        session: SessionId,
        /// The push.
        pushed: Box<Pushed>,
    },
    /// An evaluator reports.
    Report {
        /// Who.
        session: SessionId,
        /// What it measured.
        evaluation: Evaluation,
    },
    /// A session ended, for whatever reason.
    Leave {
        /// Which.
        session: SessionId,
        /// Why, in words.
        reason: String,
        /// Bytes of its connection.
        frames: FrameBytes,
    },
    /// The operator wants the controls changed; answered by [`Action::ControlsSet`].
    SetControls {
        /// Tells the answer from others.
        ticket: Ticket,
        /// Who wants what, and why.
        operator: Box<Operator>,
    },
    /// The operator wants the run to end.
    Drain {
        /// Why, in words.
        reason: String,
    },
    /// Time passed.
    Tick {
        /// Bytes of all connections so far.
        frames: FrameBytes,
    },
}

/// Admitted: what a worker is told when it joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Its identity; `None` for an evaluator.
    pub worker: Option<WorkerId>,
    /// The server's life.
    pub generation: Generation,
    /// Whether it is to send initial parameters.
    pub needs_parameters: bool,
    /// Whoever draws values of this digest holds version 0.
    pub initial: Option<Digest>,
}

/// Why somebody may not join or stay.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another model.
    #[error("the layouts differ: {0}; both sides need the same model (workload.model)")]
    Layout(String),
    /// More parameters than the server takes.
    #[error("the model has {parameters} parameters, more than server.max_parameters = {limit}")]
    TooLarge {
        /// Parameters of the model.
        parameters: u64,
        /// The limit.
        limit: u64,
    },
    /// A synchronous run has a fixed number of trainers.
    #[error("a sync run has workload.num_workers = {0} trainers, with ids below that; all of them are taken")]
    Full(u32),
    /// The run is over.
    #[error("the run is over")]
    Over,
    /// The same process opened a newer session.
    #[error("a newer session of this worker took over")]
    Superseded,
    /// Another process took the identity.
    #[error("another process joined as worker {0}; give each worker its own worker.id, or none")]
    Replaced(WorkerId),
    /// Unusable initial parameters.
    #[error("{0}")]
    BadParameters(String),
    /// A message that this role does not send.
    #[error("{0}")]
    WrongRole(&'static str),
}

/// The answer to a pull.
#[derive(Debug, Clone)]
pub enum Answer {
    /// All parameters at one version.
    Snapshot {
        /// The server's life.
        generation: Generation,
        /// The version.
        version: Version,
        /// The values.
        chunks: Vec<Chunk>,
        /// The values travel as bfloat16.
        rounded: bool,
    },
    /// What leads from the worker's version to a newer one.
    Delta(Delta),
    /// The worker's version is current.
    Unchanged {
        /// The server's life.
        generation: Generation,
        /// The version.
        version: Version,
    },
    /// The run is over.
    Stop {
        /// Why, in words.
        reason: Arc<str>,
    },
}

/// Something is to be done.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "actions live for one call, in a buffer that is reused; boxing every event would cost more"
)]
pub enum Action {
    /// Let it in.
    Admit {
        /// Which session.
        session: SessionId,
        /// What to tell it.
        admission: Admission,
    },
    /// Do not let it in.
    Refuse {
        /// Which session.
        session: SessionId,
        /// Why.
        refusal: Refusal,
    },
    /// End a session that was let in.
    Close {
        /// Which session.
        session: SessionId,
        /// Why.
        refusal: Refusal,
    },
    /// Ask a trainer for initial parameters.
    AskParameters {
        /// Which session.
        session: SessionId,
    },
    /// Answer its pull.
    Answer {
        /// Which session.
        session: SessionId,
        /// With this.
        answer: Answer,
    },
    /// Tell a worker what became of its push.
    Verdict {
        /// Which session.
        session: SessionId,
        /// Which push.
        push: PushId,
        /// What became of it.
        verdict: Verdict,
    },
    /// Tell a worker that asked to send its payload.
    Proceed {
        /// Which session.
        session: SessionId,
        /// Which push.
        push: PushId,
    },
    /// Tell a trainer to compress otherwise from here on.
    Controls {
        /// Which session.
        session: SessionId,
        /// How.
        controls: Controls,
    },
    /// Answer the operator who asked for other controls.
    ControlsSet {
        /// Which question.
        ticket: Ticket,
        /// What was logged, or why nothing was changed.
        outcome: Result<Box<Control>, String>,
    },
    /// Log it and count it.
    Emit(Event),
    /// The run has ended and drained.
    Finish,
}
