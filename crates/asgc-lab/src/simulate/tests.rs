//! Whole runs on virtual time.

use super::*;
use crate::objective;
use asgc_core::config::{CompressionMode, ControlPolicy, Dataset, Mode, Model, StepTime};
use asgc_core::event::{Decision, Eval, RejectReason, RunEnd, Update};
use std::collections::BTreeMap;

mod pipeline;

/// Keeps what is logged; may ask to stop, or fail, after so many events.
#[derive(Default)]
struct Keeper {
    events: Vec<Event>,
    stop_after: Option<usize>,
    fail_after: Option<usize>,
}

impl Observer for Keeper {
    fn event(&mut self, event: Event) -> Result<(), BoxError> {
        if self.fail_after.is_some_and(|limit| self.events.len() >= limit) {
            return Err("no space left on device".into());
        }
        self.events.push(event);
        Ok(())
    }

    fn asked_to_stop(&self) -> bool {
        self.stop_after.is_some_and(|limit| self.events.len() >= limit)
    }
}

/// Three workers on the logistic objective: a step takes 45 ms, worker 1's 300 ms more.
fn straggler(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    (config.workload.model, config.workload.dataset) = (Model::Logistic, Dataset::Synthetic);
    (config.workload.lr, config.workload.batch_size) = (0.01, 16);
    (config.workload.max_updates, config.workload.eval_interval) = (200, 50);
    (config.objective.dimension, config.objective.samples) = (1000, 300);
    (config.simulation.step, config.simulation.step_s) = (StepTime::Fixed, 0.045);
    config.simulation.eval_s = 0.1;
    config.heterogeneity.compute_delay = [(1, 0.3)].into();
    change(&mut config);
    assert_eq!(asgc_core::config::validate(&config), []);
    config
}

fn run_on(threads: usize, config: &Config) -> Vec<Event> {
    let mut keeper = Keeper::default();
    let task = objective::task(config).unwrap();
    simulate(config, task.as_ref(), threads, &mut keeper).unwrap();
    keeper.events
}

fn run(change: impl FnOnce(&mut Config)) -> Vec<Event> {
    run_on(1, &straggler(change))
}

fn updates(events: &[Event]) -> Vec<&Update> {
    let mut found = Vec::new();
    for event in events {
        if let Event::Update(update) = event {
            found.push(update);
        }
    }
    found
}

fn evals(events: &[Event]) -> Vec<&Eval> {
    let mut found = Vec::new();
    for event in events {
        if let Event::Eval(eval) = event {
            found.push(eval);
        }
    }
    found
}

fn end(events: &[Event]) -> &RunEnd {
    match events.last() {
        Some(Event::RunEnd(end)) => end,
        other => panic!("no run_end but {other:?}"),
    }
}

fn lines(events: &[Event]) -> String {
    events
        .iter()
        .map(|event| serde_json::to_string(event).unwrap() + "\n")
        .collect()
}

fn pushes_by_worker(events: &[Event]) -> BTreeMap<u32, usize> {
    updates(events)
        .iter()
        .fold(BTreeMap::new(), |mut counts, update| {
            *counts.entry(update.worker_id.0).or_default() += 1;
            counts
        })
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let everything = |seed| {
        straggler(|config| {
            config.run.seed = seed;
            config.compression.mode = CompressionMode::Quantize;
            config.error_feedback.enabled = true;
            config.staleness.enabled = true;
            config.controller.enabled = true;
            config.controller.interval_s = 0.5;
            let s = &mut config.simulation;
            (s.step, s.step_spread, s.loss) = (StepTime::Lognormal, 0.5, 0.05);
            (s.uplink_mbps, s.downlink_mbps, s.latency_ms) = (1.0, 2.0, 3.0);
            (s.uplink_shared, s.server_s) = (true, 0.001);
        })
    };
    let one = lines(&run_on(1, &everything(3)));
    for threads in [1, 2, 3, 8] {
        let mut config = everything(3);
        config.simulation.threads = threads;
        assert!(lines(&run_on(threads, &config)) == one, "{threads} threads");
    }
    assert_ne!(lines(&run_on(1, &everything(4))), one);
}

#[test]
fn asynchronous_steps_take_what_they_take() {
    let events = run(|_| {});
    let end = end(&events);
    assert_eq!(end.applied_updates, 200);
    // Two workers push every 45 ms, one every 345 ms.
    let counts = pushes_by_worker(&events);
    assert!(
        counts[&0].abs_diff(counts[&2]) <= 1 && counts[&0] / counts[&1] == 7,
        "{counts:?}"
    );
    let rate = 2.0 / 0.045 + 1.0 / 0.345;
    assert!(
        (end.updates_per_sec / rate - 1.0).abs() < 0.02,
        "{}",
        end.updates_per_sec
    );
    // A push of the slow worker has seen some 15 others go by.
    let slow = updates(&events)
        .into_iter()
        .filter(|update| update.worker_id.0 == 1);
    assert!(slow.skip(1).all(|update| (13..=16).contains(&update.staleness.0)));
    assert!(updates(&events).iter().all(|update| update.pull_held_s == 0.0));
}

#[test]
fn synchronous_rounds_take_as_long_as_the_slowest() {
    let events = run(|config| {
        config.workload.sync = true;
        config.workload.max_updates = 20;
    });
    let end = end(&events);
    assert_eq!((end.applied_updates, updates(&events).len()), (20, 60));
    assert!((end.elapsed_s - 20.0 * 0.345).abs() < 1e-6, "{}", end.elapsed_s);
    // The fast ones wait 300 ms in each round but the first.
    for update in updates(&events).iter().skip(3) {
        let held = if update.worker_id.0 == 1 { 0.0 } else { 0.3 };
        assert!((update.pull_held_s - held).abs() < 1e-6, "{update:?}");
        assert_eq!((update.staleness.0, update.weight), (0, 1.0 / 3.0));
    }
}

#[test]
fn in_ssp_mode_nobody_is_far_ahead() {
    let events = run(|config| {
        config.server.mode = Some(Mode::Ssp);
        config.server.slack = 2;
    });
    let mut clocks = BTreeMap::from([(0, 0_u64), (1, 0), (2, 0)]);
    for update in updates(&events) {
        *clocks.get_mut(&update.worker_id.0).unwrap() += 1;
        let (slowest, fastest) = (clocks.values().min().unwrap(), clocks.values().max().unwrap());
        assert!(fastest - slowest <= 3 + 1, "{clocks:?}");
    }
    assert!(updates(&events).iter().any(|update| update.pull_held_s > 0.1));
}

#[test]
fn links_cost_what_they_carry() {
    // 4,000 bytes: 40 ms up at 0.8 Mbit/s, 20 ms down at 1.6, and 5 ms either way.
    let events = run(|config| {
        let s = &mut config.simulation;
        (s.uplink_mbps, s.downlink_mbps, s.latency_ms) = (0.8, 1.6, 5.0);
    });
    let slow = updates(&events)
        .into_iter()
        .filter(|update| update.worker_id.0 == 1);
    for update in slow.skip(1).take(8) {
        // The pull travels 5 ms, the snapshot 20 + 5 ms.
        assert!((update.fetch_s - 0.030).abs() < 1e-6, "{}", update.fetch_s);
        assert!((update.compute_s - 0.345).abs() < 1e-9);
        assert_eq!(update.upload_bytes, Some(4000));
        assert!(
            (update.upload_s.unwrap() - 0.040).abs() < 1e-6 && (update.rtt_s.unwrap() - 0.010).abs() < 1e-9
        );
    }
    let end = end(&events);
    // The last pushes came too late for the run, and so did their bytes for its sums.
    assert!(end.uplink_frame_bytes >= end.received_bytes);
    assert_eq!(end.total_bytes, 4000 * updates(&events).len() as u64);
}

#[test]
fn injected_delays_are_those_of_the_client() {
    // A flat 10 ms before each pull and push, and 4,000 bytes at 0.8 Mbit/s before each push.
    let events = run(|config| {
        (
            config.heterogeneity.comm_delay_ms,
            config.heterogeneity.bandwidth_mbps,
        ) = (10.0, 0.8);
    });
    let mine = updates(&events)
        .into_iter()
        .filter(|update| update.worker_id.0 == 0);
    let mine = mine.collect::<Vec<_>>();
    for pair in mine.windows(2) {
        let step_s = pair[1].elapsed_s - pair[0].elapsed_s;
        assert!(
            (step_s - (0.010 + 0.045 + 0.010 + 0.040)).abs() < 1e-6,
            "{step_s}"
        );
        assert!((pair[1].fetch_s - 0.010).abs() < 1e-6);
        assert!(
            (pair[1].upload_s.unwrap() - 0.040).abs() < 1e-6 && (pair[1].rtt_s.unwrap() - 0.010).abs() < 1e-6
        );
    }
}

#[test]
fn a_shared_link_is_shared() {
    let elapsed = |shared| {
        let events = run(|config| {
            config.heterogeneity.compute_delay.clear();
            (config.simulation.uplink_mbps, config.simulation.uplink_shared) = (0.4, shared);
        });
        end(&events).elapsed_s
    };
    // Alone a push takes 80 ms; three at once take 240.
    let (own, shared) = (elapsed(false), elapsed(true));
    assert!((own - 67.0 * 0.125).abs() < 0.2, "{own}");
    assert!(shared > 200.0 * 0.080, "{shared}");
}

#[test]
fn a_server_that_takes_its_time_is_a_queue() {
    let events = run(|config| {
        config.simulation.server_s = 0.1;
        config.heterogeneity.compute_delay.clear();
    });
    // All three arrive together, wait for one another, and then compute together again.
    let rate = 3.0 / (0.3 + 0.045);
    assert!(
        (end(&events).updates_per_sec / rate - 1.0).abs() < 0.01,
        "{}",
        end(&events).updates_per_sec
    );
    assert!(updates(&events).iter().all(|update| update.decode_s == 0.1));
}

#[test]
fn what_is_too_stale_is_refused_before_it_has_travelled() {
    // 40,000 bytes in chunks of 1,024, a second of travelling, while others move on.
    let events = run(|config| {
        config.objective.dimension = 10_000;
        config.server.chunk_bytes = 1024;
        config.simulation.uplink_by_worker = [(1, 0.32)].into();
        config.staleness.enabled = true;
        (config.staleness.s_low, config.staleness.s_max) = (2, 4);
    });
    let refused = updates(&events)
        .into_iter()
        .filter(|update| update.reason == Some(RejectReason::Stale))
        .collect::<Vec<_>>();
    assert!(refused.len() > 3, "{}", refused.len());
    for update in &refused {
        assert_eq!((update.worker_id.0, update.payload_bytes), (1, 40_000));
        // The first was refused after its first chunk; from then on it asks first.
        assert!(update.received_bytes <= 1024, "{update:?}");
    }
    assert_eq!(refused[1].received_bytes, 0);
}

#[test]
fn the_evaluator_measures_each_interval_and_the_end() {
    let events = run(|_| {});
    let versions = evals(&events)
        .iter()
        .map(|eval| eval.version.0)
        .collect::<Vec<_>>();
    assert_eq!(versions.first(), Some(&0));
    assert_eq!(versions.last(), Some(&200));
    assert_eq!(versions.len(), 5, "{versions:?}");
    for eval in evals(&events) {
        assert_eq!(eval.eval_s, 0.1);
        assert!((eval.reported_s - eval.elapsed_s - 0.1).abs() < 1e-6 || eval.version.0 == 200);
    }
    assert!(evals(&events)[4].test_accuracy > 0.55);
}

#[test]
fn a_log_of_a_simulation_replays_to_the_bit() {
    for policy in [ControlPolicy::Threshold, ControlPolicy::Budget] {
        let events = run(|config| {
            (config.compression.mode, config.error_feedback.enabled) = (CompressionMode::Topk, true);
            config.staleness.enabled = true;
            config.controller.enabled = true;
            (config.controller.policy, config.controller.interval_s) = (policy, 0.3);
            config.controller.comm_pressure_min = 1000.0;
            (config.simulation.uplink_mbps, config.simulation.latency_ms) = (0.8, 2.0);
        });
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        std::fs::write(&path, lines(&events)).unwrap();
        let replayed =
            crate::replay::replay(&path, |_| {}).unwrap_or_else(|error| panic!("{policy:?}: {error}"));
        assert!(
            replayed.ended && replayed.versions == 200 && replayed.decisions > 5,
            "{replayed:?}"
        );
        let moved = events.iter().any(
            |event| matches!(event, Event::Control(control) if control.old_compression != control.new_compression),
        );
        assert!(moved, "{policy:?} moved nothing");
    }
}

#[test]
fn a_model_that_diverges_ends_the_run_with_words() {
    let events = run(|config| {
        config.workload.model = Model::Quadratic;
        config.workload.lr = 1e6;
        config.workload.max_updates = 1_000_000;
        config.workload.max_wall_time_s = 1e6;
    });
    let end = end(&events);
    assert!(
        end.reason.contains("no trainer is left") && end.reason.contains("diverged"),
        "{}",
        end.reason
    );
    assert!(end.applied_updates > 0);
}

#[test]
fn the_wall_time_is_virtual() {
    let events = run(|config| {
        config.workload.max_updates = 1_000_000;
        config.workload.max_wall_time_s = 5.0;
    });
    let end = end(&events);
    assert!(end.reason.starts_with("max_wall_time_s"), "{}", end.reason);
    assert!((5.0..5.2).contains(&end.elapsed_s), "{}", end.elapsed_s);
}

#[test]
fn a_run_that_is_asked_to_stop_drains() {
    let config = straggler(|config| config.workload.max_updates = 1_000_000);
    let mut keeper = Keeper {
        stop_after: Some(60),
        ..Keeper::default()
    };
    simulate(
        &config,
        objective::task(&config).unwrap().as_ref(),
        2,
        &mut keeper,
    )
    .unwrap();
    assert_eq!(end(&keeper.events).reason, "asked to stop");
    assert_eq!(
        evals(&keeper.events).last().map(|eval| eval.version.0),
        Some(end(&keeper.events).applied_updates),
        "the final version was measured"
    );
}

#[test]
fn a_log_that_cannot_be_written_ends_the_run() {
    let config = straggler(|_| {});
    let mut keeper = Keeper {
        fail_after: Some(10),
        ..Keeper::default()
    };
    let error = simulate(
        &config,
        objective::task(&config).unwrap().as_ref(),
        1,
        &mut keeper,
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the log cannot be written: no space left on device"
    );
}

#[test]
fn time_that_was_not_measured_is_no_time() {
    let config =
        straggler(|config| (config.simulation.step, config.simulation.step_s) = (StepTime::Measured, 0.0));
    let task = objective::task(&config).unwrap();
    let error = simulate(&config, task.as_ref(), 1, &mut Keeper::default()).unwrap_err();
    assert!(error.to_string().contains("simulation.step_s"), "{error}");
    assert!(step_s(task.as_ref()).unwrap() > 0.0);
}

#[test]
fn decisions_are_the_cores() {
    let events = run(|config| {
        config.staleness.enabled = true;
        (
            config.staleness.s_low,
            config.staleness.s_max,
            config.staleness.beta,
        ) = (1, 4, 0.5);
    });
    for update in updates(&events) {
        let (decision, weight) = match update.staleness.0 {
            0..=1 => (Decision::Accepted, 1.0),
            tau @ 2..=4 => (Decision::Downweighted, 1.0 / (1.0 + 0.5 * tau as f64)),
            _ => (Decision::Rejected, 0.0),
        };
        assert_eq!((update.decision, update.weight), (decision, weight));
    }
    assert!(end(&events).rejected_updates > 0);
    let Some(Event::RunStart(start)) = events.first() else {
        panic!("no run_start");
    };
    assert!(start.simulated && start.started_at == 0.0);
}
