//! What this machine allows.

use crate::exit::Exit;
use crate::output::Output;

/// Show what this machine allows, and how to allow the rest.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args, _output: &Output) -> anyhow::Result<Exit> {
    anyhow::bail!("this command is not part of this build yet")
}
