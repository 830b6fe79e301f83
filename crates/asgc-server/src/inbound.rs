//! One session's messages, reassembled from chunks and checked, off the owner's thread.

use crate::assembly::Assembly;
use crate::metrics::Metrics;
use crate::outbox::Outbox;
use crate::owner::Command;
use asgc_core::codec::{Payload, PayloadError};
use asgc_core::ids::Version;
use asgc_core::layout::Layout;
use asgc_core::push::PushHeader;
use asgc_core::server::{Evaluation, Input, Pushed, SessionId};
use asgc_proto::v1::{self, server_message, worker_message::Kind};
use asgc_proto::{bytes_to_floats, convert};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc;
use tonic::Status;

/// Room that batch-norm statistics get beyond the size of the model itself.
const BUFFER_ROOM: u64 = 1 << 20;

/// What ends a session from the worker's side.
#[derive(Debug)]
pub(crate) enum End {
    /// It said goodbye, for this reason.
    Left(String),
    /// It broke the protocol.
    Malformed(Box<Status>),
    /// The server is going away.
    Closed,
}

impl<E: std::error::Error> From<E> for End {
    fn from(error: E) -> Self {
        Self::Malformed(Box::new(Status::invalid_argument(error.to_string())))
    }
}

/// Something that arrives in several messages.
enum Upload {
    Push { header: PushHeader, began: Instant },
    Parameters,
    Evaluation(v1::Evaluation),
}

/// A session's place in the server.
pub(crate) struct Inbound {
    pub(crate) session: SessionId,
    pub(crate) layout: Arc<Layout>,
    pub(crate) chunk_bytes: usize,
    pub(crate) queue: mpsc::Sender<Command>,
    pub(crate) metrics: Arc<Metrics>,
    outbox: Arc<Outbox>,
    upload: Option<(Upload, Assembly)>,
}

impl Inbound {
    pub(crate) fn new(
        session: SessionId,
        layout: Arc<Layout>,
        chunk_bytes: usize,
        (queue, metrics, outbox): (mpsc::Sender<Command>, Arc<Metrics>, Arc<Outbox>),
    ) -> Self {
        Self {
            session,
            layout,
            chunk_bytes,
            queue,
            metrics,
            outbox,
            upload: None,
        }
    }

    /// Takes one message.
    pub(crate) async fn take(&mut self, kind: Kind) -> Result<(), End> {
        let session = self.session;
        match kind {
            Kind::Hello(_) => Err(malformed("hello comes once, first")),
            Kind::Pull(request) => {
                self.forget_upload();
                self.queue(Input::Pull {
                    session,
                    pull: convert::pull(&request),
                })
                .await
            }
            Kind::Push(message) => self.begin_push(message).await,
            Kind::InitialParameters(header) => {
                if header.size_bytes != self.layout.dense_bytes() {
                    return Err(malformed(&format!(
                        "initial parameters of {} bytes; the layout has {}",
                        header.size_bytes,
                        self.layout.dense_bytes()
                    )));
                }
                self.begin(Upload::Parameters, header.size_bytes, header.data)
                    .await
            }
            Kind::Evaluation(mut report) => {
                let (size, limit) = (report.buffers_bytes, self.layout.dense_bytes() + BUFFER_ROOM);
                if size > limit {
                    return Err(malformed(&format!("buffers of {size} bytes, {limit} at most")));
                }
                let data = std::mem::take(&mut report.data);
                self.begin(Upload::Evaluation(report), size, data).await
            }
            Kind::Chunk(chunk) => self.append(chunk.data).await,
            Kind::Abort(_) => {
                self.forget_upload();
                Ok(())
            }
            // Answered here, past the owner's queue: it measures the link and nothing else.
            Kind::Ping(ping) => {
                self.outbox
                    .urgent(server_message::Kind::Pong(v1::Pong { id: ping.id }));
                Ok(())
            }
            Kind::Leave(leave) => {
                let reason: String = leave.reason.chars().take(200).collect();
                Err(End::Left(reason))
            }
        }
    }

    async fn begin_push(&mut self, mut message: v1::PushHeader) -> Result<(), End> {
        let began = Instant::now();
        let (asks, data) = (message.asks_first, std::mem::take(&mut message.data));
        let header = convert::push_header(message)?;
        let expected = header.payload_bytes;
        Payload::check_claim(header.format, &header.entries, expected, &self.layout)?;
        if (data.len() as u64) < expected {
            let input = Input::Announce {
                session: self.session,
                header: Box::new(header.clone()),
                asks,
                received_bytes: data.len() as u64,
            };
            self.send(Command::Push {
                input,
                began,
                arrived: None,
            })
            .await?;
        }
        self.begin(Upload::Push { header, began }, expected, data).await
    }

    /// Starts an upload; one that was not finished is forgotten.
    async fn begin(&mut self, upload: Upload, size: u64, data: Bytes) -> Result<(), End> {
        self.forget_upload();
        if data.len() > self.chunk_bytes {
            let (found, limit) = (data.len(), self.chunk_bytes);
            return Err(malformed(&format!(
                "{found} bytes of data in one message, {limit} at most"
            )));
        }
        if data.len() as u64 == size {
            // All of it came in one message: its buffer is used as it is.
            return self.complete(upload, data).await;
        }
        self.upload = Some((upload, Assembly::new(size)));
        if data.is_empty() {
            Ok(())
        } else {
            self.append(data).await
        }
    }

    async fn append(&mut self, data: Bytes) -> Result<(), End> {
        let Some((_, assembly)) = &mut self.upload else {
            return Err(malformed("a chunk of nothing"));
        };
        if data.is_empty() || data.len() > self.chunk_bytes {
            return Err(malformed(&format!(
                "a chunk of {} bytes, 1 to {}",
                data.len(),
                self.chunk_bytes
            )));
        }
        if !assembly.append(&data) {
            let (found, missing) = (data.len(), assembly.missing());
            return Err(malformed(&format!(
                "a chunk of {found} bytes, and {missing} were missing of what was announced"
            )));
        }
        if assembly.missing() > 0 {
            return Ok(());
        }
        match self.upload.take() {
            Some((upload, assembly)) => self.complete(upload, assembly.into_bytes()).await,
            None => Ok(()),
        }
    }

    /// Gives up what was not finished. What is missing of a push will not be sent any more, since the worker heard that
    /// the push was refused.
    fn forget_upload(&mut self) {
        if let Some((Upload::Push { .. }, assembly)) = self.upload.take() {
            self.metrics.saved(assembly.missing());
        }
    }

    async fn complete(&mut self, upload: Upload, bytes: Bytes) -> Result<(), End> {
        let session = self.session;
        match upload {
            Upload::Push { header, began } => {
                let arrived = Instant::now();
                let payload = self.check(&header, bytes)?;
                let decode_s = arrived.elapsed().as_secs_f64();
                let pushed = Box::new(Pushed {
                    header,
                    payload,
                    decode_s,
                });
                self.send(Command::Push {
                    input: Input::Push { session, pushed },
                    began,
                    arrived: Some(arrived),
                })
                .await
            }
            Upload::Parameters => {
                let mut values = Vec::with_capacity(bytes.len() / 4);
                bytes_to_floats(&bytes, &mut values);
                self.queue(Input::Initialise { session, values }).await
            }
            Upload::Evaluation(report) => {
                let evaluation = Evaluation {
                    version: Version(report.version),
                    accuracy: report.accuracy,
                    loss: report.loss,
                    eval_s: report.eval_s,
                    buffers: bytes,
                };
                self.queue(Input::Report { session, evaluation }).await
            }
        }
    }

    /// A payload that is sound, or `None` where the owner is to reject it for its values.
    fn check(
        &self,
        header: &PushHeader,
        bytes: Bytes,
    ) -> Result<Option<asgc_core::codec::CheckedPayload>, End> {
        let began = Instant::now();
        let payload = Payload {
            format: header.format,
            entries: header.entries.clone(),
            bytes,
        };
        let checked = match payload.check(&self.layout) {
            Ok(checked) => Some(checked),
            Err(PayloadError::NonFinite { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        self.metrics.decoded(began.elapsed());
        Ok(checked)
    }

    async fn queue(&self, input: Input) -> Result<(), End> {
        self.send(Command::Handle(input)).await
    }

    /// Waits while the owner's queue is full: that is what holds a worker back.
    async fn send(&self, command: Command) -> Result<(), End> {
        self.queue.send(command).await.map_err(|_| End::Closed)
    }
}

fn malformed(what: &str) -> End {
    End::Malformed(Box::new(Status::invalid_argument(what)))
}
