//! What moves a session: one turn after the other, each of which may be dropped and loses nothing.
//!
//! All that is under way is in the session: what is to be sent (`outgoing`), what is being sent (`upload`), what is
//! coming in (`arriving`). Pushes and pulls leave in the order in which they were wanted, so that the answer to a pull
//! knows of the pushes before it. Pulls go between uploads, since one in the middle would give the upload up. Parts of a
//! snapshot and of a payload pass each other.

use super::opening::Opening;
use super::{Pulled, Session, Settled};
use crate::Error;
use crate::error::Meaning;
use crate::link::{Turn, Want};
use crate::upload::Upload;
use asgc_core::ids::{Generation, PushId, Version};
use asgc_core::push::Push;
use asgc_core::server::Pull;
use asgc_core::worker::{Action, Input, MAX_IN_FLIGHT};
use asgc_proto::convert;
use asgc_proto::v1::{self, server_message, worker_message};
use std::time::{Duration, Instant};

/// Something that is to be sent.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// A push, which was handed in then.
    Push(Box<Push>, Instant),
    /// A wish for parameters, which leaves then at the earliest.
    Pull(Instant),
}

impl Outgoing {
    pub(super) fn is_pull(&self) -> bool {
        matches!(self, Self::Pull(_))
    }
}

impl Session {
    /// One turn, over broken connections.
    pub(super) async fn step(&mut self) -> Result<(), Error> {
        if self.opening.is_some() {
            return self.come_back().await;
        }
        match self.turn().await {
            Ok(()) => Ok(()),
            Err(meaning) => self.recover(meaning).await,
        }
    }

    /// Sends all pushes that were submitted.
    pub(super) async fn flush(&mut self) -> Result<(), Error> {
        while self.is_sending() {
            self.step().await?;
        }
        Ok(())
    }

    /// Whether pushes are to be sent, or one is being sent.
    fn is_sending(&mut self) -> bool {
        // Lets go of an upload that has nothing more to send: a turn would wait for what the server says next.
        self.want();
        self.upload.is_some() || self.outgoing.iter().any(|out| !out.is_pull())
    }

    /// Waits until another push may be in flight. The server remembers only so many verdicts: with more pushes
    /// undecided, a broken connection could leave some whose fate nobody knows.
    pub(super) async fn make_room(&mut self) -> Result<(), Error> {
        while self.worker.in_flight() >= MAX_IN_FLIGHT {
            self.step().await?;
        }
        Ok(())
    }

    async fn turn(&mut self) -> Result<(), Meaning> {
        let want = self.want();
        match self.link.turn(want).await? {
            Turn::Said((at, said)) => self.hear(&said, at),
            Turn::Time => Ok(()),
            Turn::Room => {
                let message = self.message();
                message.into_iter().for_each(|kind| self.link.put(kind));
                Ok(())
            }
        }
    }

    /// What is waited for before more can be sent.
    fn want(&mut self) -> Want {
        let now = Instant::now();
        loop {
            if let Some(upload) = &mut self.upload {
                let tools = (&self.options.throttle, &mut self.meter);
                match upload.want(now, tools) {
                    Some(want) => return want,
                    None => self.upload = None,
                }
            }
            match self.outgoing.pop_front() {
                None => return Want::Nothing,
                Some(Outgoing::Push(push, from)) => self.upload = Some(Upload::new(*push, from)),
                Some(Outgoing::Pull(leaves)) => {
                    self.outgoing.push_front(Outgoing::Pull(leaves));
                    return if leaves > now {
                        Want::Time(leaves)
                    } else {
                        Want::Room
                    };
                }
            }
        }
    }

    /// The next message: there is room for it.
    fn message(&mut self) -> Option<worker_message::Kind> {
        if let Some(upload) = &mut self.upload {
            return upload.message(self.link.chunk_bytes());
        }
        if !self.outgoing.front().is_some_and(Outgoing::is_pull) {
            return None;
        }
        self.outgoing.pop_front();
        self.pull_open = true;
        let request = convert::pull_request(Pull { known: self.known });
        Some(worker_message::Kind::Pull(request))
    }

    /// Takes what the server says, whatever the caller is waiting for.
    fn hear(&mut self, said: &server_message::Kind, at: Instant) -> Result<(), Meaning> {
        match said {
            server_message::Kind::Snapshot(snapshot) => self.begin_snapshot(snapshot),
            server_message::Kind::Delta(delta) => self.begin_delta(delta),
            server_message::Kind::Chunk(chunk) => self.take_chunk(&chunk.data),
            server_message::Kind::Unchanged(at) => {
                self.answered()?;
                if self.known != Some((Generation(at.generation), Version(at.version))) {
                    return Err(protocol("unchanged, but from another version"));
                }
                self.answer = Some(Pulled::Unchanged);
                Ok(())
            }
            server_message::Kind::Stop(stop) => {
                self.answered()?;
                self.put_back();
                self.answer = Some(Pulled::Stop(stop.reason.clone()));
                Ok(())
            }
            server_message::Kind::NeedParameters(_) => {
                self.needs_parameters = true;
                Ok(())
            }
            server_message::Kind::Verdict(verdict) => {
                self.meter.verdict(PushId(verdict.push_id), verdict.held_s, at);
                self.settle(verdict)
            }
            server_message::Kind::Controls(controls) => self.adapt(controls),
            server_message::Kind::Proceed(_) | server_message::Kind::Pong(_) => {
                if let Some(upload) = &mut self.upload {
                    upload.hear((at, said), &mut self.meter);
                }
                Ok(())
            }
        }
    }

    pub(super) fn answered(&mut self) -> Result<(), Meaning> {
        match std::mem::take(&mut self.pull_open) {
            true => Ok(()),
            false => Err(protocol("an answer to nothing")),
        }
    }

    fn adapt(&mut self, controls: &v1::Controls) -> Result<(), Meaning> {
        let controls = convert::controls(controls).map_err(|error| protocol(&error.to_string()))?;
        let (revision, codec) = (controls.revision.0, controls.codec);
        tracing::info!(revision, compression = %codec, "compressing as the server says");
        // Later gradients use them; there is nothing to be done now.
        self.worker.handle(Input::Controls(controls), &mut Vec::new());
        Ok(())
    }

    fn settle(&mut self, verdict: &v1::Verdict) -> Result<(), Meaning> {
        let (push, verdict) = convert::verdict(verdict).map_err(|error| protocol(&error.to_string()))?;
        let mut actions = Vec::new();
        self.worker.handle(Input::Verdict { push, verdict }, &mut actions);
        if let Some(upload) = &mut self.upload {
            upload.settled(push);
        }
        self.note(actions);
        Ok(())
    }

    /// There will be no more verdicts: everything is put back, and nothing more is sent.
    pub(super) fn put_back(&mut self) {
        let mut actions = Vec::new();
        self.worker.handle(Input::Stopped, &mut actions);
        self.note(actions);
        self.outgoing.retain(Outgoing::is_pull);
        self.upload.iter_mut().for_each(Upload::give_up);
    }

    /// Keeps what was settled; returns what is to be sent.
    fn note(&mut self, actions: Vec<Action>) -> Vec<Push> {
        let mut sends = Vec::new();
        for action in actions {
            match action {
                Action::Send(push) => sends.push(push),
                Action::Settled { push, verdict } => {
                    let began = self.pushed_at.remove(&push);
                    let latency = began.map_or(Duration::ZERO, |began| began.elapsed());
                    self.news = true;
                    self.settled.push(Settled {
                        push,
                        verdict,
                        latency,
                    });
                }
                Action::Unfit(_) => {}
            }
        }
        sends
    }

    /// Takes note of a new link: what has no verdict is sent again, in order, and behind it a pull that was not answered.
    pub(super) fn joined(&mut self) {
        let asked = self.pull_open || self.arriving.is_some() || self.outgoing.iter().any(Outgoing::is_pull);
        self.needs_parameters = self.link.admitted.needs_parameters;
        (self.pull_open, self.arriving, self.upload) = (false, None, None);
        self.meter.lost();
        // A process keeps its identity over reconnects.
        self.joining.wanted = self.worker_id().or(self.joining.wanted);
        let generation = self.generation();
        // What was pulled in another life of the server says nothing about this one.
        self.known = self.known.filter(|&(known, _)| known == generation);
        self.draw_initial();
        let mut actions = Vec::new();
        self.worker.handle(Input::Joined { generation }, &mut actions);
        let now = Instant::now();
        let again = self.note(actions).into_iter();
        self.outgoing = again.map(|push| Outgoing::Push(Box::new(push), now)).collect();
        if asked {
            self.outgoing.push_back(Outgoing::Pull(now));
        }
    }

    /// After a broken connection: comes back, or notes that the run is over.
    pub(super) async fn recover(&mut self, meaning: Meaning) -> Result<(), Error> {
        let why = match meaning {
            Meaning::Fatal(error) => return self.ended(error),
            Meaning::Broken(why) => why,
        };
        tracing::warn!(error = %why, "lost the server; coming back");
        self.opening = Some(Opening::begin(&self.options, &self.joining));
        self.come_back().await
    }

    /// Waits until the way back is there.
    async fn come_back(&mut self) -> Result<(), Error> {
        let Some(opening) = &mut self.opening else {
            return Ok(());
        };
        let opened = opening.link().await;
        self.opening = None;
        match opened {
            Ok(link) => self.link = link,
            Err(error) => return self.ended(error),
        }
        self.reconnects += 1;
        self.joined();
        tracing::info!("back in the run");
        Ok(())
    }

    /// That the run is over is no error: the next pull says so.
    fn ended(&mut self, error: Error) -> Result<(), Error> {
        match error {
            Error::Over => {
                self.over = true;
                (self.upload, self.pull_open, self.arriving) = (None, false, None);
                self.put_back();
                Ok(())
            }
            error => Err(error),
        }
    }
}

pub(super) fn protocol(what: &str) -> Meaning {
    Meaning::Fatal(Error::Protocol(what.to_owned()))
}
