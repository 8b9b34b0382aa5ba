//! `nodelay-server`, `nodelay-client` and `autocork` as a user meets them.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tcptailor");

fn tcptailor(args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args).stdin(Stdio::null());
    command.env("TCPTAILOR_AUTOCORK_LIBRARY", library());
    command
}

/// The library that was built for these tests.
fn library() -> PathBuf {
    let directory = Path::new(PROGRAM).parent().unwrap();
    directory.join("deps/libtcptailor_autocork.so")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A server on a free port of loopback, killed at the end of the test.
struct Server {
    child: Child,
    port: String,
    log: BufReader<ChildStdout>,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let mut child = tcptailor(&[&["nodelay-server", "0"], args].concat())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("Listening on 127.0.0.1:");
        let port = address.and_then(|rest| rest.strip_suffix('.'));
        Self {
            port: port.unwrap_or_else(|| panic!("{line}")).to_owned(),
            child,
            log,
        }
    }

    fn client(&self, args: &[&str]) -> Output {
        let all = [&["nodelay-client", "localhost", &self.port], args].concat();
        tcptailor(&all).output().unwrap()
    }

    /// What the client printed, and the server's line about it.
    #[track_caller]
    fn visit(&mut self, args: &[&str]) -> (String, String) {
        let output = self.client(args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout), self.line())
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.log.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The document's line: every word in its place, every number with six decimals, and the rate that
/// follows from the time.
#[track_caller]
fn check_line(line: &str, count: u64, bytes: u64, options: &str) {
    let words: Vec<&str> = line.trim_end_matches('\n').splitn(12, ' ').collect();
    let expected = format!("{count} packets of {bytes} bytes sent in MS ms: RATE bytes/ms");
    let mut shape = words.clone();
    shape[7] = "MS";
    shape[9] = "RATE";
    assert_eq!(shape[..11].join(" "), expected, "{line}");
    assert_eq!(
        words.get(11).copied().unwrap_or_default(),
        options,
        "{line}"
    );
    let number = |text: &str| {
        let (_, decimals) = text.split_once('.').unwrap();
        assert_eq!(decimals.len(), 6, "{line}");
        text.parse::<f64>().unwrap()
    };
    let rate = (count * bytes) as f64 / number(words[7]);
    assert!((number(words[9]) / rate - 1.0).abs() < 1e-5, "{line}");
}

fn buffers(line: &str) -> u64 {
    let (_, rest) = line.split_once("received ").unwrap();
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn the_arguments_and_the_line_are_those_of_the_document() {
    let mut server = Server::start(&["10000"]);
    let (line, _) = server.visit(&["20"]);
    check_line(&line, 20, 30, "");
    let (line, served) = server.visit(&["1000", "no_delay"]);
    check_line(&line, 1000, 30, "using TCP_NODELAY");
    assert!(buffers(&served) >= 1000, "{served}");
    let (line, served) = server.visit(&["1000", "cork"]);
    check_line(&line, 1000, 30, "using TCP_CORK");
    assert_eq!(buffers(&served), 1000, "{served}");
    assert!(served.contains(", 1000 messages, one every "), "{served}");
}

#[test]
fn later_options_say_how_many_buffers_a_message_has() {
    let mut server = Server::start(&[]);
    let mut check = |args: &[&str], buffers: &str, options: &str| {
        let args = [&["-N", "50", "-v", "--format", "later"], args].concat();
        let (line, _) = server.visit(&args);
        let begin = format!("50 packets ({buffers}) sent in ");
        assert!(line.starts_with(&begin), "{line}");
        assert!(line.ends_with(&format!(" bytes/ms{options}\n")), "{line}");
    };
    check(&["-n"], "15 buffers", " using TCP_NODELAY");
    check(&["-c"], "15 buffers", " using TCP_CORK");
    check(&["-s"], "1 buffer", "");
    check(&["-H", "--no_delay"], "2 buffers", " using TCP_NODELAY");
    let both = " using TCP_NODELAY and TCP_CORK";
    check(
        &["--method", "writev", "no_delay", "cork"],
        "1 buffer",
        both,
    );
    let (line, _) = server.visit(&["50", "-s", "--format", "later"]);
    assert!(line.ends_with(" bytes/ms\n"), "{line}");
    let rate = line.split(' ').next().unwrap();
    assert!(rate.parse::<f64>().unwrap() > 0.0, "{line}");
}

#[test]
fn documents_count_segments() {
    let server = Server::start(&["--message", "200"]);
    let segments = |args: &[&str]| {
        let args = [&["-N", "50", "--writes", "100", "--json"], args].concat();
        let output = server.client(&args);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["schema"], "tcptailor/nodelay-client/1");
        assert!(document["response_us"]["p50"].is_f64());
        document["segments_per_message"].as_f64().unwrap()
    };
    // While the window is full, even these are joined.
    let each = segments(&["no_delay"]);
    assert!((10.0..=100.0).contains(&each), "{each}");
    assert_eq!(segments(&["cork"]), 1.0);
    assert_eq!(segments(&["--method", "msg-more"]), 1.0);
}

/// The document's R9: the same client, which asks for no delay, with its writes joined.
#[test]
fn autocork_joins_the_writes_of_an_unmodified_client() {
    let mut server = Server::start(&[]);
    let port = server.port.clone();
    let client = [
        PROGRAM,
        "nodelay-client",
        "localhost",
        &port,
        "1000",
        "no_delay",
    ];
    let (_, plain) = server.visit(&["1000", "no_delay"]);
    let output = tcptailor(&[&["autocork", "--stats", "--"], &client[..]].concat());
    let output = { output }.output().unwrap();
    check_line(&text(&output.stdout), 1000, 30, "using TCP_NODELAY");
    let said = text(&output.stderr);
    assert!(
        said.contains("corked 1 writes 15000 flushes 1000"),
        "{said}"
    );
    let joined = buffers(&server.line());
    // The kernel sends what is corked after 200 ms, for which a busy machine may keep the client.
    assert!((1000..=1020).contains(&joined), "{joined}");
    // A server that waits for a processor finds several writes in one read (1669 buffers once).
    assert!(buffers(&plain) > joined + joined / 5, "{plain}");
}

/// What it is given for the program is the program's own matter, and a name without a folder is
/// that of a file here.
#[test]
fn autocork_hands_arguments_on_and_finds_a_library_without_a_folder() {
    let raw = OsStr::from_bytes(b"a\xff\x1b");
    let output = tcptailor(&["autocork", "--", "printf", "%s"])
        .arg(raw)
        .output();
    assert_eq!(output.unwrap().stdout, raw.as_bytes());
    let library = library();
    let output = tcptailor(&["autocork", "--stats", "--", "true"])
        .current_dir(library.parent().unwrap())
        .env("TCPTAILOR_AUTOCORK_LIBRARY", library.file_name().unwrap())
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("corked 0 writes 0 flushes 0"), "{said}");
}

#[test]
fn a_rate_is_answered_by_intervals() {
    let mut server = Server::start(&["rate", "--one-off"]);
    let (line, served) = server.visit(&["20", "-n", "-s", "-r", "200"]);
    check_line(&line, 20, 30, "using TCP_NODELAY");
    assert!(served.contains(" on average, "), "{served}");
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn a_signal_ends_both_with_what_was_done() {
    let mut server = Server::start(&[]);
    let mut client = tcptailor(&["nodelay-client", "localhost", &server.port, "1000000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let interrupt = |child: &Child| {
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
    };
    common::wait_until_it_hears(&client);
    std::thread::sleep(std::time::Duration::from_millis(500));
    interrupt(&client);
    let mut line = String::new();
    client
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut line)
        .unwrap();
    assert_eq!(client.wait().unwrap().code(), Some(130));
    let count: u64 = line.split(' ').next().unwrap().parse().unwrap();
    check_line(&line, count, 30, "");
    assert!(server.line().contains("received "));
    interrupt(&server.child);
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
}

#[test]
fn wrong_usage_is_answered_with_what_was_meant() {
    let check = |args: &[&str], code: i32, expected: &str| {
        let output = tcptailor(args).output().unwrap();
        let error = text(&output.stderr);
        assert!(error.contains(expected), "{error}");
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert_eq!(text(&output.stdout), "");
    };
    let client = |rest: &[&str], code, expected| {
        check(
            &[&["nodelay-client", "127.0.0.1"], rest].concat(),
            code,
            expected,
        );
    };
    client(&["1", "10"], 1, "nodelay-server 1` on that machine");
    client(&["99999"], 2, "a port is a number from 1 to 65535");
    client(&["5001", "0"], 2, "at least 1");
    client(&["5001", "1", "2"], 2, "are given already");
    client(&["5001", "nagle"], 2, "no_delay, or cork");
    client(&["-H", "--writes", "3"], 2, "cannot be used with");
    check(
        &["nodelay-server", "5001", "corkk"],
        2,
        "no_delay, cork, or rate",
    );
    check(&["autocork"], 2, "COMMAND");
    check(
        &["autocork", "--", "/nonexistent/client"],
        127,
        "/nonexistent/client: no such program",
    );
    let mut missing = tcptailor(&["autocork", "--", "true"]);
    missing.env("TCPTAILOR_AUTOCORK_LIBRARY", "/nonexistent/x.so");
    let output = missing.output().unwrap();
    assert!(
        text(&output.stderr).contains("does not exist"),
        "{output:?}"
    );
}

/// The experiments that start processes of this program: what they find, but for times.
#[test]
fn the_experiments_with_processes_find_what_the_document_says() {
    let args = ["lab", "reproduce", "r9", "r13", "--runs", "1", "--json"];
    let output = tcptailor(&args).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows: Vec<&Value> = document["experiments"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|experiment| experiment["rows"].as_array().unwrap())
        .collect();
    let number = |metric: &str| {
        let row = rows.iter().find(|row| row["metric"] == metric);
        let row = row.unwrap_or_else(|| panic!("{metric} in {document}"));
        row["engines"][0]["spread"]["median"].as_f64().unwrap()
    };
    assert_eq!(number("lines_of_form"), 3.0);
    for joined in [
        "cork_buffers_per_message",
        "autocork_buffers_per_message",
        "autocork_segments_per_message",
    ] {
        // As above: the timer of a cork may end one or the other early.
        assert!((1.0..=1.02).contains(&number(joined)), "{joined}");
    }
    assert!(number("plain_segments_per_message") > 14.0);
    assert!(number("plain_buffers_per_message") > 2.0);
}

#[test]
fn the_experiments_hold_in_virtual_time() {
    let args = [
        "lab",
        "reproduce",
        "cork",
        "--quick",
        "--engines",
        "virtual",
    ];
    let output = tcptailor(&args).output().unwrap();
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}");
    // Those with processes and files need a kernel.
    assert!(table.contains("8 pass, 3 not run"), "{table}");
}
