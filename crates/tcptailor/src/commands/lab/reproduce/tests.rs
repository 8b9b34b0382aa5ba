use std::time::Duration;

use lab::{Outcome, Scenario};

use super::plan::{Planned, Wanted, is_meant};
use super::times::Times;
use super::*;

const TEXT: &str = r#"
name = "x1"
about = "Two windows on one path."
runs = 3

[path]
kind = "emulated"
rate = "25mbit"
rtt = "8ms"

[workload]
kind = "bulk"
bytes = "1MiB"

[[variant]]
name = "small"
server.rcvbuf = "16KiB"

[[variant]]
name = "large"
server.rcvbuf = "256KiB"

[[variant]]
name = "ours"
engines = "virtual"

[quick]
runs = 1
engines = "virtual"

[experiment]
ids = "X1 X1a"
document = "netburner"
class = "deviates"
claim = "The larger window carries what the link does, and no more."
engines = "virtual, kernel, tun"
corrections = "D-N9"
not_promised = "The time of a device that nobody here has."

[[published]]
variant = "large"
metric = "duration_us"
value = "658ms"
text = "0.658 s"

[[expect]]
metric = "duration_us"
variant = "large"
min = "330ms"
max = "600ms"
reason = "the link takes 345 ms"

[[expect]]
metric = "duration_us"
variant = "small"
over = "large"
min = "1.3"
reason = "16 KiB per round trip are less than the link carries"
"#;

fn scenario() -> Scenario {
    Scenario::parse("x1.toml", TEXT).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn wanted(quick: bool) -> Wanted {
    Wanted {
        engines: vec![EngineName::Virtual, EngineName::Kernel, EngineName::Tun],
        quick,
        runs: None,
    }
}

fn planned(wanted: &Wanted) -> Planned {
    Planned::new(&scenario(), wanted).expect("it is an experiment")
}

/// Engine, cell and milliseconds of each run.
fn document_of(runs: &[(EngineName, usize, u32)]) -> Reproduction {
    let planned = planned(&wanted(false));
    let mut record = planned.record();
    record.runs.extend(
        runs.iter()
            .zip(0..)
            .map(|((engine, cell, millis), run)| RunOf {
                engine: *engine,
                cell: *cell,
                run,
                outcome: Outcome {
                    duration_s: f64::from(*millis) / 1e3,
                    ..Outcome::default()
                },
            }),
    );
    record.not_run.push(NotRun {
        engine: EngineName::Tun,
        why: "no /dev/net/tun".into(),
        by_choice: false,
    });
    let mut document = document(&[planned], &[record], &wanted(false));
    document.summary.elapsed_s = 73.2;
    document.summary.runs = runs.len();
    document
}

fn text(document: &Reproduction, verbose: bool) -> String {
    anstream::adapter::strip_str(&screen::render(document, verbose)).to_string()
}

#[test]
fn a_table_sets_what_came_out_beside_what_was_published() {
    use EngineName::{Kernel, Virtual};
    let mut runs = vec![(Virtual, 0, 500), (Virtual, 1, 362)];
    runs.extend([500, 510, 520].map(|millis| (Kernel, 0, millis)));
    runs.extend([361, 362, 390, 363, 364].map(|millis| (Kernel, 1, millis)));
    insta::assert_snapshot!(text(&document_of(&runs), false));
}

#[test]
fn what_fails_is_named_and_ends_with_findings() {
    use EngineName::{Kernel, Virtual};
    let mut broken = vec![(Virtual, 0, 500), (Virtual, 1, 362)];
    broken.extend([(Kernel, 0, 500), (Kernel, 1, 950)]);
    let few = document_of(&broken);
    assert_eq!(exit(&few), Exit::Done);
    assert!(text(&few, true).contains("takes 3 to fail"));
    broken.extend([500; 2].map(|millis| (Kernel, 0, millis)));
    broken.extend([950; 2].map(|millis| (Kernel, 1, millis)));
    let broken = document_of(&broken);
    assert_eq!(exit(&broken), Exit::Findings);
    let text = text(&broken, true);
    for part in [
        "CLAIMED",
        "330 to 600 ms",
        "at least 1.30",
        "kernel fails",
        "virtual holds",
        "fails: x1",
        "1 experiment: 1 fails",
        "large, kernel: duration_us is 950 ms, claimed at most 600 ms (the link takes 345 ms)",
    ] {
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.contains(part), "{part} is missing in\n{text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert_eq!(
        exit(&document_of(&[(Virtual, 0, 500), (Virtual, 1, 362)])),
        Exit::Done
    );
}

#[test]
fn a_document_is_read_as_it_was_written() {
    let document = document_of(&[(EngineName::Virtual, 0, 500), (EngineName::Virtual, 1, 362)]);
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("reproduce.json");
    let written = output::document("lab-reproduce", &document).expect("plain data");
    std::fs::write(&file, &written).expect("a file");
    let text_of = || folder::document(dir.path()).expect("a document");
    let read = parse(&text_of(), dir.path()).expect("the same");
    assert_eq!(read, document);
    assert_eq!(text(&read, true), text(&document, true));
    let other = written.replace("lab-reproduce/1", "lab-reproduce/2");
    std::fs::write(&file, other).expect("a file");
    let error = parse(&text_of(), dir.path())
        .expect_err("another version")
        .to_string();
    assert!(error.contains("another version"), "{error}");
    for damaged in [
        written[..written.len() / 2].to_owned(),
        written.replace("\"verdicts\"", "\"x\""),
    ] {
        let error = parse(&damaged, dir.path()).expect_err("damaged");
        let problem: &Problem = error.downcast_ref().expect("a usage error");
        assert!(problem.message.contains("no whole result"), "{problem:?}");
        assert!(problem.hint.is_some(), "{problem:?}");
    }
    let endless = Reproduction {
        summary: Summary {
            elapsed_s: 1e30,
            ..document.summary
        },
        ..document
    };
    assert!(text(&endless, true).contains("took"));
}

#[test]
fn engines_run_what_their_file_says() {
    let shape = |wanted: &Wanted| -> Vec<(EngineName, (usize, usize), usize)> {
        let planned = planned(wanted);
        let on = planned.on.iter();
        on.map(|on| (on.engine, on.runs, on.work.len())).collect()
    };
    use EngineName::{Kernel, Tun, Virtual};
    assert_eq!(
        shape(&wanted(false)),
        [(Virtual, (3, 6), 3), (Kernel, (3, 6), 2), (Tun, (3, 6), 2)]
    );
    assert_eq!(shape(&wanted(true)), [(Virtual, (1, 1), 3)]);
    let one = Wanted {
        engines: vec![Kernel],
        quick: false,
        runs: Some(2),
    };
    assert_eq!(shape(&one), [(Kernel, (2, 2), 2)]);
    let planned = planned(&one);
    assert_eq!(planned.cells.len(), 2, "nobody runs the third");
    assert_eq!(planned.cell_id(1), "x1/large");
    let not_run: Vec<EngineName> = planned
        .record()
        .not_run
        .iter()
        .map(|no| no.engine)
        .collect();
    assert_eq!(not_run, [Virtual, Tun]);
}

#[test]
fn experiments_have_several_names() {
    let check = |name: &str, expected: bool| {
        assert_eq!(is_meant(name, &scenario()), expected, "{name}");
    };
    check("x1", true);
    check("X1A", true);
    check("netburner", true);
    check("all", true);
    check("x", false);
    check("cork", false);
}

#[test]
fn the_time_left_is_told_once_it_is_known() {
    let mut one = wanted(false);
    one.engines = vec![EngineName::Kernel];
    let all = [planned(&one)];
    let mut times = Times::new(&all, &[all[0].record()], 2);
    assert_eq!(
        (times.left_in_words(), times.share_done()),
        (String::new(), 0.0)
    );
    // Two cells of three runs each.
    times.add((0, 0, 0), Duration::from_secs(10));
    assert_eq!(times.left_in_words(), ", about 50 s left");
    times.add((0, 0, 1), Duration::from_secs(40));
    assert_eq!(times.left_in_words(), ", about 2 min left");
    assert!((times.share_done() - 1.0 / 3.0).abs() < 1e-9);
    times.drop_engine((0, 0, 0));
    assert_eq!(
        (times.left_in_words(), times.share_done()),
        (String::new(), 1.0)
    );
    // What a folder had counts as done.
    let mut record = all[0].record();
    record.found = vec![(EngineName::Kernel, 0, Duration::from_secs(10)); 3];
    let mut times = Times::new(&all, &[record], 2);
    times.add((0, 0, 1), Duration::from_secs(15));
    assert_eq!(times.left_in_words(), ", about 30 s left");
    assert!((times.share_done() - 0.6).abs() < 1e-9);
}
