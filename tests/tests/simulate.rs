//! `asgc run --mode simulate` on libtorch, held against itself and against the daemons.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use asgc_core::event::{Event, Update};
use asgc_tests::server::{flags, read_log, updates};
use asgc_tests::wait::until;
use asgc_tests::{Process, programs, truth};
use nix::sys::signal::Signal;
use std::fs;
use std::path::Path;

const FILE: &str = "[workload]\ndataset = \"procedural\"\nbatch_size = 16\nnum_workers = 3\nlr = 0.1\n\
                    max_updates = 60\neval_interval = 20\n\
                    [heterogeneity.compute_delay]\n1 = 0.05\n\
                    [compression]\nmode = \"topk\"\nrho = 0.1\n[error_feedback]\nenabled = true\n\
                    [simulation]\nstep = \"lognormal\"\nstep_s = 0.01\nlatency_ms = 1\nuplink_mbps = 50\n";

/// `asgc run` in `folder`, so that the configurations of two runs are the same.
fn run(folder: &Path, mode: &str, set: &[(&str, &str)]) -> Process {
    let file = folder.join("run.toml");
    fs::write(&file, FILE).unwrap();
    let results = folder.join("results").display().to_string();
    let own = [
        ("run.name", "run"),
        ("run.device", "cpu"),
        ("run.results_dir", &results),
    ];
    let set = flags(&[own.as_slice(), set].concat());
    let args = ["run", &file.display().to_string(), "--mode", mode].map(str::to_owned);
    let log = folder.join("asgc.log");
    Process::start(&programs::find("asgc"), &[args.to_vec(), set].concat(), &log)
}

fn log_of(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("results/run/events.jsonl")).unwrap()
}

fn events(folder: &Path) -> Vec<Event> {
    read_log(&folder.join("results/run/events.jsonl"))
}

#[test]
fn the_same_file_gives_the_same_bytes_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let with = |threads: &str| {
        let mut asgc = run(folder.path(), "simulate", &[("simulation.threads", threads)]);
        assert_eq!(asgc.wait(), Some(0), "{}", asgc.log());
        log_of(folder.path())
    };
    let one = with("1");
    let (sums, end) = truth::check(&events(folder.path()));
    assert_eq!((sums.version, end.final_test_accuracy.is_some()), (60, true));
    assert!(with("2") == one && with("5") == one, "the logs differ");
    let mut other = run(folder.path(), "simulate", &[("run.seed", "1")]);
    assert_eq!(other.wait(), Some(0));
    assert!(log_of(folder.path()) != one);
}

/// With one worker there is one order of things, so time has no say: a simulated run and a real one do the same sums.
#[test]
fn one_simulated_worker_computes_what_a_real_one_computes() {
    let alone = [("workload.num_workers", "1"), ("workload.max_updates", "30")];
    let numbers = |mode| {
        let folder = tempfile::tempdir().unwrap();
        let mut asgc = run(folder.path(), mode, &alone);
        assert_eq!(asgc.wait(), Some(0), "{}", asgc.log());
        let events = events(folder.path());
        let of = |update: &Update| {
            (
                update.version,
                update.push_id,
                update.payload_bytes,
                update.loss.to_bits(),
                update.gradient_norm.to_bits(),
                update.residual_norm.to_bits(),
            )
        };
        let last = events.iter().rev().find_map(|event| match event {
            Event::Eval(eval) => Some((eval.version, eval.test_loss.to_bits())),
            _ => None,
        });
        (updates(&events).into_iter().map(of).collect::<Vec<_>>(), last)
    };
    let (simulated, real) = (numbers("simulate"), numbers("processes"));
    assert_eq!(simulated.0.len(), 30);
    assert!(simulated == real, "{simulated:?}\n{real:?}");
}

#[test]
fn a_measured_step_is_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let set = [
        ("simulation.step", "measured"),
        ("simulation.step_s", "0"),
        ("workload.max_updates", "5"),
    ];
    let mut asgc = run(folder.path(), "simulate", &set);
    assert_eq!(asgc.wait(), Some(0), "{}", asgc.log());
    let events = events(folder.path());
    let Some(Event::RunStart(start)) = events.first() else {
        panic!("no run_start");
    };
    let step_s = start.config.as_ref().unwrap().simulation.step_s;
    let first = updates(&events)[0].compute_s;
    assert!(step_s > 0.0 && (first - step_s).abs() < 1e-8, "{step_s} {first}");
}

#[test]
fn an_interrupt_drains_a_simulation() {
    let folder = tempfile::tempdir().unwrap();
    let mut asgc = run(
        folder.path(),
        "simulate",
        &[("workload.max_updates", "100000000")],
    );
    until("updates", || {
        let log = fs::read(folder.path().join("results/run/events.jsonl")).unwrap_or_default();
        (log.len() > 20_000).then_some(())
    });
    asgc.signal(Signal::SIGINT);
    assert_eq!(asgc.wait(), Some(0), "{}", asgc.log());
    let (_, end) = truth::check(&events(folder.path()));
    assert_eq!(end.reason, "asked to stop");
}

#[test]
fn an_objective_is_no_work_for_workers() {
    let folder = tempfile::tempdir().unwrap();
    let objective = [("workload.dataset", "synthetic"), ("workload.model", "logistic")];
    let mut asgc = run(folder.path(), "processes", &objective);
    assert_eq!(asgc.wait(), Some(1));
    assert!(asgc.log().contains("use --mode simulate"), "{}", asgc.log());
    let mut asgc = run(folder.path(), "simulate", &objective);
    assert_eq!(asgc.wait(), Some(0), "{}", asgc.log());
    assert!(asgc.log().contains("synthetic, logistic"), "{}", asgc.log());
}

#[test]
fn a_simulation_that_cannot_begin_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let missing = [
        ("workload.dataset", "fashion_mnist"),
        ("run.data_root", "/nonexistent"),
    ];
    let mut asgc = run(folder.path(), "simulate", &missing);
    assert_eq!(asgc.wait(), Some(1));
    assert!(asgc.log().contains("/nonexistent"), "{}", asgc.log());
    let mut asgc = run(folder.path(), "simulate", &[("simulation.loss", "2")]);
    assert_eq!(asgc.wait(), Some(64));
    assert!(asgc.log().contains("simulation.loss: must be"), "{}", asgc.log());
}
