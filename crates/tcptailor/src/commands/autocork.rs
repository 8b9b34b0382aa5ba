//! Runs another program with its small writes joined.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use linux::autocork;

use crate::exit::{Exit, Problem};

/// Run a program with its small writes joined.
///
/// Preloads the library `libtcptailor_autocork.so`. A socket on which the program sets
/// `TCP_NODELAY` is also corked: its writes are sent together when the program reads or waits for
/// the answer. The program is not changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor autocork -- ./client server 5001
  tcptailor autocork --stats -- tcptailor nodelay-client localhost 5001 10000 no_delay
  LD_PRELOAD=/path/to/libtcptailor_autocork.so ./client server 5001      the same by hand

Works with dynamically linked programs that use the C library. Helps where a message is written in
parts and a response is read; what a program writes before it sleeps is sent up to 200 ms late.")]
pub(crate) struct Args {
    /// When the program exits, print on stderr how many writes were joined.
    #[arg(long)]
    stats: bool,
    /// Join at most this many writes of a connection.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_writes: Option<u32>,
    /// The program and its arguments.
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let library = autocork::find_library()?;
    let (program, rest) = args.command.split_first().expect("clap asks for one");
    let mut command = Command::new(program);
    command
        .args(rest)
        .env("LD_PRELOAD", autocork::preload(&library)?);
    if args.stats {
        command.env(autocork::STATS_VARIABLE, "1");
    }
    if let Some(writes) = args.max_writes {
        command.env(autocork::MAX_VARIABLE, writes.to_string());
    }
    // It returns only where the program cannot be started.
    Err(Problem::not_started(program, &command.exec()).into())
}
