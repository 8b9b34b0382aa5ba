//! The other side of bench and fit.

use crate::exit::Exit;
use crate::output::Output;

/// Answer `bench` and `fit` of other machines.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args, _output: &Output) -> anyhow::Result<Exit> {
    anyhow::bail!("this command is not part of this build yet")
}
