//! The server's metrics: a fold over events, and a few that only the daemon can see.

mod control;
mod links;

use asgc_core::config::Config;
use asgc_core::event::{Decision, Event, RunEnd, Update};
use asgc_core::ids::WorkerId;
use asgc_core::server::{Answer, FrameBytes};
use asgc_daemon::metrics::prometheus::core::{AtomicU64, GenericCounter};
use asgc_daemon::metrics::prometheus::{
    Counter, Error, Gauge, GaugeVec, Histogram, IntCounter, IntCounterVec,
};
use asgc_daemon::metrics::{Registry, WorkerLabels};
use control::ControlMetrics;
use links::LinkMetrics;
use std::time::Duration;

/// From a loopback verdict to one that waited for a slow peer, in seconds.
const SECONDS: [f64; 15] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
];

/// In versions. Staleness is a whole number: bounds between the numbers keep each in a bucket of its own.
const VERSIONS: [f64; 13] = [
    0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0, 128.0,
];

#[derive(Debug)]
pub(crate) struct Metrics {
    version: Gauge,
    updates: IntCounterVec,
    rejections: IntCounterVec,
    worker_updates: IntCounterVec,
    worker_staleness: GaugeVec,
    labels: WorkerLabels,
    payload_bytes: IntCounter,
    received_bytes: IntCounter,
    saved_bytes: IntCounter,
    staleness: Histogram,
    train_loss: Gauge,
    test_loss: Gauge,
    test_accuracy: Gauge,
    learning_rate: Gauge,
    control: ControlMetrics,
    links: LinkMetrics,
    dropped: Counter,
    pulls: IntCounterVec,
    members: GaugeVec,
    uplink: GenericCounter<AtomicU64>,
    downlink: GenericCounter<AtomicU64>,
    lost_events: IntCounter,
    log_failed: Gauge,
    pub(crate) malformed: IntCounter,
    pub(crate) refused_joins: IntCounter,
    apply: Histogram,
    decode: Histogram,
    push_latency: Histogram,
}

impl Metrics {
    pub(crate) fn new(registry: &Registry, config: &Config) -> Result<Self, Error> {
        let frames = registry.counters(
            "asgc_server_frame_bytes_total",
            "Bytes that crossed workers' sockets, framing included",
            &["direction"],
        )?;
        let seconds = |name, help| registry.histogram(name, help, &SECONDS);
        let worker = ["worker"];
        Ok(Self {
            version: registry.gauge(
                "asgc_server_version",
                "Applied updates of this life of the server",
            )?,
            updates: registry.counters("asgc_server_pushes_total", "Pushes by decision", &["decision"])?,
            rejections: registry.counters(
                "asgc_server_rejections_total",
                "Rejected pushes by reason",
                &["reason"],
            )?,
            worker_updates: registry.counters(
                "asgc_server_worker_pushes_total",
                "Pushes by worker and decision",
                &["worker", "decision"],
            )?,
            worker_staleness: registry.gauges(
                "asgc_server_worker_staleness_versions",
                "Staleness of the worker's last push",
                &worker,
            )?,
            labels: WorkerLabels::new(config.telemetry.max_worker_labels),
            payload_bytes: registry.counter(
                "asgc_server_payload_bytes_total",
                "Payload bytes as the codecs emitted them",
            )?,
            received_bytes: registry.counter(
                "asgc_server_received_payload_bytes_total",
                "Payload bytes that arrived: less by what early refusal saved",
            )?,
            saved_bytes: registry.counter(
                "asgc_server_saved_payload_bytes_total",
                "Payload bytes that were announced and then not sent, since the push was refused",
            )?,
            staleness: registry.histogram(
                "asgc_server_staleness_versions",
                "Staleness of pushes when they were decided",
                &VERSIONS,
            )?,
            train_loss: registry.gauge("asgc_server_train_loss", "Loss of the batch behind the last push")?,
            test_loss: registry.gauge("asgc_server_test_loss", "Loss of the last evaluation")?,
            test_accuracy: registry.gauge(
                "asgc_server_test_accuracy_ratio",
                "Accuracy of the last evaluation, 0 to 1",
            )?,
            learning_rate: registry.gauge("asgc_server_learning_rate", "Rate of the last applied update")?,
            control: ControlMetrics::new(registry, config)?,
            links: LinkMetrics::new(registry, config)?,
            dropped: registry.float_counter(
                "asgc_server_residual_dropped_norm_total",
                "Norms of what the bound on residuals took away, summed over drops",
            )?,
            pulls: registry.counters(
                "asgc_server_pulls_total",
                "Pulls by what answered them",
                &["answer"],
            )?,
            members: registry.gauges(
                "asgc_server_members",
                "Members with a session, by role",
                &["role"],
            )?,
            uplink: frames.with_label_values(&["uplink"]),
            downlink: frames.with_label_values(&["downlink"]),
            lost_events: registry.counter(
                "asgc_server_lost_events_total",
                "Events that could not be written to the log",
            )?,
            log_failed: registry.gauge(
                "asgc_server_event_log_failed",
                "1 once the event log has ended early, for want of disk or time; 0 while it is whole",
            )?,
            malformed: registry.counter(
                "asgc_server_malformed_total",
                "Sessions ended for breaking the protocol",
            )?,
            refused_joins: registry.counter("asgc_server_refused_joins_total", "Joins refused")?,
            apply: seconds("asgc_server_apply_seconds", "Deciding on a push and applying it")?,
            decode: seconds(
                "asgc_server_decode_seconds",
                "Checking a payload before it is queued",
            )?,
            push_latency: seconds(
                "asgc_server_push_latency_seconds",
                "From a push's header to its verdict, waiting for the payload and the queue included",
            )?,
        })
    }

    pub(crate) fn observe(&self, event: &Event) {
        match event {
            Event::Update(update) => {
                let label = self.labels.value(update.worker_id);
                self.links.update(event, update.worker_id, &label);
                self.update(update);
            }
            Event::Eval(eval) => {
                self.test_accuracy.set(eval.test_accuracy);
                self.test_loss.set(eval.test_loss);
            }
            Event::Join(join) => {
                self.members.with_label_values(&[&join.role]).inc();
                self.links.observe(event);
            }
            Event::Leave(leave) => {
                self.members.with_label_values(&[&leave.role]).dec();
                if let Some(worker) = leave.worker_id {
                    self.forget(worker);
                }
            }
            Event::Control(control) => {
                self.control.observe(control);
                self.links.decided(control, |worker| self.labels.known(worker));
            }
            Event::RunStart(_) => {
                self.version.set(0.0);
                self.links.observe(event);
            }
            Event::RunEnd(RunEnd { .. }) => {}
        }
    }

    fn update(&self, update: &Update) {
        let decision = update.decision.as_str();
        self.version.set(update.version.0 as f64);
        self.updates.with_label_values(&[decision]).inc();
        if let Some(reason) = update.reason {
            self.rejections.with_label_values(&[reason.as_str()]).inc();
        }
        let worker = self.labels.value(update.worker_id);
        self.worker_updates.with_label_values(&[&*worker, decision]).inc();
        self.worker_staleness
            .with_label_values(&[&*worker])
            .set(update.staleness.0 as f64);
        self.payload_bytes.inc_by(update.payload_bytes);
        self.received_bytes.inc_by(update.received_bytes);
        self.staleness.observe(update.staleness.0 as f64);
        self.train_loss.set(update.loss);
        // A worker may report anything; a counter does not fall.
        self.dropped
            .inc_by(update.residual_dropped_norm.clamp(0.0, f64::from(f32::MAX)));
        if update.decision != Decision::Rejected {
            self.learning_rate.set(update.lr);
        }
    }

    /// Removes the series of a worker that left; the totals stay.
    fn forget(&self, worker: WorkerId) {
        let Some(label) = self.labels.forget(worker) else {
            return;
        };
        for decision in [Decision::Accepted, Decision::Downweighted, Decision::Rejected] {
            // An error only says that the worker had none of these.
            let _ = self
                .worker_updates
                .remove_label_values(&[&*label, decision.as_str()]);
        }
        let _ = self.worker_staleness.remove_label_values(&[&*label]);
        self.links.forget(&label);
    }

    pub(crate) fn frames(&self, frames: FrameBytes) {
        self.uplink
            .inc_by(frames.uplink.saturating_sub(self.uplink.get()));
        self.downlink
            .inc_by(frames.downlink.saturating_sub(self.downlink.get()));
    }

    pub(crate) fn lost_events(&self, lost: u64) {
        self.lost_events
            .inc_by(lost.saturating_sub(self.lost_events.get()));
    }

    pub(crate) fn log_failed(&self, failed: bool) {
        self.log_failed.set(f64::from(u8::from(failed)));
    }

    pub(crate) fn answered(&self, answer: &Answer) {
        let name = match answer {
            Answer::Snapshot { .. } => "snapshot",
            Answer::Delta(_) => "delta",
            Answer::Unchanged { .. } => "unchanged",
            Answer::Stop { .. } => "stop",
        };
        self.pulls.with_label_values(&[name]).inc();
    }

    /// Payload bytes that were announced will not come.
    pub(crate) fn saved(&self, bytes: u64) {
        self.saved_bytes.inc_by(bytes);
    }

    pub(crate) fn applied(&self, took: Duration) {
        self.apply.observe(took.as_secs_f64());
    }

    pub(crate) fn decoded(&self, took: Duration) {
        self.decode.observe(took.as_secs_f64());
    }

    pub(crate) fn decided(&self, since_header: Duration) {
        self.push_latency.observe(since_header.as_secs_f64());
    }
}
