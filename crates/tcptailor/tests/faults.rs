//! The main job on the real kernel: faults are named, cured, verified, and nothing is left behind.
//!
//! One fault of each kind of change (socket, listener, sysctl, route, interface, a new congestion
//! control), one without a cure, and a healthy flow. `tcptailor lab faults` walks the whole table.

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

/// How often a row may be asked for until it holds: the machine may be busy with other work.
const ATTEMPTS: u32 = 3;

/// All rows hold, each at one of its attempts.
fn check(faults: &[&str]) {
    let mut pending: Vec<String> = faults.iter().map(ToString::to_string).collect();
    for attempt in 1..=ATTEMPTS {
        let mut args = vec!["lab", "faults"];
        args.extend(pending.iter().map(String::as_str));
        let (code, document) = run(&args);
        assert_eq!(document["schema"], "tcptailor/lab-faults/1");
        let rows = document["rows"].as_array().expect("rows").clone();
        assert_eq!(rows.len(), pending.len());
        let failed: Vec<&Value> = rows.iter().filter(|row| row["ok"] != true).collect();
        assert_eq!(code, Some(if failed.is_empty() { 0 } else { 3 }));
        assert_eq!(document["ok"], failed.is_empty());
        rows.iter()
            .filter(|row| row["ok"] == true)
            .for_each(check_row);
        if failed.is_empty() {
            return;
        }
        assert!(attempt < ATTEMPTS, "{ATTEMPTS} times: {failed:#?}");
        pending = failed
            .iter()
            .map(|row| row["fault"].as_str().expect("a name").into())
            .collect();
    }
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
