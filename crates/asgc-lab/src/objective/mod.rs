//! Problems whose gradient is a formula: for questions of scale, where a network would only cost time.
//!
//! | model | loss of a worker | gradient | "accuracy" |
//! |---|---|---|---|
//! | `quadratic` | `sum_i h_i (x_i - c_i)^2 / 2` | `h (x - c) + noise` | `1 - f(x) / f(0)`, at least 0 |
//! | `logistic` | `mean log(1 + exp(-y z))`, `z = w . x` | `-mean y x sigmoid(-y z)` | share of a test set with `y z > 0` |
//!
//! Everything is drawn from `run.seed`: the same run on any machine, number of threads and in any order.

mod logistic;
mod quadratic;

use asgc_core::config::{Config, Model};
use asgc_core::layout::{Layout, TensorSpec};
use asgc_core::task::{BoxError, Task};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

/// The objective that `workload.model` names; `None` where that is a network.
#[must_use]
pub fn task(config: &Config) -> Option<Box<dyn Task>> {
    match config.workload.model {
        Model::Quadratic => Some(Box::new(quadratic::Quadratic::new(config))),
        Model::Logistic => Some(Box::new(logistic::Logistic::new(config))),
        Model::SmallCnn | Model::ToyCnn | Model::Resnet8 | Model::Resnet18 => None,
    }
}

fn layout(dimension: usize) -> Result<Layout, BoxError> {
    let tensor = TensorSpec {
        name: "weight".into(),
        shape: vec![dimension],
    };
    Ok(Layout::new(vec![tensor])?)
}

/// The generator of `seed`'s sub-sequence `stream`.
fn generator(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

#[cfg(test)]
mod tests {
    use super::*;
    use asgc_core::config::Dataset;
    use asgc_core::ids::WorkerId;

    fn config(model: Model) -> Config {
        let mut config = Config::default();
        (config.workload.model, config.workload.dataset) = (model, Dataset::Synthetic);
        (config.workload.batch_size, config.workload.num_workers) = (16, 4);
        (config.objective.dimension, config.objective.samples) = (10, 400);
        config
    }

    /// The gradient is the loss's slope: both are asked of one batch, at points around one.
    #[test]
    fn gradients_are_slopes() {
        for model in [Model::Quadratic, Model::Logistic] {
            let mut config = config(model);
            config.objective.noise = 0.0;
            let task = task(&config).unwrap();
            let at = (0..10).map(|i| 0.1 * i as f32 - 0.3).collect::<Vec<_>>();
            let loss_at = |point: &[f32], gradient: &mut [f32]| {
                let mut trainer = task.trainer(WorkerId(1)).unwrap();
                trainer.set_parameters(point).unwrap();
                trainer.next_batch().unwrap();
                trainer.gradient(gradient).unwrap().loss
            };
            let mut gradient = vec![0.0; 10];
            loss_at(&at, &mut gradient);
            for i in 0..10 {
                let moved = |by: f32| {
                    let mut point = at.clone();
                    point[i] += by;
                    loss_at(&point, &mut [0.0; 10])
                };
                let slope = (moved(0.01) - moved(-0.01)) / 0.02;
                assert!(
                    (slope - f64::from(gradient[i])).abs() < 1e-3,
                    "{model:?} {i}: {slope} {}",
                    gradient[i]
                );
            }
        }
    }

    #[test]
    fn workers_have_samples_of_their_own_and_the_same_ones_each_time() {
        for model in [Model::Quadratic, Model::Logistic] {
            let task = task(&config(model)).unwrap();
            let first = |worker| {
                let mut trainer = task.trainer(WorkerId(worker)).unwrap();
                let mut gradient = vec![0.0; 10];
                trainer.set_parameters(&[0.5; 10]).unwrap();
                trainer.next_batch().unwrap();
                trainer.gradient(&mut gradient).unwrap();
                gradient
            };
            assert_eq!(first(0), first(0));
            assert_ne!(first(0), first(1));
        }
    }

    #[test]
    fn descent_goes_down() {
        for model in [Model::Quadratic, Model::Logistic] {
            let task = task(&config(model)).unwrap();
            let mut at = task.initial_parameters().unwrap();
            let mut evaluator = task.evaluator().unwrap();
            let before = evaluator.evaluate(&at).unwrap();
            let mut trainers = (0..4)
                .map(|w| task.trainer(WorkerId(w)).unwrap())
                .collect::<Vec<_>>();
            let mut gradient = vec![0.0; 10];
            for step in 0..400 {
                let trainer = &mut trainers[step % 4];
                trainer.set_parameters(&at).unwrap();
                trainer.next_batch().unwrap();
                trainer.gradient(&mut gradient).unwrap();
                at.iter_mut().zip(&gradient).for_each(|(x, g)| *x -= 0.2 * g);
            }
            let after = evaluator.evaluate(&at).unwrap();
            assert!(
                after.loss < 0.7 * before.loss,
                "{model:?}: {} -> {}",
                before.loss,
                after.loss
            );
            assert!(after.accuracy > 0.8, "{model:?}: {}", after.accuracy);
        }
    }

    #[test]
    fn a_network_is_no_objective() {
        assert!(task(&Config::default()).is_none());
    }
}
