//! Every fault of the table on the real kernel: provoked, named, fixed, measured.

use std::collections::BTreeMap;
use std::time::Duration;

use base::human;
use lab::{FAULTS, Fault, Measure, RequiredEffect};
use serde::Serialize;
use tailor::{Candidate, ChangeMade, Look};

use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::{self, Output};
use crate::subject::AnySubject;
use crate::subject::path::{self, EngineChoice, PathReport};

/// How long a connection with default settings is measured for comparison.
const REFERENCE: Duration = Duration::from_secs(4);

/// Provoke every fault on a lab path and check that it is diagnosed and fixed.
///
/// Each row sets up a path, starts two affected programs, diagnoses, makes the change, and
/// measures again; the last rows are healthy connections, for which there must be no finding.
/// Takes a few minutes. Exit code 0 only if every row passes, 3 otherwise.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab faults                     the whole table, in about five minutes
  tcptailor lab faults nagle rcvbuf        two rows of it
  tcptailor lab faults --engine virtual    on tcptailor's own TCP, without privileges
  tcptailor lab faults --json              before and after as numbers; exit code 3 if a row fails")]
pub(crate) struct Args {
    /// Only these faults; all without.
    #[arg(value_name = "FAULT")]
    faults: Vec<String>,
    /// TCP implementation at both ends of the paths; `auto` is the kernel's where that is
    /// permitted.
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
    /// The right verdict first, and the fix achieved (or, on a healthy flow, no finding).
    ok: bool,
    /// Changes made; null where TCP has no setting that helps.
    fix: Option<Vec<ChangeMade>>,
    /// Whether the change acted on the open connection.
    live: Option<bool>,
    before: Measure,
    after: Option<Measure>,
    /// Rate of a connection with default settings on the same path, where that is the reference.
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
        RequiredEffect::ShareOfDefault(_) => Some(reference(fault, engine, references, output)?),
        _ => None,
    };
    let mut path = path::start(engine, fault, &fault.trial(), fault.id, output)?;
    path.subject.wait(fault.warm_up)?;
    let before = path.subject.look(fault.observe)?;
    let named = Named::of(&before, &mut *path.subject)?;
    let is_cured = |after: &Measure| fault.cure.is_met(&before.measure, after, reference_bps);
    let is_as_expected = named.id == Some(fault.expected) && fault.cure != RequiredEffect::None;
    let cure = match named.candidate.as_ref().filter(|_| is_as_expected) {
        Some(candidate) => {
            // It is known what must come out of it, so that one look is enough.
            let options = path::fit_options(fault, None, Duration::MAX);
            Some(tailor::apply_and_look(
                &mut *path.subject,
                &options,
                candidate,
                is_cured,
            )?)
        }
        None => None,
    };
    let cured = cure.as_ref().is_some_and(|(_, after)| is_cured(after));
    let why = why_not(fault, &named, cure.is_some(), cured, reference_bps);
    let (fix, after) = cure.unzip();
    Ok(Row {
        fault: fault.id,
        expected: fault.expected,
        named: named.id,
        share: named.share,
        ok: why.is_none(),
        live: fix
            .as_ref()
            .map(|fix: &Vec<ChangeMade>| fix.iter().all(|change| change.live)),
        fix,
        before: before.measure,
        after,
        reference_bps,
        path: path.subject.path_report()?,
        why,
    })
}

/// The doctor's verdict on the first connection, and possible fixes.
struct Named {
    id: Option<&'static str>,
    share: Option<f64>,
    /// Any of its verdicts is a finding.
    finds: bool,
    /// In place of a verdict.
    unknown: String,
    candidate: Option<Candidate>,
}

impl Named {
    fn of(look: &Look, subject: &mut AnySubject<'_>) -> anyhow::Result<Self> {
        look.observed(|observed| {
            let answers = observed.answers(|_| true);
            let Some(first) = answers.first() else {
                return Ok(Self {
                    id: None,
                    share: None,
                    finds: false,
                    unknown: "no connection was seen".into(),
                    candidate: None,
                });
            };
            let found = tailor::candidates(first, subject)?.unwrap_or_default();
            Ok(Self {
                id: first.main().map(|verdict| verdict.diagnosis.id),
                share: first.main().map(|verdict| verdict.share),
                finds: first
                    .report
                    .verdicts
                    .iter()
                    .any(|verdict| verdict.diagnosis.is_finding()),
                unknown: first.report.unknown.clone().unwrap_or_default(),
                candidate: found.into_iter().next(),
            })
        })
    }
}

/// Why a row does not hold; `None` where it does.
fn why_not(
    fault: &Fault,
    named: &Named,
    is_made: bool,
    cured: bool,
    reference_bps: Option<u64>,
) -> Option<String> {
    if fault.is_healthy() {
        // One that was not seen is not healthy.
        return match (named.finds, named.id) {
            (true, _) => Some("a finding on a healthy flow".into()),
            (false, None) => Some(named.unknown.clone()),
            (false, Some(_)) => None,
        };
    }
    match named.id {
        None => Some(named.unknown.clone()),
        Some(id) if id != fault.expected => Some(format!("named {id} instead")),
        Some(_) if fault.cure == RequiredEffect::None || cured => None,
        Some(_) if !is_made => Some("no change was proposed that can be made here".into()),
        Some(_) => Some(match reference_bps {
            Some(bps) => format!("not fixed: a default connection gets {}", human::bps(bps)),
            None => "not fixed".into(),
        }),
    }
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
        let objective = lab::find_fault(row.fault)
            .ok()
            .and_then(|fault| fault.cure.objective())
            .unwrap_or(row.before.own_objective());
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
            row.before.show(objective),
            row.after
                .as_ref()
                .map_or_else(String::new, |after| after.show(objective)),
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
