//! Text of one verdict: how sure it is, what to change and who, and what speaks for it.

use std::fmt::Write;

use base::{Live, human};
use doctor::Side;

use super::super::capture;
use super::super::document::{ChangeRow, FlowRow, VerdictRow};
use crate::output::{self, push_wrapped};

/// A limit that was seen for less of the time than this has its times told.
const HELD_THROUGHOUT: f64 = 0.9;

/// How a verdict is introduced and how much of it is told.
pub(super) struct Telling<'t> {
    /// Prefix: the numbers of rows, or the host.
    pub(super) whose: &'t str,
    /// Seconds for which the connection was seen.
    pub(super) seen_s: f64,
    /// Other sockets at which the same change is to be made.
    pub(super) changes_elsewhere: usize,
    /// Changes, what limits next, and notes.
    pub(super) with_advice: bool,
    pub(super) with_evidence: bool,
}

/// The verdict with its advice.
pub(super) fn push(text: &mut String, verdict: &VerdictRow, telling: &Telling<'_>) {
    let bold = output::Paint::BOLD;
    let whose = telling.whose;
    let sure = sureness(verdict, telling.seen_s);
    write!(text, "{whose}  {bold}{}{bold:#} ({sure}): ", verdict.id).expect("a String grows");
    let used = whose.len() + verdict.id.len() + sure.len() + 7;
    if verdict.consistent_with {
        let sentence = format!("consistent with: {}", verdict.sentence);
        push_wrapped(text, &sentence, "   ", used);
    } else {
        push_wrapped(text, verdict.sentence, "   ", used);
    }
    if telling.with_advice {
        push_advice(text, verdict, telling.changes_elsewhere);
    }
    if telling.with_evidence {
        push_evidence(text, verdict);
    }
}

/// `high`, or `high, from 1.20 s to 3.40 s` where the limit held for a part of the time.
pub(crate) fn sureness(verdict: &VerdictRow, seen_s: f64) -> String {
    let sure = confidence(verdict);
    match verdict.held_s {
        Some([from, to]) if to - from < HELD_THROUGHOUT * seen_s => {
            let [from, to] = [from, to]
                .map(|seconds| human::time(std::time::Duration::from_secs_f64(seconds.max(0.0))));
            format!("{sure}, seen from {from} to {to}")
        }
        _ => sure,
    }
}

pub(crate) fn confidence(verdict: &VerdictRow) -> String {
    format!("{:?}", verdict.confidence).to_lowercase()
}

/// The main verdict on one flow with everything that speaks for it, and further findings; what to
/// do about them where that is asked for.
pub(crate) fn findings(flow: &FlowRow, with_advice: bool) -> String {
    let bold = output::Paint::BOLD;
    let mut text = String::new();
    for (index, verdict) in flow.verdicts.iter().enumerate() {
        if index > 0 && !verdict.finding {
            continue;
        }
        writeln!(text, "\n{bold}{}{bold:#}", verdict.id).expect("a String grows");
        text.push_str("   ");
        push_wrapped(&mut text, verdict.sentence, "   ", 3);
        push_evidence(&mut text, verdict);
        if with_advice {
            push_advice(&mut text, verdict, 0);
        }
    }
    if let Some(unknown) = &flow.unknown {
        text.push_str("\nunclear: ");
        push_wrapped(&mut text, unknown, "   ", 9);
    }
    text
}

fn push_advice(text: &mut String, verdict: &VerdictRow, elsewhere: usize) {
    let green = output::Paint::color(anstyle::AnsiColor::Green);
    for (index, change) in verdict
        .change
        .iter()
        .chain(&verdict.alternatives)
        .enumerate()
    {
        let label = if index == 0 { "change" } else { "or    " };
        let indent = "            ";
        write!(text, "   {green}{label}{green:#}   ").expect("a String grows");
        let mut words = advice(change);
        if index == 0 && elsewhere > 0 {
            let others = human::count(elsewhere as u64, "other socket");
            write!(words, "; and at {others} (JSON names them)").expect("a String grows");
        }
        push_wrapped(text, &words, indent, indent.len());
    }
    if let Some(next) = &verdict.next {
        text.push_str("   then     ");
        push_wrapped(text, &next.to_string(), "            ", 12);
    }
    if !verdict.remark.is_empty() {
        text.push_str("   note     ");
        push_wrapped(text, &verdict.remark, "            ", 12);
    }
}

/// `nodelay = on here, on the open connection; risk: more small packets`.
pub(crate) fn advice(change: &ChangeRow) -> String {
    let place = match (&change.target, change.at, change.side) {
        (Some(target), _, _) => target.to_string(),
        (None, Some(at), _) => capture::place(at),
        (None, None, Side::Local) => "on this host".into(),
        (None, None, Side::Remote) => "on the host at the other end".into(),
    };
    let when = match change.takes_effect {
        Live::Now => "at once",
        Live::Reconnect => "for new connections",
        Live::Restart => "after the program was started again",
    };
    let risk = match change.risk {
        "" => String::new(),
        risk => format!("; risk: {risk}"),
    };
    let requires = change.requires.map(|what| format!("; requires {what}"));
    format!(
        "{} = {}, {place}: {when}{risk}{}",
        change.knob,
        change.to_text,
        requires.unwrap_or_default()
    )
}

fn push_evidence(text: &mut String, verdict: &VerdictRow) {
    let mut table = output::table(&["  FIELD", "OBSERVED", "EXPECTED"]);
    for row in &verdict.evidence {
        table.add_row([&format!("  {}", row.field), &row.observed, &row.expected]);
    }
    // Names are looked for by eye and by grep: they stay whole.
    if let Some(names) = table.column_mut(0) {
        names.set_constraint(comfy_table::ColumnConstraint::ContentWidth);
    }
    let confidence = format!("{:?}", verdict.confidence).to_lowercase();
    let share = human::share(verdict.share);
    writeln!(
        text,
        "   evidence for {share} of the time, confidence {confidence}:"
    )
    .expect("a String grows");
    for line in output::render(&table).lines() {
        writeln!(text, " {line}").expect("a String grows");
    }
}
