//! What happens next: happenings in order of virtual time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Duration;

/// Happenings by time. Those of the same time come in the order in which they were put down, so a run does not depend
/// on how a heap is built.
#[derive(Debug)]
pub(super) struct Agenda<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    sequence: u64,
    now: Duration,
}

#[derive(Debug)]
struct Entry<T> {
    at: Duration,
    sequence: u64,
    what: T,
}

impl<T> Agenda<T> {
    pub(super) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            sequence: 0,
            now: Duration::ZERO,
        }
    }

    /// The time of what happened last.
    pub(super) fn now(&self) -> Duration {
        self.now
    }

    /// Puts `what` down for time `at`, or for now where that is past.
    pub(super) fn at(&mut self, at: Duration, what: T) {
        let at = at.max(self.now);
        self.sequence += 1;
        let sequence = self.sequence;
        self.heap.push(Reverse(Entry { at, sequence, what }));
    }

    /// Puts `what` down for `after` from now.
    pub(super) fn after(&mut self, after: Duration, what: T) {
        self.at(self.now.saturating_add(after), what);
    }

    /// Goes to the next happening.
    pub(super) fn next(&mut self) -> Option<T> {
        let Reverse(entry) = self.heap.pop()?;
        self.now = entry.at;
        Some(entry.what)
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn happenings_come_by_time_and_then_in_order() {
        let mut agenda = Agenda::new();
        let s = Duration::from_secs;
        for (at, what) in [(3, 'c'), (1, 'a'), (3, 'd'), (2, 'b'), (3, 'e')] {
            agenda.at(s(at), what);
        }
        let mut order = String::new();
        while let Some(what) = agenda.next() {
            order.push(what);
            if what == 'b' {
                assert_eq!(agenda.now(), s(2));
                agenda.after(s(0), 'x');
                // The past is now.
                agenda.at(s(1), 'y');
            }
        }
        assert_eq!(order, "abxycde");
    }
}
