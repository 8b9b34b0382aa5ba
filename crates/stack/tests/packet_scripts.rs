//! The packet scripts on our own stack in virtual time, and their excuses.
//!
//! `PACKET_SCRIPT=nagle/` runs those with that in their path.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use packet_script::{Engine, PacketScript, StackHost, run};

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
        let outcome = outcome.unwrap_or_else(|_| Err("it panicked".into()));
        if let Err(why) = outcome {
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
fn what_the_host_does_otherwise_is_told() {
    fn check(step: &str, expected: &str) {
        let text = format!("about x\n+0 established passive rtt 10ms\n+0 write 100\n{step}\n");
        let script = PacketScript::parse("s", &text).expect("a valid script");
        let mut host = StackHost::new(&script.setup).expect("plain settings");
        let failure = run(&script, &mut host).expect_err(step);
        assert_eq!((failure.line, failure.message.as_str()), (4, expected));
        assert!(failure.story.contains("data 1..101 PSH ack 1"));
    }
    let packet = "@a data 1..101 PSH ack 1 win 65536 ts 881347863 echo 100010";
    let of = |what: &str| format!("{what} in {packet}");
    check("+0 out data 1..101 ack 1", &of("flags P., not .,"));
    check("+0 out data 1..100 PSH ack 1", &of("100 bytes, not 99,"));
    check("+0 out data 2..102 PSH ack 1", &of("seq 1, not 2,"));
    check("+0 out data 1..101 PSH ack 2", &of("ack 1, not 2,"));
    check(
        "+0 out data 1..101 PSH ack 1 win 9",
        &of("window 65536, not 9..9,"),
    );
    check(
        "+0 out data 1..101 PSH ack 1 sack 1..2",
        &of("sack [], not Blocks([(1, 2)]),"),
    );
    check(
        "+5ms out data 1..101 PSH ack 1",
        &format!("it came after 0ns: {packet}"),
    );
    check(
        "+0 none",
        &format!("a packet that no line asks for: {packet}"),
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
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")
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
