use lab::{Amount, Direction, Workload};
use serde_json::Value;

use super::*;
use crate::commands::bench::report::compare;

/// What the other host may say that its congestion control is called.
const HOSTILE: &str = "</script><script>alert(1)</script><img src=x>";

fn times(p50: u64) -> ResponseMicros {
    ResponseMicros {
        n: 100,
        p50,
        p90: p50 + 10,
        p99: p50 + 20,
        max: p50 + 30,
        stalled: 0,
    }
}

fn run(goodput_bps: u64) -> Run {
    Run {
        goodput_bps,
        up_bps: Some(goodput_bps),
        down_bps: None,
        duration_s: 10.0,
        operations_per_s: None,
        response_us: None,
        client_congestion: "cubic".into(),
        server_congestion: HOSTILE.into(),
        client_sent: Some(SenderOutcome {
            data_segments: 70_001,
            retransmitted_segments: 17,
            ..SenderOutcome::default()
        }),
        server_sent: None,
        rtt_loaded_us: Some(times(44_017)),
        intervals: Vec::new(),
        ended_early: false,
        ..Run::default()
    }
}

fn document() -> Document {
    let variant = |name: &str, rates: [u64; 3]| Variant {
        rtt_loaded_us: Some(times(44_017)),
        ..Variant::new(name.into(), rates.map(run).into())
    };
    let variants = vec![
        variant("congestion=cubic", [9_001_000, 9_002_000, 9_003_000]),
        variant(HOSTILE, [9_501_000, 9_502_000, 9_503_000]),
    ];
    Document {
        remote: "10.0.0.9:5201".into(),
        workload: Workload::Bulk {
            direction: Direction::Up,
            flows: 1,
            write_size: base::Bytes(1),
            unacked: None,
            amount: Amount::Operations(1),
        },
        rtt_idle_us: Some(times(417)),
        metric: Metric::GoodputBps,
        comparisons: compare(Metric::GoodputBps, &variants),
        variants,
        interrupted: false,
    }
}

#[test]
fn names_of_others_do_not_become_markup() {
    let page = render(&document(), HOSTILE);
    assert!(page.contains("&lt;script&gt;"), "{page}");
    assert!(!page.contains("<script>alert") && !page.contains("<img"));
    assert_eq!(
        page.matches("</script>").count(),
        2,
        "data and script of ours"
    );
}

/// A page of a comparison begins with the numbers of one variant.
#[test]
fn numbers_at_the_top_name_their_variant() {
    let mut document = document();
    let names = |document: &Document| -> Vec<String> {
        tiles(document).into_iter().map(|tile| tile.name).collect()
    };
    let of_first = names(&document);
    assert_eq!(of_first[0], "goodput, congestion=cubic");
    assert_eq!(of_first[1], "RTT between the programs, idle");
    assert_eq!(of_first[2], "the same under load, congestion=cubic");
    document.variants.truncate(1);
    assert_eq!(names(&document)[0], "goodput");
}

#[test]
fn numbers_are_those_of_the_json_document() {
    let document = document();
    let page = render(&document, "tcptailor bench");
    let json: Value = serde_json::to_value(&document).unwrap();
    for at in [
        "/rtt_idle_us/p50",
        "/rtt_idle_us/max",
        "/variants/0/goodput_bps/median",
        "/variants/1/goodput_bps/high",
        "/variants/0/rtt_loaded_us/p99",
        "/variants/0/runs/0/client_sent/data_segments",
        "/variants/0/runs/0/client_sent/retransmitted_segments",
        "/comparisons/0/ratio",
        "/comparisons/0/p_value",
    ] {
        let value = json.pointer(at).and_then(Value::as_f64);
        let value = value.unwrap_or_else(|| panic!("{at}: {json:#}"));
        let shown = format!("<data value=\"{value}\">");
        assert!(page.contains(&shown), "{at}: {shown}");
    }
    assert!(page.contains("1 stream to 10.0.0.9:5201."), "{page}");
}

#[test]
fn what_was_interrupted_is_told_with_what_the_figures_are_of() {
    let mut document = document();
    assert_eq!(document.interruption(), None);
    document.interrupted = true;
    let whole = "Interrupted: only complete runs are counted.";
    assert_eq!(document.interruption().as_deref(), Some(whole));
    document.variants.truncate(1);
    document.variants[0].runs.truncate(1);
    document.variants[0].runs[0].ended_early = true;
    let cut = "Interrupted: the figures are those of 10.0 s.";
    assert_eq!(document.interruption().as_deref(), Some(cut));
    assert!(render(&document, "tcptailor bench").contains(cut));
}
