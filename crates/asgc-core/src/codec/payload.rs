//! A push's bytes, before and after they are checked.

use super::kept::Kept;
use super::{CheckedPayload, Format, Values, packed, quantize};
use crate::layout::Layout;
use bytes::Bytes;
use std::sync::Arc;

/// The pieces of all tensors, as a codec emitted them or as a peer claims it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// How to read the bytes.
    pub format: Format,
    /// Plain Top-K: entries of each tensor's piece; empty for other formats.
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
    /// It ends before its last entry.
    #[error("the payload ends in the middle of an entry")]
    Truncated,
    /// More bytes than any payload of its format has.
    #[error("the payload has {found} bytes; its format takes {most} at most")]
    TooLong {
        /// Bytes found.
        found: u64,
        /// The most there can be.
        most: u64,
    },
    /// More entries than the model has, or than there are bytes for.
    #[error("the payload counts {entries} entries of a model of {parameters}, or more than it has bytes for")]
    Count {
        /// Entries claimed.
        entries: usize,
        /// Entries there are.
        parameters: usize,
    },
    /// An index outside the model.
    #[error("index {index} is out of range, the model has {parameters} entries")]
    OutOfRange {
        /// The entry's index.
        index: u64,
        /// Entries there are.
        parameters: usize,
    },
    /// Codes of a width that there is not.
    #[error("codes of {bits} bits; there are 2 to 8")]
    Width {
        /// The width claimed.
        bits: u8,
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
    /// Of the values at rising places of the flat vector, exactly, be they 0.
    pub(crate) fn of_places(indices: Vec<u32>, values: Vec<f32>) -> Self {
        let mut bytes = Vec::with_capacity(6 * indices.len() + 64);
        packed::write_all(&mut Kept { indices, values }, Values::F32, &mut bytes);
        Self {
            format: Format::TopKPacked,
            entries: Vec::new(),
            bytes: bytes.into(),
        }
    }

    /// Checks what a header announces: whether a payload of that format, with entries counted so, can have that length.
    pub fn check_claim(
        format: Format,
        entries: &[u32],
        payload_bytes: u64,
        layout: &Layout,
    ) -> Result<(), PayloadError> {
        check_counts(format, entries, layout)?;
        let found = payload_bytes;
        if let Some(expected) = exact_bytes(format, entries, layout) {
            return match found == expected {
                true => Ok(()),
                false => Err(PayloadError::Length { found, expected }),
            };
        }
        let most = match format.packed_values() {
            Some(values) => packed::most_bytes(layout.parameters(), values),
            None => quantize::packed_bytes(8, layout),
        };
        match found <= most {
            true => Ok(()),
            false => Err(PayloadError::TooLong { found, most }),
        }
    }

    /// Checks lengths, indices and finiteness, in that order, so that nothing behind can fail or panic.
    pub fn check(self, layout: &Arc<Layout>) -> Result<CheckedPayload, PayloadError> {
        let found = self.bytes.len() as u64;
        Self::check_claim(self.format, &self.entries, found, layout)?;
        if self.format == Format::QuantizePacked {
            let &bits = self.bytes.first().ok_or(PayloadError::Truncated)?;
            if !(2..=8).contains(&bits) {
                return Err(PayloadError::Width { bits });
            }
            let expected = quantize::packed_bytes(bits, layout);
            if found != expected {
                return Err(PayloadError::Length { found, expected });
            }
        }
        CheckedPayload::read(self, layout)
    }
}

fn check_counts(format: Format, entries: &[u32], layout: &Layout) -> Result<(), PayloadError> {
    let tensors = layout.tensors().len();
    let expected = if format == Format::TopK { tensors } else { 0 };
    if entries.len() != expected {
        return Err(PayloadError::EntryCounts {
            found: entries.len(),
            expected,
        });
    }
    for (tensor, (&entries, range)) in entries.iter().zip(layout.ranges()).enumerate() {
        if entries as usize > range.len() {
            return Err(PayloadError::TooManyEntries {
                tensor,
                entries,
                len: range.len(),
            });
        }
    }
    Ok(())
}

/// The length that format and counts make; `None` where it depends on the bytes.
fn exact_bytes(format: Format, entries: &[u32], layout: &Layout) -> Option<u64> {
    let scales = 4 * layout.tensors().len() as u64;
    match format {
        Format::Identity => Some(layout.dense_bytes()),
        Format::Bf16 | Format::Fp16 => Some(layout.dense_bytes() / 2),
        Format::TopK => Some(entries.iter().map(|&k| 8 * u64::from(k)).sum()),
        Format::Quantize => Some(layout.parameters() as u64 + scales),
        Format::Sign => Some(
            layout
                .ranges()
                .map(|range| range.len().div_ceil(8) as u64)
                .sum::<u64>()
                + scales,
        ),
        Format::TopKPacked | Format::TopKPackedBf16 | Format::TopKPackedInt8 | Format::QuantizePacked => None,
    }
}
