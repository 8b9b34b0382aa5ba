//! Killed at every step of making and of removing the files: everything is there, or nothing.
//!
//! The test binary starts itself again as the victim, inside the machine.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use linux::journal::{Entry, Guard, Status};
use linux::{Journal, Persistence, Plan};

use crate::machine::{Disk, Machine, NETWORK};
use crate::{FILES, everything, write_plan};

/// The number of SIGKILL.
const KILL: i32 = 9;
const VICTIM: &str = "TCPTAILOR_TEST_PERSIST_VICTIM";

/// Does what `apply --persist` or `rollback` does, and dies at a step. Does nothing in an ordinary
/// run.
#[test]
fn victim() {
    let Ok(order) = std::env::var(VICTIM) else {
        return;
    };
    let words: Vec<&str> = order.split(' ').collect();
    let [disk, die_at, work, is_guarded] = words[..] else {
        panic!("not an order: {order}")
    };
    let (disk, die_at) = (Path::new(disk), die_at.parse::<usize>().unwrap());
    let program = disk.join("tcptailor");
    let plan = Plan::read(&disk.join("plan.json")).unwrap();
    let mut journal = Journal::open(disk.join("state")).unwrap();
    let persist = |journal: &Journal| {
        let persistence = Persistence::of(&plan.changes(), &program).unwrap();
        let mut transaction = journal.begin("a test").unwrap();
        transaction.apply_all(&plan.changes()).unwrap();
        persistence.write(&mut transaction, "a test").unwrap();
        transaction.keep().unwrap();
    };
    if work == "rollback" {
        persist(&journal);
    }
    let _guard = (is_guarded == "guarded").then(|| {
        let mut command = Command::new(&program);
        Guard::start(command.arg("guard").arg(disk.join("state"))).unwrap()
    });
    let mut step = 0;
    journal.on_step(move |_| {
        if step == die_at {
            die();
        }
        step += 1;
    });
    match work {
        "rollback" => drop(journal.roll_back(1).unwrap()),
        _ => persist(&journal),
    }
}

/// Ends this process as `kill -9` does.
fn die() -> ! {
    let pid = std::process::id().to_string();
    Command::new("kill").args(["-KILL", &pid]).status().unwrap();
    unreachable!("nobody survives it")
}

/// Whether the victim was killed; waits until its guard has ended as well.
fn run_victim(machine: &Machine, disk: &Disk, die_at: usize, work: &str, guarded: &str) -> bool {
    fs::remove_dir_all(disk.state()).ok();
    let order = format!("{} {die_at} {work} {guarded}", disk.path().display());
    let output = machine
        .command(std::env::current_exe().unwrap())
        .args(["--exact", "kills::victim", "--nocapture"])
        .env(VICTIM, order)
        .env("TCPTAILOR_ETC", disk.etc())
        .stdout(Stdio::null())
        // The guard has it as well, so that its end is the end of both.
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let killed = output.status.signal() == Some(KILL);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(killed || output.status.success(), "{work}: {told}");
    killed
}

/// Who finishes what the victim has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finisher {
    /// A process of its own, at once.
    Guard,
    /// The next command.
    NextCommand,
    /// The next command, after the machine was started again: the values are gone by themselves.
    NextBoot,
}

/// Kills at every step, and returns how often.
fn kill_everywhere(work: &str, finisher: Finisher) -> Option<usize> {
    let disk = Disk::new();
    let machine = Machine::boot(&disk, 1, NETWORK)?;
    let next = Machine::boot(&disk, 2, NETWORK)?;
    let chosen = ["net.ipv4.tcp_rmem", "link.mtu"].map(|knob| {
        let mut all = everything().into_iter();
        all.find(|change| change["knob"] == knob).unwrap()
    });
    write_plan(&disk, &chosen);
    let before = machine.snapshot();
    let rmem = machine.sh("cat /proc/sys/net/ipv4/tcp_rmem");
    let guarded = match finisher {
        Finisher::Guard => "guarded",
        _ => "alone",
    };
    for die_at in 0.. {
        let killed = run_victim(&machine, &disk, die_at, work, guarded);
        match finisher {
            Finisher::Guard => {}
            Finisher::NextCommand => drop(machine.run(&disk, &["status"])),
            Finisher::NextBoot => drop(next.run(&disk, &["status"])),
        }
        let when = format!("{work}, {finisher:?}, killed at step {die_at}");
        let history = Journal::open(disk.state()).unwrap().history().unwrap();
        match history.entries.last().map(Entry::status) {
            // It died before or after the decision was on the disk, which stands.
            Some(Status::Kept) => {
                assert_eq!(disk.files(), FILES, "{when}");
                assert_ne!(machine.snapshot(), before, "{when}");
                let by = if finisher == Finisher::NextBoot {
                    &next
                } else {
                    &machine
                };
                by.json(&disk, &["rollback"]);
            }
            Some(Status::RolledBack) | None => {}
            other => panic!("{when}: {other:?}"),
        }
        assert_eq!(disk.files(), [""; 0], "{when}");
        if finisher == Finisher::NextBoot {
            // What a boot would have done.
            machine.sh(&format!(
                "echo '{}' > /proc/sys/net/ipv4/tcp_rmem; ip link set v0 mtu 1500",
                rmem.trim_end()
            ));
        }
        assert_eq!(machine.snapshot(), before, "{when}");
        if !killed {
            return Some(die_at);
        }
    }
    unreachable!("a work has an end")
}

fn check(work: &str) {
    for finisher in [Finisher::Guard, Finisher::NextCommand, Finisher::NextBoot] {
        let Some(times) = kill_everywhere(work, finisher) else {
            return;
        };
        println!("{work}, {finisher:?}: killed {times} times");
        // Ten files and directories, five steps each and more, beside those of two values.
        assert!(times >= 50, "{work}, {finisher:?}: {times}");
    }
}

#[test]
fn killed_at_every_step_of_making_everything_is_there_or_nothing() {
    check("persist");
}

#[test]
fn killed_at_every_step_of_removing_everything_is_there_or_nothing() {
    check("rollback");
}
