//! Programs that know nothing of us, under the filter. In a test program of their own: each test
//! waits for all children of the process.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use linux::supervise::{
    Ended, Filtering, Launch, LaunchError, Noted, Notes, SocketSetting, Tally, launch,
};

/// They take turns for that reason.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Runs a command of a shell under a filter with these settings, to its end.
fn run(settings: &[&str], script: &str, filter: Filtering) -> (Ended, Noted, Option<String>) {
    let settings: Vec<SocketSetting> = settings
        .iter()
        .map(|text| text.parse().expect("a setting"))
        .collect();
    let notes = Notes::new(&settings);
    let command = ["bash", "-c", script].map(OsString::from);
    let running = launch(&Launch {
        command: &command,
        netns: None,
        notes: &notes,
        filter,
    })
    .expect("bash");
    let ended = running.wait().expect("our child");
    let unfiltered = running.unfiltered().map(str::to_owned);
    (ended, notes.noted(), unfiltered)
}

fn in_turn<T>(work: impl FnOnce() -> T) -> T {
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    work()
}

/// Talks to all that connect: the options of its sockets are not inherited.
fn with_server<T>(work: impl FnOnce(u16) -> T) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = std::thread::spawn(move || {
        let mut count = 0;
        for stream in listener.incoming() {
            let mut byte = [0];
            match stream.and_then(|mut stream| stream.read(&mut byte)) {
                Ok(1) if byte == *b"." => return count,
                _ => count += 1,
            }
        }
        count
    });
    let result = work(port);
    let mut end = TcpStream::connect(("127.0.0.1", port)).expect("a listener");
    end.write_all(b".").expect("a reader");
    server.join().expect("it ends");
    result
}

#[test]
fn connections_of_children_and_grandchildren_are_noted_with_their_process() {
    in_turn(|| {
        with_server(|port| {
            let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
            let script = format!("{connect}; ({connect}); bash -c '{connect}' & wait");
            let (ended, noted, unfiltered) = run(&[], &script, Filtering::WherePossible);
            assert_eq!((ended, unfiltered), (Ended::Code(0), None));
            assert_eq!(noted.sockets.len(), 3, "{noted:?}");
            let pids: BTreeSet<u32> = noted.sockets.values().map(|owner| owner.pid()).collect();
            assert_eq!(pids.len(), 3, "{noted:?}");
            assert!(noted.sockets.values().all(|o| o.process.command == "bash"));
            assert_eq!(noted.unreached, Tally::default());
        });
    });
}

#[test]
fn without_a_filter_nothing_is_noted_and_the_reason_is_told() {
    in_turn(|| {
        with_server(|port| {
            let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; sleep 0.1; exit 7");
            let (ended, noted, unfiltered) = run(&[], &script, Filtering::Never);
            assert_eq!(ended, Ended::Code(7));
            assert!(noted.sockets.is_empty());
            assert!(!noted.processes.is_empty(), "the family is looked for");
            assert_eq!(unfiltered.as_deref(), Some("it was not asked for"));
        });
    });
}

#[test]
fn what_the_kernel_refuses_is_counted_and_the_program_goes_on() {
    in_turn(|| {
        with_server(|port| {
            let script = format!(
                "for i in 1 2 3; do exec 3<>/dev/tcp/127.0.0.1/{port} || exit 1; exec 3>&-; done"
            );
            let settings = ["congestion=nosuch", "nodelay=on"];
            let (ended, noted, _) = run(&settings, &script, Filtering::Required);
            assert_eq!(ended, Ended::Code(0));
            let [refused, set] = &noted.outcomes[..] else {
                panic!("{noted:?}");
            };
            assert_eq!((refused.set, refused.refused.count), (0, 3));
            assert!(refused.refused.reason.is_some());
            assert_eq!((set.set, set.refused.count), (3, 0));
        });
    });
}

#[test]
fn a_program_ends_as_it_likes() {
    in_turn(|| {
        let check = |script: &str, ended: Ended, code: u8| {
            let (found, _, _) = run(&[], script, Filtering::WherePossible);
            assert_eq!(found, ended, "{script}");
            assert_eq!(found.shell_code(), code);
        };
        check("exit 0", Ended::Code(0), 0);
        check("exit 255", Ended::Code(255), 255);
        check("kill -TERM $$", Ended::Signal(15), 143);
        check("kill -SEGV $$", Ended::Signal(11), 139);
        // What it leaves is not waited for.
        check("sleep 0.2 & exit 3", Ended::Code(3), 3);
    });
}

#[test]
fn a_program_that_does_not_run_is_told_from_one_that_is_not_there() {
    in_turn(|| {
        let start = |name: &str, filter| {
            launch(&Launch {
                command: &[OsString::from(name)],
                netns: None,
                notes: &Notes::new(&[]),
                filter,
            })
        };
        for filter in [
            Filtering::Never,
            Filtering::WherePossible,
            Filtering::Required,
        ] {
            let missing = start("/nonexistent/program", filter);
            assert!(
                matches!(missing, Err(LaunchError::NotFound { .. })),
                "{missing:?}"
            );
            let directory = start("/", filter);
            assert!(
                matches!(directory, Err(LaunchError::NotRunnable { .. })),
                "{directory:?}"
            );
        }
    });
}
