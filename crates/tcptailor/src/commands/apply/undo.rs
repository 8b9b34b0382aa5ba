//! Undoing: what was kept, and what was interrupted.

use std::fmt::Write;
use std::path::PathBuf;

use base::human;
use linux::Journal;
use linux::journal::{Entry, Guard, How, Recovered, Removal, RemovedFile, Status};
use serde::Serialize;

use super::{existing_journal, note_root, only_root_knows, persist};
use crate::commands::guard;
use crate::exit::{Exit, Problem};
use crate::output::{self, Output};

/// Roll back changes, newest first.
///
/// A setting that has been changed by something else since is left alone and reported.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor rollback           roll back the newest transaction in force
  tcptailor rollback 3         roll back transaction 3 of `tcptailor status`
  tcptailor rollback --all     roll back everything")]
pub(crate) struct RollbackArgs {
    /// Number of the transaction, as `tcptailor status` shows it; the newest in force by
    /// default.
    #[arg(value_name = "ID", conflicts_with = "all", value_parser = transaction_number)]
    id: Option<u64>,
    /// Roll back every change in force.
    #[arg(long)]
    all: bool,
}

/// Roll back changes left by an interrupted run.
///
/// Changes that it had neither kept nor rolled back are rolled back now, and an interrupted
/// rollback is finished. The next start of any command does the same; this one reports every
/// change. Safe to run more than once.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor recover            after a crash or `kill -9`
  tcptailor recover --json     for scripts: transactions[].changes[].result")]
pub(crate) struct RecoverArgs {}

pub(super) fn transaction_number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| "a transaction is a number, as `tcptailor status` shows it".into())
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
    /// Files that made them again at every boot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<FileRow>,
}

#[derive(Serialize)]
struct FileRow {
    path: PathBuf,
    result: &'static str,
    text: String,
}

#[derive(Serialize)]
struct UndoneRow {
    knob: String,
    target: String,
    result: &'static str,
    text: String,
}

/// What is known where another journal cannot be read.
const NONE_OF_YOURS: &str = "nothing to roll back: no changes of yours are in force";

pub(crate) fn rollback(args: &RollbackArgs, output: &Output) -> anyhow::Result<Exit> {
    let nothing = "Nothing to roll back: no changes are in force.";
    let Some(journal) = existing_journal()? else {
        return match args.id {
            None => none_of_this_user(args)
                .map_or_else(|| finish("rollback", Vec::new(), nothing, output), Err),
            Some(id) => Err(none_of_this_user(args).unwrap_or_else(|| {
                Problem::failed(format!(
                    "transaction `{id}` does not exist; `tcptailor status` lists them"
                ))
                .into()
            })),
        };
    };
    let mut guard = guard_if_possible(&journal, output);
    let history = journal.history()?;
    let ids = match args.id {
        Some(id) if history.entry(id).is_none() => match none_of_this_user(args) {
            Some(error) => return Err(error),
            None => vec![id],
        },
        Some(id) => vec![id],
        None => {
            // As `status` lists them, also what is damaged or could not be rolled back before.
            let newest_first = history.entries.iter().rev();
            newest_first
                .filter(|entry| history.is_in_force(entry))
                .map(|entry| entry.id)
                .take(if args.all { usize::MAX } else { 1 })
                .collect()
        }
    };
    if ids.is_empty()
        && let Some(error) = none_of_this_user(args)
    {
        return Err(error);
    }
    let mut recovered = Vec::new();
    for id in ids {
        if let Some(guard) = &mut guard {
            // Without it, the next start of any command finishes what was begun.
            guard.undoing(id).ok();
        }
        match journal.roll_back(id) {
            Ok(done) => recovered.push(done),
            // Another process was faster.
            Err(_) if args.all && is_rolled_back(&journal, id)? => {}
            Err(error) => {
                tell_before_error(&recovered, output);
                return Err(error.into());
            }
        }
    }
    tell_of_boots(&journal, &recovered, output)?;
    if args.all {
        note_root("rollback --all", output);
    }
    finish("rollback", recovered, nothing, output)
}

/// Nothing to roll back, as far as this user knows: an error where root may have changed something.
fn none_of_this_user(args: &RollbackArgs) -> Option<anyhow::Error> {
    let (what, command) = match args.id {
        Some(id) => (
            format!("you have made no transaction `{id}`"),
            format!("rollback {id}"),
        ),
        None if args.all => (NONE_OF_YOURS.into(), "rollback --all".into()),
        None => (NONE_OF_YOURS.into(), "rollback".into()),
    };
    only_root_knows(&what, &command).map(Into::into)
}

fn is_rolled_back(journal: &Journal, id: u64) -> anyhow::Result<bool> {
    let history = journal.history()?;
    let status = history.entry(id).map(Entry::status);
    Ok(status == Some(Status::RolledBack))
}

/// What was rolled back before another one failed: the answer is an error then.
fn tell_before_error(recovered: &[Recovered], output: &Output) {
    for Recovered { id, undone, .. } in recovered {
        let changes = human::count(undone.len() as u64, "change");
        output.important(format!("transaction {id}: rolled back {changes}"));
    }
}

pub(crate) fn recover(_args: &RecoverArgs, output: &Output) -> anyhow::Result<Exit> {
    let (mut recovered, nothing) = (Vec::new(), "Nothing to recover.");
    if let Some(journal) = existing_journal()? {
        let _guard = guard_if_possible(&journal, output);
        recovered = journal.recover()?;
    }
    note_root("recover", output);
    finish("recover", recovered, nothing, output)
}

/// Says what removing files does not do.
fn tell_of_boots(journal: &Journal, all: &[Recovered], output: &Output) -> anyhow::Result<()> {
    let history = journal.history()?;
    let is_of_earlier_boot = |id: u64| {
        let owner = history.entry(id).map(|entry: &Entry| &entry.owner);
        owner.is_some_and(|owner| owner.is_of_another_boot().unwrap_or(false))
    };
    let is_removed = |file: &&RemovedFile| file.how == Removal::Removed;
    for Recovered { id, files, .. } in all {
        if files.iter().any(|file| is_removed(&file)) && is_of_earlier_boot(*id) {
            output.note(format!(
                "what the files of transaction {id} set at boot stays in force until the next boot"
            ));
        }
    }
    let removed = all.iter().flat_map(|recovered| &recovered.files);
    let paths = removed.filter(is_removed).map(|file| &file.path);
    if let Some(text) = persist::reload_note(paths) {
        output.note(text);
    }
    Ok(())
}

/// Finishes the undoing where this process is killed. Without one it is done all the same: the next
/// start of any command would finish it.
fn guard_if_possible(journal: &Journal, output: &Output) -> Option<Guard> {
    guard::start(journal, false)
        .map_err(|error| output.note(format!("{error}")))
        .ok()
}

/// Rolls back what an interrupted run has left, with a word. Where that is not possible, the
/// command that was asked for is run all the same, and `status` tells.
pub(crate) fn finish_interrupted(output: &Output) {
    let recovered = Journal::default_directory().and_then(Journal::recover_in);
    tell(&recovered.unwrap_or_default(), output);
}

/// Tells what an interrupted run had left.
pub(crate) fn tell(recovered: &[Recovered], output: &Output) {
    for Recovered {
        id,
        reason,
        undone,
        files,
    } in recovered
    {
        output.note(format!(
            "transaction {id} ({reason}) was interrupted or not confirmed; rolled back {}",
            human::count(undone.len() as u64, "change")
        ));
        for RemovedFile { path, how } in files {
            output.note(format!("  {}: {how}", path.display()));
        }
        for undone in undone {
            output.note(format!("  {}: {}", undone.change.knob, undone.how));
        }
    }
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
    let files = recovered.iter().flat_map(|recovered| &recovered.files);
    let failed_files = files.filter(|file| matches!(file.how, Removal::Failed { .. }));
    let failed = failed + failed_files.count();
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
                target: undone.target,
                result: undone.how.name(),
                text: undone.how.to_string(),
            })
            .collect(),
        files: recovered
            .files
            .into_iter()
            .map(|file| FileRow {
                result: file.how.name(),
                text: file.how.to_string(),
                path: file.path,
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
        if transaction.changes.is_empty() && transaction.files.is_empty() {
            text.push_str("   no change\n");
        }
        if !transaction.changes.is_empty() {
            let mut table = output::indented_table(&["  KNOB", "WHERE", "RESULT"]);
            for row in &transaction.changes {
                table.add_row([&format!("  {}", row.knob), &row.target, &row.text]);
            }
            text.push_str(&output::render(&table));
        }
        if !transaction.files.is_empty() {
            let mut table = output::table(&["  FILE", "RESULT"]);
            for row in &transaction.files {
                table.add_row([&format!("  {}", row.path.display()), &row.text]);
            }
            text.push_str(&output::render(&table));
        }
    }
    text
}
