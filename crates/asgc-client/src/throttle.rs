//! Injected delays, for experiments on links that are better than those in question. They are waited for where a message
//! leaves (`upload`, `session/drive`), one beside the other as on a long way; what a payload takes at the injected rate is
//! waited for one after the other, as on a thin one.

use std::time::Duration;

/// How a link is made worse than it is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Throttle {
    /// Added to every push and every pull.
    pub delay: Duration,
    /// Rate that pushes are held to, in bytes a second.
    pub uplink_bytes_per_s: Option<f64>,
}

impl Throttle {
    /// From `heterogeneity.comm_delay_ms` and `heterogeneity.bandwidth_mbps` (0 is no limit).
    #[must_use]
    pub fn new(comm_delay_ms: f64, bandwidth_mbps: f64) -> Self {
        Self {
            delay: Duration::from_secs_f64(comm_delay_ms / 1e3),
            uplink_bytes_per_s: (bandwidth_mbps > 0.0).then_some(bandwidth_mbps * 125_000.0),
        }
    }

    /// How long a payload takes at the injected rate.
    pub(crate) fn travel(&self, payload_bytes: u64) -> Duration {
        let travel = |rate| Duration::from_secs_f64(payload_bytes as f64 / rate);
        self.uplink_bytes_per_s.map_or(Duration::ZERO, travel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_takes_as_long_as_the_rate_says() {
        // 250 Mbit/s are 31.25 MB/s; ResNet-18 dense takes 1.43 s.
        let throttle = Throttle::new(10.0, 250.0);
        assert_eq!(throttle.travel(44_695_848).as_millis(), 1430);
        assert_eq!(throttle.delay, Duration::from_millis(10));
        assert_eq!(Throttle::default().travel(u64::MAX), Duration::ZERO);
    }
}
