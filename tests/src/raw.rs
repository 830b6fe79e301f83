//! The bare protocol, for peers that misbehave.

use crate::wait::within;
use asgc_core::config::Role;
use asgc_core::ids::Incarnation;
use asgc_core::layout::Layout;
use asgc_core::server::Joining;
use asgc_proto::v1::parameter_server_client::ParameterServerClient;
use asgc_proto::v1::{self, server_message, worker_message};
use asgc_proto::{bytes_to_floats, convert, floats_to_bytes};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

pub use server_message::Kind as Said;
pub use worker_message::Kind;

/// The generated client.
pub type Client = ParameterServerClient<Channel>;

/// Connects.
pub async fn connect(url: &str) -> Client {
    let client = within("a connection", Client::connect(url.to_owned()))
        .await
        .unwrap();
    // What is too large is to be refused by the server, not here.
    client.max_encoding_message_size(usize::MAX)
}

/// A join as `asgc-client` would send it.
#[must_use]
pub fn join_request(layout: &Layout, role: Role, incarnation: u64) -> v1::JoinRequest {
    convert::join_request(&Joining {
        recipe: None,
        role,
        wanted: None,
        incarnation: Incarnation(incarnation),
        layout: layout.clone(),
        name: "raw".into(),
    })
}

/// A whole push under `identity`, in one message.
#[must_use]
pub fn push(push_id: u64, (generation, base_version): (u64, u64), values: &[f32]) -> v1::PushHeader {
    v1::PushHeader {
        push_id,
        generation,
        base_version,
        format: v1::Format::Identity.into(),
        payload_bytes: 4 * values.len() as u64,
        data: floats_to_bytes(values.to_vec()),
        ..Default::default()
    }
}

/// A chunk.
#[must_use]
pub fn chunk(data: impl Into<Bytes>) -> Kind {
    Kind::Chunk(v1::Chunk { data: data.into() })
}

/// A message.
#[must_use]
pub fn message(kind: Kind) -> v1::WorkerMessage {
    v1::WorkerMessage { kind: Some(kind) }
}

/// A snapshot that was pulled.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The server's life, and the version.
    pub at: (u64, u64),
    /// All parameters.
    pub values: Vec<f32>,
}

/// A stream of messages, after a join.
#[derive(Debug)]
pub struct Peer {
    /// What the server said to the join.
    pub admitted: v1::JoinResponse,
    outgoing: mpsc::Sender<v1::WorkerMessage>,
    incoming: Streaming<v1::ServerMessage>,
}

/// Opens a `Train` stream that begins with `first`.
pub async fn train(
    client: &mut Client,
    first: Kind,
) -> Result<(mpsc::Sender<v1::WorkerMessage>, Streaming<v1::ServerMessage>), Status> {
    let (outgoing, receiver) = mpsc::channel(4);
    outgoing.send(message(first)).await.unwrap();
    let answer = within("the stream", client.train(ReceiverStream::new(receiver))).await?;
    Ok((outgoing, answer.into_inner()))
}

impl Peer {
    /// Joins over a connection of its own, and opens the stream.
    pub async fn join(url: &str, request: v1::JoinRequest) -> Result<Self, Status> {
        let mut client = connect(url).await;
        let admitted = within("admission", client.join(request)).await?.into_inner();
        let hello = v1::Hello {
            session: admitted.session,
        };
        let (outgoing, incoming) = train(&mut client, Kind::Hello(hello)).await?;
        Ok(Self {
            admitted,
            outgoing,
            incoming,
        })
    }

    /// Joins as a trainer.
    pub async fn trainer(url: &str, layout: &Layout, incarnation: u64) -> Self {
        let request = join_request(layout, Role::Trainer, incarnation);
        Self::join(url, request).await.unwrap()
    }

    /// Joins as an evaluator.
    pub async fn evaluator(url: &str, layout: &Layout, incarnation: u64) -> Self {
        let request = join_request(layout, Role::Evaluator, incarnation);
        Self::join(url, request).await.unwrap()
    }

    /// Says something; that the server has ended the stream is no error here.
    pub async fn say(&self, kind: Kind) {
        let _ = within("room to send", self.outgoing.send(message(kind))).await;
    }

    /// Says a push with its payload in pieces of `size` bytes, the first of which goes with the header.
    pub async fn push_in_pieces(&self, mut header: v1::PushHeader, size: usize) {
        let mut rest = header.data.split_off(size.min(header.data.len()));
        self.say(Kind::Push(header)).await;
        while !rest.is_empty() {
            let piece = rest.split_to(size.min(rest.len()));
            self.say(chunk(piece)).await;
        }
    }

    /// What the server says next; `None` when it ended the stream in peace.
    pub async fn hear(&mut self) -> Result<Option<Said>, Status> {
        let heard = within("the server to say something", self.incoming.message()).await?;
        Ok(heard.map(|message| message.kind.unwrap()))
    }

    /// The next verdict; anything else said meanwhile is an error.
    pub async fn verdict(&mut self) -> v1::Verdict {
        match self.hear().await {
            Ok(Some(Said::Verdict(verdict))) => verdict,
            other => panic!("not a verdict: {other:?}"),
        }
    }

    /// The status with which the server ends the stream, whatever it says before.
    pub async fn end(&mut self) -> Status {
        loop {
            match self.hear().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the server ended the stream in peace"),
                Err(status) => return status,
            }
        }
    }

    /// Asks for parameters.
    pub async fn ask(&self, known: Option<(u64, u64)>) {
        let request = v1::PullRequest {
            known_version: known.map(|(_, version)| version),
            known_generation: known.map_or(0, |(generation, _)| generation),
        };
        self.say(Kind::Pull(request)).await;
    }

    /// Reads a snapshot.
    pub async fn snapshot(&mut self) -> Snapshot {
        let mut snapshot: Option<(Snapshot, usize)> = None;
        loop {
            let data = match (self.hear().await, &mut snapshot) {
                (Ok(Some(Said::Snapshot(head))), none @ None) => {
                    let begun = Snapshot {
                        at: (head.generation, head.version),
                        values: Vec::new(),
                    };
                    *none = Some((begun, head.size_bytes as usize / 4));
                    head.data
                }
                (Ok(Some(Said::Chunk(chunk))), Some(_)) => chunk.data,
                (other, _) => panic!("not a snapshot: {other:?}"),
            };
            if let Some((begun, entries)) = &mut snapshot {
                bytes_to_floats(&data, &mut begun.values);
                if begun.values.len() == *entries {
                    return begun.clone();
                }
            }
        }
    }

    /// Asks for parameters and reads them.
    pub async fn pull(&mut self) -> Snapshot {
        self.ask(None).await;
        self.snapshot().await
    }

    /// Sends initial parameters.
    pub async fn initialise(&self, values: &[f32]) {
        let header = v1::InitialParameters {
            size_bytes: 4 * values.len() as u64,
            data: floats_to_bytes(values.to_vec()),
        };
        self.say(Kind::InitialParameters(header)).await;
    }

    /// Leaves, and waits until the server has heard it.
    pub async fn leave(self) {
        let leave = v1::Leave {
            reason: "done".into(),
        };
        self.say(Kind::Leave(leave)).await;
        let Self {
            outgoing,
            mut incoming,
            ..
        } = self;
        drop(outgoing);
        while let Ok(Some(_)) = within("the end of the stream", incoming.message()).await {}
    }
}
