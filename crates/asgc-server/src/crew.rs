//! Threads that an update of a large model is divided among.

use asgc_core::crew::{Crew, Piece};
use std::thread;

/// More than these are limited by the memory that they share.
const MOST: usize = 8;

/// So many threads, which begin and end with each update: what is worth dividing takes far longer than that.
#[derive(Debug)]
pub(crate) struct Threads(usize);

impl Threads {
    /// Of 0: as many as there are processors.
    pub(crate) fn new(wanted: usize) -> Self {
        let processors = || thread::available_parallelism().map_or(1, |n| n.get().min(MOST));
        Self(if wanted == 0 { processors() } else { wanted })
    }
}

impl Crew for Threads {
    fn size(&self) -> usize {
        self.0
    }

    fn carry_out(&self, pieces: Vec<Piece<'_>>) {
        let mut pieces = pieces.into_iter();
        let own = pieces.next();
        thread::scope(|scope| {
            for piece in pieces {
                scope.spawn(piece);
            }
            own.into_iter().for_each(|piece| piece());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn all_pieces_are_done_when_it_returns() {
        for count in [0, 1, 5] {
            let done = AtomicUsize::new(0);
            let count_one = || {
                done.fetch_add(1, Ordering::Relaxed);
            };
            let pieces = (0..count).map(|_| -> Piece<'_> { Box::new(count_one) });
            Threads::new(2).carry_out(pieces.collect());
            assert_eq!(done.into_inner(), count);
        }
        assert!(Threads::new(0).size() >= 1);
        assert_eq!(Threads::new(3).size(), 3);
    }
}
