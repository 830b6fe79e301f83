//! What workers measure of their links: pings and payloads, told apart from what server and caller took.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use asgc_core::config::Role;
use asgc_core::event::Update;
use asgc_proto::v1::{self, Decision, RejectReason};
use asgc_tests::raw::{Kind, Peer, Said, join_request, push};
use asgc_tests::relay::{Relay, Way};
use asgc_tests::server::{updates, updates_of};
use asgc_tests::{Honest, Quadratic, TestServer, TestWorker, truth};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

/// Takes nothing stale.
const STRICT: [(&str, &str); 3] = [
    ("staleness.enabled", "true"),
    ("staleness.s_low", "0"),
    ("staleness.s_max", "0"),
];

async fn pong(peer: &mut Peer, id: u64) {
    peer.say(Kind::Ping(v1::Ping { id })).await;
    let said = peer.hear().await.unwrap().unwrap();
    assert_eq!(said, Said::Pong(v1::Pong { id }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ping_is_answered_in_the_middle_of_a_payload() {
    let task = Quadratic::small();
    let server = TestServer::start(&[("server.chunk_bytes", "1024")]);
    let mut peer = Peer::trainer(&server.url(), &task.tensors(), 1).await;
    // Before there is anything, and once more with the same id.
    pong(&mut peer, 0).await;
    pong(&mut peer, 0).await;
    peer.initialise(&task.initial()).await;
    let at = peer.pull().await.at;
    let mut begun = push(1, at, &[1.0; 40]);
    let rest = begun.data.split_off(64);
    peer.say(Kind::Push(begun)).await;
    pong(&mut peer, u64::MAX).await;
    peer.say(Kind::Chunk(v1::Chunk { data: rest })).await;
    let verdict = peer.verdict().await;
    assert_eq!((verdict.push_id, verdict.decision()), (1, Decision::Accepted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_payload_that_came_whole_was_held() {
    let task = Quadratic::small();
    let server = TestServer::start(&[&STRICT[..], &[("server.chunk_bytes", "1024")]].concat());
    let mut peer = Peer::trainer(&server.url(), &task.tensors(), 1).await;
    peer.initialise(&task.initial()).await;
    let at = peer.pull().await.at;
    peer.say(Kind::Push(push(1, at, &[1.0; 40]))).await;
    let whole = peer.verdict().await;
    assert!(
        whole.decision() == Decision::Accepted && whole.held_s > 0.0,
        "{whole:?}"
    );
    // In one message, so that it is there when it is found to be stale.
    peer.say(Kind::Push(push(2, at, &[1.0; 40]))).await;
    let whole = peer.verdict().await;
    assert!(
        whole.reason() == RejectReason::Stale && whole.held_s > 0.0,
        "{whole:?}"
    );
    for (id, asks_first, received) in [(3, false, 64), (4, true, 0)] {
        let mut begun = push(id, at, &[1.0; 40]);
        begun.data.truncate(received);
        begun.asks_first = asks_first;
        peer.say(Kind::Push(begun)).await;
        let refused = peer.verdict().await;
        assert_eq!((refused.reason(), refused.held_s), (RejectReason::Stale, 0.0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_is_held_from_its_own_arrival_to_the_end_of_its_round() {
    let task = Quadratic::small();
    let server = TestServer::start(&[("server.mode", "sync"), ("workload.num_workers", "2")]);
    let mut peers = Vec::new();
    for incarnation in 1..=2 {
        let mut peer = Peer::trainer(&server.url(), &task.tensors(), incarnation).await;
        if peer.admitted.needs_parameters {
            peer.initialise(&task.initial()).await;
        }
        assert_eq!(peer.pull().await.at.1, 0);
        peers.push(peer);
    }
    let at = (peers[0].admitted.generation, 0);
    let [first, second] = &mut peers[..] else { panic!() };
    first.say(Kind::Push(push(1, at, &[1.0; 40]))).await;
    pong(first, 1).await;
    let arrived = Instant::now();
    // Later ones, which the round has no place for, are held from their own arrival on.
    for id in 2..50 {
        first.say(Kind::Push(push(id, at, &[1.0; 40]))).await;
        assert_eq!(first.verdict().await.reason(), RejectReason::Late);
    }
    let waited_s = arrived.elapsed().as_secs_f64();
    second.say(Kind::Push(push(1, at, &[1.0; 40]))).await;
    let released = first.verdict().await;
    assert_eq!((released.push_id, released.decision()), (1, Decision::Accepted));
    assert!(
        released.held_s >= waited_s,
        "held for {} s, after {waited_s} s",
        released.held_s
    );
}

/// The rest of the payload has left the client, but not arrived, when the header is refused: that the verdict came
/// soon says nothing about the link.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_was_refused_at_its_header_is_no_sample() {
    let task = Quadratic::with_rows(20_000);
    let chunk = [("server.chunk_bytes", "262144"), ("workload.max_updates", "1000")];
    let mut server = TestServer::start(&[&STRICT[..], &chunk].concat());
    let mut mover = Honest::join(&server.url(), task).await;
    mover.steps(1).await;
    let relay = Relay::start(server.address(), Box::new(|_| (None, None))).await;
    let mut slow = Honest::join(&relay.url(), task).await;
    slow.pull().await.unwrap();
    mover.steps(1).await;
    // 400 kB in two chunks: the first arrives with the header, and the second begins to.
    relay.hold_after(Way::Up, 300_000);
    slow.push().await;
    while updates_of(&server.events(), 1).is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    relay.release(Way::Up);
    // The next push asks first, and is measured: the one after it carries what was found.
    for expected in [false, true] {
        slow.pull().await.unwrap();
        slow.push().await;
        assert_eq!(slow.session.link_sample().is_some(), expected);
    }
    slow.session.leave("done").await;
    mover.session.leave("done").await;
    server.signal(Signal::SIGTERM);
    let events = server.finished();
    let updates = updates_of(&events, 1);
    assert!(updates[0].received_bytes < updates[0].payload_bytes);
    let told = updates.iter().map(|update| update.upload_s.is_some());
    assert_eq!(told.collect::<Vec<_>>(), [false, false, true]);
}

fn least(samples: impl Iterator<Item = f64>) -> f64 {
    samples.fold(f64::INFINITY, f64::min)
}

/// A verdict that lies unread while the caller computes was there all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_caller_takes_is_not_the_links() {
    const COMPUTING: Duration = Duration::from_millis(200);
    let server = TestServer::start(&[]);
    let mut honest = Honest::join(&server.url(), Quadratic::small()).await;
    let mut uploads = Vec::new();
    for _ in 0..6 {
        honest.step().await.unwrap();
        uploads.extend(honest.session.link_sample().map(|sample| sample.upload_s));
        tokio::time::sleep(COMPUTING).await;
    }
    assert_eq!(uploads.len(), 5);
    assert!(
        least(uploads.iter().copied()) < COMPUTING.as_secs_f64() / 2.0,
        "{uploads:?}"
    );
}

/// The updates of a run of two workers' processes on a link that is made worse.
fn throttled(key: &str, value: &str) -> Vec<Update> {
    let settings = [
        (key, value),
        ("workload.batch_size", "200"),
        ("workload.num_workers", "2"),
        ("workload.max_updates", "30"),
        ("server.min_workers", "2"),
    ];
    let mut server = TestServer::start(&settings);
    let mut workers = [0, 1].map(|id| TestWorker::trainer(&server, id, &[]));
    let events = server.finished();
    workers.iter_mut().for_each(TestWorker::finished);
    truth::check(&events);
    let updates = updates(&events);
    let measured = updates.iter().filter(|update| update.upload_s.is_some());
    assert!(measured.count() >= 10, "{updates:?}");
    updates.into_iter().cloned().collect()
}

#[test]
fn an_injected_delay_is_round_trip_and_not_upload() {
    let updates = throttled("heterogeneity.comm_delay_ms", "100");
    assert!(updates.iter().filter_map(|update| update.rtt_s).all(|s| s >= 0.1));
    let upload_s = least(updates.iter().filter_map(|update| update.upload_s));
    assert!(upload_s < 0.05, "{upload_s} s for 4 kB at least");
}

#[test]
fn goodput_is_at_most_the_injected_rate() {
    // 0.1 MB/s: 4 kB take 40 ms.
    let updates = throttled("heterogeneity.bandwidth_mbps", "0.8");
    let bytes = updates
        .iter()
        .filter_map(|update| update.upload_bytes)
        .sum::<u64>();
    let seconds = updates.iter().filter_map(|update| update.upload_s).sum::<f64>();
    let rate = bytes as f64 / seconds;
    assert!((10_000.0..=100_001.0).contains(&rate), "{rate} bytes a second");
    let least_s = least(updates.iter().filter_map(|update| update.upload_s));
    assert!(least_s >= 0.04 - 1e-6, "{least_s} s");
}

/// An evaluator, which has no pushes, may ping all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anybody_may_ping() {
    let task = Quadratic::small();
    let server = TestServer::start(&[]);
    let request = join_request(&task.tensors(), Role::Evaluator, 1);
    let mut peer = Peer::join(&server.url(), request).await.unwrap();
    for id in [7, 0, 7] {
        pong(&mut peer, id).await;
    }
}
