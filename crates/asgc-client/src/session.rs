//! The session: what a training loop calls.

mod arriving;
mod drive;
mod opening;

use crate::link::Link;
use crate::link_meter::LinkMeter;
use crate::upload::Upload;
use crate::{Error, Throttle, upload};
use arriving::Arriving;
use asgc_core::config::Role;
use asgc_core::ids::{Generation, Incarnation, PushId, Version, WorkerId};
use asgc_core::initial::Recipe;
use asgc_core::layout::Layout;
use asgc_core::push::{Controls, LinkSample, Measured, Verdict};
use asgc_core::server::{Evaluation, Joining};
use asgc_core::worker::{Action, Input, MAX_IN_FLIGHT, Settings, Worker};
use asgc_proto::floats_to_bytes;
use asgc_proto::v1::{self, worker_message};
use drive::Outgoing;
use opening::Opening;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How to join.
#[derive(Debug, Clone)]
pub struct Options {
    /// `http://HOST:PORT`.
    pub server: String,
    /// Trainer or evaluator.
    pub role: Role,
    /// The identity to ask for; `None` takes the lowest that is free.
    pub wanted: Option<WorkerId>,
    /// Host and process, for people.
    pub name: String,
    /// How long to go on trying to reach the server.
    pub give_up_after: Duration,
    /// Injected delays.
    pub throttle: Throttle,
    /// How the model starts, and the seed that it is drawn from; `None` where that cannot be drawn.
    pub initial: Option<(Recipe, u64)>,
}

/// The answer to a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pulled {
    /// [`Session::parameters`] are new.
    Fresh,
    /// [`Session::parameters`] are current as they are.
    Unchanged,
    /// The server has no parameters yet and wants them from this worker: call [`Session::initialise`].
    NeedParameters,
    /// The run is over, for this reason.
    Stop(String),
}

/// What [`Session::next`] waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// A pull was answered.
    Pulled(Pulled),
    /// Pushes were settled: [`Session::take_settled`].
    Settled,
}

/// A push that was settled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settled {
    /// Which push.
    pub push: PushId,
    /// What became of it.
    pub verdict: Verdict,
    /// From the moment the gradient was given to the session.
    pub latency: Duration,
}

/// A worker's place in a run.
///
/// Every future of it may be dropped before it is done, but for those of [`Session::initialise`] and
/// [`Session::report`]: the next call goes on where it was.
#[derive(Debug)]
pub struct Session {
    options: Options,
    joining: Joining,
    link: Link,
    worker: Worker,
    parameters: Vec<f32>,
    known: Option<(Generation, Version)>,
    needs_parameters: bool,
    /// A pull was sent and not answered: a second one would get an answer of its own.
    pull_open: bool,
    /// An answer to a pull is coming in.
    arriving: Option<Arriving>,
    /// The answer to a pull, until the caller is told.
    answer: Option<Pulled>,
    /// Pushes were settled since the caller was told so.
    news: bool,
    /// The server takes nobody in any more.
    over: bool,
    /// What is to be sent, in order, behind what is being sent.
    outgoing: VecDeque<Outgoing>,
    upload: Option<Upload>,
    /// The way back to the server.
    opening: Option<Opening>,
    pushed_at: BTreeMap<PushId, Instant>,
    settled: Vec<Settled>,
    meter: LinkMeter,
    link_sample: Option<LinkSample>,
    reconnects: u64,
}

impl Session {
    /// Joins the run; tries to reach the server for `give_up_after`.
    pub async fn join(options: Options, layout: Layout, settings: Settings) -> Result<Self, Error> {
        let joining = Joining {
            recipe: options.initial.as_ref().map(|(recipe, _)| recipe.clone()),
            role: options.role,
            wanted: options.wanted,
            incarnation: Incarnation(rand::random()),
            layout: layout.clone(),
            name: options.name.clone(),
        };
        let link = Opening::begin(&options, &joining).link().await?;
        let settings = settings.of(WorkerId(link.admitted.worker_id.unwrap_or(0)));
        let meter = LinkMeter::new(options.throttle.delay);
        let mut session = Self {
            worker: Worker::new(Arc::new(layout), settings),
            options,
            joining,
            link,
            parameters: Vec::new(),
            known: None,
            needs_parameters: false,
            pull_open: false,
            arriving: None,
            answer: None,
            news: false,
            over: false,
            outgoing: VecDeque::new(),
            upload: None,
            opening: None,
            pushed_at: BTreeMap::new(),
            settled: Vec::new(),
            meter,
            link_sample: None,
            reconnects: 0,
        };
        session.joined();
        Ok(session)
    }

    /// The identity in the run; `None` for an evaluator.
    #[must_use]
    pub fn worker_id(&self) -> Option<WorkerId> {
        self.link.admitted.worker_id.map(WorkerId)
    }

    /// The layout of parameters and gradients.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        self.worker.layout()
    }

    /// The parameters of the last pull, flat; empty before the first.
    #[must_use]
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// The server's life that the session is part of.
    #[must_use]
    pub fn generation(&self) -> Generation {
        Generation(self.link.admitted.generation)
    }

    /// The version of [`Session::parameters`].
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.known.map(|(_, version)| version)
    }

    /// As [`Session::version`], with the life of the server that it belongs to.
    #[must_use]
    pub fn held(&self) -> Option<(Generation, Version)> {
        self.known
    }

    /// Pushes without a verdict.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.worker.in_flight()
    }

    /// The residual, flat; empty with error feedback off.
    #[must_use]
    pub fn residual(&self) -> &[f32] {
        self.worker.residual()
    }

    /// What gradients are compressed with now: the server may change it at any time.
    #[must_use]
    pub fn controls(&self) -> Controls {
        self.worker.controls()
    }

    /// L2 norm of the residual after the last gradient was encoded.
    #[must_use]
    pub fn residual_norm(&self) -> f64 {
        self.worker.residual_norm()
    }

    /// L2 norm of the last gradient that was pushed.
    #[must_use]
    pub fn gradient_norm(&self) -> f64 {
        self.worker.gradient_norm()
    }

    /// Norms of what the bound on the residual took away, summed over drops.
    #[must_use]
    pub fn dropped_norm(&self) -> f64 {
        self.worker.dropped_norm()
    }

    /// The link, as the last push found it that could be measured.
    #[must_use]
    pub fn link_sample(&self) -> Option<LinkSample> {
        self.link_sample
    }

    /// How often the connection was made anew.
    #[must_use]
    pub fn reconnects(&self) -> u64 {
        self.reconnects
    }

    /// The pushes that were settled since this was last called.
    pub fn take_settled(&mut self) -> Vec<Settled> {
        std::mem::take(&mut self.settled)
    }

    /// Waits for parameters newer than those held, as long as the consistency mode wants.
    pub async fn pull(&mut self) -> Result<Pulled, Error> {
        self.request_pull();
        loop {
            if let Happening::Pulled(pulled) = self.next().await? {
                return Ok(pulled);
            }
        }
    }

    /// Asks for parameters newer than those held, behind the pushes that were submitted; [`Session::next`] brings the
    /// answer. While a pull is open this asks for nothing more.
    pub fn request_pull(&mut self) {
        // An answer that nobody was told of is older than this wish.
        self.answer = self
            .answer
            .take()
            .filter(|answer| matches!(answer, Pulled::Stop(_)));
        let asked = self.pull_open || self.outgoing.iter().any(Outgoing::is_pull);
        if !asked {
            let leaves = Instant::now() + self.options.throttle.delay;
            self.outgoing.push_back(Outgoing::Pull(leaves));
        }
    }

    /// Sends what is to be sent, comes back after broken connections, and waits until a pull is answered or pushes are
    /// settled. With nothing under way it waits for what the server says of its own accord.
    pub async fn next(&mut self) -> Result<Happening, Error> {
        loop {
            if let Some(pulled) = self.answer.take() {
                return Ok(Happening::Pulled(pulled));
            }
            if std::mem::take(&mut self.news) {
                return Ok(Happening::Settled);
            }
            if self.over {
                return Ok(Happening::Pulled(Pulled::Stop("the run is over".into())));
            }
            if std::mem::take(&mut self.needs_parameters) {
                return Ok(Happening::Pulled(Pulled::NeedParameters));
            }
            self.step().await?;
        }
    }

    /// Sends the initial parameters that the server asked for, flat, in layout order.
    pub async fn initialise(&mut self, values: Vec<f32>) -> Result<(), Error> {
        self.flush().await?;
        self.needs_parameters = false;
        let bytes = floats_to_bytes(values);
        let size_bytes = bytes.len() as u64;
        let header = v1::InitialParameters {
            size_bytes,
            data: bytes::Bytes::new(),
        };
        let header = worker_message::Kind::InitialParameters(header);
        match upload::whole(&mut self.link, header, &bytes).await {
            Ok(()) => Ok(()),
            // The server will ask again, this worker or another.
            Err(meaning) => self.recover(meaning).await,
        }
    }

    /// Compresses a gradient of the parameters pulled last and sends it; does not wait for the verdict. The buffer is taken
    /// in exchange for another of its length, with contents that mean nothing: compute the next gradient into it.
    /// [`Error::Unfit`] leaves the session as it was: compute another gradient. A future that is dropped before it is done
    /// may have submitted the gradient.
    pub async fn push(&mut self, gradient: &mut Vec<f32>, measured: Measured) -> Result<PushId, Error> {
        let base = self
            .known
            .ok_or_else(|| Error::Protocol("a push needs a pull before it".into()))?;
        self.make_room().await?;
        let id = self.submit(gradient, base, measured)?;
        self.flush().await?;
        Ok(id)
    }

    /// Compresses a gradient of the parameters `base` ([`Session::held`] when they were taken) and puts it into the queue:
    /// it is sent while [`Session::next`] is waited for. [`Error::Unfit`] as [`Session::push`].
    ///
    /// # Errors
    /// [`Error::Protocol`] when 16 pushes ([`MAX_IN_FLIGHT`]) have no verdict: the server remembers only so many.
    pub fn submit(
        &mut self,
        gradient: &mut Vec<f32>,
        base: (Generation, Version),
        measured: Measured,
    ) -> Result<PushId, Error> {
        if self.worker.in_flight() >= MAX_IN_FLIGHT {
            return Err(Error::Protocol("too many pushes in flight".into()));
        }
        let link = self.meter.untold();
        self.link_sample = link.or(self.link_sample);
        let began = Instant::now();
        let mut actions = Vec::new();
        self.worker.handle(
            Input::Gradient {
                gradient,
                base,
                measured: Measured { link, ..measured },
            },
            &mut actions,
        );
        let mut push = match actions.pop() {
            Some(Action::Send(push)) => push,
            Some(Action::Unfit(unfit)) => return Err(unfit.into()),
            Some(Action::Settled { .. }) | None => {
                return Err(Error::Protocol("the worker made no push of a gradient".into()));
            }
        };
        self.meter.told();
        let id = push.header.push;
        push.header.measured.encode_s = began.elapsed().as_secs_f64();
        self.worker.encoded_in(id, push.header.measured.encode_s);
        self.pushed_at.insert(id, began);
        self.outgoing
            .push_back(Outgoing::Push(Box::new(push), Instant::now()));
        if self.over {
            self.put_back();
        }
        Ok(id)
    }

    /// Reports what an evaluator measured.
    pub async fn report(&mut self, evaluation: &Evaluation) -> Result<(), Error> {
        let header = v1::Evaluation {
            version: evaluation.version.0,
            accuracy: evaluation.accuracy,
            loss: evaluation.loss,
            eval_s: evaluation.eval_s,
            buffers_bytes: evaluation.buffers.len() as u64,
            data: bytes::Bytes::new(),
        };
        let header = worker_message::Kind::Evaluation(header);
        match upload::whole(&mut self.link, header, &evaluation.buffers).await {
            Ok(()) => Ok(()),
            Err(meaning) => self.recover(meaning).await,
        }
    }

    /// Ends the session. The server is told why, in words.
    pub async fn leave(self, reason: &str) {
        // A server that does not listen any more must not keep the worker from ending.
        let _ = tokio::time::timeout(Duration::from_secs(5), self.link.leave(reason)).await;
    }
}
