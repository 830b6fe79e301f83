//! Rates of links, as people write them: `6mbit`, `500kbit`, `1.5gbit`.

use std::fmt;
use std::str::FromStr;

/// A rate above 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    bits_per_s: f64,
}

impl Rate {
    /// The rate that carries so many bytes a second; `None` when that is no rate.
    pub(crate) fn of_bytes_per_s(bytes_per_s: f64) -> Option<Self> {
        let bits_per_s = bytes_per_s * 8.0;
        (bits_per_s.is_finite() && bits_per_s >= 1.0).then_some(Self { bits_per_s })
    }

    /// In whole bits.
    pub(crate) fn bits_per_s(self) -> u64 {
        self.bits_per_s.round() as u64
    }

    /// In bytes.
    pub(crate) fn bytes_per_s(self) -> f64 {
        self.bits_per_s / 8.0
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3)];
        let parsed = units.iter().find_map(|(unit, bits)| {
            let number: f64 = text.to_lowercase().strip_suffix(unit)?.trim().parse().ok()?;
            Self::of_bytes_per_s(number * bits / 8.0)
        });
        parsed.ok_or_else(|| format!("`{text}` is no rate; write 500kbit, 6mbit or 1.5gbit"))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits_per_s {
            bits if bits >= 1e9 => write!(f, "{:.2} Gbit/s", bits / 1e9),
            bits if bits >= 1e6 => write!(f, "{:.2} Mbit/s", bits / 1e6),
            bits => write!(f, "{:.1} kbit/s", bits / 1e3),
        }
    }
}

/// A change of all uplinks in mid-run: `30=1mbit`, in seconds from the run's start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Change {
    pub(super) at_s: f64,
    pub(super) rate: Rate,
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('=').and_then(|(at, rate)| {
            let at_s = at.parse::<f64>().ok().filter(|at| at.is_finite() && *at >= 0.0)?;
            let rate = rate.parse().ok()?;
            Some(Self { at_s, rate })
        });
        parsed.ok_or_else(|| format!("`{text}` is no change; write SECONDS=RATE, such as 30=1mbit"))
    }
}

/// The uplinks of all workers.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Uplink {
    /// As they are.
    None,
    /// So that an uncompressed push takes ten times a step's compute.
    Auto,
    /// Worker `i` has the `i`-th rate; beyond the last, all have that.
    Rates(Vec<Rate>),
}

impl FromStr for Uplink {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "auto" => Ok(Self::Auto),
            rates => Ok(Self::Rates(
                rates.split(',').map(str::parse).collect::<Result<_, _>>()?,
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_as_people_write_them() {
        let bits = |text: &str| text.parse::<Rate>().map(Rate::bits_per_s);
        assert_eq!(bits("6mbit"), Ok(6_000_000));
        assert_eq!(bits("1.5Gbit"), Ok(1_500_000_000));
        assert_eq!(bits("500 kbit"), Ok(500_000));
        for bad in ["", "6", "mbit", "-1mbit", "0mbit", "nanmbit", "6 mb/s", "infgbit"] {
            assert!(bits(bad).is_err(), "{bad}");
        }
        assert_eq!("6mbit".parse::<Rate>().unwrap().to_string(), "6.00 Mbit/s");
    }

    #[test]
    fn changes_and_uplinks() {
        let change: Change = "30=1mbit".parse().unwrap();
        assert_eq!((change.at_s, change.rate.bits_per_s()), (30.0, 1_000_000));
        for bad in ["30", "x=1mbit", "30=1", "-1=1mbit"] {
            assert!(bad.parse::<Change>().is_err(), "{bad}");
        }
        assert_eq!("none".parse(), Ok(Uplink::None));
        assert_eq!("auto".parse(), Ok(Uplink::Auto));
        let rates = ["8mbit", "2mbit"].map(|rate| rate.parse().unwrap()).to_vec();
        assert_eq!("8mbit,2mbit".parse(), Ok(Uplink::Rates(rates)));
        assert!("8mbit,".parse::<Uplink>().is_err());
    }
}
