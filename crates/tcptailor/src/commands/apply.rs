//! Changes under a journal: apply, status, rollback, recover.

use crate::exit::Exit;
use crate::output::Output;

/// Apply the changes of a plan, under a journal that can undo them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args, _output: &Output) -> anyhow::Result<Exit> {
    anyhow::bail!("this command is not part of this build yet")
}

/// Show the changes that are in force.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {}

/// Undo changes, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct RollbackArgs {}

/// Undo what a killed tcptailor left half done.
#[derive(Debug, clap::Args)]
pub(crate) struct RecoverArgs {}

pub(crate) fn status(_args: StatusArgs, _output: &Output) -> anyhow::Result<Exit> {
    anyhow::bail!("this command is not part of this build yet")
}

pub(crate) fn rollback(_args: RollbackArgs, _output: &Output) -> anyhow::Result<Exit> {
    anyhow::bail!("this command is not part of this build yet")
}

pub(crate) fn recover(_args: RecoverArgs, _output: &Output) -> anyhow::Result<Exit> {
    anyhow::bail!("this command is not part of this build yet")
}
