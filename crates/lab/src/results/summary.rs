//! The results of a sweep, cell by cell.

use std::collections::BTreeMap;

use serde::Serialize;

use super::reasons::{Reason, Reasons};
use super::record::{Record, RunId, Usability};
use crate::scenario::Metric;
use crate::stats;

/// Metrics kept of each run; keeping more would dominate the memory of a large sweep.
const METRICS: [Metric; 4] = [
    Metric::GoodputBps,
    Metric::ResponseP50Us,
    Metric::ResponseP99Us,
    Metric::StallMaxUs,
];

/// The numbers of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    worth: Usability,
    values: [Option<f64>; METRICS.len()],
    dropped_segments: u64,
    /// Digest of the whole record.
    digest: u64,
}

impl Measured {
    fn of(record: &Record) -> Self {
        let outcome = &record.outcome;
        Self {
            worth: record.worth(),
            values: METRICS.map(|metric| metric.of(outcome)),
            dropped_segments: outcome.forward.dropped_segments + outcome.reverse.dropped_segments,
            digest: record.digest(),
        }
    }
}

/// All finished runs of a sweep, each once.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    names: BTreeMap<u64, String>,
    /// By cell and run: a map for each cell is mostly room for more where each has one run.
    runs: BTreeMap<(u64, u32), Measured>,
    reasons: Reasons,
    repeated: u64,
    conflicts: Vec<RunId>,
}

/// The runs of one cell.
struct Runs<'s> {
    index: u64,
    name: &'s str,
    reasons: &'s Reasons,
    measured: Vec<&'s Measured>,
}

/// One metric over the usable runs of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The middle one.
    pub median: f64,
    /// The median lies between these two with 95 %; `None` of one run.
    pub low: Option<f64>,
    /// See `low`.
    pub high: Option<f64>,
    /// Runs far from the others; see [`stats::outliers`].
    pub outliers: usize,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellSummary {
    /// Its number, from 0.
    pub index: u64,
    /// Its name.
    pub cell: String,
    /// Finished runs.
    pub runs: usize,
    /// Of these, usable.
    pub usable: usize,
    /// Why the others are invalid.
    pub unusable: Vec<Reason>,
    /// Payload per second.
    pub goodput_bps: Option<Figure>,
    /// Median response time.
    pub response_p50_us: Option<Figure>,
    /// 99th percentile of the response time.
    pub response_p99_us: Option<Figure>,
    /// Longest time between two arrivals of payload.
    pub stall_max_us: Option<Figure>,
    /// Wire packets that were lost or dropped, both ways; median.
    pub dropped_segments: Option<f64>,
}

impl Summary {
    /// Adds a run; one that is there already is told in [`Summary::repeated`], and in
    /// [`Summary::conflicts`] where its [`Record::digest`] differs. A usable one replaces one that
    /// is not.
    pub fn add(&mut self, record: &Record) {
        let measured = Measured::of(record);
        match self.runs.get_mut(&record.place()) {
            Some(known) => {
                self.repeated += 1;
                if known.digest != measured.digest && known.worth.repeats(measured.worth) {
                    self.conflicts.push(record.id);
                }
                if measured.worth > known.worth {
                    *known = measured;
                    self.reasons.set(record.place(), &record.outcome);
                }
            }
            None => {
                let name = self.names.entry(record.index);
                name.or_insert_with(|| record.cell.clone());
                self.runs.insert(record.place(), measured);
                self.reasons.set(record.place(), &record.outcome);
            }
        }
    }

    /// Finished runs, each once.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs.len() as u64
    }

    /// Runs that were there more than once.
    #[must_use]
    pub const fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Runs of which there are two that differ; the first usable one counts.
    #[must_use]
    pub fn conflicts(&self) -> &[RunId] {
        &self.conflicts
    }

    /// Cells with at least one finished run, in order.
    pub fn cells(&self) -> impl Iterator<Item = CellSummary> + '_ {
        self.by_cell().map(|runs| runs.summary())
    }

    /// Names of cells with at least one finished run, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.values().map(String::as_str)
    }

    /// Each cell in order: its name and the usable values of a metric.
    pub(super) fn values(&self, metric: &Metric) -> Vec<(&str, Vec<f64>)> {
        let position = METRICS.iter().position(|known| known == metric);
        let of = |runs: &Runs<'_>| position.map_or_else(Vec::new, |at| runs.values(at));
        let cells = self.by_cell();
        cells.map(|runs| (runs.name, of(&runs))).collect()
    }

    fn by_cell(&self) -> impl Iterator<Item = Runs<'_>> {
        self.names.iter().map(|(index, name)| {
            let runs = self.runs.range((*index, 0)..=(*index, u32::MAX));
            Runs {
                index: *index,
                name,
                reasons: &self.reasons,
                measured: runs.map(|(_, measured)| measured).collect(),
            }
        })
    }
}

impl Runs<'_> {
    fn usable(&self) -> impl Iterator<Item = &Measured> {
        self.measured
            .iter()
            .copied()
            .filter(|measured| measured.worth == Usability::Usable)
    }

    fn values(&self, metric: usize) -> Vec<f64> {
        let values = self.usable().filter_map(|measured| measured.values[metric]);
        values.collect()
    }

    fn summary(&self) -> CellSummary {
        let [goodput_bps, response_p50_us, response_p99_us, stall_max_us] =
            [0, 1, 2, 3].map(|metric| Figure::of(&self.values(metric), self.index));
        let dropped: Vec<f64> = self
            .usable()
            .map(|measured| measured.dropped_segments as f64)
            .collect();
        CellSummary {
            index: self.index,
            cell: self.name.to_owned(),
            runs: self.measured.len(),
            usable: self.usable().count(),
            unusable: self.reasons.of_cell(self.index),
            goodput_bps,
            response_p50_us,
            response_p99_us,
            stall_max_us,
            dropped_segments: stats::median(&dropped),
        }
    }
}

impl Figure {
    fn of(values: &[f64], seed: u64) -> Option<Self> {
        let median = stats::median(values)?;
        let interval = (values.len() > 1)
            .then(|| stats::median_interval(values, seed))
            .flatten();
        Some(Self {
            median,
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
            outliers: stats::outliers(values).len(),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::outcome::{Caveat, Outcome};

    pub(in crate::results) fn record(index: u64, run: u32, goodput_bps: u64) -> Record {
        Record {
            id: RunId(index * 1_000 + u64::from(run)),
            index,
            cell: format!("c{index}"),
            variant: None,
            axes: BTreeMap::new(),
            run,
            seed: 1,
            at: None,
            outcome: Outcome {
                goodput_bps,
                ..Outcome::default()
            },
        }
    }

    #[test]
    fn runs_are_counted_once_and_summed_up_by_cell() {
        let mut summary = Summary::default();
        for (run, goodput) in (0..).zip([100, 101, 102, 103, 500]) {
            summary.add(&record(7, run, goodput));
        }
        summary.add(&record(7, 0, 100));
        summary.add(&record(7, 1, 999));
        let mut broken = record(7, 5, 1);
        broken.outcome.caveats = vec![Caveat::EndedEarly { why: "x".into() }];
        summary.add(&broken);
        summary.add(&record(3, 0, 9));
        assert_eq!((summary.runs(), summary.repeated()), (7, 2));
        assert_eq!(summary.conflicts(), [RunId(7_001)]);
        let cells: Vec<CellSummary> = summary.cells().collect();
        assert_eq!(cells[0].cell, "c3", "in the order of the cells");
        let one = cells[0].goodput_bps.expect("a run");
        assert_eq!((one.median, one.low), (9.0, None));
        let many = cells[1].goodput_bps.expect("runs");
        assert_eq!((cells[1].runs, cells[1].usable), (6, 5));
        let reasons = cells[1].unusable.iter();
        let reasons: Vec<_> = reasons.map(|one| (one.why.as_str(), one.runs)).collect();
        assert_eq!(reasons, [("ended early: x", 1)]);
        assert_eq!((many.median, many.outliers), (102.0, 1));
        assert!(many.low.is_some_and(|low| (100.0..=102.0).contains(&low)));
        assert_eq!(cells[1].response_p50_us, None, "unknown is not 0");
    }

    #[test]
    fn of_several_tries_the_usable_one_counts_whichever_came_first() {
        let good = record(0, 0, 100);
        let mut bad = record(0, 0, 7);
        bad.outcome.caveats = vec![Caveat::EndedEarly { why: "x".into() }];
        let dated = |record: &Record, at: &str| Record {
            at: Some(at.into()),
            ..record.clone()
        };
        let (late, mut worse) = (dated(&good, "3"), dated(&bad, "2"));
        worse.outcome.goodput_bps = 8;
        let check = |records: &[&Record], goodput: Option<f64>, conflicts: usize| {
            let mut summary = Summary::default();
            records.iter().for_each(|record| summary.add(record));
            let cell = summary.cells().next().expect("a cell");
            assert_eq!(cell.goodput_bps.map(|figure| figure.median), goodput);
            assert_eq!((cell.runs, summary.runs()), (1, 1));
            assert_eq!(cell.unusable.len(), usize::from(goodput.is_none()));
            assert_eq!(summary.conflicts().len(), conflicts, "{records:?}");
        };
        let early = dated(&bad, "1");
        check(&[&early, &worse], None, 0);
        check(&[&early, &worse, &late], Some(100.0), 0);
        check(&[&late, &early, &worse], Some(100.0), 0);
        // What is not shown differs too.
        let mut hidden = good.clone();
        hidden.outcome.forward.delivered = 7;
        check(&[&good, &hidden], Some(100.0), 1);
        // In virtual time the same run has one result.
        check(&[&bad, &good], Some(100.0), 1);
        check(&[&good, &bad], Some(100.0), 1);
        check(&[&bad, &bad], None, 0);
    }

    #[test]
    fn dates_are_labels() {
        let mut summary = Summary::default();
        for (run, at) in (0..).zip(["2026-11-21T10:00:02Z", "2026-11-21T10:00:01Z", "1970"]) {
            let mut late = record(0, run, 100 + u64::from(run));
            late.at = Some(at.into());
            let line = super::super::read_line(&late.to_line());
            assert_eq!(line, Ok(super::super::Line::Whole(Box::new(late.clone()))));
            summary.add(&late);
        }
        assert_eq!(summary.runs(), 3);
        assert!(summary.conflicts().is_empty());
    }
}
