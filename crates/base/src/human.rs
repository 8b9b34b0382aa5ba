//! Numbers in sentences and tables for people: three digits that count, a space, a unit.
//!
//! They are rounded and never read back. A setting is printed by its type ([`Rate`],
//! [`crate::Bytes`], [`crate::format_duration`]) as people type it; JSON carries the numbers.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use crate::Rate;

const RATES: [&str; 5] = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
const SIZES: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
const TIMES: [&str; 3] = ["us", "ms", "s"];

/// A rate: `94.1 Mbit/s`.
#[must_use]
pub fn rate(rate: Rate) -> String {
    bps(rate.bits_per_second())
}

/// A rate in bit/s: `26.0 Mbit/s`.
#[must_use]
pub fn bps(bits_per_second: u64) -> String {
    scaled(bits_per_second as f64, 1000.0, &RATES)
}

/// An amount of data: `1.25 MiB`. A buffer or a window, which is compared with a setting to the
/// byte, is a [`count`] of bytes.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &SIZES)
}

/// A time: `44.0 ms`.
#[must_use]
pub fn time(time: Duration) -> String {
    scaled(time.as_nanos() as f64 / 1e3, 1000.0, &TIMES)
}

/// How long work took or will take: `75.5 s`, `21 min`, `1 h 52 min`.
#[must_use]
pub fn long_time(took: Duration) -> String {
    let minutes = (took.as_secs() + 30) / 60;
    match minutes {
        0 | 1 => time(took),
        2..=119 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// A time in microseconds: `317 us`.
#[must_use]
pub fn micros(us: u64) -> String {
    time(Duration::from_micros(us))
}

/// A share of a whole: `97 %`; where it is small, `0.12 %`.
#[must_use]
pub fn share(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 0.005 => "<0.01 %".into(),
        percent if percent > 0.0 && percent < 9.995 => format!("{percent:.2} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// Whole things, all digits: `1 flow`, `2 processes`, `65536 bytes`.
#[must_use]
pub fn count(number: impl Into<u64>, noun: &str) -> String {
    let number = number.into();
    let ending = match number {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{number} {noun}{ending}")
}

/// A switch: `on`, `off`.
#[must_use]
pub fn flag(on: bool) -> String {
    if on { "on" } else { "off" }.into()
}

/// Whether `word` is a unit of this module, which no line should part from its number.
#[must_use]
pub fn is_unit(word: &str) -> bool {
    word == "%"
        || [&RATES[..], &SIZES, &TIMES]
            .iter()
            .any(|units| units.contains(&word))
}

/// Three digits, in the largest unit that leaves at least one before the point. Nothing is finer
/// than the smallest unit, so a whole number of it has no decimals.
fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // 999.5 would be printed as 1000 of the smaller unit.
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 && value % 1.0 == 0.0 => 0,
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let check = |shown: String, expected: &str| assert_eq!(shown, expected);
        check(rate(Rate::from_bits_per_second(44_800_000)), "44.8 Mbit/s");
        check(bps(0), "0 bit/s");
        check(bps(999), "999 bit/s");
        check(bps(94_123_456), "94.1 Mbit/s");
        check(bps(26_000_000), "26.0 Mbit/s");
        check(bps(9_100_000_000), "9.10 Gbit/s");
        check(bps(999_400), "999 kbit/s");
        check(bps(999_960), "1.00 Mbit/s");
        check(bps(u64::MAX), "18446744 Tbit/s");
        check(bytes(1_310_720), "1.25 MiB");
        check(bytes(16_384), "16.0 KiB");
        check(bytes(1023), "1023 B");
        check(time(Duration::from_micros(1580)), "1.58 ms");
        check(time(Duration::from_secs(5)), "5.00 s");
        check(time(Duration::from_secs(3600)), "3600 s");
        check(time(Duration::from_nanos(300)), "0.30 us");
        check(time(Duration::ZERO), "0 us");
        check(long_time(Duration::from_millis(75_500)), "75.5 s");
        check(long_time(Duration::from_secs(1254)), "21 min");
        check(long_time(Duration::from_secs(6_700)), "112 min");
        check(long_time(Duration::from_secs(7_720)), "2 h 9 min");
        check(micros(317), "317 us");
        check(micros(44_012), "44.0 ms");
        check(micros(99_960), "100 ms");
    }

    #[test]
    fn every_unit_is_known_as_one() {
        let shown = [bps(0), bps(1 << 40), bytes(1 << 20), micros(1), share(0.5)];
        for text in shown {
            let (_, unit) = text.split_once(' ').expect("a number and a unit");
            assert!(is_unit(unit), "{unit}");
        }
        assert!(!is_unit("segments"));
    }

    #[test]
    fn a_share_keeps_two_digits_that_count() {
        let check = |of: f64, expected: &str| assert_eq!(share(of), expected, "{of}");
        check(0.0, "0 %");
        check(0.000_01, "<0.01 %");
        check(0.0012, "0.12 %");
        check(0.0999, "9.99 %");
        check(0.099_96, "10 %");
        check(0.972, "97 %");
        check(1.0, "100 %");
    }

    #[test]
    fn nouns_follow_their_number() {
        let check = |number: u64, noun, expected: &str| assert_eq!(count(number, noun), expected);
        check(1, "flow", "1 flow");
        check(0, "flow", "0 flows");
        check(2, "process", "2 processes");
        check(65_536, "byte", "65536 bytes");
        assert_eq!((flag(true), flag(false)), ("on".into(), "off".into()));
    }
}
