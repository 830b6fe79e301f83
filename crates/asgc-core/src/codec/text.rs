//! A codec as text, in logs and on command lines: `identity`, `topk(rho=0.25)`, `quantize(bits=8)`, `sign`.

use super::Codec;
use crate::ids::{Bits, Density};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// Text that names no codec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no codec; there are identity, topk(rho=0.25) with rho above 0 and at most 1, and quantize(bits=8) with 2 to 8, sign"
)]
pub struct NotACodec(String);

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity => f.write_str("identity"),
            Self::TopK(rho) => write!(f, "topk(rho={})", rho.get()),
            Self::Quantize(bits) => write!(f, "quantize(bits={})", bits.get()),
            Self::Sign => f.write_str("sign"),
        }
    }
}

impl FromStr for Codec {
    type Err = NotACodec;

    fn from_str(text: &str) -> Result<Self, NotACodec> {
        let inside = |head: &str| text.strip_prefix(head)?.strip_suffix(')');
        let codec = if text == "identity" {
            Some(Self::Identity)
        } else if text == "sign" {
            Some(Self::Sign)
        } else if let Some(rho) = inside("topk(rho=") {
            rho.parse()
                .ok()
                .and_then(|rho| Density::new(rho).ok())
                .map(Self::TopK)
        } else if let Some(bits) = inside("quantize(bits=") {
            bits.parse()
                .ok()
                .and_then(|bits| Bits::new(bits).ok())
                .map(Self::Quantize)
        } else {
            None
        };
        codec.ok_or_else(|| NotACodec(text.chars().take(60).collect()))
    }
}

impl Serialize for Codec {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Codec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_codec_is_refused() {
        let bad = [
            "",
            "Identity",
            "topk",
            "topk(rho=0)",
            "topk(rho=1.1)",
            "topk(rho=NaN)",
            "topk(rho=0.1",
            "quantize(bits=9)",
        ];
        for text in bad {
            assert_eq!(text.parse::<Codec>(), Err(NotACodec(text.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn text_and_json_read_back(rho in 1e-9..=1.0f64, bits in 2u8..=8) {
            let codecs = [
                Codec::Identity,
                Codec::TopK(Density::new(rho).unwrap()),
                Codec::Quantize(Bits::new(bits).unwrap()),
                Codec::Sign,
            ];
            for codec in codecs {
                prop_assert_eq!(codec.to_string().parse::<Codec>().unwrap(), codec);
                let json = serde_json::to_string(&codec).unwrap();
                prop_assert_eq!(serde_json::from_str::<Codec>(&json).unwrap(), codec);
            }
        }

        #[test]
        fn rubbish_never_panics(text: String) {
            let _ = text.parse::<Codec>();
        }
    }
}
