//! The rules that single values and combinations must keep.

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
    check_run(config, &mut rule);
    check_workload(config, &mut rule);
    check_heterogeneity(config, &mut rule);
    check_policies(config, &mut rule);
    check_server(config, &mut rule);
    check_worker(config, &mut rule);
    found
}

type Rule<'a> = dyn FnMut(bool, &'static str, &str) + 'a;

/// Whether `name` can be a folder of its own: no path, no control characters, no device name.
#[must_use]
pub(crate) fn is_plain_name(name: &str) -> bool {
    let reserved = ["con", "nul", "prn", "aux"];
    !name.is_empty()
        && name.len() <= 100
        && !name.starts_with('.')
        && !reserved.contains(&name.to_ascii_lowercase().as_str())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.+=".contains(c))
}

fn check_run(config: &Config, rule: &mut Rule<'_>) {
    let run = &config.run;
    rule(
        is_plain_name(&run.name),
        "run.name",
        "must be 1 to 100 letters, digits or any of - _ . + =, and must not start with a dot",
    );
    let device = run.device.as_str();
    let numbered = device
        .strip_prefix("cuda:")
        .is_some_and(|n| n.parse::<u32>().is_ok());
    rule(
        matches!(device, "auto" | "cpu" | "cuda") || numbered,
        "run.device",
        "must be auto, cpu, cuda or cuda:N",
    );
}

fn check_workload(config: &Config, rule: &mut Rule<'_>) {
    let w = &config.workload;
    rule(w.batch_size > 0, "workload.batch_size", "must be at least 1");
    rule(w.num_workers > 0, "workload.num_workers", "must be at least 1");
    rule(
        w.lr.is_finite() && w.lr > 0.0,
        "workload.lr",
        "must be a number above 0",
    );
    rule(
        (0.0..=1.0).contains(&w.lr_decay_frac),
        "workload.lr_decay_frac",
        "must lie between 0 and 1",
    );
    rule(
        w.lr_gamma.is_finite() && w.lr_gamma > 0.0,
        "workload.lr_gamma",
        "must be a number above 0",
    );
    rule(w.max_updates > 0, "workload.max_updates", "must be at least 1");
    rule(
        is_duration(w.max_wall_time_s) && w.max_wall_time_s > 0.0,
        "workload.max_wall_time_s",
        SECONDS,
    );
    rule(
        w.eval_interval > 0,
        "workload.eval_interval",
        "must be at least 1 version",
    );
    rule(
        w.target_accuracy.is_none_or(|a| (0.0..=1.0).contains(&a)),
        "workload.target_accuracy",
        "is a fraction between 0 and 1",
    );
    let fits = matches!(
        (w.dataset, w.model),
        (super::Dataset::Cifar10, super::Model::Resnet18)
            | (
                super::Dataset::FashionMnist | super::Dataset::Procedural,
                super::Model::SmallCnn
            )
    );
    rule(
        fits,
        "workload.model",
        "does not fit workload.dataset: small_cnn reads fashion_mnist and procedural, resnet18 reads cifar10",
    );
}

fn check_heterogeneity(config: &Config, rule: &mut Rule<'_>) {
    let h = &config.heterogeneity;
    rule(
        h.compute_delay.values().all(|&d| is_duration(d)),
        "heterogeneity.compute_delay",
        SECONDS,
    );
    rule(
        is_duration(h.comm_delay_ms),
        "heterogeneity.comm_delay_ms",
        "must be a number of ms, 0 or more",
    );
    rule(
        h.bandwidth_mbps.is_finite() && h.bandwidth_mbps >= 0.0,
        "heterogeneity.bandwidth_mbps",
        "must be a number of Mbit/s, or 0 for no limit",
    );
}

fn check_policies(config: &Config, rule: &mut Rule<'_>) {
    let c = &config.compression;
    rule(
        c.rho > 0.0 && c.rho <= 1.0,
        "compression.rho",
        "must be above 0 and at most 1",
    );
    rule(
        (2..=8).contains(&c.bits),
        "compression.bits",
        "must lie between 2 and 8",
    );
    let s = &config.staleness;
    rule(
        s.s_low <= s.s_max,
        "staleness.s_max",
        "must not be below staleness.s_low",
    );
    rule(
        s.beta.is_finite() && s.beta >= 0.0,
        "staleness.beta",
        "must be a number, 0 or more",
    );
    rule(
        !s.reclaim || config.error_feedback.enabled,
        "staleness.reclaim",
        "needs error_feedback.enabled = true: the residual is where the rest is put back",
    );
    let o = &config.optimizer;
    rule(
        (0.0..1.0).contains(&o.momentum),
        "optimizer.momentum",
        "must be at least 0 and below 1",
    );
    rule(
        !o.nesterov || o.momentum > 0.0,
        "optimizer.nesterov",
        "needs optimizer.momentum above 0",
    );
    rule(
        o.weight_decay.is_finite() && o.weight_decay >= 0.0,
        "optimizer.weight_decay",
        "must be a number, 0 or more",
    );
}

fn check_server(config: &Config, rule: &mut Rule<'_>) {
    let s = &config.server;
    rule(
        !config.workload.sync || matches!(s.mode, None | Some(Mode::Sync)),
        "server.mode",
        "contradicts workload.sync = true; set one of them",
    );
    rule(
        s.quorum.is_none_or(|q| q > 0 && q <= config.workload.num_workers),
        "server.quorum",
        "must be at least 1 and at most workload.num_workers",
    );
    rule(
        s.quorum.is_none() || config.mode() == Mode::Sync,
        "server.quorum",
        "has a meaning in sync mode only",
    );
    rule(s.min_workers > 0, "server.min_workers", "must be at least 1");
    rule(
        config.mode() != Mode::Sync || s.min_workers <= config.workload.num_workers,
        "server.min_workers",
        "is more than workload.num_workers, and a sync run lets no more than those in",
    );
    rule(
        !s.stop_at_target || config.workload.target_accuracy.is_some(),
        "server.stop_at_target",
        "needs workload.target_accuracy",
    );
    rule(is_duration(s.drain_s), "server.drain_s", SECONDS);
    rule(
        is_duration(s.liveness_s) && s.liveness_s >= 1.0,
        "server.liveness_s",
        "must be at least 1 second",
    );
    rule(s.max_sessions > 0, "server.max_sessions", "must be at least 1");
    rule(s.queue_depth > 0, "server.queue_depth", "must be at least 1");
    rule(
        (1 << 10..=2 << 20).contains(&s.chunk_bytes) && s.chunk_bytes.is_multiple_of(4),
        "server.chunk_bytes",
        "must be a multiple of 4 between 1024 and 2097152",
    );
    rule(
        s.max_parameters > 0,
        "server.max_parameters",
        "must be at least 1",
    );
}

fn check_worker(config: &Config, rule: &mut Rule<'_>) {
    let w = &config.worker;
    rule(w.threads > 0, "worker.threads", "must be at least 1");
    rule(is_duration(w.give_up_after_s), "worker.give_up_after_s", SECONDS);
    rule(
        w.eval_batch_size > 0,
        "worker.eval_batch_size",
        "must be at least 1",
    );
    rule(
        w.server.starts_with("http://") || w.server.starts_with("https://"),
        "worker.server",
        "must be http://HOST:PORT",
    );
}

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

    #[test]
    fn names_never_lead_out_of_their_folder() {
        for bad in [
            "", ".", "..", "../x", "/etc/x", "a/b", "CON", "a\0b", ".hidden", "a b",
        ] {
            assert!(!is_plain_name(bad), "{bad:?}");
        }
        assert!(!is_plain_name(&"x".repeat(300)));
        assert!(is_plain_name("fmnist_headline-s0.1"));
    }
}
