//! `tcptailor stack` as a user meets it. What needs a namespace says that it was skipped where none
//! can be made, and fails instead where `REQUIRE_KERNEL` is set.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../linux/tests/asking/mod.rs"]
mod asking;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use linux::LabNetns;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(20);

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcptailor"));
    command.args(["stack", "serve"]).args(args);
    command.stdin(Stdio::null());
    command
}

fn namespace() -> Option<LabNetns> {
    asking::namespace_for_devices("stack")
}

/// The command, running in a namespace of its own.
struct Server {
    netns: LabNetns,
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Server {
    fn start(args: &[&str]) -> Option<Self> {
        let netns = namespace()?;
        let mut command = command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = netns.handle().run(|| command.spawn()).unwrap().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Some(Self {
            netns,
            child,
            stdout,
        })
    }

    fn ready(args: &[&str]) -> Option<Self> {
        let mut server = Self::start(args)?;
        let mut line = String::new();
        server.stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Some(server)
    }

    fn connect(&self, remote: &str) -> TcpStream {
        let remote: SocketAddr = remote.parse().unwrap();
        let connect = || TcpStream::connect_timeout(&remote, PATIENCE);
        let stream = self.netns.handle().run(connect).unwrap().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn terminate(&self) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").arg(pid).status().unwrap();
        assert!(status.success());
    }

    /// What it printed, and how it ended.
    fn wait(mut self) -> Output {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        self.stdout.read_to_end(&mut stdout).unwrap();
        let mut notes = self.child.stderr.take().unwrap();
        notes.read_to_end(&mut stderr).unwrap();
        Output {
            status: self.child.wait().unwrap(),
            stdout,
            stderr,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A test that failed leaves it running. One that has been waited for is not killed again.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn three_services_answer_and_a_signal_ends_them_in_order() {
    let dual = [
        "--addr",
        "10.77.0.2/24",
        "--addr",
        "fd77::2/64",
        "--peer",
        "10.77.0.1",
        "--peer",
        "fd77::1",
        "-v",
    ];
    let Some(server) = Server::ready(&dual) else {
        return;
    };
    for host in ["10.77.0.2", "[fd77::2]"] {
        let mut echo = server.connect(&format!("{host}:5003"));
        echo.write_all(b"around").unwrap();
        let mut back = [0; 6];
        echo.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"around");
        let mut generator = server.connect(&format!("{host}:5002"));
        let mut generated = vec![1; 3_000_000];
        generator.read_exact(&mut generated).unwrap();
        assert!(generated.iter().all(|byte| *byte == 0));
        let mut discard = server.connect(&format!("{host}:5001"));
        discard.write_all(&generated).unwrap();
    }
    let mut open = server.connect("10.77.0.2:5003");
    server.terminate();
    let error = open.read(&mut [0]).expect_err("it is told");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let output = server.wait();
    assert_eq!(output.status.code(), Some(130));
    let report = text(&output.stderr);
    assert!(report.contains("7 accepted"), "{report}");
    assert!(report.contains("of CPU time"), "{report}");
}

#[test]
fn documents_tell_when_it_answers_and_what_it_carried() {
    let args = ["--peer", "10.77.0.1", "--json", "--no-offload"];
    let Some(mut server) = Server::start(&args) else {
        return;
    };
    let mut document = String::new();
    while serde_json::from_str::<Value>(&document).is_err() {
        assert_ne!(server.stdout.read_line(&mut document).unwrap(), 0);
    }
    let begin: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(begin["schema"], "tcptailor/stack-serve/1");
    assert_eq!(
        (&begin["echo_port"], &begin["tso"]),
        (&5003.into(), &false.into())
    );
    let mut discard = server.connect("10.77.0.2:5001");
    discard.write_all(&vec![7; 500_000]).unwrap();
    // It closes when it has read everything.
    discard.shutdown(Shutdown::Write).unwrap();
    assert_eq!(discard.read(&mut [0]).unwrap(), 0);
    let mut echo = server.connect("10.77.0.2:5003");
    echo.write_all(b"x").unwrap();
    echo.read_exact(&mut [0]).unwrap();
    server.terminate();
    let output = server.wait();
    let end: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(end["schema"], "tcptailor/stack-serve-end/1");
    assert_eq!(end["accepted"], 2);
    assert_eq!(end["received_bytes"], 500_001);
    assert!(end["loop"]["packets_read"].as_u64().unwrap() > 300, "{end}");
    assert_eq!(end["busiest"][0]["limit"], "application");
}

/// NB38, NB45: clients that read nothing hold the buffers of the pool, and are named.
#[test]
fn a_pool_tells_who_holds_its_buffers() {
    let args = ["--peer", "10.77.0.1", "--profile", "netburner", "-v"];
    let Some(server) = Server::ready(&args) else {
        return;
    };
    // The generator sends until the client's buffers are full, and then holds its own.
    let deaf = server.connect("10.77.0.2:5002");
    let remote = deaf.local_addr().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    server.terminate();
    let output = server.wait();
    let shown = text(&output.stderr);
    let pool = shown.lines().find(|line| line.starts_with("pool: "));
    let pool = pool.unwrap_or_else(|| panic!("no pool in {shown}"));
    assert!(pool.contains(" of 256 buffers free"), "{pool}");
    assert!(!pool.contains("256 of 256"), "{pool}");
    let holder = format!("  {remote} holds 0 with what it sent, ");
    assert!(shown.contains(&holder), "{shown}");
    drop(deaf);
}

#[test]
fn a_deleted_device_is_told_with_the_next_step() {
    let Some(server) = Server::ready(&["--peer", "10.77.0.1"]) else {
        return;
    };
    let delete = || linux::netlink::link::delete("stack0");
    server.netns.handle().run(delete).unwrap().unwrap();
    let output = server.wait();
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("stack0 was deleted; start again"), "{error}");
}

#[test]
fn a_taken_name_is_told_with_the_next_step() {
    let Some(server) = Server::ready(&[]) else {
        return;
    };
    let second = || command(&[]).output();
    let output = server.netns.handle().run(second).unwrap().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("take another name"), "{error}");
    server.terminate();
    server.wait();
}

#[track_caller]
fn check(command: &mut Command, code: i32, expected: &str) {
    let output = command.output().unwrap();
    let error = text(&output.stderr);
    assert!(error.contains(expected), "{error}");
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn wrong_usage_is_answered_with_what_was_meant() {
    let refused = |args: &[&str], expected| check(&mut command(args), 2, expected);
    refused(&["--profile", "linux_6_81"], "did you mean `linux_6_18`?");
    refused(&["--knob", "nodlay=on"], "did you mean `nodelay`?");
    refused(&["--knob", "nodelay"], "KNOB=VALUE");
    refused(&["--addr", "10.77.0.2"], "10.77.0.2/24");
    refused(&["--peer", "10.78.0.1"], "addresses of one network");
    refused(&["--peer", "10.77.0.2"], "give the kernel another one");
    refused(&["--tun", "a/b"], "letters, digits");
    refused(&["--mtu", "100"], "576..=65535");
    let twice = ["--addr", "10.77.0.2/24", "--addr", "10.77.0.2/16"];
    refused(&twice, "given twice");
    let small = ["--addr", "fd77::2/64", "--mtu", "1279"];
    refused(&small, "IPv6 needs an MTU of at least 1280");
}

#[test]
fn what_is_missing_is_told_with_how_to_get_it() {
    let no_node = |command: &mut Command| {
        let missing = "/nonexistent/tun";
        check(command.env("TCPTAILOR_TUN", missing), 4, "modprobe tun");
    };
    no_node(&mut command(&[]));
    let mut unprivileged = command(&[]);
    unprivileged.uid(65_534).gid(65_534);
    match unprivileged.output() {
        Ok(output) => {
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(4), "{error}");
            assert!(error.contains("run as root"), "{error}");
        }
        Err(error) => asking::skip(format_args!("becoming another user: {error}")),
    }
}
