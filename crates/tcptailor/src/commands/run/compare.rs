//! `--fit`: the command with and without a change in turn, until it is certain which is better.

use std::fmt::Write;
use std::time::Duration;

use base::human;
use clap::ValueEnum;
use doctor::Objective;
use lab::{Measure, ResponseMicros};
use linux::Clock;
use linux::supervise::{Ended, SocketSetting};
use serde::Serialize;
use tailor::{Answer, Arm, Experiment, Outcome};

use super::report::{Report, with_settings};
use super::watched::Program;
use super::{Args, settings};
use crate::exit::{Exit, Problem};
use crate::output::{self, Output, push_wrapped};
use crate::progress::Progress;
use crate::subject::check_stopped;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Metric {
    /// How long the command takes.
    Time,
    /// The payload of its connections per second in which they are busy.
    Goodput,
}

impl Metric {
    /// The command is the operation whose response time counts.
    const fn objective(self) -> Objective {
        match self {
            Self::Time => Objective::Response,
            Self::Goodput => Objective::Goodput,
        }
    }
}

/// Result of the comparison.
#[derive(Debug, Serialize)]
pub(super) struct Compared {
    set: Vec<String>,
    metric: Metric,
    #[serde(flatten)]
    outcome: Outcome,
    #[serde(skip)]
    settings: Vec<SocketSetting>,
}

/// Watches one run, and tries in others what that one suggests or the user wants.
pub(super) fn run(args: &Args, program: &Program<'_>, output: &Output) -> anyhow::Result<Exit> {
    let began = Clock.now();
    let first = program.watch(&[])?;
    let mut report = Report::of(args, &first);
    super::save(args, first.recording, &first.noted)?;
    let exit = match first.ended {
        Ended::Code(0) => {
            let settings = match args.set.is_empty() {
                true => settings::suggested(&report.diagnosis),
                false => args.set.clone(),
            };
            let compared = match settings.is_empty() {
                true => None,
                false => Some(compare(args, program, settings, (began, output))?),
            };
            let exit = compared.as_ref().map_or(Exit::Done, Compared::exit);
            report.compared = compared;
            exit
        }
        ended => Exit::OfProgram(ended.shell_code()),
    };
    report.print(args, output)?;
    if first.ended != Ended::Code(0) {
        output.note("Nothing was compared: the program has to end with exit code 0.");
    } else if report.compared.is_none() {
        output.note("Nothing to try: no setting of the program's own sockets is suggested.");
    }
    Ok(exit)
}

fn compare(
    args: &Args,
    program: &Program<'_>,
    settings: Vec<SocketSetting>,
    (began, output): (base::Instant, &Output),
) -> anyhow::Result<Compared> {
    let bar = Progress::spinner(output, "comparing");
    let mut experiment = Experiment::alternating(args.metric.objective());
    let mut longest = Duration::ZERO;
    let mut runs = 0;
    let outcome = loop {
        if let Some(outcome) = experiment.outcome() {
            break outcome;
        }
        let run_began = Clock.now();
        if run_began.since(began) + longest > args.max_time && runs >= 2 {
            break experiment.out_of_time(args.max_time);
        }
        let arm = experiment.next();
        runs += 1;
        bar.label(match arm {
            Arm::A => format!("run {runs}: as it is"),
            Arm::B => format!("run {runs}: with {}", joined(&settings)),
        });
        let measure = measure(args.metric, program, arm, &settings)?;
        longest = longest.max(Clock.now().since(run_began));
        experiment.add(arm, measure);
    };
    Ok(Compared {
        set: settings.iter().map(ToString::to_string).collect(),
        metric: args.metric,
        outcome,
        settings,
    })
}

/// One run with or without the settings. Only what is measured is looked at: looking costs time.
fn measure(
    metric: Metric,
    program: &Program<'_>,
    arm: Arm,
    settings: &[SocketSetting],
) -> anyhow::Result<Measure> {
    let settings = match arm {
        Arm::A => &[],
        Arm::B => settings,
    };
    let (ended, measure) = match metric {
        Metric::Time => {
            let ran = program.run(settings)?;
            (ran.ended, measure_of_time(ran.time))
        }
        Metric::Goodput => {
            let seen = program.watch(settings)?;
            let own = |track: &doctor::Track| seen.noted.has(track);
            (seen.ended, tailor::measure_of(&seen.recording, own))
        }
    };
    check_stopped()?;
    if ended != Ended::Code(0) {
        let arm = match arm {
            Arm::A => "without",
            Arm::B => "with",
        };
        let code = ended.shell_code();
        let what =
            format!("the program failed when it was run again {arm} the change; exit code {code}");
        return Err(Problem::new(Exit::OfProgram(code), what)
            .hint("--fit is for commands that can be repeated.")
            .into());
    }
    Ok(measure)
}

/// The command as one operation.
fn measure_of_time(time: Duration) -> Measure {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    Measure {
        duration_s: time.as_secs_f64(),
        response_us: Some(ResponseMicros {
            n: 1,
            p50: micros,
            p90: micros,
            p99: micros,
            max: micros,
            stalled: 0,
        }),
        ..Measure::default()
    }
}

fn joined(settings: &[SocketSetting]) -> String {
    let shown: Vec<String> = settings.iter().map(ToString::to_string).collect();
    shown.join(", ")
}

impl Compared {
    const fn exit(&self) -> Exit {
        match self.outcome.answer {
            Answer::Better => Exit::Done,
            Answer::Worse => Exit::RolledBack,
            Answer::NotDistinguishable => Exit::NoDifference,
        }
    }

    /// The answer, and how to keep it.
    pub(super) fn shown(&self, args: &Args) -> String {
        let bold = output::Paint::BOLD;
        let Outcome {
            answer,
            before,
            after,
            gain,
            gain_interval,
            looks,
            why,
            ..
        } = &self.outcome;
        let [before, after] = [before, after].map(|value| self.value(*value));
        let range = |low: f64, high: f64| format!(" ({low:.2} to {high:.2})");
        let answer_text = match (answer, gain, gain_interval) {
            (Answer::Better, Some(gain), Some([low, high])) => {
                format!("{gain:.2} times better{}", range(*low, *high))
            }
            (Answer::Worse, Some(gain), Some([low, high])) => {
                let [times, low, high] = [*gain, *high, *low].map(|gain| 1.0 / gain.max(1e-6));
                format!("{times:.2} times worse{}", range(low, high))
            }
            (Answer::Better, ..) => "better".into(),
            (Answer::Worse, ..) => "worse".into(),
            (Answer::NotDistinguishable, ..) => "no significant difference".into(),
        };
        let metric = match self.metric {
            Metric::Time => "time of the command",
            Metric::Goodput => "goodput",
        };
        let runs = human::count(*looks as u64, "run");
        let mut words = format!(
            "{}: {metric} {before} -> {after}, {bold}{answer_text}{bold:#}; {runs} each",
            joined(&self.settings),
        );
        if let Some(why) = why {
            write!(words, "; {why}").expect("a String grows");
        }
        let mut text = String::from("compared  ");
        push_wrapped(&mut text, &words, "          ", 10);
        if *answer == Answer::Better {
            for setting in &self.settings {
                writeln!(text, "to keep   {}", settings::in_the_program(setting))
                    .expect("a String grows");
            }
            let command = with_settings(args, self.settings.iter());
            writeln!(text, "or        {command}").expect("a String grows");
        } else {
            text.push_str("Nothing stays changed.\n");
        }
        text
    }

    fn value(&self, value: Option<f64>) -> String {
        let Some(value) = value else {
            return "nothing".into();
        };
        match self.metric {
            Metric::Time => human::time(Duration::from_secs_f64(value / 1e6)),
            Metric::Goodput => lab::show_value(Objective::Goodput, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of these lengths in milliseconds, as they are asked for.
    fn answer(a: &[u64], b: &[u64]) -> Exit {
        let mut experiment = Experiment::alternating(Metric::Time.objective());
        let (mut a, mut b) = (a.iter().cycle(), b.iter().cycle());
        let outcome = loop {
            if let Some(outcome) = experiment.outcome() {
                break outcome;
            }
            let arm = experiment.next();
            let time = match arm {
                Arm::A => a.next(),
                Arm::B => b.next(),
            };
            let time = Duration::from_millis(*time.expect("a cycle"));
            experiment.add(arm, measure_of_time(time));
        };
        let compared = Compared {
            set: Vec::new(),
            metric: Metric::Time,
            outcome,
            settings: Vec::new(),
        };
        compared.exit()
    }

    #[test]
    fn the_time_of_a_command_is_judged_as_a_response_is() {
        let slow = [2000, 2010, 2005, 1995, 2001];
        let fast = [100, 101, 99, 102, 100];
        assert_eq!(answer(&slow, &fast), Exit::Done);
        assert_eq!(answer(&fast, &slow), Exit::RolledBack);
        assert_eq!(answer(&slow, &slow), Exit::NoDifference);
    }
}
