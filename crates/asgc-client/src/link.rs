//! One connection to the server, and the `Train` stream on it.

use crate::Error;
use crate::error::{Meaning, meaning};
use crate::incoming::{Incoming, Said};
use crate::retry::Retry;
use asgc_core::server::Joining;
use asgc_proto::framing::{self, Read, Side, Written};
use asgc_proto::v1::parameter_server_client::ParameterServerClient;
use asgc_proto::v1::{self, server_message, worker_message};
use asgc_proto::{PROTOCOL, convert, limits};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service as _;
use tonic::transport::{Channel, Endpoint};

/// Messages that may wait to be sent: enough to keep the socket busy, few enough to stop early.
const OUTGOING: usize = 2;

/// The path of the stream.
const TRAIN: &str = "/asgc.v1.ParameterServer/Train";

/// An open stream.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) admitted: v1::JoinResponse,
    outgoing: mpsc::Sender<v1::WorkerMessage>,
    incoming: Incoming,
    /// The last thing heard was part of a snapshot: what is to be sent has its turn before the next part.
    sends_next: bool,
}

/// What is waited for, beside what the server says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Want {
    /// Nothing.
    Nothing,
    /// A moment.
    Time(Instant),
    /// Room for a message.
    Room,
}

/// What came.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The server said something.
    Said(Said),
    /// The moment.
    Time,
    /// There is room for one message.
    Room,
}

/// The run's settings as JSON; tries for `give_up_after`.
pub async fn fetch_settings(server: &str, give_up_after: Duration) -> Result<String, Error> {
    let mut retry = Retry::new(server, give_up_after);
    loop {
        let broken = match try_settings(server).await {
            Ok(settings) => return Ok(settings),
            Err(Meaning::Fatal(error)) => return Err(error),
            Err(Meaning::Broken(why)) => why,
        };
        retry.wait(broken).await?;
    }
}

async fn try_settings(server: &str) -> Result<String, Meaning> {
    let response = calls(channel(server).await?)
        .settings(v1::SettingsRequest { protocol: PROTOCOL })
        .await
        .map_err(meaning)?;
    Ok(response.into_inner().config_json)
}

impl Link {
    /// Connects, joins and opens the stream: one try.
    pub(crate) async fn open(server: &str, joining: &Joining) -> Result<Self, Meaning> {
        let channel = channel(server).await?;
        let admitted = calls(channel.clone())
            .join(convert::join_request(joining))
            .await
            .map_err(meaning)?
            .into_inner();
        let (outgoing, receiver) = mpsc::channel(OUTGOING);
        let hello = v1::Hello {
            session: admitted.session,
        };
        // The stream's headers only come back once the server has seen the first message.
        let _ = outgoing.send(message(worker_message::Kind::Hello(hello))).await;
        let incoming = train(channel, receiver).await.map_err(meaning)?;
        Ok(Self {
            admitted,
            outgoing,
            incoming: Incoming::new(incoming),
            sends_next: false,
        })
    }

    /// Largest `data` in a message, in bytes.
    pub(crate) fn chunk_bytes(&self) -> usize {
        (self.admitted.chunk_bytes as usize).clamp(1, limits::MAX_CHUNK_BYTES)
    }

    /// Sends one message; waits while the stream is full.
    pub(crate) async fn send(&mut self, kind: worker_message::Kind) -> Result<(), Meaning> {
        if self.outgoing.send(message(kind)).await.is_ok() {
            return Ok(());
        }
        Err(self.why_closed().await)
    }

    /// Waits for what is wanted, or for what the server says. Loses nothing when dropped before it is done.
    pub(crate) async fn turn(&mut self, want: Want) -> Result<Turn, Meaning> {
        if std::mem::take(&mut self.sends_next) && want == Want::Room && self.outgoing.capacity() > 0 {
            return Ok(Turn::Room);
        }
        let until = match want {
            Want::Time(until) => Some(tokio::time::Instant::from_std(until)),
            Want::Nothing | Want::Room => None,
        };
        let moment = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // What the server has to say may make a message needless.
            biased;
            said = self.incoming.next() => {
                let said = said.map_err(meaning)?.ok_or_else(closed)?;
                self.sends_next = matches!(said.1, server_message::Kind::Snapshot(_) | server_message::Kind::Delta(_) | server_message::Kind::Chunk(_));
                return Ok(Turn::Said(said));
            }
            // Nobody else sends, so the room stays.
            permit = self.outgoing.reserve(), if want == Want::Room => if permit.is_ok() {
                return Ok(Turn::Room);
            },
            () = moment => return Ok(Turn::Time),
        }
        Err(self.why_closed().await)
    }

    /// Sends one message into the room that [`Link::turn`] found. On a stream that was closed since, it is lost; the
    /// next turn finds that out.
    pub(crate) fn put(&mut self, kind: worker_message::Kind) {
        let _ = self.outgoing.try_send(message(kind));
    }

    /// The status with which the server ended the stream.
    async fn why_closed(&mut self) -> Meaning {
        loop {
            match self.incoming.next().await {
                Ok(Some(_)) => {}
                Ok(None) => return closed(),
                Err(status) => return meaning(status),
            }
        }
    }

    /// Says goodbye and waits until the server has heard it.
    pub(crate) async fn leave(mut self, reason: &str) {
        let leave = v1::Leave {
            reason: reason.to_owned(),
        };
        if self.send(worker_message::Kind::Leave(leave)).await.is_ok() {
            drop(self.outgoing);
            while let Ok(Some(_)) = self.incoming.next().await {}
        }
    }
}

fn closed() -> Meaning {
    Meaning::Broken("the server closed the stream".into())
}

fn message(kind: worker_message::Kind) -> v1::WorkerMessage {
    v1::WorkerMessage { kind: Some(kind) }
}

fn calls(channel: Channel) -> ParameterServerClient<Channel> {
    ParameterServerClient::new(channel)
        .max_decoding_message_size(limits::MAX_MESSAGE_BYTES)
        .max_encoding_message_size(limits::MAX_MESSAGE_BYTES)
}

/// Opens the `Train` stream, past tonic's codec: data is sent and read without a copy ([`asgc_proto::framing`]).
async fn train(
    mut channel: Channel,
    messages: mpsc::Receiver<v1::WorkerMessage>,
) -> Result<Read<v1::ServerMessage>, Status> {
    let messages = ReceiverStream::new(messages).map(Ok::<_, Status>);
    let request = http::Request::post(TRAIN)
        .version(http::Version::HTTP_2)
        .header(http::header::CONTENT_TYPE, "application/grpc")
        .header(http::header::TE, "trailers")
        .body(Body::new(Written::new(Side::Client, messages)));
    let request = request.map_err(|error| Status::internal(error.to_string()))?;
    let broken = |error: tonic::transport::Error| Status::from_error(Box::new(error));
    std::future::poll_fn(|context| channel.poll_ready(context))
        .await
        .map_err(broken)?;
    let response = channel.call(request).await.map_err(broken)?;
    Ok(Read::new(framing::body_of(response)?))
}

/// One try to connect.
pub(crate) async fn channel(server: &str) -> Result<Channel, Meaning> {
    let bad = |why: tonic::transport::Error| {
        Meaning::Fatal(Error::Address {
            address: server.to_owned(),
            why: why.to_string(),
        })
    };
    let endpoint = Endpoint::from_shared(server.to_owned()).map_err(bad)?;
    let connected = configure(endpoint).connect().await;
    connected.map_err(|error| Meaning::Broken(chain(&error)))
}

fn configure(endpoint: Endpoint) -> Endpoint {
    endpoint
        .connect_timeout(Duration::from_secs(5))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(5))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true)
        .initial_stream_window_size(limits::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
        .max_frame_size(limits::FRAME_BYTES)
}

/// An error and its causes: tonic's own message is only "transport error".
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
