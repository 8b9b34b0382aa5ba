//! What limits the connections of this machine.

use crate::exit::Exit;
use crate::output::Output;

/// Name what limits each connection, with evidence and what to change.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args, _output: &Output) -> anyhow::Result<Exit> {
    anyhow::bail!("this command is not part of this build yet")
}
