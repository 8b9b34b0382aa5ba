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
    let stories = journal.stories().unwrap();
    assert_eq!(stories.len(), 1);
    assert_eq!(stories[0].status(), Status::RolledBack);
    assert_eq!(stories[0].reason, "test");
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
            "rcvbuf: left alone: somebody else has set it to 100000, locked since",
            "notsent_lowat: left alone: somebody else has set it to 777 since",
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
        let story = &journal.stories().unwrap()[0];
        assert_eq!(
            story.steps.len(),
            whole.saturating_sub(1).div_ceil(2).min(2)
        );
        let unfinished = story.status() == Status::Pending;
        assert_eq!(unfinished, whole >= 1, "cut at {length}");
        // Each attempt costs a wait for the disk.
        if length % 61 == 0 {
            assert_eq!(journal.begin("next").is_err(), unfinished, "{length}");
        }
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
    assert_eq!(journal.stories().unwrap()[0].status(), Status::RolledBack);
}

#[test]
fn a_damaged_file_stops_everything_and_is_not_deleted() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    let mut transaction = journal.begin("damaged").unwrap();
    transaction.apply(&fixture.change("nodelay", "on")).unwrap();
    transaction.keep().unwrap();
    let good = fs::read_to_string(fixture.file(1)).unwrap();
    let check = |bad: &str, expected: &str| {
        fs::write(fixture.file(1), bad).unwrap();
        let journal = fixture.journal();
        for error in [
            journal.recover().map(drop).expect_err("damaged"),
            journal.begin("next").map(drop).expect_err("damaged"),
        ] {
            assert!(error.to_string().contains(expected), "{error}");
            assert!(error.to_string().contains("000001.jsonl"), "{error}");
        }
        assert_eq!(fs::read_to_string(fixture.file(1)).unwrap(), bad);
    };
    check(&good.replace("nodelay", "nodelax"), "line 2 is damaged");
    check(&format!("nonsense\n{good}"), "line 1 is damaged");
    let second = good.split_inclusive('\n').nth(1).unwrap();
    check(&format!("{good}{second}"), "line 5 does not follow");
}

#[test]
fn another_boot_leaves_nothing_to_undo() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    let mut transaction = journal.begin("before the power cut").unwrap();
    transaction.apply(&fixture.change("nodelay", "on")).unwrap();
    let mut step = transaction.story.steps[0].clone();
    let mut owner = transaction.story.owner.clone();
    let outcome = |step: &record::Step, owner: &Owner| undo::undo(step, owner).to_string();
    owner.boot_id = "another".into();
    assert!(outcome(&step, &owner).contains("started again"));
    let owner = transaction.story.owner.clone();
    step.place.process_start_ticks = Some(1);
    assert!(outcome(&step, &owner).contains("the process has ended"));
    step = transaction.story.steps[0].clone();
    step.place.netns_inode = 1;
    assert!(outcome(&step, &owner).contains("namespace is no more"));
    // Another namespace got the inode of the one that is gone.
    step = transaction.story.steps[0].clone();
    step.place.netns_cookie = step.place.netns_cookie.map(|cookie| cookie + 1);
    if step.place.netns_cookie.is_some() {
        assert!(outcome(&step, &owner).contains("namespace is no more"));
    }
    assert_eq!(fixture.state("nodelay"), "on");
}

#[test]
fn history_is_bounded() {
    let fixture = Fixture::new();
    let journal = fixture.journal();
    for _ in 0..HISTORY + 5 {
        journal.begin("one of many").unwrap().keep().unwrap();
    }
    let stories = journal.stories().unwrap();
    assert_eq!(stories.len(), HISTORY + 1);
    assert_eq!(stories.last().unwrap().id, HISTORY as u64 + 5);
}
