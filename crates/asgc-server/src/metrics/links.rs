//! What is known of each trainer's link, and whether compression pays on it.

use asgc_core::codec::Codec;
use asgc_core::config::Config;
use asgc_core::controller::links::{Line, Links};
use asgc_core::event::{Control, Event};
use asgc_core::ids::WorkerId;
use asgc_daemon::metrics::Registry;
use asgc_daemon::metrics::prometheus::{Error, GaugeVec};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(super) struct LinkMetrics {
    known: Mutex<Known>,
    configured: Codec,
    beneficial: GaugeVec,
    goodput: GaugeVec,
    rtt: GaugeVec,
    comm_share: GaugeVec,
    residual_ratio: GaugeVec,
    achieved: GaugeVec,
    predicted: GaugeVec,
    dense: GaugeVec,
    rho: GaugeVec,
}

#[derive(Debug, Default)]
struct Known {
    links: Links,
    /// Of those whom a decision gave another than the configured one.
    codecs: HashMap<WorkerId, Codec>,
}

impl LinkMetrics {
    pub(super) fn new(registry: &Registry, config: &Config) -> Result<Self, Error> {
        let gauges = |name, help| registry.gauges(name, help, &["worker"]);
        Ok(Self {
            known: Mutex::default(),
            configured: config.compression.codec().unwrap_or(Codec::Identity),
            beneficial: gauges(
                "asgc_compression_beneficial",
                "1 where compression makes a worker's steps shorter, 0 where it does not; absent until measured",
            )?,
            goodput: gauges(
                "asgc_server_worker_goodput_bytes_per_second",
                "Payload bytes a second that a worker's uplink carries",
            )?,
            rtt: gauges(
                "asgc_server_worker_rtt_seconds",
                "Round trip of an empty message, as the worker measures it",
            )?,
            comm_share: gauges(
                "asgc_server_worker_comm_share_ratio",
                "Share of a worker's step that its upload takes",
            )?,
            residual_ratio: gauges(
                "asgc_server_worker_residual_ratio",
                "Norm of a worker's residual over that of its gradients",
            )?,
            achieved: gauges(
                "asgc_server_worker_updates_per_second",
                "Pushes a second of a worker, from its recent steps",
            )?,
            predicted: gauges(
                "asgc_server_worker_predicted_updates_per_second",
                "The same, as the cost model predicted at the last decision",
            )?,
            dense: gauges(
                "asgc_server_worker_dense_updates_per_second",
                "The same, as the cost model predicts without compression",
            )?,
            rho: gauges(
                "asgc_server_worker_rho_ratio",
                "Share of a gradient's entries that a worker is to send; 1 where all are sent",
            )?,
        })
    }

    /// Takes one more event; `label` names its worker.
    pub(super) fn update(&self, event: &Event, worker: WorkerId, label: &str) {
        let mut known = self.lock();
        known.links.fold(event);
        let codec = known.codecs.get(&worker).copied().unwrap_or(self.configured);
        if let Some(line) = known.links.get(worker) {
            self.show(line, codec, label);
        }
    }

    /// Takes an event that is no update.
    pub(super) fn observe(&self, event: &Event) {
        self.lock().links.fold(event);
    }

    /// What was decided of each worker, under its label.
    pub(super) fn decided(&self, control: &Control, label: impl Fn(WorkerId) -> Option<Arc<str>>) {
        for worker in &control.workers {
            self.lock().codecs.insert(worker.worker_id, worker.new_codec);
            // One that has left meanwhile gets no series again.
            let Some(label) = label(worker.worker_id) else {
                continue;
            };
            self.set(&self.rho, &label, Some(rho(worker.new_codec)));
            self.set(&self.predicted, &label, worker.predicted_updates_per_s);
        }
    }

    /// Removes a worker's series.
    pub(super) fn forget(&self, label: &str) {
        let all = [
            &self.beneficial,
            &self.goodput,
            &self.rtt,
            &self.comm_share,
            &self.residual_ratio,
            &self.achieved,
            &self.predicted,
            &self.dense,
            &self.rho,
        ];
        // An error only says that the worker had none of these.
        all.into_iter()
            .for_each(|gauges| drop(gauges.remove_label_values(&[label])));
    }

    fn show(&self, line: &Line, codec: Codec, label: &str) {
        self.set(&self.rho, label, Some(rho(codec)));
        self.set(&self.residual_ratio, label, line.residual_ratio());
        let Some((link, costs)) = line.report(codec).zip(line.costs()) else {
            return;
        };
        self.set(&self.goodput, label, Some(link.goodput_bytes_per_s));
        self.set(&self.rtt, label, Some(link.rtt_s));
        self.set(&self.comm_share, label, Some(link.comm_share));
        self.set(
            &self.achieved,
            label,
            Some(1.0 / link.step_s.max(f64::MIN_POSITIVE)),
        );
        self.set(&self.dense, label, Some(costs.updates_per_s(Codec::Identity)));
        let judged = if codec == Codec::Identity {
            self.configured
        } else {
            codec
        };
        if line.has_compressed() && judged != Codec::Identity {
            let beneficial = f64::from(u8::from(costs.beneficial(judged)));
            self.set(&self.beneficial, label, Some(beneficial));
        }
    }

    fn set(&self, gauges: &GaugeVec, label: &str, value: Option<f64>) {
        if let Some(value) = value {
            gauges.with_label_values(&[label]).set(value);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Nothing in here can panic half-way, so what a poisoned lock guards is still whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn rho(codec: Codec) -> f64 {
    match codec {
        Codec::TopK(rho) => rho.get(),
        Codec::Identity | Codec::Quantize(_) | Codec::Sign => 1.0,
    }
}
