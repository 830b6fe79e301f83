use super::*;
use crate::model::initial_parameters;
use crate::{Trainer, TrainerSpec};
use safetensors::SafeTensors;

fn spec(dataset: Dataset, model: Model) -> EvaluatorSpec {
    EvaluatorSpec {
        dataset,
        data_root: PathBuf::new(),
        model,
        eval_batch_size: 512,
        recalibration_batches: 4,
        batch_size: 32,
        seed: 5,
        num_workers: 1,
        device: "cpu".into(),
        threads: 1,
    }
}

fn trainer_spec(spec: &EvaluatorSpec) -> TrainerSpec {
    TrainerSpec {
        dataset: spec.dataset,
        data_root: spec.data_root.clone(),
        model: spec.model,
        batch_size: spec.batch_size,
        seed: spec.seed,
        worker: WorkerId(0),
        num_workers: spec.num_workers,
        device: spec.device.clone(),
        threads: spec.threads,
    }
}

fn train(spec: &EvaluatorSpec, steps: usize, lr: f32) -> Vec<f32> {
    let mut trainer = Trainer::new(&trainer_spec(spec)).unwrap();
    let mut parameters = initial_parameters(spec.model, spec.seed).unwrap();
    let mut gradient = vec![0.0; parameters.len()];
    for _ in 0..steps {
        trainer.set_parameters(&parameters).unwrap();
        trainer.step(&mut gradient).unwrap();
        parameters
            .iter_mut()
            .zip(&gradient)
            .for_each(|(p, g)| *p -= lr * g);
    }
    parameters
}

#[test]
fn a_small_cnn_learns_the_procedural_data() {
    let spec = spec(Dataset::Procedural, Model::SmallCnn);
    let mut evaluator = Evaluator::new(&spec).unwrap();
    let first = evaluator
        .evaluate(&initial_parameters(spec.model, spec.seed).unwrap())
        .unwrap();
    assert!(
        first.accuracy < 0.3 && (2.2..2.4).contains(&first.loss),
        "{first:?}"
    );
    assert!(SafeTensors::deserialize(&first.buffers).unwrap().is_empty());

    let trained = train(&spec, 375, 0.1);
    let last = evaluator.evaluate(&trained).unwrap();
    assert!(
        last.accuracy > 0.9 && last.accuracy < 1.0,
        "{} {}",
        last.accuracy,
        last.loss
    );
    assert_eq!(evaluator.evaluate(&trained).unwrap(), last);
}

#[test]
fn the_size_of_a_test_batch_does_not_matter() {
    let spec = spec(Dataset::Procedural, Model::SmallCnn);
    let parameters = initial_parameters(spec.model, 2).unwrap();
    let of_size = |eval_batch_size| {
        let spec = EvaluatorSpec {
            eval_batch_size,
            ..spec.clone()
        };
        Evaluator::new(&spec).unwrap().evaluate(&parameters).unwrap()
    };
    let (one, other) = (of_size(2000), of_size(333));
    assert_eq!(one.accuracy, other.accuracy);
    assert!((one.loss - other.loss).abs() < 1e-5);
    assert!(
        Evaluator::new(&EvaluatorSpec {
            eval_batch_size: 0,
            ..spec
        })
        .is_err()
    );
}

/// Ten colours a class could be told by, in CIFAR's files.
fn write_cifar(folder: &std::path::Path) {
    let record = |i: usize| {
        let label = (i * 7 % 10) as u8;
        let pixel = |at: usize| (40 + 8 * usize::from(label) * (1 + at / 1024) % 160 + at * i % 23) as u8;
        [vec![label], (0..3072).map(pixel).collect()].concat()
    };
    let names = (1..=5)
        .map(|i| format!("data_batch_{i}.bin"))
        .chain(["test_batch.bin".to_owned()]);
    for (file, name) in names.enumerate() {
        let records: Vec<u8> = (0..8).flat_map(|i| record(8 * file + i)).collect();
        std::fs::write(folder.join(name), records).unwrap();
    }
}

#[test]
fn recalibration_makes_batch_norm_usable() {
    let folder = tempfile::tempdir().unwrap();
    write_cifar(folder.path());
    let spec = EvaluatorSpec {
        data_root: folder.path().to_owned(),
        batch_size: 20,
        ..spec(Dataset::Cifar10, Model::Resnet18)
    };
    let trained = train(&spec, 6, 0.02);
    let mut with = Evaluator::new(&spec).unwrap();
    let recalibrated = with.evaluate(&trained).unwrap();
    let raw_spec = EvaluatorSpec {
        recalibration_batches: 0,
        ..spec.clone()
    };
    let raw = Evaluator::new(&raw_spec).unwrap().evaluate(&trained).unwrap();
    assert!(recalibrated.loss < raw.loss, "{} {}", recalibrated.loss, raw.loss);
    assert!(
        recalibrated.accuracy > raw.accuracy,
        "{} {}",
        recalibrated.accuracy,
        raw.accuracy
    );

    // A function of the parameters: what was evaluated in between leaves no trace.
    with.evaluate(&initial_parameters(spec.model, 9).unwrap())
        .unwrap();
    assert_eq!(with.evaluate(&trained).unwrap(), recalibrated);

    let buffers = SafeTensors::deserialize(&recalibrated.buffers).unwrap();
    assert_eq!(buffers.len(), 60);
    let mean = buffers.tensor("layer2.0.downsample.1.running_mean").unwrap();
    assert_eq!((mean.dtype(), mean.shape()), (Dtype::F32, &[128][..]));
    let tracked = buffers.tensor("bn1.num_batches_tracked").unwrap();
    // The training set has two batches; four were asked for.
    assert_eq!(
        (tracked.dtype(), tracked.shape(), tracked.data()),
        (Dtype::I64, &[][..], &2_i64.to_le_bytes()[..])
    );
}
