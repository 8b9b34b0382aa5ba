//! Accuracy of predictions: each is made from the looks before a change only, then the change is
//! made and measured.

mod kept;
mod page;

use std::path::{Path, PathBuf};
use std::time::Duration;

use base::Change;
use doctor::{Objective, Place, Proposal, Side};
use lab::{End, Measure};
use serde::Serialize;
use tailor::{
    Answered, Look, NoPrediction, Prediction, Score, Scored, Timing, TruthCase, Twin, Unpredicted,
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

/// Predict changes, make them, and measure the accuracy of the predictions.
///
/// Runs the faults, the everyday scenarios and random trials, whose path, traffic and fault are
/// drawn from a seed. Each trial is measured, a twin is fitted, and the effect of the first
/// proposed change (of a random one where none is proposed) is predicted; then the change is made
/// and the trial is measured again. A trial on the kernel takes about 7 seconds.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab truth -o docs/truth.md          the whole table, in about half an hour
  tcptailor lab truth --seed 7 --trials 20 --only drawn
  tcptailor lab truth --engine virtual          on tcptailor's own TCP, in a minute or two
  tcptailor lab truth --keep samples         ... and save samples and results
  tcptailor lab truth --from samples         predict again from these, without measuring
  tcptailor lab truth --json                    each prediction with what was measured

Exit code 3 if the median error of goodput or of the median response time is above 5 %, a 90th
percentile of these errors is above 15 %, or fewer than 90 % of the intervals contain the measured
value.")]
pub(super) struct Args {
    /// Seed of the random trials.
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
    /// TCP implementation at both ends of the paths.
    #[arg(long, value_name = "ENGINE", default_value = "kernel")]
    engine: EngineChoice,
    /// Save the samples and the measured results in this directory, for `--from`.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Measure nothing: predict again from the samples saved by `--keep`, and compare with the
    /// results measured then.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["keep", "only", "trials", "seed"])]
    from: Option<PathBuf>,
    /// Write the results to this file, as Markdown.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Args {
    /// Whether a lab path is laid, for which an ordinary user needs a user namespace.
    pub(super) fn lays_path(&self) -> bool {
        self.engine != EngineChoice::Virtual
    }

    fn new_run(&self) -> kept::Run {
        kept::Run {
            seed: self.seed,
            trials: self.trials,
            engine: match self.engine {
                EngineChoice::Virtual => "virtual".into(),
                EngineChoice::Auto | EngineChoice::Kernel => "kernel".into(),
            },
            kernel: crate::output::kernel_release(),
        }
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

/// All that is told.
#[derive(Debug, Serialize)]
struct Document {
    #[serde(flatten)]
    run: kept::Run,
    /// Interrupted.
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
        crate::output::check_writable(path)?;
    }
    let mut tally = Tally::default();
    let run = match &args.from {
        Some(dir) => {
            let run = kept::run_of(dir)?;
            tally.predict_kept(dir, output)?;
            run
        }
        None => {
            let run = args.new_run();
            let cases = args.chosen()?;
            if let Some(dir) = &args.keep {
                kept::begin(dir, &run)?;
            }
            tally.measure(&cases, args, output)?;
            run
        }
    };
    let document = document(run, tally);
    if let Some(path) = &args.output {
        crate::output::write_text(path, &page::markdown(&document))?;
    }
    output.report("lab-truth", &document, || page::text(&document))?;
    Ok(match document.ok {
        _ if document.partial => Exit::Interrupted,
        true => Exit::Done,
        false => Exit::Findings,
    })
}

fn document(run: kept::Run, tally: Tally) -> Document {
    let Tally {
        scored,
        unpredicted,
        mut took,
    } = tally;
    took.sort_unstable();
    let millis = |time: Option<&Duration>| {
        time.map_or(0, |time| {
            u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
        })
    };
    let [goodput, response] = tailor::score(&scored);
    Document {
        run,
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

/// Results of the trials so far.
#[derive(Default)]
struct Tally {
    scored: Vec<Scored>,
    unpredicted: Vec<Unpredicted>,
    /// Duration of each prediction.
    took: Vec<Duration>,
}

impl Tally {
    fn measure(&mut self, cases: &[TruthCase], args: &Args, output: &Output) -> anyhow::Result<()> {
        let bar = Progress::bar(output, "predicting and measuring", cases.len() as u64);
        for (number, case) in cases.iter().enumerate() {
            bar.set(number as u64);
            let measured = self.judge(case, args, output);
            if interrupt::stopped() {
                break;
            }
            match measured {
                Ok(Some(measured)) => {
                    if let Some(dir) = &args.keep {
                        kept::write(dir, number, &measured)?;
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    output.note(format!("{}: not measured: {error:#}", case.label));
                    self.unpredicted.push(Unpredicted {
                        label: case.label.clone(),
                        kind: "could not be measured",
                        why: format!("{error:#}"),
                    });
                }
            }
        }
        Ok(())
    }

    fn predict_kept(&mut self, dir: &Path, output: &Output) -> anyhow::Result<()> {
        let paths = kept::list(dir)?;
        if paths.is_empty() {
            return Err(Problem::usage(format!("{}: nothing is kept there", dir.display())).into());
        }
        let bar = Progress::bar(output, "predicting", paths.len() as u64);
        for (at, path) in paths.iter().enumerate() {
            bar.set(at as u64);
            if interrupt::stopped() {
                break;
            }
            let measured = kept::read(path)?;
            let predicted = self.predict(&measured.look, &measured.tried);
            self.take(&measured, predicted, output);
        }
        Ok(())
    }

    /// Looks, predicts, changes, looks again; `None` where nothing was changed, which it notes.
    fn judge(
        &mut self,
        case: &TruthCase,
        args: &Args,
        output: &Output,
    ) -> anyhow::Result<Option<Measured>> {
        let quiet = output.silenced();
        let label = case.label.as_str();
        let mut path =
            path::start_trial(args.engine, case.kernel_only, &case.trial, label, &quiet)?;
        let subject = &mut *path.subject;
        subject.wait(case.warm_up)?;
        let look = subject.look(case.look)?;
        let Some(tried) = change_for(case, &look, subject)? else {
            self.leave(label, &NoPrediction::NoConnection, output);
            return Ok(None);
        };
        let predicted = self.predict(&look, &tried);
        if let Err(why) = &predicted
            && args.keep.is_none()
        {
            self.leave(label, why, output);
            return Ok(None);
        }
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
        let measured = Measured {
            label: label.to_owned(),
            tried,
            look,
            after,
            doubts: report.caveats.iter().map(ToString::to_string).collect(),
        };
        self.take(&measured, predicted, output);
        Ok(Some(measured))
    }

    fn predict(&mut self, look: &Look, tried: &Tried) -> Result<Prediction, NoPrediction> {
        let began = linux::Clock.now();
        let predicted = tried.predict(look);
        self.took.push(linux::Clock.now().since(began));
        predicted
    }

    fn take(
        &mut self,
        measured: &Measured,
        predicted: Result<Prediction, NoPrediction>,
        output: &Output,
    ) {
        let prediction = match predicted {
            Ok(prediction) => prediction,
            Err(why) => return self.leave(&measured.label, &why, output),
        };
        let took = self.took.last().copied().unwrap_or_default();
        let scored = Scored {
            label: measured.label.clone(),
            change: measured.tried.text.clone(),
            before: measured.look.measure,
            after: measured.after,
            prediction,
            predict_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            doubts: measured.doubts.clone(),
        };
        output.note(page::line(&scored));
        self.scored.push(scored);
    }

    fn leave(&mut self, label: &str, why: &NoPrediction, output: &Output) {
        output.note(format!("{label}: no prediction: {why}"));
        self.unpredicted.push(Unpredicted {
            label: label.to_owned(),
            kind: why.kind(),
            why: why.to_string(),
        });
    }
}

/// The change that is predicted and made.
struct Tried {
    place: Place,
    changes: Vec<Change>,
    /// In words.
    text: String,
    objective: Objective,
    /// Measured on new connections.
    on_new: bool,
    timing: Timing,
}

impl Tried {
    fn predict(&self, look: &Look) -> Result<Prediction, NoPrediction> {
        let twin = Twin::of(look, self.place)?;
        let tweaks = Twin::tweaks(look, self.place, &self.changes)?;
        twin.predict(&tweaks, self.objective, (self.on_new, self.timing))
    }
}

/// A trial that was measured before and after its change.
struct Measured {
    label: String,
    tried: Tried,
    look: Look,
    after: Measure,
    /// Reasons to doubt its measured numbers, if any.
    doubts: Vec<String>,
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
                timing: timing(case),
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
        timing: timing(case),
    })
}

const fn timing(case: &TruthCase) -> Timing {
    Timing {
        settle: case.settle,
        warm_up: case.warm_up,
        look: case.look,
    }
}
