//! A program run to its end, and what limited its connections: like `time`, for TCP.
//!
//! The program keeps its terminal, its stdout and its exit code; what is told of it goes to stderr.

mod compare;
mod gain;
mod report;
mod settings;
mod watched;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use base::Netns;
use linux::NetnsHandle;
use linux::supervise::{Filtering, SocketSetting};

use self::report::Report;
use crate::exit::{Exit, Problem};
use crate::output::Output;

/// Run a program and report what limited its connections.
///
/// Watches the TCP connections of the program and of its children from their first packet. When
/// the program exits, reports on stderr what limited them and which change would have helped.
/// --set applies socket options without changing the program, whatever language it is written in.
/// Exits with the program's exit code.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor run -- curl -sO https://example.org/file       what limits this download?
  tcptailor run -o report.txt -- make fetch                the report into a file
  tcptailor run --set nodelay=on -- ./client 10.0.0.9      with other settings
  tcptailor run --set sndbuf=auto --set rcvbuf=auto -- ./backup    let the kernel size the buffers
  tcptailor run --fit -- ./query.sh                        which setting helps?
  tcptailor run --fit --set congestion=bbr -- ./upload     does this setting help?
  tcptailor run --record slow.rec -- ./client              for `tcptailor diagnose ./slow.rec`

Settings are those knobs of `tcptailor knobs` that belong to a socket; `auto` leaves a buffer to
the kernel. They are set before a socket connects or listens, and stay: where the program sets the
same option itself, the call succeeds and has no effect. They end with the program.

--fit runs the command up to 33 times: use it only for a command that may be run again. No change
is kept.

Without CAP_SYS_ADMIN the program is started with no_new_privs: set-uid programs such as sudo and
ping gain no privileges in it (--no-notify avoids that). Connections through io_uring are seen late
and get no settings.

Exit codes: that of the program; 128 and the number of the signal that ended it; 126 or 127 if it
cannot be run or found. With --fit: 0 better, or nothing to try; 5 worse; 6 no significant
difference.")]
pub(crate) struct Args {
    /// Set this option on the program's sockets.
    #[arg(long, value_name = "KNOB=VALUE")]
    set: Vec<SocketSetting>,
    /// Run the command again, alternating with and without the change, and report whether it
    /// helps. The change is that of --set, or else the one that the first run suggests.
    #[arg(long)]
    fit: bool,
    /// What --fit compares.
    #[arg(long, value_name = "METRIC", default_value = "time", requires = "fit")]
    metric: compare::Metric,
    /// The longest time that --fit may take.
    #[arg(long, value_name = "TIME", default_value = "3m", requires = "fit")]
    #[arg(value_parser = base::parse_time)]
    max_time: Duration,
    /// Write the report into this file, and not to stderr.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Save what was seen, as `tcptailor record` does.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Run the program in this network namespace (`ip netns` lists them).
    #[arg(short = 'N', long, value_name = "NAME")]
    netns: Option<String>,
    /// Mean sampling interval.
    #[arg(short, long, value_name = "TIME", default_value = "10ms")]
    #[arg(value_parser = base::parse_time)]
    interval: Duration,
    /// Do not use seccomp notification: connections shorter than a sampling interval are then not
    /// attributed to the program.
    #[arg(long, conflicts_with_all = ["set", "fit"])]
    no_notify: bool,
    /// Do not predict the effect of changes (saves about 0.25 s each, and some seconds where round
    /// trips take microseconds).
    #[arg(long)]
    no_predict: bool,
    /// The program and its arguments.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    #[arg(allow_hyphen_values = true)]
    command: Vec<OsString>,
}

impl Args {
    /// Checks what was typed, before anything runs.
    fn check(&self) -> Result<(), Problem> {
        const INTERVAL_MIN: Duration = Duration::from_millis(1);
        const INTERVAL_MAX: Duration = Duration::from_secs(1);
        if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&self.interval) {
            let given = base::format_duration(self.interval);
            return Err(Problem::usage(format!(
                "-i {given}: the range is 1ms to 1s"
            )));
        }
        super::watching::check_max_time(self.max_time)?;
        for (index, setting) in self.set.iter().enumerate() {
            let is_twice = |other: &SocketSetting| other.knob() == setting.knob();
            if self.set[..index].iter().any(is_twice) {
                let message = format!("--set: {} has two values", setting.knob());
                return Err(Problem::usage(message));
            }
        }
        if let Some(path) = &self.output {
            crate::output::check_writable(path)?;
        }
        self.record.as_deref().map_or(Ok(()), super::record::check)
    }

    fn netns(&self) -> Netns {
        self.netns.clone().map_or(Netns::Own, Netns::Named)
    }

    const fn filtering(&self) -> Filtering {
        match (self.no_notify, self.set.is_empty() && !self.fit) {
            (true, _) => Filtering::Never,
            (false, true) => Filtering::WherePossible,
            (false, false) => Filtering::Required,
        }
    }

    /// The command line of the program as a shell reads it.
    fn shown_command(&self) -> String {
        let words = self.command.iter();
        let words = words.map(|word| super::diagnose::quoted(&word.to_string_lossy()));
        words.collect::<Vec<String>>().join(" ")
    }
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    args.check()?;
    let netns = args.netns();
    let program = watched::Program {
        command: &args.command,
        netns: &NetnsHandle::open(&netns)?,
        filter: args.filtering(),
        interval: args.interval,
    };
    watched::give_signals_to_the_program();
    if args.fit {
        return compare::run(args, &program, output);
    }
    let seen = program.watch(&args.set)?;
    let report = Report::of(args, &seen);
    save(args, seen.recording, &seen.noted)?;
    report.print(args, output)?;
    Ok(Exit::OfProgram(seen.ended.shell_code()))
}

/// Saves the program's connections and their other ends.
fn save(
    args: &Args,
    mut recording: doctor::Recording,
    noted: &linux::supervise::Noted,
) -> anyhow::Result<()> {
    use anyhow::Context;
    let Some(path) = &args.record else {
        return Ok(());
    };
    super::record::keep_wanted(&mut recording, |track| noted.has(track));
    super::record::save(&recording, &args.netns(), path)
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(())
}
