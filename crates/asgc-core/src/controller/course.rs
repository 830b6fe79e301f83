//! Where each policy wants to go, for everybody and for each trainer.

use super::Controller;
use super::bounds::Vector;
use super::budget::{self, Choice};
use super::guard::Finding;
use super::policy;
use super::window::Signals;
use crate::codec::Codec;
use crate::event::Direction;
use crate::ids::WorkerId;

/// Where a policy wants to go.
pub(super) struct Course {
    pub(super) direction: Direction,
    pub(super) reason: String,
    pub(super) s_max: u64,
    /// For trainers that are yet to come.
    pub(super) common: Codec,
    /// For each trainer that is known.
    pub(super) choices: Vec<(WorkerId, Choice)>,
    pub(super) rho_floor: Option<f64>,
}

impl Controller {
    /// `threshold` and `score`: one direction for everybody.
    pub(super) fn all_alike(&mut self, signals: &Signals) -> Course {
        let verdict = policy::judge(&self.config, signals, &mut self.streak);
        let at = Vector {
            codec: self.assignments.common(),
            s_max: self.s_max,
        };
        let to = match self.assignments.all_pinned() {
            true => Vector {
                s_max: self.bounds.step_s_max(at.s_max, verdict.direction),
                ..at
            },
            false => self.bounds.step(at, verdict.direction),
        };
        Course {
            direction: verdict.direction,
            s_max: to.s_max,
            common: to.codec,
            choices: self.everybody(to.codec, &verdict.reason),
            reason: verdict.reason,
            rho_floor: None,
        }
    }

    /// No policy: everybody as configured.
    pub(super) fn steady(&self) -> Course {
        Course {
            direction: Direction::Hold,
            reason: "hold (controller.enabled is false)".to_owned(),
            s_max: self.s_max,
            common: self.assignments.common(),
            choices: self.everybody(self.assignments.common(), "as configured"),
            rho_floor: None,
        }
    }

    /// `budget`: a codec for each, and `s_max` by whether quality holds and who is late.
    pub(super) fn budget(&mut self, signals: &Signals, drop: Option<f64>) -> Course {
        let least = self
            .assignments
            .codecs()
            .into_iter()
            .filter_map(rho)
            .fold(f64::INFINITY, f64::min);
        let least = if least.is_finite() {
            least
        } else {
            self.config.rho_bounds[1]
        };
        let finding = self
            .guard
            .judge(&self.config, (signals, drop), &mut self.streak, least);
        let floor = self.guard.floor();
        let choose = |worker: WorkerId| {
            let at = self.assignments.of(worker).codec;
            let kept = |reason: &str| Choice {
                codec: at,
                reason: reason.to_owned(),
            };
            match self.links.get(worker).filter(|line| line.window().pushes > 0) {
                _ if !self.config.adapt_compression => kept("adapt_compression is false"),
                None => kept("no pushes"),
                Some(line) => budget::choose(&self.config, line, (self.configured, at), floor),
            }
        };
        let choices = self
            .assignments
            .workers()
            .into_iter()
            .map(|worker| (worker, choose(worker)))
            .collect();
        let (step, mut reason) = self.budget_s_max(&finding);
        reason.push_str(policy::loss_note(signals));
        Course {
            direction: Direction::Hold,
            reason,
            s_max: if self.bounded {
                self.bounds.step_s_max(self.s_max, step)
            } else {
                self.s_max
            },
            common: self.assignments.common(),
            choices,
            rho_floor: Some(floor),
        }
    }

    fn budget_s_max(&self, finding: &Finding) -> (Direction, String) {
        let late = self.links.iter().find(|(_, line)| {
            line.window().pushes > 0 && line.window().rejected_frac() > self.config.reject_frac_max
        });
        match (finding, late) {
            (Finding::Unstable(why), _) => (Direction::Safer, format!("backing off: {why}")),
            (Finding::Suspicious(why), _) => (Direction::Hold, format!("hold ({why})")),
            (Finding::Calm, Some((worker, line))) => {
                let percent = 100.0 * line.window().rejected_frac();
                let why = format!("a wider bound: {percent:.0} % of worker {worker}'s pushes rejected");
                (Direction::Aggressive, why)
            }
            (Finding::Calm, None) => (Direction::Hold, "within budget".to_owned()),
        }
    }

    fn everybody(&self, codec: Codec, reason: &str) -> Vec<(WorkerId, Choice)> {
        let choice = |worker| {
            (
                worker,
                Choice {
                    codec,
                    reason: reason.to_owned(),
                },
            )
        };
        self.assignments.workers().into_iter().map(choice).collect()
    }
}

fn rho(codec: Codec) -> Option<f64> {
    match codec {
        Codec::TopK(rho) => Some(rho.get()),
        Codec::Identity | Codec::Quantize(_) | Codec::Sign => None,
    }
}
