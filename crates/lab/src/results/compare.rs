//! Two sweeps beside each other, cell by cell.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::summary::Summary;
use crate::scenario::Metric;
use crate::stats::{self, Judgement};

/// With three and three runs chance makes the largest difference that there can be in one of ten
/// cases; with four and four in one of 35.
const RUNS_MIN: usize = 4;

/// False discovery rate: the expected share of chance among the differences reported.
const FALSE_SHARE: f64 = 0.05;

/// Result of comparing two sets of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// The second is larger.
    Larger,
    /// The second is smaller.
    Smaller,
    /// Chance may have made the difference; the more cells are compared, the more it makes.
    NotDistinguishable,
    /// Below four runs in one of them nothing can be told.
    TooFewRuns,
}

impl Difference {
    /// Text shown to users.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Larger => "larger",
            Self::Smaller => "smaller",
            Self::NotDistinguishable => "not distinguishable",
            Self::TooFewRuns => "too few runs",
        }
    }
}

/// One metric of one cell in two folders.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellComparison {
    /// Its name.
    pub cell: String,
    /// The metric compared.
    pub metric: String,
    /// Usable runs of the first and of the second.
    pub runs: (usize, usize),
    /// Median of the first.
    pub base: f64,
    /// Median of the second.
    pub other: f64,
    /// `other / base`.
    pub ratio: f64,
    /// The ratio lies above this with 95 % (see `high`).
    pub low: f64,
    /// The ratio lies below this.
    pub high: f64,
    /// The chance to see such a difference where there is none.
    pub p_value: f64,
    /// Result of the comparison.
    pub judgement: Difference,
}

/// Cells that two folders have in common.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Compared {
    /// In the order of the first one's plan.
    pub cells: Vec<CellComparison>,
    /// Cells that only the first has.
    pub only_base: Vec<String>,
    /// Cells that only the second has.
    pub only_other: Vec<String>,
    /// Cells that both have and one without a usable run.
    pub without_values: Vec<String>,
    /// Cells of which so many runs of the first are 0 that there is no ratio to their median.
    pub without_ratio: Vec<String>,
}

/// Compares cells of the same name: the median response time where there is one, goodput otherwise.
/// Each cell is resampled, which takes its time: `go_on` is asked before each.
///
/// # Errors
/// That of `go_on`.
pub fn compare<E>(
    base: &Summary,
    other: &Summary,
    go_on: impl Fn() -> Result<(), E>,
) -> Result<Compared, E> {
    let in_other = other.names();
    let metrics = [Metric::ResponseP50Us, Metric::GoodputBps];
    let [times, rates] = [&metrics[0], &metrics[1]].map(|metric| {
        let of_other: BTreeMap<&str, Vec<f64>> = other.values(metric).into_iter().collect();
        (base.values(metric), of_other)
    });
    let mut found = Compared::default();
    for ((cell, rates_of_base), (_, times_of_base)) in rates.0.iter().zip(&times.0) {
        go_on()?;
        let Some(rates_of_other) = rates.1.get(cell) else {
            found.only_base.push((*cell).to_owned());
            continue;
        };
        let timed = times.1.get(cell).map(|other| (times_of_base, other));
        let timed = timed.filter(|(base, other)| !base.is_empty() && !other.is_empty());
        let (metric, base, other) = match timed {
            Some((base, other)) => (&metrics[0], base, other),
            None => (&metrics[1], rates_of_base, rates_of_other),
        };
        match one(cell, metric, base, other) {
            Some(one) => found.cells.push(one),
            None if base.is_empty() || other.is_empty() => {
                found.without_values.push((*cell).to_owned());
            }
            None => found.without_ratio.push((*cell).to_owned()),
        }
    }
    hold_to_false_share(&mut found.cells);
    let in_base: BTreeSet<&str> = rates.0.iter().map(|(cell, _)| *cell).collect();
    let only_other = in_other.filter(|cell| !in_base.contains(cell));
    found.only_other = only_other.map(str::to_owned).collect();
    Ok(found)
}

/// Takes back what this many comparisons would find by chance: of 500 equal cells one in twenty has
/// a p-value below 5 % (the procedure of Benjamini and Hochberg 1995).
fn hold_to_false_share(cells: &mut [CellComparison]) {
    let enough = |cell: &&CellComparison| cell.judgement != Difference::TooFewRuns;
    let mut p_values: Vec<f64> = cells
        .iter()
        .filter(enough)
        .map(|cell| cell.p_value)
        .collect();
    p_values.sort_by(f64::total_cmp);
    let share = FALSE_SHARE / p_values.len().max(1) as f64;
    let mut ranked = p_values.iter().enumerate().rev();
    let limit = ranked.find(|(place, p)| **p <= share * (place + 1) as f64);
    let limit = limit.map_or(-1.0, |(_, p)| *p);
    for cell in cells {
        if cell.p_value > limit && cell.judgement != Difference::TooFewRuns {
            cell.judgement = Difference::NotDistinguishable;
        }
    }
}

fn one(cell: &str, metric: &Metric, base: &[f64], other: &[f64]) -> Option<CellComparison> {
    let found = stats::compare(base, other, 1)?;
    Some(CellComparison {
        cell: cell.to_owned(),
        metric: metric.name().into_owned(),
        runs: (base.len(), other.len()),
        base: found.base,
        other: found.other,
        ratio: found.ratio,
        low: found.interval.low,
        high: found.interval.high,
        p_value: found.p_value,
        judgement: match found.judgement {
            _ if base.len().min(other.len()) < RUNS_MIN => Difference::TooFewRuns,
            Judgement::Larger => Difference::Larger,
            Judgement::Smaller => Difference::Smaller,
            Judgement::NotDistinguishable => Difference::NotDistinguishable,
        },
    })
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use core::convert::Infallible;

    use super::super::summary::tests::record;
    use super::*;
    use crate::outcome::Caveat;

    fn summary(cells: &[(u64, &[u64])]) -> Summary {
        let mut summary = Summary::default();
        for (index, goodputs) in cells {
            for (run, goodput) in (0..).zip(*goodputs) {
                summary.add(&record(*index, run, *goodput));
            }
        }
        summary
    }

    fn compared(base: &Summary, other: &Summary) -> Compared {
        let Ok(found) = compare(base, other, || Ok::<(), Infallible>(()));
        found
    }

    #[test]
    fn nothing_is_compared_where_the_user_wants_to_stop() {
        let one = summary(&[(0, &[1]), (1, &[1])]);
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            if asked.get() > 1 {
                Err("stopped")
            } else {
                Ok(())
            }
        };
        assert_eq!(compare(&one, &one, stop), Err("stopped"));
        assert_eq!(asked.get(), 2);
    }

    #[test]
    fn cells_are_in_the_order_of_the_plan() {
        let one = summary(&[(2, &[1]), (10, &[1])]);
        let found = compared(&one, &one);
        let cells: Vec<&str> = found.cells.iter().map(|cell| cell.cell.as_str()).collect();
        assert_eq!(cells, ["c2", "c10"]);
    }

    #[test]
    fn a_difference_is_named_where_it_is_none_of_chance() {
        let base = summary(&[
            (0, &[100, 101, 102, 103, 104, 105]),
            (1, &[100, 120, 80, 110, 90, 101]),
            (2, &[5]),
            (4, &[0]),
            (5, &[5]),
            (12, &[1, 1, 1]),
        ]);
        let mut other = summary(&[
            (0, &[200, 202, 204, 206, 208, 210]),
            (1, &[102, 119, 83, 111, 91, 100]),
            (3, &[5]),
            (4, &[1]),
            (12, &[44, 44, 44, 44]),
        ]);
        let mut unusable = record(5, 0, 5);
        unusable.outcome.caveats = vec![Caveat::EndedEarly { why: "x".into() }];
        other.add(&unusable);
        let found = compared(&base, &other);
        let judged: Vec<&str> = found
            .cells
            .iter()
            .map(|cell| cell.judgement.words())
            .collect();
        assert_eq!(judged, ["larger", "not distinguishable", "too few runs"]);
        assert!((found.cells[0].ratio - 2.0).abs() < 0.05, "{found:?}");
        assert!(found.cells[1].low < 1.0 && found.cells[1].high > 1.0);
        assert_eq!(found.only_base, ["c2"]);
        assert_eq!(found.only_other, ["c3"]);
        assert_eq!(found.without_values, ["c5"]);
        assert_eq!(found.without_ratio, ["c4"], "a ratio to 0 is none");
        let back = compared(&other, &base);
        assert_eq!(back.cells[0].judgement, Difference::Smaller);
    }

    #[test]
    fn what_one_of_many_shows_by_chance_is_not_named() {
        // Four and four values apart from each other: chance makes it in one of 35 cells.
        let apart = [&[100, 101, 102, 103][..], &[110, 111, 112, 113]];
        let mixed = [&[100, 102, 104, 106][..], &[101, 103, 105, 107]];
        let named = |different: u64, equal: u64| {
            let side = |side: usize| {
                let cells = (0..different + equal).map(|index| match index < different {
                    true => (index, apart[side]),
                    false => (index, mixed[side]),
                });
                summary(&cells.collect::<Vec<_>>())
            };
            let found = compared(&side(0), &side(1)).cells;
            let named = |cell: &&CellComparison| cell.judgement == Difference::Larger;
            found.iter().filter(named).count()
        };
        assert_eq!(named(1, 0), 1);
        assert_eq!(named(1, 10), 0, "one of eleven may be chance");
        assert_eq!(named(10, 1), 10, "ten of eleven are not");
    }
}
