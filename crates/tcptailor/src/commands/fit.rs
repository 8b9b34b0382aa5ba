//! The main job: measure, name the limit, change, verify, keep or roll back.

pub(crate) mod story;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::commands::bench::Traffic;
use crate::exit::{Exit, Problem};
use crate::output::Output;
use crate::subject::Subject;
use crate::subject::host::HostSubject;
use crate::subject::path::{self, EngineChoice, PathReport};
use crate::subject::process::ProcessSubject;
use crate::tailor::{self, Fitting, Pattern};

/// How long a running program is looked at where nobody says otherwise.
const OBSERVE: Duration = Duration::from_secs(4);
/// Time that a change or a new connection gets to show its effect.
const SETTLE: Duration = Duration::from_secs(3);

/// Find what limits the traffic to a host or on a lab path, fix it, and prove it.
///
/// Measures, names the limit with its evidence, makes the smallest change that helps, measures
/// again, and keeps it or rolls it back. What was kept, `tcptailor rollback` undoes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor fit --lab nagle      a stall on a lab path of this machine, named and removed
  tcptailor fit --lab list       the faults that can be tried, and on which engine
  tcptailor fit --lab nagle --engine virtual      on tcptailor's own TCP, without any permission
  tcptailor fit 10.0.0.9         towards a host that runs `tcptailor serve`
  tcptailor fit 10.0.0.9 -- --mode wwr     with the traffic of `bench --mode wwr`
  tcptailor fit 10.0.0.9 -n      name the change, do not make it
  tcptailor fit --pid 4127       a program that is running, with the traffic that it has")]
#[command(group = clap::ArgGroup::new("what").required(true).args(["host", "lab", "pid"]))]
pub(crate) struct Args {
    /// A machine that runs `tcptailor serve`: HOST or HOST:PORT.
    #[arg(value_name = "HOST")]
    host: Option<String>,
    /// Provoke this fault on a lab path of this machine; `list` names them.
    #[arg(long, value_name = "FAULT")]
    lab: Option<String>,
    /// Which TCP the lab path has at its ends.
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    engine: EngineChoice,
    /// Fit the open connections of this process.
    #[arg(short, long, value_name = "PID")]
    #[arg(value_parser = super::watching::process_number)]
    pid: Option<u32>,
    /// Name the change and do not make it.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// How long each look lasts [default: 4s; that of the fault with --lab].
    #[arg(short, long, value_name = "TIME", value_parser = base::parse_duration)]
    time: Option<Duration>,
    /// The key that `serve` was given [also: the environment variable TCPTAILOR_KEY].
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Flags of `bench` for the traffic towards HOST, after `--`.
    #[arg(last = true, value_name = "BENCH FLAGS", requires = "host")]
    traffic: Vec<String>,
}

impl Args {
    /// Whether a lab path is laid, for which an ordinary user needs a user namespace.
    pub(crate) fn lays_path(&self) -> bool {
        let is_fault = self.lab.as_deref().is_some_and(|fault| fault != "list");
        is_fault && self.engine != EngineChoice::Virtual
    }

    fn check(&self) -> Result<(), Problem> {
        // Not by clap: what conflicts with HOST cannot be required beside it.
        if self.lab.is_none() && self.engine != EngineChoice::Auto {
            let message = "--engine: a host and a process have the TCP that they have";
            return Err(Problem::usage(message).hint("It goes with `--lab FAULT`."));
        }
        let range = Duration::from_secs(1)..=Duration::from_secs(600);
        match self.time {
            Some(time) if !range.contains(&time) => Err(Problem::usage(format!(
                "-t {}: the range is 1s to 600s",
                base::format_duration(time)
            ))),
            _ => Ok(()),
        }
    }

    /// How a program is fitted that is not of the table of faults.
    fn pattern(&self) -> Pattern {
        Pattern {
            observe: self.time.unwrap_or(OBSERVE),
            settle: SETTLE,
            warm_up: SETTLE,
            yardstick: None,
            dry_run: self.dry_run,
        }
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'d> {
    /// The fault, host or process.
    subject: &'d str,
    #[serde(flatten)]
    fitting: Fitting,
    /// Of a lab path.
    #[serde(flatten)]
    path: Option<PathReport>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    args.check()?;
    match (&args.lab, &args.host, args.pid) {
        (Some(name), ..) if name == "list" => super::lab::list_faults(output),
        (Some(name), ..) => fit_fault(super::lab::fault(name)?, args, output),
        (None, Some(host), _) => fit_host(host, args, output),
        (None, None, Some(pid)) => fit_process(pid, args, output),
        (None, None, None) => unreachable!("clap requires one of them"),
    }
}

/// Fits one fault of the table, and tells the story while it happens.
fn fit_fault(fault: &lab::Fault, args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let trial = fault.trial();
    let mut path = path::start(args.engine, fault, &trial, fault.id, output)?;
    output.line(story::opening(fault, &trial, &path))?;
    path.subject.wait(fault.warm_up)?;
    let mut pattern = path::pattern(fault, args.dry_run);
    pattern.observe = args.time.unwrap_or(pattern.observe);
    let fitting = tell(&mut *path.subject, &pattern, output)?;
    let report = path.subject.path_report()?;
    finish(fault.id, fitting, Some(report), output)
}

/// Fits the traffic towards a host that runs `serve`.
fn fit_host(host: &str, args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let traffic = Traffic::parse(host, &args.traffic)?;
    // Two looks and the waits before them, and some time to think.
    let time = (args.pattern().observe + SETTLE + SETTLE) * 2;
    let errand = traffic.errand(args.key_file.as_deref(), time)?;
    output.line(format!(
        "host      {}\ntraffic   {}",
        errand.address,
        traffic.kind()
    ))?;
    let mut subject = HostSubject::start(errand, output)?;
    subject.wait(SETTLE)?;
    fit_and_finish(&mut subject, host, args, output)
}

/// Fits the connections of a program that is running.
fn fit_process(pid: u32, args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let mut subject = ProcessSubject::open(pid, output)?;
    fit_and_finish(&mut subject, &format!("process {pid}"), args, output)
}

fn fit_and_finish(
    subject: &mut dyn Subject,
    name: &str,
    args: &Args,
    output: &Output,
) -> anyhow::Result<Exit> {
    let fitting = tell(subject, &args.pattern(), output)?;
    finish(name, fitting, None, output)
}

fn tell(subject: &mut dyn Subject, pattern: &Pattern, output: &Output) -> anyhow::Result<Fitting> {
    tailor::fit(subject, pattern, &mut |step| {
        output.line(story::step(&step, pattern))
    })
}

fn finish(
    subject: &str,
    fitting: Fitting,
    path: Option<PathReport>,
    output: &Output,
) -> anyhow::Result<Exit> {
    output.line(story::ending(&fitting, path.as_ref()))?;
    let exit = fitting.ending.exit();
    if output.is_json() {
        output.report(
            "fit",
            &Document {
                subject,
                fitting,
                path,
            },
            String::new,
        )?;
    }
    Ok(exit)
}
