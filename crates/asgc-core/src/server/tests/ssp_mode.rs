//! Stale synchronous parallel: the fast wait for the slowest.

use super::*;

/// Slack 1; worker 0 has made two steps more than worker 1.
fn ahead() -> Bench {
    let mut bench = Bench::running(2, |config| {
        config.server.mode = Some(crate::config::Mode::Ssp);
        config.server.slack = 1;
    });
    bench.push(0, 1, 0);
    assert_eq!(bench.pull(0, None), ["0: snapshot v1"], "one ahead is allowed");
    bench.push(0, 2, 1);
    assert_eq!(bench.pull(0, None), Vec::<String>::new());
    bench
}

#[test]
fn the_fast_one_goes_on_when_the_slowest_moves() {
    let pushed = ahead().push(1, 1, 0);
    assert_eq!(pushed, ["1: push 1 Accepted 1.000, tau 2, v3", "0: snapshot v3"]);
}

#[test]
fn also_when_that_one_is_rejected() {
    let rejected = ahead().says(push(1, header(1, 0), None));
    assert_eq!(rejected, ["1: push 1 non_finite, tau 2, v2", "0: snapshot v2"]);
}

#[test]
fn the_fast_one_goes_on_when_the_slowest_leaves() {
    assert_eq!(ahead().leave(1), ["0: snapshot v2"]);
}

#[test]
fn the_fast_one_goes_on_when_the_slowest_comes_back_level() {
    let joined = ahead().rejoin(5, 1);
    assert_eq!(joined[1..], ["5: worker 1", "0: snapshot v2"]);
}

#[test]
fn the_slowest_never_waits() {
    assert_eq!(ahead().pull(1, None), ["1: snapshot v2"]);
}

#[test]
fn a_newcomer_neither_waits_nor_holds_back() {
    let mut bench = ahead();
    bench.push(1, 1, 0);
    bench.push(1, 2, 0);
    bench.join(2);
    assert_eq!(bench.pull(2, None), ["2: snapshot v4"]);
    bench.push(0, 3, 0);
    assert_eq!(
        bench.pull(0, None),
        ["0: snapshot v5"],
        "3 steps; the newcomer counts 2"
    );
    // Made steps level: it is held to the slack from here on.
    bench.push(2, 1, 5);
    assert_eq!(bench.pull(2, None), ["2: snapshot v6"]);
    bench.push(2, 2, 6);
    assert_eq!(bench.pull(2, None), Vec::<String>::new());
}

#[test]
fn who_comes_back_is_not_held_back_by_who_came_meanwhile() {
    let mut bench = Bench::new(|config| {
        config.server.mode = Some(crate::config::Mode::Ssp);
        config.server.slack = 1;
    });
    bench.join(0);
    (1..=9).for_each(|id| drop(bench.push(0, id, 0)));
    bench.leave(0);
    bench.join(1);
    bench.rejoin(2, 0);
    assert_eq!(bench.pull(2, None), ["2: snapshot v9"]);
}

#[test]
fn any_slack_is_possible() {
    let mut bench = Bench::running(2, |config| {
        config.server.mode = Some(crate::config::Mode::Ssp);
        config.server.slack = u64::MAX;
    });
    bench.push(0, 1, 0);
    bench.push(1, 1, 0);
    assert_eq!(bench.pull(0, None), ["0: snapshot v2"]);
}
