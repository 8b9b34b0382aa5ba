//! `serve` and `bench` as a user meets them: results, limits, keys, and peers that go away.

#[path = "common/command.rs"]
mod command;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use command::{tcptailor, text};
use serde_json::Value;

/// A `serve` on a free port of loopback, killed at the end of the test.
struct Serve {
    child: Child,
    address: String,
    log: BufReader<std::process::ChildStdout>,
}

impl Serve {
    fn start(args: &[&str]) -> Self {
        let mut child = tcptailor(&[&["serve", "-p", "0"], args].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut log = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        log.read_line(&mut line).expect("where it listens");
        let address = line
            .trim_end()
            .strip_prefix("Listening on ")
            .and_then(|rest| rest.strip_suffix('.'))
            .expect("where it listens")
            .to_owned();
        Self {
            child,
            address,
            log,
        }
    }

    fn bench(&self, args: &[&str]) -> Output {
        tcptailor(&[&["bench", &self.address], args].concat())
            .output()
            .expect("the program starts")
    }

    fn signal(&self, signal: signals::Signal) {
        signals::send(&self.child, signal);
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A `bench` of a minute that is in the middle of it.
struct Running {
    child: Child,
    /// With its log, whose first line told that.
    _directory: tempfile::TempDir,
}

impl Running {
    fn start(serve: &Serve) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let log = directory.path().join("log.jsonl");
        let name = log.display().to_string();
        let flags = ["-t", "60s", "-i", "100ms", "--log", &name];
        let mut child = tcptailor(&[&["bench", &serve.address][..], &flags].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        while std::fs::read(&log).unwrap_or_default().is_empty() {
            assert!(child.try_wait().expect("a child").is_none(), "it ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self {
            child,
            _directory: directory,
        }
    }

    fn end(self) -> Output {
        self.child.wait_with_output().expect("ends")
    }
}

/// Signals to children, by the program that every machine has.
mod signals {
    use std::process::{Child, Command};

    #[derive(Clone, Copy)]
    pub(super) enum Signal {
        Interrupt,
        Stop,
    }

    pub(super) fn send(child: &Child, signal: Signal) {
        let name = match signal {
            Signal::Interrupt => "-INT",
            Signal::Stop => "-STOP",
        };
        let status = Command::new("kill")
            .args([name, &child.id().to_string()])
            .status();
        assert!(status.expect("kill(1)").success());
    }
}

#[test]
fn a_stream_is_reported_as_a_table_and_as_json() {
    let serve = Serve::start(&[]);
    let shown = serve.bench(&["-n", "1MiB", "-P", "2"]);
    let table = text(&shown.stdout);
    assert!(shown.status.success(), "{table}{}", text(&shown.stderr));
    assert!(table.contains("2 streams to 127.0.0.1:"), "{table}");
    assert!(table.contains("bit/s"), "{table}");
    assert!(table.contains("RTT between the programs: idle "), "{table}");
    assert!(table.contains("pings on a second connection"), "{table}");

    let shown = serve.bench(&["-n", "1MiB", "-R", "--json"]);
    let document: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!(document["schema"], "tcptailor/bench/1");
    assert_eq!(document["metric"], "goodput_bps");
    assert_eq!(document["workload"]["direction"], "down");
    let run = &document["variants"][0]["runs"][0];
    assert!(run["goodput_bps"].as_u64().expect("a rate") > 0);
}

#[test]
fn a_run_has_a_line_per_interval_and_says_how_its_sender_fared() {
    let serve = Serve::start(&[]);
    let flags = ["-t", "500ms", "-i", "100ms", "--bidir"];
    let shown = serve.bench(&flags);
    let text_of = text(&shown.stdout);
    let mut lines = text_of.lines();
    let header = lines.next().expect("a header");
    assert!(header.trim_start().starts_with("TIME  "), "{text_of}");
    for name in ["UP", "DOWN", "RETR", "RTT"] {
        assert!(header.contains(name), "{text_of}");
    }
    assert!(
        lines.take_while(|line| !line.is_empty()).count() >= 4,
        "{text_of}"
    );
    // Narrow: fewer columns, and none of them in two.
    let narrow = tcptailor(&[&["bench", &serve.address][..], &flags].concat())
        .env("COLUMNS", "30")
        .output()
        .expect("the program starts");
    for line in text(&narrow.stdout).lines() {
        assert!(line.chars().count() <= 30, "{line}");
    }
    // Results only.
    let quiet = serve.bench(&[&flags[..], &["-q"]].concat());
    let quiet = text(&quiet.stdout);
    assert!(
        quiet.starts_with("1 stream in each direction to "),
        "{quiet}"
    );
    let none = serve.bench(&["-t", "200ms", "-i", "0"]);
    assert!(text(&none.stdout).trim_start().starts_with("1 stream to "));

    let shown = serve.bench(&["-t", "500ms", "-i", "100ms", "-J"]);
    let document: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    let run = &document["variants"][0]["runs"][0];
    let intervals = run["intervals"].as_array().expect("a list");
    assert!(intervals.len() >= 5, "{run}");
    let with_sender = intervals.iter().filter(|one| one["up"]["rtt_us"].is_u64());
    assert!(with_sender.count() >= 4, "{run}");
    assert!(intervals[0]["up_bps"].is_u64() && intervals[0]["down_bps"].is_null());
    assert!(
        run["client_sent"]["data_segments"].as_u64() > Some(0),
        "{run}"
    );
    assert_eq!(document["rtt_idle_us"]["n"], 10);
}

#[test]
fn results_are_exported_and_files_of_others_are_left_alone() {
    let serve = Serve::start(&[]);
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let (csv, markdown) = (file("a.csv"), file("a.md"));
    let flags = [
        "--mode",
        "rr",
        "--operations",
        "3",
        "--compare",
        "nodelay=off,on",
    ];
    let exports = [
        "--runs",
        "2",
        "--export-csv",
        &csv,
        "--export-markdown",
        &markdown,
    ];
    for _ in 0..2 {
        let shown = serve.bench(&[&flags[..], &exports].concat());
        assert!(shown.status.success(), "{}", text(&shown.stderr));
    }
    let table = std::fs::read_to_string(&csv).expect("a table");
    let rows: Vec<&str> = table.split_terminator("\r\n").collect();
    assert_eq!(rows.len(), 1 + 4, "{table}");
    let cells = |row: &str| row.split(',').count();
    assert!(
        rows.iter().all(|row| cells(row) == cells(rows[0])),
        "{table}"
    );
    assert!(rows[1].starts_with("\"nodelay=off\",1,"), "{table}");
    let table = std::fs::read_to_string(&markdown).expect("a table");
    assert!(table.contains("| `nodelay=on` | 2 |"), "{table}");

    std::fs::write(&csv, "my thesis").expect("written");
    let shown = serve.bench(&[&flags[..], &exports].concat());
    assert_eq!(shown.status.code(), Some(2), "{}", text(&shown.stderr));
    assert_eq!(std::fs::read_to_string(&csv).expect("a file"), "my thesis");
}

#[test]
fn a_page_has_the_numbers_of_the_document() {
    let serve = Serve::start(&[]);
    let folder = tempfile::tempdir().expect("a directory");
    let page = folder.path().join("bench.html");
    let name = page.to_str().expect("UTF-8");
    let flags = ["-t", "1s", "-i", "100ms", "--json", "--html", name];
    let shown = serve.bench(&flags);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let document: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    let page = std::fs::read_to_string(&page).expect("it was written");
    let variant = &document["variants"][0];
    let intervals = variant["runs"][0]["intervals"].as_array().expect("a list");
    let wanted = [
        &document["rtt_idle_us"]["p50"],
        &variant["goodput_bps"]["median"],
        &variant["rtt_loaded_us"]["p99"],
        &intervals[3]["up_bps"],
        &intervals[3]["up"]["rtt_us"],
    ];
    for wanted in wanted {
        let value = wanted.as_f64().unwrap_or_else(|| panic!("{document:#}"));
        let shown = format!("<data value=\"{value}\">");
        assert!(page.contains(&shown), "{shown} of {document:#}");
    }
    for told in ["<svg", "Latency, idle and loaded", "First run over time"] {
        assert!(page.contains(told), "{told}: {page}");
    }
}

#[test]
fn a_log_has_a_line_per_interval_and_goes_on_after_an_interruption() {
    let serve = Serve::start(&[]);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("log.jsonl");
    let name = file.display().to_string();
    let flags = ["-i", "100ms", "-t", "2s", "-b", "8mbit", "--log", &name];
    let read = || -> Vec<Value> {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let whole = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        whole.collect()
    };
    let mut first = tcptailor(&[&["bench", &serve.address][..], &flags].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    while read().len() < 3 {
        assert!(first.try_wait().expect("a child").is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    first.kill().and_then(|()| first.wait()).expect("killed");
    let before = read().len();

    let second = serve.bench(&flags);
    assert!(second.status.success(), "{}", text(&second.stderr));
    let lines = read();
    assert!(lines.len() > before);
    let (mut total_s, mut total_bytes) = (0.0, 0);
    for (index, line) in lines.iter().enumerate() {
        assert_eq!(line["n"], index + 1);
        assert_eq!(line["run"], if index < before { 1 } else { 2 });
        total_s += line["interval_s"].as_f64().expect("a time");
        total_bytes += line["bytes"].as_u64().expect("bytes");
        assert_eq!(line["total_bytes"], total_bytes);
        assert!((line["total_s"].as_f64().expect("a time") - total_s).abs() < 1e-6);
        let mean = total_bytes as f64 * 8.0 / total_s;
        assert!((line["mean_bps"].as_f64().expect("a rate") - mean).abs() < 2.0);
    }
    assert!(total_bytes > 0);

    // It covers the two seconds now.
    let third = serve.bench(&flags);
    assert_eq!(third.status.code(), Some(2));
    let message = text(&third.stderr);
    assert!(message.contains("the log holds "), "{message}");
    // Other traffic has another mean.
    let other = serve.bench(&["--mode", "rr", "-t", "9s", "--log", &name]);
    assert_eq!(other.status.code(), Some(2));
    let message = text(&other.stderr);
    assert!(
        message.contains("--mode stream -P 1`, and this is `"),
        "{message}"
    );
    assert!(message.contains("Name another file"), "{message}");
    assert_eq!(read(), lines);
}

#[test]
fn compared_variants_take_turns_and_are_judged() {
    let serve = Serve::start(&[]);
    let shown = serve.bench(&[
        "--mode",
        "wwr",
        "--operations",
        "6",
        "--compare",
        "nodelay=off,on",
        "--runs",
        "4",
        "--warmup",
        "1",
        "--json",
    ]);
    let document: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    let variants = document["variants"].as_array();
    let variants = variants.unwrap_or_else(|| panic!("{document}"));
    let names: Vec<&str> = variants
        .iter()
        .filter_map(|variant| variant["name"].as_str())
        .collect();
    assert_eq!(names, ["nodelay=off", "nodelay=on"]);
    for variant in variants {
        assert_eq!(variant["runs"].as_array().expect("a list").len(), 4);
        assert_eq!(variant["response_us"]["n"], 24);
    }
    assert_eq!(document["comparisons"][0]["judgement"], "larger");
}

#[test]
fn errors_are_one_line_with_their_exit_code() {
    let key = tempfile::NamedTempFile::new().expect("a file");
    let other = tempfile::NamedTempFile::new().expect("a file");
    key.as_file()
        .write_all(b"8f1c-02d4-5e6f-7081-92a3-b4c5-d6e7-f809\n")
        .and_then(|()| other.as_file().write_all(&[b'0'; 32]))
        .expect("written");
    let path = |file: &tempfile::NamedTempFile| file.path().display().to_string();
    let serve = Serve::start(&["--key-file", &path(&key), "--max-time", "5s"]);
    let check = |args: &[&str], code: i32, expected: &str| {
        let shown = serve.bench(args);
        let message = text(&shown.stderr);
        assert_eq!(shown.status.code(), Some(code), "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: {message}");
        assert_eq!(text(&shown.stdout), "", "{args:?}");
    };
    check(&[], 1, "asks for a key");
    check(&["--key-file", &path(&other)], 1, "does not hold the key");
    let with_key = path(&key);
    check(
        &["--key-file", &with_key, "-t", "9"],
        1,
        "above the limit of 5s",
    );
    check(
        &["--key-file", "/nonexistent"],
        2,
        "/nonexistent: No such file",
    );
    check(
        &["--key-file", "/proc/version"],
        2,
        "not a key: a key is 32 hexadecimal digits",
    );
    check(&["--compare", "nodlay=on,off"], 2, "did you mean `nodelay`");
    check(&["--mode", "rr", "-R"], 2, "cannot be used with --mode rr");
    check(&["-l", "2MiB"], 2, "the range is 1B to 1MiB");
    check(&["-b", "5mbps"], 2, "mbit");
    let shown = serve.bench(&["--key-file", &with_key, "--mode", "rr", "--operations", "3"]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));

    // Where it listens instead is said.
    let port = serve.address.rsplit_once(':').expect("a port").1;
    let elsewhere = tcptailor(&["bench", "127.0.0.2", "-p", port]).output();
    let message = text(&elsewhere.expect("the program starts").stderr);
    assert!(message.contains("refuses connections"), "{message}");
    let expected =
        format!("127.0.0.1:{port} is listened on; `tcptailor serve --bind 127.0.0.2 -p {port}`");
    assert!(message.contains(&expected), "{message}");
}

#[test]
fn a_server_for_others_makes_a_key_and_shows_it() {
    let mut child = tcptailor(&["serve", "-p", "0", "-B", "0.0.0.0", "--quiet"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let line = |source: &mut dyn BufRead| {
        let mut line = String::new();
        source.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    };
    let mut log = BufReader::new(child.stdout.take().expect("piped"));
    let mut told = BufReader::new(child.stderr.take().expect("piped"));
    let address = line(&mut log);
    let key = line(&mut told);
    let key = key.strip_prefix("Key: ").expect("a key").to_owned();
    let serve = Serve {
        child,
        address: address
            .replace("Listening on 0.0.0.0", "127.0.0.1")
            .trim_end_matches('.')
            .to_owned(),
        log,
    };
    let flags = ["--mode", "rr", "--operations", "3"];
    assert_eq!(
        serve.bench(&flags).status.code(),
        Some(1),
        "without the key"
    );
    let with_key = tcptailor(&[&["bench", &serve.address][..], &flags].concat())
        .env("TCPTAILOR_KEY", key.to_uppercase())
        .output()
        .expect("the program starts");
    assert!(with_key.status.success(), "{}", text(&with_key.stderr));
}

#[test]
fn a_key_file_is_made_once_and_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("key");
    let name = path.display().to_string();
    let flags = ["--mode", "rr", "--operations", "3", "--key-file", &name];
    for _ in 0..2 {
        let serve = Serve::start(&["--key-file", &name]);
        let shown = serve.bench(&flags);
        assert!(shown.status.success(), "{}", text(&shown.stderr));
    }
    let mode = std::fs::metadata(&path)
        .expect("a file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    // Not through another user's link.
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(directory.path().join("victim"), &link).expect("a link");
    let shown = tcptailor(&[
        "serve",
        "-p",
        "0",
        "--key-file",
        &link.display().to_string(),
    ]);
    let shown = { shown }.output().expect("the program starts");
    assert_eq!(shown.status.code(), Some(2), "{}", text(&shown.stderr));
    assert!(!directory.path().join("victim").exists());
}

#[test]
fn letters_of_iperf3_are_answered_with_what_to_type() {
    let check = |args: &[&str], expected: &str| {
        let shown = tcptailor(args).output().expect("the program starts");
        let message = text(&shown.stderr);
        assert_eq!(shown.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: {message}");
    };
    check(&["serve", "-s"], "Type `tcptailor serve`");
    check(
        &["serve", "-c", "10.0.0.9"],
        "Type `tcptailor bench 10.0.0.9`",
    );
    check(&["serve", "-s", "-D"], "Type `tcptailor serve`");
    check(&["serve", "-D"], "systemd-run");
    check(
        &["bench", "-c", "10.0.0.9", "-t", "5"],
        "Type `tcptailor bench 10.0.0.9 ",
    );
    check(&["bench", "-s"], "Type `tcptailor serve`");
    check(&["bench", "10.0.0.9", "-u"], "tcptailor measures TCP");
}

#[test]
fn the_end_of_either_side_ends_the_other() {
    // Killed in the middle: the other end says so at once.
    let mut serve = Serve::start(&[]);
    let running = Running::start(&serve);
    serve.child.kill().expect("killed");
    let shown = running.end();
    let message = text(&shown.stderr);
    assert_eq!(shown.status.code(), Some(1), "{message}");
    assert!(message.contains("in the middle of the test"), "{message}");
    assert_eq!(message.trim_end().lines().count(), 1, "{message}");

    // Frozen in the middle: the other end notices the silence.
    let serve = Serve::start(&[]);
    let running = Running::start(&serve);
    serve.signal(signals::Signal::Stop);
    let shown = running.end();
    let message = text(&shown.stderr);
    assert_eq!(shown.status.code(), Some(1), "{message}");
    assert!(
        message.contains("vanished in the middle of the test"),
        "{message}"
    );
}

#[test]
fn interrupted_runs_end_in_order() {
    let mut serve = Serve::start(&["--one-off"]);
    let running = Running::start(&serve);
    let mut line = String::new();
    serve.log.read_line(&mut line).expect("a client");
    assert!(line.contains("connected"), "{line}");
    signals::send(&running.child, signals::Signal::Interrupt);
    let shown = running.end();
    assert_eq!(shown.status.code(), Some(130), "{}", text(&shown.stderr));
    // The only client has left, and so does the server.
    let status = serve.child.wait().expect("ends");
    assert_eq!(status.code(), Some(0));
    let mut rest = String::new();
    serve.log.read_to_string(&mut rest).expect("a log");
    assert!(rest.contains("disconnected"), "{rest}");

    let mut serve = Serve::start(&[]);
    serve.signal(signals::Signal::Interrupt);
    assert_eq!(serve.child.wait().expect("ends").code(), Some(130));
}
