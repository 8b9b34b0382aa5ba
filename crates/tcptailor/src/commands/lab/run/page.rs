//! The answer as a page: what `--html` writes.

use lab::show::{show_bounds, unit_name};
use lab::{Cell, Metric, Outcome, Scenario, stats};
use page::sweep::{OVER, Observation, pictures};
use page::{Page, Part, Range, Ranges, Section, Series, Table, Tone};

use super::document::{Document, ExpectationRow};
use super::{Engine, Ran, screen};
use crate::commands::fit::screen::path as path_text;
use crate::commands::lab::short_name;
use crate::output;

/// Plots over time that stand open; more are folded away.
const PLOTS_OPEN: usize = 3;
/// Expectations that stand open where all pass.
const CLAIMS_OPEN: usize = 8;
/// Plots over time at most.
const PLOTS_MAX: usize = 24;
/// Columns of the table.
const METRICS: [(Metric, &str); 7] = [
    (Metric::GoodputBps, "goodput"),
    (Metric::DurationUs, "time"),
    (Metric::ResponseP50Us, "response, median"),
    (Metric::ResponseP99Us, "response, p99"),
    (Metric::StallMaxUs, "longest stall"),
    (Metric::DataSegments, "data segments"),
    (Metric::RetransmittedSegments, "retransmitted"),
];
/// Metrics that get a figure.
const PICTURED: [Metric; 2] = [Metric::GoodputBps, Metric::ResponseP50Us];

/// The usable runs of one cell.
struct Runs<'r> {
    cell: &'r Cell,
    name: String,
    usable: Vec<&'r Outcome>,
    all: Vec<&'r Outcome>,
}

pub(super) fn render(
    scenario: &Scenario,
    cells: &[Cell],
    ran: &[Ran],
    (document, engine): (&Document, Engine),
) -> String {
    let runs: Vec<Runs<'_>> = cells
        .iter()
        .enumerate()
        .map(|(index, cell)| {
            let of_cell: Vec<&Outcome> = ran
                .iter()
                .filter(|ran| ran.cell == index)
                .map(|ran| &ran.outcome)
                .collect();
            Runs {
                cell,
                name: short_name(&cell.id, &scenario.name).to_owned(),
                usable: of_cell
                    .iter()
                    .copied()
                    .filter(|outcome| outcome.is_usable())
                    .collect(),
                all: of_cell,
            }
        })
        .collect();
    let mut sections = vec![Section {
        title: "Numbers".into(),
        parts: vec![Part::Table(numbers(&runs))],
    }];
    sections[0]
        .parts
        .extend(pictures(&observations(&runs, engine)));
    sections[0].parts.extend(responses(&runs));
    sections.extend(expectations(document));
    sections.extend(courses(&runs));
    sections.extend(doubts(&runs));
    page::render(&Page {
        title: scenario.name.clone(),
        lead: scenario.about.clone(),
        facts: facts(cells, document, engine),
        parts: document.interrupted.then(interrupted).into_iter().collect(),
        sections,
    })
}

fn interrupted() -> Part {
    let text = "Interrupted: not all runs were made.";
    Part::Note(Tone::Doubt, text.into())
}

fn facts(cells: &[Cell], document: &Document, engine: Engine) -> Vec<(String, String)> {
    let mut facts = vec![
        ("engine".to_owned(), engine.to_string()),
        ("runs of each cell".to_owned(), document.runs_told()),
    ];
    let first = cells.first();
    let path = first.filter(|first| cells.iter().all(|cell| cell.trial.path == first.trial.path));
    facts.extend(path.map(|cell| ("path".to_owned(), path_text(&cell.trial.path))));
    facts.extend(output::provenance());
    facts
}

impl Runs<'_> {
    fn values(&self, metric: Metric) -> Vec<f64> {
        let values = self.usable.iter().filter_map(|outcome| metric.of(outcome));
        values.collect()
    }

    fn median(&self, metric: Metric) -> Option<f64> {
        stats::median(&self.values(metric))
    }
}

/// A row for each cell; numbers that no cell has are left out.
fn numbers(runs: &[Runs<'_>]) -> Table {
    let known = |metric: Metric| runs.iter().any(|runs| runs.median(metric).is_some());
    let metrics = METRICS.iter().filter(|(metric, _)| known(*metric));
    let metrics: Vec<&(Metric, &str)> = metrics.collect();
    let mut head = vec!["cell".to_owned(), "runs".to_owned()];
    head.extend(metrics.iter().map(|(_, name)| (*name).to_owned()));
    head.push("limit".into());
    let row = |runs: &Runs<'_>| {
        let counted = match runs.usable.len() == runs.all.len() {
            true => runs.all.len().to_string(),
            false => format!("{} of {}", runs.usable.len(), runs.all.len()),
        };
        let mut cells = vec![
            page::Cell::text(runs.name.clone()),
            page::Cell {
                text: counted,
                value: Some(runs.usable.len() as f64),
                ..page::Cell::default()
            },
        ];
        cells.extend(metrics.iter().map(|(metric, _)| {
            page::Cell::number(unit_name(*metric, false), runs.median(*metric))
        }));
        let limit = screen::limit(&runs.usable);
        cells.push(page::Cell::text(limit.unwrap_or_else(|| "–".into())));
        cells
    };
    Table {
        caption: "Medians of the usable runs of each cell.".into(),
        head,
        rows: runs.iter().map(row).collect(),
    }
}

fn observations(runs: &[Runs<'_>], engine: Engine) -> Vec<Observation> {
    let of_runs = |runs: &Runs<'_>| -> Vec<Observation> {
        let numbers = PICTURED.into_iter().map(|metric| {
            let values = runs.values(metric);
            let interval = stats::median_interval(&values, runs.cell.trial.seed);
            Observation {
                variant: runs.cell.variant.clone().unwrap_or_default(),
                engine: engine.to_string(),
                axes: runs.cell.axes.clone(),
                metric: metric.name().into_owned(),
                unit: unit_name(metric, false),
                value: stats::median(&values),
                range: interval.map(|interval| (interval.low, interval.high)),
                published: None,
            }
        });
        numbers.collect()
    };
    runs.iter().flat_map(of_runs).collect()
}

/// How response times spread, in the first usable run of each cell.
fn responses(runs: &[Runs<'_>]) -> Option<Part> {
    let rows = runs.iter().filter_map(|runs| {
        let response = runs.usable.first()?.response_us?;
        let quantiles = [response.p50, response.p90, response.p99, response.max];
        Some(Range {
            name: runs
                .cell
                .variant
                .clone()
                .unwrap_or_else(|| "response".into()),
            quantiles: quantiles.map(|micros| micros as f64),
        })
    });
    let rows: Vec<Range> = rows.collect();
    let is_worth_it = !rows.is_empty() && runs.iter().all(|runs| runs.cell.axes.is_empty());
    is_worth_it.then(|| {
        Part::Ranges(Ranges {
            title: "Response times of the first run".into(),
            unit: "us",
            rows,
        })
    })
}

/// An expectation of one metric of one cell, and its result.
fn expectation(expectation: &ExpectationRow) -> Vec<page::Cell> {
    let name = page::number_name(expectation.metric.as_ref());
    let name = match &expectation.over {
        Some(over) => format!("{name}{OVER}{over}"),
        None => name,
    };
    let (tone, word) = match expectation.passed {
        Some(true) => (Tone::Good, "pass"),
        Some(false) => (Tone::Bad, "fail"),
        None if expectation.why.is_some() => (Tone::Doubt, "not distinguishable"),
        None => (Tone::Muted, "no usable run"),
    };
    vec![
        page::Cell::text(lab::cell_name(
            expectation.variant.as_deref(),
            &expectation.axes,
            ", ",
        )),
        page::Cell::text(name),
        page::Cell::number(expectation.unit, expectation.value),
        page::Cell::text(show_bounds(
            expectation.unit,
            expectation.min,
            expectation.max,
        )),
        page::Cell::text(
            expectation
                .why
                .clone()
                .unwrap_or_else(|| expectation.reason.clone()),
        ),
        page::Cell::text(word).toned(tone),
    ]
}

fn expectations(document: &Document) -> Option<Section> {
    let head = ["cell", "metric", "value", "expected", "why", "result"];
    let table = Part::Table(Table {
        caption: String::new(),
        head: head.map(Into::into).into(),
        rows: document.expectations.iter().map(expectation).collect(),
    });
    let all_hold = document
        .expectations
        .iter()
        .all(|expectation| expectation.passed == Some(true));
    let part = match document.expectations.len() {
        many if many > CLAIMS_OPEN && all_hold => {
            Part::Fold(format!("{many} expectations, all passed"), vec![table])
        }
        _ => table,
    };
    (!document.expectations.is_empty()).then(|| Section {
        title: "Expectations".into(),
        parts: vec![part],
    })
}

/// How the first usable run of each cell went.
fn courses(runs: &[Runs<'_>]) -> Option<Section> {
    let plots = runs.iter().filter_map(|runs| {
        let first = runs
            .usable
            .iter()
            .find(|outcome| !outcome.series.is_empty())?;
        Some(Series {
            title: runs.name.clone(),
            points: first.series.clone(),
            ..Series::default()
        })
    });
    let plots: Vec<Series> = plots.take(PLOTS_MAX).collect();
    let is_open = plots.len() <= PLOTS_OPEN;
    let parts = plots.into_iter().map(|series| {
        let title = series.title.clone();
        let part = Part::Series(Box::new(series));
        match is_open {
            true => part,
            false => Part::Fold(title, vec![part]),
        }
    });
    let parts: Vec<Part> = parts.collect();
    (!parts.is_empty()).then(|| Section {
        title: "First run over time".into(),
        parts,
    })
}

/// Each kind of doubt once per cell.
fn doubts(runs: &[Runs<'_>]) -> Option<Section> {
    let of_cell = |runs: &Runs<'_>| {
        let kinds = lab::caveat_kinds(runs.all.iter().copied()).into_iter();
        let texts = kinds.map(|kind| {
            let of = match runs.all.len() {
                0 | 1 => String::new(),
                all => format!(" ({} of {all} runs)", kind.runs),
            };
            format!("{}: {}{of}", runs.name, kind.worst)
        });
        texts.collect::<Vec<String>>()
    };
    let texts: Vec<String> = runs.iter().flat_map(of_cell).collect();
    (!texts.is_empty()).then(|| Section {
        title: "Caveats".into(),
        parts: texts
            .into_iter()
            .map(|text| Part::Note(Tone::Doubt, text))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use lab::Metric;

    use super::super::document::Shown;
    use super::super::tests::SCENARIO;
    use super::*;

    /// Expectations of the second variant are ratios to the first.
    fn scenario() -> Scenario {
        let expectations = r#"
[[expect]]
metric = "goodput_bps"
variant = "fast"
over = "slow"
min = "1.5"
"#;
        let text = SCENARIO.to_owned() + expectations;
        Scenario::parse("example.toml", &text).expect("a scenario")
    }

    fn ran(cell: usize, run: u32, mbit: u64, limit: (base::Limit, f64)) -> Ran {
        Ran {
            cell,
            run,
            seed: 1,
            outcome: Outcome {
                goodput_bps: mbit * 1_000_000,
                limits: vec![limit],
                ..Outcome::default()
            },
        }
    }

    #[test]
    fn a_page_says_what_the_screen_does() {
        use base::Limit::{Application, Congestion};
        let scenario = scenario();
        let cells = scenario.trials();
        let ran = [
            ran(0, 0, 4, (Application, 0.5)),
            ran(0, 1, 3, (Congestion, 0.9)),
            ran(0, 2, 4, (Congestion, 0.7)),
            ran(1, 0, 8, (Congestion, 0.6)),
        ];
        let engine = Engine::Kernel;
        let shown = Shown {
            engine,
            runs_of_file: 1,
            runs_max: 3,
            series: false,
            costs: None,
        };
        let document = Document::new(&scenario, &cells, &ran, shown);
        let page = render(&scenario, &cells, &ran, (&document, engine));
        let screen = screen::render(&scenario, &cells, &ran, &document);
        // Of the first run alone it would be another limit.
        assert!(page.contains("congestion 80 %"), "{page}");
        assert!(!page.contains("application 50 %"), "{page}");
        assert!(screen.contains("80 %"), "{screen}");
        for told in [
            "goodput / that of slow",
            "<data value=\"2\">2.00</data>",
            "at least 1.50",
            "<data value=\"4000000\">4.00 Mbit/s</data>",
            "at most 5.00 Mbit/s",
        ] {
            assert!(page.contains(told), "{told}");
        }
        let seen = observations(&[runs_of(&cells[0], &ran)], engine);
        let values = [4e6, 3e6, 4e6];
        let interval = stats::median_interval(&values, cells[0].trial.seed).expect("three values");
        assert_eq!(seen[0].metric, Metric::GoodputBps.name());
        assert_eq!(seen[0].range, Some((interval.low, interval.high)));
    }

    fn runs_of<'r>(cell: &'r Cell, ran: &'r [Ran]) -> Runs<'r> {
        let of_cell = ran.iter().filter(|ran| ran.cell == 0);
        let usable: Vec<&Outcome> = of_cell.map(|ran| &ran.outcome).collect();
        Runs {
            cell,
            name: String::new(),
            all: usable.clone(),
            usable,
        }
    }
}
