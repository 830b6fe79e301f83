//! What a scan found.

use super::{scan, up_to};
use crate::BLOCK;

/// Entries that are written at once behind the last, whether there are so many or not.
pub(super) const AT_ONCE: usize = 16;

/// What exceeded the threshold, in the order of the indices.
#[derive(Debug, Default)]
pub struct Found {
    /// Longer than what was found by a block at least, while a block is scanned.
    pub(super) indices: Vec<u32>,
    pub(super) values: Vec<f32>,
    pub(super) len: usize,
    limit: usize,
    overflown: bool,
    /// Whether what is found is taken out of where it is found.
    pub(super) taking: bool,
}

impl Found {
    /// Forgets what was found; keeps `limit` at most, or a block more, from here on.
    pub fn begin(&mut self, limit: usize) {
        *self = Self {
            indices: std::mem::take(&mut self.indices),
            values: std::mem::take(&mut self.values),
            limit,
            ..Self::default()
        };
    }

    /// The same; what is found is taken out, so that 0 stays in its place.
    pub fn begin_taking(&mut self, limit: usize) {
        self.begin(limit);
        self.taking = true;
    }

    /// Where.
    #[must_use]
    pub fn indices(&self) -> &[u32] {
        &self.indices[..self.len]
    }

    /// What.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values[..self.len]
    }

    /// Whether there was more than the limit: what is here is then only the beginning, and the rest was not taken out.
    #[must_use]
    pub fn overflown(&self) -> bool {
        self.overflown
    }

    /// Writes what was found back to where it was, in `u`, whose entry 0 has index `first`.
    ///
    /// # Panics
    /// When something was found beyond `u`.
    pub fn put_back(&self, u: &mut [f32], first: u32) {
        self.write_since(0, u, first, |value| value);
    }

    /// Parts what was found into what exceeds a higher threshold, which is not 0, and the others; returns the sum of squares
    /// of the others. What is left here means nothing.
    pub fn split(&mut self, threshold: u32, above: &mut Self, others: &mut Self) -> f64 {
        let values = &mut self.values[..self.len];
        above.begin_taking(self.len);
        let squares = scan(values, None, (0, threshold), above);
        others.begin(self.len);
        scan(values, None, (0, 0), others);
        above.places_in(&self.indices);
        others.places_in(&self.indices);
        squares.rest
    }

    /// The magnitude bits, up to `limit`, of what was found, in their order; `buffer` is where they lie.
    pub fn magnitudes_up_to<'a>(&self, limit: u32, buffer: &'a mut Vec<u32>) -> &'a mut [u32] {
        let room = self.len + AT_ONCE;
        if buffer.len() < room {
            buffer.resize(room, 0);
        }
        let len = up_to(self.values(), limit, buffer);
        &mut buffer[..len]
    }

    /// Indices into `of` become what is there.
    fn places_in(&mut self, of: &[u32]) {
        for place in &mut self.indices[..self.len] {
            *place = of[*place as usize];
        }
    }

    /// Whether a block may still be collected; makes room for it.
    pub(super) fn has_room(&mut self) -> bool {
        self.overflown |= self.len > self.limit;
        let room = self.len + BLOCK + AT_ONCE;
        if !self.overflown && self.indices.len() < room {
            let room = room.max(2 * self.indices.len());
            self.indices.resize(room, 0);
            self.values.resize(room, 0.0);
        }
        !self.overflown
    }

    pub(super) fn push(&mut self, index: u32, value: f32) {
        (self.indices[self.len], self.values[self.len]) = (index, value);
        self.len += 1;
    }

    /// Writes something for each of what was found since there were `before` to where it was.
    pub(super) fn write_since(&self, before: usize, u: &mut [f32], first: u32, what: impl Fn(f32) -> f32) {
        for (&index, &value) in self.indices().iter().zip(self.values()).skip(before) {
            u[index.wrapping_sub(first) as usize] = what(value);
        }
    }
}
