//! Whether an event log is true in itself: versions replay, and the sums are those of the updates.

use crate::server::updates;
use asgc_core::event::{Decision, Event, RunEnd};
use asgc_core::ids::Version;

/// What a log adds up to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sums {
    /// The last version.
    pub version: u64,
    /// Pushes rejected.
    pub rejected: u64,
    /// Pushes decided.
    pub pushes: u64,
}

/// Checks a log that goes on or was cut off: its first line, and that versions replay from it.
///
/// # Panics
/// When the log contradicts itself.
pub fn check_beginning(events: &[Event]) -> Sums {
    let Some(Event::RunStart(start)) = events.first() else {
        panic!("the first event is {:?}", events.first());
    };
    let starts = events.iter().filter(|event| matches!(event, Event::RunStart(_)));
    assert_eq!(starts.count(), 1, "one run_start");
    let mut version = Version(0);
    let mut applied_in_round = 0;
    let mut rejected = 0;
    for update in updates(events) {
        let round = start.mode == "sync";
        match update.decision {
            Decision::Rejected => {
                rejected += 1;
                assert_eq!(update.version, version, "a rejection moves nothing: {update:?}");
                assert!(
                    update.reason.is_some() && update.weight == 0.0 && update.lr == 0.0,
                    "{update:?}"
                );
            }
            _ if round && update.version == version && applied_in_round > 0 => applied_in_round += 1,
            _ => {
                version = version.next();
                applied_in_round = 1;
                assert_eq!(
                    update.version, version,
                    "an update moves the version by one: {update:?}"
                );
            }
        }
        if update.decision != Decision::Rejected {
            assert!(update.reason.is_none() && update.weight > 0.0, "{update:?}");
            assert_eq!(update.received_bytes, update.payload_bytes, "{update:?}");
        }
        assert!(update.received_bytes <= update.payload_bytes, "{update:?}");
    }
    Sums {
        version: version.0,
        rejected,
        pushes: updates(events).len() as u64,
    }
}

/// Checks the log of a run that ended: as [`check_beginning`], and that `run_end` is last and adds up.
///
/// # Panics
/// When the log contradicts itself.
pub fn check(events: &[Event]) -> (Sums, RunEnd) {
    let sums = check_beginning(events);
    let Some(Event::RunEnd(end)) = events.last() else {
        panic!("the last event is {:?}", events.last());
    };
    let ends = events.iter().filter(|event| matches!(event, Event::RunEnd(_)));
    assert_eq!(ends.count(), 1, "one run_end");
    let updates = updates(events);
    let total = updates.iter().map(|update| update.payload_bytes).sum::<u64>();
    let received = updates.iter().map(|update| update.received_bytes).sum::<u64>();
    let staleness = updates.iter().map(|update| update.staleness.0);
    assert_eq!(
        (end.applied_updates, end.rejected_updates),
        (sums.version, sums.rejected)
    );
    assert_eq!((end.total_bytes, end.received_bytes), (total, received));
    assert_eq!(end.max_staleness, staleness.clone().max().unwrap_or(0));
    let pushes = sums.pushes.max(1) as f64;
    assert_eq!(end.mean_staleness, staleness.sum::<u64>() as f64 / pushes);
    assert_eq!(end.rejected_frac, sums.rejected as f64 / pushes);
    if let Some(Event::RunStart(start)) = events.first() {
        assert_eq!(end.raw_bytes, 4 * start.parameters * sums.pushes);
    }
    let last_eval = events.iter().rev().find_map(|event| match event {
        Event::Eval(eval) => Some(eval.test_loss),
        _ => None,
    });
    assert_eq!(end.final_test_loss, last_eval);
    assert!(end.uplink_frame_bytes > received, "frames hold the payloads");
    check_membership(events);
    (sums, end.clone())
}

/// Whoever leaves had joined, and nobody pushes who is not there.
fn check_membership(events: &[Event]) {
    let mut present = std::collections::BTreeMap::<_, i32>::new();
    for event in events {
        match event {
            Event::Join(join) => *present.entry((join.role.clone(), join.worker_id)).or_default() += 1,
            Event::Leave(leave) => {
                let count = present.entry((leave.role.clone(), leave.worker_id)).or_default();
                *count -= 1;
                assert!(*count >= 0, "{leave:?} had not joined");
            }
            Event::Update(update) => {
                let there = present.get(&("trainer".to_owned(), Some(update.worker_id)));
                assert_eq!(there, Some(&1), "{update:?} of one that is not there");
            }
            _ => {}
        }
    }
}
