//! The answer for people: a table of flows, what to change, and what to type next.

use std::fmt::Write;
use std::time::Duration;

use base::{Live, Netns, human};
use doctor::Side;

use super::document::{ChangeRow, Direction, Document, FlowRow, HostRow, VerdictRow};
use crate::output::{self, push_wrapped};

/// Rows without a finding that are shown unless everything is asked for.
const OTHER_ROWS_MAX: usize = 20;

/// What the screen says beyond the document.
pub(crate) struct Style<'a> {
    pub(crate) verbosity: u8,
    /// The commands to go on with.
    pub(crate) next: &'a str,
}

pub(crate) fn render(document: &Document, style: &Style<'_>) -> String {
    let mut screen = String::new();
    let shown = rows_to_show(document, style.verbosity);
    if !shown.is_empty() {
        screen.push_str(&table(&shown));
        for (number, flow) in shown.iter().enumerate() {
            screen.push_str(&details(number + 1, flow, style.verbosity));
        }
        screen.push('\n');
    }
    for row in &document.host {
        screen.push_str(&host_finding(row, style.verbosity));
    }
    screen.push_str(&summary(document, shown.len()));
    if !style.next.is_empty() {
        screen.push_str(style.next);
        screen.push('\n');
    }
    screen
}

/// A finding that is of the host and of no single connection.
fn host_finding(row: &HostRow, verbosity: u8) -> String {
    let verdict = &row.verdict;
    let bold = anstyle::Style::new().bold();
    let whose = match (&row.netns, &row.container) {
        (_, Some(container)) => container.clone(),
        (Netns::Own, None) => "host".to_owned(),
        (netns, None) => netns.to_string(),
    };
    let mut text = format!("{whose}  {bold}{}{bold:#}", verdict.id);
    push_sureness(&mut text, verdict);
    push_wrapped(
        &mut text,
        verdict.sentence,
        "   ",
        whose.len() + verdict.id.len() + 14,
    );
    push_advice(&mut text, verdict);
    if verbosity > 0 {
        push_evidence(&mut text, verdict);
    }
    text.push('\n');
    text
}

/// How sure it is, in the line that names it.
fn push_sureness(text: &mut String, verdict: &VerdictRow) {
    let sure = format!("{:?}", verdict.confidence).to_lowercase();
    write!(text, " ({sure}): ").expect("a String grows");
}

/// All flows with findings, and some of the others that do something.
fn rows_to_show(document: &Document, verbosity: u8) -> Vec<&FlowRow> {
    let (findings, others): (Vec<&FlowRow>, Vec<&FlowRow>) =
        document.flows.iter().partition(|flow| flow.has_finding());
    let all = verbosity > 1;
    let limit = if all { usize::MAX } else { OTHER_ROWS_MAX };
    let others = others
        .into_iter()
        .filter(|flow| all || !flow.idle)
        .take(limit);
    findings.into_iter().chain(others).collect()
}

fn table(flows: &[&FlowRow]) -> String {
    let are_apart = flows.windows(2).any(|two| two[0].netns != two[1].netns);
    let place = are_apart.then_some("WHERE");
    let header = ["", "FLOW"].into_iter().chain(place).chain([
        "PID/CMD",
        "RATE",
        "MIN RTT",
        "LIMITED BY",
        "SHARE",
    ]);
    let mut table = output::table(&header.collect::<Vec<_>>());
    for (number, flow) in flows.iter().enumerate() {
        let (limited_by, share) = match flow.main() {
            Some(verdict) => (verdict.id.to_owned(), human::share(verdict.share)),
            None if flow.idle => ("idle".into(), String::new()),
            None => ("unknown".into(), String::new()),
        };
        let place = are_apart.then(|| where_it_is(flow));
        let row = [(number + 1).to_string(), ends(flow)]
            .into_iter()
            .chain(place)
            .chain([
                owner(flow),
                flow.rate_bps.map_or_else(|| "?".into(), human::bps),
                flow.min_rtt_us.map_or_else(|| "?".into(), human::micros),
                limited_by,
                share,
            ]);
        table.add_row(row);
    }
    let numbers = [3, 4, 6].map(|column| column + usize::from(are_apart));
    output::align_right(&mut table, &numbers);
    output::render(&table)
}

/// The container, or else the namespace.
fn where_it_is(flow: &FlowRow) -> String {
    let container = flow.container.clone();
    container.unwrap_or_else(|| flow.netns.to_string())
}

/// `10.0.0.5:51514 < 10.0.9.2:443`: the arrow points where the data goes.
fn ends(flow: &FlowRow) -> String {
    let arrow = match flow.direction {
        Direction::Out => '>',
        Direction::In => '<',
    };
    let upper = match flow.upper.as_deref() {
        Some("mptcp") => " (MPTCP subflow)",
        Some("tls") => " (kernel TLS)",
        _ => "",
    };
    format!("{} {arrow} {}{upper}", flow.local, flow.remote)
}

fn owner(flow: &FlowRow) -> String {
    match (flow.pid, &flow.command) {
        (Some(pid), Some(command)) => format!("{pid}/{command}"),
        (Some(pid), None) => pid.to_string(),
        (None, _) => "?".into(),
    }
}

/// What follows the table for one flow: its findings, and with `-v` every verdict with evidence.
fn details(number: usize, flow: &FlowRow, verbosity: u8) -> String {
    let mut text = String::new();
    let told = flow
        .verdicts
        .iter()
        .filter(|verdict| verdict.finding || verbosity > 0);
    for verdict in told {
        let bold = anstyle::Style::new().bold();
        write!(text, "\n{number}  {bold}{}{bold:#}", verdict.id).expect("a String grows");
        push_sureness(&mut text, verdict);
        push_wrapped(
            &mut text,
            verdict.sentence,
            "   ",
            number.to_string().len() + verdict.id.len() + 13,
        );
        push_advice(&mut text, verdict);
        if verbosity > 0 {
            push_evidence(&mut text, verdict);
        }
    }
    if let Some(unknown) = flow
        .unknown
        .as_ref()
        .filter(|_| verbosity > 0 && !flow.idle)
    {
        write!(text, "\n{number}  unknown: ").expect("a String grows");
        push_wrapped(&mut text, unknown, "   ", number.to_string().len() + 11);
    }
    if verbosity > 0 && !flow.idle && !flow.limits.is_empty() {
        let shares = flow.limits.iter();
        let shares: Vec<String> = shares
            .map(|limit| format!("{} {}", limit.limit, human::share(limit.share)))
            .collect();
        text.push_str("   its time  ");
        push_wrapped(&mut text, &shares.join(", "), "   ", 13);
    }
    text
}

/// The main verdict on one flow with everything that speaks for it, and further findings.
pub(crate) fn findings(flow: &FlowRow) -> String {
    let bold = anstyle::Style::new().bold();
    let mut text = String::new();
    for (index, verdict) in flow.verdicts.iter().enumerate() {
        if index > 0 && !verdict.finding {
            continue;
        }
        writeln!(text, "\n{bold}{}{bold:#}", verdict.id).expect("a String grows");
        text.push_str("   ");
        push_wrapped(&mut text, verdict.sentence, "   ", 3);
        push_evidence(&mut text, verdict);
        push_advice(&mut text, verdict);
    }
    if let Some(unknown) = &flow.unknown {
        text.push_str("\nunknown: ");
        push_wrapped(&mut text, unknown, "   ", 9);
    }
    text
}

fn push_advice(text: &mut String, verdict: &VerdictRow) {
    let green = anstyle::AnsiColor::Green.on_default();
    for (index, change) in verdict
        .change
        .iter()
        .chain(&verdict.alternatives)
        .enumerate()
    {
        let label = if index == 0 { "change" } else { "or    " };
        let indent = "            ";
        write!(text, "   {green}{label}{green:#}   ").expect("a String grows");
        push_wrapped(text, &advice(change), indent, indent.len());
    }
    if let Some(next) = &verdict.next {
        let rate = next.rate.map(|rate| format!(" ({})", human::rate(rate)));
        text.push_str("   then     ");
        push_wrapped(
            text,
            &format!("{}{}", next.what, rate.unwrap_or_default()),
            "            ",
            12,
        );
    }
    if !verdict.remark.is_empty() {
        text.push_str("   note     ");
        push_wrapped(text, &verdict.remark, "            ", 12);
    }
}

/// `nodelay = on here, on the open connection; risk: more small packets`.
fn advice(change: &ChangeRow) -> String {
    let place = match (&change.target, change.side) {
        (Some(target), _) => target.to_string(),
        (None, Side::Local) => "on this host".into(),
        (None, Side::Remote) => "on the host at the other end".into(),
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
    format!(
        "{} = {}, {place}: {when}{risk}",
        change.knob, change.to_text
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

fn summary(document: &Document, shown: usize) -> String {
    let flows = document.flows.len();
    if flows == 0 {
        return format!(
            "No connection was seen in {}.\n",
            human::time(Duration::from_secs_f64(document.duration_s))
        );
    }
    let mut text = match document.findings {
        0 => format!(
            "Nothing to improve: {} seen, no finding.",
            human::count(flows as u64, "flow")
        ),
        n => format!(
            "{n} with a finding, of {} seen.",
            human::count(flows as u64, "flow")
        ),
    };
    if shown < flows {
        write!(
            text,
            " {} not shown (idle or without a finding; -vv shows all).",
            flows - shown
        )
        .expect("a String grows");
    }
    if document.unseen_processes > 0 {
        write!(
            text,
            " {} may not be looked into: their sockets have no owner here; root sees them.",
            human::count(document.unseen_processes as u64, "process")
        )
        .expect("a String grows");
    }
    text.push('\n');
    let mut wrapped = String::new();
    push_wrapped(&mut wrapped, &text, "", 0);
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{KnobValue, Scope};
    use doctor::{Confidence, Evidence};

    fn flow_row(port: u16, verdicts: Vec<VerdictRow>) -> FlowRow {
        FlowRow {
            netns: Netns::Own,
            container: None,
            local: format!("10.0.0.5:{port}").parse().unwrap(),
            remote: "10.0.0.9:443".parse().unwrap(),
            pid: Some(4130),
            command: Some("app".into()),
            upper: None,
            direction: Direction::Out,
            idle: false,
            both_ends_seen: false,
            samples: 500,
            connections: 1,
            rate_bps: Some(18_700),
            min_rtt_us: Some(400),
            srtt_us: None,
            limits: Vec::new(),
            verdicts,
            unknown: None,
            options_error: None,
        }
    }

    fn stall() -> VerdictRow {
        let diagnosis = doctor::find_diagnosis("nagle-delack-stall").unwrap();
        VerdictRow {
            id: diagnosis.id,
            sentence: diagnosis.sentence,
            finding: true,
            limit: diagnosis.limit,
            share: 0.93,
            confidence: Confidence::High,
            act: true,
            evidence: vec![Evidence {
                field: "nodelay",
                observed: "off".into(),
                expected: "off".into(),
            }],
            next: None,
            change: Some(ChangeRow {
                knob: "nodelay",
                to: KnobValue::Flag(true),
                to_text: "on".into(),
                side: Side::Remote,
                scope: Scope::Socket,
                takes_effect: Live::Now,
                risk: "more small packets",
                target: None,
            }),
            live: Some(true),
            alternatives: Vec::new(),
            remark: "In the program: one write per message.".into(),
        }
    }

    fn shown(flows: Vec<FlowRow>, verbosity: u8) -> String {
        let findings = flows.iter().filter(|flow| flow.has_finding()).count();
        let document = Document {
            duration_s: 5.0,
            findings,
            flows,
            ..Document::default()
        };
        let text = render(
            &document,
            &Style {
                verbosity,
                next: "",
            },
        );
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn a_finding_is_told_with_its_change() {
        let idle = FlowRow {
            idle: true,
            ..flow_row(51_520, Vec::new())
        };
        let text = shown(vec![flow_row(51_514, vec![stall()]), idle], 0);
        assert_eq!(
            text,
            "   \
FLOW                           PID/CMD          RATE  MIN RTT  LIMITED BY          SHARE
1  10.0.0.5:51514 > 10.0.0.9:443  4130/app  18.7 kbit/s   400 us  nagle-delack-stall   93 %

1  nagle-delack-stall (high): The sender holds a small piece until an ACK comes, and the receiver
   delays that ACK: each operation waits out a timer that nobody needs.
   change   nodelay = on, on the host at the other end: at once; risk: more small packets
   note     In the program: one write per message.

1 with a finding, of 2 flows seen. 1 not shown (idle or without a finding; -vv shows all).
"
        );
    }

    #[test]
    fn evidence_is_shown_when_it_is_asked_for() {
        let text = shown(vec![flow_row(51_514, vec![stall()])], 1);
        assert!(
            text.contains("evidence for 93 % of the time, confidence high:"),
            "{text}"
        );
        assert!(text.contains("FIELD"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }

    #[test]
    fn many_flows_and_none_have_their_summary() {
        assert_eq!(shown(Vec::new(), 0), "No connection was seen in 5.00 s.\n");
        let many = (1..60).map(|port| flow_row(port, Vec::new())).collect();
        let text = shown(many, 0);
        assert!(
            text.contains("Nothing to improve: 59 flows seen, no finding. 39 not shown"),
            "{text}"
        );
    }
}
