//! Whether an answer is right.

use std::collections::BTreeSet;

use doctor::{Case, Confidence, Evidence, Verdict};
use serde::Deserialize;

/// A connection with less than this share of the largest rate is a control connection.
const MINOR_SHARE: f64 = 0.01;

/// What is right for one recording, by how its situation was made.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Label {
    pub(crate) situation: String,
    pub(crate) end: String,
    pub(crate) program: String,
    pub(crate) why: String,
    /// Nothing is wrong: no finding is right.
    pub(crate) healthy: bool,
    /// Main answers, of which one must be given (where something is wrong) or no other may be.
    pub(crate) right: BTreeSet<String>,
    /// Findings that may stand beside it.
    pub(crate) also: BTreeSet<String>,
}

/// What is said of one connection, or of the host.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Id of the main verdict, `idle` or `unknown`.
    pub(crate) main: String,
    pub(crate) confidence: Option<Confidence>,
    findings: BTreeSet<String>,
    /// Rows of evidence that seem to speak against an answer that is no finding.
    pub(crate) contradicted: Vec<String>,
    rate: u64,
    is_of_host: bool,
}

impl Answer {
    pub(crate) fn of_case(case: &Case<'_, '_>) -> Self {
        let report = case.diagnose();
        let timeline = case.timeline();
        let findings = findings(&report.verdicts);
        let rate = timeline.rate().max(timeline.receive_rate());
        let rate = rate.map_or(0, base::Rate::bits_per_second);
        let main = match report.main() {
            Some(main) if rate > 0 || main.diagnosis.is_finding() => main.diagnosis.id,
            _ if rate > 0 => "unknown",
            _ => "idle",
        };
        Self {
            main: main.into(),
            confidence: report.main().map(|main| main.confidence),
            contradicted: contradicted(&report.verdicts),
            findings,
            rate,
            is_of_host: false,
        }
    }

    pub(crate) fn of_host(verdict: &Verdict) -> Self {
        Self {
            main: verdict.diagnosis.id.into(),
            confidence: Some(verdict.confidence),
            findings: findings(std::slice::from_ref(verdict)),
            contradicted: contradicted(std::slice::from_ref(verdict)),
            rate: 0,
            is_of_host: true,
        }
    }

    /// Idle, or a control connection beside the one that carries the data.
    fn is_minor(&self, most: u64) -> bool {
        !self.is_of_host && (self.main == "idle" || (self.rate as f64) < most as f64 * MINOR_SHARE)
    }
}

fn findings(verdicts: &[Verdict]) -> BTreeSet<String> {
    verdicts
        .iter()
        .filter(|verdict| verdict.diagnosis.is_finding())
        .map(|verdict| verdict.diagnosis.id.to_owned())
        .collect()
}

/// `4.27 ms`, `98 %`: the first number of a value with its unit; times are in microseconds.
fn quantity(text: &str) -> Option<(f64, &str)> {
    let mut words = text.split_whitespace();
    let number: f64 = words.next()?.trim_start_matches('<').parse().ok()?;
    Some(match words.next().unwrap_or_default() {
        "ms" => (number * 1e3, "us"),
        "s" => (number * 1e6, "us"),
        unit => (number, unit.trim_end_matches([',', ';'])),
    })
}

/// Rows whose bound stands alone, without a word on where it holds, and is not kept.
fn contradicted(verdicts: &[Verdict]) -> Vec<String> {
    /// `at least 10.0 ms per write`: with more words it says where it holds.
    const WORDS_OF_A_BOUND_ALONE_MAX: usize = 4;
    let healthy = verdicts.iter().filter(|one| !one.diagnosis.is_finding());
    let rows = healthy.flat_map(|one| one.evidence.iter().map(|row| (one.diagnosis.id, row)));
    let is_broken = |(_, row): &(&str, &Evidence)| {
        let stands_alone = row.expected.split_whitespace().count() <= WORDS_OF_A_BOUND_ALONE_MAX;
        let Some((seen, unit)) = quantity(&row.observed).filter(|_| stands_alone) else {
            return false;
        };
        let bound = |word: &str| {
            let bound = row.expected.strip_prefix(word).and_then(quantity);
            bound.filter(|bound| bound.1 == unit).map(|bound| bound.0)
        };
        bound("below ").is_some_and(|most| seen >= most)
            || bound("above ").is_some_and(|least| seen <= least)
            || bound("at least ").is_some_and(|least| seen < least)
    };
    rows.filter(is_broken)
        .map(|(id, row)| format!("{id}: {} {}, {}", row.field, row.observed, row.expected))
        .collect()
}

/// How right it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Right,
    /// Nothing is wrong, and something was found.
    FalseFinding,
    /// Something is wrong, and something else was found.
    WrongCause,
    /// Something is wrong, and nothing was found.
    Missed,
    /// Nothing was found, and what was said is not so.
    WrongAnswer,
    /// Nothing was said where an answer is possible.
    NoAnswer,
}

#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) label: Label,
    pub(crate) outcome: Outcome,
    /// The answers that count.
    pub(crate) answers: Vec<Answer>,
}

impl Judged {
    pub(crate) fn of(label: Label, answers: Vec<Answer>) -> Self {
        let most = answers.iter().map(|answer| answer.rate).max().unwrap_or(0);
        let answers: Vec<Answer> = answers
            .into_iter()
            .filter(|answer| !answer.findings.is_empty() || !answer.is_minor(most))
            .collect();
        let outcome = outcome(&label, &answers);
        Self {
            label,
            outcome,
            answers,
        }
    }

    pub(crate) fn is_right(&self) -> bool {
        self.outcome == Outcome::Right
    }

    pub(crate) fn is_false_alarm(&self) -> bool {
        self.outcome == Outcome::FalseFinding
    }

    /// The answer that stands for the recording: a right one if there is, else the first.
    pub(crate) fn main(&self) -> Option<&Answer> {
        let right = |answer: &&Answer| self.label.right.contains(&answer.main);
        self.answers.iter().find(right).or(self.answers.first())
    }
}

fn outcome(label: &Label, answers: &[Answer]) -> Outcome {
    let found: BTreeSet<&String> = answers.iter().flat_map(|answer| &answer.findings).collect();
    let others = |allowed: &BTreeSet<String>| found.iter().any(|id| !allowed.contains(*id));
    let is_right = |answer: &Answer| label.right.contains(&answer.main);
    if label.healthy {
        let mut wrong = answers.iter().filter(|answer| !is_right(answer)).peekable();
        return match () {
            () if others(&label.also) => Outcome::FalseFinding,
            () if wrong.peek().is_none() => Outcome::Right,
            () if wrong.all(|answer| answer.main == "unknown") => Outcome::NoAnswer,
            () => Outcome::WrongAnswer,
        };
    }
    let allowed = &label.right | &label.also;
    match answers.iter().any(is_right) {
        _ if others(&allowed) => Outcome::WrongCause,
        true => Outcome::Right,
        false if found.is_empty() => Outcome::Missed,
        false => Outcome::WrongCause,
    }
}
