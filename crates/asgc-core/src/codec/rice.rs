//! Gaps between rising indices, in Rice's code (Rice and Plaunt 1971; Golomb 1966 with a power of two).
//!
//! A gap `g` with parameter `r` is its quotient `g >> r` in unary, that many zeros and a one, and its lower `r` bits. The gaps of
//! a group share a parameter, chosen for the fewest bits; first come all quotients, then all remainders, so that either can be
//! read many bits at a time. Bits fill bytes from the lowest.
//!
//! | offset | what |
//! |---|---|
//! | 0 | `u8` parameter `r`, 0 to 31 |
//! | 1 | quotients, `sum(g >> r) + n` bits |
//! | | remainders, `n * r` bits; then zeros to the end of the byte |

/// The largest parameter: gaps have 32 bits.
const MAX_PARAMETER: u32 = 31;

/// Bits that can be read at once from any place: a word less what lies before the place in its first byte.
const WINDOW: usize = 57;

/// Appends the code of a group of gaps.
pub(super) fn write(gaps: &[u32], out: &mut Vec<u8>) {
    let parameter = best_parameter(gaps);
    out.push(parameter as u8);
    let mut bits = BitWriter {
        out,
        word: 0,
        used: 0,
    };
    for &gap in gaps {
        bits.zeros(gap >> parameter);
        bits.put(1, 1);
    }
    let mask = (1u64 << parameter) - 1;
    gaps.iter()
        .for_each(|&gap| bits.put(u64::from(gap) & mask, parameter));
    bits.finish();
}

/// Reads `gaps.len()` gaps from the beginning of `bytes`; returns the length of their code, or `None` where it has none.
/// Quotients may be as large as there are bits: a gap may exceed 32 bits, and is then out of range for whoever adds it up.
pub(super) fn read(bytes: &[u8], gaps: &mut [u64]) -> Option<usize> {
    let (&parameter, code) = bytes.split_first()?;
    let parameter = u32::from(parameter);
    if parameter > MAX_PARAMETER {
        return None;
    }
    let remainders = read_quotients(code, gaps)?;
    let end = remainders + gaps.len() * parameter as usize;
    if end.div_ceil(8) > code.len() {
        return None;
    }
    let mask = (1u64 << parameter) - 1;
    for (i, gap) in gaps.iter_mut().enumerate() {
        let remainder = window(code, remainders + i * parameter as usize) & mask;
        *gap = (*gap << parameter) | remainder;
    }
    Some(1 + end.div_ceil(8))
}

/// Reads the unary numbers at the beginning of `code`; returns where they end, in bits.
fn read_quotients(code: &[u8], quotients: &mut [u64]) -> Option<usize> {
    let (mut at, mut began, mut read) = (0, 0, 0);
    while read < quotients.len() {
        if at >= 8 * code.len() {
            return None;
        }
        let mut ones = window(code, at) & ((1 << WINDOW) - 1);
        while ones != 0 && read < quotients.len() {
            let one = at + ones.trailing_zeros() as usize;
            quotients[read] = (one - began) as u64;
            began = one + 1;
            read += 1;
            ones &= ones - 1;
        }
        at += WINDOW;
    }
    Some(began)
}

/// At least [`WINDOW`] bits from bit `at` on, zeros behind the end.
fn window(code: &[u8], at: usize) -> u64 {
    let from = at / 8;
    let word = match code.get(from..from + 8) {
        Some(eight) => u64::from_le_bytes(eight.try_into().unwrap_or_default()),
        None => (from..code.len())
            .rev()
            .fold(0, |word, i| (word << 8) | u64::from(code[i])),
    };
    word >> (at % 8)
}

/// The parameter that takes the fewest bits; the lowest of those that take the same.
fn best_parameter(gaps: &[u32]) -> u32 {
    let mean = gaps.iter().map(|&gap| u64::from(gap)).sum::<u64>() / gaps.len().max(1) as u64;
    // For gaps of a geometric distribution the best is near the logarithm of the mean; others are near enough to it.
    let near = (u64::BITS - mean.leading_zeros()).min(MAX_PARAMETER);
    let bits = |r: u32| {
        gaps.iter()
            .map(|&gap| u64::from(gap >> r) + u64::from(r))
            .sum::<u64>()
    };
    let candidates = near.saturating_sub(3)..=(near + 1).min(MAX_PARAMETER);
    candidates.min_by_key(|&r| bits(r)).unwrap_or(near)
}

struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    word: u64,
    used: u32,
}

impl BitWriter<'_> {
    /// Appends the lower `len` (up to 32) bits of `bits`; those above must be 0.
    fn put(&mut self, bits: u64, len: u32) {
        self.word |= bits << self.used;
        self.used += len;
        if self.used >= 32 {
            self.out.extend_from_slice(&(self.word as u32).to_le_bytes());
            self.word >>= 32;
            self.used -= 32;
        }
    }

    fn zeros(&mut self, mut count: u32) {
        while count > 0 {
            let some = count.min(32);
            self.put(0, some);
            count -= some;
        }
    }

    fn finish(self) {
        let bytes = self.word.to_le_bytes();
        self.out
            .extend_from_slice(&bytes[..self.used.div_ceil(8) as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn coded(gaps: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(gaps, &mut bytes);
        bytes
    }

    #[test]
    fn the_bits_are_where_the_table_says() {
        // r = 2: quotients 1, 1, 1 as 01 01 01, then remainders 2, 3, 0, all from the lowest bit on.
        assert_eq!(coded(&[6, 7, 4]), [2, 0b1010_1010, 0b0000_0011]);
    }

    #[test]
    fn random_gaps_take_little_more_than_their_entropy() {
        // Places kept with probability 1/100: 8.08 bits each.
        let mut state = 1u64;
        let mut kept = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33).is_multiple_of(100)
        };
        let mut gaps = Vec::new();
        let mut gap = 0;
        while gaps.len() < 12_800 {
            if kept() {
                gaps.push(std::mem::take(&mut gap));
            } else {
                gap += 1;
            }
        }
        let bytes: usize = gaps.chunks(128).map(|group| coded(group).len()).sum();
        let bits = 8.0 * bytes as f64 / gaps.len() as f64;
        assert!((8.0..8.3).contains(&bits), "{bits}");
    }

    proptest! {
        #[test]
        fn gaps_come_back(gaps in prop::collection::vec(prop_oneof![0u32..4, 0u32..1000, any::<u32>()], 1..=128), behind: [u8; 3]) {
            let mut bytes = coded(&gaps);
            let len = bytes.len();
            bytes.extend(behind);
            let mut back = vec![0; gaps.len()];
            prop_assert_eq!(read(&bytes, &mut back), Some(len));
            prop_assert_eq!(back, gaps.iter().map(|&g| u64::from(g)).collect::<Vec<_>>());
            // A byte short, and it is no code of as many.
            prop_assert_eq!(read(&bytes[..len - 1], &mut vec![0; gaps.len()]), None);
            let longest = 1 + (gaps.len() * 34).div_ceil(8);
            prop_assert!(len <= longest, "{} bytes", len);
        }

        #[test]
        fn rubbish_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), n in 0usize..=128) {
            let mut gaps = vec![0; n];
            if let Some(len) = read(&bytes, &mut gaps) {
                prop_assert!(len <= bytes.len());
            }
        }
    }
}
