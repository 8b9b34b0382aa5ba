//! Changes that are made again at every boot: what `apply --persist` writes, and the boot itself.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base::{Change, human};
use linux::journal::Transaction;
use linux::{Clock, Persistence, SetAtBoot, apply_at_boot};
use serde::Serialize;

use super::shown;
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::{self, Output};

#[derive(Serialize)]
struct BootReport {
    /// The transaction that made the plan.
    transaction: u64,
    changes: Vec<BootRow>,
}

#[derive(Serialize)]
struct BootRow {
    knob: String,
    target: String,
    to: String,
    /// Value read back; `None` where it could not be set.
    now: Option<String>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Checks that all changes can be made at every boot, before any of them is made.
pub(super) fn prepare(changes: &[Change]) -> anyhow::Result<Persistence> {
    let program = std::env::current_exe().context("finding this program")?;
    Ok(Persistence::of(changes, &program)?)
}

/// The files as a dry run shows them.
pub(super) fn planned(persistence: &Persistence) -> Vec<PathBuf> {
    persistence.paths("ID")
}

/// Makes the files of what was changed.
pub(super) fn write(
    persistence: &Persistence,
    transaction: &mut Transaction,
    plan: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let time = output::rfc3339(Clock.unix_millis() / 1000);
    let reason = format!("{}, {time}", plan.display());
    Ok(persistence.write(transaction, &reason)?)
}

/// The files, below the table of changes.
pub(super) fn files_text(files: &[PathBuf], is_dry_run: bool) -> String {
    let mut text = match (files.is_empty(), is_dry_run) {
        (true, _) => return String::new(),
        (false, true) => "At every boot, files that would be written:\n".to_owned(),
        (false, false) => "Set again at every boot by:\n".to_owned(),
    };
    for file in files {
        writeln!(text, "  {}", file.display()).expect("a String grows");
    }
    text
}

/// Warns where later files set something else at boot.
pub(super) fn tell_overridden(persistence: &Persistence, id: u64, output: &Output) {
    for (parameter, file) in persistence.overridden(id) {
        output.note(format!(
            "{} sets {parameter} as well and is read later: at boot its value wins",
            file.display()
        ));
    }
}

/// A command to run after units were written or removed.
pub(super) fn reload_note<'f>(
    mut files: impl Iterator<Item = &'f PathBuf>,
) -> Option<&'static str> {
    let is_unit = |path: &PathBuf| path.extension().is_some_and(|found| found == "service");
    files.any(is_unit).then_some(
        "systemd sees the changed units at the next boot, or now with: systemctl daemon-reload",
    )
}

/// Sets what a plan says, as the unit does at boot.
pub(super) fn at_boot(plan: &Path, output: &Output) -> anyhow::Result<Exit> {
    let outcome = apply_at_boot(plan, interrupt::stop_flag()).map_err(|error| match error {
        linux::Error::File { .. } => anyhow::Error::from(Problem::usage(error)),
        other => other.into(),
    })?;
    let report = BootReport {
        transaction: outcome.transaction,
        changes: outcome.changes.iter().map(boot_row).collect(),
    };
    output.report("apply-at-boot", &report, || boot_text(&report))?;
    let failed = report.changes.iter().filter(|row| row.error.is_some());
    let failed = failed.count() as u64;
    if failed == 0 {
        return Ok(Exit::Done);
    }
    let id = report.transaction;
    output.note(format!(
        "{} not made; `tcptailor rollback {id}` removes the files that ask for it",
        human::count(failed, "change")
    ));
    Ok(Exit::Failed)
}

fn boot_row(set: &SetAtBoot) -> BootRow {
    let outcome = set.outcome.as_ref();
    BootRow {
        knob: set.change.knob.clone(),
        target: set.change.target.to_string(),
        to: shown(&set.change),
        now: outcome.ok().map(|(_, now)| now.to_string()),
        error: outcome.err().map(ToString::to_string),
    }
}

fn boot_text(report: &BootReport) -> String {
    let mut table = output::table(&["KNOB", "WHERE", "SET TO", "NOW"]);
    for row in &report.changes {
        let error = row.error.as_deref().unwrap_or_default();
        let now = match &row.now {
            Some(now) => now.clone(),
            None => format!("NOT set: {error}"),
        };
        table.add_row([row.knob.as_str(), &row.target, &row.to, &now]);
    }
    output::render(&table)
}
