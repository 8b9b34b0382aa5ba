//! Accuracy of the doctor's limit shares, where the truth is known.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use base::{Limit, human};
use lab::{
    Cell, EngineName, LimitErrors, SHARE_ERROR_MAX, SHARE_THAT_MATTERS, ScoredFlow, fault_cells,
    gallery_cells, score_limits,
};
use serde::Serialize;

use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::{self, Output};
use crate::progress::Progress;

/// Flows that are shown as the worst.
const WORST: usize = 10;

/// Measure the accuracy of the inferred limits of connections.
///
/// Runs the built-in scenarios with all their variants, and the faults, on tcptailor's own TCP in
/// virtual time, which knows why each sender waits and for how long. Every connection is judged at
/// both ends from what a kernel would show of it; the table gives the mean absolute error of the
/// shares of time, in percentage points, for each limit and in all. Takes a minute or two.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab shares                     all scenarios and faults, five seeds each
  tcptailor lab shares wan-bulk --runs 1   one of them, once
  tcptailor lab shares fault               the faults alone
  tcptailor lab shares --json              every flow with its true and inferred shares

Exit code 3 if the mean error of a limit, or the share of time that is given to the wrong limit in
the scenarios or in the faults, is above 5 points.")]
pub(crate) struct Args {
    /// Only these scenarios (or `fault/ID`); all without.
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// How often each is run, with another seed each time.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
}

#[derive(Serialize)]
struct Document {
    ok: bool,
    cells: usize,
    runs: u32,
    groups: Vec<GroupRow>,
    /// Limits of all flows together.
    limits: Vec<LimitRow>,
    /// Flows with the largest share of time given to the wrong limit.
    worst: Vec<FlowRow>,
}

#[derive(Serialize)]
struct GroupRow {
    /// `scenarios`, on which the rules were made, or `faults`, on which they were not.
    group: &'static str,
    flows: usize,
    /// Mean share of the time that is given to the wrong limit, or to none.
    wrong_share: f64,
    /// Mean share of the time that is called unclear.
    unclear_share: f64,
}

#[derive(Serialize)]
struct LimitRow {
    limit: Limit,
    true_share: f64,
    inferred_share: f64,
    error: f64,
    /// Flows in which the limit truly takes 5 % of the time or more.
    flows: usize,
    /// The error in these alone; null where there are none.
    error_in_these: Option<f64>,
}

#[derive(Serialize)]
struct FlowRow {
    cell: String,
    run: u32,
    end: String,
    wrong_share: f64,
    truth: Vec<(Limit, f64)>,
    inferred: Vec<(Limit, f64)>,
}

/// One end of one connection with its origin.
struct Scored {
    cell: usize,
    run: u32,
    flow: ScoredFlow,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let cells = chosen(&args.scenarios)?;
    let scored = score(&cells, args.runs, output)?;
    if interrupt::stopped() {
        return Ok(Exit::Interrupted);
    }
    let document = document(&cells, args.runs, &scored);
    output.report("lab-shares", &document, || render(&document))?;
    Ok(match document.ok {
        true => Exit::Done,
        false => Exit::Findings,
    })
}

fn chosen(names: &[String]) -> Result<Vec<Cell>, Problem> {
    let mut cells = gallery_cells(EngineName::Virtual);
    cells.extend(fault_cells());
    if names.is_empty() {
        return Ok(cells);
    }
    let is_of = |cell: &Cell, name: &str| {
        let rest = cell.id.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    for name in names {
        if !cells.iter().any(|cell| is_of(cell, name)) {
            return Err(
                Problem::usage(format!("no scenario `{name}` runs in virtual time"))
                    .hint("`tcptailor lab list` names the scenarios"),
            );
        }
    }
    cells.retain(|cell| names.iter().any(|name| is_of(cell, name)));
    Ok(cells)
}

/// Runs every cell this often, on all processors.
fn score(cells: &[Cell], runs: u32, output: &Output) -> anyhow::Result<Vec<Scored>> {
    let jobs: Vec<(usize, u32)> = (0..cells.len())
        .flat_map(|cell| (0..runs).map(move |run| (cell, run)))
        .collect();
    let progress = Progress::bar(output, "limit shares", jobs.len() as u64);
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let found = Mutex::new(Vec::new());
    let work = || -> anyhow::Result<()> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(cell, run)) = jobs.get(at) else {
                return Ok(());
            };
            if interrupt::stopped() {
                return Ok(());
            }
            let trial = cells[cell].run(run);
            let flows = score_limits(&trial, interrupt::stop_flag()).map_err(|caveats| {
                let caveat = caveats.first().map(ToString::to_string).unwrap_or_default();
                anyhow::anyhow!("{}: {caveat}", cells[cell].id)
            })?;
            let scored = flows.into_iter().map(|flow| Scored { cell, run, flow });
            found
                .lock()
                .expect("no thread panics while it holds the lock")
                .extend(scored);
            progress.set(done.fetch_add(1, Ordering::Relaxed) as u64 + 1);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a panic was reported already"))
    })?;
    let mut scored = found.into_inner().expect("all threads have ended");
    scored.sort_by_key(|one| (one.cell, one.run));
    Ok(scored)
}

fn document(cells: &[Cell], runs: u32, scored: &[Scored]) -> Document {
    let flows: Vec<ScoredFlow> = scored.iter().map(|one| one.flow.clone()).collect();
    let errors = LimitErrors::of(&flows);
    let mut worst: Vec<&Scored> = scored.iter().collect();
    worst.sort_by(|a, b| b.flow.wrong().total_cmp(&a.flow.wrong()));
    let holds = |error: f64| error <= SHARE_ERROR_MAX;
    let groups: Vec<GroupRow> = [("scenarios", false), ("faults", true)]
        .into_iter()
        .filter_map(|(group, faults)| group_row(group, cells, scored, faults))
        .collect();
    Document {
        ok: groups.iter().all(|row| holds(row.wrong_share))
            && errors.limits.iter().all(|row| holds(row.error_mean)),
        cells: cells.len(),
        runs,
        groups,
        limits: errors
            .limits
            .iter()
            .map(|row| LimitRow {
                limit: row.limit,
                true_share: row.truth_mean,
                inferred_share: row.said_mean,
                error: row.error_mean,
                flows: row.flows,
                error_in_these: row.error_where,
            })
            .collect(),
        worst: worst
            .into_iter()
            .take(WORST)
            .map(|one| flow_row(cells, one))
            .collect(),
    }
}

/// `None` where no flow is of the group.
fn group_row(
    group: &'static str,
    cells: &[Cell],
    scored: &[Scored],
    faults: bool,
) -> Option<GroupRow> {
    let is_fault = |one: &&Scored| cells[one.cell].id.starts_with("fault/");
    let flows: Vec<ScoredFlow> = scored
        .iter()
        .filter(|one| is_fault(one) == faults)
        .map(|one| one.flow.clone())
        .collect();
    let errors = LimitErrors::of(&flows);
    (errors.flows > 0).then_some(GroupRow {
        group,
        flows: errors.flows,
        wrong_share: errors.wrong_mean,
        unclear_share: errors.unclear_mean,
    })
}

fn flow_row(cells: &[Cell], one: &Scored) -> FlowRow {
    let truth = Limit::ALL.into_iter().zip(one.flow.truth);
    let mut truth: Vec<(Limit, f64)> = truth.filter(|(_, share)| *share > 0.0).collect();
    truth.sort_by(|a, b| b.1.total_cmp(&a.1));
    FlowRow {
        cell: cells[one.cell].id.clone(),
        run: one.run,
        end: one.flow.end.name().to_owned(),
        wrong_share: one.flow.wrong(),
        truth,
        inferred: one.flow.said.largest_first(),
    }
}

fn render(document: &Document) -> String {
    let mut table = output::table(&["LIMIT", "TRUE", "INFERRED", "ERROR", "FLOWS", "ERROR THERE"]);
    for row in &document.limits {
        table.add_row([
            row.limit.name().to_owned(),
            human::share(row.true_share),
            human::share(row.inferred_share),
            points(row.error),
            row.flows.to_string(),
            row.error_in_these.map_or_else(String::new, points),
        ]);
    }
    output::align_right(&mut table, &[1, 2, 3, 4, 5]);
    let mut text = output::render(&table);
    text.push_str(&format!(
        "\nTRUE, INFERRED: mean share of the time. ERROR: mean absolute error in percentage points \
         ({} cells,\n{} runs each, both ends). ERROR THERE: of the FLOWS in which the limit truly \
         takes {} or more.\n\n",
        document.cells,
        document.runs,
        human::share(SHARE_THAT_MATTERS),
    ));
    for row in &document.groups {
        text.push_str(&format!(
            "{}: of the time of {} flows {} is given to the wrong limit or to none (bound: {}); \
             {} is called unclear.\n",
            row.group,
            row.flows,
            human::share(row.wrong_share),
            human::share(SHARE_ERROR_MAX),
            human::share(row.unclear_share),
        ));
    }
    text.push_str("\nWorst:\n");
    for row in &document.worst {
        text.push_str(&format!(
            "  {} at the {}, run {}: {} wrong; true {}, inferred {}\n",
            row.cell,
            row.end,
            row.run,
            human::share(row.wrong_share),
            shares(&row.truth),
            shares(&row.inferred),
        ));
    }
    text
}

/// The two largest.
fn shares(shares: &[(Limit, f64)]) -> String {
    let shown = shares
        .iter()
        .take(2)
        .map(|(limit, share)| format!("{limit} {}", human::share(*share)));
    shown.collect::<Vec<_>>().join(", ")
}

fn points(error: f64) -> String {
    format!("{:.1}", error * 100.0)
}
