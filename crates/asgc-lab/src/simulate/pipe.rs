//! A link's capacity, shared evenly by whatever travels over it at the time.
//!
//! Processor sharing: of `n` transfers each gets `1 / n` of the rate, as TCP streams of equal round trips come to. Let
//! `V(t)` be the bytes that a transfer present since the beginning would have got,
//!
//! ```text
//! dV/dt = rate / n(t)
//! ```
//!
//! One of `b` bytes that starts at `t0` ends when `V` reaches `V(t0) + b`, whoever comes and goes meanwhile. So
//! transfers are kept by that value, and the next to end is the first of them.

use std::collections::BTreeSet;
use std::time::Duration;

/// Tells one transfer from others.
pub(super) type TransferId = u64;

#[derive(Debug)]
pub(super) struct Pipe {
    /// `None` is no limit.
    bytes_per_s: Option<f64>,
    /// `V` at which it ends, as bits (the order of bits is the order of values above 0), and which.
    transfers: BTreeSet<(u64, TransferId)>,
    /// `V`.
    served: f64,
    /// What `served` belongs to.
    at: Duration,
    /// Rises whenever the next end may have moved.
    epoch: u64,
}

impl Pipe {
    /// A pipe of `mbps` Mbit/s; 0 is no limit.
    pub(super) fn new(mbps: f64) -> Self {
        Self {
            bytes_per_s: (mbps > 0.0).then_some(mbps * 125_000.0),
            transfers: BTreeSet::new(),
            served: 0.0,
            at: Duration::ZERO,
            epoch: 0,
        }
    }

    /// Tells whether an end that was asked for earlier is still the next one.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Begins to carry `bytes`.
    pub(super) fn start(&mut self, now: Duration, id: TransferId, bytes: u64) {
        self.advance(now);
        let end = match self.bytes_per_s {
            Some(_) => self.served + bytes as f64,
            None => self.served,
        };
        self.transfers.insert((end.to_bits(), id));
    }

    /// Stops carrying it.
    pub(super) fn cancel(&mut self, now: Duration, id: TransferId) {
        self.advance(now);
        self.transfers.retain(|&(_, other)| other != id);
    }

    /// When the next transfer ends, if nothing changes until then.
    pub(super) fn next_end(&self) -> Option<Duration> {
        let &(end, _) = self.transfers.first()?;
        let left = (f64::from_bits(end) - self.served).max(0.0);
        let wait_s = self
            .bytes_per_s
            .map_or(0.0, |rate| left * self.transfers.len() as f64 / rate);
        // A nanosecond is the grain of time; whatever lies beyond the end of time never ends.
        let wait = Duration::try_from_secs_f64(wait_s).unwrap_or(Duration::MAX);
        Some(self.at.saturating_add(wait))
    }

    /// The transfers that end at `now`, the time that [`Pipe::next_end`] gave.
    pub(super) fn end(&mut self, now: Duration) -> Vec<TransferId> {
        let Some(&(end, _)) = self.transfers.first() else {
            return Vec::new();
        };
        self.advance(now);
        // Rounding to nanoseconds must not leave a remainder of it.
        self.served = self.served.max(f64::from_bits(end));
        let rest = self
            .transfers
            .split_off(&(self.served.to_bits(), TransferId::MAX));
        let ended = std::mem::replace(&mut self.transfers, rest);
        if self.transfers.is_empty() {
            // Keeps `V` small, and so exact.
            self.served = 0.0;
        }
        ended.into_iter().map(|(_, id)| id).collect()
    }

    fn advance(&mut self, now: Duration) {
        let passed_s = now.saturating_sub(self.at).as_secs_f64();
        let sharing = self.transfers.len();
        if let Some(rate) = self.bytes_per_s.filter(|_| sharing > 0) {
            self.served += passed_s * rate / sharing as f64;
        }
        self.at = self.at.max(now);
        self.epoch += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Transfers as (start in ms, bytes): when each ends, in ms.
    fn ends(mbps: f64, transfers: &[(u64, u64)]) -> Vec<f64> {
        let mut pipe = Pipe::new(mbps);
        let mut found = vec![0.0; transfers.len()];
        let mut starts = transfers.iter().enumerate().peekable();
        loop {
            let start = starts.peek().map(|(_, (ms, _))| Duration::from_millis(*ms));
            match (start, pipe.next_end()) {
                (Some(start), end) if end.is_none_or(|end| start < end) => {
                    let (id, &(_, bytes)) = starts.next().unwrap();
                    pipe.start(start, id as u64, bytes);
                }
                (_, Some(end)) => {
                    for id in pipe.end(end) {
                        found[id as usize] = end.as_secs_f64() * 1e3;
                    }
                }
                (_, None) => return found,
            }
        }
    }

    #[test]
    fn transfers_share_evenly() {
        // 8 Mbit/s are 1,000 bytes a ms.
        assert_eq!(ends(8.0, &[(0, 5_000)]), [5.0]);
        // Two at once take twice as long; the longer one then has all of it.
        assert_eq!(ends(8.0, &[(0, 5_000), (0, 8_000)]), [10.0, 13.0]);
        assert_eq!(ends(8.0, &[(0, 4_000), (2, 1_000)]), [5.0, 4.0]);
        assert_eq!(ends(8.0, &[(0, 4_000), (0, 4_000)]), [8.0, 8.0]);
    }

    #[test]
    fn without_a_limit_nothing_takes_time() {
        assert_eq!(ends(0.0, &[(0, 5_000), (3, u64::MAX)]), [0.0, 3.0]);
    }

    #[test]
    fn what_is_cancelled_leaves_its_share_to_the_others() {
        let mut pipe = Pipe::new(8.0);
        let ms = Duration::from_millis;
        pipe.start(ms(0), 1, 4_000);
        pipe.start(ms(0), 2, 4_000);
        pipe.cancel(ms(4), 1);
        assert_eq!(pipe.next_end(), Some(ms(6)));
        assert_eq!(pipe.end(ms(6)), [2]);
        assert_eq!(pipe.next_end(), None);
    }

    proptest! {
        /// A pipe that is never idle carries its rate, whoever shares it.
        #[test]
        fn capacity_is_conserved(bytes in proptest::collection::vec(1u64..100_000, 1..20)) {
            let transfers = bytes.iter().map(|&bytes| (0, bytes)).collect::<Vec<_>>();
            let last = ends(8.0, &transfers).into_iter().fold(0.0, f64::max);
            let total_ms = bytes.iter().sum::<u64>() as f64 / 1e3;
            prop_assert!((last - total_ms).abs() < 1e-3, "{last} ms for {total_ms} ms of bytes");
        }
    }
}
