//! `asgc bench link` with real processes, namespaces and shaping. Needs root, `ip`, `tc` and a kernel with tbf, and
//! says so where it is left out.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use asgc_core::event::Event;
use asgc_daemon::endpoints::Endpoints;
use asgc_tests::wait::until;
use asgc_tests::{Process, programs};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tempfile::TempDir;

/// Stands for `asgc-worker`, which has libtorch: claims a rate, and hands everything else to the tests' worker.
const WORKER: &str = r#"#!/bin/sh
[ "$1" = bench-compute ] && { echo '{"steps":100,"elapsed_s":1.0}'; exit; }
left=$#
while [ $left -gt 0 ]; do
    case "$1" in
        --server | --role | --id) set -- "$@" --set "worker.${1#--}=$2"; shift 2; left=$((left - 2)) ;;
        *) set -- "$@" "$1"; shift; left=$((left - 1)) ;;
    esac
done
exec TEST_WORKER "$@"
"#;

/// The model of the tests' worker has five parameters a row, and `batch_size` rows.
const CONFIG: &str = r#"
[run]
name = "NAME"
results_dir = "RESULTS"
[workload]
batch_size = 2000
num_workers = 2
max_wall_time_s = 600
max_updates = UPDATES
eval_interval = 10
[server]
min_workers = 2
drain_s = 10
[worker]
give_up_after_s = 1
"#;

/// A push of that model, uncompressed.
const PUSH_BYTES: u64 = 4 * 5 * 2000;

/// A network's set-up removes what any dead process left, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

struct Bed {
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Bed {
    /// `None`, and a word about it, where this machine cannot shape links.
    fn new() -> Option<Self> {
        if let Err(why) = means() {
            eprintln!("skipped: {why}");
            return None;
        }
        // A test that failed leaves nothing that another could not live with.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // On the same disk as the programs, so that they can be linked: `asgc` looks for daemons beside itself.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for name in ["asgc", "asgc-server"] {
            fs::hard_link(programs::find(name), folder.path().join(name)).unwrap();
        }
        let test_worker = programs::find("asgc-test-worker").display().to_string();
        let worker = folder.path().join("asgc-worker");
        fs::write(&worker, WORKER.replace("TEST_WORKER", &test_worker)).unwrap();
        fs::set_permissions(&worker, fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self { folder, _turn: turn })
    }

    fn start(&self, name: &str, updates: u64, flags: &[&str]) -> Process {
        let file = self.folder.path().join(format!("{name}.toml"));
        let text = CONFIG
            .replace("NAME", name)
            .replace("RESULTS", &self.folder.path().display().to_string())
            .replace("UPDATES", &updates.to_string());
        fs::write(&file, text).unwrap();
        let args = ["bench", "link", &file.display().to_string(), "--seconds", "1"];
        let args: Vec<_> = args.iter().chain(flags).map(ToString::to_string).collect();
        let log = self.folder.path().join(format!("{name}.log"));
        Process::start(&self.folder.path().join("asgc"), &args, &log)
    }

    fn run_folder(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The whole lines of the log so far.
    fn events(&self, name: &str) -> Vec<Event> {
        let text = fs::read_to_string(self.run_folder(name).join("events.jsonl")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Waits until each of the two workers has pushed.
    fn wait_for_updates_of_both(&self, name: &str) {
        until(&format!("updates of both workers of {name}"), || {
            let events = self.events(name);
            (0..2).all(|worker| pushes(&events, worker) >= 5).then_some(())
        });
    }
}

fn run(line: &str) -> Result<String, String> {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap()).args(words).output();
    let output = output.map_err(|error| format!("{line}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!(
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }
}

/// Tries what shaping needs, in a namespace of its own.
fn means() -> Result<(), String> {
    static TRIED: OnceLock<Result<(), String>> = OnceLock::new();
    let tried = TRIED.get_or_init(|| {
        let space = format!("x{}", std::process::id());
        run(&format!("ip netns add {space}"))?;
        let shaped = run(&format!(
            "tc -n {space} qdisc add dev lo root tbf rate 1mbit burst 2000 latency 1s"
        ));
        run(&format!("ip netns del {space}"))?;
        shaped.map(drop)
    });
    tried.clone()
}

fn pushes(events: &[Event], worker: u32) -> u64 {
    let of = |event: &&Event| matches!(event, Event::Update(update) if update.worker_id.0 == worker);
    events.iter().filter(of).count() as u64
}

/// Namespaces and links that carry the name of process `id`.
fn left(id: u32) -> Vec<String> {
    let listing = run("ip netns list").unwrap() + &run("ip -br link show").unwrap();
    let ours = |line: &&str| {
        ["b", "h", "w"]
            .iter()
            .any(|kind| line.starts_with(&format!("asgc{id}{kind}")))
    };
    listing.lines().filter(ours).map(str::to_owned).collect()
}

/// Bytes that the queue of worker `worker`'s uplink has sent.
fn sent(id: u32, worker: u32) -> u64 {
    let text = run(&format!("tc -n asgc{id}w{worker} -s qdisc show dev eth0")).unwrap();
    assert!(text.starts_with("qdisc tbf "), "{text}");
    let (_, rest) = text.split_once("Sent ").unwrap();
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn pushes_cross_the_shaped_links_and_nothing_is_left_of_them() {
    let Some(bed) = Bed::new() else { return };
    let mut bench = bed.start("whole", 1_000_000, &["--uplink", "40mbit,20mbit", "--json"]);
    let id = bench.id();
    bed.wait_for_updates_of_both("whole");
    let events = bed.events("whole");
    for worker in 0..2 {
        let pushed = pushes(&events, worker);
        let bytes = sent(id, worker);
        assert!(
            bytes >= pushed * PUSH_BYTES,
            "{pushed} pushes of worker {worker} in {bytes} bytes"
        );
    }
    // Two links of two ends each, of which one end shows here, their namespaces, and the bridge.
    assert_eq!(left(id).len(), 5, "{:?}", left(id));
    bench.signal(Signal::SIGINT);
    assert_eq!(
        bench.wait(),
        Some(1),
        "an interrupted series did not end properly"
    );
    let log = bench.log();
    assert!(log.contains("interrupted: 0 of 1 runs ended"), "{log}");
    // The probe counts what arrives, and ends the bench where a byte is missing.
    for rate in [
        "worker 0: uplink 40.00 Mbit/s, carries",
        "worker 1: uplink 20.00 Mbit/s, carries",
    ] {
        assert!(log.contains(rate), "{log}");
    }
    assert_eq!(left(id), [""; 0]);
}

#[test]
fn a_series_ends_with_a_row_a_run_and_changes_come_when_they_are_due() {
    let Some(bed) = Bed::new() else { return };
    let flags = [
        "--uplink",
        "40mbit",
        "--downlink",
        "80mbit",
        "--change-at",
        "0=10mbit",
        "--repeat",
        "2",
        "--json",
    ];
    let mut bench = bed.start("twice", 60, &flags);
    assert_eq!(bench.wait(), Some(0));
    let log = bench.log();
    let rows: Vec<serde_json::Value> = log
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |key: &str| rows.iter().map(|row| row[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("name"), ["twice", "twice"]);
    assert_eq!(of("round"), [1, 2]);
    assert_eq!(
        rows[0]["uplinks_bits_per_s"],
        serde_json::json!([40_000_000, 40_000_000])
    );
    assert!(
        rows.iter().all(|row| row["bytes_a_push"] == PUSH_BYTES as f64),
        "{rows:?}"
    );
    assert_eq!(
        log.matches("0 s: uplinks now 10.00 Mbit/s, 10.00 Mbit/s").count(),
        2,
        "{log}"
    );
    assert!(bed.run_folder("twice-2").join("events.jsonl").exists());
    assert_eq!(left(bench.id()), [""; 0]);
}

#[test]
fn a_second_signal_leaves_nothing_either() {
    let Some(bed) = Bed::new() else { return };
    let mut bench = bed.start("cut", 1_000_000, &["--uplink", "40mbit"]);
    bed.wait_for_updates_of_both("cut");
    bench.signal(Signal::SIGTERM);
    until("the drain", || bench.log().contains("draining").then_some(()));
    bench.signal(Signal::SIGINT);
    // The run may have drained before the second signal came.
    assert!([Some(130), Some(1)].contains(&bench.wait()));
    assert_eq!(left(bench.id()), [""; 0]);
}

#[test]
fn what_a_killed_run_left_is_removed_by_the_next() {
    let Some(bed) = Bed::new() else { return };
    let mut killed = bed.start("killed", 1_000_000, &["--uplink", "40mbit"]);
    bed.wait_for_updates_of_both("killed");
    let server = fs::read(bed.run_folder("killed").join("endpoints.json")).unwrap();
    let server: Endpoints = serde_json::from_slice(&server).unwrap();
    killed.kill();
    assert_eq!(left(killed.id()).len(), 5);
    let workers = run(&format!("ip netns pids asgc{}w0", killed.id())).unwrap();
    assert!(!workers.trim().is_empty(), "the killed run's worker lives on");
    let mut next = bed.start("next", 20, &["--uplink", "40mbit"]);
    assert_eq!(next.wait(), Some(0));
    assert!(
        next.log()
            .contains("an earlier run was killed; removed what it left"),
        "{}",
        next.log()
    );
    for id in [killed.id(), next.id()] {
        assert_eq!(left(id), [""; 0]);
    }
    // Nobody is left to end the server, which is not in a namespace.
    kill(Pid::from_raw(i32::try_from(server.pid).unwrap()), Signal::SIGKILL).unwrap();
}

#[test]
fn a_wrong_command_touches_nothing() {
    let Some(bed) = Bed::new() else { return };
    for (flags, expect) in [
        (
            ["--uplink", "40mbit,20mbit,10mbit"],
            "--uplink: 3 rates for 2 workers",
        ),
        (
            ["--change-at", "5=1mbit,2mbit,3mbit"],
            "--change-at: 3 rates for 2 workers",
        ),
        (["--uplink", "6mb"], "`6mb` is no rate"),
    ] {
        let mut bench = bed.start("wrong", 1, &flags);
        assert_ne!(bench.wait(), Some(0));
        assert!(bench.log().contains(expect), "{}", bench.log());
        assert!(!bed.run_folder("wrong").exists());
        assert_eq!(left(bench.id()), [""; 0]);
    }
}
