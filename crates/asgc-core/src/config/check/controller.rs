//! `controller`.

use super::{Rule, is_duration};
use crate::config::{CompressionMode, Config, Mode};

/// More often, a window would hold next to nothing.
const MIN_INTERVAL_S: f64 = 0.1;

pub(super) fn check(config: &Config, rule: &mut Rule<'_>) {
    check_signals(config, rule);
    check_steps(config, rule);
    if config.controller.enabled {
        check_start(config, rule);
    }
}

fn check_signals(config: &Config, rule: &mut Rule<'_>) {
    let c = &config.controller;
    let positive = |x: f64| x.is_finite() && x >= 0.0;
    rule(
        is_duration(c.interval_s) && c.interval_s >= MIN_INTERVAL_S,
        "controller.interval_s",
        "must be at least 0.1 seconds",
    );
    rule(
        c.interval_versions != Some(0),
        "controller.interval_versions",
        "must be at least 1; leave it out to decide every controller.interval_s",
    );
    rule(
        c.instability_persistence > 0,
        "controller.instability_persistence",
        "must be at least 1 window",
    );
    let tolerances = [
        (c.worsen_tol, "controller.worsen_tol"),
        (c.variability_tol, "controller.variability_tol"),
        (c.comm_pressure_min, "controller.comm_pressure_min"),
        (c.accuracy_drop_max, "controller.accuracy_drop_max"),
        (c.residual_ratio_max, "controller.residual_ratio_max"),
        (c.noise_max, "controller.noise_max"),
    ];
    for (value, path) in tolerances {
        rule(positive(value), path, "must be a number, 0 or more");
    }
    rule(
        (0.0..=1.0).contains(&c.reject_frac_max),
        "controller.reject_frac_max",
        "is a fraction between 0 and 1",
    );
    let w = c.score_weights;
    rule(
        [w.a, w.b, w.c, w.d].into_iter().all(positive),
        "controller.score_weights",
        "must be numbers, 0 or more",
    );
}

fn check_steps(config: &Config, rule: &mut Rule<'_>) {
    let c = &config.controller;
    let [low, high] = c.rho_bounds;
    rule(
        0.0 < low && low <= high && high <= 1.0,
        "controller.rho_bounds",
        "must be [least, greatest], above 0 and at most 1",
    );
    let [low, high] = c.bits_bounds;
    rule(
        2 <= low && low <= high && high <= 8,
        "controller.bits_bounds",
        "must be [least, greatest], between 2 and 8",
    );
    let [low, high] = c.s_max_bounds;
    rule(
        low <= high,
        "controller.s_max_bounds",
        "must be [least, greatest]",
    );
    rule(
        c.max_delta_rho > 0.0 && c.max_delta_rho <= 1.0,
        "controller.max_delta_rho",
        "must be above 0 and at most 1; to hold rho, set controller.adapt_compression = false",
    );
    rule(
        c.max_delta_bits > 0,
        "controller.max_delta_bits",
        "must be at least 1; to hold bits, set controller.adapt_compression = false",
    );
    rule(
        c.max_delta_s_max > 0,
        "controller.max_delta_s_max",
        "must be at least 1; to hold s_max, set controller.adapt_staleness = false",
    );
    rule(
        c.comm_share_max > 0.0 && c.comm_share_max < 1.0,
        "controller.comm_share_max",
        "is a share of a step, above 0 and below 1",
    );
    rule(
        c.max_factor_rho > 1.0 && c.max_factor_rho.is_finite(),
        "controller.max_factor_rho",
        "must be above 1; to hold rho, set controller.adapt_compression = false",
    );
}

/// An enabled controller starts from the configured values, which must be places that it could move to.
fn check_start(config: &Config, rule: &mut Rule<'_>) {
    let (c, compression, staleness) = (&config.controller, &config.compression, &config.staleness);
    let within = match compression.mode {
        CompressionMode::Topk => (c.rho_bounds[0]..=c.rho_bounds[1]).contains(&compression.rho),
        _ => true,
    };
    rule(
        within || !c.adapt_compression,
        "compression.rho",
        "must lie within controller.rho_bounds, where the controller starts",
    );
    let within = match compression.mode {
        CompressionMode::Quantize => (c.bits_bounds[0]..=c.bits_bounds[1]).contains(&compression.bits),
        _ => true,
    };
    rule(
        within || !c.adapt_compression,
        "compression.bits",
        "must lie within controller.bits_bounds, where the controller starts",
    );
    if !c.adapt_staleness {
        return;
    }
    rule(
        staleness.enabled,
        "controller.adapt_staleness",
        "needs staleness.enabled = true; without a bound there is none to adapt",
    );
    rule(
        config.mode() != Mode::Sync,
        "controller.adapt_staleness",
        "must be false in sync mode, where nothing is stale",
    );
    rule(
        (c.s_max_bounds[0]..=c.s_max_bounds[1]).contains(&staleness.s_max),
        "staleness.s_max",
        "must lie within controller.s_max_bounds, where the controller starts",
    );
    rule(
        c.s_max_bounds[0] >= staleness.s_low,
        "controller.s_max_bounds",
        "must not begin below staleness.s_low",
    );
}

#[cfg(test)]
mod tests {
    use crate::config::{CompressionMode, Config, Controller, Mode, validate};

    /// The paths that a change breaks rules at, starting from an adaptive run with Top-K.
    fn check(change: impl FnOnce(&mut Config), expect: &[&str]) {
        let mut config = Config::default();
        config.controller.enabled = true;
        config.compression.mode = CompressionMode::Topk;
        config.staleness.enabled = true;
        change(&mut config);
        let found = validate(&config).into_iter().map(|invalid| invalid.path);
        assert_eq!(found.collect::<Vec<_>>(), expect, "{config:?}");
    }

    fn check_key(change: impl FnOnce(&mut Controller), expect: &[&str]) {
        check(|config| change(&mut config.controller), expect);
    }

    #[test]
    fn values_at_their_limits() {
        check(|_| {}, &[]);
        check_key(|c| c.interval_s = 0.1, &[]);
        check_key(|c| c.interval_s = 0.099, &["controller.interval_s"]);
        check_key(|c| c.interval_s = f64::INFINITY, &["controller.interval_s"]);
        check_key(|c| c.worsen_tol = 0.0, &[]);
        check_key(|c| c.worsen_tol = -1e-9, &["controller.worsen_tol"]);
        check_key(|c| c.variability_tol = f64::NAN, &["controller.variability_tol"]);
        check_key(|c| c.comm_pressure_min = -1.0, &["controller.comm_pressure_min"]);
        check_key(|c| c.reject_frac_max = 1.0, &[]);
        check_key(|c| c.reject_frac_max = 1.1, &["controller.reject_frac_max"]);
        check_key(|c| c.score_weights.c = -1.0, &["controller.score_weights"]);
        check_key(
            |c| c.instability_persistence = 0,
            &["controller.instability_persistence"],
        );
        check_key(|c| c.max_delta_rho = 0.0, &["controller.max_delta_rho"]);
        check_key(|c| c.max_delta_bits = 0, &["controller.max_delta_bits"]);
        check_key(|c| c.max_delta_s_max = 0, &["controller.max_delta_s_max"]);
        check_key(|c| c.interval_versions = Some(1), &[]);
        check_key(
            |c| c.interval_versions = Some(0),
            &["controller.interval_versions"],
        );
        check_key(|c| c.comm_share_max = 0.99, &[]);
        check_key(|c| c.comm_share_max = 1.0, &["controller.comm_share_max"]);
        check_key(|c| c.comm_share_max = 0.0, &["controller.comm_share_max"]);
        check_key(|c| c.max_factor_rho = 1.0, &["controller.max_factor_rho"]);
        check_key(|c| c.accuracy_drop_max = -0.1, &["controller.accuracy_drop_max"]);
        check_key(
            |c| c.residual_ratio_max = f64::NAN,
            &["controller.residual_ratio_max"],
        );
        check_key(|c| c.noise_max = f64::INFINITY, &["controller.noise_max"]);
        check(|c| c.error_feedback.cap = 0.0, &["error_feedback.cap"]);
        check(|c| c.error_feedback.decay = 1.1, &["error_feedback.decay"]);
    }

    #[test]
    fn bounds_are_ordered_and_within_what_a_codec_can_do() {
        check_key(|c| c.rho_bounds = [0.25, 0.25], &[]);
        check_key(|c| c.rho_bounds = [0.1, 1.0], &[]);
        check_key(|c| c.rho_bounds = [0.0, 0.5], &["controller.rho_bounds"]);
        check_key(|c| c.rho_bounds = [0.1, 1.01], &["controller.rho_bounds"]);
        check_key(|c| c.bits_bounds = [1, 8], &["controller.bits_bounds"]);
        check_key(|c| c.bits_bounds = [2, 9], &["controller.bits_bounds"]);
        check_key(|c| c.bits_bounds = [5, 4], &["controller.bits_bounds"]);
        check_key(
            |c| c.rho_bounds = [0.5, 0.1],
            &["controller.rho_bounds", "compression.rho"],
        );
        check_key(
            |c| c.s_max_bounds = [9, 8],
            &["controller.s_max_bounds", "staleness.s_max"],
        );
    }

    #[test]
    fn the_start_lies_within_the_bounds() {
        check(|c| c.compression.rho = 0.5, &[]);
        check(|c| c.compression.rho = 0.51, &["compression.rho"]);
        check(|c| c.staleness.s_max = 10, &[]);
        check(|c| c.staleness.s_max = 11, &["staleness.s_max"]);
        check(|c| c.staleness.s_low = 3, &["controller.s_max_bounds"]);
        let quantize = |c: &mut Config| {
            c.compression.mode = CompressionMode::Quantize;
            c.controller.bits_bounds = [4, 6];
        };
        check(quantize, &["compression.bits"]);
        // What is not adapted, or not even on, may be anywhere.
        check(
            |c| {
                c.compression.rho = 1.0;
                c.controller.adapt_compression = false;
            },
            &[],
        );
        check(
            |c| {
                c.staleness.s_max = 99;
                c.controller.adapt_staleness = false;
            },
            &[],
        );
        check(
            |c| {
                c.staleness.s_max = 99;
                c.controller.enabled = false;
            },
            &[],
        );
    }

    #[test]
    fn a_bound_that_is_off_cannot_adapt() {
        check(|c| c.staleness.enabled = false, &["controller.adapt_staleness"]);
        check(
            |c| c.server.mode = Some(Mode::Sync),
            &["controller.adapt_staleness"],
        );
        check(
            |c| {
                c.staleness.enabled = false;
                c.controller.adapt_staleness = false;
            },
            &[],
        );
    }
}
