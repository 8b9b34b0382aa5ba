//! The main job: measure, name the limit, change, verify, keep or roll back.

mod heard;
mod lasting;
mod own_connection;
mod page;
pub(crate) mod screen;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use tailor::{Ending, FitEvent, FitOptions, Fitting, Subject};

use self::heard::{Experiment, Heard};
use self::lasting::Lasting;
use self::own_connection::OwnConnection;
use self::screen::Told;

use crate::commands::bench::Traffic;
use crate::commands::diagnose::document::FlowRow;
use crate::exit::{Exit, Problem, but_stays};
use crate::output::{self, Output};
use crate::subject::AnySubject;
use crate::subject::host::HostSubject;
use crate::subject::path::{self, EngineChoice, PathReport};
use crate::subject::process::ProcessSubject;

/// How long a running program is observed by default.
const OBSERVE: Duration = Duration::from_secs(4);
/// How long each look of an experiment lasts, at least.
const SLICE: Duration = Duration::from_secs(1);
/// Time that a change or a new connection gets to show its effect.
const SETTLE: Duration = Duration::from_secs(3);

/// How long an experiment may take by default, and how much longer where a gain is close to
/// significant by then.
const MAX_TIME: Duration = Duration::from_secs(180);
const EXTRA_TIME: Duration = Duration::from_secs(180);
/// The last look of an experiment, and the waits before it, may end this long after its bound.
const LEASE_MARGIN: Duration = Duration::from_secs(600);

/// Find what limits TCP, change it, and keep only what helps.
///
/// Measures, diagnoses, and tries the smallest change that may help: alternating runs with and
/// without it, until the difference is significant or too small to matter. An improvement is kept;
/// then it looks for the next limit, until none is left.
///
/// What is not kept is rolled back: after a run, on Ctrl-C, and also if this command is killed.
/// `tcptailor status` shows what is kept, `tcptailor rollback` rolls it back. One fit at a time
/// runs on a machine, since each would measure the changes of the other.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor fit --lab nagle      find and fix a stall on a lab path
  tcptailor fit --lab list       the faults that can be tried, and on which engine
  tcptailor fit --lab nagle --engine virtual      on tcptailor's own TCP, without privileges
  tcptailor fit 10.0.0.9         towards a host that runs `tcptailor serve`
  tcptailor fit 10.0.0.9 -- --mode wwr     with the traffic of `bench --mode wwr`
  tcptailor fit 10.0.0.9 -n      print the change, do not make it
  tcptailor fit --pid 4127       a program that is running, with its present traffic
  tcptailor fit --pid 4127 --max-time 10m       up to ten minutes for each experiment
  tcptailor fit --pid 4127 --html fit.html      before and after as a page

Exit codes: 0 kept, or nothing to change; 5 worse, rolled back; 6 no significant difference, rolled
back; 1 failed, or another fit runs; 4 a permission is missing; 130 interrupted. After an error or
an interrupt, nothing stays but what was kept before.")]
#[command(group = clap::ArgGroup::new("what").required(true).args(["host", "lab", "pid"]))]
pub(crate) struct Args {
    /// A machine that runs `tcptailor serve`: HOST or HOST:PORT.
    #[arg(value_name = "HOST")]
    host: Option<String>,
    /// Run on a lab path of this machine with this fault; `list` prints all faults.
    #[arg(long, value_name = "FAULT")]
    lab: Option<String>,
    /// TCP implementation at both ends of the lab path.
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    engine: EngineChoice,
    /// Fit the open connections of this process, and those accepted where it listens, whichever
    /// process holds them: changes of sockets reach its workers, too.
    #[arg(short, long, value_name = "PID")]
    #[arg(value_parser = super::watching::process_number)]
    pid: Option<u32>,
    /// Print the change and do not make it.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Length of each measurement that is diagnosed [default: 4s; that of the fault with
    /// --lab].
    #[arg(short, long, value_name = "TIME", value_parser = base::parse_time)]
    time: Option<Duration>,
    /// Time limit of one experiment; without a significant result by then, nothing is kept
    /// [default: 3m, and up to 3m more while a gain is close to significant].
    #[arg(long, value_name = "TIME", value_parser = base::parse_time)]
    max_time: Option<Duration>,
    /// Stop after the first change that is kept.
    #[arg(long)]
    once: bool,
    /// Also write the result as an HTML page, with each run of each experiment; it needs no
    /// network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The key that `serve` printed [also: the environment variable TCPTAILOR_KEY].
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
        self.max_time
            .map_or(Ok(()), super::watching::check_max_time)?;
        let range = Duration::from_secs(1)..=Duration::from_secs(600);
        match self.time {
            Some(time) if !range.contains(&time) => Err(Problem::usage(format!(
                "-t {}: the range is 1s to 600s",
                base::format_duration(time)
            ))),
            _ => Ok(()),
        }
    }

    fn bound(&self) -> Duration {
        self.max_time.unwrap_or(MAX_TIME)
    }

    /// How a program is fitted that is not of the table of faults.
    fn options(&self) -> FitOptions {
        self.adapted(FitOptions {
            observe: self.time.unwrap_or(OBSERVE),
            slice: SLICE,
            settle: SETTLE,
            warm_up: SETTLE,
            bound: self.bound(),
            extra: Duration::ZERO,
            once: false,
            dry_run: false,
        })
    }

    const fn adapted(&self, options: FitOptions) -> FitOptions {
        FitOptions {
            // Who sets a limit means it.
            extra: match self.max_time {
                Some(_) => Duration::ZERO,
                None => EXTRA_TIME,
            },
            once: self.once,
            dry_run: self.dry_run,
            ..options
        }
    }
}

/// Document of `--json`.
#[derive(Serialize)]
struct Document<'d> {
    /// The fault, host or process.
    subject: &'d str,
    #[serde(flatten)]
    fitting: Fitting,
    /// The connection with the most important answer, as `diagnose` tells of it: before the first
    /// change; null where there was none.
    first: Option<FlowRow>,
    /// The same after the last change that is kept.
    last: Option<FlowRow>,
    /// The runs that each of `tried` was decided by; none for a dry run.
    experiments: Vec<Experiment>,
    /// The lab path.
    #[serde(flatten)]
    path: Option<PathReport>,
    /// Towards a host.
    #[serde(skip_serializing_if = "Option::is_none")]
    own_connection: Option<OwnConnection>,
    /// For a running program: changes that end with a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    lasting: Option<Lasting>,
}

impl<'d> Document<'d> {
    fn of(subject: &'d str, fitting: Fitting, heard: &mut Heard) -> Self {
        let [first, last] = std::mem::take(&mut heard.said);
        Self {
            subject,
            fitting,
            first,
            last,
            experiments: std::mem::take(&mut heard.experiments),
            path: None,
            own_connection: None,
            lasting: None,
        }
    }
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    args.check()?;
    output::check_page(args.html.as_deref())?;
    match (&args.lab, &args.host, args.pid) {
        (Some(name), ..) if name == "list" => super::lab::list_faults(output),
        (Some(name), ..) => fit_fault(super::lab::fault(name)?, args, output),
        (None, Some(host), _) => fit_host(host, args, output),
        (None, None, Some(pid)) => fit_process(pid, args, output),
        (None, None, None) => unreachable!("clap requires one of them"),
    }
}

/// Fits one fault of the table, and tells what happens meanwhile.
fn fit_fault(fault: &lab::Fault, args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let trial = fault.trial();
    let mut path = path::start(args.engine, fault, &trial, fault.id, output)?;
    output.line(screen::opening(fault, &trial, &path))?;
    path.subject.wait(fault.warm_up)?;
    let options = args.adapted(path::fit_options(fault, args.time, args.bound()));
    let (fitting, mut heard) = fit_and_tell(&mut *path.subject, &options, output, false)?;
    let report = path.subject.path_report()?;
    let document = Document {
        path: Some(report),
        ..Document::of(fault.id, fitting, &mut heard)
    };
    finish(&document, &heard, args, output)
}

/// Fits the traffic towards a host that runs `serve`.
fn fit_host(host: &str, args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let traffic = Traffic::parse(host, &args.traffic)?;
    let options = args.options();
    // It is stopped before, or started again for each look.
    let time = (options.bound + options.extra + options.observe + SETTLE) * 2;
    let parameters = traffic.run_parameters(args.key_file.as_deref(), time)?;
    output.line(format!(
        "host      {}\ntraffic   {}",
        parameters.address,
        traffic.kind()
    ))?;
    let mut subject = HostSubject::start(parameters, lease(&options), output)?;
    subject.wait(SETTLE)?;
    let (fitting, mut heard) = fit_and_tell(&mut subject, &options, output, true)?;
    drop(subject);
    let document = Document {
        own_connection: Some(OwnConnection::of(&fitting)),
        ..Document::of(host, fitting, &mut heard)
    };
    finish(&document, &heard, args, output)
}

/// Fits the connections of a program that is running.
fn fit_process(pid: u32, args: &Args, output: &Output) -> anyhow::Result<Exit> {
    super::watching::note_trials(output);
    let options = args.options();
    let mut subject = ProcessSubject::open(pid, lease(&options), output)?;
    let (fitting, mut heard) = fit_and_tell(&mut subject, &options, output, false)?;
    let name = format!("process {pid}");
    let document = Document {
        lasting: Lasting::of(&fitting, &heard.wider),
        ..Document::of(&name, fitting, &mut heard)
    };
    finish(&document, &heard, args, output)
}

fn fit_and_tell(
    subject: &mut AnySubject<'_>,
    options: &FitOptions,
    output: &Output,
    is_test: bool,
) -> anyhow::Result<(Fitting, Heard)> {
    let mut is_first = true;
    let (mut heard, mut kept) = (Heard::default(), Vec::new());
    let done = tailor::fit(subject, options, &mut |subject, event| {
        heard.hear(&event, &|track| subject.wants(track));
        if let FitEvent::Tried(tried) = &event {
            kept.extend(tried.transaction.filter(|_| tried.kept));
        }
        let told = Told {
            is_first,
            is_test,
            has_advice: !output.is_quiet(),
        };
        let told = screen::event(&event, told, &|track| subject.wants(track));
        is_first = false;
        told.map_or(Ok(()), |text| output.line(text))
    });
    done.map(|fitting| (fitting, heard))
        .map_err(|error| with_kept(error, &kept))
}

/// An error ends the work, and does not take back what was kept before it.
fn with_kept(error: anyhow::Error, kept: &[u64]) -> anyhow::Error {
    let list = |of: &dyn Fn(&u64) -> String, between: &str| {
        let items: Vec<String> = kept.iter().rev().map(of).collect();
        items.join(between)
    };
    let undo = list(&|id| format!("`tcptailor rollback {id}`"), ", then ");
    let numbers = list(&u64::to_string, ", ");
    let stays = match kept.len() {
        0 => return error,
        1 => format!("transaction {numbers} was kept before, and stays"),
        _ => format!("transactions {numbers} were kept before, and stay"),
    };
    but_stays(error, &stays, &format!("Undo with {undo}."))
}

/// How long one change may stay undecided: longer than an experiment lasts.
fn lease(options: &FitOptions) -> Duration {
    options.bound + options.extra + LEASE_MARGIN
}

/// The exit code of the command.
const fn exit_of(ending: Ending) -> Exit {
    match ending {
        Ending::Worse => Exit::RolledBack,
        Ending::NotDistinguishable | Ending::OutOfTime => Exit::NoDifference,
        _ => Exit::Done,
    }
}

fn finish(
    document: &Document<'_>,
    heard: &Heard,
    args: &Args,
    output: &Output,
) -> anyhow::Result<Exit> {
    let Document {
        subject: _,
        fitting,
        first,
        last,
        experiments: _,
        path,
        own_connection,
        lasting,
    } = document;
    let row = last.as_ref().or(first.as_ref());
    let told = output
        .line(screen::ending(
            fitting,
            path.as_ref(),
            (own_connection.as_ref(), lasting.as_ref()),
            row,
        ))
        .and_then(|()| match output.is_json() {
            true => output.report("fit", document, String::new),
            false => Ok(()),
        });
    // If one of the two cannot be written, the other is not lost.
    if let Some(path) = &args.html {
        let command = super::diagnose::command_words(true);
        output::write_page(path, &page::render(document, heard, &command))?;
    }
    told?;
    Ok(exit_of(fitting.ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_tells_what_was_kept_before() {
        let check = |problem: Problem, kept: &[u64], expected: &str| {
            let error = with_kept(problem.into(), kept);
            let problem = error.downcast_ref::<Problem>().expect("it has advice");
            let hint = problem.hint.as_deref().unwrap_or_default();
            let told = format!("{:?}: {} ({hint})", problem.exit, problem.message);
            assert_eq!(told, expected);
        };
        let interrupted = || Problem::interrupted("interrupted; nothing stays changed");
        check(
            interrupted(),
            &[],
            "Interrupted: interrupted; nothing stays changed ()",
        );
        check(
            interrupted(),
            &[3],
            "Interrupted: interrupted; transaction 3 was kept before, and stays (Undo with \
             `tcptailor rollback 3`.)",
        );
        check(
            Problem::failed("process 7 ended while it was measured"),
            &[3, 5],
            "Failed: process 7 ended while it was measured; transactions 5, 3 were kept before, and \
             stay (Undo with `tcptailor rollback 5`, then `tcptailor rollback 3`.)",
        );
    }
}
