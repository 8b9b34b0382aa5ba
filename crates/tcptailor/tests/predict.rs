//! `predict` and `lab truth` as a user meets them: paths given by hand, recordings, refusals.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcptailor"));
    command
        .args(args)
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn document(args: &[&str]) -> (Value, Option<i32>) {
    let output = run(&[args, &["--json"]].concat());
    let shown = text(&output.stdout);
    let document = serde_json::from_str(&shown);
    let document = document.unwrap_or_else(|_| panic!("{shown}{}", text(&output.stderr)));
    (document, output.status.code())
}

/// The row of one change.
fn row<'d>(document: &'d Value, change: &str) -> &'d Value {
    let rows = document["predictions"].as_array().expect("rows");
    let found = rows.iter().find(|row| row["change"] == change);
    found.unwrap_or_else(|| panic!("{change} in {document}"))
}

#[test]
fn a_path_that_is_given_by_hand_is_predicted_and_ranked() {
    let (document, code) = document(&[
        "predict",
        "--rate",
        "10mbit",
        "--rtt",
        "40ms",
        "--set",
        "sndbuf=8KiB",
        "--try",
        "sndbuf=256KiB",
        "--try",
        "congestion=reno",
    ]);
    assert_eq!(code, Some(0));
    assert_eq!(document["schema"], "tcptailor/predict/2");
    assert_eq!(document["twin"]["given"], true);
    let sndbuf = &row(&document, "sndbuf = 256KiB")["known"];
    let goodput = sndbuf["goodput_bps"]["value"].as_f64().expect("a number");
    assert!((8.5e6..10e6).contains(&goodput), "{goodput}");
    assert!(sndbuf["gain"].as_f64().expect("a gain") > 1.2, "{sndbuf}");
    let reno = row(&document, "congestion = reno")["known"]["gain"].as_f64();
    assert!((0.8..1.2).contains(&reno.expect("a gain")), "{reno:?}");
    let first = &document["predictions"][0]["known"]["gain"];
    assert!(first.as_f64() >= sndbuf["gain"].as_f64(), "the best first");
}

#[test]
fn the_doctors_changes_are_predicted_without_being_asked_for() {
    let (document, code) = document(&["predict", "--lab", "nagle"]);
    assert_eq!(code, Some(0));
    let nodelay = row(&document, "nodelay = on");
    assert_eq!(nodelay["diagnosis"], "nagle-delack-stall");
    let response = nodelay["known"]["response_us"]["value"].as_f64();
    assert!(response.expect("a number") < 1000.0, "{nodelay}");
}

#[test]
fn a_recording_of_one_end_is_fitted_and_the_far_end_left_open() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/recordings/");
    let file = format!("{folder}nagle-delack.client.rec");
    let (document, code) = document(&["predict", &file]);
    assert_eq!(code, Some(0), "{document}");
    assert_eq!(document["twin"]["ok"], true);
    assert_eq!(document["twin"]["workload"]["kind"], "write-write-read");
    let nodelay = &row(&document, "nodelay = on")["known"];
    assert!(
        nodelay["gain"].as_f64().expect("a gain") > 10.0,
        "{nodelay}"
    );
    // No twin has the far end; what the wait takes of the time is known without one.
    let far = &row(&document, "route.quickack = on")["known"];
    assert_eq!(far["source"], "time-saved");
    assert!(far["gain"].as_f64().expect("a gain") > 10.0, "{far}");
}

#[test]
fn what_was_typed_wrongly_is_told_before_anybody_waits() {
    let check = |args: &[&str], expected: &str| {
        let output = run(&[&["predict"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let shown = text(&output.stderr);
        assert!(shown.contains(expected), "{args:?}: {shown}");
    };
    check(&[], "required");
    check(
        &["--rate", "10mbit"],
        "round-trip time of the path is missing",
    );
    check(&["--lab", "nagle", "--rtt", "1ms"], "--rtt");
    check(&["--lab", "nagel"], "nagle");
    check(&["--lab", "txqueuelen"], "no twin has it");
    check(&["--scenario", "no-such"], "no-such");
    check(&["--lab", "nagle", "--try", "nodelay"], "KNOB=VALUE");
    check(&["--lab", "nagle", "--try", "nodlay=on"], "nodelay");
    check(&["--lab", "nagle", "--try", "nodelay=maybe"], "maybe");
    check(&["./no-such-file.rec"], "No such file");
    check(&["--lab", "nagle", "--pid", "1"], "cannot be used with");
    check(&["--rate", "0mbit", "--rtt", "1ms"], "out of range");
}

#[test]
fn predictions_are_compared_with_what_comes_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("truth.md");
    let page_text = page.to_str().expect("UTF-8");
    let looks = folder.path().join("looks");
    let looks_text = looks.to_str().expect("UTF-8");
    let (measured, code) = document(&[
        "lab", "truth", "--engine", "virtual", "--only", "drawn", "--seed", "5", "--trials", "3",
        "-o", page_text, "--keep", looks_text,
    ]);
    assert!(code == Some(0) || code == Some(3), "{code:?}");
    assert_eq!(measured["schema"], "tcptailor/lab-truth/2");
    assert_eq!(measured["partial"], false);
    let count = |name: &str| measured[name].as_array().expect("rows").len();
    assert_eq!(count("scored") + count("unpredicted"), 3);
    assert!(count("scored") >= 2, "{measured}");
    let median = measured["goodput"]["median"].as_f64().expect("a number");
    assert!(median < 0.2, "{median}");
    let written = std::fs::read_to_string(&page).expect("a page");
    assert!(
        written.contains("seed 5") && written.contains("## The worst"),
        "{written}"
    );

    let (again, _) = document(&["lab", "truth", "--from", looks_text]);
    for name in ["seed", "engine", "goodput", "response"] {
        assert_eq!(again[name], measured[name], "{name}");
    }
    let predictions = |document: &Value| -> Vec<Value> {
        let scored = document["scored"].as_array().expect("rows").iter();
        scored.map(|row| row["prediction"].clone()).collect()
    };
    assert_eq!(predictions(&again), predictions(&measured));
    let mixed = run(&[
        "lab",
        "truth",
        "--engine",
        "virtual",
        "--only",
        "fault/cork",
        "--keep",
        looks_text,
    ]);
    assert_eq!(mixed.status.code(), Some(2));
    let told = text(&mixed.stderr);
    assert!(
        told.contains("run.json") && told.contains("exists"),
        "{told}"
    );
    let nothing = run(&["lab", "truth", "--from", "/nonexistent"]);
    assert_eq!(nothing.status.code(), Some(2));
    let told = text(&nothing.stderr);
    assert!(told.contains("`lab truth --keep DIR` wrote"), "{told}");
}

#[test]
fn what_is_not_predicted_is_counted_once() {
    let (document, _) = document(&[
        "lab",
        "truth",
        "--engine",
        "virtual",
        "--only",
        "fault/cork",
    ]);
    assert_eq!(document["scored"].as_array().map(Vec::len), Some(0));
    let refused = document["unpredicted"].as_array().expect("rows");
    let kinds: Vec<_> = refused.iter().map(|row| row["kind"].as_str()).collect();
    assert_eq!(kinds, [Some("writes hidden by a cork"); 2]);
}
