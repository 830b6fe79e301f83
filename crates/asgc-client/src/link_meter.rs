//! How long the uplink takes, told apart from the server's own time.
//!
//! Now and then a `Ping` goes out while the link is idle and is waited for: `rtt_s` is the least of the last few. It
//! cannot travel along with a payload, since both would share a frame. With the time from the payload's turn to be sent
//! until its verdict was there,
//!
//! ```text
//! upload_s = max(there - held_s - max(ready + rtt_s, before), injected rate's part)
//! ```
//!
//! where `held_s`, in the verdict, is the server's time from the payload's last byte on, and `before` is `there - held_s`
//! of the payload before: with several on their way, the link carries one after the other. "There" is when the message
//! came, not when somebody looked (`incoming`). An injected delay goes ahead of the payload, after `ready`, and is added
//! to the pings' round trip: it is in `rtt_s` and, being subtracted, not in `upload_s`. What a payload waits for at the
//! injected rate is in `upload_s`, which is never less.
//!
//! Only payloads that were sent whole on one connection are measured, and only where the verdict waited for all of one:
//! with `held_s` 0 it was refused at its header, however much of it had left already.

use asgc_core::ids::PushId;
use asgc_core::push::LinkSample;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Pushes without a verdict that are remembered: more than may be in flight.
const MAX_OPEN: usize = 32;

/// One push in so many waits for a round trip of its own.
const PUSHES_A_PING: u32 = 32;

/// Round trips of which the least counts: one that was held up says nothing about the link.
const PINGS: usize = 4;

/// A payload whose verdict has not been heard.
#[derive(Debug)]
struct Open {
    ready: Instant,
    /// What it takes at the injected rate alone.
    at_least: Duration,
    payload_bytes: u64,
    whole: bool,
}

/// The measurements of one session.
#[derive(Debug, Default)]
pub(crate) struct LinkMeter {
    /// Part of every round trip, though no `Ping` waits for it.
    injected: Duration,
    /// The last ones.
    rtts: VecDeque<Duration>,
    /// Pushes until the next `Ping`.
    until_ping: u32,
    pings: u64,
    open: BTreeMap<PushId, Open>,
    /// When the payload before was all there, and word of it could have been here.
    link_free: Option<Instant>,
    latest: Option<LinkSample>,
}

impl LinkMeter {
    /// A meter for a link with an injected delay.
    pub(crate) fn new(injected: Duration) -> Self {
        Self {
            injected,
            ..Self::default()
        }
    }

    /// The id to ping with before the next payload, if it is time for that.
    pub(crate) fn ping(&mut self) -> Option<u64> {
        if self.until_ping > 0 {
            self.until_ping -= 1;
            return None;
        }
        // Behind a payload that is on its way it would measure that too; it stays due.
        if !self.open.is_empty() {
            return None;
        }
        self.until_ping = PUSHES_A_PING - 1;
        self.pings += 1;
        Some(self.pings)
    }

    /// The answer to a ping came after `rtt`.
    pub(crate) fn pong(&mut self, rtt: Duration) {
        if self.rtts.len() == PINGS {
            self.rtts.pop_front();
        }
        self.rtts.push_back(rtt);
    }

    /// A payload that is ready goes out; the injected rate alone makes that take `at_least`.
    pub(crate) fn begin(&mut self, push: PushId, payload_bytes: u64, (ready, at_least): (Instant, Duration)) {
        let open = Open {
            ready,
            at_least,
            payload_bytes,
            whole: false,
        };
        self.open.insert(push, open);
        if self.open.len() > MAX_OPEN {
            self.open.pop_first();
        }
    }

    /// All of a payload was handed to the link.
    pub(crate) fn sent_whole(&mut self, push: PushId) {
        self.open
            .get_mut(&push)
            .into_iter()
            .for_each(|open| open.whole = true);
    }

    /// A verdict was there at `at`; what it needed in the server is not the link's.
    pub(crate) fn verdict(&mut self, push: PushId, held_s: f64, at: Instant) {
        let Some(open) = self.open.remove(&push) else {
            return;
        };
        let counts = open.whole && held_s > 0.0 && held_s.is_finite();
        let (Some(rtt), true) = (self.rtts.iter().min(), counts) else {
            return;
        };
        let rtt = *rtt + self.injected;
        let held = Duration::try_from_secs_f64(held_s).unwrap_or(Duration::MAX);
        let there = at.checked_sub(held).unwrap_or(open.ready);
        // The link carries one payload after the other.
        let begins = (open.ready + rtt).max(self.link_free.unwrap_or(open.ready));
        let taken = there.saturating_duration_since(begins);
        self.link_free = self.link_free.max(Some(there));
        self.latest = Some(LinkSample {
            rtt_s: rtt.as_secs_f64(),
            upload_bytes: open.payload_bytes,
            upload_s: taken.max(open.at_least).as_secs_f64(),
        });
    }

    /// The connection broke: what was under way says nothing about the next one.
    pub(crate) fn lost(&mut self) {
        self.open.clear();
        self.rtts.clear();
        self.link_free = None;
        self.until_ping = 0;
    }

    /// The last sample, if no push has carried it yet.
    pub(crate) fn untold(&self) -> Option<LinkSample> {
        self.latest
    }

    /// A push carries the last sample: each counts once.
    pub(crate) fn told(&mut self) {
        self.latest = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUSH: PushId = PushId(7);
    const SECOND: Duration = Duration::from_secs(1);

    /// Round trip 2 s, ready at 0 s, at least as many seconds long as is said; the second value says what happens at
    /// which second.
    fn meter(injected_s: u32, at_least_s: u32) -> (LinkMeter, impl Fn(u64) -> Instant) {
        let zero = Instant::now();
        let mut meter = LinkMeter::new(injected_s * SECOND);
        meter.pong(2 * SECOND);
        meter.begin(PUSH, 100, (zero, at_least_s * SECOND));
        (meter, move |s| zero + Duration::from_secs(s))
    }

    fn take(meter: &mut LinkMeter) -> Option<LinkSample> {
        let sample = meter.untold();
        meter.told();
        sample
    }

    #[test]
    fn the_link_is_what_neither_distance_nor_server_took() {
        let (mut meter, at) = meter(0, 0);
        meter.sent_whole(PUSH);
        meter.verdict(PUSH, 1.0, at(10));
        let expect = LinkSample {
            rtt_s: 2.0,
            upload_bytes: 100,
            upload_s: 7.0,
        };
        assert_eq!(meter.untold(), Some(expect), "as long as no push carries it");
        assert_eq!(take(&mut meter), Some(expect));
        assert_eq!(take(&mut meter), None, "each counts once");
        // A verdict that is repeated measures nothing.
        meter.verdict(PUSH, 1.0, at(20));
        assert_eq!(take(&mut meter), None);
    }

    #[test]
    fn one_payload_behind_another_waits_for_the_link() {
        let (mut meter, at) = meter(0, 0);
        meter.begin(PushId(8), 100, (at(1), Duration::ZERO));
        meter.begin(PushId(9), 100, (at(20), Duration::ZERO));
        (7..=9).for_each(|push| meter.sent_whole(PushId(push)));
        meter.verdict(PUSH, 1.0, at(10));
        assert_eq!(take(&mut meter).map(|sample| sample.upload_s), Some(7.0));
        // The first one's last byte was there as late as a verdict at 9 s would tell.
        meter.verdict(PushId(8), 1.0, at(15));
        assert_eq!(take(&mut meter).map(|sample| sample.upload_s), Some(5.0));
        meter.verdict(PushId(9), 1.0, at(27));
        assert_eq!(take(&mut meter).map(|sample| sample.upload_s), Some(4.0));
    }

    #[test]
    fn an_injected_delay_is_round_trip() {
        let (mut meter, at) = meter(1, 0);
        meter.sent_whole(PUSH);
        meter.verdict(PUSH, 1.0, at(10));
        let sample = take(&mut meter).unwrap();
        assert_eq!((sample.rtt_s, sample.upload_s), (3.0, 6.0));
    }

    #[test]
    fn an_upload_takes_no_less_than_the_injected_rate() {
        for (at_least_s, expected) in [(7, 7.0), (8, 8.0), (6, 7.0)] {
            let (mut meter, at) = meter(0, at_least_s);
            meter.sent_whole(PUSH);
            meter.verdict(PUSH, 1.0, at(10));
            assert_eq!(take(&mut meter).map(|sample| sample.upload_s), Some(expected));
        }
    }

    #[test]
    fn the_least_of_a_few_round_trips_counts() {
        let (mut meter, at) = meter(0, 0);
        let mut rtt = |pong: u32| {
            meter.pong(pong * SECOND);
            meter.begin(PUSH, 100, (at(0), Duration::ZERO));
            meter.sent_whole(PUSH);
            meter.verdict(PUSH, 1.0, at(100));
            take(&mut meter).map(|sample| sample.rtt_s)
        };
        assert_eq!([9, 8, 7].map(&mut rtt), [Some(2.0); 3]);
        assert_eq!(rtt(6), Some(6.0), "the one of 2 s is forgotten");
    }

    #[test]
    fn one_push_in_many_is_pinged_for() {
        let mut meter = LinkMeter::default();
        let pings = (0..100).filter_map(|_| meter.ping()).collect::<Vec<_>>();
        assert_eq!(pings, [1, 2, 3, 4]);
        meter.lost();
        assert_eq!(meter.ping(), Some(5), "another connection, another link");
    }

    #[test]
    fn a_ping_waits_until_no_payload_is_on_its_way() {
        let (mut meter, at) = meter(0, 0);
        assert_eq!(meter.ping(), None);
        meter.verdict(PUSH, 1.0, at(3));
        assert_eq!(meter.ping(), Some(1));
    }

    #[test]
    fn what_cannot_be_told_is_not_told() {
        let (mut early, at) = meter(0, 0);
        early.verdict(PUSH, 1.0, at(3));
        assert_eq!(early.untold(), None, "decided before all of it was sent");
        let (mut refused, at) = meter(0, 0);
        refused.sent_whole(PUSH);
        refused.verdict(PUSH, 0.0, at(3));
        assert_eq!(
            refused.untold(),
            None,
            "sent, but decided before all of it had come"
        );
        let mut silent = LinkMeter::default();
        silent.begin(PUSH, 100, (at(0), Duration::ZERO));
        silent.sent_whole(PUSH);
        silent.verdict(PUSH, 1.0, at(3));
        assert_eq!(silent.untold(), None, "no answer to any ping");
        let (mut broken, at) = meter(0, 0);
        broken.lost();
        broken.sent_whole(PUSH);
        broken.verdict(PUSH, 1.0, at(3));
        assert_eq!(broken.untold(), None);
    }

    #[test]
    fn a_server_that_claims_nonsense_makes_it_nothing() {
        for (held_s, expected) in [
            (1e9, Some(0.0)),
            (f64::NAN, None),
            (f64::INFINITY, None),
            (-5.0, None),
        ] {
            let (mut meter, at) = meter(0, 0);
            meter.sent_whole(PUSH);
            meter.verdict(PUSH, held_s, at(3));
            let upload_s = take(&mut meter).map(|sample| sample.upload_s);
            assert_eq!(upload_s, expected, "{held_s}");
        }
    }

    #[test]
    fn verdicts_that_never_come_are_forgotten() {
        let (mut meter, at) = meter(0, 0);
        (100..200).for_each(|push| meter.begin(PushId(push), 1, (at(0), Duration::ZERO)));
        assert_eq!(meter.open.len(), MAX_OPEN);
    }
}
