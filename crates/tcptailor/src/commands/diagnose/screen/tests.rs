use super::*;
use crate::commands::diagnose::document::{ChangeRow, VerdictRow};
use base::{KnobValue, Live, Scope};
use doctor::{Confidence, Evidence, Side};

pub(crate) fn flow_row(port: u16, verdicts: Vec<VerdictRow>) -> FlowRow {
    FlowRow {
        cookie: 0,
        netns: Netns::Own,
        container: None,
        local: format!("10.0.0.5:{port}").parse().unwrap(),
        remote: "10.0.0.9:443".parse().unwrap(),
        place: Place::Remote("10.0.0.9:443".parse().unwrap()),
        pid: Some(4130),
        command: Some("app".into()),
        upper: None,
        direction: Direction::Out,
        idle: false,
        is_held_up: false,
        both_ends_seen: false,
        samples: 500,
        seen_s: 5.0,
        connections: 1,
        rate_bps: Some(18_700),
        rate_of: None,
        min_rtt_us: Some(400),
        srtt_us: None,
        limits: Vec::new(),
        verdicts,
        unknown: None,
        options_error: None,
    }
}

pub(crate) fn stall() -> VerdictRow {
    let diagnosis = doctor::find_diagnosis("nagle-delack-stall").unwrap();
    VerdictRow {
        id: diagnosis.id,
        sentence: diagnosis.sentence,
        finding: true,
        limit: diagnosis.limit,
        share: 0.93,
        held_s: Some([0.0, 5.0]),
        confidence: Confidence::High,
        consistent_with: false,
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
            at: None,
            requires: None,
        }),
        live: Some(true),
        alternatives: Vec::new(),
        remark: "In the program: one write per message.".into(),
    }
}

fn shown(flows: Vec<FlowRow>, verbosity: u8) -> String {
    let document = Document {
        duration_s: 5.0,
        ..Document::default()
    }
    .with_flows(flows);
    let text = render(
        &document,
        &Style {
            has_advice: true,
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
CONNECTION                     PID/CMD          RATE  MIN RTT  LIMITED BY          SHARE  CONF
1  10.0.0.5:51514 > 10.0.0.9:443  4130/app  18.7 kbit/s   400 us  nagle-delack-stall   93 %  high

1  nagle-delack-stall (high): Nagle's algorithm holds a partial segment until an ACK arrives, and
   the receiver delays that ACK: each operation waits for the receiver's delayed-ACK timer.
   change   nodelay = on, on the host at the other end: at once; risk: more small packets
   note     In the program: one write per message.

2 connections seen in 5.00 s: 1 with a finding, 1 idle. 1 not shown (-vv shows all).
"
    );
}

#[test]
fn a_reason_that_differs_in_its_numbers_only_is_told_once() {
    let unclear = |port, samples: u32| FlowRow {
        command: Some(format!("program{port}")),
        remote: format!("10.0.0.9:{port}").parse().unwrap(),
        place: Place::Remote(format!("10.0.0.9:{port}").parse().unwrap()),
        unknown: Some(format!("too few samples: {samples} in 0.2 s")),
        ..flow_row(port, Vec::new())
    };
    let text = shown(vec![unclear(501, 3), unclear(502, 11), unclear(503, 4)], 0);
    assert_eq!(text.matches("too few samples").count(), 1, "{text}");
    assert!(
        text.contains("\n1, 2, 3  unclear: too few samples: "),
        "{text}"
    );
    // In the order of the rows, not of the alphabet.
    let other = FlowRow {
        unknown: Some("no rule explains it".into()),
        ..unclear(502, 1)
    };
    let text = shown(vec![unclear(501, 3), other, unclear(503, 4)], 0);
    let at = |said: &str| text.find(said).unwrap_or_else(|| panic!("{said}: {text}"));
    assert!(
        at("\n1, 3  unclear: ") < at("\n2  unclear: no rule"),
        "{text}"
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
fn connections_of_one_service_with_one_answer_are_one_row() {
    let mut flows: Vec<FlowRow> = (51_001..51_004)
        .map(|port| flow_row(port, vec![stall()]))
        .collect();
    flows[2].pid = Some(4131);
    let other = FlowRow {
        command: Some("other".into()),
        unknown: Some("the flow shows the signs of several limits".into()),
        ..flow_row(52_000, Vec::new())
    };
    flows.push(other);
    let text = shown(flows, 0);
    let row = |number: &str| {
        let line = text.lines().find(|line| line.starts_with(number));
        let words = line.expect("a row").split_whitespace();
        words.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        row("1  3"),
        "1 3 connections > 10.0.0.9:443 app x2 56.1 kbit/s 400 us nagle-delack-stall 93 % high"
    );
    assert_eq!(
        row("2  10"),
        "2 10.0.0.5:52000 > 10.0.0.9:443 4130/other 18.7 kbit/s 400 us unclear"
    );
    assert_eq!(text.matches("nagle-delack-stall (high)").count(), 1);
    assert!(
        text.contains("\n2  unclear: the flow shows the signs of several limits\n"),
        "{text}"
    );
    assert!(
        text.contains("4 connections seen in 5.00 s: 3 with a finding, 1 unclear."),
        "{text}"
    );
}

#[test]
fn a_limit_of_a_part_of_the_time_has_its_times() {
    let late = VerdictRow {
        held_s: Some([3.2, 5.0]),
        ..stall()
    };
    let text = shown(vec![flow_row(51_514, vec![late])], 0);
    assert!(
        text.contains("nagle-delack-stall (high, seen from 3.20 s to 5.00 s): "),
        "{text}"
    );
}

#[test]
fn findings_beyond_one_screen_are_counted() {
    let flow = |port: u16| {
        let remote = format!("10.0.0.9:{port}").parse().unwrap();
        FlowRow {
            remote,
            place: Place::Remote(remote),
            ..flow_row(51_000, vec![stall()])
        }
    };
    let flows = || (1..30).map(flow).collect::<Vec<_>>();
    let text = shown(flows(), 0);
    assert_eq!(text.matches("nagle-delack-stall (high)").count(), TOLD_MAX);
    assert!(
        text.contains("15 more rows with a finding: -v tells what to do about them."),
        "{text}"
    );
    assert!(text.contains(" 9 not shown (-vv shows all)."), "{text}");
    assert_eq!(
        shown(flows(), 2)
            .matches("nagle-delack-stall (high)")
            .count(),
        29
    );
}

#[test]
fn many_connections_and_none_have_their_summary() {
    assert_eq!(shown(Vec::new(), 0), "No connection was seen in 5.00 s.\n");
    let healthy = |port: u16| {
        let diagnosis = doctor::find_diagnosis("app-limited").unwrap();
        let verdict = VerdictRow {
            id: diagnosis.id,
            finding: false,
            change: None,
            ..stall()
        };
        flow_row(port, vec![verdict])
    };
    let idle = |port: u16| FlowRow {
        idle: true,
        ..flow_row(port, Vec::new())
    };
    let flows = (50_001..50_060)
        .map(healthy)
        .chain((50_060..50_100).map(idle))
        .collect();
    let text = shown(flows, 0);
    assert!(
        text.contains(
            "Nothing to improve: 99 connections seen in 5.00 s: 59 healthy, 40 idle. 40 not shown"
        ),
        "{text}"
    );
    let peer_window = VerdictRow {
        id: "peer-window",
        finding: false,
        change: None,
        ..stall()
    };
    let text = shown(vec![flow_row(1, vec![peer_window])], 0);
    let words: Vec<&str> = text.split_whitespace().collect();
    let expected = "Nothing to improve at this end: 1 connection seen in 5.00 s: 1 limited by the window \
                    of the other end. What keeps the window small shows there";
    assert!(words.join(" ").contains(expected), "{text}");
    let text = shown(vec![flow_row(1, Vec::new())], 0);
    assert!(
        !text.contains("Nothing to improve"),
        "what is unclear is not said to be well: {text}"
    );
}

#[test]
fn what_needs_a_permission_is_told_with_it() {
    let mut finding = stall();
    let change = finding.change.as_mut().expect("it has one");
    change.requires = Some("CAP_NET_ADMIN");
    let text = shown(vec![flow_row(51_514, vec![finding])], 0);
    let lines: Vec<&str> = text.split_whitespace().collect();
    assert!(
        lines.join(" ").contains("; requires CAP_NET_ADMIN"),
        "{text}"
    );
}
