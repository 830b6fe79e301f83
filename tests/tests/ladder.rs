//! From plain SGD to a parameter server, each step the same to the last bit.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use asgc_core::event::Event;
use asgc_core::ids::WorkerId;
use asgc_core::task::Task as _;
use asgc_tests::server::{Settings, updates};
use asgc_tests::task::TENSORS;
use asgc_tests::{Quadratic, TestServer, TestWorker, truth};

const SEED: u64 = 11;
const STEPS: u64 = 60;

fn task() -> Quadratic {
    Quadratic {
        seed: SEED,
        rows: 300,
    }
}

/// Plain SGD, without anything of asgc but the gradients: what one machine would do.
fn plain_sgd(momentum: f32) -> Vec<f32> {
    let task = task();
    let (mut theta, lr) = (task.initial(), 0.3f64 as f32);
    let (mut velocity, mut gradient) = (vec![0.0; theta.len()], vec![0.0; theta.len()]);
    let mut trainer = task.trainer(WorkerId(0)).unwrap();
    for _ in 0..STEPS {
        trainer.set_parameters(&theta).unwrap();
        trainer.next_batch().unwrap();
        trainer.gradient(&mut gradient).unwrap();
        for ((theta, &g), v) in theta.iter_mut().zip(&gradient).zip(&mut velocity) {
            *v = momentum * *v + g;
            *theta -= lr * *v;
        }
    }
    theta
}

/// One worker's run: its events and the model that it leaves.
fn run(settings: Settings<'_>) -> (Vec<Event>, Vec<f32>) {
    let (seed, steps) = (SEED.to_string(), STEPS.to_string());
    let own = [
        ("run.seed", seed.as_str()),
        ("workload.batch_size", "300"),
        ("workload.num_workers", "1"),
        ("workload.lr", "0.3"),
        ("workload.max_updates", &steps),
        // Many chunks a snapshot and a push.
        ("server.chunk_bytes", "1024"),
    ];
    let mut server = TestServer::start(&[&own[..], settings].concat());
    let mut worker = TestWorker::trainer(&server, 0, &[]);
    let events = server.finished();
    worker.finished();
    let (sums, end) = truth::check(&events);
    assert_eq!((sums.version, sums.rejected, end.max_staleness), (STEPS, 0, 0));
    (events, server.model(&TENSORS))
}

#[track_caller]
fn assert_same_bits(found: &[f32], expected: &[f32]) {
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert!(bits(found) == bits(expected), "the models differ");
}

#[test]
fn one_async_worker_is_plain_sgd() {
    let (events, model) = run(&[]);
    assert_same_bits(&model, &plain_sgd(0.0));
    let dense = 4 * task().tensors().parameters() as u64;
    assert!(
        updates(&events)
            .iter()
            .all(|update| update.payload_bytes == dense)
    );
}

#[test]
fn one_sync_worker_is_plain_sgd() {
    let (_, model) = run(&[("server.mode", "sync")]);
    assert_same_bits(&model, &plain_sgd(0.0));
}

#[test]
fn one_ssp_worker_with_momentum_is_plain_sgd_with_momentum() {
    let (_, model) = run(&[("server.mode", "ssp"), ("optimizer.momentum", "0.9")]);
    assert_same_bits(&model, &plain_sgd(0.9));
}

#[test]
fn staleness_rules_and_error_feedback_change_nothing_where_there_is_no_staleness_and_no_loss() {
    let (_, model) = run(&[
        ("staleness.enabled", "true"),
        ("staleness.s_low", "0"),
        ("staleness.s_max", "0"),
        ("error_feedback.enabled", "true"),
    ]);
    assert_same_bits(&model, &plain_sgd(0.0));
}

#[test]
fn top_k_of_everything_is_the_gradient_itself() {
    let (events, model) = run(&[
        ("compression.mode", "topk"),
        ("compression.rho", "1"),
        ("error_feedback.enabled", "true"),
    ]);
    assert_same_bits(&model, &plain_sgd(0.0));
    let entries = 8 * task().tensors().parameters() as u64;
    assert!(
        updates(&events)
            .iter()
            .all(|update| update.payload_bytes == entries)
    );
}

#[test]
fn the_same_seed_gives_the_same_model_under_compression() {
    for settings in [
        [("compression.mode", "topk"), ("error_feedback.enabled", "true")],
        [
            ("compression.mode", "quantize"),
            ("error_feedback.enabled", "true"),
        ],
    ] {
        let ((_, first), (_, second)) = (run(&settings), run(&settings));
        assert_same_bits(&first, &second);
        let off = first
            .iter()
            .zip(&plain_sgd(0.0))
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(off > 0.0 && off < 1.0, "compressed, and near: {off}");
    }
}
