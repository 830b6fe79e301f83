//! A model made of arithmetic: the mean of noisy targets, by gradient descent.
//!
//! `loss = |theta - target_t|^2 / 2`, so `gradient = theta - target_t`, where `target_t` is a fixed target and
//! noise that depends on seed, worker and step alone.

use asgc_core::ids::WorkerId;
use asgc_core::layout::{Layout, TensorSpec};
use asgc_core::task::{Computed, Evaluator, Measurement, Task, Trainer};
use asgc_daemon::exit::BoxError;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// The names of its tensors, in order.
pub const TENSORS: [&str; 2] = ["layer.weight", "layer.bias"];

/// The task: `rows` times 4 weights and `rows` biases.
#[derive(Debug, Clone, Copy)]
pub struct Quadratic {
    /// Seed of everything.
    pub seed: u64,
    /// Five parameters each.
    pub rows: usize,
}

impl Quadratic {
    /// A small one.
    #[must_use]
    pub fn small() -> Self {
        Self { seed: 0, rows: 8 }
    }

    /// With `rows` rows.
    #[must_use]
    pub fn with_rows(rows: usize) -> Self {
        Self { seed: 0, rows }
    }

    /// The layout.
    #[must_use]
    pub fn tensors(&self) -> Layout {
        let spec = |name: &str, shape: &[usize]| TensorSpec {
            name: name.into(),
            shape: shape.to_vec(),
        };
        let specs = vec![spec(TENSORS[0], &[self.rows, 4]), spec(TENSORS[1], &[self.rows])];
        Layout::new(specs).unwrap()
    }

    /// Where training starts.
    #[must_use]
    pub fn initial(&self) -> Vec<f32> {
        self.draw(u64::MAX, 4.0)
    }

    /// Where it leads.
    #[must_use]
    pub fn target(&self) -> Vec<f32> {
        self.draw(u64::MAX - 1, 1.0)
    }

    fn draw(&self, stream: u64, scale: f32) -> Vec<f32> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(stream);
        (0..5 * self.rows)
            .map(|_| rng.random_range(-scale..scale))
            .collect()
    }
}

impl Task for Quadratic {
    fn layout(&self) -> Result<Layout, BoxError> {
        Ok(self.tensors())
    }

    fn initial_parameters(&self) -> Result<Vec<f32>, BoxError> {
        Ok(self.initial())
    }

    fn trainer(&self, worker: WorkerId) -> Result<Box<dyn Trainer>, BoxError> {
        Ok(Box::new(Descent {
            task: *self,
            target: self.target(),
            worker,
            step: 0,
            theta: Vec::new(),
        }))
    }

    fn evaluator(&self) -> Result<Box<dyn Evaluator>, BoxError> {
        Ok(Box::new(Distance(self.target())))
    }
}

struct Descent {
    task: Quadratic,
    target: Vec<f32>,
    worker: WorkerId,
    step: u64,
    theta: Vec<f32>,
}

impl Trainer for Descent {
    fn set_parameters(&mut self, parameters: &[f32]) -> Result<(), BoxError> {
        parameters.clone_into(&mut self.theta);
        Ok(())
    }

    fn next_batch(&mut self) -> Result<(), BoxError> {
        self.step += 1;
        Ok(())
    }

    fn gradient(&mut self, gradient: &mut [f32]) -> Result<Computed, BoxError> {
        let stream = (u64::from(self.worker.0) << 32) + self.step;
        let noise = self.task.draw(stream, 0.1);
        let mut loss = 0.0;
        for (i, g) in gradient.iter_mut().enumerate() {
            *g = self.theta[i] - self.target[i] - noise[i];
            loss += f64::from(*g) * f64::from(*g) / 2.0;
        }
        Ok(Computed { loss, samples: 1 })
    }
}

struct Distance(Vec<f32>);

impl Evaluator for Distance {
    fn evaluate(&mut self, parameters: &[f32]) -> Result<Measurement, BoxError> {
        let square = |(p, t): (&f32, &f32)| f64::from(p - t) * f64::from(p - t) / 2.0;
        let loss = parameters.iter().zip(&self.0).map(square).sum::<f64>();
        Ok(Measurement {
            accuracy: 1.0 / (1.0 + loss),
            loss,
            buffers: Vec::new(),
        })
    }
}
