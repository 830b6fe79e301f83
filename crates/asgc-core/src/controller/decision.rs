//! One decision, put together: what the policy says of all, what the links say of each, what an operator has pinned.

use super::Controller;
use super::budget::{self, Choice};
use super::course::Course;
use super::links::Line;
use super::window::Signals;
use crate::codec::Codec;
use crate::config::ControlPolicy;
use crate::event::{Control, Direction, WorkerControl};
use crate::ids::WorkerId;

/// Means of `rho` are kept to this many steps in 1, so that they read as what they are means of.
const RHO_STEPS: f64 = 1e9;

/// Rates over less than this would be noise.
const LEAST_S: f64 = 1e-3;

impl Controller {
    /// Decides on a window and lets the decision hold.
    pub(super) fn decision(&mut self, elapsed_s: f64, signals: &Signals) -> Control {
        let drop = self.guard.accuracy_drop(signals);
        let mut course = match self.policy() {
            Some(ControlPolicy::Budget) => self.budget(signals, drop),
            Some(ControlPolicy::Threshold | ControlPolicy::Score) => self.all_alike(signals),
            None => self.steady(),
        };
        if self.auto {
            self.switch_off_where_needless(&mut course);
        }
        self.keep_pinned(&mut course);
        let before = (self.mean_strength(), self.s_max);
        let workers = self.worker_controls(&course.choices, elapsed_s);
        let own = course
            .choices
            .iter()
            .map(|(worker, choice)| (*worker, choice.codec));
        self.assignments.assign(course.common, &own.collect::<Vec<_>>());
        self.s_max = course.s_max;
        if self.policy() == Some(ControlPolicy::Budget) {
            course.direction = direction(before, (self.mean_strength(), self.s_max));
        }
        Control {
            accuracy_drop: drop,
            rho_floor: course.rho_floor,
            workers,
            ..self.event(elapsed_s, signals, before, (course.direction, course.reason))
        }
    }

    /// The event of what holds now; `before` is what held until now.
    pub(super) fn event(
        &self,
        elapsed_s: f64,
        signals: &Signals,
        before: (Option<f64>, u64),
        (direction, reason): (Direction, String),
    ) -> Control {
        Control {
            elapsed_s,
            policy: self.policy_name().to_owned(),
            loss_trend: signals.loss.map(|loss| loss.trend),
            loss_variability: signals.loss.map(|loss| loss.rebound),
            mean_staleness: signals.mean_staleness,
            rejected_frac: signals.rejected_frac,
            bytes_per_s: signals.bytes_per_s,
            updates_per_s: signals.updates_per_s,
            residual_norm_var: signals.residual_norm_var,
            compression_mode: self.configured.name().to_owned(),
            old_compression: before.0,
            new_compression: self.mean_strength(),
            old_s_max: before.1,
            new_s_max: self.s_max,
            direction,
            reason,
            revision: self.assignments.latest(),
            loss_source: signals.loss_source,
            accuracy_drop: None,
            rho_floor: None,
            workers: Vec::new(),
            operator: None,
        }
    }

    /// `compression.auto`: no compression for those whom it makes slower.
    fn switch_off_where_needless(&self, course: &mut Course) {
        for (worker, choice) in &mut course.choices {
            let Some((line, costs)) = self
                .links
                .get(*worker)
                .and_then(|line| Some((line, line.costs()?)))
            else {
                continue;
            };
            let compressing = self.assignments.of(*worker).codec != Codec::Identity;
            if choice.codec == Codec::Identity || !line.has_compressed() {
                continue;
            }
            if !costs.worth_compressing(choice.codec, compressing) {
                let speeds = (
                    costs.updates_per_s(Codec::Identity),
                    costs.updates_per_s(choice.codec),
                );
                let reason = format!(
                    "compression does not pay: {:.1} updates/s without, {:.1} with {}",
                    speeds.0, speeds.1, choice.codec
                );
                *choice = Choice {
                    codec: Codec::Identity,
                    reason,
                };
            }
        }
    }

    fn keep_pinned(&self, course: &mut Course) {
        if self.s_max_pinned {
            course.s_max = self.s_max;
        }
        for (worker, choice) in &mut course.choices {
            if self.assignments.is_pinned(*worker) {
                *choice = Choice {
                    codec: self.assignments.of(*worker).codec,
                    reason: "pinned by hand".to_owned(),
                };
            }
        }
    }

    /// Those that pushed since the last decision, or whose codec changes.
    fn worker_controls(&self, choices: &[(WorkerId, Choice)], elapsed_s: f64) -> Vec<WorkerControl> {
        let control = |(worker, choice): &(WorkerId, Choice)| {
            let old_codec = self.assignments.of(*worker).codec;
            let line = self.links.get(*worker).cloned().unwrap_or_default();
            let concerned = line.window().pushes > 0 || choice.codec != old_codec;
            concerned.then(|| self.worker_control((*worker, &line), old_codec, choice, elapsed_s))
        };
        choices.iter().filter_map(control).collect()
    }

    /// What is known of one trainer, and what was chosen for it.
    pub(super) fn worker_control(
        &self,
        (worker_id, line): (WorkerId, &Line),
        old_codec: Codec,
        choice: &Choice,
        elapsed_s: f64,
    ) -> WorkerControl {
        let (new_codec, costs, counts) = (choice.codec, line.costs(), line.window());
        let fits = budget::fits(line);
        let judged = if new_codec == Codec::Identity {
            self.configured
        } else {
            new_codec
        };
        let beneficial = costs.filter(|_| line.has_compressed() && judged != Codec::Identity);
        WorkerControl {
            worker_id,
            old_codec,
            new_codec,
            reason: if fits {
                choice.reason.clone()
            } else {
                unfit(choice, counts.rejected_frac())
            },
            pushes: counts.pushes,
            rejected_frac: counts.rejected_frac(),
            link: line.report(old_codec),
            residual_ratio: line.residual_ratio(),
            achieved_updates_per_s: counts.pushes as f64 / (elapsed_s - self.since_s).max(LEAST_S),
            predicted_updates_per_s: costs.map(|costs| costs.updates_per_s(new_codec)),
            dense_updates_per_s: costs.map(|costs| costs.updates_per_s(Codec::Identity)),
            compression_beneficial: beneficial.map(|costs| costs.beneficial(judged)),
            fits,
        }
    }

    /// Strength of the codec in force; the mean over trainers, without compression counted as 1 (32 bits), where they
    /// differ. `None` for identity and sign.
    pub(super) fn mean_strength(&self) -> Option<f64> {
        let strength = |codec: Codec| match (self.configured, codec) {
            (Codec::Identity | Codec::Sign, _) => None,
            (_, Codec::TopK(rho)) => Some(rho.get()),
            (_, Codec::Quantize(bits)) => Some(f64::from(bits.get())),
            (Codec::Quantize(_), Codec::Identity | Codec::Sign) => Some(32.0),
            (Codec::TopK(_), Codec::Identity | Codec::Sign) => Some(1.0),
        };
        let strengths = self
            .assignments
            .codecs()
            .into_iter()
            .map(strength)
            .collect::<Option<Vec<_>>>()?;
        let first = *strengths.first()?;
        if strengths.iter().all(|strength| *strength == first) {
            return Some(first);
        }
        let mean = strengths.iter().sum::<f64>() / strengths.len().max(1) as f64;
        Some((mean * RHO_STEPS).round() / RHO_STEPS)
    }
}

fn unfit(choice: &Choice, rejected_frac: f64) -> String {
    let percent = 100.0 * rejected_frac;
    let advice = "does not fit this run: give it a faster link or machine, a smaller batch, or a wider s_max";
    format!("{}; {percent:.0} % rejected, {advice}", choice.reason)
}

/// Less of every gradient, or more staleness, is aggressive; what compression does counts first.
fn direction(before: (Option<f64>, u64), after: (Option<f64>, u64)) -> Direction {
    let strength = before
        .0
        .zip(after.0)
        .map_or(std::cmp::Ordering::Equal, |(old, new)| new.total_cmp(&old));
    match strength.then(before.1.cmp(&after.1)) {
        std::cmp::Ordering::Greater => Direction::Safer,
        std::cmp::Ordering::Equal => Direction::Hold,
        std::cmp::Ordering::Less => Direction::Aggressive,
    }
}
