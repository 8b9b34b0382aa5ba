//! The page of a reproduction: each experiment with its claim, its numbers beside the published
//! ones, its verdict, and how its runs went.

mod courses;
mod diagrams;
mod drawings;

use std::collections::BTreeMap;

use lab::Point;
use lab::judge::{Verdict, show_interval};
use lab::show::{known_unit, show_value};
use page::sweep::{OVER, Observation, pictures};
use page::{Cell, Head, Page, Part, Section, Series, Table, Tile, Tone, number_name};

pub use self::courses::{CellRef, Courses};
use crate::evaluation::remarks::of_numbers;
use crate::evaluation::words;
use crate::evaluation::{CorrectionRow, EngineValue, ExperimentResult, NumberRow, Reproduction};

/// Rows of a table that stand open; a longer one is folded away.
const ROWS_OPEN: usize = 24;

/// Corrections that stand open.
const CORRECTIONS_OPEN: usize = 2;

/// How one run of an experiment went.
#[derive(Clone, Debug, Default)]
struct Course {
    /// Which cell, and on which engine.
    title: String,
    /// Points recorded by its engine.
    points: Vec<Point>,
    /// Published rates in bit/s.
    references: Vec<(f64, String)>,
}

/// The page; `courses` has runs by the name of their scenario, `facts` say how it was made.
fn reproduction(
    found: &Reproduction,
    courses: &BTreeMap<String, Vec<Course>>,
    facts: Vec<(String, String)>,
) -> String {
    let mut sections: Vec<Section> = Vec::new();
    for experiment in &found.experiments {
        let title = experiment.document.title();
        let of_it = courses
            .get(&experiment.scenario)
            .map_or(&[][..], Vec::as_slice);
        let block = block(experiment, of_it);
        match sections.iter_mut().find(|section| section.title == title) {
            Some(section) => section.parts.push(block),
            None => sections.push(Section {
                title: title.to_owned(),
                parts: vec![block],
            }),
        }
    }
    page::render(&Page {
        title: "Published and reproduced results".into(),
        lead: "Every experiment of the documents that tcptailor grew from, on each engine that \
               can run it, beside the numbers that were printed."
            .into(),
        facts,
        parts: head(found),
        sections,
    })
}

const fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Holds | Verdict::DeviatesAsExpected => Tone::Good,
        Verdict::Calibrated | Verdict::Recorded => Tone::Plain,
        Verdict::NotRun | Verdict::NotTested => Tone::Muted,
        Verdict::NotDistinguishable => Tone::Doubt,
        Verdict::Fails => Tone::Bad,
    }
}

fn head(found: &Reproduction) -> Vec<Part> {
    let summary = &found.summary;
    let counted = summary.verdicts.rows().into_iter();
    let tiles = counted
        .filter(|(number, _)| *number > 0)
        .map(|(number, verdict)| Tile {
            number: number.to_string(),
            name: verdict.words().into(),
            tone: tone(verdict),
        });
    let mut parts = vec![Part::Tiles(tiles.collect())];
    if summary.interrupted {
        let text = "It was interrupted: not all runs were made.";
        parts.push(Part::Note(Tone::Bad, text.into()));
    }
    if summary.quick {
        let text = "The scenarios were shortened (--quick): expect wider intervals.";
        parts.push(Part::Note(Tone::Doubt, text.into()));
    }
    for missing in &summary.missing {
        let text = format!("Nothing ran on {}: {}.", missing.engine, missing.why);
        parts.push(Part::Note(Tone::Doubt, text));
    }
    parts
}

fn block(experiment: &ExperimentResult, courses: &[Course]) -> Part {
    let ids = experiment.ids.join(" ");
    let mut parts = vec![
        Part::Text(experiment.claim.clone()),
        Part::Text(experiment.about.clone()),
    ];
    if !experiment.why.is_empty() {
        parts.push(Part::Note(tone(experiment.verdict), experiment.why.clone()));
    }
    let table = Part::Table(table(experiment));
    parts.push(match experiment.rows.len() > ROWS_OPEN {
        true => Part::Fold(format!("{} numbers", experiment.rows.len()), vec![table]),
        false => table,
    });
    let remarks = of_numbers(experiment).into_iter();
    parts.extend(remarks.map(|remark| Part::Note(Tone::Doubt, format!("{remark}."))));
    parts.extend(experiment.drawings.iter().flat_map(drawings::parts));
    parts.extend(experiment.diagrams.iter().map(diagrams::part));
    parts.extend(pictures(&observations(&experiment.rows)));
    parts.extend(courses.iter().map(|course| {
        let series = Part::Series(Box::new(Series {
            title: course.title.clone(),
            points: course.points.clone(),
            references: course.references.clone(),
            ..Series::default()
        }));
        Part::Fold(format!("How a run went: {}", course.title), vec![series])
    }));
    let corrections: Vec<Part> = experiment.corrections.iter().map(correction).collect();
    match corrections.len() {
        0..=CORRECTIONS_OPEN => parts.extend(corrections),
        many => parts.push(Part::Fold(
            format!("{many} corrections of the document"),
            corrections,
        )),
    }
    if let Some(text) = &experiment.not_promised {
        parts.push(Part::Note(Tone::Plain, format!("Not promised: {text}")));
    }
    parts.extend(experiment.not_run.iter().map(|not_run| {
        let text = format!("Not run on {}: {}.", not_run.engine, not_run.why);
        Part::Note(Tone::Muted, text)
    }));
    parts.extend(experiment.doubts.iter().map(|doubt| {
        let text = format!(
            "{}, {} of {} runs: {}.",
            doubt.engine, doubt.runs, doubt.of, doubt.text
        );
        Part::Note(Tone::Doubt, text)
    }));
    let head = Head {
        title: format!("{ids}: {}", experiment.scenario),
        tags: vec![format!("class: {}", experiment.class.name())],
        badge: Some((tone(experiment.verdict), experiment.verdict.words().into())),
    };
    Part::Block(head, parts)
}

fn correction(row: &CorrectionRow) -> Part {
    let CorrectionRow {
        id,
        says,
        wrong,
        wording,
    } = row;
    let text = format!("{id}: the document says {says}; {wrong}. Corrected: {wording}");
    Part::Note(Tone::Doubt, text)
}

/// Cell and number, what was published, a column for each engine, then the verdict on what is
/// claimed; without columns in which nothing would stand.
fn table(experiment: &ExperimentResult) -> Table {
    let values = || experiment.rows.iter().flat_map(|row| &row.engines);
    let engines = lab::EngineName::ALL.into_iter();
    let engines: Vec<lab::EngineName> = engines
        .filter(|engine| values().any(|value| value.engine == *engine))
        .collect();
    let rows = &experiment.rows;
    let has_cells = rows.iter().any(|row| !cell_name(row).is_empty());
    let has_published = rows.iter().any(|row| row.published_text.is_some());
    let mut head: Vec<String> = Vec::new();
    head.extend(has_cells.then(|| "cell".into()));
    head.push("number".into());
    head.extend(has_published.then(|| "published".into()));
    head.extend(engines.iter().map(ToString::to_string));
    head.extend(["verdict", "expected"].map(Into::into));
    let row = |row: &NumberRow| {
        let mut cells = Vec::new();
        cells.extend(has_cells.then(|| Cell::text(cell_name(row))));
        cells.push(Cell::text(metric_name(row)));
        cells.extend(has_published.then(|| Cell {
            text: words::published(row).unwrap_or_else(|| "–".into()),
            value: row.published,
            ..Cell::default()
        }));
        cells.extend(engines.iter().map(|engine| {
            let value = row.engines.iter().find(|value| value.engine == *engine);
            value.map_or_else(|| Cell::text("–"), |value| number(row, value))
        }));
        cells.push(Cell::text(row.verdict.words()).toned(tone(row.verdict)));
        cells.push(Cell::text(words::claims(row).join("; ")));
        cells
    };
    Table {
        caption: String::new(),
        head,
        rows: rows.iter().map(row).collect(),
    }
}

/// The median, with its interval where several runs gave one.
fn number(row: &NumberRow, value: &EngineValue) -> Cell {
    let Some(spread) = &value.spread else {
        let text = match value.left_out {
            0 => "not measured",
            _ => "no usable run",
        };
        return Cell::text(text).toned(Tone::Muted);
    };
    let mut text = show_value(&row.unit, spread.median);
    let interval = show_interval(&row.unit, spread);
    if spread.high > spread.low && interval != text {
        text = format!("{text} ({interval})");
    }
    let tone = match value.verdict {
        Verdict::Fails => Tone::Bad,
        Verdict::NotDistinguishable | Verdict::NotTested => Tone::Doubt,
        _ => Tone::Plain,
    };
    Cell {
        text,
        value: Some(spread.median),
        tone,
        ..Cell::default()
    }
}

fn cell_name(row: &NumberRow) -> String {
    lab::cell_name(row.variant.as_deref(), &row.axes, ", ")
}

fn metric_name(row: &NumberRow) -> String {
    match &row.over {
        Some(over) => format!("{}{OVER}{over}", number_name(&row.metric)),
        None => number_name(&row.metric),
    }
}

/// As [`Observation::metric`] has it.
fn metric(row: &NumberRow) -> String {
    match &row.over {
        Some(over) => format!("{}{OVER}{over}", row.metric),
        None => row.metric.clone(),
    }
}

fn observations(rows: &[NumberRow]) -> Vec<Observation> {
    let of_row = |row: &NumberRow| -> Vec<Observation> {
        let values = row.engines.iter().map(|value| {
            let spread = value.spread.as_ref();
            Observation {
                variant: row.variant.clone().unwrap_or_default(),
                engine: value.engine.to_string(),
                axes: row.axes.clone().into_iter().collect(),
                metric: metric(row),
                unit: known_unit(&row.unit),
                value: spread.map(|spread| spread.median),
                range: spread.map(|spread| (spread.low, spread.high)),
                published: row.published.zip(words::published(row)),
            }
        });
        values.collect()
    };
    rows.iter().flat_map(of_row).collect()
}

#[cfg(test)]
mod tests {
    use crate::evaluation::{Counts, Summary};

    use super::*;

    #[test]
    fn a_page_tells_what_the_screen_does() {
        let experiments = vec![crate::evaluation::remarks::tests::experiment()];
        let remarks = of_numbers(&experiments[0]);
        let found = Reproduction {
            summary: Summary {
                verdicts: Counts::of(&experiments),
                elapsed_s: 0.0,
                quick: false,
                host_costs: None,
                interrupted: false,
                runs: 0,
                runs_found: 0,
                engines: Vec::new(),
                missing: Vec::new(),
            },
            experiments,
        };
        let page = reproduction(&found, &BTreeMap::new(), Vec::new());
        assert!(page.contains("a, kernel: too slow"), "what fails");
        assert_eq!(remarks.len(), 4);
        for remark in remarks {
            assert!(page.contains(&remark), "{remark}");
        }
    }
}
