//! `top` as its users have it: in a real terminal, beside a connection that stalls.

#[path = "../../linux/tests/asking/mod.rs"]
mod asking;
#[path = "common/conversation.rs"]
mod conversation;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use conversation::Conversation;
use linux::LabNetns;

/// A busy machine shows less in a second; the next ones show more.
const PATIENCE: Duration = Duration::from_secs(180);
/// What the shell says when the program has ended.
const ENDED: &str = "ended with";

/// A connection on the host itself, and the port of its server.
fn conversation() -> (Conversation, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    let (server, _) = listener.accept().expect("a client");
    (Conversation::between(client, server), port)
}

/// A terminal of its own, with a shell that runs the program once.
struct Tmux {
    socket: String,
}

impl Tmux {
    /// `None`, with a word about it, where tmux is not installed.
    fn start(name: &str, args: &str) -> Option<Self> {
        Self::start_with("LC_ALL=C.UTF-8", name, args)
    }

    fn start_with(variable: &str, name: &str, args: &str) -> Option<Self> {
        asking::witness("tmux")?;
        let tmux = Self {
            socket: format!("tcptailor-{name}-{}", std::process::id()),
        };
        let program = env!("CARGO_BIN_EXE_tcptailor");
        // What the terminal is like before and after, the shell asks it.
        let script = format!(
            "stty -g > \"$0\".before; echo of the shell; env {variable} {program} top \
             {args}; echo {ENDED} $?; stty -g > \"$0\".after; exec sleep 1000"
        );
        let started = tmux
            .command(&["new-session", "-d", "-x", "80", "-y", "24"])
            .args(["sh", "-c", &script, &tmux.scratch()])
            .status()
            .expect("tmux starts");
        assert!(started.success());
        Some(tmux)
    }

    fn scratch(&self) -> String {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        folder.join(&self.socket).display().to_string()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket, "-f", "/dev/null"]);
        command.args(words);
        command
    }

    fn screen(&self) -> String {
        let output = self.command(&["capture-pane", "-p"]).output();
        String::from_utf8_lossy(&output.expect("tmux runs").stdout).into_owned()
    }

    fn press(&self, keys: &[&str]) {
        let sent = self.command(&["send-keys"]).args(keys).status();
        assert!(sent.expect("tmux runs").success());
    }

    /// The screen, once it shows something.
    #[track_caller]
    fn wait_for(&self, text: &str) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            assert!(began.elapsed() < PATIENCE, "no `{text}`:\n{screen}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The process of the program.
    fn pid(&self) -> u32 {
        let shell = self
            .command(&["display-message", "-p", "#{pane_pid}"])
            .output();
        let shell = String::from_utf8_lossy(&shell.expect("tmux runs").stdout).into_owned();
        let children = format!("/proc/{0}/task/{0}/children", shell.trim());
        let children = std::fs::read_to_string(children).expect("the shell runs");
        let first = children.split_whitespace().next();
        first.expect("the program runs").parse().expect("a number")
    }

    /// Checks that the shell has its terminal as it was, and its own text again.
    fn check_restored(&self, code: i32) {
        let screen = self.wait_for(&format!("{ENDED} {code}"));
        assert!(screen.starts_with("of the shell"), "{screen}");
        assert!(!screen.contains("SERVICE"), "{screen}");
        let settings = |when: &str| {
            let path = format!("{}.{when}", self.scratch());
            let began = Instant::now();
            loop {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                if text.ends_with('\n') {
                    return text;
                }
                assert!(began.elapsed() < PATIENCE, "{path}");
                thread::sleep(Duration::from_millis(20));
            }
        };
        assert_eq!(settings("before"), settings("after"));
        let cursor = self
            .command(&["display-message", "-p", "#{cursor_flag} #{alternate_on}"])
            .output()
            .expect("tmux runs");
        assert_eq!(String::from_utf8_lossy(&cursor.stdout).trim(), "1 0");
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let mut asked = self.command(&["display-message", "-p", "#{socket_path}"]);
        let socket = asked.output().map(|output| output.stdout);
        let _ = self.command(&["kill-server"]).status();
        // tmux leaves it.
        if let Ok(Ok(path)) = socket.map(String::from_utf8) {
            let _ = std::fs::remove_file(path.trim());
        }
        for when in ["before", "after"] {
            let _ = std::fs::remove_file(format!("{}.{when}", self.scratch()));
        }
    }
}

#[test]
fn a_stall_is_seen_explained_and_saved() {
    let (_conversation, port) = conversation();
    // The client's end alone: the other one sees the stall too, now and then first.
    let filter = format!("dport = :{port}");
    let Some(tmux) = Tmux::start("top", &filter) else {
        return;
    };
    let screen = tmux.wait_for("! nagle-delack-stall");
    let row = screen
        .lines()
        .find(|line| line.contains("nagle-delack-stall"));
    // Which of two ports of the kernel's choice is the service's is not known.
    assert!(row.is_some_and(|row| row.contains("bit/s")), "{screen}");
    assert!(screen.contains("1 with a finding"), "{screen}");
    assert!(screen.contains(&format!("filter: {filter}")), "{screen}");

    tmux.press(&["Enter"]);
    tmux.wait_for("change  nodelay = on");
    tmux.press(&["G"]);
    tmux.wait_for("notsent_bytes");

    tmux.press(&["Space"]);
    tmux.wait_for("PAUSED");
    let recording = format!("{}.rec", tmux.scratch());
    tmux.press(&["w", "C-u"]);
    tmux.press(&["-l", &recording]);
    tmux.press(&["Enter"]);
    tmux.wait_for("saved");
    let judged = run(&["diagnose", "--json", &recording]);
    std::fs::remove_file(&recording).expect("it was saved");
    let judged = String::from_utf8_lossy(&judged.stdout).into_owned();
    assert!(judged.contains("\"nagle-delack-stall\""), "{judged}");

    tmux.press(&["q"]);
    tmux.wait_for("LIMITED BY");
    tmux.press(&["q"]);
    tmux.check_restored(0);
}

#[test]
fn a_stall_in_another_namespace_is_seen_with_its_place() {
    let Some([netns]) = asking::permitted(LabNetns::create(["apart"])) else {
        return;
    };
    if !netns.is_mounted() {
        return asking::skip("the program may not enter the namespace that the test made");
    }
    let stalled = netns.handle().run(|| {
        linux::netlink::link::set_up("lo").expect("a namespace of ours");
        conversation()
    });
    let (_conversation, port) = stalled.expect("a namespace of ours");
    let args = format!("--all-netns dport = :{port}");
    let Some(tmux) = Tmux::start("top-netns", &args) else {
        return;
    };
    let screen = tmux.wait_for("! nagle-delack-stall");
    let mut rows = screen.lines();
    let row = rows.find(|line| line.contains("nagle-delack-stall"));
    assert!(row.is_some_and(|row| row.contains("namespace")), "{screen}");
    tmux.press(&["Enter"]);
    tmux.wait_for(&format!("in namespace {}", netns.name()));
    tmux.press(&["q"]);
    tmux.wait_for("WHERE");
    tmux.press(&["q"]);
    tmux.check_restored(0);
}

#[test]
fn signals_give_the_terminal_back() {
    for (name, number) in [("TERM", 130), ("INT", 130), ("HUP", 130)] {
        let Some(tmux) = Tmux::start(&format!("top-{name}"), "") else {
            return;
        };
        tmux.wait_for("SERVICE");
        let killed = Command::new("kill")
            .args([&format!("-{name}"), &tmux.pid().to_string()])
            .status()
            .expect("kill starts");
        assert!(killed.success());
        tmux.check_restored(number);
    }
}

#[test]
fn what_cannot_show_a_screen_is_refused_with_what_to_type() {
    let check = |output: &Output, expected: &str| {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(expected), "{message}");
        assert!(message.contains("`tcptailor diagnose`"), "{message}");
        assert!(message.contains("`tcptailor watch`"), "{message}");
    };
    check(&run(&["top"]), "top needs a terminal");
    let json = run(&["top", "--json"]);
    let message = String::from_utf8_lossy(&json.stdout).into_owned();
    assert!(message.contains("no JSON document"), "{message}");
    let output = run(&["top", "dprt = :443"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("did you mean `dport`?"), "{message}");
}

#[test]
fn a_dumb_terminal_is_refused() {
    let Some(tmux) = Tmux::start_with("TERM=dumb", "top-dumb", "") else {
        return;
    };
    let screen = tmux.wait_for(&format!("{ENDED} 2"));
    assert!(screen.contains("cannot move its cursor"), "{screen}");
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("the program starts")
}

/// Its terminal is closed, or the connection to it is lost.
#[test]
fn it_ends_with_its_terminal() {
    let Some(tmux) = Tmux::start("hangup", "") else {
        return;
    };
    tmux.wait_for("q quit");
    let process = format!("/proc/{}/stat", tmux.pid());
    assert!(Path::new(&process).exists());
    let ended = tmux.command(&["kill-server"]).status().expect("tmux runs");
    assert!(ended.success());
    let runs = || std::fs::read_to_string(&process).is_ok_and(|stat| !stat.contains(") Z "));
    let began = Instant::now();
    while runs() {
        assert!(began.elapsed() < PATIENCE, "it runs without a terminal");
        thread::sleep(Duration::from_millis(100));
    }
}
