//! A quadratic bowl with noise: curvatures from 1 down to `1 / condition`, geometrically.

use super::{generator, layout};
use asgc_core::config::{Config, Objective};
use asgc_core::ids::WorkerId;
use asgc_core::layout::Layout;
use asgc_core::task::{BoxError, Computed, Evaluator, Measurement, Task, Trainer};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, StandardNormal};
use std::sync::Arc;

/// Streams of the seed: the centre, the workers' shifts, the workers' noise.
const CENTRE: u64 = 1 << 32;
const SHIFTS: u64 = 2 << 32;
const NOISE: u64 = 3 << 32;

#[derive(Debug, Clone)]
pub(super) struct Quadratic {
    objective: Objective,
    seed: u64,
    workers: u32,
    batch_size: usize,
}

impl Quadratic {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            objective: config.objective.clone(),
            seed: config.run.seed,
            workers: config.workload.num_workers,
            batch_size: config.workload.batch_size,
        }
    }

    fn curvatures(&self) -> Arc<[f32]> {
        let last = self.objective.dimension.saturating_sub(1).max(1) as f64;
        let curvature = |i: usize| self.objective.condition.powf(-(i as f64) / last) as f32;
        (0..self.objective.dimension).map(curvature).collect()
    }

    fn normal(&self, stream: u64) -> Vec<f32> {
        let mut rng = generator(self.seed, stream);
        (0..self.objective.dimension)
            .map(|_| StandardNormal.sample(&mut rng))
            .collect()
    }

    /// Where worker `worker`'s loss is least.
    fn optimum_of(&self, worker: u32) -> Vec<f32> {
        let skew = self.objective.skew as f32;
        let mut optimum = self.normal(CENTRE);
        if skew > 0.0 {
            let shift = self.normal(SHIFTS + u64::from(worker));
            optimum
                .iter_mut()
                .zip(shift)
                .for_each(|(c, shift)| *c += skew * shift);
        }
        optimum
    }

    /// Where the mean of all workers' losses is least: curvatures are the same, so it is the mean of their optima.
    fn optimum(&self) -> Vec<f32> {
        if self.objective.skew == 0.0 {
            return self.normal(CENTRE);
        }
        let mut sum = vec![0.0_f64; self.objective.dimension];
        for worker in 0..self.workers {
            let theirs = self.optimum_of(worker);
            sum.iter_mut()
                .zip(theirs)
                .for_each(|(sum, c)| *sum += f64::from(c));
        }
        sum.into_iter()
            .map(|sum| (sum / f64::from(self.workers)) as f32)
            .collect()
    }
}

impl Task for Quadratic {
    fn layout(&self) -> Result<Layout, BoxError> {
        layout(self.objective.dimension)
    }

    fn initial_parameters(&self) -> Result<Vec<f32>, BoxError> {
        Ok(vec![0.0; self.objective.dimension])
    }

    fn trainer(&self, worker: WorkerId) -> Result<Box<dyn Trainer>, BoxError> {
        Ok(Box::new(QuadraticTrainer {
            bowl: Bowl {
                curvatures: self.curvatures(),
                optimum: self.optimum_of(worker.0),
            },
            at: Vec::new(),
            // A batch's mean has a noise smaller by the root of its size.
            noise: (self.objective.noise / (self.batch_size as f64).sqrt()) as f32,
            samples: u32::try_from(self.batch_size)?,
            rng: generator(self.seed, NOISE + u64::from(worker.0)),
        }))
    }

    fn evaluator(&self) -> Result<Box<dyn Evaluator>, BoxError> {
        let bowl = Bowl {
            curvatures: self.curvatures(),
            optimum: self.optimum(),
        };
        let start = bowl.height(&vec![0.0; self.objective.dimension]);
        Ok(Box::new(QuadraticEvaluator { bowl, start }))
    }
}

#[derive(Debug)]
struct Bowl {
    curvatures: Arc<[f32]>,
    optimum: Vec<f32>,
}

impl Bowl {
    fn height(&self, at: &[f32]) -> f64 {
        let terms = at.iter().zip(&self.optimum).zip(self.curvatures.iter());
        terms
            .map(|((x, c), h)| f64::from(*h) * f64::from(x - c).powi(2) / 2.0)
            .sum()
    }
}

#[derive(Debug)]
struct QuadraticTrainer {
    bowl: Bowl,
    at: Vec<f32>,
    noise: f32,
    samples: u32,
    rng: ChaCha8Rng,
}

impl Trainer for QuadraticTrainer {
    fn set_parameters(&mut self, parameters: &[f32]) -> Result<(), BoxError> {
        self.at.clear();
        self.at.extend_from_slice(parameters);
        Ok(())
    }

    fn next_batch(&mut self) -> Result<(), BoxError> {
        Ok(())
    }

    fn gradient(&mut self, gradient: &mut [f32]) -> Result<Computed, BoxError> {
        let Bowl { curvatures, optimum } = &self.bowl;
        for (i, g) in gradient.iter_mut().enumerate() {
            *g = curvatures[i] * (self.at[i] - optimum[i]);
            if self.noise > 0.0 {
                let normal: f32 = StandardNormal.sample(&mut self.rng);
                *g += self.noise * normal;
            }
        }
        Ok(Computed {
            loss: self.bowl.height(&self.at),
            samples: self.samples,
        })
    }
}

#[derive(Debug)]
struct QuadraticEvaluator {
    bowl: Bowl,
    start: f64,
}

impl Evaluator for QuadraticEvaluator {
    fn evaluate(&mut self, parameters: &[f32]) -> Result<Measurement, BoxError> {
        let loss = self.bowl.height(parameters);
        Ok(Measurement {
            accuracy: (1.0 - loss / self.start).max(0.0),
            loss,
            buffers: Vec::new(),
        })
    }
}
