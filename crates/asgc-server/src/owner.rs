//! The one thread that owns the state machine: takes inputs from the queue, does what it says.

use crate::incoming::Traffic;
use crate::metrics::Metrics;
use crate::outbox::Outbox;
use crate::sink::Sink;
use asgc_core::controller::report::Report;
use asgc_core::event::{Control, Operator};
use asgc_core::server::{Action, Admission, Input, Refusal, Server, SessionId, Ticket};
use asgc_proto::v1::{self, server_message::Kind};
use asgc_proto::{REFUSAL_KEY, convert};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

/// What the owner is asked to do.
pub(crate) enum Command {
    /// Ask the state machine to let a session in.
    Join {
        session: SessionId,
        input: Input,
        outbox: Arc<Outbox>,
        reply: oneshot::Sender<JoinReply>,
    },
    /// A push, whole or its header alone: when its first byte was there, and when the last that came so far.
    Push {
        session: SessionId,
        input: Input,
        began: Instant,
        arrived: Instant,
    },
    /// Say what controls are in force.
    Controls { reply: oneshot::Sender<Report> },
    /// Change them.
    SetControls {
        operator: Box<Operator>,
        reply: oneshot::Sender<ControlsReply>,
    },
    /// Anything else.
    Handle(Input),
}

/// The event that was logged, or why nothing was changed.
pub(crate) type ControlsReply = Result<Box<Control>, String>;

pub(crate) type JoinReply = Result<Admission, Box<Status>>;

/// One session as the owner knows it.
struct Member {
    outbox: Arc<Outbox>,
    reply: Option<oneshot::Sender<JoinReply>>,
    /// When its last push arrived: what the verdict on it took is the server's time, not the link's.
    arrived: Option<Instant>,
}

pub(crate) struct Owner {
    pub(crate) server: Server,
    pub(crate) inbox: mpsc::Receiver<Command>,
    pub(crate) sink: Sink,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) traffic: Arc<Traffic>,
    /// What `now` counts from.
    pub(crate) epoch: Instant,
    /// `telemetry.events_on_error` is `stop`.
    pub(crate) stop_without_log: bool,
    /// Operators whose changes have not been answered.
    pub(crate) asking: HashMap<Ticket, oneshot::Sender<ControlsReply>>,
    pub(crate) tickets: u64,
}

impl Owner {
    /// Runs until the run is over and drained; gives back the state machine and the sink.
    pub(crate) fn run(mut self) -> (Server, Sink) {
        let mut members = HashMap::new();
        let mut actions = Vec::new();
        while let Some(command) = self.inbox.blocking_recv() {
            self.handle(command, &mut members, &mut actions);
            if self.perform(&mut actions, &mut members) {
                break;
            }
        }
        (self.server, self.sink)
    }

    fn handle(
        &mut self,
        command: Command,
        members: &mut HashMap<SessionId, Member>,
        actions: &mut Vec<Action>,
    ) {
        match command {
            Command::Join {
                session,
                input,
                outbox,
                reply,
            } => {
                members.insert(
                    session,
                    Member {
                        outbox,
                        reply: Some(reply),
                        arrived: None,
                    },
                );
                self.server.handle(self.epoch.elapsed(), input, actions);
            }
            Command::Push {
                session,
                input,
                began,
                arrived,
            } => {
                members
                    .entry(session)
                    .and_modify(|member| member.arrived = Some(arrived));
                let whole = matches!(input, Input::Push { .. });
                let taken = Instant::now();
                self.server.handle(self.epoch.elapsed(), input, actions);
                if whole {
                    self.metrics.applied(taken.elapsed());
                    self.metrics.decided(began.elapsed());
                }
            }
            Command::Controls { reply } => {
                // Whoever asked may have gone.
                let _ = reply.send(self.server.controls(self.epoch.elapsed()));
            }
            Command::SetControls { operator, reply } => {
                self.tickets += 1;
                let ticket = Ticket(self.tickets);
                self.asking.insert(ticket, reply);
                let input = Input::SetControls { ticket, operator };
                self.server.handle(self.epoch.elapsed(), input, actions);
            }
            Command::Handle(input) => {
                let left = match &input {
                    Input::Leave { session, .. } => Some(*session),
                    _ => None,
                };
                if matches!(input, Input::Tick { .. }) {
                    self.metrics.frames(self.traffic.read());
                    self.metrics.lost_events(self.sink.lost());
                    self.metrics.log_failed(self.sink.failed());
                    if self.stop_without_log && self.sink.failed() {
                        let reason = format!("the event log ended early: {}", self.sink.path().display());
                        self.server
                            .handle(self.epoch.elapsed(), Input::Drain { reason }, actions);
                    }
                }
                self.server.handle(self.epoch.elapsed(), input, actions);
                left.map(|session| members.remove(&session));
            }
        }
    }

    fn answer(&mut self, ticket: Ticket, outcome: ControlsReply) {
        // As above.
        let _ = self.asking.remove(&ticket).map(|reply| reply.send(outcome));
    }

    /// Does what the state machine said; true when the run has ended.
    fn perform(&mut self, actions: &mut Vec<Action>, members: &mut HashMap<SessionId, Member>) -> bool {
        let mut finished = false;
        for action in actions.drain(..) {
            match action {
                Action::Emit(event) => self.sink.emit(event),
                Action::Finish => finished = true,
                Action::Admit { session, admission } => {
                    let reply = members.get_mut(&session).and_then(|member| member.reply.take());
                    // A worker that went away meanwhile leaves no trace but its session's end.
                    let _ = reply.map(|reply| reply.send(Ok(admission)));
                }
                Action::Refuse { session, refusal } => {
                    self.metrics.refused_joins.inc();
                    tracing::warn!(%refusal, "refused a join");
                    let reply = members.remove(&session).and_then(|member| member.reply);
                    let _ = reply.map(|reply| reply.send(Err(Box::new(status(&refusal)))));
                }
                Action::Close { session, refusal } => {
                    if let Some(member) = members.get(&session) {
                        member.outbox.close(Some(status(&refusal)));
                    }
                }
                Action::Answer { session, answer } => {
                    if let Some(member) = members.get(&session) {
                        member.outbox.answer(answer);
                    }
                }
                Action::AskParameters { session } => {
                    urgent(members, session, Kind::NeedParameters(v1::NeedParameters {}));
                }
                Action::Verdict {
                    session,
                    push,
                    verdict,
                } => {
                    let arrived = members.get(&session).and_then(|member| member.arrived);
                    let held_s = arrived.map_or(0.0, |arrived| arrived.elapsed().as_secs_f64());
                    let verdict = convert::verdict_message(push, &verdict, held_s);
                    urgent(members, session, Kind::Verdict(verdict));
                }
                Action::Controls { session, controls } => {
                    urgent(
                        members,
                        session,
                        Kind::Controls(convert::controls_message(&controls)),
                    );
                }
                Action::ControlsSet { ticket, outcome } => self.answer(ticket, outcome),
                Action::Proceed { session, push } => {
                    urgent(members, session, Kind::Proceed(v1::Proceed { push_id: push.0 }));
                }
            }
        }
        finished
    }
}

fn urgent(members: &HashMap<SessionId, Member>, session: SessionId, kind: Kind) {
    if let Some(member) = members.get(&session) {
        member.outbox.urgent(kind);
    }
}

/// A refusal as a gRPC status: a code that says whether to try again, words, and a name for programs.
pub(crate) fn status(refusal: &Refusal) -> Status {
    let (code, name) = match refusal {
        Refusal::Layout(_) => (Code::FailedPrecondition, "layout"),
        Refusal::TooLarge { .. } => (Code::FailedPrecondition, "too_large"),
        Refusal::Full(_) => (Code::ResourceExhausted, "full"),
        Refusal::Over => (Code::FailedPrecondition, "over"),
        Refusal::Superseded => (Code::Aborted, "superseded"),
        Refusal::Replaced(_) => (Code::FailedPrecondition, "replaced"),
        Refusal::BadParameters(_) => (Code::InvalidArgument, "bad_parameters"),
        Refusal::WrongRole(_) => (Code::InvalidArgument, "wrong_role"),
    };
    let mut status = Status::new(code, refusal.to_string());
    status
        .metadata_mut()
        .insert(REFUSAL_KEY, MetadataValue::from_static(name));
    status
}
