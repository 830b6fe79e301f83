//! Packed Top-K: entries of the whole model in groups, each with the gaps between its indices and its values.
//!
//! | offset | what |
//! |---|---|
//! | 0 | `u32` number of entries, all tensors together |
//! | 4 | groups of 128 entries, the last with what is left: gaps ([`super::rice`]), then values ([`super::values`]) |
//!
//! Indices are places in the flat vector. A gap is the number of entries left out since the entry before, for the first one
//! since the beginning. Gradients leave out entries that are 0.

use super::kept::Kept;
use super::{PayloadError, Values, rice, values};

/// Entries that share a parameter and levels.
const GROUP: usize = 128;

/// The most that an entry takes besides its value, in bytes, and the most that a group adds.
const MOST_OF_GAP: u64 = 5;
const MOST_OF_GROUP: u64 = 6;

/// Appends a payload of the entries that are not 0, and leaves in `kept` what a decoder will not see of them.
pub(super) fn write(kept: &mut Kept, kind: Values, out: &mut Vec<u8>) {
    kept.drop_zeros();
    write_all(kept, kind, out);
}

/// The same, of all entries.
pub(super) fn write_all(kept: &mut Kept, kind: Values, out: &mut Vec<u8>) {
    out.extend_from_slice(&(kept.len() as u32).to_le_bytes());
    let (mut next, mut gaps) = (0, [0; GROUP]);
    for (indices, group) in kept.indices.chunks(GROUP).zip(kept.values.chunks_mut(GROUP)) {
        let gaps = &mut gaps[..indices.len()];
        for (gap, &index) in gaps.iter_mut().zip(indices) {
            *gap = index - next;
            next = index.wrapping_add(1);
        }
        rice::write(gaps, out);
        values::write(group, kind, out);
    }
}

/// The most bytes that a payload for `parameters` entries may have.
pub(super) fn most_bytes(parameters: usize, kind: Values) -> u64 {
    let entries = parameters as u64;
    let value = values::len(1, kind) as u64;
    4 + entries * (MOST_OF_GAP + value) + entries.div_ceil(GROUP as u64) * MOST_OF_GROUP
}

/// The entries of a payload for `parameters` entries.
pub(super) fn read(bytes: &[u8], kind: Values, parameters: usize) -> Result<Kept, PayloadError> {
    let (&count, mut rest) = bytes.split_first_chunk::<4>().ok_or(PayloadError::Truncated)?;
    let count = u32::from_le_bytes(count) as usize;
    // An entry takes a bit and a value at least, so a false count costs no more memory than was sent.
    if count > parameters || count > 8 * rest.len() {
        return Err(PayloadError::Count {
            entries: count,
            parameters,
        });
    }
    let mut kept = Kept {
        indices: Vec::with_capacity(count),
        values: Vec::with_capacity(count),
    };
    let (mut next, mut gaps) = (0, [0; GROUP]);
    while kept.len() < count {
        let gaps = &mut gaps[..GROUP.min(count - kept.len())];
        let length = rice::read(rest, gaps).ok_or(PayloadError::Truncated)?;
        rest = &rest[length..];
        next = indices(gaps, next, parameters, &mut kept.indices)?;
        let length = values::len(gaps.len(), kind);
        let group = rest.get(..length).ok_or(PayloadError::Truncated)?;
        values::read(group, kind, &mut kept.values);
        rest = &rest[length..];
    }
    match rest.len() {
        0 => Ok(kept),
        over => Err(PayloadError::Length {
            found: bytes.len() as u64,
            expected: (bytes.len() - over) as u64,
        }),
    }
}

/// Turns gaps into indices; returns the first index that the next entry may have.
fn indices(gaps: &[u64], mut next: u64, parameters: usize, out: &mut Vec<u32>) -> Result<u64, PayloadError> {
    for &gap in gaps {
        let index = next.saturating_add(gap);
        if index >= parameters as u64 {
            return Err(PayloadError::OutOfRange { index, parameters });
        }
        out.push(index as u32);
        next = index + 1;
    }
    Ok(next)
}
