//! The encoder: a flat vector in, a payload out.

use super::{Codec, Payload, identity, quantize, topk};
use crate::layout::Layout;
use bytes::BytesMut;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::sync::Arc;

/// A gradient that may not be sent.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "the gradient of tensor {tensor} is not finite ({value} at entry {entry}): \
     it was not sent, and the residual is as it was"
)]
pub struct NonFinite {
    /// The tensor's name.
    pub tensor: String,
    /// Index within the tensor.
    pub entry: usize,
    /// The value found there.
    pub value: f32,
}

/// Encodes vectors of one layout.
#[derive(Debug)]
pub struct Encoder {
    layout: Arc<Layout>,
    seed: u64,
    keys: Vec<u64>,
}

impl Encoder {
    /// `seed` drives stochastic rounding.
    #[must_use]
    pub fn new(layout: Arc<Layout>, seed: u64) -> Self {
        Self {
            layout,
            seed,
            keys: Vec::new(),
        }
    }

    /// The layout of the vectors.
    #[must_use]
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Encodes `values` (all tensors, flat). `nonce` must differ from one call to the next: together with
    /// the seed it determines the random choices. Errors when a value is NaN or infinite.
    ///
    /// # Panics
    /// When `values` has another length than the layout.
    pub fn encode(&mut self, values: &[f32], codec: Codec, nonce: u64) -> Result<Payload, NonFinite> {
        assert_eq!(
            values.len(),
            self.layout.parameters(),
            "a gradient has the layout's length"
        );
        self.check_finite(values)?;
        let layout = Arc::clone(&self.layout);
        let mut bytes = BytesMut::with_capacity(codec.payload_bytes(&layout) as usize);
        let mut entries = Vec::new();
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(nonce);
        for (i, range) in layout.ranges().enumerate() {
            let tensor = &values[range];
            match codec {
                Codec::Identity => identity::encode(tensor, &mut bytes),
                Codec::TopK(rho) => entries.push(topk::encode(tensor, rho, &mut self.keys, &mut bytes)),
                Codec::Quantize(bits) => quantize::encode(tensor, bits, &mut rng, &mut bytes)
                    .ok_or_else(|| self.too_large(i, tensor))?,
            }
        }
        Ok(Payload {
            format: codec.format(),
            entries,
            bytes: bytes.freeze(),
        })
    }

    fn check_finite(&self, values: &[f32]) -> Result<(), NonFinite> {
        // A sum of |exponent is all ones| vectorises; the culprit is looked for only when there is one.
        if values.iter().fold(true, |finite, v| finite & v.is_finite()) {
            return Ok(());
        }
        let flat = values.iter().position(|v| !v.is_finite()).unwrap_or(0);
        let (i, range) = self
            .layout
            .ranges()
            .enumerate()
            .find(|(_, r)| r.contains(&flat))
            .unwrap_or((0, 0..0));
        let tensor = self.layout.tensors()[i].name.clone();
        Err(NonFinite {
            tensor,
            entry: flat - range.start,
            value: values[flat],
        })
    }

    /// The values are finite but their norm is not.
    fn too_large(&self, tensor: usize, values: &[f32]) -> NonFinite {
        let largest = |(_, a): &(usize, &f32), (_, b): &(usize, &f32)| a.abs().total_cmp(&b.abs());
        let (entry, &value) = values
            .iter()
            .enumerate()
            .max_by(largest)
            .unwrap_or((0, &f32::INFINITY));
        NonFinite {
            tensor: self.layout.tensors()[tensor].name.clone(),
            entry,
            value,
        }
    }
}
