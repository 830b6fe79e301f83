//! What workers are told to compress with.

use super::{Malformed, format, format_message, malformed};
use crate::v1;
use asgc_core::codec::{Codec, Form, Format};
use asgc_core::event::{Operator, Override};
use asgc_core::ids::{Bits, Density, OutOfRange, Revision, WorkerId};
use asgc_core::push::Controls;

/// What a worker is to compress with.
pub fn controls(message: &v1::Controls) -> Result<Controls, Malformed> {
    let out_of_range = |error: OutOfRange| malformed(error.to_string());
    let codec = match format(message.format)? {
        Format::Identity => Codec::Identity,
        Format::TopK => Codec::TopK(Density::new(message.rho).map_err(out_of_range)?),
        Format::Quantize => {
            // What does not fit into a u8 is out of range all the more.
            let bits = u8::try_from(message.bits).unwrap_or(u8::MAX);
            Codec::Quantize(Bits::new(bits).map_err(out_of_range)?)
        }
        Format::Sign => Codec::Sign,
        // These say how something is written, not what is kept.
        _ => {
            let (field, value) = ("controls.format", message.format);
            return Err(Malformed::Unsupported { field, value });
        }
    };
    Ok(Controls {
        revision: Revision(message.revision),
        codec,
    })
}

/// The message that says what to compress with.
#[must_use]
pub fn controls_message(controls: &Controls) -> v1::Controls {
    let mut message = v1::Controls {
        revision: controls.revision.0,
        format: format_message(Form::default().format(controls.codec)).into(),
        ..Default::default()
    };
    match controls.codec {
        Codec::Identity | Codec::Sign => {}
        Codec::TopK(rho) => message.rho = rho.get(),
        Codec::Quantize(bits) => message.bits = bits.get().into(),
    }
    message
}

/// What an operator wants of the controls.
pub fn operator(message: v1::SetControlsRequest) -> Result<Operator, Malformed> {
    let codec = message.codec.map(|text| text.parse::<Codec>());
    let codec = codec.transpose().map_err(|error| malformed(error.to_string()))?;
    Ok(Operator {
        by: message.by,
        why: message.why,
        set: Override {
            worker_id: message.worker_id.map(WorkerId),
            codec,
            s_max: message.s_max,
            pin: message.pin,
        },
    })
}

/// The message that says what an operator wants.
#[must_use]
pub fn operator_message(operator: &Operator) -> v1::SetControlsRequest {
    let set = &operator.set;
    v1::SetControlsRequest {
        worker_id: set.worker_id.map(|worker| worker.0),
        codec: set.codec.map(|codec| codec.to_string()),
        s_max: set.s_max,
        pin: set.pin,
        by: operator.by.clone(),
        why: operator.why.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use prost::Message as _;

    #[test]
    fn what_no_codec_can_do_is_refused_and_named() {
        let says = |format: v1::Format, rho, bits| {
            let message = v1::Controls {
                revision: 1,
                format: format.into(),
                rho,
                bits,
            };
            controls(&message).unwrap_err().to_string()
        };
        for rho in [0.0, -1.0, 1.01, f64::NAN, f64::INFINITY] {
            assert!(says(v1::Format::Topk, rho, 8).contains("rho must be above 0"));
        }
        for bits in [0, 1, 9, 256 + 4, u32::MAX] {
            assert!(says(v1::Format::Quantize, 0.5, bits).contains("bits must be 2 to 8"));
        }
        assert!(says(v1::Format::Unspecified, 0.5, 8).contains("format = 0 is not supported"));
    }

    proptest! {
        #[test]
        fn controls_survive_the_trip(revision: u64, rho in 0.001..=1.0f64, bits in 2u8..=8) {
            let codecs = [
                Codec::Identity,
                Codec::Sign,
                Codec::TopK(Density::new(rho).unwrap()),
                Codec::Quantize(Bits::new(bits).unwrap()),
            ];
            for codec in codecs {
                let sent = Controls { revision: Revision(revision), codec };
                let bytes = controls_message(&sent).encode_to_vec();
                prop_assert_eq!(controls(&v1::Controls::decode(&bytes[..]).unwrap()).unwrap(), sent);
            }
        }

        #[test]
        fn what_an_operator_wants_survives_the_trip(
            options: (Option<u32>, Option<u64>, Option<bool>),
            rho in prop::option::of(0.001..=1.0f64),
            words: (String, String),
        ) {
            let (by, why) = words;
            let set = Override {
                worker_id: options.0.map(WorkerId),
                codec: rho.map(|rho| Codec::TopK(Density::new(rho).unwrap())),
                s_max: options.1,
                pin: options.2,
            };
            let sent = Operator { by, why, set };
            let bytes = operator_message(&sent).encode_to_vec();
            let read = operator(v1::SetControlsRequest::decode(&bytes[..]).unwrap());
            prop_assert_eq!(read.unwrap(), sent);
        }

        #[test]
        fn rubbish_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(message) = v1::Controls::decode(&bytes[..]) {
                let _ = controls(&message);
            }
        }
    }
}
