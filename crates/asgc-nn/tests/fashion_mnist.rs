//! Training and evaluation on the real Fashion-MNIST; skipped where `scripts/fashion-mnist` has not been run.

use asgc_core::config::{Dataset, Model};
use asgc_core::ids::WorkerId;
use asgc_nn::{Cursor, Evaluator, EvaluatorSpec, Trainer, TrainerSpec, initial_parameters};
use std::path::{Path, PathBuf};

fn data_root() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let found = [
        root.join("fashion-mnist"),
        "/usr/share/datasets/fashion-mnist".into(),
    ]
    .iter()
    .any(|p| p.exists());
    if !found {
        eprintln!("skipped: no Fashion-MNIST; scripts/fashion-mnist gets it");
    }
    found.then_some(root)
}

fn trainer_spec(data_root: PathBuf, worker: u32) -> TrainerSpec {
    TrainerSpec {
        dataset: Dataset::FashionMnist,
        data_root,
        model: Model::SmallCnn,
        batch_size: 128,
        seed: 0,
        worker: WorkerId(worker),
        num_workers: 3,
        device: "cpu".into(),
        threads: 1,
    }
}

#[test]
fn a_third_is_157_batches_of_which_the_last_is_short() {
    let Some(root) = data_root() else { return };
    let mut trainer = Trainer::new(&trainer_spec(root, 2)).unwrap();
    assert_eq!(trainer.shard_len(), 20_000);
    let sizes: Vec<u32> = (0..157)
        .map(|_| trainer.next_batch().unwrap().samples())
        .collect();
    assert!(sizes[..156].iter().all(|&n| n == 128));
    assert_eq!(sizes[156], 32);
    assert_eq!(
        trainer.cursor(),
        Cursor {
            pass: 0,
            position: 20_000
        }
    );
}

#[test]
fn a_hundred_steps_learn_more_than_half() {
    let Some(root) = data_root() else { return };
    let spec = trainer_spec(root, 0);
    let mut trainer = Trainer::new(&spec).unwrap();
    let mut parameters = initial_parameters(spec.model, spec.seed).unwrap();
    let mut gradient = vec![0.0; parameters.len()];
    for _ in 0..100 {
        trainer.set_parameters(&parameters).unwrap();
        trainer.step(&mut gradient).unwrap();
        parameters
            .iter_mut()
            .zip(&gradient)
            .for_each(|(p, g)| *p -= 0.1 * g);
    }
    let mut evaluator = Evaluator::new(&EvaluatorSpec {
        dataset: spec.dataset,
        data_root: spec.data_root,
        model: spec.model,
        eval_batch_size: 512,
        recalibration_batches: 64,
        batch_size: spec.batch_size,
        seed: spec.seed,
        num_workers: spec.num_workers,
        device: spec.device,
        threads: spec.threads,
    })
    .unwrap();
    let evaluation = evaluator.evaluate(&parameters).unwrap();
    assert!(
        evaluation.accuracy > 0.6,
        "{} {}",
        evaluation.accuracy,
        evaluation.loss
    );
    // 10,000 images, each right or wrong.
    let right = evaluation.accuracy * 10_000.0;
    assert!((right - right.round()).abs() < 1e-6, "{right}");
}
