//! Error feedback: what compression leaves out is added to the next gradient.
//!
//! ```text
//! u = g + e        send C(u)        e <- u - D(C(u))
//! ```
//!
//! (Seide et al. 2014; Karimireddy et al., ICML 2019, algorithm 1.) A rejected push is put back,
//! `e <- e + D(C(u))`, in whatever order verdicts come: the residual only ever has reconstructions taken
//! from it and returned to it, so with several pushes in flight the sum of gradients still equals the sum
//! of reconstructions that the server took, plus the residual.

use crate::codec::{Codec, Encoder, NonFinite, Payload};
use crate::layout::Layout;
use std::sync::Arc;

/// Encodes gradients, keeping the residual where error feedback is on.
#[derive(Debug)]
pub struct Compressor {
    encoder: Encoder,
    /// `e`, flat; `None` with error feedback off.
    residual: Option<Vec<f32>>,
    /// `u`, reused from push to push.
    sum: Vec<f32>,
}

impl Compressor {
    /// `seed` drives stochastic rounding.
    #[must_use]
    pub fn new(layout: Arc<Layout>, error_feedback: bool, seed: u64) -> Self {
        let residual = error_feedback.then(|| vec![0.0; layout.parameters()]);
        Self {
            encoder: Encoder::new(layout, seed),
            residual,
            sum: Vec::new(),
        }
    }

    /// The layout of the gradients.
    #[must_use]
    pub fn layout(&self) -> &Arc<Layout> {
        self.encoder.layout()
    }

    /// Encodes a flat gradient, and the residual with it. `nonce` must differ from call to call. When a value is not
    /// finite nothing is encoded and the residual stays as it was.
    ///
    /// # Panics
    /// When `gradient` has another length than the layout.
    pub fn compress(&mut self, gradient: &[f32], codec: Codec, nonce: u64) -> Result<Payload, NonFinite> {
        let Some(residual) = &mut self.residual else {
            return self.encoder.encode(gradient, codec, nonce);
        };
        assert_eq!(
            gradient.len(),
            residual.len(),
            "a gradient has the layout's length"
        );
        self.sum.clear();
        self.sum
            .extend(gradient.iter().zip(residual.iter()).map(|(g, e)| g + e));
        let payload = self.encoder.encode(&self.sum, codec, nonce)?;
        std::mem::swap(residual, &mut self.sum);
        self.add_decoded(-1.0, &payload);
        Ok(payload)
    }

    /// Puts a share of a push back into the residual: 1 for a rejected one. Without error feedback it is lost.
    ///
    /// The residual stays finite: an infinity would make every later gradient unfit.
    pub fn put_back(&mut self, share: f32, payload: &Payload) {
        self.add_decoded(share, payload);
        let residual = self.residual.iter_mut().flatten();
        residual.for_each(|e| *e = e.clamp(f32::MIN, f32::MAX));
    }

    /// L2 norm of the residual over all tensors; 0 with error feedback off.
    #[must_use]
    pub fn residual_norm(&self) -> f64 {
        let square = |&e: &f32| f64::from(e) * f64::from(e);
        self.residual.iter().flatten().map(square).sum::<f64>().sqrt()
    }

    /// The residual, flat; empty with error feedback off.
    #[must_use]
    pub fn residual(&self) -> &[f32] {
        self.residual.as_deref().unwrap_or(&[])
    }

    fn add_decoded(&mut self, alpha: f32, payload: &Payload) {
        let Some(residual) = &mut self.residual else {
            return;
        };
        // Our own encoder's bytes: sound by construction, and checked all the same.
        if let Ok(decoded) = payload.clone().check(self.encoder.layout()) {
            decoded.add_scaled_to(alpha, residual);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Bits, Density};
    use crate::layout::TensorSpec;
    use proptest::prelude::*;

    fn compressor(len: usize, error_feedback: bool) -> Compressor {
        let spec = TensorSpec {
            name: "w".into(),
            shape: vec![len],
        };
        Compressor::new(Arc::new(Layout::new(vec![spec]).unwrap()), error_feedback, 0)
    }

    #[test]
    fn what_is_sent_plus_the_residual_is_the_gradient() {
        let mut compressor = compressor(4, true);
        let codec = Codec::TopK(Density::new(0.25).unwrap());
        let payload = compressor.compress(&[-10.0, 1.0, 2.0, 0.5], codec, 1).unwrap();
        assert_eq!(payload.bytes.len(), 8);
        assert_eq!(compressor.residual(), [0.0, 1.0, 2.0, 0.5]);
        compressor.put_back(1.0, &payload);
        assert_eq!(compressor.residual(), [-10.0, 1.0, 2.0, 0.5]);
    }

    #[test]
    fn identity_leaves_no_residual() {
        let mut compressor = compressor(3, true);
        for nonce in 0..5 {
            compressor
                .compress(&[0.1, -1e-30, 3e30], Codec::Identity, nonce)
                .unwrap();
            assert_eq!(compressor.residual(), [0.0; 3]);
        }
    }

    #[test]
    fn a_bad_gradient_leaves_the_residual_alone() {
        let mut compressor = compressor(2, true);
        let codec = Codec::TopK(Density::new(0.5).unwrap());
        compressor.compress(&[2.0, 1.0], codec, 1).unwrap();
        for bad in [f32::NAN, f32::INFINITY] {
            assert!(compressor.compress(&[1.0, bad], codec, 2).is_err());
            assert_eq!(compressor.residual(), [0.0, 1.0]);
        }
        // The next clean gradient carries what was left.
        let payload = compressor.compress(&[0.0, 0.5], codec, 3).unwrap();
        assert_eq!(payload.bytes[4..], 1.5f32.to_le_bytes());
    }

    #[test]
    fn what_is_put_back_cannot_overflow() {
        let mut compressor = compressor(1, true);
        let sent = [1, 2].map(|nonce| compressor.compress(&[3e38], Codec::Identity, nonce).unwrap());
        sent.iter().for_each(|payload| compressor.put_back(1.0, payload));
        assert_eq!(compressor.residual(), [f32::MAX]);
        compressor.compress(&[-1.0], Codec::Identity, 3).unwrap();
    }

    #[test]
    fn without_feedback_there_is_no_residual() {
        let mut compressor = compressor(2, false);
        let payload = compressor.compress(&[2.0, 1.0], Codec::Identity, 1).unwrap();
        compressor.put_back(1.0, &payload);
        assert_eq!(
            (compressor.residual_norm(), compressor.residual().len()),
            (0.0, 0)
        );
    }

    proptest! {
        /// Invariant 1 in small: gradients = taken + residual, whatever is taken and in whatever order.
        #[test]
        fn gradient_mass_is_conserved(
            history in prop::collection::vec((prop::collection::vec(-1.0f32..1.0, 6), any::<bool>(), 0usize..3), 1..40),
            quantized: bool,
        ) {
            let mut compressor = compressor(6, true);
            let codec = if quantized {
                Codec::Quantize(Bits::new(3).unwrap())
            } else {
                Codec::TopK(Density::new(0.3).unwrap())
            };
            let (mut sum, mut taken) = ([0.0f64; 6], [0.0f64; 6]);
            let mut in_flight: Vec<(Payload, bool)> = Vec::new();
            let layout = Arc::clone(compressor.layout());
            let mut settle = |compressor: &mut Compressor, (payload, accepted): (Payload, bool)| {
                if accepted {
                    let decoded = payload.check(&layout).unwrap().decode();
                    taken.iter_mut().zip(decoded).for_each(|(t, v)| *t += f64::from(v));
                } else {
                    compressor.put_back(1.0, &payload);
                }
            };
            for (nonce, (gradient, accepted, settled)) in history.into_iter().enumerate() {
                sum.iter_mut().zip(&gradient).for_each(|(s, &g)| *s += f64::from(g));
                let payload = compressor.compress(&gradient, codec, nonce as u64).unwrap();
                in_flight.push((payload, accepted));
                for _ in 0..settled.min(in_flight.len()) {
                    // From the middle: verdicts need not come in order.
                    let push = in_flight.remove(in_flight.len() / 2);
                    settle(&mut compressor, push);
                }
            }
            in_flight.into_iter().for_each(|push| settle(&mut compressor, push));
            for ((sum, taken), &left) in sum.iter().zip(taken).zip(compressor.residual()) {
                prop_assert!((sum - taken - f64::from(left)).abs() < 1e-4, "{sum} = {taken} + {left}");
            }
        }
    }
}
