//! The controller as a fold over events: windows go in, decisions come out.

mod by_trainer;
mod decisions;
mod histories;
mod signals;

use super::*;
use crate::config::{CompressionMode, ControlPolicy};
use crate::event::{Decision, Direction, Eval, Update};
use crate::ids::{PushId, Revision, Version, WorkerId};

/// Adaptive with Top-K at 0.25 and `s_max` 4; a decision every 10 s.
pub(super) fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    config.compression.mode = CompressionMode::Topk;
    config.staleness.enabled = true;
    config.staleness.s_max = 4;
    config.controller.enabled = true;
    config.controller.interval_s = 10.0;
    change(&mut config);
    assert_eq!(config::validate(&config), []);
    config
}

pub(super) fn update(staleness: u64, payload_bytes: u64, elapsed_s: f64) -> Event {
    Event::Update(Update {
        worker_id: WorkerId(0),
        version: Version(1),
        staleness: Staleness(staleness),
        payload_bytes,
        received_bytes: payload_bytes,
        fetch_s: 0.0,
        compute_s: 0.0,
        encode_s: 0.0,
        decision: Decision::Accepted,
        reason: None,
        weight: 1.0,
        residual_norm: 0.0,
        loss: 0.0,
        samples: 1,
        push_id: PushId(1),
        lr: 0.1,
        controls_revision: Revision(0),
        compression_mode: Some(crate::codec::Format::TopK),
        base_version: Version(0),
        gradient_norm: 1.0,
        residual_dropped: 0.0,
        residual_dropped_norm: 0.0,
        decode_s: 0.0,
        rtt_s: None,
        upload_bytes: None,
        upload_s: None,
        pipeline_depth: 1,
        pull_held_s: 0.0,
        elapsed_s,
    })
}

pub(super) fn rejected(elapsed_s: f64) -> Event {
    changed(update(9, 0, elapsed_s), |update| {
        update.decision = Decision::Rejected;
    })
}

pub(super) fn changed(event: Event, change: impl FnOnce(&mut Update)) -> Event {
    let Event::Update(mut update) = event else {
        unreachable!()
    };
    change(&mut update);
    Event::Update(update)
}

pub(super) fn eval(version: u64, test_loss: f64) -> Event {
    Event::Eval(Eval {
        version: Version(version),
        test_accuracy: 0.5,
        test_loss,
        elapsed_s: 0.0,
        reported_s: 5.0,
        eval_s: 0.1,
    })
}

/// Evaluations of the given losses, one after another.
pub(super) fn evals(losses: &[f64]) -> Vec<Event> {
    (1..)
        .zip(losses)
        .map(|(version, &loss)| eval(version, loss))
        .collect()
}

/// Enough bytes in ten seconds that communication counts as the bottleneck.
pub(super) fn pressure() -> Vec<Event> {
    vec![update(0, 5_000_000, 0.0), update(0, 5_000_000, 10.0)]
}

/// The same pushes, and next to no bytes.
pub(super) fn calm() -> Vec<Event> {
    vec![update(0, 10, 0.0), update(0, 10, 10.0)]
}

/// The decisions of windows that are 10 s long.
pub(super) fn decide(config: &Config, windows: &[Vec<Event>]) -> Vec<Control> {
    let mut controller = Controller::new(config);
    let mut decide = |(window, events): (u32, &Vec<Event>)| {
        events.iter().for_each(|event| controller.observe(event));
        controller.decide(f64::from(window) * 10.0).unwrap()
    };
    (1..).zip(windows).map(&mut decide).collect()
}

/// The fields of a `run_start`, without its name.
pub(super) const START: &str = r#"{"config_name":"x","num_workers":1,"dataset":"d","model":"m","batch_size":1,
    "compute_delay":{},"comm_delay_ms":0,"bandwidth_mbps":0,"started_at":0,"seed":0,"generation":1,"mode":"async",
    "compression":"x","error_feedback":true,"parameters":1,"layout":"l","max_updates":1,"target_accuracy":null}"#;
