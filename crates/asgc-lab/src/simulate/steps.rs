//! How long a simulated trainer computes.

use asgc_core::config::{Config, StepTime};
use asgc_core::ids::WorkerId;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp1, LogNormal};
use std::time::Duration;

/// The first of the seed's streams that draw times, one a worker: away from those that draw numbers.
const STREAMS: u64 = 1 << 40;

/// One trainer's times.
#[derive(Debug)]
pub(super) struct Steps {
    kind: Kind,
    mean_s: f64,
    rng: ChaCha8Rng,
    delay_s: f64,
    /// For each push.
    local: u32,
}

#[derive(Debug)]
enum Kind {
    Fixed,
    /// Of mean 1.
    Lognormal(LogNormal<f64>),
    Exponential,
}

impl Steps {
    pub(super) fn new(config: &Config, worker: WorkerId) -> Self {
        let simulation = &config.simulation;
        let mut rng = ChaCha8Rng::seed_from_u64(config.run.seed);
        rng.set_stream(STREAMS + u64::from(worker.0));
        let delay = config.heterogeneity.compute_delay.get(&worker.0);
        let own = simulation.step_by_worker.get(&worker.0);
        Self {
            kind: kind(simulation.step, simulation.step_spread),
            mean_s: own.copied().unwrap_or(simulation.step_s),
            rng,
            delay_s: delay.copied().unwrap_or(0.0),
            local: config.worker.local_steps.max(1),
        }
    }

    /// The steps of the next push, injected delays included.
    pub(super) fn next(&mut self) -> Duration {
        let steps_s = (0..self.local).map(|_| self.one_s()).sum();
        Duration::try_from_secs_f64(steps_s).unwrap_or(Duration::MAX)
    }

    fn one_s(&mut self) -> f64 {
        let factor = match &self.kind {
            Kind::Fixed => 1.0,
            Kind::Lognormal(spread) => spread.sample(&mut self.rng),
            Kind::Exponential => Exp1.sample(&mut self.rng),
        };
        self.delay_s + self.mean_s * factor
    }
}

fn kind(step: StepTime, spread: f64) -> Kind {
    match step {
        StepTime::Measured | StepTime::Fixed => Kind::Fixed,
        StepTime::Exponential => Kind::Exponential,
        StepTime::Lognormal => {
            // Of exp(N(mu, sigma)) the mean is exp(mu + sigma^2 / 2), and the squared coefficient of variation
            // exp(sigma^2) - 1.
            let variance = (1.0 + spread * spread).ln();
            LogNormal::new(-variance / 2.0, variance.sqrt()).map_or(Kind::Fixed, Kind::Lognormal)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(kind: StepTime, worker: u32) -> Vec<f64> {
        let mut config = Config::default();
        (config.simulation.step, config.simulation.step_s) = (kind, 0.2);
        config.simulation.step_spread = 0.5;
        config.simulation.step_by_worker = [(2, 0.4)].into();
        config.heterogeneity.compute_delay = [(1, 0.3)].into();
        let mut steps = Steps::new(&config, WorkerId(worker));
        (0..20_000).map(|_| steps.next().as_secs_f64()).collect()
    }

    fn moments(values: &[f64]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        (mean, variance.sqrt())
    }

    #[test]
    fn delays_and_own_times_count() {
        assert_eq!(steps(StepTime::Fixed, 0)[..2], [0.2, 0.2]);
        assert_eq!(steps(StepTime::Fixed, 1)[0], 0.5);
        assert_eq!(steps(StepTime::Fixed, 2)[0], 0.4);
    }

    #[test]
    fn drawn_times_have_the_mean_and_spread_that_was_asked_for() {
        // Standard errors of the mean: 0.1 / sqrt 20000 = 0.0007 and 0.2 / sqrt 20000 = 0.0014.
        let (mean, deviation) = moments(&steps(StepTime::Lognormal, 0));
        assert!(
            (mean - 0.2).abs() < 0.004 && (deviation - 0.1).abs() < 0.01,
            "{mean} {deviation}"
        );
        let (mean, deviation) = moments(&steps(StepTime::Exponential, 0));
        assert!(
            (mean - 0.2).abs() < 0.007 && (deviation - 0.2).abs() < 0.02,
            "{mean} {deviation}"
        );
    }

    #[test]
    fn local_steps_take_their_time_one_by_one() {
        let mut config = Config::default();
        (config.simulation.step, config.simulation.step_s) = (StepTime::Fixed, 0.25);
        config.heterogeneity.compute_delay = [(1, 0.5)].into();
        config.worker.local_steps = 4;
        let of = |worker| Steps::new(&config, WorkerId(worker)).next().as_secs_f64();
        assert_eq!((of(0), of(1)), (1.0, 3.0));
    }

    #[test]
    fn each_worker_draws_its_own() {
        assert_eq!(steps(StepTime::Lognormal, 0), steps(StepTime::Lognormal, 0));
        assert_ne!(steps(StepTime::Lognormal, 0), steps(StepTime::Lognormal, 3));
    }
}
