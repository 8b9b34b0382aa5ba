//! Error rate of the experiments of `fit`, over changes whose effect is known.

use std::time::Duration;

use lab::known::{KnownChange, helpful, useless};
use serde::Serialize;
use tailor::{FitOptions, Tried, fit_given};

use crate::commands::fit::screen;
use crate::commands::watching::check_max_time;
use crate::exit::{Exit, Problem};
use crate::output::Output;
use crate::subject::AnySubject;
use crate::subject::path::{self, EngineChoice};

/// One wrong verdict is accepted per this many changes.
const PER_ERROR: u32 = 50;

/// Measure how often the experiments of `fit` are wrong.
///
/// Draws paths, traffic (steady, bursty and drifting) and changes from a seed: some do nothing and
/// should be rolled back; some help by a fifth or more and should be kept. Each is tried as `fit`
/// tries a proposed change. Whether a change helps is known from how TCP works, not from a
/// measurement.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tcptailor lab experiments --engine virtual        on tcptailor's own TCP, within minutes
  tcptailor lab experiments --useless 40 --helpful 20 --max-time 40s
  tcptailor lab experiments --engine virtual --seed 17      repeats a run

Exit code 3 if more than 2 of 100 useless changes are kept, or more than 2 of 100 helpful ones are
rolled back.")]
pub(crate) struct Args {
    /// TCP implementation at both ends of the paths.
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    engine: EngineChoice,
    /// Changes that do nothing.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    useless: u32,
    /// Changes that help.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    helpful: u32,
    /// What paths, traffic and changes are drawn from [default: another one each time].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The longest time that one experiment may take.
    #[arg(long, value_name = "TIME", default_value = "3m", value_parser = base::parse_time)]
    max_time: Duration,
}

impl Args {
    /// Whether a lab path is laid, for which an ordinary user needs a user namespace.
    pub(crate) fn lays_path(&self) -> bool {
        self.engine != EngineChoice::Virtual
    }

    const fn options(&self) -> FitOptions {
        FitOptions {
            observe: Duration::from_secs(2),
            slice: Duration::from_secs(1),
            settle: Duration::from_secs(2),
            warm_up: Duration::from_secs(2),
            bound: self.max_time,
            extra: Duration::ZERO,
            once: false,
            dry_run: false,
        }
    }
}

/// Document of `--json`.
#[derive(Serialize)]
struct Document {
    ok: bool,
    seed: u64,
    engine: lab::EngineName,
    useless: Count,
    helpful: Count,
}

/// Changes of one kind.
#[derive(Serialize)]
struct Count {
    tried: u32,
    kept: u32,
    undone: u32,
    rows: Vec<Row>,
}

/// One change.
#[derive(Serialize)]
struct Row {
    name: String,
    traffic: &'static str,
    #[serde(flatten)]
    tried: Tried,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    check_max_time(args.max_time)?;
    let seed = match args.seed {
        Some(seed) => seed,
        // Short enough to be typed.
        None => linux::random_seed()? % 1_000_000,
    };
    output.line(format!("seed      {seed}"))?;
    let mut engine = lab::EngineName::Virtual;
    let mut work = |of: fn(u64, usize) -> KnownChange, number: u32, kept_is_right: bool| {
        let mut rows = Vec::new();
        for number in 0..number {
            let known = of(seed, number as usize);
            let (tried, on) = try_one(&known, args, output)?;
            engine = on;
            let mark = if tried.kept == kept_is_right {
                "     "
            } else {
                "WRONG"
            };
            let told = screen::result(&tried, false);
            let (name, traffic) = (&known.name, known.traffic.name());
            output.line(format!("{mark} {name} ({traffic})\n      {told}"))?;
            rows.push(Row {
                name: known.name,
                traffic,
                tried,
            });
        }
        anyhow::Ok(Count::of(rows))
    };
    let useless = work(useless, args.useless, false)?;
    let helpful = work(helpful, args.helpful, true)?;
    let document = Document {
        ok: useless.kept <= useless.tried.div_ceil(PER_ERROR)
            && helpful.undone <= helpful.tried.div_ceil(PER_ERROR),
        seed,
        engine,
        useless,
        helpful,
    };
    output.report("lab-experiments", &document, || render(&document))?;
    Ok(if document.ok {
        Exit::Done
    } else {
        Exit::Findings
    })
}

impl Count {
    fn of(rows: Vec<Row>) -> Self {
        let count = |rows: usize| u32::try_from(rows).unwrap_or(u32::MAX);
        let kept = rows.iter().filter(|row| row.tried.kept).count();
        Self {
            tried: count(rows.len()),
            kept: count(kept),
            undone: count(rows.len() - kept),
            rows,
        }
    }
}

fn try_one(
    known: &KnownChange,
    args: &Args,
    output: &Output,
) -> anyhow::Result<(Tried, lab::EngineName)> {
    let mut path = path::start_trial(args.engine, None, &known.trial, &known.name, output)?;
    path.subject.wait(known.warm_up)?;
    let given = (known.objective, &known.proposals[..]);
    let engine = path.subject.engine();
    let subject: &mut AnySubject<'_> = &mut *path.subject;
    let tried = fit_given(subject, &args.options(), given, &mut |_, _| Ok(()))?;
    let tried = tried.ok_or_else(|| {
        Problem::failed(format!("{}: the change cannot be made here", known.name))
    })?;
    Ok((tried, engine))
}

fn render(document: &Document) -> String {
    let Document {
        ok: _,
        seed,
        engine,
        useless,
        helpful,
    } = document;
    format!(
        "\n{} of {} useless changes kept, {} of {} helpful ones undone (engine {engine}, seed {seed})",
        useless.kept, useless.tried, helpful.undone, helpful.tried
    )
}
