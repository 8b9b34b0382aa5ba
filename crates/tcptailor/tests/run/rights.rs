//! What an ordinary user may do, and what a filter costs a program of root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{asking, client, may_be_shown_calls, report, serve, stdout};

/// The user `nobody`.
const USER: u32 = 65_534;

/// The directories of our PATH may be closed to others.
fn real_grep() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder| folder.join("grep"));
    let found = found.find(|path| path.is_file()).expect("grep");
    fs::canonicalize(found).expect("it is there")
}

/// Where the tests run as an ordinary user, all others show the same.
#[test]
fn an_ordinary_user_can_do_it_too() {
    if linux::privilege::user_id() != 0 || !may_be_shown_calls() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let place = |name: &str| folder.path().join(name);
    let allow = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own file");
    };
    allow(folder.path(), 0o755);
    fs::copy(env!("CARGO_BIN_EXE_tcptailor"), place("tcptailor")).expect("room");
    let as_user = |args: &[&str]| {
        let mut command = Command::new(place("tcptailor"));
        command.args(args).current_dir("/").uid(USER).gid(USER);
        command.output()
    };
    if asking::may("becoming another user", as_user(&["--version"])).is_none() {
        return;
    }
    let run = |args: &[&str]| {
        let output = as_user(&[&["run", "--json"], args].concat()).expect("it ran before");
        // First the program's own output, then the document.
        let all = stdout(&output);
        let (text, document) = all.split_at(all.find('{').expect("a document"));
        let document: Value = serde_json::from_str(document).expect("JSON");
        (text.to_owned(), document)
    };
    // It pays with the right to gain privileges, which a set-uid program needs.
    let original = real_grep();
    let plain = original.to_str().expect("UTF-8");
    let (text, document) = run(&["--", plain, "NoNewPrivs", "/proc/self/status"]);
    assert_eq!(text, "NoNewPrivs:\t1\n", "{document:#}");
    let grep = place("set-uid-grep");
    fs::copy(&original, &grep).expect("room");
    allow(&grep, 0o4755);
    let grep = grep.to_str().expect("UTF-8");
    let (text, document) = run(&["--", grep, "NoNewPrivs", "/proc/self/status"]);
    assert_eq!(text, "NoNewPrivs:\t0\n", "{document:#}");
    let reason = document["attribution"]["reason"].as_str();
    assert!(
        reason.is_some_and(|why| why.ends_with("is set-uid")),
        "{reason:?}"
    );

    let Some(client) = client(folder.path()) else {
        return;
    };
    let port = serve().to_string();
    let command = [
        "--set",
        "nodelay=on",
        "--",
        &*client,
        "127.0.0.1",
        &port,
        "1",
    ];
    let (text, document) = run(&[&command[..], &["nodelay=0", "connections=20"]].concat());
    assert_eq!(text, "nodelay 1, buffers locked 0\n");
    assert_eq!(document["settings"][0]["set"], 20, "{document:#}");
    // The kernel keeps less for him of what it tells of closed sockets; what is lost is counted.
    let seen = document["counts"]["connections"].as_u64();
    let unseen = document["attribution"]["unseen"].as_u64();
    let all = seen.zip(unseen).map(|(seen, unseen)| seen + unseen);
    assert_eq!(all, Some(20), "{document:#}");
    assert!(seen > unseen, "{document:#}");
}

/// As root the program keeps every right that it has.
#[test]
fn a_filter_of_root_takes_nothing_from_the_program() {
    if linux::privilege::user_id() != 0 || !may_be_shown_calls() {
        return;
    }
    if !linux::Capabilities::probe().has("CAP_SYS_ADMIN") {
        return asking::skip("a filter without no_new_privs needs CAP_SYS_ADMIN");
    }
    let (output, document) = report(&[], &["grep", "NoNewPrivs", "/proc/self/status"]);
    assert_eq!(document["attribution"]["by"], "calls");
    assert_eq!(stdout(&output), "NoNewPrivs:\t0\n");
}
