//! What an uplink carries, from payloads of different sizes.
//!
//! An upload takes `t = a + b/g`: `a` whatever the size (handing over between threads and processes, which on a busy
//! machine is milliseconds), `b/g` by the size. From one size alone `a` cannot be told, and `g = b/t` is a lower bound;
//! mistaking `a` for the link would make a worker compress ever harder on a link that costs nothing. With the size before,
//!
//! ```text
//! 1/g = (t - t') / (b - b')
//! ```
//!
//! unless times moved against sizes by so much that the link itself must have changed.

use super::recent::Recent;

/// Uploads are not timed more exactly than this; what takes less costs nothing.
const LEAST_UPLOAD_S: f64 = 50e-6;

/// Sizes nearer to each other than this factor say nothing of the slope between them.
const APART: f64 = 1.3;

/// Times that move against sizes by more than this factor are of another link.
const CHANGED: f64 = 1.5;

/// The uploads of one worker.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Uplink {
    /// Bytes of the payloads that come now, and how long they take.
    bytes: f64,
    times: Recent,
    /// The size before, and how long it took.
    before: Option<(f64, f64)>,
    goodput: Option<f64>,
}

impl Uplink {
    /// A payload of `bytes` took `upload_s`.
    pub fn add(&mut self, bytes: f64, upload_s: f64) {
        if bytes != self.bytes {
            let known = self.times.median().map(|time| (self.bytes, time));
            self.before = known.or(self.before);
            (self.bytes, self.times) = (bytes, Recent::default());
        }
        self.times.add(upload_s.max(LEAST_UPLOAD_S));
        if let Some(time) = self.times.median() {
            self.goodput = Some(self.estimate(time));
        }
    }

    /// `g`, in bytes a second; `None` until measured.
    #[must_use]
    pub fn goodput(&self) -> Option<f64> {
        self.goodput
    }

    fn estimate(&mut self, time: f64) -> f64 {
        let alone = self.bytes / time;
        let Some((bytes, then)) = self.before else {
            return alone;
        };
        let (larger, smaller) = (self.bytes.max(bytes), self.bytes.min(bytes));
        if larger < APART * smaller {
            return alone;
        }
        let (for_larger, for_smaller) = if self.bytes > bytes {
            (time, then)
        } else {
            (then, time)
        };
        if for_smaller > CHANGED * for_larger {
            self.before = None;
            return alone;
        }
        let slope = (for_larger - for_smaller).max(LEAST_UPLOAD_S) / (larger - smaller);
        // `a` is no less than 0.
        alone.max(1.0 / slope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five payloads of each size, which take as long as `time` says.
    fn fed(sizes: &[f64], time: impl Fn(f64) -> f64) -> Uplink {
        let mut uplink = Uplink::default();
        feed(&mut uplink, sizes, time);
        uplink
    }

    fn feed(uplink: &mut Uplink, sizes: &[f64], time: impl Fn(f64) -> f64) {
        for &bytes in sizes {
            (0..5).for_each(|_| uplink.add(bytes, time(bytes)));
        }
    }

    fn is_about(found: Option<f64>, expect: f64) -> bool {
        found.is_some_and(|found| (found / expect - 1.0).abs() < 1e-6)
    }

    #[test]
    fn one_size_gives_a_lower_bound_and_two_the_link() {
        let busy = |bytes: f64| 0.003 + bytes / 1e6;
        assert!(is_about(fed(&[1000.0], busy).goodput(), 250e3));
        assert!(is_about(fed(&[1000.0, 4000.0], busy).goodput(), 1e6));
        assert!(is_about(fed(&[4000.0, 1000.0], busy).goodput(), 1e6));
        assert_eq!(Uplink::default().goodput(), None);
    }

    #[test]
    fn a_link_that_costs_nothing_is_known_once_sizes_differ() {
        let free = |_| 0.003;
        assert!(fed(&[1000.0, 1410.0], free).goodput() > Some(5e6));
        // Too near to each other to tell.
        assert!(is_about(fed(&[1000.0, 1200.0], free).goodput(), 400e3));
    }

    #[test]
    fn a_link_that_changed_is_not_mistaken_for_a_free_one() {
        let mut uplink = fed(&[8000.0, 2000.0], |bytes| bytes / 4e6);
        assert!(is_about(uplink.goodput(), 4e6));
        // Eight times thinner: the smaller payload takes longer than the larger one did.
        feed(&mut uplink, &[2000.0, 2000.0, 2000.0, 2000.0], |bytes| {
            bytes / 5e5
        });
        assert!(is_about(uplink.goodput(), 5e5));
        feed(&mut uplink, &[500.0], |bytes| bytes / 5e5);
        assert!(is_about(uplink.goodput(), 5e5));
    }

    #[test]
    fn between_two_sizes_the_last_estimate_stands() {
        let mut uplink = fed(&[1000.0], |bytes| bytes / 1e6);
        uplink.add(2000.0, 5.0);
        assert!(is_about(uplink.goodput(), 1e6));
    }
}
