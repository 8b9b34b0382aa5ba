//! Changes that are made again at every boot: started from the files in a fresh machine, listed and
//! removed also after a boot, whole or gone after every kill, and refused where they cannot be.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../../linux/tests/asking/mod.rs"]
mod asking;
mod kills;
mod machine;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use machine::{Disk, Machine, NETWORK};
use serde_json::{Value, json};

/// One change of every kind, in the machine's own namespace.
fn everything() -> Vec<Value> {
    let sysctl = || json!({"scope": "namespace", "netns": "own"});
    let link = || json!({"scope": "link", "netns": "own", "name": "v0"});
    let qdisc = || json!({"scope": "qdisc", "netns": "own", "link": "v0"});
    let route = |to: &str| json!({"scope": "route", "netns": "own", "destination": to});
    let rows = [
        (
            sysctl(),
            "net.ipv4.tcp_rmem",
            json!([4096, 100_000, 25_165_824]),
        ),
        (sysctl(), "net.ipv4.tcp_slow_start_after_idle", json!(false)),
        (link(), "link.mtu", json!(1400)),
        (link(), "link.txqueuelen", json!(77)),
        (qdisc(), "qdisc.limit", json!(50)),
        (route("10.50.0.0/16"), "route.initcwnd", json!(32)),
        // One that has to be made.
        (route("10.98.1.77"), "route.rto_min", json!(10_000)),
    ];
    let change = |(target, knob, to)| json!({"target": target, "knob": knob, "to": to});
    rows.into_iter().map(change).collect()
}

fn write_plan(disk: &Disk, changes: &[Value]) -> String {
    let path = disk.path().join("plan.json");
    let plan = json!({"schema": "tcptailor/plan/2", "changes": changes});
    fs::write(&path, plan.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

const CONF: &str = "sysctl.d/90-tcptailor-000001.conf";
const UNIT: &str = "systemd/system/tcptailor-000001.service";
const FILES: [&str; 4] = [
    CONF,
    "systemd/system/multi-user.target.wants/tcptailor-000001.service",
    UNIT,
    "tcptailor/persist-000001.json",
];

/// The command that systemd would run.
fn exec_start(disk: &Disk) -> Vec<String> {
    let unit = fs::read_to_string(disk.etc().join(UNIT)).unwrap();
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    line.unwrap().split(' ').map(str::to_owned).collect()
}

/// What a boot does with the files.
fn start_from_files(machine: &Machine, disk: &Disk) -> Option<std::process::Output> {
    asking::witness("sysctl")?;
    machine.sh(&format!("sysctl -p {}", disk.etc().join(CONF).display()));
    let words = exec_start(disk);
    Some(
        machine
            .command(&words[0])
            .args(&words[1..])
            .output()
            .unwrap(),
    )
}

#[test]
fn a_fresh_machine_has_the_same_values_and_rollback_removes_the_files() {
    let disk = Disk::new();
    let Some(first) = Machine::boot(&disk, 1, NETWORK) else {
        return;
    };
    let before = first.snapshot();
    let plan = write_plan(&disk, &everything());
    let dry = first.json(&disk, &["apply", &plan, "--persist", "--dry-run"]);
    assert_eq!(dry["files"].as_array().map(Vec::len), Some(4), "{dry}");
    assert_eq!(disk.files(), [""; 0]);
    let applied = first.json(&disk, &["apply", &plan, "--persist"]);
    assert_eq!(applied["transaction"], 1);
    let now = first.snapshot();
    assert_ne!(now, before);
    assert_eq!(disk.files(), FILES);
    for file in FILES {
        let meta = fs::metadata(disk.etc().join(file)).unwrap();
        assert_eq!(meta.permissions().mode() & 0o777, 0o644, "{file}");
    }
    let enabled = fs::read_link(disk.etc().join(FILES[1])).unwrap();
    assert_eq!(enabled, disk.etc().join(UNIT));
    verify_unit(&disk);
    // Where everything is so already, the files are made all the same.
    let again = first.json(&disk, &["apply", &plan, "--persist"]);
    assert_eq!(again["changes"][0]["already"], true);
    assert_eq!(disk.files().len(), 8);
    let undone = first.json(&disk, &["rollback"]);
    assert_eq!(undone["transactions"][0]["id"], 2);
    assert_eq!(disk.files(), FILES);
    assert_eq!(first.snapshot(), now);
    drop(first);

    let Some(second) = Machine::boot(&disk, 2, NETWORK) else {
        return;
    };
    assert_eq!(second.snapshot(), before);
    let Some(output) = start_from_files(&second, &disk) else {
        return;
    };
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}");
    assert_eq!(second.snapshot(), now, "{told}");
    // A boot leaves nothing in the journal.
    let status = second.json(&disk, &["status", "--all"]);
    let transactions = status["transactions"].as_array().unwrap();
    assert_eq!(transactions.len(), 2, "{status}");

    let states = |machine: &Machine| {
        let status = machine.json(&disk, &["status"]);
        let changes = status["transactions"][0]["changes"].as_array().unwrap();
        let states = changes.iter().map(|change| change["presence"].as_str());
        states
            .map(|state| state.unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(states(&second), ["in force, set again at boot"; 7]);
    second.sh("ip link set v0 mtu 1450");
    assert_eq!(states(&second)[2], "not in force since the boot: 1450");

    all_but_what_was_edited_is_removed(&second, &disk);
}

/// Edits one of the files, and rolls back.
fn all_but_what_was_edited_is_removed(second: &Machine, disk: &Disk) {
    let conf = disk.etc().join(CONF);
    let edited = fs::read_to_string(&conf).unwrap() + "# mine\n";
    fs::write(&conf, edited).unwrap();
    let status = second.json(disk, &["status"]);
    let files = &status["transactions"][0]["files"];
    let states = files.as_array().unwrap().iter().map(|file| &file["state"]);
    let states: Vec<&Value> = states.collect();
    let expected = ["changed since", "as written", "as written", "as written"];
    assert_eq!(states, expected, "{status}");
    let output = second.run(disk, &["rollback"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains("stays in force until the next boot"),
        "{told}"
    );
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        told.contains("left alone: it has been changed since"),
        "{told}"
    );
    assert!(output.status.success(), "{told}");
    assert_eq!(disk.files(), [CONF]);
    let status = second.json(disk, &["status"]);
    assert_eq!(status["transactions"], json!([]));
}

/// Asks systemd, where it is installed.
fn verify_unit(disk: &Disk) {
    let Some(mut analyze) = asking::witness("systemd-analyze") else {
        return;
    };
    let unit = disk.etc().join(UNIT);
    let output = analyze.arg("verify").arg(&unit).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(!told.contains("tcptailor"), "{told}");
}

#[test]
fn what_is_not_there_yet_is_waited_for_and_the_rest_is_set() {
    let disk = Disk::new();
    let Some(first) = Machine::boot(&disk, 1, NETWORK) else {
        return;
    };
    let plan = write_plan(&disk, &everything());
    first.json(&disk, &["apply", &plan, "--persist"]);
    let expected = first.sh("ip -o link show v0 | grep -o 'mtu [0-9]*'; ip route show");
    drop(first);
    let Some(late) = Machine::boot(&disk, 2, "ip link set lo up") else {
        return;
    };
    let words = exec_start(&disk);
    let mut unit = late.command(&words[0]);
    let unit = unit
        .args(&words[1..])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    late.sh(NETWORK);
    let output = unit.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}");
    let now = late.sh("ip -o link show v0 | grep -o 'mtu [0-9]*'; ip route show");
    assert_eq!(now, expected);
    drop(late);

    // One that cannot be set is told, and costs itself only.
    let plan = disk.etc().join("tcptailor/persist-000001.json");
    let text = fs::read_to_string(&plan).unwrap();
    let wrong = text
        .replace("route.initcwnd", "route.congctl")
        .replace("\"to\": 32", "\"to\": \"nosuch\"");
    assert_ne!(text, wrong);
    fs::write(&plan, wrong).unwrap();
    let Some(other) = Machine::boot(&disk, 3, NETWORK) else {
        return;
    };
    let output = other.command(&words[0]).args(&words[1..]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert_eq!(told.matches("NOT set").count(), 1, "{told}");
    let now = other.sh("ip -o link show v0 | grep -o 'mtu [0-9]*'; ip route show");
    assert!(
        now.contains("mtu 1400") && now.contains("rto_min lock 10ms"),
        "{now}"
    );
}

#[test]
fn a_file_that_wins_at_boot_is_named() {
    let disk = Disk::new();
    let Some(machine) = Machine::boot(&disk, 1, NETWORK) else {
        return;
    };
    let theirs = disk.etc().join("sysctl.d/99-theirs.conf");
    fs::create_dir(theirs.parent().unwrap()).unwrap();
    fs::write(&theirs, "net.ipv4.tcp_rmem = 4096 8192 16384\n").unwrap();
    let plan = write_plan(&disk, &everything());
    let output = machine.run(&disk, &["apply", &plan, "--persist"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "99-theirs.conf sets net.ipv4.tcp_rmem as well and is read later";
    assert!(told.contains(expected), "{told}");
    assert!(!told.contains("tcp_slow_start_after_idle"), "{told}");
    machine.json(&disk, &["rollback"]);
    assert_eq!(disk.files(), ["sysctl.d/99-theirs.conf"]);
}

#[test]
fn a_trial_that_ends_takes_the_files_with_it() {
    let disk = Disk::new();
    let Some(machine) = Machine::boot(&disk, 1, NETWORK) else {
        return;
    };
    let before = machine.snapshot();
    let plan = write_plan(&disk, &everything());
    let args = ["apply", &plan, "--persist", "--confirm-within", "300s"];
    machine.json(&disk, &args);
    assert_eq!(disk.files(), FILES);
    machine.json(&disk, &["rollback"]);
    assert_eq!(disk.files(), [""; 0]);
    assert_eq!(machine.snapshot(), before);
    machine.json(&disk, &args);
    drop(machine);
    // The machine was restarted before a confirmation: the next command ends the trial.
    let Some(next) = Machine::boot(&disk, 2, NETWORK) else {
        return;
    };
    let output = next.run(&disk, &["status"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("not confirmed"), "{told}");
    assert_eq!(disk.files(), [""; 0]);
}

/// A plan that is refused, and nothing is changed.
#[track_caller]
fn check_refused(machine: &Machine, disk: &Disk, changes: &[Value], expected: &str) {
    let before = machine.snapshot();
    let plan = write_plan(disk, changes);
    let output = machine.run(disk, &["apply", &plan, "--persist"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains(expected), "{told}");
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert_eq!(machine.snapshot(), before, "{expected}");
    let status = machine.json(disk, &["status"]);
    assert_eq!(status["transactions"], json!([]), "{expected}");
}

#[test]
fn what_ends_with_something_else_is_refused() {
    let disk = Disk::new();
    let Some(machine) = Machine::boot(&disk, 1, NETWORK) else {
        return;
    };
    let check = |changes: &[Value], expected: &str| {
        check_refused(&machine, &disk, changes, expected);
        assert_eq!(disk.files(), [""; 0]);
    };
    let socket = json!({
        "target": {"scope": "socket", "netns": "own", "pid": 1, "cookie": 7, "key":
            {"local": "10.98.1.1:1", "remote": "10.98.1.2:2"}},
        "knob": "nodelay", "to": true,
    });
    let with_socket = [everything(), vec![socket]].concat();
    check(&with_socket, "`tcptailor run --set nodelay=on -- CMD`");
    // A namespace with a name, and one of a process.
    let named = json!({"scope": "namespace", "netns": {"named": "other"}});
    let of_process = |pid: &Value| json!({"scope": "namespace", "netns": {"of-process": pid}});
    let sack = |target: Value| json!({"target": target, "knob": "net.ipv4.tcp_sack", "to": false});
    machine.sh("mount -t tmpfs none /run; ip netns add other");
    check(&[sack(named)], "is made again at every boot");
    machine.sh("ip netns exec other sleep 60 >&- 2>&- &
         own=$(readlink /proc/1/ns/net)
         while [ \"$(readlink /proc/$!/ns/net)\" = \"$own\" ]; do sleep 0.02; done
         echo $! > /run/pid");
    let pid = serde_json::from_str(&machine.sh("cat /run/pid")).unwrap();
    check(&[sack(of_process(&pid))], "ends with its processes");
    machine.sh("kill $(cat /run/pid)");
}

#[test]
fn where_a_file_cannot_be_made_nothing_is_changed() {
    let disk = Disk::new();
    let Some(machine) = Machine::boot(&disk, 1, NETWORK) else {
        return;
    };
    let check = |expected: &str| check_refused(&machine, &disk, &everything(), expected);
    // A foreign file, under each of the names.
    for file in FILES {
        fs::create_dir_all(disk.etc().join(file).parent().unwrap()).unwrap();
        for id in 1..40 {
            let name = file.replace("000001", &format!("{id:06}"));
            fs::write(disk.etc().join(name), "theirs").unwrap();
        }
        check("which this journal has not made");
        for id in 1..40 {
            let name = file.replace("000001", &format!("{id:06}"));
            assert_eq!(
                fs::read_to_string(disk.etc().join(&name)).unwrap(),
                "theirs"
            );
            fs::remove_file(disk.etc().join(name)).unwrap();
        }
    }
    let mounted = |options: &str| {
        let etc = disk.etc().display().to_string();
        machine.sh(&format!("mount -t tmpfs -o {options} none {etc}"));
    };
    let unmount = || machine.sh(&format!("umount {}", disk.etc().display()));
    mounted("ro");
    check("Read-only file system");
    unmount();
    // Room for some of the files only.
    for inodes in 2..10 {
        mounted(&format!("nr_inodes={inodes}"));
        check("No space left on device");
        let left = machine.sh(&format!("find {} -mindepth 1", disk.etc().display()));
        assert_eq!(left, "", "{inodes} inodes");
        unmount();
    }
}

#[test]
fn an_ordinary_user_is_told_to_be_root() {
    let disk = Disk::new();
    let plan = write_plan(&disk, &everything());
    fs::set_permissions(disk.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = std::process::Command::new(disk.program());
    command.args(["apply", &plan, "--persist"]);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(65_534).gid(65_534);
    }
    let state = tempfile::tempdir().unwrap();
    let output = command
        .env("TCPTAILOR_ETC", disk.etc())
        .env("TCPTAILOR_STATE", state.path().join("none"))
        .output();
    let Some(output) = asking::may("becoming another user", output) else {
        return;
    };
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("needs root"), "{told}");
    assert_eq!(output.status.code(), Some(4), "{told}");
    assert_eq!(disk.files(), [""; 0]);
}
