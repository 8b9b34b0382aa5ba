//! Answers for supervised programs after this process has died: a process that does nothing until
//! this one has ended, and then lets every call of the supervised program go on.
//!
//! Without it, the calls of a program that outlives us (a daemon that it left, or all of it where
//! we were killed) would fail: the kernel answers them with `ENOSYS` when the listener is closed.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use super::listener::{Answer, Listener, receive_raw, send_answer};
use super::shared_number::SharedNumber;
use crate::error::{Error, Result};

/// Descriptors of the keeper; it has no others.
const LISTENER: i32 = 0;
const PARENT: i32 = 1;
const FIRST_OTHER: libc::c_uint = 2;
/// Calls that may have been received since the last one that is known: the kernel numbers them one
/// after the other, also those whose threads are killed before they are received (Linux
/// kernel/seccomp.c, seccomp_next_notify_id).
const CALLS_AHEAD: u64 = 1024;

/// The keeper, who takes over when this is dropped, by whatever ends the process that holds it.
#[derive(Debug)]
pub(super) struct Keeper {
    /// Its end of stream is what the keeper waits for.
    _alive: OwnedFd,
    /// The keeper's number.
    pub(super) pid: Option<Pid>,
}

impl Keeper {
    /// Starts one.
    pub(super) fn start(listener: &Listener) -> Result<Self> {
        let (reading, writing) =
            pipe_with(PipeFlags::CLOEXEC).map_err(Error::errno("make a pipe"))?;
        let received = listener.received();
        let (listener, reading_fd) = (listener.as_raw_fd(), reading.as_raw_fd());
        // SAFETY: the child calls nothing but system calls, which is all that is allowed after a
        // fork of a process with threads, and never returns.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above; both descriptors are open in the child as they are here.
            unsafe { keep(listener, reading_fd, received) }
        }
        if child < 0 {
            return Err(Error::os("start a process")(std::io::Error::last_os_error()));
        }
        Ok(Self {
            _alive: writing,
            pid: Pid::from_raw(child),
        })
    }
}

/// The life of the keeper.
///
/// # Safety
/// For a process that has just been forked: it closes every descriptor.
unsafe fn keep(listener: i32, parent: i32, received: &SharedNumber) -> ! {
    // The copies lie above all that are used, so that none is overwritten by the other.
    // SAFETY: numbers and pointers to live locals only.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        // Neither a terminal's signals nor its end are for us, nor do we hold a directory.
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        let listener = libc::fcntl(listener, libc::F_DUPFD, 3);
        let parent = libc::fcntl(parent, libc::F_DUPFD, 3);
        libc::dup2(listener, LISTENER);
        libc::dup2(parent, PARENT);
        // By its number: not every C library has a function for it.
        libc::syscall(libc::SYS_close_range, FIRST_OTHER, libc::c_uint::MAX, 0);
        libc::prctl(libc::PR_SET_NAME, c"tcptailor-keep".as_ptr());
        let mut byte = 0_u8;
        while libc::read(PARENT, (&raw mut byte).cast(), 1) < 0 {
            if *libc::__errno_location() != libc::EINTR {
                break;
            }
        }
    }
    // A call that was received and not answered is not to be had again. Of the very first one the
    // number is not known for a moment.
    let last = received.get();
    if last != 0 {
        for ahead in 0..CALLS_AHEAD {
            send_answer(LISTENER, last.wrapping_add(ahead), Answer::Continue);
        }
    }
    loop {
        let mut waiting = libc::pollfd {
            fd: LISTENER,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one live structure.
        unsafe { libc::poll(&raw mut waiting, 1, -1) };
        if waiting.revents & libc::POLLIN != 0 {
            if let Ok(call) = receive_raw(LISTENER) {
                send_answer(LISTENER, call.id, Answer::Continue);
            }
        } else if waiting.revents != 0 {
            // No process is left under the filter. SAFETY: ends this process without running
            // anything of its parent.
            unsafe { libc::_exit(0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;
    use crate::supervise::{listener, prepare};

    /// As where this process is killed while it looks at a call.
    #[test]
    fn a_call_that_was_received_and_not_answered_goes_on() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new("bash");
        command
            .args(["-c", &format!("exec 3<>/dev/tcp/127.0.0.1/{port}")])
            .stdin(Stdio::null());
        prepare(&mut command, &[], true, theirs);
        let Some(mut child) = crate::asking::may("a filter with a listener", command.spawn())
        else {
            return;
        };
        let calls = listener::receive(&ours).unwrap().unwrap();
        let keeper = Keeper::start(&calls).unwrap();
        let call = calls.next().unwrap();
        assert!(call.is_some(), "it connects");
        drop(keeper);
        let mut ended = None;
        for _ in 0..400 {
            ended = child.try_wait().unwrap();
            if ended.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        if ended.is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    }
}
