//! A number beside the one that was published.

use lab::judge::{Bounds, Spread, VALUE_TOLERANCE, Verdict};
use lab::{Class, Experiment, Published};

use super::EngineValue;

/// How far a number may lie from the published one and still be that number, as a share of it.
pub(super) fn tolerance(experiment: &Experiment) -> f64 {
    experiment.tolerance.unwrap_or(VALUE_TOLERANCE)
}

/// Whether a published number comes out: [`Verdict::Fails`] where the median is that number to
/// within `tolerance`, which is what an experiment of a statement that does not hold must not
/// give; [`Verdict::NotDistinguishable`] where only the interval reaches it;
/// [`Verdict::DeviatesAsExpected`] where it does not.
pub(super) fn comes_out(published: f64, tolerance: f64, spread: &Spread) -> Verdict {
    let margin = published.abs() * tolerance;
    let (min, max) = (published - margin, published + margin);
    if (min..=max).contains(&spread.median) {
        Verdict::Fails
    } else if spread.low <= max && spread.high >= min {
        Verdict::NotDistinguishable
    } else {
        Verdict::DeviatesAsExpected
    }
}

/// Adds to values what they are beside the published one, where the verdict does not say so: a
/// number that was predicted and lies beside it, or that comes out unexpectedly.
pub(super) fn departures(
    experiment: &Experiment,
    published: &Published,
    claims: &[Bounds],
    values: &mut [EngineValue],
) {
    if published.fitted {
        return;
    }
    for value in values {
        let Some(spread) = &value.spread else {
            continue;
        };
        let text = &published.text;
        let mut claims = claims.iter().filter(|claim| claim.applies_on(value.engine));
        let told = match experiment.class {
            Class::Deviates => match comes_out(published.value, tolerance(experiment), spread) {
                Verdict::Fails => Some(format!("{text} comes out although it was not expected")),
                Verdict::NotDistinguishable => Some(format!(
                    "{text} may come out by the interval, although it was not expected"
                )),
                _ if is_near(published.value, spread.median) => Some(format!(
                    "{text} does not come out: {}",
                    off(published.value, spread.median)
                )),
                _ => None,
            },
            Class::Exact | Class::Value
                if value.verdict == Verdict::Holds
                    && (is_off(published.value, spread.median)
                        || claims.any(|claim| !claim.contains(published.value))) =>
            {
                Some(format!("pass, {}", off(published.value, spread.median)))
            }
            _ => None,
        };
        let whys = value.why.take().into_iter().chain(told);
        value.why = whys.reduce(|known, more| format!("{known}; {more}"));
    }
}

/// From this distance on a number that holds is told how far it is off, as a share of the published
/// one: printed numbers have two digits and more.
const TOLD_FROM: f64 = 0.01;

/// Up to this distance a number that does not come out is told how far it is off.
const NEAR: f64 = 0.1;

fn is_near(published: f64, value: f64) -> bool {
    (value - published).abs() < published.abs() * NEAR
}

fn is_off(published: f64, value: f64) -> bool {
    (value - published).abs() >= published.abs() * TOLD_FROM && value != published
}

/// How far a value lies from the published one.
fn off(published: f64, value: f64) -> String {
    if published == 0.0 {
        return "off the published number, which is 0".into();
    }
    match (value / published - 1.0) * 100.0 {
        percent if percent.abs() >= 9.95 => format!("off the published number by {percent:+.0} %"),
        percent => format!("off the published number by {percent:+.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_number_comes_out_by_the_median_or_perhaps_by_the_interval() {
        let check = |values: &[f64], published: f64, expected: Verdict| {
            let spread = Spread::of(values.to_vec()).expect("numbers");
            assert_eq!(comes_out(published, 0.05, &spread), expected, "{values:?}");
        };
        check(&[100.0], 100.0, Verdict::Fails);
        check(&[104.0], 100.0, Verdict::Fails);
        check(&[106.0], 100.0, Verdict::DeviatesAsExpected);
        check(&[94.0], 100.0, Verdict::DeviatesAsExpected);
        check(&[100.0, 120.0, 130.0], 100.0, Verdict::NotDistinguishable);
        check(&[110.0, 120.0, 130.0], 100.0, Verdict::DeviatesAsExpected);
        check(&[0.0], 0.0, Verdict::Fails);
        check(&[1.0], 0.0, Verdict::DeviatesAsExpected);
    }

    #[test]
    fn the_distance_is_told_in_percent() {
        assert_eq!(off(2e6, 2.2e6), "off the published number by +10 %");
        assert_eq!(off(200.0, 199.46), "off the published number by -0.3 %");
        assert_eq!(off(0.0, 1.0), "off the published number, which is 0");
    }
}
