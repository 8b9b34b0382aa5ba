//! Changes under a journal: apply, status, rollback, recover.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use base::{Change, find_knob, human};
use linux::journal::{Applied, How, Presence, Recovered, Status, Story};
use linux::{Journal, Plan, Setting};
use serde::Serialize;

use crate::exit::{Exit, Problem};
use crate::output::{self, Output};

/// Apply the changes of a plan, under a journal that can undo them.
///
/// Either all changes are made or none: where one fails, those before it are undone. They stay in
/// force until `tcptailor rollback`, or until the machine starts again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor diagnose --pid 4127 -o plan.json    make a plan
  tcptailor apply plan.json -n                  show what it would change
  tcptailor apply plan.json --dry-run=sh        the same as shell commands
  tcptailor apply plan.json                     do it
  tcptailor rollback                            undo it")]
pub(crate) struct Args {
    /// The plan, as `tcptailor diagnose -o` writes it.
    #[arg(value_name = "PLAN.json")]
    plan: PathBuf,
    /// Change nothing; show what would be changed, or the shell commands that would do it.
    #[arg(
        short = 'n',
        long,
        value_name = "FORM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "table"
    )]
    dry_run: Option<DryRun>,
}

/// What a dry run prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DryRun {
    /// Old and new values.
    Table,
    /// Shell commands.
    Sh,
}

/// Show the changes that are in force.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor status             what is changed now, and by which transaction
  tcptailor status --all       also what was undone, or ended with its program
  tcptailor status --json      for scripts: transactions[].changes[].presence")]
pub(crate) struct StatusArgs {
    /// Also those that were rolled back, or whose program or namespace is gone.
    #[arg(short, long)]
    all: bool,
}

/// Undo changes, newest first.
///
/// A setting that somebody else has changed since is left alone and reported.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor rollback           undo the newest transaction that is in force
  tcptailor rollback 3         undo transaction 3 of `tcptailor status`
  tcptailor rollback --all     undo everything")]
pub(crate) struct RollbackArgs {
    /// Number of the transaction, as `tcptailor status` shows it; the newest in force where none
    /// is given.
    #[arg(value_name = "ID", conflicts_with = "all", value_parser = transaction_number)]
    id: Option<u64>,
    /// Undo everything that is in force.
    #[arg(long)]
    all: bool,
}

/// Undo what a killed tcptailor left half done.
///
/// Whatever it had changed and neither kept nor put back is put back now. Running it when nothing
/// is left half done, or twice, does no harm.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor recover            after a crash or `kill -9`
  tcptailor recover --json     for scripts: transactions[].changes[].result")]
pub(crate) struct RecoverArgs {}

#[derive(Serialize)]
struct ApplyReport {
    /// Number of the transaction; nothing for a dry run.
    transaction: Option<u64>,
    dry_run: bool,
    changes: Vec<ChangeRow>,
}

#[derive(Serialize)]
struct ChangeRow {
    knob: String,
    target: String,
    from: String,
    to: String,
    /// What the kernel made of it; nothing for a dry run.
    now: Option<String>,
    /// Whether it was so already.
    already: bool,
    /// A shell command that does the same, or a comment; only with `--dry-run=sh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let plan = read_plan(&args.plan)?;
    if let Some(form) = args.dry_run {
        let report = preview(&plan, form)?;
        output.report("apply", &report, || match form {
            DryRun::Table => changes_table(&report),
            DryRun::Sh => script(&report),
        })?;
        return Ok(Exit::Done);
    }
    let journal = open_journal()?;
    let mut transaction = journal.begin(&format!("apply {}", args.plan.display()))?;
    let id = transaction.id();
    let applied = transaction.apply_all(&plan.changes)?;
    let changed = applied.iter().any(|applied| !applied.already);
    if changed {
        transaction.keep()?;
    } else {
        // Nothing that could be undone later.
        transaction.roll_back();
    }
    let report = ApplyReport {
        transaction: changed.then_some(id),
        dry_run: false,
        changes: applied.iter().map(row_of).collect(),
    };
    output.report("apply", &report, || changes_table(&report))?;
    if !output.is_json() {
        output.note(match changed {
            true => format!("Undo with: tcptailor rollback {id}"),
            false => "Nothing was changed.".into(),
        });
    }
    Ok(Exit::Done)
}

fn read_plan(path: &Path) -> anyhow::Result<Plan> {
    Plan::read(path).map_err(|error| match error {
        linux::Error::File { .. } => Problem::usage(error).into(),
        linux::Error::Os { ref source, .. } if source.kind() == io::ErrorKind::NotFound => {
            let shown = path.display();
            anyhow::anyhow!("there is no plan {shown}; `tcptailor diagnose -o {shown}` writes one")
        }
        other => other.into(),
    })
}

fn transaction_number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| "a transaction is a number, as `tcptailor status` shows it".into())
}

/// What a plan would do, without doing it.
fn preview(plan: &Plan, form: DryRun) -> anyhow::Result<ApplyReport> {
    let mut changes = Vec::new();
    for change in &plan.changes {
        let setting = Setting::open(&change.target, &change.knob)?;
        let old = setting.read()?;
        let command = match form {
            DryRun::Sh => Some(setting.shell_command(&change.target, &change.to)?),
            DryRun::Table => None,
        };
        changes.push(ChangeRow {
            knob: change.knob.clone(),
            target: change.target.to_string(),
            from: old.to_string(),
            to: shown(change),
            now: None,
            already: setting.is_already(&old, &change.to),
            command,
        });
    }
    Ok(ApplyReport {
        transaction: None,
        dry_run: true,
        changes,
    })
}

fn row_of(applied: &Applied) -> ChangeRow {
    ChangeRow {
        knob: applied.change.knob.clone(),
        target: applied.change.target.to_string(),
        from: applied.old.to_string(),
        to: shown(&applied.change),
        now: Some(applied.now.to_string()),
        already: applied.already,
        command: None,
    }
}

fn shown(change: &Change) -> String {
    find_knob(&change.knob).map_or_else(|_| change.to.to_string(), |knob| knob.format(&change.to))
}

fn changes_table(report: &ApplyReport) -> String {
    if report.changes.is_empty() {
        return "The plan holds no change.\n".into();
    }
    let mut table = output::table(&["KNOB", "WHERE", "WAS", "NOW"]);
    for row in &report.changes {
        let now = match &row.now {
            _ if row.already => "the same already",
            Some(now) => now,
            None => &row.to,
        };
        table.add_row([row.knob.as_str(), &row.target, &row.from, now]);
    }
    let mut text = output::render(&table);
    if report.dry_run {
        text.push_str("Dry run: nothing was changed.\n");
    }
    text
}

fn script(report: &ApplyReport) -> String {
    let mut text = String::from("#!/bin/sh\nset -e\n");
    for row in &report.changes {
        let command = row.command.as_deref().unwrap_or_default();
        writeln!(
            text,
            "# {}: {} -> {}\n{command}",
            row.knob, row.from, row.to
        )
        .expect("a String grows");
    }
    text
}

#[derive(Serialize)]
struct StatusReport {
    journal: PathBuf,
    transactions: Vec<TransactionRow>,
}

#[derive(Serialize)]
struct TransactionRow {
    id: u64,
    reason: String,
    time: String,
    status: Status,
    /// The process that made it.
    pid: u32,
    /// Whether that process is at work now.
    alive: bool,
    verified: Option<String>,
    changes: Vec<StepRow>,
}

#[derive(Serialize)]
struct StepRow {
    knob: String,
    target: String,
    from: String,
    to: String,
    presence: String,
}

pub(crate) fn status(args: &StatusArgs, output: &Output) -> anyhow::Result<Exit> {
    let journal = open_journal()?;
    let stories = journal.stories()?;
    let report = StatusReport {
        journal: journal.directory().into(),
        transactions: stories
            .iter()
            .filter(|story| args.all || is_current(story))
            .map(transaction_row)
            .collect(),
    };
    output.report("status", &report, || status_text(&report))?;
    Ok(Exit::Done)
}

/// Whether there is something that could be undone or is at work. A change ends with its process,
/// its namespace, or the running of the machine.
fn is_current(story: &Story) -> bool {
    let ended = |presence| matches!(presence, Presence::Gone { .. } | Presence::Undone);
    match story.status() {
        Status::Pending => true,
        Status::Kept => !story.steps.iter().all(|step| ended(story.presence(step))),
        Status::RolledBack => false,
    }
}

fn transaction_row(story: &Story) -> TransactionRow {
    TransactionRow {
        id: story.id,
        reason: story.reason.clone(),
        time: output::rfc3339(story.time_unix_ms / 1000),
        status: story.status(),
        pid: story.owner.pid,
        alive: story.owner.is_alive(),
        verified: story.verified.as_ref().map(|(_, note)| note.clone()),
        changes: story
            .steps
            .iter()
            .map(|step| StepRow {
                knob: step.change.knob.clone(),
                target: step.change.target.to_string(),
                from: step.old.to_string(),
                to: match &step.now {
                    Some(now) => now.to_string(),
                    None => shown(&step.change),
                },
                presence: story.presence(step).to_string(),
            })
            .collect(),
    }
}

fn status_text(report: &StatusReport) -> String {
    if report.transactions.is_empty() {
        return format!(
            "No changes are in force. (journal: {})\n",
            report.journal.display()
        );
    }
    let mut text = String::new();
    for row in &report.transactions {
        let how = match row.status {
            Status::Kept => "kept".into(),
            Status::RolledBack => "rolled back".into(),
            Status::Pending if row.alive => format!("at work now (process {})", row.pid),
            Status::Pending => "never finished; run `tcptailor recover`".into(),
        };
        writeln!(text, "{}  {}  {}: {how}", row.id, row.time, row.reason).expect("a String grows");
        if let Some(note) = &row.verified {
            writeln!(text, "   {note}").expect("a String grows");
        }
        if row.changes.is_empty() {
            text.push_str("   no change\n");
            continue;
        }
        let mut table = output::table(&["  KNOB", "WHERE", "WAS", "SET TO", "STATE"]);
        for change in &row.changes {
            let knob = format!("  {}", change.knob);
            table.add_row([
                knob.as_str(),
                &change.target,
                &change.from,
                &change.to,
                &change.presence,
            ]);
        }
        text.push_str(&output::render(&table));
    }
    text
}

#[derive(Serialize)]
struct UndoReport {
    transactions: Vec<UndoneTransaction>,
}

#[derive(Serialize)]
struct UndoneTransaction {
    id: u64,
    reason: String,
    changes: Vec<UndoneRow>,
}

#[derive(Serialize)]
struct UndoneRow {
    knob: String,
    target: String,
    result: &'static str,
    text: String,
}

pub(crate) fn rollback(args: &RollbackArgs, output: &Output) -> anyhow::Result<Exit> {
    let journal = open_journal()?;
    let ids = match args.id {
        Some(id) => vec![id],
        None => {
            let stories = journal.stories()?;
            let in_force = stories
                .iter()
                .rev()
                .filter(|story| story.status() == Status::Kept && is_current(story))
                .map(|story| story.id);
            in_force
                .take(if args.all { usize::MAX } else { 1 })
                .collect()
        }
    };
    let mut recovered = Vec::new();
    for id in ids {
        recovered.push(journal.roll_back(id)?);
    }
    finish("rollback", recovered, "No changes are in force.", output)
}

pub(crate) fn recover(_args: &RecoverArgs, output: &Output) -> anyhow::Result<Exit> {
    let recovered = open_journal()?.recover()?;
    finish("recover", recovered, "Nothing was left half done.", output)
}

/// Reports what was undone; a change that could not be undone is a failure.
fn finish(
    name: &str,
    recovered: Vec<Recovered>,
    nothing: &str,
    output: &Output,
) -> anyhow::Result<Exit> {
    let failed = recovered
        .iter()
        .flat_map(|recovered| &recovered.undone)
        .filter(|undone| matches!(undone.how, How::Failed { .. }))
        .count();
    let report = UndoReport {
        transactions: recovered.into_iter().map(undone_row).collect(),
    };
    output.report(name, &report, || undo_text(&report, nothing))?;
    if failed == 0 {
        return Ok(Exit::Done);
    }
    output.note(format!(
        "{} not undone; remove the cause and run `tcptailor recover`",
        human::count(failed as u64, "change")
    ));
    Ok(Exit::Failed)
}

fn undone_row(recovered: Recovered) -> UndoneTransaction {
    UndoneTransaction {
        id: recovered.id,
        reason: recovered.reason,
        changes: recovered
            .undone
            .into_iter()
            .map(|undone| UndoneRow {
                knob: undone.change.knob.clone(),
                target: undone.change.target.to_string(),
                result: undone.how.name(),
                text: undone.how.to_string(),
            })
            .collect(),
    }
}

fn undo_text(report: &UndoReport, nothing: &str) -> String {
    if report.transactions.is_empty() {
        return format!("{nothing}\n");
    }
    let mut text = String::new();
    for transaction in &report.transactions {
        writeln!(text, "{}  {}", transaction.id, transaction.reason).expect("a String grows");
        if transaction.changes.is_empty() {
            text.push_str("   no change\n");
            continue;
        }
        let mut table = output::table(&["  KNOB", "WHERE", "RESULT"]);
        for row in &transaction.changes {
            table.add_row([&format!("  {}", row.knob), &row.target, &row.text]);
        }
        text.push_str(&output::render(&table));
    }
    text
}

fn open_journal() -> anyhow::Result<Journal> {
    Ok(Journal::open(Journal::default_directory()?)?)
}
