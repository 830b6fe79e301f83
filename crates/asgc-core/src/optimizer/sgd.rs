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

/// What an update moves.
#[derive(Debug)]
pub struct Target<'a> {
    /// The parameters.
    pub theta: &'a mut Parameters,
    /// A flat vector that makes the same steps: what the trainers' view lacks.
    pub shadow: Option<&'a mut [f32]>,
}

impl<'a> From<&'a mut Parameters> for Target<'a> {
    fn from(theta: &'a mut Parameters) -> Self {
        Self { theta, shadow: None }
    }
}

/// What an update did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moved {
    /// The learning rate.
    pub lr: f64,
    /// Where all that happened was `theta += factor * D(push)`, push by push, in order: the factor.
    pub factor: Option<f32>,
}

/// The optimizer and its state.
#[derive(Debug, Clone)]
pub struct Sgd {
    schedule: Schedule,
    momentum: f32,
    nesterov: bool,
    weight_decay: f32,
    /// `m`, flat; empty without momentum.
    velocity: Vec<f32>,
    /// A chunk of one update's gradient.
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

    /// Applies one push with weight `w` at version `v`.
    pub fn apply(&mut self, target: Target<'_>, push: &CheckedPayload, w: f64, v: Version) -> Moved {
        let lr = self.schedule.at(v);
        if self.is_plain() {
            return step_plain(target, &[push], (lr, w));
        }
        self.step_dense(target, &[push], (lr as f32, w as f32));
        Moved { lr, factor: None }
    }

    /// Applies the mean of `pushes` at version `v`.
    pub fn apply_mean(&mut self, target: Target<'_>, pushes: &[&CheckedPayload], v: Version) -> Moved {
        let lr = self.schedule.at(v);
        let share = 1.0 / pushes.len().max(1) as f64;
        if self.is_plain() {
            return step_plain(target, pushes, (lr, share));
        }
        self.step_dense(target, pushes, (lr as f32, share as f32));
        Moved { lr, factor: None }
    }

    fn is_plain(&self) -> bool {
        self.momentum == 0.0 && self.weight_decay == 0.0
    }

    /// `g` is the sum of `pushes` times `w`; a chunk of it at a time, so that no whole gradient is ever held.
    fn step_dense(&mut self, target: Target<'_>, pushes: &[&CheckedPayload], (lr, w): (f32, f32)) {
        let Target { theta, mut shadow } = target;
        let (mu, wd, nesterov) = (self.momentum, self.weight_decay, self.nesterov);
        if mu > 0.0 {
            self.velocity.resize(theta.len(), 0.0);
        }
        let Self {
            gradient, velocity, ..
        } = self;
        theta.for_each_mut(|start, theta| {
            let range = start..start + theta.len();
            gradient.clear();
            gradient.resize(theta.len(), 0.0);
            pushes
                .iter()
                .for_each(|push| push.add_scaled_within(w, start, gradient));
            // In place: from the gradient to the step.
            if wd != 0.0 {
                let decay = gradient.iter_mut().zip(&*theta);
                decay.for_each(|(g, &t)| *g += wd * t);
            }
            if mu > 0.0 {
                for (g, m) in gradient.iter_mut().zip(&mut velocity[range.clone()]) {
                    *m = mu * *m + *g;
                    *g = if nesterov { *g + mu * *m } else { *m };
                }
            }
            let step = |values: &mut [f32]| values.iter_mut().zip(&*gradient).for_each(|(t, g)| *t -= lr * g);
            step(theta);
            if let Some(shadow) = &mut shadow {
                step(&mut shadow[range]);
            }
        });
    }
}

/// `theta += factor * D(push)` for each push, with the factor `-lr * w`.
fn step_plain(target: Target<'_>, pushes: &[&CheckedPayload], (lr, w): (f64, f64)) -> Moved {
    let factor = -(lr * w) as f32;
    let Target { theta, mut shadow } = target;
    for push in pushes {
        theta.add_scaled(factor, push);
        if let Some(shadow) = &mut shadow {
            push.add_scaled_to(factor, shadow);
        }
    }
    Moved {
        lr,
        factor: Some(factor),
    }
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
            sgd.apply((&mut theta).into(), &push(&[1.0, -2.0]), 1.0, Version(v));
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
        Sgd::new(&config).apply((&mut theta).into(), &push(&[1.0]), 0.5, Version(0));
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
            Sgd::new(&config).apply((&mut one).into(), &gradient, 1.0, Version(0));
            Sgd::new(&config).apply_mean((&mut mean).into(), &[&gradient], Version(0));
            assert_eq!(one.to_vec(), mean.to_vec());
        }
    }

    #[test]
    fn a_shadow_makes_the_same_steps() {
        for (momentum, weight_decay) in [(0.0, 0.0), (0.9, 0.0), (0.0, 0.1), (0.9, 0.1)] {
            let mut config = Config::default();
            (config.optimizer.momentum, config.optimizer.weight_decay) = (momentum, weight_decay);
            let mut sgd = Sgd::new(&config);
            let start = [0.5, -1.5, 2.0];
            let (mut theta, mut shadow) = (Parameters::new(&start, 2), start);
            for v in 0..3 {
                let target = Target {
                    theta: &mut theta,
                    shadow: Some(&mut shadow),
                };
                sgd.apply(target, &push(&[0.25, 0.5, -1.0]), 0.5, Version(v));
            }
            assert_eq!(theta.to_vec(), shadow);
        }
    }

    #[test]
    fn the_mean_is_of_what_was_pushed() {
        let mut theta = Parameters::new(&[0.0, 0.0], 2);
        let mut config = Config::default();
        config.workload.lr = 1.0;
        let pushes = [push(&[1.0, 0.0]), push(&[3.0, -4.0])];
        Sgd::new(&config).apply_mean((&mut theta).into(), &pushes.each_ref(), Version(0));
        assert_eq!(theta.to_vec(), [-2.0, 2.0]);
    }
}
