//! Runs of a reproduction that are plotted over time, and their page.

use core::time::Duration;
use std::collections::BTreeMap;

use lab::{EngineName, Outcome};

use super::{Course, reproduction};
use crate::evaluation::words;
use crate::evaluation::{CellName, NumberRow, Reproduction};

/// Plots over time of one experiment.
const PLOTS_MAX: usize = 4;

/// The runs of which plots are made, by the name of their scenario.
#[derive(Debug, Default)]
pub struct Courses(BTreeMap<String, Vec<Known>>);

/// A run that is plotted.
#[derive(Debug)]
struct Known {
    engine: EngineName,
    cell: CellName,
    course: Course,
}

/// Which cell a run is of.
#[derive(Clone, Copy, Debug)]
pub struct CellRef<'p> {
    /// Name of the experiment's file.
    pub scenario: &'p str,
    /// Name of the variant; `None` where the scenario has none.
    pub variant: Option<&'p str>,
    /// Keys and values of the sweep.
    pub axes: &'p [(String, String)],
    /// Engine.
    pub engine: EngineName,
}

impl Courses {
    /// Offers a run; the first usable one of each cell is taken, of the first cells.
    pub fn offer(&mut self, cell_ref: CellRef<'_>, outcome: &Outcome) {
        if outcome.series.len() < 2 || !outcome.is_usable() {
            return;
        }
        let cell = CellName {
            variant: cell_ref.variant.map(str::to_owned),
            axes: cell_ref.axes.to_vec(),
        };
        let known = self.0.entry(cell_ref.scenario.to_owned()).or_default();
        let of_engine = known.iter().filter(|known| known.engine == cell_ref.engine);
        let is_known = of_engine.clone().any(|known| known.cell == cell);
        if is_known || known.len() >= PLOTS_MAX || of_engine.count() >= PLOTS_MAX / 2 {
            return;
        }
        let axes = cell.axes.iter().map(|(key, value)| (key, value));
        let name = lab::cell_name(cell.variant.as_deref(), axes, ", ");
        let name = Some(name).filter(|name| !name.is_empty());
        let parts = name.into_iter().chain([format!("on {}", cell_ref.engine)]);
        let title = parts.collect::<Vec<String>>().join(", ");
        known.push(Known {
            engine: cell_ref.engine,
            cell,
            course: Course {
                title,
                points: outcome.series.clone(),
                references: Vec::new(),
            },
        });
    }

    /// The page; `origin` says where and when it was measured.
    #[must_use]
    pub fn page(self, found: &Reproduction, origin: Vec<(String, String)>) -> String {
        let courses = self.0.into_iter().map(|(scenario, courses)| {
            let rows = found
                .experiments
                .iter()
                .find(|one| one.scenario == scenario);
            let rows = rows.map_or(&[][..], |experiment| &experiment.rows);
            // Runs in virtual time end in no order.
            let mut known = courses;
            known.sort_by_cached_key(|known| {
                let row = rows.iter().position(|row| is_of_cell(row, &known.cell));
                (row.unwrap_or(rows.len()), known.course.title.clone())
            });
            let courses = known.into_iter().map(|known| Course {
                references: published(rows, &known.cell),
                ..known.course
            });
            let courses: Vec<Course> = courses.collect();
            (scenario, courses)
        });
        let mut facts = facts(found);
        facts.extend(origin);
        reproduction(found, &courses.collect(), facts)
    }
}

/// Rates that were published of a cell.
fn published(rows: &[NumberRow], cell: &CellName) -> Vec<(f64, String)> {
    let is_rate = |row: &&NumberRow| row.metric == "goodput_bps" && row.over.is_none();
    let rows = rows.iter().filter(is_rate);
    let rows = rows.filter(|row| is_of_cell(row, cell));
    rows.filter_map(|row| {
        let text = words::published(row)?;
        Some((row.published?, format!("published {text}")))
    })
    .collect()
}

fn is_of_cell(row: &NumberRow, cell: &CellName) -> bool {
    let mut axes = row.axes.iter();
    row.variant == cell.variant
        && axes.all(|(key, value)| cell.axes.iter().any(|(k, v)| (k, v) == (key, value)))
}

fn facts(found: &Reproduction) -> Vec<(String, String)> {
    let summary = &found.summary;
    let engines: Vec<&str> = summary.engines.iter().map(|engine| engine.name()).collect();
    // An invalid time in a file becomes `None`.
    let took = Duration::try_from_secs_f64(summary.elapsed_s).unwrap_or_default();
    vec![
        (
            "experiments".to_owned(),
            found.experiments.len().to_string(),
        ),
        ("runs".to_owned(), summary.runs.to_string()),
        ("engines".to_owned(), engines.join(", ")),
        ("took".to_owned(), base::human::long_time(took)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::Point;

    fn outcome(points: usize) -> Outcome {
        Outcome {
            series: vec![Point::default(); points],
            ..Outcome::default()
        }
    }

    #[test]
    fn few_runs_of_each_experiment_are_plotted() {
        let mut courses = Courses::default();
        for engine in EngineName::ALL {
            for variant in ["a", "a", "b", "c"] {
                let cell_ref = CellRef {
                    scenario: "n1",
                    variant: Some(variant),
                    axes: &[("path.rtt".into(), "1ms".into())],
                    engine,
                };
                courses.offer(cell_ref, &outcome(3));
                courses.offer(cell_ref, &outcome(1));
            }
        }
        let titles = courses.0["n1"]
            .iter()
            .map(|known| known.course.title.as_str());
        let titles: Vec<&str> = titles.collect();
        let expected = [
            "a, path.rtt=1ms, on virtual",
            "b, path.rtt=1ms, on virtual",
            "a, path.rtt=1ms, on kernel",
            "b, path.rtt=1ms, on kernel",
        ];
        assert_eq!(titles, expected);
    }
}
