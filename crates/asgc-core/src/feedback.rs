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
//!
//! A worker whose pushes are nearly always rejected would pile up residual without end, and once it is heard, throw
//! old gradients at a model that has long moved on. A [`Bound`] keeps it finite; what it takes away is counted
//! ([`Dropped`]), so that gradients = taken + residual + dropped.

use crate::codec::{Codec, Encoder, NonFinite, Payload};
use crate::layout::Layout;
use crate::momentum::{Correction, Velocity};
use crate::push::Dropped;
use asgc_kernels::sum_squares;
use std::sync::Arc;

/// The weight of a new gradient in the mean of their norms: about the last twenty count.
const MEAN_WEIGHT: f64 = 0.05;

/// How a residual is kept from growing without end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Bound {
    /// Not at all.
    #[default]
    None,
    /// `|e| <= cap * m`, where `m` is the exponential mean of the norms of the worker's gradients: else `e` is scaled
    /// down to that.
    Cap(f64),
    /// Each rejection scales `e` by `1 - decay`, after its push was put back.
    Decay(f64),
}

/// Encodes gradients, keeping the residual where error feedback is on.
#[derive(Debug)]
pub struct Compressor {
    encoder: Encoder,
    /// `e`, flat; `None` with error feedback off.
    residual: Option<Vec<f32>>,
    bound: Bound,
    velocity: Velocity,
    /// `|e|`: kept, since it costs a pass over all parameters.
    norm: f64,
    gradient_norm: f64,
    mean_norm: Option<f64>,
    /// Since it was last taken.
    dropped: Dropped,
    /// Norms of all drops.
    dropped_norm: f64,
}

impl Compressor {
    /// `bound` is `None` for no error feedback.
    #[must_use]
    pub fn new(encoder: Encoder, bound: Option<Bound>) -> Self {
        Self {
            residual: bound.map(|_| vec![0.0; encoder.layout().parameters()]),
            bound: bound.unwrap_or_default(),
            velocity: Velocity::default(),
            encoder,
            norm: 0.0,
            gradient_norm: 0.0,
            mean_norm: None,
            dropped: Dropped::default(),
            dropped_norm: 0.0,
        }
    }

    /// The same, with momentum correction.
    #[must_use]
    pub fn with_correction(self, correction: Correction) -> Self {
        Self {
            velocity: Velocity::new(correction),
            ..self
        }
    }

    /// The layout of the gradients.
    #[must_use]
    pub fn layout(&self) -> &Arc<Layout> {
        self.encoder.layout()
    }

    /// Encodes a flat gradient, and the residual with it. The buffer is taken in exchange for another of its length, with
    /// contents that mean nothing: `u = g + e` is computed in place of `g`, which becomes the residual, and what was the
    /// residual is the buffer for the next gradient. `nonce` must differ from call to call. When a value is not finite nothing
    /// is encoded and the residual stays as it was.
    ///
    /// # Panics
    /// When `gradient` has another length than the layout.
    pub fn compress(
        &mut self,
        gradient: &mut Vec<f32>,
        codec: Codec,
        nonce: u64,
    ) -> Result<Payload, NonFinite> {
        let raw_norm = self.correct(gradient)?;
        let residual = self.residual.as_deref();
        let encoded = self.encoder.encode_in_place(gradient, residual, codec, nonce)?;
        self.gradient_norm = raw_norm.unwrap_or(encoded.gradient_norm);
        if let Codec::TopK(_) = codec {
            self.velocity.sent(self.encoder.kept());
        }
        if let Some(residual) = &mut self.residual {
            std::mem::swap(residual, gradient);
            self.norm = encoded.residual_norm;
            let mean = self.mean_norm.unwrap_or(self.gradient_norm);
            self.mean_norm = Some(mean + MEAN_WEIGHT * (self.gradient_norm - mean));
            self.keep_to_cap();
        }
        Ok(encoded.payload)
    }

    /// Takes a payload that is needed no more, for its buffer.
    pub fn recycle(&mut self, payload: Payload) {
        self.encoder.recycle(payload);
    }

    /// Turns the gradient into a velocity, where momentum correction is on; returns its norm before. A velocity must not
    /// take in what is not finite.
    fn correct(&mut self, gradient: &mut [f32]) -> Result<Option<f64>, NonFinite> {
        if self.velocity.correction().is_none() {
            return Ok(None);
        }
        self.encoder.check(gradient)?;
        Ok(Some(self.velocity.take(gradient)))
    }

    /// Scales the residual by `factor`, into units of another learning rate: nothing of it counts as dropped.
    pub fn rescale(&mut self, factor: f64) {
        if factor == 1.0 {
            return;
        }
        let scaled = |e: f32| ((f64::from(e) * factor) as f32).clamp(f32::MIN, f32::MAX);
        self.residual.iter_mut().flatten().for_each(|e| *e = scaled(*e));
        self.norm *= factor;
    }

    /// Puts a rejected push, times `scale`, back into the residual. Without error feedback it is lost.
    pub fn reject(&mut self, scale: f32, payload: &Payload) {
        self.put_back(scale, payload);
        if let Bound::Decay(decay) = self.bound {
            self.scale(1.0 - decay);
        }
    }

    /// Puts a share of a push back into the residual. Without error feedback it is lost.
    ///
    /// The residual stays finite: an infinity would make every later gradient unfit.
    pub fn put_back(&mut self, share: f32, payload: &Payload) {
        self.add_decoded(share, payload);
        let residual = self.residual.iter_mut().flatten();
        residual.for_each(|e| *e = e.clamp(f32::MIN, f32::MAX));
        self.norm = sum_squares(self.residual()).sqrt();
        self.keep_to_cap();
    }

    /// L2 norm of the residual over all tensors; 0 with error feedback off.
    #[must_use]
    pub fn residual_norm(&self) -> f64 {
        self.norm
    }

    /// L2 norm of the last gradient that was encoded.
    #[must_use]
    pub fn gradient_norm(&self) -> f64 {
        self.gradient_norm
    }

    /// What the bound took away since this was last asked.
    pub fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }

    /// Norms of what the bound took away, summed over drops.
    #[must_use]
    pub fn dropped_norm(&self) -> f64 {
        self.dropped_norm
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

    /// Scales the residual down where it is beyond the cap.
    fn keep_to_cap(&mut self) {
        let (Bound::Cap(cap), Some(mean)) = (self.bound, self.mean_norm) else {
            return;
        };
        let most = cap * mean;
        if self.norm > most {
            self.scale(most / self.norm);
        }
    }

    /// Scales the residual by `kept`, and counts what that takes away.
    fn scale(&mut self, kept: f64) {
        let (mut sum, mut square) = (0.0, 0.0);
        for e in self.residual.iter_mut().flatten() {
            let left = (f64::from(*e) * kept) as f32;
            let gone = f64::from(*e) - f64::from(left);
            (sum, square) = (sum + gone, square + gone * gone);
            *e = left;
        }
        self.dropped.sum += sum;
        self.dropped.norm += square.sqrt();
        self.dropped_norm += square.sqrt();
        self.norm *= kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Bits, Density};
    use crate::layout::TensorSpec;
    use proptest::prelude::*;

    fn compressor(len: usize, error_feedback: bool) -> Compressor {
        bounded(len, error_feedback.then_some(Bound::None))
    }

    fn bounded(len: usize, bound: Option<Bound>) -> Compressor {
        let spec = TensorSpec {
            name: "w".into(),
            shape: vec![len],
        };
        Compressor::new(Encoder::new(Arc::new(Layout::new(vec![spec]).unwrap()), 0), bound)
    }

    #[test]
    fn what_is_sent_plus_the_residual_is_the_gradient() {
        let mut compressor = compressor(4, true);
        let codec = Codec::TopK(Density::new(0.25).unwrap());
        let payload = compressor
            .compress(&mut vec![-10.0, 1.0, 2.0, 0.5], codec, 1)
            .unwrap();
        assert_eq!(payload.bytes.len(), 8);
        assert_eq!(compressor.residual(), [0.0, 1.0, 2.0, 0.5]);
        compressor.put_back(1.0, &payload);
        assert_eq!(compressor.residual(), [-10.0, 1.0, 2.0, 0.5]);
    }

    #[test]
    fn what_waits_has_its_momentum_and_what_is_sent_loses_it() {
        let correction = Correction {
            momentum: 0.5,
            masking: true,
            clip: None,
        };
        let mut compressor = compressor(2, true).with_correction(correction);
        let codec = Codec::TopK(Density::new(0.5).unwrap());
        let mut push = |gradient: [f32; 2]| {
            let payload = compressor.compress(&mut gradient.to_vec(), codec, 1).unwrap();
            assert_eq!(payload.entries, [1]);
            (compressor.residual().to_vec(), compressor.gradient_norm())
        };
        // v = (4, 1): 4 is sent, and its velocity with it.
        assert_eq!(push([4.0, 1.0]), (vec![0.0, 1.0], 17f64.sqrt()));
        // v = (1, 0.5), u = (1, 1.5): 1.5 is sent.
        assert_eq!(push([1.0, 0.0]).0, [1.0, 0.0]);
        // v = (0.5, 0), u = (1.5, 0).
        assert_eq!(push([0.0, 0.0]).0, [0.0, 0.0]);
        // What is not finite changes neither.
        assert!(compressor.compress(&mut vec![f32::NAN, 1.0], codec, 2).is_err());
        compressor.compress(&mut vec![0.0, 1.0], codec, 3).unwrap();
        assert_eq!(compressor.residual(), [0.0, 0.0]);
    }

    #[test]
    fn the_buffer_of_a_payload_is_used_again_once_nobody_holds_it() {
        let mut compressor = compressor(4, true);
        let mut push = |payload: Option<Payload>| {
            payload
                .into_iter()
                .for_each(|payload| compressor.recycle(payload));
            compressor
                .compress(&mut vec![1.0; 4], Codec::Identity, 1)
                .unwrap()
        };
        let first = push(None);
        let place = first.bytes.as_ptr();
        let held = push(Some(first.clone()));
        assert_ne!(held.bytes.as_ptr(), place);
        assert_eq!(first, held);
        let again = push(Some(first));
        assert_eq!((again.bytes.as_ptr(), &again), (place, &held));
    }

    #[test]
    fn identity_leaves_no_residual() {
        let mut compressor = compressor(3, true);
        for nonce in 0..5 {
            compressor
                .compress(&mut vec![0.1, -1e-30, 3e30], Codec::Identity, nonce)
                .unwrap();
            assert_eq!(compressor.residual(), [0.0; 3]);
        }
    }

    #[test]
    fn a_bad_gradient_leaves_the_residual_alone() {
        let mut compressor = compressor(2, true);
        let codec = Codec::TopK(Density::new(0.5).unwrap());
        compressor.compress(&mut vec![2.0, 1.0], codec, 1).unwrap();
        for bad in [f32::NAN, f32::INFINITY] {
            assert!(compressor.compress(&mut vec![1.0, bad], codec, 2).is_err());
            assert_eq!(compressor.residual(), [0.0, 1.0]);
        }
        // The next clean gradient carries what was left.
        let payload = compressor.compress(&mut vec![0.0, 0.5], codec, 3).unwrap();
        assert_eq!(payload.bytes[4..], 1.5f32.to_le_bytes());
    }

    #[test]
    fn what_is_put_back_cannot_overflow() {
        let mut compressor = compressor(1, true);
        let sent = [1, 2].map(|nonce| {
            compressor
                .compress(&mut vec![3e38], Codec::Identity, nonce)
                .unwrap()
        });
        sent.iter().for_each(|payload| compressor.put_back(1.0, payload));
        assert_eq!(compressor.residual(), [f32::MAX]);
        compressor.compress(&mut vec![-1.0], Codec::Identity, 3).unwrap();
    }

    #[test]
    fn without_feedback_there_is_no_residual() {
        let mut compressor = compressor(2, false);
        let payload = compressor
            .compress(&mut vec![2.0, 1.0], Codec::Identity, 1)
            .unwrap();
        compressor.put_back(1.0, &payload);
        assert_eq!(
            (compressor.residual_norm(), compressor.residual().len()),
            (0.0, 0)
        );
    }

    #[test]
    fn the_cap_holds_and_what_it_takes_is_counted() {
        let mut compressor = bounded(2, Some(Bound::Cap(2.0)));
        let rejected = [1, 2, 3].map(|nonce| {
            compressor
                .compress(&mut vec![3.0, 4.0], Codec::Identity, nonce)
                .unwrap()
        });
        compressor.reject(1.0, &rejected[0]);
        compressor.reject(1.0, &rejected[1]);
        assert_eq!(
            (compressor.residual(), compressor.dropped),
            (&[6.0, 8.0][..], Dropped::default())
        );
        compressor.reject(1.0, &rejected[2]);
        // Of [9, 12], norm 15, two gradient norms of 5 are kept.
        assert_eq!(compressor.residual(), [6.0, 8.0]);
        let dropped = compressor.take_dropped();
        assert!(
            (dropped.sum - 7.0).abs() < 1e-6 && (dropped.norm - 5.0).abs() < 1e-6,
            "{dropped:?}"
        );
        assert_eq!(compressor.take_dropped(), Dropped::default());
    }

    #[test]
    fn decay_takes_its_share_at_each_rejection_and_at_nothing_else() {
        let mut compressor = bounded(2, Some(Bound::Decay(0.25)));
        let codec = Codec::TopK(Density::new(0.5).unwrap());
        let payload = compressor.compress(&mut vec![4.0, 2.0], codec, 1).unwrap();
        compressor.put_back(0.5, &payload);
        assert_eq!(
            (compressor.residual(), compressor.dropped),
            (&[2.0, 2.0][..], Dropped::default())
        );
        compressor.reject(1.0, &payload);
        assert_eq!(compressor.residual(), [4.5, 1.5]);
        assert_eq!(compressor.take_dropped().sum, 2.0);
    }

    /// The residual's norm, in gradient norms, of a worker that is never heard.
    fn never_heard(bound: Bound, pushes: u64) -> f64 {
        let mut compressor = bounded(4, Some(bound));
        for nonce in 0..pushes {
            let payload = compressor
                .compress(&mut vec![1.0, -1.0, 1.0, -1.0], Codec::Identity, nonce)
                .unwrap();
            compressor.reject(1.0, &payload);
        }
        compressor.residual_norm() / 2.0
    }

    #[test]
    fn only_a_bound_keeps_a_residual_finite() {
        assert_eq!(never_heard(Bound::None, 2000), 2000.0);
        assert!((never_heard(Bound::Cap(100.0), 2000) - 100.0).abs() < 1e-3);
        // e <- 0.9 (e + g) comes to rest at 9 g.
        assert!((never_heard(Bound::Decay(0.1), 2000) - 9.0).abs() < 1e-3);
    }

    #[test]
    fn norms_are_known_without_a_pass() {
        let mut compressor = compressor(2, true);
        compressor
            .compress(&mut vec![3.0, 4.0], Codec::TopK(Density::new(0.5).unwrap()), 1)
            .unwrap();
        assert_eq!(
            (compressor.gradient_norm(), compressor.residual_norm()),
            (5.0, 3.0)
        );
        let mut plain = bounded(2, None);
        plain.compress(&mut vec![3.0, 4.0], Codec::Identity, 1).unwrap();
        assert_eq!((plain.gradient_norm(), plain.residual_norm()), (5.0, 0.0));
    }

    fn bounds() -> impl Strategy<Value = Bound> {
        prop_oneof![
            Just(Bound::None),
            (0.1..3.0f64).prop_map(Bound::Cap),
            (0.01..=1.0f64).prop_map(Bound::Decay),
        ]
    }

    proptest! {
        /// What a bound drops is what is missing: the sums over all entries balance.
        #[test]
        fn what_is_dropped_balances(
            bound in bounds(),
            history in prop::collection::vec((prop::collection::vec(-1.0f32..1.0, 6), any::<bool>()), 1..40),
        ) {
            let mut compressor = bounded(6, Some(bound));
            let codec = Codec::TopK(Density::new(0.3).unwrap());
            let layout = Arc::clone(compressor.layout());
            let total = |values: &[f32]| values.iter().map(|&v| f64::from(v)).sum::<f64>();
            let (mut computed, mut taken, mut dropped) = (0.0, 0.0, 0.0);
            for (nonce, (gradient, accepted)) in history.into_iter().enumerate() {
                computed += total(&gradient);
                let payload = compressor.compress(&mut gradient.clone(), codec, nonce as u64).unwrap();
                if accepted {
                    taken += total(&payload.check(&layout).unwrap().decode());
                } else {
                    compressor.reject(1.0, &payload);
                }
                dropped += compressor.take_dropped().sum;
                let left = total(compressor.residual());
                prop_assert!((computed - taken - left - dropped).abs() < 1e-4);
                if let (Bound::Cap(cap), Some(mean)) = (bound, compressor.mean_norm) {
                    prop_assert!(sum_squares(compressor.residual()).sqrt() <= cap * mean * (1.0 + 1e-5));
                }
            }
        }

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
                let payload = compressor.compress(&mut gradient.clone(), codec, nonce as u64).unwrap();
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
