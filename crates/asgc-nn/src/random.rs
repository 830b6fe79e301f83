//! Seeded draws whose values are part of a run: written out here, so that no library's update moves them.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The generator of `seed`'s sub-sequence `stream`.
pub(crate) fn generator(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

pub(crate) use asgc_core::initial::unit;

/// Uniform in `0..n` up to a bias of `n / 2^32`.
pub(crate) fn below(rng: &mut impl Rng, n: u32) -> u32 {
    ((u64::from(rng.next_u32()) * u64::from(n)) >> 32) as u32
}

/// Shuffles in place (Fisher-Yates).
pub(crate) fn shuffle(rng: &mut impl Rng, items: &mut [u32]) {
    for i in (1..items.len()).rev() {
        items.swap(i, below(rng, i as u32 + 1) as usize);
    }
}
