//! One line of each kind.

use asgc_core::codec::Format;
use asgc_core::event::{Control, Decision, Direction, LossSource, RejectReason, RunEnd, RunStart, Update};
use asgc_core::ids::{Generation, PushId, Revision, Staleness, Version, WorkerId};

pub(crate) fn run_start() -> RunStart {
    RunStart {
        config_name: "adaptive".into(),
        num_workers: 3,
        dataset: "fashion_mnist".into(),
        model: "small_cnn".into(),
        batch_size: 128,
        compute_delay: [(1, 0.3), (12, 2.0)].into(),
        comm_delay_ms: 5.0,
        bandwidth_mbps: 250.0,
        started_at: 1.75e9,
        seed: 0,
        generation: Generation(1),
        mode: "async".into(),
        compression: "topk".into(),
        error_feedback: true,
        parameters: 55_338,
        layout: "x".into(),
        max_updates: 3000,
        target_accuracy: None,
        simulated: false,
        config: None,
    }
}

pub(crate) fn update(decision: Decision) -> Update {
    let rejected = decision == Decision::Rejected;
    Update {
        worker_id: WorkerId(1),
        version: Version(8),
        staleness: Staleness(5),
        payload_bytes: 110_672,
        received_bytes: 0,
        fetch_s: 0.25,
        compute_s: 0.5,
        encode_s: 0.0,
        decision,
        reason: rejected.then_some(RejectReason::Stale),
        weight: if rejected { 0.0 } else { 0.75 },
        residual_norm: 1.5,
        loss: 0.0,
        samples: 128,
        push_id: PushId(1),
        lr: 0.05,
        controls_revision: Revision(0),
        compression_mode: Some(Format::TopK),
        base_version: Version(3),
        gradient_norm: 1.0,
        residual_dropped: 0.0,
        residual_dropped_norm: 0.0,
        decode_s: 0.0,
        rtt_s: None,
        upload_bytes: None,
        upload_s: None,
        pipeline_depth: 1,
        pull_held_s: 0.0,
        elapsed_s: 2.5,
    }
}

pub(crate) fn control(known: Option<f64>) -> Control {
    Control {
        elapsed_s: 15.0,
        policy: "threshold".into(),
        loss_trend: known,
        loss_variability: known,
        mean_staleness: 2.5,
        rejected_frac: 0.0,
        bytes_per_s: 1.5e6,
        updates_per_s: 13.5,
        residual_norm_var: 0.5,
        compression_mode: "topk".into(),
        old_compression: known,
        new_compression: known,
        old_s_max: 4,
        new_s_max: 5,
        direction: Direction::Aggressive,
        reason: "stable+comm_pressure".into(),
        revision: Revision(1),
        loss_source: Some(LossSource::Test),
        accuracy_drop: None,
        rho_floor: None,
        workers: vec![],
        operator: None,
    }
}

pub(crate) fn run_end(last: Option<f64>) -> RunEnd {
    RunEnd {
        applied_updates: 3000,
        rejected_updates: 10,
        rejected_frac: 0.25,
        total_bytes: 100,
        received_bytes: 90,
        raw_bytes: 200,
        compression_ratio: 2.0,
        updates_per_sec: 40.5,
        elapsed_s: 74.0,
        mean_staleness: 2.5,
        max_staleness: 12,
        final_test_accuracy: last,
        final_test_loss: last,
        uplink_frame_bytes: 1,
        downlink_frame_bytes: 1,
        reason: "max_updates".into(),
    }
}
