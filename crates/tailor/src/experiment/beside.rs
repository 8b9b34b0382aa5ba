//! Tests whether a gain was taken from other connections to the same hosts.
//!
//! On a full path one connection gains what the others lose; a change that only does that is not an
//! improvement.

use lab::{Measure, stats};

/// Others differ by chance only, and by so much, in one of ten cases. Here it is the careful side
/// to see a difference where there is none.
const DIFFERS_P_MAX: f64 = 0.1;
/// Others have lost at least this share of the gain.
const TAKEN_SHARE: f64 = 0.5;

/// Why a gain does not count, if others have lost it.
pub(super) fn explains(looks: &[Vec<(f64, Measure)>; 2]) -> Option<&'static str> {
    let values = |read: fn(&Measure) -> u64| {
        let read = |(_, look): &(f64, Measure)| read(look) as f64;
        looks
            .each_ref()
            .map(|looks| looks.iter().map(read).collect::<Vec<f64>>())
    };
    let [own_before, own_after] = values(|look| look.goodput_bps);
    let [before, after] = values(|look| look.beside_bps.unwrap_or(0));
    let gained = stats::median(&own_after)? - stats::median(&own_before)?;
    let lost = stats::median(&before)? - stats::median(&after)?;
    let is_taken = gained > 0.0 && lost >= gained * TAKEN_SHARE;
    if !is_taken || stats::mann_whitney(&before, &after)? > DIFFERS_P_MAX {
        return None;
    }
    Some(
        "other connections to the same hosts, such as those of other processes, lost what it gained",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at what was measured and at the others, in Mbit/s, each a little different.
    fn looks(own: f64, others: f64) -> Vec<(f64, Measure)> {
        let wiggle = [0.02, -0.02, 0.01, -0.01, 0.0, 0.015, -0.015, 0.005];
        let look = |(at, wiggle): (u32, f64)| {
            let bps = |mbit: f64| (mbit * 1e6 * (1.0 + wiggle)) as u64;
            let measure = Measure {
                goodput_bps: bps(own),
                beside_bps: (others > 0.0).then(|| bps(others)),
                ..Measure::default()
            };
            (f64::from(at), measure)
        };
        (0..8).zip(wiggle).map(look).collect()
    }

    #[test]
    fn a_gain_is_taken_where_others_lose_it() {
        let check = |[own, others]: [[f64; 2]; 2], expected: bool| {
            let looks = [0, 1].map(|arm| looks(own[arm], others[arm]));
            assert_eq!(explains(&looks).is_some(), expected, "{own:?} {others:?}");
        };
        check([[1.8, 5.0], [16.2, 13.0]], true);
        // Most of it.
        check([[1.8, 5.0], [16.2, 14.4]], true);
        // The path had room.
        check([[1.8, 5.0], [16.2, 16.2]], false);
        check([[1.8, 5.0], [16.2, 15.6]], false);
        check([[1.8, 5.0], [0.0, 0.0]], false);
        // They, too, gain.
        check([[1.8, 5.0], [16.2, 40.0]], false);
        // None of it is left for them.
        check([[1.8, 5.0], [3.0, 0.0]], true);
    }
}
