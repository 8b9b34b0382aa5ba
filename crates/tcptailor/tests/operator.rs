//! What an operator meets who is not root, or whose disk is full: what is not known is said, and
//! nothing is left that looks like a result.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../linux/tests/asking/mod.rs"]
mod asking;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

const USER: u32 = 65_534;

/// A directory that every user may enter, with the program in it.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("tcptailor-operator-")
            .tempdir()
            .unwrap();
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(directory.path(), open.clone()).unwrap();
        let place = Self { directory };
        fs::copy(env!("CARGO_BIN_EXE_tcptailor"), place.path("tcptailor")).unwrap();
        fs::set_permissions(place.path("tcptailor"), open).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The program as an ordinary user beside root's journal, in a mount namespace of its own;
    /// `None` where that cannot be made.
    fn beside_root(&self, args: &[&str]) -> Option<Output> {
        let mut command = asking::witness("unshare")?;
        asking::witness("setpriv")?;
        let script = "mount -t tmpfs none /var/lib && mkdir -m 700 /var/lib/tcptailor && mkdir \
                      /var/lib/tcptailor/txn || exit 99; exec setpriv --reuid 65534 --regid 65534 \
                      --clear-groups \"$@\"";
        command.args(["-m", "sh", "-c", script, "sh"]);
        command.arg(self.path("tcptailor")).args(args);
        command.env_remove("TCPTAILOR_STATE").current_dir("/");
        command
            .env_remove("XDG_STATE_HOME")
            .env("HOME", self.path("home"));
        let output = command.output().unwrap();
        let said = text(&output.stderr);
        if output.status.code() == Some(99) || said.contains("unshare: ") {
            asking::skip(said);
            return None;
        }
        Some(output)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What root has changed is in force for all users, and only root can read of it.
#[test]
fn the_journal_of_root_is_not_taken_for_none() {
    let place = Place::new();
    let Some(status) = place.beside_root(&["status", "--all"]) else {
        return;
    };
    let (told, said) = (text(&status.stdout), text(&status.stderr));
    assert!(
        told.starts_with("No changes of yours are in force."),
        "{told}"
    );
    assert!(said.contains("type `sudo tcptailor status`"), "{said}");
    assert_eq!(status.status.code(), Some(0), "{said}");

    let status = place.beside_root(&["status", "--json"]).unwrap();
    let document: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(document["root_journal"], "/var/lib/tcptailor", "{document}");

    for args in [
        &["rollback"][..],
        &["rollback", "--all"],
        &["rollback", "3"],
        &["confirm"],
        &["confirm", "3"],
    ] {
        let refused = place.beside_root(&[args, &["--json"]].concat()).unwrap();
        let document: Value = serde_json::from_slice(&refused.stdout).unwrap();
        let error = &document["error"];
        assert_eq!(
            error["code"], "missing-permission-or-feature",
            "{args:?}: {error}"
        );
        let hint = error["hint"].as_str().unwrap();
        assert!(
            hint.contains(&format!("`sudo tcptailor {}`", args.join(" "))),
            "{hint}"
        );
        assert_eq!(refused.status.code(), Some(4), "{args:?}: {error}");
    }
    let recover = place.beside_root(&["recover"]).unwrap();
    let said = text(&recover.stderr);
    assert!(said.contains("type `sudo tcptailor recover`"), "{said}");
    assert_eq!(recover.status.code(), Some(0), "{said}");
}

/// The plan fits as well as before: who may not look cannot tell, and a new plan would not help.
#[test]
fn a_plan_for_a_process_of_another_user_needs_a_permission() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let key = json!({
        "local": client.local_addr().unwrap(),
        "remote": client.peer_addr().unwrap(),
    });
    let pid = std::process::id();
    let target = json!({
        "scope": "socket",
        "netns": {"of-process": pid},
        "pid": pid,
        "cookie": 1,
        "key": key,
    });
    let change = json!({"target": target, "knob": "nodelay", "to": true});
    let plan = json!({"schema": "tcptailor/plan/2", "changes": [change]});
    fs::write(place.path("plan.json"), plan.to_string()).unwrap();
    let plan = place.path("plan.json");
    let plan = plan.to_str().unwrap();
    let run = |more: &[&str]| {
        let mut command = Command::new(place.path("tcptailor"));
        command.args(["apply", plan]).args(more).current_dir("/");
        command.env("TCPTAILOR_STATE", place.path("state"));
        command.uid(USER).gid(USER).output()
    };
    let Some(refused) = asking::may("becoming another user", run(&["--json"])) else {
        return;
    };
    if linux::privilege::user_id() == USER {
        return asking::skip("this test runs as that other user");
    }
    let document: Value = serde_json::from_slice(&refused.stdout).unwrap();
    let error = &document["error"];
    assert_eq!(error["code"], "missing-permission-or-feature", "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(" needs "), "{message}");
    assert!(!message.contains("does not fit"), "{message}");
    let hint = error["hint"].as_str().unwrap();
    // With all its options: a dry run is to stay one.
    assert_eq!(hint, "Type the same command behind `sudo`.");
    assert_eq!(refused.status.code(), Some(4));
    let said = text(&run(&["-n"]).unwrap().stderr);
    assert!(said.contains(hint), "{said}");
}

/// A limit of a file's size stands for a full disk.
#[test]
fn a_full_disk_leaves_no_empty_result() {
    let place = Place::new();
    let limited = |args: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]);
        command.arg(place.path("tcptailor")).args(args);
        command.env("TCPTAILOR_STATE", place.path("state"));
        let output = command.output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        said
    };
    let path = place.path("result");
    let shown = path.to_str().unwrap();
    let check = |args: &[&str]| {
        let said = limited(args);
        let expected = format!("writing {shown}: File too large");
        assert!(said.contains(&expected), "{args:?}: {said}");
        assert!(!said.contains(".tmp"), "{args:?}: {said}");
        assert!(!path.exists(), "{args:?}: nothing is left");
    };
    check(&["diagnose", "-t", "1s", "-o", shown]);
    check(&["run", "-o", shown, "--", "true"]);
    let lab = [
        "lab", "run", "lan-wwr", "--engine", "virtual", "--runs", "1",
    ];
    check(&[&lab[..], &["--html", shown]].concat());
}
