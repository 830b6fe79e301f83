//! A payload that was found sound.

use super::kept::Kept;
use super::piece::{Piece, floats};
use super::{Format, Payload, PayloadError};
use crate::layout::Layout;
use asgc_kernels as kernels;
use std::ops::Range;
use std::sync::Arc;

/// A payload that was found sound for its layout; the only kind that can be applied.
#[derive(Debug, Clone)]
pub struct CheckedPayload {
    payload: Payload,
    layout: Arc<Layout>,
    /// The entries of a sparse payload: reading them is most of the check.
    sparse: Option<Arc<Kept>>,
}

impl CheckedPayload {
    /// Reads a payload whose length was found right.
    pub(super) fn read(payload: Payload, layout: &Arc<Layout>) -> Result<Self, PayloadError> {
        let sparse = match (payload.format, payload.format.packed_values()) {
            (_, Some(values)) => Some(super::packed::read(&payload.bytes, values, layout.parameters())?),
            (Format::TopK, None) => Some(super::sparse::read(&payload.bytes, &payload.entries, layout)?),
            _ => None,
        };
        let checked = Self {
            payload,
            layout: Arc::clone(layout),
            sparse: sparse.map(Arc::new),
        };
        checked.check_finite()?;
        Ok(checked)
    }

    fn check_finite(&self) -> Result<(), PayloadError> {
        let Some(kept) = &self.sparse else {
            return self.try_for_each(|tensor, _, piece| match piece.is_finite() {
                true => Ok(()),
                false => Err(PayloadError::NonFinite { tensor }),
            });
        };
        if kernels::all_finite(&kept.values) {
            return Ok(());
        }
        let bad = kept
            .values
            .iter()
            .position(|value| !value.is_finite())
            .unwrap_or(0);
        let index = kept.indices[bad] as usize;
        let tensor = self
            .layout
            .ranges()
            .position(|range| range.contains(&index))
            .unwrap_or(0);
        Err(PayloadError::NonFinite { tensor })
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.payload.bytes.len() as u64
    }

    /// Whether there are no bytes at all, which is legal: it moves nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.payload.bytes.is_empty()
    }

    /// Entries of the decoded vector.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.layout.parameters()
    }

    /// The bytes and how to read them.
    #[must_use]
    pub fn payload(&self) -> &Payload {
        &self.payload
    }

    /// What applying it takes, in entries of a vector that is worked through from end to end.
    #[must_use]
    pub(crate) fn work(&self) -> usize {
        // An entry somewhere in memory takes as long as eight that follow each other.
        self.indices()
            .map_or(self.parameters(), |places| 8 * places.len())
    }

    /// The rising places in the flat vector that a sparse payload changes; `None` where it may change all.
    #[must_use]
    pub fn indices(&self) -> Option<&[u32]> {
        self.sparse.as_deref().map(|kept| &kept.indices[..])
    }

    /// Adds `alpha * D(payload)` to a flat vector of the layout's length.
    pub fn add_scaled_to(&self, alpha: f32, target: &mut [f32]) {
        self.add_scaled_within(alpha, 0, target);
    }

    /// Adds `alpha` times the entries `[from, from + target.len())` of `D(payload)` to `target`.
    pub fn add_scaled_within(&self, alpha: f32, from: usize, target: &mut [f32]) {
        let to = from + target.len();
        if let Some(kept) = &self.sparse {
            let span = kept.span(from, to);
            let entries = (&kept.indices[span.clone()], &kept.values[span]);
            kernels::add_scaled_sparse(alpha, entries, from, target);
            return;
        }
        self.for_each(|range, piece| {
            let (start, end) = (range.start.max(from), range.end.min(to));
            if start < end && piece.moves() {
                piece.add_scaled(alpha, start - range.start, &mut target[start - from..end - from]);
            }
        });
    }

    /// Puts the entries of `[from, from + target.len())` that a sparse payload carries in the place of those of `target`;
    /// of one that carries every entry, all.
    pub fn set_within(&self, from: usize, target: &mut [f32]) {
        let Some(kept) = &self.sparse else {
            target.fill(0.0);
            return self.add_scaled_within(1.0, from, target);
        };
        let span = kept.span(from, from + target.len());
        for (&index, &value) in kept.indices[span.clone()].iter().zip(&kept.values[span]) {
            target[index as usize - from] = value;
        }
    }

    /// Whether any entry of `[from, from + len)` is carried.
    #[must_use]
    pub fn touches(&self, from: usize, len: usize) -> bool {
        match &self.sparse {
            Some(kept) => !kept.span(from, from + len).is_empty(),
            None => len > 0,
        }
    }

    /// The decoded vector, for those who need it whole.
    #[must_use]
    pub fn decode(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.layout.parameters()];
        self.add_scaled_to(1.0, &mut values);
        values
    }

    fn for_each(&self, mut visit: impl FnMut(Range<usize>, Piece<'_>)) {
        let walked = self.try_for_each::<std::convert::Infallible>(|_, range, piece| {
            visit(range, piece);
            Ok(())
        });
        let Ok(()) = walked;
    }

    /// Calls `visit(tensor, its range, its piece)` for each tensor of a payload that sends every entry.
    fn try_for_each<E>(
        &self,
        mut visit: impl FnMut(usize, Range<usize>, Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = &self.payload.bytes[..];
        let bits = match self.payload.format {
            Format::QuantizePacked => take(&mut rest, 1)[0],
            _ => 8,
        };
        for (tensor, range) in self.layout.ranges().enumerate() {
            let len = range.len();
            let piece = match self.payload.format {
                Format::Bf16 => Piece::Bf16(take(&mut rest, 2 * len)),
                Format::Fp16 => Piece::Fp16(take(&mut rest, 2 * len)),
                Format::Quantize => Piece::Codes {
                    scale: scale(&mut rest),
                    codes: take(&mut rest, len),
                },
                Format::QuantizePacked => {
                    let scale = scale(&mut rest);
                    Piece::PackedCodes {
                        scale,
                        bits,
                        codes: take(&mut rest, kernels::packed_len(len, bits)),
                    }
                }
                Format::Sign => Piece::Signs {
                    scale: scale(&mut rest),
                    signs: take(&mut rest, len.div_ceil(8)),
                },
                // Sparse ones are not walked.
                _ => Piece::F32(take(&mut rest, 4 * len)),
            };
            visit(tensor, range, piece)?;
        }
        Ok(())
    }
}

fn scale(rest: &mut &[u8]) -> f32 {
    floats(take(rest, 4)).next().unwrap_or(0.0)
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (head, tail) = rest.split_at(len);
    *rest = tail;
    head
}
