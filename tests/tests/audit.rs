//! What was decided can be told and recomputed: the controls, the log, and what a full disk leaves of it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use asgc_client::Admin;
use asgc_core::codec::Codec;
use asgc_core::controller::report::Report;
use asgc_core::event::{Control, Event, Operator, Override, Update};
use asgc_core::ids::{Density, WorkerId};
use asgc_daemon::event_log::EVENTS_FILE;
use asgc_lab::replay::replay;
use asgc_lab::{explain::explain, read_log};
use asgc_tests::server::{Settings, flags, updates, updates_of};
use asgc_tests::wait::{until, within};
use asgc_tests::{Process, TestServer, TestWorker, programs, truth};
use nix::sys::signal::Signal;
use std::fs;

/// Two trainers on a small model, whose gradients are cut to a quarter; a decision every 25 versions.
const ADAPTIVE: [(&str, &str); 12] = [
    ("workload.batch_size", "8"),
    ("workload.num_workers", "2"),
    ("workload.max_updates", "600"),
    ("workload.eval_interval", "10"),
    ("compression.mode", "topk"),
    ("error_feedback.enabled", "true"),
    ("staleness.enabled", "true"),
    ("controller.enabled", "true"),
    ("controller.interval_versions", "25"),
    ("controller.comm_pressure_min", "1"),
    ("controller.rho_bounds", "[0.05, 0.5]"),
    ("server.min_workers", "2"),
];

fn start(settings: Settings<'_>) -> TestServer {
    TestServer::start(&[&ADAPTIVE, settings].concat())
}

fn controls(events: &[Event]) -> Vec<&Control> {
    let controls = events.iter().filter_map(|event| match event {
        Event::Control(control) => Some(control),
        _ => None,
    });
    controls.collect()
}

fn topk(rho: f64) -> Codec {
    Codec::TopK(Density::new(rho).unwrap())
}

/// A run of two trainers, and an evaluator if wanted, to its end; its log must be true and replay.
fn replays(settings: Settings<'_>, evaluated: bool) -> Vec<Event> {
    let mut server = start(settings);
    let mut workers = [0, 1].map(|id| TestWorker::trainer(&server, id, &[]));
    let mut evaluator = evaluated.then(|| TestWorker::evaluator(&server, &[]));
    assert_eq!(server.process().wait(), Some(0), "{}", server.process().log());
    workers
        .iter_mut()
        .chain(&mut evaluator)
        .for_each(TestWorker::finished);
    let path = server.run_folder().join(EVENTS_FILE);
    let replayed = replay(&path, |_| {}).unwrap();
    let events = read_log(&path).unwrap().events;
    assert!(replayed.ended && replayed.events == events.len() as u64);
    let account = explain(&events, 100);
    assert!(account.contains("decisions\n"), "{account}");
    truth::check(&events);
    events
}

#[test]
fn live_runs_of_each_policy_replay() {
    for policy in ["threshold", "score", "budget"] {
        let events = replays(&[("controller.policy", policy)], true);
        let controls = controls(&events);
        assert!(controls.len() >= 5, "{policy}: {}", controls.len());
        assert!(controls.iter().all(|control| control.policy == policy));
    }
}

#[test]
fn a_log_in_pieces_replays() {
    let events = replays(&[("telemetry.events_max_bytes", "20000")], true);
    assert!(updates(&events).len() >= 600);
}

#[test]
fn without_an_evaluator_the_training_loss_stands_in() {
    let events = replays(&[], false);
    let found = controls(&events);
    assert!(
        found
            .iter()
            .any(|control| control.reason.ends_with(", by training loss"))
    );
}

#[test]
fn workers_tell_of_their_links() {
    let events = replays(
        &[
            ("heterogeneity.bandwidth_mbps", "8"),
            ("heterogeneity.comm_delay_ms", "1"),
        ],
        false,
    );
    let measured = |update: &&Update| update.upload_s.zip(update.upload_bytes).zip(update.rtt_s);
    let samples = updates(&events).iter().filter_map(measured).collect::<Vec<_>>();
    assert!(samples.len() > 500, "{}", samples.len());
    for ((upload_s, bytes), rtt_s) in samples {
        // 1 MB/s, and no less: the rate is kept by waiting. The delay is round trip.
        assert!(
            upload_s >= 0.99 * bytes as f64 / 1e6 && rtt_s >= 0.001,
            "{bytes} B in {upload_s} s, {rtt_s} s"
        );
    }
    assert!(
        updates(&events)
            .iter()
            .all(|update| update.residual_dropped_norm == 0.0 && update.gradient_norm > 0.0)
    );
}

#[test]
fn links_and_benefit_are_shown() {
    let mut server = start(&[("workload.max_updates", "1000000"), ("compression.auto", "true")]);
    let _workers = [0, 1].map(|id| TestWorker::trainer(&server, id, &[]));
    server.wait_for_updates_of(0, 30);
    server.wait_for_updates_of(1, 30);
    let page = until("the links of both", || {
        let page = server.metrics();
        let known = ["0", "1"].map(|id| {
            page.value("asgc_compression_beneficial", &[("worker", id)])
                .is_some()
        });
        (known == [true, true]).then_some(page)
    });
    for name in [
        "asgc_server_worker_goodput_bytes_per_second",
        "asgc_server_worker_rtt_seconds",
        "asgc_server_worker_comm_share_ratio",
        "asgc_server_worker_updates_per_second",
        "asgc_server_worker_predicted_updates_per_second",
        "asgc_server_worker_dense_updates_per_second",
        "asgc_server_worker_residual_ratio",
        "asgc_server_worker_rho_ratio",
    ] {
        assert!(
            page.value(name, &[("worker", "1")]).is_some_and(f64::is_finite),
            "{name}"
        );
    }
    server.signal(Signal::SIGTERM);
    server.finished();
}

fn operator(set: Override) -> Operator {
    Operator {
        by: "somebody@here".into(),
        why: "to see".into(),
        set,
    }
}

#[tokio::test]
async fn an_operator_sees_and_changes_the_controls() {
    let mut server = start(&[
        ("workload.max_updates", "1000000"),
        ("controller.comm_pressure_min", "1e18"),
    ]);
    let _workers = [0, 1].map(|id| TestWorker::trainer(&server, id, &[]));
    server.wait_for_updates_of(0, 30);
    server.wait_for_updates_of(1, 30);
    let mut admin = within("a connection", Admin::connect(&server.url()))
        .await
        .unwrap();
    let report: Report = within("an answer", admin.controls()).await.unwrap();
    assert_eq!((report.policy.as_str(), report.workers.len()), ("threshold", 2));
    assert_eq!(report.s_max, Some(6));

    let set = Override {
        worker_id: Some(WorkerId(1)),
        codec: Some(topk(0.1)),
        pin: Some(true),
        ..Override::default()
    };
    let control = within("a change", admin.set_controls(&operator(set)))
        .await
        .unwrap();
    assert_eq!(control.workers.len(), 1);
    server.wait_for("a push under the new controls", |events| {
        let confirmed = |update: &&Update| update.controls_revision == control.revision;
        updates_of(events, 1).into_iter().find(confirmed).map(|_| ())
    });
    assert!(
        updates_of(&server.events(), 0)
            .iter()
            .all(|update| update.controls_revision.0 == 0)
    );
    let report = within("an answer", admin.controls()).await.unwrap();
    assert_eq!(
        report
            .workers
            .iter()
            .map(|worker| worker.pinned)
            .collect::<Vec<_>>(),
        [false, true]
    );

    let refused = |set| operator(set);
    for (set, why) in [
        (
            Override {
                codec: Some(topk(0.9)),
                ..Override::default()
            },
            "rho must lie between 0.05 and 0.5",
        ),
        (
            Override {
                s_max: Some(99),
                ..Override::default()
            },
            "s_max must lie between 2 and 10",
        ),
        (
            Override {
                worker_id: Some(WorkerId(7)),
                codec: Some(topk(0.1)),
                ..Override::default()
            },
            "no trainer 7",
        ),
        (Override::default(), "nothing to set"),
    ] {
        let error = within("a refusal", admin.set_controls(&refused(set)))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{error}");
    }
    server.signal(Signal::SIGTERM);
    let events = server.finished();
    let by_hand = controls(&events)
        .into_iter()
        .filter_map(|control| control.operator.as_ref())
        .collect::<Vec<_>>();
    assert_eq!((by_hand.len(), by_hand[0].why.as_str()), (1, "to see"));
    assert!(
        replay(&server.run_folder().join(EVENTS_FILE), |_| {})
            .unwrap()
            .ended
    );
}

#[tokio::test]
async fn nobody_there_is_said_with_what_to_do() {
    let error = within("an error", Admin::connect("http://127.0.0.1:9"))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("no answer from http://127.0.0.1:9: ") && error.contains("is the server running"),
        "{error}"
    );
}

/// A server that may write files of 64 kB and no more.
fn cramped(folder: &std::path::Path, on_error: &str) -> Process {
    let addresses = folder.join("address.json").display().to_string();
    let settings = [
        ("server.listen", "127.0.0.1:0"),
        ("server.address_file", addresses.as_str()),
        ("run.results_dir", folder.to_str().unwrap()),
        ("run.name", "run"),
        ("telemetry.metrics_listen", "127.0.0.1:0"),
        ("telemetry.events_on_error", on_error),
        ("telemetry.log", "error"),
        ("workload.batch_size", "8"),
        ("workload.num_workers", "1"),
        ("workload.max_updates", "600"),
    ];
    let limited = "trap '' XFSZ; ulimit -f 128; exec \"$0\" \"$@\"";
    let mut args = vec![
        "-c".to_owned(),
        limited.to_owned(),
        programs::find("asgc-server").display().to_string(),
    ];
    args.extend(flags(&settings));
    Process::start(std::path::Path::new("/bin/sh"), &args, &folder.join("server.log"))
}

/// Trains until the log is full: the server's log lines, and what the log holds.
fn until_full(on_error: &str) -> (String, Vec<Event>) {
    let folder = tempfile::tempdir().unwrap();
    let mut server = cramped(folder.path(), on_error);
    let endpoints = until("the server", || {
        asgc_daemon::endpoints::Endpoints::read(&folder.path().join("address.json"), server.id())
    });
    let url = format!("http://{}", endpoints.grpc);
    let worker = flags(&[("worker.server", url.as_str()), ("worker.id", "0")]);
    let mut worker = Process::start(
        &programs::find("asgc-test-worker"),
        &worker,
        &folder.path().join("worker.log"),
    );
    assert_eq!(server.wait(), Some(1), "{}", server.log());
    assert_eq!(worker.wait(), Some(0), "{}", worker.log());
    let path = folder.path().join("run").join(EVENTS_FILE);
    assert!(fs::metadata(&path).unwrap().len() <= 64 << 10);
    let log = read_log(&path).unwrap();
    assert!(!log.truncated, "it ends with a whole line");
    let replayed = replay(&path, |_| {}).unwrap();
    assert!(!replayed.ended && replayed.versions > 10);
    (server.log(), log.events)
}

#[test]
fn a_full_disk_ends_the_log_and_training_goes_on() {
    let (log, events) = until_full("continue");
    assert!(
        log.contains("the log ends here") && log.contains("the log is not whole"),
        "{log}"
    );
    assert!(updates(&events).len() < 600);
}

#[test]
fn a_full_disk_stops_the_run_where_that_is_wanted() {
    let (log, _) = until_full("stop");
    assert!(log.contains("the log ends here"), "{log}");
}
