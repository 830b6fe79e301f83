//! Pushes that travel while the next gradient is computed, and local steps.

use super::*;

/// One worker alone, so that times are exact: seconds between its verdicts, once it is under way.
fn pace_s(depth: u32, change: impl FnOnce(&mut Config)) -> f64 {
    let events = run(|config| {
        config.workload.num_workers = 1;
        config.heterogeneity.compute_delay.clear();
        config.worker.pipeline_depth = depth;
        change(config);
    });
    let at = updates(&events).iter().map(|u| u.elapsed_s).collect::<Vec<_>>();
    // Over as many steps as may come in groups.
    let (from, to) = (at.len() - 1 - 144, at.len() - 1);
    (at[to] - at[from]) / 144.0
}

fn is_about(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-6
}

#[test]
fn a_push_travels_while_the_next_gradient_is_computed() {
    // 4,000 bytes take 40 ms at 0.8 Mbit/s and 90 ms at 0.3556; a gradient takes 45 ms.
    let on = |mbps: f64| move |config: &mut Config| config.simulation.uplink_mbps = mbps;
    assert!(is_about(pace_s(1, on(0.8)), 0.045 + 0.040));
    assert!(is_about(pace_s(2, on(0.8)), 0.045), "computing takes longer");
    assert!(is_about(pace_s(1, on(0.032 / 0.09)), 0.045 + 0.090));
    for depth in [2, 3, 16] {
        assert!(
            is_about(pace_s(depth, on(0.032 / 0.09)), 0.090),
            "the link carries one at a time"
        );
    }
}

#[test]
fn distance_is_shared_by_as_many_as_are_under_way() {
    // Computing 10 ms; 45 ms from a push to its verdict, and as much for a pull.
    let far = |config: &mut Config| {
        config.simulation.step_s = 0.010;
        config.heterogeneity.comm_delay_ms = 45.0;
    };
    for (depth, expected) in [(1, 0.100), (2, 0.055 / 2.0), (4, 0.055 / 4.0), (8, 0.010)] {
        let found = pace_s(depth, far);
        assert!(is_about(found, expected), "depth {depth}: {found}");
    }
    // The same of real distance, on which a pull travels right behind the push.
    let far = |config: &mut Config| {
        config.simulation.step_s = 0.010;
        config.simulation.latency_ms = 22.5;
    };
    for (depth, expected) in [(1, 0.055), (2, 0.055 / 2.0), (4, 0.055 / 4.0), (8, 0.010)] {
        let found = pace_s(depth, far);
        assert!(is_about(found, expected), "depth {depth}: {found}");
    }
}

#[test]
fn a_pipeline_measures_what_it_waited_for() {
    let events = run(|config| {
        config.workload.num_workers = 1;
        config.heterogeneity.compute_delay.clear();
        config.worker.pipeline_depth = 2;
        config.simulation.uplink_mbps = 0.032 / 0.09;
    });
    let settled = updates(&events).into_iter().skip(4);
    for update in settled {
        assert_eq!((update.pipeline_depth, update.compute_s), (2, 0.045));
        assert!(
            is_about(update.fetch_s, 0.045),
            "90 ms on the link, 45 of computing"
        );
        assert!(
            is_about(update.upload_s.unwrap(), 0.090),
            "its own time on the link"
        );
        // Begun at the verdict on the push before the last, just ahead of the parameters that hold that push.
        assert_eq!(update.staleness.0, 2);
    }
}

#[test]
fn parameters_are_the_newest_that_have_come() {
    // Computing 45 ms; the link takes next to nothing, so only the push before is missing, as it is always.
    let events = run(|config| {
        config.workload.num_workers = 1;
        config.heterogeneity.compute_delay.clear();
        config.worker.pipeline_depth = 8;
        config.simulation.latency_ms = 1.0;
    });
    for update in updates(&events).into_iter().skip(1) {
        assert_eq!(update.staleness.0, 1, "{update:?}");
    }
}

#[test]
fn a_deep_ssp_worker_is_held_after_slack_and_depth() {
    for depth in [2, 4] {
        let events = run(|config| {
            config.server.mode = Some(Mode::Ssp);
            config.server.slack = 2;
            config.worker.pipeline_depth = depth;
        });
        let (mut clocks, mut furthest) = (BTreeMap::from([(0, 0_u64), (1, 0), (2, 0)]), 0);
        for update in updates(&events) {
            *clocks.get_mut(&update.worker_id.0).unwrap() += 1;
            let (slowest, fastest) = (clocks.values().min().unwrap(), clocks.values().max().unwrap());
            furthest = furthest.max(fastest - slowest);
        }
        assert_eq!(furthest, 2 + u64::from(depth), "depth {depth}");
        assert!(updates(&events).iter().any(|update| update.pull_held_s > 0.1));
    }
}

#[test]
fn a_deep_pipeline_refuses_early_and_drains_to_the_last_push() {
    let events = run(|config| {
        config.objective.dimension = 10_000;
        config.server.chunk_bytes = 1024;
        config.worker.pipeline_depth = 3;
        config.simulation.uplink_by_worker = [(1, 0.32)].into();
        config.staleness.enabled = true;
        (config.staleness.s_low, config.staleness.s_max) = (4, 8);
    });
    let refused = updates(&events)
        .into_iter()
        .filter(|update| update.reason == Some(RejectReason::Stale))
        .collect::<Vec<_>>();
    assert!(refused.len() > 3, "{}", refused.len());
    assert!(refused.iter().all(|update| update.received_bytes <= 1024));
    assert_eq!(end(&events).applied_updates, 200);
}

#[test]
fn a_deep_run_is_the_same_on_any_number_of_threads() {
    let config = straggler(|config| {
        (config.worker.pipeline_depth, config.worker.local_steps) = (4, 3);
        (config.compression.mode, config.error_feedback.enabled) = (CompressionMode::Topk, true);
        (config.simulation.step, config.simulation.step_spread) = (StepTime::Lognormal, 0.5);
        (config.simulation.uplink_mbps, config.simulation.latency_ms) = (1.0, 3.0);
    });
    let one = lines(&run_on(1, &config));
    assert!(lines(&run_on(3, &config)) == one);
}

#[test]
fn local_steps_take_their_time_and_samples() {
    let events = run(|config| {
        config.workload.num_workers = 1;
        config.heterogeneity.compute_delay.clear();
        config.worker.local_steps = 4;
        // No batch is cut short.
        config.objective.samples = 320;
    });
    for update in updates(&events) {
        assert_eq!((update.samples, update.compute_s), (64, 0.18));
    }
}
