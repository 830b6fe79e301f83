//! Bounded staleness: what a push is worth, given how stale it is.
//!
//! `tau <= s_low`: weight 1. `s_low < tau <= s_max`: weight `1 / (1 + beta * tau)`. Beyond: rejected.
//! Switched off, every push has weight 1. Zhang et al. (IJCAI 2016) divide the learning rate by tau;
//! this is the same idea with a bound on either side.

use crate::config;
use crate::ids::Staleness;

/// The policy, a pure function of tau.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    bounds: Option<Bounds>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Bounds {
    s_low: Staleness,
    s_max: Staleness,
    beta: f64,
}

impl Policy {
    /// The policy that a checked configuration describes.
    #[must_use]
    pub fn new(config: &config::Staleness) -> Self {
        let bounds = Bounds {
            s_low: Staleness(config.s_low),
            s_max: Staleness(config.s_max),
            beta: config.beta,
        };
        Self {
            bounds: config.enabled.then_some(bounds),
        }
    }

    /// Moves the bound beyond which pushes are rejected; never below `s_low`. Does nothing where it is off.
    pub fn set_s_max(&mut self, s_max: Staleness) {
        if let Some(bounds) = &mut self.bounds {
            bounds.s_max = s_max.max(bounds.s_low);
        }
    }

    /// The weight of a push, in (0, 1]; `None` when it is too stale to be taken.
    #[must_use]
    pub fn weigh(&self, tau: Staleness) -> Option<f64> {
        match self.bounds {
            Some(bounds) if tau > bounds.s_max => None,
            Some(bounds) if tau > bounds.s_low => Some(1.0 / (1.0 + bounds.beta * tau.0 as f64)),
            _ => Some(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_change_at_the_bounds() {
        let config = config::Staleness {
            enabled: true,
            s_low: 1,
            s_max: 4,
            beta: 0.5,
            reclaim: false,
        };
        let weigh = |tau| Policy::new(&config).weigh(Staleness(tau));
        assert_eq!(
            [0, 1, 2, 3, 4, 5, u64::MAX].map(weigh),
            [
                Some(1.0),
                Some(1.0),
                Some(0.5),
                Some(0.4),
                Some(1.0 / 3.0),
                None,
                None
            ]
        );
    }

    #[test]
    fn the_bound_moves_but_never_below_s_low() {
        let config = config::Staleness {
            enabled: true,
            s_low: 2,
            s_max: 4,
            ..config::Staleness::default()
        };
        let mut policy = Policy::new(&config);
        policy.set_s_max(Staleness(5));
        assert_eq!(
            [5, 6].map(|tau| policy.weigh(Staleness(tau)).is_some()),
            [true, false]
        );
        policy.set_s_max(Staleness(0));
        assert_eq!([2, 3].map(|tau| policy.weigh(Staleness(tau))), [Some(1.0), None]);
        let mut off = Policy::new(&config::Staleness::default());
        off.set_s_max(Staleness(0));
        assert_eq!(off.weigh(Staleness(9)), Some(1.0));
    }

    #[test]
    fn switched_off_everything_counts_in_full() {
        let config = config::Staleness {
            enabled: false,
            ..config::Staleness::default()
        };
        assert_eq!(Policy::new(&config).weigh(Staleness(u64::MAX)), Some(1.0));
    }
}
