//! The guard: a process that rolls back the unconfirmed changes of one that died, hangs, or left
//! them on trial.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use linux::Journal;
use linux::journal::{Guard, stand_guard};

use super::apply::undo;
use crate::exit::Exit;
use crate::interrupt;
use crate::output::Output;

/// This program, also after its file was replaced by an update.
pub(crate) const OWN_PROGRAM: &str = "/proc/self/exe";

/// Undo what the process that started this one leaves unconfirmed (started by other commands).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory of the journal.
    directory: PathBuf,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    // It ends when it has undone what is left, however often it is asked to: who stops a machine
    // may do so twice.
    interrupt::hand_over(|_| ());
    undo::tell(
        &stand_guard(&args.directory, interrupt::stop_flag())?,
        output,
    );
    Ok(Exit::Done)
}

/// Starts a guard of this process; `outlives` says that it may go on after this one.
pub(crate) fn start(journal: &Journal, outlives: bool) -> anyhow::Result<Guard> {
    let directory = std::path::absolute(journal.directory()).context("finding the journal")?;
    start_for(&directory, outlives)
}

fn start_for(directory: &Path, outlives: bool) -> anyhow::Result<Guard> {
    let mut command = Command::new(OWN_PROGRAM);
    command.arg0("tcptailor").arg("guard").arg(directory);
    if outlives {
        // A reader that waits for the end of this output waits for this process alone.
        command.stderr(Stdio::null());
    }
    Ok(Guard::start(&mut command)?)
}
