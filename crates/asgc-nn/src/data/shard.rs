//! Which samples a worker has, and in which order it goes through them.
//!
//! Sample `i` belongs to worker `i mod N`. Every pass goes through the whole shard in a new order, a function
//! of (seed, pass) alone, so that a [`Cursor`] is all there is to know about a worker's place in its data. The
//! last batch of a pass holds what is left.

use crate::random;
use asgc_core::ids::WorkerId;

/// One of `of` interleaved parts of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    index: usize,
    of: usize,
}

impl Shard {
    /// The whole data set.
    pub(crate) const ALL: Self = Self { index: 0, of: 1 };

    /// A worker beyond `workers` shares the shard of an earlier one, in an order of its own; 0 workers read
    /// as 1.
    pub(crate) fn new(worker: u32, workers: u32) -> Self {
        let workers = workers.max(1);
        Self {
            index: (worker % workers) as usize,
            of: workers as usize,
        }
    }

    /// Whether sample `i` of the data set belongs here.
    pub(crate) fn holds(self, i: usize) -> bool {
        i % self.of == self.index
    }
}

/// The seed of a worker's order and augmentation: `run.seed + 1000 + worker`.
pub(crate) fn worker_seed(run_seed: u64, worker: WorkerId) -> u64 {
    run_seed.wrapping_add(1000).wrapping_add(u64::from(worker.0))
}

/// A worker's place in its data.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Passes over the shard that are finished.
    pub pass: u64,
    /// Samples of the current pass that went into batches.
    pub position: usize,
}

/// The order of a shard's samples, pass after pass.
#[derive(Debug)]
pub(crate) struct Order {
    seed: u64,
    batch_size: usize,
    cursor: Cursor,
    permutation: Vec<u32>,
}

impl Order {
    /// Over `len` samples, in batches of `batch_size`; both must be above 0.
    pub(crate) fn new(len: usize, batch_size: usize, seed: u64) -> Self {
        let mut order = Self {
            seed,
            batch_size,
            cursor: Cursor::default(),
            permutation: vec![0; len],
        };
        order.shuffle();
        order
    }

    fn shuffle(&mut self) {
        (0..).zip(&mut self.permutation).for_each(|(i, slot)| *slot = i);
        // Even streams shuffle, odd ones augment.
        let mut rng = random::generator(self.seed, self.cursor.pass.wrapping_mul(2));
        random::shuffle(&mut rng, &mut self.permutation);
    }

    pub(crate) fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Goes to a place; a position beyond the shard is the end of the pass.
    pub(crate) fn seek(&mut self, cursor: Cursor) {
        let shuffle = self.cursor.pass != cursor.pass;
        self.cursor = Cursor {
            position: cursor.position.min(self.permutation.len()),
            ..cursor
        };
        if shuffle {
            self.shuffle();
        }
    }

    /// The next batch's samples, by their place in the shard, and the cursor where it begins.
    pub(crate) fn take(&mut self) -> (Cursor, &[u32]) {
        if self.cursor.position >= self.permutation.len() {
            self.cursor = Cursor {
                pass: self.cursor.pass + 1,
                position: 0,
            };
            self.shuffle();
        }
        let begin = self.cursor;
        let end = self.permutation.len().min(begin.position + self.batch_size);
        self.cursor.position = end;
        (begin, &self.permutation[begin.position..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(order: &mut Order, batches: usize) -> Vec<Vec<u32>> {
        (0..batches).map(|_| order.take().1.to_vec()).collect()
    }

    #[test]
    fn shards_cover_all_samples_and_each_once() {
        for workers in 1..6 {
            for i in 0..100 {
                let holders = (0..workers).filter(|&w| Shard::new(w, workers).holds(i)).count();
                assert_eq!(holders, 1, "sample {i} of {workers} workers");
            }
        }
        assert_eq!(Shard::new(4, 3), Shard::new(1, 3));
        assert_eq!(Shard::new(4, 0), Shard::ALL);
    }

    #[test]
    fn a_pass_covers_the_shard_and_keeps_its_short_last_batch() {
        let mut order = Order::new(1000, 128, 1);
        let batches = pass(&mut order, 8);
        let sizes: Vec<usize> = batches.iter().map(Vec::len).collect();
        assert_eq!(sizes, [128, 128, 128, 128, 128, 128, 128, 104]);
        let mut all = batches.concat();
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        assert_eq!(
            order.cursor(),
            Cursor {
                pass: 0,
                position: 1000
            }
        );
    }

    #[test]
    fn each_pass_has_an_order_of_its_own_that_only_the_seed_decides() {
        let mut order = Order::new(300, 128, 7);
        let passes: Vec<_> = (0..3).map(|_| pass(&mut order, 3).concat()).collect();
        assert_ne!(passes[0], passes[1]);
        assert_ne!(passes[1], passes[2]);
        let mut again = Order::new(300, 128, 7);
        assert_eq!(pass(&mut again, 3).concat(), passes[0]);
        assert_ne!(pass(&mut Order::new(300, 128, 8), 3).concat(), passes[0]);
        assert_ne!(worker_seed(0, WorkerId(1)), worker_seed(0, WorkerId(2)));
    }

    #[test]
    fn a_cursor_is_all_there_is_to_a_place() {
        let mut order = Order::new(300, 128, 7);
        pass(&mut order, 5);
        let cursor = order.cursor();
        assert_eq!(
            cursor,
            Cursor {
                pass: 1,
                position: 256
            }
        );
        let mut other = Order::new(300, 128, 7);
        other.seek(cursor);
        assert_eq!(pass(&mut order, 4), pass(&mut other, 4));
        other.seek(Cursor {
            pass: 0,
            position: usize::MAX,
        });
        assert_eq!(other.take().0, Cursor { pass: 1, position: 0 });
    }
}
