//! `downlink`: how workers come by newer parameters.

use crate::codec::{Form, Scope, Values};
use crate::ids::{Density, OutOfRange};
use serde::{Deserialize, Serialize};

/// What answers a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DownlinkMode {
    /// All parameters.
    Snapshot,
    /// What changed since the worker's version, exactly; all parameters where that is shorter.
    Delta,
    /// Compressed differences, the same for all trainers; what they leave out follows later.
    Lossy,
}

/// How the values of a snapshot for trainers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DownlinkDtype {
    /// As they are, 4 bytes.
    F32,
    /// Rounded to bfloat16, 2 bytes.
    Bf16,
}

/// How workers come by newer parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Downlink {
    /// What answers a pull.
    pub mode: DownlinkMode,
    /// How the values of a snapshot for trainers are written.
    pub dtype: DownlinkDtype,
    /// `lossy`: share of entries that a broadcast carries, in (0, 1].
    pub rho: f64,
    /// `lossy`: how its values are written: `f32`, `bf16` or `int8`.
    pub values: Values,
    /// `lossy`: versions between two broadcasts.
    pub interval: u64,
}

impl Default for Downlink {
    fn default() -> Self {
        Self {
            mode: DownlinkMode::Snapshot,
            dtype: DownlinkDtype::F32,
            rho: 0.01,
            values: Values::F32,
            interval: 1,
        }
    }
}

impl Downlink {
    /// What a lossy broadcast keeps.
    ///
    /// # Errors
    /// When `rho` is out of range.
    pub fn density(&self) -> Result<Density, OutOfRange> {
        Density::new(self.rho)
    }

    /// How a lossy broadcast is written.
    #[must_use]
    pub fn form(&self) -> Form {
        Form {
            values: self.values,
            packed: true,
            scope: Scope::Model,
        }
    }
}
