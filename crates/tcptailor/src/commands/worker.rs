//! The child process that runs a workload inside a namespace.

use crate::exit::Exit;
use crate::output::Output;

/// Run one side of a workload (started by the other commands).
///
/// Reads a line of JSON from stdin, reports lines of JSON on stdout, and ends with its stdin.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args, _output: &Output) -> anyhow::Result<Exit> {
    // What went wrong has been reported to the parent.
    Ok(match linux::run_worker_process() {
        Ok(()) => Exit::Done,
        Err(_) => Exit::Failed,
    })
}
