//! Codecs: how a gradient becomes bytes and back, with exact accounting.
//!
//! | codec | piece of a tensor with `n` entries, little-endian | bytes |
//! |---|---|---|
//! | [`identity`] | `n` x `f32` value | `4n` |
//! | [`topk`] | `k` x `i32` index, rising; then `k` x `f32` value | `8k` |
//! | [`quantize`] | `f32` scale; then `n` x `i8` code | `n + 4` |
//!
//! A [`Payload`] is the pieces of all tensors in layout order and nothing else; how many entries a Top-K
//! piece has travels beside it. Decoding is a pure function of the payload, so that the worker's residual
//! sees exactly what the server applies. The encoder is [`Encoder`]; bytes from a peer become usable only
//! through [`Payload::check`].

mod encode;
mod identity;
mod payload;
mod piece;
mod quantize;
mod text;
mod topk;

pub use encode::{Encoder, NonFinite};
pub use payload::{CheckedPayload, Payload, PayloadError};
pub use text::NotACodec;

use crate::ids::{Bits, Density};
use crate::layout::Layout;
use serde::{Deserialize, Serialize};

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

impl Codec {
    /// What a decoder must know of the codec.
    #[must_use]
    pub fn format(self) -> Format {
        match self {
            Self::Identity => Format::Identity,
            Self::TopK(_) => Format::TopK,
            Self::Quantize(_) => Format::Quantize,
        }
    }

    /// Exact length of a payload for `layout`, in bytes.
    #[must_use]
    pub fn payload_bytes(self, layout: &Layout) -> u64 {
        let piece = |n: usize| match self {
            Self::Identity => 4 * n as u64,
            Self::TopK(density) => 8 * density.keep_of(n) as u64,
            Self::Quantize(_) => n as u64 + 4,
        };
        layout.ranges().map(|range| piece(range.len())).sum()
    }
}

/// The format of a payload: what is left of a [`Codec`] once it has encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// `f32` values.
    Identity,
    /// Indices and `f32` values.
    TopK,
    /// A scale and `i8` codes.
    Quantize,
}

impl Format {
    /// The name in files and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::TopK => "topk",
            Self::Quantize => "quantize",
        }
    }
}

#[cfg(test)]
mod tests;
