//! `server` and `worker`.

use super::{Rule, SECONDS, is_duration};
use crate::config::{Config, Mode};

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
