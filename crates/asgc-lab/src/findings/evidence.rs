//! What was measured, by configuration: groups of runs that differ by their seed.

use crate::log::{ReadError, fold_log};
use crate::spread::Spread;
use crate::summary::Summary;
use asgc_core::event::{Control, Decision, Event};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::path::Path;

/// One run.
#[derive(Debug, Clone, Default)]
pub struct Run {
    pub(super) summary: Summary,
    pub(super) controls: Vec<Control>,
    /// Over updates that were applied.
    pub(super) max_applied_staleness: u64,
    /// Pushes by staleness.
    pub(super) staleness: BTreeMap<u64, u64>,
}

impl Run {
    /// Takes one more event.
    pub fn add(&mut self, event: &Event) {
        self.summary.add(event);
        match event {
            Event::Control(control) => self.controls.push(control.clone()),
            Event::Update(update) => {
                let tau = update.staleness.0;
                *self.staleness.entry(tau).or_default() += 1;
                if update.decision != Decision::Rejected {
                    self.max_applied_staleness = self.max_applied_staleness.max(tau);
                }
            }
            _ => {}
        }
    }

    fn seed(&self) -> Option<u64> {
        self.summary.start.as_ref().map(|start| start.seed)
    }
}

/// Runs by configuration and seed.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    groups: BTreeMap<String, BTreeMap<u64, Run>>,
}

/// A figure of a run.
pub(super) type Figure = fn(&Run) -> Option<f64>;

impl Evidence {
    /// Reads all runs below `folder` that were made to their end; others are left out.
    ///
    /// # Errors
    /// When the folder or a log cannot be read.
    pub fn read(folder: &Path) -> Result<Self, ReadError> {
        let mut evidence = Self::default();
        let Ok(entries) = fs::read_dir(folder) else {
            return Ok(evidence);
        };
        let mut logs = entries
            .flatten()
            .map(|entry| entry.path().join("events.jsonl"))
            .filter(|log| log.is_file())
            .collect::<Vec<_>>();
        logs.sort();
        for log in logs {
            let mut run = Run::default();
            fold_log(&log, |_, event| -> Result<(), Infallible> {
                run.add(&event);
                Ok(())
            })?;
            evidence.put(run);
        }
        Ok(evidence)
    }

    /// Puts a run into its group, unless it was not made to its end.
    pub fn put(&mut self, run: Run) {
        let Some(seed) = run.seed().filter(|_| run.summary.is_complete()) else {
            return;
        };
        let group = run.summary.without_seed(run.summary.name()).to_owned();
        self.groups.entry(group).or_default().insert(seed, run);
    }

    pub(super) fn runs(&self, group: &str) -> impl Iterator<Item = &Run> {
        self.groups.get(group).into_iter().flat_map(BTreeMap::values)
    }

    /// Over the seeds of a group.
    pub(super) fn spread(&self, group: &str, figure: Figure) -> Option<Spread> {
        Spread::of(self.runs(group).map(figure))
    }

    /// Seed by seed, so that what a seed brings to both falls away.
    pub(super) fn paired(
        &self,
        groups: [&str; 2],
        figure: Figure,
        combine: fn(f64, f64) -> f64,
    ) -> Option<Spread> {
        let [a, b] = groups.map(|group| self.groups.get(group));
        let pairs = a?.iter().filter_map(|(seed, run)| Some((run, b?.get(seed)?)));
        Spread::of(pairs.map(|(a, b)| Some(combine(figure(a)?, figure(b)?))))
    }

    /// Seeds that a group has.
    pub(super) fn seeds(&self, group: &str) -> Vec<u64> {
        self.groups
            .get(group)
            .map_or(Vec::new(), |runs| runs.keys().copied().collect())
    }
}

pub(super) fn accuracy(run: &Run) -> Option<f64> {
    run.summary.accuracy().map(|accuracy| 100.0 * accuracy)
}

pub(super) fn megabytes(run: &Run) -> Option<f64> {
    Some(run.summary.payload_bytes() as f64 / 1e6)
}

pub(super) fn to_target(run: &Run) -> Option<f64> {
    run.summary.time_to_target(None)
}

pub(super) fn wall(run: &Run) -> Option<f64> {
    Some(run.summary.wall_s())
}

pub(super) fn rate(run: &Run) -> Option<f64> {
    run.summary.updates_per_s()
}

pub(super) fn ratio(run: &Run) -> Option<f64> {
    run.summary.compression_ratio()
}

pub(super) fn largest_drop(run: &Run) -> Option<f64> {
    run.summary.max_accuracy_drop().map(|drop| 100.0 * drop)
}

pub(super) fn applied_staleness(run: &Run) -> Option<f64> {
    Some(run.max_applied_staleness as f64)
}
