//! How a run ends: as the program does, by a signal, and where one of the two is killed.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{common, may_be_shown_calls, run, serve, stderr, stdout, tcptailor};

#[test]
fn it_ends_as_the_program_does() {
    let check = |command: &[&str], code: i32, told: &str| {
        let output = run(&[&["--"], command].concat());
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(stderr(&output).contains(told), "{output:?}");
    };
    check(&["true"], 0, "exit code 0 after");
    check(&["true"], 0, "No connection was seen in");
    check(&["sh", "-c", "exit 42"], 42, "exit code 42 after");
    check(&["sh", "-c", "kill -TERM $$"], 143, "ended by signal 15");
    check(&["/nonexistent/program"], 127, "no such program");
    check(
        &["no-such-program"],
        127,
        "error: no-such-program: no such program",
    );
    check(&["/"], 126, "error: /: ");
}

#[test]
fn the_programs_output_stays_its_own() {
    let output = run(&["printf", "a\\n%s", "--json"]);
    assert_eq!(stdout(&output), "a\n--json", "its flags are its own");
    assert!(!output.stderr.is_empty());
    let output = run(&["--json", "--", "true"]);
    assert_eq!(stderr(&output), "");
    let document: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(document["exit_code"], 0);
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("report.txt");
    let output = run(&["-o", file.to_str().expect("UTF-8"), "true"]);
    assert_eq!(
        (stdout(&output), stderr(&output)),
        (String::new(), String::new())
    );
    let text = fs::read_to_string(file).expect("a report");
    assert!(text.contains("No connection was seen"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

/// Starts a run that reads a line from us before it does `script`.
fn waiting(flags: &[&str], script: &str) -> Child {
    let script = format!("echo started; read line; {script}");
    let mut child = tcptailor(&[&["run"], flags, &["--", "bash", "-c", &script]].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut started = [0; 8];
    let stdout = child.stdout.as_mut().expect("piped");
    stdout.read_exact(&mut started).expect("it starts");
    child
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args([name, &pid]).status();
    assert!(sent.expect("kill starts").success());
}

#[test]
fn a_signal_goes_to_the_program_and_the_report_is_printed_all_the_same() {
    for (name, code) in [("-INT", 130), ("-TERM", 143)] {
        let mut child = waiting(&[], "true");
        common::wait_until_it_hears(&child);
        // It is not the end of its input that ends it.
        let _stdin = child.stdin.take();
        signal(&child, name);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(stderr(&output).contains("ended by signal"), "{output:?}");
    }
    // A program that wants to end otherwise does.
    let script = "trap 'exit 5' INT; echo trap; while true; do sleep 0.05; done";
    let mut child = waiting(&[], script);
    common::wait_until_it_hears(&child);
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(b"\n")
        .expect("it reads");
    let mut trapped = [0; 5];
    let stdout = child.stdout.as_mut().expect("piped");
    stdout.read_exact(&mut trapped).expect("it goes on");
    signal(&child, "-INT");
    // It ends by its trap.
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
}

/// Processes whose arguments hold a word that no other process has.
fn processes_with(word: &str) -> usize {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let arguments = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    arguments
        .filter(|words| String::from_utf8_lossy(words).contains(word))
        .count()
}

/// Waits until none is left: the process that keeps calls going ends when init has waited for the
/// last one of the program.
fn wait_until_nothing_is_left(word: &str) {
    for _ in 0..3000 {
        if processes_with(word) == 0 {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{word} is left");
}

#[test]
fn a_program_goes_on_where_we_are_killed_and_nothing_is_left() {
    if !may_be_shown_calls() {
        return;
    }
    let port = serve();
    let word = format!("killed-{}", std::process::id());
    let script =
        format!(": {word}; exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected || echo failed");
    let mut child = waiting(&["--set", "nodelay=on"], &script);
    // Waiting closes it.
    let mut stdin = child.stdin.take().expect("piped");
    signal(&child, "-KILL");
    child.wait().expect("our child");
    stdin.write_all(b"\n").expect("the program still reads");
    let mut text = String::new();
    let mut stdout = child.stdout.take().expect("piped");
    stdout.read_to_string(&mut text).expect("the program ends");
    assert_eq!(text, "connected\n");
    wait_until_nothing_is_left(&word);
}

#[test]
fn what_a_program_leaves_goes_on_and_we_leave_nothing() {
    if !may_be_shown_calls() {
        return;
    }
    let port = serve();
    let folder = tempfile::tempdir().expect("a directory");
    let result = folder.path().join("result");
    let word = result.to_str().expect("UTF-8");
    let late = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected > {word}");
    let script = format!("(sleep 0.5; bash -c '{late}') > /dev/null 2>&1 & exit 3");
    let output = run(&["--", "bash", "-c", &script]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    wait_until_nothing_is_left(word);
    assert_eq!(
        fs::read_to_string(&result).expect("it went on"),
        "connected\n"
    );
}
