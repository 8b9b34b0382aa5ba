//! How `fit` tells what it does while it does it.

use std::fmt::Write;

use base::human;
use lab::{EngineName, Fault, Measure, PathSpec, Trial, Yardstick};

use crate::commands::diagnose::screen;
use crate::output::push_wrapped;
use crate::subject::path::{PathReport, Started};
use crate::tailor::{ChangeMade, Ending, Fitting, Pattern, Step};

/// What is wrong, on which path, and what runs there.
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

/// Under the first word of each line of the story.
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

/// What has just happened.
pub(crate) fn step(step: &Step<'_>, pattern: &Pattern) -> String {
    match step {
        Step::Looked(sight) => {
            let Some(flow) = sight.flows.first() else {
                return "no connection was seen\n".into();
            };
            let mut text = format!("before    {}\n", got(&sight.measure, pattern));
            text.push_str(&screen::findings(flow));
            text
        }
        Step::Applied(changes) => changes.iter().map(change).collect::<Vec<_>>().join("\n"),
        Step::LookedAgain(sight) => format!("after     {}", got(&sight.measure, pattern)),
        Step::LookedAtNew(sight) => format!(
            "          the open connection did not take it up; with new connections:\n\
             after     {}",
            got(&sight.measure, pattern)
        ),
        Step::RolledBack(undone) => undone
            .iter()
            .map(|undone| format!("undone    {}: {}", undone.knob, undone.how))
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

fn change(made: &ChangeMade) -> String {
    let green = anstyle::AnsiColor::Green.on_default();
    let when = if made.live {
        "on the open connection"
    } else {
        "for new connections"
    };
    let ChangeMade {
        knob,
        target,
        from,
        to,
        ..
    } = made;
    format!("{green}changed{green:#}   {knob}: {from} -> {to}, {when}\n          {target}")
}

/// What the program got, the number that counts first.
fn got(measure: &Measure, pattern: &Pattern) -> String {
    let first = pattern.yardstick.unwrap_or(Yardstick::of(measure));
    let mut parts = vec![first.show(measure)];
    if let Some(rate) = measure
        .operations_per_s
        .filter(|_| first == Yardstick::Response)
    {
        parts.push(format!("{rate:.*} operations/s", usize::from(rate < 100.0)));
    }
    if let Some(response) = measure.response_us.filter(|_| first == Yardstick::Response) {
        parts.push(format!("99 % within {}", human::micros(response.p99)));
    }
    if first != Yardstick::Goodput && measure.operations_per_s.is_none() {
        parts.push(Yardstick::Goodput.show(measure));
    }
    if let Some(srtt) = measure.srtt_us.filter(|_| first == Yardstick::Goodput) {
        parts.push(format!("round trip {}", human::micros(srtt)));
    }
    parts.join(", ")
}

/// How it ended, and what to doubt.
pub(crate) fn ending(fitting: &Fitting, path: Option<&PathReport>) -> String {
    let bold = anstyle::Style::new().bold();
    let mut text = match fitting.ending {
        Ending::NothingToImprove => format!("\n{bold}nothing to improve{bold:#}"),
        Ending::NoVerdict => {
            format!("\n{bold}nothing changed{bold:#}: what limits the flow could not be said")
        }
        Ending::NoSettingHelps => {
            format!("\n{bold}no TCP setting removes this limit{bold:#}: see the note above")
        }
        Ending::OutOfReach => format!(
            "\n{bold}nothing changed{bold:#}: the change has to be made on the other host, or needs \
             new connections"
        ),
        Ending::DryRun => {
            let would = |made: &ChangeMade| {
                format!("\nwould set {} = {}, {}", made.knob, made.to, made.target)
            };
            let all: String = fitting.changes.iter().map(would).collect();
            format!("{all}\n{bold}dry run{bold:#}: nothing changed")
        }
        Ending::Kept => format!("\n{bold}kept{bold:#}: {}", better(fitting)),
        Ending::RolledBack => format!("\n{bold}rolled back{bold:#}: {}", better(fitting)),
    };
    if let Some(path) = path {
        text.push_str(&lateness(path));
        for caveat in &path.caveats {
            write!(text, "\ncaveat    {caveat}").expect("a String grows");
        }
    }
    text
}

/// How late the emulator delivered packets: the error of every time above.
fn lateness(path: &PathReport) -> String {
    let Some(late) = path.link.lateness() else {
        return String::new();
    };
    let [p50, p99, max] = [late.p50, late.p99, late.max].map(human::micros);
    format!("\nemulator  late by {p50} median, {p99} at the 99th percentile, {max} at worst")
}

/// `44.0 ms median -> 0.37 ms median, 118 times better`.
fn better(fitting: &Fitting) -> String {
    let gain = match fitting.gain {
        Some(gain) if gain >= 1000.0 => "more than 1000 times better".into(),
        Some(gain) if gain >= 10.0 => format!("{gain:.0} times better"),
        Some(gain) if gain >= 1.0 => format!("{gain:.2} times better"),
        Some(gain) => format!("{:.2} times worse", 1.0 / gain.max(1e-6)),
        None => "no comparison possible".into(),
    };
    format!("{}, {gain}", fitting.comparison())
}
