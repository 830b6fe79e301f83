//! The one pass that Top-K makes over its data: `u = g + e`, norms, and whatever exceeds a threshold.
//!
//! A threshold is compared with [`magnitude_bits`](crate::magnitude_bits) as whole numbers. So a NaN or an infinity
//! exceeds every threshold that is finite, and finding one costs nothing of its own.

use crate::sums::{fold, in_range, largest_bits};
use crate::{BLOCK, magnitude_bits};

/// Lanes of a sum: two registers of eight, so that all that a row needs fits into the sixteen that there are.
const LANES: usize = 16;

/// What exceeded the threshold, in the order of the indices.
#[derive(Debug, Default)]
pub struct Found {
    indices: Vec<u32>,
    values: Vec<f32>,
    limit: usize,
    overflown: bool,
}

impl Found {
    /// Forgets what was found; keeps `limit` at most, or a block more, from here on.
    pub fn begin(&mut self, limit: usize) {
        self.indices.clear();
        self.values.clear();
        self.limit = limit;
        self.overflown = false;
    }

    /// Where.
    #[must_use]
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// What.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Whether there was more than the limit: what is here is then only the beginning.
    #[must_use]
    pub fn overflown(&self) -> bool {
        self.overflown
    }

    /// Looks through what was found for what exceeds a higher threshold, and leaves that in `above`; returns the sum of squares
    /// of the others.
    pub fn filter(&mut self, threshold: u32, above: &mut Found) -> f64 {
        above.begin(self.values.len());
        let squares = scan(&mut self.values, None, (0, threshold), above);
        for place in &mut above.indices {
            *place = self.indices[*place as usize];
        }
        squares.rest
    }

    /// Whether a block may still be collected.
    fn has_room(&mut self) -> bool {
        self.overflown |= self.indices.len() > self.limit;
        !self.overflown
    }
}

/// Sums of squares of one scan.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Squares {
    /// Of what was in `u` before `e` was added.
    pub before: f64,
    /// Of those sums that do not exceed the threshold.
    pub rest: f64,
}

/// `u += e`, where there is an `e`, and collects into `found` what then has larger magnitude bits than `threshold`. Entry `i`
/// has index `first + i`.
///
/// # Panics
/// When `e` has another length than `u`.
pub fn scan(u: &mut [f32], e: Option<&[f32]>, (first, threshold): (u32, u32), found: &mut Found) -> Squares {
    assert!(e.is_none_or(|e| e.len() == u.len()), "vectors of one length");
    let mut squares = Squares::default();
    for (b, u) in u.chunks_mut(BLOCK).enumerate() {
        let at = b * BLOCK;
        let e = e.map(|e| &e[at..at + u.len()]);
        let sums = block(u, e, (first.wrapping_add(at as u32), threshold), found);
        let (before, rest) = in_f64(sums, u, (e, threshold));
        squares.before += before;
        squares.rest += rest;
    }
    squares
}

/// Sums of squares in lanes: of what was there before, and of the rest.
type Sums = [[f32; LANES]; 2];

/// Scans one block; returns its sums in `f32`.
fn block(u: &mut [f32], e: Option<&[f32]>, at: (u32, u32), found: &mut Found) -> (f32, f32) {
    let room = found.has_room();
    let mut sums: Sums = [[0.0; LANES]; 2];
    #[cfg(target_arch = "x86_64")]
    if avx2::available() {
        #[expect(
            unsafe_code,
            reason = "the only way to call code for a feature that was found at run time"
        )]
        // SAFETY: the processor has what the function needs, as was just asked; the function itself is safe.
        unsafe {
            avx2::scan(u, e, at, (found, room), &mut sums);
        }
        return (fold(&sums[0]), fold(&sums[1]));
    }
    one_by_one(u, e, at, (found, room), &mut sums);
    (fold(&sums[0]), fold(&sums[1]))
}

/// The plain loop: what every other way of scanning has to agree with, to the bit. A block, or the end of one.
fn one_by_one(
    u: &mut [f32],
    e: Option<&[f32]>,
    (first, threshold): (u32, u32),
    (found, room): (&mut Found, bool),
    sums: &mut Sums,
) {
    for (i, u) in u.iter_mut().enumerate() {
        sums[0][i % LANES] += *u * *u;
        if let Some(e) = e {
            *u += e[i];
        }
        sums[1][i % LANES] += square_within(*u, threshold);
        if room && magnitude_bits(*u) > threshold {
            found.indices.push(first.wrapping_add(i as u32));
            found.values.push(*u);
        }
    }
}

/// The square of what does not exceed the threshold, else 0.
fn square_within(u: f32, threshold: u32) -> f32 {
    let within = u32::from(magnitude_bits(u) <= threshold).wrapping_neg();
    f32::from_bits((u * u).to_bits() & within)
}

/// The sums, taken again in `f64` where they left the range of `f32`.
fn in_f64((before, rest): (f32, f32), u: &[f32], (e, threshold): (Option<&[f32]>, u32)) -> (f64, f64) {
    let wide = |range: f32, sum: &dyn Fn() -> f64| if in_range(range) { f64::from(range) } else { sum() };
    // All of it zero, which is common, and no loss to underflow.
    if before == 0.0 && rest == 0.0 && largest_bits(u) == 0 && e.is_none_or(|e| largest_bits(e) == 0) {
        return (0.0, 0.0);
    }
    let square = |x: f64| x * x;
    let e_at = |i: usize| e.map_or(0.0, |e| f64::from(e[i]));
    (
        // What was there before is overwritten, but for a rounding it is the difference.
        wide(before, &|| {
            u.iter()
                .enumerate()
                .map(|(i, &u)| square(f64::from(u) - e_at(i)))
                .sum()
        }),
        wide(rest, &|| {
            let within = u.iter().filter(|u| magnitude_bits(**u) <= threshold);
            within.map(|&u| square(f64::from(u))).sum()
        }),
    )
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{BLOCK, Found, Sums, one_by_one};
    use std::arch::x86_64::{
        __m256, __m256i, _mm256_add_ps, _mm256_and_si256, _mm256_andnot_ps, _mm256_castps_si256,
        _mm256_castsi256_ps, _mm256_cmpgt_epi32, _mm256_loadu_ps, _mm256_movemask_ps, _mm256_mul_ps,
        _mm256_set1_epi32, _mm256_setzero_ps, _mm256_storeu_ps,
    };

    /// Entries in a register.
    const WIDTH: usize = 8;

    /// Entries whose comparisons make one word.
    const ROW: usize = 4 * WIDTH;

    /// Places that are written at once, whether there are so many or not: a branch that nobody can predict costs more.
    const AT_ONCE: usize = 4;

    /// Up to so many places of two rows are written one after the other.
    const FEW: u32 = 8;

    /// For each mask of eight lanes, the lanes that are set, moved to the front.
    static TO_FRONT: [[u32; WIDTH]; 256] = to_front();

    const fn to_front() -> [[u32; WIDTH]; 256] {
        let mut table = [[0; WIDTH]; 256];
        let mut mask = 0;
        while mask < 256 {
            let (mut lane, mut to) = (0, 0);
            while lane < WIDTH {
                if mask >> lane & 1 == 1 {
                    table[mask][to] = lane as u32;
                    to += 1;
                }
                lane += 1;
            }
            mask += 1;
        }
        table
    }

    /// For each row of a block, which of its entries exceed the threshold.
    type Masks = [u32; BLOCK / ROW];

    /// Whether this processor has what [`scan`] is built for.
    pub(super) fn available() -> bool {
        std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("bmi1")
            && std::arch::is_x86_feature_detected!("popcnt")
    }

    /// As [`one_by_one`], a row at a time: first the sums and comparisons of all rows, then what they found, so that neither
    /// waits for the other. Two registers after the other sum what the lanes do there.
    #[target_feature(enable = "avx2,bmi1,popcnt")]
    pub(super) fn scan(
        u: &mut [f32],
        e: Option<&[f32]>,
        (first, threshold): (u32, u32),
        (found, room): (&mut Found, bool),
        sums: &mut Sums,
    ) {
        let mut masks: Masks = [0; BLOCK / ROW];
        let mut registers: [[__m256; 2]; 2] = [[_mm256_setzero_ps(); 2]; 2];
        let (rows, _) = u.as_chunks_mut::<ROW>();
        let whole = rows.len() * ROW;
        // No closures in these loops: a closure does not have the features of the function around it.
        if let Some(e) = e {
            for ((row, e), mask) in rows.iter_mut().zip(e.as_chunks::<ROW>().0).zip(&mut masks) {
                *mask = add(row, Some(e), threshold, &mut registers);
            }
        } else {
            for (row, mask) in rows.iter_mut().zip(&mut masks) {
                *mask = add(row, None, threshold, &mut registers);
            }
        }
        for (sums, registers) in sums.iter_mut().zip(&registers) {
            for (i, register) in registers.iter().enumerate() {
                store(*register, sums, i * WIDTH);
            }
        }
        if room {
            collect(u, &masks, first, found);
        }
        let at = (first.wrapping_add(whole as u32), threshold);
        one_by_one(&mut u[whole..], e.map(|e| &e[whole..]), at, (found, room), sums);
    }

    /// Adds a row and its squares; returns which entries exceed the threshold, a bit for each.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn add(row: &mut [f32; ROW], e: Option<&[f32; ROW]>, threshold: u32, sums: &mut [[__m256; 2]; 2]) -> u32 {
        let limit = _mm256_set1_epi32(threshold.cast_signed());
        let mut mask = 0;
        for i in 0..ROW / WIDTH {
            let mut u = load(row, i * WIDTH);
            sums[0][i % 2] = _mm256_add_ps(sums[0][i % 2], _mm256_mul_ps(u, u));
            if let Some(e) = e {
                u = _mm256_add_ps(u, load(e, i * WIDTH));
                store(u, row, i * WIDTH);
            }
            let exceeds = _mm256_castsi256_ps(_mm256_cmpgt_epi32(magnitude(u), limit));
            let within = _mm256_andnot_ps(exceeds, _mm256_mul_ps(u, u));
            sums[1][i % 2] = _mm256_add_ps(sums[1][i % 2], within);
            mask |= _mm256_movemask_ps(exceeds).cast_unsigned() << (i * WIDTH);
        }
        mask
    }

    /// Appends the entries of a block whose bits are set; entry `i` has index `first + i`.
    #[target_feature(enable = "avx2,bmi1,popcnt")]
    #[inline]
    fn collect(u: &[f32], masks: &Masks, first: u32, found: &mut Found) {
        let mut places = [0; BLOCK + WIDTH];
        let places = set_bits(masks, &mut places);
        found
            .indices
            .extend(places.iter().map(|&place| first.wrapping_add(place)));
        found.values.extend(places.iter().map(|&place| u[place as usize]));
    }

    /// Writes where bits are set, in their order; returns what was written.
    #[target_feature(enable = "avx2,bmi1,popcnt")]
    #[inline]
    fn set_bits<'a>(masks: &Masks, places: &'a mut [u32; BLOCK + WIDTH]) -> &'a [u32] {
        let mut len = 0;
        for (i, &[low, high]) in masks.as_chunks::<2>().0.iter().enumerate() {
            let word = u64::from(low) | u64::from(high) << u32::BITS;
            let first = i as u32 * u64::BITS;
            if word.count_ones() <= FEW {
                few(word, first, &mut places[len..]);
                len += word.count_ones() as usize;
            } else {
                len += many(word, first, &mut places[len..]);
            }
        }
        &places[..len]
    }

    /// Writes one place after the other.
    #[target_feature(enable = "bmi1")]
    #[inline]
    fn few(mut word: u64, first: u32, places: &mut [u32]) {
        for places in places.as_chunks_mut::<AT_ONCE>().0 {
            for place in places {
                *place = first + word.trailing_zeros();
                word &= word.wrapping_sub(1);
            }
            if word == 0 {
                break;
            }
        }
    }

    /// Writes those of eight lanes together, as a table has them; returns how many there are.
    #[target_feature(enable = "avx2,popcnt")]
    #[inline]
    fn many(word: u64, first: u32, places: &mut [u32]) -> usize {
        let mut len = 0;
        for (i, mask) in word.to_le_bytes().into_iter().enumerate() {
            let lanes = &TO_FRONT[usize::from(mask)];
            for (place, lane) in places[len..len + WIDTH].iter_mut().zip(lanes) {
                *place = first + (i * WIDTH) as u32 + lane;
            }
            len += mask.count_ones() as usize;
        }
        len
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn magnitude(values: __m256) -> __m256i {
        _mm256_and_si256(_mm256_castps_si256(values), _mm256_set1_epi32(i32::MAX))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    #[expect(unsafe_code, reason = "registers are loaded through pointers")]
    fn load(row: &[f32; ROW], from: usize) -> __m256 {
        let eight = &row[from..from + WIDTH];
        // SAFETY: eight floats are there, at whatever alignment.
        unsafe { _mm256_loadu_ps(eight.as_ptr()) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    #[expect(unsafe_code, reason = "registers are stored through pointers")]
    fn store(values: __m256, row: &mut [f32], from: usize) {
        let eight = &mut row[from..from + WIDTH];
        // SAFETY: there is room for eight floats, at whatever alignment.
        unsafe { _mm256_storeu_ps(eight.as_mut_ptr(), values) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scanned(g: &[f32], e: &[f32], threshold: f32) -> (Vec<f32>, Found, Squares) {
        let (mut u, mut found) = (g.to_vec(), Found::default());
        found.begin(g.len());
        let squares = scan(&mut u, Some(e), (7, magnitude_bits(threshold)), &mut found);
        (u, found, squares)
    }

    #[test]
    fn one_pass_adds_sums_and_filters() {
        let (u, found, squares) = scanned(&[1.0, -2.0, 0.5], &[0.0, -3.0, 0.25], 1.0);
        assert_eq!(u, [1.0, -5.0, 0.75]);
        assert_eq!((found.indices(), found.values()), (&[8][..], &[-5.0][..]));
        assert_eq!(
            squares,
            Squares {
                before: 5.25,
                rest: 1.5625
            }
        );
    }

    #[test]
    fn what_was_found_is_looked_through_again() {
        let (_, mut found, _) = scanned(&[1.0, -2.0, 0.5, 3.0], &[0.0; 4], 0.75);
        let mut above = Found::default();
        let left = found.filter(magnitude_bits(1.5), &mut above);
        assert_eq!(
            (above.indices(), above.values()),
            (&[8, 10][..], &[-2.0, 3.0][..])
        );
        assert_eq!(left, 1.0);
    }

    #[test]
    fn what_is_not_finite_is_always_found() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let (_, found, _) = scanned(&[0.0, bad], &[0.0, 1.0], f32::MAX);
            assert_eq!(found.indices(), [8]);
        }
    }

    #[test]
    fn beyond_the_limit_it_goes_on_adding() {
        let (mut u, mut found) = (vec![2.0; 3 * BLOCK], Found::default());
        found.begin(10);
        scan(&mut u, Some(&vec![1.0; 3 * BLOCK]), (0, 0), &mut found);
        assert!(found.overflown() && found.indices().len() == BLOCK);
        assert_eq!(u, [3.0; 3 * BLOCK]);
    }

    proptest! {
        #[test]
        fn it_finds_what_a_plain_loop_finds(
            pairs in prop::collection::vec((-1.0f32..1.0, prop_oneof![Just(0.0f32), -1e25f32..1e25, -1e-30f32..1e-30]), 0..10_000),
            threshold in prop_oneof![0.0f32..1.5, Just(0.0f32)],
        ) {
            let (g, e): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let (u, found, squares) = scanned(&g, &e, threshold);
            let sum: Vec<f32> = g.iter().zip(&e).map(|(g, e)| g + e).collect();
            prop_assert_eq!(&u, &sum);
            let (mut again, mut plain) = (g.clone(), Found::default());
            let bits = magnitude_bits(threshold);
            let mut sums: Sums = [[0.0; LANES]; 2];
            one_by_one(&mut again, Some(&e), (7, bits), (&mut plain, true), &mut sums);
            prop_assert_eq!(&u, &again);
            prop_assert_eq!(found.indices(), plain.indices());
            prop_assert_eq!(found.values(), plain.values());
            let square = |v: &f32| f64::from(*v) * f64::from(*v);
            let rest: f64 = sum.iter().filter(|v| v.abs() <= threshold).map(square).sum();
            prop_assert!((squares.rest - rest).abs() <= 1e-5 * rest);
            // Without anything to add the same is found, and both ways agree to the bit.
            found_alike(&sum, bits)?;
        }
    }

    fn found_alike(sum: &[f32], bits: u32) -> Result<(), TestCaseError> {
        let (mut one, mut other) = (Found::default(), Found::default());
        one.begin(sum.len());
        other.begin(sum.len());
        let alone = scan(&mut sum.to_vec(), None, (7, bits), &mut one);
        let with_zeros = scan(
            &mut sum.to_vec(),
            Some(&vec![0.0; sum.len()]),
            (7, bits),
            &mut other,
        );
        prop_assert_eq!(alone, with_zeros);
        prop_assert_eq!(one.indices(), other.indices());
        for values in sum.chunks(BLOCK) {
            let mut sums: Sums = [[0.0; LANES]; 2];
            one_by_one(
                &mut values.to_vec(),
                None,
                (0, bits),
                (&mut one, false),
                &mut sums,
            );
            let plain = (fold(&sums[0]), fold(&sums[1]));
            prop_assert_eq!(block(&mut values.to_vec(), None, (0, bits), &mut other), plain);
        }
        Ok(())
    }
}
