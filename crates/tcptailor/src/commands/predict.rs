//! Predicts the effect of a change before anything is changed: of a running program, a recording, a
//! scenario, a fault, or a path that is given by hand.

mod given;
mod screen;

use std::path::PathBuf;
use std::time::Duration;

use base::{KnobValue, Rate};
use doctor::{Place, Services, Track};
use serde::Serialize;
use tailor::{
    Forecast, Look, NoPrediction, PredictionRow, Predictions, Subject, Timing, Tries, Twin,
};

use crate::exit::{Exit, Problem};
use crate::output::Output;
use crate::subject::process::ProcessSubject;

/// Congestion controls that Linux 6.18 may have (net/ipv4/Kconfig).
const LINUX_CONGESTION: [&str; 17] = [
    "bbr",
    "bic",
    "cdg",
    "cubic",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "reno",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
];
/// Those of this machine.
const LOADED_CONGESTION: &str = "net.ipv4.tcp_available_congestion_control";
/// How long a running program is observed by default.
const OBSERVE: Duration = Duration::from_secs(4);
/// Time that a change or a new connection gets to show its effect.
const SETTLE: Duration = Duration::from_secs(3);

/// Predict the effect of changes without making them.
///
/// Fits a twin (a simulated copy) to the measured connection: a path, two hosts and a workload
/// on tcptailor's own TCP in virtual time. The twin must first reproduce the measurement (the
/// self-check); then each change is simulated in it. Where no prediction is possible, the reason
/// is printed. See docs/predict.md.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor predict --pid 4127                     the changes that the doctor proposes
  tcptailor predict --pid 4127 --try sndbuf=1MiB --try congestion=bbr
  tcptailor predict slow.rec                       of what `tcptailor record` saved
  tcptailor predict slow.pcap --try nodelay=on     of packets, what they can tell
  tcptailor predict --scenario lan-wwr --try nodelay=on
  tcptailor predict --lab rcvbuf                   of a fault that `fit --lab` knows
  tcptailor predict --rate 100mbit --rtt 40ms --loss 0.1% --queue 200p \\
                    --set sndbuf=64KiB --try sndbuf=1MiB --try congestion=bbr
  tcptailor predict --rate 1gbit --rtt 200us --traffic wwr --try nodelay=on

Exit codes: 0 predicted; 3 nothing could be predicted, and why.")]
#[command(group = clap::ArgGroup::new("what").required(true)
    .args(["file", "pid", "scenario", "lab", "rate"]))]
pub(crate) struct Args {
    /// A recording, or a packet capture.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The open connections of this process.
    #[arg(short, long, value_name = "PID")]
    #[arg(value_parser = super::watching::process_number)]
    pid: Option<u32>,
    /// A built-in scenario, or one of its cells, such as `lan-wwr/nagle`.
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// A fault of the table; `fit --lab list` names them.
    #[arg(long, value_name = "FAULT")]
    lab: Option<String>,
    #[command(flatten)]
    path: given::Path,
    /// Simulate this setting at the local end (with --rate: the client); may be repeated,
    /// each is simulated separately.
    #[arg(long = "try", value_name = "KNOB=VALUE")]
    tries: Vec<String>,
    /// The same at the other end.
    #[arg(long, value_name = "KNOB=VALUE")]
    try_far: Vec<String>,
    /// How long to measure.
    #[arg(short, long, value_name = "TIME", default_value = "4s", value_parser = base::parse_time)]
    time: Duration,
}

/// Document of `--json`.
#[derive(Debug, Serialize)]
struct Document {
    /// The process, file, scenario or path.
    subject: String,
    #[serde(flatten)]
    answer: Predictions,
}

/// A twin with what it was made from.
struct Subjects {
    name: String,
    look: Option<Look>,
    place: Option<Place>,
    twin: Result<Twin, NoPrediction>,
    timing: Timing,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let range = Duration::from_secs(1)..=Duration::from_secs(600);
    if !range.contains(&args.time) {
        let shown = base::format_duration(args.time);
        return Err(Problem::usage(format!("-t {shown}: the range is 1s to 600s")).into());
    }
    args.path.check(args.rate_is_given())?;
    // Mistakes in arguments are reported before any wait.
    let tries = Tries {
        near: parse_all("--try", &args.tries)?,
        far: parse_all("--try-far", &args.try_far)?,
    };
    let document = document(subject(args, output)?, tries);
    let Predictions {
        predictions,
        cannot_know,
        ..
    } = &document.answer;
    let is_known = |row: &PredictionRow| matches!(row.forecast, Forecast::Known(_));
    let exit = match predictions.iter().any(is_known) {
        true => Exit::Done,
        // Without a change to try there is nothing to predict, and that is an answer.
        false if cannot_know.is_none() && predictions.is_empty() => Exit::Done,
        false => Exit::Findings,
    };
    output.report("predict", &document, || screen::render(&document))?;
    Ok(exit)
}

impl Args {
    const fn rate_is_given(&self) -> bool {
        self.path.rate.is_some()
    }
}

type Setting = (&'static base::Knob, KnobValue);

/// `knob=value` as users write it.
fn parse_all(flag: &str, all: &[String]) -> Result<Vec<Setting>, Problem> {
    all.iter().map(|text| parse_setting(flag, text)).collect()
}

fn parse_setting(flag: &str, text: &str) -> Result<Setting, Problem> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        Problem::usage(format!(
            "{flag} {text}: write KNOB=VALUE, such as `nodelay=on`"
        ))
    })?;
    let problem = |error: base::KnobError| {
        Problem::usage(format!("{flag} {text}: {error}"))
            .hint("`tcptailor knobs` lists the settings and their values")
    };
    let knob = base::find_knob(name.trim()).map_err(problem)?;
    let value = knob.parse(value).map_err(problem)?;
    if let ("congestion", KnobValue::Name(name)) = (knob.name, &value) {
        check_congestion(name).map_err(|why| Problem::usage(format!("{flag} {text}: {why}")))?;
    }
    Ok((knob, value))
}

/// Refuses a name that neither Linux nor this machine's kernel has: a mistake, found before any
/// wait. What only a kernel may have is answered as such.
fn check_congestion(name: &str) -> Result<(), String> {
    let loaded = linux::sysctl::read(LOADED_CONGESTION).unwrap_or_default();
    let mut known: Vec<&str> = loaded.split_whitespace().chain(LINUX_CONGESTION).collect();
    known.sort_unstable();
    known.dedup();
    if known.contains(&name) {
        return Ok(());
    }
    let meant = base::knob::nearest(name, known.iter().copied());
    let meant = meant.map_or_else(|| ".".into(), |meant| format!("; did you mean `{meant}`?"));
    Err(format!(
        "unknown congestion control `{name}`{meant} There are {}",
        known.join(", ")
    ))
}

fn subject(args: &Args, output: &Output) -> anyhow::Result<Subjects> {
    let timing = Timing {
        settle: SETTLE,
        warm_up: SETTLE,
        look: args.time.min(OBSERVE),
    };
    let (name, look, place) = match (args.pid, &args.file) {
        (Some(pid), _) => {
            super::watching::note_unsettled(output);
            let mut subject = ProcessSubject::look_only(pid, output)?;
            let look = subject.look(args.time)?;
            let place = main_place(&look, |track| subject.wants(track));
            (format!("process {pid}"), look, place)
        }
        (None, Some(file)) => {
            let look = super::diagnose::replay::look(file, output)?;
            let place = main_place(&look, |_| true);
            (file.display().to_string(), look, place)
        }
        (None, None) => return given_subject(args, timing),
    };
    let twin = place.ok_or(NoPrediction::NoConnection);
    let twin = twin.and_then(|place| Twin::of(&look, place));
    Ok(Subjects {
        name,
        look: Some(look),
        place,
        twin,
        timing,
    })
}

/// The service of the most important answer.
fn main_place(look: &Look, wants: impl Fn(&Track) -> bool) -> Option<Place> {
    look.observed(|observed| {
        let answers = observed.answers(wants);
        answers.first().map(|first| first.case.place())
    })
}

fn given_subject(args: &Args, timing: Timing) -> anyhow::Result<Subjects> {
    let (name, trial) = match (&args.scenario, &args.lab) {
        (Some(name), _) => (name.clone(), given::scenario(name)?),
        (None, Some(name)) => {
            let fault = super::lab::fault(name)?;
            if let Some(why) = fault.kernel_only {
                let message = format!("--lab {name}: no twin has it: {why}");
                return Err(Problem::usage(message).into());
            }
            (fault.id.to_owned(), fault.trial())
        }
        (None, None) => ("a path that was given".into(), args.path.trial()?),
    };
    let (twin, look) = match Twin::given(&trial, timing) {
        Ok((twin, look)) => (Ok(twin), Some(look)),
        Err(why) => (Err(why), None),
    };
    let first = look.as_ref().and_then(|look| {
        let first = look.here.flows.first()?;
        Some(Services::of(&look.here).place(first.key))
    });
    Ok(Subjects {
        name,
        place: first,
        look,
        twin,
        timing,
    })
}

fn document(subject: Subjects, tries: Tries) -> Document {
    let answer = match &subject.twin {
        Ok(twin) => predicted(&subject, twin, tries),
        Err(why) => {
            let before = subject.look.as_ref().map(|look| look.measure);
            Predictions::without_twin(why.clone(), proposed(&subject), &before.unwrap_or_default())
        }
    };
    Document {
        subject: subject.name,
        answer,
    }
}

/// Proposals of the findings.
fn proposed(subject: &Subjects) -> Vec<tailor::WhatIf> {
    let seen = subject.look.as_ref().zip(subject.place);
    seen.map_or_else(Vec::new, |(look, place)| tailor::proposed(look, place))
}

fn predicted(subject: &Subjects, twin: &Twin, tries: Tries) -> Predictions {
    let mut answer = Predictions::of(twin, proposed(subject), tries, subject.timing);
    if let Some(row) = &mut answer.twin {
        row.path = Some(path_text(twin, &twin.trial()));
    }
    answer
}

/// A path that was fitted is not known to this many digits.
fn path_text(twin: &Twin, trial: &lab::Trial) -> String {
    if twin.is_given() {
        return super::fit::screen::path(&trial.path);
    }
    format!(
        "{} each way, {} round trip",
        shown_rate(twin.path_range().value),
        base::human::time(trial.path.rtt())
    )
}

/// A rate for messages.
fn shown_rate(bps: f64) -> String {
    base::human::rate(Rate::from_bits_per_second(bps.round() as u64))
}
