//! Numbers and claims as people read them.

use core::time::Duration;

use base::human;

use crate::scenario::{Metric, Unit};

/// The unit of a number that divides two others.
const RATIO: &str = "ratio";

/// The unit of a number, or of its ratio to that of another variant: `bit/s`, `us`, `bytes`,
/// `share`, `ratio`, or empty for things.
#[must_use]
pub fn unit_name(metric: Metric, is_ratio: bool) -> &'static str {
    match metric.unit() {
        _ if is_ratio => RATIO,
        Unit::Bps => "bit/s",
        Unit::Micros => "us",
        Unit::Bytes => "bytes",
        Unit::Share => "share",
        Unit::Number => "",
    }
}

/// A unit by its name in a document; that of things where it is none of ours.
#[must_use]
pub fn known_unit(name: &str) -> &'static str {
    let units = ["bit/s", "us", "bytes", "share", RATIO];
    units.into_iter().find(|unit| *unit == name).unwrap_or("")
}

/// Variant and point of a sweep: `n5/path.rtt=1ms` with `/` between them; empty where there is
/// neither.
#[must_use]
pub fn cell_name<'a>(
    variant: Option<&str>,
    axes: impl IntoIterator<Item = (&'a String, &'a String)>,
    between: &str,
) -> String {
    let axes = axes
        .into_iter()
        .map(|(key, value)| format!("{key}={value}"));
    let parts: Vec<String> = variant.map(str::to_owned).into_iter().chain(axes).collect();
    parts.join(between)
}

/// A number in a sentence: `duration_us`, or `duration_us over that of n20`.
#[must_use]
pub fn number_name(metric: Metric, over: Option<&str>) -> String {
    let name = metric.name();
    match over {
        Some(over) => format!("{name} over that of {over}"),
        None => name.into_owned(),
    }
}

/// A number with its unit, three digits: `5.66 s`, `25.0 Mbit/s`, `60 %`, `15`, `1.38`. What is not
/// of the unit (a negative time) is printed bare.
#[must_use]
pub fn show_value(unit: &str, value: f64) -> String {
    match unit {
        _ if !value.is_finite() || value < 0.0 => plain(value),
        "bit/s" => human::bps(value.round() as u64),
        "us" => {
            let nanos = (value * 1e3).round();
            human::time(Duration::from_nanos(nanos as u64))
        }
        // Buffers and windows are compared to the byte.
        "bytes" if value < 1e6 => human::count(value.round() as u64, "byte"),
        "bytes" => human::bytes(value.round() as u64),
        "share" => human::share(value),
        RATIO => digits(value),
        _ => plain(value),
    }
}

/// Formats bounds: `1.38 to 2.20 s`, `at least 2.50`.
#[must_use]
pub fn show_bounds(unit: &str, min: Option<f64>, max: Option<f64>) -> String {
    match (min, max) {
        (Some(min), Some(max)) => show_range(unit, min, max),
        (Some(min), None) => format!("at least {}", show_value(unit, min)),
        (None, Some(max)) => format!("at most {}", show_value(unit, max)),
        (None, None) => "anything".into(),
    }
}

/// Describes a value outside of its bounds: `is 7.00 s, expected at most 6.00 s`; `None` within
/// them. Values that would read the same are given in percent.
pub(crate) fn outside(
    unit: &str,
    value: f64,
    (min, max): (Option<f64>, Option<f64>),
) -> Option<String> {
    let (word, beyond, bound) = match (min, max) {
        (Some(min), _) if value < min => ("at least", "below", min),
        (_, Some(max)) if value > max => ("at most", "above", max),
        _ => return None,
    };
    let [shown, claimed] = [value, bound].map(|number| show_value(unit, number));
    Some(match shown == claimed && bound != 0.0 {
        false => format!("is {shown}, expected {word} {claimed}"),
        true => {
            let percent = (value / bound - 1.0).abs() * 100.0;
            format!("is {percent:.2} % {beyond} {claimed}, expected {word} that")
        }
    })
}

/// Both ends of an interval, with the unit once where both have the same.
#[must_use]
pub fn show_range(unit: &str, low: f64, high: f64) -> String {
    let [low, high] = [low, high].map(|value| show_value(unit, value));
    if low == high {
        return high;
    }
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, one)), Some((_, other))) if one == other => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// Whole numbers as they are, others as ratios.
fn plain(value: f64) -> String {
    match value.fract() == 0.0 {
        true => format!("{value}"),
        false => digits(value),
    }
}

/// Three digits that count; small ones to the fourth behind the point.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.0995 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_in_their_unit() {
        let check = |unit: &str, value: f64, expected: &str| {
            assert_eq!(show_value(unit, value), expected);
        };
        check("us", 5.66e6, "5.66 s");
        check("us", 44_012.3, "44.0 ms");
        check("us", 0.28, "0.28 us");
        check("us", -5.5, "-5.50");
        check("bit/s", 25e6, "25.0 Mbit/s");
        check("bytes", 65_536.0, "65536 bytes");
        check("bytes", 4_194_304.0, "4.00 MiB");
        check("share", 0.6, "60 %");
        check("", 15.0, "15");
        check("", 1.3784, "1.38");
        check("", 5.0, "5");
        check("", 0.0123, "0.0123");
        check("", 12.345, "12.3");
        check("", 1234.5, "1234");
        check("ratio", 1.0, "1.00");
        check("ratio", 20.0, "20.0");
        check("ratio", 0.0, "0.00");
    }

    #[test]
    fn a_value_outside_is_told_with_its_bound() {
        let check = |value: f64, min, max, expected: Option<&str>| {
            assert_eq!(outside("us", value, (min, max)).as_deref(), expected);
        };
        check(5e6, Some(4e6), Some(6e6), None);
        check(5e6, Some(5e6), Some(5e6), None);
        check(
            7e6,
            Some(4e6),
            Some(6e6),
            Some("is 7.00 s, expected at most 6.00 s"),
        );
        check(
            3e6,
            Some(4e6),
            None,
            Some("is 3.00 s, expected at least 4.00 s"),
        );
        let close = "is 0.07 % below 1.57 s, expected at least that";
        check(1.571e6, Some(1.572_1e6), None, Some(close));
    }

    #[test]
    fn bounds_name_their_unit_once() {
        let check = |unit: &str, min: Option<f64>, max: Option<f64>, expected: &str| {
            assert_eq!(show_bounds(unit, min, max), expected);
        };
        check("us", Some(1.38e6), Some(2.2e6), "1.38 to 2.20 s");
        check("us", Some(900.0), Some(1.2e3), "900 us to 1.20 ms");
        check("", Some(2.5), None, "at least 2.50");
        check("share", None, Some(0.02), "at most 2.00 %");
        check("", Some(5.0), Some(5.0), "5");
        check("", None, None, "anything");
    }
}
