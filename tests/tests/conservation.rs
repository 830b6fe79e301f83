//! No gradient is lost or counted twice, whatever the network does: over any history the sum of gradients equals
//! the sum of what the server applied, plus what workers still hold.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use asgc_client::Session;
use asgc_core::codec::Codec;
use asgc_core::event::{Decision, Event, RejectReason};
use asgc_core::feedback::Bound;
use asgc_core::ids::{Bits, Density};
use asgc_core::worker::Settings;
use asgc_tests::honest::{options, plain, pull};
use asgc_tests::raw::Peer;
use asgc_tests::relay::{Relay, Way};
use asgc_tests::server::{updates, updates_of};
use asgc_tests::task::TENSORS;
use asgc_tests::wait::within;
use asgc_tests::{Quadratic, TestServer, truth};
use nix::sys::signal::Signal;
use rand::{Rng, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const TASK: Quadratic = Quadratic { seed: 3, rows: 40 };

/// Plain SGD with rate 1, where whatever is not rejected counts in full.
const LINEAR: [(&str, &str); 5] = [
    ("workload.lr", "1"),
    ("staleness.enabled", "true"),
    ("staleness.s_low", "2"),
    ("staleness.s_max", "2"),
    ("workload.num_workers", "2"),
];

/// A client whose gradients are small whole numbers, so that every sum is exact in `f32`.
struct Counter {
    session: Session,
    rng: ChaCha8Rng,
    sum: Vec<f64>,
}

impl Counter {
    async fn join(url: &str, settings: Settings, seed: u64) -> Self {
        let session = Session::join(options(url), TASK.tensors(), settings);
        let session = within("admission", session).await.unwrap();
        Self {
            sum: vec![0.0; session.layout().parameters()],
            session,
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    async fn pull(&mut self) -> Option<()> {
        pull(&mut self.session, initial).await
    }

    async fn push(&mut self) {
        let mut gradient = (0..self.sum.len())
            .map(|_| self.rng.random_range(-8..=8) as f32)
            .collect::<Vec<_>>();
        let sums = self.sum.iter_mut().zip(&gradient);
        sums.for_each(|(sum, &g)| *sum += f64::from(g));
        within("a push", self.session.push(&mut gradient, Default::default()))
            .await
            .unwrap();
    }

    /// Trains until the run is over, with several pushes for each pull; what the server must have taken of it.
    async fn train(mut self) -> Vec<f64> {
        while self.pull().await.is_some() {
            for _ in 0..self.rng.random_range(1..=5) {
                self.push().await;
            }
        }
        let taken = self.taken();
        self.session.leave("done").await;
        taken
    }

    /// What the server must have taken of it.
    fn taken(&self) -> Vec<f64> {
        let residual = self.session.residual();
        assert_eq!(residual.len(), self.sum.len());
        self.sum
            .iter()
            .zip(residual)
            .map(|(sum, &left)| sum - f64::from(left))
            .collect()
    }
}

fn initial() -> Vec<f32> {
    TASK.initial()
        .iter()
        .map(|value| (value * 16.0).round())
        .collect()
}

fn feedback(codec: Codec) -> Settings {
    Settings {
        codec,
        error_feedback: Some(Bound::None),
        ..plain()
    }
}

fn top_k() -> Settings {
    feedback(Codec::TopK(Density::new(0.25).unwrap()))
}

/// How far the parameters moved: with rate 1, the sum of what was applied.
fn moved(model: &[f32]) -> Vec<f64> {
    let start = initial();
    let pairs = start.iter().zip(model);
    pairs
        .map(|(&start, &end)| f64::from(start) - f64::from(end))
        .collect()
}

/// Drains the server; its log must be true, and the model must be what the one worker's pushes make of the start.
async fn assert_balanced(server: &mut TestServer, mut counter: Counter) -> Vec<Event> {
    server.signal(Signal::SIGTERM);
    while counter.pull().await.is_some() {}
    let taken = counter.taken();
    counter.session.leave("done").await;
    let events = server.finished();
    truth::check(&events);
    assert_eq!(moved(&server.model(&TENSORS)), taken);
    events
}

/// Two workers on a link that breaks off at random; returns how far what the server applied is from what they gave.
async fn broken_link(settings: Settings, seed: u64) -> f64 {
    let mut server = TestServer::start(&[&LINEAR[..], &[("workload.max_updates", "250")]].concat());
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut bytes = move || Some(u64::from(rng.next_u32() % 12_000 + 200));
    // After so many cuts the link holds, so that the run ends.
    let budgets = move |number| {
        if number < 60 {
            (bytes(), bytes())
        } else {
            (None, None)
        }
    };
    let relay = Relay::start(server.address(), Box::new(budgets)).await;
    // Who comes back after the stop must still find the server.
    let holder = Peer::evaluator(&server.url(), &TASK.tensors(), 99).await;
    let url = relay.url();
    let (a, b) = tokio::join!(
        Counter::join(&url, settings, 10 * seed),
        Counter::join(&url, settings, 10 * seed + 1)
    );
    let (a, b) = tokio::join!(a.train(), b.train());
    holder.leave().await;
    let events = server.finished();
    let (sums, _) = truth::check(&events);
    assert!(
        sums.rejected > 0 && relay.connections() > 20,
        "{sums:?}, {} connections",
        relay.connections()
    );
    for worker in [0, 1] {
        let mut ids = updates_of(&events, worker)
            .iter()
            .map(|update| update.push_id)
            .collect::<Vec<_>>();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "each push of worker {worker} is decided once");
    }
    let taken = a.into_iter().zip(b).map(|(a, b)| a + b);
    let moved = moved(&server.model(&TENSORS)).into_iter();
    moved
        .zip(taken)
        .map(|(moved, taken)| (moved - taken).abs())
        .fold(0.0, f64::max)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn top_k_over_a_link_that_breaks_is_exact() {
    for seed in 1..=3 {
        assert_eq!(broken_link(top_k(), seed).await, 0.0, "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identity_over_a_link_that_breaks_is_exact() {
    assert_eq!(broken_link(feedback(Codec::Identity), 4).await, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quantize_over_a_link_that_breaks_is_true_to_rounding() {
    let off = broken_link(feedback(Codec::Quantize(Bits::new(4).unwrap())), 5).await;
    assert!(off < 0.05, "off by {off}");
}

/// C13: the verdict is lost after the push was applied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_whose_verdict_was_lost_is_applied_once() {
    let mut server = TestServer::start(&LINEAR);
    let relay = Relay::start(server.address(), Box::new(|_| (None, None))).await;
    let mut counter = Counter::join(&relay.url(), top_k(), 1).await;
    counter.pull().await.unwrap();
    for round in 1..=3 {
        relay.hold_after(Way::Down, 0);
        counter.push().await;
        counter.push().await;
        server.wait_for_updates_of(0, 2 * round);
        relay.cut();
        relay.release(Way::Down);
        counter.pull().await.unwrap();
        let settled = counter.session.take_settled();
        let accepted = settled
            .iter()
            .filter(|settled| settled.verdict.decision == Decision::Accepted);
        assert_eq!(accepted.count(), 2, "{settled:?}");
    }
    assert_eq!(counter.session.reconnects(), 3);
    let events = assert_balanced(&mut server, counter).await;
    assert_eq!(updates(&events).len(), 6);
}

/// C13 with the server killed in between: what it had applied is gone, so the worker takes it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_server_forgot_is_put_back() {
    let server = TestServer::start(&LINEAR);
    let relay = Relay::start(server.address(), Box::new(|_| (None, None))).await;
    let mut counter = Counter::join(&relay.url(), top_k(), 1).await;
    counter.pull().await.unwrap();
    relay.hold_after(Way::Down, 0);
    counter.push().await;
    counter.push().await;
    server.wait_for_updates_of(0, 2);
    let mut server = server.restart();
    relay.cut();
    relay.release(Way::Down);
    counter.pull().await.unwrap();
    let settled = counter.session.take_settled();
    let reasons = settled
        .iter()
        .map(|settled| settled.verdict.reason)
        .collect::<Vec<_>>();
    assert_eq!(reasons, [Some(RejectReason::WrongGeneration); 2]);
    assert_eq!(counter.taken(), vec![0.0; 200], "all of it is in the residual");
    counter.push().await;
    server.wait_for_updates_of(0, 1);
    assert_balanced(&mut server, counter).await;
}

/// The server remembers so many verdicts of a worker; more pushes than that must not be undecided at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_pushes_for_one_pull_survive_a_cut() {
    let mut server = TestServer::start(&LINEAR);
    let relay = Relay::start(server.address(), Box::new(|_| (None, None))).await;
    let mut counter = Counter::join(&relay.url(), top_k(), 1).await;
    counter.pull().await.unwrap();
    for _ in 0..150 {
        counter.push().await;
    }
    server.wait_for_updates_of(0, 150);
    relay.cut();
    counter.pull().await.unwrap();
    counter.push().await;
    server.wait_for_updates_of(0, 151);
    let events = assert_balanced(&mut server, counter).await;
    let updates = updates(&events);
    assert!(
        updates
            .iter()
            .all(|update| update.reason != Some(RejectReason::ForgottenId))
    );
}
