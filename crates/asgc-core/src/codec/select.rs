//! Which entries have the largest magnitudes: exactly `k` of them, found in little more than one pass.
//!
//! A sample guesses two thresholds between which the `k`-th magnitude almost surely lies. One pass adds the residual and
//! collects what exceeds the lower one ([`asgc_kernels::scan`]); what exceeds the upper one is in for certain, and only
//! among the few between the two must be chosen. Guessing by a sample is Deep Gradient Compression's (Lin et al., ICLR 2018,
//! section 3.1); here the guess is verified, so that the choice is exact and does not depend on it:
//!
//! - Fewer than `k` exceed the lower threshold, which is a magnitude of the data: then entries of just that magnitude follow
//!   in their order. So ties, and vectors that are mostly zero, cost nothing more.
//! - The guess was wrong: the `k`-th magnitude is counted out (two histograms) and takes the place of the guess.
//!
//! Among equal magnitudes the lower index wins, so that the choice is a pure function of the values.

use super::kept::Kept;
use asgc_kernels::{Found, INFINITE, all_finite, magnitude_bits, scan, sum_squares};

/// Entries that are looked at together where many are alike.
const RUN: usize = 64;

/// Vectors up to this length are looked at whole.
const SMALL: usize = 16_384;

/// Neighbours that are sampled together: a cache line.
const LINE: usize = 16;

/// One entry in so many is sampled, but no fewer than `FEWEST` and no more than `SAMPLE`.
const SHARE: usize = 64;
const FEWEST: usize = 1024;
const SAMPLE: usize = 16_384;

/// Standard deviations of a sample's rank that the thresholds stand apart from the guess.
const DEVIATIONS: f64 = 5.0;

/// Sums of squares of a vector that is being encoded.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    /// Of the gradient.
    pub(super) gradient: f64,
    /// Of what is left out.
    pub(super) rest: f64,
}

/// Chooses entries; keeps its buffers from one vector to the next.
#[derive(Debug, Default)]
pub(super) struct Selector {
    places: Vec<usize>,
    sample: Vec<u32>,
    found: Found,
    above: Found,
    others: Found,
    band: Vec<u32>,
}

/// Between these the `k`-th magnitude is expected: above the first, at most at the second.
#[derive(Debug, Clone, Copy)]
struct Guess {
    low: u32,
    high: u32,
    /// More than this above `low`, and the guess was wrong.
    limit: usize,
}

impl Selector {
    /// `u += e`, then moves the `k` entries of largest magnitude from there to `kept`, entry `i` as `first + i`.
    ///
    /// # Errors
    /// The place of a value that is not finite; `u` is then `u + e`.
    pub(super) fn select(
        &mut self,
        u: &mut [f32],
        e: Option<&[f32]>,
        (first, k): (u32, usize),
        kept: &mut Kept,
    ) -> Result<Sums, usize> {
        let guess = self.guess(u, e, k);
        // What is found is taken out while it is in the cache; the little that was found in vain is put back.
        self.found.begin_taking(guess.limit);
        let squares = scan(u, e, (first, guess.low), &mut self.found);
        let complete = guess.low < INFINITE && !self.found.overflown();
        if !(all_finite(self.found.values()) && (complete || all_finite(u))) {
            self.found.put_back(u, first);
            return Err(u.iter().position(|v| !v.is_finite()).unwrap_or(0));
        }
        let gradient = squares.before;
        if k == u.len() {
            kept.indices.extend((first..).take(k));
            kept.values.extend_from_slice(u);
            u.fill(0.0);
            return Ok(Sums { gradient, rest: 0.0 });
        }
        let rest = if complete && self.found.indices().len() >= k {
            squares.rest + self.best(u, (first, k), guess.high, kept)
        } else if complete && self.with_ties(u, (first, k), guess.low, kept) {
            // Of zeros it does not matter how many stay.
            if guess.low == 0 {
                squares.rest
            } else {
                sum_squares(u)
            }
        } else {
            self.counted(u, (first, k), kept);
            sum_squares(u)
        };
        Ok(Sums { gradient, rest })
    }

    /// Moves the best `k` the sure way, after a guess that was wrong.
    fn counted(&mut self, u: &mut [f32], (first, k): (u32, usize), kept: &mut Kept) {
        self.found.put_back(u, first);
        let low = kth_magnitude(u, k);
        self.found.begin_taking(u.len());
        scan(u, None, (first, low), &mut self.found);
        self.with_ties(u, (first, k), low, kept);
    }

    fn guess(&mut self, u: &[f32], e: Option<&[f32]>, k: usize) -> Guess {
        if u.len() <= SMALL || k == u.len() {
            // All that is not zero; of nothing that high can be said that it is in for certain.
            let limit = if k == u.len() { 0 } else { u.len() };
            return Guess {
                low: if k == u.len() { INFINITE - 1 } else { 0 },
                high: u32::MAX,
                limit,
            };
        }
        self.take_sample(u, e);
        let size = self.sample.len();
        let rank = k as f64 / u.len() as f64 * size as f64;
        let apart = DEVIATIONS * rank.sqrt() + 8.0;
        let (above, below) = ((rank - apart).floor(), (rank + apart).ceil() as usize);
        let falling = |a: &u32, b: &u32| b.cmp(a);
        let (low, larger) = if below < size {
            let (larger, &mut low, _) = self.sample.select_nth_unstable_by(below, falling);
            (low, larger)
        } else {
            (0, &mut self.sample[..])
        };
        let high = if above >= 1.0 {
            *larger.select_nth_unstable_by(above as usize, falling).1
        } else {
            u32::MAX
        };
        let expected = below.min(size) as f64 / size as f64 * u.len() as f64;
        Guess {
            low,
            high,
            limit: ((1.25 * expected) as usize + 1024).min(u.len()),
        }
    }

    /// Magnitudes of lines of `u + e`, spread evenly but for a jitter that keeps clear of any period of the data.
    fn take_sample(&mut self, u: &[f32], e: Option<&[f32]>) {
        let lines = (u.len() / (SHARE * LINE)).clamp(FEWEST / LINE, SAMPLE / LINE);
        let stride = u.len() / lines;
        let mut jitter = 0x9e37_79b9u32;
        let places = (0..lines).map(|line| {
            jitter = jitter.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
            line * stride + (jitter >> 8) as usize % (stride - LINE + 1)
        });
        self.places.clear();
        self.places.extend(places);
        touch(u, &self.places);
        e.inspect(|e| touch(e, &self.places));
        self.sample.clear();
        for &from in &self.places {
            let u = &u[from..from + LINE];
            match e {
                Some(e) => {
                    let sums = u.iter().zip(&e[from..from + LINE]);
                    self.sample.extend(sums.map(|(u, e)| magnitude_bits(u + e)));
                }
                None => self.sample.extend(u.iter().map(|&u| magnitude_bits(u))),
            }
        }
    }

    /// Keeps the best `k` of what was found and puts the others back; returns the sum of squares of those.
    fn best(&mut self, u: &mut [f32], (first, k): (u32, usize), high: u32, kept: &mut Kept) -> f64 {
        let all = self.found.indices().len();
        let mut band = self.found.magnitudes_up_to(high, &mut self.band);
        // Should the upper threshold lie too low, there is more than one would take: then all are looked at.
        if all - band.len() > k {
            band = self.found.magnitudes_up_to(u32::MAX, &mut self.band);
        }
        let least = match k - (all - band.len()) {
            0 => high + 1,
            wanted => *band.select_nth_unstable_by(wanted - 1, |a, b| b.cmp(a)).1,
        };
        let left = self.found.split(least - 1, &mut self.above, &mut self.others);
        self.others.put_back(u, first);
        left + self.keep_but_ties(u, (first, k), least, kept)
    }

    /// Keeps what is above, but for the last of those with magnitude `least` where there are more than `k` in all; puts
    /// those back and returns their sum of squares.
    fn keep_but_ties(&self, u: &mut [f32], (first, k): (u32, usize), least: u32, kept: &mut Kept) -> f64 {
        let (indices, values) = (self.above.indices(), self.above.values());
        let ties = (0..values.len())
            .rev()
            .filter(|&i| magnitude_bits(values[i]) == least);
        let in_vain: Vec<usize> = ties.take(values.len() - k).collect();
        let mut next = 0;
        for &at in in_vain.iter().rev() {
            kept.extend(&indices[next..at], &values[next..at]);
            u[(indices[at] - first) as usize] = values[at];
            next = at + 1;
        }
        kept.extend(&indices[next..], &values[next..]);
        in_vain.len() as f64 * f64::from(f32::from_bits(least)).powi(2)
    }

    /// Keeps what was found, fewer than `k`, and as many of the first entries of magnitude `low` as make it `k`. False, with
    /// nothing kept, where there are not so many.
    fn with_ties(&self, u: &mut [f32], (first, k): (u32, usize), low: u32, kept: &mut Kept) -> bool {
        let mut missing = k - self.found.indices().len();
        let (indices, values) = (self.found.indices(), self.found.values());
        let (start, mut next) = (kept.len(), 0);
        for (run, u) in u.chunks_mut(RUN).enumerate() {
            let from = first + (run * RUN) as u32;
            let until = from + u.len() as u32;
            let nothing_found = indices.get(next).is_none_or(|&index| index >= until);
            if missing == 0 {
                break;
            } else if missing >= u.len() && nothing_found && u.iter().all(|&v| magnitude_bits(v) == low) {
                kept.indices.extend(from..until);
                kept.values.extend_from_slice(u);
                u.fill(0.0);
                missing -= u.len();
                continue;
            }
            for (index, value) in (from..).zip(u) {
                if indices.get(next) == Some(&index) {
                    kept.push(index, values[next]);
                    next += 1;
                } else if missing > 0 && magnitude_bits(*value) == low {
                    kept.push(index, std::mem::take(value));
                    missing -= 1;
                }
            }
        }
        if missing > 0 {
            kept.move_back(start, u, first);
            return false;
        }
        kept.extend(&indices[next..], &values[next..]);
        true
    }
}

/// Brings the cache lines at these places into the cache, many at a time: whoever works on one before he looks at the next
/// waits for each.
fn touch(values: &[f32], places: &[usize]) {
    let bits = places.iter().map(|&at| values[at].to_bits());
    std::hint::black_box(bits.fold(0, |all, bits| all ^ bits));
}

/// The magnitude bits of the `k`-th largest magnitude: by its upper 16 bits, then among those by its lower 15.
fn kth_magnitude(values: &[f32], k: usize) -> u32 {
    let mut missing = k;
    let mut upper = vec![0usize; 1 << 16];
    values
        .iter()
        .for_each(|&v| upper[(magnitude_bits(v) >> 15) as usize] += 1);
    let bucket = last_with(&upper, &mut missing);
    let mut lower = vec![0usize; 1 << 15];
    let among = values
        .iter()
        .map(|&v| magnitude_bits(v))
        .filter(|bits| bits >> 15 == bucket);
    among.for_each(|bits| lower[(bits & 0x7fff) as usize] += 1);
    (bucket << 15) | last_with(&lower, &mut missing)
}

/// The bucket, counted from the last, in which the `missing`-th entry lies; leaves its rank within the bucket.
fn last_with(counts: &[usize], missing: &mut usize) -> u32 {
    for (bucket, &count) in counts.iter().enumerate().rev() {
        if count >= *missing {
            return bucket as u32;
        }
        *missing -= count;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chosen(selector: &mut Selector, values: &[f32], k: usize) -> Vec<u32> {
        let (mut u, mut kept) = (values.to_vec(), Kept::default());
        let selected = selector.select(&mut u, None, (0, k), &mut kept).unwrap();
        let exact: f64 = (0..)
            .zip(values)
            .filter(|(i, _)| !kept.indices.contains(i))
            .map(|(_, &v)| f64::from(v).powi(2))
            .sum();
        assert!((selected.rest - exact).abs() <= 1e-5 * exact.max(1e-30));
        // What was kept was moved, all else is as it was.
        let mut again = u;
        assert!(kept.indices.iter().all(|&i| again[i as usize] == 0.0));
        kept.clone().move_back(0, &mut again, 0);
        assert_eq!(again, values);
        assert!(
            kept.indices
                .iter()
                .zip(&kept.values)
                .all(|(&i, &v)| values[i as usize].to_bits() == v.to_bits())
        );
        kept.indices
    }

    /// Orders by magnitude, then by falling index. The bits of a non-negative float order as the float does.
    fn key(index: u32, value: f32) -> u64 {
        (u64::from(magnitude_bits(value)) << 32) | u64::from(!index)
    }

    /// By sorting all of them.
    fn sorted(values: &[f32], k: usize) -> Vec<u32> {
        let mut keys: Vec<u64> = (0..).zip(values).map(|(i, &v)| key(i, v)).collect();
        keys.sort_unstable_by(|a, b| b.cmp(a));
        let mut indices: Vec<u32> = keys[..k].iter().map(|&key| !(key as u32)).collect();
        indices.sort_unstable();
        indices
    }

    /// Values of a large vector: many alike, layers of different scale, rising, rare.
    fn large() -> impl Strategy<Value = Vec<f32>> {
        let n = SMALL + 5_000;
        let noise = |i: usize, seed: u64| {
            let mixed = (i as u64 + 1)
                .wrapping_mul(seed | 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        (any::<u64>(), 0..7u8).prop_map(move |(seed, kind)| {
            let value = |i: usize| match kind {
                0 => noise(i, seed),
                1 => (noise(i, seed) * 6.0).round(),
                2 => noise(i, seed) * if i < n / 3 { 100.0 } else { 0.01 },
                3 => i as f32,
                4 => {
                    if noise(i, seed) > 0.49 {
                        noise(i, !seed)
                    } else {
                        0.0
                    }
                }
                5 => 1.5,
                // The large ones all in one place, where a sample may miss them.
                _ => {
                    if i / 200 == 40 {
                        5.0
                    } else {
                        noise(i, seed) * 1e-3
                    }
                }
            };
            (0..n).map(value).collect()
        })
    }

    #[test]
    fn the_kth_magnitude_is_counted_out() {
        assert_eq!(kth_magnitude(&[1.0, -3.0, 2.0, 2.0], 1), magnitude_bits(3.0));
        assert_eq!(kth_magnitude(&[1.0, -3.0, 2.0, 2.0], 3), magnitude_bits(2.0));
        assert_eq!(kth_magnitude(&[0.0; 5], 3), 0);
    }

    #[test]
    fn what_is_not_finite_is_placed() {
        for n in [10, SMALL + 1] {
            for at in [0, n / 2, n - 1] {
                for k in [1, n / 2, n] {
                    let mut u = vec![1.0; n];
                    u[at] = f32::NAN;
                    let found = Selector::default().select(&mut u, None, (0, k), &mut Kept::default());
                    assert_eq!(found.map(|_| ()), Err(at), "{n} {k}");
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_chooses_what_sorting_chooses(values in prop::collection::vec(prop_oneof![Just(0.0f32), Just(-1.0f32), -2.0f32..2.0], 1..200), share in 0.0f64..=1.0) {
            let k = ((values.len() as f64 * share) as usize).max(1);
            prop_assert_eq!(chosen(&mut Selector::default(), &values, k), sorted(&values, k));
        }

        #[test]
        fn also_of_large_vectors_by_whichever_way(values in large(), share in prop_oneof![Just(0.0005), Just(0.01), 0.0f64..=1.0]) {
            let k = ((values.len() as f64 * share) as usize).max(1);
            prop_assert_eq!(chosen(&mut Selector::default(), &values, k), sorted(&values, k));
        }
    }
}
