//! Numbers for people: three digits that count, and a unit. JSON carries the exact values.

use std::time::Duration;

/// A rate: `94.1 Mbit/s`.
pub(crate) fn rate(bits_per_second: u64) -> String {
    scaled(
        bits_per_second as f64,
        1000.0,
        &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"],
    )
}

/// A size: `1.25 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// A time: `1.58 ms`.
pub(crate) fn time(time: Duration) -> String {
    micros(time.as_nanos() as f64 / 1e3)
}

/// A time in microseconds: `44.1 ms`.
pub(crate) fn micros(us: f64) -> String {
    if us >= 1e6 {
        scaled(us / 1e6, f64::INFINITY, &["s"])
    } else {
        scaled(us, 1000.0, &["us", "ms", "s"])
    }
}

/// A share of a whole: `97%`.
pub(crate) fn share(share: f64) -> String {
    if share > 0.0 && share < 0.01 {
        "<1%".into()
    } else {
        format!("{:.0}%", share * 100.0)
    }
}

/// A count with its noun: `1 flow`, `3 flows`, `2 processes`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let ending = match number {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{number} {noun}{ending}")
}

/// Three digits that count, in the largest unit that leaves at least one before the point.
fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    // 999.5 would be printed as 1000 of the smaller unit.
    while value >= step - step / 2000.0 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 && value.fract() == 0.0 => 0,
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let mut number = format!("{value:.decimals$}");
    if number.contains('.') {
        number.truncate(number.trim_end_matches('0').trim_end_matches('.').len());
    }
    format!("{number} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let check = |shown: String, expected: &str| assert_eq!(shown, expected);
        check(rate(0), "0 bit/s");
        check(rate(94_123_456), "94.1 Mbit/s");
        check(rate(9_100_000_000), "9.1 Gbit/s");
        check(rate(999_960), "1 Mbit/s");
        check(bytes(1_310_720), "1.25 MiB");
        check(bytes(16_384), "16 KiB");
        check(time(Duration::from_micros(1580)), "1.58 ms");
        check(time(Duration::from_secs(5)), "5 s");
        check(time(Duration::from_nanos(300)), "0.3 us");
        check(micros(44_123.0), "44.1 ms");
        check(share(0.972), "97%");
        check(share(0.001), "<1%");
        check(share(0.0), "0%");
        check(count(1, "flow"), "1 flow");
        check(count(0, "flow"), "0 flows");
        check(count(2, "process"), "2 processes");
    }
}
