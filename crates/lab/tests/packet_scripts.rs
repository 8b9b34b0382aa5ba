//! The packet scripts on our own stack in virtual time, and their excuses.
//!
//! `PACKET_SCRIPT=nagle/` runs those with that in their path.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use lab::PacketScript;
use lab::packet_script::{Engine, StackHost, run};

#[test]
fn scripts_hold_on_the_stack() {
    let wanted = std::env::var("PACKET_SCRIPT").unwrap_or_default();
    let mut failures = Vec::new();
    let mut count = 0;
    for (name, script) in scripts() {
        if !name.contains(&wanted) || !script.runs_on(Engine::Stack) {
            continue;
        }
        count += 1;
        let play = || {
            let mut host = StackHost::new(&script.setup)?;
            run(&script, &mut host).map_err(|failure| failure.to_string())
        };
        let outcome = catch_unwind(AssertUnwindSafe(play));
        if let Err(why) = outcome.unwrap_or_else(|_| Err("it panicked".into())) {
            failures.push(format!("{name}:{why}"));
        }
    }
    let failed = failures.len();
    assert!(
        failures.is_empty(),
        "{failed} of {count}\n{}",
        failures.join("\n")
    );
}

#[test]
fn every_excuse_is_a_listed_behaviour() {
    let list = fs::read_to_string(root().join("../../../docs/behaviours.md")).expect("the list");
    let headings = list.lines().filter_map(|line| line.strip_prefix("### "));
    let listed: BTreeSet<&str> = headings.collect();
    let mut used = BTreeSet::new();
    for (name, script) in scripts() {
        let only = script.only.map(|(_, why)| why);
        for excuse in script.excuses.into_iter().chain(only) {
            let known = listed.contains(excuse.as_str());
            assert!(known, "{name}: `{excuse}` is not listed");
            used.insert(excuse);
        }
    }
    let unused: Vec<_> = listed
        .iter()
        .filter(|name| !used.contains(**name))
        .collect();
    assert!(unused.is_empty(), "nothing shows {unused:?}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../stack/scripts")
}

/// Every script, by its path below `crates/stack/scripts`.
fn scripts() -> Vec<(String, PacketScript)> {
    let root = root();
    let mut files = Vec::new();
    for feature in fs::read_dir(&root).expect("the scripts") {
        let feature = feature.expect("an entry").path();
        if feature.is_dir() {
            let entries = fs::read_dir(feature).expect("a directory");
            files.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
    }
    files.sort();
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&root).expect("below it");
        let name = name.display().to_string();
        let text = fs::read_to_string(&path).expect("it was listed");
        let script = PacketScript::parse(&name, &text).unwrap_or_else(|wrong| {
            let lines: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            panic!("{}", lines.join("\n"))
        });
        (name, script)
    };
    files.into_iter().map(read).collect()
}
