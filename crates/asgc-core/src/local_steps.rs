//! Local steps: SGD at the worker between two pushes.
//!
//! From parameters `theta_0` of version `v` a trainer takes `h` plain steps of its own with the run's rate at `v`,
//!
//! ```text
//! theta_(i+1) = theta_i - lr(v) * g_i
//! ```
//!
//! and pushes `g_0 + … + g_(h-1)`, which is `(theta_0 - theta_h) / lr(v)`: the server's step with the same rate then
//! follows the local path, but for the rounding of sums. With `h = 1` it is the gradient. What the server adds
//! (momentum, weight decay, the weight of a stale push) it adds to the sum; the local steps know nothing of it.
//!
//! Local SGD: McMahan et al. (AISTATS 2017), where averaging whole models is the same for one worker; Lin et al. (ICLR
//! 2020) on when it generalises better than batches `h` times as large.

use crate::config::Config;
use crate::ids::Version;
use crate::optimizer::Schedule;
use crate::task::{BoxError, Computed, Trainer};

/// The local steps of one trainer. With more than one they take two vectors of the model's size.
#[derive(Debug)]
pub struct LocalSteps {
    steps: u32,
    schedule: Schedule,
    rate: f32,
    /// `theta_i`.
    parameters: Vec<f32>,
    /// `g_i`.
    gradient: Vec<f32>,
}

impl LocalSteps {
    /// As `worker.local_steps` and the run's schedule say.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            steps: config.worker.local_steps.max(1),
            schedule: Schedule::new(config),
            rate: 0.0,
            parameters: Vec::new(),
            gradient: Vec::new(),
        }
    }

    /// `h`.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.steps
    }

    /// Hands `parameters` (flat, in layout order) of version `base` to `trainer`. The first batch is the caller's to make
    /// ready, before [`LocalSteps::finish`].
    ///
    /// # Errors
    /// Those of the trainer.
    pub fn begin(
        &mut self,
        trainer: &mut dyn Trainer,
        parameters: &[f32],
        base: Version,
    ) -> Result<(), BoxError> {
        trainer.set_parameters(parameters)?;
        if self.steps > 1 {
            self.rate = self.schedule.at(base) as f32;
            self.parameters.clear();
            self.parameters.extend_from_slice(parameters);
            self.gradient.resize(parameters.len(), 0.0);
        }
        Ok(())
    }

    /// Takes the steps; writes the sum of their gradients to `sum` (flat, in layout order). The loss is the mean over
    /// all samples.
    ///
    /// # Errors
    /// Those of the trainer.
    pub fn finish(&mut self, trainer: &mut dyn Trainer, sum: &mut [f32]) -> Result<Computed, BoxError> {
        let mut total = trainer.gradient(sum)?;
        if self.steps > 1 {
            step(&mut self.parameters, sum, self.rate);
        }
        for taken in 1..self.steps {
            trainer.set_parameters(&self.parameters)?;
            trainer.next_batch()?;
            let computed = trainer.gradient(&mut self.gradient)?;
            total = both(total, computed);
            sum.iter_mut().zip(&self.gradient).for_each(|(sum, g)| *sum += g);
            if taken + 1 < self.steps {
                step(&mut self.parameters, &self.gradient, self.rate);
            }
        }
        Ok(total)
    }
}

fn step(parameters: &mut [f32], gradient: &[f32], rate: f32) {
    let pairs = parameters.iter_mut().zip(gradient);
    pairs.for_each(|(theta, g)| *theta -= rate * g);
}

/// Samples add up; the loss is their mean.
fn both(a: Computed, b: Computed) -> Computed {
    let (of_a, of_b) = (f64::from(a.samples), f64::from(b.samples));
    let all = of_a + of_b;
    Computed {
        loss: if all > 0.0 {
            (a.loss * of_a + b.loss * of_b) / all
        } else {
            b.loss
        },
        samples: a.samples.saturating_add(b.samples),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `L = |theta - t|^2 / 2` with a target that moves by each batch; batch `i` has `i` samples.
    #[derive(Default)]
    struct Bowl {
        theta: Vec<f32>,
        batch: u32,
    }

    impl Trainer for Bowl {
        fn set_parameters(&mut self, parameters: &[f32]) -> Result<(), BoxError> {
            self.theta = parameters.to_vec();
            Ok(())
        }

        fn next_batch(&mut self) -> Result<(), BoxError> {
            self.batch += 1;
            Ok(())
        }

        fn gradient(&mut self, gradient: &mut [f32]) -> Result<Computed, BoxError> {
            let target = self.batch as f32;
            let entries = gradient.iter_mut().zip(&self.theta);
            entries.for_each(|(g, theta)| *g = theta - target);
            Ok(Computed {
                loss: f64::from(target),
                samples: self.batch,
            })
        }
    }

    fn config(steps: u32) -> Config {
        let mut config = Config::default();
        (config.worker.local_steps, config.workload.lr) = (steps, 0.5);
        config
    }

    /// The sum that `steps` steps from (8, -3) push, and what they found.
    fn pushed(config: &Config, base: u64) -> (Vec<f32>, Computed) {
        let (mut bowl, mut local) = (Bowl::default(), LocalSteps::new(config));
        let mut sum = vec![9.0; 2];
        local.begin(&mut bowl, &[8.0, -3.0], Version(base)).unwrap();
        bowl.next_batch().unwrap();
        let computed = local.finish(&mut bowl, &mut sum).unwrap();
        (sum, computed)
    }

    #[test]
    fn one_step_is_the_gradient() {
        let (sum, computed) = pushed(&config(1), 0);
        assert_eq!(sum, [7.0, -4.0]);
        assert_eq!((computed.loss, computed.samples), (1.0, 1));
    }

    #[test]
    fn more_steps_push_the_path_that_they_took() {
        let (sum, computed) = pushed(&config(3), 0);
        // theta: 8, 4.5, 3.25 and 3.125; gradients 7, 2.5, 0.25.
        assert_eq!(sum[0], 9.75);
        assert_eq!(8.0 - 0.5 * sum[0], 3.125);
        assert_eq!(computed.samples, 1 + 2 + 3);
        assert_eq!(computed.loss, f64::from(1 + 4 + 9) / 6.0);
    }

    #[test]
    fn the_rate_is_the_runs_at_the_version_pulled() {
        let mut decayed = config(2);
        (decayed.workload.lr_decay_frac, decayed.workload.lr_gamma) = (0.5, 0.1);
        decayed.workload.max_updates = 10;
        let before = pushed(&decayed, 4).0;
        assert_eq!(before, pushed(&config(2), 0).0);
        // After the decay the first step leads less far, so the second gradient is larger.
        assert_eq!(pushed(&decayed, 5).0[0], 7.0 + (8.0 - 0.05 * 7.0 - 2.0));
    }

    #[test]
    fn a_mean_of_no_samples_is_the_last_loss() {
        let none = |loss| Computed { loss, samples: 0 };
        assert_eq!(both(none(1.0), none(2.0)), none(2.0));
    }
}
