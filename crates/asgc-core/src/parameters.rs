//! The parameters as chunks behind shared pointers.
//!
//! A pull takes the pointers of all chunks at one version and streams them at leisure; an update copies
//! only chunks that someone is still reading, and only those that it touches.

use crate::codec::CheckedPayload;
use asgc_kernels::{bf16_bits, bf16_value};
use std::sync::Arc;

/// A chunk, shared with the snapshots that hold it.
pub type Chunk = Arc<[f32]>;

/// The flat parameter vector in chunks of equal length, but for the last.
#[derive(Debug, Clone)]
pub struct Parameters {
    chunks: Vec<Chunk>,
    chunk_len: usize,
}

impl Parameters {
    /// Cuts `values` into chunks of `chunk_len` entries (at least 1).
    #[must_use]
    pub fn new(values: &[f32], chunk_len: usize) -> Self {
        let chunk_len = chunk_len.max(1);
        let chunks = values.chunks(chunk_len).map(Arc::from).collect();
        Self { chunks, chunk_len }
    }

    /// Of chunks that all have the length of the first, but for the last.
    #[must_use]
    pub fn of_chunks(chunks: Vec<Chunk>) -> Self {
        let chunk_len = chunks.first().map_or(1, |chunk| chunk.len()).max(1);
        Self { chunks, chunk_len }
    }

    /// The chunks as they are now: a consistent snapshot, without a copy.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Chunk> {
        self.chunks.clone()
    }

    /// Entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// All values in one vector.
    #[must_use]
    pub fn to_vec(&self) -> Vec<f32> {
        self.chunks.concat_chunks()
    }

    /// `theta += alpha * D(payload)`, touching only what the payload carries.
    pub fn add_scaled(&mut self, alpha: f32, payload: &CheckedPayload) {
        self.for_each_touched(payload, |from, chunk| {
            payload.add_scaled_within(alpha, from, chunk);
        });
    }

    /// Calls `update(start, values)` for each chunk in which the payload carries an entry.
    pub fn for_each_touched(&mut self, payload: &CheckedPayload, mut update: impl FnMut(usize, &mut [f32])) {
        for (i, chunk) in self.chunks.iter_mut().enumerate() {
            let from = i * self.chunk_len;
            if payload.touches(from, chunk.len()) {
                update(from, Arc::make_mut(chunk));
            }
        }
    }

    /// All chunks, each with what flat vectors of the same length have at its place. A vector that is empty has nothing there.
    pub(crate) fn places<'a>(&'a mut self, beside: [&'a mut [f32]; 2]) -> Vec<Place<'a>> {
        let [mut first, mut second] = beside;
        let mut start = 0;
        let place = |theta: &'a mut Chunk| {
            let len = theta.len();
            let from = start;
            start += len;
            let beside = [take_front(&mut first, len), take_front(&mut second, len)];
            Place { from, theta, beside }
        };
        self.chunks.iter_mut().map(place).collect()
    }
}

/// A chunk, to be changed.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    /// Where it begins in the flat vector.
    pub(crate) from: usize,
    pub(crate) theta: &'a mut Chunk,
    /// What other vectors have there.
    pub(crate) beside: [&'a mut [f32]; 2],
}

/// Cuts off the first `len` values, or what there is.
fn take_front<'a>(values: &mut &'a mut [f32], len: usize) -> &'a mut [f32] {
    let len = len.min(values.len());
    let (front, rest) = std::mem::take(values).split_at_mut(len);
    *values = rest;
    front
}

/// Values as bfloat16, little-endian, rounded to the nearest.
#[must_use]
pub fn to_bf16(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|&value| bf16_bits(value).to_le_bytes())
        .collect()
}

/// Appends the bfloat16 values in `bytes` to `out`; an odd byte is left out.
pub fn from_bf16(bytes: &[u8], out: &mut Vec<f32>) {
    let halves = bytes.as_chunks::<2>().0.iter();
    out.extend(halves.map(|&half| bf16_value(u16::from_le_bytes(half))));
}

/// Joins chunks back into a flat vector.
pub trait ConcatChunks {
    /// All values in one vector.
    fn concat_chunks(&self) -> Vec<f32>;
}

impl ConcatChunks for [Chunk] {
    fn concat_chunks(&self) -> Vec<f32> {
        let mut values = Vec::with_capacity(self.iter().map(|chunk| chunk.len()).sum());
        self.iter().for_each(|chunk| values.extend_from_slice(chunk));
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Format, Payload};
    use crate::layout::{Layout, TensorSpec};

    #[test]
    fn rounding_is_to_eight_bits_of_mantissa() {
        let mut back = Vec::new();
        from_bf16(&to_bf16(&[1.0, -2.5, 1.003_906_3, 0.0]), &mut back);
        assert_eq!(back, [1.0, -2.5, 1.0, 0.0]);
    }

    #[test]
    fn an_update_copies_only_chunks_that_are_read_and_touched() {
        let layout = Layout::new(vec![TensorSpec {
            name: "w".into(),
            shape: vec![6],
        }])
        .unwrap();
        let mut parameters = Parameters::new(&[0.0; 6], 2);
        let before = parameters.snapshot();
        // Entry 4 lies in the last of three chunks.
        let bytes = [4i32.to_le_bytes(), 1.0f32.to_le_bytes()].concat();
        let payload = Payload {
            format: Format::TopK,
            entries: vec![1],
            bytes: bytes.into(),
        };
        parameters.add_scaled(-0.5, &payload.check(&Arc::new(layout)).unwrap());

        assert_eq!(
            before.concat_chunks(),
            [0.0; 6],
            "a snapshot stays at its version"
        );
        let after = parameters.snapshot();
        let shared = |i: usize| Arc::ptr_eq(&before[i], &after[i]);
        assert_eq!([shared(0), shared(1), shared(2)], [true, true, false]);
        assert_eq!(parameters.to_vec(), [0.0, 0.0, 0.0, 0.0, -0.5, 0.0]);
    }
}
