//! Lab paths on this machine.

use crate::exit::Exit;
use crate::output::Output;

/// Run scenarios and faults on lab paths of this machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args, _output: &Output) -> anyhow::Result<Exit> {
    anyhow::bail!("this command is not part of this build yet")
}
