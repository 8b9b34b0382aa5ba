//! The library preloaded into a client that it does not know: this test program, started again,
//! which sends messages of 15 writes in the ways that programs have.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Tells the started program what to do and to whom.
const ROLE: &str = "AUTOCORK_TEST_ROLE";
const REMOTE: &str = "AUTOCORK_TEST_REMOTE";
const MESSAGES: u64 = 100;
const WRITES: usize = 15;
const MESSAGE: usize = 30;

/// The library that this test's package has built, beside this program.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let path = program.with_file_name("libtcptailor_autocork.so");
    assert!(path.is_file(), "{} is not built", path.display());
    path
}

struct Seen {
    /// Reads that the server needed.
    reads: u64,
    /// Segments with data that arrived: a server that waits for a processor reads several at once.
    segments: u32,
    messages: u64,
    /// What the client said at its end.
    stats: String,
}

/// Starts this program as a client of `role`, with the library or without, and serves it.
fn run(role: &str, preloaded: bool, environment: &[(&str, &str)]) -> Seen {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "this_program_as_a_client", "--nocapture"])
        .env(ROLE, role)
        .env(REMOTE, listener.local_addr().unwrap().to_string())
        .env("TCPTAILOR_AUTOCORK_STATS", "1")
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if preloaded {
        command.env("LD_PRELOAD", library());
    }
    let child = command.spawn().unwrap();
    let mut seen = serve(&listener);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{role}: {said}");
    seen.stats = said
        .lines()
        .find_map(|line| line.strip_prefix("tcptailor-autocork: "))
        .unwrap_or_default()
        .to_owned();
    seen
}

fn serve(listener: &TcpListener) -> Seen {
    let (mut stream, _) = listener.accept().unwrap();
    let mut seen = Seen {
        reads: 0,
        segments: 0,
        messages: 0,
        stats: String::new(),
    };
    loop {
        let mut buffer = [0; MESSAGE];
        let mut got = 0;
        while got < MESSAGE {
            match stream.read(&mut buffer[got..]).unwrap() {
                0 => {
                    seen.segments = data_segments_in(&stream);
                    return seen;
                }
                more => got += more,
            }
            seen.reads += 1;
        }
        seen.messages += 1;
        stream.write_all(b"ok").unwrap();
    }
}

/// `tcpi_data_segs_in`, behind 8 bytes, 24 words, 4 double words and 4 words of `tcp_info`.
fn data_segments_in(stream: &TcpStream) -> u32 {
    const AT: usize = 8 + 24 * 4 + 4 * 8 + 4 * 4;
    let mut info = [0_u8; 256];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes there.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert!(result == 0 && length as usize >= AT + 4);
    u32::from_ne_bytes(info[AT..AT + 4].try_into().unwrap())
}

/// Does nothing as a test of its own.
#[test]
fn this_program_as_a_client() {
    let (Ok(role), Ok(remote)) = (std::env::var(ROLE), std::env::var(REMOTE)) else {
        return;
    };
    let remote: SocketAddr = remote.parse().unwrap();
    let stream = TcpStream::connect(remote).unwrap();
    stream.set_nodelay(true).unwrap();
    match role.as_str() {
        "errno" => return errno_is_kept(&stream),
        "listener" => return listeners_are_not_corked(),
        "full" => return fill(&stream),
        "mind" => return a_cork_of_its_own_stays(&stream),
        "vfork" => close_all_in_a_child_that_shares_memory(&stream),
        "fork" => return converse_in_a_child(stream),
        "delay" => stream.set_nodelay(false).unwrap(),
        "own cork" => cork(&stream, false),
        _ => {}
    }
    let copy = (role == "copy").then(|| stream.try_clone().unwrap());
    converse(&role, &stream, copy.as_ref());
}

fn converse(role: &str, stream: &TcpStream, copy: Option<&TcpStream>) {
    for _ in 0..MESSAGES {
        for _ in 0..WRITES {
            match role {
                "send" => send(stream),
                _ => (&*stream).write_all(b"xx").unwrap(),
            }
        }
        let mut answer = [0; 2];
        match role {
            "poll" => wait_by_poll(stream),
            "select" => wait_by_select(stream),
            "epoll" => wait_by_epoll(stream),
            _ => {
                let mut from = copy.unwrap_or(stream);
                from.read_exact(&mut answer).unwrap();
                continue;
            }
        }
        read_past_the_library(stream, &mut answer);
    }
}

fn send(stream: &TcpStream) {
    let flags = libc::MSG_NOSIGNAL;
    // SAFETY: two live bytes.
    let sent = unsafe { libc::send(stream.as_raw_fd(), b"xx".as_ptr().cast(), 2, flags) };
    assert_eq!(sent, 2);
}

/// By the system call, so that what is held leaves only where the wait before let it go, or by the
/// kernel's ceiling.
fn read_past_the_library(stream: &TcpStream, to: &mut [u8]) {
    let (fd, room) = (stream.as_raw_fd(), to.len());
    // SAFETY: the bytes are writable.
    let got = unsafe { libc::syscall(libc::SYS_read, fd, to.as_mut_ptr(), room) };
    assert_eq!(got, 2);
}

fn wait_by_poll(stream: &TcpStream) {
    let mut wanted = libc::pollfd {
        fd: stream.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one live `pollfd`.
    assert_eq!(unsafe { libc::poll(&raw mut wanted, 1, -1) }, 1);
}

fn wait_by_select(stream: &TcpStream) {
    let none = std::ptr::null_mut();
    let fd = stream.as_raw_fd();
    // SAFETY: all zeros is an empty set.
    let mut wanted: libc::fd_set = unsafe { std::mem::zeroed() };
    // SAFETY: the set is live, and the descriptor of a small program is below its size.
    unsafe { libc::FD_SET(fd, &raw mut wanted) };
    // SAFETY: as above; no other set, no time.
    let ready = unsafe { libc::select(fd + 1, &raw mut wanted, none, none, none.cast()) };
    assert_eq!(ready, 1);
}

fn wait_by_epoll(stream: &TcpStream) {
    // SAFETY: no memory is involved.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    assert!(epoll >= 0);
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 0,
    };
    let fd = stream.as_raw_fd();
    // SAFETY: one live event each time.
    let added = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    assert_eq!(added, 0);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::epoll_wait(epoll, &raw mut event, 1, -1) }, 1);
    // SAFETY: no one else has this descriptor.
    assert_eq!(unsafe { libc::close(epoll) }, 0);
}

fn cork(stream: &TcpStream, on: bool) {
    set_option(stream, libc::TCP_CORK, on).unwrap();
}

/// By the C library's call, which is the one that the library sees.
fn set_option(socket: &impl AsRawFd, option: libc::c_int, on: bool) -> std::io::Result<()> {
    let value = libc::c_int::from(on);
    // SAFETY: one live `c_int`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn is_corked(stream: &TcpStream) -> bool {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: both are live, and `length` is the size of `value`.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CORK,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0);
    value != 0
}

/// A call that fails says why, although the library made calls of its own before and after it.
fn errno_is_kept(stream: &TcpStream) {
    assert!(is_corked(stream));
    stream.set_nonblocking(true).unwrap();
    (&*stream).write_all(b"x").unwrap();
    let nothing = (&*stream).read(&mut [0]).unwrap_err();
    assert_eq!(nothing.raw_os_error(), Some(libc::EAGAIN));
    // SAFETY: the descriptor is none, and no memory is involved.
    assert_eq!(unsafe { libc::dup(-1) }, -1);
    let error = std::io::Error::last_os_error();
    assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    let no_option = 9999;
    let refused = set_option(stream, no_option, true).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENOPROTOOPT));
}

/// The peer does not read: some writes are taken, and then none. Prints how many were.
fn fill(stream: &TcpStream) {
    stream.set_nonblocking(true).unwrap();
    let (mut taken, mut refused) = (0_u64, 0);
    let piece = vec![b'x'; 100_000];
    while refused < 50 {
        match (&*stream).write(&piece) {
            Ok(bytes) => taken += u64::from(bytes > 0),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
                refused += 1;
            }
        }
    }
    assert_eq!((&*stream).write(&[]).unwrap(), 0);
    eprintln!("taken {taken}");
}

/// Connections inherit the options of their listener, and what they hold would never be flushed.
fn listeners_are_not_corked() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let dialled = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    assert!(!is_corked(&accepted) && !is_corked(&dialled));
    // Asked for after it listens, the options are inherited as well.
    set_option(&listener, libc::TCP_NODELAY, true).unwrap();
    let second = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (inheriting, _) = listener.accept().unwrap();
    assert!(!is_corked(&inheriting));
    drop((second, inheriting));
    // A descriptor that was ours is a stranger's after it was closed.
    accepted.set_nodelay(true).unwrap();
    assert!(is_corked(&accepted));
    let number = accepted.as_raw_fd();
    drop(accepted);
    let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    assert_eq!(other.as_raw_fd(), number);
    assert!(!is_corked(&other));
    other.set_nonblocking(true).unwrap();
    assert!((&other).read(&mut [0]).is_err());
    assert!(!is_corked(&other));
}

/// The program corks it itself: that stays so until it is closed, on all copies.
fn a_cork_of_its_own_stays(stream: &TcpStream) {
    let copy = stream.try_clone().unwrap();
    assert!(is_corked(stream));
    cork(&copy, false);
    for again in [stream, &copy] {
        again.set_nodelay(true).unwrap();
        assert!(!is_corked(stream));
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let number = copy.as_raw_fd();
    drop(copy);
    let other = stream.try_clone().unwrap();
    other.set_nodelay(true).unwrap();
    assert!(
        !is_corked(stream),
        "a copy made later is the same connection"
    );
    drop(other);
    let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    assert_eq!(other.as_raw_fd(), number, "it is used again");
    other.set_nodelay(true).unwrap();
    assert!(is_corked(&other));
    // Data written by another process must not be held by a cork that this one never removes.
    let elsewhere = other.try_clone().unwrap();
    drop(other);
    assert!(!is_corked(&elsewhere));
}

/// As a child of `vfork` does on its way to `exec`: the memory is its parent's, the descriptors are
/// its own.
fn close_all_in_a_child_that_shares_memory(stream: &TcpStream) {
    extern "C" fn child(fd: *mut libc::c_void) -> libc::c_int {
        let fd = fd as libc::c_int;
        // SAFETY: the descriptors are this process's own; its parent keeps the connection.
        unsafe {
            libc::dup2(2, fd);
            libc::close(fd);
            libc::_exit(0)
        }
    }
    let mut room = vec![0_u128; 16 << 10];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let fd = stream.as_raw_fd() as *mut libc::c_void;
    // SAFETY: this thread waits until the child has ended, which runs at the end of `room`.
    let pid = unsafe { libc::clone(child, room.as_mut_ptr_range().end.cast(), flags, fd) };
    wait_for(pid);
}

/// A child of `fork` has a table of its own, and goes on with what its parent closes.
fn converse_in_a_child(stream: TcpStream) {
    // SAFETY: the child allocates nothing, takes no lock, and ends below.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        converse("read", &stream, None);
        // SAFETY: nothing is to be written or freed.
        unsafe { libc::_exit(0) };
    }
    drop(stream);
    wait_for(pid);
}

fn wait_for(pid: libc::pid_t) {
    assert!(pid > 0);
    let mut status = -1;
    // SAFETY: one live number.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0);
}

/// Reads that the server needs with the library, and what the library counted.
#[track_caller]
fn check(role: &str, environment: &[(&str, &str)], reads_per_message: u64, stats: &str) {
    let seen = run(role, true, environment);
    assert_eq!(seen.messages, MESSAGES, "{role}");
    assert_eq!(seen.reads, MESSAGES * reads_per_message, "{role}");
    assert_eq!(seen.stats, stats, "{role}");
}

const JOINED: &str = "corked 1 writes 1500 flushes 100";

#[test]
fn writes_are_joined_until_the_program_turns_to_something_else() {
    for role in ["read", "send", "copy", "poll", "select", "epoll"] {
        check(role, &[], 1, JOINED);
    }
}

#[test]
fn without_the_library_each_write_is_a_segment() {
    let seen = run("read", false, &[]);
    assert_eq!((seen.messages, seen.stats.as_str()), (MESSAGES, ""));
    assert!(
        seen.segments > 3 * MESSAGES as u32,
        "{} segments",
        seen.segments
    );
}

/// Nagle again, or its own cork: the program knows what it does.
#[test]
fn a_program_that_changes_its_mind_is_left_alone() {
    let seen = run("delay", true, &[]);
    assert_eq!(seen.stats, "corked 1 writes 0 flushes 0");
    let seen = run("own cork", true, &[]);
    assert_eq!(seen.stats, "corked 1 writes 0 flushes 0");
    assert!(
        seen.segments > 3 * MESSAGES as u32,
        "{} segments",
        seen.segments
    );
}

#[test]
fn a_bound_lets_go_before_the_message_is_finished() {
    let bound = [("TCPTAILOR_AUTOCORK_MAX", "5")];
    let seen = run("read", true, &bound);
    assert_eq!(seen.stats, "corked 1 writes 1500 flushes 300");
}

#[test]
fn a_child_with_the_parents_memory_leaves_the_table_alone() {
    check("vfork", &[], 1, JOINED);
}

#[test]
fn a_child_of_its_own_goes_on() {
    let seen = run("fork", true, &[]);
    assert_eq!(seen.messages, MESSAGES);
    // The parent takes the cork out as it closes, and the child puts it in again when it reads.
    let most = MESSAGES + WRITES as u64;
    assert!(seen.reads < most, "{} reads", seen.reads);
}

/// What the kernel refuses is not held.
#[test]
fn writes_that_fail_are_not_counted() {
    let seen = run_alone("full", &[("TCPTAILOR_AUTOCORK_MAX", "5")]);
    let taken = seen.lines().find_map(|line| line.strip_prefix("taken "));
    let taken: u64 = taken.unwrap().parse().unwrap();
    assert!(taken > 5, "{seen}");
    let flushes = taken.div_ceil(5);
    let expected = format!("corked 1 writes {taken} flushes {flushes}");
    assert!(seen.contains(&expected), "{expected}: {seen}");
}

#[test]
fn the_program_sees_what_it_saw_before() {
    let seen = run_alone("errno", &[]);
    assert!(seen.contains("corked 1 writes 1 "), "{seen}");
    let seen = run_alone("listener", &[]);
    assert!(seen.contains("corked 2 "), "{seen}");
    let seen = run_alone("mind", &[]);
    assert!(seen.contains("corked 2 writes 0 "), "{seen}");
}

/// As [`run`], of a client that sends no whole message.
fn run_alone(role: &str, environment: &[(&str, &str)]) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "this_program_as_a_client", "--nocapture"])
        .env(ROLE, role)
        .env(REMOTE, listener.local_addr().unwrap().to_string())
        .env("TCPTAILOR_AUTOCORK_STATS", "1")
        .env("LD_PRELOAD", library())
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{role}: {said}");
    said
}
