//! Plans as a user meets them: applied to a socket of this test, shown, rolled back; and what is
//! wrong with a plan, a journal or a machine.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../linux/tests/asking/mod.rs"]
mod asking;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

struct User {
    directory: tempfile::TempDir,
    client: TcpStream,
    _server: TcpStream,
}

impl User {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        Self {
            directory: tempfile::tempdir().unwrap(),
            client,
            _server: listener.accept().unwrap().0,
        }
    }

    /// A plan that turns these knobs of the socket, and those of a route that is not there.
    fn plan(&self, changes: &[(&str, Value)]) -> PathBuf {
        let changes: Vec<Value> = changes
            .iter()
            .map(|(knob, to)| {
                let target = if knob.starts_with("route.") {
                    json!({"scope": "route", "netns": "own", "destination": "10.255.77.0/24"})
                } else {
                    self.socket()
                };
                json!({"target": target, "knob": knob, "to": to})
            })
            .collect();
        let path = self.directory.path().join("plan.json");
        let plan = json!({"schema": "tcptailor/plan/2", "changes": changes});
        fs::write(&path, plan.to_string()).unwrap();
        path
    }

    fn socket(&self) -> Value {
        json!({
            "scope": "socket",
            "netns": "own",
            "pid": std::process::id(),
            "cookie": cookie_of(&self.client),
            "key": {
                "local": self.client.local_addr().unwrap(),
                "remote": self.client.peer_addr().unwrap(),
            },
        })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcptailor"));
        let state = self.directory.path().join("state");
        command.args(args).env("TCPTAILOR_STATE", state);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--json"]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    #[track_caller]
    fn check_refused(&self, args: &[&str], code: i32, expected: &str) {
        let output = self.run(args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains(expected), "{args:?}: {message}");
        assert_eq!(message.lines().count(), 1, "one line: {message}");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    }
}

/// The cookie, as `sock_diag` tells it.
fn cookie_of(socket: &TcpStream) -> u64 {
    let (local, remote) = (socket.local_addr().unwrap(), socket.peer_addr().unwrap());
    let mut cookie = None;
    let mut diag = linux::SockDiag::open().unwrap();
    for sample in diag.scan(&linux::ScanRequest::default()).unwrap() {
        if (sample.key.local, sample.key.remote) == (local, remote) {
            cookie = sample.cookie;
        }
    }
    cookie.expect("the socket is listed")
}

/// Whether the program may reach sockets of this process, which is its parent.
fn may_reach_sockets(user: &User, plan: &str) -> bool {
    let output = user.run(&["apply", plan, "--dry-run"]);
    if output.status.code() != Some(4) {
        return true;
    }
    asking::skip(String::from_utf8_lossy(&output.stderr));
    false
}

#[test]
fn a_plan_that_changes_nothing_is_told_as_such() {
    let user = User::new();
    let plan = user.plan(&[("nodelay", json!(false))]);
    let plan = plan.to_str().unwrap();
    if !may_reach_sockets(&user, plan) {
        return;
    }
    assert!(user.run(&["apply", plan]).status.success());
    let told = user.run(&["status", "--all"]).stdout;
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains(": changed nothing ("), "{told}");
    assert!(!told.contains("rolled back"), "{told}");
}

#[test]
fn a_plan_of_another_namespace_says_where_that_is() {
    let Some([netns]) = asking::permitted(linux::LabNetns::create(["planned"])) else {
        return;
    };
    if !netns.is_mounted() {
        return asking::skip("the namespace has no name");
    }
    let user = User::new();
    let path = user.plan(&[("net.ipv4.tcp_mtu_probing", json!(1))]);
    let mut plan: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    plan["changes"][0]["target"] = json!({"scope": "namespace", "netns": "own"});
    let inode = netns.handle().inode().unwrap();
    plan["changes"][0]["place"] = json!({ "netns_inode": inode });
    fs::write(&path, plan.to_string()).unwrap();
    let path = path.to_str().unwrap();
    let expected = format!(
        "type `ip netns exec {} tcptailor apply {path}`",
        netns.name()
    );
    user.check_refused(&["apply", path], 1, &expected);
}

#[test]
fn a_change_in_another_namespace_is_told_to_be_there() {
    let Some([netns]) = asking::permitted(linux::LabNetns::create(["changed"])) else {
        return;
    };
    if !netns.is_mounted() {
        return asking::skip("the namespace has no name");
    }
    let user = User::new();
    let path = user.plan(&[("net.ipv4.tcp_mtu_probing", json!(1))]);
    let mut plan: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    plan["changes"][0]["target"] = json!({"scope": "namespace", "netns": "own"});
    fs::write(&path, plan.to_string()).unwrap();
    let path = path.to_str().unwrap();
    let there = |args: &[&str]| netns.handle().run(|| user.json(args)).unwrap();
    there(&["apply", path]);
    let target = |status: &Value| status["transactions"][0]["changes"][0]["target"].clone();
    assert_eq!(target(&there(&["status"])), "sysctl, this namespace");
    let expected = format!("sysctl, namespace {}", netns.name());
    assert_eq!(target(&user.json(&["status"])), expected);
    assert_eq!(target(&user.json(&["rollback"])), expected);
}

#[test]
fn a_plan_is_shown_applied_and_rolled_back() {
    let user = User::new();
    let plan = user.plan(&[("nodelay", json!(true)), ("notsent_lowat", json!(16384))]);
    let plan = plan.to_str().unwrap();
    if !may_reach_sockets(&user, plan) {
        return;
    }
    let dry = user.json(&["apply", plan, "--dry-run"]);
    assert_eq!(dry["schema"], "tcptailor/apply/1");
    assert_eq!(dry["dry_run"], true);
    assert_eq!(dry["changes"][0]["from"], "off");
    assert!(!user.client.nodelay().unwrap(), "a dry run changes nothing");

    let script = user.run(&["apply", plan, "--dry-run=sh"]);
    let script = String::from_utf8_lossy(&script.stdout).into_owned();
    assert!(script.starts_with("#!/bin/sh"), "{script}");
    assert!(
        script.contains("# no shell command sets nodelay"),
        "{script}"
    );
    // Whoever runs it is told, and a script can tell.
    let ran = Command::new("sh").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(said.starts_with("2 of 2 changes cannot be made"), "{said}");
    assert_eq!(ran.status.code(), Some(1), "{said}");

    let applied = user.json(&["apply", plan]);
    assert_eq!(applied["transaction"], 1);
    assert_eq!(applied["changes"][0]["now"], "on");
    assert!(user.client.nodelay().unwrap());

    let status = user.json(&["status"]);
    let changes = &status["transactions"][0]["changes"];
    assert_eq!(changes[0]["presence"], "in force");
    assert_eq!(changes.as_array().map(Vec::len), Some(2));

    assert_eq!(user.json(&["recover"])["transactions"], json!([]));
    assert!(
        user.client.nodelay().unwrap(),
        "what was kept is not recovered"
    );

    let undone = user.json(&["rollback"]);
    let undone = &undone["transactions"][0]["changes"];
    assert_eq!(undone[0]["knob"], "notsent_lowat", "last first");
    assert_eq!(undone[1]["result"], "restored");
    assert!(!user.client.nodelay().unwrap());
    assert_eq!(user.json(&["status"])["transactions"], json!([]));
    user.check_refused(&["rollback", "1"], 1, "rolled back already");
}

/// As in a chroot: the boot of the machine cannot be told, and so not whether a change has ended.
#[test]
fn without_proc_nothing_in_force_is_forgotten() {
    let Some(mut command) = asking::witness("unshare") else {
        return;
    };
    let user = User::new();
    let plan = user.plan(&[("nodelay", json!(true))]);
    let plan = plan.to_str().unwrap();
    if !may_reach_sockets(&user, plan) {
        return;
    }
    assert!(user.run(&["apply", plan]).status.success());
    let script = "mount -t tmpfs none /proc || exit 99; exec \"$@\"";
    let program = env!("CARGO_BIN_EXE_tcptailor");
    command.args(["-m", "sh", "-c", script, "sh", program, "rollback", "1"]);
    let state = user.directory.path().join("state");
    let output = command.env("TCPTAILOR_STATE", state).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(99) || said.contains("unshare") {
        asking::skip(said);
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(user.client.nodelay().unwrap(), "it could not be restored");
    assert_eq!(user.json(&["status"])["transactions"], json!([]));
    let is_on = user.client.nodelay().unwrap();
    assert!(!is_on, "the next start finishes what was begun");
}

/// Both list the same transactions, and each finds some rolled back by the other.
#[test]
fn two_that_roll_back_everything_at_once_both_succeed() {
    let user = User::new();
    for _ in 0..4 {
        let on = json!(true);
        for (knob, to) in [
            ("nodelay", &on),
            ("cork", &on),
            ("notsent_lowat", &json!(16384)),
        ] {
            let plan = user.plan(&[(knob, to.clone())]);
            let plan = plan.to_str().unwrap();
            if !may_reach_sockets(&user, plan) {
                return;
            }
            assert!(user.run(&["apply", plan]).status.success());
        }
        let start = || {
            let mut command = user.command(&["rollback", "--all"]);
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let both = [start(), start()];
        for one in both {
            let output = one.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{said}");
        }
        assert!(!user.client.nodelay().unwrap());
        assert_eq!(user.json(&["status"])["transactions"], json!([]));
    }
}

#[test]
fn one_wrong_change_and_none_is_made() {
    let user = User::new();
    let plan = user.plan(&[("nodelay", json!(true)), ("route.mtu", json!(1400))]);
    let plan = plan.to_str().unwrap();
    if !may_reach_sockets(&user, plan) {
        return;
    }
    user.check_refused(&["apply", plan], 1, "`10.255.77.0/24` does not exist");
    assert!(!user.client.nodelay().unwrap());
    assert_eq!(user.json(&["status"])["transactions"], json!([]));
}

#[test]
fn what_is_wrong_with_a_plan_is_said_in_one_line() {
    let user = User::new();
    let check = |changes: &[(&str, Value)], expected: &str| {
        let plan = user.plan(changes);
        user.check_refused(&["apply", plan.to_str().unwrap()], 2, expected);
    };
    check(&[("nodlay", json!(true))], "did you mean `nodelay`");
    check(&[("sndbuf", json!(9e15 as u64))], "out of range");
    check(&[("sndbuf", json!(true))], "give a number of bytes");
    check(&[("link.mtu", json!(1400))], "it is a setting of a link");
    let path = user.directory.path().join("plan.json");
    fs::write(&path, "{\"schema\":").unwrap();
    user.check_refused(&["apply", path.to_str().unwrap()], 2, "not a plan");
    user.check_refused(&["apply", "no-such.json"], 2, "does not exist");
}

#[test]
fn a_connection_that_is_gone_and_a_damaged_journal_are_said_so() {
    let user = User::new();
    let plan = user.plan(&[("nodelay", json!(true))]);
    let plan = plan.to_str().unwrap().to_owned();
    if !may_reach_sockets(&user, &plan) {
        return;
    }
    let mut gone: Value = serde_json::from_slice(&fs::read(&plan).unwrap()).unwrap();
    gone["changes"][0]["target"]["cookie"] = json!(u64::MAX);
    fs::write(&plan, gone.to_string()).unwrap();
    user.check_refused(&["apply", &plan], 1, "does not exist any more");

    // A damaged file costs itself only, and is shown by name until it is removed.
    let transactions = user.directory.path().join("state/txn");
    fs::write(transactions.join("000009.jsonl"), "not a line of ours\n").unwrap();
    let unusable = |status: &Value| status["unusable"][0]["path"].as_str().map(str::to_owned);
    let before = unusable(&user.json(&["status"])).unwrap();
    assert!(before.ends_with("000009.jsonl"), "{before}");
    for args in [&["rollback"][..], &["recover"]] {
        assert_eq!(user.json(args)["transactions"], json!([]), "{args:?}");
    }
    let aside = unusable(&user.json(&["status"])).unwrap();
    assert!(aside.ends_with("000009.jsonl.damaged-1"), "{aside}");
    let plan = user.plan(&[("nodelay", json!(true))]);
    let applied = user.json(&["apply", plan.to_str().unwrap()]);
    assert_eq!(applied["changes"][0]["now"], "on");
    user.json(&["rollback"]);
    assert!(!user.client.nodelay().unwrap());
}

#[test]
fn what_is_in_force_of_a_damaged_transaction_is_rolled_back_too() {
    let user = User::new();
    for (args, id) in [(&["rollback", "--all"][..], 1), (&["rollback"], 2)] {
        let bytes = 16_000 + id;
        let plan = user.plan(&[("nodelay", json!(true)), ("notsent_lowat", json!(bytes))]);
        let plan = plan.to_str().unwrap();
        if !may_reach_sockets(&user, plan) {
            return;
        }
        user.json(&["apply", plan]);
        let file = format!("state/txn/{id:06}.jsonl");
        let file = user.directory.path().join(file);
        let whole = fs::read_to_string(&file).unwrap();
        let damaged = whole.replacen(&format!("\"to\":{bytes}"), "\"to\":7", 1);
        assert_ne!(damaged, whole);
        fs::write(&file, damaged).unwrap();
        let status = user.json(&["status"]);
        assert_eq!(status["transactions"][0]["status"], "damaged");
        let undone = user.json(args);
        assert_eq!(undone["transactions"][0]["id"], id, "{args:?}: {undone}");
        assert!(!user.client.nodelay().unwrap(), "{args:?}");
        assert_eq!(user.json(&["status"])["transactions"], json!([]));
    }
}

#[test]
fn a_plan_that_does_not_fit_any_more_is_refused() {
    let user = User::new();
    let path = user.plan(&[("nodelay", json!(true)), ("notsent_lowat", json!(16384))]);
    if !may_reach_sockets(&user, path.to_str().unwrap()) {
        return;
    }
    let mut plan: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    plan["changes"][0]["from"] = json!({"state": "plain", "value": false});
    plan["changes"][1]["from"] = json!({"state": "plain", "value": 777});
    let args = ["apply", path.to_str().unwrap()];
    fs::write(&path, plan.to_string()).unwrap();
    user.check_refused(&args, 1, "it was 777, now");
    assert!(!user.client.nodelay().unwrap(), "nothing of it is made");

    plan["changes"].as_array_mut().unwrap().pop();
    let inode = fs::metadata("/proc/self/ns/net")
        .map(|meta| meta.ino())
        .unwrap();
    plan["changes"][0]["place"] = json!({"netns_inode": inode + 1});
    fs::write(&path, plan.to_string()).unwrap();
    user.check_refused(&args, 1, "another namespace now");

    plan["changes"][0]["place"] = json!({"netns_inode": inode});
    plan["boot_id"] = json!("3b24e0a1-0000-0000-0000-000000000000");
    fs::write(&path, plan.to_string()).unwrap();
    user.check_refused(&args, 1, "another machine");

    plan["boot_id"] = Value::Null;
    fs::write(&path, plan.to_string()).unwrap();
    user.json(&args);
    assert!(user.client.nodelay().unwrap());
    // What is so already does not count as a difference.
    assert_eq!(user.json(&args)["changes"][0]["already"], true);
}

/// Runs the program on a terminal, on which Enter is pressed as it starts, and once more when it
/// says the word; passes on what it shows and how it ends.
const TERMINAL: &str = r"
import os, pty, sys
word = sys.argv[1].encode()
pid, parent = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
os.write(parent, b'\n')
shown = b''
while True:
    try:
        more = os.read(parent, 4096)
    except OSError:
        break
    if not more:
        break
    shown += more
    if word and word in shown:
        word = b''
        os.write(parent, b'\n')
sys.stdout.write(shown.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

#[test]
fn an_enter_from_before_the_question_confirms_nothing() {
    let user = User::new();
    let plan = user.plan(&[("nodelay", json!(true))]);
    let plan = plan.to_str().unwrap();
    if !may_reach_sockets(&user, plan) {
        return;
    }
    let Some(_) = asking::witness("python3") else {
        return;
    };
    let on_terminal = |word: &str, time: &str| {
        let output = Command::new("python3")
            .args(["-c", TERMINAL, word, env!("CARGO_BIN_EXE_tcptailor")])
            .args(["apply", plan, "--confirm-within", time])
            .env("TCPTAILOR_STATE", user.directory.path().join("state"))
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), shown + &error)
    };
    let (code, shown) = on_terminal("no such word", "2s");
    assert!(shown.contains("not confirmed in time"), "{shown}");
    assert_eq!(code, Some(1), "{shown}");
    assert!(!user.client.nodelay().unwrap());
    let (code, shown) = on_terminal("Press Enter", "300s");
    assert!(shown.contains("Kept. Undo with"), "{shown}");
    assert_eq!(code, Some(0), "{shown}");
    assert!(user.client.nodelay().unwrap());
}

#[test]
fn a_trial_is_confirmed_or_rolled_back() {
    let user = User::new();
    let plan = user.plan(&[("nodelay", json!(true))]);
    let plan = plan.to_str().unwrap();
    if !may_reach_sockets(&user, plan) {
        return;
    }
    user.check_refused(&["confirm"], 1, "no change is waiting");
    let too_short = user.run(&["apply", plan, "--confirm-within", "0s"]);
    assert_eq!(too_short.status.code(), Some(2));

    let applied = user.json(&["apply", plan, "--confirm-within", "300s"]);
    assert_eq!(applied["confirm_within_s"], 300.0);
    assert!(user.client.nodelay().unwrap());
    assert_eq!(user.json(&["recover"])["transactions"], json!([]));
    let again = user.run(&["apply", plan]);
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(
        said.contains("unless confirmed: tcptailor confirm 1"),
        "{said}"
    );
    let status = user.json(&["status"]);
    assert_eq!(status["transactions"][0]["status"], "leased");
    assert!(status["transactions"][0]["confirm_until"].is_string());
    let own = std::process::id().to_string();
    for command in ["diagnose", "fit"] {
        let output = user.run(&[command, "--pid", &own, "-t", "1s"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("note: transaction 1 is on trial"), "{said}");
    }
    assert_eq!(user.json(&["confirm"])["confirmed"], json!([1]));
    user.check_refused(&["confirm", "1"], 1, "kept already");
    assert_eq!(user.json(&["status"])["transactions"][0]["status"], "kept");
    user.json(&["rollback"]);
    assert!(!user.client.nodelay().unwrap());

    user.json(&["apply", plan, "--confirm-within", "300s"]);
    assert_eq!(user.json(&["rollback"])["transactions"][0]["id"], 3);
    assert!(!user.client.nodelay().unwrap());

    // Without confirmation a process of its own rolls it back, without any other command.
    user.json(&["apply", plan, "--confirm-within", "1s"]);
    assert!(user.client.nodelay().unwrap());
    await_rollback(&user);
    user.check_refused(&["confirm", "4"], 1, "rolled back");
}

/// Until `nodelay` was rolled back.
fn await_rollback(user: &User) {
    let mut looks = 0;
    while user.client.nodelay().unwrap() {
        looks += 1;
        assert!(looks < 3000, "nobody rolls it back");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// As when a machine stops: a guard that is told twice to end undoes its changes first.
#[test]
fn a_guard_that_is_ended_twice_rolls_back() {
    let user = User::new();
    let plan = user.plan(&[("nodelay", json!(true))]);
    let plan = plan.to_str().unwrap();
    if !may_reach_sockets(&user, plan) {
        return;
    }
    user.json(&["apply", plan, "--confirm-within", "300s"]);
    let state = user.directory.path().join("state");
    let pid = guard_of(&state);
    for _ in 0..2 {
        let status = Command::new("kill").arg(pid.to_string()).status().unwrap();
        assert!(status.success());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    await_rollback(&user);
}

/// The process that watches over the journal in this folder.
fn guard_of(state: &std::path::Path) -> i32 {
    let folders = std::fs::read_dir("/proc").unwrap();
    let pids = folders.filter_map(|folder| folder.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let is_it = |pid: &i32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = command
            .split(|byte| *byte == 0)
            .map(String::from_utf8_lossy);
        words.nth(1).as_deref() == Some("guard") && words.next().as_deref() == state.to_str()
    };
    pids.into_iter().find(is_it).expect("a guard")
}
