use base::{KnobValue, Limit, Live, Scope};
use doctor::{Confidence, Place, Side};
use serde_json::Value;

use super::*;
use crate::commands::diagnose::document::{ChangeRow, LimitShare};

/// What another program may call itself.
const HOSTILE: &str = "</script><script>alert(1)</script><img src=x>";

fn change(side: Side, knob: &'static str, to: KnobValue) -> ChangeRow {
    ChangeRow {
        knob,
        to_text: to.to_string(),
        to,
        side,
        scope: Scope::Namespace,
        takes_effect: Live::Now,
        risk: HOSTILE,
        target: None,
        at: None,
        requires: None,
    }
}

fn verdict() -> VerdictRow {
    let diagnosis = doctor::find_diagnosis("nagle-delack-stall").unwrap();
    VerdictRow {
        id: diagnosis.id,
        sentence: diagnosis.sentence,
        finding: true,
        limit: Some(Limit::Nagle),
        share: 0.9312,
        held_s: None,
        confidence: Confidence::High,
        consistent_with: false,
        act: true,
        evidence: vec![Evidence {
            field: "notsent_bytes",
            observed: HOSTILE.into(),
            expected: "more than 0".into(),
        }],
        next: None,
        change: Some(change(
            Side::Remote,
            "net.ipv4.tcp_rmem",
            KnobValue::Triple([4096, 131_072, 6_291_456]),
        )),
        live: Some(true),
        alternatives: vec![change(Side::Local, "nodelay", KnobValue::Flag(true))],
        remark: HOSTILE.into(),
    }
}

/// The same with a change that can be made at once.
fn changeable() -> VerdictRow {
    let target = base::Target::Socket {
        netns: Netns::Own,
        pid: 4130,
        cookie: 7,
        key: base::FlowKey {
            local: "10.0.0.5:50001".parse().unwrap(),
            remote: "10.0.0.9:443".parse().unwrap(),
        },
    };
    VerdictRow {
        alternatives: vec![ChangeRow {
            target: Some(target),
            ..change(Side::Local, "nodelay", KnobValue::Flag(true))
        }],
        ..verdict()
    }
}

fn flow(port: u16, verdicts: Vec<VerdictRow>) -> FlowRow {
    FlowRow {
        cookie: port.into(),
        netns: Netns::Named(HOSTILE.into()),
        container: Some(HOSTILE.into()),
        local: format!("10.0.0.5:{port}").parse().unwrap(),
        remote: "10.0.0.9:443".parse().unwrap(),
        place: Place::Remote("10.0.0.9:443".parse().unwrap()),
        pid: Some(4130),
        command: Some(HOSTILE.into()),
        upper: None,
        direction: Direction::Out,
        idle: false,
        is_held_up: false,
        both_ends_seen: false,
        samples: 487,
        seen_s: 4.987_654,
        connections: 1,
        rate_bps: Some(18_712),
        rate_of: None,
        min_rtt_us: Some(417),
        srtt_us: Some(611),
        limits: vec![LimitShare {
            limit: "nagle",
            share: 0.8765,
        }],
        unknown: verdicts.is_empty().then(|| HOSTILE.into()),
        verdicts,
        options_error: Some(HOSTILE.into()),
    }
}

fn document() -> Document {
    Document {
        duration_s: 5.0,
        host: vec![HostRow {
            netns: Netns::Own,
            container: Some(HOSTILE.into()),
            verdict: verdict(),
        }],
        ..Document::default()
    }
    .with_flows(vec![
        flow(50_001, vec![verdict()]),
        flow(50_002, Vec::new()),
    ])
}

#[test]
fn what_can_be_changed_at_once_is_said_only_where_something_can() {
    let shown = |verdict| {
        let document = Document::default().with_flows(vec![flow(50_001, vec![verdict])]);
        let asked = Asked {
            file: None,
            command: "tcptailor diagnose",
        };
        render(&document, &Drawn::default(), &asked)
    };
    let plan = "tcptailor diagnose -o plan.json &amp;&amp; tcptailor apply plan.json";
    let page = shown(changeable());
    // At the top, and below the change.
    assert_eq!(page.matches(plan).count(), 2, "{page}");
    let page = shown(verdict());
    assert!(
        page.contains("Nothing of it can be changed at once from here"),
        "{page}"
    );
    assert!(!page.contains(plan), "{page}");
}

fn rendered() -> String {
    let asked = Asked {
        file: None,
        command: HOSTILE,
    };
    render(&document(), &Drawn::default(), &asked)
}

#[test]
fn names_of_others_do_not_become_markup() {
    let page = rendered();
    assert!(
        !page.contains("<script>alert") && !page.contains("<img"),
        "{page}"
    );
    assert_eq!(
        page.matches("</script>").count(),
        2,
        "data and script of ours"
    );
    let file = Path::new("/x/</script><script>alert(1)");
    let asked = Asked {
        file: Some(file),
        command: "",
    };
    let page = render(&document(), &Drawn::default(), &asked);
    assert!(
        page.contains("alert(1)") && !page.contains("<script>alert"),
        "{page}"
    );
}

#[test]
fn numbers_are_those_of_the_json_document() {
    let page = rendered();
    let document: Value = serde_json::to_value(document()).unwrap();
    for at in [
        "/flows/0/rate_bps",
        "/flows/0/min_rtt_us",
        "/flows/0/srtt_us",
        "/flows/0/seen_s",
        "/flows/0/samples",
        "/flows/0/limits/0/share",
        "/flows/0/verdicts/0/share",
    ] {
        let value = document.pointer(at).unwrap_or_else(|| panic!("{at}"));
        let shown = format!("<data value=\"{value}\">");
        assert!(page.contains(&shown), "{at}: {shown}");
    }
}

#[test]
fn a_page_leads_to_its_parts_and_says_what_to_type() {
    let page = rendered();
    for told in [
        "<a href=\"#part-0\">1</a>",
        "<section id=\"part-0\">",
        "sysctl -w 'net.ipv4.tcp_rmem=4096 131072 6291456'",
        "sysctl -w 'net.ipv4.tcp_rmem=NOTED VALUE'",
        "setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, ...)   # on",
        "The host",
        "All connections",
        "2 connections seen in 5.00 s: 1 with a finding, 1 unclear; 1 finding of the host.",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
}

/// What can be typed on this machine undoes itself with the value that there is now.
#[test]
fn a_setting_of_this_machine_is_undone_with_its_value() {
    let asked = Asked {
        file: None,
        command: "tcptailor diagnose",
    };
    let change = ChangeRow {
        target: Some(base::Target::Namespace { netns: Netns::Own }),
        ..change(
            Side::Local,
            "net.ipv4.tcp_mtu_probing",
            KnobValue::Number(1),
        )
    };
    let Ok(present) = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_mtu_probing") else {
        println!("skipped: no such kernel parameter here");
        return;
    };
    let expected = format!(
        "sysctl -w 'net.ipv4.tcp_mtu_probing=1'\n# undo it:\n\
         sysctl -w 'net.ipv4.tcp_mtu_probing={}'",
        present.trim()
    );
    assert_eq!(remedy::commands(&change, &asked), expected);
    // Of a file, nothing here is meant.
    let of_file = Asked {
        file: Some(Path::new("a.rec")),
        ..asked
    };
    let shown = remedy::commands(&change, &of_file);
    assert!(shown.contains("NOTED VALUE"), "{shown}");
}

#[test]
fn what_is_left_out_of_the_packets_is_said() {
    use ::capture::{DirectionSummary, FlowSummary, Retransmission, RetransmissionKind, SentSpan};
    let key = base::FlowKey {
        local: "10.0.0.5:50001".parse().unwrap(),
        remote: "10.0.0.9:443".parse().unwrap(),
    };
    let at = base::Instant::ZERO;
    let again = Retransmission {
        at,
        from: 0,
        to: 1000,
        kind: RetransmissionKind::TailProbe,
    };
    let trace = FlowTrace {
        key,
        cookies: [50_000, 50_001],
        began: at,
        sent: vec![SentSpan {
            begin: at,
            end: at + Duration::from_secs(1),
            from: 0,
            to: 1000,
        }],
        acked: Vec::new(),
        retransmissions: vec![again],
        counts: [0, 0, 1234],
        summary: FlowSummary {
            sender: key.local,
            receiver: key.remote,
            device: 0,
            first_us: 0,
            duration_us: 1_000_000,
            packets: 2,
            syn_seen: true,
            ended: true,
            taken: None,
            forward: DirectionSummary {
                tail_probes: 1234,
                ..DirectionSummary::default()
            },
            reverse: DirectionSummary::default(),
        },
    };
    let drawn = Drawn {
        traces: vec![trace],
        ..Drawn::default()
    };
    let asked = Asked {
        file: Some(Path::new("a.pcap")),
        command: "tcptailor diagnose a.pcap",
    };
    let page = render(&document(), &drawn, &asked);
    for told in [
        "1 of 1234 retransmissions are drawn: the first ones.",
        "tail-loss probe 1234",
        "<data value=\"1234\">",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
    assert_eq!(
        page.matches("Bytes from 10.0.0.5:50001").count(),
        2,
        "title and caption"
    );
}
