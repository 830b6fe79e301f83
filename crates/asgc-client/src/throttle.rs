//! Injected delays, for experiments on links that are better than those in question.

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

    pub(crate) async fn before_pull(&self) {
        wait(self.delay).await;
    }

    pub(crate) async fn before_push(&self, payload_bytes: u64) {
        wait(self.delay + self.travel(payload_bytes)).await;
    }

    /// How long a payload takes at the injected rate.
    pub(crate) fn travel(&self, payload_bytes: u64) -> Duration {
        let travel = |rate| Duration::from_secs_f64(payload_bytes as f64 / rate);
        self.uplink_bytes_per_s.map_or(Duration::ZERO, travel)
    }
}

async fn wait(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_payload_takes_as_long_as_the_rate_says() {
        let began = tokio::time::Instant::now();
        // 250 Mbit/s are 31.25 MB/s; ResNet-18 dense takes 1.43 s.
        Throttle::new(0.0, 250.0).before_push(44_695_848).await;
        assert_eq!(began.elapsed().as_millis(), 1431);
        Throttle::new(10.0, 0.0).before_pull().await;
        assert_eq!(began.elapsed().as_millis(), 1441);
        Throttle::default().before_push(u64::MAX).await;
        assert_eq!(began.elapsed().as_millis(), 1441);
    }
}
