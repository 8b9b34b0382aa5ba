//! The program: command line, tables, JSON. The libraries do the work, and never print.
#![forbid(unsafe_code)]

mod cli;
mod commands;
mod exit;
mod help;
mod interrupt;
mod output;
mod progress;
mod subject;

use std::process::ExitCode;

use crate::cli::Cli;
use crate::output::Output;

fn main() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => return exit::refuse(&error),
    };
    let output = Output::new(&cli.globals);
    // In this order: permissions are given to a process with one thread only.
    commands::prepare(&cli.command);
    let outcome = interrupt::install().and_then(|()| commands::run(cli.command, &output));
    exit::finish(outcome, &output)
}
