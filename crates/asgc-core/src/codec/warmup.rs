//! Sparsity warm-up: a density that begins high and falls to its setting (Lin et al., ICLR 2018, section 3.3).
//!
//! ```text
//! rho(v) = max(rho, start * (rho / start)^(v / updates))        v < updates
//! ```
//!
//! At first gradients change fast, and what waits in a residual is stale when it is sent. Whoever moves `rho` meanwhile moves where
//! the warm-up leads.

use super::Codec;
use crate::ids::{Density, Version};

/// How a density begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Warmup {
    /// The density at version 0.
    pub start: Density,
    /// Versions until the setting is reached.
    pub updates: u64,
}

impl Warmup {
    /// What a gradient of the parameters at `version` is encoded with instead of `codec`.
    #[must_use]
    pub fn at(self, version: Version, codec: Codec) -> Codec {
        let Codec::TopK(rho) = codec else { return codec };
        if version.0 >= self.updates || self.start.get() <= rho.get() {
            return codec;
        }
        let share = version.0 as f64 / self.updates as f64;
        let now = self.start.get() * (rho.get() / self.start.get()).powf(share);
        Density::new(now.max(rho.get()).min(1.0)).map_or(codec, Codec::TopK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_density_falls_to_its_setting() {
        let density = |rho: f64| Density::new(rho).unwrap();
        let warmup = Warmup {
            start: density(0.25),
            updates: 100,
        };
        let at = |version, rho| match warmup.at(Version(version), Codec::TopK(density(rho))) {
            Codec::TopK(rho) => rho.get(),
            other => panic!("{other}"),
        };
        assert_eq!(at(0, 0.01), 0.25);
        assert!((at(50, 0.01) - 0.05).abs() < 1e-12, "the geometric mean half-way");
        assert_eq!((at(100, 0.01), at(1000, 0.01)), (0.01, 0.01));
        assert_eq!(at(0, 0.5), 0.5, "never sparser than the setting");
        assert_eq!(warmup.at(Version(0), Codec::Sign), Codec::Sign);
    }
}
