//! Spread of values: whether more of them are needed, and which lie far from the others.

use super::{median, median_interval};

/// Width of the interval of a median, as a share of the median, at which it is known well enough.
/// Claims about real time allow 10 % and more; an interval of 5 % decides them.
pub const INTERVAL_SHARE_WANTED: f64 = 0.05;
/// How many interquartile ranges beyond the quartiles a value is far away (Tukey 1977, chapter 2).
const FENCE: f64 = 1.5;

/// Whether a measurement should be repeated: fewer than `min` values, or fewer than `max` of which
/// the median is not known to within [`INTERVAL_SHARE_WANTED`]. Values that are all equal, as of a
/// deterministic run, are enough at `min`. A value that is not a number counts as unknown.
#[must_use]
pub fn more_runs_wanted(values: &[f64], min: usize, max: usize) -> bool {
    if values.len() < min {
        return true;
    }
    if values.len() >= max {
        return false;
    }
    match (median(values), median_interval(values, 0)) {
        (Some(middle), Some(interval)) => {
            interval.high - interval.low > INTERVAL_SHARE_WANTED * middle.abs()
        }
        _ => true,
    }
}

/// Places of the values beyond the fences of Tukey, in order. They are to be shown, never to be
/// left out: a median does not mind them. Of fewer than four values none is far from the others.
#[must_use]
pub fn outliers(values: &[f64]) -> Vec<usize> {
    if values.len() < 4 || values.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (lower, upper) = (quantile(&sorted, 0.25), quantile(&sorted, 0.75));
    let reach = FENCE * (upper - lower);
    let far = |value: f64| value < lower - reach || value > upper + reach;
    let places = values.iter().enumerate();
    places
        .filter(|(_, value)| far(**value))
        .map(|(place, _)| place)
        .collect()
}

/// Quantile of sorted values by linear interpolation (type 7 of Hyndman and Fan 1996).
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (place - place.floor()) * (sorted[above] - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_go_on_until_the_median_is_known() {
        let check = |values: &[f64], expected: bool| {
            assert_eq!(more_runs_wanted(values, 3, 9), expected, "{values:?}");
        };
        check(&[], true);
        check(&[5.0, 5.0], true);
        check(&[5.0; 3], false);
        check(&[0.0; 3], false);
        check(&[0.0, 0.0, 1.0], true);
        check(&[100.0, 101.0, 102.0], false);
        check(&[100.0, 104.0, 110.0], true);
        check(&[-100.0, -101.0, -102.0], false);
        check(&[f64::NAN, 1.0, 1.0], true);
        check(&[1.0, 9.0, 1.0, 9.0, 1.0, 9.0, 1.0, 9.0, 1.0], false);
        // One value far away does not move the median of many.
        check(&[100.0, 100.5, 101.0, 101.5, 102.0, 900.0], true);
        check(
            &[100.0, 100.2, 100.4, 101.5, 101.6, 101.7, 101.8, 102.0],
            false,
        );
    }

    #[test]
    fn values_far_from_the_others_are_named() {
        let check = |values: &[f64], expected: &[usize]| assert_eq!(outliers(values), expected);
        check(&[], &[]);
        check(&[1.0, 1.0, 900.0], &[]);
        check(&[1.0, 1.0, 1.0, 1.0], &[]);
        check(&[10.0, 11.0, 12.0, 13.0, 30.0], &[4]);
        // Quartiles 11 and 13: the fences are 8 and 16, and on a fence is within.
        check(&[16.0, 11.0, 12.0, 13.0, 8.0], &[]);
        check(&[16.5, 11.0, 12.0, 13.0, 7.5], &[0, 4]);
        check(&[1.0, 2.0, f64::INFINITY, 1.0, 1.0], &[]);
    }
}
