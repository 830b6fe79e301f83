//! Entries of a flat vector: where they are, and what they are.

/// Rising places in the flat vector and the values there.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Kept {
    pub(super) indices: Vec<u32>,
    pub(super) values: Vec<f32>,
}

impl Kept {
    pub(super) fn clear(&mut self) {
        self.indices.clear();
        self.values.clear();
    }

    pub(super) fn push(&mut self, index: u32, value: f32) {
        self.indices.push(index);
        self.values.push(value);
    }

    pub(super) fn extend(&mut self, indices: &[u32], values: &[f32]) {
        self.indices.extend_from_slice(indices);
        self.values.extend_from_slice(values);
    }

    /// Moves what was kept since there were `before` back to where it was, in `u`, whose entry 0 has index `first`.
    pub(super) fn move_back(&mut self, before: usize, u: &mut [f32], first: u32) {
        let indices = self.indices.drain(before..);
        for (index, value) in indices.zip(self.values.drain(before..)) {
            u[(index - first) as usize] = value;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.indices.len()
    }

    /// Forgets entries that are 0: they move nothing.
    pub(super) fn drop_zeros(&mut self) {
        if self.values.iter().all(|&value| value != 0.0) {
            return;
        }
        let mut kept = self.values.iter().map(|&value| value != 0.0);
        self.indices.retain(|_| kept.next().unwrap_or(false));
        self.values.retain(|&value| value != 0.0);
    }

    /// Adds the values to where they belong in `u`, the flat vector; returns the sum of squares of what is then there.
    pub(super) fn add_to(&self, u: &mut [f32]) -> f64 {
        let mut squares = 0.0;
        for (&index, &value) in self.indices.iter().zip(&self.values) {
            let u = &mut u[index as usize];
            *u += value;
            squares += f64::from(*u).powi(2);
        }
        squares
    }

    /// Which of the entries lie in `[from, to)`.
    pub(super) fn span(&self, from: usize, to: usize) -> std::ops::Range<usize> {
        let below = |bound: usize| self.indices.partition_point(|&index| (index as usize) < bound);
        below(from)..below(to)
    }
}
