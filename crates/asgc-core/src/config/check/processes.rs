//! `server` and `worker`.

use super::{Rule, SECONDS, is_duration};
use crate::config::{Config, Mode};
use crate::worker::MAX_IN_FLIGHT;

/// Beyond these it is no longer the same training, and `asgc plan` proposes no more.
const MAX_LOCAL_STEPS: u32 = 1000;

pub(super) fn check(config: &Config, rule: &mut Rule<'_>) {
    check_server(config, rule);
    check_worker(config, rule);
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
    rule(s.threads <= 256, "server.threads", "must be at most 256");
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
    rule(
        (1..=MAX_IN_FLIGHT).contains(&(w.pipeline_depth as usize)),
        "worker.pipeline_depth",
        "must be between 1 and 16",
    );
    rule(
        w.pipeline_depth == 1 || config.mode() != Mode::Sync,
        "worker.pipeline_depth",
        "must be 1 in sync mode: a gradient computed ahead of its round would be late for the next",
    );
    rule(
        (1..=MAX_LOCAL_STEPS).contains(&w.local_steps),
        "worker.local_steps",
        "must be between 1 and 1000",
    );
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Mode, validate};

    fn problems(change: impl FnOnce(&mut Config)) -> Vec<String> {
        let mut config = Config::default();
        change(&mut config);
        let found = validate(&config).into_iter();
        found.map(|invalid| invalid.to_string()).collect()
    }

    #[test]
    fn a_pipeline_is_at_most_as_deep_as_the_server_remembers() {
        for depth in [1, 2, 16] {
            assert!(problems(|c| c.worker.pipeline_depth = depth).is_empty());
        }
        for depth in [0, 17, u32::MAX] {
            let found = problems(|c| c.worker.pipeline_depth = depth);
            assert_eq!(found, ["worker.pipeline_depth: must be between 1 and 16"]);
        }
    }

    #[test]
    fn a_synchronous_run_has_no_pipeline() {
        let in_mode = |mode| {
            problems(|c| {
                c.server.mode = Some(mode);
                c.worker.pipeline_depth = 2;
            })
        };
        assert!(in_mode(Mode::Ssp).is_empty() && in_mode(Mode::Async).is_empty());
        let found = in_mode(Mode::Sync);
        assert!(
            matches!(&found[..], [one] if one.starts_with("worker.pipeline_depth: must be 1 in sync mode")),
            "{found:?}"
        );
    }

    #[test]
    fn local_steps_are_bounded() {
        assert!(problems(|c| c.worker.local_steps = 1000).is_empty());
        for steps in [0, 1001] {
            let found = problems(|c| c.worker.local_steps = steps);
            assert_eq!(found, ["worker.local_steps: must be between 1 and 1000"]);
        }
    }
}
