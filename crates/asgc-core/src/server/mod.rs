//! The server's state machine: [`Server::handle`] takes one [`Input`] and the time, and says what to do.
//!
//! | room | what it decides |
//! |---|---|
//! | [`message`] | the inputs and actions |
//! | `members` | who is there: sessions, trainers, evaluators |
//! | `admission` | who may join, under which identity |
//! | `decide` | what a push is worth; applies it |
//! | `downlink` | what a pull is answered with |
//! | `control` | when compression and the staleness bound change, and who is told |
//! | `ledger` | the verdicts given to each worker, so that a repeated push gets the one it had |
//! | `pull` | which pulls are answered, and which wait (the consistency modes) |
//! | `round` | sync mode's rounds |
//! | `stop` | when the run is over, and how it drains |
//! | `tally` | the sums of `run_end` |

mod admission;
mod control;
mod decide;
mod downlink;
mod ledger;
mod members;
pub mod message;
mod pull;
mod round;
mod stop;
mod tally;

#[cfg(test)]
mod tests;

pub use message::{
    Action, Admission, Answer, Evaluation, FrameBytes, Input, Joining, Pull, Pushed, Refusal, SessionId,
    Ticket,
};

use crate::config::{Config, Mode};
use crate::controller::Controller;
use crate::controller::report::Report;
use crate::crew::Crew;
use crate::event::{Event, RunStart};
use crate::ids::{Generation, Version};
use crate::initial::Digest;
use crate::layout::Layout;
use crate::optimizer::Sgd;
use crate::parameters::Parameters;
use crate::staleness::Policy;
use downlink::Downlink;
use members::Members;
use round::Round;
use std::sync::Arc;
use std::time::Duration;
use stop::Phase;
use tally::Tally;

/// The server: parameters, versions, members and the rules between them.
#[derive(Debug)]
pub struct Server {
    config: Config,
    mode: Mode,
    simulated: bool,
    policy: Policy,
    controller: Controller,
    optimizer: Sgd,
    generation: Generation,
    /// Unix time at `now = 0`, in seconds.
    epoch_unix_s: f64,
    /// The time of the input being handled.
    now: Duration,
    phase: Phase,
    /// When the run began: what `elapsed_s` counts from.
    began: Option<Duration>,
    layout: Option<Arc<Layout>>,
    /// The layout came with initial parameters and has the order of a file, not yet that of a model.
    order_open: bool,
    parameters: Option<Parameters>,
    /// Version 0 was drawn, and this is its digest.
    drawn: Option<Digest>,
    downlink: Downlink,
    version: Version,
    members: Members,
    round: Round,
    tally: Tally,
    frames: FrameBytes,
    next_eval: Version,
    last_eval: Option<Evaluation>,
}

impl Server {
    /// A server for a checked configuration. `epoch_unix_s` is the Unix time at `now = 0`. Without
    /// `initial` parameters those are drawn that the first trainer has a recipe for, or it is asked for them; with them, the first to join says in which
    /// order its model has the tensors.
    #[must_use]
    pub fn new(
        config: Config,
        generation: Generation,
        epoch_unix_s: f64,
        initial: Option<(Arc<Layout>, Vec<f32>)>,
    ) -> Self {
        let mut server = Self {
            mode: config.mode(),
            simulated: false,
            policy: Policy::new(&config.staleness),
            controller: Controller::new(&config),
            optimizer: Sgd::new(&config),
            generation,
            epoch_unix_s,
            now: Duration::ZERO,
            phase: Phase::Gathering,
            began: None,
            layout: None,
            order_open: initial.is_some(),
            parameters: None,
            drawn: None,
            downlink: Downlink::Snapshot,
            version: Version(0),
            members: Members::default(),
            round: Round::default(),
            tally: Tally::default(),
            frames: FrameBytes::default(),
            next_eval: Version(0),
            last_eval: None,
            config,
        };
        if let Some((layout, values)) = initial {
            server.parameters = Some(server.chunked(&values));
            server.layout = Some(layout);
        }
        server
    }

    /// Says in the log that `now` is virtual time.
    #[must_use]
    pub fn in_virtual_time(self) -> Self {
        Self {
            simulated: true,
            ..self
        }
    }

    /// Lends the server others to do the work of updates.
    #[must_use]
    pub fn with_crew(self, crew: Arc<dyn Crew>) -> Self {
        Self {
            optimizer: self.optimizer.with_crew(crew),
            ..self
        }
    }

    /// Handles one input at time `now`, which must not fall; appends what is to be done to `out`.
    pub fn handle(&mut self, now: Duration, input: Input, out: &mut Vec<Action>) {
        self.now = self.now.max(now);
        self.control_if_due(out);
        match input {
            Input::Join { session, joining } => self.join(session, joining, out),
            Input::Initialise { session, values } => self.initialise(session, &values, out),
            Input::Pull { session, pull } => self.pull(session, pull, out),
            Input::Announce {
                session,
                header,
                asks,
                received_bytes,
            } => {
                self.announce(session, &header, (asks, received_bytes), out);
            }
            Input::Push { session, pushed } => self.push(session, pushed, out),
            Input::Report { session, evaluation } => self.report(session, evaluation, out),
            Input::Leave {
                session,
                reason,
                frames,
            } => self.leave(session, &reason, frames, out),
            Input::SetControls { ticket, operator } => self.set_controls(ticket, *operator, out),
            Input::Drain { reason } => self.stop(&reason, out),
            Input::Tick { frames } => self.tick(frames, out),
        }
    }

    /// `v_s`.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The controls in force at time `now`.
    #[must_use]
    pub fn controls(&self, now: Duration) -> Report {
        let elapsed = self
            .began
            .map_or(Duration::ZERO, |began| now.saturating_sub(began));
        self.controller.report(elapsed.as_secs_f64())
    }

    /// The layout, once it is known.
    #[must_use]
    pub fn layout(&self) -> Option<&Arc<Layout>> {
        self.layout.as_ref()
    }

    /// The parameters, once they are known.
    #[must_use]
    pub fn parameters(&self) -> Option<&Parameters> {
        self.parameters.as_ref()
    }

    /// The last evaluation that was reported.
    #[must_use]
    pub fn last_evaluation(&self) -> Option<&Evaluation> {
        self.last_eval.as_ref()
    }

    fn chunked(&self, values: &[f32]) -> Parameters {
        Parameters::new(values, self.config.server.chunk_bytes / 4)
    }

    /// Takes the initial parameters from the trainer that was asked for them.
    fn initialise(&mut self, session: SessionId, values: &[f32], out: &mut Vec<Action>) {
        let Some(layout) = self.layout.clone() else { return };
        if self.parameters.is_some() || self.members.initialiser != Some(session) {
            return;
        }
        if values.len() != layout.parameters() || !values.iter().all(|value| value.is_finite()) {
            let why = format!("initial parameters must be {} finite values", layout.parameters());
            out.push(Action::Close {
                session,
                refusal: Refusal::BadParameters(why),
            });
            return;
        }
        self.parameters = Some(self.chunked(values));
        self.begin_if_ready(out);
    }

    /// The run begins once parameters are known and enough trainers are there.
    fn begin_if_ready(&mut self, out: &mut Vec<Action>) {
        let ready = self.parameters.is_some()
            && self.members.live_trainers() >= self.config.server.min_workers as usize;
        if self.phase != Phase::Gathering || !ready {
            return;
        }
        self.phase = Phase::Running;
        self.open_downlink();
        self.began = Some(self.now);
        self.log(Event::RunStart(self.run_start()), out);
        let joined = self
            .members
            .seats()
            .map(|seat| self.join_event(seat))
            .collect::<Vec<_>>();
        joined
            .into_iter()
            .for_each(|join| self.log(Event::Join(join), out));
        self.answer_waiting(out);
    }

    fn run_start(&self) -> RunStart {
        let Config {
            run,
            workload,
            heterogeneity,
            compression,
            error_feedback,
            ..
        } = &self.config;
        RunStart {
            config_name: run.name.clone(),
            num_workers: workload.num_workers,
            dataset: workload.dataset.as_str().to_owned(),
            model: workload.model.as_str().to_owned(),
            batch_size: workload.batch_size,
            compute_delay: heterogeneity.compute_delay.clone(),
            comm_delay_ms: heterogeneity.comm_delay_ms,
            bandwidth_mbps: heterogeneity.bandwidth_mbps,
            started_at: self.epoch_unix_s + self.now.as_secs_f64(),
            seed: run.seed,
            generation: self.generation,
            mode: self.mode.as_str().to_owned(),
            compression: compression
                .codec()
                .map(|codec| codec.to_string())
                .unwrap_or_default(),
            error_feedback: error_feedback.enabled,
            parameters: self
                .layout
                .as_ref()
                .map_or(0, |layout| layout.parameters() as u64),
            layout: self
                .layout
                .as_ref()
                .map_or_else(String::new, |layout| layout.fingerprint().to_string()),
            max_updates: workload.max_updates,
            target_accuracy: workload.target_accuracy,
            simulated: self.simulated,
            config: Some(Box::new(self.config.clone())),
        }
    }

    /// Logs an event of the run: `run_start` is the first, `run_end` the last.
    fn log(&mut self, event: Event, out: &mut Vec<Action>) {
        if self.began.is_some() && self.phase != Phase::Finished {
            self.controller.observe(&event);
            out.push(Action::Emit(event));
        }
    }

    /// Seconds since the run began.
    fn elapsed_s(&self) -> f64 {
        self.began
            .map_or(0.0, |began| self.now.saturating_sub(began).as_secs_f64())
    }
}
