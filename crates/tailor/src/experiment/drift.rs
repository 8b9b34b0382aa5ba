//! Tests whether a difference between before and after can be explained by an earlier trend.
//!
//! By ranks, as everything here: the slope of Theil and Sen (Sen 1968) over the looks before the
//! change, and Kendall's S, which counts the pairs that rise less those that fall.

use super::GAIN_MIN;

/// Threshold of S: of eight values without a trend, S is as large as this in one of eleven cases.
const TREND_MIN: usize = 12;
/// The rank of a slope that lies one standard error above the median one of eight values, whose S
/// has a standard deviation of 8.1: counted from the median.
const STANDARD_ERROR_RANKS: usize = 4;

/// Whether a gain is explained by the trend of the looks `before`.
pub(super) fn explains(before: &[f64], gain: f64) -> bool {
    // What is a loss rises the other way around.
    let sign = if gain > 1.0 { 1.0 } else { -1.0 };
    let logs: Vec<f64> = before.iter().map(|value| sign * value.ln()).collect();
    let mut slopes: Vec<f64> = Vec::new();
    for (at, earlier) in logs.iter().enumerate() {
        let later = logs[at + 1..].iter().zip(1_u32..);
        slopes.extend(later.map(|(later, looks)| (later - earlier) / f64::from(looks)));
    }
    slopes.sort_by(f64::total_cmp);
    let rising = slopes.iter().filter(|slope| **slope > 0.0).count();
    let falling = slopes.iter().filter(|slope| **slope < 0.0).count();
    // A slope that is there by chance is as likely too small as too large; one that is there for a
    // reason may be steeper than it looks.
    let more = match rising >= falling + TREND_MIN {
        true => STANDARD_ERROR_RANKS,
        false => 0,
    };
    let slope = slopes.get(slopes.len() / 2 + more).copied();
    // From the middle of the looks before to that of as many after.
    let looks = before.len() as f64;
    let left = sign * gain.ln() - slope.unwrap_or(0.0).max(0.0) * looks;
    left < GAIN_MIN.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(slope: f64) -> Vec<f64> {
        let wiggle = [0.01, -0.01, 0.02, 0.0, -0.02, 0.01, 0.0, -0.01];
        let value = |(at, wiggle): (u32, f64)| (slope * f64::from(at) + wiggle).exp();
        (0..8).zip(wiggle).map(value).collect()
    }

    #[test]
    fn what_goes_on_explains_as_much_as_it_comes_to() {
        let check = |slope: f64, gain: f64, expected: bool| {
            assert_eq!(explains(&values(slope), gain), expected, "{slope}, {gain}");
        };
        check(0.0, 1.2, false);
        check(0.0, 0.8, false);
        // Eight looks on, 1.32 times as much.
        check(0.035, 1.3, true);
        check(0.035, 1.35, true);
        check(0.035, 2.0, false);
        check(-0.035, 0.75, true);
        check(-0.035, 0.4, false);
        // A trend in the other direction hides a gain, and does not make one.
        check(-0.035, 1.2, false);
        assert!(!explains(&[1.0], 2.0) && !explains(&[], 2.0));
    }
}
