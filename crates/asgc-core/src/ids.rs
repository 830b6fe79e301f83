//! Newtypes for the numbers that must not be mixed up.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counter! {
    /// Counts applied updates. As `v_s` it is the server's; as `v_i` the one a gradient was computed from.
    /// Versions compare only within one [`Generation`].
    Version(u64)
}
counter! {
    /// Counts the lives of the server that could have forgotten updates.
    Generation(u64)
}
counter! {
    /// A trainer's identity, and the shard of the training data that it reads.
    WorkerId(u32)
}
counter! {
    /// Tells one life of a worker process from the next: its push ids start again with each.
    Incarnation(u64)
}
counter! {
    /// Numbers one worker's pushes, rising from 1 within an [`Incarnation`].
    PushId(u64)
}
counter! {
    /// Counts the changes of what workers are told to compress with; 0 is what the configuration says.
    /// Starts again with each [`Generation`].
    Revision(u64)
}
counter! {
    /// `tau = v_s - v_i`, in versions, taken at the moment the server decides.
    Staleness(u64)
}

impl Version {
    /// The version after one more applied update.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// `v_s - base`, or `None` where `base` lies in the future.
    #[must_use]
    pub fn staleness_of(self, base: Self) -> Option<Staleness> {
        self.0.checked_sub(base.0).map(Staleness)
    }
}

impl Revision {
    /// The revision after one more change.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl PushId {
    /// The id of the next push.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A value outside the range of its type.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{what} must be {range}, not {value}")]
pub struct OutOfRange {
    what: &'static str,
    range: &'static str,
    value: f64,
}

/// The active fraction `rho`: the share of entries that Top-K keeps, in (0, 1].
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Density(f64);

impl Density {
    /// Checks that `rho` is in (0, 1].
    pub fn new(rho: f64) -> Result<Self, OutOfRange> {
        if rho > 0.0 && rho <= 1.0 {
            Ok(Self(rho))
        } else {
            Err(OutOfRange {
                what: "rho",
                range: "above 0 and at most 1",
                value: rho,
            })
        }
    }

    /// The fraction itself.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }

    /// How many of `n` entries are kept: `k = max(1, round(rho * n))`, half to even; 0 of 0.
    #[must_use]
    pub fn keep_of(self, n: usize) -> usize {
        // A tensor is addressed by i32 indices, so n is far below 2^53 and the product is exact enough.
        let k = (self.0 * n as f64).round_ties_even() as usize;
        k.clamp(1.min(n), n)
    }
}

impl TryFrom<f64> for Density {
    type Error = OutOfRange;
    fn try_from(rho: f64) -> Result<Self, OutOfRange> {
        Self::new(rho)
    }
}

impl From<Density> for f64 {
    fn from(density: Density) -> f64 {
        density.0
    }
}

/// The width of a quantized entry in bits, 2 to 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Bits(u8);

impl Bits {
    /// Checks that `bits` is in 2..=8.
    pub fn new(bits: u8) -> Result<Self, OutOfRange> {
        if (2..=8).contains(&bits) {
            Ok(Self(bits))
        } else {
            Err(OutOfRange {
                what: "bits",
                range: "2 to 8",
                value: f64::from(bits),
            })
        }
    }

    /// The width itself.
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }

    /// Levels a side, `s = 2^(bits-1) - 1` (QSGD, Alistarh et al. 2017, section 3.1).
    #[must_use]
    pub fn levels(self) -> u8 {
        (1 << (self.0 - 1)) - 1
    }
}

impl TryFrom<u8> for Bits {
    type Error = OutOfRange;
    fn try_from(bits: u8) -> Result<Self, OutOfRange> {
        Self::new(bits)
    }
}

impl From<Bits> for u8 {
    fn from(bits: Bits) -> u8 {
        bits.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_entries_round_half_to_even_and_never_vanish() {
        let keep = |rho, n| Density::new(rho).unwrap().keep_of(n);
        assert_eq!(keep(0.25, 10), 2); // 2.5 rounds to 2
        assert_eq!(keep(0.25, 14), 4); // 3.5 rounds to 4
        assert_eq!(keep(0.01, 1), 1);
        assert_eq!(keep(0.01, 16), 1);
        assert_eq!(keep(1.0, 7), 7);
        assert_eq!(keep(0.5, 0), 0);
    }

    #[test]
    fn ranges_are_checked_where_the_value_is_made() {
        for rho in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(Density::new(rho).is_err(), "{rho}");
        }
        for bits in [0, 1, 9, 255] {
            assert!(Bits::new(bits).is_err(), "{bits}");
        }
        assert_eq!(Bits::new(8).unwrap().levels(), 127);
        assert_eq!(Bits::new(2).unwrap().levels(), 1);
    }

    #[test]
    fn a_base_from_the_future_has_no_staleness() {
        assert_eq!(Version(3).staleness_of(Version(1)), Some(Staleness(2)));
        assert_eq!(Version(3).staleness_of(Version(u64::MAX)), None);
    }
}
