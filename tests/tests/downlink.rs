//! Deltas over real sockets: whoever comes by them holds what a snapshot would have brought.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use asgc_client::Session;
use asgc_core::codec::{Codec, Form, Values};
use asgc_core::feedback::Bound;
use asgc_core::ids::Density;
use asgc_core::worker::Settings;
use asgc_tests::honest::{options, plain, pull};
use asgc_tests::wait::within;
use asgc_tests::{Quadratic, TestServer};

const TASK: Quadratic = Quadratic { seed: 3, rows: 500 };

const SERVER: [(&str, &str); 4] = [
    ("workload.lr", "0.5"),
    ("compression.mode", "topk"),
    ("workload.num_workers", "2"),
    ("server.min_workers", "1"),
];

fn settings(replays: bool) -> Settings {
    Settings {
        codec: Codec::TopK(Density::new(0.02).unwrap()),
        form: Form {
            packed: true,
            values: Values::Bf16,
            ..Form::default()
        },
        error_feedback: Some(Bound::None),
        replays,
        ..plain()
    }
}

async fn join(server: &TestServer, replays: bool) -> Session {
    let session = Session::join(options(&server.url()), TASK.tensors(), settings(replays));
    within("admission", session).await.unwrap()
}

async fn pulled(session: &mut Session) -> Vec<f32> {
    pull(session, || TASK.initial()).await.unwrap();
    session.parameters().to_vec()
}

/// Pushes a gradient of its own, and waits for the verdict.
async fn push(session: &mut Session, number: usize) {
    let len = session.layout().parameters();
    let mut gradient = (0..len)
        .map(|i| ((i * 7 + number * 13) % 101) as f32 - 50.0)
        .collect::<Vec<_>>();
    within("a push", session.push(&mut gradient, Default::default()))
        .await
        .unwrap();
}

fn with<'a>(more: &[(&'a str, &'a str)]) -> TestServer {
    TestServer::start(&[&SERVER[..], more].concat())
}

fn answers(server: &TestServer, kind: &str) -> f64 {
    server
        .metrics()
        .sum("asgc_server_pulls_total", &[("answer", kind)])
}

#[tokio::test(flavor = "multi_thread")]
async fn by_deltas_workers_come_to_the_same_parameters_to_the_bit() {
    let server = with(&[("downlink.mode", "delta")]);
    let (mut one, mut other) = (join(&server, true).await, join(&server, true).await);
    pulled(&mut one).await;
    pulled(&mut other).await;
    for number in 0..12 {
        push(&mut one, 2 * number).await;
        push(&mut other, 2 * number + 1).await;
        if number % 3 == 0 {
            pulled(&mut other).await;
        }
        pulled(&mut one).await;
    }
    // Behind its last push, so that the other's pull finds that applied too.
    let by_deltas = [pulled(&mut other).await, pulled(&mut one).await];
    let deltas = answers(&server, "delta");
    assert!(deltas >= 12.0, "{deltas}");
    // One that has nothing gets all.
    let mut fresh = join(&server, true).await;
    let snapshot = pulled(&mut fresh).await;
    assert!(by_deltas.iter().all(|held| *held == snapshot));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_forgot_its_own_push_pulls_all() {
    let server = with(&[("downlink.mode", "delta")]);
    let mut forgetful = join(&server, false).await;
    let before = pulled(&mut forgetful).await;
    push(&mut forgetful, 1).await;
    let held = pulled(&mut forgetful).await;
    assert_ne!(held, before);
    assert_eq!(answers(&server, "delta"), 1.0);
    assert_eq!(pulled(&mut join(&server, true).await).await, held);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lossy_view_is_shared_and_catches_up() {
    let server = with(&[
        ("downlink.mode", "lossy"),
        ("downlink.rho", "0.05"),
        ("optimizer.momentum", "0.5"),
    ]);
    let (mut one, mut other) = (join(&server, false).await, join(&server, false).await);
    pulled(&mut one).await;
    pulled(&mut other).await;
    for number in 0..10 {
        push(&mut one, number).await;
        pulled(&mut one).await;
    }
    let near = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-3);
    let (one, other) = (pulled(&mut one).await, pulled(&mut other).await);
    assert_eq!(one, other, "the same broadcasts in the same order");
    assert!(answers(&server, "delta") >= 10.0);
    let joined_late = pulled(&mut join(&server, false).await).await;
    assert!(near(&one, &joined_late));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rounded_snapshot_is_near() {
    let server = with(&[("downlink.dtype", "bf16")]);
    let mut session = join(&server, false).await;
    let held = pulled(&mut session).await;
    let initial = TASK.initial();
    assert!(
        held.iter()
            .zip(&initial)
            .all(|(a, b)| (a - b).abs() <= b.abs() / 256.0)
    );
    assert!(held.iter().all(|value| value.to_bits() & 0xffff == 0));
}
