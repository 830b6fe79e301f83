//! The encoder: a flat vector in, a payload out, and in the vector's place what was left out.

use super::kept::Kept;
use super::select::{Selector, Sums};
use super::{Codec, Form, Format, Payload, Scope, Values, dense, packed, quantize, sparse};
use crate::ids::{Bits, Density};
use crate::layout::Layout;
use asgc_kernels::{Found, Key, all_finite, scan, sum_squares};
use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::ops::Range;
use std::sync::Arc;

/// Room for scales and the like, in bytes, so that a payload need not be moved while it is written.
const SLACK: usize = 1024;

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

/// What encoding made, besides the residual.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoded {
    /// To be sent.
    pub payload: Payload,
    /// L2 norm of the gradient, before anything was added to it.
    pub gradient_norm: f64,
    /// L2 norm of what was left out.
    pub residual_norm: f64,
}

/// Encodes vectors of one layout.
#[derive(Debug)]
pub struct Encoder {
    layout: Arc<Layout>,
    form: Form,
    seed: u64,
    selector: Selector,
    kept: Kept,
    /// The buffer of a payload that nobody needs any more: a new one would be made of pages that are not there yet.
    spare: Vec<u8>,
}

impl Encoder {
    /// An encoder of the plain form; `seed` drives stochastic rounding.
    #[must_use]
    pub fn new(layout: Arc<Layout>, seed: u64) -> Self {
        Self {
            layout,
            form: Form::default(),
            seed,
            selector: Selector::default(),
            kept: Kept::default(),
            spare: Vec::new(),
        }
    }

    /// The same, of another form.
    #[must_use]
    pub fn with_form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    /// The layout of the vectors.
    #[must_use]
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// How payloads are written.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    /// Encodes `values` (all tensors, flat); as [`Encoder::encode_in_place`], but leaves them as they are.
    ///
    /// # Panics
    /// When `values` has another length than the layout.
    pub fn encode(&mut self, values: &[f32], codec: Codec, nonce: u64) -> Result<Payload, NonFinite> {
        let encoded = self.encode_in_place(&mut values.to_vec(), None, codec, nonce);
        encoded.map(|encoded| encoded.payload)
    }

    /// Encodes the gradient in `u` (all tensors, flat), to which the residual `e` is added first, and leaves in `u` the new
    /// residual, `u + e` less what the payload decodes to; without an `e`, and unless the codec is Top-K, something that means
    /// nothing. `nonce` must differ from one call to the next: together with the seed it determines the random choices. Errors
    /// when a value is NaN or infinite; `u` then means nothing.
    ///
    /// # Panics
    /// When `u` or `e` has another length than the layout.
    pub fn encode_in_place(
        &mut self,
        u: &mut [f32],
        e: Option<&[f32]>,
        codec: Codec,
        nonce: u64,
    ) -> Result<Encoded, NonFinite> {
        let fits = |len: usize| len == self.layout.parameters();
        assert!(
            fits(u.len()) && e.is_none_or(|e| fits(e.len())),
            "a gradient has the layout's length"
        );
        let format = self.form.format(codec);
        let about = self.form.payload_bytes(codec, u.len() as u64) as usize;
        let (mut bytes, mut entries) = (self.buffer(about + about / 64 + SLACK), Vec::new());
        let sums = match codec {
            Codec::TopK(rho) => self.top_k(u, e, rho, (&mut bytes, &mut entries))?,
            Codec::Quantize(bits) => self.quantized(u, e, (bits, nonce), &mut bytes)?,
            Codec::Identity | Codec::Sign => self.dense(u, e, format, &mut bytes)?,
        };
        Ok(Encoded {
            payload: Payload {
                format,
                entries,
                bytes: bytes.into(),
            },
            gradient_norm: sums.gradient.sqrt(),
            residual_norm: sums.rest.sqrt(),
        })
    }

    /// Takes a payload that is needed no more, for its buffer. One that somebody else still holds is let go.
    pub(crate) fn recycle(&mut self, payload: Payload) {
        if let Ok(mut buffer) = payload.bytes.try_into_mut() {
            buffer.clear();
            self.spare = buffer.into();
        }
    }

    /// An empty buffer of that capacity at least, and of not much more.
    fn buffer(&mut self, capacity: usize) -> Vec<u8> {
        let spare = std::mem::take(&mut self.spare);
        match (capacity..=2 * capacity).contains(&spare.capacity()) {
            true => spare,
            false => Vec::with_capacity(capacity),
        }
    }

    /// Where the entries are that the last Top-K payload carries.
    pub(crate) fn kept(&self) -> &[u32] {
        &self.kept.indices
    }

    /// Whether all values may be sent.
    pub(crate) fn check(&self, values: &[f32]) -> Result<(), NonFinite> {
        if all_finite(values) {
            return Ok(());
        }
        let at = values.iter().position(|value| !value.is_finite()).unwrap_or(0);
        Err(self.non_finite(at, values))
    }

    fn top_k(
        &mut self,
        u: &mut [f32],
        e: Option<&[f32]>,
        rho: Density,
        (bytes, entries): (&mut Vec<u8>, &mut Vec<u32>),
    ) -> Result<Sums, NonFinite> {
        let layout = Arc::clone(&self.layout);
        let mut sums = Sums::default();
        self.kept.clear();
        let parts: Vec<Range<usize>> = match self.form.scope {
            Scope::Tensor => layout.ranges().filter(|range| !range.is_empty()).collect(),
            Scope::Model => std::iter::once(0..u.len()).collect(),
        };
        for part in parts {
            let wanted = (part.start as u32, rho.keep_of(part.len()));
            let e = e.map(|e| &e[part.clone()]);
            let selected = self
                .selector
                .select(&mut u[part.clone()], e, wanted, &mut self.kept);
            let selected = selected.map_err(|at| self.non_finite(part.start + at, u))?;
            sums.gradient += selected.gradient;
            sums.rest += selected.rest;
        }
        match self.form.format(Codec::TopK(rho)).packed_values() {
            None => *entries = sparse::write(&self.kept, &layout, bytes),
            Some(values) => {
                packed::write(&mut self.kept, values, bytes);
                if values != Values::F32 {
                    sums.rest += self.kept.add_to(u);
                }
            }
        }
        Ok(sums)
    }

    fn quantized(
        &self,
        u: &mut [f32],
        e: Option<&[f32]>,
        (bits, nonce): (Bits, u64),
        bytes: &mut Vec<u8>,
    ) -> Result<Sums, NonFinite> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(nonce);
        let packed = self.form.packed;
        if packed {
            bytes.push(bits.get());
        }
        let mut sums = Sums::default();
        for range in self.layout.ranges() {
            let squares = self.add(u, e, range.clone(), &mut sums)?;
            let too_large = || self.non_finite(largest(&u[range.clone()]) + range.start, u);
            let scale = quantize::scale(squares, bits).ok_or_else(too_large)?;
            let key = Key([rng.next_u32(), rng.next_u32()]);
            let coding = quantize::Coding { bits, packed, key };
            sums.rest += quantize::write(&mut u[range], scale, (coding, e.is_some()), bytes);
        }
        Ok(sums)
    }

    fn dense(
        &self,
        u: &mut [f32],
        e: Option<&[f32]>,
        format: Format,
        bytes: &mut Vec<u8>,
    ) -> Result<Sums, NonFinite> {
        let mut sums = Sums::default();
        for range in self.layout.ranges() {
            self.add(u, e, range.clone(), &mut sums)?;
            let values = &mut u[range];
            sums.rest += match format {
                Format::Sign => dense::write_signs(values, bytes),
                _ => dense::write(values, (format, e.is_some()), bytes),
            };
        }
        Ok(sums)
    }

    /// Adds the residual of one tensor and checks the sum; returns its sum of squares.
    fn add(
        &self,
        u: &mut [f32],
        e: Option<&[f32]>,
        range: Range<usize>,
        sums: &mut Sums,
    ) -> Result<f64, NonFinite> {
        let values = &mut u[range.clone()];
        let (gradient, sum) = if let Some(e) = e {
            // Nothing exceeds that, not even a NaN: it is in the sums.
            let (above_all, mut nothing) = ((0, u32::MAX >> 1), Found::default());
            let squares = scan(values, Some(&e[range.clone()]), above_all, &mut nothing);
            (squares.before, squares.rest)
        } else {
            let squares = sum_squares(values);
            (squares, squares)
        };
        // The squares of what is finite do not leave the range of `f64`.
        if !sum.is_finite() {
            let at = values.iter().position(|v| !v.is_finite()).unwrap_or(0);
            return Err(self.non_finite(range.start + at, u));
        }
        sums.gradient += gradient;
        Ok(sum)
    }

    fn non_finite(&self, flat: usize, values: &[f32]) -> NonFinite {
        let mut ranges = self.layout.ranges().enumerate();
        let (i, range) = ranges
            .find(|(_, range)| range.contains(&flat))
            .unwrap_or((0, 0..0));
        NonFinite {
            tensor: self.layout.tensors()[i].name.clone(),
            entry: flat - range.start,
            value: values[flat],
        }
    }
}

/// Where the largest magnitude is: the culprit where values are finite but their norm is not.
fn largest(values: &[f32]) -> usize {
    let magnitude = |(_, a): &(usize, &f32), (_, b): &(usize, &f32)| a.abs().total_cmp(&b.abs());
    values
        .iter()
        .enumerate()
        .max_by(magnitude)
        .map_or(0, |(at, _)| at)
}
