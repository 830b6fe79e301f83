//! A push is applied at most once, whatever is repeated.

use super::*;

#[test]
fn a_repeated_push_gets_the_verdict_it_had() {
    let mut bench = Bench::running(2, |config| {
        config.staleness.enabled = true;
        config.staleness.s_max = 2;
    });
    let accepted = bench.push(0, 1, 0);
    (1..=3).for_each(|id| drop(bench.push(1, id, id)));
    let rejected = bench.push(0, 2, 0);
    assert_eq!(rejected, ["0: push 2 stale, tau 4, v4"]);
    let (theta, logged) = (bench.theta(), bench.events.len());
    assert_eq!(bench.push(0, 1, 0), accepted);
    assert_eq!(bench.announce(0, header(1, 0), true), accepted);
    // A rejection stays one, also when the push is fresh now.
    assert_eq!(bench.push(0, 2, 4), rejected);
    assert_eq!((bench.theta(), bench.events.len()), (theta, logged));
}

#[test]
fn also_after_a_reconnect() {
    let mut bench = Bench::running(1, |_| {});
    bench.push(0, 1, 0);
    bench.leave(0);
    bench.rejoin(9, 0);
    assert_eq!(bench.push(9, 1, 0), ["9: push 1 Accepted 1.000, tau 0, v1"]);
    assert_eq!(bench.server.version(), Version(1));
    assert_eq!(bench.push(9, 2, 1), ["9: push 2 Accepted 1.000, tau 0, v2"]);
}

#[test]
fn also_when_another_process_has_the_identity_by_then() {
    let mut bench = Bench::running(1, |_| {});
    bench.push(0, 1, 0);
    bench.leave(0);
    assert_eq!(bench.rejoin(8, 8), ["8: worker 0"]);
    assert_eq!(bench.rejoin(9, 0), ["9: worker 1"]);
    assert_eq!(bench.push(9, 1, 0), ["9: push 1 Accepted 1.000, tau 0, v1"]);
    assert_eq!(bench.server.version(), Version(1));
}

#[test]
fn ids_of_a_new_process_start_again() {
    let mut bench = Bench::new(|_| {});
    bench.does(joining(0, 100, Some(0)));
    bench.push(0, 1, 0);
    bench.does(joining(1, 101, Some(0)));
    assert_eq!(bench.push(1, 1, 1), ["1: push 1 Accepted 1.000, tau 0, v2"]);
}

#[test]
fn ids_start_at_one() {
    let mut bench = Bench::running(1, |_| {});
    assert_eq!(bench.push(0, 0, 0), ["0: push 0 forgotten_id, tau 0, v0"]);
    assert_eq!(
        bench.push(0, u64::MAX, 0),
        [format!("0: push {} Accepted 1.000, tau 0, v1", u64::MAX)]
    );
}

#[test]
fn an_id_whose_verdict_is_no_longer_known_is_not_applied_again() {
    let mut bench = Bench::running(1, |_| {});
    (1..=65).for_each(|id| drop(bench.push(0, id, 0)));
    assert_eq!(bench.push(0, 1, 0), ["0: push 1 forgotten_id, tau 0, v65"]);
    assert_eq!(bench.push(0, 2, 0), ["0: push 2 Accepted 1.000, tau 1, v2"]);
}

#[test]
fn a_push_held_for_long_is_remembered_like_any_other() {
    let mut bench = Bench::running(2, |config| config.workload.sync = true);
    assert_eq!(bench.push(0, 1, 0), Vec::<String>::new());
    // Those behind it are refused meanwhile, more of them than verdicts are kept.
    for id in 2..=100 {
        assert_eq!(bench.push(0, id, 0), [format!("0: push {id} late, tau 0, v0")]);
    }
    assert_eq!(bench.push(0, 1, 0), Vec::<String>::new(), "held, not forgotten");
    assert_eq!(bench.announce(0, header(1, 0), true), Vec::<String>::new());
    bench.push(1, 1, 0);
    assert_eq!(bench.push(0, 1, 0), ["0: push 1 Accepted 0.500, tau 0, v1"]);
}
