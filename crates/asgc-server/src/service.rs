//! The gRPC methods.

use crate::inbound::{End, Inbound};
use crate::incoming::Connection;
use crate::metrics::Metrics;
use crate::outbox::Outbox;
use crate::owner::Command;
use asgc_core::layout::Layout;
use asgc_core::server::{FrameBytes, Input, SessionId};
use asgc_proto::convert;
use asgc_proto::framing::Read;
use asgc_proto::v1::parameter_server_server::ParameterServer;
use asgc_proto::v1::{self, worker_message::Kind};
use bytes::Bytes;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

/// What the service needs of the server.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) settings_json: String,
    pub(crate) chunk_bytes: usize,
    pub(crate) max_sessions: usize,
    /// How long a session may exist without its stream, or a stream without its first message.
    pub(crate) patience: Duration,
    pub(crate) queue: mpsc::Sender<Command>,
    pub(crate) metrics: Arc<Metrics>,
    /// Sessions that joined and have not opened their stream yet, by the token that they were given.
    pub(crate) pending: Mutex<HashMap<u64, Pending>>,
    pub(crate) sessions: AtomicU64,
    pub(crate) open: AtomicU64,
}

/// A session between `Join` and `Train`.
pub(crate) struct Pending {
    session: SessionId,
    layout: Arc<Layout>,
    outbox: Arc<Outbox>,
}

type ServerStream = Pin<Box<dyn Stream<Item = Result<v1::ServerMessage, Status>> + Send>>;

#[tonic::async_trait]
impl ParameterServer for Service {
    type TrainStream = ServerStream;

    async fn settings(
        &self,
        request: Request<v1::SettingsRequest>,
    ) -> Result<Response<v1::SettingsResponse>, Status> {
        convert::check_protocol(request.get_ref().protocol).map_err(|error| unsupported(&error))?;
        Ok(Response::new(v1::SettingsResponse {
            config_json: self.shared.settings_json.clone(),
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
        }))
    }

    async fn join(&self, request: Request<v1::JoinRequest>) -> Result<Response<v1::JoinResponse>, Status> {
        let shared = &self.shared;
        let joining = convert::joining(request.into_inner()).map_err(|error| unsupported(&error))?;
        let session = shared.admit_one()?;
        let outbox = Arc::new(Outbox::new(shared.chunk_bytes));
        let layout = Arc::new(joining.layout.clone());
        let (reply, admitted) = oneshot::channel();
        let input = Input::Join {
            session,
            joining: Box::new(joining),
        };
        let command = Command::Join {
            session,
            input,
            outbox: Arc::clone(&outbox),
            reply,
        };
        let admitted = match shared.queue.send(command).await {
            Ok(()) => admitted.await.map_err(|_| going_away()),
            Err(_) => Err(going_away()),
        };
        let admission = match admitted.map(|admitted| admitted.map_err(|status| *status)) {
            Ok(Ok(admission)) => admission,
            Ok(Err(status)) | Err(status) => {
                shared.open.fetch_sub(1, Ordering::Relaxed);
                return Err(status);
            }
        };
        let token = shared.expect_stream(Pending {
            session,
            layout,
            outbox,
        });
        Ok(Response::new(v1::JoinResponse {
            session: token,
            worker_id: admission.worker.map(|worker| worker.0),
            generation: admission.generation.0,
            needs_parameters: admission.needs_parameters,
            chunk_bytes: shared.chunk_bytes as u32,
            initial_sha256: admission
                .initial
                .map(|digest| Bytes::copy_from_slice(&digest.0))
                .unwrap_or_default(),
        }))
    }

    async fn train(
        &self,
        _: Request<Streaming<v1::WorkerMessage>>,
    ) -> Result<Response<ServerStream>, Status> {
        // `train.rs` takes these requests before tonic would.
        Err(Status::internal("Train is not served here"))
    }
}

impl Service {
    /// Opens the stream of a session: reads its hello, and serves it from then on. The outbox is the answer.
    pub(crate) async fn open(
        &self,
        mut messages: Read<v1::WorkerMessage>,
        connection: Option<Connection>,
    ) -> Result<Arc<Outbox>, Status> {
        let first = tokio::time::timeout(self.shared.patience, messages.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no hello came"))??;
        let Some(v1::WorkerMessage {
            kind: Some(Kind::Hello(hello)),
        }) = first
        else {
            return Err(Status::invalid_argument("the first message must be hello"));
        };
        let pending = self.shared.take_pending(hello.session);
        let pending = pending.ok_or_else(|| {
            Status::unavailable("no such session: join first, and open one stream for each join")
        })?;
        let outbox = Arc::clone(&pending.outbox);
        let shared = Arc::clone(&self.shared);
        tokio::spawn(shared.serve(pending, messages, connection));
        Ok(outbox)
    }
}

impl Shared {
    /// A place for one more session.
    fn admit_one(&self) -> Result<SessionId, Status> {
        let taken = self.open.fetch_add(1, Ordering::Relaxed);
        if taken >= self.max_sessions as u64 {
            self.open.fetch_sub(1, Ordering::Relaxed);
            let why = format!(
                "the server has its server.max_sessions = {} sessions",
                self.max_sessions
            );
            return Err(Status::resource_exhausted(why));
        }
        Ok(SessionId(self.sessions.fetch_add(1, Ordering::Relaxed)))
    }

    /// Keeps a session for the stream that is to come; returns its token.
    fn expect_stream(self: &Arc<Self>, pending: Pending) -> u64 {
        let token = rand::random();
        self.pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(token, pending);
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(shared.patience).await;
            if let Some(pending) = shared.take_pending(token) {
                shared
                    .end(
                        pending.session,
                        "joined, but opened no stream".into(),
                        FrameBytes::default(),
                    )
                    .await;
            }
        });
        token
    }

    fn take_pending(&self, token: u64) -> Option<Pending> {
        self.pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&token)
    }

    /// Reads a session's messages until it ends.
    async fn serve(
        self: Arc<Self>,
        pending: Pending,
        mut messages: Read<v1::WorkerMessage>,
        connection: Option<Connection>,
    ) {
        let Pending {
            session,
            layout,
            outbox,
        } = pending;
        let lines = (self.queue.clone(), Arc::clone(&self.metrics), Arc::clone(&outbox));
        let mut inbound = Inbound::new(session, layout, self.chunk_bytes, lines);
        let reason = loop {
            let message = tokio::select! {
                message = messages.message() => message,
                () = outbox.closed() => break "ended by the server".to_owned(),
            };
            let end = match message {
                Ok(Some(v1::WorkerMessage { kind: Some(kind) })) => inbound.take(kind).await.err(),
                // A kind that this version does not know.
                Ok(Some(v1::WorkerMessage { kind: None })) => None,
                Ok(None) => Some(End::Left("closed its stream".into())),
                Err(status) => Some(self.broken(status)),
            };
            match end {
                None => {}
                Some(End::Left(reason)) => {
                    outbox.close(None);
                    break reason;
                }
                Some(End::Malformed(status)) => {
                    self.metrics.malformed.inc();
                    let peer = connection.as_ref().and_then(|connection| connection.peer);
                    tracing::warn!(?peer, error = status.message(), "a worker broke the protocol");
                    let reason = format!("broke the protocol: {}", status.message());
                    outbox.close(Some(*status));
                    break reason;
                }
                Some(End::Closed) => {
                    outbox.close(Some(going_away()));
                    break "the server is going away".into();
                }
            }
        };
        let frames = connection.map_or_else(FrameBytes::default, |connection| connection.traffic.read());
        self.end(session, reason, frames).await;
    }

    /// A stream that ended in an error: a lost connection, or frames that are none of ours.
    fn broken(&self, status: Status) -> End {
        match status.code() {
            tonic::Code::OutOfRange | tonic::Code::ResourceExhausted | tonic::Code::InvalidArgument => {
                End::Malformed(Box::new(status))
            }
            _ => End::Left(format!("lost: {}", status.message())),
        }
    }

    async fn end(&self, session: SessionId, reason: String, frames: FrameBytes) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        // When the owner is gone there is nobody to tell.
        let _ = self
            .queue
            .send(Command::Handle(Input::Leave {
                session,
                reason,
                frames,
            }))
            .await;
    }
}

fn unsupported(error: &convert::Malformed) -> Status {
    match error {
        convert::Malformed::Protocol { .. } => Status::failed_precondition(error.to_string()),
        convert::Malformed::Unsupported { .. } => Status::unimplemented(error.to_string()),
        convert::Malformed::Field(_) => Status::invalid_argument(error.to_string()),
    }
}

fn going_away() -> Status {
    Status::unavailable("the server is going away")
}
