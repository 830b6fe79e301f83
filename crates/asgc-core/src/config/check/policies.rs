//! `compression`, `staleness`, `error_feedback` and `optimizer`.

use super::Rule;
use crate::config::Config;

pub(super) fn check(config: &Config, rule: &mut Rule<'_>) {
    check_compression(config, rule);
    check_staleness(config, rule);
    check_residual(config, rule);
    check_correction(config, rule);
    check_optimizer(config, rule);
}

fn check_compression(config: &Config, rule: &mut Rule<'_>) {
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
    if let Ok(codec) = c.codec()
        && let Err(problem) = c.form().check(codec)
    {
        rule(false, "compression.values", problem);
    }
}

fn check_staleness(config: &Config, rule: &mut Rule<'_>) {
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
}

fn check_residual(config: &Config, rule: &mut Rule<'_>) {
    let e = &config.error_feedback;
    rule(
        e.cap.is_finite() && e.cap > 0.0,
        "error_feedback.cap",
        "must be above 0; to drop nothing, set error_feedback.bound = \"none\"",
    );
    rule(
        e.decay > 0.0 && e.decay <= 1.0,
        "error_feedback.decay",
        "is a share above 0 and at most 1; to drop nothing, set error_feedback.bound = \"none\"",
    );
}

fn check_correction(config: &Config, rule: &mut Rule<'_>) {
    let e = &config.error_feedback;
    rule(
        (0.0..1.0).contains(&e.momentum),
        "error_feedback.momentum",
        "must be at least 0 and below 1",
    );
    rule(
        e.momentum == 0.0 || e.enabled,
        "error_feedback.momentum",
        "needs error_feedback.enabled = true: what is not sent at once must wait somewhere",
    );
    rule(
        e.momentum == 0.0 || config.optimizer.momentum == 0.0,
        "error_feedback.momentum",
        "and optimizer.momentum would both accelerate the same gradients; set one of them to 0",
    );
    rule(
        e.clip_norm.is_finite() && e.clip_norm >= 0.0,
        "error_feedback.clip_norm",
        "must be a number, 0 or more",
    );
    let c = &config.compression;
    rule(
        c.warmup_rho > 0.0 && c.warmup_rho <= 1.0,
        "compression.warmup_rho",
        "must be above 0 and at most 1",
    );
}

fn check_optimizer(config: &Config, rule: &mut Rule<'_>) {
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
