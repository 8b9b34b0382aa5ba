//! The answer as a page: what `--html` writes.

use std::collections::BTreeMap;

use lab::{EngineName, Outcome};
use papers::evaluation::{CellName, NumberRow, Reproduction};
use serde_json::Value;

use crate::html::reproduction::{Course, reproduction};
use crate::html::words;
use crate::output;

/// Plots over time of one experiment.
const PLOTS_MAX: usize = 4;

/// The runs of which plots are made, by the name of their scenario.
#[derive(Debug, Default)]
pub(super) struct Courses(BTreeMap<String, Vec<Known>>);

/// A run that is plotted.
#[derive(Debug)]
struct Known {
    engine: EngineName,
    cell: CellName,
    course: Course,
}

/// Which cell a run is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'p> {
    pub(super) scenario: &'p str,
    pub(super) variant: Option<&'p str>,
    /// Keys and values of the sweep.
    pub(super) axes: &'p [(String, String)],
    pub(super) engine: EngineName,
}

impl Courses {
    /// Offers a run; the first usable one of each cell is taken, of the first cells.
    pub(super) fn offer(&mut self, place: Place<'_>, outcome: &Outcome) {
        if outcome.series.len() < 2 || !outcome.is_usable() {
            return;
        }
        let cell = CellName {
            variant: place.variant.map(str::to_owned),
            axes: place.axes.to_vec(),
        };
        let known = self.0.entry(place.scenario.to_owned()).or_default();
        let of_engine = known.iter().filter(|known| known.engine == place.engine);
        let is_known = of_engine.clone().any(|known| known.cell == cell);
        if is_known || known.len() >= PLOTS_MAX || of_engine.count() >= PLOTS_MAX / 2 {
            return;
        }
        let axes = cell.axes.iter().map(|(key, value)| (key, value));
        let name = lab::cell_name(cell.variant.as_deref(), axes, ", ");
        let name = Some(name).filter(|name| !name.is_empty());
        let parts = name.into_iter().chain([format!("on {}", place.engine)]);
        let title = parts.collect::<Vec<String>>().join(", ");
        known.push(Known {
            engine: place.engine,
            cell,
            course: Course {
                title,
                points: outcome.series.clone(),
                references: Vec::new(),
            },
        });
    }

    /// The page; `origin` says where and when it was measured.
    pub(super) fn page(self, found: &Reproduction, origin: Vec<(String, String)>) -> String {
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
    let took = super::duration(summary.elapsed_s);
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

/// Where and when a document of a folder was made, as far as it says so: the page of it is made
/// later, and maybe on another machine.
pub(super) fn recorded(document: &str) -> Vec<(String, String)> {
    let document = serde_json::from_str::<Value>(document).unwrap_or_default();
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let known = [
        ("version", "/tool/version"),
        ("kernel", "/host/kernel"),
        ("processors", "/host/cpus"),
        ("time", "/time"),
    ];
    let known = known.into_iter().filter_map(|(name, place)| {
        let value = document.pointer(place).and_then(text)?;
        Some((name.to_owned(), value))
    });
    known
        .chain([("page made".to_owned(), output::now())])
        .collect()
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
                let place = Place {
                    scenario: "n1",
                    variant: Some(variant),
                    axes: &[("path.rtt".into(), "1ms".into())],
                    engine,
                };
                courses.offer(place, &outcome(3));
                courses.offer(place, &outcome(1));
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

    #[test]
    fn a_page_is_of_the_machine_that_its_document_names() {
        let check = |document: &str, expected: &[(&str, &str)]| {
            let mut told = recorded(document);
            assert_eq!(
                told.pop().map(|(name, _)| name).as_deref(),
                Some("page made")
            );
            let told: Vec<(&str, &str)> = told.iter().map(|(n, v)| (&**n, &**v)).collect();
            assert_eq!(told, expected);
        };
        let document = r#"{"tool": {"version": "0.0.9"}, "host": {"kernel": "4.19.0", "cpus": 96},
            "time": "2019-03-04T05:06:07Z"}"#;
        let expected = [
            ("version", "0.0.9"),
            ("kernel", "4.19.0"),
            ("processors", "96"),
            ("time", "2019-03-04T05:06:07Z"),
        ];
        check(document, &expected);
        check(r#"{"host": {"kernel": null}}"#, &[]);
        let own = output::document("lab-reproduce", &()).expect("plain data");
        assert_eq!(recorded(&own).len(), output::provenance().len() + 1);
    }
}
