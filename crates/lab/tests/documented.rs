//! What `docs/scenarios.md` says: its example keeps its claim, and its tables have the keys that
//! there are.

mod markdown;

use std::sync::atomic::AtomicBool;

use lab::judge::{Verdict, judge_claim};
use lab::{EngineName, Scenario, Virtual};
use markdown::{table, words};

const DOCUMENT: &str = include_str!("../../../docs/scenarios.md");

/// The blocks of TOML, in order.
fn blocks() -> Vec<&'static str> {
    let parts = DOCUMENT.split("```toml\n").skip(1);
    let blocks = parts.map(|part| part.split_once("```").map_or(part, |(block, _)| block));
    blocks.collect()
}

fn mistakes(text: &str) -> String {
    let told = Scenario::parse("a.toml", text).err().unwrap_or_default();
    let told: Vec<String> = told.iter().map(ToString::to_string).collect();
    told.join("\n")
}

#[test]
fn the_example_keeps_its_claim() {
    let scenario = Scenario::parse("example.toml", blocks()[0]).expect("a valid file");
    let scenario = scenario.on(EngineName::Virtual);
    let cells = scenario.trials();
    let names: Vec<&str> = cells.iter().map(|cell| cell.id.as_str()).collect();
    assert_eq!(names, ["example/default", "example/small-buffer"]);
    let stop = AtomicBool::new(false);
    let [claim] = &scenario.expectations[..] else {
        panic!("one claim: {:?}", scenario.expectations);
    };
    let mut values = Vec::new();
    for cell in &cells {
        let outcome = Virtual::default().run(&cell.trial, &stop, &mut |_| ());
        values.extend(claim.metric.of(&outcome));
    }
    let judged = judge_claim(claim, &values[1..], None);
    assert_eq!(judged.verdict, Verdict::Holds, "{:?}", judged.why);
    let max = claim.max.expect("a limit");
    assert!(
        values[0] > max,
        "without the small buffer it is faster: {values:?}"
    );
}

#[test]
fn the_sweep_can_be_added_to_the_example() {
    let text = [blocks()[0], blocks()[1]].concat();
    let scenario = Scenario::parse("example.toml", &text).expect("a valid file");
    assert_eq!(scenario.trials().len(), 12);
}

#[test]
fn every_key_of_a_path_is_one() {
    let rows = table(DOCUMENT, "| key of `[path]` | meaning |");
    assert!(rows.len() > 10);
    for key in rows.iter().flat_map(|row| words(row[0])) {
        let told = mistakes(&format!("[path]\nkind = \"emulated\"\n{key} = \"?\"\n"));
        assert!(!told.contains("unknown key"), "{key}: {told}");
    }
}

#[test]
fn every_workload_is_there_with_its_keys() {
    let told = mistakes("[workload]\nkind = \"?\"\n");
    let (_, kinds) = told
        .split_once("workload.kind: unknown `?`; there are ")
        .expect(&told);
    let kinds: Vec<&str> = kinds
        .lines()
        .next()
        .unwrap_or_default()
        .split(", ")
        .collect();
    let rows = table(DOCUMENT, "| `kind` | what it does | keys |");
    let named: Vec<&str> = rows.iter().flat_map(|row| words(row[0])).collect();
    assert_eq!(named, kinds);
    for (kind, row) in named.iter().zip(&rows) {
        for key in words(row[2]) {
            let told = mistakes(&format!("[workload]\nkind = \"{kind}\"\n{key} = \"?\"\n"));
            assert!(!told.contains("unknown key"), "{kind}: {told}");
            assert!(
                told.contains(&format!("workload.{key}: ")),
                "{kind}, {key}: {told}"
            );
        }
    }
}
