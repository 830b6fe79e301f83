//! Top-K: the `k` entries of largest magnitude, `k = max(1, round(rho * n))`, half to even.
//!
//! A piece is `k` little-endian `i32` indices, strictly rising, then their `k` `f32` values: 8 bytes an
//! entry. Among equal magnitudes the lower index wins, so that the choice is a pure function of the values.

use super::identity;
use crate::ids::Density;
use bytes::{BufMut, BytesMut};

/// Writes the piece of `values` and returns `k`. `keys` is scratch.
pub(super) fn encode(values: &[f32], density: Density, keys: &mut Vec<u64>, out: &mut BytesMut) -> u32 {
    let k = density.keep_of(values.len());
    select(values, k, keys);
    out.reserve(8 * k);
    keys.iter().for_each(|&key| out.put_u32_le(index_of(key)));
    for &key in keys.iter() {
        identity::encode(&[values[index_of(key) as usize]], out);
    }
    k as u32
}

/// Leaves in `keys` those of the `k` largest magnitudes, sorted by index.
fn select(values: &[f32], k: usize, keys: &mut Vec<u64>) {
    keys.clear();
    keys.extend(values.iter().enumerate().map(|(i, value)| key(i as u32, *value)));
    if k < keys.len() {
        keys.select_nth_unstable_by(k, |a, b| b.cmp(a));
        keys.truncate(k);
    }
    keys.sort_unstable_by_key(|&key| index_of(key));
}

/// Orders by magnitude, then by falling index. The bits of a non-negative float order as the float does.
fn key(index: u32, value: f32) -> u64 {
    (u64::from(value.abs().to_bits()) << 32) | u64::from(!index)
}

fn index_of(key: u64) -> u32 {
    !(key as u32)
}
