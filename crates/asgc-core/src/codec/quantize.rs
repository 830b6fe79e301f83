//! Quantize: QSGD with the tensor's L2 norm as scale (Alistarh et al., NeurIPS 2017, section 3.1).
//!
//! `s = 2^(bits-1) - 1` levels a side; `x = s * u / |u|_2`; code = floor(x) + Bernoulli(frac(x)), so that the expectation of the
//! decoded value is `u`. The stored scale is `|u|_2 / s`, so decoding is `code * scale` and does not depend on `bits`.
//!
//! | form | bytes, little-endian | length |
//! |---|---|---|
//! | plain | per tensor: `f32` scale; `n` x `i8` code | `n + 4` a tensor |
//! | packed | `u8` bits `b`; per tensor: `f32` scale; `n` codes of `b` bits, two's complement, from the lowest bit on | `1 +`; `ceil(n b / 8) + 4` a tensor |
//!
//! A norm of zero, or one so small that the scale underflows, gives scale 0 and codes 0.

use crate::ids::Bits;
use crate::layout::Layout;
use asgc_kernels as kernels;
use kernels::{BLOCK, Key};

/// Length of a packed payload, in bytes.
pub(super) fn packed_bytes(bits: u8, layout: &Layout) -> u64 {
    let piece = |len: usize| kernels::packed_len(len, bits) as u64 + 4;
    1 + layout.ranges().map(|range| piece(range.len())).sum::<u64>()
}

/// The scale of a tensor whose squares sum to `squares`; `None` where it would not be finite.
pub(super) fn scale(squares: f64, bits: Bits) -> Option<f32> {
    let levels = f32::from(bits.levels());
    let scale = (squares.sqrt() / f64::from(levels)) as f32;
    (scale * levels).is_finite().then_some(scale)
}

/// How codes are made and written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coding {
    pub(super) bits: Bits,
    pub(super) packed: bool,
    pub(super) key: Key,
}

/// Appends the piece of a tensor with this scale. Leaves what rounding took away in `values` where `keep` says so; returns its
/// sum of squares.
pub(super) fn write(
    values: &mut [f32],
    scale: f32,
    (coding, keep): (Coding, bool),
    out: &mut Vec<u8>,
) -> f64 {
    let Coding { bits, packed, key } = coding;
    out.extend_from_slice(&scale.to_le_bytes());
    let mut codes = [0i8; BLOCK];
    let mut rest = 0.0;
    for (b, values) in values.chunks_mut(BLOCK).enumerate() {
        let codes = &mut codes[..values.len()];
        let (to, random) = ((scale, f32::from(bits.levels())), (key, (b * BLOCK) as u32));
        match (scale == 0.0, keep) {
            (true, _) => codes.fill(0),
            (false, true) => kernels::quantize_in_place(values, to, random, codes),
            (false, false) => kernels::quantize(values, to, random, codes),
        }
        if keep {
            rest += kernels::sum_squares(values);
        }
        // Blocks are multiples of eight codes, so each begins at a whole byte.
        append(codes, bits, packed, out);
    }
    rest
}

fn append(codes: &[i8], bits: Bits, packed: bool, out: &mut Vec<u8>) {
    if packed {
        let from = out.len();
        out.resize(from + kernels::packed_len(codes.len(), bits.get()), 0);
        kernels::pack(codes, bits.get(), &mut out[from..]);
    } else {
        out.extend_from_slice(bytemuck::must_cast_slice(codes));
    }
}
