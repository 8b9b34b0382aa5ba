//! The program as a user meets it: exit codes, messages, JSON, a reader that goes away.

use std::fs::OpenOptions;
use std::io::Read;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn tcptailor(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcptailor"));
    command
        .args(args)
        .env_remove("CLICOLOR_FORCE")
        .env_remove("NO_COLOR");
    command
}

fn run(args: &[&str]) -> Output {
    tcptailor(args).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Wrong input: the exit code, and a part of the one message on stderr. Nothing on stdout.
fn check_refused(args: &[&str], code: i32, expected: &str) {
    let output = run(args);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    assert!(
        message.contains(expected),
        "{args:?}: `{message}` lacks `{expected}`"
    );
    assert_eq!(text(&output.stdout), "", "{args:?}");
}

#[test]
fn wrong_usage_is_answered_with_what_was_meant() {
    check_refused(&["diagnos"], 2, "'diagnose'");
    check_refused(&["knobs", "nodlay"], 2, "did you mean `nodelay`?");
    check_refused(&["knobs", "--jsn"], 2, "'--json'");
    check_refused(&["knobs", "-q", "-v"], 2, "cannot be used with");
}

#[test]
fn errors_are_json_documents_where_json_was_asked_for() {
    for args in [["knobs", "nodlay", "--json"], ["-j", "knobs", "nodlay"]] {
        let output = run(&args);
        assert_eq!(output.status.code(), Some(2));
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(document["error"]["code"], "usage");
        let message = document["error"]["message"].as_str().expect("a message");
        assert!(message.contains("nodelay"), "{message}");
    }
    let output = run(&["diagnos", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        document["error"]["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("'diagnose'"))
    );
}

#[test]
fn documents_name_their_schema_and_their_machine() {
    let output = run(&["knobs", "nodelay", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["schema"], "tcptailor/knobs/1");
    assert!(document["tool"]["version"].is_string());
    assert!(document["host"]["kernel"].is_string());
    assert!(
        document["host"]["cpus"]
            .as_u64()
            .is_some_and(|cpus| cpus > 0)
    );
    assert_eq!(document["knobs"][0]["name"], "nodelay");
}

#[test]
fn colours_follow_the_conventions() {
    let coloured = |command: &mut Command| {
        text(&command.output().expect("the program starts").stdout).contains('\u{1b}')
    };
    assert!(
        !coloured(&mut tcptailor(&["knobs"])),
        "a pipe has no colours"
    );
    assert!(coloured(&mut tcptailor(&["knobs", "--color", "always"])));
    assert!(coloured(tcptailor(&["knobs"]).env("CLICOLOR_FORCE", "1")));
    assert!(!coloured(
        tcptailor(&["knobs", "--color", "never"]).env("CLICOLOR_FORCE", "1")
    ));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = tcptailor(&["knobs"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // Closed before the program has written: its first write finds nobody.
    drop(child.stdout.take());
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut stderr)
        .expect("UTF-8");
    assert!(child.wait().expect("it ends").success(), "{stderr}");
    assert_eq!(stderr, "");
}

#[test]
fn a_full_disk_is_a_failure() {
    let full = OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full");
    let output = tcptailor(&["knobs"])
        .stdout(full)
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("No space left"),
        "{}",
        text(&output.stderr)
    );
}
