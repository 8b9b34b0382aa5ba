//! Changes on trial: kept if confirmed in time, otherwise rolled back.

use std::io::{self, IsTerminal};
use std::ops::RangeInclusive;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use base::Instant;
use linux::journal::{Entry, History, Status};
use linux::{Clock, Journal};
use serde::Serialize;

use super::{existing_journal, only_root_knows};
use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::Output;

/// A trial is long enough to type a word, and no longer than a day.
const RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
/// How often a wait looks whether something happened.
const LOOK: Duration = Duration::from_millis(200);

/// Confirm changes that are pending (`apply --confirm-within`).
///
/// Without confirmation they are rolled back when the time given to `--confirm-within` is
/// over.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor confirm            keep all pending changes
  tcptailor confirm 7          keep transaction 7 of `tcptailor status`
  tcptailor rollback           roll back now instead of waiting")]
pub(crate) struct Args {
    /// Number of the transaction, as `tcptailor status` shows it; all pending ones by
    /// default.
    #[arg(value_name = "ID", value_parser = super::undo::transaction_number)]
    id: Option<u64>,
}

#[derive(Serialize)]
struct Document {
    /// The transactions that were confirmed.
    confirmed: Vec<u64>,
}

pub(crate) fn confirm(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let journal = existing_journal()?;
    let history = match &journal {
        Some(journal) => journal.history()?,
        None => History::default(),
    };
    let ids = match args.id {
        Some(id) if history.entry(id).is_none() => Vec::new(),
        Some(id) => vec![id],
        None => on_trial(&history),
    };
    let Some(journal) = journal.filter(|_| !ids.is_empty()) else {
        return Err(nothing_waits(args.id).into());
    };
    for id in &ids {
        journal.confirm(*id)?;
    }
    let document = Document { confirmed: ids };
    output.report("confirm", &document, || {
        let shown: Vec<String> = document.confirmed.iter().map(ToString::to_string).collect();
        format!("Kept: transaction {}.\n", shown.join(", "))
    })?;
    Ok(Exit::Done)
}

/// Why there is nothing to confirm, as far as this user knows.
fn nothing_waits(id: Option<u64>) -> Problem {
    let (message, what, command) = match id {
        Some(id) => (
            format!("transaction `{id}` does not exist; `tcptailor status` lists them"),
            format!("you have made no transaction `{id}`"),
            format!("confirm {id}"),
        ),
        None => (
            "no change is waiting for a confirmation; `tcptailor status --all` shows what was \
             rolled back"
                .into(),
            "no change of yours is waiting for a confirmation".into(),
            "confirm".into(),
        ),
    };
    only_root_knows(&what, &command).unwrap_or_else(|| Problem::failed(message))
}

fn on_trial(history: &History) -> Vec<u64> {
    let is_on_trial = |entry: &&Entry| entry.status() == Status::Leased && !entry.is_interrupted();
    history
        .entries
        .iter()
        .filter(is_on_trial)
        .map(|entry| entry.id)
        .collect()
}

/// `60s`.
pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    let time = base::parse_time(text).map_err(|error| error.to_string())?;
    match RANGE.contains(&time) {
        true => Ok(time),
        false => Err("the range is 1s to 24h".into()),
    }
}

/// Whether there is a user to ask.
pub(super) fn can_ask(output: &Output) -> bool {
    !output.is_json() && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Waits for a confirmation by the Enter key or by `tcptailor confirm`, and rolls back where none
/// comes.
pub(super) fn ask(
    journal: &Journal,
    id: u64,
    until: Instant,
    output: &Output,
) -> anyhow::Result<Exit> {
    // An Enter typed before the question is not an answer to it.
    linux::discard_typed();
    let time = base::format_duration(Duration::from_secs(until.since(Clock.now()).as_secs() + 1));
    output.note(format!(
        "Press Enter within {time} to keep this, Ctrl-C to roll it back now."
    ));
    let enter = enter_key();
    loop {
        let pressed = enter.recv_timeout(LOOK);
        let status = journal.history()?.entry(id).map(Entry::status);
        match (status, pressed) {
            (Some(Status::Leased), Ok(())) => {
                journal.confirm(id)?;
                output.note(format!("Kept. Undo with: tcptailor rollback {id}"));
                return Ok(Exit::Done);
            }
            (Some(Status::Leased), _) if interrupt::stopped() => {
                journal.roll_back(id)?;
                output.note("Rolled back.");
                return Ok(Exit::Interrupted);
            }
            (Some(Status::Leased), _) if Clock.now() >= until => {
                journal.roll_back(id)?;
                return Err(Problem::failed("not confirmed in time; rolled back").into());
            }
            (Some(Status::Leased), Err(RecvTimeoutError::Disconnected)) => {
                std::thread::sleep(LOOK);
            }
            (Some(Status::Leased), Err(RecvTimeoutError::Timeout)) => {}
            (Some(Status::Kept), _) => {
                output.note(format!(
                    "Kept by `tcptailor confirm`. Undo with: tcptailor rollback {id}"
                ));
                return Ok(Exit::Done);
            }
            _ => return Err(Problem::failed("it was rolled back meanwhile").into()),
        }
    }
}

/// Hears of the Enter key. The thread ends with the process.
fn enter_key() -> Receiver<()> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        if io::stdin()
            .read_line(&mut line)
            .is_ok_and(|count| count > 0)
        {
            // The caller no longer waits.
            let _ = sender.send(());
        }
    });
    receiver
}
