//! What a batch, a step and an evaluation take on this machine, and how fast plain SGD learns.
//!
//! `cargo run --release -p asgc-nn --example timings -- [procedural|fashion_mnist|cifar10] [STEPS] [DATA_ROOT]`
#![allow(clippy::print_stdout, reason = "a program for people")]

use asgc_core::config::{Dataset, Model};
use asgc_core::ids::WorkerId;
use asgc_nn::{Evaluator, EvaluatorSpec, Trainer, TrainerSpec, initial_parameters};
use std::time::Instant;

const LR: f32 = 0.05;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |i: usize, default: &str| arguments.get(i).map_or(default, String::as_str).to_owned();
    let (dataset, model) = match argument(0, "procedural").as_str() {
        "fashion_mnist" => (Dataset::FashionMnist, Model::SmallCnn),
        "cifar10" => (Dataset::Cifar10, Model::Resnet18),
        _ => (Dataset::Procedural, Model::SmallCnn),
    };
    let steps: usize = argument(1, "100").parse()?;
    let spec = TrainerSpec {
        dataset,
        data_root: argument(2, "data").into(),
        model,
        batch_size: 128,
        seed: 0,
        worker: WorkerId(0),
        num_workers: 3,
        device: "auto".into(),
        threads: 1,
    };
    let start = Instant::now();
    let mut trainer = Trainer::new(&spec)?;
    println!(
        "loading a shard of {}: {:.2} s",
        trainer.shard_len(),
        start.elapsed().as_secs_f64()
    );

    let mut parameters = initial_parameters(model, spec.seed)?;
    train(&mut trainer, &mut parameters, steps)?;

    let mut evaluator = Evaluator::new(&evaluator_spec(spec))?;
    let start = Instant::now();
    let evaluation = evaluator.evaluate(&parameters)?;
    let elapsed = start.elapsed().as_secs_f64();
    println!(
        "evaluation: {elapsed:.2} s, accuracy {:.4}, loss {:.4}",
        evaluation.accuracy, evaluation.loss
    );
    Ok(())
}

fn train(trainer: &mut Trainer, parameters: &mut [f32], steps: usize) -> Result<(), asgc_nn::Error> {
    let mut gradient = vec![0.0; parameters.len()];
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..steps {
        let start = Instant::now();
        trainer.set_parameters(parameters)?;
        let set = start.elapsed();
        let batch = trainer.next_batch()?;
        let cut = start.elapsed();
        trainer.gradient(&batch, &mut gradient)?;
        let done = start.elapsed();
        for (times, time) in times.iter_mut().zip([set, cut - set, done - cut]) {
            times.push(time.as_secs_f64() * 1e3);
        }
        parameters
            .iter_mut()
            .zip(&gradient)
            .for_each(|(p, g)| *p -= LR * g);
    }
    for (name, times) in ["set parameters", "batch", "gradient"].iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        if let (Some(least), Some(median)) = (times.first(), times.get(times.len() / 2)) {
            println!("{name}: median {median:.3} ms, least {least:.3} ms");
        }
    }
    Ok(())
}

fn evaluator_spec(spec: TrainerSpec) -> EvaluatorSpec {
    EvaluatorSpec {
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
    }
}
