//! A codec and the form of its payloads, as one word on a command line: `topk(rho=0.01)+packed+int8`.

use asgc_core::codec::{Codec, Form, Scope, Values};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What is kept, and how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Coding {
    pub(crate) codec: Codec,
    pub(crate) form: Form,
}

impl FromStr for Coding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (codec, words) = text.split_once('+').unwrap_or((text, ""));
        let codec = codec.parse::<Codec>().map_err(|error| error.to_string())?;
        let mut form = Form::default();
        for word in words.split('+').filter(|word| !word.is_empty()) {
            match word {
                "packed" => form.packed = true,
                "bf16" => form.values = Values::Bf16,
                "fp16" => form.values = Values::Fp16,
                "int8" => form.values = Values::Int8,
                "model" => form.scope = Scope::Model,
                other => {
                    return Err(format!(
                        "`{other}` is no form; there are +packed, +bf16, +fp16, +int8 and +model"
                    ));
                }
            }
        }
        form.check(codec)
            .map_err(|problem| format!("{text}: {problem}"))?;
        Ok(Self { codec, form })
    }
}

impl fmt::Display for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Form {
            values,
            packed,
            scope,
        } = self.form;
        self.codec.fmt(f)?;
        let packed = packed.then_some("+packed");
        let values = match values {
            Values::F32 => None,
            Values::Bf16 => Some("+bf16"),
            Values::Fp16 => Some("+fp16"),
            Values::Int8 => Some("+int8"),
        };
        let scope = (scope == Scope::Model).then_some("+model");
        [packed, values, scope]
            .into_iter()
            .flatten()
            .try_for_each(|word| f.write_str(word))
    }
}

impl From<Coding> for String {
    fn from(coding: Coding) -> Self {
        coding.to_string()
    }
}

impl TryFrom<String> for Coding {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        for text in [
            "identity",
            "identity+bf16",
            "topk(rho=0.01)+packed+int8+model",
            "quantize(bits=4)+packed",
            "sign",
        ] {
            assert_eq!(text.parse::<Coding>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let says = |text: &str| text.parse::<Coding>().unwrap_err();
        assert!(says("topk(rho=0.01)+int8").contains("compression.packed"));
        assert!(says("identity+zip").contains("`zip` is no form"));
        assert!(says("tokp").contains("no codec"));
    }
}
