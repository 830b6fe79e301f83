//! What every codec must keep, and what each must emit to the byte.

use super::*;
use crate::layout::TensorSpec;
use bytes::Bytes;
use proptest::prelude::*;
use std::sync::Arc;

fn layout(lens: &[usize]) -> Arc<Layout> {
    let spec = |(i, &len): (usize, &usize)| TensorSpec {
        name: format!("t{i}"),
        shape: vec![len],
    };
    Arc::new(Layout::new(lens.iter().enumerate().map(spec).collect()).unwrap())
}

fn topk(rho: f64) -> Codec {
    Codec::TopK(Density::new(rho).unwrap())
}

fn quantize(bits: u8) -> Codec {
    Codec::Quantize(Bits::new(bits).unwrap())
}

fn encode(layout: &Arc<Layout>, values: &[f32], codec: Codec) -> CheckedPayload {
    encode_as(layout, values, (codec, Form::default()))
}

fn encode_as(layout: &Arc<Layout>, values: &[f32], (codec, form): (Codec, Form)) -> CheckedPayload {
    let payload = Encoder::new(Arc::clone(layout), 7)
        .with_form(form)
        .encode(values, codec, 1)
        .unwrap();
    payload.check(layout).unwrap()
}

/// The shapes of `small_cnn`, 55,338 parameters.
const SMALL_CNN: [usize; 8] = [144, 16, 4608, 32, 50176, 32, 320, 10];

#[test]
fn payload_bytes_are_the_published_ones() {
    let layout = layout(&SMALL_CNN);
    let values: Vec<f32> = (0..layout.parameters()).map(|i| (i as f32).sin()).collect();
    for (codec, bytes) in [
        (Codec::Identity, 221_352),
        (topk(0.25), 110_672),
        (topk(0.20), 88_536),
        (topk(0.15), 66_408),
        (topk(0.10), 44_272),
        (topk(0.05), 22_144),
        (quantize(8), 55_370),
        (quantize(2), 55_370),
    ] {
        assert_eq!(codec.payload_bytes(&layout), bytes, "{codec}");
        assert_eq!(encode(&layout, &values, codec).len(), bytes, "{codec}");
    }
}

#[test]
fn topk_picks_by_magnitude_and_keeps_the_sign() {
    let check = |values: &[f32], rho, expect: &[f32]| {
        assert_eq!(
            encode(&layout(&[values.len()]), values, topk(rho)).decode(),
            expect
        );
    };
    check(&[-10.0, 1.0, 2.0, 0.5], 0.25, &[-10.0, 0.0, 0.0, 0.0]);
    check(&[3.0], 0.01, &[3.0]);
    check(&[1.0, -2.0, 3.0], 1.0, &[1.0, -2.0, 3.0]);
    // Ties go to the lower index, whatever the sign.
    check(&[1.0, -1.0, 1.0, -1.0], 0.5, &[1.0, -1.0, 0.0, 0.0]);
    let negative: Vec<f32> = (0..100).map(|i| -(i as f32) - 1.0).collect();
    let mut expect = vec![0.0; 100];
    expect[99] = -100.0;
    check(&negative, 0.01, &expect);
}

#[test]
fn quantize_survives_what_has_no_scale() {
    for values in [
        vec![0.0; 5],
        vec![1e-42; 5],
        vec![0.0, 1e38, 0.0],
        vec![],
        vec![-1e-45],
    ] {
        for bits in 2..=8 {
            let decoded = encode(
                &layout(&[values.len(), 1]),
                &[&values[..], &[1.0]].concat(),
                quantize(bits),
            );
            let decoded = decoded.decode();
            assert!(
                decoded.iter().all(|v| v.is_finite()),
                "{values:?} at {bits} bits: {decoded:?}"
            );
            assert_ne!(decoded.last(), Some(&0.0), "the layer beside it is not skipped");
        }
    }
}

#[test]
fn quantize_is_unbiased() {
    let layout = layout(&[4]);
    let values = [0.3f32, -0.7, 0.05, 0.64];
    let mut encoder = Encoder::new(Arc::clone(&layout), 3);
    let mut sum = [0.0f64; 4];
    let draws = 20_000;
    for nonce in 0..draws {
        let payload = encoder.encode(&values, quantize(2), nonce).unwrap();
        let decoded = payload.check(&layout).unwrap().decode();
        sum.iter_mut().zip(decoded).for_each(|(s, v)| *s += f64::from(v));
    }
    for (sum, value) in sum.iter().zip(values) {
        // One level is the norm, 1: the mean of 20,000 draws is within 5 standard errors of 0.0035.
        assert!(
            (sum / draws as f64 - f64::from(value)).abs() < 0.018,
            "{sum} for {value}"
        );
    }
}

#[test]
fn rounding_follows_seed_and_nonce_alone() {
    let layout = layout(&[64]);
    let values: Vec<f32> = (0..64).map(|i| (i as f32 * 0.7).sin()).collect();
    let draw = |seed, nonce| {
        Encoder::new(Arc::clone(&layout), seed)
            .encode(&values, quantize(3), nonce)
            .unwrap()
    };
    assert_eq!(draw(1, 1), draw(1, 1));
    assert_ne!(draw(1, 1), draw(1, 2));
    assert_ne!(draw(1, 1), draw(2, 1));
}

#[test]
fn a_value_that_is_not_finite_is_named() {
    let layout = layout(&[2, 3]);
    let mut encoder = Encoder::new(Arc::clone(&layout), 0);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let error = encoder
            .encode(&[0.0, 1.0, 2.0, bad, 4.0], topk(0.5), 1)
            .unwrap_err();
        assert_eq!((error.tensor.as_str(), error.entry), ("t1", 1));
    }
    // Finite values whose norm is not.
    let error = encoder.encode(&[f32::MAX; 5], quantize(2), 1).unwrap_err();
    assert_eq!(error.tensor, "t0");
}

#[test]
fn empty_and_all_zero_payloads_are_legal() {
    let layout = layout(&[2, 3]);
    let empty = Payload {
        format: Format::TopK,
        entries: vec![0, 0],
        bytes: Bytes::new(),
    };
    assert_eq!(empty.check(&layout).unwrap().decode(), [0.0; 5]);
    for codec in [Codec::Identity, topk(0.5), quantize(8)] {
        assert_eq!(encode(&layout, &[0.0; 5], codec).decode(), [0.0; 5]);
    }
}

#[test]
fn each_kind_of_rubbish_is_named() {
    let layout = layout(&[4, 2]);
    let sparse = |entries: &[u32], indices: &[i32], values: &[f32]| {
        let indices = indices.iter().flat_map(|i| i.to_le_bytes());
        let bytes = indices
            .chain(values.iter().flat_map(|v| v.to_le_bytes()))
            .collect::<Vec<_>>();
        Payload {
            format: Format::TopK,
            entries: entries.to_vec(),
            bytes: bytes.into(),
        }
        .check(&layout)
    };
    let says = |checked: Result<CheckedPayload, PayloadError>| checked.unwrap_err().to_string();
    assert!(says(sparse(&[1, 0], &[402_653_634], &[1.0])).contains("402653634 is out of range"));
    assert!(says(sparse(&[1, 0], &[-1], &[1.0])).contains("out of range"));
    assert!(says(sparse(&[2, 0], &[2, 2], &[1.0, 1.0])).contains("does not rise"));
    assert!(says(sparse(&[2, 0], &[2, 1], &[1.0, 1.0])).contains("does not rise"));
    assert!(says(sparse(&[2, 0], &[1, 2], &[1.0])).contains("12 bytes"));
    assert!(says(sparse(&[u32::MAX, 0], &[1], &[1.0])).contains("more than its 4"));
    assert!(says(sparse(&[1], &[1], &[1.0])).contains("1 tensors; 2"));
    assert!(says(sparse(&[1, 0], &[1], &[f32::NAN])).contains("tensor 0 holds a value that is not finite"));
    let quantized = |scale: f32| {
        let mut bytes = scale.to_le_bytes().to_vec();
        bytes.extend([1, 2, 3, 4]);
        bytes.extend(1.0f32.to_le_bytes());
        bytes.extend([128, 127]);
        Payload {
            format: Format::Quantize,
            entries: vec![],
            bytes: bytes.into(),
        }
        .check(&layout)
    };
    assert_eq!(
        quantized(0.5).unwrap().decode(),
        [0.5, 1.0, 1.5, 2.0, -128.0, 127.0]
    );
    assert!(says(quantized(f32::NAN)).contains("not finite"));
    assert!(
        says(quantized(f32::MAX)).contains("not finite"),
        "the product overflows"
    );
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "golden files are files; the code under test sees bytes only"
)]
fn golden_files_hold_the_formats() {
    let layout = layout(&[3, 1, 8]);
    let values: Vec<f32> = (0..12)
        .map(|i| (i as f32 - 5.5) * if i % 3 == 0 { 0.25 } else { -1.5 })
        .collect();
    let (plain, packed) = (
        Form::default(),
        Form {
            packed: true,
            ..Form::default()
        },
    );
    for (name, codec, form) in [
        ("identity", Codec::Identity, plain),
        ("topk_0.25", topk(0.25), plain),
        ("quantize_8", quantize(8), plain),
        ("quantize_2", quantize(2), plain),
        ("sign", Codec::Sign, plain),
        (
            "bf16",
            Codec::Identity,
            Form {
                values: Values::Bf16,
                ..packed
            },
        ),
        (
            "fp16",
            Codec::Identity,
            Form {
                values: Values::Fp16,
                ..packed
            },
        ),
        (
            "topk_packed",
            topk(0.5),
            Form {
                values: Values::F32,
                ..packed
            },
        ),
        (
            "topk_packed_bf16",
            topk(0.5),
            Form {
                values: Values::Bf16,
                ..packed
            },
        ),
        (
            "topk_packed_int8",
            topk(0.5),
            Form {
                values: Values::Int8,
                ..packed
            },
        ),
        (
            "quantize_packed_3",
            quantize(3),
            Form {
                values: Values::F32,
                ..packed
            },
        ),
    ] {
        let payload = encode_as(&layout, &values, (codec, form)).payload().clone();
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.bin"));
        if std::env::var_os("ASGC_BLESS").is_some() {
            std::fs::write(&path, &payload.bytes).unwrap();
        }
        let golden = std::fs::read(&path).unwrap();
        assert_eq!(
            payload.bytes, golden,
            "{name}: a changed format needs a new protocol version"
        );
    }
}

/// A codec and a form that goes with it.
fn any_coding() -> impl Strategy<Value = (Codec, Form)> {
    let codec = prop_oneof![
        Just(Codec::Identity),
        (0.001f64..=1.0).prop_map(topk),
        (2u8..=8).prop_map(quantize),
        Just(Codec::Sign),
    ];
    let values = prop_oneof![
        Just(Values::F32),
        Just(Values::Bf16),
        Just(Values::Fp16),
        Just(Values::Int8)
    ];
    let scope = prop_oneof![Just(Scope::Tensor), Just(Scope::Model)];
    (codec, values, any::<bool>(), scope)
        .prop_map(|(codec, values, packed, scope)| {
            (
                codec,
                Form {
                    values,
                    packed,
                    scope,
                },
            )
        })
        .prop_filter("goes together", |(codec, form)| form.check(*codec).is_ok())
}

fn any_format() -> impl Strategy<Value = Format> {
    prop::sample::select(&Format::ALL[..])
}

fn any_values() -> impl Strategy<Value = (Vec<usize>, Vec<f32>)> {
    prop::collection::vec(0usize..40, 1..5).prop_flat_map(|lens| {
        let total = lens.iter().sum::<usize>();
        let value = prop_oneof![Just(0.0f32), -1.0f32..1.0, -1e30f32..1e30, -1e-41f32..1e-41];
        (Just(lens), prop::collection::vec(value, total))
    })
}

proptest! {
    #[test]
    fn what_is_encoded_is_accepted_and_has_the_promised_length(
        (lens, values) in any_values(), coding in any_coding()
    ) {
        let layout = layout(&lens);
        let (codec, form) = coding;
        let payload = encode_as(&layout, &values, coding);
        prop_assert_eq!(payload.payload().format, form.format(codec));
        if form == Form::default() {
            prop_assert_eq!(payload.len(), codec.payload_bytes(&layout));
        }
        let claim = payload.payload();
        let len = claim.bytes.len() as u64;
        prop_assert_eq!(Payload::check_claim(claim.format, &claim.entries, len, &layout), Ok(()));
        let decoded = payload.decode();
        prop_assert!(decoded.iter().all(|v| v.is_finite()));
        if payload.payload().format == Format::Identity {
            prop_assert_eq!(decoded, values);
        }
    }

    #[test]
    fn chunked_and_flat_decoding_agree(
        (lens, values) in any_values(), coding in any_coding(), chunk_len in 1usize..50
    ) {
        let layout = layout(&lens);
        let payload = encode_as(&layout, &values, coding);
        let mut flat = vec![1.0; values.len()];
        payload.add_scaled_to(-0.5, &mut flat);
        let mut chunked = vec![1.0; values.len()];
        for (i, chunk) in chunked.chunks_mut(chunk_len).enumerate() {
            let from = i * chunk_len;
            if payload.touches(from, chunk.len()) {
                payload.add_scaled_within(-0.5, from, chunk);
            }
        }
        prop_assert_eq!(flat, chunked);
    }

    #[test]
    fn topk_keeps_no_less_than_it_drops((lens, values) in any_values(), rho in 0.001f64..=1.0) {
        let layout = layout(&lens);
        let decoded = encode(&layout, &values, topk(rho)).decode();
        for range in layout.ranges() {
            let kept = decoded[range.clone()].iter().filter(|v| **v != 0.0).map(|v| v.abs());
            let dropped = range.clone().filter(|&i| decoded[i] != values[i]).map(|i| values[i].abs());
            let floor = kept.fold(f32::INFINITY, f32::min);
            prop_assert!(dropped.fold(0.0, f32::max) <= floor);
        }
    }

    #[test]
    fn rubbish_never_panics(
        lens in prop::collection::vec(0usize..10, 1..4),
        format in any_format(),
        entries in prop::collection::vec(prop_oneof![0u32..6, any::<u32>()], 0..4),
        bytes in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let layout = layout(&lens);
        if let Ok(checked) = (Payload { format, entries, bytes: bytes.into() }).check(&layout) {
            prop_assert!(checked.decode().iter().all(|v| v.is_finite()));
        }
    }

    /// Error feedback's law: what is sent and what is left make up the gradient and what was left before.
    #[test]
    fn what_is_sent_and_what_is_left_are_the_sum(
        (lens, values) in any_values(), coding in any_coding(), scale in -1.0f32..1.0
    ) {
        let layout = layout(&lens);
        let e: Vec<f32> = values.iter().rev().map(|v| v * scale).collect();
        let mut u = values.clone();
        let mut encoder = Encoder::new(Arc::clone(&layout), 7).with_form(coding.1);
        let encoded = encoder.encode_in_place(&mut u, Some(&e), coding.0, 1).unwrap();
        let sent = encoded.payload.check(&layout).unwrap().decode();
        for (i, (sent, left)) in sent.iter().zip(&u).enumerate() {
            let sum = values[i] + e[i];
            // Left is the rounded difference of the sum and what a decoder sees.
            prop_assert!((sum - sent).to_bits() == left.to_bits() || (sum - sent == 0.0 && *left == 0.0));
        }
        let square = |v: &f32| f64::from(*v) * f64::from(*v);
        let norm = u.iter().map(square).sum::<f64>().sqrt();
        prop_assert!((encoded.residual_norm - norm).abs() <= 1e-4 * norm + 1e-45, "{} {}", encoded.residual_norm, norm);
        let norm = values.iter().map(square).sum::<f64>().sqrt();
        prop_assert!((encoded.gradient_norm - norm).abs() <= 1e-4 * norm + 1e-37, "{} {}", encoded.gradient_norm, norm);
    }

    #[test]
    fn a_payload_cut_short_or_spoilt_is_refused_or_means_something_finite(
        (lens, values) in any_values(), coding in any_coding(), cut in 1usize..9, flip: (usize, u8)
    ) {
        let layout = layout(&lens);
        let payload = encode_as(&layout, &values, coding).payload().clone();
        if payload.bytes.len() >= cut {
            let short = Payload { bytes: payload.bytes.slice(..payload.bytes.len() - cut), ..payload.clone() };
            prop_assert!(short.check(&layout).is_err());
        }
        let long = Payload { bytes: [&payload.bytes[..], &[0]].concat().into(), ..payload.clone() };
        prop_assert!(long.check(&layout).is_err());
        let mut spoilt = payload.bytes.to_vec();
        if let Some(len @ 1..) = Some(spoilt.len()) {
            spoilt[flip.0 % len] ^= flip.1;
            if let Ok(checked) = (Payload { bytes: spoilt.into(), ..payload }).check(&layout) {
                prop_assert!(checked.decode().iter().all(|v| v.is_finite()));
            }
        }
    }
}
