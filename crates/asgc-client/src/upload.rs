//! A payload on its way: the first chunk travels with the header, the rest follow while the server does not object.
//!
//! An [`Upload`] does no IO. The session asks it what it waits for, hands it what the server says, and sends what it
//! makes, so that a future that is dropped half-way loses nothing of it.

use crate::Throttle;
use crate::error::Meaning;
use crate::link::{Link, Want};
use crate::link_meter::LinkMeter;
use asgc_core::ids::PushId;
use asgc_core::push::Push;
use asgc_proto::convert;
use asgc_proto::v1::{self, server_message, worker_message};
use bytes::Bytes;
use std::time::{Duration, Instant};

/// How long a push waits for the answer to its ping: it must not wait for a server that is silent.
const PONG_PATIENCE: Duration = Duration::from_secs(2);

/// A push that is being sent.
#[derive(Debug)]
pub(crate) struct Upload {
    push: Push,
    stage: Stage,
    /// Since when the injected delay runs.
    from: Instant,
    /// Bytes of the payload that were handed to the link.
    sent: usize,
    header_sent: bool,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// The header without data.
    Ask,
    /// The server's go-ahead, or its verdict.
    GoAhead,
    /// To see whether the link is to be measured.
    Ready,
    /// A ping.
    Ping(u64),
    /// Its answer; it left then.
    Pong(u64, Instant),
    /// To see how long what is injected takes.
    Hold,
    /// The end of it.
    Delay(Instant),
    /// Header and chunks.
    Payload,
    /// To say that the rest will not come.
    Abort,
    Done,
}

impl Upload {
    /// Of a push that was handed in at `from`.
    pub(crate) fn new(push: Push, from: Instant) -> Self {
        let stage = if push.asks_first { Stage::Ask } else { Stage::Ready };
        Self {
            push,
            stage,
            from,
            sent: 0,
            header_sent: false,
        }
    }

    /// What it waits for; `None` once there is nothing more to send.
    pub(crate) fn want(&mut self, now: Instant, tools: (&Throttle, &mut LinkMeter)) -> Option<Want> {
        let (throttle, meter) = tools;
        loop {
            self.stage = match self.stage {
                Stage::Ask | Stage::Ping(_) | Stage::Abort => return Some(Want::Room),
                Stage::GoAhead => return Some(Want::Nothing),
                Stage::Ready => match meter.ping() {
                    Some(ping) => Stage::Ping(ping),
                    None => Stage::Hold,
                },
                Stage::Pong(_, since) if now < since + PONG_PATIENCE => {
                    return Some(Want::Time(since + PONG_PATIENCE));
                }
                Stage::Pong(..) => {
                    self.from = now;
                    Stage::Hold
                }
                Stage::Hold => self.hold(now, throttle, meter),
                Stage::Delay(until) if now < until => return Some(Want::Time(until)),
                Stage::Delay(_) => Stage::Payload,
                Stage::Payload if self.header_sent && self.sent == self.push.payload.bytes.len() => {
                    meter.sent_whole(self.push.header.push);
                    Stage::Done
                }
                Stage::Payload => return Some(Want::Room),
                Stage::Done => return None,
            };
        }
    }

    /// The injected delay runs from when the push was handed in, also while another is being sent; what a payload takes
    /// at the injected rate begins when its turn has come.
    fn hold(&mut self, now: Instant, throttle: &Throttle, meter: &mut LinkMeter) -> Stage {
        let bytes = self.push.header.payload_bytes;
        let travel = throttle.travel(bytes);
        let leaves = (self.from + throttle.delay).max(now);
        let ready = leaves.checked_sub(throttle.delay).unwrap_or(leaves);
        meter.begin(self.push.header.push, bytes, (ready, travel));
        Stage::Delay(leaves + travel)
    }

    /// The next message; there is room for it. `None` where it waits for something else.
    pub(crate) fn message(&mut self, chunk_bytes: usize) -> Option<worker_message::Kind> {
        Some(match self.stage {
            Stage::Ask => {
                self.header_sent = true;
                self.stage = Stage::GoAhead;
                let header = convert::push_message(&self.push.header, true, Bytes::new());
                worker_message::Kind::Push(header)
            }
            Stage::Ping(id) => {
                self.stage = Stage::Pong(id, Instant::now());
                worker_message::Kind::Ping(v1::Ping { id })
            }
            Stage::Payload => self.data(chunk_bytes),
            Stage::Abort => {
                self.stage = Stage::Done;
                worker_message::Kind::Abort(v1::Abort {})
            }
            Stage::GoAhead | Stage::Ready | Stage::Pong(..) | Stage::Hold | Stage::Delay(_) | Stage::Done => {
                return None;
            }
        })
    }

    fn data(&mut self, chunk_bytes: usize) -> worker_message::Kind {
        let bytes = &self.push.payload.bytes;
        let end = bytes.len().min(self.sent + chunk_bytes.max(1));
        let data = bytes.slice(self.sent..end);
        self.sent = end;
        if std::mem::replace(&mut self.header_sent, true) {
            worker_message::Kind::Chunk(v1::Chunk { data })
        } else {
            worker_message::Kind::Push(convert::push_message(&self.push.header, false, data))
        }
    }

    /// Takes what the server says in answer to it: a go-ahead, a pong.
    pub(crate) fn hear(&mut self, (at, said): (Instant, &server_message::Kind), meter: &mut LinkMeter) {
        let next = match (said, self.stage) {
            (server_message::Kind::Proceed(go), Stage::GoAhead) if go.push_id == self.push.header.push.0 => {
                Stage::Ready
            }
            (server_message::Kind::Pong(pong), Stage::Pong(id, since)) if pong.id == id => {
                meter.pong(at.saturating_duration_since(since));
                Stage::Hold
            }
            // Meant for a push that was settled meanwhile, or for a ping that was waited for long enough.
            _ => return,
        };
        (self.stage, self.from) = (next, Instant::now());
    }

    /// A push was settled. What is left of this one, if it was this one, is not wanted any more.
    pub(crate) fn settled(&mut self, push: PushId) {
        if push == self.push.header.push {
            self.give_up();
        }
    }

    /// Sends no more of it, and says so where the server waits for more.
    pub(crate) fn give_up(&mut self) {
        self.stage = match self.stage {
            Stage::Done => Stage::Done,
            // The server forgets a header that was only asked about.
            Stage::GoAhead => Stage::Done,
            _ if self.header_sent => Stage::Abort,
            _ => Stage::Done,
        };
    }
}

/// The chunks of `bytes`, sharing its buffer.
fn chunks(bytes: &Bytes, size: usize) -> impl Iterator<Item = Bytes> + '_ {
    (0..bytes.len())
        .step_by(size.max(1))
        .map(move |at| bytes.slice(at..bytes.len().min(at + size)))
}

/// Sends `header` and behind it `bytes` as chunks, whatever the server says meanwhile.
pub(crate) async fn whole(
    link: &mut Link,
    header: worker_message::Kind,
    bytes: &Bytes,
) -> Result<(), Meaning> {
    link.send(header).await?;
    for data in chunks(bytes, link.chunk_bytes()) {
        link.send(worker_message::Kind::Chunk(v1::Chunk { data })).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use asgc_core::codec::{Format, Payload};
    use asgc_core::ids::{Generation, Revision, Version};
    use asgc_core::push::{Measured, PushHeader};
    use server_message::Kind as Said;
    use worker_message::Kind;

    const ID: PushId = PushId(2);
    const CHUNK: usize = 4;

    fn upload(bytes: usize, asks_first: bool, from: Instant) -> Upload {
        let header = PushHeader {
            push: ID,
            generation: Generation(1),
            base: Version(3),
            format: Format::Identity,
            entries: vec![],
            payload_bytes: bytes as u64,
            controls: Revision(0),
            measured: Measured::default(),
        };
        let payload = Payload {
            format: Format::Identity,
            entries: vec![],
            bytes: Bytes::from(vec![1; bytes]),
        };
        let push = Push {
            header,
            payload,
            asks_first,
        };
        Upload::new(push, from)
    }

    /// A meter that has pinged already, so that the next pushes need not.
    fn quiet() -> LinkMeter {
        let mut meter = LinkMeter::default();
        assert!(meter.ping().is_some());
        meter
    }

    fn data(message: Option<Kind>) -> Option<usize> {
        match message? {
            Kind::Push(header) => Some(header.data.len()),
            Kind::Chunk(chunk) => Some(chunk.data.len()),
            other => panic!("{other:?}"),
        }
    }

    /// Lengths of what goes out in one go.
    fn lengths(bytes: usize) -> Vec<usize> {
        let (mut upload, mut meter) = (upload(bytes, false, Instant::now()), quiet());
        let mut found = Vec::new();
        while upload.want(Instant::now(), (&Throttle::default(), &mut meter)) == Some(Want::Room) {
            found.extend(data(upload.message(CHUNK)));
        }
        found
    }

    #[test]
    fn chunks_cover_everything_once() {
        assert_eq!(lengths(10), [4, 4, 2]);
        assert_eq!(lengths(8), [4, 4]);
        assert_eq!(lengths(3), [3]);
        assert_eq!(lengths(0), [0], "the header alone");
    }

    #[test]
    fn delays_run_while_another_push_is_sent_and_rates_do_not() {
        // 100 ms for each message, and 8 bytes at 80 bytes a second.
        let throttle = Throttle {
            delay: Duration::from_millis(100),
            uplink_bytes_per_s: Some(80.0),
        };
        let zero = Instant::now();
        for (turn_ms, leaves_ms) in [(0, 200), (60, 200), (100, 200), (170, 270)] {
            let (mut upload, mut meter) = (upload(8, false, zero), quiet());
            let turn = zero + Duration::from_millis(turn_ms);
            let leaves = zero + Duration::from_millis(leaves_ms);
            assert_eq!(
                upload.want(turn, (&throttle, &mut meter)),
                Some(Want::Time(leaves))
            );
            assert_eq!(upload.want(leaves, (&throttle, &mut meter)), Some(Want::Room));
        }
    }

    #[test]
    fn who_asks_first_sends_nothing_before_the_go_ahead() {
        let (mut upload, mut meter) = (upload(8, true, Instant::now()), quiet());
        let wants = |upload: &mut Upload, meter: &mut LinkMeter| {
            upload.want(Instant::now(), (&Throttle::default(), meter))
        };
        assert_eq!(wants(&mut upload, &mut meter), Some(Want::Room));
        assert_eq!(data(upload.message(CHUNK)), Some(0));
        assert_eq!(wants(&mut upload, &mut meter), Some(Want::Nothing));
        for push_id in [1, 2] {
            let go = Said::Proceed(v1::Proceed { push_id });
            upload.hear((Instant::now(), &go), &mut meter);
        }
        assert_eq!(wants(&mut upload, &mut meter), Some(Want::Room));
        assert_eq!(data(upload.message(CHUNK)), Some(4));
        assert_eq!(data(upload.message(CHUNK)), Some(4));
        assert_eq!(wants(&mut upload, &mut meter), None);
    }

    #[test]
    fn a_verdict_ends_it_wherever_it_is() {
        let ends = |asks_first, messages: usize| {
            let (mut upload, mut meter) = (upload(12, asks_first, Instant::now()), quiet());
            let mut want =
                |upload: &mut Upload| upload.want(Instant::now(), (&Throttle::default(), &mut meter));
            for _ in 0..messages {
                want(&mut upload);
                upload.message(CHUNK).unwrap();
            }
            upload.settled(PushId(1));
            assert_ne!(want(&mut upload), None, "another's verdict");
            upload.settled(ID);
            let wants = want(&mut upload);
            let last = upload.message(CHUNK);
            assert_eq!(want(&mut upload), None);
            (wants, last)
        };
        let abort = Some(Kind::Abort(v1::Abort {}));
        assert_eq!(ends(false, 0), (None, None), "nothing had left");
        assert_eq!(ends(false, 1), (Some(Want::Room), abort.clone()));
        assert_eq!(ends(false, 2), (Some(Want::Room), abort));
        assert_eq!(ends(true, 1), (None, None), "refused instead of the go-ahead");
    }

    #[test]
    fn a_ping_is_waited_for_but_not_for_ever() {
        let throttle = Throttle::default();
        for answered in [true, false] {
            let (mut upload, mut meter) = (upload(4, false, Instant::now()), LinkMeter::default());
            assert_eq!(
                upload.want(Instant::now(), (&throttle, &mut meter)),
                Some(Want::Room)
            );
            let Some(Kind::Ping(ping)) = upload.message(CHUNK) else {
                panic!("no ping");
            };
            let Some(Want::Time(until)) = upload.want(Instant::now(), (&throttle, &mut meter)) else {
                panic!("does not wait");
            };
            if answered {
                let pong = Said::Pong(v1::Pong { id: ping.id });
                upload.hear((Instant::now(), &pong), &mut meter);
            }
            let now = if answered { Instant::now() } else { until };
            assert_eq!(upload.want(now, (&throttle, &mut meter)), Some(Want::Room));
            assert_eq!(data(upload.message(CHUNK)), Some(4));
        }
    }
}
