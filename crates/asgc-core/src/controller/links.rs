//! What the pushes of each trainer say about its link, its machine and its residual.
//!
//! All of it is a fold over events. An `update` carries what its worker measured; the time between two updates of a
//! worker is its step `T`; what is left of a step after computing, encoding, uploading and decoding is `O` of
//! [`crate::cost`]. With a pipeline a step is no longer the sum of these, and `O` is the round trip.

use super::recent::Recent;
use super::uplink::Uplink;
use crate::codec::{Codec, Form};
use crate::cost::{Costs, Work};
use crate::event::{Decision, Event, LinkReport, Update};
use crate::ids::{Revision, WorkerId};
use std::collections::BTreeMap;

/// Trainers that are told apart; more are not looked at one by one.
const MAX_WORKERS: usize = 4096;

/// All trainers that pushed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Links {
    parameters: u64,
    form: Form,
    workers: BTreeMap<WorkerId, Line>,
}

impl Links {
    /// Takes one more event.
    pub fn fold(&mut self, event: &Event) {
        match event {
            Event::RunStart(start) => {
                let form = start.config.as_ref().map(|config| config.compression.form());
                (self.parameters, self.form) = (start.parameters, form.unwrap_or_default());
            }
            Event::Update(update) => {
                let model = (self.parameters, self.form);
                if let Some(line) = self.line_mut(update.worker_id) {
                    line.update(update, model);
                }
            }
            // The time away is no step.
            Event::Join(join) => {
                let line = join.worker_id.and_then(|worker| self.workers.get_mut(&worker));
                line.into_iter().for_each(|line| line.last_at = None);
            }
            _ => {}
        }
    }

    /// Begins a new window of counts; measurements stay.
    pub fn begin_window(&mut self) {
        self.workers
            .values_mut()
            .for_each(|line| line.window = Counts::default());
    }

    /// The trainers, in the order of their identities.
    pub fn iter(&self) -> impl Iterator<Item = (WorkerId, &Line)> {
        self.workers.iter().map(|(&worker, line)| (worker, line))
    }

    /// One trainer.
    #[must_use]
    pub fn get(&self, worker: WorkerId) -> Option<&Line> {
        self.workers.get(&worker)
    }

    fn line_mut(&mut self, worker: WorkerId) -> Option<&mut Line> {
        let room = self.workers.len() < MAX_WORKERS || self.workers.contains_key(&worker);
        room.then(|| self.workers.entry(worker).or_default())
    }
}

/// Decided pushes of one trainer since the last decision.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// All of them.
    pub pushes: u64,
    /// Those that were rejected.
    pub rejected: u64,
}

impl Counts {
    /// Rejected share; 0 of none.
    #[must_use]
    pub fn rejected_frac(self) -> f64 {
        self.rejected as f64 / self.pushes.max(1) as f64
    }
}

/// One trainer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Line {
    window: Counts,
    parameters: u64,
    form: Form,
    /// Of its pipeline.
    depth: u32,
    /// The revision that its last push was encoded under.
    confirmed: Revision,
    /// When its last push was decided.
    last_at: Option<f64>,
    step_s: Recent,
    compute_s: Recent,
    other_s: Recent,
    dense: Timings,
    compressed: Timings,
    uplink: Uplink,
    rtt_s: Recent,
    staleness: Recent,
    residual_ratio: Recent,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Timings {
    encode_s: Recent,
    decode_s: Recent,
}

impl Timings {
    /// What was never measured counts as nothing.
    fn work(&self) -> Work {
        Work {
            encode_s: self.encode_s.median().unwrap_or(0.0),
            decode_s: self.decode_s.median().unwrap_or(0.0),
        }
    }
}

impl Line {
    fn update(&mut self, update: &Update, model: (u64, Form)) {
        (self.parameters, self.form) = model;
        self.depth = update.pipeline_depth;
        self.confirmed = update.controls_revision;
        self.window.pushes += 1;
        self.window.rejected += u64::from(update.decision == Decision::Rejected);
        self.measure(update);
        self.step(update);
    }

    fn measure(&mut self, update: &Update) {
        // A worker may report anything, and a time below 0 would make a share beyond 1.
        self.compute_s.add(update.compute_s.max(0.0));
        self.staleness.add(update.staleness.0 as f64);
        let timings = match update.compression_mode {
            Some(format) if format.is_dense() => &mut self.dense,
            _ => &mut self.compressed,
        };
        timings.encode_s.add(update.encode_s.max(0.0));
        if update.decode_s > 0.0 {
            timings.decode_s.add(update.decode_s);
        }
        if let (Some(bytes), Some(upload_s)) = (update.upload_bytes, update.upload_s) {
            self.uplink.add(bytes as f64, upload_s);
        }
        if let Some(rtt_s) = update.rtt_s {
            self.rtt_s.add(rtt_s);
        }
        if update.gradient_norm > 0.0 {
            self.residual_ratio
                .add(update.residual_norm / update.gradient_norm);
        }
    }

    fn step(&mut self, update: &Update) {
        let Some(last_at) = self.last_at.replace(update.elapsed_s) else {
            return;
        };
        let step_s = update.elapsed_s - last_at;
        self.step_s.add(step_s);
        if update.pipeline_depth > 1 {
            // What else there is to a step is done beside it.
            return self.other_s.add(update.rtt_s.unwrap_or(0.0));
        }
        if let Some(goodput) = self.uplink.goodput() {
            let upload_s = update.received_bytes as f64 / goodput;
            let known = update.compute_s + update.encode_s + update.decode_s + upload_s;
            self.other_s.add((step_s - known).max(0.0));
        }
    }

    /// Its pushes since the last decision.
    #[must_use]
    pub fn window(&self) -> Counts {
        self.window
    }

    /// The revision of the controls that its last push was encoded under.
    #[must_use]
    pub fn confirmed(&self) -> Revision {
        self.confirmed
    }

    /// What its steps are made of; `None` until measured.
    #[must_use]
    pub fn costs(&self) -> Option<Costs> {
        Some(Costs {
            parameters: self.parameters,
            form: self.form,
            compute_s: self.compute_s.median()?,
            other_s: self.other_s.median()?,
            goodput_bytes_per_s: self.uplink.goodput()?,
            dense: self.dense.work(),
            compressed: self.compressed.work(),
            depth: self.depth.max(1),
        })
    }

    /// Whether what compression costs was measured: without it, nothing can be said of it.
    #[must_use]
    pub fn has_compressed(&self) -> bool {
        self.compressed.encode_s.median().is_some()
    }

    /// Nine in ten pushes are at most this stale, in versions.
    #[must_use]
    pub fn staleness_p90(&self) -> Option<f64> {
        self.staleness.quantile(0.9)
    }

    /// Median of residual norm over gradient norm.
    #[must_use]
    pub fn residual_ratio(&self) -> Option<f64> {
        self.residual_ratio.median()
    }

    /// The measurements, for the log.
    #[must_use]
    pub fn report(&self, codec: Codec) -> Option<LinkReport> {
        let costs = self.costs()?;
        let step_s = self.step_s.median()?;
        let work = match codec {
            Codec::Identity => costs.dense,
            Codec::TopK(_) | Codec::Quantize(_) | Codec::Sign => costs.compressed,
        };
        Some(LinkReport {
            goodput_bytes_per_s: costs.goodput_bytes_per_s,
            rtt_s: self.rtt_s.median()?,
            compute_s: costs.compute_s,
            encode_s: work.encode_s,
            step_s,
            comm_share: costs.comm_share(codec),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Format;
    use crate::controller::tests::{changed, update};
    use crate::ids::Density;

    /// Pushes of 4 MB in 0.5 s each, every 2 s, of which 1 s is computing.
    fn line(pushes: u64) -> Links {
        let mut links = Links {
            parameters: 1_000_000,
            ..Links::default()
        };
        for push in 0..pushes {
            links.fold(&changed(update(push, 4_000_000, 2.0 * push as f64), |update| {
                update.compression_mode = Some(Format::Identity);
                (update.compute_s, update.encode_s, update.decode_s) = (1.0, 0.1, 0.2);
                (update.upload_bytes, update.upload_s) = (Some(4_000_000), Some(0.5));
                (update.rtt_s, update.residual_norm) = (Some(0.01), 3.0);
                if update.staleness.0 > 3 {
                    update.decision = Decision::Rejected;
                }
            }));
        }
        links
    }

    #[test]
    fn a_few_pushes_are_needed() {
        for (pushes, known) in [(0, false), (3, false), (4, false), (5, true)] {
            let links = line(pushes);
            let costs = links.get(WorkerId(0)).and_then(Line::costs);
            assert_eq!(costs.is_some(), known, "{pushes} pushes");
        }
    }

    #[test]
    fn a_step_is_taken_apart() {
        let links = line(10);
        let line = links.get(WorkerId(0)).unwrap();
        let costs = line.costs().unwrap();
        assert_eq!((costs.compute_s, costs.goodput_bytes_per_s), (1.0, 8e6));
        assert!((costs.other_s - 0.2).abs() < 1e-9, "2 - 1 - 0.1 - 0.2 - 0.5");
        assert!((costs.step_s(Codec::Identity) - 2.0).abs() < 1e-9);
        assert_eq!((line.window().pushes, line.window().rejected_frac()), (10, 0.6));
        assert_eq!(
            (line.residual_ratio(), line.staleness_p90()),
            (Some(3.0), Some(8.0))
        );
        assert!(!line.has_compressed());
        let report = line.report(Codec::Identity).unwrap();
        assert_eq!((report.step_s, report.comm_share), (2.0, 0.25));
        let half = line.report(Codec::TopK(Density::new(0.5).unwrap())).unwrap();
        assert_eq!(half.encode_s, 0.0, "never measured");
    }

    #[test]
    fn with_a_pipeline_a_step_is_not_the_sum_of_its_parts() {
        let mut links = line(0);
        links.parameters = 1_000_000;
        for push in 0..10 {
            // 1 s of computing, beside which 0.5 s of uploading is done.
            links.fold(&changed(update(push, 4_000_000, push as f64), |update| {
                update.compression_mode = Some(Format::Identity);
                (update.compute_s, update.pipeline_depth) = (1.0, 2);
                (update.upload_bytes, update.upload_s) = (Some(4_000_000), Some(0.5));
                update.rtt_s = Some(0.01);
            }));
        }
        let costs = links.get(WorkerId(0)).and_then(Line::costs).unwrap();
        assert_eq!((costs.depth, costs.other_s), (2, 0.01));
        assert_eq!(
            (costs.step_s(Codec::Identity), costs.comm_share(Codec::Identity)),
            (1.0, 0.0)
        );
        assert!(costs.bears_dense(0.01));
    }

    #[test]
    fn an_upload_too_quick_to_time_costs_nothing() {
        let mut links = line(0);
        for push in 0..9 {
            links.fold(&changed(update(0, 4, f64::from(push)), |update| {
                (update.upload_bytes, update.upload_s) = (Some(4_000_000), Some(0.0));
            }));
        }
        let costs = links.get(WorkerId(0)).unwrap().costs().unwrap();
        assert!(costs.upload_s(Codec::Identity) < 1e-4);
    }

    #[test]
    fn a_new_window_counts_anew_and_forgets_no_link() {
        let mut links = line(10);
        links.begin_window();
        let line = links.get(WorkerId(0)).unwrap();
        assert_eq!(line.window(), Counts::default());
        assert!(line.costs().is_some());
    }
}
