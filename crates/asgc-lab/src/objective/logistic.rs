//! Binary logistic regression on normal samples, labelled by a plane and turned round at random.

use super::{generator, layout};
use asgc_core::config::{Config, Objective};
use asgc_core::ids::WorkerId;
use asgc_core::layout::Layout;
use asgc_core::task::{BoxError, Computed, Evaluator, Measurement, Task, Trainer};
use rand::seq::SliceRandom as _;
use rand::{Rng, RngExt as _};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, StandardNormal};

/// Streams of the seed: the plane, the order of a worker's samples, and one for each sample.
const PLANE: u64 = 1 << 32;
const ORDER: u64 = 2 << 32;
const SAMPLES: u64 = 3 << 32;

/// The test set's samples come after those of any training set.
const TEST: u64 = 1 << 40;
const TEST_SAMPLES: u64 = 2000;

#[derive(Debug, Clone)]
pub(super) struct Logistic {
    objective: Objective,
    seed: u64,
    workers: u32,
    batch_size: usize,
}

impl Logistic {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            objective: config.objective.clone(),
            seed: config.run.seed,
            workers: config.workload.num_workers,
            batch_size: config.workload.batch_size,
        }
    }

    fn draw(&self, numbers: impl Iterator<Item = u64>) -> Samples {
        let dimension = self.objective.dimension;
        let plane = normal(dimension, &mut generator(self.seed, PLANE));
        let mut samples = Samples {
            dimension,
            inputs: Vec::new(),
            labels: Vec::new(),
        };
        for number in numbers {
            let mut rng = generator(self.seed, SAMPLES + number);
            let input = normal(dimension, &mut rng);
            let side = dot(&plane, &input).signum();
            let wrong = rng.random_bool(self.objective.noise);
            samples.labels.push(if wrong { -side } else { side });
            samples.inputs.extend(input);
        }
        samples
    }
}

impl Task for Logistic {
    fn layout(&self) -> Result<Layout, BoxError> {
        layout(self.objective.dimension)
    }

    fn initial_parameters(&self) -> Result<Vec<f32>, BoxError> {
        Ok(vec![0.0; self.objective.dimension])
    }

    /// Worker `i` of `n` has samples `i`, `i + n`, `i + 2 n`, ….
    fn trainer(&self, worker: WorkerId) -> Result<Box<dyn Trainer>, BoxError> {
        let numbers = (u64::from(worker.0)..self.objective.samples as u64).step_by(self.workers as usize);
        let samples = self.draw(numbers);
        Ok(Box::new(LogisticTrainer {
            order: (0..samples.labels.len()).collect(),
            next: samples.labels.len(),
            batch: Vec::with_capacity(self.batch_size),
            batch_size: self.batch_size,
            at: Vec::new(),
            rng: generator(self.seed, ORDER + u64::from(worker.0)),
            samples,
        }))
    }

    fn evaluator(&self) -> Result<Box<dyn Evaluator>, BoxError> {
        Ok(Box::new(LogisticEvaluator(self.draw(TEST..TEST + TEST_SAMPLES))))
    }
}

fn normal(n: usize, rng: &mut impl Rng) -> Vec<f32> {
    (0..n).map(|_| StandardNormal.sample(rng)).collect()
}

/// Eight sums side by side, which compilers turn into vector instructions; always in the same order.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = a8
        .remainder()
        .iter()
        .zip(b8.remainder())
        .map(|(x, y)| x * y)
        .sum();
    for (x, y) in a8.zip(b8) {
        sums.iter_mut()
            .zip(x)
            .zip(y)
            .for_each(|((sum, x), y)| *sum += x * y);
    }
    sums.iter().sum::<f32>() + rest
}

/// `log(1 + exp(-margin))`, without overflow.
fn loss_of(margin: f32) -> f64 {
    let margin = f64::from(margin);
    (-margin.abs()).exp().ln_1p() + (-margin).max(0.0)
}

#[derive(Debug)]
struct Samples {
    dimension: usize,
    inputs: Vec<f32>,
    /// 1 or -1.
    labels: Vec<f32>,
}

impl Samples {
    fn input(&self, i: usize) -> &[f32] {
        &self.inputs[i * self.dimension..][..self.dimension]
    }

    /// Above 0 where `weights` puts the sample on the side that its label says.
    fn margin(&self, i: usize, weights: &[f32]) -> f32 {
        self.labels[i] * dot(self.input(i), weights)
    }
}

#[derive(Debug)]
struct LogisticTrainer {
    samples: Samples,
    order: Vec<usize>,
    next: usize,
    batch: Vec<usize>,
    batch_size: usize,
    at: Vec<f32>,
    rng: ChaCha8Rng,
}

impl Trainer for LogisticTrainer {
    fn set_parameters(&mut self, parameters: &[f32]) -> Result<(), BoxError> {
        self.at.clear();
        self.at.extend_from_slice(parameters);
        Ok(())
    }

    /// Goes through the samples in a new order each time; the last batch of a pass may be short.
    fn next_batch(&mut self) -> Result<(), BoxError> {
        if self.next >= self.order.len() {
            self.order.shuffle(&mut self.rng);
            self.next = 0;
        }
        let end = (self.next + self.batch_size).min(self.order.len());
        self.batch.clear();
        self.batch.extend_from_slice(&self.order[self.next..end]);
        self.next = end;
        Ok(())
    }

    fn gradient(&mut self, gradient: &mut [f32]) -> Result<Computed, BoxError> {
        gradient.fill(0.0);
        let (mut loss, n) = (0.0, self.batch.len() as f32);
        for &i in &self.batch {
            let margin = self.samples.margin(i, &self.at);
            loss += loss_of(margin);
            let factor = -self.samples.labels[i] / ((1.0 + margin.exp()) * n);
            let terms = gradient.iter_mut().zip(self.samples.input(i));
            terms.for_each(|(g, x)| *g += factor * x);
        }
        Ok(Computed {
            loss: loss / f64::from(n),
            samples: u32::try_from(self.batch.len())?,
        })
    }
}

#[derive(Debug)]
struct LogisticEvaluator(Samples);

impl Evaluator for LogisticEvaluator {
    fn evaluate(&mut self, parameters: &[f32]) -> Result<Measurement, BoxError> {
        let samples = &self.0;
        let margins = (0..samples.labels.len()).map(|i| samples.margin(i, parameters));
        let (mut right, mut loss) = (0_u64, 0.0);
        for margin in margins {
            right += u64::from(margin > 0.0);
            loss += loss_of(margin);
        }
        let n = samples.labels.len() as f64;
        Ok(Measurement {
            accuracy: right as f64 / n,
            loss: loss / n,
            buffers: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_neither_overflow_nor_vanish() {
        assert_eq!(loss_of(0.0), 2.0_f64.ln());
        assert!((loss_of(-1e30) - 1e30).abs() < 1e24);
        assert_eq!(loss_of(1e30), 0.0);
        assert!((loss_of(2.0) - (1.0 + (-2.0_f64).exp()).ln()).abs() < 1e-12);
    }

    #[test]
    fn dot_is_a_dot_product_of_any_length() {
        for n in [0, 1, 7, 8, 9, 100] {
            let a = (0..n).map(|i| i as f32).collect::<Vec<_>>();
            let expected = (0..n).map(|i| i * i).sum::<i32>() as f32;
            assert_eq!(dot(&a, &a), expected);
        }
    }
}
