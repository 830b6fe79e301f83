//! Pulls in async mode, and the evaluator's.

use super::*;

fn nothing() -> Vec<String> {
    Vec::new()
}

/// A trainer in session 0 and an evaluator in session 1, every 3 versions.
fn with_evaluator() -> Bench {
    let mut bench = Bench::running(1, |config| {
        config.workload.eval_interval = 3;
        config.workload.max_updates = 5;
    });
    bench.evaluator(1, 1);
    bench
}

fn advance(bench: &mut Bench, by: u64) -> Vec<String> {
    let from = bench.server.version().0;
    let mut said = Vec::new();
    (from..from + by).for_each(|v| said.extend(bench.push(0, v + 1, v).split_off(1)));
    said
}

#[test]
fn a_trainer_gets_what_it_does_not_have() {
    let mut bench = Bench::running(2, |_| {});
    assert_eq!(bench.pull(0, None), ["0: snapshot v0"]);
    assert_eq!(bench.pull(0, Some(0)), ["0: unchanged v0"]);
    bench.push(1, 1, 0);
    assert_eq!(bench.pull(0, Some(0)), ["0: snapshot v1"]);
    let pull = Pull {
        known: Some((Generation(6), Version(1))),
    };
    let other_life = Input::Pull {
        session: SessionId(0),
        pull,
    };
    assert_eq!(bench.says(other_life), ["0: snapshot v1"]);
}

#[test]
fn a_snapshot_stays_at_its_version() {
    let mut bench = Bench::running(1, |_| {});
    let mut out = Vec::new();
    let pull = Pull { known: None };
    let session = SessionId(0);
    bench
        .server
        .handle(bench.now, Input::Pull { session, pull }, &mut out);
    bench.push(0, 1, 0);
    let Some(Action::Answer {
        answer: Answer::Snapshot { chunks, .. },
        ..
    }) = out.pop()
    else {
        panic!("a snapshot")
    };
    let values = chunks.iter().flat_map(|chunk| chunk.to_vec()).collect::<Vec<_>>();
    assert_eq!(values, [0.0, 0.0]);
}

#[test]
fn a_stranger_gets_nothing() {
    assert_eq!(Bench::running(1, |_| {}).pull(77, None), nothing());
}

#[test]
fn the_evaluator_gets_version_0_the_multiples_and_the_last() {
    let mut bench = with_evaluator();
    assert_eq!(bench.pull(1, None), ["1: snapshot v0"]);
    assert_eq!(bench.report(1, 0, 0.1), ["log eval v0 0.1"]);
    assert_eq!(bench.pull(1, Some(0)), nothing());
    assert_eq!(advance(&mut bench, 2), nothing());
    assert_eq!(advance(&mut bench, 1), ["1: snapshot v3"]);
    // It was busy when the run stopped.
    assert_eq!(advance(&mut bench, 2), nothing());
    bench.report(1, 3, 0.2);
    assert_eq!(bench.pull(1, Some(3)), ["1: snapshot v5"]);
    bench.report(1, 5, 0.3);
    assert_eq!(bench.pull(1, Some(5)), ["1: stop: max_updates = 5 reached"]);
}

#[test]
fn a_multiple_that_passed_meanwhile_is_not_made_up_for() {
    let mut bench = with_evaluator();
    bench.pull(1, None);
    advance(&mut bench, 4);
    bench.report(1, 0, 0.1);
    assert_eq!(bench.pull(1, Some(0)), ["1: snapshot v4"]);
    assert_eq!(bench.server.next_eval, Version(6));
}

#[test]
fn a_report_has_the_time_of_its_version() {
    let mut bench = with_evaluator();
    bench.now = Duration::from_secs(2);
    bench.pull(1, None);
    bench.now = Duration::from_secs(5);
    bench.report(1, 0, 0.1);
    let Some(Event::Eval(eval)) = bench.events.last() else {
        panic!("an eval")
    };
    assert_eq!((eval.elapsed_s, eval.reported_s, eval.eval_s), (2.0, 5.0, 1.0));
    assert_eq!(
        (eval.test_loss, bench.server.last_evaluation().unwrap().accuracy),
        (0.5, 0.1)
    );
}

#[test]
fn only_a_version_that_is_owed_can_be_reported_and_once() {
    let mut bench = with_evaluator();
    assert_eq!(bench.report(1, 0, 0.1), nothing(), "it was not given out");
    bench.pull(1, None);
    assert_eq!(bench.report(1, 9, 0.1), nothing());
    assert_eq!(bench.report(1, 0, 0.1), ["log eval v0 0.1"]);
    assert_eq!(bench.report(1, 0, 0.1), nothing());
}

#[test]
fn an_evaluator_may_report_over_a_new_connection() {
    for cleanly in [true, false] {
        let mut bench = with_evaluator();
        bench.pull(1, None);
        if cleanly {
            bench.leave(1);
        }
        bench.evaluator(2, 1);
        assert_eq!(bench.report(2, 0, 0.1), ["log eval v0 0.1"]);
        assert_eq!(bench.pull(2, Some(0)), nothing());
    }
}

#[test]
fn an_evaluator_that_lost_the_parameters_gets_them_again() {
    let mut bench = with_evaluator();
    bench.pull(1, None);
    bench.leave(1);
    bench.evaluator(2, 1);
    assert_eq!(bench.pull(2, None), ["2: snapshot v0"]);
    bench.leave(2);
    // Another process owes nothing, and waits.
    bench.evaluator(3, 3);
    assert_eq!(bench.pull(3, None), nothing());
}

#[test]
fn the_last_version_is_given_again_after_a_broken_connection() {
    let mut bench = with_evaluator();
    bench.pull(1, None);
    advance(&mut bench, 5);
    assert_eq!(bench.pull(1, None), ["1: snapshot v5"]);
    assert!(bench.pull(1, None)[0].contains("stop"), "once a session");
    bench.leave(1);
    bench.evaluator(2, 1);
    assert_eq!(bench.pull(2, None), ["2: snapshot v5"]);
}
