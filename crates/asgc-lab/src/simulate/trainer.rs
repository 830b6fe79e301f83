//! A simulated trainer: the state machine of a real one, its loop, and what it measures of itself.

use super::pipe::TransferId;
use super::pool::{Panicked, Pending, Pool};
use super::steps::Steps;
use asgc_core::config::Config;
use asgc_core::ids::{Generation, PushId, Version, WorkerId};
use asgc_core::layout::Layout;
use asgc_core::parameters::{Chunk, ConcatChunks as _};
use asgc_core::push::{Controls, LinkSample, Measured, Push, Verdict};
use asgc_core::task::{BoxError, Computed, Task, Trainer};
use asgc_core::worker::{Action, Input, Settings, Worker};
use std::collections::BTreeMap;
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

/// A computation that goes on somewhere: the trainer and its buffer come back with the result.
struct Computing {
    trainer: Box<dyn Trainer>,
    gradient: Vec<f32>,
    computed: Result<Computed, BoxError>,
}

/// A push that is being sent.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) push: Box<Push>,
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
    trainer: Option<Box<dyn Trainer>>,
    gradient: Vec<f32>,
    computing: Option<Pending<Computing>>,
    /// The parameters that it holds.
    pub(super) known: Option<(Generation, Version)>,
    chunks: Vec<Chunk>,
    pub(super) upload: Option<Upload>,
    /// Whole payloads without a verdict: their bytes, and the seconds that they took.
    sent: BTreeMap<PushId, (u64, f64)>,
    link: Option<LinkSample>,
    asked_at: Duration,
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
            trainer: Some(task.trainer(id)?),
            gradient: vec![0.0; layout.parameters()],
            computing: None,
            known: None,
            chunks: Vec::new(),
            upload: None,
            sent: BTreeMap::new(),
            link: None,
            asked_at: Duration::ZERO,
            fetch: Duration::ZERO,
            compute: Duration::ZERO,
            unfit: 0,
            gone: false,
        })
    }

    /// A connection is there.
    pub(super) fn joined(&mut self, generation: Generation) {
        self.worker.handle(Input::Joined { generation }, &mut Vec::new());
    }

    /// Wants parameters from now on; the pull leaves after so long.
    pub(super) fn asks(&mut self, now: Duration) -> Duration {
        self.asked_at = now;
        self.throttle.delay
    }

    /// Takes the answer to a pull: new parameters, or that those it has are current.
    pub(super) fn take(&mut self, now: Duration, fresh: Option<((Generation, Version), Vec<Chunk>)>) {
        self.fetch = now.saturating_sub(self.asked_at);
        if let Some((at, chunks)) = fresh {
            self.known = Some(at);
            self.chunks = chunks;
        }
    }

    /// Begins a gradient; it is done after so long.
    pub(super) fn compute(&mut self, pool: &Pool) -> Duration {
        let (trainer, mut gradient) = (self.trainer.take(), std::mem::take(&mut self.gradient));
        let chunks = self.chunks.clone();
        if let Some(mut trainer) = trainer {
            self.computing = Some(pool.run(move || {
                let computed = compute(trainer.as_mut(), &chunks, &mut gradient);
                Computing {
                    trainer,
                    gradient,
                    computed,
                }
            }));
        }
        self.compute = self.steps.next();
        self.compute
    }

    /// The gradient is done.
    ///
    /// # Errors
    /// Those of the task.
    pub(super) fn computed(&mut self) -> Result<Step, BoxError> {
        let computing = self.computing.take().ok_or("a trainer is done with nothing")?;
        let Computing {
            trainer,
            gradient,
            computed,
        } = computing.get().map_err(|panicked: Panicked| Box::new(panicked))?;
        let computed = computed?;
        self.trainer = Some(trainer);
        let step = self.encode(&gradient, computed);
        self.gradient = gradient;
        step
    }

    fn encode(&mut self, gradient: &[f32], computed: Computed) -> Result<Step, BoxError> {
        let base = self.known.ok_or("a trainer computed without parameters")?;
        let measured = Measured {
            fetch_s: self.fetch.as_secs_f64(),
            compute_s: self.compute.as_secs_f64(),
            loss: computed.loss,
            samples: computed.samples,
            link: self.link,
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

    /// The payload's turn has come; its first byte leaves after so long.
    pub(super) fn ready(&mut self, now: Duration) -> Duration {
        let Some(upload) = &mut self.upload else {
            return Duration::ZERO;
        };
        upload.began = now + self.throttle.delay;
        self.throttle.delay + self.throttle.travel(upload.push.header.payload_bytes)
    }

    pub(super) fn begin(&mut self, push: Box<Push>) {
        self.upload = Some(Upload {
            push,
            began: Duration::ZERO,
            transfer: None,
        });
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
        if let Some((upload_bytes, upload_s)) = self.sent.remove(&push) {
            self.link = Some(LinkSample {
                rtt_s: (rtt + self.throttle.delay).as_secs_f64(),
                upload_bytes,
                upload_s,
            });
        }
        self.upload
            .as_ref()
            .is_some_and(|upload| upload.push.header.push == push)
    }

    pub(super) fn adapt(&mut self, controls: Controls) {
        self.worker.handle(Input::Controls(controls), &mut Vec::new());
    }

    /// There will be no more verdicts.
    pub(super) fn stop(&mut self) {
        self.worker.handle(Input::Stopped, &mut Vec::new());
        self.gone = true;
    }
}

fn compute(trainer: &mut dyn Trainer, chunks: &[Chunk], gradient: &mut [f32]) -> Result<Computed, BoxError> {
    match chunks {
        [whole] => trainer.set_parameters(whole)?,
        pieces => trainer.set_parameters(&pieces.concat_chunks())?,
    }
    trainer.next_batch()?;
    trainer.gradient(gradient)
}
