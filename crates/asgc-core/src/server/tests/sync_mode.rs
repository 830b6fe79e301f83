//! Rounds.

use super::*;
use crate::event::Decision;

fn sync(config: &mut Config) {
    config.workload.sync = true;
}

fn nothing() -> Vec<String> {
    Vec::new()
}

#[test]
fn a_round_is_released_by_all_expected_trainers() {
    let mut bench = Bench::running(3, sync);
    assert_eq!(bench.push(0, 1, 0), nothing());
    assert_eq!(bench.push(1, 1, 0), nothing());
    assert_eq!(
        (bench.server.version(), bench.theta()),
        (Version(0), vec![0.0; 2])
    );
    assert_eq!(
        bench.push(2, 1, 0),
        [0, 1, 2].map(|s| format!("{s}: push 1 Accepted 0.333, tau 0, v1"))
    );
    assert_eq!(bench.theta(), [-0.5, 0.5], "the mean, once");
    let updates = bench.updates();
    assert_eq!(updates.len(), 3);
    for (update, worker) in updates.iter().zip(0..) {
        assert_eq!(update.worker_id, WorkerId(worker));
        assert_eq!((update.version, update.staleness.0), (Version(1), 0));
        assert_eq!((update.weight, update.decision), (1.0 / 3.0, Decision::Accepted));
    }
}

#[test]
fn a_round_waits_for_trainers_that_are_missing() {
    // Two of three joined: the run began, but no round comes about.
    let mut bench = Bench::new(|config| {
        sync(config);
        config.workload.num_workers = 3;
    });
    bench.join(0);
    bench.join(1);
    assert_eq!([bench.push(0, 1, 0), bench.push(1, 1, 0)].concat(), nothing());
    // Leaving makes it no smaller, and coming back no larger.
    assert_eq!(bench.leave(1), nothing());
    assert_eq!(bench.rejoin(11, 1), ["11: worker 1"]);
    assert_eq!(bench.push(11, 1, 0), nothing(), "held since before");
    assert_eq!(
        bench.push(11, 2, 0),
        ["11: push 2 late, tau 0, v0"],
        "one a round"
    );
    bench.leave(11);
    bench.join(2);
    assert_eq!(
        bench.push(2, 1, 0),
        [
            "0: push 1 Accepted 0.333, tau 0, v1",
            "2: push 1 Accepted 0.333, tau 0, v1"
        ],
        "the absent one's push counts"
    );
    bench.rejoin(12, 1);
    assert_eq!(bench.push(12, 1, 0), ["12: push 1 Accepted 0.333, tau 0, v1"]);
}

#[test]
fn the_push_of_a_process_that_was_replaced_is_dropped() {
    let mut bench = Bench::running(2, sync);
    bench.says(push(1, header(1, 0), Some(&[100.0, 100.0])));
    bench.leave(1);
    assert_eq!(bench.rejoin(5, 5), ["5: worker 1"]);
    assert_eq!(bench.push(0, 1, 0), nothing());
    assert_eq!(bench.push(5, 1, 0).len(), 2);
    assert_eq!(bench.theta(), [-0.5, 0.5]);
}

#[test]
fn a_quorum_releases_and_the_late_one_is_rejected() {
    let mut bench = Bench::running(3, |config| {
        sync(config);
        config.server.quorum = Some(2);
    });
    bench.push(2, 1, 0);
    assert_eq!(
        bench.push(0, 1, 0),
        [
            "0: push 1 Accepted 0.500, tau 0, v1",
            "2: push 1 Accepted 0.500, tau 0, v1"
        ]
    );
    assert_eq!(
        bench.announce(1, header(1, 0), true),
        ["1: push 1 late, tau 1, v1"]
    );
    assert_eq!(bench.pull(1, Some(0)), ["1: snapshot v1"]);
}

#[test]
fn a_second_push_for_a_round_is_refused_at_its_header() {
    let mut bench = Bench::running(2, sync);
    bench.push(0, 1, 0);
    assert_eq!(
        bench.announce(0, header(2, 0), true),
        ["0: push 2 late, tau 0, v0"]
    );
}

#[test]
fn who_has_pushed_waits_for_the_round_and_who_is_behind_does_not() {
    let mut bench = Bench::running(2, sync);
    bench.push(0, 1, 0);
    assert_eq!(bench.pull(0, Some(0)), nothing());
    assert_eq!(bench.pull(1, None), ["1: snapshot v0"]);
    assert_eq!(
        bench.push(1, 1, 0)[2..],
        ["0: snapshot v1"],
        "the waiting pull is answered with the round"
    );
    assert_eq!(bench.pull(1, Some(0)), ["1: snapshot v1"]);
}

#[test]
fn a_pull_waits_behind_a_push_that_is_on_its_way() {
    let mut bench = Bench::running(2, sync);
    bench.announce(0, header(1, 0), false);
    assert_eq!(bench.pull(0, Some(0)), nothing());
    // It turns out unusable: the worker must go on, or the round never ends.
    assert_eq!(
        bench.says(push(0, header(1, 0), None)),
        ["0: push 1 non_finite, tau 0, v0", "0: unchanged v0"]
    );
}

#[test]
fn who_could_not_push_is_not_left_waiting_for_itself() {
    let mut bench = Bench::running(2, sync);
    bench.push(1, 1, 0);
    bench.pull(1, Some(0));
    // Its gradient was not finite, so nothing was sent.
    assert_eq!(bench.pull(0, Some(0)), ["0: unchanged v0"]);
    assert_eq!(bench.push(0, 1, 0).len(), 3);
}

#[test]
fn the_order_of_arrival_does_not_matter() {
    let gradients = [[1e-8f32, 3.0], [1.0, 1e7], [-0.3, 0.1]];
    let trained = |order: [u64; 3]| {
        let mut bench = Bench::running(3, sync);
        for session in order {
            bench.says(push(session, header(1, 0), Some(&gradients[session as usize])));
        }
        let weights = bench.updates().iter().map(|u| u.worker_id).collect::<Vec<_>>();
        (bench.theta(), weights)
    };
    let first = trained([0, 1, 2]);
    for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        assert_eq!(trained(order), first);
    }
}

#[test]
fn a_round_under_way_when_the_run_stops_is_answered() {
    let mut bench = Bench::running(2, sync);
    bench.push(0, 1, 0);
    bench.pull(0, Some(0));
    assert_eq!(bench.drain(), ["0: push 1 stopped, tau 0, v0", "0: stop: told"]);
    assert_eq!(bench.push(0, 1, 0), ["0: push 1 stopped, tau 0, v0"]);
    assert_eq!(bench.updates().len(), 0);
}

#[test]
fn an_update_says_how_long_its_pull_was_held() {
    let mut bench = Bench::running(2, sync);
    bench.pull(0, None);
    bench.pull(1, None);
    bench.push(0, 1, 0);
    bench.now = Duration::from_secs(1);
    assert_eq!(
        bench.pull(0, Some(0)),
        nothing(),
        "its push for the round is held"
    );
    bench.now = Duration::from_secs(4);
    bench.push(1, 1, 0);
    bench.pull(1, Some(0));
    bench.push(0, 2, 1);
    bench.push(1, 2, 1);
    let held = bench
        .updates()
        .iter()
        .map(|u| (u.worker_id.0, u.pull_held_s))
        .collect::<Vec<_>>();
    assert_eq!(held, [(0, 0.0), (1, 0.0), (0, 3.0), (1, 0.0)]);
}
