//! The controller in the server: who is told, and from when its decisions hold.

use super::*;
use crate::config::CompressionMode;
use crate::ids::Revision;

/// Two trainers, Top-K; any bytes count as pressure, so that each window with a push moves on.
fn adaptive(change: impl FnOnce(&mut Config)) -> Bench {
    Bench::running(2, |config| {
        config.compression.mode = CompressionMode::Topk;
        config.staleness.enabled = true;
        (config.staleness.s_low, config.staleness.s_max) = (0, 2);
        config.controller.enabled = true;
        config.controller.interval_s = 10.0;
        config.controller.comm_pressure_min = 0.0;
        change(config);
    })
}

#[test]
fn a_decision_is_logged_first_and_told_to_all_trainers() {
    let mut bench = adaptive(|_| {});
    bench.evaluator(5, 5);
    bench.push(0, 1, 0);
    assert_eq!(bench.tick(9.9), Vec::<String>::new());
    assert_eq!(
        bench.tick(10.0),
        [
            "log control stable+comm_pressure, no loss signal",
            "0: r1 topk(rho=0.2)",
            "1: r1 topk(rho=0.2)"
        ]
    );
    // Nothing happened since: logged, and nobody needs to know.
    assert_eq!(bench.tick(20.0), ["log control hold (no pushes), no loss signal"]);
}

#[test]
fn a_decision_waits_for_no_tick() {
    let mut bench = adaptive(|_| {});
    bench.push(0, 1, 0);
    bench.now = Duration::from_secs(11);
    // Taken before the push that finds it due, which is in the next window.
    assert_eq!(
        bench.push(1, 1, 0),
        [
            "0: r1 topk(rho=0.2)",
            "1: r1 topk(rho=0.2)",
            "1: push 1 Downweighted 0.667, tau 1, v2"
        ]
    );
    let Some(Event::Control(control)) = bench
        .events
        .iter()
        .find(|event| matches!(event, Event::Control(_)))
    else {
        panic!("a decision")
    };
    assert_eq!((control.elapsed_s, control.updates_per_s), (11.0, 1.0));
    assert_eq!(bench.tick(20.0).len(), 3, "the next is due at a multiple");
}

#[test]
fn a_new_bound_holds_at_once() {
    let mut bench = adaptive(|_| {});
    (1..=3).for_each(|id| drop(bench.push(0, id, id - 1)));
    assert_eq!(
        bench.announce(1, header(1, 0), true),
        ["1: push 1 stale, tau 3, v3"]
    );
    bench.now = Duration::from_secs(10);
    // A quarter of the pushes was rejected: safer, but s_max is at its lower bound.
    assert_eq!(bench.push(0, 4, 3)[0], "0: r1 topk(rho=0.3)");
    bench.tick(20.0);
    assert_eq!(
        bench.announce(1, header(2, 1), true),
        ["1: push 2 may go"],
        "s_max went from 2 to 3"
    );
    assert_eq!(
        bench.announce(1, header(3, 0), true),
        ["1: push 3 stale, tau 4, v4"]
    );
}

#[test]
fn who_joins_later_is_told_right_after_admission() {
    let mut bench = adaptive(|_| {});
    assert_eq!(
        bench.rejoin(2, 0)[1..],
        ["2: worker 0"],
        "nothing has changed yet"
    );
    bench.push(2, 1, 0);
    bench.tick(10.0);
    let late = bench.rejoin(3, 3);
    assert_eq!(late, ["3: worker 2", "3: r1 topk(rho=0.2)"]);
    let back = bench.rejoin(4, 3);
    assert_eq!(
        back[1..],
        ["4: worker 2", "4: r1 topk(rho=0.2)"],
        "it may have missed them"
    );
    assert_eq!(bench.evaluator(5, 5), ["log join p5 false", "5: evaluator"]);
}

#[test]
fn identity_and_the_ends_of_a_range_are_told_to_nobody() {
    let mut bench = adaptive(|config| config.compression.mode = CompressionMode::Identity);
    bench.push(0, 1, 0);
    assert_eq!(
        bench.tick(10.0),
        ["log control stable+comm_pressure, no loss signal"]
    );
    assert_eq!(bench.rejoin(3, 3), ["3: worker 2"]);
}

#[test]
fn a_push_says_under_which_controls_it_was_encoded() {
    let mut bench = adaptive(|_| {});
    let controls = Revision(6);
    bench.does(push(
        0,
        PushHeader {
            controls,
            ..header(1, 0)
        },
        Some(&[1.0, 1.0]),
    ));
    assert_eq!(bench.updates()[0].controls_revision, controls);
}

#[test]
fn before_and_after_the_run_nothing_is_decided() {
    let mut bench = Bench::new(|config| {
        config.controller.enabled = true;
        config.controller.adapt_staleness = false;
    });
    assert_eq!(bench.tick(100.0), Vec::<String>::new());
    bench.join(0);
    assert_eq!(
        bench.tick(129.0),
        Vec::<String>::new(),
        "time counts from when the run began"
    );
    assert_eq!(
        bench.tick(130.0),
        ["log control hold (no pushes), no loss signal"]
    );
    bench.drain();
    assert_eq!(bench.tick(159.0), Vec::<String>::new());
    assert!(!bench.tick(160.0).iter().any(|line| line.contains("control")));
}

#[test]
fn sync_mode_adapts_compression() {
    let mut bench = adaptive(|config| {
        config.server.mode = Some(Mode::Sync);
        config.controller.adapt_staleness = false;
    });
    bench.push(0, 1, 0);
    bench.push(1, 1, 0);
    assert_eq!(
        bench.tick(10.0)[1..],
        ["0: r1 topk(rho=0.2)", "1: r1 topk(rho=0.2)"]
    );
}

fn set(bench: &mut Bench, ticket: u64, set: crate::event::Override) -> Vec<String> {
    let operator = crate::event::Operator {
        by: "me".into(),
        why: "to see".into(),
        set,
    };
    bench.does(Input::SetControls {
        ticket: Ticket(ticket),
        operator: Box::new(operator),
    })
}

#[test]
fn a_change_by_hand_is_logged_told_to_whom_it_concerns_and_answered() {
    let mut bench = adaptive(|_| {});
    let codec = "topk(rho=0.1)".parse().ok();
    let one = crate::event::Override {
        worker_id: Some(crate::ids::WorkerId(1)),
        codec,
        ..Default::default()
    };
    assert_eq!(
        set(&mut bench, 5, one),
        [
            "log control set by hand by me: to see",
            "1: r1 topk(rho=0.1)",
            "answer 5: r1"
        ]
    );
    let bound = crate::event::Override {
        s_max: Some(7),
        ..Default::default()
    };
    assert_eq!(
        set(&mut bench, 6, bound),
        ["log control set by hand by me: to see", "answer 6: r1"]
    );
    (1..=6).for_each(|id| drop(bench.push(0, id, id - 1)));
    assert_eq!(
        bench.announce(1, header(1, 0), true),
        ["1: push 1 may go"],
        "at once"
    );
    assert_eq!(
        set(&mut bench, 7, crate::event::Override::default()),
        ["answer 7: nothing to set: give a codec, s_max, or whether to pin"]
    );
    bench.drain();
    let late = crate::event::Override {
        pin: Some(true),
        ..Default::default()
    };
    assert_eq!(set(&mut bench, 8, late.clone()), ["answer 8: the run is over"]);
    let mut early = Bench::new(|_| {});
    assert_eq!(
        set(&mut early, 1, late),
        ["answer 1: the run has not begun: it waits for workers"]
    );
}
