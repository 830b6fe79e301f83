//! The real worker on libtorch, and `asgc local` around it, on images that a procedure draws.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use asgc_core::config::{Dataset, Model};
use asgc_core::event::Event;
use asgc_core::ids::WorkerId;
use asgc_nn::TrainerSpec;
use asgc_tests::server::{flags, read_log, updates};
use asgc_tests::wait::until;
use asgc_tests::{Process, TestServer, programs, truth};
use nix::sys::signal::Signal;
use std::fs;
use std::path::{Path, PathBuf};

const STEPS: u64 = 20;
const SEED: u64 = 5;

/// Plain SGD on one machine.
fn plain_sgd() -> Vec<f32> {
    let mut trainer = asgc_nn::Trainer::new(&TrainerSpec {
        dataset: Dataset::Procedural,
        data_root: PathBuf::from("data"),
        model: Model::SmallCnn,
        batch_size: 16,
        seed: SEED,
        worker: WorkerId(0),
        num_workers: 1,
        device: "cpu".into(),
        threads: 1,
    })
    .unwrap();
    let mut theta = asgc_nn::initial_parameters(Model::SmallCnn, SEED).unwrap();
    let (mut gradient, lr) = (vec![0.0; theta.len()], 0.05f64 as f32);
    for _ in 0..STEPS {
        trainer.set_parameters(&theta).unwrap();
        let batch = trainer.next_batch().unwrap();
        trainer.gradient(&batch, &mut gradient).unwrap();
        theta
            .iter_mut()
            .zip(&gradient)
            .for_each(|(theta, g)| *theta -= lr * g);
    }
    theta
}

#[test]
fn one_worker_is_plain_sgd() {
    let (seed, steps) = (SEED.to_string(), STEPS.to_string());
    let mut server = TestServer::start(&[
        ("run.seed", &seed),
        ("workload.dataset", "procedural"),
        ("workload.batch_size", "16"),
        ("workload.num_workers", "1"),
        ("workload.lr", "0.05"),
        ("workload.max_updates", &steps),
    ]);
    let args = flags(&[("worker.server", &server.url()), ("run.device", "cpu")]);
    let log = server.folder().join("worker.log");
    let mut worker = Process::start(&programs::find("asgc-worker"), &args, &log);
    let events = server.finished();
    assert_eq!(worker.wait(), Some(0));
    let (sums, end) = truth::check(&events);
    assert_eq!((sums.version, end.max_staleness), (STEPS, 0));
    let layout = asgc_nn::layout(Model::SmallCnn).unwrap();
    let names = layout
        .tensors()
        .iter()
        .map(|tensor| tensor.name.as_str())
        .collect::<Vec<_>>();
    let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    assert!(
        bits(server.model(&names)) == bits(plain_sgd()),
        "the models differ"
    );
}

/// `asgc local` with three workers and an evaluator, Top-K and error feedback; `max_updates` ends it.
fn local(folder: &Path, max_updates: &str) -> Process {
    let file = folder.join("run.toml");
    let text = "[workload]\ndataset = \"procedural\"\nbatch_size = 32\nnum_workers = 3\nlr = 0.1\neval_interval = 50\n\
                [compression]\nmode = \"topk\"\nrho = 0.25\n[error_feedback]\nenabled = true\n";
    fs::write(&file, text).unwrap();
    let set = flags(&[
        ("run.name", "run"),
        ("run.results_dir", folder.to_str().unwrap()),
        ("run.device", "cpu"),
        ("workload.max_updates", max_updates),
    ]);
    let args = [vec!["local".to_owned(), file.display().to_string()], set].concat();
    Process::start(&programs::find("asgc"), &args, &folder.join("local.log"))
}

fn events(folder: &Path) -> Vec<Event> {
    read_log(&folder.join("run/events.jsonl"))
}

#[test]
fn a_local_run_learns_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut asgc = local(folder.path(), "400");
    assert_eq!(asgc.wait(), Some(0));
    let (sums, end) = truth::check(&events(folder.path()));
    assert_eq!((sums.version, sums.rejected), (400, 0));
    let accuracy = end.final_test_accuracy.unwrap();
    assert!(accuracy > 0.7, "accuracy {accuracy}");
    // k entries of 8 bytes for n of 4.
    assert!(
        (1.9..2.1).contains(&end.compression_ratio),
        "{}",
        end.compression_ratio
    );
    let printed = asgc.log();
    for words in ["400", "model.safetensors", "events.jsonl"] {
        assert!(printed.contains(words), "{printed}");
    }
}

#[test]
fn an_interrupt_drains_a_local_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut asgc = local(folder.path(), "1000000");
    until("updates", || {
        (updates(&events(folder.path())).len() > 20).then_some(())
    });
    asgc.signal(Signal::SIGINT);
    assert_eq!(asgc.wait(), Some(0));
    let events = events(folder.path());
    let (sums, end) = truth::check(&events);
    assert_eq!(end.reason, "asked to drain");
    let evaluated = |event: &Event| matches!(event, Event::Eval(eval) if eval.version.0 == sums.version);
    assert!(events.iter().any(evaluated), "the final version is evaluated");
    assert!(folder.path().join("run/model.safetensors").exists());
}
