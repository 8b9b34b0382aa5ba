//! Published values and expectations, in the words of tables on the screen and of pages.

use lab::judge::Bounds;
use lab::show::{show_bounds, show_value};

use super::NumberRow;

/// A published number in the unit of its row, as `= 5.66 s`; `None` where the document prints
/// exactly that, with its unit or without, or no number.
#[must_use]
pub fn published_value(row: &NumberRow) -> Option<String> {
    let shown = show_value(&row.unit, row.published?);
    let letters = |text: &str| text.split_whitespace().collect::<String>();
    // Some tables print numbers without their unit.
    let is_number = |text: &str| text.ends_with(|last: char| last.is_ascii_digit());
    let is_unit = |rest: &str| !rest.contains(|c: char| c.is_ascii_digit() || c == '.');
    let (text, value) = (letters(row.published_text.as_deref()?), letters(&shown));
    let rest = value.strip_prefix(&text);
    let is_same = rest.is_some_and(|rest| rest.is_empty() || is_number(&text) && is_unit(rest));
    (!is_same).then(|| format!("= {shown}"))
}

/// The published value as printed, and in the unit of the row: `267% speed increase = 2.67`.
#[must_use]
pub fn published(row: &NumberRow) -> Option<String> {
    let text = row.published_text.as_ref()?;
    Some(match (published_value(row), row.published) {
        (Some(value), _) => format!("{text} {value}"),
        (None, Some(number)) => show_value(&row.unit, number),
        (None, None) => text.clone(),
    })
}

/// All that is claimed of a number, with the engines of which it is claimed where not of all.
#[must_use]
pub fn claims(row: &NumberRow) -> Vec<String> {
    let claims = row.expectations.iter().map(|of| claim(&row.unit, of));
    claims.collect()
}

/// The expectation in this unit, with its engines.
pub(super) fn claim(unit: &str, claim: &Bounds) -> String {
    let bounds = show_bounds(unit, claim.min, claim.max);
    let engines: Vec<&str> = claim.engines.iter().map(|engine| engine.name()).collect();
    match engines.is_empty() {
        true => bounds,
        false => format!("{}: {bounds}", engines.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lab::judge::Verdict;

    use super::*;

    fn row(unit: &str, published: Option<(&str, f64)>) -> NumberRow {
        NumberRow {
            variant: None,
            over: None,
            axes: BTreeMap::new(),
            metric: "goodput_bps".into(),
            unit: unit.into(),
            published_text: published.map(|(text, _)| text.into()),
            published: published.map(|(_, value)| value),
            fitted: false,
            tolerance: 0.05,
            expectations: Vec::new(),
            engines: Vec::new(),
            verdict: Verdict::Recorded,
        }
    }

    #[test]
    fn published_numbers_stand_in_the_unit_of_the_row_too() {
        let check = |unit: &str, text: &str, value, expected: &str| {
            let told = published(&row(unit, Some((text, value))));
            assert_eq!(told.as_deref(), Some(expected));
        };
        check("us", "5.66", 5.66e6, "5.66 s");
        check("us", "5.66 s", 5.66e6, "5.66 s");
        check("us", "5.66s", 5.66e6, "5.66 s");
        let per_second = "400129.781250 ms = 25.0";
        check("", "400129.781250 ms", 24.992, per_second);
        let ratio = "267% speed increase = 2.67";
        check("ratio", "267% speed increase", 2.67, ratio);
        let rate = "353.39 KB/s = 2.90 Mbit/s";
        check("bit/s", "353.39 KB/s", 2.895e6, rate);
        assert_eq!(published(&row("us", None)), None);
    }

    #[test]
    fn a_claim_names_its_engines() {
        use lab::EngineName::{Kernel, Tun};
        let claim = |engines: &[lab::EngineName]| Bounds {
            min: Some(80e6),
            max: Some(390e6),
            engines: engines.to_vec(),
            reason: String::new(),
            history: Vec::new(),
        };
        let row = NumberRow {
            expectations: vec![claim(&[]), claim(&[Kernel, Tun])],
            ..row("bit/s", None)
        };
        let expected = ["80.0 to 390 Mbit/s", "kernel, tun: 80.0 to 390 Mbit/s"];
        assert_eq!(claims(&row), expected);
    }
}
