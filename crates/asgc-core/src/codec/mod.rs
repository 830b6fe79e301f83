//! Codecs: how a gradient becomes bytes and back, with exact accounting.
//!
//! A [`Codec`] says what is kept and how strongly; a [`Form`] says how it is written. Together they make a [`Format`]:
//!
//! | codec | form | format | bytes, little-endian | length |
//! |---|---|---|---|---|
//! | identity | `f32` | [`Format::Identity`] | `n` values of all tensors | `4n` |
//! | identity | `bf16`, `fp16` | [`Format::Bf16`], [`Format::Fp16`] | `n` values of 16 bits | `2n` |
//! | topk | plain | [`Format::TopK`] | per tensor: `k` x `i32` index, rising; `k` x `f32` value | `8k` |
//! | topk | packed | [`Format::TopKPacked`] and so on | all tensors together: [`packed`] | about 2 to 5 `k` |
//! | quantize | plain | [`Format::Quantize`] | per tensor: `f32` scale; `n` x `i8` code | `n + 4` |
//! | quantize | packed | [`Format::QuantizePacked`] | the width; per tensor: `f32` scale; `n` codes of `b` bits | [`quantize`] |
//! | sign | | [`Format::Sign`] | per tensor: `f32` scale; `n` bits, set for negative | `ceil(n/8) + 4` |
//!
//! A [`Payload`] is that and nothing else; how many entries each tensor has under plain Top-K travels beside it. Decoding
//! is a pure function of the payload, so that the worker's residual sees exactly what the server applies. The encoder is
//! [`Encoder`]; bytes from a peer become usable only through [`Payload::check`].

mod checked;
mod dense;
mod encode;
mod form;
mod kept;
mod packed;
mod payload;
mod piece;
mod quantize;
mod rice;
mod select;
mod sparse;
mod text;
mod values;
mod warmup;

pub use checked::CheckedPayload;
pub use encode::{Encoded, Encoder, NonFinite};
pub use form::{Form, Format, Scope, Values};
pub use payload::{Payload, PayloadError};
pub use text::NotACodec;
pub use warmup::Warmup;

use crate::ids::{Bits, Density};
use crate::layout::Layout;

/// What of a gradient is sent, and how strongly it is compressed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Codec {
    /// Every entry.
    Identity,
    /// The `k = max(1, round(rho * n))` entries of largest magnitude.
    TopK(Density),
    /// Stochastically rounded integers with one scale a tensor.
    Quantize(Bits),
    /// The sign of each entry, times their mean magnitude (Karimireddy et al., ICML 2019, section 4).
    Sign,
}

impl Codec {
    /// Its name, without its strength.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::TopK(_) => "topk",
            Self::Quantize(_) => "quantize",
            Self::Sign => "sign",
        }
    }

    /// Length of a payload in the plain form, in bytes.
    #[must_use]
    pub fn payload_bytes(self, layout: &Layout) -> u64 {
        let piece = |n: usize| match self {
            Self::Identity => 4 * n as u64,
            Self::TopK(density) => 8 * density.keep_of(n) as u64,
            Self::Quantize(_) => n as u64 + 4,
            Self::Sign => n.div_ceil(8) as u64 + 4,
        };
        layout.ranges().map(|range| piece(range.len())).sum()
    }
}

#[cfg(test)]
mod tests;
