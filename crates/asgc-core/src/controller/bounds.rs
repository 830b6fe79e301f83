//! One step of the control vector, within its bounds.
//!
//! | | safer | aggressive |
//! |---|---|---|
//! | `rho` | `min(rho + max_delta_rho, highest)` | `max(rho - max_delta_rho, lowest)` |
//! | `bits` | `min(bits + max_delta_bits, highest)` | `max(bits - max_delta_bits, lowest)` |
//! | `s_max` | `max(s_max - max_delta_s_max, lowest)` | `min(s_max + max_delta_s_max, highest)` |
//!
//! Identity and sign have no strength to move. What `adapt_compression` or `adapt_staleness` switches off stays.

use crate::codec::Codec;
use crate::config;
use crate::event::Direction;
use crate::ids::{Bits, Density};

/// `rho` is kept to this many steps in 1: in binary, `0.25 - 0.05 - 0.05` is not 0.15, and neither the log nor
/// the number of kept entries should show it.
const RHO_STEPS: f64 = 1e9;

/// What the controller moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Vector {
    /// How workers compress.
    pub codec: Codec,
    /// Beyond this staleness a push is rejected.
    pub s_max: u64,
}

/// How far the vector may go, and how far at once.
#[derive(Debug, Clone)]
pub struct Bounds {
    config: config::Controller,
    /// `s_max` never falls below it.
    s_low: u64,
}

impl Bounds {
    /// The bounds of a checked configuration.
    #[must_use]
    pub fn new(config: &config::Controller, s_low: u64) -> Self {
        Self {
            config: config.clone(),
            s_low,
        }
    }

    /// One step from `at`.
    #[must_use]
    pub fn step(&self, at: Vector, direction: Direction) -> Vector {
        let codec = match at.codec {
            _ if !self.config.adapt_compression => at.codec,
            Codec::Identity | Codec::Sign => at.codec,
            Codec::TopK(rho) => Codec::TopK(self.step_rho(rho, direction)),
            Codec::Quantize(bits) => Codec::Quantize(self.step_bits(bits, direction)),
        };
        Vector {
            codec,
            s_max: self.step_s_max(at.s_max, direction),
        }
    }

    fn step_rho(&self, rho: Density, direction: Direction) -> Density {
        let ([lowest, highest], delta) = (self.config.rho_bounds, self.config.max_delta_rho);
        let even = |rho: f64| (rho * RHO_STEPS).round() / RHO_STEPS;
        let moved = match direction {
            Direction::Safer => even(rho.get() + delta).min(highest),
            Direction::Aggressive => even(rho.get() - delta).max(lowest),
            Direction::Hold => return rho,
        };
        // Checked bounds lie within what a density may be.
        Density::new(moved).unwrap_or(rho)
    }

    fn step_bits(&self, bits: Bits, direction: Direction) -> Bits {
        let ([lowest, highest], delta) = (self.config.bits_bounds, self.config.max_delta_bits);
        let moved = match direction {
            Direction::Safer => bits.get().saturating_add(delta).min(highest),
            Direction::Aggressive => bits.get().saturating_sub(delta).max(lowest),
            Direction::Hold => return bits,
        };
        Bits::new(moved).unwrap_or(bits)
    }

    /// One step of `s_max` alone.
    #[must_use]
    pub fn step_s_max(&self, s_max: u64, direction: Direction) -> u64 {
        let ([lowest, highest], delta) = (self.config.s_max_bounds, self.config.max_delta_s_max);
        match direction {
            _ if !self.config.adapt_staleness => s_max,
            Direction::Safer => s_max.saturating_sub(delta).max(lowest).max(self.s_low),
            Direction::Aggressive => s_max.saturating_add(delta).min(highest).max(self.s_low),
            Direction::Hold => s_max,
        }
    }

    /// What a codec or an `s_max` set by hand breaks, in words.
    ///
    /// # Errors
    /// Names the bound.
    pub fn check(&self, codec: Option<Codec>, s_max: Option<u64>) -> Result<(), String> {
        let outside = |what: &str, low: String, high: String| {
            Err(format!(
                "{what} must lie between {low} and {high}, the controller's bounds"
            ))
        };
        let ([low, high], [fewest, most]) = (self.config.rho_bounds, self.config.bits_bounds);
        match codec {
            Some(Codec::TopK(rho)) if !(low..=high).contains(&rho.get()) => {
                return outside("rho", low.to_string(), high.to_string());
            }
            Some(Codec::Quantize(bits)) if !(fewest..=most).contains(&bits.get()) => {
                return outside("bits", fewest.to_string(), most.to_string());
            }
            _ => {}
        }
        let [lowest, highest] = self.config.s_max_bounds;
        let lowest = lowest.max(self.s_low);
        match s_max {
            Some(s_max) if !(lowest..=highest).contains(&s_max) => {
                outside("s_max", lowest.to_string(), highest.to_string())
            }
            _ => Ok(()),
        }
    }
}
