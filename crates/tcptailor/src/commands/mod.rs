//! The commands, a module each: its flags, what it does, how it shows the result.

pub(crate) mod apply;
pub(crate) mod autocork;
pub(crate) mod bdp;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod diagnose;
pub(crate) mod fit;
pub(crate) mod guard;
pub(crate) mod knobs;
pub(crate) mod lab;
pub(crate) mod man_pages;
pub(crate) mod nodelay;
pub(crate) mod predict;
pub(crate) mod record;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod stack;
pub(crate) mod top;
pub(crate) mod watch;
pub(crate) mod watching;
pub(crate) mod worker;
pub(crate) mod workers;

use linux::privilege;

use crate::cli::Command;
use crate::exit::Exit;
use crate::output::Output;

/// Gets the permissions that a lab path needs and an ordinary user does not have, in a user
/// namespace, where that is allowed. Where it is not, setting up the path reports what is missing:
/// mistakes in what the user typed come first. To be called while the program has one thread only.
pub(crate) fn prepare(command: &Command) {
    let lays_path = match command {
        Command::Fit(args) => args.lays_path(),
        Command::Lab(args) => args.lays_path(),
        _ => false,
    };
    if lays_path && !privilege::may_make_paths() {
        let _ = privilege::enter_user_namespace();
    }
}

/// Runs one command.
pub(crate) fn run(command: Command, output: &Output) -> anyhow::Result<Exit> {
    // `recover` tells of each change what became of it, two are parts of a command, and two make
    // files for packages.
    let is_apart = matches!(
        command,
        Command::Worker(_)
            | Command::Guard(_)
            | Command::Recover(_)
            | Command::Completions(_)
            | Command::ManPages(_)
    );
    if !is_apart {
        apply::undo::finish_interrupted(output);
    }
    match command {
        Command::Fit(args) => fit::run(&args, output),
        Command::Diagnose(args) => diagnose::run(&args, output),
        Command::Predict(args) => predict::run(&args, output),
        Command::Record(args) => record::run(&args, output),
        Command::Watch(args) => watch::run(&args, output),
        Command::Top(args) => top::run(&args, output),
        Command::Run(args) => run::run(&args, output),
        Command::Bdp(args) => bdp::run(&args, output),
        Command::Bench(args) => bench::run(&args, output),
        Command::Serve(args) => serve::run(&args, output),
        Command::NodelayServer(args) => nodelay::server(&args, output),
        Command::NodelayClient(args) => nodelay::client(&args, output),
        Command::Autocork(args) => autocork::run(&args),
        Command::Stack(args) => stack::run(&args, output),
        Command::Apply(args) => apply::run(&args, output),
        Command::Confirm(args) => apply::trial::confirm(&args, output),
        Command::Status(args) => apply::status::run(&args, output),
        Command::Rollback(args) => apply::undo::rollback(&args, output),
        Command::Recover(args) => apply::undo::recover(&args, output),
        Command::Lab(args) => lab::run(&args, output),
        Command::Check(args) => check::run(&args, output),
        Command::Knobs(args) => knobs::run(&args, output),
        Command::Completions(args) => completions::run(&args, output),
        Command::ManPages(args) => man_pages::run(&args),
        Command::Guard(args) => guard::run(&args, output),
        Command::Worker(args) => worker::run(&args, output),
    }
}
