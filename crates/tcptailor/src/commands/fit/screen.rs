//! Progress and result table of `fit`.

use std::fmt::Write;

use base::{Live, Scope, Target, human};
use doctor::{Objective, Side};
use lab::{EngineName, Fault, Measure, PathSpec, Trial};
use tailor::{
    Answer, Candidate, ChangeMade, Design, Ending, Finding, FitEvent, Fitting, Forecast, Look,
    Outcome, Tried, Undone,
};

use super::lasting::Lasting;
use super::own_connection::{self, OwnConnection};
use crate::commands::diagnose::document::FlowRow;
use crate::commands::diagnose::{screen, seen};
use crate::commands::knobs::scope_name;
use crate::output::{self, push_wrapped};
use crate::subject::journalled::was_made;
use crate::subject::path::{PathReport, Started};

/// The fault, the path, and the programs.
pub(crate) fn opening(fault: &Fault, trial: &Trial, started: &Started<'_>) -> String {
    let subject = &started.subject;
    let [client, server] = subject.programs();
    let mut text = format!(
        "{}\n\npath      {}\nengine    ",
        fault.about,
        path(&trial.path)
    );
    let engine = engine(subject.engine(), started.denied.as_ref());
    push_wrapped(&mut text, &engine, INDENT, INDENT.len());
    write!(text, "programs  {client}\n{INDENT}{server}").expect("a String grows");
    text
}

/// Under the first word of each line.
const INDENT: &str = "          ";

/// Which TCP it is, and how to get the kernel's.
fn engine(engine: EngineName, denied: Option<&linux::Error>) -> String {
    let real = match denied {
        _ if engine == EngineName::Kernel => return format!("{engine}: Linux TCP at both ends"),
        Some(denied) => format!("; for Linux TCP {}", denied.advice()),
        None => String::new(),
    };
    format!("{engine}: tcptailor's own TCP at both ends, in virtual time{real}")
}

/// `1gbit each way, 200us round trip, queue 1000p`.
pub(crate) fn path(path: &PathSpec) -> String {
    let PathSpec::Emulated {
        mtu,
        forward,
        reverse,
        ..
    } = path
    else {
        return match path {
            PathSpec::Loopback => "loopback".into(),
            PathSpec::Veth { mtu } => format!("veth pair, MTU {}", mtu.0),
            PathSpec::Emulated { .. } => unreachable!("matched above"),
        };
    };
    let rtt = base::format_duration(forward.delay + reverse.delay);
    let rate = |link: &link::LinkSpec| {
        link.rate
            .map_or_else(|| "no rate limit".into(), |rate| rate.to_string())
    };
    let rate = both_ways(rate(forward), &rate(reverse));
    let queue = both_ways(forward.queue.to_string(), &reverse.queue.to_string());
    format!("{rate}, {rtt} round trip, queue {queue}, MTU {}", mtu.0)
}

/// One text where both directions are the same.
fn both_ways(up: String, down: &str) -> String {
    if up == down {
        up
    } else {
        format!("{up} up and {down} down")
    }
}

const IDLE: &str = "No connection carried data while it was watched, so that nothing limited one. Run \
                    fit again while the program is at work.";

/// Facts already shown to the user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// Nothing was said yet.
    pub(crate) is_first: bool,
    /// The connection is one of this command, and ends with it.
    pub(crate) is_test: bool,
    /// Whether changes and notes are told beside what was found.
    pub(crate) has_advice: bool,
}

/// Text of an event; `None` if only a progress bar shows it.
pub(crate) fn event(
    event: &FitEvent<'_>,
    Told {
        is_first,
        is_test,
        has_advice,
    }: Told,
    wants: &dyn Fn(&doctor::Track) -> bool,
) -> Option<String> {
    Some(match event {
        FitEvent::Looked(look) => looked(look, (is_first, has_advice), wants),
        FitEvent::Trying(finding, candidate, design) => trying(finding, candidate, *design),
        FitEvent::Predicted(forecast) => predicted(forecast),
        FitEvent::Compared(..) => return None,
        FitEvent::Tried(tried) => result(tried, is_test),
        FitEvent::Undone([]) => return None,
        FitEvent::Undone(undone) => {
            let line = |undone: &Undone| format!("undone    {}: {}", undone.knob, undone.how);
            let mut lines: Vec<String> = undone.iter().map(line).collect();
            lines.dedup();
            lines.join("\n")
        }
    })
}

const NO_CONNECTION: &str = "\
no connection was seen: it has to be open while fit runs; of a program that is yet to connect,
`tcptailor run --fit -- COMMAND` finds what helps
";

fn looked(
    look: &Look,
    (is_first, has_advice): (bool, bool),
    wants: &dyn Fn(&doctor::Track) -> bool,
) -> String {
    let rows = look.observed(|observed| seen::rows(observed, wants));
    let Some(main) = rows.first() else {
        return NO_CONNECTION.into();
    };
    let mut text = format!("\nmeasured  {}\n", got(&look.measure));
    match main.main().filter(|_| !is_first && !main.has_finding()) {
        // Behind a change that is kept, a word is enough.
        Some(verdict) => push_answer(&mut text, verdict.id, verdict.sentence),
        None if rows.iter().all(|row| row.idle) => push_answer(&mut text, "idle", IDLE),
        None => text.push_str(&screen::findings(main, has_advice)),
    }
    text
}

fn push_answer(text: &mut String, id: &str, sentence: &str) {
    let bold = output::Paint::BOLD;
    write!(text, "\n{bold}{id}{bold:#}\n   ").expect("a String grows");
    push_wrapped(text, sentence, "   ", 3);
    text.truncate(text.trim_end().len());
}

/// How a change is measured.
pub(super) const fn how(design: Design) -> &'static str {
    match design {
        Design::Alternate => "alternating without and with it, on the open connection",
        Design::NewConnections => "alternating without and with it, on new connections",
        Design::SideBySide => {
            "on connections opened before and after it, side by side; those opened after it keep it until \
             they close"
        }
        Design::BeforeAfter => {
            "before and after it, once: a rollback restores the setting, but windows and buffers that \
             have grown on an open connection may stay"
        }
    }
}

fn trying(finding: &Finding, candidate: &Candidate, design: Design) -> String {
    let mut targets: Vec<&Target> = Vec::new();
    for change in &candidate.changes {
        if !targets.contains(&&change.target) {
            targets.push(&change.target);
        }
    }
    let mut text = format!("try       {}: measured ", candidate.text());
    let used = text.len();
    push_wrapped(&mut text, how(design), INDENT, used);
    if let Some(target) = targets.first() {
        text.push_str(&format!("{INDENT}{target}\n"));
    }
    let kind = match candidate.scope {
        Scope::Socket => Some("other socket"),
        Scope::Route => Some("other route"),
        _ => None,
    };
    if let Some(kind) = kind.filter(|_| targets.len() > 1) {
        let others = human::count(targets.len() as u64 - 1, kind);
        text.push_str(&format!("{INDENT}and {others}\n"));
    }
    if !candidate.risk.is_empty() {
        text.push_str(&format!("{INDENT}risk: {}\n", candidate.risk));
    }
    // The finding stands above already.
    let _ = finding;
    text.truncate(text.trim_end().len());
    text
}

/// `predicted 46.2 Mbit/s (39.3 to 52.1)`, or why not.
fn predicted(forecast: &Forecast) -> String {
    match forecast {
        Forecast::Known(prediction) => format!("predicted {}", prediction.text()),
        Forecast::Unknown(why) => {
            let mut text = String::from("predicted ");
            push_wrapped(&mut text, &format!("nothing: {why}"), INDENT, INDENT.len());
            text.truncate(text.trim_end().len());
            text
        }
    }
}

/// Result of a change.
pub(crate) fn result(tried: &Tried, is_test: bool) -> String {
    let Some(outcome) = &tried.outcome else {
        return String::new();
    };
    let (word, style) = match outcome.answer {
        _ if outcome.time_needed_s.is_some() => (
            "skipped  ",
            output::Paint::color(anstyle::AnsiColor::Yellow),
        ),
        Answer::Better if tried.kept && is_test && own_connection::is_of_socket(tried) => {
            ("better   ", output::Paint::color(anstyle::AnsiColor::Green))
        }
        Answer::Better if tried.kept => {
            ("kept     ", output::Paint::color(anstyle::AnsiColor::Green))
        }
        Answer::Better | Answer::NotDistinguishable => (
            "undone   ",
            output::Paint::color(anstyle::AnsiColor::Yellow),
        ),
        Answer::Worse => ("undone   ", output::Paint::color(anstyle::AnsiColor::Red)),
    };
    let mut text = format!("{style}{word}{style:#} ");
    push_wrapped(&mut text, &judged(outcome), INDENT, INDENT.len());
    text.pop();
    let wanted = doctor::find_diagnosis(tried.finding.diagnosis).map(|found| found.objective);
    if wanted.is_some_and(|wanted| wanted != outcome.objective) {
        let per = match outcome.while_in_flight {
            true => "time with data in flight",
            false => "second",
        };
        let used = "response times are known to the program alone";
        write!(text, "\n{INDENT}by payload per {per}: {used}").expect("a String grows");
    }
    text
}

/// `44.0 ms median -> 317 us median, 139 times better (135 to 142; 3 runs each)`.
fn judged(outcome: &Outcome) -> String {
    if let Some(needed) = outcome.time_needed_s {
        let needed = seconds(needed.ceil());
        return format!("not tried: the experiment takes {needed} at least (--max-time)");
    }
    let mut text = tailor::comparison(outcome);
    match (outcome.answer, outcome.gain) {
        (Answer::NotDistinguishable, Some(gain)) if is_unproven(outcome) => {
            write!(text, ", {} so far, which is not proven", times(gain)).expect("a String grows");
        }
        (Answer::NotDistinguishable, _) => text.push_str(", no significant difference"),
        (_, Some(gain)) => write!(text, ", {}", times(gain)).expect("a String grows"),
        (_, None) => {}
    }
    match outcome.gain_interval {
        Some([low, high]) if outcome.answer != Answer::NotDistinguishable && high < 1000.0 => {
            write!(
                text,
                " ({low:.2} to {high:.2}; {} runs each)",
                outcome.looks
            )
        }
        _ => write!(text, " ({} runs each)", outcome.looks),
    }
    .expect("a String grows");
    if let Some(why) = outcome.why {
        write!(text, ": {why}").expect("a String grows");
    }
    if let Some(limit) = outcome.time_limit_s {
        let reached = seconds(limit);
        write!(
            text,
            "; the time limit of {reached} was reached (--max-time)"
        )
        .expect("a String grows");
        if is_unproven(outcome) {
            write!(
                text,
                "; `--max-time {}` allows more runs",
                seconds(limit * 3.0)
            )
            .expect("a String grows");
        }
    }
    text
}

/// Whether it looks like a gain, and there was no time to be sure.
fn is_unproven(outcome: &Outcome) -> bool {
    outcome.time_limit_s.is_some() && outcome.gain.is_some_and(|gain| gain >= tailor::GAIN_MIN)
}

/// As `--max-time` reads it: rounded, 90 s would be two minutes.
fn seconds(seconds: f64) -> String {
    base::format_duration(std::time::Duration::from_secs_f64(seconds))
}

/// `118 times better`, `1.23 times worse`.
pub(super) fn times(gain: f64) -> String {
    match gain {
        gain if gain >= 1000.0 => "more than 1000 times better".into(),
        gain if gain >= 10.0 => format!("{gain:.0} times better"),
        gain if gain >= 1.0 => format!("{gain:.2} times better"),
        gain => format!("{:.2} times worse", 1.0 / gain.max(1e-6)),
    }
}

/// Results of the program, the decisive metric first.
fn got(measure: &Measure) -> String {
    let first = measure.own_objective();
    let mut parts = vec![measure.show(first)];
    if let Some(rate) = measure
        .operations_per_s
        .filter(|_| first == Objective::Response)
    {
        parts.push(format!("{rate:.*} operations/s", usize::from(rate < 100.0)));
    }
    if let Some(response) = measure.response_us.filter(|_| first == Objective::Response) {
        parts.push(format!("p99 {}", human::micros(response.p99)));
    }
    if let Some(srtt) = measure.srtt_us.filter(|_| first == Objective::Goodput) {
        parts.push(format!("round trip {}", human::micros(srtt)));
    }
    parts.join(", ")
}

/// The table of what was tried, how it ended, and what to doubt.
pub(crate) fn ending(
    fitting: &Fitting,
    path: Option<&PathReport>,
    (own, lasting): (Option<&OwnConnection>, Option<&Lasting>),
    row: Option<&FlowRow>,
) -> String {
    let bold = output::Paint::BOLD;
    let mut text = String::from("\n");
    if !fitting.tried.is_empty() {
        text.push_str(&table(&fitting.tried, own.is_some()));
        text.push('\n');
    }
    let [headline, rest] = ended(fitting.ending, own.is_some());
    let reason = |ending, rest: &str| {
        let why = match ending {
            Ending::OutOfReach => row.and_then(why_out_of_reach),
            Ending::NoVerdict => row.and_then(why_no_verdict),
            _ => None,
        };
        why.map_or_else(|| rest.to_owned(), |why| format!(": {why}"))
    };
    let rest = reason(fitting.ending, rest);
    let mut line = String::new();
    push_wrapped(&mut line, &rest, INDENT, headline.len());
    write!(text, "{bold}{headline}{bold:#}{}", line.trim_end()).expect("a String grows");
    if let Some(after) = &fitting.after {
        let (before, after) = (got(&fitting.before), got(after));
        write!(text, "\nbefore    {before}\nafter     {after}").expect("a String grows");
    }
    if let Some(left) = fitting.left {
        let [headline, rest] = self::left(left);
        let rest = reason(left, rest);
        write!(text, "\nleft      {headline}{rest}").expect("a String grows");
    }
    if let Some(own) = own {
        write!(text, "\n{}", own.text()).expect("a String grows");
    }
    if let Some(lasting) = lasting {
        write!(text, "\n{}", lasting.text()).expect("a String grows");
    }
    if let Some(path) = path {
        text.push_str(&lateness(path));
        for caveat in &path.caveats {
            write!(text, "\ncaveat    {caveat}").expect("a String grows");
        }
    }
    text
}

/// Why nothing is known of connections that a longer look would show no longer.
fn why_no_verdict(row: &FlowRow) -> Option<String> {
    let are_short = row.connections > 1 && row.verdicts.is_empty() && !row.idle;
    are_short.then(|| {
        "each connection ends before it can be judged alone, and together they do not show what \
         they wait for"
            .into()
    })
}

/// Why the change that the diagnosis of this connection names was not tried.
fn why_out_of_reach(row: &FlowRow) -> Option<String> {
    let mut findings = row.verdicts.iter().filter(|verdict| verdict.finding);
    let change = findings.find_map(|verdict| verdict.change.as_ref())?;
    let name = format!("{} = {}", change.knob, change.to_text);
    Some(match (change.requires, change.side, change.takes_effect) {
        (Some(what), ..) => format!("{name} requires {what}"),
        (None, Side::Remote, _) => format!("{name} has to be set on the host at the other end"),
        (None, Side::Local, Live::Restart) => format!(
            "{name} acts on a program that is started with it; `tcptailor run --fit -- COMMAND` \
             starts one with and without it, and compares"
        ),
        (None, Side::Local, Live::Reconnect) => {
            format!("{name} acts on new connections, and the program was not seen to open any")
        }
        (None, Side::Local, Live::Now) => return None,
    })
}

/// The ending, on a test connection or not.
pub(super) const fn ended(ending: Ending, is_test: bool) -> [&'static str; 2] {
    match ending {
        Ending::Kept if is_test => ["better", ": proven on a test connection"],
        ending => sentence(ending),
    }
}

/// Result of the search that followed a kept change.
pub(super) const fn left(left: Ending) -> [&'static str; 2] {
    match left {
        Ending::Kept => ["another limit", ": the same command goes on with it"],
        left => sentence(left),
    }
}

/// Result of a change, in a few words.
pub(super) fn result_word(tried: &Tried, is_test: bool) -> String {
    match (&tried.outcome, tried.kept) {
        (None, _) => "not made (dry run)".to_owned(),
        (Some(outcome), true) => {
            let gain = outcome.gain.map_or_else(String::new, times);
            match is_test && own_connection::is_of_socket(tried) {
                // What was set on a test connection ends with it.
                true => format!("{gain}, on the test connection"),
                false => format!("kept: {gain}"),
            }
        }
        (Some(outcome), false) => match outcome.answer {
            Answer::Worse => "undone: worse".into(),
            _ if outcome.time_needed_s.is_some() => "not tried: time limit".into(),
            _ if outcome.time_limit_s.is_some() => {
                "undone: no significant difference within the time limit".into()
            }
            _ => "undone: no significant difference".into(),
        },
    }
}

fn table(tried: &[Tried], is_test: bool) -> String {
    let mut table = output::table(&[
        "LIMIT",
        "CHANGE",
        "SCOPE",
        "PREDICTED",
        "MEASURED",
        "RESULT",
    ]);
    output::keep_whole(&mut table, 0);
    for tried in tried {
        let outcome = tried.outcome.as_ref();
        let measured = outcome
            .filter(|outcome| outcome.time_needed_s.is_none())
            .map(tailor::comparison);
        table.add_row([
            tried.finding.diagnosis.to_owned(),
            changes(&tried.changes),
            scopes(&tried.changes),
            match &tried.predicted {
                Some(Forecast::Known(prediction)) => prediction.text(),
                Some(Forecast::Unknown(_)) => "not known".into(),
                None => String::new(),
            },
            measured.unwrap_or_default(),
            result_word(tried, is_test),
        ]);
    }
    output::render(&table)
}

/// `nodelay: off -> on`, a line for each that was made.
pub(super) fn changes(changes: &[ChangeMade]) -> String {
    let text = |change: &ChangeMade| match (change.from.as_str(), change.to.as_str()) {
        (_, gone) if !was_made(gone) => format!("{}: {gone}", change.knob),
        ("", to) => format!("{} = {to}", change.knob),
        (from, to) => format!("{}: {from} -> {to}", change.knob),
    };
    let made = changes.iter().filter(|change| was_made(&change.to));
    let mut lines: Vec<String> = made.map(text).collect();
    if lines.is_empty() {
        lines = changes.iter().map(text).collect();
    }
    lines.dedup();
    lines.join("\n")
}

/// `socket`: what the change reaches; its place was told when it was tried.
pub(super) fn scopes(changes: &[ChangeMade]) -> String {
    let mut lines: Vec<&str> = changes.iter().map(scope_of).collect();
    lines.dedup();
    lines.join("\n")
}

pub(super) fn scope_of(change: &ChangeMade) -> &'static str {
    match base::find_knob(&change.knob) {
        Ok(knob) => scope_name(knob.scope),
        Err(_) => "",
    }
}

/// The ending: a word, and an addition.
const fn sentence(ending: Ending) -> [&'static str; 2] {
    match ending {
        Ending::Kept => ["kept", ""],
        Ending::Worse => ["undone", ": what was tried makes it worse"],
        Ending::NotDistinguishable => ["undone", ": no significant difference"],
        Ending::OutOfTime => [
            "no change",
            ": no significant difference within the time limit of an experiment (--max-time)",
        ],
        Ending::DryRun => ["dry run", ": nothing was changed"],
        Ending::NothingToImprove => ["nothing to improve", ""],
        Ending::NoVerdict => [
            "no change",
            ": saw no connection whose limit it could determine with confidence; `-t 30s` measures longer",
        ],
        Ending::NoSettingHelps => [
            "no TCP setting removes this limit",
            ": see the advice above",
        ],
        Ending::OutOfReach => [
            "no change",
            ": it has to be made on the other host, needs root, or needs new connections",
        ],
    }
}

/// How late the emulator delivered packets: the error of every time above.
fn lateness(path: &PathReport) -> String {
    let Some(late) = path.link.lateness() else {
        return String::new();
    };
    let [p50, p99, max] = [late.p50, late.p99, late.max].map(human::micros);
    format!("\nemulator  late by {p50} median, {p99} at the 99th percentile, {max} at worst")
}
