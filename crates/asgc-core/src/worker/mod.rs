//! The worker's state machine: gradients go in, pushes come out, verdicts settle them.
//!
//! It holds the residual and every push that has no verdict yet. A verdict other than acceptance puts the
//! push back into the residual; so does a server that has lost its memory (a new generation). After a
//! reconnect to the same life of the server the undecided pushes are sent again, under their old ids.

mod pipeline;
mod rates;
mod replays;
#[cfg(test)]
mod tests;

pub use pipeline::Pipeline;
pub use replays::Unusable;

use crate::codec::{Codec, Encoder, Form, NonFinite, Warmup};
use crate::config::{Config, DownlinkMode};
use crate::event::{Decision, RejectReason};
use crate::feedback::{Bound, Compressor};
use crate::ids::{Generation, OutOfRange, PushId, Revision, Version, WorkerId};
use crate::layout::Layout;
use crate::momentum::Correction;
use crate::optimizer::Schedule;
use crate::push::{Controls, Measured, Push, PushHeader, Verdict};
use rates::Rates;
use replays::Replays;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Fewer than the verdicts that the server remembers ([`crate::server`]'s ledger).
pub const MAX_IN_FLIGHT: usize = 16;

/// How a worker makes pushes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The codec to start with.
    pub codec: Codec,
    /// How payloads are written.
    pub form: Form,
    /// How the density begins.
    pub warmup: Option<Warmup>,
    /// Momentum correction.
    pub correction: Correction,
    /// Keep what compression leaves out, and how much of it at most; `None` is no error feedback.
    pub error_feedback: Option<Bound>,
    /// Scale the residual where the learning rate changes, by this schedule; `None` is not at all.
    pub rates: Option<Schedule>,
    /// Put back the share that attenuation left out.
    pub reclaim: bool,
    /// Keep applied pushes until their updates are pulled: deltas name them.
    pub replays: bool,
    /// Drives stochastic rounding.
    pub seed: u64,
}

/// Where the workers' seeds begin: worker `i` draws from `seed + 1000 + i`.
const WORKER_SEEDS: u64 = 1000;

impl Settings {
    /// What a run's configuration says.
    ///
    /// # Errors
    /// When `compression.rho` or `compression.bits` is out of range.
    pub fn new(config: &Config) -> Result<Self, OutOfRange> {
        Ok(Self {
            codec: config.compression.codec()?,
            form: config.compression.form(),
            warmup: config.compression.warmup(),
            correction: config.error_feedback.correction(config.workload.num_workers),
            error_feedback: config.error_feedback.residual(),
            rates: config.error_feedback.follow_rate.then(|| Schedule::new(config)),
            reclaim: config.staleness.reclaim,
            replays: config.downlink.mode == DownlinkMode::Delta,
            seed: config.run.seed,
        })
    }

    /// Those of one worker: each rounds by numbers of its own, since with the same ones their errors would not average
    /// out.
    #[must_use]
    pub fn of(self, worker: WorkerId) -> Self {
        let seed = self
            .seed
            .wrapping_add(WORKER_SEEDS)
            .wrapping_add(u64::from(worker.0));
        Self { seed, ..self }
    }
}

/// Something happened.
#[derive(Debug)]
pub enum Input<'a> {
    /// The server let the worker in: for the first time, or again.
    Joined {
        /// The server's life.
        generation: Generation,
    },
    /// A gradient was computed.
    Gradient {
        /// Flat, in layout order. Taken in exchange for another of the same length, whose contents mean nothing.
        gradient: &'a mut Vec<f32>,
        /// The version of the parameters that it was computed from, and the life that belongs to.
        base: (Generation, Version),
        /// What was measured; the residual norm is filled in here.
        measured: Measured,
    },
    /// The server decided.
    Verdict {
        /// On which push.
        push: PushId,
        /// What.
        verdict: Verdict,
    },
    /// The server wants later gradients compressed otherwise.
    Controls(Controls),
    /// There will be no more verdicts.
    Stopped,
}

/// Something is to be done.
#[derive(Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "actions live for one call; boxing every push would cost more"
)]
pub enum Action {
    /// Send it, also if it was sent before.
    Send(Push),
    /// A push was settled: this became of it.
    Settled {
        /// Which push.
        push: PushId,
        /// What became of it.
        verdict: Verdict,
    },
    /// The gradient was not sent: a value is not finite. The residual is as it was.
    Unfit(NonFinite),
}

/// The worker: its residual and its pushes in flight.
#[derive(Debug)]
pub struct Worker {
    settings: Settings,
    controls: Controls,
    compressor: Compressor,
    rates: Rates,
    generation: Option<Generation>,
    last_push: PushId,
    in_flight: BTreeMap<PushId, Push>,
    replays: Replays,
    /// The last verdict refused a push for being late: the next one asks before it sends its payload.
    asks_first: bool,
}

impl Worker {
    /// A worker with an empty residual.
    #[must_use]
    pub fn new(layout: Arc<Layout>, settings: Settings) -> Self {
        Self {
            compressor: Compressor::new(
                Encoder::new(layout, settings.seed).with_form(settings.form),
                settings.error_feedback,
            )
            .with_correction(settings.correction),
            rates: Rates::new(settings.rates),
            controls: starting(&settings),
            settings,
            generation: None,
            last_push: PushId(0),
            in_flight: BTreeMap::new(),
            replays: Replays::default(),
            asks_first: false,
        }
    }

    /// Handles one input; appends what is to be done to `out`.
    ///
    /// # Panics
    /// When a gradient has another length than the layout.
    pub fn handle(&mut self, input: Input<'_>, out: &mut Vec<Action>) {
        match input {
            Input::Joined { generation } => self.joined(generation, out),
            Input::Gradient {
                gradient,
                base,
                measured,
            } => self.gradient(gradient, base, measured, out),
            Input::Verdict { push, verdict } => self.settle(push, verdict, out),
            // What was encoded before goes out and is put back as it is; the residual does not depend on the codec.
            Input::Controls(controls) => self.controls = controls,
            Input::Stopped => {
                let reason = RejectReason::Stopped;
                self.put_back_where(|_| true, reason, out);
            }
        }
    }

    /// The layout of the gradients.
    #[must_use]
    pub fn layout(&self) -> &Arc<Layout> {
        self.compressor.layout()
    }

    /// Notes how long a push took to encode, in seconds: measured by whoever has a clock.
    pub fn encoded_in(&mut self, push: PushId, encode_s: f64) {
        if let Some(push) = self.in_flight.get_mut(&push) {
            push.header.measured.encode_s = encode_s;
        }
    }

    /// What gradients are compressed with now.
    #[must_use]
    pub fn controls(&self) -> Controls {
        self.controls
    }

    /// Pushes without a verdict.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The residual, flat; empty with error feedback off.
    #[must_use]
    pub fn residual(&self) -> &[f32] {
        self.compressor.residual()
    }

    /// L2 norm of the residual over all tensors.
    #[must_use]
    pub fn residual_norm(&self) -> f64 {
        self.compressor.residual_norm()
    }

    /// L2 norm of the last gradient that was encoded.
    #[must_use]
    pub fn gradient_norm(&self) -> f64 {
        self.compressor.gradient_norm()
    }

    /// Norms of what the bound on the residual took away, summed over drops.
    #[must_use]
    pub fn dropped_norm(&self) -> f64 {
        self.compressor.dropped_norm()
    }

    fn joined(&mut self, generation: Generation, out: &mut Vec<Action>) {
        if self.generation.replace(generation) != Some(generation) {
            // Another life counts its revisions anew, and says so if it is past the first.
            self.controls = starting(&self.settings);
            self.replays.clear();
        }
        self.put_back_where(
            |push| push.header.generation != generation,
            RejectReason::WrongGeneration,
            out,
        );
        // What is left was pushed in this life of the server; it knows which of them it has decided.
        out.extend(self.in_flight.values().cloned().map(Action::Send));
    }

    fn gradient(
        &mut self,
        gradient: &mut Vec<f32>,
        (generation, base): (Generation, Version),
        measured: Measured,
        out: &mut Vec<Action>,
    ) {
        let id = self.last_push.next();
        let codec = self.controls.codec;
        let codec = self
            .settings
            .warmup
            .map_or(codec, |warmup| warmup.at(base, codec));
        self.compressor.rescale(self.rates.move_to(base));
        match self.compressor.compress(gradient, codec, id.0) {
            Err(unfit) => out.push(Action::Unfit(unfit)),
            Ok(payload) => {
                let header = PushHeader {
                    push: id,
                    generation,
                    base,
                    format: payload.format,
                    entries: payload.entries.clone(),
                    payload_bytes: payload.bytes.len() as u64,
                    controls: self.controls.revision,
                    measured: Measured {
                        residual_norm: self.compressor.residual_norm(),
                        gradient_norm: self.compressor.gradient_norm(),
                        dropped: self.compressor.take_dropped(),
                        ..measured
                    },
                };
                let push = Push {
                    header,
                    payload,
                    asks_first: self.asks_first,
                };
                self.last_push = id;
                self.in_flight.insert(id, push.clone());
                out.push(Action::Send(push));
            }
        }
    }

    /// A verdict on a push that has one already changes nothing.
    fn settle(&mut self, id: PushId, verdict: Verdict, out: &mut Vec<Action>) {
        let Some(push) = self.in_flight.remove(&id) else {
            return;
        };
        let scale = self.rates.since(push.header.base);
        match verdict.decision {
            Decision::Accepted => {}
            Decision::Downweighted if self.settings.reclaim => {
                let share = (1.0 - verdict.weight) * scale;
                self.compressor.put_back(share as f32, &push.payload);
            }
            Decision::Downweighted => {}
            Decision::Rejected => self.compressor.reject(scale as f32, &push.payload),
        }
        if self.settings.replays && verdict.decision != Decision::Rejected {
            self.replays.keep(id, verdict.version, push.payload);
        } else {
            self.compressor.recycle(push.payload);
        }
        self.asks_first = matches!(verdict.reason, Some(RejectReason::Stale | RejectReason::Late));
        out.push(Action::Settled { push: id, verdict });
    }

    fn put_back_where(&mut self, lost: impl Fn(&Push) -> bool, reason: RejectReason, out: &mut Vec<Action>) {
        let ids = self
            .in_flight
            .iter()
            .filter(|(_, push)| lost(push))
            .map(|(&id, _)| id)
            .collect::<Vec<_>>();
        for id in ids {
            let version = self
                .in_flight
                .get(&id)
                .map_or(Version(0), |push| push.header.base);
            let verdict = Verdict::rejected(reason, crate::ids::Staleness(0), version);
            self.settle(id, verdict, out);
        }
    }
}

fn starting(settings: &Settings) -> Controls {
    Controls {
        revision: Revision(0),
        codec: settings.codec,
    }
}
