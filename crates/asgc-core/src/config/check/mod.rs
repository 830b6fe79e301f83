//! The rules that single values and combinations must keep.

mod controller;
mod downlink;
mod policies;
mod processes;
mod simulation;
mod workload;

use super::{Config, Mode};
use std::fmt;

/// A value that breaks a rule: where it is, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// `section.key`.
    pub path: &'static str,
    /// What is wrong and what to do.
    pub problem: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

/// All rules that `config` breaks; empty when it is sound.
#[must_use]
pub fn validate(config: &Config) -> Vec<Invalid> {
    let mut found = Vec::new();
    let mut rule = |holds: bool, path: &'static str, problem: &str| {
        if !holds {
            found.push(Invalid {
                path,
                problem: problem.to_owned(),
            });
        }
    };
    workload::check(config, &mut rule);
    policies::check(config, &mut rule);
    controller::check(config, &mut rule);
    downlink::check(config, &mut rule);
    processes::check(config, &mut rule);
    simulation::check(config, &mut rule);
    found
}

type Rule<'a> = dyn FnMut(bool, &'static str, &str) + 'a;

const SECONDS: &str = "must be a number of seconds, 0 or more";

/// A century: far beyond any run, and safe to convert to a `Duration`.
const MAX_SECONDS: f64 = 3.2e9;

fn is_duration(seconds: f64) -> bool {
    (0.0..=MAX_SECONDS).contains(&seconds)
}

impl Config {
    /// The consistency mode: `server.mode`, else what `workload.sync` says.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self.server.mode {
            Some(mode) => mode,
            None if self.workload.sync => Mode::Sync,
            None => Mode::Async,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(change: impl FnOnce(&mut Config)) -> Vec<&'static str> {
        let mut config = Config::default();
        change(&mut config);
        validate(&config)
            .into_iter()
            .map(|invalid| invalid.path)
            .collect()
    }

    #[test]
    fn defaults_are_sound() {
        assert_eq!(validate(&Config::default()), []);
    }

    #[test]
    fn each_bad_value_is_named() {
        assert_eq!(paths(|c| c.workload.lr = f64::NAN), ["workload.lr"]);
        assert_eq!(paths(|c| c.compression.rho = 0.0), ["compression.rho"]);
        assert_eq!(paths(|c| c.staleness.s_low = 9), ["staleness.s_max"]);
        assert_eq!(paths(|c| c.server.quorum = Some(2)), ["server.quorum"]);
        assert_eq!(paths(|c| c.optimizer.nesterov = true), ["optimizer.nesterov"]);
        assert_eq!(paths(|c| c.run.device = "cuda:x".into()), ["run.device"]);
        assert_eq!(paths(|c| c.staleness.reclaim = true), ["staleness.reclaim"]);
        assert_eq!(
            paths(|c| c.server.stop_at_target = true),
            ["server.stop_at_target"]
        );
        assert_eq!(
            paths(|c| c.workload.model = super::super::Model::Resnet18),
            ["workload.model"]
        );
        let contradiction = paths(|c| {
            c.workload.sync = true;
            c.server.mode = Some(Mode::Async);
        });
        assert_eq!(contradiction, ["server.mode"]);
        let never_enough = paths(|c| {
            c.workload.sync = true;
            c.server.min_workers = c.workload.num_workers + 1;
        });
        assert_eq!(never_enough, ["server.min_workers"]);
    }
}
