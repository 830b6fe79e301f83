//! `downlink`.

use super::Rule;
use crate::codec::Values;
use crate::config::{Config, DownlinkMode, Mode};

pub(super) fn check(config: &Config, rule: &mut Rule<'_>) {
    let d = &config.downlink;
    rule(
        d.rho > 0.0 && d.rho <= 1.0,
        "downlink.rho",
        "must be above 0 and at most 1",
    );
    rule(
        d.values != Values::Fp16,
        "downlink.values",
        "fp16 is for identity; a broadcast has f32, bf16 or int8",
    );
    rule(d.interval >= 1, "downlink.interval", "must be at least 1");
    rule(
        d.interval <= 1 || d.mode != DownlinkMode::Lossy || config.mode() != Mode::Sync,
        "downlink.interval",
        "must be 1 in sync mode: each round begins with what the round before made",
    );
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, DownlinkMode, validate};

    fn paths(change: impl FnOnce(&mut Config)) -> Vec<&'static str> {
        let mut config = Config::default();
        change(&mut config);
        validate(&config)
            .into_iter()
            .map(|invalid| invalid.path)
            .collect()
    }

    #[test]
    fn each_bad_value_is_named() {
        assert_eq!(paths(|c| c.downlink.rho = 0.0), ["downlink.rho"]);
        assert_eq!(paths(|c| c.downlink.interval = 0), ["downlink.interval"]);
        let fp16 = crate::codec::Values::Fp16;
        assert_eq!(paths(|c| c.downlink.values = fp16), ["downlink.values"]);
        let late = paths(|c| {
            c.workload.sync = true;
            (c.downlink.mode, c.downlink.interval) = (DownlinkMode::Lossy, 2);
        });
        assert_eq!(late, ["downlink.interval"]);
    }
}
