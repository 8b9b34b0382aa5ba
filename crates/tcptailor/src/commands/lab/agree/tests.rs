use lab::ResponseMicros;

use super::*;

fn cells() -> Vec<Cell> {
    agreement_scenarios()
        .iter()
        .flat_map(Scenario::trials)
        .collect()
}

fn args(names: &[&str]) -> Args {
    Args {
        scenarios: names.iter().map(|name| (*name).to_owned()).collect(),
        engines: vec![Engine::Virtual],
        runs: None,
        quick: false,
        core: true,
        results: None,
    }
}

#[test]
fn scenarios_are_chosen_by_name() {
    let check = |names: &[&str], expected: &[&str]| {
        let cells = chosen(&args(names)).expect("they exist");
        let labels: Vec<&str> = cells.iter().map(agreement_label).collect();
        assert_eq!(labels, expected);
    };
    check(&["wwr/cork", "bulk/long"], &["bulk/long", "wwr/cork"]);
    check(&["wwr"], &["wwr/nagle", "wwr/nodelay", "wwr/cork"]);
    check(&["agree-wwr/cork"], &["wwr/cork"]);
    assert_eq!(chosen(&args(&[])).expect("all").len(), cells().len());
    assert_eq!(chosen(&args(&["ww"])).unwrap_err().exit, Exit::Usage);
    let quick = Args {
        quick: true,
        ..args(&["bulk"])
    };
    assert_eq!(chosen(&quick).expect("they exist").len(), 5);
}

fn outcome(p50: u64, p99: u64) -> Outcome {
    Outcome {
        goodput_bps: 1_000_000,
        response_us: Some(ResponseMicros {
            n: 9,
            p50,
            p99,
            ..ResponseMicros::default()
        }),
        ..Outcome::default()
    }
}

#[test]
fn a_table_says_what_differs_and_by_how_much() {
    let cells = chosen(&args(&["wwr/cork"])).expect("it exists");
    let mut disturbed = outcome(1000, 2000);
    disturbed.caveats.push(Caveat::HostBusy { percent: 40 });
    let engines = [Engine::Virtual, Engine::TunReceiver];
    let ran = |kernel| {
        [Ran {
            kernel: vec![kernel],
            others: vec![
                // The 99th percentile is off by 47 %.
                (Engine::Virtual, vec![outcome(1040, 1050)]),
                (Engine::TunReceiver, vec![outcome(999, 2100)]),
            ],
        }]
    };
    let document = Document::new(&cells, &engines, &ran(outcome(1000, 2000)), 1);
    let verdicts = |document: &Document| [0, 1].map(|of| document.engines[of].verdict);
    assert_eq!(verdicts(&document), [Verdict::Differs, Verdict::Agrees]);
    let text = table::render(&document);
    assert!(text.contains("virtual does not agree"), "{text}");

    let document = Document::new(&cells, &engines, &ran(disturbed), 1);
    assert_eq!(document.rows.len(), 3);
    let expected = [Verdict::NotDistinguishable, Verdict::Agrees];
    assert_eq!(verdicts(&document), expected);
    assert!(!document.ok);
    assert_eq!(document.engines[0].figures.median, Some(0.04));
    let text = anstream::adapter::strip_str(&table::render(&document)).to_string();
    for part in [
        "TUN-RECEIVER",
        "1.04 +4.0%",
        "1.05 -48%",
        "999 us -0.1%",
        "2.10 +5.0%",
        "virtual not distinguishable (3 of 3 numbers are missing or of a busy machine)",
        "tun-receiver agrees",
        "kernel, 1 run: other work took 40 %",
        "p99 a ",
        "a the slowest hundredth waits",
        "wwr/cork p99 (virtual)",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let json = serde_json::to_value(&document).expect("plain data");
    assert_eq!(json["rows"][1]["kernel"], 1000.0);
    assert_eq!(json["rows"][2]["engines"][1]["engine"], "tun-receiver");
    assert_eq!(json["rows"][2]["caveats"][0]["caveat"], "host-busy");
}

#[test]
fn all_engines_side_by_side_take_a_hundred_columns() {
    let others = [Engine::Virtual, Engine::Tun, Engine::TunReceiver];
    let cells = cells();
    let run = || Outcome {
        goodput_bps: 123_456_789,
        ..outcome(980, 990)
    };
    let far = || Outcome {
        goodput_bps: 3_456_789,
        ..outcome(2_980, 13_990)
    };
    let ran: Vec<Ran> = cells
        .iter()
        .map(|_| Ran {
            kernel: vec![run(), run()],
            others: others.map(|engine| (engine, vec![far()])).into(),
        })
        .collect();
    let document = Document::new(&cells, &others, &ran, 2);
    let text = anstream::adapter::strip_str(&table::render(&document)).to_string();
    let table = text.split("\n\n").next().expect("a table first");
    let widest = table.lines().map(|line| line.trim_end().len()).max();
    assert!(widest <= Some(100), "{widest:?}\n{table}");
    assert_eq!(table.lines().count(), document.rows.len() + 1, "{table}");
}

#[test]
fn a_scenario_without_a_usable_run_has_no_error() {
    let cells = chosen(&args(&["wwr/cork"])).expect("it exists");
    let mut failed = outcome(1000, 2000);
    failed.caveats.push(Caveat::EndedEarly { why: "x".into() });
    let ran = [Ran {
        kernel: vec![failed],
        others: vec![(Engine::Virtual, vec![outcome(1000, 2000)])],
    }];
    let document = Document::new(&cells, &[Engine::Virtual], &ran, 1);
    assert_eq!(document.engines[0].verdict, Verdict::NotDistinguishable);
    assert!(!document.ok && document.engines[0].figures.median.is_none());
    assert!(document.rows.iter().all(Row::lacks_errors));
    let text = table::render(&document);
    assert!(text.contains("90th percentile - (at"), "{text}");
}

#[test]
fn experiments_are_compared_by_their_recorded_runs() {
    let cells = recorded::cells();
    let is_bulk = |cell: &&Cell| lab::compared_metrics(&cell.trial.workload).len() == 1;
    let cell = cells
        .iter()
        .find(is_bulk)
        .expect("an experiment of goodput");
    let (scenario, _) = cell.id.split_once('/').unwrap_or((&cell.id, ""));
    let line = |engine: Engine, goodput_bps: u64| papers::reproduction::Line {
        scenario: scenario.to_owned(),
        variant: cell.variant.clone(),
        axes: cell.axes.clone(),
        engine: engine.into(),
        run: 0,
        elapsed_s: 1.0,
        outcome: Outcome {
            goodput_bps,
            ..Outcome::default()
        },
    };
    let folder = tempfile::tempdir().expect("a folder");
    let write = |lines: &[papers::reproduction::Line]| {
        let mut text = "{}\n".to_owned();
        for line in lines {
            text += &(serde_json::to_string(line).expect("plain data") + "\n");
        }
        std::fs::write(folder.path().join("outcomes.jsonl"), text).expect("a file");
    };
    let engines = [Engine::Virtual, Engine::Tun];
    write(&[line(Engine::Kernel, 1_000_000)]);
    let alone = recorded::runs(folder.path(), &cells, &engines).expect_err("nothing beside it");
    assert!(alone.to_string().contains("no run of the kernel beside"));
    write(&[
        line(Engine::Kernel, 1_000_000),
        line(Engine::Virtual, 980_000),
    ]);
    let ran = recorded::runs(folder.path(), &cells, &engines).expect("both ran it");
    let document = Document::new(&cells, &[Engine::Virtual], &ran, 1);
    assert_eq!(document.rows.len(), 1);
    assert_eq!(document.engines[0].numbers, 1);
    assert_eq!(document.engines[0].figures.median, Some(0.02));
    let text = anstream::adapter::strip_str(&table::render(&document)).to_string();
    assert!(text.contains("-2.0%"), "{text}");
}
