//! A place in a run that moves ready-made payloads and nothing else: what the wire costs without encoding.

use crate::error::Meaning;
use crate::link::{Link, Turn, Want};
use crate::link_meter::LinkMeter;
use crate::upload::{self, Upload};
use crate::{Error, Throttle};
use asgc_core::codec::Payload;
use asgc_core::config::Role;
use asgc_core::ids::{Generation, Incarnation, PushId, Revision, Version};
use asgc_core::layout::Layout;
use asgc_core::push::{Measured, Push, PushHeader, Verdict};
use asgc_core::server::{Joining, Pull};
use asgc_proto::v1::{server_message, worker_message};
use asgc_proto::{bytes_to_floats, convert, floats_to_bytes, v1};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A trainer's connection, for measuring: it sends the same messages as a [`crate::Session`], by the same code, but the
/// caller makes the payloads. It neither comes back after a broken connection nor keeps a residual.
#[derive(Debug)]
pub struct Wire {
    server: String,
    link: Link,
    layout: Layout,
    known: Option<(Generation, Version)>,
    last_push: PushId,
    parameters: Vec<f32>,
    verdicts: VecDeque<Verdict>,
    meter: LinkMeter,
}

impl Wire {
    /// Joins the run as a trainer, and pulls once; a server without parameters is sent zeros.
    pub async fn join(server: &str, layout: Layout) -> Result<Self, Error> {
        let joining = Joining {
            recipe: None,
            role: Role::Trainer,
            wanted: None,
            incarnation: Incarnation(rand::random()),
            layout: layout.clone(),
            name: format!("wire-{}", std::process::id()),
        };
        let fatal = |meaning| unreachable(server, meaning);
        let mut link = Link::open(server, &joining).await.map_err(fatal)?;
        if link.admitted.needs_parameters {
            let bytes = floats_to_bytes(vec![0.0; layout.parameters()]);
            let header = v1::InitialParameters {
                size_bytes: bytes.len() as u64,
                data: bytes::Bytes::new(),
            };
            let header = worker_message::Kind::InitialParameters(header);
            upload::whole(&mut link, header, &bytes).await.map_err(fatal)?;
        }
        let mut wire = Self {
            server: server.to_owned(),
            link,
            layout,
            known: None,
            last_push: PushId(0),
            parameters: Vec::new(),
            verdicts: VecDeque::new(),
            meter: LinkMeter::new(Duration::ZERO),
        };
        wire.pull().await?;
        Ok(wire)
    }

    /// Pulls all parameters, whether they are new or not; returns their number.
    pub async fn pull(&mut self) -> Result<usize, Error> {
        let pulled = self.try_pull().await;
        pulled.map_err(|meaning| unreachable(&self.server, meaning))?;
        Ok(self.parameters.len())
    }

    /// Sends a payload as a gradient of the parameters pulled last; does not wait for the verdict.
    pub async fn push(&mut self, payload: Payload) -> Result<(), Error> {
        let (generation, base) = self
            .known
            .ok_or_else(|| Error::Protocol("a push needs a pull before it".into()))?;
        self.last_push = self.last_push.next();
        let header = PushHeader {
            push: self.last_push,
            generation,
            base,
            format: payload.format,
            entries: payload.entries.clone(),
            payload_bytes: payload.bytes.len() as u64,
            controls: Revision(0),
            measured: Measured::default(),
        };
        let push = Push {
            header,
            payload,
            asks_first: false,
        };
        let sent = self.upload(Upload::new(push, Instant::now())).await;
        sent.map_err(|meaning| unreachable(&self.server, meaning))
    }

    async fn upload(&mut self, mut upload: Upload) -> Result<(), Meaning> {
        let throttle = Throttle::default();
        while let Some(want) = upload.want(Instant::now(), (&throttle, &mut self.meter)) {
            match self.link.turn(want).await? {
                Turn::Said((at, said)) => {
                    upload.hear((at, &said), &mut self.meter);
                    self.hear(&said)?;
                    if let server_message::Kind::Verdict(verdict) = &said {
                        upload.settled(PushId(verdict.push_id));
                    }
                }
                Turn::Room => {
                    let message = upload.message(self.link.chunk_bytes());
                    message.into_iter().for_each(|kind| self.link.put(kind));
                }
                Turn::Time => {}
            }
        }
        Ok(())
    }

    /// What the server says next.
    async fn receive(&mut self) -> Result<server_message::Kind, Meaning> {
        loop {
            if let Turn::Said((_, said)) = self.link.turn(Want::Nothing).await? {
                return Ok(said);
            }
        }
    }

    /// The next verdict, in the order of pushes.
    pub async fn verdict(&mut self) -> Result<Verdict, Error> {
        loop {
            if let Some(verdict) = self.verdicts.pop_front() {
                return Ok(verdict);
            }
            let heard = match self.receive().await {
                Ok(said) => self.hear(&said),
                Err(meaning) => Err(meaning),
            };
            heard.map_err(|meaning| unreachable(&self.server, meaning))?;
        }
    }

    async fn try_pull(&mut self) -> Result<(), Meaning> {
        let request = convert::pull_request(Pull { known: None });
        self.link.send(worker_message::Kind::Pull(request)).await?;
        self.parameters.clear();
        let mut at = None;
        while at.is_none() || self.parameters.len() < self.layout.parameters() {
            match self.receive().await? {
                server_message::Kind::Snapshot(head) => {
                    if !matches!(convert::parameter_type(head.r#type), Ok(false)) {
                        return Err(protocol(
                            "this client reads snapshots of f32 only: set downlink.dtype = \"f32\"",
                        ));
                    }
                    at = Some((Generation(head.generation), Version(head.version)));
                    bytes_to_floats(&head.data, &mut self.parameters);
                }
                server_message::Kind::Chunk(chunk) => bytes_to_floats(&chunk.data, &mut self.parameters),
                said => self.hear(&said)?,
            }
        }
        if self.parameters.len() > self.layout.parameters() {
            return Err(protocol("a snapshot longer than the model"));
        }
        self.known = at;
        Ok(())
    }

    fn hear(&mut self, said: &server_message::Kind) -> Result<(), Meaning> {
        match said {
            server_message::Kind::Verdict(verdict) => {
                let (_, verdict) = convert::verdict(verdict).map_err(|error| protocol(&error.to_string()))?;
                self.verdicts.push_back(verdict);
                Ok(())
            }
            server_message::Kind::Stop(stop) => Err(protocol(&format!("the run ended: {}", stop.reason))),
            _ => Ok(()),
        }
    }
}

fn protocol(what: &str) -> Meaning {
    Meaning::Fatal(Error::Protocol(what.to_owned()))
}

/// Without coming back, a broken connection is the end.
fn unreachable(server: &str, meaning: Meaning) -> Error {
    match meaning {
        Meaning::Fatal(error) => error,
        Meaning::Broken(why) => Error::Unreachable {
            server: server.to_owned(),
            why,
        },
    }
}
