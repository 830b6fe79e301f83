//! One connection to the server, and the `Train` stream on it.

use crate::Error;
use crate::error::{Meaning, meaning};
use crate::incoming::{Incoming, Said};
use crate::retry::Retry;
use asgc_core::server::Joining;
use asgc_proto::v1::parameter_server_client::ParameterServerClient;
use asgc_proto::v1::{self, worker_message};
use asgc_proto::{PROTOCOL, convert, limits};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};

/// Messages that may wait to be sent: enough to keep the socket busy, few enough to stop early.
const OUTGOING: usize = 2;

/// An open stream.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) admitted: v1::JoinResponse,
    outgoing: mpsc::Sender<v1::WorkerMessage>,
    incoming: Incoming,
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
    let mut client = connect(server).await?;
    let response = client
        .settings(v1::SettingsRequest { protocol: PROTOCOL })
        .await
        .map_err(meaning)?;
    Ok(response.into_inner().config_json)
}

impl Link {
    /// Connects, joins and opens the stream: one try.
    pub(crate) async fn open(server: &str, joining: &Joining) -> Result<Self, Meaning> {
        let mut client = connect(server).await?;
        let admitted = client
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
        let incoming = client
            .train(ReceiverStream::new(receiver))
            .await
            .map_err(meaning)?
            .into_inner();
        Ok(Self {
            admitted,
            outgoing,
            incoming: Incoming::new(incoming),
        })
    }

    /// Largest `data` in a message, in bytes.
    pub(crate) fn chunk_bytes(&self) -> usize {
        (self.admitted.chunk_bytes as usize).clamp(1, limits::MAX_MESSAGE_BYTES / 2)
    }

    /// Sends one message; waits while the stream is full.
    pub(crate) async fn send(&mut self, kind: worker_message::Kind) -> Result<(), Meaning> {
        if self.outgoing.send(message(kind)).await.is_ok() {
            return Ok(());
        }
        Err(self.why_closed().await)
    }

    /// The next message of the server, and when it was there.
    pub(crate) async fn receive(&mut self) -> Result<Said, Meaning> {
        let said = self.incoming.next().await.map_err(meaning)?;
        said.ok_or_else(closed)
    }

    /// Sends one message unless the server says something first.
    pub(crate) async fn send_or_receive(
        &mut self,
        kind: worker_message::Kind,
    ) -> Result<Option<Said>, Meaning> {
        tokio::select! {
            // What the server has to say may make the message needless.
            biased;
            said = self.incoming.next() => return said.map_err(meaning)?.ok_or_else(closed).map(Some),
            permit = self.outgoing.reserve() => if let Ok(permit) = permit {
                permit.send(message(kind));
                return Ok(None);
            },
        }
        Err(self.why_closed().await)
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

async fn connect(server: &str) -> Result<ParameterServerClient<Channel>, Meaning> {
    Ok(ParameterServerClient::new(channel(server).await?)
        .max_decoding_message_size(limits::MAX_MESSAGE_BYTES)
        .max_encoding_message_size(limits::MAX_MESSAGE_BYTES))
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
