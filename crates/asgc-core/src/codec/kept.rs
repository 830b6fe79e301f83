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

    /// Appends those entries that are to be kept. Without a branch, as nobody could predict it.
    pub(super) fn push_where(&mut self, entries: impl ExactSizeIterator<Item = (u32, f32, bool)>) {
        let (mut at, most) = (self.len(), self.len() + entries.len());
        self.indices.resize(most, 0);
        self.values.resize(most, 0.0);
        for (index, value, keep) in entries {
            (self.indices[at], self.values[at]) = (index, value);
            at += usize::from(keep);
        }
        self.indices.truncate(at);
        self.values.truncate(at);
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

    /// Which of the entries lie in `[from, to)`.
    pub(super) fn span(&self, from: usize, to: usize) -> std::ops::Range<usize> {
        let below = |bound: usize| self.indices.partition_point(|&index| (index as usize) < bound);
        below(from)..below(to)
    }
}
