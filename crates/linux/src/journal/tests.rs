//! The journal on sockets of this very process, without privilege. Killing, namespaces and full
//! disks are in `tests/journal.rs`.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use base::{FlowKey, KnobValue, Netns, Target, find_knob};

use super::*;
use crate::sockopt;

struct Fixture {
    client: TcpStream,
    _server: TcpStream,
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        Self {
            _server: listener.accept().unwrap().0,
            client,
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn journal(&self) -> Journal {
        Journal::open(self.directory.path()).unwrap()
    }

    fn change(&self, knob: &str, value: &str) -> Change {
        Change {
            target: Target::Socket {
                netns: Netns::Own,
                pid: std::process::id(),
                cookie: rustix::net::sockopt::socket_cookie(&self.client).unwrap(),
                key: FlowKey {
                    local: self.client.local_addr().unwrap(),
                    remote: self.client.peer_addr().unwrap(),
                },
            },
            knob: knob.into(),
            to: find_knob(knob).unwrap().parse(value).unwrap(),
        }
    }

    fn state(&self, knob: &str) -> String {
        sockopt::read(self.client.as_fd(), find_knob(knob).unwrap())
            .unwrap()
            .to_string()
    }

    fn file(&self, id: u64) -> PathBuf {
        self.directory.path().join(format!("txn/{id:06}.jsonl"))
    }
}

fn shown(undone: &[Undone]) -> Vec<String> {
    undone
        .iter()
        .map(|undone| format!("{}: {}", undone.change.knob, undone.how))
        .collect()
}

#[test]
fn one_process_at_a_time_experiments() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    assert_eq!(Journal::experimenter_in(fixture.directory.path()), None);
    let running = journal.lock_experiments().unwrap();
    let own = std::process::id();
    let holder = Journal::experimenter_in(fixture.directory.path());
    assert_eq!(holder, Some(own));
    let refused = journal.lock_experiments().err().unwrap();
    assert!(matches!(refused, Error::Experimenting { pid } if pid == own.to_string()));
    // It may change settings meanwhile, as others may between its runs.
    let transaction = journal.begin("a run with the change").unwrap();
    transaction.roll_back();
    drop(running);
    journal.lock_experiments().unwrap();
}

#[test]
fn changes_are_made_recorded_and_undone_backwards() {
    let fixture = Fixture::new();
    let (nodelay, sndbuf) = (fixture.state("nodelay"), fixture.state("sndbuf"));
    let journal = fixture.journal();
    let mut transaction = journal.begin("test").unwrap();
    let changes = [
        fixture.change("nodelay", "on"),
        fixture.change("sndbuf", "1000MiB"),
    ];
    let applied = transaction.apply_all(&changes).unwrap();
    assert!(applied[0].is_exact());
    assert!(
        !applied[1].is_exact(),
        "clipped to wmem_max: {}",
        applied[1].now
    );
    let undone = transaction.roll_back();
    assert_eq!(
        shown(&undone),
        [
            format!("sndbuf: restored: {sndbuf}"),
            "nodelay: restored: off".to_owned()
        ]
    );
    assert_eq!(fixture.state("nodelay"), nodelay);
    assert_eq!(fixture.state("sndbuf"), sndbuf);
    let entries = journal.history().unwrap().entries;
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].status(), Status::RolledBack);
    assert_eq!(entries[0].reason, "test");
}

#[test]
fn what_is_kept_stays_and_can_be_rolled_back_later_but_once() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    let mut transaction = journal.begin("keep").unwrap();
    transaction.apply(&fixture.change("nodelay", "on")).unwrap();
    transaction.verified(true, "44 ms, now 0.1 ms").unwrap();
    let id = transaction.id();
    transaction.keep().unwrap();
    assert_eq!(fixture.state("nodelay"), "on");
    assert_eq!(journal.recover().unwrap(), []);
    assert_eq!(fixture.state("nodelay"), "on");
    let recovered = journal.roll_back(id).unwrap();
    assert_eq!(shown(&recovered.undone), ["nodelay: restored: off"]);
    let again = journal.roll_back(id).expect_err("done");
    assert!(again.to_string().contains("rolled back already"), "{again}");
    let none = journal.roll_back(77).expect_err("none");
    assert!(matches!(none, Error::NotFound { .. }), "{none}");
}

#[test]
fn a_transaction_that_is_dropped_is_undone() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    let mut transaction = journal.begin("dropped").unwrap();
    transaction.apply(&fixture.change("cork", "on")).unwrap();
    assert_eq!(fixture.state("cork"), "on");
    drop(transaction);
    assert_eq!(fixture.state("cork"), "off");
}

#[test]
fn what_is_so_already_is_not_written_and_not_undone() {
    let fixture = Fixture::new();
    fixture.client.set_nodelay(true).unwrap();
    let journal = fixture.journal();
    let mut transaction = journal.begin("no change").unwrap();
    assert!(
        transaction
            .apply(&fixture.change("nodelay", "on"))
            .unwrap()
            .already
    );
    assert_eq!(transaction.roll_back(), []);
    assert_eq!(fixture.state("nodelay"), "on");
}

#[test]
fn a_refused_change_undoes_those_before_it() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    let mut transaction = journal.begin("refused").unwrap();
    let error = transaction
        .apply_all(&[
            fixture.change("nodelay", "on"),
            fixture.change("congestion", "no-such-one"),
        ])
        .expect_err("no such congestion control");
    assert!(error.to_string().contains("congestion control"), "{error}");
    assert_eq!(fixture.state("nodelay"), "off");
}

#[test]
fn what_was_undone_by_another_and_made_anew_belongs_to_the_newer() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    for reason in ["first", "second"] {
        fixture.client.set_nodelay(false).unwrap();
        let mut transaction = journal.begin(reason).unwrap();
        transaction.apply(&fixture.change("nodelay", "on")).unwrap();
        transaction.keep().unwrap();
    }
    let history = journal.history().unwrap();
    let presences = history.entries.iter().flat_map(|entry| &entry.steps);
    let presences: Vec<String> = presences
        .map(|step| history.presence(step).to_string())
        .collect();
    assert_eq!(presences, ["undone", "in force"]);
    journal.roll_back(1).unwrap();
    assert_eq!(fixture.state("nodelay"), "on");
    journal.roll_back(2).unwrap();
    assert_eq!(fixture.state("nodelay"), "off");
}

#[test]
fn what_somebody_else_changed_since_is_left_alone() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    let mut transaction = journal.begin("two masters").unwrap();
    transaction
        .apply_all(&[
            fixture.change("nodelay", "on"),
            fixture.change("notsent_lowat", "16KiB"),
            fixture.change("rcvbuf", "64KiB"),
        ])
        .unwrap();
    let knob = find_knob("notsent_lowat").unwrap();
    sockopt::write(fixture.client.as_fd(), knob, &KnobValue::Number(777)).unwrap();
    let knob = find_knob("rcvbuf").unwrap();
    sockopt::write(fixture.client.as_fd(), knob, &KnobValue::Number(50_000)).unwrap();
    let undone = shown(&transaction.roll_back());
    assert_eq!(
        undone,
        [
            "rcvbuf: left alone: it has been set to 100000, locked since",
            "notsent_lowat: left alone: it has been set to 777 since",
            "nodelay: restored: off",
        ]
    );
    assert_eq!(fixture.state("notsent_lowat"), "777");
}

#[test]
fn a_buffer_that_a_crash_left_half_restored_is_restored() {
    let fixture = Fixture::new();
    let old = fixture.state("sndbuf");
    let bytes: u64 = old.split(',').next().unwrap().parse().unwrap();
    let journal = fixture.journal();
    let mut transaction = journal.begin("half").unwrap();
    transaction
        .apply(&fixture.change("sndbuf", "32KiB"))
        .unwrap();
    // As between the two calls of restoring: the size is back, the lock is not.
    let knob = find_knob("sndbuf").unwrap();
    sockopt::write(fixture.client.as_fd(), knob, &KnobValue::Number(bytes / 2)).unwrap();
    transaction.roll_back();
    assert_eq!(fixture.state("sndbuf"), old);
}

#[test]
fn a_connection_that_is_gone_leaves_nothing_to_undo() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    let mut transaction = journal.begin("gone").unwrap();
    let change = fixture.change("nodelay", "on");
    transaction.apply(&change).unwrap();
    drop(fixture.client);
    let undone = shown(&transaction.roll_back());
    assert!(
        undone[0].contains("nothing left to undo: connection"),
        "{undone:?}"
    );
    let error = journal
        .begin("again")
        .unwrap()
        .apply(&change)
        .expect_err("gone");
    assert!(
        error.to_string().contains("does not exist any more"),
        "{error}"
    );
}

#[test]
fn two_at_once_are_told_apart() {
    let fixture = Fixture::new();
    let (first, second) = (fixture.journal(), fixture.journal());
    let transaction = first.begin("first").unwrap();
    let error = second.begin("second").err().expect("busy");
    let pid = std::process::id().to_string();
    assert!(error.to_string().contains(&pid), "{error}");
    assert!(matches!(second.recover(), Err(Error::Busy { .. })));
    drop(transaction);
    second.begin("second").unwrap();
}

#[test]
fn a_file_cut_anywhere_is_read_up_to_the_last_whole_line() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    let mut transaction = journal.begin("cut").unwrap();
    transaction
        .apply_all(&[
            fixture.change("nodelay", "on"),
            fixture.change("cork", "on"),
        ])
        .unwrap();
    transaction.keep().unwrap();
    let bytes = fs::read(fixture.file(1)).unwrap();
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(lines, 6, "begin, two intents, two outcomes, kept");
    for length in 0..bytes.len() {
        fs::write(fixture.file(1), &bytes[..length]).unwrap();
        let whole = bytes[..length]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        let entry = &journal.history().unwrap().entries[0];
        assert_eq!(
            entry.steps.len(),
            whole.saturating_sub(1).div_ceil(2).min(2)
        );
        assert_eq!(entry.is_interrupted(), whole >= 1, "cut at {length}");
    }
    // The outcome of the second change is cut: only the kernel knows that it was made.
    let ends: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
    fs::write(fixture.file(1), &bytes[..ends[4] - 7]).unwrap();
    let recovered = journal.recover().unwrap();
    assert_eq!(
        shown(&recovered[0].undone),
        ["cork: restored: off", "nodelay: restored: off"]
    );
    assert!(journal.recover().unwrap().is_empty());
    let entries = journal.history().unwrap().entries;
    assert_eq!(entries[0].status(), Status::RolledBack);
}

#[test]
fn a_damaged_file_costs_its_own_record_only() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    let mut transaction = journal.begin("damaged").unwrap();
    transaction.apply(&fixture.change("nodelay", "on")).unwrap();
    transaction.keep().unwrap();
    let good = fs::read_to_string(fixture.file(1)).unwrap();
    let check = |bad: &str, expected: &str| {
        fs::write(fixture.file(1), bad).unwrap();
        assert!(journal.recover().unwrap().is_empty());
        let history = journal.history().unwrap();
        let entry = history.entry(1).expect("what can be read of it counts");
        assert_eq!(entry.status(), Status::Damaged);
        assert!(entry.damage.as_deref().unwrap().contains(expected));
        assert_eq!(fs::read_to_string(fixture.file(1)).unwrap(), bad);
        let id = journal.begin("next").unwrap().id();
        journal.roll_back(id).expect_err("nothing was in it");
    };
    check(&good.replace("nodelay", "nodelax"), "line 2");
    let second = good.split_inclusive('\n').nth(1).unwrap();
    check(&format!("{good}{second}"), "line 5");
    // What can be read of it can be undone.
    let undone = journal.roll_back(1).unwrap().undone;
    assert_eq!(shown(&undone), ["nodelay: restored: off"]);
}

/// What was kept is not undone because the disk has lost a bit.
#[test]
fn no_flipped_bit_makes_a_kept_transaction_an_interrupted_one() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    let mut transaction = journal.begin("flipped").unwrap();
    transaction.apply(&fixture.change("nodelay", "on")).unwrap();
    transaction.keep().unwrap();
    let good = fs::read(fixture.file(1)).unwrap();
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            fs::write(fixture.file(1), &bad).unwrap();
            let history = journal.history().unwrap();
            let entry = history.entry(1);
            assert!(
                entry.is_none_or(|entry| entry.status() == Status::Damaged),
                "bit {bit} of byte {at} of {}: {entry:?}",
                good.len()
            );
        }
    }
}

/// None of these hangs, is followed, or keeps others from their work.
#[test]
fn what_is_no_transaction_is_set_aside_by_name() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    let directory = fixture.directory.path().join("txn");
    let at = |name: &str| directory.join(name);
    fs::write(at("000001.jsonl"), "nonsense\n").unwrap();
    fs::create_dir(at("000002.jsonl")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("000003.jsonl"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    std::os::unix::fs::symlink("/dev/zero", at("000004.jsonl")).unwrap();
    fs::write(at("18446744073709551615.jsonl"), "").unwrap();
    fs::write(at("7.jsonl"), "").unwrap();
    let unusable = journal.history().unwrap().unusable;
    assert_eq!(unusable.len(), 6, "{unusable:?}");
    let mut transaction = journal.begin("beside them").unwrap();
    transaction.apply(&fixture.change("nodelay", "on")).unwrap();
    transaction.roll_back();
    assert_eq!(fixture.state("nodelay"), "off");
    assert!(!at("000003.jsonl").exists(), "it was renamed");
    let history = journal.history().unwrap();
    assert_eq!((history.entries.len(), history.unusable.len()), (1, 6));
}

/// Takes a lease on a file. Opening it meanwhile has to wait for us, or fails if it does not wait
/// (fcntl(2), "Leases"): a temporary fault, such as one of a disk, or a full table of files.
fn leased(path: &Path) -> Option<fs::File> {
    use std::os::fd::AsRawFd;
    /// `include/uapi/linux/fcntl.h`.
    const F_SETSIG: libc::c_int = 10;
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let calls = [
        // What the kernel asks us with ends a process by default; this signal does not.
        (F_SETSIG, libc::SIGURG),
        (libc::F_SETLEASE, libc::F_WRLCK),
    ];
    for (operation, value) in calls {
        // SAFETY: the descriptor is open, and both operations take a number.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), operation, value) };
        if result != 0 {
            crate::asking::skip(std::io::Error::last_os_error());
            return None;
        }
    }
    Some(file)
}

#[test]
fn a_file_that_cannot_be_read_for_a_moment_is_not_set_aside() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    let mut transaction = journal.begin("kept").unwrap();
    transaction.apply(&fixture.change("nodelay", "on")).unwrap();
    transaction.keep().unwrap();
    let Some(lease) = leased(&fixture.file(1)) else {
        return;
    };
    let unusable = journal.history().unwrap().unusable;
    assert_eq!(unusable.len(), 1, "{unusable:?}");
    assert_eq!(journal.recover().unwrap(), []);
    let mut next = journal.begin("on top of it").unwrap();
    assert_eq!(next.id(), 2);
    next.apply(&fixture.change("nodelay", "off")).unwrap();
    next.keep().unwrap();
    drop(lease);
    let history = journal.history().unwrap();
    assert_eq!(history.unusable, [], "it has its name still");
    assert!(history.is_in_force(history.entry(1).expect("it is read again")));
    journal.roll_back(2).unwrap();
    assert_eq!(fixture.state("nodelay"), "on");
    let undone = journal.roll_back(1).unwrap().undone;
    assert_eq!(shown(&undone), ["nodelay: restored: off"]);
}

#[test]
fn another_boot_leaves_nothing_to_undo() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    let mut transaction = journal.begin("before the power cut").unwrap();
    transaction.apply(&fixture.change("nodelay", "on")).unwrap();
    transaction.keep().unwrap();
    let history = journal.history().unwrap();
    let outcome = |change: &dyn Fn(&mut Entry)| {
        let mut history = history.clone();
        change(&mut history.entries[0]);
        let step = history.entries[0].steps[0].clone();
        undo::undo(&history, &step, true).0.to_string()
    };
    let boot = outcome(&|entry| entry.owner.boot_id = "another".into());
    assert!(boot.contains("started again"), "{boot}");
    let gone = outcome(&|entry| entry.steps[0].place.netns_inode = 1);
    assert!(gone.contains("namespace no longer exists"), "{gone}");
    // Another namespace got the inode of the one that is gone.
    if history.entries[0].steps[0].place.netns_cookie.is_some() {
        let other = outcome(&|entry| {
            let place = &mut entry.steps[0].place;
            place.netns_cookie = place.netns_cookie.map(|cookie| cookie + 1);
        });
        assert!(other.contains("namespace no longer exists"), "{other}");
    }
    assert_eq!(fixture.state("nodelay"), "on");
}

/// A was there, then B, C and D were set by one transaction each: in whatever order they are rolled
/// back, A is there at the end, and in between the newest that is left.
#[test]
fn changes_on_top_of_each_other_are_undone_in_any_order() {
    let orders = [
        [1, 2, 3],
        [1, 3, 2],
        [2, 1, 3],
        [2, 3, 1],
        [3, 1, 2],
        [3, 2, 1],
    ];
    for order in orders {
        for knob in ["notsent_lowat", "sndbuf"] {
            let fixture = Fixture::new();
            let journal = fixture.journal();
            let first = fixture.state(knob);
            for value in ["16KiB", "32KiB", "64KiB"] {
                let mut transaction = journal.begin(value).unwrap();
                transaction.apply(&fixture.change(knob, value)).unwrap();
                transaction.keep().unwrap();
            }
            let mut values = vec![first.clone()];
            for id in 1..=3 {
                let history = journal.history().unwrap();
                let step = &history.entry(id).unwrap().steps[0];
                values.push(step.now.as_ref().unwrap().to_string());
            }
            let mut left = vec![0, 1, 2, 3];
            for id in order {
                journal.roll_back(id as u64).unwrap();
                left.retain(|other| *other != id);
                let newest = *left.last().unwrap();
                assert_eq!(
                    fixture.state(knob),
                    values[newest],
                    "{knob}: {order:?} at {id}"
                );
            }
        }
    }
}

/// A rollback that dies between any two of its steps is finished by the next command.
#[test]
fn an_interrupted_rollback_is_finished_by_the_next_start() {
    struct Death;
    let mut deaths = 0;
    for fatal in 0.. {
        let fixture = Fixture::new();
        let mut journal = fixture.journal();
        let mut transaction = journal.begin("kept").unwrap();
        transaction
            .apply_all(&[
                fixture.change("nodelay", "on"),
                fixture.change("cork", "on"),
            ])
            .unwrap();
        transaction.keep().unwrap();
        let mut taken = 0;
        journal.on_step(move |_| {
            if taken == fatal {
                std::panic::panic_any(Death);
            }
            taken += 1;
        });
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            journal.roll_back(1).map(drop)
        }));
        if died.is_ok() {
            break;
        }
        deaths += 1;
        let recovered = Journal::recover_in(fixture.directory.path()).unwrap();
        let states = [fixture.state("nodelay"), fixture.state("cork")];
        // Either the intent to undo was not on the disk yet, or it is finished.
        match recovered.is_empty() {
            true => {
                let entry = &journal.history().unwrap().entries[0];
                let expected = match entry.status() {
                    Status::Kept => "on",
                    _ => "off",
                };
                assert_eq!(states, [expected, expected], "step {fatal}");
            }
            false => assert_eq!(states, ["off", "off"], "step {fatal}"),
        }
        let again = Journal::recover_in(fixture.directory.path()).unwrap();
        assert!(again.is_empty(), "step {fatal}");
    }
    assert!(deaths >= 10, "{deaths} steps");
}

#[test]
fn nothing_in_force_is_forgotten() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    let mut transaction = journal.begin("in force").unwrap();
    transaction.apply(&fixture.change("nodelay", "on")).unwrap();
    transaction.keep().unwrap();
    for _ in 0..HISTORY + 5 {
        journal.begin("one of many").unwrap().keep().unwrap();
    }
    assert_eq!(shown(&journal.roll_back(1).unwrap().undone).len(), 1);
    assert_eq!(fixture.state("nodelay"), "off");
}

#[test]
fn a_file_is_not_forgotten_and_goes_with_its_transaction() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    let path = fixture.directory.path().join("made/a.conf");
    let text = |text: &str| FileContent::Text { text: text.into() };
    let make = |transaction: &mut Transaction, path: &Path| {
        let directory = path.parent().unwrap();
        transaction.make_file(directory, &FileContent::Directory)?;
        transaction.make_file(path, &text("a\n"))
    };
    let mut transaction = journal.begin("files").unwrap();
    make(&mut transaction, &path).unwrap();
    transaction.keep().unwrap();
    let mut second = journal.begin("more files").unwrap();
    let taken = make(&mut second, &path).unwrap_err();
    assert!(taken.to_string().contains("has not made"), "{taken}");
    make(&mut second, &path.with_file_name("b.conf")).unwrap();
    second.keep().unwrap();
    for _ in 0..HISTORY + 5 {
        journal.begin("one of many").unwrap().keep().unwrap();
    }
    let removed = |id| {
        let files = journal.roll_back(id).unwrap().files;
        files.iter().map(|file| file.how.name()).collect::<Vec<_>>()
    };
    // The directory goes with the last file in it, in whichever order that is.
    assert_eq!(removed(1), ["removed", "still-used"]);
    assert!(!path.exists());
    assert_eq!(removed(2), ["removed", "removed", "was-missing"]);
    assert!(!path.parent().unwrap().exists());
    // One that is neither kept nor rolled back takes its files with it.
    let mut dropped = journal.begin("dropped").unwrap();
    make(&mut dropped, &path).unwrap();
    drop(dropped);
    assert!(!path.parent().unwrap().exists());
    let relative = journal
        .begin("x")
        .unwrap()
        .make_file(Path::new("a"), &text(""));
    assert!(
        relative
            .unwrap_err()
            .to_string()
            .contains("not an absolute path")
    );
}

#[test]
fn a_child_that_inherited_the_socket_is_found() {
    use std::process::{Command, Stdio};
    let fixture = Fixture::new();
    let journal = fixture.journal();
    let mut change = fixture.change("nodelay", "on");
    let Target::Socket { pid, .. } = &mut change.target else {
        panic!("a socket");
    };
    // The socket is the standard input of a child, and the change names a process that is gone.
    let held = fixture.client.try_clone().unwrap();
    let mut child = Command::new("sleep")
        .arg("60")
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(held)))
        .spawn()
        .unwrap();
    *pid = child.id();
    let mut transaction = journal.begin("inherited").unwrap();
    transaction.apply(&change).unwrap();
    transaction.keep().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let undone = shown(&journal.roll_back(1).unwrap().undone);
    assert_eq!(undone, ["nodelay: restored: off"]);
    assert_eq!(fixture.state("nodelay"), "off");
}

#[test]
fn history_is_bounded() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    for _ in 0..HISTORY + 5 {
        journal.begin("one of many").unwrap().keep().unwrap();
    }
    let entries = journal.history().unwrap().entries;
    assert_eq!(entries.len(), HISTORY + 1);
    assert_eq!(entries.last().unwrap().id, HISTORY as u64 + 5);
}
