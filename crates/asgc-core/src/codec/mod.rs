//! Codecs: how a gradient becomes bytes.

use crate::ids::{Bits, Density};
use std::fmt;

/// How a push is compressed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Codec {
    /// Every value as it is.
    Identity,
    /// The `k = max(1, round(rho * n))` entries of largest magnitude of each tensor.
    TopK(Density),
    /// Stochastically rounded integers with one scale a tensor.
    Quantize(Bits),
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity => f.write_str("identity"),
            Self::TopK(rho) => write!(f, "topk(rho={})", rho.get()),
            Self::Quantize(bits) => write!(f, "quantize(bits={})", bits.get()),
        }
    }
}
