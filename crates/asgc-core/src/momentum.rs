//! Momentum correction at a worker, as in Deep Gradient Compression (Lin et al., ICLR 2018, sections 3.2 and 3.3).
//!
//! ```text
//! g <- g * min(1, c / |g|)      local clipping, c = clip_norm / sqrt(workers)
//! v <- m v + g                  velocity
//! u = v + e                     what is compressed, instead of g + e
//! v <- 0 where u was sent       factor masking, with Top-K
//! ```
//!
//! With momentum at the server a gradient that waited in the residual would begin its momentum only when it is sent, and
//! without the steps that it missed. Here what waits has had them: the residual is of velocities. Masking keeps a velocity
//! from pushing on in a direction that was just taken.
//!
//! With `m = 0` and no clipping this does nothing.

use asgc_kernels::sum_squares;

/// How gradients become velocities.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Correction {
    /// `m`, at least 0 and below 1.
    pub momentum: f32,
    /// Whether what was sent is cleared from the velocity.
    pub masking: bool,
    /// `c`: the norm that a gradient is scaled down to.
    pub clip: Option<f64>,
}

impl Correction {
    /// Whether gradients are left as they are.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.momentum == 0.0 && self.clip.is_none()
    }
}

/// A worker's velocity.
#[derive(Debug, Default)]
pub(crate) struct Velocity {
    correction: Correction,
    /// `v`, flat; empty without momentum, and before the first gradient.
    values: Vec<f32>,
}

impl Velocity {
    pub(crate) fn new(correction: Correction) -> Self {
        Self {
            correction,
            values: Vec::new(),
        }
    }

    pub(crate) fn correction(&self) -> Correction {
        self.correction
    }

    /// Turns a finite gradient into the velocity after it, in its buffer; returns the gradient's norm before.
    pub(crate) fn take(&mut self, gradient: &mut [f32]) -> f64 {
        let norm = sum_squares(gradient).sqrt();
        if let Some(clip) = self.correction.clip
            && norm > clip
        {
            let scale = (clip / norm) as f32;
            gradient.iter_mut().for_each(|g| *g *= scale);
        }
        let momentum = self.correction.momentum;
        if momentum > 0.0 {
            self.values.resize(gradient.len(), 0.0);
            for (g, v) in gradient.iter_mut().zip(&mut self.values) {
                // An infinity would stay for ever.
                *v = (momentum * *v + *g).clamp(f32::MIN, f32::MAX);
                *g = *v;
            }
        }
        norm
    }

    /// The entries at these places were sent.
    pub(crate) fn sent(&mut self, indices: &[u32]) {
        if self.correction.masking && !self.values.is_empty() {
            indices
                .iter()
                .for_each(|&index| self.values[index as usize] = 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn velocity(momentum: f32, masking: bool, clip: Option<f64>) -> Velocity {
        Velocity::new(Correction {
            momentum,
            masking,
            clip,
        })
    }

    #[test]
    fn velocities_build_up_until_they_are_sent() {
        let mut velocity = velocity(0.5, true, None);
        let mut take = |gradient: [f32; 2], sent: &[u32]| {
            let mut g = gradient;
            let norm = velocity.take(&mut g);
            velocity.sent(sent);
            (g, norm)
        };
        assert_eq!(take([3.0, 4.0], &[]), ([3.0, 4.0], 5.0));
        assert_eq!(take([1.0, 0.0], &[0]), ([2.5, 2.0], 1.0));
        assert_eq!(take([0.0, 0.0], &[]), ([0.0, 1.0], 0.0));
    }

    #[test]
    fn long_gradients_are_clipped() {
        let mut gradient = [3.0, 4.0];
        assert_eq!(velocity(0.0, true, Some(1.0)).take(&mut gradient), 5.0);
        assert_eq!(gradient, [0.6, 0.8]);
        assert_eq!(velocity(0.0, true, Some(1.0)).take(&mut [0.3, 0.4]), 0.5);
    }

    #[test]
    fn a_velocity_stays_finite() {
        let mut velocity = velocity(0.9, false, None);
        for _ in 0..3 {
            let mut gradient = [f32::MAX];
            velocity.take(&mut gradient);
            assert!(gradient[0].is_finite());
        }
    }
}
