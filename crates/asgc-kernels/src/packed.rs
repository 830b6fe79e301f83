//! Codes of `b` bits, packed: eight of them in `b` bytes, the first in the lowest bits, as two's complement.

use std::array;

/// Bytes of `len` packed codes.
#[must_use]
pub fn packed_len(len: usize, bits: u8) -> usize {
    (len * usize::from(bits)).div_ceil(8)
}

kernel! {
    /// Packs codes that fit `bits` (1 to 8) bits; the rest of the last byte is 0.
    ///
    /// # Panics
    /// When `out` is not [`packed_len`] long.
    pub fn pack(codes: &[i8], bits: u8, out: &mut [u8]) = pack_all;
}

kernel! {
    /// The codes that [`pack`] packed.
    ///
    /// # Panics
    /// When `bytes` is not [`packed_len`] long.
    pub fn unpack(bytes: &[u8], bits: u8, codes: &mut [i8]) = unpack_all;
}

#[inline(always)]
fn pack_all(codes: &[i8], bits: u8, out: &mut [u8]) {
    assert_eq!(
        out.len(),
        packed_len(codes.len(), bits),
        "room for the packed codes"
    );
    let width = usize::from(bits);
    for (i, codes) in codes.chunks(8).enumerate() {
        let word = squeeze(
            u64::from_le_bytes(array::from_fn(|i| codes.get(i).map_or(0, |c| c.cast_unsigned()))),
            bits,
        );
        let out = &mut out[i * width..];
        match out.first_chunk_mut::<8>() {
            // What lies above the codes is overwritten by the next.
            Some(eight) => *eight = word.to_le_bytes(),
            None => out
                .iter_mut()
                .zip(word.to_le_bytes())
                .for_each(|(out, byte)| *out = byte),
        }
    }
}

#[inline(always)]
fn unpack_all(bytes: &[u8], bits: u8, codes: &mut [i8]) {
    assert_eq!(bytes.len(), packed_len(codes.len(), bits), "the packed codes");
    let (width, spare) = (usize::from(bits), 8 - u32::from(bits));
    for (i, codes) in codes.chunks_mut(8).enumerate() {
        let bytes = &bytes[i * width..];
        let word = match bytes.first_chunk::<8>() {
            Some(eight) => u64::from_le_bytes(*eight),
            None => u64::from_le_bytes(array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))),
        };
        for (code, byte) in codes.iter_mut().zip(spread(word, bits).to_le_bytes()) {
            // Up to the top of the byte and back: that carries the sign.
            *code = (byte << spare).cast_signed() >> spare;
        }
    }
}

/// In each of three steps two neighbours become one, or one two: bytes, then pairs, then halves. The masks are of the lower
/// neighbour, and of the upper one where it is beside it.
#[inline(always)]
fn neighbours(bits: u8) -> [(u64, u64); 3] {
    let b = u32::from(bits);
    let step = |width: u32, lanes: u64| {
        let lower = ((1u64 << width) - 1) * lanes;
        (lower, lower << width)
    };
    [
        step(b, 0x0001_0001_0001_0001),
        step(2 * b, 0x0000_0001_0000_0001),
        step(4 * b, 1),
    ]
}

/// The lower `bits` bits of each byte, one behind the other.
#[inline(always)]
fn squeeze(word: u64, bits: u8) -> u64 {
    let gap = 8 - u32::from(bits);
    let [bytes, pairs, halves] = neighbours(bits);
    let word = (word & bytes.0) | ((word >> gap) & bytes.1);
    let word = (word & pairs.0) | ((word >> (2 * gap)) & pairs.1);
    (word & halves.0) | ((word >> (4 * gap)) & halves.1)
}

/// The reverse of [`squeeze`].
#[inline(always)]
fn spread(word: u64, bits: u8) -> u64 {
    let gap = 8 - u32::from(bits);
    let [bytes, pairs, halves] = neighbours(bits);
    let word = (word & halves.0) | ((word & halves.1) << (4 * gap));
    let word = (word & pairs.0) | ((word & pairs.1) << (2 * gap));
    (word & bytes.0) | ((word & bytes.1) << gap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::tests::{at, levels};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn codes_come_back(bits in 1u8..=8, wide in prop::collection::vec(any::<i8>(), 0..100)) {
            let spare = 8 - u32::from(bits);
            let codes: Vec<i8> = wide.iter().map(|&c| c.wrapping_shl(spare) >> spare).collect();
            let mut bytes = vec![0xff; packed_len(codes.len(), bits)];
            pack_all(&codes, bits, &mut bytes);
            for level in levels() {
                let (mut again, mut back) = (vec![0xff; bytes.len()], vec![0; codes.len()]);
                at(level, || pack(&codes, bits, &mut again));
                prop_assert_eq!(&again, &bytes);
                at(level, || unpack(&bytes, bits, &mut back));
                prop_assert_eq!(&back, &codes);
            }
        }
    }
}
