//! `diagnose` on live programs that know nothing of it. This test process is the program: it talks
//! to itself over loopback.

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

const REPLY: usize = 100;

/// A client that writes its request in two pieces, as many programs do, and a server that answers.
struct Conversation {
    client: TcpStream,
    port: u16,
    threads: Vec<JoinHandle<()>>,
}

impl Conversation {
    fn start(nodelay: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let server = thread::spawn(move || serve(listener.accept().expect("a client").0));
        let client = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        client.set_nodelay(nodelay).expect("an option");
        let speaker = client.try_clone().expect("a descriptor");
        let speaking = thread::spawn(move || ask(speaker));
        Self {
            client,
            port,
            threads: vec![server, speaking],
        }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // Both sides then read the end of the stream, or fail to write, and return.
        let _ = self.client.shutdown(Shutdown::Both);
        for thread in self.threads.drain(..) {
            thread.join().expect("the conversation ends");
        }
    }
}

fn serve(mut stream: TcpStream) {
    let mut request = [0; 4 + REPLY];
    while stream.read_exact(&mut request).is_ok() && stream.write_all(&[b'r'; REPLY]).is_ok() {}
}

fn ask(mut stream: TcpStream) {
    let mut reply = [0; REPLY];
    while stream.write_all(b"head").is_ok()
        && stream.write_all(&[b'b'; REPLY]).is_ok()
        && stream.read_exact(&mut reply).is_ok()
    {
        // A pause, so that a healthy conversation does not use a whole processor.
        thread::sleep(Duration::from_micros(200));
    }
}

fn diagnose(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .arg("diagnose")
        .args(args)
        .output()
        .expect("the program starts")
}

/// As [`diagnose`] with `--json`, again where this machine was too busy to look often enough.
fn diagnose_well(args: &[&str]) -> (Output, Value) {
    let args = [args, &["--json"]].concat();
    for _ in 0..30 {
        let output = diagnose(&args);
        let document = document(&output);
        let unknown = document["flows"][0]["unknown"].as_str().unwrap_or_default();
        let too_little = ["too few samples", "observed too briefly"];
        if !too_little.iter().any(|why| unknown.starts_with(why)) {
            return (output, document);
        }
    }
    panic!("within a minute this machine had no second in which it could look at a flow");
}

/// A server that begins to listen while it is watched, and leaves what it accepts to a child.
#[test]
fn what_a_server_accepts_later_is_its_own_whoever_holds_it() {
    let own = std::process::id().to_string();
    let watching = thread::spawn(move || diagnose(&["--pid", &own, "-t", "4s", "--json"]));
    // It is at work by then, and has three seconds to see the listener.
    thread::sleep(Duration::from_secs(1));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    let _client = TcpStream::connect(at).expect("a connection");
    let accepted = OwnedFd::from(listener.accept().expect("a client").0);
    let mut child = Command::new("sh")
        .args(["-c", "while echo data; do sleep 0.05; done"])
        .stdout(Stdio::from(accepted))
        .spawn()
        .expect("a child");
    let output = watching.join().expect("no panic");
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    let document = document(&output);
    let flows = document["flows"].as_array().expect("a list");
    let locals: Vec<&Value> = flows.iter().map(|flow| &flow["local"]).collect();
    assert!(
        locals.contains(&&Value::from(at.to_string())),
        "{at}: {locals:?}"
    );
}

fn document(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_stall_is_named_and_its_change_is_planned() {
    let conversation = Conversation::start(false);
    let dir = tempfile::tempdir().expect("a directory");
    let plan = dir.path().join("plan.json");
    let plan_arg = plan.to_str().expect("UTF-8");
    let filter = format!("dport = :{}", conversation.port);
    let (output, document) =
        diagnose_well(&[&filter, "-t", "2s", "--fail-on", "findings", "-o", plan_arg]);
    assert_eq!(output.status.code(), Some(3), "{document:#}");
    assert_eq!(document["schema"], "tcptailor/diagnose/2");
    assert!(
        document["host"]["kernel"].is_string(),
        "{}",
        document["host"]
    );
    assert_eq!(document["findings"], 1);
    let flow = &document["flows"][0];
    let own = std::process::id();
    assert_eq!(flow["pid"], own, "{flow:#}");
    assert_eq!(flow["remote"], format!("127.0.0.1:{}", conversation.port));
    let verdict = &flow["verdicts"][0];
    assert_eq!(verdict["id"], "nagle-delack-stall", "{flow:#}");
    assert_eq!(verdict["live"], true);
    assert!(
        verdict["share"]
            .as_f64()
            .is_some_and(|share| share > 0.5 && share <= 1.0)
    );
    assert!(
        verdict["evidence"]
            .as_array()
            .is_some_and(|rows| rows.len() > 1)
    );

    let plan: Value =
        serde_json::from_str(&std::fs::read_to_string(&plan).expect("a plan")).expect("JSON");
    assert_eq!(plan["schema"], "tcptailor/plan/2");
    assert_eq!(
        plan["changes"].as_array().map(Vec::len),
        Some(1),
        "{plan:#}"
    );
    assert_eq!(plan["changes"][0]["knob"], "nodelay");
    assert_eq!(plan["changes"][0]["target"]["pid"], own);
}

#[test]
fn a_healthy_conversation_has_no_finding() {
    let conversation = Conversation::start(true);
    let filter = format!("dport = :{}", conversation.port);
    let args = [&filter, "-t", "2s", "--fail-on", "findings"];
    let (_, json) = diagnose_well(&args);
    assert_eq!(json["flows"].as_array().map(Vec::len), Some(1), "{json:#}");
    assert_eq!(json["findings"], 0, "{json:#}");

    let output = diagnose(&args);
    let screen = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{screen}");
    assert!(
        screen.contains("Nothing to improve: 1 connection seen in 2.0")
            && screen.contains(": 1 healthy."),
        "{screen}"
    );
    assert!(
        screen.lines().all(|line| line.chars().count() <= 100),
        "{screen}"
    );
}

#[test]
fn a_process_that_ends_ends_the_watch() {
    let mut child = Command::new("sleep")
        .arg("3")
        .spawn()
        .expect("sleep starts");
    let pid = child.id().to_string();
    let output = thread::scope(|scope| {
        // It has to be waited for, or it stays a zombie.
        scope.spawn(|| child.wait().expect("it ends"));
        diagnose(&["--pid", &pid, "-t", "50s", "--json"])
    });
    let document = document(&output);
    assert_eq!(output.status.code(), Some(0), "{document:#}");
    assert!(
        document["duration_s"]
            .as_f64()
            .is_some_and(|seconds| seconds < 50.0)
    );
    assert_eq!(document["interrupted"], false);
}

#[test]
fn an_interrupt_ends_the_watch_with_what_was_seen() {
    let child = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args(["diagnose", "-t", "50s", "--json", "sport = :1"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    common::wait_until_it_hears(&child);
    // The watch may begin.
    thread::sleep(Duration::from_millis(300));
    let pid = child.id().to_string();
    let killed = Command::new("kill")
        .args(["-INT", &pid])
        .status()
        .expect("kill starts");
    assert!(killed.success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(document(&output)["interrupted"], true);
}

#[test]
fn nonsense_is_refused_with_what_to_do() {
    let check = |args: &[&str], code: i32, expected: &str| {
        let output = diagnose(args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
        assert!(
            message.contains(expected),
            "{args:?}: `{message}` lacks `{expected}`"
        );
    };
    check(&["--pid", "4194305"], 1, "process `4194305` does not exist");
    check(&["-N", "tcptailor-none"], 1, "`ip netns` lists");
    check(&["dprt = :443"], 2, "did you mean `dport`?");
    check(&["-t", "5x"], 2, "unknown unit `x`");
    check(&["-i", "10us"], 2, "-i 10us: at least 1ms");
    check(
        &["-o", "/nonexistent/plan.json"],
        2,
        "there is no directory",
    );
    check(&["--fail-on", "finding"], 2, "'findings'");
}
