//! Measures against a host that runs serve.

use crate::exit::Exit;
use crate::output::Output;

/// Measure against a host that runs `tcptailor serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args, _output: &Output) -> anyhow::Result<Exit> {
    anyhow::bail!("this command is not part of this build yet")
}
