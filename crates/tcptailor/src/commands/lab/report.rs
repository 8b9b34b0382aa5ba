//! The results of sweeps as a table: a row per cell.

mod page;

use std::path::PathBuf;

use base::human;
use comfy_table::{ColumnConstraint, Width};
use lab::results::{
    CellSummary, Figure, Host, MANIFEST_FILE, Manifest, Reason, Summary, SweepPlan,
};
use serde::Serialize;

use super::folder::{Folder, check_page, go_on, write_page};
use super::run::mistakes;
use super::short_name;
use crate::exit::{Exit, Problem};
use crate::output::{self, Output};

/// Rows shown of a larger sweep; JSON has all.
const ROWS_MAX: usize = 500;
/// Reasons shown for unusable runs; JSON has all.
const REASONS_MAX: usize = 10;
/// Names of cells that are longer may be broken anywhere.
const CELL_COLUMNS_MIN: u16 = 36;
/// Between columns.
const PADDING: u16 = 2;

/// Show the results of sweeps: medians, their intervals, outliers.
///
/// Folders of the same sweep are merged, each run counted once; different sweeps are shown one
/// after the other. Works while a sweep is running and after an interruption. Runs that do not
/// belong to the sweep are skipped and counted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab report rtt                    a folder of `tcptailor lab sweep`
  tcptailor lab report part1 part2            shards, merged for this table only
  tcptailor lab report rtt --json             as JSON: all cells, all figures
  tcptailor lab report rtt --html rtt.html    as a page with plots

RUNS is 3/5 where three of five runs are valid; the reasons are listed below the table. RANGE is the
95 % confidence interval of the median; with few runs, the range of all of them. An outlier is more
than 1.5 interquartile ranges below the first or above the third quartile.")]
pub(crate) struct Args {
    /// Results folders.
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Also write the results as an HTML page with line plots and heat maps; it needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// One sweep.
#[derive(Debug, Serialize)]
pub(super) struct Sweep {
    pub(super) folders: Vec<String>,
    pub(super) scenario: String,
    pub(super) engine: String,
    pub(super) set: Vec<String>,
    pub(super) vary: Vec<String>,
    pub(super) tool_version: String,
    /// Machine on which it was begun; for pages.
    #[serde(skip)]
    host: Host,
    /// When, by the clock of that host.
    #[serde(skip)]
    created: String,
    /// How often each cell is to be run.
    pub(super) runs_per_cell: u32,
    pub(super) cells: u64,
    /// Cells of which all runs are there.
    pub(super) cells_complete: u64,
    pub(super) runs: u64,
    pub(super) runs_planned: u64,
    /// Whether all runs are there.
    pub(super) complete: bool,
    /// Runs that were there twice.
    pub(super) repeated: u64,
    /// Of these, conflicting ones.
    pub(super) conflicts: usize,
    /// Lines that were left out: the sweep has no such runs.
    pub(super) foreign: u64,
    pub(super) results: Vec<CellSummary>,
}

#[derive(Debug, Serialize)]
struct Document {
    sweeps: Vec<Sweep>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    check_page(args.html.as_deref())?;
    let mut sweeps: Vec<Gathered> = Vec::new();
    for dir in &args.folders {
        let folder = Folder::open(dir)?;
        let same = |known: &Gathered| known.manifest.difference(&folder.manifest).is_none();
        let at = sweeps.iter().position(same).unwrap_or(sweeps.len());
        if at == sweeps.len() {
            sweeps.push(Gathered::new(&folder)?);
        }
        sweeps[at].add(&folder, output)?;
    }
    let sweeps = sweeps.into_iter().map(Sweep::new);
    let document = Document {
        sweeps: sweeps.collect::<Result<_, Problem>>()?,
    };
    let told = output.report("lab-report", &document, || {
        let tables: Vec<String> = document.sweeps.iter().map(render).collect();
        tables.join("\n")
    });
    // If one of the two cannot be written, the other is not lost.
    if let Some(path) = &args.html {
        write_page(path, &page::render(&document.sweeps))?;
    }
    told?;
    Ok(Exit::Done)
}

/// The results of one folder, each run once.
pub(super) fn summary(folder: &Folder, output: &Output) -> anyhow::Result<Summary> {
    let mut gathered = Gathered::new(folder)?;
    gathered.add(folder, output)?;
    let dir = folder.dir.display();
    if gathered.foreign > 0 {
        output.note(format!("{dir}: {}", left_out(gathered.foreign)));
    }
    if gathered.summary.runs() == 0 {
        return Err(Problem::usage(format!("{dir} has no finished run")).into());
    }
    Ok(gathered.summary)
}

/// Joined contents of the folders of one sweep.
struct Gathered {
    manifest: Manifest,
    plan: SweepPlan,
    folders: Vec<String>,
    summary: Summary,
    /// Lines of runs that the sweep does not have.
    foreign: u64,
}

impl Gathered {
    fn new(folder: &Folder) -> Result<Self, Problem> {
        let Folder { dir, manifest } = folder;
        let plan = SweepPlan::new(manifest).map_err(|told| {
            let manifest = dir.join(MANIFEST_FILE);
            mistakes(&told).hint(format!("{} has that scenario.", manifest.display()))
        })?;
        Ok(Self {
            manifest: manifest.clone(),
            plan,
            folders: Vec::new(),
            summary: Summary::default(),
            foreign: 0,
        })
    }

    fn add(&mut self, folder: &Folder, output: &Output) -> anyhow::Result<()> {
        self.folders.push(folder.dir.display().to_string());
        folder.read(output, |record| match record.is_of(&self.plan) {
            true => self.summary.add(&record),
            false => self.foreign += 1,
        })
    }
}

impl Sweep {
    fn new(gathered: Gathered) -> Result<Self, Problem> {
        let Gathered {
            manifest,
            plan,
            folders,
            summary,
            foreign,
        } = gathered;
        // The intervals of a large sweep take a while.
        let results = summary.cells().map(|cell| go_on().map(|()| cell));
        let results = results.collect::<Result<Vec<CellSummary>, Problem>>()?;
        let is_complete = |cell: &&CellSummary| cell.runs >= manifest.runs as usize;
        Ok(Self {
            folders,
            scenario: manifest.scenario,
            engine: manifest.engine.to_string(),
            set: manifest.set,
            vary: manifest.vary,
            tool_version: manifest.tool_version,
            host: manifest.host,
            created: manifest.created,
            runs_per_cell: manifest.runs,
            cells: plan.cells(),
            cells_complete: results.iter().filter(is_complete).count() as u64,
            runs: summary.runs(),
            runs_planned: plan.len(),
            complete: summary.runs() >= plan.len(),
            repeated: summary.repeated(),
            conflicts: summary.conflicts().len(),
            foreign,
            results,
        })
    }
}

fn render(sweep: &Sweep) -> String {
    let bold = output::Paint::BOLD;
    let mut text = format!(
        "{bold}{}{bold:#} on engine {}, {} of each cell\n",
        sweep.scenario,
        sweep.engine,
        human::count(sweep.runs_per_cell, "run"),
    );
    for (option, values) in [("--set", &sweep.set), ("--vary", &sweep.vary)] {
        for value in values {
            text.push_str(&format!("  {option} {value}\n"));
        }
    }
    text.push('\n');
    text.push_str(&table(sweep));
    let rest = sweep.results.len().saturating_sub(ROWS_MAX);
    if rest > 0 {
        let cells = human::count(rest as u64, "more cell");
        text.push_str(&format!("and {cells}: --json has all\n"));
    }
    push_reasons(&mut text, sweep);
    if sweep.conflicts > 0 {
        let runs = human::count(sweep.conflicts as u64, "run");
        text.push_str(&format!(
            "\n{runs} twice with different numbers; the first usable one counts: `tcptailor lab \
             merge` names them\n"
        ));
    }
    if sweep.foreign > 0 {
        text.push_str(&format!("\n{}\n", left_out(sweep.foreign)));
    }
    if !sweep.complete {
        text.push_str(&format!(
            "\nnot complete: {} of {} cells, {} of {} runs; repeat the command of the sweep \
             with --resume\n",
            sweep.cells_complete, sweep.cells, sweep.runs, sweep.runs_planned
        ));
    }
    text
}

/// Which cells have invalid runs, and why.
fn reasons(sweep: &Sweep) -> impl Iterator<Item = (&CellSummary, &Reason)> {
    let cells = sweep.results.iter();
    cells.flat_map(|cell| cell.unusable.iter().map(move |reason| (cell, reason)))
}

fn push_reasons(text: &mut String, sweep: &Sweep) {
    let more = reasons(sweep).skip(REASONS_MAX).count();
    for (number, (cell, Reason { why, runs })) in reasons(sweep).take(REASONS_MAX).enumerate() {
        if number == 0 {
            text.push_str("\nruns that are not usable:\n");
        }
        let name = short_name(&cell.cell, &sweep.scenario);
        let words = format!("{name}: {runs} of {}: {why}", cell.runs);
        text.push_str("  ");
        output::push_wrapped(text, &words, "    ", 2);
    }
    if more > 0 {
        text.push_str(&format!("  and {more} more: --json has all\n"));
    }
}

/// Says how many lines do not belong to their sweep.
pub(super) fn left_out(lines: u64) -> String {
    let lines = human::count(lines, "line");
    format!("{lines} left out: this sweep has no such runs")
}

fn table(sweep: &Sweep) -> String {
    let timed = sweep
        .results
        .iter()
        .any(|cell| cell.response_p50_us.is_some());
    let several = sweep.runs_per_cell > 1;
    let mut header = vec!["CELL", "RUNS", "GOODPUT"];
    header.extend((several && !timed).then_some("RANGE"));
    header.extend(timed.then_some("P50"));
    header.extend((several && timed).then_some("RANGE"));
    header.extend(timed.then_some("P99"));
    header.push("DROPS");
    header.extend(several.then_some("OUTLIERS"));
    let mut table = output::table(&header);
    let mut widest = 0;
    for cell in sweep.results.iter().take(ROWS_MAX) {
        let name = short_name(&cell.cell, &sweep.scenario);
        widest = widest.max(name.len());
        let runs = match cell.usable == cell.runs {
            true => cell.runs.to_string(),
            false => format!("{}/{}", cell.usable, cell.runs),
        };
        let mut row = vec![name.to_owned(), runs, median(cell.goodput_bps, human::bps)];
        if several && !timed {
            row.push(range(cell.goodput_bps, human::bps));
        }
        if timed {
            row.push(median(cell.response_p50_us, human::micros));
            if several {
                row.push(range(cell.response_p50_us, human::micros));
            }
            row.push(median(cell.response_p99_us, human::micros));
        }
        let drops = cell.dropped_segments;
        row.push(drops.map_or_else(String::new, |drops| format!("{drops:.0}")));
        if several {
            let figure = cell.response_p50_us.or(cell.goodput_bps);
            let outliers = figure.map_or(0, |figure| figure.outliers);
            row.push(if outliers == 0 {
                String::new()
            } else {
                outliers.to_string()
            });
        }
        table.add_row(row);
    }
    let numbers: Vec<usize> = (1..header.len()).collect();
    output::align_right(&mut table, &numbers);
    if let Some(column) = table.column_mut(0) {
        let width = u16::try_from(widest)
            .unwrap_or(u16::MAX)
            .min(CELL_COLUMNS_MIN);
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(
            width + PADDING,
        )));
    }
    output::render(&table)
}

fn median(figure: Option<Figure>, show: fn(u64) -> String) -> String {
    figure.map_or_else(
        || "-".to_owned(),
        |figure| show(figure.median.round() as u64),
    )
}

fn range(figure: Option<Figure>, show: fn(u64) -> String) -> String {
    let Some((figure, low, high)) = figure.and_then(|f| Some((f, f.low?, f.high?))) else {
        return String::new();
    };
    let middle = show(figure.median.round() as u64);
    output::range_beside(&[low, high].map(|end| show(end.round() as u64)), &middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_told_in_few_lines() {
        let mut sweep = page::tests::sweep(12);
        let text = |sweep: &Sweep| {
            let mut text = String::new();
            push_reasons(&mut text, sweep);
            text
        };
        assert_eq!(text(&sweep), "");
        for cell in &mut sweep.results[1..] {
            cell.usable = 0;
            let why = "ended early: it was stopped".into();
            cell.unusable = vec![Reason { why, runs: 1 }];
        }
        let told = text(&sweep);
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines.len(), 1 + 1 + REASONS_MAX + 1, "{told}");
        assert_eq!(lines[1], "runs that are not usable:");
        let first = "  path.rtt=2ms: 1 of 1: ended early: it was stopped";
        assert_eq!(lines[2], first);
        assert_eq!(lines[12], "  and 1 more: --json has all");
        assert!(page::render(&[sweep]).contains("ended early: it was stopped"));
    }

    #[test]
    fn figures_are_rounded_and_not_cut_off() {
        let figure = Some(Figure {
            median: 26.5,
            low: Some(25.6),
            high: Some(27.4),
            outliers: 0,
        });
        assert_eq!(median(figure, human::micros), "27 us");
        assert_eq!(range(figure, human::micros), "26 to 27");
        assert_eq!(median(None, human::micros), "-");
    }
}
