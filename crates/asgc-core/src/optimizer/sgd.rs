//! Stochastic gradient descent with momentum, Nesterov's variant and weight decay, as PyTorch defines them.
//!
//! ```text
//! g = w * g_hat + wd * theta
//! m = mu * m + g                     (mu > 0)
//! theta = theta - lr(v) * (g + mu * m | m | g)      (Nesterov | momentum | plain)
//! ```
//!
//! Without momentum and weight decay this is `theta - lr(v) * w * g_hat`, which costs only as many
//! operations as the push has entries. (PyTorch starts m at the first g, which is the same as m = 0.)

use super::Schedule;
use crate::codec::CheckedPayload;
use crate::config::Config;
use crate::ids::Version;
use crate::parameters::Parameters;

/// The optimizer and its state.
#[derive(Debug, Clone)]
pub struct Sgd {
    schedule: Schedule,
    momentum: f32,
    nesterov: bool,
    weight_decay: f32,
    /// `m`, flat; empty without momentum.
    velocity: Vec<f32>,
    /// The dense gradient of one update, where one is needed.
    gradient: Vec<f32>,
}

impl Sgd {
    /// The optimizer that a checked configuration describes.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            schedule: Schedule::new(config),
            momentum: config.optimizer.momentum as f32,
            nesterov: config.optimizer.nesterov,
            weight_decay: config.optimizer.weight_decay as f32,
            velocity: Vec::new(),
            gradient: Vec::new(),
        }
    }

    /// Applies one push with weight `w` to the parameters at version `v`; returns the rate used.
    pub fn apply(&mut self, theta: &mut Parameters, push: &CheckedPayload, w: f64, v: Version) -> f64 {
        let lr = self.schedule.at(v);
        if self.is_plain() {
            theta.add_scaled(-(lr * w) as f32, push);
        } else {
            self.gradient.clear();
            self.gradient.resize(push.parameters(), 0.0);
            push.add_scaled_to(w as f32, &mut self.gradient);
            self.step_dense(theta, lr as f32);
        }
        lr
    }

    /// Applies the mean of `pushes` to the parameters at version `v`; returns the rate used.
    pub fn apply_mean<'a>(
        &mut self,
        theta: &mut Parameters,
        pushes: impl ExactSizeIterator<Item = &'a CheckedPayload>,
        v: Version,
    ) -> f64 {
        let lr = self.schedule.at(v);
        let share = 1.0 / pushes.len().max(1) as f32;
        self.gradient.clear();
        for push in pushes {
            self.gradient.resize(push.parameters(), 0.0);
            push.add_scaled_to(1.0, &mut self.gradient);
        }
        self.gradient.iter_mut().for_each(|g| *g *= share);
        self.step_dense(theta, lr as f32);
        lr
    }

    fn is_plain(&self) -> bool {
        self.momentum == 0.0 && self.weight_decay == 0.0
    }

    fn step_dense(&mut self, theta: &mut Parameters, lr: f32) {
        let (mu, wd, nesterov) = (self.momentum, self.weight_decay, self.nesterov);
        if mu > 0.0 {
            self.velocity.resize(self.gradient.len(), 0.0);
        }
        let (gradient, velocity) = (&self.gradient, &mut self.velocity);
        theta.for_each_mut(|start, theta| {
            let gradient = &gradient[start..start + theta.len()];
            if mu == 0.0 {
                theta
                    .iter_mut()
                    .zip(gradient)
                    .for_each(|(t, &g)| *t -= lr * decayed(g, wd, *t));
                return;
            }
            let velocity = &mut velocity[start..start + theta.len()];
            for ((t, &g), m) in theta.iter_mut().zip(gradient).zip(velocity) {
                let g = decayed(g, wd, *t);
                *m = mu * *m + g;
                *t -= lr * if nesterov { g + mu * *m } else { *m };
            }
        });
    }
}

/// `g + wd * theta`, leaving `g` untouched to the bit without decay.
fn decayed(g: f32, wd: f32, theta: f32) -> f32 {
    if wd == 0.0 { g } else { g + wd * theta }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Codec, Encoder};
    use crate::layout::{Layout, TensorSpec};
    use std::sync::Arc;

    fn push(values: &[f32]) -> CheckedPayload {
        let spec = TensorSpec {
            name: "w".into(),
            shape: vec![values.len()],
        };
        let layout = Arc::new(Layout::new(vec![spec]).unwrap());
        Encoder::new(Arc::clone(&layout), 0)
            .encode(values, Codec::Identity, 0)
            .unwrap()
            .check(&layout)
            .unwrap()
    }

    /// Three steps of gradient (1, -2) from (1, 1) with lr 0.1.
    fn three_steps(change: impl FnOnce(&mut Config)) -> Vec<f32> {
        let mut config = Config::default();
        config.workload.lr = 0.1;
        change(&mut config);
        let mut sgd = Sgd::new(&config);
        let mut theta = Parameters::new(&[1.0, 1.0], 1);
        for v in 0..3 {
            sgd.apply(&mut theta, &push(&[1.0, -2.0]), 1.0, Version(v));
        }
        theta.to_vec()
    }

    fn assert_close(found: &[f32], expected: &[f32]) {
        let close = found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-6);
        assert!(close, "{found:?}, expected {expected:?}");
    }

    #[test]
    fn steps_agree_with_pytorch() {
        // torch.optim.SGD([1., 1.], lr=.1, ...), three steps of gradient (1, -2), by hand in its formulas.
        assert_close(&three_steps(|_| {}), &[0.7, 1.6]);
        assert_close(&three_steps(|c| c.optimizer.momentum = 0.9), &[0.439, 2.122]);
        let nesterov = |c: &mut Config| {
            c.optimizer.momentum = 0.9;
            c.optimizer.nesterov = true;
        };
        assert_close(&three_steps(nesterov), &[0.1951, 2.6098]);
        // theta <- 0.99 * theta - 0.1 * g, three times.
        assert_close(
            &three_steps(|c| c.optimizer.weight_decay = 0.1),
            &[0.673_289, 1.564_319],
        );
    }

    #[test]
    fn a_weight_scales_the_gradient() {
        let mut theta = Parameters::new(&[0.0], 1);
        let mut config = Config::default();
        config.workload.lr = 0.5;
        Sgd::new(&config).apply(&mut theta, &push(&[1.0]), 0.5, Version(0));
        assert_eq!(theta.to_vec(), [-0.25]);
    }

    #[test]
    fn the_mean_of_one_is_the_push_itself_to_the_bit() {
        let gradient = push(&[0.1, -1e-20, 3.3e7, f32::MIN_POSITIVE]);
        for momentum in [0.0, 0.9] {
            let mut config = Config::default();
            config.optimizer.momentum = momentum;
            let start = Parameters::new(&[0.3, 1.7, -2.9, 1e-30], 3);
            let (mut one, mut mean) = (start.clone(), start);
            Sgd::new(&config).apply(&mut one, &gradient, 1.0, Version(0));
            Sgd::new(&config).apply_mean(&mut mean, std::iter::once(&gradient), Version(0));
            assert_eq!(one.to_vec(), mean.to_vec());
        }
    }

    #[test]
    fn the_mean_is_of_what_was_pushed() {
        let mut theta = Parameters::new(&[0.0, 0.0], 2);
        let mut config = Config::default();
        config.workload.lr = 1.0;
        let pushes = [push(&[1.0, 0.0]), push(&[3.0, -4.0])];
        Sgd::new(&config).apply_mean(&mut theta, pushes.iter(), Version(0));
        assert_eq!(theta.to_vec(), [-2.0, 2.0]);
    }
}
