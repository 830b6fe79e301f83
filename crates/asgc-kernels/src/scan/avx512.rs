//! Rows of one register of sixteen.

use super::{Collect, Found, LANES, Sums, one_by_one, up_to_one_by_one};
use std::arch::x86_64::{
    __m512, __m512i, __mmask16, _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512, _mm512_castps_si512,
    _mm512_castsi512_ps, _mm512_cmpgt_epi32_mask, _mm512_cmple_epu32_mask, _mm512_loadu_ps,
    _mm512_maskz_compress_epi32, _mm512_maskz_compress_ps, _mm512_maskz_mov_ps, _mm512_maskz_mul_ps,
    _mm512_mul_ps, _mm512_set1_epi32, _mm512_setr_epi32, _mm512_setzero_ps, _mm512_storeu_ps,
};

/// As [`one_by_one`], a row at a time. What exceeds the threshold is packed into a register and written behind what was found,
/// whether there is any or not: a branch that nobody can predict costs more.
#[target_feature(enable = "avx512f,popcnt")]
pub(super) fn scan(
    u: &mut [f32],
    e: Option<&[f32]>,
    (first, threshold): (u32, u32),
    (found, how): (&mut Found, Collect),
    sums: &mut Sums,
) {
    let (rows, _) = u.as_chunks_mut::<LANES>();
    let whole = rows.len() * LANES;
    let mut registers = [_mm512_setzero_ps(); 2];
    let mut to = Behind::new(found);
    // No closures in these loops: a closure does not have the features of the function around it.
    if let Some(e) = e {
        for (i, (row, e)) in rows.iter_mut().zip(e.as_chunks::<LANES>().0).enumerate() {
            let sum = _mm512_add_ps(squared(load(row), &mut registers[0]), load(e));
            let exceeds = within(sum, threshold, &mut registers[1]);
            let taken = if how.takes { exceeds } else { 0 };
            store(_mm512_maskz_mov_ps(!taken, sum), row);
            if how.collects {
                to.append(sum, exceeds, first.wrapping_add((i * LANES) as u32));
            }
        }
    } else {
        for (i, row) in rows.iter_mut().enumerate() {
            let values = squared(load(row), &mut registers[0]);
            let exceeds = within(values, threshold, &mut registers[1]);
            if how.takes {
                store(_mm512_maskz_mov_ps(!exceeds, values), row);
            }
            if how.collects {
                to.append(values, exceeds, first.wrapping_add((i * LANES) as u32));
            }
        }
    }
    found.len += to.len;
    store(registers[0], &mut sums[0]);
    store(registers[1], &mut sums[1]);
    let at = (first.wrapping_add(whole as u32), threshold);
    one_by_one(&mut u[whole..], e.map(|e| &e[whole..]), at, (found, how), sums);
}

/// As [`up_to_one_by_one`], a row at a time.
#[target_feature(enable = "avx512f,popcnt")]
pub(super) fn up_to(values: &[f32], limit: u32, out: &mut [u32]) -> usize {
    let (rows, rest) = values.as_chunks::<LANES>();
    let mut len = 0;
    for row in rows {
        let magnitudes = magnitudes(load(row));
        let within = _mm512_cmple_epu32_mask(magnitudes, _mm512_set1_epi32(limit.cast_signed()));
        let (to, _) = out[len..len + LANES].as_chunks_mut();
        let packed = _mm512_maskz_compress_epi32(within, magnitudes);
        store_bits(_mm512_castsi512_ps(packed), &mut to[0]);
        len += within.count_ones() as usize;
    }
    len + up_to_one_by_one(rest, limit, &mut out[len..])
}

/// The place behind what was found.
struct Behind<'a> {
    indices: &'a mut [u32],
    values: &'a mut [f32],
    len: usize,
}

impl<'a> Behind<'a> {
    fn new(found: &'a mut Found) -> Self {
        Self {
            indices: &mut found.indices[found.len..],
            values: &mut found.values[found.len..],
            len: 0,
        }
    }

    /// Appends the marked ones of sixteen values of which the first has index `first`.
    #[target_feature(enable = "avx512f,popcnt")]
    #[inline]
    fn append(&mut self, values: __m512, marked: __mmask16, first: u32) {
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let indices = _mm512_add_epi32(_mm512_set1_epi32(first.cast_signed()), lanes);
        let behind = self.len..self.len + LANES;
        let indices = _mm512_castsi512_ps(_mm512_maskz_compress_epi32(marked, indices));
        let (to, _) = self.indices[behind.clone()].as_chunks_mut();
        store_bits(indices, &mut to[0]);
        let (to, _) = self.values[behind].as_chunks_mut();
        store(_mm512_maskz_compress_ps(marked, values), &mut to[0]);
        self.len += marked.count_ones() as usize;
    }
}

/// Adds the squares to a sum; returns the values.
#[target_feature(enable = "avx512f")]
#[inline]
fn squared(values: __m512, sum: &mut __m512) -> __m512 {
    *sum = _mm512_add_ps(*sum, _mm512_mul_ps(values, values));
    values
}

/// Which values exceed the threshold; adds the squares of the others to a sum.
#[target_feature(enable = "avx512f")]
#[inline]
fn within(values: __m512, threshold: u32, sum: &mut __m512) -> __mmask16 {
    let exceeds = _mm512_cmpgt_epi32_mask(magnitudes(values), _mm512_set1_epi32(threshold.cast_signed()));
    *sum = _mm512_add_ps(*sum, _mm512_maskz_mul_ps(!exceeds, values, values));
    exceeds
}

#[target_feature(enable = "avx512f")]
#[inline]
fn magnitudes(values: __m512) -> __m512i {
    _mm512_and_si512(_mm512_castps_si512(values), _mm512_set1_epi32(i32::MAX))
}

#[target_feature(enable = "avx512f")]
#[inline]
#[expect(unsafe_code, reason = "registers are loaded through pointers")]
fn load(row: &[f32; LANES]) -> __m512 {
    // SAFETY: sixteen floats are there, at whatever alignment.
    unsafe { _mm512_loadu_ps(row.as_ptr()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
#[expect(unsafe_code, reason = "registers are stored through pointers")]
fn store(values: __m512, row: &mut [f32; LANES]) {
    // SAFETY: there is room for sixteen floats, at whatever alignment.
    unsafe { _mm512_storeu_ps(row.as_mut_ptr(), values) }
}

#[target_feature(enable = "avx512f")]
#[inline]
#[expect(unsafe_code, reason = "registers are stored through pointers")]
fn store_bits(bits: __m512, row: &mut [u32; LANES]) {
    // SAFETY: there is room for sixteen words, at whatever alignment.
    unsafe { _mm512_storeu_ps(row.as_mut_ptr().cast(), bits) }
}
