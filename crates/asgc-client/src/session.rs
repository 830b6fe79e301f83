//! The session: what a training loop calls.

use crate::error::Meaning;
use crate::link::Link;
use crate::link_meter::LinkMeter;
use crate::retry::Retry;
use crate::{Error, Throttle, upload};
use asgc_core::config::Role;
use asgc_core::ids::{Generation, Incarnation, PushId, Version, WorkerId};
use asgc_core::layout::Layout;
use asgc_core::push::{Controls, LinkSample, Measured, Push, Verdict};
use asgc_core::server::{Evaluation, Joining, Pull};
use asgc_core::worker::{Action, Input, MAX_IN_FLIGHT, Settings, Worker};
use asgc_proto::v1::{self, server_message, worker_message};
use asgc_proto::{bytes_to_floats, convert, floats_to_bytes};
use std::collections::BTreeMap;
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
            role: options.role,
            wanted: options.wanted,
            incarnation: Incarnation(rand::random()),
            layout: layout.clone(),
            name: options.name.clone(),
        };
        let link = open(&options, &joining).await?;
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

    /// The version of [`Session::parameters`].
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.known.map(|(_, version)| version)
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

    /// Waits for parameters newer than those held, as long as the consistency mode wants. Once the future is dropped
    /// before it is done, the session is good for [`Session::leave`] only: the answer would come later.
    pub async fn pull(&mut self) -> Result<Pulled, Error> {
        self.options.throttle.before_pull().await;
        loop {
            if self.needs_parameters {
                return Ok(Pulled::NeedParameters);
            }
            let back = match self.try_pull().await {
                Ok(pulled) => return Ok(pulled),
                Err(meaning) => self.recover(meaning).await,
            };
            match back {
                Ok(()) => {}
                Err(Error::Over) => return Ok(self.stopped("the run is over".into())),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends the initial parameters that the server asked for, flat, in layout order.
    pub async fn initialise(&mut self, values: Vec<f32>) -> Result<(), Error> {
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
            Err(meaning) => self.recover_unless_over(meaning).await,
        }
    }

    /// Compresses a gradient of the parameters pulled last and sends it; does not wait for the verdict.
    /// [`Error::Unfit`] leaves the session as it was: compute another gradient.
    pub async fn push(&mut self, gradient: &[f32], measured: Measured) -> Result<PushId, Error> {
        let base = self
            .known
            .ok_or_else(|| Error::Protocol("a push needs a pull before it".into()))?;
        self.make_room().await?;
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
        if let Err(meaning) = self.send(&push).await {
            // Coming back sends everything that has no verdict, this push included.
            self.recover_unless_over(meaning).await?;
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
            Err(meaning) => self.recover_unless_over(meaning).await,
        }
    }

    /// Ends the session. The server is told why, in words.
    pub async fn leave(self, reason: &str) {
        // A server that does not listen any more must not keep the worker from ending.
        let _ = tokio::time::timeout(Duration::from_secs(5), self.link.leave(reason)).await;
    }

    async fn try_pull(&mut self) -> Result<Pulled, Meaning> {
        if !self.pull_open {
            let request = convert::pull_request(Pull { known: self.known });
            self.link.send(worker_message::Kind::Pull(request)).await?;
            self.pull_open = true;
        }
        loop {
            let (at, said) = self.link.receive().await?;
            match said {
                server_message::Kind::Snapshot(snapshot) => {
                    self.pull_open = false;
                    self.read_snapshot(snapshot).await?;
                    return Ok(Pulled::Fresh);
                }
                server_message::Kind::Unchanged(at) => {
                    self.pull_open = false;
                    let at = (Generation(at.generation), Version(at.version));
                    if self.known != Some(at) {
                        return Err(protocol("unchanged, but from another version"));
                    }
                    return Ok(Pulled::Unchanged);
                }
                server_message::Kind::Stop(stop) => {
                    self.pull_open = false;
                    return Ok(self.stopped(stop.reason));
                }
                server_message::Kind::NeedParameters(_) => return Ok(Pulled::NeedParameters),
                server_message::Kind::Chunk(_) => return Err(protocol("a chunk of nothing")),
                said => self.hear(&said, at)?,
            }
        }
    }

    async fn read_snapshot(&mut self, snapshot: v1::Snapshot) -> Result<(), Meaning> {
        if snapshot.size_bytes != self.layout().dense_bytes() {
            return Err(protocol("a snapshot of another size than the model"));
        }
        let entries = self.layout().parameters();
        // Until it is whole, there is nothing to train on.
        self.known = None;
        self.parameters.clear();
        bytes_to_floats(&snapshot.data, &mut self.parameters);
        while self.parameters.len() < entries {
            let (at, said) = self.link.receive().await?;
            match said {
                server_message::Kind::Chunk(chunk) => bytes_to_floats(&chunk.data, &mut self.parameters),
                said => self.hear(&said, at)?,
            }
        }
        if self.parameters.len() > entries {
            return Err(protocol("a snapshot longer than it said"));
        }
        self.known = Some((Generation(snapshot.generation), Version(snapshot.version)));
        Ok(())
    }

    /// Waits until another push may be in flight. The server remembers only so many verdicts: with more pushes
    /// undecided, a broken connection could leave some whose fate nobody knows.
    async fn make_room(&mut self) -> Result<(), Error> {
        while self.worker.in_flight() >= MAX_IN_FLIGHT {
            let heard = match self.link.receive().await {
                Ok((at, said)) => self.hear(&said, at),
                Err(meaning) => Err(meaning),
            };
            match heard {
                Ok(()) => {}
                Err(meaning) => match self.recover(meaning).await {
                    Ok(()) => {}
                    // There will be no more verdicts; the next pull says so.
                    Err(Error::Over) => return Ok(()),
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(())
    }

    async fn send(&mut self, push: &Push) -> Result<(), Meaning> {
        let mut heard = Vec::new();
        let tools = (&self.options.throttle, &mut self.meter);
        let sent = upload::push(&mut self.link, push, tools, &mut heard).await;
        heard.iter().try_for_each(|(at, said)| self.hear(said, *at))?;
        sent
    }

    /// Takes what the server says on its own account, whatever the session is waiting for.
    fn hear(&mut self, said: &server_message::Kind, at: Instant) -> Result<(), Meaning> {
        match said {
            server_message::Kind::Verdict(verdict) => {
                self.meter.verdict(PushId(verdict.push_id), verdict.held_s, at);
                self.settle(verdict)
            }
            server_message::Kind::Controls(controls) => self.adapt(controls),
            // Meant for a push that was settled meanwhile, or for a ping that was waited for long enough.
            server_message::Kind::Proceed(_) | server_message::Kind::Pong(_) => Ok(()),
            _ => Err(protocol("an answer to nothing, or in the middle of a snapshot")),
        }
    }

    fn adapt(&mut self, controls: &v1::Controls) -> Result<(), Meaning> {
        let controls = convert::controls(controls).map_err(|error| protocol(&error.to_string()))?;
        let (revision, codec) = (controls.revision.0, controls.codec);
        tracing::info!(revision, compression = %codec, "compressing as the server says");
        // Later gradients use them; there is nothing to be done now.
        self.worker.handle(Input::Controls(controls), &mut Vec::new());
        Ok(())
    }

    fn settle(&mut self, verdict: &v1::Verdict) -> Result<(), Meaning> {
        let (push, verdict) = convert::verdict(verdict).map_err(|error| protocol(&error.to_string()))?;
        let mut actions = Vec::new();
        self.worker.handle(Input::Verdict { push, verdict }, &mut actions);
        self.note(actions);
        Ok(())
    }

    fn stopped(&mut self, reason: String) -> Pulled {
        let mut actions = Vec::new();
        self.worker.handle(Input::Stopped, &mut actions);
        self.note(actions);
        Pulled::Stop(reason)
    }

    /// Keeps what was settled; returns what is to be sent.
    fn note(&mut self, actions: Vec<Action>) -> Vec<Push> {
        let mut sends = Vec::new();
        for action in actions {
            match action {
                Action::Send(push) => sends.push(push),
                Action::Settled { push, verdict } => {
                    let began = self.pushed_at.remove(&push);
                    let latency = began.map_or(Duration::ZERO, |began| began.elapsed());
                    self.settled.push(Settled {
                        push,
                        verdict,
                        latency,
                    });
                }
                Action::Unfit(_) => {}
            }
        }
        sends
    }

    /// Takes note of a new link; returns the pushes to send again.
    fn joined(&mut self) -> Vec<Push> {
        self.needs_parameters = self.link.admitted.needs_parameters;
        self.pull_open = false;
        self.meter.lost();
        // A process keeps its identity over reconnects.
        self.joining.wanted = self.worker_id().or(self.joining.wanted);
        let generation = Generation(self.link.admitted.generation);
        // What was pulled in another life of the server says nothing about this one.
        self.known = self.known.filter(|&(known, _)| known == generation);
        let mut actions = Vec::new();
        self.worker.handle(Input::Joined { generation }, &mut actions);
        self.note(actions)
    }

    /// As [`Session::recover`], but that the run is over is left for the next pull to say.
    async fn recover_unless_over(&mut self, meaning: Meaning) -> Result<(), Error> {
        match self.recover(meaning).await {
            Err(Error::Over) => Ok(()),
            other => other,
        }
    }

    /// After a broken connection: comes back and sends again what has no verdict.
    async fn recover(&mut self, meaning: Meaning) -> Result<(), Error> {
        let mut why = match meaning {
            Meaning::Fatal(error) => return Err(error),
            Meaning::Broken(why) => why,
        };
        'again: loop {
            tracing::warn!(error = %why, "lost the server; coming back");
            self.link = open(&self.options, &self.joining).await?;
            self.reconnects += 1;
            for push in self.joined() {
                match self.send(&push).await {
                    Ok(()) => {}
                    Err(Meaning::Fatal(error)) => return Err(error),
                    Err(Meaning::Broken(again)) => {
                        why = again;
                        continue 'again;
                    }
                }
            }
            tracing::info!("back in the run");
            return Ok(());
        }
    }
}

async fn open(options: &Options, joining: &Joining) -> Result<Link, Error> {
    let mut retry = Retry::new(&options.server, options.give_up_after);
    loop {
        match Link::open(&options.server, joining).await {
            Ok(link) => return Ok(link),
            Err(Meaning::Fatal(error)) => return Err(error),
            Err(Meaning::Broken(why)) => retry.wait(why).await?,
        }
    }
}

fn protocol(what: &str) -> Meaning {
    Meaning::Fatal(Error::Protocol(what.to_owned()))
}
