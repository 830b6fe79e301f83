//! The one thread that owns the state machine: takes inputs from the queue, does what it says.

use crate::incoming::Traffic;
use crate::metrics::Metrics;
use crate::outbox::Outbox;
use crate::sink::Sink;
use asgc_core::controller::report::Report;
use asgc_core::event::{Control, Operator};
use asgc_core::ids::PushId;
use asgc_core::server::{Action, Admission, Input, Refusal, Server, SessionId, Ticket};
use asgc_proto::v1::{self, server_message::Kind};
use asgc_proto::{REFUSAL_KEY, convert};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

/// Whole pushes without a verdict whose arrival is remembered for each session. A worker that keeps to the protocol
/// has fewer; of one that does not, some verdicts say nothing about its link.
const MAX_ARRIVALS: usize = 64;

/// What the owner is asked to do.
pub(crate) enum Command {
    /// Ask the state machine to let a session in.
    Join {
        session: SessionId,
        input: Input,
        outbox: Arc<Outbox>,
        reply: oneshot::Sender<JoinReply>,
    },
    /// A push, whole or its header alone: when its first byte was there, and of a whole one when its last was.
    Push {
        input: Input,
        began: Instant,
        arrived: Option<Instant>,
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
    /// When whole pushes without a verdict arrived: what the verdict takes is the server's time, not the link's.
    arrivals: BTreeMap<PushId, Instant>,
}

impl Member {
    fn arrived(&mut self, push: PushId, at: Instant) {
        self.arrivals.insert(push, at);
        if self.arrivals.len() > MAX_ARRIVALS {
            self.arrivals.pop_first();
        }
    }

    /// How long the server has had the whole of `push`, in seconds; 0 where it has not.
    fn held_s(&mut self, push: PushId) -> f64 {
        let arrived = self.arrivals.remove(&push);
        // Above 0 whatever the clock's grain: 0 has a meaning of its own.
        arrived.map_or(0.0, |at| at.elapsed().as_secs_f64().max(1e-9))
    }
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
                        arrivals: BTreeMap::new(),
                    },
                );
                self.server.handle(self.epoch.elapsed(), input, actions);
            }
            Command::Push {
                input,
                began,
                arrived,
            } => {
                if let (Input::Push { session, pushed }, Some(at)) = (&input, arrived)
                    && let Some(member) = members.get_mut(session)
                {
                    member.arrived(pushed.header.push, at);
                }
                let taken = Instant::now();
                self.server.handle(self.epoch.elapsed(), input, actions);
                if arrived.is_some() {
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
                    self.metrics.answered(&answer);
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
                    if let Some(member) = members.get_mut(&session) {
                        let held_s = member.held_s(push);
                        let verdict = convert::verdict_message(push, &verdict, held_s);
                        member.outbox.urgent(Kind::Verdict(verdict));
                    }
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
