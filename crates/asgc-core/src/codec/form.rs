//! How what a codec keeps is written.

use super::Codec;
use serde::{Deserialize, Serialize};

/// How values are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Values {
    /// As they are, 4 bytes.
    #[default]
    F32,
    /// Rounded to bfloat16, 2 bytes.
    Bf16,
    /// Rounded to IEEE's binary16, 2 bytes.
    Fp16,
    /// Rounded to 127 levels between the least and the largest magnitude of a group of 128, 1 byte.
    Int8,
}

/// What Top-K chooses from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// From each tensor its share.
    #[default]
    Tensor,
    /// From the whole model: layers with large gradients send more of them.
    Model,
}

/// How payloads are written; the same for a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Form {
    /// How kept values are written.
    pub values: Values,
    /// Top-K: indices as coded gaps; quantize: codes of as many bits as they have.
    pub packed: bool,
    /// What Top-K chooses from.
    pub scope: Scope,
}

impl Form {
    /// The format of what `codec` sends. [`Form::check`] says which forms go with which codec; the others are taken for
    /// the nearest that does.
    #[must_use]
    pub fn format(self, codec: Codec) -> Format {
        match (codec, self.values) {
            (Codec::Identity, Values::F32 | Values::Int8) => Format::Identity,
            (Codec::Identity, Values::Bf16) => Format::Bf16,
            (Codec::Identity, Values::Fp16) => Format::Fp16,
            (Codec::TopK(_), _) if !self.packed => Format::TopK,
            (Codec::TopK(_), Values::F32) => Format::TopKPacked,
            (Codec::TopK(_), Values::Bf16 | Values::Fp16) => Format::TopKPackedBf16,
            (Codec::TopK(_), Values::Int8) => Format::TopKPackedInt8,
            (Codec::Quantize(_), _) if self.packed => Format::QuantizePacked,
            (Codec::Quantize(_), _) => Format::Quantize,
            (Codec::Sign, _) => Format::Sign,
        }
    }

    /// Why this form does not go with `codec`, in words.
    ///
    /// # Errors
    /// Names what would.
    pub fn check(self, codec: Codec) -> Result<(), &'static str> {
        match (codec, self.values) {
            (Codec::Identity, Values::Int8) => {
                Err("int8 is for packed topk; with identity use f32, bf16 or fp16")
            }
            (Codec::TopK(_), Values::Fp16) => Err("fp16 is for identity; with topk use f32, bf16 or int8"),
            (Codec::TopK(_), Values::Bf16 | Values::Int8) if !self.packed => {
                Err("topk writes other values than f32 only with compression.packed = true")
            }
            (Codec::Quantize(_) | Codec::Sign, values) if values != Values::F32 => {
                Err("must be f32, its default, with quantize and sign: they have codes instead of values")
            }
            _ => Ok(()),
        }
    }

    /// About how many bytes an entry takes that `codec` keeps.
    #[must_use]
    pub fn entry_bytes(self, codec: Codec) -> f64 {
        let value = |values| match values {
            Values::F32 => 4.0,
            Values::Bf16 | Values::Fp16 => 2.0,
            Values::Int8 => 1.0 + 4.0 / 128.0,
        };
        match codec {
            Codec::Identity => value(self.values),
            Codec::TopK(_) if !self.packed => 8.0,
            Codec::TopK(rho) => value(self.values) + index_bytes(rho.get()),
            Codec::Quantize(bits) if self.packed => f64::from(bits.get()) / 8.0,
            Codec::Quantize(_) => 1.0,
            Codec::Sign => 1.0 / 8.0,
        }
    }

    /// About how long a payload of a model with `parameters` entries is, in bytes.
    #[must_use]
    pub fn payload_bytes(self, codec: Codec, parameters: u64) -> f64 {
        let kept = match codec {
            Codec::TopK(rho) => rho.get(),
            Codec::Identity | Codec::Quantize(_) | Codec::Sign => 1.0,
        };
        self.entry_bytes(codec) * kept * parameters as f64
    }
}

/// About what the gap between two kept entries takes, in bytes: the entropy of a place that is kept with probability
/// `rho`, a share of a bit that Rice's code wastes, and the group's parameter.
fn index_bytes(rho: f64) -> f64 {
    let term = |p: f64| if p > 0.0 { -p * p.log2() } else { 0.0 };
    let bits = (term(rho) + term(1.0 - rho)) / rho;
    (bits + 0.1) / 8.0 + 1.5 / 128.0
}

/// How a payload's bytes are to be read: what is left of codec and form once it was encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Format {
    /// `f32` values.
    #[serde(rename = "identity")]
    Identity,
    /// bfloat16 values.
    #[serde(rename = "bf16")]
    Bf16,
    /// binary16 values.
    #[serde(rename = "fp16")]
    Fp16,
    /// Indices and `f32` values.
    #[serde(rename = "topk")]
    TopK,
    /// Coded gaps and `f32` values.
    #[serde(rename = "topk_packed")]
    TopKPacked,
    /// Coded gaps and bfloat16 values.
    #[serde(rename = "topk_packed_bf16")]
    TopKPackedBf16,
    /// Coded gaps and values of 8 bits.
    #[serde(rename = "topk_packed_int8")]
    TopKPackedInt8,
    /// A scale and `i8` codes.
    #[serde(rename = "quantize")]
    Quantize,
    /// A scale and codes of `b` bits.
    #[serde(rename = "quantize_packed")]
    QuantizePacked,
    /// A scale and signs.
    #[serde(rename = "sign")]
    Sign,
}

impl Format {
    /// All there are.
    pub const ALL: [Self; 10] = [
        Self::Identity,
        Self::Bf16,
        Self::Fp16,
        Self::TopK,
        Self::TopKPacked,
        Self::TopKPackedBf16,
        Self::TopKPackedInt8,
        Self::Quantize,
        Self::QuantizePacked,
        Self::Sign,
    ];

    /// The name in files and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Bf16 => "bf16",
            Self::Fp16 => "fp16",
            Self::TopK => "topk",
            Self::TopKPacked => "topk_packed",
            Self::TopKPackedBf16 => "topk_packed_bf16",
            Self::TopKPackedInt8 => "topk_packed_int8",
            Self::Quantize => "quantize",
            Self::QuantizePacked => "quantize_packed",
            Self::Sign => "sign",
        }
    }

    /// How packed Top-K writes values; `None` for all other formats.
    #[must_use]
    pub(super) fn packed_values(self) -> Option<Values> {
        match self {
            Self::TopKPacked => Some(Values::F32),
            Self::TopKPackedBf16 => Some(Values::Bf16),
            Self::TopKPackedInt8 => Some(Values::Int8),
            _ => None,
        }
    }

    /// Whether every entry is sent, unrounded or rounded to a float.
    #[must_use]
    pub fn is_dense(self) -> bool {
        matches!(self, Self::Identity | Self::Bf16 | Self::Fp16)
    }
}
