//! How often predictions were right: each is made from the looks before a change only, then the
//! change is made and measured.

mod page;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use base::Change;
use doctor::{Objective, Place, Proposal, Side};
use lab::End;
use serde::Serialize;
use tailor::{
    Answered, CannotKnow, Look, Prediction, Score, Scored, Timing, TruthCase, Twin, Unpredicted,
};

use crate::exit::{Exit, Problem};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::subject::AnySubject;
use crate::subject::path::{self, EngineChoice};

/// Largest median of the relative errors of goodput and of the median response time.
const MEDIAN_MAX: f64 = 0.05;
/// Largest 90th percentile.
const P90_MAX: f64 = 0.15;
/// Least share of intervals that hold what was measured.
const COVERAGE_MIN: f64 = 0.9;

/// Predict changes, make them, and count how often the prediction was right.
///
/// Runs the faults, the everyday scenarios and random trials, whose path, traffic and fault are
/// drawn by a seed. Each is looked at, a twin is fitted to that look, and the doctor's first change
/// (or, where it has none, a drawn one that acts) is predicted; then the change is made and the
/// program measured again. Takes about 7 seconds for each trial on the kernel.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab truth -o docs/truth.md          the whole table, in about half an hour
  tcptailor lab truth --seed 7 --trials 20 --only drawn
  tcptailor lab truth --engine virtual          on tcptailor's own TCP, in a minute or two
  tcptailor lab truth --json                    each prediction with what was measured

Exit code 3 if the median of the errors of goodput or of the median response time is above 5 %,
their 90th percentile above 15 %, or fewer than 90 % of the intervals hold what was measured.")]
pub(super) struct Args {
    /// Of everything random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Random trials, beside the faults and the everyday scenarios.
    #[arg(long, value_name = "N", default_value_t = 200)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=10_000))]
    trials: u32,
    /// Only trials whose label begins with this, such as `fault/` or `everyday/`; `drawn`: the
    /// random ones.
    #[arg(long, value_name = "WHICH")]
    only: Option<String>,
    /// Which TCP the paths have at their ends.
    #[arg(long, value_name = "ENGINE", default_value = "kernel")]
    engine: EngineChoice,
    /// Write the answer into this file, as Markdown.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Args {
    /// Whether a lab path is laid, for which an ordinary user needs a user namespace.
    pub(super) fn lays_path(&self) -> bool {
        self.engine != EngineChoice::Virtual
    }

    fn chosen(&self) -> Result<Vec<TruthCase>, Problem> {
        let mut cases = match self.only.as_deref() {
            Some("drawn") => tailor::drawn_cases(self.seed, self.trials),
            Some(only) => {
                let mut all = tailor::truth_cases(self.seed, self.trials);
                all.retain(|case| case.label.starts_with(only));
                all
            }
            None => tailor::truth_cases(self.seed, self.trials),
        };
        if self.engine == EngineChoice::Virtual {
            cases.retain(|case| case.kernel_only.is_none());
        }
        if cases.is_empty() {
            return Err(Problem::usage("no trial is chosen")
                .hint("`--only fault/`, `--only everyday/` or `--only drawn`"));
        }
        Ok(cases)
    }
}

/// What came of one trial.
enum Judged {
    Scored(Box<Scored>),
    Unpredicted(Unpredicted),
}

/// All that is told.
#[derive(Debug, Serialize)]
struct Document {
    seed: u64,
    trials: u32,
    engine: &'static str,
    kernel: Option<String>,
    /// It was interrupted.
    partial: bool,
    goal: Goal,
    ok: bool,
    goodput: Score,
    response: Score,
    refused: std::collections::BTreeMap<&'static str, usize>,
    /// Longest time that a prediction took, fitting included.
    predict_ms_max: u64,
    predict_ms_median: u64,
    scored: Vec<Scored>,
    unpredicted: Vec<Unpredicted>,
}

#[derive(Debug, Serialize)]
struct Goal {
    median_max: f64,
    p90_max: f64,
    coverage_min: f64,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    if let Some(path) = &args.output {
        crate::commands::diagnose::check_plan_path(path)?;
    }
    let cases = args.chosen()?;
    let bar = Progress::bar(output, "predicting and measuring", cases.len() as u64);
    let mut scored = Vec::new();
    let mut unpredicted = Vec::new();
    let mut took = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        bar.set(at as u64);
        let judged = judge(case, args.engine, output, &mut took);
        if interrupt::stopped() {
            break;
        }
        match judged {
            Ok(Judged::Scored(one)) => {
                output.note(page::line(&one));
                scored.push(*one);
            }
            Ok(Judged::Unpredicted(one)) => {
                output.note(format!("{}: no prediction: {}", one.label, one.why));
                unpredicted.push(one);
            }
            Err(error) => {
                output.note(format!("{}: not measured: {error:#}", case.label));
                unpredicted.push(Unpredicted {
                    label: case.label.clone(),
                    kind: "could not be measured",
                    why: format!("{error:#}"),
                });
            }
        }
    }
    drop(bar);
    let document = document(args, scored, unpredicted, took);
    if let Some(path) = &args.output {
        std::fs::write(path, page::markdown(&document))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    output.report("lab-truth", &document, || page::text(&document))?;
    Ok(match document.ok {
        _ if document.partial => Exit::Interrupted,
        true => Exit::Done,
        false => Exit::Findings,
    })
}

fn document(
    args: &Args,
    scored: Vec<Scored>,
    unpredicted: Vec<Unpredicted>,
    mut took: Vec<Duration>,
) -> Document {
    took.sort_unstable();
    let millis = |time: Option<&Duration>| {
        time.map_or(0, |time| {
            u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
        })
    };
    let [goodput, response] = tailor::score(&scored);
    Document {
        seed: args.seed,
        trials: args.trials,
        engine: match args.engine {
            EngineChoice::Virtual => "virtual",
            EngineChoice::Auto | EngineChoice::Kernel => "kernel",
        },
        kernel: crate::output::kernel_release(),
        partial: interrupt::stopped(),
        goal: Goal {
            median_max: MEDIAN_MAX,
            p90_max: P90_MAX,
            coverage_min: COVERAGE_MIN,
        },
        ok: !interrupt::stopped() && [goodput, response].iter().all(is_reached),
        goodput,
        response,
        refused: tailor::refusals(&unpredicted),
        predict_ms_max: millis(took.last()),
        predict_ms_median: millis(took.get(took.len() / 2)),
        scored,
        unpredicted,
    }
}

fn is_reached(score: &Score) -> bool {
    score.median.is_none_or(|error| error <= MEDIAN_MAX)
        && score.p90.is_none_or(|error| error <= P90_MAX)
        && score.coverage.is_none_or(|share| share >= COVERAGE_MIN)
}

/// Looks, predicts, changes, looks again.
fn judge(
    case: &TruthCase,
    engine: EngineChoice,
    output: &Output,
    took: &mut Vec<Duration>,
) -> anyhow::Result<Judged> {
    let quiet = output.silenced();
    let label = case.label.as_str();
    let mut path = path::start_trial(engine, case.kernel_only, &case.trial, label, &quiet)?;
    let subject = &mut *path.subject;
    subject.wait(case.warm_up)?;
    let look = subject.look(case.look)?;
    let Some(tried) = change_for(case, &look, subject)? else {
        return Ok(unpredicted(label, &CannotKnow::NoConnection));
    };
    let began = linux::Clock.now();
    let predicted = predict(case, &look, &tried);
    let predict_time = linux::Clock.now().since(began);
    took.push(predict_time);
    let prediction = match predicted {
        Ok(prediction) => prediction,
        Err(why) => return Ok(unpredicted(label, &why)),
    };
    subject.settings().make("lab truth", &tried.changes)?;
    if tried.on_new {
        subject.reconnect()?;
        subject.wait(case.warm_up)?;
    } else {
        subject.wait(case.settle)?;
    }
    let after = subject.look(case.look)?.measure;
    drop(subject.settings().undo());
    let report = path.subject.path_report()?;
    Ok(Judged::Scored(Box::new(Scored {
        label: label.to_owned(),
        change: tried.text,
        before: look.measure,
        after,
        prediction,
        predict_ms: u64::try_from(predict_time.as_millis()).unwrap_or(u64::MAX),
        doubts: report.caveats.iter().map(ToString::to_string).collect(),
    })))
}

fn unpredicted(label: &str, why: &CannotKnow) -> Judged {
    Judged::Unpredicted(Unpredicted {
        label: label.to_owned(),
        kind: why.kind(),
        why: why.to_string(),
    })
}

fn predict(case: &TruthCase, look: &Look, tried: &Tried) -> Result<Prediction, CannotKnow> {
    let twin = Twin::of(look, tried.place)?;
    let timing = Timing {
        settle: case.settle,
        warm_up: case.warm_up,
        look: case.look,
    };
    let tweaks = Twin::tweaks(look, tried.place, &tried.changes)?;
    twin.predict(&tweaks, tried.objective, (tried.on_new, timing))
}

/// The change that is predicted and made.
struct Tried {
    place: Place,
    changes: Vec<Change>,
    /// In words.
    text: String,
    objective: Objective,
    /// It is measured on new connections.
    on_new: bool,
}

/// The doctor's first candidate, or the drawn change; `None` where there is no connection.
fn change_for(
    case: &TruthCase,
    look: &Look,
    subject: &mut AnySubject<'_>,
) -> anyhow::Result<Option<Tried>> {
    look.observed(|observed| {
        let answers = observed.answers(|_| true);
        let Some(first) = answers.first() else {
            return Ok(None);
        };
        let found = tailor::candidates(first, subject)?.unwrap_or_default();
        if let Some(candidate) = found.into_iter().next() {
            return Ok(Some(Tried {
                place: candidate.place,
                text: format!("{} ({})", candidate.text(), candidate.diagnosis),
                objective: candidate.objective,
                on_new: candidate.acts_on_new_connections(),
                changes: candidate.changes,
            }));
        }
        Ok(drawn(case, look, first))
    })
}

fn drawn(case: &TruthCase, look: &Look, answered: &Answered<'_, '_>) -> Option<Tried> {
    let knob = base::find_knob(case.change.knob).ok()?;
    let proposal = Proposal {
        side: match case.change.end {
            End::Client => Side::Local,
            End::Server => Side::Remote,
        },
        beside: None,
        knob,
        to: case.change.to.clone(),
        live: base::Live::Now,
        risk: "",
    };
    let change = answered.ends.change(&proposal)?;
    let place = Place::of(answered.ends.local.key);
    Some(Tried {
        place,
        text: format!(
            "{} = {} at the {}",
            knob.name,
            knob.format(&change.to),
            case.change.end.name()
        ),
        objective: look.measure.own_objective(),
        on_new: knob.scope > base::Scope::Socket,
        changes: vec![change],
    })
}
