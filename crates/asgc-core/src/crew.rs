//! Work that several may do at once.
//!
//! This crate has no threads. Whoever runs it may lend it some: an update of a large model is then done in pieces that have
//! nothing to do with each other, so that its result does not depend on how many there are.

use std::fmt::Debug;

/// A piece of work.
pub type Piece<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Those who do the work.
pub trait Crew: Debug + Send + Sync {
    /// How many can be at work at once; at least 1.
    fn size(&self) -> usize;

    /// Does all pieces, in any order or at once, and returns when all are done.
    fn carry_out(&self, pieces: Vec<Piece<'_>>);
}

/// One that does a piece after the other.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Crew for Alone {
    fn size(&self) -> usize {
        1
    }

    fn carry_out(&self, pieces: Vec<Piece<'_>>) {
        pieces.into_iter().for_each(|piece| piece());
    }
}

/// Entries that are worth a piece of their own.
const ENOUGH: usize = 1 << 20;

/// Does `work` for each of `items`, in as many pieces as `entries` are worth. Each piece has a buffer of its own.
pub(crate) fn share<T: Send>(
    crew: &dyn Crew,
    mut items: Vec<T>,
    entries: usize,
    work: impl Fn(T, &mut Vec<f32>) + Sync,
) {
    let parts = crew.size().min(entries / ENOUGH).max(1);
    let each = items.len().div_ceil(parts).max(1);
    let work = &work;
    let mut pieces: Vec<Piece<'_>> = Vec::with_capacity(parts);
    while !items.is_empty() {
        let rest = items.split_off(each.min(items.len()));
        let group = std::mem::replace(&mut items, rest);
        pieces.push(Box::new(move || {
            let mut buffer = Vec::new();
            group.into_iter().for_each(|item| work(item, &mut buffer));
        }));
    }
    crew.carry_out(pieces);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Does the last piece first, and counts them.
    #[derive(Debug, Default)]
    struct Backwards(Mutex<Vec<usize>>);

    impl Crew for Backwards {
        fn size(&self) -> usize {
            3
        }

        fn carry_out(&self, pieces: Vec<Piece<'_>>) {
            self.0.lock().unwrap().push(pieces.len());
            pieces.into_iter().rev().for_each(|piece| piece());
        }
    }

    #[test]
    fn each_item_is_worked_on_once_in_no_more_pieces_than_it_is_worth() {
        let crew = Backwards::default();
        for (items, entries, pieces) in [
            (0, 10 * ENOUGH, 0),
            (10, 10 * ENOUGH, 3),
            (2, 10 * ENOUGH, 2),
            (10, 2 * ENOUGH, 2),
            (10, ENOUGH - 1, 1),
        ] {
            let mut done = vec![0; items];
            share(&crew, done.iter_mut().collect(), entries, |item, _| *item += 1);
            assert_eq!(done, vec![1; items]);
            assert_eq!(crew.0.lock().unwrap().last(), Some(&pieces));
        }
    }
}
