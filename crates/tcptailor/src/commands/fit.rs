//! The main job: measure, name the limit, change, verify, keep or roll back.

use crate::exit::Exit;
use crate::output::Output;

/// Find what limits the traffic to a host or on a lab path, fix it, and prove it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args, _output: &Output) -> anyhow::Result<Exit> {
    anyhow::bail!("this command is not part of this build yet")
}
