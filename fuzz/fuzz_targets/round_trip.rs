//! Any gradient by any codec in any form: what is sent and what is kept are together what was given.
#![no_main]

use asgc_core::codec::{Codec, Encoder, Format};
use asgc_core::ids::{Bits, Density};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

fuzz_target!(|input: (u8, u8, u16, u64, Vec<f32>)| {
    let (which, form, strength, nonce, values) = input;
    let layout = asgc_fuzz::layout();
    let mut gradient = values;
    gradient.resize(layout.parameters(), 0.0);
    // Sums of values near the largest may be infinite, which is for the server to refuse.
    gradient.iter_mut().for_each(|value| {
        if value.abs() > 1e30 && value.is_finite() {
            *value *= 1e-9;
        }
    });
    let rho = (f64::from(strength) + 1.0) / 65_536.0;
    let codec = match which % 4 {
        0 => Codec::Identity,
        1 => Codec::TopK(Density::new(rho).expect("above 0, at most 1")),
        2 => Codec::Quantize(Bits::new(2 + (strength % 7) as u8).expect("2 to 8")),
        _ => Codec::Sign,
    };
    let form = asgc_fuzz::form(form);
    let mut encoder = Encoder::new(Arc::clone(&layout), nonce).with_form(form);
    let mut left = gradient.clone();
    let zeros = vec![0.0; layout.parameters()];
    let Ok(encoded) = encoder.encode_in_place(&mut left, Some(&zeros), codec, nonce) else {
        return;
    };
    let format = encoded.payload.format;
    let length = encoded.payload.bytes.len() as u64;
    let checked = encoded.payload.check(&layout).expect("what was encoded can be read");
    assert_eq!(checked.len(), length);
    for ((&given, sent), &kept) in gradient.iter().zip(checked.decode()).zip(&left) {
        let exact = matches!(format, Format::Identity | Format::TopK | Format::TopKPacked);
        let slack = if exact { 0.0 } else { 1e-5 * given.abs().max(sent.abs()) };
        assert!((given - (sent + kept)).abs() <= slack, "{given} became {sent} and {kept} by {format:?}");
    }
});
