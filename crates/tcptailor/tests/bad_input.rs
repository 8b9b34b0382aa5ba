//! What a user can get wrong, and what can go wrong around the user: each gets one clear line, the
//! documented exit code, and loses or leaves behind nothing.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../linux/tests/asking/mod.rs"]
mod asking;
mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::Duration;

use linux::LabNetns;
use serde_json::{Value, json};

/// A directory of its own for the journal and for scratch files, and the program in it.
struct User {
    directory: tempfile::TempDir,
}

impl User {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcptailor"));
        fs::create_dir_all(self.path("tmp")).unwrap();
        command
            .args(args)
            .env("TCPTAILOR_STATE", self.path("state"))
            .env("TMPDIR", self.path("tmp"))
            .env_remove("TCPTAILOR_KEY")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Refused in one line on stderr (advice may follow), with nothing on stdout; and with `--json`
    /// in one document on stdout, with the same exit code.
    #[track_caller]
    fn check(&self, args: &[&str], code: i32, expected: &str) {
        let output = self.run(args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
        assert!(message.starts_with("error: "), "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: {message}");
        let output = self.run(&[&["--json"], args].concat());
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {document}");
        let message = document["error"]["message"].as_str().unwrap();
        let hint = document["error"]["hint"].as_str().unwrap_or_default();
        let told = format!("{message} {hint}");
        assert!(told.contains(expected), "{args:?}: {told}");
        assert!(!message.contains('\n'), "{args:?}: {message}");
    }

    /// A plan that sets one sysctl.
    fn plan(&self, netns: &str, knob: &str, to: &Value) -> String {
        let target = json!({"scope": "namespace", "netns": {"named": netns}});
        let change = json!({"target": target, "knob": knob, "to": to});
        let plan = json!({"schema": "tcptailor/plan/2", "changes": [change]});
        let path = self.path("plan.json");
        fs::write(&path, plan.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Files of transactions in the journal.
    fn transactions(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path("state/txn")) else {
            return Vec::new();
        };
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether lab paths can be laid here, as the program found out by trying.
fn may_lay_paths(user: &User) -> bool {
    let output = user.run(&["check", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let commands = document["commands"].as_array().unwrap();
    let paths = commands.iter().find(|row| row["commands"] == "lab agree");
    let works = paths.unwrap()["works"] == "yes";
    if !works {
        asking::skip(&document["allow"]);
    }
    works
}

/// A network namespace with a name that others can open, which goes at the end of the test.
struct Namespace {
    netns: LabNetns,
    name: String,
}

impl Namespace {
    fn new(of: &str) -> Option<Self> {
        let [netns] = asking::permitted(LabNetns::create([of]))?;
        if !netns.is_mounted() {
            asking::skip("names of namespaces are not mounted in a user namespace");
            return None;
        }
        let name = netns.name().to_owned();
        Some(Self { netns, name })
    }

    fn sysctl(&self, name: &str) -> String {
        let read = || fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
        let text = self.netns.handle().run(read).unwrap().unwrap();
        text.trim().to_owned()
    }
}

#[test]
fn unknown_names_are_answered_with_what_was_meant() {
    let user = User::new();
    user.check(&["fit", "--lab", "nagel"], 2, "did you mean `nagle`");
    user.check(&["lab", "faults", "rmemm"], 2, "did you mean `rmem`");
    user.check(&["knobs", "nodlay"], 2, "did you mean `nodelay`");
    user.check(&["diagnose", "dprt = :1"], 2, "did you mean `dport`");
    user.check(&["diagnose", "iperf3"], 2, "`comm = iperf3` for a program");
    user.check(&["bench", "::1", "--set", "sndbf=1"], 2, "`sndbuf`");
    user.check(&["bench", "::1", "--mode", "strem"], 2, "'stream'");
    user.check(&["fit"], 2, "<HOST|--lab <FAULT>|--pid <PID>>");
    user.check(&["rollback", "77"], 1, "`tcptailor status` lists them");
}

#[test]
fn values_are_refused_with_their_range_or_unit() {
    let user = User::new();
    user.check(&["diagnose", "-t", "5x"], 2, "unknown unit `x`");
    user.check(&["diagnose", "-t", "0s"], 2, "the range is 1s to 3600s");
    user.check(&["diagnose", "--pid", "x"], 2, "a process is a number");
    user.check(&["diagnose", "dport = :99999"], 2, "above 65535");
    user.check(
        &["bench", "::1", "-b", "5mbps"],
        2,
        "write `mbit` or `mbyte`",
    );
    user.check(&["bench", "::1", "-b", "5x"], 2, "unknown unit `x`");
    user.check(&["bench", "::1", "-l", "0"], 2, "the range is 1B to");
    user.check(&["bench", "::1", "--bidir", "-b", "1mbit"], 2, "with -b");
    user.check(&["bench", "127.0.0.1:99999"], 2, "a number from 1 to 65535");
    user.check(&["bench", ""], 2, "the host is empty");
    user.check(&["serve", "--idle-timeout", "0s"], 2, "at least 1s");
    let no_time = "--max-time 0s: at least 1s";
    user.check(&["fit", "--lab", "nagle", "--max-time", "0s"], 2, no_time);
    user.check(&["fit", "--pid", "1", "--max-time", "0"], 2, no_time);
    user.check(&["run", "--fit", "--max-time", "0s", "true"], 2, no_time);
    user.check(&["lab", "experiments", "--max-time", "0s"], 2, no_time);
    user.check(&["rollback", "x"], 2, "a transaction is a number");
    user.check(&["watch", "--services", "x"], 2, "write a whole number");
    user.check(&["serve", "--bind", "here"], 2, "such as 10.0.0.9 or ::1");
    user.check(&["bench", "::1", "-P", "0"], 2, "--parallel");
    user.check(
        &["diagnose", "-o", "/nowhere/plan.json"],
        2,
        "no directory /nowhere",
    );
}

#[test]
fn what_is_not_there_is_said_with_what_to_do() {
    let user = User::new();
    user.check(&["diagnose", "-N", "nowhere"], 1, "`ip netns` lists");
    user.check(&["diagnose", "--pid", "4194304"], 1, "`ps` lists");
    user.check(&["fit", "--pid", "4194304"], 1, "`ps` lists");
    user.check(&["bench", "127.0.0.1:1"], 1, "is `tcptailor serve` running");
    user.check(&["fit", "127.0.0.1:1"], 1, "is `tcptailor serve` running");
    user.check(&["apply", "/nowhere.json"], 2, "`tcptailor diagnose -o");
    user.check(&["serve", "-B", "192.0.2.1"], 1, "`ip addr` lists");
    let plan = user.plan("nowhere", "net.ipv4.tcp_sack", &json!(false));
    user.check(&["apply", &plan], 1, "`ip netns` lists");
    let plan = user.plan("nowhere", "net.ipv4.tcp_sak", &json!(false));
    user.check(&["apply", &plan], 2, "did you mean `net.ipv4.tcp_sack`");
    let plan = user.plan("nowhere", "net.ipv4.tcp_sack", &json!("many"));
    user.check(&["apply", &plan], 2, "give true or false");
    let status: Value = serde_json::from_slice(&user.run(&["status", "-j"]).stdout).unwrap();
    assert_eq!(status["transactions"], json!([]));
}

/// One rule for all commands: a file that is missing or not of its kind is wrong usage.
#[test]
fn a_file_that_cannot_be_used_is_wrong_usage() {
    let user = User::new();
    fs::write(user.path("empty"), "").unwrap();
    fs::write(user.path("text"), "hello\n").unwrap();
    let commands: [&[&str]; 13] = [
        &["diagnose", "FILE"],
        &["predict", "FILE"],
        &["apply", "FILE"],
        &["apply", "FILE", "--dry-run"],
        &[
            "lab", "run", "lan-wwr", "--engine", "virtual", "--costs", "FILE",
        ],
        &["lab", "report", "FILE"],
        &["lab", "compare", "FILE", "FILE"],
        &["lab", "merge", "FILE", "-o", "/nowhere/merged"],
        &["lab", "truth", "--from", "FILE"],
        &["lab", "reproduce", "--show", "FILE"],
        &["bench", "127.0.0.1:1", "--key-file", "FILE"],
        &["fit", "127.0.0.1:1", "--key-file", "FILE"],
        &["bdp", "127.0.0.1:1", "--key-file", "FILE"],
    ];
    let at = |name: &str| user.path(name).to_str().unwrap().to_owned();
    let files = [
        at("missing"),
        at("none/missing"),
        at("tmp"),
        at("empty"),
        at("text"),
    ];
    // It never ends.
    let files = files.iter().map(String::as_str).chain(["/dev/zero"]);
    for file in files {
        for command in commands {
            let words: Vec<&str> = command
                .iter()
                .map(|word| if *word == "FILE" { file } else { *word })
                .collect();
            user.check(&words, 2, file);
        }
        // It may have several mistakes, a line each.
        let output = user.run(&["lab", "run", file]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    }
    // A name without dot and slash is a filter.
    let mut command = user.command(&["diagnose", "text"]);
    let output = command.current_dir(&user.directory).output().unwrap();
    let message = text(&output.stderr);
    assert!(message.contains("`tcptailor diagnose ./text`"), "{message}");
}

#[test]
fn a_result_that_cannot_be_written_is_known_before_the_work() {
    let user = User::new();
    let at = |name: &str| user.path(name).to_str().unwrap().to_owned();
    let (directory, nowhere) = (at("tmp"), at("none/result"));
    // No server is asked, and nothing is measured for an hour.
    let commands: [&[&str]; 8] = [
        &["diagnose", "-t", "3600s", "-o"],
        &["record", "-t", "3600s", "-o"],
        &["run", "-o"],
        &["bdp", "--rate", "1gbit", "--rtt", "1ms", "-o"],
        &["lab", "truth", "--engine", "virtual", "-o"],
        &["lab", "run", "lan-wwr", "--engine", "virtual", "--html"],
        &["bench", "127.0.0.1:1", "--export-csv"],
        &["bench", "127.0.0.1:1", "--log"],
    ];
    for command in commands {
        for file in [&directory, &nowhere] {
            let mut words = [command, &[file.as_str()]].concat();
            if command[0] == "run" {
                words.extend(["--", "sleep", "3600"]);
            }
            user.check(&words, 2, file);
        }
    }
}

#[test]
fn every_help_has_examples() {
    let user = User::new();
    let commands = "fit diagnose bench serve apply status rollback recover check knobs lab";
    for command in commands.split(' ') {
        let help = text(&user.run(&[command, "--help"]).stdout);
        let example = format!("\n  tcptailor {command}");
        assert!(help.contains("Examples:"), "{command}: {help}");
        assert!(help.contains(&example), "{command}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100));
    }
}

/// A running program.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// Reads on until a line holds `expected`.
    fn wait_for(&mut self, expected: &str) -> String {
        let mut all = String::new();
        while !all.contains(expected) {
            let read = self.stdout.read_line(&mut all).unwrap();
            assert!(read > 0, "it ended without `{expected}`: {all}");
        }
        all
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let kill = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(kill.unwrap().success());
    }

    /// Its exit status and what it has said on stdout and stderr since.
    fn end(mut self) -> (ExitStatus, String, String) {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        let mut pipe = self.child.stderr.take().unwrap();
        pipe.read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap(), stdout, stderr)
    }
}

/// A server on a free port of loopback.
fn serve(user: &User) -> (Running, String) {
    let mut serve = Running::start(user.command(&["serve", "-p", "0"]));
    let line = serve.wait_for("Listening on ");
    let address = line.trim().trim_start_matches("Listening on ");
    let address = address.trim_end_matches('.').to_owned();
    (serve, address)
}

#[test]
fn a_server_that_dies_in_the_middle_ends_the_test() {
    let check = |args: &[&str]| {
        let user = User::new();
        let (mut serve, address) = serve(&user);
        let args: Vec<&str> = args
            .iter()
            .map(|word| if *word == "HOST" { &address } else { *word })
            .collect();
        let client = Running::start(user.command(&args));
        serve.wait_for("connected");
        thread::sleep(Duration::from_millis(300));
        serve.signal("KILL");
        serve.end();
        let (status, stdout, stderr) = client.end();
        assert_eq!(status.code(), Some(1), "{stderr}");
        let said = if stdout.starts_with('{') {
            stdout
        } else {
            stderr
        };
        assert!(said.contains("closed the connection"), "{said}");
        assert_eq!(user.transactions(), [""; 0].map(PathBuf::from));
    };
    check(&["bench", "HOST", "-t", "20s"]);
    check(&["bench", "HOST", "-t", "20s", "--mode", "rr", "--json"]);
    check(&["fit", "HOST", "-t", "20s", "--", "--mode", "wwr"]);
}

#[test]
fn an_interrupted_bench_says_so_in_the_form_asked_for() {
    let user = User::new();
    let (mut serve, address) = serve(&user);
    let bench = Running::start(user.command(&["bench", &address, "-t", "20s", "--json"]));
    serve.wait_for("connected");
    thread::sleep(Duration::from_millis(200));
    bench.signal("INT");
    let (status, stdout, stderr) = bench.end();
    serve.signal("INT");
    serve.end();
    assert_eq!(status.code(), Some(130), "{stderr}");
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(document["error"]["code"], "interrupted");
}

/// As of iperf3: whoever ends a run has seen enough, and wants to see what it came to.
#[test]
fn a_run_that_was_cut_is_told_as_far_as_it_went() {
    let user = User::new();
    let (mut serve, address) = serve(&user);
    let bench = Running::start(user.command(&["bench", &address, "-t", "60s"]));
    serve.wait_for("connected");
    thread::sleep(Duration::from_millis(3500));
    bench.signal("INT");
    let (status, stdout, stderr) = bench.end();
    serve.signal("INT");
    serve.end();
    assert_eq!(status.code(), Some(130), "{stderr}");
    assert!(
        stdout.contains("Interrupted: the figures are those of"),
        "{stdout}{stderr}"
    );
    assert!(stdout.contains("as given     1"), "{stdout}");
}

/// A stopped process is a host that still acknowledges but is silent: harder to notice than one
/// that is gone. What was seen of it must not be taken for a measurement.
#[test]
fn a_server_that_falls_silent_is_no_healthy_server() {
    let user = User::new();
    let (mut serve, address) = serve(&user);
    let args = ["fit", &address, "-t", "20s", "--", "--mode", "rr"];
    let client = Running::start(user.command(&args));
    serve.wait_for("connected");
    // Nothing that can be seen from outside tells that it measures.
    thread::sleep(Duration::from_secs(2));
    serve.signal("STOP");
    let (status, stdout, stderr) = client.end();
    serve.signal("KILL");
    serve.end();
    assert!(stderr.contains("vanished"), "{stdout}{stderr}");
    assert_eq!(status.code(), Some(1), "{stdout}{stderr}");
}

/// Each of two experiments would measure the changes of the other.
#[test]
fn a_second_fit_beside_a_running_one_is_refused() {
    let user = User::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let own = std::process::id().to_string();
    let journal = linux::Journal::open(user.path("state")).unwrap();
    let running = journal.lock_experiments().unwrap();
    let refused = format!("process {own}) runs an experiment on this machine");
    user.check(&["fit", "--pid", &own, "-t", "1s"], 1, &refused);
    let watched = user.run(&["diagnose", "--pid", &own, "-t", "1s"]);
    let said = text(&watched.stderr);
    assert!(
        said.contains("note: process") && said.contains("experiment"),
        "{said}"
    );
    drop(running);
    let output = user.run(&["fit", "--pid", &own, "-t", "1s"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let watched = user.run(&["diagnose", "--pid", &own, "-t", "1s"]);
    assert!(!text(&watched.stderr).contains("experiment"));
}

#[test]
fn a_process_that_ends_is_told() {
    let user = User::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // A shell that holds a connection, writes on it now and then, and ends.
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; for i in $(seq 25); do echo x >&3; sleep 0.1; done"
    );
    let program = || Command::new("bash").args(["-c", &script]).spawn().unwrap();
    let mut child = program();
    let (_held, _) = listener.accept().unwrap();
    let pid = child.id().to_string();
    let output = user.run(&["diagnose", "--pid", &pid, "-t", "20s"]);
    child.wait().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stderr);
    assert!(said.contains("note: the process ended"), "{said}");
    let mut child = program();
    let (_held, _) = listener.accept().unwrap();
    let pid = child.id().to_string();
    let output = user.run(&["fit", "--pid", &pid, "-t", "20s"]);
    child.wait().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("ended while it was measured"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
}

#[test]
fn a_journal_that_was_cut_loses_nothing_and_blocks_nothing() {
    let Some(netns) = Namespace::new("cut") else {
        return;
    };
    let user = User::new();
    let plan = user.plan(&netns.name, "net.ipv4.tcp_sack", &json!(false));
    assert!(user.run(&["apply", &plan]).status.success());
    assert_eq!(netns.sysctl("tcp_sack"), "0");
    let path = user.transactions().remove(0);
    let whole = fs::read(&path).unwrap();
    // The process died while it wrote the last line: that the change is to stay is not known.
    fs::write(&path, &whole[..whole.len() - 5]).unwrap();
    // Any command finishes it, and tells.
    let output = user.run(&["knobs", "sack"]);
    let told = text(&output.stderr);
    assert!(told.contains("net.ipv4.tcp_sack: restored: 1"), "{told}");
    assert_eq!(netns.sysctl("tcp_sack"), "1");
    // Damage that no crash makes costs that record only: it is shown, and not acted on.
    let damaged = text(&whole).replacen("tcp_sack", "tcp_sock", 1);
    fs::write(&path, damaged).unwrap();
    let output = user.run(&["recover"]);
    assert!(text(&output.stdout).contains("Nothing to recover"));
    let shown = text(&user.run(&["status"]).stdout);
    assert!(shown.contains("line 2 of its file is damaged"), "{shown}");
    assert!(user.run(&["apply", &plan]).status.success());
    assert_eq!(netns.sysctl("tcp_sack"), "0");
    assert!(user.run(&["rollback"]).status.success());
    assert_eq!(netns.sysctl("tcp_sack"), "1");
}

/// The disk may be read-only, or the home directory missing.
#[test]
fn who_only_looks_makes_no_journal() {
    let user = User::new();
    for (command, told) in [
        ("status", "No changes are in force."),
        ("recover", "Nothing to recover."),
        ("rollback", "Nothing to roll back"),
    ] {
        let output = user.run(&[command]);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains(told), "{said}");
        assert!(!user.path("state").exists(), "after {command}");
    }
    user.check(&["rollback", "3"], 1, "transaction `3` does not exist");
    fs::write(user.path("state"), "a file").unwrap();
    user.check(&["status"], 1, "look at the journal in");
}

#[test]
fn a_full_disk_under_the_journal_changes_nothing() {
    let Some(netns) = Namespace::new("full") else {
        return;
    };
    let user = User::new();
    let state = user.path("state");
    fs::create_dir(&state).unwrap();
    let Some(_disk) = SmallDisk::mount(&state) else {
        return;
    };
    let plan = user.plan(&netns.name, "net.ipv4.tcp_sack", &json!(false));
    assert!(user.run(&["status"]).status.success());
    let mut filler = fs::File::create(state.join("filler")).unwrap();
    while filler.write_all(&[0; 1024]).is_ok() {}
    user.check(&["apply", &plan], 1, "make room on that file system");
    assert_eq!(netns.sysctl("tcp_sack"), "1");
    assert_eq!(user.transactions(), [""; 0].map(PathBuf::from));
    // A child of another test may hold the file for a moment: what it has must go, not the file.
    filler.set_len(0).unwrap();
    let output = user.run(&["apply", &plan]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(netns.sysctl("tcp_sack"), "0");
}

/// A file system of 64 KiB.
struct SmallDisk<'p>(&'p Path);

impl<'p> SmallDisk<'p> {
    fn mount(at: &'p Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k,mode=0700", "none"]);
        let is_there = mount.arg(at).status().unwrap().success();
        if !is_there {
            asking::skip("mounting a file system is refused");
        }
        is_there.then_some(Self(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn what_changes_nothing_or_is_gone_is_not_in_force() {
    let user = User::new();
    let plan = {
        let Some(netns) = Namespace::new("gone") else {
            return;
        };
        let plan = user.plan(&netns.name, "net.ipv4.tcp_sack", &json!(true));
        let output = user.run(&["apply", &plan]);
        assert!(text(&output.stderr).contains("Nothing was changed."));
        let plan = user.plan(&netns.name, "net.ipv4.tcp_sack", &json!(false));
        assert!(user.run(&["apply", &plan]).status.success());
        assert!(text(&user.run(&["status"]).stdout).contains("in force"));
        plan
    };
    assert!(text(&user.run(&["status"]).stdout).starts_with("No changes are in force."));
    assert!(
        text(&user.run(&["rollback"]).stdout)
            .starts_with("Nothing to roll back: no changes are in force.")
    );
    assert!(text(&user.run(&["status", "-a"]).stdout).contains("gone: "));
    user.check(&["apply", &plan], 1, "`ip netns` lists");
}

#[test]
fn too_few_descriptors_are_told_with_the_remedy() {
    let user = User::new();
    let limited = |limit: u64| {
        let script = format!("ulimit -n {limit}; exec \"$0\" diagnose -t 1s --json");
        let mut command = Command::new("bash");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_tcptailor")]);
        command.env("TCPTAILOR_STATE", user.path("state"));
        command.output().unwrap()
    };
    // The test's own connection is one whose owner is looked for.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    for limit in [4, 8] {
        let output = limited(limit);
        let said = text(&output.stdout);
        let _: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(output.status.code(), Some(1), "{limit}: {said}");
        assert!(said.contains("ulimit -n"), "{limit}: {said}");
    }
    assert_eq!(limited(64).status.code(), Some(0));
}

/// Names and scratch files that a lab of this process left behind.
fn lab_leftovers(user: &User, pid: u32) -> Vec<String> {
    let prefix = format!("tcptailor-{pid}-");
    let names = |directory: &Path| -> Vec<String> {
        fs::read_dir(directory).map_or_else(
            |_| Vec::new(),
            |entries| {
                entries
                    .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                    .filter(|name| name.starts_with(&prefix))
                    .collect()
            },
        )
    };
    [names(Path::new("/run/netns")), names(&user.path("tmp"))].concat()
}

/// The children of a process.
fn children(pid: u32) -> Vec<String> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let list = fs::read_to_string(path).unwrap_or_default();
    list.split_whitespace().map(String::from).collect()
}

#[test]
fn ctrl_c_takes_a_lab_down_at_every_stage() {
    if !may_lay_paths(&User::new()) {
        return;
    }
    for stage in ["", "path ", "programs ", "measured ", "try ", "kept "] {
        let user = User::new();
        let mut fit = Running::start(user.command(&["fit", "--lab", "nagle", "-t", "1s"]));
        if stage.is_empty() {
            common::wait_until_it_hears(&fit.child);
        } else {
            fit.wait_for(stage);
        }
        let pid = fit.child.id();
        let workers = children(pid);
        fit.signal("INT");
        let (status, _, stderr) = fit.end();
        assert_eq!(status.code(), Some(130), "{stage}: {stderr}");
        assert_eq!(lab_leftovers(&user, pid), [""; 0], "{stage}");
        for worker in workers {
            assert!(!is_running(&worker), "{stage}: worker {worker} runs on");
        }
    }
}

fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

#[test]
fn the_next_start_clears_up_after_a_killed_one() {
    let user = User::new();
    if !may_lay_paths(&user) {
        return;
    }
    let mut fit = Running::start(user.command(&["fit", "--lab", "nagle", "-t", "1s"]));
    fit.wait_for("programs ");
    let pid = fit.child.id();
    fit.signal("KILL");
    fit.end();
    let next = user.run(&["fit", "--lab", "nagle", "-t", "1s", "-n"]);
    assert_eq!(next.status.code(), Some(0), "{}", text(&next.stderr));
    assert_eq!(lab_leftovers(&user, pid), [""; 0]);
}

/// The first `ip netns add` of a machine mounts over the directory of names. What is mounted below
/// by then can never be taken away, unless the directory was made a mount before.
#[test]
fn names_that_ip_makes_meanwhile_do_not_bury_ours() {
    let user = User::new();
    if !may_lay_paths(&user) || asking::witness("ip").is_none() {
        return;
    }
    let Some(mut tried) = asking::witness("unshare") else {
        return;
    };
    if !tried.args(["--mount", "true"]).status().unwrap().success() {
        return asking::skip("mounts of its own need CAP_SYS_ADMIN");
    }
    let script = "mount -t tmpfs none /run && \
        { \"$0\" fit --lab nagle -t 1s -n >/dev/null & } && \
        until [ \"$(ls /run/netns 2>/dev/null | wc -l)\" = 2 ]; do sleep 0.02; done && \
        ip netns add later && wait $! && ls /run/netns && ip netns del later";
    let mut command = Command::new("timeout");
    command.args(["60", "unshare", "--mount", "sh", "-c", script]);
    command.arg(env!("CARGO_BIN_EXE_tcptailor"));
    command.env("TMPDIR", user.directory.path());
    let output = command.output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(text(&output.stdout), "later\n", "{said}");
}

#[test]
fn what_an_ordinary_user_lacks_is_named() {
    let user = User::new();
    // A place of its own that every user may enter and run.
    let directory = tempfile::Builder::new()
        .prefix("tcptailor-bad-input-")
        .tempdir()
        .unwrap();
    let program = directory.path().join("tcptailor");
    fs::copy(env!("CARGO_BIN_EXE_tcptailor"), &program).unwrap();
    let open = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    open(directory.path());
    open(&program);
    let command = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.args(args).uid(65534).gid(65534).current_dir("/");
        command.env("TCPTAILOR_STATE", user.path("state"));
        command
    };
    let started = command(&["--version"]).output();
    if asking::may("becoming another user", started).is_none() {
        return;
    }
    let nobody = |args: &[&str]| command(args).output().unwrap();
    // Its sockets are not seen; that is not the same as having none.
    let pid = std::process::id().to_string();
    let seen = nobody(&["diagnose", "--pid", &pid, "-t", "1s"]);
    let said = text(&seen.stderr);
    if seen.status.success() {
        return asking::skip("this test runs as that other user");
    }
    assert!(said.contains("needs CAP_SYS_PTRACE"), "{said}");
    assert_eq!(seen.status.code(), Some(4), "{said}");
    let output = nobody(&["fit", "--pid", &pid, "-t", "1s"]);
    let said = text(&output.stderr);
    assert!(said.contains("needs CAP_SYS_PTRACE"), "{said}");
    assert_eq!(output.status.code(), Some(4), "{said}");
    // Nothing was made yet, and nothing is made to say so.
    assert_eq!(nobody(&["status"]).status.code(), Some(0));
    fs::create_dir(user.path("state")).unwrap();
    fs::set_permissions(user.path("state"), fs::Permissions::from_mode(0o700)).unwrap();
    let output = nobody(&["status"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains("TCPTAILOR_STATE"));
    // The lab works for all users, on one TCP or the other.
    let fit = |engine| {
        let args = ["fit", "--lab", "nagle", "-t", "1s", "-n", "--json"];
        let output = nobody(&[&args[..], &["--engine", engine]].concat());
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), document)
    };
    let (code, real) = fit("kernel");
    let (automatic, document) = fit("auto");
    assert_eq!(automatic, Some(0), "{document}");
    if code == Some(0) {
        assert_eq!(document["engine"], "kernel");
        return;
    }
    assert_eq!(document["engine"], "virtual");
    assert_eq!(code, Some(4), "{real}");
    let message = real["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("needs") || message.contains("missing"),
        "{message}"
    );
    let hint = real["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("--engine virtual"), "{hint}");
}
