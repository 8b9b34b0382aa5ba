//! The main job on the real kernel: faults are named, cured, verified, and nothing is left behind.
//!
//! One fault of each kind of change (socket, listener, sysctl, route, interface, a new congestion
//! control), one without a cure, and a healthy flow. `tcptailor lab faults` walks the whole table.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// Lab paths need root here; an ordinary user's are tried by hand (docs/ci.md).
fn may_run() -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt;
        own.uid() == 0
    });
    if is_root && std::path::Path::new("/dev/net/tun").exists() {
        return true;
    }
    assert!(
        std::env::var_os("REQUIRE_KERNEL").is_none(),
        "root and /dev/net/tun are required"
    );
    println!("skipped: needs root and /dev/net/tun");
    false
}

fn run(args: &[&str]) -> (Option<i32>, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args(args)
        .arg("--json")
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let document = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{args:?}: {error} in {text}\n{stderr}"));
    (output.status.code(), document)
}

fn namespaces_of(pid: u32) -> Vec<String> {
    let names = std::fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .flatten();
    names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(&format!("tcptailor-{pid}-")))
        .collect()
}

/// How often a row may fail until it holds: networks are not the same twice.
const FAILURES: usize = 3;
/// How often it is asked for in all. What a busy machine did to a row is not a failure of ours.
const ATTEMPTS: usize = 5;

/// All rows hold, each at one of its attempts, but for those that the machine disturbed each time.
fn check(faults: &[&str]) {
    let mut pending: BTreeMap<String, usize> =
        faults.iter().map(|fault| (fault.to_string(), 0)).collect();
    for _ in 0..ATTEMPTS {
        let mut args = vec!["lab", "faults"];
        args.extend(pending.keys().map(String::as_str));
        let (code, document) = run(&args);
        assert_eq!(document["schema"], "tcptailor/lab-faults/1");
        let rows = document["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), pending.len());
        for row in rows {
            let name = row["fault"].as_str().expect("a name");
            if row["ok"] == true {
                check_row(row);
                pending.remove(name);
            } else if !is_disturbed(row) {
                let failures = pending.get_mut(name).expect("it was asked for");
                *failures += 1;
                assert!(*failures < FAILURES, "{FAILURES} times, lastly: {row:#}");
            }
        }
        assert_eq!(document["ok"], pending.is_empty());
        assert_eq!(code, Some(if pending.is_empty() { 0 } else { 3 }));
        if pending.is_empty() {
            return;
        }
    }
    let disturbed: Vec<&String> = pending.keys().collect();
    println!("says nothing of {disturbed:?}: this machine was busy with other work");
}

/// Whether other work on this machine was in the way of what a row measured.
fn is_disturbed(row: &Value) -> bool {
    let caveats = row["caveats"].as_array().expect("a list");
    caveats
        .iter()
        .any(|caveat| caveat["invalid"] == true || caveat["caveat"] == "host-busy")
}

/// What a row must say apart from holding.
fn check_row(row: &Value) {
    let fault = row["fault"].as_str().expect("a name");
    if fault.starts_with("healthy-") {
        return;
    }
    assert_eq!(row["named"], row["expected"], "{fault}");
    assert!(
        row["share"]
            .as_f64()
            .is_some_and(|share| share > 0.0 && share <= 1.0),
        "{fault}"
    );
    assert!(
        row["before"]["duration_s"]
            .as_f64()
            .is_some_and(|time| time > 0.5),
        "{fault}"
    );
    assert_eq!(row["fix"].is_null(), row["after"].is_null(), "{fault}");
    assert_eq!(row["fix"].is_null(), row["live"].is_null(), "{fault}");
}

#[test]
fn faults_are_named_and_cured_on_the_real_kernel() {
    if !may_run() {
        return;
    }
    check(&[
        "nagle-delack-stall",
        "cork-not-uncorked",
        "rcvbuf-locked",
        "tcp-wmem-max-cap",
        "slow-reader",
        "random-loss",
        "local-qdisc-drops",
        "initcwnd-too-small",
        "healthy-request",
    ]);
}

#[test]
fn a_fit_tells_before_and_after_and_leaves_nothing() {
    if !may_run() {
        return;
    }
    let child = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args(["fit", "--lab", "nagle", "--json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let pid = child.id();
    let output = child.wait_with_output().expect("the program ends");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(document["schema"], "tcptailor/fit/1");
    assert_eq!(document["ending"], "kept", "{document:#}");
    assert_eq!(document["changes"][0]["knob"], "nodelay");
    assert_eq!(document["changes"][0]["live"], true);
    assert!(
        document["gain"].as_f64().is_some_and(|gain| gain > 10.0),
        "{document:#}"
    );
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(namespaces_of(pid), [""; 0], "nothing is left behind");
}

#[test]
fn an_unknown_fault_is_answered_with_the_nearest() {
    let (code, document) = run(&["fit", "--lab", "nagel"]);
    assert_eq!(code, Some(2));
    let message = document["error"]["message"].as_str().expect("a message");
    assert!(message.contains("did you mean `nagle`"), "{message}");
}
