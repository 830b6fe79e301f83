//! The worker, one input at a time: Top-K keeps one of two entries, so that every push leaves a residual.

use super::*;
use crate::ids::{Density, Staleness};
use crate::layout::TensorSpec;

const LIFE: Generation = Generation(7);

struct Bench(Worker);

impl Bench {
    fn new(change: impl FnOnce(&mut Settings)) -> Self {
        let spec = TensorSpec {
            name: "w".into(),
            shape: vec![2],
        };
        let mut settings = Settings {
            form: Form::default(),
            warmup: None,
            correction: Correction::default(),
            codec: Codec::TopK(Density::new(0.5).unwrap()),
            error_feedback: Some(Bound::None),
            rates: None,
            reclaim: false,
            replays: false,
            seed: 0,
        };
        change(&mut settings);
        let mut bench = Self(Worker::new(Arc::new(Layout::new(vec![spec]).unwrap()), settings));
        assert_eq!(bench.joined(LIFE), []);
        bench
    }

    fn does(&mut self, input: Input<'_>) -> Vec<Action> {
        let mut out = Vec::new();
        self.0.handle(input, &mut out);
        out
    }

    fn joined(&mut self, generation: Generation) -> Vec<Action> {
        self.does(Input::Joined { generation })
    }

    fn try_gradient(&mut self, gradient: [f32; 2]) -> Vec<Action> {
        self.does(Input::Gradient {
            gradient: &mut gradient.to_vec(),
            base: (LIFE, Version(3)),
            measured: Measured {
                loss: 0.5,
                ..Measured::default()
            },
        })
    }

    fn gradient(&mut self, gradient: [f32; 2]) -> Push {
        match self.try_gradient(gradient).pop() {
            Some(Action::Send(push)) => push,
            other => panic!("a push, not {other:?}"),
        }
    }

    fn verdict(&mut self, id: u64, verdict: Verdict) -> Vec<Action> {
        let push = PushId(id);
        self.does(Input::Verdict { push, verdict })
    }
}

fn accepted() -> Verdict {
    Verdict::applied(1.0, Staleness(0), Version(4))
}

fn rejected(reason: RejectReason) -> Verdict {
    Verdict::rejected(reason, Staleness(9), Version(12))
}

fn settled(id: u64, verdict: Verdict) -> Action {
    let push = PushId(id);
    Action::Settled { push, verdict }
}

#[test]
fn a_push_carries_the_gradient_and_what_was_left_of_those_before() {
    let mut bench = Bench::new(|_| {});
    let push = bench.gradient([4.0, 3.0]);
    assert_eq!(bench.0.residual(), [0.0, 3.0]);
    let header = push.header;
    assert_eq!(
        (header.push, header.generation, header.base),
        (PushId(1), LIFE, Version(3))
    );
    assert_eq!((header.entries, header.payload_bytes), (vec![1], 8));
    assert_eq!((header.measured.residual_norm, header.measured.loss), (3.0, 0.5));
    let push = bench.gradient([0.5, 2.0]);
    assert_eq!(push.header.push, PushId(2));
    assert_eq!(push.payload.bytes[4..], 5.0f32.to_le_bytes());
    assert_eq!((bench.0.residual(), bench.0.in_flight()), (&[0.5, 0.0][..], 2));
}

#[test]
fn an_accepted_push_is_forgotten() {
    let mut bench = Bench::new(|_| {});
    bench.gradient([4.0, 3.0]);
    assert_eq!(bench.verdict(1, accepted()), [settled(1, accepted())]);
    assert_eq!((bench.0.residual(), bench.0.in_flight()), (&[0.0, 3.0][..], 0));
}

#[test]
fn a_rejected_push_is_put_back_whatever_the_reason() {
    for reason in [
        RejectReason::Stale,
        RejectReason::Late,
        RejectReason::NonFinite,
        RejectReason::WrongGeneration,
        RejectReason::FutureVersion,
        RejectReason::ForgottenId,
        RejectReason::Stopped,
    ] {
        let mut bench = Bench::new(|_| {});
        bench.gradient([4.0, 3.0]);
        bench.gradient([1.0, 0.0]);
        let verdict = rejected(reason);
        assert_eq!(bench.verdict(1, verdict), [settled(1, verdict)]);
        assert_eq!(
            bench.0.residual(),
            [5.0, 0.0],
            "{reason:?}: 4 of the first, 1 of the second"
        );
    }
}

#[test]
fn attenuation_is_policy_unless_it_is_reclaimed() {
    for (reclaim, expected) in [(false, [0.0, 3.0]), (true, [3.0, 3.0])] {
        let mut bench = Bench::new(|settings| settings.reclaim = reclaim);
        bench.gradient([4.0, 3.0]);
        bench.verdict(1, Verdict::applied(0.25, Staleness(6), Version(4)));
        assert_eq!(bench.0.residual(), expected);
    }
}

#[test]
fn a_share_in_a_round_is_not_attenuation() {
    let mut bench = Bench::new(|settings| settings.reclaim = true);
    bench.gradient([4.0, 3.0]);
    let weight = 1.0 / 3.0;
    bench.verdict(1, Verdict { weight, ..accepted() });
    assert_eq!(bench.0.residual(), [0.0, 3.0]);
}

#[test]
fn a_verdict_counts_once() {
    let mut bench = Bench::new(|_| {});
    bench.gradient([4.0, 3.0]);
    bench.verdict(1, rejected(RejectReason::Stale));
    for verdict in [rejected(RejectReason::Stale), accepted()] {
        assert_eq!(bench.verdict(1, verdict), []);
    }
    assert_eq!(bench.verdict(77, rejected(RejectReason::Stale)), []);
    assert_eq!(bench.0.residual(), [4.0, 3.0]);
}

#[test]
fn who_was_late_asks_before_it_sends_again() {
    let mut bench = Bench::new(|_| {});
    for (verdict, asks) in [
        (accepted(), false),
        (rejected(RejectReason::Stale), true),
        (accepted(), false),
        (rejected(RejectReason::Late), true),
        (rejected(RejectReason::NonFinite), false),
    ] {
        let push = bench.gradient([4.0, 3.0]);
        bench.verdict(push.header.push.0, verdict);
        let push = bench.gradient([4.0, 3.0]);
        assert_eq!(push.asks_first, asks, "after {verdict:?}");
        bench.verdict(push.header.push.0, accepted());
    }
}

#[test]
fn undecided_pushes_are_sent_again_in_order() {
    let mut bench = Bench::new(|_| {});
    let pushes = [1.0, 2.0, 3.0].map(|g| bench.gradient([g, 0.0]));
    bench.verdict(2, accepted());
    let [first, _, third] = pushes;
    assert_eq!(bench.joined(LIFE), [Action::Send(first), Action::Send(third)]);
}

#[test]
fn a_server_that_lost_its_memory_gets_nothing_twice() {
    let mut bench = Bench::new(|_| {});
    bench.gradient([4.0, 3.0]);
    let verdict = Verdict::rejected(RejectReason::WrongGeneration, Staleness(0), Version(3));
    assert_eq!(bench.joined(Generation(8)), [settled(1, verdict)]);
    assert_eq!(bench.0.residual(), [4.0, 3.0]);
    // A verdict of the old life that was still on its way.
    assert_eq!(bench.verdict(1, accepted()), []);
    assert_eq!(
        bench.gradient([0.0, 0.0]).header.push,
        PushId(2),
        "ids are not used twice"
    );
}

#[test]
fn at_the_end_everything_is_put_back() {
    let mut bench = Bench::new(|_| {});
    bench.gradient([4.0, 3.0]);
    bench.gradient([0.0, 1.0]);
    assert_eq!(bench.0.residual(), [0.0, 0.0]);
    let verdict = Verdict::rejected(RejectReason::Stopped, Staleness(0), Version(3));
    assert_eq!(
        bench.does(Input::Stopped),
        [settled(1, verdict), settled(2, verdict)]
    );
    assert_eq!((bench.0.residual(), bench.0.in_flight()), (&[4.0, 4.0][..], 0));
    assert_eq!(bench.does(Input::Stopped), []);
}

#[test]
fn a_gradient_that_is_not_finite_uses_no_id_up() {
    let mut bench = Bench::new(|_| {});
    bench.gradient([4.0, 3.0]);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let did = bench.try_gradient([1.0, bad]);
        assert!(matches!(did[..], [Action::Unfit(_)]), "{did:?}");
    }
    assert_eq!((bench.0.residual(), bench.0.in_flight()), (&[0.0, 3.0][..], 1));
    assert_eq!(bench.gradient([0.0, 0.0]).header.push, PushId(2));
}

#[test]
fn without_error_feedback_nothing_is_kept() {
    let mut bench = Bench::new(|settings| settings.error_feedback = None);
    assert_eq!(bench.gradient([4.0, 3.0]).header.measured.residual_norm, 0.0);
    bench.verdict(1, rejected(RejectReason::Stale));
    assert_eq!(
        bench.gradient([1.0, 0.0]).payload.bytes[4..],
        1.0f32.to_le_bytes()
    );
}

fn controls(revision: u64, rho: f64) -> Input<'static> {
    Input::Controls(Controls {
        revision: Revision(revision),
        codec: Codec::TopK(Density::new(rho).unwrap()),
    })
}

#[test]
fn controls_hold_from_the_next_gradient_and_leave_the_residual_alone() {
    let mut bench = Bench::new(|_| {});
    let before = bench.gradient([4.0, 3.0]);
    assert_eq!(bench.does(controls(1, 1.0)), []);
    assert_eq!(bench.0.residual(), [0.0, 3.0]);
    let after = bench.gradient([1.0, 1.0]);
    assert_eq!(
        (before.header.controls, after.header.controls),
        (Revision(0), Revision(1))
    );
    // All of it, with what the one before had left.
    assert_eq!((after.header.entries, after.header.payload_bytes), (vec![2], 16));
    assert_eq!(bench.0.residual(), [0.0, 0.0]);
    // A push from before is put back as it was sent.
    bench.verdict(1, rejected(RejectReason::Stale));
    assert_eq!(bench.0.residual(), [4.0, 0.0]);
}

#[test]
fn controls_outlast_a_connection_but_not_the_server_that_gave_them() {
    let mut bench = Bench::new(|_| {});
    bench.does(controls(3, 1.0));
    let sent = bench.gradient([1.0, 2.0]);
    let again = bench.joined(LIFE);
    assert_eq!(
        again,
        [Action::Send(sent)],
        "under the revision that it was encoded with"
    );
    assert_eq!(bench.0.controls().revision, Revision(3));
    bench.joined(Generation(LIFE.0 + 1));
    let start = Codec::TopK(Density::new(0.5).unwrap());
    assert_eq!(
        (bench.0.controls().revision, bench.0.controls().codec),
        (Revision(0), start)
    );
}

#[test]
fn the_residual_follows_the_rate_and_so_does_what_is_put_back() {
    let mut config = crate::config::Config::default();
    config.workload.max_updates = 8;
    (config.workload.lr_decay_frac, config.workload.lr_gamma) = (0.5, 0.5);
    let mut bench = Bench::new(|settings| settings.rates = Some(Schedule::new(&config)));
    let early = bench.gradient([4.0, 1.0]);
    assert_eq!(
        (early.header.base, bench.0.residual()),
        (Version(3), &[0.0, 1.0][..])
    );
    // At version 4 the rate is half of what it was: what waits counts twice.
    let gradient = &mut vec![0.0, 0.5];
    let (base, measured) = ((LIFE, Version(4)), Measured::default());
    bench.does(Input::Gradient {
        gradient,
        base,
        measured,
    });
    assert_eq!(bench.0.residual(), [0.0, 0.0]);
    // So does a push of the time before, when it comes back; one of this time as it is.
    bench.verdict(1, rejected(RejectReason::Stale));
    assert_eq!(bench.0.residual(), [8.0, 0.0]);
    bench.verdict(2, rejected(RejectReason::Stale));
    assert_eq!(bench.0.residual(), [8.0, 2.5]);
}
