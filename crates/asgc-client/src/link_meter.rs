//! How long the uplink takes, told apart from the server's own time.
//!
//! A `Ping` goes out just ahead of a payload, while the uplink is idle; the server answers it without a look at the run.
//! With the time from the payload's turn to be sent until its verdict is heard,
//!
//! ```text
//! upload_s = heard - ready - rtt_s - held_s
//! ```
//!
//! where `held_s`, in the verdict, is the server's time from the payload's last byte on. Injected delay counts as round
//! trip, injected bandwidth as upload. Only payloads that were sent whole on one connection are measured.

use asgc_core::ids::PushId;
use asgc_core::push::LinkSample;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Pushes without a verdict that are remembered: more than may be in flight.
const MAX_OPEN: usize = 32;

/// A payload whose verdict has not been heard.
#[derive(Debug)]
struct Open {
    ping: u64,
    ready: Instant,
    pinged: Instant,
    payload_bytes: u64,
    rtt: Option<Duration>,
    whole: bool,
}

/// The measurements of one session.
#[derive(Debug, Default)]
pub(crate) struct LinkMeter {
    /// Part of every round trip, though no `Ping` waits for it.
    injected: Duration,
    pings: u64,
    open: BTreeMap<PushId, Open>,
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

    /// A payload that was ready to be sent at `ready` goes out: the id to ping with.
    pub(crate) fn begin(&mut self, push: PushId, payload_bytes: u64, ready: Instant, now: Instant) -> u64 {
        self.pings += 1;
        let open = Open {
            ping: self.pings,
            ready,
            pinged: now,
            payload_bytes,
            rtt: None,
            whole: false,
        };
        self.open.insert(push, open);
        if self.open.len() > MAX_OPEN {
            self.open.pop_first();
        }
        self.pings
    }

    /// All of a payload was handed to the link.
    pub(crate) fn sent_whole(&mut self, push: PushId) {
        self.open
            .get_mut(&push)
            .into_iter()
            .for_each(|open| open.whole = true);
    }

    /// The answer to a ping was heard.
    pub(crate) fn pong(&mut self, ping: u64, now: Instant) {
        let asked = self.open.values_mut().find(|open| open.ping == ping);
        asked
            .into_iter()
            .for_each(|open| open.rtt = Some(now.saturating_duration_since(open.pinged)));
    }

    /// A verdict was heard; what it needed in the server is not the link's.
    pub(crate) fn verdict(&mut self, push: PushId, held_s: f64, now: Instant) {
        let Some(open) = self.open.remove(&push) else {
            return;
        };
        let (Some(rtt), true) = (open.rtt, open.whole && held_s.is_finite()) else {
            return;
        };
        let rtt_s = (rtt + self.injected).as_secs_f64();
        let taken_s = now.saturating_duration_since(open.ready).as_secs_f64();
        self.latest = Some(LinkSample {
            rtt_s,
            upload_bytes: open.payload_bytes,
            upload_s: (taken_s - rtt_s - held_s.max(0.0)).max(0.0),
        });
    }

    /// The connection broke: what was under way says nothing about the next one.
    pub(crate) fn lost(&mut self) {
        self.open.clear();
    }

    /// The last sample that was not taken yet.
    pub(crate) fn take(&mut self) -> Option<LinkSample> {
        self.latest.take()
    }

    /// The last sample, if it was not taken yet.
    #[cfg(test)]
    fn upload_s(&self) -> Option<f64> {
        self.latest.map(|sample| sample.upload_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUSH: PushId = PushId(7);

    /// Ready at 0 s, pinged at 1 s; each call says what happens at which second.
    fn meter(injected_s: u64) -> (LinkMeter, impl Fn(u64) -> Instant) {
        let zero = Instant::now();
        let at = move |s| zero + Duration::from_secs(s);
        let mut meter = LinkMeter::new(Duration::from_secs(injected_s));
        assert_eq!(meter.begin(PUSH, 100, at(0), at(1)), 1);
        (meter, at)
    }

    #[test]
    fn the_link_is_what_neither_distance_nor_server_took() {
        let (mut meter, at) = meter(0);
        meter.pong(1, at(3));
        meter.sent_whole(PUSH);
        meter.verdict(PUSH, 1.0, at(10));
        let expect = LinkSample {
            rtt_s: 2.0,
            upload_bytes: 100,
            upload_s: 7.0,
        };
        assert_eq!(meter.take(), Some(expect));
        assert_eq!(meter.take(), None, "each counts once");
    }

    #[test]
    fn an_injected_delay_is_round_trip() {
        let (mut meter, at) = meter(1);
        meter.pong(1, at(3));
        meter.sent_whole(PUSH);
        meter.verdict(PUSH, 0.0, at(10));
        assert_eq!(
            meter.take().map(|sample| (sample.rtt_s, sample.upload_s)),
            Some((3.0, 7.0))
        );
    }

    #[test]
    fn what_cannot_be_told_is_not_told() {
        let (mut early, at) = meter(0);
        early.pong(1, at(2));
        early.verdict(PUSH, 0.0, at(3));
        assert_eq!(early.upload_s(), None, "refused before all of it was sent");
        let (mut silent, at) = meter(0);
        silent.pong(99, at(2));
        silent.sent_whole(PUSH);
        silent.verdict(PUSH, 0.0, at(3));
        assert_eq!(silent.upload_s(), None, "no answer to its ping");
        let (mut broken, at) = meter(0);
        broken.pong(1, at(2));
        broken.lost();
        broken.sent_whole(PUSH);
        broken.verdict(PUSH, 0.0, at(3));
        assert_eq!(broken.upload_s(), None);
    }

    #[test]
    fn a_server_that_claims_too_much_makes_it_nothing() {
        for held_s in [1e9, f64::NAN, f64::INFINITY, -5.0] {
            let (mut meter, at) = meter(0);
            meter.pong(1, at(2));
            meter.sent_whole(PUSH);
            meter.verdict(PUSH, held_s, at(3));
            assert!(
                meter.upload_s().is_none_or(|s| (0.0..=2.0).contains(&s)),
                "{held_s}"
            );
        }
    }

    #[test]
    fn verdicts_that_never_come_are_forgotten() {
        let (mut meter, at) = meter(0);
        for push in 100..200 {
            meter.begin(PushId(push), 1, at(0), at(1));
        }
        assert_eq!(meter.open.len(), MAX_OPEN);
    }
}
