//! The journal and the actuators on the real kernel: a namespace with links, queues, routes and a
//! connection of another process; changes of every scope; killed at every step, and recovered.
//!
//! The test binary starts itself again as the holder of the namespace and as the victim.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../asking/mod.rs"]
mod asking;
mod holder;
mod routes;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use base::{Change, KNOBS, Netns, Target, find_knob};
use linux::journal::Status;
use linux::{Journal, Plan};
use rustix::process::{Signal, getpid, kill_process};

use holder::Holder;

const VICTIM: &str = "TCPTAILOR_TEST_VICTIM";

/// One change of every actuator, several of them on the same target.
fn changes(holder: &Holder) -> Vec<Change> {
    let netns = || Netns::OfProcess(holder.pid());
    let route = |destination: &str| Target::Route {
        netns: netns(),
        destination: destination.into(),
    };
    let link = || Target::Link {
        netns: netns(),
        name: "v0".into(),
    };
    let qdisc = |link: &str| Target::Qdisc {
        netns: netns(),
        link: link.into(),
    };
    let socket = || holder.socket();
    let namespace = || Target::Namespace { netns: netns() };
    let rows: Vec<(Target, &str, &str)> = vec![
        (socket(), "nodelay", "on"),
        (socket(), "cork", "on"),
        (socket(), "congestion", "reno"),
        (socket(), "sndbuf", "64KiB"),
        (socket(), "rcvbuf", "100000"),
        (socket(), "buf_lock", "0"),
        (socket(), "notsent_lowat", "16KiB"),
        (socket(), "delack_max", "9ms"),
        (route("10.50.0.0/16"), "route.initcwnd", "32"),
        (route("10.99.1.0/24"), "route.rto_min", "10ms"),
        (route("10.99.1.77"), "route.quickack", "on"),
        (route("10.99.1.77"), "route.congctl", "reno"),
        (route("fd50::/32"), "route.advmss", "1000"),
        (route("fd99::77"), "route.initrwnd", "40"),
        (route("default"), "route.mtu", "1400"),
        (link(), "link.mtu", "1400"),
        (link(), "link.txqueuelen", "77"),
        (qdisc("v0"), "qdisc.limit", "50000"),
        (qdisc("v1"), "qdisc.limit", "50"),
        (namespace(), "net.ipv4.tcp_rmem", "4096 100000 25165824"),
        (namespace(), "net.ipv4.tcp_slow_start_after_idle", "off"),
    ];
    rows.into_iter().map(change).collect()
}

/// The knobs that [`changes`] leaves out, whose actuators are the same.
fn other_changes(holder: &Holder) -> Vec<Change> {
    let rows = [
        ("net.ipv4.tcp_wmem", "4096 20000 8388608"),
        ("net.ipv4.tcp_window_scaling", "off"),
        ("net.ipv4.tcp_sack", "off"),
        ("net.ipv4.tcp_timestamps", "2"),
        ("net.ipv4.tcp_mtu_probing", "1"),
        ("net.ipv4.tcp_moderate_rcvbuf", "off"),
        ("net.ipv4.tcp_autocorking", "off"),
        ("net.ipv4.tcp_no_metrics_save", "on"),
    ];
    let netns = || Netns::OfProcess(holder.pid());
    let mut changes: Vec<Change> = rows
        .into_iter()
        .map(|(knob, value)| change((Target::Namespace { netns: netns() }, knob, value)))
        .collect();
    changes.push(change((holder.socket(), "quickack", "off")));
    changes
}

fn change((target, knob, value): (Target, &str, &str)) -> Change {
    Change {
        target,
        knob: knob.into(),
        to: find_knob(knob).unwrap().parse(value).unwrap(),
    }
}

/// The victim: applies a plan and dies at a step. Does nothing in an ordinary run.
#[test]
fn victim() {
    let Ok(order) = std::env::var(VICTIM) else {
        return;
    };
    let mut words = order.split(' ');
    let directory = Path::new(words.next().unwrap()).to_owned();
    let die_at: usize = words.next().unwrap().parse().unwrap();
    let rolls_back = words.next() == Some("roll-back");

    let plan = Plan::read(&directory.join("plan.json")).unwrap();
    let mut journal = Journal::open(&directory).unwrap();
    let mut step = 0;
    let note = directory.join("died-at");
    journal.on_step(move |name| {
        if step == die_at {
            fs::write(&note, name).unwrap();
            kill_process(getpid(), Signal::KILL).unwrap();
        }
        step += 1;
    });
    let mut transaction = journal.begin("a test").unwrap();
    transaction.apply_all(&plan.changes).unwrap();
    if rolls_back {
        transaction.roll_back();
    } else {
        transaction.keep().unwrap();
    }
    fs::write(directory.join("steps"), "done").unwrap();
}

/// The state as it was at the start, or the lines that differ.
#[track_caller]
fn assert_same(now: &str, start: &str, when: &str) {
    let only_in = |one: &str, other: &str| {
        let missing = |line: &&str| !other.lines().any(|found| found == *line);
        one.lines().filter(missing).collect::<Vec<_>>().join("\n  ")
    };
    assert!(
        now == start,
        "{when}\nat the start:\n  {}\nnow:\n  {}",
        only_in(start, now),
        only_in(now, start)
    );
}

/// Lets the victim run until step `die_at`; whether it was killed there.
fn run_victim(directory: &Path, die_at: usize, mode: &str) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .env(VICTIM, format!("{} {die_at} {mode}", directory.display()))
        .stdout(Stdio::null())
        .status()
        .unwrap();
    let killed = status.signal() == Some(Signal::KILL.as_raw());
    assert!(killed || status.success(), "the victim failed: {status}");
    killed
}

/// Kills a victim at step `from` and at every later step, recovers, and compares the whole state
/// with the start. Returns the number of the first step that was not reached.
fn kill_everywhere(holder: &Holder, from: usize, mode: &str) -> usize {
    // Killing a process does not lose what it wrote, so memory will do, and it is fast.
    let memory = Path::new("/dev/shm");
    let directory = tempfile::tempdir_in(memory)
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let plan = serde_json::to_string(&Plan::new(changes(holder))).unwrap();
    fs::write(directory.path().join("plan.json"), plan).unwrap();
    let start = holder.snapshot();
    for die_at in from.. {
        let killed = run_victim(directory.path(), die_at, mode);
        if !killed {
            return die_at;
        }
        cut_last_line(directory.path());
        let journal = Journal::open(directory.path()).unwrap();
        let kept = journal
            .stories()
            .unwrap()
            .last()
            .is_some_and(|story| story.status() == Status::Kept);
        if kept {
            // It died after the decision was on the disk: what was decided stands.
            assert_ne!(holder.snapshot(), start, "step {die_at}");
            let id = journal.stories().unwrap().last().unwrap().id;
            journal.roll_back(id).unwrap();
        }
        for recovered in journal.recover().unwrap() {
            for undone in recovered.undone {
                let how = undone.how.to_string();
                assert!(
                    how.starts_with("restored: ") || how.starts_with("nothing to undo"),
                    "step {die_at}, {}: {how}",
                    undone.change
                );
            }
        }
        assert_same(
            &holder.snapshot(),
            &start,
            &format!("{mode}, killed at step {die_at}"),
        );
        assert!(journal.pending().unwrap().is_empty());
    }
    unreachable!("an apply has an end")
}

/// Where the victim died between writing a line and knowing that it is on the disk, only a part of
/// the line may be there.
fn cut_last_line(directory: &Path) {
    if fs::read_to_string(directory.join("died-at")).unwrap() != "appended" {
        return;
    }
    let mut files: Vec<_> = fs::read_dir(directory.join("txn"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let path = files.last().unwrap();
    let bytes = fs::read(path).unwrap();
    let before = bytes[..bytes.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    fs::write(path, &bytes[..before + (bytes.len() - before) / 2]).unwrap();
}

#[test]
fn killed_at_every_step_and_recovered() {
    let Some(holder) = Holder::start() else {
        return;
    };
    let steps = kill_everywhere(&holder, 0, "keep");
    let count = changes(&holder).len();
    assert!(
        steps > count * 7,
        "begin, then seven steps a change: {steps}"
    );
}

#[test]
fn killed_at_every_step_of_undoing_and_recovered() {
    let Some(holder) = Holder::start() else {
        return;
    };
    let count = changes(&holder).len();
    // Begin (4 steps) and the changes (7 each) are the other test's.
    let steps = kill_everywhere(&holder, 4 + 7 * count, "roll-back");
    assert!(
        steps > 4 + 12 * count,
        "five steps for each undoing: {steps}"
    );
}

#[test]
fn every_change_arrives_and_is_undone() {
    let Some(holder) = Holder::start() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let start = holder.snapshot();
    let journal = Journal::open(directory.path()).unwrap();
    let mut transaction = journal.begin("everything").unwrap();
    let all = [changes(&holder), other_changes(&holder)].concat();
    // The segment size of an open connection cannot be changed; another test asks for it.
    let in_linux = KNOBS.iter().filter(|knob| knob.linux.is_some());
    for knob in in_linux.filter(|knob| knob.name != "mss") {
        let is_tried = all.iter().any(|change| change.knob == knob.name);
        assert!(is_tried, "no change of {}", knob.name);
    }
    let applied = transaction.apply_all(&all).unwrap();
    for applied in &applied {
        assert!(!applied.already, "{}", applied.change);
        // The tick is 4 ms with HZ=250; opening the locks is all that buf_lock=0 says.
        let rounded = applied.change.knob == "delack_max";
        assert!(applied.is_exact() || rounded, "{}", applied.change);
    }
    let now = holder.snapshot();
    for expected in [
        // Everything that the route had is still there.
        "10.50.0.0/16 via 10.99.1.2 dev v0 table main proto 201 scope global metric 50 \
         mtu lock 1300 window 30000 initcwnd 32 features ecn",
        "10.99.1.0/24 dev v0 table main proto kernel scope link src 10.99.1.1 rto_min lock 10ms",
        "10.99.1.77 dev v0 table main proto static scope link src 10.99.1.1 rto_min lock 10ms \
         quickack 1 congctl reno",
        "mtu 1400",
        "qlen 77",
        // Of the shaper, `tc` shows the time that the limit stands for.
        "rate 20Mbit burst 20Kb/1 mpu 0b lat 11.8ms",
        "limit 50p",
    ] {
        assert!(now.contains(expected), "`{expected}` is not in\n{now}");
    }
    for undone in transaction.roll_back() {
        assert!(
            undone.how.to_string().starts_with("restored"),
            "{}",
            undone.how
        );
    }
    assert_same(&holder.snapshot(), &start, "after it");
}

#[test]
fn what_cannot_be_done_says_what_to_do_and_changes_nothing() {
    let Some(holder) = Holder::start() else {
        return;
    };
    let netns = || Netns::OfProcess(holder.pid());
    let directory = tempfile::tempdir().unwrap();
    let start = holder.snapshot();
    let check = |target: Target, knob: &str, value: &str, expected: &str| {
        let change = change((target, knob, value));
        let journal = Journal::open(directory.path()).unwrap();
        let error = journal
            .begin("refused")
            .unwrap()
            .apply(&change)
            .expect_err("it cannot be");
        assert!(error.to_string().contains(expected), "{error}");
        assert_same(&holder.snapshot(), &start, "after it");
    };
    let link = |name: &str| Target::Link {
        netns: netns(),
        name: name.into(),
    };
    let qdisc = |link: &str| Target::Qdisc {
        netns: netns(),
        link: link.into(),
    };
    check(holder.socket(), "mss", "1000", "set route.advmss");
    check(link("v0"), "link.mtu", "1000", "set route.mtu");
    check(link("v9"), "link.mtu", "1400", "`v9` does not exist");
    check(qdisc("lo"), "qdisc.limit", "9", "nothing waits here");
    check(qdisc("v2"), "qdisc.limit", "9", "`tc");
    let gone = Target::Link {
        netns: Netns::Named("tcptailor-no-such".into()),
        name: "v0".into(),
    };
    check(gone, "link.mtu", "1400", "does not exist");
}

#[test]
fn a_namespace_that_is_gone_leaves_nothing_to_undo() {
    let Some(holder) = Holder::start() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let plan = serde_json::to_string(&Plan::new(changes(&holder))).unwrap();
    fs::write(directory.path().join("plan.json"), plan).unwrap();
    let steps = 4 + 7 * changes(&holder).len();
    assert!(run_victim(directory.path(), steps, "keep"));
    drop(holder);
    let journal = Journal::open(directory.path()).unwrap();
    let recovered = journal.recover().unwrap();
    assert!(!recovered[0].undone.is_empty());
    for undone in &recovered[0].undone {
        let how = undone.how.to_string();
        assert!(how.starts_with("nothing left to undo: "), "{how}");
    }
    assert_eq!(journal.recover().unwrap(), []);
}

/// With less and less room for the journal, either everything is applied or nothing.
#[test]
fn a_full_disk_changes_nothing() {
    let Some(holder) = Holder::start() else {
        return;
    };
    let start = holder.snapshot();
    let changes = changes(&holder);
    // A mount namespace of this thread, so that nobody else sees the small file system.
    let outcomes = std::thread::spawn(move || {
        [4, 8, 16, 20, 24, 28, 32, 40, 64, 256].map(|kib| {
            let directory = tempfile::tempdir().unwrap();
            holder::mount_small(directory.path(), kib);
            let outcome = Journal::open(directory.path()).and_then(|journal| {
                let mut transaction = journal.begin("no room")?;
                transaction.apply_all(&changes)?;
                assert_ne!(holder.snapshot(), start, "{kib} KiB");
                transaction.roll_back();
                Ok(())
            });
            assert_same(&holder.snapshot(), &start, &format!("{kib} KiB"));
            holder::unmount(directory.path());
            outcome.map_err(|error| (error.to_string(), error))
        })
    })
    .join()
    .unwrap();
    assert!(outcomes[9].is_ok(), "{:?}", outcomes[9]);
    let refused: Vec<_> = outcomes.iter().filter_map(|o| o.as_ref().err()).collect();
    assert!(refused.len() >= 3, "{refused:?}");
    for (message, _) in refused {
        assert!(message.contains("nothing is changed"), "{message}");
        assert!(message.contains("No space left"), "{message}");
    }
}
