//! The results of sweeps as a page: what `--html` writes.

use base::human;
use lab::results::{CellSummary, Figure, Reason};
use lab::show::show_bounds;
use page::sweep::{Observation, pictures};
use page::{Cell, Page, Part, Section, Table, Tone, number_name};

use super::{REASONS_MAX, ROWS_MAX, Sweep};
use crate::commands::lab::short_name;

/// Rows that stand open; more are folded away.
const ROWS_OPEN: usize = 40;

/// Reads the value of a column.
type Read = fn(&CellSummary) -> Option<Figure>;
const FIGURES: [(&str, &str, Read); 4] = [
    ("goodput_bps", "bit/s", |cell| cell.goodput_bps),
    ("response_p50_us", "us", |cell| cell.response_p50_us),
    ("response_p99_us", "us", |cell| cell.response_p99_us),
    ("stall_max_us", "us", |cell| cell.stall_max_us),
];
/// Number of them that get a figure.
const PICTURED: usize = 3;

pub(super) fn render(sweeps: &[Sweep]) -> String {
    let title = match sweeps {
        [one] => one.scenario.clone(),
        many => human::count(many.len() as u64, "sweep"),
    };
    page::render(&Page {
        title,
        lead: "Medians of the runs of each cell, with their intervals.".into(),
        // Where and when it was measured is told with each sweep: seldom here and now.
        facts: vec![("page made".into(), crate::output::now())],
        parts: Vec::new(),
        sections: sweeps.iter().map(section).collect(),
    })
}

fn section(sweep: &Sweep) -> Section {
    let mut parts = Vec::new();
    let options = [("--set", &sweep.set), ("--vary", &sweep.vary)];
    let options = options
        .into_iter()
        .flat_map(|(option, values)| values.iter().map(move |value| format!("{option} {value}")));
    let options: Vec<String> = options.collect();
    let runs = human::count(sweep.runs_per_cell, "run");
    parts.push(Part::Text(format!(
        "{runs} of each cell. {}",
        options.join(", ")
    )));
    parts.push(Part::Text(origin(sweep)));
    if !sweep.complete {
        parts.push(Part::Note(
            Tone::Doubt,
            format!(
                "Not complete: {} of {} cells, {} of {} runs.",
                sweep.cells_complete, sweep.cells, sweep.runs, sweep.runs_planned
            ),
        ));
    }
    if sweep.conflicts > 0 {
        let runs = human::count(sweep.conflicts as u64, "run");
        let text = format!("{runs} twice with different numbers; the first usable one counts.");
        parts.push(Part::Note(Tone::Bad, text));
    }
    if sweep.foreign > 0 {
        let text = format!("{}.", super::left_out(sweep.foreign));
        parts.push(Part::Note(Tone::Doubt, text));
    }
    parts.extend(pictures(&observations(sweep)));
    let mut rows = vec![Part::Table(table(sweep))];
    let rest = sweep.results.len().saturating_sub(ROWS_MAX);
    if rest > 0 {
        let cells = human::count(rest as u64, "more cell");
        rows.push(Part::Text(format!("And {cells}: --json has all.")));
    }
    match sweep.results.len() > ROWS_OPEN {
        true => {
            let cells = human::count(sweep.results.len() as u64, "cell");
            parts.push(Part::Fold(cells, rows));
        }
        false => parts.extend(rows),
    }
    parts.extend(reasons(sweep));
    Section {
        title: format!("{} on engine {}", sweep.scenario, sweep.engine),
        parts,
    }
}

/// Machine, time and program that began it, as far as recorded.
fn origin(sweep: &Sweep) -> String {
    let mut text = format!("Begun with tcptailor {}", sweep.tool_version);
    if !sweep.created.is_empty() {
        text += &format!(" at {}", sweep.created);
    }
    if let Some(kernel) = &sweep.host.kernel {
        text += &format!(" on kernel {kernel}");
    }
    if let Some(cpus) = sweep.host.cpus {
        text += &format!(", {}", human::count(cpus as u64, "processor"));
    }
    text + "."
}

/// Variant and axes of a cell, by its name: `lan-wwr/nodelay/path.rtt=2ms`.
fn place(sweep: &Sweep, cell: &CellSummary) -> (String, Vec<(String, String)>) {
    let rest = cell
        .cell
        .strip_prefix(&sweep.scenario)
        .unwrap_or(&cell.cell);
    let mut variant = Vec::new();
    let mut axes = Vec::new();
    for part in rest.split('/').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some((key, value)) => axes.push((key.to_owned(), value.to_owned())),
            None => variant.push(part),
        }
    }
    (variant.join("/"), axes)
}

fn observations(sweep: &Sweep) -> Vec<Observation> {
    let of_cell = |cell: &CellSummary| {
        let (variant, axes) = place(sweep, cell);
        let figures = FIGURES[..PICTURED].iter().map(|(metric, unit, read)| {
            let figure = read(cell);
            Observation {
                variant: variant.clone(),
                engine: sweep.engine.clone(),
                axes: axes.clone(),
                metric: (*metric).to_owned(),
                unit,
                value: figure.map(|figure| figure.median),
                range: figure.and_then(|figure| figure.low.zip(figure.high)),
                published: None,
            }
        });
        figures.collect::<Vec<_>>()
    };
    sweep.results.iter().flat_map(of_cell).collect()
}

/// A row for each of the first cells; figures that no cell has are left out.
fn table(sweep: &Sweep) -> Table {
    let known = |read: Read| sweep.results.iter().any(|cell| read(cell).is_some());
    let figures = FIGURES.iter().filter(|(_, _, read)| known(*read));
    let figures: Vec<_> = figures.collect();
    let mut head = vec!["cell".to_owned(), "usable runs".to_owned()];
    head.extend(figures.iter().map(|(metric, ..)| number_name(metric)));
    head.push("dropped segments".into());
    let row = |cell: &CellSummary| {
        let (variant, axes) = place(sweep, cell);
        let axes = axes.iter().map(|(key, value)| (key, value));
        let variant = Some(variant.as_str()).filter(|variant| !variant.is_empty());
        let name = lab::cell_name(variant, axes, ", ");
        let mut cells = vec![Cell::text(name), Cell::number("", Some(cell.usable as f64))];
        cells.extend(
            figures
                .iter()
                .map(|(_, unit, read)| self::figure(unit, read(cell))),
        );
        cells.push(Cell::number("", cell.dropped_segments));
        cells
    };
    Table {
        caption: "Medians of the usable runs of each cell, with their intervals.".into(),
        head,
        rows: sweep.results.iter().take(ROWS_MAX).map(row).collect(),
    }
}

/// Why runs are invalid, if there are any.
fn reasons(sweep: &Sweep) -> Vec<Part> {
    let row = |(cell, reason): (&CellSummary, &Reason)| {
        vec![
            Cell::text(short_name(&cell.cell, &sweep.scenario)),
            Cell::number("", Some(reason.runs as f64)),
            Cell::text(reason.why.clone()),
        ]
    };
    let reasons = || super::reasons(sweep);
    let rows: Vec<_> = reasons().take(REASONS_MAX).map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let mut parts = vec![Part::Table(Table {
        caption: "Runs that are not usable.".into(),
        head: ["cell", "runs", "why"].map(str::to_owned).into(),
        rows,
    })];
    let more = reasons().skip(REASONS_MAX).count();
    if more > 0 {
        parts.push(Part::Text(format!("And {more} more: --json has all.")));
    }
    parts
}

/// The median, with its range where several runs gave one.
fn figure(unit: &str, figure: Option<Figure>) -> Cell {
    let cell = Cell::number(unit, figure.map(|figure| figure.median));
    let range = figure.and_then(|figure| figure.low.zip(figure.high));
    match range.filter(|(low, high)| high > low) {
        Some((low, high)) => {
            let range = show_bounds(unit, Some(low), Some(high));
            let text = format!("{} ({range})", cell.text);
            Cell { text, ..cell }
        }
        None => cell,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use lab::results::Host;

    use super::*;

    pub(in super::super) fn sweep(cells: usize) -> Sweep {
        let results = (0..cells).map(|index| CellSummary {
            index: index as u64,
            cell: format!("x1/path.rtt={}ms", index + 1),
            runs: 1,
            usable: 1,
            unusable: Vec::new(),
            goodput_bps: None,
            response_p50_us: None,
            response_p99_us: None,
            stall_max_us: None,
            dropped_segments: None,
        });
        Sweep {
            folders: Vec::new(),
            scenario: "x1".into(),
            engine: "virtual".into(),
            set: Vec::new(),
            vary: Vec::new(),
            tool_version: "0.0.9".into(),
            host: Host {
                kernel: Some("4.19.0".into()),
                cpus: Some(96),
            },
            created: "2019-03-04T05:06:07Z".into(),
            runs_per_cell: 1,
            cells: cells as u64,
            cells_complete: cells as u64,
            runs: cells as u64,
            runs_planned: cells as u64,
            complete: true,
            repeated: 0,
            conflicts: 0,
            foreign: 0,
            results: results.collect(),
        }
    }

    #[test]
    fn a_page_has_the_first_cells_and_says_how_many_are_left_out() {
        let check = |cells: usize, rows: usize, rest: Option<&str>| {
            let page = render(&[sweep(cells)]);
            assert_eq!(page.matches(">path.rtt=").count(), rows, "of {cells}");
            let told = page.contains("--json has all");
            assert_eq!(told, rest.is_some(), "of {cells}");
            assert!(rest.is_none_or(|rest| page.contains(rest)), "of {cells}");
        };
        check(3, 3, None);
        check(ROWS_MAX, ROWS_MAX, None);
        check(
            ROWS_MAX + 1,
            ROWS_MAX,
            Some("And 1 more cell: --json has all."),
        );
    }

    #[test]
    fn a_sweep_is_of_the_machine_that_ran_it() {
        let page = render(&[sweep(1)]);
        let origin = "Begun with tcptailor 0.0.9 at 2019-03-04T05:06:07Z on kernel 4.19.0, 96 \
                      processors.";
        assert!(page.contains(origin), "{page}");
        assert!(page.contains("<dt>page made</dt>"), "{page}");
        for own in ["kernel", "processors", "time"] {
            assert!(!page.contains(&format!("<dt>{own}</dt>")), "{own}");
        }
        let unknown = Sweep {
            host: Host::default(),
            created: String::new(),
            ..sweep(1)
        };
        assert_eq!(super::origin(&unknown), "Begun with tcptailor 0.0.9.");
    }
}
