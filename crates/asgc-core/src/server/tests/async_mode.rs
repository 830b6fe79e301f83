//! Each push on its own: weights, versions, rejections, the log.

use super::*;
use crate::event::{Decision, RejectReason};
use rand::RngExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn bounded(s_low: u64, s_max: u64) -> impl FnOnce(&mut Config) {
    move |config| {
        config.staleness.enabled = true;
        (config.staleness.s_low, config.staleness.s_max) = (s_low, s_max);
        config.staleness.beta = 0.5;
    }
}

#[test]
fn an_accepted_push_moves_the_version_by_one() {
    let mut bench = Bench::running(1, |_| {});
    assert_eq!(bench.push(0, 1, 0), ["0: push 1 Accepted 1.000, tau 0, v1"]);
    assert_eq!(bench.theta(), [-0.5, 0.5]);
    assert_eq!(bench.push(0, 2, 0), ["0: push 2 Accepted 1.000, tau 1, v2"]);
    assert_eq!(bench.server.version(), Version(2));
}

#[test]
fn weights_change_at_the_bounds_of_staleness() {
    let mut bench = Bench::running(1, bounded(1, 3));
    let verdicts = (1..=5)
        .map(|id| bench.push(0, id, 0).concat())
        .collect::<Vec<_>>();
    assert_eq!(
        verdicts,
        [
            "0: push 1 Accepted 1.000, tau 0, v1",
            "0: push 2 Accepted 1.000, tau 1, v2",
            "0: push 3 Downweighted 0.500, tau 2, v3",
            "0: push 4 Downweighted 0.400, tau 3, v4",
            "0: push 5 stale, tau 4, v4",
        ]
    );
    assert_eq!(
        bench.server.version(),
        Version(4),
        "a rejected push moves nothing"
    );
    assert_eq!(bench.theta(), [-0.5 * 2.9, 0.5 * 2.9]);
}

#[test]
fn the_rate_follows_the_version_before_the_update() {
    let mut bench = Bench::running(1, |config| {
        config.optimizer.warmup_updates = 2;
        config.workload.max_updates = 4;
        config.workload.lr_decay_frac = 0.75;
    });
    (1..=4).for_each(|id| drop(bench.push(0, id, 0)));
    let rates = bench.updates().iter().map(|u| u.lr).collect::<Vec<_>>();
    assert_eq!(rates, [0.25, 0.5, 0.5, 0.05]);
}

#[test]
fn an_update_says_all_about_its_push() {
    let mut bench = Bench::running(2, bounded(0, 1));
    bench.push(0, 1, 0);
    bench.now = Duration::from_millis(1500);
    let sent = |id| PushHeader {
        controls: crate::ids::Revision(3),
        ..header(id, 0)
    };
    bench.does(push(1, sent(4), Some(&[1.0, -1.0])));
    bench.announce(1, sent(5), false);
    let expected = Update {
        worker_id: WorkerId(1),
        version: Version(2),
        staleness: crate::ids::Staleness(1),
        payload_bytes: 8,
        received_bytes: 8,
        fetch_s: 0.1,
        compute_s: 0.2,
        encode_s: 0.3,
        decision: Decision::Downweighted,
        reason: None,
        weight: 1.0 / 1.5,
        residual_norm: 0.4,
        loss: 0.5,
        samples: 6,
        push_id: PushId(4),
        lr: 0.5,
        controls_revision: crate::ids::Revision(3),
        compression_mode: Some(crate::codec::Format::Identity),
        base_version: Version(0),
        gradient_norm: 0.7,
        residual_dropped: -0.8,
        residual_dropped_norm: 0.9,
        decode_s: 0.001,
        rtt_s: Some(0.01),
        upload_bytes: Some(12),
        upload_s: Some(0.02),
        pipeline_depth: 3,
        pull_held_s: 0.0,
        elapsed_s: 1.5,
    };
    assert_eq!(*bench.updates()[1], expected);
    let refused = Update {
        staleness: crate::ids::Staleness(2),
        received_bytes: 3,
        decision: Decision::Rejected,
        reason: Some(RejectReason::Stale),
        weight: 0.0,
        push_id: PushId(5),
        lr: 0.0,
        decode_s: 0.0,
        ..expected
    };
    assert_eq!(*bench.updates()[2], refused, "refused at its header");
}

#[test]
fn a_header_is_refused_or_waved_on() {
    let mut bench = Bench::running(1, bounded(0, 1));
    let nothing = Vec::<String>::new();
    assert_eq!(bench.announce(0, header(1, 0), false), nothing, "it comes anyway");
    assert_eq!(bench.announce(0, header(1, 0), true), ["0: push 1 may go"]);
    assert_eq!(bench.server.version(), Version(0));
    (1..=2).for_each(|id| drop(bench.push(0, id, 0)));
    assert_eq!(
        bench.announce(0, header(3, 0), true),
        ["0: push 3 stale, tau 2, v2"]
    );
    // Its payload was on its way all the same.
    assert_eq!(bench.push(0, 3, 0), ["0: push 3 stale, tau 2, v2"]);
    assert_eq!(bench.updates().len(), 3);
}

#[test]
fn a_push_that_grew_stale_on_its_way_is_refused_when_it_is_whole() {
    let mut bench = Bench::running(2, bounded(0, 0));
    assert_eq!(bench.announce(0, header(1, 0), true), ["0: push 1 may go"]);
    bench.push(1, 1, 0);
    assert_eq!(bench.push(0, 1, 0), ["0: push 1 stale, tau 1, v1"]);
    assert_eq!(bench.updates()[1].received_bytes, 8);
}

#[test]
fn what_is_not_finite_is_rejected() {
    let mut bench = Bench::running(1, |_| {});
    let rejected = bench.says(push(0, header(1, 0), None));
    assert_eq!(rejected, ["0: push 1 non_finite, tau 0, v0"]);
    assert_eq!(bench.theta(), [0.0, 0.0]);
    assert_eq!(bench.push(0, 2, 0), ["0: push 2 Accepted 1.000, tau 0, v1"]);
}

#[test]
fn versions_that_do_not_exist_are_rejected() {
    let mut bench = Bench::running(1, |_| {});
    for (id, base) in [(1, 1), (2, u64::MAX)] {
        let expected = format!("0: push {id} future_version, tau 0, v0");
        assert_eq!(bench.push(0, id, base), [expected]);
    }
    let mut other_life = header(3, 0);
    other_life.generation = Generation(6);
    let rejected = bench.says(push(0, other_life, Some(&[1.0, 1.0])));
    assert_eq!(rejected, ["0: push 3 wrong_generation, tau 0, v0"]);
}

#[test]
fn absurd_numbers_in_headers_are_only_numbers() {
    let mut bench = Bench::running(1, bounded(0, 0));
    bench.push(0, 1, 0);
    for id in [u64::MAX - 1, u64::MAX] {
        let mut absurd = header(id, 0);
        absurd.payload_bytes = u64::MAX;
        assert_eq!(
            bench.announce(0, absurd, false),
            [format!("0: push {id} stale, tau 1, v1")]
        );
    }
    bench.drain();
    bench.leave(0);
    assert_eq!(bench.tick(1.0), ["log run_end told", "finish"]);
}

#[test]
fn one_worker_is_plain_sgd_to_the_bit() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut gradients = Vec::new();
    gradients.resize_with(50, || [0; 2].map(|_| rng.random_range(-3.0f32..3.0)));
    let trained = |sync| {
        let mut bench = Bench::running(1, |config| config.workload.sync = sync);
        for (v, gradient) in (0..).zip(&gradients) {
            let said = bench.says(push(0, header(v + 1, v), Some(gradient)));
            assert_eq!(
                said,
                [format!("0: push {} Accepted 1.000, tau 0, v{}", v + 1, v + 1)]
            );
        }
        bench.theta()
    };
    let mut theta = [0.0f32; 2];
    for gradient in &gradients {
        theta.iter_mut().zip(gradient).for_each(|(t, g)| *t -= 0.5 * g);
    }
    assert_eq!(trained(false), theta);
    assert_eq!(trained(true), theta, "sync with one worker is the same");
}
