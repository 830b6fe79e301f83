//! Plain Top-K: per tensor `k` little-endian `i32` indices within it, strictly rising, then their `k` `f32` values. How many
//! each tensor has travels beside the payload.

use super::kept::Kept;
use super::{PayloadError, piece};
use crate::layout::Layout;

/// Appends a payload; returns how many entries each tensor has.
pub(super) fn write(kept: &Kept, layout: &Layout, out: &mut Vec<u8>) -> Vec<u32> {
    let mut piece = |range: std::ops::Range<usize>| {
        let entries = kept.span(range.start, range.end);
        let from = range.start as u32;
        append(&kept.indices[entries.clone()], |index| index - from, out);
        append(&kept.values[entries.clone()], f32::to_bits, out);
        entries.len() as u32
    };
    layout.ranges().map(&mut piece).collect()
}

/// Appends words, some at a time: faster than one by one, and than zeros that are then overwritten.
fn append<T: Copy>(from: &[T], word: impl Fn(T) -> u32, out: &mut Vec<u8>) {
    let mut words = [[0; 4]; 1024];
    for from in from.chunks(words.len()) {
        let words = &mut words[..from.len()];
        for (bytes, &value) in words.iter_mut().zip(from) {
            *bytes = word(value).to_le_bytes();
        }
        out.extend_from_slice(words.as_flattened());
    }
}

/// The entries of a payload, whose length fits `entries`.
pub(super) fn read(bytes: &[u8], entries: &[u32], layout: &Layout) -> Result<Kept, PayloadError> {
    let mut rest = bytes;
    let total = bytes.len() / 8;
    let mut kept = Kept {
        indices: Vec::with_capacity(total),
        values: Vec::with_capacity(total),
    };
    for (tensor, (&count, range)) in entries.iter().zip(layout.ranges()).enumerate() {
        let (indices, behind) = rest.split_at(4 * count as usize);
        let (values, behind) = behind.split_at(4 * count as usize);
        rest = behind;
        rising(indices, (tensor, &range), &mut kept.indices)?;
        kept.values.extend(piece::floats(values));
    }
    Ok(kept)
}

fn rising(
    bytes: &[u8],
    (tensor, range): (usize, &std::ops::Range<usize>),
    out: &mut Vec<u32>,
) -> Result<(), PayloadError> {
    let (len, start) = (range.len(), range.start as u32);
    let mut next = 0;
    for word in bytes.as_chunks::<4>().0 {
        // As unsigned: a negative index turns out far beyond any tensor.
        let index = u32::from_le_bytes(*word);
        if index as usize >= len {
            return Err(PayloadError::IndexOutOfRange {
                tensor,
                index: index as usize,
                len,
            });
        }
        if index < next {
            return Err(PayloadError::IndexOrder {
                tensor,
                index: index as usize,
            });
        }
        next = index + 1;
        out.push(start + index);
    }
    Ok(())
}
