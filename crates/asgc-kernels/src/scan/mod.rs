//! The one pass that Top-K makes over its data: `u = g + e`, norms, and whatever exceeds a threshold.
//!
//! A threshold is compared with [`magnitude_bits`](crate::magnitude_bits) as whole numbers. So a NaN or an infinity
//! exceeds every threshold that is finite, and finding one costs nothing of its own.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod found;
#[cfg(test)]
mod tests;

pub use found::Found;

#[cfg(target_arch = "x86_64")]
use crate::dispatch::{self, level};
use crate::sums::{fold, in_range, largest_bits};
use crate::{BLOCK, magnitude_bits};

/// Lanes of a sum: a register of sixteen, or two of eight.
const LANES: usize = 16;

/// Sums of squares of one scan.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Squares {
    /// Of what was in `u` before `e` was added.
    pub before: f64,
    /// Of those sums that do not exceed the threshold.
    pub rest: f64,
}

/// `u += e`, where there is an `e`, and collects into `found` what then has larger magnitude bits than `threshold`; takes it out
/// where `found` [began so](Found::begin_taking). Entry `i` has index `first + i`.
///
/// # Panics
/// When `e` has another length than `u`.
pub fn scan(u: &mut [f32], e: Option<&[f32]>, (first, threshold): (u32, u32), found: &mut Found) -> Squares {
    assert!(e.is_none_or(|e| e.len() == u.len()), "vectors of one length");
    let mut squares = Squares::default();
    for (b, u) in u.chunks_mut(BLOCK).enumerate() {
        let from = b * BLOCK;
        let e = e.map(|e| &e[from..from + u.len()]);
        let at = (first.wrapping_add(from as u32), threshold);
        let found_before = found.len;
        let sums = block(u, e, at, found);
        squares += in_f64(sums, u, (e, at), (found, found_before));
    }
    squares
}

impl std::ops::AddAssign for Squares {
    fn add_assign(&mut self, other: Self) {
        self.before += other.before;
        self.rest += other.rest;
    }
}

/// Sums of squares in lanes: of what was there before, and of the rest.
type Sums = [[f32; LANES]; 2];

/// What a scan of a block does besides adding: whether it collects, and whether it takes out what it collects.
#[derive(Debug, Clone, Copy)]
struct Collect {
    collects: bool,
    takes: bool,
}

/// Scans one block; returns its sums in `f32`.
fn block(u: &mut [f32], e: Option<&[f32]>, at: (u32, u32), found: &mut Found) -> (f32, f32) {
    let collects = found.has_room();
    let how = Collect {
        collects,
        takes: collects && found.taking,
    };
    let mut sums: Sums = [[0.0; LANES]; 2];
    #[cfg(target_arch = "x86_64")]
    #[expect(
        unsafe_code,
        reason = "the only way to call code for a feature that was found at run time"
    )]
    match level() {
        // SAFETY: the processor has AVX-512, as was just asked; the function itself is safe.
        dispatch::Level::Avx512 => unsafe { avx512::scan(u, e, at, (found, how), &mut sums) },
        // SAFETY: the processor has AVX2, as was just asked; the function itself is safe.
        dispatch::Level::Avx2 => unsafe { avx2::scan(u, e, at, (found, how), &mut sums) },
        dispatch::Level::Portable => one_by_one(u, e, at, (found, how), &mut sums),
    }
    #[cfg(not(target_arch = "x86_64"))]
    one_by_one(u, e, at, (found, how), &mut sums);
    (fold(&sums[0]), fold(&sums[1]))
}

/// The plain loop: what every other way of scanning has to agree with, to the bit. A block, or the end of one.
fn one_by_one(
    u: &mut [f32],
    e: Option<&[f32]>,
    (first, threshold): (u32, u32),
    (found, how): (&mut Found, Collect),
    sums: &mut Sums,
) {
    for (i, u) in u.iter_mut().enumerate() {
        sums[0][i % LANES] += *u * *u;
        if let Some(e) = e {
            *u += e[i];
        }
        let exceeds = magnitude_bits(*u) > threshold;
        sums[1][i % LANES] += if exceeds { 0.0 } else { *u * *u };
        if how.collects && exceeds {
            found.push(first.wrapping_add(i as u32), *u);
            if how.takes {
                *u = 0.0;
            }
        }
    }
}

/// The sums of a block, taken again in `f64` where they left the range of `f32`.
fn in_f64(
    (before, rest): (f32, f32),
    u: &mut [f32],
    (e, (first, threshold)): (Option<&[f32]>, (u32, u32)),
    (found, found_before): (&Found, usize),
) -> Squares {
    let in_f32 = Squares {
        before: f64::from(before),
        rest: f64::from(rest),
    };
    // Zeros, which are common, are no loss to underflow; and nothing else is within a threshold of 0.
    let rest_holds = in_range(rest) || rest == 0.0 && (threshold == 0 || largest_bits(u) == 0);
    let nothing_was =
        || found.len == found_before && largest_bits(u) == 0 && e.is_none_or(|e| largest_bits(e) == 0);
    if rest_holds && (in_range(before) || before == 0.0 && nothing_was()) {
        return in_f32;
    }
    if found.taking {
        found.write_since(found_before, u, first, |value| value);
    }
    let square = |x: f64| x * x;
    let e_at = |i: usize| e.map_or(0.0, |e| f64::from(e[i]));
    let within = u.iter().filter(|u| magnitude_bits(**u) <= threshold);
    let squares = Squares {
        // What was there before is overwritten, but for a rounding it is the difference.
        before: (0..).zip(&*u).map(|(i, &u)| square(f64::from(u) - e_at(i))).sum(),
        rest: within.map(|&u| square(f64::from(u))).sum(),
    };
    if found.taking {
        found.write_since(found_before, u, first, |_| 0.0);
    }
    squares
}

/// Writes the magnitude bits up to `limit` to `out`, which is longer than `values` by a register; returns how many there are.
fn up_to(values: &[f32], limit: u32, out: &mut [u32]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if level() == dispatch::Level::Avx512 {
        #[expect(
            unsafe_code,
            reason = "the only way to call code for a feature that was found at run time"
        )]
        // SAFETY: the processor has AVX-512, as was just asked; the function itself is safe.
        return unsafe { avx512::up_to(values, limit, out) };
    }
    up_to_one_by_one(values, limit, out)
}

/// Each is written, and the next one over it where it was not meant: a branch that nobody can predict costs more.
fn up_to_one_by_one(values: &[f32], limit: u32, out: &mut [u32]) -> usize {
    let mut len = 0;
    for &value in values {
        out[len] = magnitude_bits(value);
        len += usize::from(magnitude_bits(value) <= limit);
    }
    len
}
