use base::Limit;
use doctor::Confidence;
use lab::ResponseMicros;
use serde_json::Value;
use tailor::{Ending, Finding};

use super::*;

/// What a host or an interface may be called.
const HOSTILE: &str = "</script><script>alert(1)</script><img src=x>";

fn measure(p50: u64) -> Measure {
    Measure {
        duration_s: 1.0,
        goodput_bps: 18_712,
        operations_per_s: Some(22.5),
        response_us: Some(ResponseMicros {
            n: 22,
            p50,
            p90: p50 + 100,
            p99: p50 + 200,
            max: p50 + 300,
            stalled: 0,
        }),
        srtt_us: Some(611),
        ..Measure::default()
    }
}

fn tried(kept: bool) -> Tried {
    Tried {
        finding: Finding {
            diagnosis: "nagle-delack-stall",
            sentence: "A sentence.",
            limit: Some(Limit::Nagle),
            share: 0.9312,
            confidence: Confidence::High,
            evidence: vec![Evidence {
                field: "nodelay",
                observed: HOSTILE.into(),
                expected: "off".into(),
            }],
        },
        changes: vec![ChangeMade {
            knob: "net.ipv4.tcp_rmem".into(),
            target: HOSTILE.into(),
            from: "1 2 3".into(),
            to: "4 5 6".into(),
            live: true,
        }],
        risk: "more small packets",
        predicted: None,
        outcome: Some(Outcome {
            answer: if kept { Answer::Better } else { Answer::Worse },
            objective: Objective::Response,
            before: Some(44_012.0),
            after: Some(317.0),
            gain: Some(138.839),
            while_in_flight: false,
            gain_interval: Some([135.25, 142.5]),
            p_value: Some(0.0079),
            looks: 5,
            why: None,
            time_limit_s: None,
            time_needed_s: None,
        }),
        kept,
        transaction: kept.then_some(7),
    }
}

fn document() -> Document<'static> {
    let run = |arm, p50| Run {
        arm,
        measure: measure(p50),
    };
    let experiment = Experiment {
        how: "alternating",
        runs: vec![run(Arm::A, 44_012), run(Arm::B, 317), run(Arm::B, 333)],
        undone: vec![format!("{HOSTILE}: undone")],
    };
    Document {
        subject: HOSTILE,
        fitting: Fitting {
            before: measure(44_012),
            after: Some(measure(317)),
            tried: vec![tried(false), tried(true)],
            ending: Ending::Kept,
            left: Some(Ending::NothingToImprove),
        },
        first: None,
        last: None,
        experiments: vec![experiment.clone(), experiment],
        path: None,
        own_connection: None,
        lasting: None,
    }
}

#[test]
fn names_of_others_do_not_become_markup() {
    let page = render(&document(), &Heard::default(), HOSTILE);
    assert!(page.contains("&lt;script&gt;"), "{page}");
    assert!(!page.contains("<script>alert") && !page.contains("<img"));
    assert_eq!(
        page.matches("</script>").count(),
        2,
        "data and script of ours"
    );
}

#[test]
fn numbers_are_those_of_the_json_document() {
    let document = document();
    let page = render(&document, &Heard::default(), "tcptailor fit");
    let json: Value = serde_json::to_value(&document).unwrap();
    for at in [
        "/before/goodput_bps",
        "/before/response_us/p50",
        "/after/response_us/p99",
        "/after/srtt_us",
        "/tried/0/finding/share",
        "/tried/0/outcome/before",
        "/tried/0/outcome/gain",
        "/tried/0/outcome/gain_interval/0",
        "/tried/0/outcome/p_value",
    ] {
        let value = json.pointer(at).and_then(Value::as_f64);
        let value = value.unwrap_or_else(|| panic!("{at}: {json:#}"));
        let shown = format!("<data value=\"{value}\">");
        assert!(page.contains(&shown), "{at}: {shown}");
    }
    assert_eq!(json["experiments"][0]["runs"][1]["arm"], "b");
    assert_eq!(json["experiments"][0]["runs"][1]["response_us"]["p50"], 317);
}

#[test]
fn each_change_says_what_became_of_it_and_how_to_undo_it() {
    let page = render(&document(), &Heard::default(), "tcptailor fit");
    for told in [
        "Kept; left: nothing to improve.",
        "undone: worse",
        "kept: 139 times better",
        "tcptailor rollback 7",
        "alert(1)&lt;/script&gt;&lt;img src=x&gt;: undone",
        "response time, median, run by run",
        "Response times: medians over the runs",
        "Risk: more small packets",
        "namespace",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
}
