//! The child process that runs a workload inside a namespace.

use crate::exit::Exit;
use crate::output::Output;

/// Run one side of a workload (started by the other commands).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args, _output: &Output) -> anyhow::Result<Exit> {
    anyhow::bail!("this command is not part of this build yet")
}
