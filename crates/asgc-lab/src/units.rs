//! Bytes, seconds and shares as people read them.

/// What stands for a figure that there is none of.
pub const MISSING: &str = "-";

/// SI bytes: `999 B`, `1.50 kB`, `664 MB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1e3;
    let mut unit = 0;
    // What would be printed as 1000 belongs to the next unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// Seconds: `0.52 s`, `27.8 s`; `1 h 02 min` beyond an hour.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    if seconds < 3600.0 {
        return format!("{} s", three_digits(seconds));
    }
    let minutes = (seconds / 60.0).round() as u64;
    format!("{} h {:02} min", minutes / 60, minutes % 60)
}

/// A share as per cent: `12.3 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A fraction such as accuracy, as per cent with two places.
#[must_use]
pub fn accuracy(fraction: f64) -> String {
    format!("{:.2} %", fraction * 100.0)
}

/// A number a second: `44.7/s`.
#[must_use]
pub fn per_second(rate: f64) -> String {
    format!("{}/s", three_digits(rate))
}

/// `show` of the value, or [`MISSING`].
pub fn or_missing<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| MISSING.to_owned(), show)
}

fn three_digits(value: f64) -> String {
    // 9.996 would become 10.00, hence the odd bounds.
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// What a codec is tuned by; `None` where there is nothing to tune.
#[must_use]
pub fn strength_name(compression_mode: &str) -> Option<&'static str> {
    match compression_mode {
        "topk" => Some("rho"),
        "quantize" => Some("bits"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_si_with_three_digits() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (1_500, "1.50 kB"),
            (9_996, "10.0 kB"),
            (221_352, "221 kB"),
            (999_499, "999 kB"),
            (999_600, "1.00 MB"),
            (664_056_000, "664 MB"),
            (u64::MAX, "18.4 EB"),
        ];
        for (value, expect) in cases {
            assert_eq!(bytes(value), expect);
        }
    }

    #[test]
    fn times_and_shares() {
        assert_eq!(seconds(0.523), "0.52 s");
        assert_eq!(seconds(27.8), "27.8 s");
        assert_eq!(seconds(3599.0), "3599 s");
        assert_eq!(seconds(3721.0), "1 h 02 min");
        assert_eq!(percent(0.1234), "12.3 %");
        assert_eq!(accuracy(0.87213), "87.21 %");
        assert_eq!(or_missing(None::<f64>, percent), "-");
    }
}
