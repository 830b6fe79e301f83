//! Server, trainers and evaluator in one process, on virtual time.

mod evaluator;
mod trainers;
mod uploads;

use super::agenda::Agenda;
use super::held::Held;
use super::network::{Cargo, Network, PipeEnd, Place, Way};
use super::pool::Pool;
use super::trainer::TrainerSite;
use super::{Error, Observer};
use asgc_core::config::{Config, Role};
use asgc_core::downlink::Delta;
use asgc_core::event::Event;
use asgc_core::ids::{Generation, Incarnation, PushId, Version, WorkerId};
use asgc_core::layout::Layout;
use asgc_core::parameters::{Chunk, Parameters, from_bf16, to_bf16};
use asgc_core::push::{Controls, Verdict};
use asgc_core::server::{Action, Answer, FrameBytes, Input, Joining, Pull, Server, SessionId};
use asgc_core::task::Task;
use evaluator::EvaluatorSite;
use std::sync::Arc;
use std::time::Duration;

/// How often the server looks at the clock where nothing else happens, as the daemon does.
const TICK: Duration = Duration::from_millis(100);

/// The server's only life.
const GENERATION: Generation = Generation(1);

/// Something that happens at a moment of virtual time.
pub(super) enum Happening {
    /// A message reaches the server.
    Arrive(Input),
    /// The server takes it up.
    Serve(Input),
    /// A message reaches a worker.
    Hear(Place, Message),
    /// A trainer's delay before a pull is over.
    Ask(Place),
    /// A trainer's gradient is done, or the evaluator's measurement.
    Computed(Place),
    /// A trainer's delay before a payload is over.
    Upload(Place, PushId),
    /// A payload's first chunk has left.
    Rest(Place, PushId),
    /// A payload's last byte has left.
    Uploaded(Place, PushId),
    PipeEnd(PipeEnd),
    Tick,
}

impl From<PipeEnd> for Happening {
    fn from(end: PipeEnd) -> Self {
        Self::PipeEnd(end)
    }
}

/// What the server says.
pub(super) enum Message {
    Snapshot((Generation, Version), Vec<Chunk>),
    Delta(Box<Delta>),
    Unchanged,
    Stop(Arc<str>),
    Verdict(PushId, Verdict),
    Proceed(PushId),
    Controls(Controls),
}

pub(super) struct Cluster<'a> {
    config: Config,
    layout: Arc<Layout>,
    server: Server,
    /// When the server is done with what it has.
    server_free: Duration,
    agenda: Agenda<Happening>,
    network: Network<Happening>,
    trainers: Vec<TrainerSite>,
    evaluator: EvaluatorSite,
    pool: Pool,
    /// Workers draw version 0 themselves.
    drawn: bool,
    frames: FrameBytes,
    observer: &'a mut dyn Observer,
    draining: bool,
    finished: bool,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(
        config: Config,
        task: &dyn Task,
        pool: Pool,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, Error> {
        let layout = Arc::new(task.layout()?);
        let initial = (Arc::clone(&layout), task.initial_parameters()?);
        let workers = config.workload.num_workers;
        let site = |id| TrainerSite::new(&config, task, &layout, WorkerId(id)).map_err(Error::Task);
        let trainers = (0..workers).map(site).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            server: Server::new(config.clone(), GENERATION, 0.0, Some(initial)).in_virtual_time(),
            server_free: Duration::ZERO,
            agenda: Agenda::new(),
            network: Network::new(&config, workers),
            trainers,
            evaluator: EvaluatorSite {
                evaluator: Some(task.evaluator()?),
                measuring: None,
                held: Held::default(),
            },
            pool,
            drawn: task.recipe().is_some(),
            frames: FrameBytes::default(),
            observer,
            draining: false,
            finished: false,
            config,
            layout,
        })
    }

    /// Runs until the run is over and drained.
    pub(super) fn run(mut self) -> Result<(), Error> {
        for place in 0..=self.trainers.len() {
            let joining = self.joining(place);
            let session = session(place);
            self.serve(Input::Join { session, joining })?;
        }
        self.agenda.after(TICK, Happening::Tick);
        // There is always a tick to come.
        while !self.finished
            && let Some(happening) = self.agenda.next()
        {
            self.happen(happening)?;
            if self.observer.asked_to_stop() && !self.draining {
                self.drain("asked to stop")?;
            }
        }
        Ok(())
    }

    fn joining(&self, place: Place) -> Box<Joining> {
        let trainer = self.trainers.get(place);
        Box::new(Joining {
            // The server has its parameters from the start.
            recipe: None,
            role: trainer.map_or(Role::Evaluator, |_| Role::Trainer),
            wanted: trainer.map(|trainer| trainer.id),
            incarnation: Incarnation(place as u64),
            layout: Layout::clone(&self.layout),
            name: trainer.map_or("evaluator".into(), |trainer| format!("worker-{}", trainer.id.0)),
        })
    }

    fn happen(&mut self, happening: Happening) -> Result<(), Error> {
        match happening {
            Happening::Arrive(input) => self.arrive(input),
            Happening::Serve(input) => self.serve(input)?,
            Happening::Hear(place, message) => self.hear(place, message)?,
            Happening::Ask(place) => self.pull_leaves(place),
            Happening::Computed(place) if place == self.trainers.len() => self.measured()?,
            Happening::Computed(place) => self.computed(place)?,
            Happening::Upload(place, push) => self.upload(place, push),
            Happening::Rest(place, push) => self.rest(place, push),
            Happening::Uploaded(place, push) => self.uploaded(place, push),
            Happening::PipeEnd(end) => self.network.end(end, &mut self.agenda),
            Happening::Tick => {
                self.serve(Input::Tick { frames: self.frames })?;
                self.agenda.after(TICK, Happening::Tick);
            }
        }
        Ok(())
    }

    /// A message waits until the server has dealt with those before it. Pushes take it `simulation.server_s`.
    fn arrive(&mut self, input: Input) {
        let is_push = matches!(input, Input::Push { .. });
        let cost_s = if is_push {
            self.config.simulation.server_s
        } else {
            0.0
        };
        let cost = Duration::try_from_secs_f64(cost_s).unwrap_or_default();
        self.server_free = self.server_free.max(self.agenda.now()) + cost;
        self.agenda.at(self.server_free, Happening::Serve(input));
    }

    fn serve(&mut self, input: Input) -> Result<(), Error> {
        let mut actions = Vec::new();
        self.server.handle(self.agenda.now(), input, &mut actions);
        actions.into_iter().try_for_each(|action| self.perform(action))
    }

    fn perform(&mut self, action: Action) -> Result<(), Error> {
        match action {
            Action::Emit(event) => self.emit(event)?,
            Action::Finish => self.finished = true,
            Action::Admit { session, .. } => self.admitted(place(session)),
            Action::Refuse { refusal, .. } | Action::Close { refusal, .. } => {
                return Err(Error::Refused(refusal.to_string()));
            }
            Action::AskParameters { .. } => {
                return Err(Error::Refused("parameters are there already".into()));
            }
            Action::Answer { session, answer } => self.answer(place(session), answer),
            Action::Verdict {
                session,
                push,
                verdict,
            } => self.say(session, Message::Verdict(push, verdict)),
            Action::Proceed { session, push } => self.say(session, Message::Proceed(push)),
            Action::Controls { session, controls } => self.say(session, Message::Controls(controls)),
            // No operator is here to ask.
            Action::ControlsSet { .. } => {}
        }
        Ok(())
    }

    fn emit(&mut self, event: Event) -> Result<(), Error> {
        self.observer.event(event).map_err(Error::Log)
    }

    fn say(&mut self, session: SessionId, message: Message) {
        let place = place(session);
        let happening = Happening::Hear(place, message);
        self.network.send((place, Way::Down), happening, &mut self.agenda);
    }

    fn admitted(&mut self, place: Place) {
        let initial = self.server.parameters().filter(|_| self.drawn);
        let initial = initial.map(Parameters::snapshot);
        match self.trainers.get_mut(place) {
            Some(trainer) => trainer.joined(GENERATION, initial),
            None => self.evaluator.held = Held::drawn(GENERATION, initial),
        }
        self.pull(place);
    }

    fn ask(&mut self, place: Place) {
        let known = match self.trainers.get(place) {
            Some(trainer) => trainer.known(),
            None => self.evaluator.held.at(),
        };
        let input = Input::Pull {
            session: session(place),
            pull: Pull { known },
        };
        self.network
            .send((place, Way::Up), Happening::Arrive(input), &mut self.agenda);
    }

    fn answer(&mut self, place: Place, answer: Answer) {
        let (bytes, message) = match answer {
            Answer::Unchanged { .. } => return self.say(session(place), Message::Unchanged),
            Answer::Stop { reason } => return self.say(session(place), Message::Stop(reason)),
            Answer::Snapshot {
                generation,
                version,
                chunks,
                rounded,
            } => {
                let at = (generation, version);
                let dense = self.layout.dense_bytes();
                match rounded {
                    true => (
                        dense / 2,
                        Message::Snapshot(at, chunks.iter().map(rounded_chunk).collect()),
                    ),
                    false => (dense, Message::Snapshot(at, chunks)),
                }
            }
            Answer::Delta(delta) => {
                let delta = delta.shortest();
                (delta.payload_bytes(), Message::Delta(Box::new(delta)))
            }
        };
        self.frames.downlink += bytes;
        let cargo = Cargo {
            bytes,
            sent: None,
            arrived: Happening::Hear(place, message),
        };
        self.network.carry((place, Way::Down), cargo, &mut self.agenda);
    }

    fn hear(&mut self, place: Place, message: Message) -> Result<(), Error> {
        if place == self.trainers.len() {
            return self.evaluator_hears(message);
        }
        let (now, rtt) = (self.agenda.now(), self.network.round_trip(place));
        let trainer = &mut self.trainers[place];
        // What was on its way when it left.
        if trainer.gone {
            return Ok(());
        }
        match message {
            Message::Snapshot(at, chunks) => {
                trainer.take(now, Some((at, chunks)));
                self.send(place);
            }
            Message::Delta(delta) => {
                if trainer.advance(now, *delta)? {
                    self.send(place);
                } else {
                    self.ask(place);
                }
            }
            Message::Unchanged => {
                trainer.take(now, None);
                self.send(place);
            }
            Message::Stop(reason) => self.leave(place, &reason)?,
            Message::Controls(controls) => trainer.adapt(controls),
            Message::Proceed(push) => {
                if trainer.proceeds(push, now) {
                    let wait = trainer.ready(now);
                    self.agenda.after(wait, Happening::Upload(place, push));
                }
            }
            Message::Verdict(push, verdict) => {
                if trainer.settle(push, verdict, rtt) {
                    self.abort(place);
                }
            }
        }
        self.compute(place);
        Ok(())
    }

    fn leave(&mut self, place: Place, reason: &str) -> Result<(), Error> {
        if let Some(trainer) = self.trainers.get_mut(place) {
            trainer.stop();
            let transfer = trainer.upload.take().and_then(|upload| upload.transfer);
            transfer
                .into_iter()
                .for_each(|transfer| self.network.cancel(transfer, &mut self.agenda));
        }
        self.serve(Input::Leave {
            session: session(place),
            reason: reason.to_owned(),
            frames: FrameBytes::default(),
        })?;
        // Real trainers could be started again; here nobody is left to do that. A run that is over already stays so.
        if !self.draining && self.trainers.iter().all(|trainer| trainer.gone) {
            self.drain(&format!("no trainer is left: {reason}"))?;
        }
        Ok(())
    }

    fn drain(&mut self, reason: &str) -> Result<(), Error> {
        self.draining = true;
        let reason = reason.to_owned();
        self.serve(Input::Drain { reason })
    }
}

/// As it is after a trip as bfloat16.
fn rounded_chunk(chunk: &Chunk) -> Chunk {
    let mut values = Vec::with_capacity(chunk.len());
    from_bf16(&to_bf16(chunk), &mut values);
    values.into()
}

fn session(place: Place) -> SessionId {
    SessionId(place as u64)
}

fn place(session: SessionId) -> Place {
    session.0 as Place
}
