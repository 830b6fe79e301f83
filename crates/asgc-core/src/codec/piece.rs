//! One tensor's part of a payload in which every entry is sent, after it was checked.

use asgc_kernels as kernels;

/// Borrowed bytes of one piece. Every accessor relies on [`super::Payload::check`] having passed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece<'a> {
    F32(&'a [u8]),
    Bf16(&'a [u8]),
    Fp16(&'a [u8]),
    Codes { scale: f32, codes: &'a [u8] },
    PackedCodes { scale: f32, bits: u8, codes: &'a [u8] },
    Signs { scale: f32, signs: &'a [u8] },
}

/// The `f32` values of `bytes`, whatever their alignment.
pub(super) fn floats(bytes: &[u8]) -> impl ExactSizeIterator<Item = f32> + '_ {
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|&word| f32::from_le_bytes(word))
}

impl Piece<'_> {
    /// Adds `alpha` times the entries `[from, from + target.len())` of the tensor to `target`.
    pub(super) fn add_scaled(self, alpha: f32, from: usize, target: &mut [f32]) {
        match self {
            Self::F32(values) => kernels::add_scaled_bytes(alpha, &values[4 * from..], target),
            Self::Bf16(values) => kernels::add_scaled_bf16(alpha, &values[2 * from..], target),
            Self::Fp16(values) => kernels::add_scaled_fp16(alpha, &values[2 * from..], target),
            Self::Codes { scale, codes } => {
                kernels::add_scaled_codes(alpha, scale, bytemuck::must_cast_slice(&codes[from..]), target);
            }
            Self::PackedCodes { scale, bits, codes } => {
                add_packed((alpha, scale), (bits, codes), from, target);
            }
            Self::Signs { scale, signs } => {
                kernels::add_scaled_signs(alpha, scale, (&signs[from / 8..], from % 8), target);
            }
        }
    }

    /// Whether the piece moves anything.
    pub(super) fn moves(self) -> bool {
        match self {
            Self::F32(_) | Self::Bf16(_) | Self::Fp16(_) => true,
            Self::Codes { scale, .. } | Self::PackedCodes { scale, .. } | Self::Signs { scale, .. } => {
                scale != 0.0
            }
        }
    }

    /// Whether all values are finite, written out or as the product of code and scale.
    pub(super) fn is_finite(self) -> bool {
        match self {
            Self::F32(values) => kernels::all_finite_bytes(values),
            Self::Bf16(values) => kernels::finite_bf16(values),
            Self::Fp16(values) => kernels::finite_fp16(values),
            Self::Codes { scale, codes } => {
                let largest = codes
                    .iter()
                    .fold(0, |most, code| code.cast_signed().unsigned_abs().max(most));
                // Also for codes of zero: 0 * infinity is not a number.
                scale.is_finite() && (scale * f32::from(largest)).is_finite()
            }
            Self::PackedCodes { scale, bits, .. } => {
                let largest = 1u8 << (bits - 1);
                scale.is_finite() && (scale * f32::from(largest)).is_finite()
            }
            Self::Signs { scale, .. } => scale.is_finite(),
        }
    }
}

/// Unpacks codes block by block, so that they never leave the cache.
fn add_packed((alpha, scale): (f32, f32), (bits, packed): (u8, &[u8]), from: usize, target: &mut [f32]) {
    let mut codes = [0i8; kernels::BLOCK];
    let mut at = from;
    let mut target = target;
    while !target.is_empty() {
        // Eight codes begin at a whole byte.
        let skipped = at % 8;
        let len = (kernels::BLOCK - skipped).min(target.len());
        let first = (at - skipped) / 8 * usize::from(bits);
        let block = &mut codes[..skipped + len];
        kernels::unpack(
            &packed[first..first + kernels::packed_len(block.len(), bits)],
            bits,
            block,
        );
        let (now, later) = target.split_at_mut(len);
        kernels::add_scaled_codes(alpha, scale, &block[skipped..], now);
        target = later;
        at += len;
    }
}
