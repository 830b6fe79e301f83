//! What a run came to.

use asgc_core::config::Config;
use asgc_core::event::{Decision, Event};
use asgc_lab::{Summary, rate, steps, units};
use serde::Serialize;
use std::collections::BTreeMap;

/// The figures of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    /// 1, 2, … where runs are repeated.
    pub(super) round: u32,
    /// What is set, worker by worker; `null` where nothing is. Changes in mid-run are not in it.
    pub(super) uplinks_bits_per_s: Vec<Option<u64>>,
    pub(super) updates_per_s: Option<f64>,
    /// By the plan's model; `null` where the codec or the link changes.
    pub(super) predicted_updates_per_s: Option<f64>,
    pub(super) target: Option<f64>,
    /// When the first evaluated version that reached the target was current.
    pub(super) time_to_target_s: Option<f64>,
    pub(super) final_accuracy: Option<f64>,
    pub(super) best_accuracy: Option<f64>,
    pub(super) payload_bytes: u64,
    pub(super) bytes_a_push: Option<f64>,
    /// Median seconds of computing a gradient, injected delay included: whether the machine was as fast as in other runs.
    pub(super) compute_s: Option<f64>,
    /// Share of a step that is neither computing nor encoding.
    pub(super) communicating_frac: Option<f64>,
    pub(super) mean_staleness: Option<f64>,
    pub(super) rejected_frac: Option<f64>,
    pub(super) workers: Vec<Worker>,
}

/// One trainer's part.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Worker {
    pub(super) worker_id: u32,
    pub(super) accepted: u64,
    pub(super) pushes: u64,
    /// At the end.
    pub(super) codec: String,
}

impl Row {
    pub(super) fn new(config: &Config, events: &[Event]) -> Self {
        let summary = Summary::from_events(events);
        let target = config.workload.target_accuracy;
        let accuracies = summary.evals.iter().map(|eval| eval.test_accuracy);
        let pushes = summary.pushes();
        let computes = events.iter().filter_map(|event| match event {
            Event::Update(update) => Some(update.compute_s),
            _ => None,
        });
        let compute_s: Vec<_> = computes.filter(|seconds| seconds.is_finite()).collect();
        Self {
            name: summary.name().to_owned(),
            updates_per_s: summary.updates_per_s(),
            target,
            time_to_target_s: target.and_then(|target| summary.time_to(target)),
            final_accuracy: summary.accuracy(),
            best_accuracy: accuracies.reduce(f64::max),
            payload_bytes: summary.payload_bytes(),
            bytes_a_push: (pushes > 0).then(|| summary.payload_bytes() as f64 / pushes as f64),
            compute_s: rate::median(&compute_s),
            communicating_frac: steps::communicating(events),
            mean_staleness: summary.mean_staleness(),
            rejected_frac: summary.rejected_share(),
            workers: workers(config, events),
            ..Self::default()
        }
    }

    /// In one line, when the run is over.
    pub(super) fn line(&self) -> String {
        format!(
            "{}: {} updates/s, target after {}, accuracy {}",
            self.name,
            units::or_missing(self.updates_per_s, |rate| format!("{rate:.1}")),
            units::or_missing(self.time_to_target_s, units::seconds),
            units::or_missing(self.final_accuracy, units::accuracy)
        )
    }
}

fn workers(config: &Config, events: &[Event]) -> Vec<Worker> {
    // What nobody decided about stays as it is configured.
    let start = config
        .compression
        .codec()
        .map_or(String::new(), |codec| codec.to_string());
    let mut workers = BTreeMap::<u32, Worker>::new();
    let mut codecs = BTreeMap::new();
    for event in events {
        match event {
            Event::Update(update) => {
                let id = update.worker_id.0;
                let worker = workers.entry(id).or_insert_with(|| Worker {
                    worker_id: id,
                    codec: start.clone(),
                    ..Worker::default()
                });
                worker.pushes += 1;
                worker.accepted += u64::from(update.decision != Decision::Rejected);
            }
            Event::Control(control) => {
                let decided = control.workers.iter();
                codecs.extend(decided.map(|worker| (worker.worker_id.0, worker.new_codec.to_string())));
            }
            _ => {}
        }
    }
    for (id, codec) in codecs {
        if let Some(worker) = workers.get_mut(&id) {
            worker.codec = codec;
        }
    }
    workers.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let mut config = Config::default();
        config.compression.mode = asgc_core::config::CompressionMode::Topk;
        config.workload.target_accuracy = Some(0.8);
        config
    }

    /// A log's lines with what matters here, and something for the rest.
    fn events(lines: &[String]) -> Vec<Event> {
        let read =
            |line: &String| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        lines.iter().map(read).collect()
    }

    fn update(worker: u32, version: u64, decision: &str, elapsed_s: f64) -> String {
        format!(
            r#"{{"event":"update","worker_id":{worker},"version":{version},"staleness":1,"payload_bytes":100,
            "received_bytes":100,"fetch_s":0,"compute_s":0.1,"encode_s":0,"decision":"{decision}","weight":1,
            "residual_norm":0,"loss":1,"samples":8,"push_id":1,"lr":0.1,"elapsed_s":{elapsed_s}}}"#
        )
    }

    fn eval(version: u64, accuracy: f64, elapsed_s: f64) -> String {
        format!(
            r#"{{"event":"eval","version":{version},"test_accuracy":{accuracy},"test_loss":1,"elapsed_s":{elapsed_s},
            "reported_s":99,"eval_s":0.1}}"#
        )
    }

    #[test]
    fn the_figures_of_a_log() {
        let row = Row::new(
            &config(),
            &events(&[
                update(0, 1, "accepted", 1.0),
                eval(1, 0.7, 1.0),
                update(1, 1, "rejected", 1.5),
                update(0, 2, "accepted", 2.0),
                eval(2, 0.82, 2.0),
                update(0, 3, "downweighted", 3.0),
                eval(3, 0.81, 3.0),
            ]),
        );
        assert_eq!(
            row.time_to_target_s,
            Some(2.0),
            "of the first evaluation that reached it"
        );
        assert_eq!((row.final_accuracy, row.best_accuracy), (Some(0.81), Some(0.82)));
        assert_eq!((row.payload_bytes, row.bytes_a_push), (400, Some(100.0)));
        assert_eq!(row.rejected_frac, Some(0.25));
        assert_eq!(row.compute_s, Some(0.1));
        let share = row.communicating_frac.unwrap();
        assert!((share - 0.9).abs() < 1e-12, "{share}");
        let worker = |worker_id, accepted, pushes| Worker {
            worker_id,
            accepted,
            pushes,
            codec: "topk(rho=0.25)".into(),
        };
        assert_eq!(row.workers, [worker(0, 3, 3), worker(1, 0, 1)]);
    }

    #[test]
    fn the_last_decision_about_a_worker_is_its_codec() {
        let control = |rho: f64| {
            format!(
                r#"{{"event":"control","elapsed_s":1,"policy":"budget","loss_trend":null,"loss_variability":null,
                "mean_staleness":0,"rejected_frac":0,"bytes_per_s":0,"updates_per_s":0,"residual_norm_var":0,
                "compression_mode":"topk","old_compression":0.25,"new_compression":0.25,"old_s_max":4,"new_s_max":4,
                "direction":"hold","reason":"r","revision":1,"workers":[{{"worker_id":1,"old_codec":"identity",
                "new_codec":"topk(rho={rho})","reason":"r","pushes":1,"rejected_frac":0,"link":null,
                "residual_ratio":null,"achieved_updates_per_s":1,"predicted_updates_per_s":null,
                "dense_updates_per_s":null,"compression_beneficial":null,"fits":true}}]}}"#
            )
        };
        let pushes = [update(0, 1, "accepted", 1.0), update(1, 2, "accepted", 1.0)];
        let row = Row::new(
            &config(),
            &events(&[&pushes[..], &[control(0.1), control(0.02)]].concat()),
        );
        let codecs: Vec<_> = row.workers.iter().map(|worker| worker.codec.as_str()).collect();
        assert_eq!(codecs, ["topk(rho=0.25)", "topk(rho=0.02)"]);
    }

    #[test]
    fn a_run_without_a_push_has_no_figures() {
        let row = Row::new(&config(), &[]);
        assert_eq!((row.bytes_a_push, row.communicating_frac), (None, None));
        assert_eq!(row.line(), "?: - updates/s, target after -, accuracy -");
    }
}
