//! A simulated trainer: the state machine of a real one, its loop, and what it measures of itself.

use super::held::Held;
use super::pipe::TransferId;
use super::pool::{Panicked, Pending, Pool};
use super::steps::Steps;
use asgc_core::config::Config;
use asgc_core::downlink::Delta;
use asgc_core::ids::{Generation, PushId, Version, WorkerId};
use asgc_core::layout::Layout;
use asgc_core::local_steps::LocalSteps;
use asgc_core::parameters::{Chunk, ConcatChunks as _};
use asgc_core::push::{Controls, LinkSample, Measured, Push, Verdict};
use asgc_core::task::{BoxError, Computed, Task, Trainer};
use asgc_core::worker::{Action, Input, Pipeline, Settings, Unusable, Worker};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Gradients in a row that may be unfit: as many as a real worker bears.
const MAX_UNFIT: u32 = 100;

/// What a gradient came to.
pub(super) enum Step {
    /// To be sent.
    Push(Box<Push>),
    /// A value is not finite: nothing is sent, and the next batch may be better.
    Unfit,
    /// Too many of those in a row: it leaves, for this reason.
    Diverged(String),
}

/// What computes.
struct Computer {
    trainer: Box<dyn Trainer>,
    local: LocalSteps,
}

/// A computation that goes on somewhere: the trainer and its buffer come back with the result.
struct Computing {
    computer: Computer,
    gradient: Vec<f32>,
    computed: Result<Computed, BoxError>,
}

/// Something that is to be sent, and when it was handed in.
#[derive(Debug)]
pub(super) enum Outgoing {
    Push(Box<Push>, Duration),
    Pull(Duration),
}

/// A push that is being sent.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) push: Box<Push>,
    /// Since when the injected delay runs.
    from: Duration,
    /// When its first byte was ready to go.
    began: Duration,
    /// What is on the link at the moment.
    pub(super) transfer: Option<TransferId>,
}

pub(super) struct TrainerSite {
    pub(super) id: WorkerId,
    worker: Worker,
    steps: Steps,
    throttle: Throttle,
    computer: Option<Computer>,
    gradient: Vec<f32>,
    computing: Option<Pending<Computing>>,
    /// The parameters that it holds.
    held: Held,
    /// Of the gradient that is computed.
    base: Option<(Generation, Version)>,
    pub(super) pipeline: Pipeline,
    /// What is to be sent, in order, behind what is being sent.
    outgoing: VecDeque<Outgoing>,
    /// A pull's delay runs: what is behind it waits.
    pub(super) pulling: bool,
    pub(super) upload: Option<Upload>,
    /// Whole payloads without a verdict: their bytes, and the seconds that they took.
    sent: BTreeMap<PushId, (u64, f64)>,
    link: Option<LinkSample>,
    /// Since when it has waited for leave to compute.
    idle_since: Duration,
    fetch: Duration,
    compute: Duration,
    unfit: u32,
    pub(super) gone: bool,
}

/// The injected delays of a real client.
#[derive(Debug, Clone, Copy)]
struct Throttle {
    delay: Duration,
    bytes_per_s: Option<f64>,
}

impl Throttle {
    fn new(config: &Config) -> Self {
        let heterogeneity = &config.heterogeneity;
        let mbps = heterogeneity.bandwidth_mbps;
        Self {
            delay: Duration::try_from_secs_f64(heterogeneity.comm_delay_ms / 1e3).unwrap_or(Duration::MAX),
            bytes_per_s: (mbps > 0.0).then_some(mbps * 125_000.0),
        }
    }

    fn travel(&self, bytes: u64) -> Duration {
        let travel = |rate| Duration::try_from_secs_f64(bytes as f64 / rate).unwrap_or(Duration::MAX);
        self.bytes_per_s.map_or(Duration::ZERO, travel)
    }
}

impl TrainerSite {
    /// # Errors
    /// Those of the task: data that cannot be read, say.
    pub(super) fn new(
        config: &Config,
        task: &dyn Task,
        layout: &Arc<Layout>,
        id: WorkerId,
    ) -> Result<Self, BoxError> {
        let settings = Settings::new(config)?.of(id);
        Ok(Self {
            id,
            worker: Worker::new(Arc::clone(layout), settings),
            steps: Steps::new(config, id),
            throttle: Throttle::new(config),
            computer: Some(Computer {
                trainer: task.trainer(id)?,
                local: LocalSteps::new(config),
            }),
            gradient: vec![0.0; layout.parameters()],
            computing: None,
            held: Held::default(),
            base: None,
            pipeline: Pipeline::new(config.worker.pipeline_depth, config.mode()),
            outgoing: VecDeque::new(),
            pulling: false,
            upload: None,
            sent: BTreeMap::new(),
            link: None,
            idle_since: Duration::ZERO,
            fetch: Duration::ZERO,
            compute: Duration::ZERO,
            unfit: 0,
            gone: false,
        })
    }

    /// A connection is there; `initial` is version 0, where it can be drawn.
    pub(super) fn joined(&mut self, generation: Generation, initial: Option<Vec<Chunk>>) {
        self.held = Held::drawn(generation, initial);
        self.worker.handle(Input::Joined { generation }, &mut Vec::new());
    }

    /// Wants parameters behind all that it handed in.
    pub(super) fn wish(&mut self, now: Duration) {
        if !self.pipeline.is_deep() {
            self.idle_since = now;
        }
        if self.pipeline.wish(self.pipeline.handed()) {
            self.outgoing.push_back(Outgoing::Pull(now));
        }
    }

    /// Takes the answer to a pull: new parameters, or that those it has are current.
    pub(super) fn take(&mut self, now: Duration, fresh: Option<((Generation, Version), Vec<Chunk>)>) {
        if let Some((at, chunks)) = fresh {
            self.held.take(at, chunks);
            self.worker.pulled(at.1);
        }
        if self.pipeline.answered() {
            self.outgoing.push_back(Outgoing::Pull(now));
        }
    }

    /// The version that it holds.
    pub(super) fn known(&self) -> Option<(Generation, Version)> {
        self.held.at()
    }

    /// Takes a delta as the answer to a pull; false when it names a push that is forgotten: all parameters are wanted.
    ///
    /// # Errors
    /// When it does not fit the model.
    pub(super) fn advance(&mut self, now: Duration, delta: Delta) -> Result<bool, BoxError> {
        let at = (delta.generation, delta.version);
        let changes = delta.records.into_iter().map(|record| self.worker.change(record));
        match changes.collect::<Result<Vec<_>, _>>() {
            Ok(changes) => self.held.advance(at, &changes),
            Err(Unusable::Forgotten(_)) => {
                self.held = Held::default();
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
        self.worker.pulled(at.1);
        self.take(now, None);
        Ok(true)
    }

    /// Begins a gradient, if it may; it is done after so long.
    pub(super) fn compute(&mut self, now: Duration, pool: &Pool) -> Option<Duration> {
        if self.gone || !self.pipeline.may_begin() {
            return None;
        }
        let (mut computer, base) = (self.computer.take()?, self.held.at()?);
        let mut gradient = std::mem::take(&mut self.gradient);
        let chunks = self.held.chunks();
        self.computing = Some(pool.run(move || {
            let computed = compute(&mut computer, (chunks.as_slice(), base.1), &mut gradient);
            Computing {
                computer,
                gradient,
                computed,
            }
        }));
        self.base = Some(base);
        self.fetch = now.saturating_sub(self.idle_since);
        self.compute = self.steps.next();
        Some(self.compute)
    }

    /// The gradient is done.
    ///
    /// # Errors
    /// Those of the task.
    pub(super) fn computed(&mut self, now: Duration) -> Result<Step, BoxError> {
        let computing = self.computing.take().ok_or("a trainer is done with nothing")?;
        let Computing {
            computer,
            mut gradient,
            computed,
        } = computing.get().map_err(|panicked: Panicked| Box::new(panicked))?;
        let computed = computed?;
        self.computer = Some(computer);
        self.idle_since = now;
        let step = self.encode(&mut gradient, computed);
        self.gradient = gradient;
        step
    }

    fn encode(&mut self, gradient: &mut Vec<f32>, computed: Computed) -> Result<Step, BoxError> {
        let base = self.base.ok_or("a trainer computed without parameters")?;
        let measured = Measured {
            fetch_s: self.fetch.as_secs_f64(),
            compute_s: self.compute.as_secs_f64(),
            loss: computed.loss,
            samples: computed.samples,
            link: self.link,
            pipeline_depth: self.pipeline.depth(),
            ..Measured::default()
        };
        let mut actions = Vec::new();
        let input = Input::Gradient {
            gradient,
            base,
            measured,
        };
        self.worker.handle(input, &mut actions);
        match actions.pop() {
            Some(Action::Send(push)) => {
                // Each sample is told once.
                (self.link, self.unfit) = (None, 0);
                Ok(Step::Push(Box::new(push)))
            }
            Some(Action::Unfit(unfit)) => {
                self.unfit += 1;
                Ok(match self.unfit < MAX_UNFIT {
                    true => Step::Unfit,
                    false => Step::Diverged(format!(
                        "{MAX_UNFIT} gradients in a row were unfit ({unfit}): the model has diverged; lower workload.lr"
                    )),
                })
            }
            Some(Action::Settled { .. }) | None => Err("the worker made no push of a gradient".into()),
        }
    }

    /// A push is handed in.
    pub(super) fn hand_in(&mut self, push: Box<Push>, now: Duration) {
        self.pipeline.hand_in();
        self.outgoing.push_back(Outgoing::Push(push, now));
    }

    /// What is to be sent next, where nothing is being sent.
    pub(super) fn next_outgoing(&mut self) -> Option<Outgoing> {
        let busy = self.upload.is_some() || self.pulling;
        if busy { None } else { self.outgoing.pop_front() }
    }

    /// When a pull that was wanted at `from` leaves.
    pub(super) fn leaves(&self, from: Duration) -> Duration {
        from.saturating_add(self.throttle.delay)
    }

    /// The payload's turn has come; its first byte leaves after so long. Delays run while another push is sent, what a
    /// payload takes at the injected rate does not.
    pub(super) fn ready(&mut self, now: Duration) -> Duration {
        let throttle = self.throttle;
        let Some(upload) = &mut self.upload else {
            return Duration::ZERO;
        };
        upload.began = (upload.from.saturating_add(throttle.delay)).max(now);
        upload.began - now + throttle.travel(upload.push.header.payload_bytes)
    }

    /// The server lets the payload of `push` come: true where that is waited for.
    pub(super) fn proceeds(&mut self, push: PushId, now: Duration) -> bool {
        let mine = self
            .upload
            .as_mut()
            .filter(|upload| upload.push.header.push == push);
        match mine {
            Some(upload) => {
                upload.from = now;
                true
            }
            None => false,
        }
    }

    pub(super) fn begin(&mut self, push: Box<Push>, from: Duration) {
        self.upload = Some(Upload {
            push,
            from,
            began: Duration::ZERO,
            transfer: None,
        });
    }

    /// The push that is being sent, if it is `push`.
    pub(super) fn uploading(&self, push: PushId) -> Option<&Upload> {
        self.upload
            .as_ref()
            .filter(|upload| upload.push.header.push == push)
    }

    /// The last byte of the payload has left.
    pub(super) fn uploaded(&mut self, now: Duration) {
        if let Some(upload) = self.upload.take() {
            let header = &upload.push.header;
            let took_s = now.saturating_sub(upload.began).as_secs_f64();
            self.sent.insert(header.push, (header.payload_bytes, took_s));
        }
    }

    /// A verdict came. True when it ends an upload that is still under way.
    pub(super) fn settle(&mut self, push: PushId, verdict: Verdict, rtt: Duration) -> bool {
        self.worker
            .handle(Input::Verdict { push, verdict }, &mut Vec::new());
        self.pipeline.settle(1);
        if let Some((upload_bytes, upload_s)) = self.sent.remove(&push) {
            self.link = Some(LinkSample {
                rtt_s: (rtt + self.throttle.delay).as_secs_f64(),
                upload_bytes,
                upload_s,
            });
        }
        self.uploading(push).is_some()
    }

    pub(super) fn adapt(&mut self, controls: Controls) {
        self.worker.handle(Input::Controls(controls), &mut Vec::new());
    }

    /// There will be no more verdicts.
    pub(super) fn stop(&mut self) {
        self.worker.handle(Input::Stopped, &mut Vec::new());
        self.outgoing.clear();
        (self.computing, self.gone) = (None, true);
    }
}

fn compute(
    computer: &mut Computer,
    (chunks, base): (&[Chunk], Version),
    gradient: &mut [f32],
) -> Result<Computed, BoxError> {
    let Computer { trainer, local } = computer;
    match chunks {
        [whole] => local.begin(trainer.as_mut(), whole, base)?,
        pieces => local.begin(trainer.as_mut(), &pieces.concat_chunks(), base)?,
    }
    trainer.next_batch()?;
    local.finish(trainer.as_mut(), gradient)
}
