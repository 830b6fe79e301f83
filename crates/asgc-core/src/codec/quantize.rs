//! Quantize: QSGD with the tensor's L2 norm as scale (Alistarh et al., NeurIPS 2017, section 3.1).
//!
//! `s = 2^(bits-1) - 1` levels a side; `x = s * u / |u|_2`; code = floor(x) + Bernoulli(frac(x)), so that
//! the expectation of the decoded value is `u`. The stored scale is `|u|_2 / s`, so decoding is
//! `code * scale` and does not depend on `bits`. A piece is the `f32` scale and `n` codes of `i8`.
//!
//! A norm of zero, or one so small that the scale underflows, gives scale 0 and codes 0.

use crate::ids::Bits;
use bytes::{BufMut, BytesMut};
use rand::Rng;

/// Writes the piece of `values`, drawing one number from `rng` for each entry.
/// `None`, with nothing written, where the scale would not be finite.
pub(super) fn encode(values: &[f32], bits: Bits, rng: &mut impl Rng, out: &mut BytesMut) -> Option<()> {
    let levels = f32::from(bits.levels());
    // In f64 neither the squares of the largest nor of the smallest floats leave the range.
    let norm = values
        .iter()
        .map(|&v| f64::from(v) * f64::from(v))
        .sum::<f64>()
        .sqrt();
    let scale = (norm / f64::from(levels)) as f32;
    if !(scale * levels).is_finite() {
        return None;
    }
    out.reserve(values.len() + 4);
    out.put_f32_le(scale);
    if scale == 0.0 {
        out.put_bytes(0, values.len());
    } else {
        values
            .iter()
            .for_each(|&value| out.put_i8(round(value / scale, levels, rng)));
    }
    Some(())
}

/// Whether every code gives a finite value with this scale.
pub(super) fn decodes_finite(scale: f32, codes: &[u8]) -> bool {
    let largest = codes
        .iter()
        .fold(0, |max, code| code.cast_signed().unsigned_abs().max(max));
    // Also for codes of zero: 0 * infinity is not a number.
    scale.is_finite() && (scale * f32::from(largest)).is_finite()
}

/// `x` rounded up or down at random, with expectation `x`.
fn round(x: f32, levels: f32, rng: &mut impl Rng) -> i8 {
    // 24 random bits are as fine as the fraction of a float.
    let uniform = (rng.next_u32() >> 8) as f32 * (1.0 / (1u32 << 24) as f32);
    let down = x.floor();
    let up = f32::from(u8::from(uniform < x - down));
    // |u| <= norm holds exactly, but x can exceed the levels by a rounding.
    (down + up).clamp(-levels, levels) as i8
}
