//! How long a worker's step takes, and what compression changes about it.
//!
//! One gradient at a time, with codec `c`:
//!
//! ```text
//! T(c) = C + E(c) + B(c)/g + D(c) + O
//! ```
//!
//! | | |
//! |---|---|
//! | `C` | computing the gradient |
//! | `E(c)`, `D(c)` | encoding it at the worker, decoding it at the server |
//! | `B(c)` | bytes of the payload: in the plain form `4d`, `8 rho d` or `d` for `d` parameters ([`Form::payload_bytes`]) |
//! | `g` | payload bytes a second that the uplink carries |
//! | `O` | the rest: round trip, downlink, waiting, fetching a batch |
//!
//! Only `E`, `B` and `D` depend on the codec. With up to `q` pushes unsettled while a gradient is computed
//! (`worker.pipeline_depth`) encoding and uploading are done beside computing, and a step takes
//!
//! ```text
//! T_q(c) = max(T(c)/q, C, E(c) + B(c)/g)
//! ```
//!
//! The share of a step that an upload takes is what the step would be shorter without it, `1 - T_q(B = 0) / T_q`: by
//! turns that is `B/g / T`, with a pipeline 0 as long as the upload hides behind computing. It is at most `a` as long as
//! `T_q(B) <= S` with `S = T_q(B = 0) / (1-a)`, that is
//!
//! ```text
//! B/g <= min(q S - T(B = 0), S - E)
//! ```
//!
//! (by turns `a/(1-a) * T(B = 0)`), which gives the greatest `rho` that a link bears.
//!
//! The noise of a push that keeps the share `rho` of its entries and is `tau` versions old is modelled as
//!
//! ```text
//! N(rho, tau) = (1 - rho)/rho * (1 + tau)
//! ```
//!
//! `(1 - rho)/rho` is the relative variance of keeping `k` of `d` entries at random and scaling them up (Wangni et al.
//! 2018); Top-K errs less, so it is a measure to compare settings by, not an estimate. Staleness multiplies it. That
//! compression and staleness are to be chosen together, from bandwidth and latency, since one amplifies the other's
//! harm, is the idea of DeCo-SGD (arXiv 2507.17346); this product is a model of ours, not the paper's.

use crate::codec::{Codec, Form};
use crate::ids::Density;

/// What is faster than this was not measured.
const LEAST_STEP_S: f64 = 1e-9;

/// Turns after which a density changes no more that depends on the length of its own indices.
const SETTLES_IN: usize = 6;

/// Below this an index is taken to be no longer.
const LEAST_RHO: f64 = 1e-9;

/// Two step times this near to each other are not worth a change.
const MARGIN: f64 = 0.05;

/// Seconds of a push that depend on the codec, but for the upload.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Work {
    /// At the worker.
    pub encode_s: f64,
    /// At the server.
    pub decode_s: f64,
}

impl Work {
    fn total_s(self) -> f64 {
        self.encode_s + self.decode_s
    }
}

/// What the steps of one worker are made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// `d`.
    pub parameters: u64,
    /// How payloads are written.
    pub form: Form,
    /// `C`, in seconds.
    pub compute_s: f64,
    /// `O`, in seconds.
    pub other_s: f64,
    /// `g`, in payload bytes a second; infinite for a link that costs nothing.
    pub goodput_bytes_per_s: f64,
    /// `E` and `D` of everything as it is.
    pub dense: Work,
    /// `E` and `D` of what compresses.
    pub compressed: Work,
    /// `q`, at least 1.
    pub depth: u32,
}

/// `N(rho, tau)`.
#[must_use]
pub fn noise(rho: Density, tau: f64) -> f64 {
    (1.0 - rho.get()) / rho.get() * (1.0 + tau)
}

/// The least `rho` whose noise is at most `limit` at staleness `tau`: `N` solved for `rho`.
#[must_use]
pub fn rho_for_noise(limit: f64, tau: f64) -> f64 {
    1.0 / (1.0 + limit / (1.0 + tau))
}

/// `rho` to three significant digits: more would pretend to know, and nobody could read the log.
#[must_use]
pub fn even_rho(rho: f64) -> f64 {
    let scale = 10f64.powi(2 - rho.log10().floor() as i32);
    (rho * scale).round() / scale
}

impl Costs {
    /// `B(c)/g`, in seconds.
    #[must_use]
    pub fn upload_s(&self, codec: Codec) -> f64 {
        self.form.payload_bytes(codec, self.parameters) / self.goodput_bytes_per_s
    }

    /// `T_q(c)`, in seconds.
    #[must_use]
    pub fn step_s(&self, codec: Codec) -> f64 {
        self.pipelined_step_s(codec, self.depth)
    }

    /// `1/T(c)`; finite, also for steps that take no time at all.
    #[must_use]
    pub fn updates_per_s(&self, codec: Codec) -> f64 {
        1.0 / self.step_s(codec).max(LEAST_STEP_S)
    }

    /// Share of the step that the upload takes, 0 to 1.
    #[must_use]
    pub fn comm_share(&self, codec: Codec) -> f64 {
        let upload_s = self.upload_s(codec);
        let step_s = self.step_s(codec).max(f64::MIN_POSITIVE);
        if self.depth <= 1 {
            return upload_s / step_s;
        }
        (1.0 - self.with_upload(codec, 0.0, self.depth) / step_s).max(0.0)
    }

    /// `T_q(c)` for another `q`, in seconds: no less than the busiest of computing on one side and encoding and uploading
    /// on the other, and no less than the whole way shared by `depth`.
    #[must_use]
    pub fn pipelined_step_s(&self, codec: Codec, depth: u32) -> f64 {
        self.with_upload(codec, self.upload_s(codec), depth)
    }

    fn with_upload(&self, codec: Codec, upload_s: f64, depth: u32) -> f64 {
        let way_s = self.floor_s(codec) + upload_s;
        if depth <= 1 {
            return way_s;
        }
        let busiest = self.compute_s.max(self.work(codec).encode_s + upload_s);
        (way_s / f64::from(depth)).max(busiest)
    }

    /// Whether steps are shorter with `codec` than without compression.
    #[must_use]
    pub fn beneficial(&self, codec: Codec) -> bool {
        self.step_s(codec) < self.step_s(Codec::Identity)
    }

    /// As [`Costs::beneficial`], but where the two are about equal what is in force stays: `compressing` says what is.
    #[must_use]
    pub fn worth_compressing(&self, codec: Codec, compressing: bool) -> bool {
        let (with, without) = (self.step_s(codec), self.step_s(Codec::Identity));
        if compressing {
            with <= without * (1.0 + MARGIN)
        } else {
            with < without * (1.0 - MARGIN)
        }
    }

    /// Whether sending everything keeps the upload within `share` of a step.
    #[must_use]
    pub fn bears_dense(&self, share: f64) -> bool {
        self.comm_share(Codec::Identity) <= share
    }

    /// The greatest `rho` of Top-K that keeps the upload within `share` (in (0, 1)) of a step; may exceed 1.
    #[must_use]
    pub fn rho_for_share(&self, share: f64) -> f64 {
        let floor_s = self.compute_s + self.other_s + self.compressed.total_s();
        let upload_s = if self.depth <= 1 {
            share / (1.0 - share) * floor_s
        } else {
            let depth = f64::from(self.depth);
            let without_s = (floor_s / depth).max(self.compute_s.max(self.compressed.encode_s));
            let step_s = without_s / (1.0 - share);
            (depth * step_s - floor_s).min(step_s - self.compressed.encode_s)
        };
        let entries = upload_s * self.goodput_bytes_per_s / self.parameters.max(1) as f64;
        // The rarer an entry, the longer its packed index; plain entries are all alike, and the first turn is the last.
        (0..SETTLES_IN).fold(1.0, |rho, _| {
            let at = Density::new(rho.clamp(LEAST_RHO, 1.0)).map_or(Codec::Identity, Codec::TopK);
            entries / self.form.entry_bytes(at)
        })
    }

    fn work(&self, codec: Codec) -> Work {
        match codec {
            Codec::Identity => self.dense,
            Codec::TopK(_) | Codec::Quantize(_) | Codec::Sign => self.compressed,
        }
    }

    fn floor_s(&self, codec: Codec) -> f64 {
        self.compute_s + self.work(codec).total_s() + self.other_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Bits;
    use proptest::prelude::*;

    fn topk(rho: f64) -> Codec {
        Codec::TopK(Density::new(rho).unwrap())
    }

    /// A million parameters, 100 ms of computing, 4 MB/s: sending everything takes a second.
    fn thin() -> Costs {
        Costs {
            parameters: 1_000_000,
            form: Form::default(),
            compute_s: 0.1,
            other_s: 0.05,
            goodput_bytes_per_s: 4e6,
            dense: Work::default(),
            compressed: Work {
                encode_s: 0.04,
                decode_s: 0.01,
            },
            depth: 1,
        }
    }

    #[test]
    fn a_step_is_the_sum_of_its_parts() {
        let costs = thin();
        assert_eq!(costs.step_s(Codec::Identity), 1.15);
        assert!((costs.step_s(topk(0.1)) - (0.15 + 0.05 + 0.2)).abs() < 1e-12);
        let quantized = costs.step_s(Codec::Quantize(Bits::new(8).unwrap()));
        assert!((quantized - (0.15 + 0.05 + 0.25)).abs() < 1e-12);
        assert!((costs.comm_share(topk(0.1)) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn compression_pays_on_a_thin_link_only() {
        let free = Costs {
            goodput_bytes_per_s: f64::INFINITY,
            ..thin()
        };
        assert!(thin().beneficial(topk(0.1)) && !free.beneficial(topk(0.1)));
        assert!(
            !thin().beneficial(topk(0.5)),
            "as many bytes, and encoding on top"
        );
        assert!(free.bears_dense(0.01) && !thin().bears_dense(0.8));
        assert_eq!(free.comm_share(Codec::Identity), 0.0);
    }

    #[test]
    fn about_equal_changes_nothing() {
        let even = Costs {
            compressed: Work::default(),
            ..thin()
        };
        // Half of the entries is as many bytes as all of them.
        assert!(even.worth_compressing(topk(0.5), true) && !even.worth_compressing(topk(0.5), false));
        assert!(even.worth_compressing(topk(0.1), false));
        assert!(!thin().worth_compressing(topk(0.6), true));
    }

    #[test]
    fn a_deeper_pipeline_hides_the_way_but_not_the_work() {
        let costs = thin();
        assert_eq!(costs.pipelined_step_s(topk(0.05), 1), costs.step_s(topk(0.05)));
        // 0.3 s in all; the busiest is computing and encoding, 0.14 s.
        assert!((costs.pipelined_step_s(topk(0.05), 2) - 0.15).abs() < 1e-12);
        assert!((costs.pipelined_step_s(topk(0.05), 8) - 0.14).abs() < 1e-12);
        // A second of uploading cannot be hidden behind 0.1 s of computing.
        assert_eq!(costs.pipelined_step_s(Codec::Identity, 8), 1.0);
    }

    #[test]
    fn an_upload_that_hides_behind_computing_takes_no_share() {
        // Computing 0.1 s; encoding 0.04 s; 8 rho MB at 4 MB/s; 0.05 s on the way and 0.01 s of decoding.
        let deep = |depth| Costs { depth, ..thin() };
        let share = |depth, rho| deep(depth).comm_share(topk(rho));
        assert_eq!(share(4, 0.025), 0.0, "0.09 s beside 0.1 s");
        assert!(
            (share(4, 0.08) - (1.0 - 0.1 / 0.2)).abs() < 1e-12,
            "0.04 s + 0.16 s"
        );
        assert!(
            (share(2, 0.025) - 0.2).abs() < 1e-12,
            "0.25 s on the way, shared by two"
        );
        assert_eq!(deep(4).step_s(topk(0.025)), 0.1);
    }

    #[test]
    fn noise_rises_with_staleness_and_vanishes_without_compression() {
        assert_eq!(noise(Density::new(1.0).unwrap(), 5.0), 0.0);
        assert_eq!(noise(Density::new(0.5).unwrap(), 0.0), 1.0);
        assert_eq!(noise(Density::new(0.5).unwrap(), 3.0), 4.0);
    }

    proptest! {
        #[test]
        fn the_share_is_kept_and_not_undercut(
            share in 0.01..0.9f64, goodput in 1e3..1e6f64, compute_s in 1e-4..1.0f64, depth in 1u32..=16,
        ) {
            let costs = Costs { goodput_bytes_per_s: goodput, compute_s, depth, ..thin() };
            let rho = costs.rho_for_share(share);
            prop_assume!(rho > 1e-9 && rho <= 1.0);
            prop_assert!((costs.comm_share(topk(rho)) - share).abs() < 1e-9);
        }

        #[test]
        fn the_noise_limit_is_kept_and_not_undercut(limit in 0.1..1e6f64, tau in 0.0..100.0f64) {
            let rho = rho_for_noise(limit, tau);
            prop_assert!((noise(Density::new(rho).unwrap(), tau) / limit - 1.0).abs() < 1e-6);
        }
    }
}
