//! What becomes of what is printed: names and texts from files cannot command a terminal, and a
//! stdout that takes no more loses neither runs, nor the page, nor the exit code.

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const SCENARIO: &str = r#"
name = "small"
about = "A \u001B[2J\u001B]0;pwned\u0007 \u009B8m \u001B[31m\u001B[1mtext."
[path]
kind = "emulated"
rate = "10mbit"
rtt = "20ms"
queue = "1bdp"
[workload]
kind = "bulk"
direction = "up"
bytes = "50kB"
[[variant]]
name = "default"
"#;

/// What a terminal would be sent, and what is said beside it.
fn tcptailor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args(args)
        .output()
        .expect("the program starts")
}

fn both(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Nothing but ends of lines, tabs, and sequences that end with `m`.
#[track_caller]
fn check_harmless(text: &str) {
    for (at, character) in text.char_indices() {
        let rest = &text[at..];
        let sequence = rest.strip_prefix("\x1b[").unwrap_or_default();
        let end = sequence.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        let is_harmless = matches!(character, '\n' | '\t')
            || !character.is_control()
            || character == '\x1b' && end.starts_with('m');
        assert!(is_harmless, "{:?}", rest.chars().take(20));
    }
}

#[test]
fn control_characters_of_files_do_not_reach_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| {
        let path = folder.path().join(name);
        path.to_str().expect("UTF-8").to_owned()
    };
    let scenario = path("small.toml");
    fs::write(&scenario, SCENARIO).expect("a folder of ours");
    let run = ["lab", "run", &scenario, "--engine", "virtual"];
    let output = tcptailor(&[&run[..], &["--color", "always"]].concat());
    let text = both(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains("A \u{fffd}[2J\u{fffd}]0;pwned\u{fffd} "),
        "{text}"
    );
    assert!(text.contains("\x1b[1m"), "colours of ours stay: {text}");
    // Even those that we use ourselves: a name does not style what follows it.
    assert!(text.contains(" \u{fffd}[31m\u{fffd}[1mtext."), "{text}");
    check_harmless(&text);
    // Data is data.
    let output = tcptailor(&[&run[..], &["--json"]].concat());
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let about = document["about"].as_str().expect("a text");
    assert!(about.contains("\x1b[2J") && about.contains("\u{9b}8m"));

    // In the manifest of a sweep.
    let results = path("results");
    let sweep = [
        "lab", "sweep", &scenario, "--engine", "virtual", "-o", &results,
    ];
    let output = tcptailor(&sweep);
    assert_eq!(output.status.code(), Some(0), "{}", both(&output));
    let manifest = folder.path().join("results/run.json");
    let text = fs::read_to_string(&manifest).expect("a manifest");
    let evil = "\"tool_version\": \"\\u001b[2J";
    let changed = text.replacen("\"tool_version\": \"", evil, 1);
    fs::write(&manifest, changed).expect("a manifest");
    let output = tcptailor(&[&sweep[..], &["--resume"]].concat());
    let text = both(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("tool version \u{fffd}[2J"), "{text}");
    check_harmless(&text);

    // In names of folders, and on a command line that is refused.
    for args in [
        &["lab", "report", "no\x1b[2Jne"][..],
        &["lab", "report", "--none\x1b[2J"],
        &["lab", "none\x1b[2J"],
    ] {
        let text = both(&tcptailor(args));
        assert!(text.contains("\u{fffd}[2J"), "{args:?}: {text}");
        check_harmless(&text);
    }
}

/// A stdout whose reader left.
fn left() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

/// A stdout on a full disk.
fn full() -> Stdio {
    let full = fs::OpenOptions::new().write(true).open("/dev/full");
    full.expect("/dev/full").into()
}

#[test]
fn a_stdout_that_takes_no_more_loses_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| {
        let path = folder.path().join(name);
        path.to_str().expect("UTF-8").to_owned()
    };
    let (scenario, page, results) = (path("small.toml"), path("a.html"), path("results"));
    let claim = "[[expect]]\nmetric = \"goodput_bps\"\nvariant = \"default\"\nmin = \"1gbit\"\n\
                 reason = \"it fails\"\n";
    fs::write(&scenario, format!("{SCENARIO}{claim}")).expect("a folder of ours");
    let engine = ["--engine", "virtual"];
    let run = [&["lab", "run", &scenario, "--runs", "3"][..], &engine].concat();
    let sweep = [&["lab", "sweep", &scenario, "-o", &results][..], &engine].concat();
    let output = tcptailor(&sweep);
    assert_eq!(output.status.code(), Some(0), "{}", both(&output));

    let check = |args: &[&str], code: i32, expected: &str| {
        let args = [args, &["--html", &page]].concat();
        for (stdout, code, more) in [(left(), code, ""), (full(), 1, "No space left")] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tcptailor"));
            let output = command.args(&args).stdout(stdout).output();
            let output = output.expect("the program starts");
            let text = both(&output);
            assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
            assert!(text.contains(expected) && text.contains(more), "{text}");
            let written = fs::read_to_string(&page).expect("a page");
            assert!(written.ends_with("</html>\n") || written.ends_with("</html>"));
            fs::remove_file(&page).expect("a page");
        }
    };
    check(
        &[&run[..], &["--jsonl"]].concat(),
        3,
        "expectation failed: ",
    );
    check(&run, 3, "");
    check(&["lab", "report", &results], 0, "");
    let whole = tcptailor(&[&run[..], &["--jsonl"]].concat());
    assert_eq!(
        whole.stdout.iter().filter(|byte| **byte == b'\n').count(),
        3
    );
}
