//! Every fault of the table on the real kernel: provoked, named, cured, measured.

use std::collections::BTreeMap;
use std::time::Duration;

use base::human;
use lab::{Cure, FAULTS, Fault, Measure, Yardstick};
use serde::Serialize;

use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::{self, Output};
use crate::subject::path::{self, EngineChoice, PathReport};
use crate::tailor::{self, ChangeMade, Ending, Fitting};

/// How long a connection with default settings is measured for comparison.
const REFERENCE: Duration = Duration::from_secs(4);

/// Provoke every fault on a lab path and show whether it is named and cured.
///
/// Each row lays a path, starts two programs that suffer, looks, names the limit, makes the
/// change, and looks again; at the end of the table stand healthy flows, on which nothing may be
/// found. Takes some minutes. Exit code 0 only if every row holds, 3 otherwise.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab faults                     the whole table, in about five minutes
  tcptailor lab faults nagle rcvbuf        two rows of it
  tcptailor lab faults --engine virtual    on tcptailor's own TCP, without any permission
  tcptailor lab faults --json              before and after as numbers; exit code 3 if a row fails")]
pub(crate) struct Args {
    /// Only these faults; all without.
    #[arg(value_name = "FAULT")]
    faults: Vec<String>,
    /// Which TCP the paths have at their ends; `auto` is the kernel's where that is permitted.
    #[arg(long, value_name = "ENGINE", default_value = "kernel")]
    engine: EngineChoice,
}

impl Args {
    /// Whether a lab path is laid, for which an ordinary user needs a user namespace.
    pub(super) fn lays_path(&self) -> bool {
        self.engine != EngineChoice::Virtual
    }

    /// The rows that were asked for; of all, those that the engine has.
    fn chosen(&self) -> Result<Vec<&'static Fault>, Problem> {
        let is_there =
            |fault: &&Fault| self.engine != EngineChoice::Virtual || fault.kernel_only.is_none();
        if self.faults.is_empty() {
            return Ok(FAULTS.iter().filter(is_there).collect());
        }
        self.faults.iter().map(|name| super::fault(name)).collect()
    }
}

/// One row of the answer.
#[derive(Debug, Serialize)]
struct Row {
    fault: &'static str,
    expected: &'static str,
    /// The verdict that was named first; null where there was none.
    named: Option<&'static str>,
    /// Share of the time for which it holds.
    share: Option<f64>,
    /// The right verdict first, and the cure achieved (or, on a healthy flow, no finding).
    ok: bool,
    /// What was changed; null where TCP has no setting that helps.
    fix: Option<Vec<ChangeMade>>,
    /// Whether the change acted on the open connection.
    live: Option<bool>,
    before: Measure,
    after: Option<Measure>,
    /// What a connection with default settings gets on the same path, where that is the yardstick.
    reference_bps: Option<u64>,
    #[serde(flatten)]
    path: PathReport,
    /// Why a row does not hold.
    why: Option<String>,
}

#[derive(Serialize)]
struct Document {
    ok: bool,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let chosen = args.chosen()?;
    let mut references = BTreeMap::new();
    let mut rows = Vec::new();
    for fault in chosen {
        let row = provoke(fault, args.engine, &mut references, output)?;
        if interrupt::stopped() {
            break;
        }
        output.note(summary(&row));
        rows.push(row);
    }
    let interrupted = interrupt::stopped();
    let document = Document {
        ok: !interrupted && rows.iter().all(|row| row.ok),
        rows,
    };
    output.report("lab-faults", &document, || render(&document))?;
    Ok(match document.ok {
        _ if interrupted => Exit::Interrupted,
        true => Exit::Done,
        false => Exit::Findings,
    })
}

/// Goodput of a default connection, by path.
type References = BTreeMap<String, u64>;

fn provoke(
    fault: &'static Fault,
    engine: EngineChoice,
    references: &mut References,
    output: &Output,
) -> anyhow::Result<Row> {
    let reference_bps = match fault.cure {
        Cure::ShareOfDefault(_) => Some(reference(fault, engine, references, output)?),
        _ => None,
    };
    let mut path = path::start(engine, fault, &fault.trial(), fault.id, output)?;
    path.subject.wait(fault.warm_up)?;
    let pattern = path::pattern(fault, fault.is_healthy() || fault.cure == Cure::None);
    let fitting = tailor::fit(&mut *path.subject, &pattern, &mut |_| Ok(()))?;
    let report = path.subject.path_report()?;
    Ok(judge(fault, fitting, reference_bps, report))
}

fn reference(
    fault: &Fault,
    engine: EngineChoice,
    references: &mut References,
    output: &Output,
) -> anyhow::Result<u64> {
    let trial = fault.default_trial();
    let path = format!("{:?}", trial.path);
    if let Some(&bps) = references.get(&path) {
        return Ok(bps);
    }
    let label = format!("{}: a default connection", fault.id);
    let mut started = path::start(engine, fault, &trial, &label, output)?;
    started.subject.wait(fault.warm_up)?;
    let bps = started.subject.look(REFERENCE)?.measure.goodput_bps;
    references.insert(path, bps);
    Ok(bps)
}

fn judge(
    fault: &'static Fault,
    fitting: Fitting,
    reference_bps: Option<u64>,
    path: PathReport,
) -> Row {
    let main = fitting.flow.as_ref().and_then(|flow| flow.main());
    let named = main.map(|verdict| verdict.id);
    let share = main.map(|verdict| verdict.share);
    let finds = fitting.flow.as_ref().is_some_and(|flow| flow.has_finding());
    let cured = fitting
        .after
        .as_ref()
        .is_some_and(|after| fault.cure.is_met(&fitting.before, after, reference_bps));
    let why = if fault.is_healthy() {
        finds.then(|| "a finding on a healthy flow".into())
    } else if named != Some(fault.expected) {
        Some(unexpected(&fitting))
    } else if fault.cure == Cure::None {
        None
    } else {
        (!cured).then(|| missed(&fitting, reference_bps))
    };
    let made = !fitting.changes.is_empty() && fitting.after.is_some();
    Row {
        fault: fault.id,
        expected: fault.expected,
        named,
        share,
        ok: why.is_none(),
        live: made.then(|| fitting.changes.iter().all(|change| change.live)),
        fix: made.then_some(fitting.changes),
        before: fitting.before,
        after: fitting.after,
        reference_bps,
        path,
        why,
    }
}

fn unexpected(fitting: &Fitting) -> String {
    match fitting.flow.as_ref() {
        None => "no connection was seen".into(),
        Some(flow) => match (&flow.unknown, flow.main()) {
            (Some(unknown), _) => unknown.clone(),
            (None, Some(verdict)) => format!("named {} instead", verdict.id),
            (None, None) => "no verdict".into(),
        },
    }
}

fn missed(fitting: &Fitting, reference_bps: Option<u64>) -> String {
    match (fitting.ending, reference_bps) {
        (Ending::NoSettingHelps | Ending::OutOfReach, _) => {
            "no change was proposed that can be made here".into()
        }
        (Ending::RolledBack, _) => "the change did not help and was rolled back".into(),
        (_, Some(bps)) => format!("not cured: a default connection gets {}", human::bps(bps)),
        (_, None) => "not cured".into(),
    }
}

fn summary(row: &Row) -> String {
    let why = row
        .why
        .as_ref()
        .map_or_else(String::new, |why| format!(": {why}"));
    format!(
        "{:<4} {}{why}",
        if row.ok { "ok" } else { "FAIL" },
        row.fault
    )
}

fn render(document: &Document) -> String {
    let mut table = output::table(&[
        "",
        "FAULT",
        "NAMED FIRST",
        "SHARE",
        "FIX",
        "LIVE",
        "BEFORE",
        "AFTER",
        "LATE",
    ]);
    for row in &document.rows {
        let yardstick = lab::find_fault(row.fault)
            .ok()
            .and_then(|fault| fault.cure.yardstick())
            .unwrap_or(Yardstick::of(&row.before));
        let named = match row.named {
            Some(named) if named == row.fault => "the same",
            Some(named) => named,
            None => "nothing",
        };
        table.add_row([
            if row.ok { "ok" } else { "FAIL" }.to_owned(),
            row.fault.into(),
            named.into(),
            row.share.map_or_else(String::new, human::share),
            row.fix.as_deref().map_or_else(|| "none".into(), fix),
            row.live
                .map_or("", |live| if live { "yes" } else { "no" })
                .into(),
            yardstick.show(&row.before),
            row.after
                .as_ref()
                .map_or_else(String::new, |after| yardstick.show(after)),
            row.path
                .link
                .lateness()
                .map_or_else(String::new, |late| human::micros(late.p99)),
        ]);
    }
    let mut text = output::render(&table);
    text.push_str("\nLATE: 99th percentile of the emulator's lateness.\n");
    let held = document.rows.iter().filter(|row| row.ok).count();
    text.push_str(&format!("{held} of {} rows hold.\n", document.rows.len()));
    for row in &document.rows {
        if let Some(why) = &row.why {
            text.push_str(&format!("{}: {why}\n", row.fault));
        }
        for caveat in &row.path.caveats {
            text.push_str(&format!("{}: {caveat}\n", row.fault));
        }
    }
    text
}

/// `nodelay = on`.
fn fix(changes: &[ChangeMade]) -> String {
    let mut shown: Vec<String> = changes
        .iter()
        .map(|change| format!("{} = {}", change.knob, change.to))
        .collect();
    shown.dedup();
    shown.join(", ")
}
