//! Tests whether a difference between variants can be explained by a change of the offered load.

use doctor::Objective;
use lab::{Offered, stats};

use super::GAIN_MIN;

/// Loads that differ by chance only are so different in one of ten cases. Here it is the careful
/// side to see a difference where there is none.
const DIFFERS_P_MAX: f64 = 0.1;
/// A load that is lower by more than this shortens queues by itself.
const LOWER_LOAD: f64 = 0.9;

/// Why a gain does not count, if the load explains it.
pub(super) fn explains(
    objective: Objective,
    [a, b]: [Vec<Option<Offered>>; 2],
    gain: f64,
) -> Option<&'static str> {
    let (a, b) = (values(&a)?, values(&b)?);
    if a.1 != b.1 {
        return None;
    }
    if stats::mann_whitney(&a.0, &b.0)? > DIFFERS_P_MAX {
        return None;
    }
    let load = stats::median(&b.0)? / stats::median(&a.0)?;
    let left = match objective {
        // More to carry is more carried.
        Objective::Goodput => gain / load,
        // Twice as much takes up to twice as long.
        Objective::Response | Objective::Tail | Objective::Transfer => gain * load,
        // Near its capacity a queue grows without proportion.
        Objective::Rtt | Objective::Stalls | Objective::LocalDrops => {
            let is_less_loaded =
                (gain > 1.0 && load < LOWER_LOAD) || (gain < 1.0 && load > 1.0 / LOWER_LOAD);
            if is_less_loaded { 1.0 } else { gain }
        }
    };
    // What is left of it points the other way, or is too little.
    let is_explained = if gain > 1.0 {
        left < GAIN_MIN
    } else {
        left > 1.0 / GAIN_MIN
    };
    is_explained.then_some(match load > 1.0 {
        true => "the program offered more with the change",
        false => "the program offered less with the change",
    })
}

/// All of them, where all are known and of one kind.
fn values(loads: &[Option<Offered>]) -> Option<(Vec<f64>, bool)> {
    let is_per_answer = |load: &Offered| matches!(load, Offered::PerAnswer(_));
    let loads: Vec<Offered> = loads.iter().copied().collect::<Option<_>>()?;
    let kind = is_per_answer(loads.first()?);
    let is_one_kind = loads.iter().all(|load| is_per_answer(load) == kind);
    let values = loads.iter().map(|load| load.value()).collect();
    is_one_kind.then_some((values, kind))
}
