//! Rows of four registers of eight.

use super::{BLOCK, Collect, Found, Sums, one_by_one};
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

/// As [`one_by_one`], a row at a time: first the sums and comparisons of all rows, then what they found, so that neither
/// waits for the other. Two registers after the other sum what the lanes do there.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub(super) fn scan(
    u: &mut [f32],
    e: Option<&[f32]>,
    (first, threshold): (u32, u32),
    (found, how): (&mut Found, Collect),
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
    if how.collects {
        collect(u, &masks, (first, how.takes), found);
    }
    let at = (first.wrapping_add(whole as u32), threshold);
    one_by_one(&mut u[whole..], e.map(|e| &e[whole..]), at, (found, how), sums);
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

/// Appends the entries of a block whose bits are set, and takes them out where that is wanted; entry `i` has index `first + i`.
#[target_feature(enable = "avx2,bmi1,popcnt")]
#[inline]
fn collect(u: &mut [f32], masks: &Masks, (first, takes): (u32, bool), found: &mut Found) {
    let indices = &mut found.indices[found.len..];
    let len = set_bits(masks, first, indices);
    for (value, &index) in found.values[found.len..].iter_mut().zip(&indices[..len]) {
        let u = &mut u[index.wrapping_sub(first) as usize];
        *value = *u;
        if takes {
            *u = 0.0;
        }
    }
    found.len += len;
}

/// Writes where bits are set, counted from `first`, in their order; returns how many there are.
#[target_feature(enable = "avx2,bmi1,popcnt")]
#[inline]
fn set_bits(masks: &Masks, first: u32, places: &mut [u32]) -> usize {
    let mut len = 0;
    for (i, &[low, high]) in masks.as_chunks::<2>().0.iter().enumerate() {
        let word = u64::from(low) | u64::from(high) << u32::BITS;
        let first = first.wrapping_add(i as u32 * u64::BITS);
        if word.count_ones() <= FEW {
            few(word, first, &mut places[len..]);
            len += word.count_ones() as usize;
        } else {
            len += many(word, first, &mut places[len..]);
        }
    }
    len
}

/// Writes one place after the other.
#[target_feature(enable = "bmi1")]
#[inline]
fn few(mut word: u64, first: u32, places: &mut [u32]) {
    for places in places.as_chunks_mut::<AT_ONCE>().0 {
        for place in places {
            *place = first.wrapping_add(word.trailing_zeros());
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
            *place = first.wrapping_add((i * WIDTH) as u32 + lane);
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
