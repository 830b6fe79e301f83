//! The quality guard of the `budget` policy: however thin a link, no one compresses beyond where it shows.
//!
//! A window is unstable when its rebound exceeds `variability_tol`, or its last test accuracy lies more than
//! `accuracy_drop_max` below the best of the run. `instability_persistence` unstable windows in a row raise a floor
//! under every trainer's `rho` to `max_factor_rho` times the least one in use; each stable window lowers it by the
//! square root of that factor. So it backs off fast and comes back slowly.

use super::window::Signals;
use crate::config::Controller;

/// What the guard makes of a window.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// Nothing amiss.
    Calm,
    /// Amiss, but not for long enough.
    Suspicious(String),
    /// Amiss: the floor was raised.
    Unstable(String),
}

/// The guard of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Guard {
    best_accuracy: Option<f64>,
    floor: f64,
}

impl Guard {
    /// A guard whose floor lies at the lower bound.
    #[must_use]
    pub fn new(config: &Controller) -> Self {
        Self {
            best_accuracy: None,
            floor: config.rho_bounds[0],
        }
    }

    /// The least `rho` that anybody may use.
    #[must_use]
    pub fn floor(&self) -> f64 {
        self.floor
    }

    /// Takes note of a window's accuracy: how far its last lies below the best of the run.
    pub fn accuracy_drop(&mut self, signals: &Signals) -> Option<f64> {
        let accuracy = signals.accuracy?;
        let best = self
            .best_accuracy
            .map_or(accuracy.best, |best| best.max(accuracy.best));
        self.best_accuracy = Some(best);
        Some(best - accuracy.last)
    }

    /// Judges a window; `streak` counts unstable ones in a row, `least_rho` is the least in use.
    pub fn judge(
        &mut self,
        config: &Controller,
        (signals, drop): (&Signals, Option<f64>),
        streak: &mut u32,
        least_rho: f64,
    ) -> Finding {
        let [lowest, highest] = config.rho_bounds;
        let Some(why) = amiss(config, signals, drop) else {
            *streak = 0;
            self.floor = (self.floor / config.max_factor_rho.sqrt()).max(lowest);
            return Finding::Calm;
        };
        *streak = streak.saturating_add(1);
        let needed = config.instability_persistence;
        if *streak < needed {
            return Finding::Suspicious(format!("{why}, {streak}/{needed}"));
        }
        self.floor = (least_rho.max(self.floor) * config.max_factor_rho).min(highest);
        Finding::Unstable(why)
    }
}

fn amiss(config: &Controller, signals: &Signals, drop: Option<f64>) -> Option<String> {
    let rebound = signals.loss.map(|loss| loss.rebound);
    if let Some(rebound) = rebound.filter(|rebound| *rebound > config.variability_tol) {
        return Some(format!("rebound {rebound:.3} above {}", config.variability_tol));
    }
    let drop = drop.filter(|drop| *drop > config.accuracy_drop_max)?;
    Some(format!("accuracy {drop:.3} below its best"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::tests::{config, eval};
    use crate::controller::window::Window;

    /// Rebound tolerance 0.02, accuracy 0.02, `rho` 0.01 to 0.5, factor 4.
    fn controller(change: impl FnOnce(&mut Controller)) -> Controller {
        config(|config| {
            config.controller.rho_bounds = [0.01, 0.5];
            change(&mut config.controller);
        })
        .controller
    }

    fn window(losses: &[f64], accuracies: &[f64]) -> Signals {
        let mut window = Window::default();
        for (version, (&loss, &accuracy)) in (1..).zip(losses.iter().zip(accuracies)) {
            let mut event = eval(version, loss);
            if let crate::event::Event::Eval(eval) = &mut event {
                eval.test_accuracy = accuracy;
            }
            window.fold(&event);
        }
        window.signals(true)
    }

    fn judge(guard: &mut Guard, config: &Controller, signals: &Signals, streak: &mut u32) -> Finding {
        let drop = guard.accuracy_drop(signals);
        guard.judge(config, (signals, drop), streak, 0.02)
    }

    #[test]
    fn each_sign_and_its_limit() {
        let config = controller(|_| {});
        let finds = |losses: &[f64], accuracies: &[f64]| {
            judge(
                &mut Guard::new(&config),
                &config,
                &window(losses, accuracies),
                &mut 0,
            )
        };
        assert_eq!(finds(&[], &[]), Finding::Calm);
        assert_eq!(finds(&[1.0, 0.5], &[0.5, 0.6]), Finding::Calm);
        assert_eq!(finds(&[1.0, 1.015], &[0.5, 0.49]), Finding::Calm);
        let unstable = |why: &str| Finding::Unstable(why.to_owned());
        assert_eq!(
            finds(&[1.0, 1.5], &[0.5, 0.5]),
            unstable("rebound 0.500 above 0.02")
        );
        assert_eq!(
            finds(&[1.0, 0.9], &[0.6, 0.5]),
            unstable("accuracy 0.100 below its best")
        );
    }

    #[test]
    fn the_best_is_that_of_the_run() {
        let config = controller(|_| {});
        let mut guard = Guard::new(&config);
        assert_eq!(
            judge(&mut guard, &config, &window(&[0.5], &[0.8]), &mut 0),
            Finding::Calm
        );
        let later = judge(&mut guard, &config, &window(&[0.5], &[0.7]), &mut 0);
        assert!(matches!(later, Finding::Unstable(_)), "{later:?}");
    }

    #[test]
    fn it_backs_off_fast_and_comes_back_slowly() {
        let config = controller(|c| c.instability_persistence = 2);
        let (mut guard, mut streak) = (Guard::new(&config), 0);
        let (calm, rough) = (window(&[1.0, 0.9], &[0.5, 0.5]), window(&[1.0, 1.5], &[0.5, 0.5]));
        let mut floor = |signals: &Signals| {
            let _ = judge(&mut guard, &config, signals, &mut streak);
            (guard.floor() * 1e6).round() / 1e6
        };
        let floors = [&rough, &calm, &rough, &rough, &rough, &rough, &calm, &calm].map(&mut floor);
        assert_eq!(floors, [0.01, 0.01, 0.01, 0.08, 0.32, 0.5, 0.25, 0.125]);
    }
}
