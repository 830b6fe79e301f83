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
use crate::crew::{Alone, Crew, share};
use crate::ids::Version;
use crate::parameters::Parameters;
use std::sync::Arc;

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
    /// Who does the work.
    crew: Arc<dyn Crew>,
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
            crew: Arc::new(Alone),
        }
    }

    /// The same, with others to do the work.
    #[must_use]
    pub fn with_crew(self, crew: Arc<dyn Crew>) -> Self {
        Self { crew, ..self }
    }

    /// Applies one push with weight `w` at version `v`.
    pub fn apply(&mut self, target: Target<'_>, push: &CheckedPayload, w: f64, v: Version) -> Moved {
        let lr = self.schedule.at(v);
        if self.is_plain() {
            return self.step_plain(target, &[push], (lr, w));
        }
        self.step_dense(target, &[push], (lr as f32, w as f32));
        Moved { lr, factor: None }
    }

    /// Applies the mean of `pushes` at version `v`.
    pub fn apply_mean(&mut self, target: Target<'_>, pushes: &[&CheckedPayload], v: Version) -> Moved {
        let lr = self.schedule.at(v);
        let part = 1.0 / pushes.len().max(1) as f64;
        if self.is_plain() {
            return self.step_plain(target, pushes, (lr, part));
        }
        self.step_dense(target, pushes, (lr as f32, part as f32));
        Moved { lr, factor: None }
    }

    fn is_plain(&self) -> bool {
        self.momentum == 0.0 && self.weight_decay == 0.0
    }

    /// `g` is the sum of `pushes` times `w`; a chunk of it at a time, so that no whole gradient is ever held.
    fn step_dense(&mut self, target: Target<'_>, pushes: &[&CheckedPayload], (lr, w): (f32, f32)) {
        let Target { theta, shadow } = target;
        let (mu, wd, nesterov) = (self.momentum, self.weight_decay, self.nesterov);
        let entries = theta.len();
        if mu > 0.0 {
            self.velocity.resize(entries, 0.0);
        }
        let places = theta.places([&mut self.velocity, shadow.unwrap_or_default()]);
        share(&*self.crew, places, entries, |place, gradient| {
            let theta = Arc::make_mut(place.theta);
            let [velocity, shadow] = place.beside;
            gradient.clear();
            gradient.resize(theta.len(), 0.0);
            pushes
                .iter()
                .for_each(|push| push.add_scaled_within(w, place.from, gradient));
            // In place: from the gradient to the step.
            if wd != 0.0 {
                let decay = gradient.iter_mut().zip(&*theta);
                decay.for_each(|(g, &t)| *g += wd * t);
            }
            for (g, m) in gradient.iter_mut().zip(velocity) {
                *m = mu * *m + *g;
                *g = if nesterov { *g + mu * *m } else { *m };
            }
            let step = |values: &mut [f32]| values.iter_mut().zip(&*gradient).for_each(|(t, g)| *t -= lr * g);
            step(theta);
            step(shadow);
        });
    }

    /// `theta += factor * D(push)` for each push, with the factor `-lr * w`.
    fn step_plain(&self, target: Target<'_>, pushes: &[&CheckedPayload], (lr, w): (f64, f64)) -> Moved {
        let factor = -(lr * w) as f32;
        let Target { theta, shadow } = target;
        let work = pushes.iter().map(|push| push.work()).sum();
        let places = theta.places([shadow.unwrap_or_default(), &mut []]);
        share(&*self.crew, places, work, |place, _| {
            let (from, len) = (place.from, place.theta.len());
            let [shadow, _] = place.beside;
            for push in pushes.iter().filter(|push| push.touches(from, len)) {
                push.add_scaled_within(factor, from, Arc::make_mut(place.theta));
                if !shadow.is_empty() {
                    push.add_scaled_within(factor, from, shadow);
                }
            }
        });
        Moved {
            lr,
            factor: Some(factor),
        }
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

    /// Who does the last piece first.
    #[derive(Debug)]
    struct Backwards;

    impl Crew for Backwards {
        fn size(&self) -> usize {
            5
        }

        fn carry_out(&self, pieces: Vec<crate::crew::Piece<'_>>) {
            assert!(pieces.len() > 1, "there is enough to do for several");
            pieces.into_iter().rev().for_each(|piece| piece());
        }
    }

    #[test]
    fn updates_do_not_depend_on_who_does_them() {
        let n = 3 << 20;
        let gradient: Vec<f32> = (0..n).map(|i| (i % 1013) as f32 - 500.0).collect();
        let spec = TensorSpec {
            name: "w".into(),
            shape: vec![n],
        };
        let layout = Arc::new(Layout::new(vec![spec]).unwrap());
        let density = crate::ids::Density::new(0.1).unwrap();
        for codec in [Codec::Identity, Codec::TopK(density)] {
            let payload = Encoder::new(Arc::clone(&layout), 0).encode(&gradient, codec, 0);
            let push = payload.unwrap().check(&layout).unwrap();
            for momentum in [0.0, 0.9] {
                let mut config = Config::default();
                config.optimizer.momentum = momentum;
                let outcome = |mut sgd: Sgd| {
                    let (mut theta, mut shadow) = (Parameters::new(&gradient, 1 << 18), gradient.clone());
                    for v in 0..2 {
                        let target = Target {
                            theta: &mut theta,
                            shadow: Some(&mut shadow),
                        };
                        sgd.apply_mean(target, &[&push, &push], Version(v));
                    }
                    (theta.to_vec(), shadow)
                };
                let alone = outcome(Sgd::new(&config));
                assert!(outcome(Sgd::new(&config).with_crew(Arc::new(Backwards))) == alone);
            }
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
