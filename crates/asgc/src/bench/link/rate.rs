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

/// One rate, which is everybody's, or one for each worker: `6mbit`, `8mbit,2mbit`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rates(Vec<Rate>);

impl Rates {
    /// Worker by worker.
    pub(super) fn of_workers(&self, workers: u32) -> Result<Vec<Rate>, String> {
        match self.0.as_slice() {
            [one] => Ok(vec![*one; workers as usize]),
            each if each.len() == workers as usize => Ok(each.to_vec()),
            each => Err(format!(
                "{} rates for {workers} workers; write one rate, or one for each",
                each.len()
            )),
        }
    }
}

impl FromStr for Rates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rates = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self(rates))
    }
}

/// A change of uplinks in mid-run: `30=1mbit`, in seconds from the run's start.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    pub(super) at_s: f64,
    pub(super) rates: Rates,
}

/// The latest change, in seconds; more is a slip.
const LATEST_S: f64 = 1e6;

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let slip = || format!("`{text}` is no change; write SECONDS=RATE, such as 30=1mbit");
        let (at, rates) = text.split_once('=').ok_or_else(slip)?;
        let at_s = at.parse::<f64>().map_err(|_| slip())?;
        if !(0.0..=LATEST_S).contains(&at_s) {
            return Err(slip());
        }
        Ok(Self {
            at_s,
            rates: rates.parse()?,
        })
    }
}

/// The uplinks of all workers.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Uplink {
    /// As they are.
    None,
    /// So that an uncompressed push takes ten times a step's compute.
    Auto,
    /// Held to these.
    Rates(Rates),
}

impl FromStr for Uplink {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "auto" => Ok(Self::Auto),
            rates => Ok(Self::Rates(rates.parse()?)),
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
    fn one_rate_or_one_for_each_worker() {
        let of = |text: &str, workers| {
            let rates = text.parse::<Rates>().unwrap().of_workers(workers)?;
            Ok::<_, String>(rates.into_iter().map(Rate::bits_per_s).collect::<Vec<_>>())
        };
        assert_eq!(of("6mbit", 3), Ok(vec![6_000_000; 3]));
        assert_eq!(of("8mbit,2mbit", 2), Ok(vec![8_000_000, 2_000_000]));
        assert_eq!(
            of("8mbit,2mbit", 3).unwrap_err(),
            "2 rates for 3 workers; write one rate, or one for each"
        );
        assert!(of("8mbit,2mbit", 1).is_err());
        assert!("8mbit,".parse::<Rates>().is_err());
    }

    #[test]
    fn changes_and_uplinks() {
        let rates = |text: &str| text.parse::<Rates>().unwrap();
        let change: Change = "30=8mbit,1mbit".parse().unwrap();
        assert_eq!((change.at_s, change.rates), (30.0, rates("8mbit,1mbit")));
        for bad in [
            "30",
            "x=1mbit",
            "30=1",
            "-1=1mbit",
            "inf=1mbit",
            "nan=1mbit",
            "1e9=1mbit",
            "=1mbit",
        ] {
            assert!(bad.parse::<Change>().is_err(), "{bad}");
        }
        assert_eq!("none".parse(), Ok(Uplink::None));
        assert_eq!("auto".parse(), Ok(Uplink::Auto));
        assert_eq!("8mbit,2mbit".parse(), Ok(Uplink::Rates(rates("8mbit,2mbit"))));
        assert!("".parse::<Uplink>().is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_odd(text in "([0-9.=,+-]|[gmk]bit|inf|nan|\\PC){0,12}") {
            if let Ok(rate) = text.parse::<Rate>() {
                proptest::prop_assert!(rate.bits_per_s() >= 1 && rate.bytes_per_s().is_finite());
            }
            if let Ok(change) = text.parse::<Change>() {
                proptest::prop_assert!(std::time::Duration::try_from_secs_f64(change.at_s).is_ok());
            }
            let _ = text.parse::<Uplink>();
        }

        #[test]
        fn whole_rates_keep_their_value(kbit in 1_u32..2_000_000) {
            let rate: Rate = format!("{kbit}kbit").parse().unwrap();
            proptest::prop_assert_eq!(rate.bits_per_s(), u64::from(kbit) * 1000);
        }
    }
}
