//! Cutting a payload into chunks: the first travels with the header, the rest follow while the server does
//! not object.

use crate::Throttle;
use crate::error::Meaning;
use crate::incoming::Said;
use crate::link::Link;
use crate::link_meter::LinkMeter;
use asgc_core::ids::PushId;
use asgc_core::push::Push;
use asgc_proto::convert;
use asgc_proto::v1::{self, server_message, worker_message};
use bytes::Bytes;
use std::time::{Duration, Instant};

/// How long a push waits for the answer to its ping.
const PONG_PATIENCE: Duration = Duration::from_secs(2);

/// The chunks of `bytes`, sharing its buffer.
pub(crate) fn chunks(bytes: &Bytes, size: usize) -> impl Iterator<Item = Bytes> + '_ {
    (0..bytes.len())
        .step_by(size.max(1))
        .map(move |at| bytes.slice(at..bytes.len().min(at + size)))
}

/// What was heard while a push was being sent, and when, in order.
pub(crate) type Heard = Vec<Said>;

/// Sends a push, or as much of it as the server wants.
pub(crate) async fn push(
    link: &mut Link,
    push: &Push,
    (throttle, meter): (&Throttle, &mut LinkMeter),
    heard: &mut Heard,
) -> Result<(), Meaning> {
    let (id, payload_bytes) = (push.header.push, push.header.payload_bytes);
    let mut chunks = chunks(&push.payload.bytes, link.chunk_bytes());
    if push.asks_first {
        let header = convert::push_message(&push.header, true, Bytes::new());
        link.send(worker_message::Kind::Push(header)).await?;
        if !may_proceed(link, id, heard).await? {
            return Ok(());
        }
    }
    if let Some(ping) = meter.ping() {
        let rtt = round_trip(link, ping, heard).await?;
        rtt.into_iter().for_each(|rtt| meter.pong(rtt));
    }
    let at_least = throttle.travel(payload_bytes);
    meter.begin(id, payload_bytes, (Instant::now(), at_least));
    throttle.before_push(payload_bytes).await;
    if !push.asks_first {
        let header = convert::push_message(&push.header, false, chunks.next().unwrap_or_default());
        link.send(worker_message::Kind::Push(header)).await?;
    }
    for data in chunks {
        let mut unsent = Some(data);
        while let Some(data) = unsent.take() {
            let chunk = worker_message::Kind::Chunk(v1::Chunk { data: data.clone() });
            let Some(said) = link.send_or_receive(chunk).await? else {
                continue;
            };
            unsent = Some(data);
            if settles(said, id, heard) {
                return link.send(worker_message::Kind::Abort(v1::Abort {})).await;
            }
        }
    }
    meter.sent_whole(id);
    Ok(())
}

/// Pings, and waits a while for the answer: how long it took. A push must not wait for a server that is silent.
async fn round_trip(link: &mut Link, ping: u64, heard: &mut Heard) -> Result<Option<Duration>, Meaning> {
    let began = Instant::now();
    link.send(worker_message::Kind::Ping(v1::Ping { id: ping }))
        .await?;
    let answered = async {
        loop {
            match link.receive().await? {
                (at, server_message::Kind::Pong(pong)) if pong.id == ping => {
                    return Ok(at.saturating_duration_since(began));
                }
                // Verdicts and controls, which do not wait.
                said => heard.push(said),
            }
        }
    };
    match tokio::time::timeout(PONG_PATIENCE, answered).await {
        Ok(answered) => answered.map(Some),
        Err(_) => Ok(None),
    }
}

/// Waits for the go-ahead; false when the verdict came instead.
async fn may_proceed(link: &mut Link, push: PushId, heard: &mut Heard) -> Result<bool, Meaning> {
    loop {
        match link.receive().await? {
            (_, server_message::Kind::Proceed(proceed)) if proceed.push_id == push.0 => return Ok(true),
            said => {
                if settles(said, push, heard) {
                    return Ok(false);
                }
            }
        }
    }
}

/// Keeps what concerns the session; true when it is the verdict on `push`.
fn settles(said: Said, push: PushId, heard: &mut Heard) -> bool {
    let on_this = match &said.1 {
        server_message::Kind::Verdict(verdict) => verdict.push_id == push.0,
        server_message::Kind::Controls(_) => false,
        // Of no consequence in the middle of a push.
        _ => return false,
    };
    heard.push(said);
    on_this
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

    #[test]
    fn what_is_heard_meanwhile_is_kept_in_order() {
        use server_message::Kind;
        let verdict = |push_id| {
            Kind::Verdict(v1::Verdict {
                push_id,
                ..Default::default()
            })
        };
        let controls = Kind::Controls(v1::Controls::default());
        let mut heard = Heard::new();
        let mut hears = |said: Kind| settles((Instant::now(), said), PushId(2), &mut heard);
        assert!(!hears(verdict(1)));
        assert!(!hears(controls.clone()));
        assert!(!hears(Kind::Proceed(v1::Proceed { push_id: 2 })));
        assert!(hears(verdict(2)));
        let heard = heard.into_iter().map(|(_, said)| said).collect::<Vec<_>>();
        assert_eq!(heard, [verdict(1), controls, verdict(2)]);
    }

    #[test]
    fn chunks_cover_everything_once() {
        let lens = |len: usize, size| {
            let bytes = Bytes::from(vec![1; len]);
            chunks(&bytes, size).map(|chunk| chunk.len()).collect::<Vec<_>>()
        };
        assert_eq!(lens(10, 4), [4, 4, 2]);
        assert_eq!(lens(8, 4), [4, 4]);
        assert_eq!(lens(3, 4), [3]);
        assert_eq!(lens(0, 4), [0usize; 0]);
    }
}
