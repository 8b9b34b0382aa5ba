//! What is not a regular file: pipes without their other end, devices, links; and files that may
//! not grow.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// How long a program may take to end that was asked to.
const ENDS_IN: Duration = Duration::from_secs(60);

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        let pipe = Command::new("mkfifo").arg(folder.path("pipe")).status();
        assert!(pipe.unwrap().success());
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        self.command_of(Command::new(env!("CARGO_BIN_EXE_tcptailor")), args)
    }

    /// The program where no file may grow.
    fn command_without_growth(&self, args: &[&str]) -> Command {
        let mut shell = Command::new("sh");
        let program = env!("CARGO_BIN_EXE_tcptailor");
        shell.args(["-c", "ulimit -f 0; exec \"$@\"", "sh", program]);
        self.command_of(shell, args)
    }

    fn command_of(&self, mut command: Command, args: &[&str]) -> Command {
        command
            .args(args)
            .current_dir(&self.0)
            .env("TCPTAILOR_STATE", self.path("state"))
            .env_remove("TCPTAILOR_KEY")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn has_pipe(&self) -> bool {
        let meta = fs::symlink_metadata(self.path("pipe")).unwrap();
        meta.file_type().is_fifo()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn end(mut child: Child) -> Output {
    let mut left = ENDS_IN;
    while child.try_wait().unwrap().is_none() {
        if left.is_zero() {
            child.kill().unwrap();
            panic!("it does not end: {:?}", child.wait_with_output());
        }
        left = left.saturating_sub(Duration::from_millis(50));
        thread::sleep(Duration::from_millis(50));
    }
    child.wait_with_output().unwrap()
}

/// Where it is asked for a pipe, it writes into it; and it takes the place of nothing else.
#[test]
fn a_recording_replaces_neither_a_pipe_nor_a_link() {
    let folder = Folder::new();
    fs::write(folder.path("victim"), "my thesis").unwrap();
    symlink(folder.path("victim"), folder.path("link")).unwrap();
    symlink(folder.path("pipe"), folder.path("to-pipe")).unwrap();
    let check = |args: &[&str]| {
        let pipe = folder.path("pipe");
        let reading = thread::spawn(move || {
            let mut got = Vec::new();
            File::open(pipe)?.read_to_end(&mut got).map(|_| got)
        });
        let output = end(folder.command(args).spawn().unwrap());
        assert!(folder.has_pipe(), "{args:?}: {}", text(&output.stderr));
        assert!(
            output.status.success(),
            "{args:?}: {}",
            text(&output.stderr)
        );
        let got = reading.join().unwrap().unwrap();
        assert_eq!(got[..2], [0x1f, 0x8b], "{args:?}: gzip");
    };
    check(&["record", "-t", "1s", "-o", "pipe"]);
    check(&["record", "-t", "1s", "-o", "to-pipe"]);
    check(&["run", "--no-notify", "--record", "pipe", "--", "true"]);
    for args in [
        &["record", "-t", "3600s", "-o", "link"][..],
        &["run", "--record", "link", "--", "sleep", "3600"],
    ] {
        let output = folder.run(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("symbolic link"), "{said}");
    }
    assert!(folder.path("link").is_symlink() && folder.path("to-pipe").is_symlink());
    assert_eq!(
        fs::read_to_string(folder.path("victim")).unwrap(),
        "my thesis"
    );
}

/// A page may go to a pipe.
#[test]
fn a_page_is_written_into_a_pipe() {
    let folder = Folder::new();
    let pipe = folder.path("pipe");
    let reading = thread::spawn(move || fs::read_to_string(pipe));
    let output = end(folder
        .command(&["lab", "play", "-o", "pipe"])
        .spawn()
        .unwrap());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(reading.join().unwrap().unwrap().contains("</html>"));
    assert!(folder.has_pipe());
}

/// open(2) of a pipe waits for its other end, and is begun again after a signal.
#[test]
fn a_pipe_without_its_other_end_is_left_at_the_first_ctrl_c() {
    let folder = Folder::new();
    let commands: [&[&str]; 9] = [
        &["diagnose", "./PIPE"],
        &["predict", "./PIPE"],
        &["lab", "run", "./PIPE"],
        &["bench", "127.0.0.1:1", "--key-file", "PIPE"],
        &["serve", "-p", "0", "--key-file", "PIPE"],
        &["lab", "play", "-o", "PIPE"],
        &["record", "-t", "1s", "-o", "PIPE"],
        &["bdp", "--rate", "1gbit", "--rtt", "1ms", "-o", "PIPE"],
        &[
            "lab", "run", "lan-wwr", "--engine", "virtual", "--pcap", "PIPE",
        ],
    ];
    // A pipe of its own for each: one that reads is the other end of one that writes.
    let start = |(at, args): (usize, &&[&'static str])| {
        let pipe = format!("pipe-{at}");
        let made = Command::new("mkfifo").arg(folder.path(&pipe)).status();
        assert!(made.unwrap().success());
        let args: Vec<String> = args
            .iter()
            .map(|word| word.replace("PIPE", &pipe))
            .collect();
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let child = folder.command(&words).spawn().unwrap();
        (args, child)
    };
    let started: Vec<(Vec<String>, Child)> = commands.iter().enumerate().map(start).collect();
    // Nothing that can be seen from outside tells that it waits.
    thread::sleep(Duration::from_secs(4));
    for (_, child) in &started {
        let pid = child.id().to_string();
        Command::new("kill").args(["-INT", &pid]).status().unwrap();
    }
    for (args, child) in started {
        let output = end(child);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{args:?}: {said}");
    }
}

/// RLIMIT_FSIZE: as on a full disk, and not by a signal.
#[test]
fn a_file_that_may_not_grow_is_told() {
    let folder = Folder::new();
    let check = |args: &[&str], is_left: &str| {
        let output = end(folder.command_without_growth(args).spawn().unwrap());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("File too large"), "{args:?}: {said}");
        let is_empty = |path: &Path| fs::metadata(path).is_ok_and(|meta| meta.len() == 0);
        assert!(!is_empty(&folder.path(is_left)), "{args:?}");
    };
    check(&["lab", "play", "-o", "page.html"], "page.html");
    check(&["record", "-t", "1s", "-o", "some.rec"], "some.rec");
    check(&["serve", "-p", "0", "--key-file", "key"], "key");
}

/// Without a key, every client would be let in.
#[test]
fn a_key_that_is_not_text_is_refused() {
    let folder = Folder::new();
    let key = OsString::from_vec(vec![0xff, b'a']);
    let mut serve = folder.command(&["serve", "-p", "0"]);
    let output = end(serve.env("TCPTAILOR_KEY", key).spawn().unwrap());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("TCPTAILOR_KEY: not a key"), "{said}");
}
