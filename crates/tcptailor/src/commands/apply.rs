//! Changes under a journal.

mod persist;
pub(crate) mod status;
pub(crate) mod trial;
pub(crate) mod undo;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{Change, find_knob};
use linux::journal::{Applied, Entry, Guard, Status, Step, Transaction};
use linux::{Clock, Journal, Plan, Setting};
use serde::Serialize;

use crate::commands::guard;
use crate::exit::{Exit, Problem};
use crate::output::{self, Output};

/// Making all changes of a plan takes less than this; a process that takes longer hangs.
const HANG: Duration = Duration::from_secs(120);

/// Apply the changes of a plan; each can be rolled back.
///
/// Either all changes are made or none: if one fails, the earlier ones are rolled back. They stay
/// in force until `tcptailor rollback`, or until the next reboot; with --persist they are
/// made again at every boot, until `tcptailor rollback`. With --confirm-within they
/// are rolled back unless you confirm them in time: press Enter, or run `tcptailor confirm`. A
/// change that breaks your own connection therefore does not lock you out.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor diagnose --pid 4127 -o plan.json    make a plan
  tcptailor apply plan.json -n                  show what it would change
  tcptailor apply plan.json --dry-run=sh        the same as shell commands
  tcptailor apply plan.json                     do it
  tcptailor apply plan.json --confirm-within 60s     roll back unless confirmed in time
  tcptailor apply plan.json --persist           also at every boot, by files in /etc
  tcptailor rollback                            roll back, and remove the files")]
pub(crate) struct Args {
    /// The plan, as `tcptailor diagnose -o` writes it.
    #[arg(value_name = "PLAN.json")]
    plan: PathBuf,
    /// Print what would be changed, or the equivalent shell commands; change nothing.
    #[arg(
        short = 'n',
        long,
        value_name = "FORM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "table",
        conflicts_with = "confirm_within"
    )]
    dry_run: Option<DryRun>,
    /// Roll back after this time unless the changes are confirmed. On a terminal, also when Ctrl-C
    /// is pressed or the terminal is lost.
    #[arg(long, value_name = "TIME", value_parser = trial::parse_time)]
    confirm_within: Option<Duration>,
    /// Make the changes again at every boot: kernel parameters by a file in sysctl.d; routes,
    /// interfaces and queues by a systemd unit. Needs root; sockets cannot persist.
    #[arg(long)]
    persist: bool,
    /// Set what a plan of --persist says (started by its unit).
    #[arg(long, hide = true, conflicts_with_all = ["persist", "dry_run", "confirm_within"])]
    at_boot: bool,
}

/// What a dry run prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DryRun {
    /// Old and new values.
    Table,
    /// Shell commands.
    Sh,
}

#[derive(Serialize)]
struct ApplyReport {
    /// Number of the transaction; nothing for a dry run.
    transaction: Option<u64>,
    dry_run: bool,
    /// How long the changes are in force unless they are confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    confirm_within_s: Option<f64>,
    changes: Vec<ChangeRow>,
    /// Files that make the changes at every boot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<PathBuf>,
}

#[derive(Serialize)]
struct ChangeRow {
    knob: String,
    target: String,
    from: String,
    to: String,
    /// Value set by the kernel; `None` for a dry run.
    now: Option<String>,
    /// Whether it was so already.
    already: bool,
    /// A shell command that does the same, or a comment; only with `--dry-run=sh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    if args.at_boot {
        return persist::at_boot(&args.plan, output);
    }
    let plan = read_plan(&args.plan)?;
    or_as_root(plan.check_present(&args.plan))?;
    let persistence = match args.persist {
        true => Some(persist::prepare(&plan.changes())?),
        false => None,
    };
    if let Some(form) = args.dry_run {
        let mut report = or_as_root(preview(&plan, form))?;
        report.files = persistence.as_ref().map_or(Vec::new(), persist::planned);
        output.report("apply", &report, || match form {
            DryRun::Table => changes_table(&report),
            DryRun::Sh => script(&report),
        })?;
        if form == DryRun::Sh
            && let Some(what) = beyond_a_shell(&report)
        {
            output.note(format!("note: {what}; use `tcptailor apply`"));
        }
        return Ok(Exit::Done);
    }
    let journal = open_journal()?;
    let on_terminal = trial::can_ask(output);
    let left_alone = args.confirm_within.is_some() && !on_terminal;
    let mut guard = guard::start(&journal, left_alone)?;
    guard.give_until(Clock.now() + HANG)?;
    let mut transaction = journal.begin(&format!("apply {}", args.plan.display()))?;
    undo::tell(transaction.recovered(), output);
    let applied = or_as_root(transaction.apply_all(&plan.changes()))?;
    let files = match &persistence {
        Some(persistence) => {
            persist::tell_overridden(persistence, transaction.id(), output);
            persist::write(persistence, &mut transaction, &args.plan)?
        }
        None => Vec::new(),
    };
    let changed = applied.iter().any(|applied| !applied.already) || !files.is_empty();
    let report = ApplyReport {
        transaction: changed.then_some(transaction.id()),
        dry_run: false,
        confirm_within_s: args
            .confirm_within
            .filter(|_| changed)
            .map(|time| time.as_secs_f64()),
        changes: applied.iter().map(row_of).collect(),
        files,
    };
    let done = Made {
        journal: &journal,
        guard,
        transaction,
    };
    match args.confirm_within {
        _ if !changed => done.nothing(&report, &plan.changes(), output),
        None => done.keep(&report, output),
        Some(time) if on_terminal => done.ask(time, &report, output),
        Some(time) => done.leave(time, &report, output),
    }
}

/// Changes that were made and not decided on.
struct Made<'j> {
    journal: &'j Journal,
    guard: Guard,
    transaction: Transaction,
}

impl Made<'_> {
    /// Everything was so already, perhaps because another transaction set it on trial.
    fn nothing(
        self,
        report: &ApplyReport,
        wanted: &[Change],
        output: &Output,
    ) -> anyhow::Result<Exit> {
        // Nothing that could be undone later.
        self.transaction.roll_back();
        show(report, output)?;
        note(output, "Nothing was changed.");
        // What was asked for is done, whether the journal can be read or not.
        let history = self.journal.history();
        for entry in history.map_or(Vec::new(), |history| history.entries) {
            let is_of_these = |step: &Step| !step.undone && wanted.contains(&step.change);
            let until = entry.lease.filter(|_| entry.status() == Status::Leased);
            if let Some(until) = until.filter(|_| entry.steps.iter().any(is_of_these)) {
                let (id, until) = (entry.id, output::rfc3339(until.until_unix_ms / 1000));
                note(
                    output,
                    &format!(
                        "Transaction {id}, which set this, is rolled back at {until} unless \
                         confirmed: tcptailor confirm {id}"
                    ),
                );
            }
        }
        Ok(Exit::Done)
    }

    fn keep(self, report: &ApplyReport, output: &Output) -> anyhow::Result<Exit> {
        let id = self.transaction.id();
        self.transaction.keep()?;
        show(report, output)?;
        note(output, &format!("Undo with: tcptailor rollback {id}"));
        if let Some(text) = persist::reload_note(report.files.iter()) {
            note(output, text);
        }
        Ok(Exit::Done)
    }

    /// Asks for a confirmation and waits for it.
    fn ask(
        mut self,
        time: Duration,
        report: &ApplyReport,
        output: &Output,
    ) -> anyhow::Result<Exit> {
        let (id, until) = (self.transaction.id(), Clock.now() + time);
        self.guard.give_until(until + HANG)?;
        self.transaction.lease(until)?;
        // Whether it can be shown or not: a terminal that is gone confirms nothing.
        let outcome =
            show(report, output).and_then(|()| trial::ask(self.journal, id, until, output));
        if outcome.is_err() {
            let history = self.journal.history()?;
            // Unless that it was is the reason.
            if history.entry(id).map(Entry::status) != Some(Status::RolledBack) {
                self.journal.roll_back(id)?;
            }
        }
        outcome
    }

    /// Leaves the changes to a guard that outlives this process.
    fn leave(self, time: Duration, report: &ApplyReport, output: &Output) -> anyhow::Result<Exit> {
        let (id, until) = (self.transaction.id(), Clock.now() + time);
        self.transaction.lease(until)?;
        self.guard.detach(until)?;
        show(report, output)?;
        let shown = base::format_duration(time);
        note(
            output,
            &format!("Rolled back in {shown} unless confirmed: tcptailor confirm {id}"),
        );
        Ok(Exit::Done)
    }
}

fn show(report: &ApplyReport, output: &Output) -> anyhow::Result<()> {
    output.report("apply", report, || changes_table(report))
}

fn note(output: &Output, text: &str) {
    if !output.is_json() {
        output.note(text);
    }
}

fn read_plan(path: &Path) -> anyhow::Result<Plan> {
    Plan::read(path).map_err(|error| match error {
        linux::Error::File { .. } | linux::Error::NotFound { .. } => Problem::usage(error).into(),
        other => other.into(),
    })
}

/// Adds to a failure for lack of a permission how to get it.
fn or_as_root<T>(outcome: linux::Result<T>) -> anyhow::Result<T> {
    outcome.map_err(|error| match error {
        linux::Error::Permission { .. } if linux::privilege::user_id() != 0 => {
            let hint = "Type the same command behind `sudo`.";
            Problem::missing(error).hint(hint).into()
        }
        other => other.into(),
    })
}

/// Effect of a plan, without applying it.
fn preview(plan: &Plan, form: DryRun) -> linux::Result<ApplyReport> {
    let mut changes = Vec::new();
    for change in &plan.changes() {
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
        confirm_within_s: None,
        changes,
        files: Vec::new(),
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
    text.push_str(&persist::files_text(&report.files, report.dry_run));
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
    for line in persist::files_text(&report.files, true).lines() {
        writeln!(text, "# {line}").expect("a String grows");
    }
    if let Some(what) = beyond_a_shell(report) {
        // Who runs it must not take it for the whole plan.
        writeln!(
            text,
            "echo '{what}; use tcptailor apply' >&2\nexit {}",
            Exit::Failed.number()
        )
        .expect("a String grows");
    }
    text
}

/// What of the changes has no shell command, if anything: only a comment stands in the script for
/// it. What is so already needs none.
fn beyond_a_shell(report: &ApplyReport) -> Option<String> {
    let is_beyond = |row: &&ChangeRow| {
        let is_comment = |command: &String| command.starts_with('#');
        !row.already && row.command.as_ref().is_some_and(is_comment)
    };
    let (count, all) = (
        report.changes.iter().filter(is_beyond).count(),
        report.changes.len(),
    );
    (count > 0).then(|| format!("{count} of {all} changes cannot be made by a shell command"))
}

/// Tells, where root has another journal, that it is not read here.
fn note_root(command: &str, output: &Output) {
    if let Some(path) = Journal::of_root() {
        output.important(format!(
            "note: this user cannot read the journal of root, {}; for changes made by root, type \
             `sudo tcptailor {command}`",
            path.display()
        ));
    }
}

/// Why it is an error that this user has nothing: root has another journal, and only root knows
/// what is in force by it.
fn only_root_knows(what: &str, command: &str) -> Option<Problem> {
    let path = Journal::of_root()?;
    let message = format!(
        "{what}; the journal of root, {}, cannot be read by this user",
        path.display()
    );
    let hint = format!("For changes made by root, type `sudo tcptailor {command}`.");
    Some(Problem::missing(message).hint(hint))
}

/// The journal, where there is one. Who looks or undoes makes none: the disk may be read-only.
fn existing_journal() -> anyhow::Result<Option<Journal>> {
    Ok(Journal::open_existing(Journal::default_directory()?)?)
}

fn open_journal() -> anyhow::Result<Journal> {
    Ok(Journal::open(Journal::default_directory()?)?)
}
