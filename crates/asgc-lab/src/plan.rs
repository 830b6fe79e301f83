//! What a link and a model lead to, before anything runs: the cost model of [`asgc_core::cost`] with figures that are
//! given instead of measured in a run.
//!
//! A worker computes, encodes, uploads, and pulls a whole snapshot:
//!
//! ```text
//! T = C + E + B/(0.95 up) + D + rtt + 4d/(0.95 down)
//! ```
//!
//! 0.95 is the share of a link's bits that is payload: Ethernet, IP and TCP headers take 66 of 1,514 bytes of a full
//! frame, HTTP/2 and gRPC a little more.

use asgc_core::codec::{Codec, Encoder, Form};
use asgc_core::cost::{self, Costs, Work};
use asgc_core::feedback::{Bound, Compressor};
use asgc_core::ids::Density;
use asgc_core::layout::{Layout, TensorSpec};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// Share of a link's bits that is payload.
pub const LINK_EFFICIENCY: f64 = 0.95;

/// The least `rho` that is proposed.
const LEAST_RHO: f64 = 0.001;

/// Beyond half of the entries Top-K sends more than everything.
const DENSE_RHO: f64 = 0.5;

/// Deepest pipeline that is proposed.
const MAX_DEPTH: u32 = 8;

/// Models beyond this are timed on a part, and the time scaled up.
const MAX_TIMED: u64 = 4_000_000;

/// What is known before a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Entries of the model.
    pub parameters: u64,
    /// How payloads are written.
    pub form: Form,
    /// Seconds of computing a gradient, as long as it takes with all workers of the machine at it.
    pub compute_s: f64,
    /// Bytes a second of a worker's uplink, headers included; infinite for one that costs nothing.
    pub uplink_bytes_per_s: f64,
    /// The same of its downlink.
    pub downlink_bytes_per_s: f64,
    /// Round trip in seconds.
    pub rtt_s: f64,
    /// Trainers.
    pub workers: u32,
    /// What compressing costs.
    pub compressed: Work,
    /// What sending everything costs.
    pub dense: Work,
}

/// What one codec leads to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prediction {
    /// The codec.
    pub codec: Codec,
    /// Seconds of a worker's step.
    pub step_s: f64,
    /// Updates a second of all trainers.
    pub updates_per_s: f64,
    /// Bytes of a payload.
    pub payload_bytes: f64,
    /// Payload bytes a second of all trainers.
    pub bytes_per_s: f64,
    /// Share of the step that the upload takes.
    pub comm_share: f64,
    /// `N(rho, tau)` at the expected staleness; 0 without compression.
    pub noise: f64,
}

/// What takes the most of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bottleneck {
    /// Computing gradients.
    Compute,
    /// Encoding and decoding.
    Codec,
    /// The way to the server.
    Uplink,
    /// The way back: whole snapshots.
    Downlink,
    /// Waiting for round trips.
    Latency,
    /// The server, which more workers do not make faster.
    Server,
}

/// What is proposed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Without compression.
    pub dense: Prediction,
    /// As proposed.
    pub proposed: Prediction,
    /// Other strengths, for comparison.
    pub others: Vec<Prediction>,
    /// What takes the most of a step as proposed.
    pub bottleneck: Bottleneck,
    /// Whether compression pays: steps are shorter by more than a twentieth.
    pub beneficial: bool,
    /// Pushes in flight that hide the link as far as it can be hidden.
    pub pipeline_depth: u32,
    /// Gradients a push that keep communication within the share, where compression alone does not.
    pub local_steps: u32,
    /// Versions that others apply while a worker takes a step.
    pub expected_staleness: f64,
}

impl Setting {
    fn costs(&self) -> Costs {
        let downlink_s = Form::default().payload_bytes(Codec::Identity, self.parameters)
            / (LINK_EFFICIENCY * self.downlink_bytes_per_s);
        Costs {
            parameters: self.parameters,
            form: self.form,
            compute_s: self.compute_s,
            other_s: self.rtt_s + downlink_s,
            goodput_bytes_per_s: LINK_EFFICIENCY * self.uplink_bytes_per_s,
            dense: self.dense,
            compressed: self.compressed,
            depth: 1,
        }
    }

    /// What `codec` leads to.
    #[must_use]
    pub fn predict(&self, codec: Codec) -> Prediction {
        let costs = self.costs();
        // The server does one push after the other.
        let least_s = f64::from(self.workers) * self.work(codec).decode_s;
        let step_s = costs.step_s(codec).max(least_s);
        let updates_per_s = f64::from(self.workers) / step_s.max(1e-9);
        let payload_bytes = self.form.payload_bytes(codec, self.parameters);
        Prediction {
            codec,
            step_s,
            updates_per_s,
            payload_bytes,
            bytes_per_s: payload_bytes * updates_per_s,
            comm_share: costs.comm_share(codec),
            noise: match codec {
                Codec::TopK(rho) => cost::noise(rho, self.staleness()),
                Codec::Identity | Codec::Quantize(_) | Codec::Sign => 0.0,
            },
        }
    }

    /// What to do so that uploading takes at most `share` (in (0, 1)) of a step.
    #[must_use]
    pub fn plan(&self, share: f64) -> Plan {
        let costs = self.costs();
        let wanted = topk(cost::even_rho(
            costs.rho_for_share(share).clamp(LEAST_RHO, DENSE_RHO),
        ));
        let beneficial = costs.worth_compressing(wanted, false);
        let codec = if costs.bears_dense(share) || !beneficial {
            Codec::Identity
        } else {
            wanted
        };
        Plan {
            dense: self.predict(Codec::Identity),
            proposed: self.predict(codec),
            others: [0.25, 0.1, 0.05, 0.01]
                .map(|rho| self.predict(topk(rho)))
                .to_vec(),
            bottleneck: self.bottleneck(codec),
            beneficial,
            pipeline_depth: depth(&costs, codec),
            local_steps: local_steps(&costs, codec, share),
            expected_staleness: self.staleness(),
        }
    }

    fn work(&self, codec: Codec) -> Work {
        if codec == Codec::Identity {
            self.dense
        } else {
            self.compressed
        }
    }

    /// With equal workers, everybody else applies one update during a step.
    fn staleness(&self) -> f64 {
        f64::from(self.workers.saturating_sub(1))
    }

    fn bottleneck(&self, codec: Codec) -> Bottleneck {
        let costs = self.costs();
        let work = self.work(codec);
        let server_s = f64::from(self.workers) * work.decode_s;
        if server_s > costs.step_s(codec) {
            return Bottleneck::Server;
        }
        let parts = [
            (Bottleneck::Compute, self.compute_s),
            (Bottleneck::Codec, work.encode_s + work.decode_s),
            (Bottleneck::Uplink, costs.upload_s(codec)),
            (Bottleneck::Downlink, costs.other_s - self.rtt_s),
            (Bottleneck::Latency, self.rtt_s),
        ];
        let most = parts.into_iter().reduce(|a, b| if b.1 > a.1 { b } else { a });
        most.map_or(Bottleneck::Compute, |(part, _)| part)
    }
}

/// The least depth that is within a twentieth of what the deepest reaches.
fn depth(costs: &Costs, codec: Codec) -> u32 {
    let best = costs.pipelined_step_s(codec, MAX_DEPTH);
    (1..MAX_DEPTH)
        .find(|&depth| costs.pipelined_step_s(codec, depth) <= 1.05 * best)
        .unwrap_or(MAX_DEPTH)
}

/// With `h` gradients a push, the link takes `(B/g + O) / (h C + B/g + O)`.
fn local_steps(costs: &Costs, codec: Codec, share: f64) -> u32 {
    let link_s = costs.upload_s(codec) + costs.other_s;
    let needed = link_s * (1.0 - share) / (share * costs.compute_s.max(1e-9));
    // Beyond a thousand, it is no longer the same training.
    needed.ceil().clamp(1.0, 1000.0) as u32
}

fn topk(rho: f64) -> Codec {
    Density::new(rho).map_or(Codec::Identity, Codec::TopK)
}

/// Times encoding (with error feedback) and decoding `parameters` entries on this machine: the median of five.
#[must_use]
pub fn time_codec(codec: Codec, parameters: u64) -> Work {
    let timed = parameters.clamp(1, MAX_TIMED);
    let spec = TensorSpec {
        name: "all".into(),
        shape: vec![timed as usize],
    };
    let Ok(layout) = Layout::new(vec![spec]) else {
        return Work::default();
    };
    let layout = Arc::new(layout);
    let gradient = noise(timed as usize);
    let mut compressor = Compressor::new(Encoder::new(Arc::clone(&layout), 0), Some(Bound::None));
    let mut parameters_of_server = vec![0.0f32; gradient.len()];
    let (mut encode, mut decode) = (Vec::new(), Vec::new());
    for nonce in 0..5 {
        // The buffer is exchanged for another.
        let mut gradient = gradient.clone();
        let began = Instant::now();
        let Ok(payload) = compressor.compress(&mut gradient, codec, nonce) else {
            break;
        };
        encode.push(began.elapsed().as_secs_f64());
        let began = Instant::now();
        if let Ok(decoded) = payload.check(&layout) {
            decoded.add_scaled_to(-0.1, &mut parameters_of_server);
        }
        decode.push(began.elapsed().as_secs_f64());
    }
    let scale = parameters as f64 / timed as f64;
    let median = |times: &[f64]| scale * crate::rate::median(times).unwrap_or(0.0);
    Work {
        encode_s: median(&encode),
        decode_s: median(&decode),
    }
}

/// Values spread like those of a gradient: many small, few large. Splitmix64 (Steele et al. 2014).
fn noise(len: usize) -> Vec<f32> {
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    (0..len).map(|_| draw().powi(3) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 million parameters, 200 ms, 100 Mbit/s both ways, 10 ms, four workers.
    fn setting() -> Setting {
        Setting {
            parameters: 10_000_000,
            form: Form::default(),
            compute_s: 0.2,
            uplink_bytes_per_s: 12.5e6,
            downlink_bytes_per_s: f64::INFINITY,
            rtt_s: 0.01,
            workers: 4,
            compressed: Work {
                encode_s: 0.05,
                decode_s: 0.01,
            },
            dense: Work {
                encode_s: 0.01,
                decode_s: 0.01,
            },
        }
    }

    #[test]
    fn without_compression_the_uplink_is_the_bottleneck() {
        let dense = setting().predict(Codec::Identity);
        // 0.2 + 0.02 + 0.01 + 40 MB / 11.875 MB/s.
        assert!((dense.step_s - 3.598).abs() < 1e-3, "{dense:?}");
        assert!((dense.updates_per_s - 1.1116).abs() < 1e-3);
        assert_eq!(setting().bottleneck(Codec::Identity), Bottleneck::Uplink);
    }

    #[test]
    fn the_proposal_keeps_the_share_and_pays() {
        let plan = setting().plan(0.2);
        assert!(
            plan.beneficial && (plan.proposed.comm_share - 0.2).abs() < 1e-3,
            "{plan:?}"
        );
        assert!(plan.proposed.updates_per_s > 10.0 * plan.dense.updates_per_s);
        assert_eq!(
            (plan.bottleneck, plan.expected_staleness),
            (Bottleneck::Compute, 3.0)
        );
        assert_eq!(plan.others.len(), 4);
    }

    #[test]
    fn a_free_link_is_left_alone() {
        let free = Setting {
            uplink_bytes_per_s: f64::INFINITY,
            rtt_s: 0.0,
            ..setting()
        };
        let plan = free.plan(0.2);
        assert_eq!((plan.proposed.codec, plan.beneficial), (Codec::Identity, false));
        // What is left of the way, and encoding, may be done beside computing.
        assert_eq!((plan.pipeline_depth, plan.local_steps), (2, 1));
    }

    #[test]
    fn other_bottlenecks_are_named() {
        let named = |setting: Setting| setting.plan(0.2).bottleneck;
        assert_eq!(
            named(Setting {
                downlink_bytes_per_s: 1e6,
                ..setting()
            }),
            Bottleneck::Downlink
        );
        assert_eq!(
            named(Setting {
                rtt_s: 2.0,
                ..setting()
            }),
            Bottleneck::Latency
        );
        assert_eq!(
            named(Setting {
                workers: 1000,
                ..setting()
            }),
            Bottleneck::Server
        );
    }

    #[test]
    fn far_away_more_in_flight_and_more_steps_a_push_help() {
        let far = Setting {
            rtt_s: 1.0,
            ..setting()
        }
        .plan(0.2);
        assert!(far.pipeline_depth >= 4 && far.local_steps >= 20, "{far:?}");
    }

    #[test]
    fn a_codec_is_timed() {
        let work = time_codec(topk(0.1), 10_000);
        assert!(work.encode_s > 0.0 && work.decode_s > 0.0);
    }
}
