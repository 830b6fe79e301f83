//! A push's bytes, before and after they are checked.

use super::Format;
use super::piece::{Piece, floats, indices};
use super::quantize::decodes_finite;
use crate::layout::Layout;
use bytes::Bytes;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

/// The pieces of all tensors, as a codec emitted them or as a peer claims it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// How to read the bytes.
    pub format: Format,
    /// Top-K: entries of each tensor's piece; empty for other formats.
    pub entries: Vec<u32>,
    /// The pieces, one after the other.
    pub bytes: Bytes,
}

/// Why bytes are no payload for a layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The list of entry counts does not go with the tensors.
    #[error("the payload counts entries of {found} tensors; {expected} were expected")]
    EntryCounts {
        /// Counts found.
        found: usize,
        /// Counts expected.
        expected: usize,
    },
    /// More entries than the tensor has.
    #[error("tensor {tensor}: {entries} entries are more than its {len}")]
    TooManyEntries {
        /// Index of the tensor.
        tensor: usize,
        /// Entries claimed.
        entries: u32,
        /// Entries there are.
        len: usize,
    },
    /// Truncated, or with something behind.
    #[error("the payload has {found} bytes; its format and entry counts make {expected}")]
    Length {
        /// Bytes found.
        found: u64,
        /// Bytes expected.
        expected: u64,
    },
    /// An index outside the tensor.
    #[error("tensor {tensor}: index {index} is out of range, the tensor has {len} entries")]
    IndexOutOfRange {
        /// Index of the tensor.
        tensor: usize,
        /// The entry's index.
        index: usize,
        /// Entries there are.
        len: usize,
    },
    /// Indices must rise strictly, which also keeps them apart.
    #[error("tensor {tensor}: index {index} does not rise above the one before it")]
    IndexOrder {
        /// Index of the tensor.
        tensor: usize,
        /// The entry's index.
        index: usize,
    },
    /// A NaN or infinity, written out or as the product of code and scale.
    #[error("tensor {tensor} holds a value that is not finite")]
    NonFinite {
        /// Index of the tensor.
        tensor: usize,
    },
}

impl Payload {
    /// The length that `format` and `entries` announce for `layout`, in bytes; errors when they cannot be.
    pub fn expected_bytes(format: Format, entries: &[u32], layout: &Layout) -> Result<u64, PayloadError> {
        let tensors = layout.tensors().len();
        let expected = if format == Format::TopK { tensors } else { 0 };
        if entries.len() != expected {
            return Err(PayloadError::EntryCounts {
                found: entries.len(),
                expected,
            });
        }
        let counts = entries.iter().zip(layout.ranges()).enumerate();
        for (tensor, (&entries, range)) in counts {
            if entries as usize > range.len() {
                return Err(PayloadError::TooManyEntries {
                    tensor,
                    entries,
                    len: range.len(),
                });
            }
        }
        Ok(match format {
            Format::Identity => layout.dense_bytes(),
            Format::TopK => entries.iter().map(|&k| 8 * u64::from(k)).sum(),
            Format::Quantize => layout.parameters() as u64 + 4 * tensors as u64,
        })
    }

    /// Checks lengths, indices and finiteness, in that order, so that nothing behind can fail or panic.
    pub fn check(self, layout: &Arc<Layout>) -> Result<CheckedPayload, PayloadError> {
        let expected = Self::expected_bytes(self.format, &self.entries, layout)?;
        if self.bytes.len() as u64 != expected {
            return Err(PayloadError::Length {
                found: self.bytes.len() as u64,
                expected,
            });
        }
        let checked = CheckedPayload {
            payload: self,
            layout: Arc::clone(layout),
        };
        checked.try_for_each(|tensor, range, piece| check_indices(tensor, range.len(), piece))?;
        checked.try_for_each(|tensor, _, piece| match is_finite(piece) {
            true => Ok(()),
            false => Err(PayloadError::NonFinite { tensor }),
        })?;
        Ok(checked)
    }
}

fn check_indices(tensor: usize, len: usize, piece: Piece<'_>) -> Result<(), PayloadError> {
    let Piece::Sparse { indices: bytes, .. } = piece else {
        return Ok(());
    };
    let mut next = 0;
    for index in indices(bytes) {
        if index >= len {
            return Err(PayloadError::IndexOutOfRange { tensor, index, len });
        }
        if index < next {
            return Err(PayloadError::IndexOrder { tensor, index });
        }
        next = index + 1;
    }
    Ok(())
}

fn is_finite(piece: Piece<'_>) -> bool {
    match piece {
        Piece::Dense { values } | Piece::Sparse { values, .. } => {
            floats(values).fold(true, |finite, value| finite & value.is_finite())
        }
        Piece::Quantized { scale, codes } => decodes_finite(scale, codes),
    }
}

/// A payload that was found sound for its layout; the only kind that can be applied.
#[derive(Debug, Clone)]
pub struct CheckedPayload {
    payload: Payload,
    layout: Arc<Layout>,
}

impl CheckedPayload {
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

    /// Adds `alpha * D(payload)` to a flat vector of the layout's length.
    pub fn add_scaled_to(&self, alpha: f32, target: &mut [f32]) {
        self.for_each(|range, piece| piece.add_scaled(alpha, 0, &mut target[range]));
    }

    /// Walks the intersections of tensors with chunks of `chunk_len` entries that the payload touches:
    /// `visit(chunk, offset in chunk, entries, add)`, where `add` adds `alpha * D(payload)` to the slice.
    pub(crate) fn for_each_in_chunks(
        &self,
        chunk_len: usize,
        mut visit: impl FnMut(usize, Range<usize>, &dyn Fn(f32, &mut [f32])),
    ) {
        self.for_each(|range, piece| {
            let mut from = 0;
            while from < range.len() {
                let (chunk, offset) = ((range.start + from) / chunk_len, (range.start + from) % chunk_len);
                let take = (range.len() - from).min(chunk_len - offset);
                if piece.touches(from, take) {
                    let add = |alpha: f32, target: &mut [f32]| piece.add_scaled(alpha, from, target);
                    visit(chunk, offset..offset + take, &add);
                }
                from += take;
            }
        });
    }

    /// The decoded vector, for those who need it whole.
    #[must_use]
    pub fn decode(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.layout.parameters()];
        self.add_scaled_to(1.0, &mut values);
        values
    }

    fn for_each(&self, mut visit: impl FnMut(Range<usize>, Piece<'_>)) {
        let walked = self.try_for_each::<Infallible>(|_, range, piece| {
            visit(range, piece);
            Ok(())
        });
        let Ok(()) = walked;
    }

    /// Calls `visit(tensor, its range, its piece)` for each tensor. Lengths must have been checked.
    fn try_for_each<E>(
        &self,
        mut visit: impl FnMut(usize, Range<usize>, Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = &self.payload.bytes[..];
        for (tensor, range) in self.layout.ranges().enumerate() {
            let len = range.len();
            let piece = match self.payload.format {
                Format::Identity => Piece::Dense {
                    values: take(&mut rest, 4 * len),
                },
                Format::TopK => {
                    let bytes = 4 * self.payload.entries[tensor] as usize;
                    Piece::Sparse {
                        indices: take(&mut rest, bytes),
                        values: take(&mut rest, bytes),
                    }
                }
                Format::Quantize => {
                    let scale = floats(take(&mut rest, 4)).next().unwrap_or(0.0);
                    Piece::Quantized {
                        scale,
                        codes: take(&mut rest, len),
                    }
                }
            };
            visit(tensor, range, piece)?;
        }
        Ok(())
    }
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (head, tail) = rest.split_at(len);
    *rest = tail;
    head
}
