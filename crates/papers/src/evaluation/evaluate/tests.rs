use lab::{Caveat, Scenario};

use super::*;
use crate::evaluation::Counts;

const HEAD: &str = r#"
name = "n1"
about = "A file."
[path]
kind = "emulated"
rate = "25mbit"
rtt = "8ms"
[workload]
kind = "bulk"
bytes = "4MiB"
[[variant]]
name = "n5"
[[variant]]
name = "n20"
"#;

/// `tail` is the rest of a scenario file with a table `[experiment]` of this class; `runs` are
/// engine, cell and seconds, below zero for a run that cannot be used.
fn reproduced(class: &str, tail: &str, runs: &[(&str, usize, f64)]) -> ExperimentResult {
    reproduced_of(1, class, tail, runs)
}

/// The same of a file that asks for this many runs.
fn reproduced_of(
    runs_of_file: usize,
    class: &str,
    tail: &str,
    runs: &[(&str, usize, f64)],
) -> ExperimentResult {
    let text = format!(
        "{HEAD}\n[experiment]\nids = 'N1 N2'\ndocument = 'netburner'\nclass = '{class}'\n\
         claim = 'One sentence.'\nengines = 'virtual, kernel'\n{tail}"
    );
    let scenario = Scenario::parse("n1.toml", &text).unwrap_or_else(|errors| panic!("{errors:?}"));
    let cells: Vec<CellName> = scenario
        .trials()
        .into_iter()
        .map(|cell| CellName {
            variant: cell.variant,
            axes: cell.axes,
        })
        .collect();
    let runs: Vec<RunOf> = runs
        .iter()
        .zip(0..)
        .map(|((engine, cell, seconds), run)| RunOf {
            engine: engine.parse().expect("an engine"),
            cell: *cell,
            run,
            outcome: outcome(*seconds),
        })
        .collect();
    evaluate(&Material {
        scenario: &scenario.name,
        about: &scenario.about,
        document: SeedDocument::Netburner,
        experiment: scenario.experiment.as_ref().expect("it is one"),
        claims: &scenario.expectations,
        cells: &cells,
        runs: &runs,
        not_run: &[],
        runs_min: &[],
        runs_of_file: &[(EngineName::Kernel, runs_of_file)],
    })
}

fn outcome(seconds: f64) -> Outcome {
    let mut outcome = Outcome {
        duration_s: seconds.abs(),
        ..Outcome::default()
    };
    if seconds < 0.0 {
        outcome.caveats.push(Caveat::EndedEarly {
            why: "it fell over".into(),
        });
    }
    outcome
}

const PUBLISHED: &str = "[[published]]\nvariant = 'n5'\nmetric = 'duration_us'\nvalue = '5.66s'\n\
                         text = '5.66 s'\n";

fn claim(of: &str, min: &str, max: &str) -> String {
    format!(
        "[[expect]]\nmetric = 'duration_us'\n{of}\nmin = '{min}'\nmax = '{max}'\nreason = 'r'\n"
    )
}

/// Rows as `variant[/over] [published] engine=median[low..high]n verdict; …`.
fn table(result: &ExperimentResult) -> String {
    let mut text = format!("{}: {}\n", result.verdict.words(), result.why);
    for row in &result.rows {
        let over = row.over.as_ref().map(|over| format!(" / {over}"));
        text.push_str(&format!("{}{}", row.label(), over.unwrap_or_default()));
        text.push_str(&format!(
            " {}",
            row.published_text.as_deref().unwrap_or("-")
        ));
        for value in &row.engines {
            let spread = value.spread.as_ref().map_or("none".into(), |spread| {
                let shown = lab::show::show_value(&row.unit, spread.median);
                let range = lab::judge::show_interval(&row.unit, spread);
                format!("{shown} ({range}) n={}", spread.n)
            });
            text.push_str(&format!(
                " | {} {spread} {}",
                value.engine,
                value.verdict.words()
            ));
        }
        text.push_str(&format!(" | {}\n", row.verdict.words()));
    }
    text
}

#[test]
fn experiments_come_to_verdicts_by_their_class() {
    let holds = claim("variant = 'n5'", "5s", "6s");
    let near = &[("virtual", 0, 5.66), ("kernel", 0, 5.6), ("kernel", 0, 5.7)][..];
    let check = |class: &str, tail: &str, runs: &[(&str, usize, f64)], expected: &str| {
        assert_eq!(table(&reproduced(class, tail, runs)).trim_end(), expected);
    };
    check(
        "exact",
        &format!("{PUBLISHED}{holds}"),
        near,
        "pass: all expectations passed\n\
         n5 5.66 s | virtual 5.66 s (5.66 s) n=1 pass | kernel 5.65 s (5.60 to 5.70 s) n=2 pass \
         | pass",
    );
    check(
        "calibrated",
        &format!("{PUBLISHED}{holds}"),
        near,
        "calibrated: fitted on this number, not a prediction; all expectations passed\n\
         n5 5.66 s | virtual 5.66 s (5.66 s) n=1 pass | kernel 5.65 s (5.60 to 5.70 s) n=2 pass \
         | calibrated",
    );
    check(
        "deviates",
        &format!("{PUBLISHED}{}", claim("variant = 'n5'", "1s", "2s")),
        &[("virtual", 0, 1.4)],
        "deviates as expected: the published statement does not hold: r\n\
         n5 5.66 s | virtual 1.40 s (1.40 s) n=1 pass | deviates as expected",
    );
    check(
        "deviates",
        &format!("{PUBLISHED}{}", claim("variant = 'n5'", "1s", "2s")),
        &[("virtual", 0, 5.66)],
        "fail: n5, virtual: duration_us is 5.66 s, expected at most 2.00 s (r); 5.66 s comes out \
         although it was not expected\n\
         n5 5.66 s | virtual 5.66 s (5.66 s) n=1 fail | fail",
    );
    // What is published must come out by itself.
    check(
        "value",
        PUBLISHED,
        &[("virtual", 0, 5.5), ("kernel", 0, 4.5), ("kernel", 0, 4.5)],
        "fail: n5, kernel: duration_us is 4.50 s, expected at least 5.38 s (published, within 5 %)\n\
         n5 5.66 s | virtual 5.50 s (5.50 s) n=1 pass | kernel 4.50 s (4.50 s) n=2 fail | fail",
    );
    check(
        "shape",
        PUBLISHED,
        &[("virtual", 0, 5.5)],
        "recorded: measured; no expectation\n\
         n5 5.66 s | virtual 5.50 s (5.50 s) n=1 recorded | recorded",
    );
    check(
        "exact",
        &holds,
        &[],
        "not run: no engine ran it\nn5 - | not run",
    );
}

#[test]
fn what_is_undecided_or_unusable_is_no_failure() {
    let check = |tail: &str, runs: &[(&str, usize, f64)], expected: &str| {
        assert_eq!(table(&reproduced("shape", tail, runs)).trim_end(), expected);
    };
    let holds = claim("variant = 'n5'", "5s", "6s");
    check(
        &holds,
        &[("kernel", 0, 5.9), ("kernel", 0, 6.1), ("kernel", 0, 6.2)],
        "not distinguishable: n5, kernel: duration_us is 6.10 s, expected at most 6.00 s (r); its \
         interval is 5.90 to 6.20 s, so it may be within\n\
         n5 - | kernel 6.10 s (5.90 to 6.20 s) n=3 not distinguishable | not distinguishable",
    );
    let result = reproduced(
        "shape",
        &holds,
        &[
            ("virtual", 0, 5.5),
            ("kernel", 0, -9.0),
            ("kernel", 0, 5.5),
            ("kernel", 0, -9.0),
        ],
    );
    assert_eq!(result.verdict, Verdict::Holds);
    assert_eq!(result.rows[0].engines[1].left_out, 2);
    assert_eq!(
        result.rows[0].engines[1].spread.as_ref().map(|s| s.n),
        Some(1)
    );
    assert_eq!(result.doubts[0].text, "ended early: it fell over");
    assert_eq!((result.doubts[0].runs, result.doubts[0].of), (2, 3));
    check(
        &holds,
        &[("kernel", 0, -9.0)],
        "not run: n5, kernel: no usable run: ended early: it fell over\n\
         n5 - | kernel none not run | not run",
    );
}

#[test]
fn one_run_in_real_time_fails_nothing() {
    let holds = claim("variant = 'n5'", "5s", "6s");
    let check = |runs: &[(&str, usize, f64)], expected: Verdict| {
        let result = reproduced("shape", &holds, runs);
        assert_eq!(result.verdict, expected, "{}", result.why);
    };
    check(&[("virtual", 0, 9.0)], Verdict::Fails);
    check(&[("kernel", 0, 9.0)], Verdict::NotDistinguishable);
    check(&[("kernel", 0, 9.0), ("kernel", 0, 9.1)], Verdict::Fails);
    // Nor does the one that is left of many.
    check(
        &[("kernel", 0, 9.0), ("kernel", 0, -5.5), ("kernel", 0, -5.5)],
        Verdict::NotDistinguishable,
    );
}

#[test]
fn one_run_of_several_in_real_time_tests_nothing() {
    let holds = claim("variant = 'n5'", "5s", "6s");
    let check = |tail: &str, class: &str, runs: &[(&str, usize, f64)], expected: Verdict| {
        let result = reproduced_of(3, class, tail, runs);
        assert_eq!(result.verdict, expected, "{}", result.why);
        result
    };
    let kernel = |seconds: f64| ("kernel", 0, seconds);
    check(&holds, "shape", &[kernel(9.0)], Verdict::NotTested);
    let one = check(&holds, "shape", &[kernel(5.5)], Verdict::NotTested);
    let counts = Counts::of(std::slice::from_ref(&one));
    assert_eq!((counts.not_tested, counts.holds), (1, 0));
    assert_eq!(
        one.why,
        "n5, kernel: 1 usable run in real time, and it takes 2 to tell from chance"
    );
    // Virtual time needs one; what it says is told by its engine, and no green by both.
    let both = [("virtual", 0, 5.5), kernel(5.5)];
    let both = check(&holds, "shape", &both, Verdict::NotTested);
    assert_eq!(both.rows[0].engines[0].verdict, Verdict::Holds);
    check(&holds, "shape", &[kernel(5.5); 2], Verdict::Holds);
    check(
        &holds,
        "shape",
        &[kernel(5.5), kernel(-5.5)],
        Verdict::NotTested,
    );
    // That a published number does not come out is a claim as well.
    check(PUBLISHED, "deviates", &[kernel(4.0)], Verdict::NotTested);
    check(
        PUBLISHED,
        "deviates",
        &[kernel(4.0); 2],
        Verdict::DeviatesAsExpected,
    );
    let both = [("virtual", 0, 4.0), kernel(5.66)];
    check(PUBLISHED, "deviates", &both, Verdict::DeviatesAsExpected);
}

#[test]
fn one_number_that_comes_out_nowhere_is_enough_to_deviate() {
    let tail = PUBLISHED.to_owned() + &PUBLISHED.replace("n5", "n20");
    // Seconds of both variants in virtual time, then on the kernel; 5.66 s is published of both.
    let check = |[n5, n20, n5_kernel, n20_kernel]: [f64; 4], expected: Verdict| {
        let kernel = [("kernel", 0, n5_kernel), ("kernel", 1, n20_kernel)];
        let runs = [&[("virtual", 0, n5), ("virtual", 1, n20)][..], &kernel].concat();
        let result = reproduced("deviates", &tail, &runs);
        assert_eq!(result.verdict, expected, "{}", result.why);
    };
    check([4.0, 4.0, 4.0, 4.0], Verdict::DeviatesAsExpected);
    check([4.0, 5.66, 4.0, 5.66], Verdict::DeviatesAsExpected);
    check([5.66, 5.66, 5.66, 5.66], Verdict::Fails);
    check([4.0, 4.0, 5.66, 5.66], Verdict::Fails);
    check([4.0, 5.66, 5.66, 4.0], Verdict::Fails);
    check([4.0, 5.66, 4.0, 4.0], Verdict::DeviatesAsExpected);
}

#[test]
fn a_published_number_that_comes_out_does_not_deviate() {
    let check = |tail: &str, seconds: &[f64], expected: &str| {
        let runs: Vec<_> = seconds.iter().map(|value| ("kernel", 0, *value)).collect();
        let found = table(&reproduced("deviates", tail, &runs));
        assert_eq!(found.trim_end(), expected);
    };
    let wide = format!("{PUBLISHED}{}", claim("variant = 'n5'", "1s", "6s"));
    check(
        &wide,
        &[5.5],
        "fail: n5, kernel: 5.66 s comes out although it was not expected\n\
         n5 5.66 s | kernel 5.50 s (5.50 s) n=1 pass | pass",
    );
    check(
        &wide,
        &[4.0, 4.1, 5.9],
        "not distinguishable: n5, kernel: 5.66 s may come out by the interval, although it was not \
         expected\n\
         n5 5.66 s | kernel 4.10 s (4.00 to 5.90 s) n=3 pass | pass",
    );
    check(
        &wide,
        &[4.0, 4.1, 4.2],
        "deviates as expected: the published statement does not hold: r\n\
         n5 5.66 s | kernel 4.10 s (4.00 to 4.20 s) n=3 pass | deviates as expected",
    );
    // The class claims it of numbers without bounds too.
    check(
        PUBLISHED,
        &[4.0],
        "deviates as expected: the published statement does not hold\n\
         n5 5.66 s | kernel 4.00 s (4.00 s) n=1 recorded | deviates as expected",
    );
    check(
        PUBLISHED,
        &[5.66],
        "fail: n5, kernel: 5.66 s comes out although it was not expected\n\
         n5 5.66 s | kernel 5.66 s (5.66 s) n=1 recorded | recorded",
    );
    check(
        &claim("variant = 'n5'", "1s", "6s"),
        &[5.5],
        "deviates as expected: what the document states, without a number, is not what comes out: \
         see the expectations\n\
         n5 - | kernel 5.50 s (5.50 s) n=1 pass | pass",
    );
}

#[test]
fn what_was_fitted_is_calibrated_and_what_follows_is_judged_by_the_files_tolerance() {
    let fitted = format!("{PUBLISHED}fitted = true\n") + &claim("variant = 'n5'", "5.6s", "5.7s");
    let predicted = PUBLISHED.replace("n5", "n20");
    let check = |class: &str, head: &str, after: f64, expected: &str, why: Option<&str>| {
        let tail = format!("{head}\n{fitted}{predicted}");
        let runs = [("virtual", 0, 5.65), ("virtual", 1, after)];
        let result = reproduced(class, &tail, &runs);
        let rows = result.rows.iter().map(|row| row.verdict.words());
        let rows: Vec<&str> = rows.collect();
        assert_eq!(
            format!("{}: {}", result.verdict.words(), rows.join(", ")),
            expected
        );
        assert_eq!(result.rows[1].engines[0].why.as_deref(), why);
    };
    let three = "tolerance = '3%'";
    let off = "5.66 s does not come out: off the published number by +4.1 %";
    let deviates = "deviates as expected: calibrated, deviates as expected";
    check("deviates", three, 5.892, deviates, Some(off));
    let fails = "5.66 s comes out although it was not expected";
    check(
        "deviates",
        "",
        5.892,
        "fail: calibrated, recorded",
        Some(fails),
    );
    let holds = "pass, off the published number by +4.1 %";
    check("value", "", 5.892, "pass: calibrated, pass", Some(holds));
    check("value", "", 5.661, "pass: calibrated, pass", None);
    check(
        "calibrated",
        "",
        5.661,
        "calibrated: calibrated, recorded",
        None,
    );
}

#[test]
fn a_claim_elsewhere_than_the_published_number_says_how_far() {
    for class in ["value", "exact"] {
        let tail = format!("{PUBLISHED}{}", claim("variant = 'n5'", "6s", "7s"));
        let result = reproduced(class, &tail, &[("virtual", 0, 6.226)]);
        assert_eq!(
            table(&result).trim_end(),
            "pass: all expectations passed; off the published number: 1 of 1 rows\n\
             n5 5.66 s | virtual 6.23 s (6.23 s) n=1 pass | pass"
        );
        let why = result.rows[0].engines[0].why.as_deref();
        assert_eq!(why, Some("pass, off the published number by +10 %"));
    }
}

#[test]
fn a_claim_that_is_not_measured_does_not_hold() {
    let holds = claim("variant = 'n5'", "1s", "6s");
    let check = |more: &str, runs: &[(&str, usize, f64)], expected: &str| {
        let result = reproduced("shape", &format!("{holds}{more}"), runs);
        assert_eq!(
            format!("{}: {}", result.verdict.words(), result.why),
            expected
        );
    };
    let latency = "[[expect]]\nvariant = 'n5'\nmetric = 'response_p50_us'\nmax = '1s'\n";
    check(
        latency,
        &[("virtual", 0, 5.5)],
        "not distinguishable: 1 of 2 expectations was not measured (n5, virtual: response_p50_us is not \
         measured here)",
    );
    check(
        "",
        &[("virtual", 0, 5.5), ("kernel", 0, -9.0)],
        "not distinguishable: 1 of 1 expectations was not measured (n5, kernel: no usable run: ended \
         early: it fell over)",
    );
    // Of engines that are not asked, or did not run, nothing is expected.
    check(
        &format!("{latency}engines = 'kernel'\n"),
        &[("virtual", 0, 5.5)],
        "pass: all expectations passed; not measured here: 1 of 2 rows; about engines that did not \
         run: 1 of 2 expectations",
    );
    check("", &[("virtual", 0, 5.5)], "pass: all expectations passed");
    let ratio = claim("variant = 'n5'\nover = 'n20'", "1", "2").replace("1s", "1");
    check(
        &ratio,
        &[("virtual", 0, 5.5), ("virtual", 1, 0.0)],
        "not distinguishable: 1 of 2 expectations was not measured (n5, virtual: duration_us of n20 is 0 \
         in some run, and nothing can be divided by it)",
    );
}

#[test]
fn claims_are_about_variants_ratios_and_engines() {
    let check = |tail: &str, runs: &[(&str, usize, f64)], expected: &str| {
        assert_eq!(table(&reproduced("shape", tail, runs)).trim_end(), expected);
    };
    let both = &[
        ("virtual", 0, 5.0),
        ("virtual", 1, 2.0),
        ("kernel", 0, 4.0),
        ("kernel", 1, 4.0),
        ("kernel", 0, 4.0),
        ("kernel", 1, 4.0),
        ("kernel", 0, 4.0),
        ("kernel", 1, 4.0),
    ];
    check(
        &claim("variant = 'n5'\nover = 'n20'", "2.4", "2.6"),
        &both[..6],
        "not tested: n5, kernel: duration_us over that of n20 is 1.00, expected at least 2.40 (r); 2 \
         usable runs in real time, and it takes 3 to tell from chance\n\
         n5 / n20 - | virtual 2.50 (2.50) n=1 pass | kernel 1.00 (1.00) n=2 not tested | not tested",
    );
    check(
        &claim("", "1s", "9s"),
        both,
        "pass: all expectations passed\n\
         n5 - | virtual 5.00 s (5.00 s) n=1 pass | kernel 4.00 s (4.00 s) n=3 pass | pass\n\
         n20 - | virtual 2.00 s (2.00 s) n=1 pass | kernel 4.00 s (4.00 s) n=3 pass | pass",
    );
    check(
        &claim("variant = 'n5'\nover = 'n20'", "2.4", "2.6"),
        both,
        "fail: n5, kernel: duration_us over that of n20 is 1.00, expected at least 2.40 (r)\n\
         n5 / n20 - | virtual 2.50 (2.50) n=1 pass | kernel 1.00 (1.00) n=3 fail | fail",
    );
    check(
        &claim(
            "variant = 'n5'\nover = 'n20'\nengines = 'virtual'",
            "2.4",
            "2.6",
        ),
        both,
        "pass: all expectations passed\n\
         n5 / n20 - | virtual 2.50 (2.50) n=1 pass | kernel 1.00 (1.00) n=3 recorded | pass",
    );
    // Two claims about one number are one row, and both must hold.
    check(
        &format!(
            "{}{}",
            claim("variant = 'n5'\nengines = 'virtual'", "4s", "6s"),
            claim("variant = 'n5'\nengines = 'kernel'", "1s", "2s")
        ),
        both,
        "fail: n5, kernel: duration_us is 4.00 s, expected at most 2.00 s (r)\n\
         n5 - | virtual 5.00 s (5.00 s) n=1 pass | kernel 4.00 s (4.00 s) n=3 fail | fail",
    );
}

#[test]
fn a_sweep_is_compared_point_by_point() {
    let sweep = "[sweep]\n'path.rtt' = ['8ms', '16ms']\n";
    let tail = format!("{}{sweep}", claim("variant = 'n5'\nover = 'n20'", "2", "3"));
    let runs = [
        ("virtual", 0, 5.0),
        ("virtual", 1, 8.0),
        ("virtual", 2, 2.0),
        ("virtual", 3, 4.0),
    ];
    assert_eq!(
        table(&reproduced("shape", &tail, &runs)),
        "pass: all expectations passed\n\
         n5/path.rtt=8ms / n20 - | virtual 2.50 (2.50) n=1 pass | pass\n\
         n5/path.rtt=16ms / n20 - | virtual 2.00 (2.00) n=1 pass | pass\n"
    );
}

#[test]
fn corrections_stand_beside_the_numbers() {
    let result = reproduced("shape", "corrections = 'D-N8 D-N5'", &[]);
    let ids: Vec<&str> = result.corrections.iter().map(|row| &*row.id).collect();
    assert_eq!(ids, ["D-N8", "D-N5"]);
}

#[test]
fn runs_go_on_while_a_number_is_unknown() {
    let text = format!(
        "{HEAD}\n[[expect]]\nmetric = 'duration_us'\nvariant = 'n5'\nmax = '1s'\n[experiment]\n\
         ids = 'N1'\ndocument = 'netburner'\nclass = 'shape'\nclaim = 'x'\nengines = 'kernel'\n"
    );
    let scenario = Scenario::parse("n1.toml", &text).unwrap_or_else(|errors| panic!("{errors:?}"));
    let cells = ["n5", "n20"].map(|variant| CellName {
        variant: Some(variant.into()),
        axes: Vec::new(),
    });
    let check = |cell: usize, seconds: &[f64], expected: bool| {
        let runs: Vec<RunOf> = seconds
            .iter()
            .zip(0..)
            .map(|(seconds, run)| RunOf {
                engine: EngineName::Kernel,
                cell,
                run,
                outcome: outcome(*seconds),
            })
            .collect();
        let material = Material {
            scenario: "n1",
            about: "",
            document: SeedDocument::Netburner,
            experiment: scenario.experiment.as_ref().expect("it is one"),
            claims: &scenario.expectations,
            cells: &cells,
            runs: &runs,
            not_run: &[],
            runs_min: &[],
            runs_of_file: &[],
        };
        let wants = wants_more_runs(&material, (EngineName::Kernel, cell), (3, 6));
        assert_eq!(wants, expected, "{seconds:?}");
    };
    check(0, &[], true);
    check(0, &[1.0, 1.0], true);
    check(0, &[1.0, 1.0, 1.0], false);
    check(0, &[1.0, 1.2, 1.4], true);
    check(0, &[1.0, 1.2, 1.4, 1.0, 1.2, 1.4], false);
    check(0, &[-1.0, -1.0, -1.0], false);
    check(0, &[-1.0, -1.0, -1.0, 1.0, 1.4], true);
    check(0, &[-1.0, -1.0, -1.0, 1.0, 1.4, 1.0], false);
    // Nothing is claimed of this one.
    check(1, &[1.0, 1.2, 1.4], false);
}

#[test]
fn rows_carry_the_unit_of_their_metric() {
    let check = |of: &str, expected: &str| {
        let tail = format!("[[expect]]\nvariant = 'n5'\n{of}");
        let result = reproduced("shape", &tail, &[]);
        assert_eq!(result.rows[0].unit, expected);
    };
    check("metric = 'stalled_share'\nmin = '50%'", "share");
    check("metric = 'goodput_bps'\nmin = '5mbit'", "bit/s");
    check("metric = 'forward_queue_bytes_max'\nmin = '5kB'", "bytes");
    check("metric = 'operations'\nmin = '5'", "");
    check("metric = 'duration_us'\nover = 'n20'\nmin = '2'", "ratio");
}
