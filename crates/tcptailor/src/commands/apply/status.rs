//! Changes in force, with their transactions.

use std::fmt::Write;
use std::path::PathBuf;

use linux::journal::{Entry, FileContent, History, Status, Unusable};
use linux::{Journal, SinceBoot};
use serde::Serialize;

use super::{existing_journal, note_root, shown};
use crate::exit::Exit;
use crate::output::{self, Output};

/// Show the changes in force.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor status             changes in force, by transaction
  tcptailor status --all       also what was rolled back, or ended with its process
  tcptailor status --json      for scripts: transactions[].changes[].presence
  sudo tcptailor status        what root has changed: each user has a journal of their own")]
pub(crate) struct Args {
    /// Include changes that were rolled back, or whose process or namespace has ended.
    #[arg(short, long)]
    all: bool,
}

#[derive(Serialize)]
struct StatusReport {
    journal: PathBuf,
    transactions: Vec<TransactionRow>,
    /// Files of the journal that tell nothing.
    unusable: Vec<UnusableRow>,
    /// The journal of root, where it is another one: what is in force by it is not told here.
    root_journal: Option<PathBuf>,
}

#[derive(Serialize)]
struct UnusableRow {
    path: PathBuf,
    why: String,
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
    /// Damage of its file.
    damage: Option<String>,
    /// When its changes are rolled back unless they are confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    confirm_until: Option<String>,
    changes: Vec<StepRow>,
    /// Files that make the changes at every boot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<FileRow>,
}

#[derive(Serialize)]
struct FileRow {
    path: PathBuf,
    state: String,
}

#[derive(Serialize)]
struct StepRow {
    knob: String,
    target: String,
    from: String,
    to: String,
    presence: String,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let history = match existing_journal()? {
        Some(journal) => journal.history()?,
        None => History::default(),
    };
    let unusable = |unusable: &Unusable| UnusableRow {
        path: unusable.path.clone(),
        why: unusable.why.clone(),
    };
    let report = StatusReport {
        journal: Journal::default_directory()?,
        transactions: history
            .entries
            .iter()
            .filter(|entry| args.all || history.is_in_force(entry))
            .map(|entry| transaction_row(&history, entry))
            .collect(),
        unusable: history.unusable.iter().map(unusable).collect(),
        root_journal: Journal::of_root(),
    };
    output.report("status", &report, || status_text(&report))?;
    note_root("status", output);
    Ok(Exit::Done)
}

fn transaction_row(history: &History, entry: &Entry) -> TransactionRow {
    TransactionRow {
        id: entry.id,
        reason: entry.reason.clone(),
        time: output::rfc3339(entry.time_unix_ms / 1000),
        status: entry.status(),
        pid: entry.owner.pid,
        alive: entry.owner.is_alive(),
        verified: entry.verified.as_ref().map(|(_, note)| note.clone()),
        damage: entry.damage.clone(),
        confirm_until: (entry.status() == Status::Leased)
            .then_some(entry.lease)
            .flatten()
            .map(|lease| output::rfc3339(lease.until_unix_ms / 1000)),
        changes: entry
            .steps
            .iter()
            .map(|step| StepRow {
                knob: step.change.knob.clone(),
                target: step.target_from_here(),
                from: step.old.to_string(),
                to: match &step.now {
                    Some(now) => now.to_string(),
                    None => shown(&step.change),
                },
                presence: match SinceBoot::of(entry, step) {
                    Some(since) => since.to_string(),
                    None => history.presence(step).to_string(),
                },
            })
            .collect(),
        files: entry
            .files
            .iter()
            .filter(|file| file.content != FileContent::Directory)
            .map(|file| FileRow {
                path: file.path.clone(),
                state: match file.undone {
                    true => "removed or left alone".into(),
                    false => file.presence().to_string(),
                },
            })
            .collect(),
    }
}

fn status_text(report: &StatusReport) -> String {
    let mut text = String::new();
    for unusable in &report.unusable {
        let path = unusable.path.display();
        writeln!(text, "unusable: {path}: {}", unusable.why).expect("a String grows");
    }
    if report.transactions.is_empty() {
        let journal = report.journal.display();
        let of_whom = match report.root_journal {
            Some(_) => " of yours",
            None => "",
        };
        writeln!(
            text,
            "No changes{of_whom} are in force. (journal: {journal})"
        )
        .expect("a String grows");
        return text;
    }
    for row in &report.transactions {
        let how = how_it_stands(row);
        writeln!(text, "{}  {}  {}: {how}", row.id, row.time, row.reason).expect("a String grows");
        if let Some(note) = &row.verified {
            writeln!(text, "   {note}").expect("a String grows");
        }
        if row.changes.is_empty() {
            let is_over = matches!(row.status, Status::RolledBack);
            if !is_over && row.files.is_empty() {
                text.push_str("   no change yet\n");
            }
            text.push_str(&files_text(&row.files));
            continue;
        }
        let mut table = output::indented_table(&["  KNOB", "WHERE", "WAS", "SET TO", "STATE"]);
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
        text.push_str(&files_text(&row.files));
    }
    text
}

/// What has become of a transaction.
fn how_it_stands(row: &TransactionRow) -> String {
    match row.status {
        Status::Kept => "kept".into(),
        // There was nothing to undo.
        Status::RolledBack if row.changes.is_empty() && row.files.is_empty() => {
            "changed nothing (all values were set already, or the first could not be)".into()
        }
        Status::RolledBack => "rolled back".into(),
        Status::Pending | Status::RollingBack if row.alive => {
            format!("at work now (process {})", row.pid)
        }
        Status::Leased => {
            let until = row.confirm_until.as_deref().unwrap_or("now");
            let id = row.id;
            format!("rolled back at {until} unless confirmed: tcptailor confirm {id}")
        }
        Status::Pending => "interrupted; run `tcptailor recover`".into(),
        Status::RollingBack => "its rollback was interrupted; run `tcptailor recover`".into(),
        _ => {
            let damage = row.damage.as_deref().unwrap_or("its file is damaged");
            let id = row.id;
            format!("{damage}; `tcptailor rollback {id}` undoes what can be read of it")
        }
    }
}

fn files_text(files: &[FileRow]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let mut table = output::table(&["  SET AT EVERY BOOT BY", "STATE"]);
    for file in files {
        table.add_row([&format!("  {}", file.path.display()), &file.state]);
    }
    output::render(&table)
}
