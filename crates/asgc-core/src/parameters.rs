//! The parameters as chunks behind shared pointers.
//!
//! A pull takes the pointers of all chunks at one version and streams them at leisure; an update copies
//! only chunks that someone is still reading, and only those that it touches.

use crate::codec::CheckedPayload;
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

    /// The chunks as they are now: a consistent snapshot, without a copy.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Chunk> {
        self.chunks.clone()
    }

    /// All values in one vector.
    #[must_use]
    pub fn to_vec(&self) -> Vec<f32> {
        self.chunks.concat_chunks()
    }

    /// `theta += alpha * D(payload)`, touching only what the payload carries.
    pub fn add_scaled(&mut self, alpha: f32, payload: &CheckedPayload) {
        let Self { chunks, chunk_len } = self;
        payload.for_each_in_chunks(*chunk_len, |chunk, range, add| {
            add(alpha, &mut Arc::make_mut(&mut chunks[chunk])[range]);
        });
    }

    /// Calls `update(start, values)` for each chunk; `start` is its place in the flat vector.
    pub fn for_each_mut(&mut self, mut update: impl FnMut(usize, &mut [f32])) {
        for (i, chunk) in self.chunks.iter_mut().enumerate() {
            update(i * self.chunk_len, Arc::make_mut(chunk));
        }
    }
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
