//! One step of the control vector, within its bounds.
//!
//! | | safer | aggressive |
//! |---|---|---|
//! | `rho` | `min(rho + max_delta_rho, highest)` | `max(rho - max_delta_rho, lowest)` |
//! | `bits` | `min(bits + max_delta_bits, highest)` | `max(bits - max_delta_bits, lowest)` |
//! | `s_max` | `max(s_max - max_delta_s_max, lowest)` | `min(s_max + max_delta_s_max, highest)` |
//!
//! Identity has no strength to move. What `adapt_compression` or `adapt_staleness` switches off stays.

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

impl Vector {
    /// `rho` or the bits; `None` for identity.
    #[must_use]
    pub fn strength(&self) -> Option<f64> {
        match self.codec {
            Codec::Identity => None,
            Codec::TopK(rho) => Some(rho.get()),
            Codec::Quantize(bits) => Some(f64::from(bits.get())),
        }
    }
}

/// How far the vector may go, and how far at once.
#[derive(Debug, Clone)]
pub struct Bounds {
    config: config::Controller,
}

impl Bounds {
    /// The bounds of a checked configuration.
    #[must_use]
    pub fn new(config: &config::Controller) -> Self {
        Self {
            config: config.clone(),
        }
    }

    /// One step from `at`.
    #[must_use]
    pub fn step(&self, at: Vector, direction: Direction) -> Vector {
        let codec = match at.codec {
            _ if !self.config.adapt_compression => at.codec,
            Codec::Identity => Codec::Identity,
            Codec::TopK(rho) => Codec::TopK(self.step_rho(rho, direction)),
            Codec::Quantize(bits) => Codec::Quantize(self.step_bits(bits, direction)),
        };
        let s_max = if self.config.adapt_staleness {
            self.step_s_max(at.s_max, direction)
        } else {
            at.s_max
        };
        Vector { codec, s_max }
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

    fn step_s_max(&self, s_max: u64, direction: Direction) -> u64 {
        let ([lowest, highest], delta) = (self.config.s_max_bounds, self.config.max_delta_s_max);
        match direction {
            Direction::Safer => s_max.saturating_sub(delta).max(lowest),
            Direction::Aggressive => s_max.saturating_add(delta).min(highest),
            Direction::Hold => s_max,
        }
    }
}
