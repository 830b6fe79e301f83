//! Servers and workers as processes: who joins late, dies, comes back, waits or gives up.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use asgc_core::config::Role;
use asgc_core::event::{Decision, Event, RejectReason};
use asgc_core::layout::{Layout, TensorSpec};
use asgc_proto::v1;
use asgc_tests::raw::{Kind, Peer, Said, chunk, join_request, push};
use asgc_tests::server::{Settings, flags, launch, updates, updates_of};
use asgc_tests::task::TENSORS;
use asgc_tests::wait::until;
use asgc_tests::{Honest, Quadratic, TestServer, TestWorker, scrape, truth};
use nix::sys::signal::Signal;
use rand::{RngExt as _, SeedableRng as _};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use std::fs;
use std::net::TcpListener;
use tonic::Code;

/// The worker's `workload.batch_size` is the number of rows of its model.
const SMALL: (&str, &str) = ("workload.batch_size", "8");

fn start(settings: Settings<'_>) -> TestServer {
    TestServer::start(&[&[SMALL], settings].concat())
}

fn reason_of_leave(events: &[Event], worker: u32) -> Option<String> {
    events.iter().find_map(|event| match event {
        Event::Leave(leave) if leave.worker_id.map(|id| id.0) == Some(worker) => Some(leave.reason.clone()),
        _ => None,
    })
}

#[test]
fn a_worker_that_joins_late_takes_part() {
    let mut server = start(&[("workload.max_updates", "3000"), ("workload.num_workers", "2")]);
    let mut early = TestWorker::trainer(&server, 0, &[]);
    server.wait_for_updates_of(0, 20);
    let mut late = TestWorker::trainer(&server, 1, &[]);
    let mut evaluator = TestWorker::evaluator(&server, &[]);
    let events = server.finished();
    for worker in [&mut early, &mut late, &mut evaluator] {
        worker.finished();
    }
    let (sums, end) = truth::check(&events);
    assert_eq!(sums.version, 3000);
    assert!(!updates_of(&events, 1).is_empty());
    let evaluated = events
        .iter()
        .any(|event| matches!(event, Event::Eval(eval) if eval.version.0 == 3000));
    assert!(evaluated, "the final version is evaluated");
    assert!(end.final_test_accuracy.unwrap() > 0.9, "{end:?}");
}

#[test]
fn a_worker_killed_at_random_moments_comes_back() {
    // Large enough, and in small enough pieces, that a kill mostly falls into a push.
    let mut server = TestServer::start(&[
        ("workload.batch_size", "20000"),
        ("workload.num_workers", "2"),
        ("workload.max_updates", "1000000"),
        ("server.chunk_bytes", "4096"),
    ]);
    let mut steady = TestWorker::trainer(&server, 0, &[]);
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let mut seen = 0;
    for _ in 0..4 {
        let mut victim = TestWorker::trainer(&server, 1, &[]);
        seen += rng.random_range(1..10);
        server.wait_for_updates_of(1, seen);
        victim.process().kill();
        seen = updates_of(&server.events(), 1).len();
    }
    let mut last = TestWorker::trainer(&server, 1, &[]);
    server.wait_for_updates_of(1, seen + 3);
    server.signal(Signal::SIGTERM);
    let events = server.finished();
    steady.finished();
    last.finished();
    truth::check(&events);
    assert!(updates_of(&events, 0).len() > 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_push_changes_nothing_and_may_come_again() {
    let task = Quadratic::with_rows(2000);
    let mut server = TestServer::start(&[("workload.max_updates", "20"), ("server.chunk_bytes", "4096")]);
    let mut honest = Honest::join(&server.url(), task).await;
    honest.steps(2).await;
    let layout = task.tensors();
    let mut peer = Peer::trainer(&server.url(), &layout, 7).await;
    let before = peer.pull().await;
    let whole = push(1, before.at, &vec![1.0; 10_000]);
    let mut begun = whole.clone();
    begun.data = whole.data.slice(..4096);
    peer.say(Kind::Push(begun)).await;
    for i in 1..5 {
        peer.say(chunk(whole.data.slice(4096 * i..4096 * (i + 1)))).await;
    }
    drop(peer);
    server.wait_for("the peer to be missed", |events| reason_of_leave(events, 1));

    let mut again = Peer::trainer(&server.url(), &layout, 7).await;
    assert_eq!(again.pull().await, before, "not a bit has changed");
    again.push_in_pieces(whole, 4096).await;
    let verdict = again.verdict().await;
    assert_eq!(
        (verdict.decision(), verdict.version),
        (v1::Decision::Accepted, before.at.1 + 1)
    );
    again.leave().await;
    honest.train_to_the_end().await;
    let (sums, _) = truth::check(&server.finished());
    assert_eq!(sums.version, 20);
}

#[test]
fn another_process_takes_an_identity_over() {
    let mut server = start(&[("workload.max_updates", "1000000"), ("workload.num_workers", "2")]);
    let mut steady = TestWorker::trainer(&server, 0, &[]);
    let mut first = TestWorker::trainer(&server, 1, &[]);
    server.wait_for_updates_of(1, 5);
    let mut second = TestWorker::trainer(&server, 1, &[]);
    assert_eq!(first.process().wait(), Some(1), "{}", first.process().log());
    let log = first.process().log();
    assert!(log.contains("another process joined as worker 1"), "{log}");
    let so_far = updates_of(&server.events(), 1).len();
    server.wait_for_updates_of(1, so_far + 5);
    server.signal(Signal::SIGTERM);
    let events = server.finished();
    steady.finished();
    second.finished();
    truth::check(&events);
}

#[test]
fn workers_come_back_to_a_server_that_was_killed() {
    let server = start(&[
        ("workload.max_updates", "4000"),
        ("workload.num_workers", "2"),
        ("compression.mode", "topk"),
        ("error_feedback.enabled", "true"),
    ]);
    let mut workers = [0, 1].map(|id| TestWorker::trainer(&server, id, &[]));
    let mut evaluator = TestWorker::evaluator(&server, &[]);
    for id in [0, 1] {
        server.wait_for_updates_of(id, 20);
    }
    let mut server = server.restart();
    let events = server.finished();
    workers
        .iter_mut()
        .chain([&mut evaluator])
        .for_each(TestWorker::finished);

    let (sums, _) = truth::check(&events);
    assert_eq!(sums.version, 4000);
    let generation = |events: &[Event]| match &events[0] {
        Event::RunStart(start) => start.generation.0,
        other => panic!("{other:?}"),
    };
    assert_eq!(generation(&events), 2);
    for id in [0, 1] {
        assert!(!updates_of(&events, id).is_empty());
    }
    let previous = server.previous_events();
    assert_eq!(generation(&previous), 1);
    assert!(truth::check_beginning(&previous).pushes >= 40);
}

#[test]
fn sigterm_drains_the_server() {
    let mut server = start(&[("workload.max_updates", "1000000"), ("workload.num_workers", "2")]);
    let mut workers = [0, 1].map(|id| TestWorker::trainer(&server, id, &[]));
    let mut evaluator = TestWorker::evaluator(&server, &[]);
    for id in [0, 1] {
        server.wait_for_updates_of(id, 30);
    }
    server.signal(Signal::SIGTERM);
    let events = server.finished();
    workers
        .iter_mut()
        .chain([&mut evaluator])
        .for_each(TestWorker::finished);
    let (sums, end) = truth::check(&events);
    assert_eq!(end.reason, "asked to drain");
    let evaluated = |event: &Event| matches!(event, Event::Eval(eval) if eval.version.0 == sums.version);
    assert!(events.iter().any(evaluated), "the final version is evaluated");
    assert!(server.run_folder().join("model.safetensors").exists());
}

#[test]
fn a_server_nobody_joined_drains_at_once() {
    let mut server = start(&[]);
    server.signal(Signal::SIGINT);
    assert_eq!(server.finished(), []);
    assert!(!server.run_folder().join("model.safetensors").exists());
}

#[test]
fn sigterm_lets_a_worker_leave() {
    let mut server = start(&[("workload.max_updates", "1000000")]);
    let mut steady = TestWorker::trainer(&server, 0, &[]);
    let mut leaver = TestWorker::trainer(&server, 1, &[]);
    server.wait_for_updates_of(1, 5);
    leaver.process().signal(Signal::SIGTERM);
    leaver.finished();
    let reason = server.wait_for("worker 1 to leave", |events| reason_of_leave(events, 1));
    assert_eq!(reason, "asked to stop");
    server.signal(Signal::SIGTERM);
    truth::check(&server.finished());
    steady.finished();
}

#[test]
fn a_worker_gives_up_after_its_time() {
    let patience = [("worker.give_up_after_s", "0.3")];
    let mut server = start(&[("workload.max_updates", "1000000")]);
    let mut worker = TestWorker::trainer(&server, 0, &patience);
    server.wait_for_updates_of(0, 5);
    server.process().kill();
    let mut too_late = TestWorker::trainer(&server, 1, &patience);
    for worker in [&mut worker, &mut too_late] {
        assert_eq!(worker.process().wait(), Some(1));
        let log = worker.process().log();
        assert!(log.contains("(worker.give_up_after_s)"), "{log}");
        assert!(log.contains(&server.url()), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_limited_and_freed() {
    let mut server = start(&[("server.max_sessions", "1")]);
    let layout = Quadratic::small().tensors();
    let peer = Peer::trainer(&server.url(), &layout, 1).await;
    let status = Peer::join(&server.url(), join_request(&layout, Role::Trainer, 2))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("server.max_sessions = 1"), "{status:?}");
    peer.leave().await;
    // The session is counted until the server has seen its end.
    let next = loop {
        match Peer::join(&server.url(), join_request(&layout, Role::Trainer, 2)).await {
            Ok(peer) => break peer,
            Err(status) => assert_eq!(status.code(), Code::ResourceExhausted),
        }
    };
    next.leave().await;
    server.signal(Signal::SIGTERM);
    server.finished();
}

/// The settings of a sync run of three.
const SYNC: [(&str, &str); 3] = [
    ("server.mode", "sync"),
    ("workload.num_workers", "3"),
    ("workload.max_updates", "30"),
];

/// Three trainers that hold version 0.
async fn three_in_sync(server: &TestServer) -> ([Peer; 3], (u64, u64)) {
    let task = Quadratic::small();
    let mut peers = Vec::new();
    for incarnation in 1..=3 {
        let mut peer = Peer::trainer(&server.url(), &task.tensors(), incarnation).await;
        if peer.admitted.needs_parameters {
            peer.initialise(&task.initial()).await;
        }
        assert_eq!(peer.pull().await.at.1, 0);
        peers.push(peer);
    }
    let at = (peers[0].admitted.generation, 0);
    (peers.try_into().unwrap(), at)
}

/// A push, and the pull after it.
async fn push_and_ask(peer: &Peer, id: u64, at: (u64, u64), value: f32) {
    peer.say(Kind::Push(push(id, at, &[value; 40]))).await;
    peer.ask(Some(at)).await;
}

/// Makes the server say something else, after which it would have answered the pull if it wanted to. A second push
/// for a round is refused as late, and tells the version.
async fn still_waits(peer: &mut Peer, at: (u64, u64), ids: [u64; 2]) {
    for id in ids {
        // Empty-handed: asking first does not touch the open pull.
        let mut header = push(id, at, &[0.0; 40]);
        header.data.clear();
        header.asks_first = true;
        peer.say(Kind::Push(header)).await;
        let verdict = peer.verdict().await;
        assert_eq!((verdict.push_id, verdict.reason()), (id, v1::RejectReason::Late));
        assert_eq!(verdict.version, 0, "no round was released");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_round_waits_for_all_three() {
    let mut server = start(&SYNC);
    let ([mut a, mut b, mut c], at) = three_in_sync(&server).await;
    push_and_ask(&a, 1, at, 1.0).await;
    still_waits(&mut a, at, [2, 3]).await;
    push_and_ask(&b, 1, at, 2.0).await;
    still_waits(&mut b, at, [2, 3]).await;
    still_waits(&mut a, at, [4, 5]).await;
    push_and_ask(&c, 1, at, 6.0).await;
    let initial = Quadratic::small().initial();
    // The rate is 0.05 and the mean 3.
    let expected = initial
        .iter()
        .map(|theta| theta - 0.05f32 * 3.0)
        .collect::<Vec<_>>();
    for peer in [&mut a, &mut b, &mut c] {
        let verdict = peer.verdict().await;
        assert_eq!((verdict.decision(), verdict.version), (v1::Decision::Accepted, 1));
        assert_eq!(
            (verdict.push_id, verdict.staleness, verdict.weight),
            (1, 0, 1.0 / 3.0)
        );
        let snapshot = peer.snapshot().await;
        assert_eq!(snapshot.at, (at.0, 1));
        let off = snapshot
            .values
            .iter()
            .zip(&expected)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(off < 1e-6, "off by {off}");
    }
    server.signal(Signal::SIGTERM);
    for peer in [a, b, c] {
        peer.leave().await;
    }
    let (sums, _) = truth::check(&server.finished());
    assert_eq!((sums.version, sums.rejected), (1, 6));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_releases_a_round_and_the_third_is_late() {
    let mut server = start(&[&SYNC[..], &[("server.quorum", "2")]].concat());
    let ([mut a, mut b, mut c], at) = three_in_sync(&server).await;
    push_and_ask(&a, 1, at, 1.0).await;
    still_waits(&mut a, at, [2, 3]).await;
    push_and_ask(&b, 1, at, 2.0).await;
    for peer in [&mut a, &mut b] {
        let verdict = peer.verdict().await;
        assert_eq!(
            (verdict.decision(), verdict.version, verdict.weight),
            (v1::Decision::Accepted, 1, 0.5)
        );
        assert_eq!(peer.snapshot().await.at.1, 1);
    }
    c.say(Kind::Push(push(1, at, &[9.0; 40]))).await;
    assert_eq!(c.verdict().await.reason(), v1::RejectReason::Late);
    for peer in [a, b, c] {
        peer.leave().await;
    }
    server.signal(Signal::SIGTERM);
    truth::check(&server.finished());
}

#[test]
fn sync_rounds_apply_exactly_one_push_of_each() {
    // One is slower by far, and nobody runs ahead of it.
    let slow = ("heterogeneity.compute_delay", "{2 = 0.003}");
    let mut server = start(&[&SYNC[..], &[slow]].concat());
    let mut workers = [0, 1, 2].map(|id| TestWorker::trainer(&server, id, &[]));
    let events = server.finished();
    workers.iter_mut().for_each(TestWorker::finished);
    let (sums, end) = truth::check(&events);
    assert_eq!((sums.version, sums.rejected, end.max_staleness), (30, 0, 0));
    for version in 1..=30 {
        let round = updates(&events)
            .into_iter()
            .filter(|update| update.version.0 == version);
        let mut of = round
            .map(|update| (update.worker_id.0, update.staleness.0))
            .collect::<Vec<_>>();
        of.sort_unstable();
        assert_eq!(of, [(0, 0), (1, 0), (2, 0)], "round {version}");
    }
}

#[test]
fn ssp_holds_the_fast_to_the_slow() {
    let mut server = start(&[
        ("server.mode", "ssp"),
        ("server.slack", "2"),
        ("server.min_workers", "2"),
        ("workload.num_workers", "2"),
        ("workload.max_updates", "200"),
        ("heterogeneity.compute_delay", "{1 = 0.002}"),
    ]);
    let mut workers = [0, 1].map(|id| TestWorker::trainer(&server, id, &[]));
    let events = server.finished();
    workers.iter_mut().for_each(TestWorker::finished);
    truth::check(&events);
    let mut clocks = [0u64; 2];
    for update in updates(&events) {
        clocks[update.worker_id.0 as usize] += 1;
        assert!(
            clocks[0].abs_diff(clocks[1]) <= 3,
            "slack 2 and the step under way: {clocks:?}"
        );
    }
    assert!(clocks[0] > clocks[1], "the fast one used its slack: {clocks:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_begins_with_enough_workers() {
    let mut server = start(&[("server.min_workers", "2"), ("workload.max_updates", "10")]);
    let task = Quadratic::small();
    let first = Honest::join(&server.url(), task).await;
    let second = async {
        let mut peer = Peer::trainer(&server.url(), &task.tensors(), 9).await;
        peer.ask(None).await;
        // By now the run may be over.
        assert!(matches!(
            peer.hear().await,
            Ok(Some(Said::Snapshot(_) | Said::Stop(_)))
        ));
        peer.leave().await;
    };
    tokio::join!(first.train_to_the_end(), second);
    let events = server.finished();
    truth::check(&events);
    let mut joined = events[1..3].iter().map(|event| match event {
        Event::Join(join) => (join.worker_id.unwrap().0, join.elapsed_s),
        other => panic!("not a join: {other:?}"),
    });
    assert_eq!((joined.next(), joined.next()), (Some((0, 0.0)), Some((1, 0.0))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn training_starts_from_a_file_and_ends_in_one() {
    let task = Quadratic::small();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("start.safetensors");
    let values = task.target();
    let bytes = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect::<Vec<_>>();
    let view = |shape: &[usize], data| TensorView::new(Dtype::F32, shape.to_vec(), data).unwrap();
    let tensors = [
        (TENSORS[0], view(&[8, 4], &bytes[..128])),
        (TENSORS[1], view(&[8], &bytes[128..])),
    ];
    fs::write(&path, safetensors::serialize(tensors, None).unwrap()).unwrap();
    let mut server = start(&[
        ("server.initial_parameters", path.to_str().unwrap()),
        ("workload.max_updates", "25"),
    ]);
    let spec = |name: &str, shape: &[usize]| TensorSpec {
        name: name.into(),
        shape: shape.to_vec(),
    };
    let other = Layout::new(vec![spec(TENSORS[0], &[8, 4]), spec(TENSORS[1], &[9])]).unwrap();
    let status = Peer::join(&server.url(), join_request(&other, Role::Trainer, 1))
        .await
        .unwrap_err();
    assert!(status.message().contains("`layer.bias` [9]"), "{status:?}");

    let mut honest = Honest::join(&server.url(), task).await;
    honest.pull().await.unwrap();
    assert_eq!(honest.session.parameters(), values);
    // The evaluator gets the final version; its word on it is what the file must hold.
    let mut evaluator = Peer::evaluator(&server.url(), &task.tensors(), 5).await;
    evaluator.pull().await;
    honest.train_to_the_end().await;
    let last = evaluator.pull().await;
    assert_eq!(last.at.1, 25);
    evaluator.leave().await;
    truth::check(&server.finished());
    assert_eq!(server.model(&TENSORS), last.values);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_agree_with_the_log() {
    let task = Quadratic::small();
    let mut server = start(&[
        ("workload.max_updates", "40"),
        ("staleness.enabled", "true"),
        ("staleness.s_low", "0"),
        ("staleness.s_max", "2"),
    ]);
    let mut honest = Honest::join(&server.url(), task).await;
    honest.steps(1).await;
    let mut evaluator = Peer::evaluator(&server.url(), &task.tensors(), 5).await;
    evaluator.pull().await;
    // Five pushes from one version: accepted, down-weighted twice, rejected twice.
    honest.pull().await.unwrap();
    for _ in 0..5 {
        honest.push().await;
    }
    honest.train_to_the_end().await;
    // The evaluator holds the drain up, and the metrics with it.
    let (_, version) = evaluator.pull().await.at;
    let report = v1::Evaluation {
        version,
        accuracy: 0.75,
        loss: 0.5,
        ..Default::default()
    };
    evaluator.say(Kind::Evaluation(report)).await;
    let page = until("all to be counted", || {
        let page = server.metrics();
        let sum = |name: &str| page.sum(name, &[]);
        let evaluated = sum("asgc_server_test_loss") > 0.0 && sum("asgc_server_test_accuracy_ratio") > 0.0;
        // Frames are counted from time to time, not with each update.
        let frames = page.sum("asgc_server_frame_bytes_total", &[("direction", "uplink")]);
        (evaluated && frames > sum("asgc_server_received_payload_bytes_total")).then_some(page)
    });
    evaluator.leave().await;
    let events = server.finished();
    let (sums, end) = truth::check(&events);
    assert_eq!(sums.rejected, 2);

    let pushes = |decision| page.sum("asgc_server_pushes_total", &[("decision", decision)]);
    assert_eq!(
        pushes("accepted") + pushes("downweighted"),
        end.applied_updates as f64
    );
    assert_eq!(pushes("downweighted"), 2.0);
    assert_eq!(pushes("rejected"), end.rejected_updates as f64);
    let sum = |name: &str| page.sum(name, &[]);
    assert_eq!(
        page.sum("asgc_server_rejections_total", &[("reason", "stale")]),
        2.0
    );
    assert_eq!(sum("asgc_server_payload_bytes_total"), end.total_bytes as f64);
    assert_eq!(
        sum("asgc_server_received_payload_bytes_total"),
        end.received_bytes as f64
    );
    assert_eq!(sum("asgc_server_version"), 40.0);
    assert_eq!(sum("asgc_server_staleness_versions_count"), sums.pushes as f64);
    assert_eq!(
        sum("asgc_server_staleness_versions_sum") / sums.pushes as f64,
        end.mean_staleness
    );
    assert_eq!(
        sum("asgc_server_test_accuracy_ratio"),
        end.final_test_accuracy.unwrap()
    );
    assert_eq!(sum("asgc_server_lost_events_total"), 0.0);
    let frames = page.sum("asgc_server_frame_bytes_total", &[("direction", "uplink")]);
    assert!(frames <= end.uplink_frame_bytes as f64);
}

#[test]
fn readiness_and_the_workers_own_metrics() {
    let mut server = start(&[("workload.max_updates", "1000000")]);
    let mut worker = TestWorker::trainer(&server, 0, &[("telemetry.metrics_listen", "127.0.0.1:0")]);
    server.wait_for_updates_of(0, 10);
    let address = worker.metrics_address();
    let (head, body) = scrape::get(&address, "/readyz");
    assert!(
        head.starts_with("HTTP/1.1 200") && body == "ready\n",
        "{head} {body}"
    );
    let page = until("accepted pushes", || {
        let page = scrape::metrics(&address);
        let accepted = page.sum("asgc_worker_pushes_total", &[("decision", "accepted")]);
        (accepted >= 5.0).then_some(page)
    });
    assert!(page.sum("asgc_worker_compute_seconds_count", &[]) >= 5.0);
    server.signal(Signal::SIGTERM);
    truth::check(&server.finished());
    worker.finished();
}

/// C20, C40: nothing falls back, and nothing is created.
#[test]
fn a_bad_configuration_ends_with_64_naming_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.toml");
    fs::write(&file, "[workload]\nmax_updates = 3\nmax_update = 4\n").unwrap();
    let file = ["--config".to_owned(), file.display().to_string()];
    let set = |key, value| flags(&[(key, value)]);
    for (args, words) in [
        (set("workload.lrr", "0.1"), vec!["workload.lrr", "lr"]),
        (set("workload.lr", "-1"), vec!["workload.lr", "above 0"]),
        (set("sever.listen", "x"), vec!["sever", "server"]),
        (set("compression.mode", "top-k"), vec!["compression.mode", "topk"]),
        (set("run.name", "../../x"), vec!["run.name"]),
        (set("run.name", "a/b"), vec!["run.name"]),
        (set("server.quorum", "2"), vec!["server.quorum", "sync"]),
        (file.to_vec(), vec!["run.toml:3", "max_update", "max_updates"]),
        (vec!["--lisen".to_owned()], vec!["--lisen", "--listen"]),
    ] {
        let mut server = launch(folder.path(), &args, "127.0.0.1:0");
        assert_eq!(server.wait(), Some(64), "{args:?}");
        let log = server.log();
        words
            .iter()
            .for_each(|word| assert!(log.contains(word), "{args:?}: {log}"));
    }
    assert!(!folder.path().join("run").exists(), "nothing was created");
    let server = start(&[]);
    let mut worker = TestWorker::trainer(&server, 0, &[("worker.thread", "2")]);
    assert_eq!(worker.process().wait(), Some(64));
    assert!(
        worker.process().log().contains("worker.threads"),
        "{}",
        worker.process().log()
    );
}

#[test]
fn a_second_server_on_a_folder_is_refused_naming_the_first() {
    let mut first = start(&[("workload.max_updates", "1000000")]);
    let mut worker = TestWorker::trainer(&first, 0, &[]);
    first.wait_for_updates_of(0, 5);
    let mut second = launch(first.folder(), &[], "127.0.0.1:0");
    assert_eq!(second.wait(), Some(1));
    let holder = format!("in use by process {}", first.process().id());
    assert!(second.log().contains(&holder), "{}", second.log());
    let so_far = updates_of(&first.events(), 0).len();
    first.wait_for_updates_of(0, so_far + 5);
    first.signal(Signal::SIGTERM);
    truth::check(&first.finished());
    worker.finished();
}

#[test]
fn a_taken_port_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let mut server = launch(folder.path(), &[], &address);
    assert_eq!(server.wait(), Some(1));
    assert!(
        server.log().contains(&format!("server.listen = {address}")),
        "{}",
        server.log()
    );
    let metrics = flags(&[("telemetry.metrics_listen", &address)]);
    let mut server = launch(folder.path(), &metrics, "127.0.0.1:0");
    assert_eq!(server.wait(), Some(1));
    assert!(
        server.log().contains("telemetry.metrics_listen"),
        "{}",
        server.log()
    );
    let mut server = launch(folder.path(), &[], "nonsense");
    assert_ne!(server.wait(), Some(0));
    assert!(server.log().contains("server.listen"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_after_the_stop_are_answered_but_no_part_of_the_run() {
    let task = Quadratic::small();
    let mut server = start(&[("workload.max_updates", "1000")]);
    let mut honest = Honest::join(&server.url(), task).await;
    honest.steps(4).await;
    let mut peer = Peer::trainer(&server.url(), &task.tensors(), 9).await;
    let at = peer.pull().await.at;
    server.signal(Signal::SIGTERM);
    peer.ask(Some(at)).await;
    // Before the drain is seen, the answer is that nothing is new.
    loop {
        match peer.hear().await.unwrap() {
            Some(Said::Stop(stop)) => break assert_eq!(stop.reason, "asked to drain"),
            _ => peer.ask(Some(at)).await,
        }
    }
    peer.say(Kind::Push(push(1, at, &[1.0; 40]))).await;
    assert_eq!(peer.verdict().await.reason(), v1::RejectReason::Stopped);
    let late = Peer::join(&server.url(), join_request(&task.tensors(), Role::Trainer, 10))
        .await
        .unwrap_err();
    assert_eq!(
        (late.code(), late.message()),
        (Code::FailedPrecondition, "the run is over")
    );
    peer.leave().await;
    honest.train_to_the_end().await;
    let events = server.finished();
    let (sums, _) = truth::check(&events);
    assert_eq!((sums.version, sums.rejected), (4, 0));
    let stopped = |event: &Event| matches!(event, Event::Update(update) if update.reason == Some(RejectReason::Stopped));
    assert!(!events.iter().any(stopped));
    assert!(
        updates(&events)
            .iter()
            .all(|update| update.decision == Decision::Accepted)
    );
}
