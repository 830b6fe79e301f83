//! The control vector and the decisions about it.

use asgc_core::config::{CompressionMode, Config};
use asgc_core::event::{Control, Direction};
use asgc_daemon::metrics::Registry;
use asgc_daemon::metrics::prometheus::{Error, Gauge, IntCounterVec};

/// Bits of a value that is sent as it is.
const FULL_BITS: f64 = 32.0;

#[derive(Debug)]
pub(super) struct ControlMetrics {
    rho: Gauge,
    bits: Gauge,
    s_max: Gauge,
    decisions: IntCounterVec,
}

impl ControlMetrics {
    /// Starts with what `config` says: without a controller that stays so.
    pub(super) fn new(registry: &Registry, config: &Config) -> Result<Self, Error> {
        let metrics = Self {
            rho: registry.gauge(
                "asgc_server_rho_ratio",
                "Share of a gradient's entries that trainers are to send; 1 where all are sent",
            )?,
            bits: registry.gauge(
                "asgc_server_bits",
                "Bits of an entry that trainers are to send; 32 where entries are not quantized",
            )?,
            s_max: registry.gauge(
                "asgc_server_s_max_versions",
                "Staleness beyond which pushes are rejected; +Inf without a bound",
            )?,
            decisions: registry.counters(
                "asgc_server_control_decisions_total",
                "Decisions of the controller by direction, also where a bound let nothing move",
                &["direction"],
            )?,
        };
        for direction in [Direction::Safer, Direction::Hold, Direction::Aggressive] {
            // A rate needs a 0 to rise from.
            metrics.decisions.with_label_values(&[direction.as_str()]);
        }
        let compression = &config.compression;
        let (rho, bits) = match compression.mode {
            CompressionMode::Identity | CompressionMode::Sign => (1.0, FULL_BITS),
            CompressionMode::Topk => (compression.rho, FULL_BITS),
            CompressionMode::Quantize => (1.0, f64::from(compression.bits)),
        };
        metrics.rho.set(rho);
        metrics.bits.set(bits);
        metrics.s_max.set(if config.staleness.enabled {
            config.staleness.s_max as f64
        } else {
            f64::INFINITY
        });
        Ok(metrics)
    }

    pub(super) fn observe(&self, control: &Control) {
        let direction = control.direction.as_str();
        self.decisions.with_label_values(&[direction]).inc();
        match (control.compression_mode.as_str(), control.new_compression) {
            ("topk", Some(rho)) => self.rho.set(rho),
            ("quantize", Some(bits)) => self.bits.set(bits),
            _ => {}
        }
        // Where there is no bound, the controller's value for it has no meaning.
        if self.s_max.get().is_finite() {
            self.s_max.set(control.new_s_max as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use asgc_core::ids::Revision;
    use asgc_daemon::exit::Program;

    fn control(mode: &str, new_compression: Option<f64>, direction: Direction) -> Control {
        Control {
            elapsed_s: 1.0,
            policy: "threshold".into(),
            loss_trend: None,
            loss_variability: None,
            mean_staleness: 0.0,
            rejected_frac: 0.0,
            bytes_per_s: 0.0,
            updates_per_s: 0.0,
            residual_norm_var: 0.0,
            compression_mode: mode.into(),
            old_compression: new_compression,
            new_compression,
            old_s_max: 4,
            new_s_max: 5,
            direction,
            reason: "hold".into(),
            revision: Revision(0),
            loss_source: None,
            accuracy_drop: None,
            rho_floor: None,
            workers: vec![],
            operator: None,
        }
    }

    /// The series after the given decisions, without help and types.
    fn check(change: impl FnOnce(&mut Config), controls: &[Control], expect: &str) {
        let program = Program {
            name: "asgc-server",
            version: "0",
        };
        let registry = Registry::new(program).unwrap();
        let mut config = Config::default();
        change(&mut config);
        let metrics = ControlMetrics::new(&registry, &config).unwrap();
        controls.iter().for_each(|control| metrics.observe(control));
        let text = registry.encode().unwrap();
        let ours = text.lines().filter(|line| line.starts_with("asgc_server"));
        assert_eq!(ours.collect::<Vec<_>>().join("\n"), expect);
    }

    #[test]
    fn what_is_not_compressed_and_not_bounded_says_so() {
        check(
            |_| {},
            &[],
            "asgc_server_bits 32\n\
             asgc_server_control_decisions_total{direction=\"aggressive\"} 0\n\
             asgc_server_control_decisions_total{direction=\"hold\"} 0\n\
             asgc_server_control_decisions_total{direction=\"safer\"} 0\n\
             asgc_server_rho_ratio 1\n\
             asgc_server_s_max_versions inf",
        );
    }

    #[test]
    fn decisions_move_the_gauge_of_their_codec() {
        let topk = |config: &mut Config| {
            config.compression.mode = CompressionMode::Topk;
            config.staleness.enabled = true;
        };
        let decisions = [
            control("topk", Some(0.2), Direction::Aggressive),
            control("topk", Some(0.15), Direction::Aggressive),
            control("topk", Some(0.2), Direction::Safer),
        ];
        check(
            topk,
            &decisions,
            "asgc_server_bits 32\n\
             asgc_server_control_decisions_total{direction=\"aggressive\"} 2\n\
             asgc_server_control_decisions_total{direction=\"hold\"} 0\n\
             asgc_server_control_decisions_total{direction=\"safer\"} 1\n\
             asgc_server_rho_ratio 0.2\n\
             asgc_server_s_max_versions 5",
        );
        let quantize = |config: &mut Config| config.compression.mode = CompressionMode::Quantize;
        check(
            quantize,
            &[control("quantize", Some(6.0), Direction::Hold)],
            "asgc_server_bits 6\n\
             asgc_server_control_decisions_total{direction=\"aggressive\"} 0\n\
             asgc_server_control_decisions_total{direction=\"hold\"} 1\n\
             asgc_server_control_decisions_total{direction=\"safer\"} 0\n\
             asgc_server_rho_ratio 1\n\
             asgc_server_s_max_versions inf",
        );
    }
}
