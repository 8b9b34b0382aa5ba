//! Our own TCP on a TUN device of this machine.

mod ports;
mod serve;

use clap::Subcommand;

use crate::exit::{self, Exit};
use crate::output::Output;

/// Run our own TCP on a TUN device.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Serve(args) => exit::or_without(serve::run(args, output), NO_DEVICE),
    }
}

/// Remedy where there is no TUN device.
const NO_DEVICE: &str = "Without a device: `tcptailor lab run SCENARIO --engine virtual` runs \
                         tcptailor's own TCP at both ends.";
