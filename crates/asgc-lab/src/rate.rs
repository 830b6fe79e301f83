//! Updates a second of the steady part of a run.

use asgc_core::event::{Decision, Event};
use asgc_core::ids::Version;

/// Updates a second after the first `skip` (a share in [0, 1)) of them, so that starting up, loading data
/// and filling caches do not count. `None` when fewer than two updates are left, or they took no time.
pub fn steady<'a>(events: impl IntoIterator<Item = &'a Event>, skip: f64) -> Option<f64> {
    let mut last = Version(0);
    let times: Vec<f64> = events
        .into_iter()
        .filter_map(|event| match event {
            Event::Update(update) if update.decision != Decision::Rejected && update.version > last => {
                last = update.version;
                Some(update.elapsed_s)
            }
            _ => None,
        })
        .collect();
    let from = (times.len() as f64 * skip).ceil() as usize;
    let (first, end) = (times.get(from)?, times.last()?);
    let (steps, seconds) = (times.len() - 1 - from, end - first);
    (steps > 0 && seconds > 0.0).then(|| steps as f64 / seconds)
}

/// The middle of `values`; the mean of the two middle ones where their number is even.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{round, update};

    #[test]
    fn the_start_does_not_count() {
        // A slow start, then ten updates a second.
        let events: Vec<_> = (0..=20)
            .map(|i| Event::Update(update(0, i + 1, 0, 50.0 + i as f64 / 10.0)))
            .collect();
        let mut slow = vec![Event::Update(update(0, 1, 0, 0.0))];
        slow.extend(events.into_iter().skip(1));
        assert!((steady(&slow, 0.1).unwrap() - 10.0).abs() < 1e-9);
        assert!(steady(&slow, 0.0).unwrap() < 1.0);
    }

    #[test]
    fn too_little_gives_no_rate() {
        assert_eq!(steady(&[], 0.1), None);
        assert_eq!(steady(&[Event::Update(update(0, 1, 0, 1.0))], 0.0), None);
        assert_eq!(steady(&round(1), 0.0), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
    }
}
