use lab::{Caveat, LatenessMicros, LinkOutcome, ResponseMicros};

use super::*;

const ON_KERNEL: document::Shown = document::Shown {
    engine: Engine::Kernel,
    runs_of_file: 1,
    runs_max: 3,
    series: false,
    costs: None,
};

pub(super) const SCENARIO: &str = r#"
name = "example"
about = "Two variants."
runs = 3
[path]
kind = "emulated"
rate = "10mbit"
rtt = "20ms"
queue = "100p"
[workload]
kind = "bulk"
direction = "up"
duration = "3s"
[[variant]]
name = "slow"
[[variant]]
name = "fast"
[[expect]]
metric = "goodput_bps"
variant = "slow"
max = "5mbit"
reason = "it is slow"
[[expect]]
metric = "response_p50_us"
variant = "fast"
max = "1ms"
"#;

fn outcome(mbit: u64, caveats: &[Caveat]) -> Outcome {
    Outcome {
        goodput_bps: mbit * 1_000_000,
        duration_s: 3.0,
        response_us: Some(ResponseMicros {
            n: 9,
            p50: 900 + mbit,
            p99: 2_000,
            ..ResponseMicros::default()
        }),
        limits: vec![(base::Limit::Congestion, 0.9)],
        forward: LinkOutcome {
            dropped_segments: 7,
            queue_bytes_max: 2_048,
            lateness_us: Some(LatenessMicros {
                p99: 55,
                ..LatenessMicros::default()
            }),
            ..LinkOutcome::default()
        },
        caveats: caveats.to_vec(),
        ..Outcome::default()
    }
}

/// The outcomes of each cell, run after run.
fn ran(outcomes: [Vec<Outcome>; 2]) -> Vec<Ran> {
    let mut all = Vec::new();
    for (cell, outcomes) in outcomes.into_iter().enumerate() {
        for (run, outcome) in (0..).zip(outcomes) {
            all.push(Ran {
                cell,
                run,
                seed: u64::from(run) + 1,
                outcome,
            });
        }
    }
    all
}

const fn late(p99_us: u64, invalid: bool) -> Caveat {
    Caveat::EmulatorLate {
        p99_us,
        limit_us: 100,
        invalid,
    }
}

/// The screen without colours, and the document.
fn shown(outcomes: [Vec<Outcome>; 2]) -> (String, Document) {
    let scenario = Scenario::parse("example.toml", SCENARIO).expect("a scenario");
    let cells = scenario.trials();
    let ran = ran(outcomes);
    let document = Document::new(&scenario, &cells, &ran, ON_KERNEL);
    let screen = screen::render(&scenario, &cells, &ran, &document);
    (anstream::adapter::strip_str(&screen).to_string(), document)
}

fn line<'s>(screen: &'s str, start: &str) -> &'s str {
    screen
        .lines()
        .find(|line| line.trim_start().starts_with(start))
        .unwrap_or_else(|| panic!("no line begins with `{start}`:\n{screen}"))
}

#[test]
fn a_cell_is_a_row_of_medians_with_a_range() {
    let slow = [4, 3, 8].map(|mbit| outcome(mbit, &[])).to_vec();
    let (screen, document) = shown([slow, vec![outcome(9, &[])]]);
    let words: Vec<&str> = line(&screen, "slow").split_whitespace().collect();
    let expected = "slow 4.00 Mbit/s 3.00 to 8.00 3/3 904 us 2.00 ms congestion 2.00 KiB 7 55 us";
    assert_eq!(words.join(" "), expected, "{screen}");
    assert_eq!(line(&screen, "90").trim(), "90 %", "{screen}");
    assert!(screen.contains("expectations passed: 2 of 2"), "{screen}");
    assert!(document.failed_expectations().next().is_none());
    assert!(!screen.contains("CAVEAT"), "{screen}");
    for line in screen.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn one_run_in_real_time_of_several_settles_no_expectation() {
    let scenario = Scenario::parse("example.toml", SCENARIO).expect("a scenario");
    let cells = scenario.trials();
    let expectations = |engine: Engine, runs: usize| {
        let runs = |mbit: u64| vec![outcome(mbit, &[]); runs];
        let shown = document::Shown {
            engine,
            runs_of_file: 3,
            ..ON_KERNEL
        };
        let ran = ran([runs(4), runs(9)]);
        let document = Document::new(&scenario, &cells, &ran, shown);
        let expectations = document.expectations.iter();
        let expectations: Vec<Option<bool>> =
            expectations.map(|expectation| expectation.passed).collect();
        (
            expectations,
            document.open_expectations().collect::<Vec<_>>().join("\n"),
        )
    };
    let (one, why) = expectations(Engine::Kernel, 1);
    assert!(
        !one.is_empty() && one.iter().all(Option::is_none),
        "{one:?}"
    );
    assert!(why.contains("it takes 2 to tell from chance"), "{why}");
    let (two, _) = expectations(Engine::Kernel, 2);
    assert!(two.iter().all(|passed| *passed == Some(true)), "{two:?}");
    let (virtually, _) = expectations(Engine::Virtual, 1);
    assert_eq!(virtually, two);
}

#[test]
fn runs_that_must_not_be_used_are_marked_and_left_out() {
    let slow = vec![
        outcome(4, &[late(150, false)]),
        outcome(9, &[late(900, true)]),
        outcome(4, &[]),
    ];
    let fast = vec![outcome(9, &[late(800, true)])];
    let (screen, document) = shown([slow, fast]);
    assert!(line(&screen, "slow").contains("4.00 Mbit/s"), "{screen}");
    assert!(line(&screen, "slow").contains("2/3"), "{screen}");
    let fast = line(&screen, "!");
    assert!(
        fast.contains("9.00 Mbit/s") && fast.contains("0/1"),
        "{screen}"
    );
    assert!(line(&screen, "! no usable run").contains("not judged"));
    assert!(screen.contains("99 % of packets within 900 us"), "{screen}");
    assert!(!screen.contains("150 us"), "the worst is told: {screen}");
    let passed: Vec<Option<bool>> = document
        .expectations
        .iter()
        .map(|expectation| expectation.passed)
        .collect();
    assert_eq!(passed, [Some(true), None]);
    assert!(screen.contains("1 of 2, 1 not judged"), "{screen}");
    let json = serde_json::to_value(&document).expect("plain data");
    assert_eq!(json["outcomes"][1]["usable"], false);
}

#[test]
fn a_broken_claim_is_told_with_its_cell_and_its_reason() {
    let (screen, document) = shown([vec![outcome(7, &[])], vec![outcome(200, &[])]]);
    let failed: Vec<String> = document.failed_expectations().collect();
    assert_eq!(
        failed,
        [
            "slow: goodput_bps is 7.00 Mbit/s, expected at most 5.00 Mbit/s (it is slow)",
            "fast: response_p50_us is 1.10 ms, expected at most 1.00 ms",
        ]
    );
    let told = line(&screen, "expectation failed: slow");
    assert!(told.ends_with("(it is slow)"), "{screen}");
    assert_eq!(document.expectations[0].value, Some(7e6));
}

#[test]
fn a_claim_that_chance_may_have_broken_is_told_and_does_not_fail() {
    let slow = [4, 6, 7].map(|mbit| outcome(mbit, &[])).to_vec();
    let (screen, document) = shown([slow, vec![outcome(9, &[])]]);
    assert_eq!(document.failed_expectations().count(), 0);
    assert_eq!(document.expectations[0].passed, None);
    let told = line(
        &screen,
        "expectation not distinguishable: slow: goodput_bps is 6.00 Mbit/s",
    );
    assert!(
        told.contains("its interval is 4.00 to 7.00 Mbit/s"),
        "{screen}"
    );
    assert!(screen.contains("1 of 2, 1 not judged"), "{screen}");
}

#[test]
fn a_cell_without_a_usable_run_is_no_result() {
    let scenario = Scenario::parse("example.toml", SCENARIO).expect("a scenario");
    let check = |outcomes: [Vec<Outcome>; 2], expected: bool| {
        assert_eq!(has_result(&scenario.trials(), &ran(outcomes)), expected);
    };
    let good = || vec![outcome(1, &[])];
    check([good(), good()], true);
    check([good(), Vec::new()], false);
    check(
        [good(), vec![Outcome::ended_early("no such option".into())]],
        false,
    );
    check(
        [
            good(),
            vec![Outcome::ended_early("once".into()), outcome(1, &[])],
        ],
        true,
    );
}

#[test]
fn names_stay_whole_in_a_table_that_is_too_wide() {
    let slow: Vec<Outcome> = [401, 389]
        .map(|mbit| Outcome {
            limits: vec![(base::Limit::Application, 1.0)],
            ..outcome(mbit, &[])
        })
        .to_vec();
    let scenario = SCENARIO.replace("\"fast\"", "\"acknowledged-late\"");
    let scenario = Scenario::parse("example.toml", &scenario).expect("a scenario");
    let cells = scenario.trials();
    let ran = ran([slow.clone(), slow]);
    let document = Document::new(&scenario, &cells, &ran, ON_KERNEL);
    let screen = screen::render(&scenario, &cells, &ran, &document);
    assert!(screen.contains("acknowledged-late "), "{screen}");
    assert!(screen.contains("application"), "{screen}");
}
