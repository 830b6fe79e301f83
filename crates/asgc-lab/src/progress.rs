//! What a progress bar shows, as a fold over events.

use crate::units;
use asgc_core::event::{Control, Decision, Event, Update};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;

/// How far back rates look, in seconds of the run.
const WINDOW_S: f64 = 10.0;

/// How a run is doing.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// The server's version, which counts applied updates.
    pub version: u64,
    /// Where the run stops; 0 until it is known.
    pub max_updates: u64,
    /// Of the last evaluation, as a fraction.
    pub accuracy: Option<f64>,
    /// Of the last evaluation.
    pub loss: Option<f64>,
    /// Payload bytes of all pushes.
    pub payload_bytes: u64,
    /// Whether the run has ended.
    pub ended: bool,
    /// The controller's last decision.
    pub control: Option<Control>,
    pushes: u64,
    rejected: u64,
    elapsed_s: f64,
    trainers: BTreeSet<u32>,
    recent: VecDeque<Recent>,
}

#[derive(Debug, Clone, Copy)]
struct Recent {
    elapsed_s: f64,
    version: u64,
    staleness: u64,
}

impl Progress {
    /// Takes one more event.
    pub fn add(&mut self, event: &Event) {
        match event {
            Event::RunStart(start) => {
                *self = Self {
                    max_updates: start.max_updates,
                    ..Self::default()
                }
            }
            Event::Update(update) => self.add_update(update),
            Event::Eval(eval) => {
                self.accuracy = Some(eval.test_accuracy);
                self.loss = Some(eval.test_loss);
            }
            Event::Join(join) => self.trainers.extend(join.worker_id.map(|id| id.0)),
            Event::Leave(leave) => {
                if let Some(id) = leave.worker_id {
                    self.trainers.remove(&id.0);
                }
            }
            Event::Control(control) => self.control = Some(control.clone()),
            Event::RunEnd(end) => {
                self.version = self.version.max(end.applied_updates);
                self.ended = true;
            }
        }
    }

    fn add_update(&mut self, update: &Update) {
        self.pushes += 1;
        self.rejected += u64::from(update.decision == Decision::Rejected);
        self.payload_bytes += update.payload_bytes;
        self.version = self.version.max(update.version.0);
        self.elapsed_s = self.elapsed_s.max(update.elapsed_s);
        let (elapsed_s, version) = (self.elapsed_s, self.version);
        self.recent.push_back(Recent {
            elapsed_s,
            version,
            staleness: update.staleness.0,
        });
        while self
            .recent
            .front()
            .is_some_and(|first| elapsed_s - first.elapsed_s > WINDOW_S)
        {
            self.recent.pop_front();
        }
    }

    /// Applied updates a second over the last ten seconds of the run.
    #[must_use]
    pub fn updates_per_s(&self) -> Option<f64> {
        let (first, last) = (self.recent.front()?, self.recent.back()?);
        let seconds = last.elapsed_s - first.elapsed_s;
        (seconds > 0.0).then(|| (last.version - first.version) as f64 / seconds)
    }

    /// Mean staleness of the same pushes, in versions.
    #[must_use]
    pub fn staleness(&self) -> Option<f64> {
        let sum: u64 = self.recent.iter().map(|recent| recent.staleness).sum();
        (!self.recent.is_empty()).then(|| sum as f64 / self.recent.len() as f64)
    }

    /// Rejected share of all pushes.
    #[must_use]
    pub fn rejected_share(&self) -> Option<f64> {
        (self.pushes > 0).then(|| self.rejected as f64 / self.pushes as f64)
    }

    /// Trainers that are there now.
    #[must_use]
    pub fn trainers(&self) -> usize {
        self.trainers.len()
    }
}

/// Everything but the version, in one line.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "accuracy {}, loss {}, {}, {} pushed, staleness {}, rejected {}, trainers {}",
            units::or_missing(self.accuracy, units::accuracy),
            units::or_missing(self.loss, |loss| format!("{loss:.3}")),
            units::or_missing(self.updates_per_s(), |rate| format!("{rate:.1} updates/s")),
            units::bytes(self.payload_bytes),
            units::or_missing(self.staleness(), |tau| format!("{tau:.1}")),
            units::or_missing(self.rejected_share(), units::percent),
            self.trainers(),
        )?;
        let Some(control) = &self.control else {
            return Ok(());
        };
        let strength = units::strength_name(&control.compression_mode);
        if let Some((name, value)) = strength.zip(control.new_compression) {
            write!(f, ", {name} {value}")?;
        }
        write!(f, ", s_max {}", control.new_s_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn a_run_from_its_start_to_its_end() {
        let mut progress = Progress::default();
        assert_eq!(
            progress.to_string(),
            "accuracy -, loss -, -, 0 B pushed, staleness -, rejected -, trainers 0"
        );
        for event in samples::run() {
            progress.add(&event);
        }
        assert_eq!(
            (progress.version, progress.max_updates, progress.ended),
            (3, 3, true)
        );
        assert_eq!(
            progress.to_string(),
            "accuracy 86.00 %, loss 0.400, 0.8 updates/s, 400 B pushed, staleness 2.5, rejected 25.0 %, trainers 1"
        );
    }

    #[test]
    fn an_adaptive_run_shows_where_it_is() {
        let mut progress = Progress::default();
        progress.add(&Event::Control(samples::control((0.25, 0.2), (4, 5))));
        assert!(progress.to_string().ends_with("trainers 0, rho 0.2, s_max 5"));
        let identity = Control {
            new_compression: None,
            compression_mode: "identity".into(),
            ..samples::control((0.25, 0.2), (5, 6))
        };
        progress.add(&Event::Control(identity));
        assert!(progress.to_string().ends_with("trainers 0, s_max 6"));
    }

    #[test]
    fn rates_look_back_ten_seconds_only() {
        let mut progress = Progress::default();
        for i in 0..200_u64 {
            // One a second, then ten a second.
            let at = if i < 100 {
                i as f64
            } else {
                100.0 + (i - 100) as f64 / 10.0
            };
            progress.add(&Event::Update(samples::update(0, i + 1, i % 2, at)));
        }
        let rate = progress.updates_per_s().unwrap();
        assert!((rate - 10.0).abs() < 0.2, "{rate}");
        assert_eq!(progress.staleness().map(|tau| (tau * 10.0).round()), Some(5.0));
    }
}
