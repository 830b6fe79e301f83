//! Pushes that travel while the next gradient is computed: nothing is lost or counted twice, however many are under way.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use asgc_client::{Happening, Pulled, Session};
use asgc_core::codec::Codec;
use asgc_core::event::{Event, RejectReason};
use asgc_core::feedback::Bound;
use asgc_core::ids::{Density, Generation, Version, WorkerId};
use asgc_core::task::Task as _;
use asgc_core::worker::Settings;
use asgc_tests::honest::{options, plain};
use asgc_tests::raw::Peer;
use asgc_tests::relay::{Relay, Way};
use asgc_tests::server::{updates, updates_of};
use asgc_tests::task::TENSORS;
use asgc_tests::wait::within;
use asgc_tests::{Quadratic, TestServer, TestWorker, truth};
use nix::sys::signal::Signal;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// 8 kB of parameters, in chunks of 1 kB, so that snapshots and payloads pass each other in pieces.
const TASK: Quadratic = Quadratic { seed: 3, rows: 400 };

/// Plain SGD with rate 1.
const UNIT: (&str, &str) = ("workload.lr", "1");

/// Whatever is not rejected counts in full.
const LINEAR: [(&str, &str); 5] = [
    ("staleness.enabled", "true"),
    ("staleness.s_low", "4"),
    ("staleness.s_max", "4"),
    ("workload.num_workers", "2"),
    ("server.chunk_bytes", "1024"),
];

/// A client with several pushes under way, whose gradients are small whole numbers, so that every sum is exact.
struct Deep {
    session: Session,
    depth: usize,
    rng: ChaCha8Rng,
    base: Option<(Generation, Version)>,
    sum: Vec<f64>,
}

impl Deep {
    async fn join(url: &str, (settings, depth): (Settings, usize), seed: u64) -> Self {
        let session = Session::join(options(url), TASK.tensors(), settings);
        let mut session = within("admission", session).await.unwrap();
        session.request_pull();
        Self {
            sum: vec![0.0; session.layout().parameters()],
            session,
            depth,
            rng: ChaCha8Rng::seed_from_u64(seed),
            base: None,
        }
    }

    /// Hands in as many gradients as may be under way.
    fn fill(&mut self) {
        let Some(base) = self.base else { return };
        while self.session.in_flight() < self.depth {
            let mut gradient = (0..self.sum.len())
                .map(|_| self.rng.random_range(-8..=8) as f32)
                .collect::<Vec<_>>();
            let sums = self.sum.iter_mut().zip(&gradient);
            sums.for_each(|(sum, &g)| *sum += f64::from(g));
            self.session
                .submit(&mut gradient, base, Default::default())
                .unwrap();
            self.session.request_pull();
        }
    }

    /// Waits for something, and is often kept from waiting to the end.
    async fn next(&mut self) -> Happening {
        loop {
            let patience = self.rng.random_range(1..20);
            let next = self.session.next();
            let interrupted = async {
                for _ in 0..patience {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                biased;
                happening = within("a happening", next) => return happening.unwrap(),
                () = interrupted => {}
            }
        }
    }

    /// False when the run is over.
    async fn turn(&mut self) -> bool {
        match self.next().await {
            Happening::Settled => {}
            Happening::Pulled(Pulled::Stop(_)) => return false,
            Happening::Pulled(Pulled::NeedParameters) => self.session.initialise(initial()).await.unwrap(),
            Happening::Pulled(Pulled::Fresh | Pulled::Unchanged) => {
                self.base = self.session.held();
                assert_eq!(self.session.parameters().len(), self.sum.len());
            }
        }
        true
    }

    async fn train(&mut self) {
        loop {
            self.fill();
            if !self.turn().await {
                return;
            }
        }
    }

    /// Waits for the end of the run without handing in more.
    async fn end(&mut self) {
        self.session.request_pull();
        while self.turn().await {
            self.session.request_pull();
        }
    }

    /// What the server must have taken of it.
    fn taken(&self) -> Vec<f64> {
        assert_eq!(self.session.in_flight(), 0);
        let pairs = self.sum.iter().zip(self.session.residual());
        pairs.map(|(sum, &left)| sum - f64::from(left)).collect()
    }
}

fn initial() -> Vec<f32> {
    let whole = |value: &f32| (value * 16.0).round();
    TASK.initial().iter().map(whole).collect()
}

fn feedback(codec: Codec) -> Settings {
    Settings {
        codec,
        error_feedback: Some(Bound::None),
        ..plain()
    }
}

/// How far the parameters moved: with rate 1, the sum of what was applied.
fn moved(server: &TestServer) -> Vec<f64> {
    let model = server.model(&TENSORS);
    let pairs = initial().into_iter().zip(model);
    pairs
        .map(|(start, end)| f64::from(start) - f64::from(end))
        .collect()
}

/// Two workers, each with `depth` pushes under way, on a link that breaks off at random.
async fn broken_link(settings: Settings, (depth, seed): (usize, u64)) {
    let mut server = TestServer::start(&[&LINEAR[..], &[UNIT, ("workload.max_updates", "250")]].concat());
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut bytes = move || Some(rng.random_range(200..120_000));
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
    let (mut a, mut b) = tokio::join!(
        Deep::join(&url, (settings, depth), 10 * seed),
        Deep::join(&url, (settings, depth), 10 * seed + 1)
    );
    tokio::join!(a.train(), b.train());
    let taken = a.taken().into_iter().zip(b.taken()).map(|(a, b)| a + b);
    let taken = taken.collect::<Vec<_>>();
    a.session.leave("done").await;
    b.session.leave("done").await;
    holder.leave().await;
    let events = server.finished();
    let (sums, _) = truth::check(&events);
    assert!(sums.rejected > 0 && relay.connections() > 10, "{sums:?}");
    assert_eq!(
        moved(&server),
        taken,
        "seed {seed}, {} connections",
        relay.connections()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn top_k_three_deep_over_a_link_that_breaks_is_exact() {
    let settings = feedback(Codec::TopK(Density::new(0.25).unwrap()));
    for seed in 1..=3 {
        broken_link(settings, (3, seed)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identity_as_deep_as_can_be_over_a_link_that_breaks_is_exact() {
    broken_link(feedback(Codec::Identity), (16, 4)).await;
}

/// Pushes that the server applied before it was killed are gone with it; those under way are put back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_under_way_to_a_killed_server_is_put_back() {
    let server = TestServer::start(&[&LINEAR[..], &[UNIT]].concat());
    let relay = Relay::start(server.address(), Box::new(|_| (None, None))).await;
    let mut deep = Deep::join(&relay.url(), (feedback(Codec::Identity), 4), 1).await;
    while deep.base.is_none() {
        assert!(deep.turn().await);
    }
    relay.hold_after(Way::Down, 0);
    deep.fill();
    // The four arrive while nothing comes back.
    let arrived = tokio::task::spawn_blocking({
        let folder = server.run_folder().join("events.jsonl");
        move || {
            asgc_tests::wait::until("four updates", || {
                let events = asgc_tests::server::read_log(&folder);
                (updates_of(&events, 0).len() == 4).then_some(())
            });
        }
    });
    tokio::select! {
        happening = deep.next() => panic!("{happening:?}"),
        arrived = arrived => arrived.unwrap(),
    }
    let mut server = server.restart();
    relay.cut();
    relay.release(Way::Down);
    while deep.session.in_flight() > 0 {
        assert!(deep.turn().await);
    }
    let settled = deep.session.take_settled();
    let reasons = settled.iter().map(|settled| settled.verdict.reason);
    assert!(
        reasons.eq([Some(RejectReason::WrongGeneration); 4]),
        "{settled:?}"
    );
    assert!(
        deep.taken().iter().all(|&taken| taken == 0.0),
        "all of it is in the residual"
    );
    while deep
        .base
        .is_none_or(|(generation, _)| generation != deep.session.generation())
    {
        assert!(deep.turn().await);
    }
    deep.depth = 1;
    deep.fill();
    while deep.session.in_flight() > 0 {
        assert!(deep.turn().await);
    }
    server.signal(Signal::SIGTERM);
    deep.end().await;
    let taken = deep.taken();
    deep.session.leave("done").await;
    truth::check(&server.finished());
    assert_eq!(moved(&server), taken);
}

/// An answer that comes after its pull was given up does no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pull_that_is_dropped_loses_nothing() {
    let mut server = TestServer::start(&[&LINEAR[..], &[UNIT]].concat());
    let mut deep = Deep::join(&server.url(), (feedback(Codec::Identity), 1), 1).await;
    while deep.base.is_none() {
        assert!(deep.turn().await);
    }
    for round in 1..=20 {
        let gradient = vec![1.0; deep.sum.len()];
        let (patience, session) = (deep.rng.random_range(0..30), &mut deep.session);
        let interrupted = async {
            for _ in 0..patience {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            pulled = session.pull() => drop(pulled.unwrap()),
            () = interrupted => {}
        }
        within("parameters", session.pull()).await.unwrap();
        within("a push", session.push(&mut gradient.clone(), Default::default()))
            .await
            .unwrap();
        deep.sum.iter_mut().for_each(|sum| *sum += 1.0);
        within("parameters", session.pull()).await.unwrap();
        assert!(
            session.version() >= Some(Version(round)),
            "round {round}: {:?}",
            session.version()
        );
    }
    server.signal(Signal::SIGTERM);
    deep.end().await;
    let taken = deep.taken();
    deep.session.leave("done").await;
    truth::check(&server.finished());
    assert_eq!(moved(&server), taken);
}

const SMALL: (&str, &str) = ("workload.batch_size", "400");
const DEEP: (&str, &str) = ("worker.pipeline_depth", "3");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deep_workers_lose_no_push_over_cuts_and_rejections() {
    let settings = [
        &LINEAR[..],
        &[SMALL, ("workload.lr", "0.05"), ("workload.max_updates", "400")],
    ]
    .concat();
    let mut server = TestServer::start(&settings);
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let mut bytes = move || Some(rng.random_range(20_000..400_000));
    let budgets = move |number| {
        if number < 20 {
            (bytes(), bytes())
        } else {
            (None, None)
        }
    };
    let relay = Relay::start(server.address(), Box::new(budgets)).await;
    let holder = Peer::evaluator(&server.url(), &Quadratic { seed: 0, ..TASK }.tensors(), 99).await;
    let through = relay.url();
    let own = [DEEP, ("worker.server", through.as_str())];
    let mut workers = [0, 1].map(|id| TestWorker::trainer(&server, id, &own));
    tokio::task::spawn_blocking(move || {
        workers.iter_mut().for_each(TestWorker::finished);
    })
    .await
    .unwrap();
    holder.leave().await;
    let events = server.finished();
    let (sums, _) = truth::check(&events);
    assert!(
        sums.rejected > 0 && relay.connections() > 5,
        "{sums:?}, {}",
        relay.connections()
    );
    for worker in [0, 1] {
        let updates = updates_of(&events, worker);
        assert!(updates.iter().all(|update| update.pipeline_depth == 3));
        assert!(updates.iter().any(|update| update.staleness.0 >= 2));
        // What was under way when the run ended was put back, and so has no verdict in the log.
        let mut ids = updates.iter().map(|update| update.push_id.0).collect::<Vec<_>>();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), updates.len(), "each is decided once");
    }
}

#[test]
fn a_deep_worker_that_is_asked_to_stop_settles_what_is_under_way() {
    let mut server = TestServer::start(&[SMALL, ("workload.max_updates", "100000000")]);
    let mut other = TestWorker::trainer(&server, 1, &[]);
    for _ in 0..3 {
        let before = updates_of(&server.events(), 0).len();
        let mut worker = TestWorker::trainer(&server, 0, &[DEEP]);
        server.wait_for_updates_of(0, before + 30);
        worker.process().signal(Signal::SIGTERM);
        worker.finished();
        assert!(!worker.process().log().contains("without the verdicts"));
    }
    server.signal(Signal::SIGTERM);
    other.finished();
    let events = server.finished();
    truth::check(&events);
    // Each life counts from 1.
    let ids = updates_of(&events, 0)
        .iter()
        .map(|update| update.push_id.0)
        .collect::<Vec<_>>();
    for life in ids.chunk_by(|a, b| b > a) {
        assert!(life.iter().copied().eq(1..=life.len() as u64), "{life:?}");
    }
    let reasons = events.iter().filter_map(|event| match event {
        Event::Leave(leave) if leave.worker_id == Some(WorkerId(0)) => Some(leave.reason.as_str()),
        _ => None,
    });
    assert!(reasons.eq(["asked to stop"; 3]));
}

#[test]
fn a_pipeline_is_refused_in_a_synchronous_run() {
    let server = TestServer::start(&[SMALL, ("server.mode", "sync"), ("workload.num_workers", "1")]);
    let mut worker = TestWorker::trainer(&server, 0, &[DEEP]);
    assert_eq!(worker.process().wait(), Some(1));
    let log = worker.process().log();
    assert!(
        log.contains("worker.pipeline_depth: must be 1 in sync mode"),
        "{log}"
    );
}

/// One worker's pushes of four steps each are the steps themselves.
#[test]
fn local_steps_are_those_of_plain_descent() {
    let settings = [
        SMALL,
        ("workload.lr", "0.25"),
        ("workload.num_workers", "1"),
        ("workload.max_updates", "5"),
    ];
    let mut server = TestServer::start(&settings);
    let mut worker = TestWorker::trainer(&server, 0, &[("worker.local_steps", "4")]);
    worker.finished();
    let events = server.finished();
    truth::check(&events);
    assert!(updates(&events).iter().all(|update| update.samples == 4));
    let task = Quadratic { seed: 0, ..TASK };
    let (mut theta, mut trainer) = (task.initial(), task.trainer(WorkerId(0)).unwrap());
    let mut gradient = vec![0.0; theta.len()];
    for _ in 0..20 {
        trainer.set_parameters(&theta).unwrap();
        trainer.next_batch().unwrap();
        trainer.gradient(&mut gradient).unwrap();
        theta
            .iter_mut()
            .zip(&gradient)
            .for_each(|(theta, g)| *theta -= 0.25 * g);
    }
    let model = server.model(&TENSORS);
    let apart = model.iter().zip(&theta).map(|(a, b)| (a - b).abs());
    assert!(apart.fold(0.0, f32::max) < 1e-5);
}
