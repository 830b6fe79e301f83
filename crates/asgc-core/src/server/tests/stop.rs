//! Stopping rules, draining, and the sums at the end.

use super::*;
use crate::event::RunEnd;

fn run_end(bench: &Bench) -> &RunEnd {
    let Some(Event::RunEnd(end)) = bench.events.last() else {
        panic!("run_end is the last event")
    };
    end
}

#[test]
fn never_more_updates_than_max_updates() {
    let mut bench = Bench::running(2, |config| config.workload.max_updates = 2);
    bench.pull(1, Some(0));
    (1..=2).for_each(|id| drop(bench.push(0, id, 0)));
    let (theta, logged) = (bench.theta(), bench.events.len());
    for id in [1, 2] {
        assert_eq!(bench.push(1, id, 2), [format!("1: push {id} stopped, tau 0, v2")]);
    }
    assert_eq!(
        bench.announce(1, header(3, 2), true),
        ["1: push 3 stopped, tau 0, v2"]
    );
    assert_eq!(
        (bench.theta(), bench.events.len()),
        (theta, logged),
        "and not logged"
    );
    assert_eq!(bench.pull(0, Some(1)), ["0: stop: max_updates = 2 reached"]);
    bench.leave_all();
    bench.tick(4.0);
    assert_eq!(
        (run_end(&bench).applied_updates, run_end(&bench).rejected_updates),
        (2, 0)
    );
}

#[test]
fn the_verdict_comes_before_the_stop() {
    let mut bench = Bench::running(2, |config| {
        config.workload.max_updates = 1;
        config.workload.sync = true;
    });
    bench.push(0, 1, 0);
    bench.pull(0, Some(0));
    let said = bench.push(1, 1, 0);
    assert!(said[0].contains("0: push 1 Accepted") && said[1].contains("1: push 1 Accepted"));
    assert_eq!(said[2..], ["0: stop: max_updates = 1 reached"]);
}

#[test]
fn wall_time_counts_from_the_beginning() {
    let mut bench = Bench::with(None, |config| config.workload.max_wall_time_s = 10.0);
    bench.join(0);
    assert_eq!(bench.tick(100.0), Vec::<String>::new(), "nothing began");
    let values = vec![0.0; 2];
    let session = SessionId(0);
    bench.does(Input::Initialise { session, values });
    assert_eq!(bench.tick(109.9), Vec::<String>::new());
    bench.push(0, 1, 0);
    assert_eq!(bench.tick(110.0), Vec::<String>::new(), "it drains now");
    assert_eq!(bench.pull(0, None), ["0: stop: max_wall_time_s = 10 reached"]);
    bench.leave(0);
    bench.tick(115.0);
    assert_eq!(run_end(&bench).elapsed_s, 10.0, "draining is not in it");
}

#[test]
fn the_target_stops_only_where_it_is_asked_to() {
    for stop_at_target in [false, true] {
        let mut bench = Bench::running(1, |config| {
            config.workload.target_accuracy = Some(0.5);
            config.server.stop_at_target = stop_at_target;
        });
        bench.evaluator(1, 1);
        bench.pull(1, None);
        bench.report(1, 0, 0.5);
        let stopped = bench.push(0, 1, 0) == ["0: push 1 stopped, tau 0, v0"];
        assert_eq!(stopped, stop_at_target);
    }
}

#[test]
fn below_the_target_nothing_stops() {
    let mut bench = Bench::running(1, |config| {
        config.workload.target_accuracy = Some(0.5);
        config.server.stop_at_target = true;
    });
    bench.evaluator(1, 1);
    bench.pull(1, None);
    bench.report(1, 0, 0.49);
    bench.report(1, 0, f64::NAN);
    assert_eq!(bench.push(0, 1, 0), ["0: push 1 Accepted 1.000, tau 0, v1"]);
}

#[test]
fn a_run_that_stops_evaluates_its_last_version() {
    let mut bench = Bench::running(1, |_| {});
    bench.evaluator(1, 1);
    bench.pull(1, None);
    bench.report(1, 0, 0.1);
    bench.pull(1, Some(0));
    bench.pull(0, None);
    bench.push(0, 1, 0);
    assert_eq!(bench.drain(), ["1: snapshot v1"]);
    assert_eq!(bench.tick(1.0), Vec::<String>::new());
    assert_eq!(bench.report(1, 1, 0.2), ["log eval v1 0.2"]);
    assert_eq!(bench.pull(1, Some(1)), ["1: stop: told"]);
    bench.leave_all();
    assert_eq!(bench.tick(2.0), ["log run_end told", "finish"]);
    assert_eq!(run_end(&bench).final_test_accuracy, Some(0.2));
}

#[test]
fn a_drain_ends_in_time_though_an_evaluator_hangs_and_once() {
    let mut bench = Bench::running(1, |config| config.server.drain_s = 5.0);
    bench.evaluator(1, 1);
    bench.now = Duration::from_secs(1);
    bench.drain();
    assert_eq!(bench.pull(1, None), ["1: snapshot v0"]);
    assert_eq!(bench.tick(5.9), Vec::<String>::new());
    assert_eq!(bench.tick(6.0), ["log run_end told", "finish"]);
    // Nothing is logged behind run_end.
    assert_eq!(bench.report(1, 0, 0.1), Vec::<String>::new());
    assert_eq!(bench.pull(1, None), ["1: stop: the run is over"]);
    assert_eq!(bench.pull(0, None), ["0: stop: the run is over"]);
    assert_eq!(bench.push(0, 1, 0), ["0: push 1 stopped, tau 0, v0"]);
    bench.leave(0);
    bench.leave(1);
    assert_eq!(bench.drain(), Vec::<String>::new());
    assert_eq!(bench.tick(99.0), Vec::<String>::new());
    assert_eq!(run_end(&bench).reason, "told");
}

#[test]
fn a_drain_before_the_run_began_stops_everybody() {
    let mut bench = Bench::with(None, |_| {});
    bench.evaluator(1, 1);
    bench.join(0);
    bench.pull(0, None);
    bench.pull(1, None);
    assert_eq!(bench.drain(), ["0: stop: told", "1: stop: told"]);
    let late = Input::Initialise {
        session: SessionId(0),
        values: vec![0.0; 2],
    };
    assert_eq!(bench.does(late), Vec::<String>::new());
    bench.leave_all();
    assert_eq!(bench.tick(0.0), ["finish"], "a run that never began has no log");
}

#[test]
fn the_end_sums_the_run_up() {
    let mut bench = Bench::running(2, |config| {
        config.staleness.enabled = true;
        config.staleness.s_max = 2;
    });
    bench.now = Duration::from_secs(1);
    (1..=3).for_each(|id| drop(bench.push(0, id, 0)));
    bench.announce(1, header(1, 0), false);
    bench.tick(4.0);
    bench.drain();
    bench.leave_all();
    bench.tick(9.0);
    assert_eq!(
        *run_end(&bench),
        RunEnd {
            applied_updates: 3,
            rejected_updates: 1,
            rejected_frac: 0.25,
            total_bytes: 32,
            received_bytes: 27,
            raw_bytes: 32,
            compression_ratio: 1.0,
            updates_per_sec: 0.75,
            elapsed_s: 4.0,
            mean_staleness: 1.5,
            max_staleness: 3,
            final_test_accuracy: None,
            final_test_loss: None,
            uplink_frame_bytes: 11,
            downlink_frame_bytes: 22,
            reason: "told".into(),
        }
    );
}
