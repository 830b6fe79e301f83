//! The section `controller`.

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a controller comes to its decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlPolicy {
    /// Each signal has a tolerance of its own; whichever is exceeded first counts.
    Threshold,
    /// The signals are weighed against each other.
    Score,
    /// Each worker compresses as hard as its own link demands, and no harder.
    Budget,
}

impl ControlPolicy {
    /// The name in files and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Threshold => "threshold",
            Self::Score => "score",
            Self::Budget => "budget",
        }
    }
}

/// How compression and the staleness bound adapt while the run goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Controller {
    /// Off: both stay as they are configured.
    pub enabled: bool,
    /// Seconds between decisions.
    pub interval_s: f64,
    /// Versions between decisions, instead of seconds.
    pub interval_versions: Option<u64>,
    /// How decisions are come to.
    pub policy: ControlPolicy,
    /// Moves `compression.rho` or `compression.bits`.
    pub adapt_compression: bool,
    /// Moves `staleness.s_max`.
    pub adapt_staleness: bool,
    /// `threshold`: unstable windows in a row before it acts.
    pub instability_persistence: u32,
    /// Rise of the test loss over a window that is let pass.
    pub worsen_tol: f64,
    /// Mean rise between consecutive evaluations that is let pass.
    pub variability_tol: f64,
    /// Rejected share of pushes that is let pass.
    pub reject_frac_max: f64,
    /// Payload bytes a second from which on communication counts as the bottleneck.
    pub comm_pressure_min: f64,
    /// `score`: weights of loss trend, rebound, spare communication and rejections.
    pub score_weights: ScoreWeights,
    /// Least and greatest `rho`.
    pub rho_bounds: [f64; 2],
    /// Least and greatest `bits`.
    pub bits_bounds: [u8; 2],
    /// Least and greatest `s_max`.
    pub s_max_bounds: [u64; 2],
    /// Largest step of `rho` in one decision.
    pub max_delta_rho: f64,
    /// Largest step of `bits` in one decision.
    pub max_delta_bits: u8,
    /// Largest step of `s_max` in one decision.
    pub max_delta_s_max: u64,
    /// `budget`: share of a worker's step that its upload may take.
    pub comm_share_max: f64,
    /// `budget`: factor by which `rho` may change in one decision.
    pub max_factor_rho: f64,
    /// `budget`: fall of the test accuracy below its best that is let pass.
    pub accuracy_drop_max: f64,
    /// `budget`: residual norm over gradient norm that is let pass.
    pub residual_ratio_max: f64,
    /// `budget`: noise of compression times staleness that is let pass.
    pub noise_max: f64,
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            enabled: false,
            interval_s: 30.0,
            interval_versions: None,
            policy: ControlPolicy::Threshold,
            adapt_compression: true,
            adapt_staleness: true,
            instability_persistence: 1,
            worsen_tol: 0.01,
            variability_tol: 0.02,
            reject_frac_max: 0.15,
            comm_pressure_min: 1e6,
            score_weights: ScoreWeights::default(),
            rho_bounds: [0.05, 0.5],
            bits_bounds: [2, 8],
            s_max_bounds: [2, 10],
            max_delta_rho: 0.05,
            max_delta_bits: 1,
            max_delta_s_max: 1,
            comm_share_max: 0.1,
            max_factor_rho: 4.0,
            accuracy_drop_max: 0.05,
            residual_ratio_max: 50.0,
            noise_max: 1000.0,
        }
    }
}

/// Weights of the score's terms; written as a table of `a` to `d`, or as a list of four.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ScoreWeights {
    /// Of the loss trend.
    pub a: f64,
    /// Of the loss rebound.
    pub b: f64,
    /// Of spare communication.
    pub c: f64,
    /// Of the rejected share.
    pub d: f64,
}

impl Default for ScoreWeights {
    fn default() -> Self {
        let one = one();
        Self {
            a: one,
            b: one,
            c: one,
            d: one,
        }
    }
}

/// The table's form, so that an absent weight has its default and an unknown one is named.
#[derive(Deserialize)]
#[serde(remote = "ScoreWeights", deny_unknown_fields)]
struct Table {
    #[serde(default = "one")]
    a: f64,
    #[serde(default = "one")]
    b: f64,
    #[serde(default = "one")]
    c: f64,
    #[serde(default = "one")]
    d: f64,
}

fn one() -> f64 {
    1.0
}

impl<'de> Deserialize<'de> for ScoreWeights {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TableOrList)
    }
}

struct TableOrList;

impl<'de> Visitor<'de> for TableOrList {
    type Value = ScoreWeights;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of a, b, c and d, or a list of four numbers")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ScoreWeights, A::Error> {
        Table::deserialize(MapAccessDeserializer::new(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<ScoreWeights, A::Error> {
        let [a, b, c, d] = <[f64; 4]>::deserialize(SeqAccessDeserializer::new(list))?;
        Ok(ScoreWeights { a, b, c, d })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_a_table_or_a_list() {
        let read = |text: &str| serde_json::from_str::<ScoreWeights>(text).map_err(|error| error.to_string());
        let weights = |a, b, c, d| Ok(ScoreWeights { a, b, c, d });
        assert_eq!(read("[1, 2, 3, 4]"), weights(1.0, 2.0, 3.0, 4.0));
        assert_eq!(read(r#"{"b": 0.5, "d": 0}"#), weights(1.0, 0.5, 1.0, 0.0));
        assert!(read("[1, 2, 3]").unwrap_err().contains("invalid length 3"));
        assert!(read("[1, 2, 3, 4, 5]").is_err());
        assert!(read(r#"{"e": 1}"#).unwrap_err().contains("unknown field `e`"));
        assert!(read("1").unwrap_err().contains("a list of four numbers"));
        let written = serde_json::to_string(&ScoreWeights::default()).unwrap();
        assert_eq!(written, r#"{"a":1.0,"b":1.0,"c":1.0,"d":1.0}"#);
    }
}
