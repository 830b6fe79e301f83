//! The entries that some updates changed, and what they are now.

use super::Record;
use crate::codec::Payload;
use crate::layout::Layout;
use crate::parameters::Chunk;
use std::sync::Arc;

/// The entries that `records` touch, as they are in `chunks`. `None` where a record touches all.
pub(super) fn changes(records: &[Record], chunks: &[Chunk], layout: &Arc<Layout>) -> Option<Payload> {
    let mut touched = Places::none_of(layout.parameters());
    for record in records {
        let checked = record.payload.clone().check(layout).ok()?;
        checked.indices()?.iter().for_each(|&index| touched.add(index));
    }
    let indices = touched.in_order();
    let values = values_at(&indices, chunks);
    Some(Payload::of_places(indices, values))
}

/// A set of places in a vector, a bit each.
struct Places {
    words: Vec<u64>,
    count: usize,
}

impl Places {
    fn none_of(len: usize) -> Self {
        Self {
            words: vec![0; len.div_ceil(64)],
            count: 0,
        }
    }

    fn add(&mut self, place: u32) {
        let (word, bit) = (&mut self.words[place as usize / 64], 1 << (place % 64));
        self.count += usize::from(*word & bit == 0);
        *word |= bit;
    }

    fn in_order(&self) -> Vec<u32> {
        let mut places = Vec::with_capacity(self.count);
        for (at, &word) in self.words.iter().enumerate() {
            let mut left = word;
            while left != 0 {
                places.push(64 * at as u32 + left.trailing_zeros());
                left &= left - 1;
            }
        }
        places
    }
}

/// The values at rising places of a chunked vector.
fn values_at(indices: &[u32], chunks: &[Chunk]) -> Vec<f32> {
    let mut values = Vec::with_capacity(indices.len());
    let (mut chunks, mut begin) = (chunks.iter(), 0);
    let mut chunk: &[f32] = chunks.next().map_or(&[], |chunk| chunk);
    for &index in indices {
        while index as usize - begin >= chunk.len() {
            begin += chunk.len();
            let Some(next) = chunks.next() else { return values };
            chunk = next;
        }
        values.push(chunk[index as usize - begin]);
    }
    values
}
