use std::collections::BTreeMap;
use std::path::Path;

use doctor::Confidence;

use super::*;
use crate::commands::watch::finding::Event;
use crate::commands::watch::round::ServiceRound;

const HOSTILE: &str = "<script>alert(1)</script>";

const WATCH: Watch = Watch {
    is_over: false,
    cpu_budget: 0.02,
    resident_bytes: Some(26_000_000),
};

fn after(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn service(limit: usize) -> ServiceRound {
    let mut service = ServiceRound {
        rtts_s: vec![0.25],
        ..ServiceRound::default()
    };
    service.counts.connections = 3;
    service.counts.with_finding = 1;
    service.limits_s[limit] = 4.0;
    service.limits_s[0] += 1.0;
    service.traffic.sent_bytes = 30_000;
    service.traffic.segments = 100;
    service.traffic.retransmitted = 50;
    service
}

/// This many rounds of these services, 15 s apart.
fn history(names: &[String], rounds: u64) -> History {
    let mut history = History::new(Instant::ZERO, Duration::from_secs(15), names.len() + 1);
    for number in 1..=rounds {
        let services: BTreeMap<String, ServiceRound> = names
            .iter()
            .map(|name| (name.clone(), service(1)))
            .collect();
        history.handle_round(&services, after(15 * number));
        history.handle_cost(Duration::from_secs(16), Duration::from_millis(250));
    }
    history
}

fn began(service: &str, occurrence: Occurrence) -> Event {
    Event::FindingBegan {
        service: service.into(),
        diagnosis: "nagle-delack-stall",
        connections: 2,
        share: 0.5,
        occurrence: Box::new(occurrence),
    }
}

fn hostile() -> Occurrence {
    Occurrence {
        confidence: Confidence::Medium,
        evidence: vec![Evidence {
            field: "nodelay",
            observed: HOSTILE.into(),
            expected: HOSTILE.into(),
        }],
        connection: Some(Connection {
            netns: Netns::Named(HOSTILE.into()),
            container: Some(HOSTILE.into()),
            local: ([10, 0, 0, 1], 40_000).into(),
            remote: ([10, 0, 0, 2], 443).into(),
            pid: Some(7),
            command: Some(HOSTILE.into()),
        }),
        remark: HOSTILE.into(),
        ..Occurrence::of_nothing()
    }
}

#[test]
fn names_are_text_whatever_they_hold() {
    let mut history = history(&[HOSTILE.to_owned()], 3);
    let ended = Event::FindingEnded {
        service: HOSTILE.into(),
        diagnosis: "nagle-delack-stall",
        began: "t1".into(),
        lasted_s: 15.0,
    };
    history.handle_findings(&[], &[began(HOSTILE, hostile())], "t1");
    history.handle_findings(&[], &[ended], "t2");
    history.handle_findings(&[], &[began(HOSTILE, hostile())], "t3");
    let page = render(
        &history,
        WATCH,
        &format!("tcptailor watch --html {HOSTILE}"),
    );
    assert!(!page.contains("<script>alert"), "{page}");
    assert!(page.contains("&lt;script&gt;alert"), "{page}");
    // Data and script, both ours.
    assert_eq!(page.matches("</script>").count(), 2);
}

#[test]
fn the_page_says_what_limited_what_to_type_and_what_it_costs() {
    let mut history = history(&["nginx:443".to_owned()], 40);
    let mut occurrence = Occurrence::of_nothing();
    occurrence.remedy = Some(Remedy::to_type("sysctl -w x=1\n# undo it:\nsysctl -w x=0"));
    history.handle_findings(&[], &[began("nginx:443", occurrence)], "t1");
    let page = render(&history, WATCH, "tcptailor watch --html watch.html");
    for text in [
        "<h2>Findings</h2>",
        "nginx:443: nagle-delack-stall",
        "# undo it:\nsysctl -w x=0",
        "<h2>nginx:443</h2>",
        "nagle 80 %",
        ">minutes</text>",
        "<h2>This watch</h2>",
        "<data value=\"0.015625\">",
        "reload it",
    ] {
        assert!(page.contains(text), "{text} is not in\n{page}");
    }
    // 15 000 new bytes in 15 s.
    assert!(page.contains("[8000.0,8000.0"), "{page}");
    let last = Watch {
        is_over: true,
        ..WATCH
    };
    assert!(render(&history, last, "").contains("has ended"));
}

#[test]
fn a_table_without_rows_is_a_sentence() {
    let page = render(&history(&[], 3), WATCH, "tcptailor watch --html watch.html");
    assert!(page.contains("No connections so far."), "{page}");
    assert!(!page.contains("with a finding</th>"), "{page}");
}

#[test]
fn a_page_of_days_is_no_longer_than_one_of_hours() {
    let names: Vec<String> = (0..21).map(|number| format!("service:{number}")).collect();
    let lengths = [2 * 240, 3 * 5760].map(|rounds| {
        let mut history = history(&names, rounds);
        for number in 0..200 {
            let service = format!("service:{}", number % 21);
            let events = [began(&service, hostile())];
            history.handle_findings(&[], &events, "t");
            let ended = Event::FindingEnded {
                service,
                diagnosis: "nagle-delack-stall",
                began: "t".into(),
                lasted_s: 15.0,
            };
            history.handle_findings(&[], &[ended], "t");
        }
        render(&history, WATCH, "").len()
    });
    assert!(lengths[1] < 2 * lengths[0], "{lengths:?}");
    assert!(
        lengths.iter().all(|bytes| *bytes < 2_000_000),
        "{lengths:?}"
    );
}

#[test]
fn what_cannot_be_written_is_told_once_and_tried_again() {
    let history = history(&["a:1".to_owned()], 2);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("watch.html");
    let mut file = PageFile::new("/dev/full".into(), String::new());
    assert!(file.is_due(after(0)));
    let told = file.write(&history, WATCH, after(0)).expect("it is full");
    assert!(told.contains("/dev/full"), "{told}");
    assert!(!file.is_due(after(59)));
    assert!(file.is_due(after(60)));
    assert_eq!(file.write(&history, WATCH, after(60)), None, "told before");
    // There is room again, and then not.
    file.path = path.clone();
    assert_eq!(file.write(&history, WATCH, after(120)), None);
    let written = std::fs::read_to_string(&path).expect("a page");
    assert!(written.contains(page::MARK), "{written}");
    file.path = Path::new("/dev/full").into();
    assert!(file.write(&history, WATCH, after(180)).is_some());
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        1
    );
}
