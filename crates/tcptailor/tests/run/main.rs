//! `run` with programs that know nothing of it: compiled, static and interpreted ones. They talk to
//! this test process over loopback, or across a lab path where one can be laid.

#[path = "../../../linux/tests/asking/mod.rs"]
mod asking;
#[path = "../common/mod.rs"]
mod common;
mod ending;
mod rights;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use serde_json::Value;

const STALL: &str = "nagle-delack-stall";
/// How often a program is run that this machine was too busy to look at.
const ATTEMPTS: usize = 5;

/// Answers each request of 104 bytes with 100, and reads streams to their end; for as long as the
/// test program runs.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
    port
}

fn answer(mut stream: TcpStream) {
    let mut request = [0; 104];
    while stream.read_exact(&mut request).is_ok() && stream.write_all(&[b'r'; 100]).is_ok() {}
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name)
}

fn is_installed(program: &str) -> bool {
    asking::witness(program).is_some()
}

/// The client in C, compiled into `folder`.
fn client(folder: &Path) -> Option<String> {
    build(folder, "cc", &["-O1", "-o"], "client.c")
}

/// The client in C, a directory of its own, and a server for it.
struct Pair {
    folder: tempfile::TempDir,
    client: String,
    port: String,
}

/// `None` where nothing can be compiled.
fn pair() -> Option<Pair> {
    let folder = tempfile::tempdir().expect("a directory");
    let client = client(folder.path())?;
    let port = serve().to_string();
    Some(Pair {
        folder,
        client,
        port,
    })
}

/// The same where the kernel shows us the calls of programs.
fn watched_pair() -> Option<Pair> {
    pair().filter(|_| may_be_shown_calls())
}

/// A program, compiled into `folder`.
fn build(folder: &Path, compiler: &str, flags: &[&str], name: &str) -> Option<String> {
    if !is_installed(compiler) {
        return None;
    }
    let program = folder.join("client");
    let output = Command::new(compiler)
        .args(flags)
        .arg(&program)
        .arg(source(name))
        .envs([("CGO_ENABLED", "0"), ("GO111MODULE", "off")])
        .output()
        .expect("the compiler starts");
    assert!(output.status.success(), "{output:?}");
    Some(program.to_str().expect("UTF-8").to_owned())
}

fn tcptailor(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcptailor"));
    command.args(args);
    command
}

fn run(args: &[&str]) -> Output {
    let output = tcptailor(&[&["run"], args].concat()).output();
    output.expect("the program starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a command, and gives its output and the report on it.
/// Without a prediction, which takes long where nothing is optimised.
fn report(flags: &[&str], command: &[&str]) -> (Output, Value) {
    whole_report(&[flags, &["--no-predict"]].concat(), command)
}

fn whole_report(flags: &[&str], command: &[&str]) -> (Output, Value) {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("report.json");
    let file = file.to_str().expect("UTF-8");
    let output = run(&[&["--json", "-o", file], flags, &["--"], command].concat());
    let text = fs::read_to_string(file).unwrap_or_else(|_| panic!("{output:?}"));
    let document = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    (output, document)
}

#[test]
fn what_the_change_would_have_given_is_predicted() {
    let Some(Pair {
        client,
        port,
        folder: _folder,
    }) = pair()
    else {
        return;
    };
    let (_, document) = whole_report(&[], &[&client, "127.0.0.1", &port, "60"]);
    assert_eq!(document["helps"][0]["finding"], STALL, "{document:#}");
    let expected = document["helps"][0]["expected"].as_str();
    // A busy machine may make the self-check fail, which is said as well.
    let expected = expected.expect("what it would have given");
    assert!(expected.contains("predicted"), "{expected}");
}

/// Whether the kernel shows a program's calls to us here.
fn may_be_shown_calls() -> bool {
    let (_, document) = report(&[], &["true"]);
    let is_shown = document["attribution"]["by"] == "calls";
    if !is_shown {
        asking::skip(&document["attribution"]["reason"]);
    }
    is_shown
}

fn main_verdict(document: &Value) -> &str {
    let id = document["flows"][0]["verdicts"][0]["id"].as_str();
    id.unwrap_or_default()
}

/// The program's stall is named, and gone with another setting. As a ratio of times within one run:
/// a hundred requests wait out a hundred timers of 40 ms, or none.
fn check_stall(command: &[&str]) {
    if !may_be_shown_calls() {
        return;
    }
    let port = serve().to_string();
    let command = [command, &["127.0.0.1", &port, "100"]].concat();
    let named = (0..ATTEMPTS).find_map(|_| {
        let (output, document) = report(&[], &command);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        if main_verdict(&document) == STALL {
            return Some(document);
        }
        let unknown = document["flows"][0]["unknown"].as_str().unwrap_or_default();
        let too_little = ["too few samples", "observed too briefly"];
        let is_short = too_little.iter().any(|why| unknown.starts_with(why));
        assert!(is_short, "{document:#}");
        None
    });
    let before = named.expect("its diagnosis");
    assert_eq!(before["schema"], "tcptailor/run/1");
    assert_eq!(before["counts"]["connections"], 1, "{before:#}");
    assert_eq!(before["helps"][0]["finding"], STALL);
    assert_eq!(before["helps"][0]["set"][0], "nodelay=on");

    let (output, after) = report(&["--set", "nodelay=on"], &command);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(after["settings"][0]["set"], 1, "{after:#}");
    assert_eq!(after["settings"][0]["refused"]["count"], 0, "{after:#}");
    assert_eq!(after["bypassed"], 0);
    assert_eq!(after["findings"], 0, "{after:#}");
    let [before, after] = [&before, &after].map(|document| document["time_s"].as_f64());
    assert!(
        before > after.map(|time| 2.0 * time),
        "{before:?} {after:?}"
    );
}

#[test]
fn a_stall_of_a_program_in_c_is_named_and_gone_with_another_setting() {
    let folder = tempfile::tempdir().expect("a directory");
    if let Some(client) = client(folder.path()) {
        check_stall(&[&client]);
    }
}

#[test]
fn a_stall_of_a_static_go_program_is_named_and_gone_with_another_setting() {
    let folder = tempfile::tempdir().expect("a directory");
    if let Some(client) = build(folder.path(), "go", &["build", "-o"], "client.go") {
        check_stall(&[&client]);
    }
}

#[test]
fn a_stall_of_a_python_program_is_named_and_gone_with_another_setting() {
    if is_installed("python3") {
        check_stall(&["python3", source("client.py").to_str().expect("UTF-8")]);
    }
}

#[test]
fn a_stall_of_a_node_program_is_named_and_gone_with_another_setting() {
    if is_installed("node") {
        check_stall(&["node", source("client.js").to_str().expect("UTF-8")]);
    }
}

#[test]
fn settings_hold_against_those_of_the_program() {
    let Some(Pair {
        client,
        port,
        folder: _folder,
    }) = watched_pair()
    else {
        return;
    };
    let check = |flags: &[&str], expected: &str, overruled: &[u64]| {
        let options = ["nodelay=0", "sndbuf=8192"];
        let command = [&[&*client, "127.0.0.1", &port, "1"][..], &options].concat();
        let (output, document) = report(flags, &command);
        assert_eq!(stdout(&output), format!("{expected}\n"), "{document:#}");
        let settings = document["settings"].as_array().expect("a list").iter();
        let found: Vec<u64> = settings
            .map(|row| row["overruled"].as_u64().expect("a number"))
            .collect();
        assert_eq!(found, overruled);
    };
    check(&[], "nodelay 0, buffers locked 1", &[]);
    let nodelay = ["--set", "nodelay=on"];
    check(&nodelay, "nodelay 1, buffers locked 1", &[1]);
    let auto = ["--set", "sndbuf=auto"];
    check(&auto, "nodelay 0, buffers locked 0", &[1]);
    let all = [
        "--set",
        "nodelay=on",
        "--set",
        "sndbuf=auto",
        "--set",
        "rcvbuf=auto",
    ];
    check(&all, "nodelay 1, buffers locked 0", &[1, 1, 0]);
    let fixed = ["--set", "rcvbuf=64KiB", "--set", "nodelay=off"];
    check(&fixed, "nodelay 0, buffers locked 3", &[0, 1]);
}

/// The setting of a listener is that of the connections it accepts.
#[test]
fn a_server_gives_its_settings_to_what_it_accepts() {
    if !is_installed("python3") || !may_be_shown_calls() {
        return;
    }
    let script = "\
import socket
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
accepted, _ = server.accept()
for stream in (client, accepted):
    print(stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY),
          stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b'\\0').decode())
";
    let flags = ["--set", "nodelay=on", "--set", "congestion=reno"];
    let (output, document) = report(&flags, &["python3", "-c", script]);
    assert_eq!(stdout(&output), "1 reno\n1 reno\n", "{output:?}");
    assert_eq!(document["settings"][0]["set"], 2, "{document:#}");
    assert_eq!(document["counts"]["connections"], 1, "both ends are one");
}

/// A connection that a shell or a super-server opened for the program.
#[test]
fn a_socket_that_the_program_was_given_is_its_own() {
    if !is_installed("python3") || !may_be_shown_calls() {
        return;
    }
    let port = serve().to_string();
    let script = "\
import socket, subprocess, sys
stream = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
subprocess.run(sys.argv[2:] + [str(stream.fileno())], pass_fds=[stream.fileno()], check=True)
";
    let program = "\
import socket, sys
stream = socket.socket(fileno=int(sys.argv[1]))
stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
stream.sendall(b'x' * 104)
stream.recv(100)
print(stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
";
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("report.json");
    let output = Command::new("python3")
        .args([
            "-c",
            script,
            &port,
            env!("CARGO_BIN_EXE_tcptailor"),
            "run",
            "--json",
            "-o",
        ])
        .arg(&file)
        .args(["--set", "nodelay=on", "--", "python3", "-c", program])
        .output()
        .expect("python3 starts");
    assert_eq!(stdout(&output), "1\n", "{output:?}");
    let text = fs::read_to_string(file).expect("a report");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["settings"][0]["set"], 1, "{document:#}");
    assert_eq!(document["settings"][0]["overruled"], 1, "{document:#}");
    assert_eq!(document["counts"]["connections"], 1, "{document:#}");
}

/// TCP Fast Open connects by its first write; other protocols and threads are told apart.
#[test]
fn every_way_to_connect_is_seen_and_sockets_of_other_protocols_are_left_alone() {
    if !is_installed("python3") || !may_be_shown_calls() {
        return;
    }
    let port = serve().to_string();
    let script = "\
import socket, sys, threading
server = ('127.0.0.1', int(sys.argv[1]))
def options(stream):
    stream.recv(100)
    print(stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
fast = socket.socket()
fast.sendto(b'x' * 104, socket.MSG_FASTOPEN, server)
options(fast)
def plain():
    stream = socket.create_connection(server)
    stream.sendall(b'x' * 104)
    options(stream)
thread = threading.Thread(target=plain)
thread.start()
thread.join()
datagrams = socket.socket(type=socket.SOCK_DGRAM)
datagrams.connect(server)
datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 5000)
print(datagrams.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))
";
    let flags = ["--set", "nodelay=on", "--set", "sndbuf=auto"];
    let (output, document) = report(&flags, &["python3", "-c", script, &port]);
    assert_eq!(stdout(&output), "1\n1\n10000\n", "{output:?}");
    for row in document["settings"].as_array().expect("a list") {
        assert_eq!((&row["set"], &row["overruled"]), (&2.into(), &0.into()));
    }
    assert_eq!(document["counts"]["connections"], 2, "{document:#}");
}

#[test]
fn what_the_kernel_refuses_is_told_once_with_a_count() {
    let Some(Pair {
        client,
        port,
        folder: _folder,
    }) = watched_pair()
    else {
        return;
    };
    let flags = ["--set", "congestion=nosuch", "--", &client];
    let output = run(&[&flags[..], &["127.0.0.1", &port, "1", "connections=3"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = stderr(&output);
    let told: Vec<&str> = told
        .lines()
        .filter(|line| line.starts_with("refused"))
        .collect();
    let [line] = told[..] else {
        panic!("{output:?}");
    };
    assert!(line.contains("congestion=nosuch on 3 sockets"), "{line}");
}

#[test]
fn a_fixed_send_buffer_is_named_and_undone_across_a_path() {
    let Some(Pair { folder, client, .. }) = watched_pair() else {
        return;
    };
    if !is_installed("python3") {
        return;
    }
    let script = "\
$RUN -N $SERVER_NETNS -o /dev/null -- python3 $SINK $SERVER_ADDRESS 7071 > ready &
until grep -q ready ready; do sleep 0.1; done
set -- $CLIENT $SERVER_ADDRESS 7071 0 sndbuf=8192
$RUN -N $CLIENT_NETNS --json -o fixed.json -- $* bulk=3000000 &&
$RUN -N $CLIENT_NETNS --json -o auto.json --set sndbuf=auto -- $* bulk=12000000
code=$?
kill $!
wait $!
exit $code";
    let path = ["lab", "path", "--rate", "50mbit", "--rtt", "40ms", "--"];
    let output = tcptailor(&[&path[..], &["sh", "-c", script]].concat())
        .env("RUN", format!("{} run", env!("CARGO_BIN_EXE_tcptailor")))
        .env("SINK", source("sink.py"))
        .env("CLIENT", &client)
        .current_dir(folder.path())
        .output()
        .expect("the program starts");
    if output.status.code() == Some(4) {
        asking::skip(stderr(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let read = |name: &str| -> Value {
        let text = fs::read_to_string(folder.path().join(name)).expect("a report");
        serde_json::from_str(&text).expect("JSON")
    };
    let fixed = read("fixed.json");
    assert_eq!(main_verdict(&fixed), "sndbuf-locked", "{fixed:#}");
    assert_eq!(fixed["helps"][0]["set"][0], "sndbuf=auto", "{fixed:#}");
    let auto = read("auto.json");
    assert_eq!(auto["settings"][0]["set"], 1, "{auto:#}");
    assert_ne!(main_verdict(&auto), "sndbuf-locked", "{auto:#}");
    let rate = |document: &Value| document["flows"][0]["rate_bps"].as_f64();
    assert!(
        rate(&auto) > rate(&fixed).map(|rate| 2.0 * rate),
        "{auto:#}"
    );
}

#[test]
fn children_of_a_script_are_watched_and_its_exit_code_is_ours() {
    let Some(Pair {
        client,
        port,
        folder: _folder,
    }) = pair()
    else {
        return;
    };
    // One in the foreground, one in the background whose parent does not wait for it.
    let script = format!(
        "{client} 127.0.0.1 {port} 30; (({client} 127.0.0.1 {port} 30; echo ended) &) ; sleep 2; \
         exit 7"
    );
    for flags in [&[][..], &["--no-notify"]] {
        let (output, document) = report(flags, &["sh", "-c", &script]);
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert!(stdout(&output).ends_with("ended\n"), "{output:?}");
        assert_eq!(document["exit_code"], 7);
        assert_eq!(
            document["counts"]["connections"], 2,
            "{flags:?} {document:#}"
        );
        let flows = document["flows"].as_array().expect("a list");
        assert!(flows.iter().all(|flow| flow["command"] == "client"));
    }
}

#[test]
fn every_one_of_a_hundred_short_connections_is_the_programs() {
    let Some(Pair {
        client,
        port,
        folder: _folder,
    }) = watched_pair()
    else {
        return;
    };
    let script = format!("for i in $(seq 100); do {client} 127.0.0.1 {port} 1; done");
    let (_, document) = report(&[], &["sh", "-c", &script]);
    assert_eq!(document["counts"]["connections"], 100, "{document:#}");
    assert_eq!(document["attribution"]["unseen"], 0, "{document:#}");
    let connections = "connections=100";
    let (_, document) = report(&[], &[&client, "127.0.0.1", &port, "1", connections]);
    assert_eq!(document["counts"]["connections"], 100, "{document:#}");
}

#[test]
fn nonsense_is_refused_before_anything_runs() {
    let check = |args: &[&str], told: &str| {
        let output = run(&[args, &["--", "sh", "-c", "echo ran"]].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains(told), "{output:?}");
        assert_eq!(stdout(&output), "");
    };
    check(&["--set", "nodely=on"], "did you mean `nodelay`?");
    check(&["--set", "nodelay=maybe"], "neither `on` nor `off`");
    check(
        &["--set", "net.ipv4.tcp_sack=off"],
        "not a setting of a socket",
    );
    check(&["--set", "quickack=on"], "route.quickack");
    check(&["--set", "cork=on", "--set", "cork=off"], "has two values");
    check(&["--set", "cork=on", "--no-notify"], "cannot be used with");
    check(&["-i", "1us"], "the range is 1ms to 1s");
    check(&["-o", "/nonexistent/report"], "there is no directory");
}

#[test]
fn a_saved_run_is_judged_the_same() {
    let Some(Pair {
        folder,
        client,
        port,
    }) = pair()
    else {
        return;
    };
    let file = folder.path().join("run.rec");
    let file = file.to_str().expect("UTF-8");
    let (_, document) = report(&["--record", file], &[&client, "127.0.0.1", &port, "50"]);
    let filter = format!("dport = :{port}");
    let again = tcptailor(&["diagnose", "--json", file, &filter])
        .output()
        .expect("the program starts");
    let again: Value = serde_json::from_str(&stdout(&again)).expect("JSON");
    assert_eq!(main_verdict(&again), main_verdict(&document), "{again:#}");
    assert_eq!(again["counts"]["connections"], 1, "{again:#}");
}

#[test]
fn fit_tells_better_from_worse_from_no_difference() {
    let Some(Pair {
        client,
        port,
        folder: _folder,
    }) = watched_pair()
    else {
        return;
    };
    let fit = |flags: &[&str], count: &str, option: &str| {
        let command = [&*client, "127.0.0.1", &port, count, option];
        let (output, document) = report(&[&["--fit"], flags].concat(), &command);
        let answer = document["compared"]["answer"].as_str().map(str::to_owned);
        (output.status.code(), answer)
    };
    let expect = |code, answer: &str| (Some(code), Some(answer.to_owned()));
    // By itself it needs the diagnosis, which a busy machine may not allow at once.
    let found = (0..ATTEMPTS)
        .map(|_| fit(&[], "40", "nodelay=0"))
        .find(|(_, answer)| answer.is_some());
    assert_eq!(found, Some(expect(0, "better")));
    let worse = fit(&["--set", "nodelay=off"], "20", "nodelay=1");
    assert_eq!(worse, expect(5, "worse"));
    // One in fifty comparisons may take noise for a difference; two of three do not.
    let same = || fit(&["--set", "nodelay=off"], "3", "nodelay=0");
    let found = [(); 3].map(|()| same());
    let right = found
        .iter()
        .filter(|found| **found == expect(6, "not-distinguishable"));
    assert!(right.count() >= 2, "{found:?}");
}

#[test]
fn fit_compares_only_what_can_be_repeated() {
    if !may_be_shown_calls() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let once = folder.path().join("once");
    let script = format!("mkdir {}", once.display());
    let output = run(&["--fit", "--set", "nodelay=on", "--", "sh", "-c", &script]);
    assert_eq!(
        output.status.code(),
        Some(1),
        "mkdir fails the second time: {output:?}"
    );
    assert!(stderr(&output).contains("run again"), "{output:?}");
    let output = run(&["--fit", "--", "sh", "-c", "exit 9"]);
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    let output = run(&["--fit", "--", "true"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stderr(&output).contains("Nothing to try"), "{output:?}");
}
