//! What lost packets cost.
//!
//! A message of `n` packets loses each with probability `p`. What is lost is sent again a round trip later, and so
//! on until all is there:
//!
//! ```text
//! lost_1 ~ Binomial(n, p), lost_2 ~ Binomial(lost_1, p), …   until 0
//! ```
//!
//! The message costs the bytes of all packets sent, and a round trip for each round of repetition: selective
//! acknowledgement (RFC 2018) without congestion control, so loss makes a link slower here by less than it would make
//! a single TCP stream over a long distance.

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Binomial, Distribution as _};

/// Payload bytes of a TCP segment in an Ethernet frame of 1,500 bytes, with timestamps.
const SEGMENT_BYTES: u64 = 1448;

/// The first of the seed's streams that draw losses.
const STREAMS: u64 = 1 << 41;

/// One worker's lost packets.
#[derive(Debug)]
pub(super) struct Loss {
    share: f64,
    rng: ChaCha8Rng,
}

/// What repetition costs a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Repeated {
    /// Sent beyond the message itself.
    pub(super) bytes: u64,
    /// Round trips.
    pub(super) rounds: u32,
}

impl Loss {
    /// `share` in [0, 1); `stream` tells workers and directions apart.
    pub(super) fn new(share: f64, seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(STREAMS + stream);
        Self { share, rng }
    }

    pub(super) fn of_message(&mut self, bytes: u64) -> Repeated {
        let mut repeated = Repeated::default();
        if self.share <= 0.0 {
            return repeated;
        }
        let mut under_way = bytes.div_ceil(SEGMENT_BYTES).max(1);
        while under_way > 0 {
            let Ok(lost) = Binomial::new(under_way, self.share) else {
                break;
            };
            under_way = lost.sample(&mut self.rng);
            repeated.bytes += under_way * SEGMENT_BYTES;
            repeated.rounds += u32::from(under_way > 0);
        }
        repeated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_link_repeats_nothing() {
        assert_eq!(Loss::new(0.0, 1, 2).of_message(1 << 30), Repeated::default());
    }

    #[test]
    fn a_message_is_sent_one_over_one_minus_p_times() {
        let mut loss = Loss::new(0.2, 1, 2);
        let (messages, packets) = (200, 1000);
        let extra: u64 = (0..messages)
            .map(|_| loss.of_message(packets * SEGMENT_BYTES).bytes)
            .sum();
        let times = extra as f64 / (messages * packets * SEGMENT_BYTES) as f64;
        assert!((times - 0.25).abs() < 0.01, "{times}");
    }

    #[test]
    fn the_smallest_message_can_be_lost_too() {
        let mut loss = Loss::new(0.5, 1, 2);
        let rounds: u32 = (0..1000).map(|_| loss.of_message(0).rounds).sum();
        assert!((900..1100).contains(&rounds), "{rounds}");
    }
}
