//! A small run, for tests.

use asgc_core::event::{
    Control, Decision, Direction, Eval, Event, Join, RejectReason, RunEnd, RunStart, Update,
};
use asgc_core::ids::{Generation, PushId, Revision, Staleness, Version, WorkerId};

pub(crate) fn start() -> Event {
    Event::RunStart(RunStart {
        config_name: "demo".into(),
        num_workers: 2,
        dataset: "fashion_mnist".into(),
        model: "small_cnn".into(),
        batch_size: 128,
        compute_delay: [(1, 0.3)].into(),
        comm_delay_ms: 0.0,
        bandwidth_mbps: 0.0,
        started_at: 1.75e9,
        seed: 0,
        generation: Generation(1),
        mode: "async".into(),
        compression: "topk(rho=0.25)".into(),
        error_feedback: true,
        parameters: 50,
        layout: "abc".into(),
        max_updates: 3,
        target_accuracy: Some(0.85),
        simulated: false,
        config: None,
    })
}

pub(crate) fn update(worker: u32, version: u64, staleness: u64, elapsed_s: f64) -> Update {
    Update {
        worker_id: WorkerId(worker),
        version: Version(version),
        staleness: Staleness(staleness),
        payload_bytes: 100,
        received_bytes: 100,
        fetch_s: 0.1,
        compute_s: 0.2,
        encode_s: 0.0,
        decision: Decision::Accepted,
        reason: None,
        weight: 1.0,
        residual_norm: 0.5,
        loss: 2.0,
        samples: 128,
        push_id: PushId(1),
        lr: 0.05,
        controls_revision: Revision(0),
        compression_mode: None,
        base_version: Version(version.saturating_sub(staleness + 1)),
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
    }
}

pub(crate) fn eval(version: u64, test_accuracy: f64, test_loss: f64, elapsed_s: f64) -> Event {
    let (version, reported_s) = (Version(version), elapsed_s + 0.5);
    Event::Eval(Eval {
        version,
        test_accuracy,
        test_loss,
        elapsed_s,
        reported_s,
        eval_s: 0.4,
    })
}

/// A decision on Top-K: `rho` and `s_max`, before and after.
pub(crate) fn control(rho: (f64, f64), s_max: (u64, u64)) -> Control {
    Control {
        elapsed_s: 1.0,
        policy: "threshold".into(),
        loss_trend: None,
        loss_variability: None,
        mean_staleness: 0.0,
        rejected_frac: 0.0,
        bytes_per_s: 0.0,
        updates_per_s: 0.0,
        residual_norm_var: 0.0,
        compression_mode: "topk".into(),
        old_compression: Some(rho.0),
        new_compression: Some(rho.1),
        old_s_max: s_max.0,
        new_s_max: s_max.1,
        direction: Direction::Hold,
        reason: "hold".into(),
        revision: Revision(0),
        loss_source: None,
        accuracy_drop: None,
        rho_floor: None,
        workers: vec![],
        operator: None,
    }
}

/// One of each verdict, two evaluations and an end.
pub(crate) fn run() -> Vec<Event> {
    let rejected = Update {
        decision: Decision::Rejected,
        reason: Some(RejectReason::Stale),
        weight: 0.0,
        received_bytes: 10,
        ..update(1, 2, 7, 3.0)
    };
    let lighter = Update {
        decision: Decision::Downweighted,
        weight: 0.4,
        ..update(1, 3, 3, 3.5)
    };
    vec![
        start(),
        Event::Join(Join {
            worker_id: Some(WorkerId(0)),
            role: "trainer".into(),
            name: "host".into(),
            rejoined: false,
            elapsed_s: 0.1,
        }),
        Event::Update(update(0, 1, 0, 1.0)),
        eval(1, 0.5, 1.5, 1.0),
        Event::Update(update(0, 2, 0, 2.0)),
        eval(2, 0.86, 0.4, 2.0),
        Event::Update(rejected),
        Event::Update(lighter),
        end(),
    ]
}

/// One round of three workers in sync mode.
pub(crate) fn round(version: u64) -> Vec<Event> {
    (0..3)
        .map(|worker| Event::Update(update(worker, version, 0, version as f64)))
        .collect()
}

fn end() -> Event {
    Event::RunEnd(RunEnd {
        applied_updates: 3,
        rejected_updates: 1,
        rejected_frac: 0.25,
        total_bytes: 400,
        received_bytes: 310,
        raw_bytes: 800,
        compression_ratio: 2.0,
        updates_per_sec: 0.75,
        elapsed_s: 4.0,
        mean_staleness: 2.5,
        max_staleness: 7,
        final_test_accuracy: Some(0.86),
        final_test_loss: Some(0.4),
        uplink_frame_bytes: 500,
        downlink_frame_bytes: 600,
        reason: "max_updates".into(),
    })
}
