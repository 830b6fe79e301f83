//! Loops over large slices of floats: what the codecs and the server's update spend their time in.
//!
//! Each kernel is one loop in safe Rust, compiled three times: for any processor, with AVX2, and with AVX-512, of which the
//! processor that runs it takes the best that it has (asked at run time). All do the same operations in the same order, and
//! nothing here uses fused multiply-add, so that they agree to the bit: a worker and a server, or a run and its replay, may sit
//! on different processors. Only [`scan`] is written anew for each, since no compiler packs the survivors of a comparison.
//!
//! There is no allocation but in [`Found`], no thread, and no randomness but a counter's ([`uniform`]).

#[macro_use]
mod dispatch;
mod add;
mod codes;
mod halves;
mod packed;
mod scan;
mod signs;
mod sums;

pub use add::{add_scaled, add_scaled_bytes, add_scaled_sparse, axpy};
pub use codes::{Key, add_scaled_codes, quantize, quantize_in_place, uniform};
pub use halves::{
    add_scaled_bf16, add_scaled_fp16, bf16_bits, bf16_value, encode_bf16, encode_fp16, finite_bf16,
    finite_fp16,
};
pub use packed::{pack, packed_len, unpack};
pub use scan::{Found, Squares, scan};
pub use signs::{add_scaled_signs, encode_signs};
pub use sums::{all_finite, all_finite_bytes, largest_bits, sum_magnitudes, sum_squares};

/// Entries that are worked on at once where a loop makes several passes: 16 KiB, half of a first-level cache.
pub const BLOCK: usize = 4096;

/// What is left of a float without its sign: non-negative floats order as these integers do, and all that is not finite
/// lies above all that is.
#[must_use]
pub fn magnitude_bits(value: f32) -> u32 {
    value.to_bits() & 0x7fff_ffff
}

/// The [`magnitude_bits`] of infinity: the least that are not finite.
pub const INFINITE: u32 = 0x7f80_0000;
