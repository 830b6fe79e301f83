//! The worker's metrics.

use asgc_client::{Session, Settled};
use asgc_core::push::Measured;
use asgc_daemon::metrics::Registry;
use asgc_daemon::metrics::prometheus::{Counter, Error, Gauge, Histogram, IntCounter, IntCounterVec};

/// From a fast step to one that waited long, in seconds.
const SECONDS: [f64; 16] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
    60.0,
];

#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    pushes: IntCounterVec,
    unfit: IntCounter,
    reconnects: IntCounter,
    evaluations: IntCounter,
    version: Gauge,
    loss: Gauge,
    residual_norm: Gauge,
    gradient_norm: Gauge,
    dropped: Counter,
    rtt: Gauge,
    goodput: Gauge,
    fetch: Histogram,
    compute: Histogram,
    push_latency: Histogram,
    evaluate: Histogram,
}

impl Metrics {
    pub(crate) fn new(registry: &Registry) -> Result<Self, Error> {
        let seconds = |name, help| registry.histogram(name, help, &SECONDS);
        Ok(Self {
            pushes: registry.counters("asgc_worker_pushes_total", "Pushes by decision", &["decision"])?,
            unfit: registry.counter(
                "asgc_worker_unfit_gradients_total",
                "Gradients that were not sent because a value was not finite",
            )?,
            reconnects: registry.counter("asgc_worker_reconnects_total", "Connections made anew")?,
            evaluations: registry.counter("asgc_worker_evaluations_total", "Evaluations reported")?,
            version: registry.gauge("asgc_worker_version", "Version of the parameters in use")?,
            loss: registry.gauge("asgc_worker_train_loss", "Loss of the last batch")?,
            residual_norm: registry.gauge("asgc_worker_residual_norm", "L2 norm of the residual")?,
            gradient_norm: registry.gauge("asgc_worker_gradient_norm", "L2 norm of the last gradient")?,
            dropped: registry.float_counter(
                "asgc_worker_residual_dropped_norm_total",
                "Norms of what the bound on the residual took away, summed over drops",
            )?,
            rtt: registry.gauge("asgc_worker_link_rtt_seconds", "Round trip of an empty message")?,
            goodput: registry.gauge(
                "asgc_worker_link_goodput_bytes_per_second",
                "Payload bytes a second that the uplink carried at the last push that was measured",
            )?,
            fetch: seconds("asgc_worker_fetch_seconds", "Waiting until it may compute")?,
            compute: seconds(
                "asgc_worker_compute_seconds",
                "Computing a gradient, injected delay included",
            )?,
            push_latency: seconds(
                "asgc_worker_push_latency_seconds",
                "From a gradient to the verdict on it: encoding, sending, deciding",
            )?,
            evaluate: seconds("asgc_worker_evaluate_seconds", "One evaluation of the test set")?,
        })
    }

    pub(crate) fn step(&self, measured: &Measured, session: &Session) {
        self.loss.set(measured.loss);
        self.compute.observe(measured.compute_s);
        self.residual_norm.set(session.residual_norm());
        self.gradient_norm.set(session.gradient_norm());
        self.dropped
            .inc_by((session.dropped_norm() - self.dropped.get()).max(0.0));
        if let Some(link) = session.link_sample() {
            self.rtt.set(link.rtt_s);
            // What was too quick to be timed says nothing.
            if link.upload_s > 0.0 {
                self.goodput.set(link.upload_bytes as f64 / link.upload_s);
            }
        }
    }

    pub(crate) fn fetched(&self, fetch_s: f64) {
        self.fetch.observe(fetch_s);
    }

    pub(crate) fn pulled(&self, session: &Session) {
        self.version
            .set(session.version().map_or(0.0, |version| version.0 as f64));
        self.reconnects
            .inc_by(session.reconnects().saturating_sub(self.reconnects.get()));
    }

    pub(crate) fn unfit(&self) {
        self.unfit.inc();
    }

    pub(crate) fn evaluated(&self, seconds: f64) {
        self.evaluations.inc();
        self.evaluate.observe(seconds);
    }

    /// Counts the pushes that were settled since; how many.
    pub(crate) fn settled(&self, session: &mut Session) -> u64 {
        let settled = session.take_settled();
        for Settled { verdict, latency, .. } in &settled {
            let decision = verdict.decision.as_str();
            self.pushes.with_label_values(&[decision]).inc();
            self.push_latency.observe(latency.as_secs_f64());
        }
        settled.len() as u64
    }
}
