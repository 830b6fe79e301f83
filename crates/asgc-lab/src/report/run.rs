//! What a report needs of a run, as a fold over its events.

use crate::steps::Steps;
use crate::summary::Summary;
use asgc_core::event::{Control, Decision, Event, RejectReason, Update};
use std::collections::BTreeMap;

/// Pushes of one staleness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stale {
    pub(super) pushes: u64,
    pub(super) rejected: u64,
}

/// One step of a trainer, in seconds since the start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    pub(super) fetch: f64,
    /// The part of fetching that the server held back.
    pub(super) held: f64,
    pub(super) compute: f64,
    pub(super) end: f64,
    /// What encoding and uploading took up to `end`.
    pub(super) push: f64,
    pub(super) rejected: bool,
}

/// An evaluation, and what it had cost by then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    pub(super) elapsed_s: f64,
    pub(super) accuracy: f64,
    pub(super) loss: f64,
    /// Payload bytes of all pushes up to the measured version.
    pub(super) bytes: f64,
}

/// A run as a report shows it.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// What it is called in the report.
    pub label: String,
    pub(super) summary: Summary,
    pub(super) measured: Vec<Measured>,
    pub(super) staleness: BTreeMap<u64, Stale>,
    pub(super) controls: Vec<Control>,
    /// By trainer; the first [`STEPS`] of them.
    pub(super) steps: BTreeMap<u32, Vec<Step>>,
    pub(super) train_loss: Option<f64>,
    pub(super) sync_idle_s: f64,
    pub(super) communicating: Option<f64>,
    pub(super) non_finite: u64,
}

/// Steps of a trainer that are kept for its timeline.
const STEPS: usize = 400;

/// Of the applied updates, the last share whose batch losses make the training loss.
const TRAIN_LOSS_SHARE: f64 = 0.1;

/// The fold, while it goes on.
#[derive(Debug, Default)]
struct Folding {
    run: Run,
    bytes: u64,
    /// Payload bytes when a version became current.
    bytes_at: Vec<u64>,
    losses: Vec<f64>,
    steps: Steps,
}

impl Run {
    /// Of a run's events; `label` is what the report calls it.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>, label: String) -> Self {
        let mut folding = Folding::default();
        events.into_iter().for_each(|event| folding.take(event));
        folding.end(label)
    }

    /// Its figures.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The label without `_sSEED`: runs of one group differ by their seed.
    pub(super) fn group(&self) -> &str {
        self.summary.without_seed(&self.label)
    }

    /// What it does, in short: mode, codec, error feedback (EF), bounded staleness (bound), controller (ctl).
    pub(super) fn strategy(&self) -> String {
        let Some(start) = &self.summary.start else {
            return "?".into();
        };
        let mut words = format!("{} {}", start.mode, start.compression);
        let bounded = start
            .config
            .as_ref()
            .is_some_and(|config| config.staleness.enabled);
        let controlled = start
            .config
            .as_ref()
            .is_some_and(|config| config.controller.enabled);
        for (there, short) in [
            (start.error_feedback, "+EF"),
            (bounded, "+bound"),
            (controlled, "+ctl"),
        ] {
            if there {
                words = format!("{words} {short}");
            }
        }
        words
    }

    /// Seconds that trainers lost in all.
    pub(super) fn sync_idle_share(&self) -> Option<f64> {
        let time_s = self.summary.wall_s() * self.summary.workers.len() as f64;
        (time_s > 0.0).then(|| self.sync_idle_s / time_s)
    }

    /// Evaluations with a loss that is not finite or an accuracy more than two points below the one before, and pushes
    /// that were refused for not being finite.
    pub(super) fn divergence_events(&self) -> u64 {
        let falls = self
            .measured
            .windows(2)
            .filter(|pair| pair[0].accuracy - pair[1].accuracy > 0.02);
        let lost = self.measured.iter().filter(|measured| !measured.loss.is_finite());
        (falls.count() + lost.count()) as u64 + self.non_finite
    }

    pub(super) fn bytes_per_update(&self) -> Option<f64> {
        let applied = self.summary.applied();
        (applied > 0).then(|| self.summary.payload_bytes() as f64 / applied as f64)
    }

    /// Injected delay of a trainer's step, in the mean over trainers, in seconds.
    pub(super) fn mean_delay_s(&self) -> Option<f64> {
        let start = self.summary.start.as_ref()?;
        let sum = start.compute_delay.values().sum::<f64>();
        (start.num_workers > 0).then(|| sum / f64::from(start.num_workers))
    }
}

impl Folding {
    fn take(&mut self, event: &Event) {
        self.run.summary.add(event);
        self.steps.add(event);
        match event {
            Event::Update(update) => self.update(update),
            Event::Control(control) => self.run.controls.push(control.clone()),
            Event::Eval(eval) => {
                let at = self.bytes_at.get(eval.version.0 as usize).copied();
                self.run.measured.push(Measured {
                    elapsed_s: eval.elapsed_s,
                    accuracy: eval.test_accuracy,
                    loss: eval.test_loss,
                    bytes: at.unwrap_or(if eval.version.0 == 0 { 0 } else { self.bytes }) as f64,
                });
            }
            Event::RunStart(_) | Event::Join(_) | Event::Leave(_) | Event::RunEnd(_) => {}
        }
    }

    fn update(&mut self, update: &Update) {
        self.bytes += update.payload_bytes;
        let stale = self.run.staleness.entry(update.staleness.0).or_default();
        let rejected = update.decision == Decision::Rejected;
        stale.pushes += 1;
        stale.rejected += u64::from(rejected);
        self.run.non_finite += u64::from(update.reason == Some(RejectReason::NonFinite));
        self.run.sync_idle_s += update.pull_held_s;
        if !rejected {
            self.losses.push(update.loss);
            // Rounds make one version of several pushes: it has cost all of them.
            self.bytes_at
                .resize(self.bytes_at.len().max(update.version.0 as usize + 1), 0);
            self.bytes_at[update.version.0 as usize] = self.bytes;
        }
        let steps = self.run.steps.entry(update.worker_id.0).or_default();
        if steps.len() < STEPS {
            steps.push(Step {
                fetch: finite(update.fetch_s),
                held: finite(update.pull_held_s),
                compute: finite(update.compute_s),
                push: finite(update.encode_s) + finite(update.upload_s.unwrap_or(0.0)),
                end: update.elapsed_s,
                rejected,
            });
        }
    }

    fn end(mut self, label: String) -> Run {
        let last = ((self.losses.len() as f64 * TRAIN_LOSS_SHARE).ceil() as usize).max(1);
        let tail = &self.losses[self.losses.len().saturating_sub(last)..];
        self.run.train_loss = (!tail.is_empty()).then(|| tail.iter().sum::<f64>() / tail.len() as f64);
        self.run.communicating = self.steps.communicating();
        self.run.label = label;
        self.run
    }
}

/// What a log holds as null reads as NaN, and takes no time.
fn finite(seconds: f64) -> f64 {
    if seconds.is_finite() { seconds } else { 0.0 }
}
