use lab::Outcome;
use papers::evaluation::{NotRun, Summary};
use papers::experiments::read_scenario;

use super::*;

const TEXT: &str = include_str!("../../../../../papers/tests/data/x1.toml");

fn wanted() -> Wanted {
    Wanted {
        engines: vec![EngineName::Virtual, EngineName::Kernel, EngineName::Tun],
        quick: false,
        runs: None,
        costs: None,
    }
}

/// A document of which TUN ran nothing; engine, variant and milliseconds of each run.
fn document_of(runs: &[(EngineName, usize, u32)]) -> Reproduction {
    let scenario = read_scenario("x1.toml", TEXT).unwrap_or_else(|errors| panic!("{errors:?}"));
    let mut campaign = Campaign::new([&scenario], wanted());
    let lines = runs.iter().zip(0..);
    campaign.take(lines.map(|((engine, variant, millis), run)| Line {
        scenario: "x1".into(),
        variant: Some(["small", "large"][*variant].into()),
        axes: Vec::new(),
        engine: *engine,
        run,
        elapsed_s: 0.0,
        outcome: Outcome {
            duration_s: f64::from(*millis) / 1e3,
            ..Outcome::default()
        },
    }));
    let mut document = campaign.document();
    let missing = NotRun {
        engine: EngineName::Tun,
        why: "no /dev/net/tun".into(),
        by_choice: false,
    };
    document.summary.missing = vec![missing.clone()];
    document.experiments[0].not_run.push(missing);
    document.summary.elapsed_s = 73.2;
    document.summary.runs_found = 0;
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
fn a_page_of_markdown_has_what_the_screen_shows() {
    use EngineName::{Kernel, Virtual};
    let mut runs = vec![(Virtual, 0, 500), (Virtual, 1, 362)];
    runs.extend([500, 510, 520].map(|millis| (Kernel, 0, millis)));
    let origin = [("version", "0.1.0"), ("processors", "2")];
    let origin = origin.map(|(name, value)| (name.to_owned(), value.to_owned()));
    insta::assert_snapshot!(markdown::render(&document_of(&runs), &origin));
}

#[test]
fn what_fails_is_named_and_ends_with_findings() {
    use EngineName::{Kernel, Virtual};
    let mut broken = vec![(Virtual, 0, 500), (Virtual, 1, 362)];
    broken.extend([(Kernel, 0, 500), (Kernel, 1, 950)]);
    let one = document_of(&broken);
    assert_eq!(exit(&one), Exit::Done);
    assert!(text(&one, true).contains("1 experiment: 1 not tested"));
    let more = |broken: &mut Vec<_>| broken.extend([(Kernel, 0, 500), (Kernel, 1, 950)]);
    more(&mut broken);
    let few = document_of(&broken);
    assert_eq!(exit(&few), Exit::Done);
    assert!(text(&few, true).contains("takes 3 to fail"));
    more(&mut broken);
    let broken = document_of(&broken);
    assert_eq!(exit(&broken), Exit::Findings);
    let text = text(&broken, true);
    for part in [
        "EXPECTED",
        "330 to 600 ms",
        "at least 1.30",
        "kernel fail",
        "virtual pass",
        "fail: x1",
        "1 experiment: 1 fail",
        "large, kernel: duration_us is 950 ms, expected at most 600 ms (the link takes 345 ms)",
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
