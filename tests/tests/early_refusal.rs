//! A push that is too stale is refused before its payload has crossed the link.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use asgc_core::event::{Decision, Event, RejectReason, Update};
use asgc_proto::v1;
use asgc_tests::raw::{Kind, Peer, Said, chunk, push};
use asgc_tests::relay::{Relay, Way};
use asgc_tests::server::updates_of;
use asgc_tests::wait::until;
use asgc_tests::{Honest, Quadratic, TestServer, truth};
use nix::sys::signal::Signal;
use std::time::Duration;

/// 400 kB of gradient.
const ROWS: usize = 20_000;
const PAYLOAD: u64 = 20 * ROWS as u64;
/// Room for joining, headers and HTTP/2's own frames.
const OVERHEAD: u64 = 4096;

/// A server that takes nothing stale.
fn strict(chunk_bytes: &str) -> TestServer {
    TestServer::start(&[
        ("staleness.enabled", "true"),
        ("staleness.s_low", "0"),
        ("staleness.s_max", "0"),
        ("workload.max_updates", "1000"),
        ("server.chunk_bytes", chunk_bytes),
    ])
}

fn uplink_of(events: &[Event], worker: u32) -> u64 {
    let leave = events.iter().find_map(|event| match event {
        Event::Leave(leave) if leave.worker_id.map(|id| id.0) == Some(worker) => Some(leave),
        _ => None,
    });
    leave.unwrap().uplink_frame_bytes
}

fn is_stale(update: &Update) -> bool {
    (update.decision, update.reason) == (Decision::Rejected, Some(RejectReason::Stale))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asking_first_costs_the_header_only() {
    let task = Quadratic::with_rows(ROWS);
    let mut server = strict("1048576");
    // Worker 0 moves the version under the others' feet, worker 1 is the client library, worker 2 never asks.
    let mut mover = Honest::join(&server.url(), task).await;
    mover.steps(1).await;
    let mut asking = Honest::join(&server.url(), task).await;
    let mut blunt = Peer::trainer(&server.url(), &task.tensors(), 5).await;
    for round in 1..=4 {
        asking.pull().await.unwrap();
        let at = blunt.pull().await.at;
        mover.steps(1).await;
        // The first time it does not know yet that it is too slow.
        asking.push().await;
        server.wait_for_updates_of(1, round as usize);
        blunt.say(Kind::Push(push(round, at, &vec![1.0; 5 * ROWS]))).await;
        assert_eq!(blunt.verdict().await.reason(), v1::RejectReason::Stale);
    }
    // One that asks and is not stale is let through, and the next does not ask any more.
    asking.steps(2).await;
    let settled = asking.session.take_settled();
    let accepted = |settled: &&asgc_client::Settled| settled.verdict.decision == Decision::Accepted;
    assert_eq!((settled.len(), settled.iter().filter(accepted).count()), (6, 2));
    let saved = || server.metrics().sum("asgc_server_saved_payload_bytes_total", &[]);
    assert_eq!(saved(), 3.0 * PAYLOAD as f64);
    asking.session.leave("done").await;
    blunt.leave().await;
    mover.session.leave("done").await;
    server.signal(Signal::SIGTERM);
    let events = server.finished();
    let (_, end) = truth::check(&events);

    let asked = updates_of(&events, 1);
    assert!(
        asked[..4]
            .iter()
            .all(|update| is_stale(update) && update.payload_bytes == PAYLOAD)
    );
    let received = asked
        .iter()
        .map(|update| update.received_bytes)
        .collect::<Vec<_>>();
    assert_eq!(received, [PAYLOAD, 0, 0, 0, PAYLOAD, PAYLOAD]);
    let (asking, blunt) = (uplink_of(&events, 1), uplink_of(&events, 2));
    assert!(
        (3 * PAYLOAD..3 * PAYLOAD + OVERHEAD).contains(&asking),
        "{asking} bytes"
    );
    assert!(
        (4 * PAYLOAD..4 * PAYLOAD + OVERHEAD).contains(&blunt),
        "{blunt} bytes"
    );
    assert_eq!(end.total_bytes - end.received_bytes, 3 * PAYLOAD);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_reaches_a_sender_in_mid_payload() {
    let task = Quadratic::with_rows(ROWS);
    let mut server = strict("4096");
    let mut mover = Honest::join(&server.url(), task).await;
    mover.steps(1).await;
    let mut peer = Peer::trainer(&server.url(), &task.tensors(), 5).await;
    let at = peer.pull().await.at;
    mover.steps(1).await;
    let mut begun = push(1, at, &vec![1.0; 5 * ROWS]);
    begun.data.truncate(4096);
    peer.say(Kind::Push(begun.clone())).await;
    assert_eq!(peer.verdict().await.reason(), v1::RejectReason::Stale);
    // Chunks that were on their way do no harm, and what was given up leaves nothing behind.
    peer.say(chunk(vec![0; 4096])).await;
    peer.say(Kind::Abort(v1::Abort {})).await;
    let (generation, version) = peer.pull().await.at;
    assert_eq!(version, at.1 + 1);
    begun.push_id = 2;
    begun.base_version = version;
    begun.asks_first = true;
    begun.data.clear();
    peer.say(Kind::Push(begun)).await;
    let said = peer.hear().await.unwrap().unwrap();
    assert!(
        matches!(said, Said::Proceed(ref proceed) if proceed.push_id == 2),
        "{said:?}"
    );
    peer.say(Kind::Abort(v1::Abort {})).await;
    let whole = push(3, (generation, version), &vec![0.0; 5 * ROWS]);
    peer.push_in_pieces(whole, 4096).await;
    let verdict = peer.verdict().await;
    assert_eq!((verdict.push_id, verdict.decision()), (3, v1::Decision::Accepted));
    // All but two chunks of the first, and all of the second.
    let saved = server.metrics().sum("asgc_server_saved_payload_bytes_total", &[]);
    assert_eq!(saved, (2 * PAYLOAD - 8192) as f64);
    peer.leave().await;
    mover.session.leave("done").await;
    server.signal(Signal::SIGTERM);
    let events = server.finished();
    truth::check(&events);
    let received = updates_of(&events, 1)
        .iter()
        .map(|update| update.received_bytes)
        .collect::<Vec<_>>();
    assert_eq!(received, [4096, PAYLOAD], "a push that was given up is no update");
}

/// The link holds the payload up after its first bytes; far more than all buffers hold is still to come when the
/// verdict arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_stops_sending_when_the_verdict_comes() {
    let task = Quadratic::with_rows(1 << 20);
    let payload = 20 << 20;
    let mut server = strict("262144");
    let mut mover = Honest::join(&server.url(), task).await;
    mover.steps(1).await;
    let relay = Relay::start(server.address(), Box::new(|_| (None, None))).await;
    let mut slow = Honest::join(&relay.url(), task).await;
    slow.pull().await.unwrap();
    mover.steps(1).await;
    relay.hold_after(Way::Up, 1 << 20);
    let watch = async {
        // Not by blocking: the push goes on in the same task.
        while updates_of(&server.events(), 1).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        relay.release(Way::Up);
    };
    tokio::join!(slow.push(), watch);
    slow.pull().await.unwrap();
    let settled = slow.session.take_settled();
    assert_eq!(settled[0].verdict.reason, Some(RejectReason::Stale));
    // It goes on as if nothing had been, and asks first now.
    slow.push().await;
    until("the second push", || {
        (updates_of(&server.events(), 1).len() == 2).then_some(())
    });
    slow.session.leave("done").await;
    mover.session.leave("done").await;
    server.signal(Signal::SIGTERM);
    let events = server.finished();
    truth::check(&events);
    let updates = updates_of(&events, 1);
    assert!(is_stale(updates[0]) && updates[0].received_bytes < updates[0].payload_bytes);
    assert_eq!(updates[1].decision, Decision::Accepted);
    let sent = uplink_of(&events, 1);
    assert!(
        (payload..payload * 2 - (2 << 20)).contains(&sent),
        "{sent} bytes for one and a part"
    );
}
