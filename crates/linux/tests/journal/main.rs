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
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base::{Change, KNOBS, Netns, Scope, Target, find_knob};
use linux::journal::{Entry, Guard, Status, stand_guard};
use linux::{Clock, Journal, Plan};
use rustix::process::{Signal, getpid, kill_process};

use holder::Holder;

const VICTIM: &str = "TCPTAILOR_TEST_VICTIM";
const GUARD: &str = "TCPTAILOR_TEST_GUARD";

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

/// What a victim does before it dies, and what of it counts steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Applies a plan and keeps it; every step counts.
    Keep,
    /// Applies it and undoes it; every step counts.
    RollBack,
    /// Applies it and leaves it on trial; every step counts.
    Lease,
    /// Confirms what is on trial.
    Confirm,
    /// Undoes what was kept.
    RollBackKept,
    /// Undoes what was interrupted.
    Recover,
}

impl Work {
    const ALL: [Self; 6] = [
        Self::Keep,
        Self::RollBack,
        Self::Lease,
        Self::Confirm,
        Self::RollBackKept,
        Self::Recover,
    ];

    /// Does it, in a journal that may kill this process.
    fn run(self, journal: &Journal, plan: &Plan) {
        let applied = || {
            let mut transaction = journal.begin("a test").unwrap();
            transaction.apply_all(&plan.changes()).unwrap();
            transaction
        };
        match self {
            Self::Keep => applied().keep().unwrap(),
            Self::RollBack => drop(applied().roll_back()),
            Self::Lease => applied().lease(Clock.now() + TRIAL).unwrap(),
            Self::Confirm => journal.confirm(1).unwrap(),
            Self::RollBackKept => drop(journal.roll_back(1).unwrap()),
            Self::Recover => drop(journal.recover().unwrap()),
        }
    }

    /// Does what has to be there before.
    fn prepare(self, journal: &Journal, plan: &Plan) {
        match self {
            Self::Confirm => Self::Lease.run(journal, plan),
            Self::RollBackKept => Self::Keep.run(journal, plan),
            _ => {}
        }
    }
}

/// Longer than a test.
const TRIAL: Duration = Duration::from_secs(600);

/// The victim: works and dies at a step. Does nothing in an ordinary run.
#[test]
fn victim() {
    let Ok(order) = std::env::var(VICTIM) else {
        return;
    };
    let words: Vec<&str> = order.split(' ').collect();
    let [directory, die_at, work, is_guarded] = words[..] else {
        panic!("not an order: {order}")
    };
    let directory = Path::new(directory).to_owned();
    let die_at: usize = die_at.parse().unwrap();
    let work = Work::ALL[work.parse::<usize>().unwrap()];

    let plan = Plan::read(&directory.join("plan.json")).unwrap();
    let mut journal = Journal::open(&directory).unwrap();
    work.prepare(&journal, &plan);
    let _guard = (is_guarded == "guarded").then(|| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "guard", "--nocapture"]);
        Guard::start(command.env_remove(VICTIM).env(GUARD, &directory)).unwrap()
    });
    let mut step = 0;
    let note = directory.join("died-at");
    journal.on_step(move |name| {
        if step == die_at {
            fs::write(&note, name).unwrap();
            kill_process(getpid(), Signal::KILL).unwrap();
        }
        step += 1;
    });
    work.run(&journal, &plan);
}

/// The guard of a victim. Does nothing in an ordinary run.
#[test]
fn guard() {
    if let Some(directory) = std::env::var_os(GUARD) {
        stand_guard(Path::new(&directory), &AtomicBool::new(false)).unwrap();
    }
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

/// Lets the victim run until step `die_at`, and waits until its guard has ended as well; whether it
/// was killed there.
fn run_victim(directory: &Path, die_at: usize, work: Work, guarded: &str) -> bool {
    let number = Work::ALL.iter().position(|known| *known == work).unwrap();
    let order = format!("{} {die_at} {number} {guarded}", directory.display());
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .env(VICTIM, order)
        .stdout(Stdio::null())
        // The guard has it as well, so that its end is the end of both.
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let killed = output.status.signal() == Some(Signal::KILL.as_raw());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(killed || output.status.success(), "{work:?}: {told}");
    killed
}

/// A journal on memory with a plan beside it: killing a process does not lose what it wrote, and it
/// is fast.
fn directory_of(changes: &[Change]) -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let directory = tempfile::tempdir_in(memory)
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let plan = serde_json::to_string(&Plan::new(changes.to_vec())).unwrap();
    fs::write(directory.path().join("plan.json"), plan).unwrap();
    directory
}

/// Kills a victim that has no guard at step `from` and at every later step, recovers, and compares
/// the whole state with the start. Returns the number of the first step that was not reached.
fn kill_everywhere(holder: &Holder, from: usize, work: Work) -> usize {
    let directory = directory_of(&changes(holder));
    let start = holder.snapshot();
    for die_at in from.. {
        if !run_victim(directory.path(), die_at, work, "alone") {
            return die_at;
        }
        cut_last_line(directory.path());
        let journal = Journal::open(directory.path()).unwrap();
        let history = journal.history().unwrap();
        if let Some(kept) = history
            .entries
            .last()
            .filter(|e| e.status() == Status::Kept)
        {
            // It died after the decision was on the disk: what was decided stands.
            assert_ne!(holder.snapshot(), start, "step {die_at}");
            journal.roll_back(kept.id).unwrap();
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
        let when = format!("{work:?}, killed at step {die_at}");
        assert_same(&holder.snapshot(), &start, &when);
        let history = journal.history().unwrap();
        assert!(!history.entries.iter().any(Entry::is_interrupted));
    }
    unreachable!("a work has an end")
}

/// Kills a victim at every step and does nothing more: its guard puts everything back. Returns how
/// often it was killed.
fn kill_guarded(holder: &Holder, changes: &[Change], work: Work) -> usize {
    let start = holder.snapshot();
    for die_at in 0.. {
        let directory = directory_of(changes);
        if work == Work::Recover {
            let all = 4 + 7 * changes.len();
            assert!(run_victim(directory.path(), all, Work::Keep, "alone"));
        }
        let killed = run_victim(directory.path(), die_at, work, "guarded");
        let journal = Journal::open(directory.path()).unwrap();
        let history = journal.history().unwrap();
        let status = history.entries.last().map(Entry::status);
        let when = format!("{work:?}, killed at step {die_at}: {status:?}");
        match status {
            // It died before or after the decision was on the disk, which stands.
            Some(Status::Kept)
                if matches!(work, Work::Keep | Work::Confirm | Work::RollBackKept) =>
            {
                assert_ne!(holder.snapshot(), start, "{when}");
                journal.roll_back(1).unwrap();
            }
            Some(Status::RolledBack) | None => {}
            _ => panic!("{when}"),
        }
        assert_same(&holder.snapshot(), &start, &when);
        if !killed {
            return die_at;
        }
    }
    unreachable!("a work has an end")
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
    let steps = kill_everywhere(&holder, 0, Work::Keep);
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
    let steps = kill_everywhere(&holder, 4 + 7 * count, Work::RollBack);
    assert!(
        steps > 4 + 12 * count,
        "five steps for each undoing: {steps}"
    );
}

#[test]
fn a_guard_puts_back_what_a_killed_process_leaves() {
    let Some(holder) = Holder::start() else {
        return;
    };
    // One of each kind: a socket, a route that has to be made, a link, a queue, a sysctl.
    let all = changes(&holder);
    let wanted = [
        "sndbuf",
        "route.rto_min",
        "link.mtu",
        "qdisc.limit",
        "net.ipv4.tcp_rmem",
    ];
    let one = |knob: &&str| all.iter().find(|change| change.knob == **knob).cloned();
    let some: Vec<Change> = wanted.iter().filter_map(one).collect();
    assert_eq!(some.len(), wanted.len());
    let killed = Work::ALL.map(|work| (work, kill_guarded(&holder, &some, work)));
    println!("killed and put back: {killed:?}");
    for (work, times) in killed {
        // Confirming is one line: before it, while it is written, and when it is on the disk.
        let least = if work == Work::Confirm {
            3
        } else {
            4 * some.len()
        };
        assert!(times >= least, "{work:?}: {times}");
    }
}

#[test]
fn a_trial_that_nobody_confirms_ends_by_itself() {
    let Some(holder) = Holder::start() else {
        return;
    };
    let start = holder.snapshot();
    let some: Vec<Change> = changes(&holder).into_iter().take(2).collect();
    let directory = directory_of(&some);
    let journal = Journal::open(directory.path()).unwrap();
    let guard = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "guard", "--nocapture"]);
        Guard::start(command.env(GUARD, directory.path())).unwrap()
    };
    let begin = |time| {
        let mut transaction = journal.begin("a trial").unwrap();
        transaction.apply_all(&some).unwrap();
        let (id, until) = (transaction.id(), Clock.now() + time);
        transaction.lease(until).unwrap();
        (id, until)
    };
    let status = |id| journal.history().unwrap().entry(id).unwrap().status();
    let wait_while = |id, unwanted| {
        let began = Clock.now();
        while status(id) == unwanted {
            assert!(
                Clock.now().since(began) < Duration::from_secs(60),
                "{unwanted:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    };

    let (confirmed, until) = begin(TRIAL);
    guard().detach(until).unwrap();
    assert_eq!(journal.recover().unwrap(), [], "it is in force");
    journal.confirm(confirmed).unwrap();
    assert_eq!(status(confirmed), Status::Kept);
    let again = journal.confirm(confirmed).expect_err("it is kept");
    assert!(again.to_string().contains("kept already"), "{again}");
    journal.roll_back(confirmed).unwrap();
    assert_same(&holder.snapshot(), &start, "confirmed, then rolled back");

    let (forgotten, until) = begin(Duration::from_millis(1500));
    guard().detach(until).unwrap();
    wait_while(forgotten, Status::Leased);
    wait_while(forgotten, Status::RollingBack);
    assert_same(&holder.snapshot(), &start, "forgotten");
    let late = journal.confirm(forgotten).expect_err("too late");
    assert!(late.to_string().contains("rolled back"), "{late}");

    // Without a guard, the next command ends it.
    let (unguarded, until) = begin(Duration::from_millis(100));
    while Clock.now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let recovered = Journal::recover_in(directory.path()).unwrap();
    assert_eq!(recovered[0].id, unguarded);
    assert_same(&holder.snapshot(), &start, "unguarded");
}

/// Where no descriptor is left for a while, before the end of the trial and after it.
#[test]
fn a_guard_that_cannot_look_for_a_while_ends_the_trial_later() {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let Some(holder) = Holder::start() else {
        return;
    };
    let start = holder.snapshot();
    let directory = directory_of(&[]);
    let journal = Journal::open(directory.path()).unwrap();
    let mut transaction = journal.begin("a trial").unwrap();
    let target = Target::Namespace {
        netns: Netns::OfProcess(holder.pid()),
    };
    transaction
        .apply(&change((target, "net.ipv4.tcp_sack", "off")))
        .unwrap();
    let until = Clock.now() + Duration::from_secs(2);
    transaction.lease(until).unwrap();

    let known = children();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "guard", "--nocapture"]);
    let guard = Guard::start(command.env(GUARD, directory.path())).unwrap();
    let pid = children()
        .into_iter()
        .find(|pid| !known.contains(pid) && is_guard_of(*pid, directory.path()))
        .unwrap();
    let pid = Pid::from_raw(pid).unwrap();
    guard.detach(until).unwrap();
    let usual = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(0),
        ..usual
    };
    prlimit(Some(pid), Resource::Nofile, none).unwrap();
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(
        journal.history().unwrap().entries[0].status(),
        Status::Leased
    );
    prlimit(Some(pid), Resource::Nofile, usual).unwrap();
    let began = Clock.now();
    while journal.history().unwrap().entries[0].status() != Status::RolledBack {
        let waited = Clock.now().since(began);
        assert!(waited < Duration::from_secs(30), "nobody ends the trial");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_same(&holder.snapshot(), &start, "no descriptors for a while");
}

/// A process with nothing left to undo does not wait for those that are changing settings.
#[test]
fn a_guard_with_nothing_to_undo_does_not_wait_for_others() {
    let Some(mut flock) = asking::witness("flock") else {
        return;
    };
    let directory = directory_of(&[]);
    let journal = Journal::open(directory.path()).unwrap();
    let lock = directory.path().join("txn");
    let mut other = flock
        .arg("-F")
        .arg(&lock)
        .args(["sleep", "600"])
        .spawn()
        .unwrap();
    while journal.recover().is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "guard", "--nocapture"]);
    drop(Guard::start(command.env(GUARD, directory.path())).unwrap());
    assert!(other.try_wait().unwrap().is_none(), "it is at work still");
    other.kill().unwrap();
    other.wait().unwrap();
}

/// The children of this process, whichever of its threads has started them.
fn children() -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let lists = tasks.flatten().map(|task| task.path().join("children"));
    let lists: Vec<String> = lists
        .map(|path| fs::read_to_string(path).unwrap_or_default())
        .collect();
    let words = lists.iter().flat_map(|list| list.split_whitespace());
    words.map(|word| word.parse().unwrap()).collect()
}

/// Whether a process is the guard of this journal: other tests have theirs.
fn is_guard_of(pid: i32, directory: &Path) -> bool {
    let expected = format!("{GUARD}={}", directory.display());
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    variables.any(|variable| variable == expected.as_bytes())
}

/// An interface is known by more than its name: the next one of the same name is another one.
#[test]
fn an_interface_that_was_made_anew_is_left_alone() {
    let Some(holder) = Holder::start() else {
        return;
    };
    let netns = || Netns::OfProcess(holder.pid());
    let link = || Target::Link {
        netns: netns(),
        name: "v2".into(),
    };
    let directory = directory_of(&[]);
    let journal = Journal::open(directory.path()).unwrap();
    let mut transaction = journal.begin("the first one").unwrap();
    let changes = [
        change((link(), "link.mtu", "1400")),
        change((link(), "link.txqueuelen", "77")),
    ];
    let (plan, _) = Plan::of_present(changes.to_vec()).unwrap();
    transaction.apply_all(&changes).unwrap();
    transaction.keep().unwrap();
    holder.run("ip link set v2 name v9");
    holder.run("ip link set v9 name v2");
    let history = journal.history().unwrap();
    assert!(history.is_in_force(&history.entries[0]), "it is the same");

    // As a tunnel that is set up again, by its own configuration.
    holder.run("ip link del v2");
    holder.run("ip link add v2 mtu 1400 txqueuelen 77 type veth peer name v3");
    let start = holder.snapshot();
    let history = journal.history().unwrap();
    assert!(!history.is_in_force(&history.entries[0]), "it is gone");
    for undone in journal.roll_back(1).unwrap().undone {
        let how = undone.how.to_string();
        assert!(how.contains("nothing left to undo"), "{how}");
    }
    assert_same(&holder.snapshot(), &start, "an interface of the same name");
    let refused = plan
        .check_present(Path::new("plan.json"))
        .expect_err("it is another one");
    assert!(
        refused.to_string().contains("another interface"),
        "{refused}"
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
    // What belongs to a whole host is not ours to change, and another test asks for it too.
    let in_linux = KNOBS
        .iter()
        .filter(|knob| knob.linux.is_some() && knob.scope < Scope::Host);
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
    let namespace = Target::Namespace { netns: netns() };
    check(namespace, "net.core.rmem_max", "1MiB", "net.core.rmem_max");
}

#[test]
fn a_namespace_that_is_gone_leaves_nothing_to_undo() {
    let Some(holder) = Holder::start() else {
        return;
    };
    let directory = directory_of(&changes(&holder));
    let steps = 4 + 7 * changes(&holder).len();
    assert!(run_victim(directory.path(), steps, Work::Keep, "alone"));
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
    // A mount namespace of this thread, so that no other process sees the small file system.
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
