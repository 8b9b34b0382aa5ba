//! What was measured, medians of it, and the JSON document.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use lab::stats;
use serde::Serialize;

use crate::race::Figures;
use crate::rows::Row;

/// One measurement of one row.
#[derive(Debug, Serialize)]
pub(crate) struct Measurement {
    pub(crate) label: String,
    pub(crate) mtu: u32,
    /// What was measured, such as `kernel_to_stack`.
    pub(crate) what: String,
    /// Counts from `--seed`; on the path the seed of the losses.
    pub(crate) repetition: u32,
    pub(crate) figures: Figures,
    /// Why there are no figures.
    pub(crate) error: Option<String>,
    /// Reasons to doubt the figures.
    pub(crate) caveats: Vec<String>,
}

/// Everything that a race found out.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    pub(crate) schema: &'static str,
    pub(crate) kernel: String,
    pub(crate) processors: usize,
    /// Before and after: much above what the race itself makes means that others disturbed it.
    pub(crate) load_averages: [String; 2],
    pub(crate) settings: BTreeMap<&'static str, String>,
    /// Stacks that could not be built, and why.
    pub(crate) skipped: Vec<String>,
    pub(crate) rows: Vec<Summary>,
    pub(crate) measurements: Vec<Measurement>,
}

/// Medians and best values of a row, by what was measured and by figure.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) label: String,
    pub(crate) mtu: u32,
    pub(crate) figures: BTreeMap<String, BTreeMap<&'static str, Statistic>>,
}

/// Of a figure over the repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Statistic {
    pub(crate) median: f64,
    pub(crate) best: f64,
    /// How many repetitions gave it.
    pub(crate) count: usize,
}

impl Results {
    /// The value of a cell; `None` where not even one repetition gave it.
    pub(crate) fn find(&self, (label, mtu): (&str, u32), cell: (&str, &str)) -> Option<Statistic> {
        let mut rows = self.rows.iter();
        let row = rows.find(|row| row.label == label && row.mtu == mtu)?;
        row.figures.get(cell.0)?.get(cell.1).copied()
    }

    /// Condenses the measurements of `rows`, in their order.
    pub(crate) fn summarize(&mut self, rows: &[Row]) {
        self.rows = rows
            .iter()
            .map(|row| summary(row, &self.measurements))
            .collect();
    }

    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self).context("writing JSON")?;
        fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))
    }
}

fn summary(row: &Row, measurements: &[Measurement]) -> Summary {
    let mut values: BTreeMap<String, BTreeMap<&'static str, Vec<f64>>> = BTreeMap::new();
    for found in measurements {
        if found.label == row.label && found.mtu == row.mtu {
            let figures = values.entry(found.what.clone()).or_default();
            for (&name, &value) in &found.figures {
                figures.entry(name).or_default().push(value);
            }
        }
    }
    let condense =
        |(name, values): (&'static str, Vec<f64>)| Some((name, statistic(name, &values)?));
    let figures = values
        .into_iter()
        .map(|(what, figures)| (what, figures.into_iter().filter_map(condense).collect()))
        .collect();
    Summary {
        label: row.label.clone(),
        mtu: row.mtu,
        figures,
    }
}

fn statistic(name: &str, values: &[f64]) -> Option<Statistic> {
    let less_is_better = ["_us", "_kib", "_percent", "_retransmits"]
        .iter()
        .any(|unit| name.ends_with(unit));
    let best = if less_is_better { f64::min } else { f64::max };
    Some(Statistic {
        median: stats::median(values)?,
        best: values.iter().copied().reduce(best)?,
        count: values.len(),
    })
}
