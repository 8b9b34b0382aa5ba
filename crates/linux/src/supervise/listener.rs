//! The seccomp filter's other end: how a program puts itself under it, and how we hear of its calls
//! and answer them (seccomp_unotify(2)).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use libc::{seccomp_notif, seccomp_notif_resp, sock_filter};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::shared_number::SharedNumber;

/// Value by which the program reports its filter; any other is an error number.
const INSTALLED: i32 = 0;

/// Puts the calling thread, and what it starts from now on, under the filter, and sends the
/// listener's descriptor through `to`. For a process between `fork` and `exec`: nothing here
/// allocates or locks. The error is sent as well.
///
/// Without `CAP_SYS_ADMIN` the program loses the right to gain privileges by set-uid files.
pub(super) fn install(program: &[sock_filter], to: &UnixStream) -> io::Result<()> {
    let listener = match listen(program) {
        // seccomp(2): a process that may still gain privileges needs the capability.
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            rustix::thread::set_no_new_privs(true)?;
            listen(program)
        }
        other => other,
    };
    let code = match &listener {
        Ok(_) => INSTALLED,
        Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = listener.as_ref().ok().map(|fd| [fd.as_fd()]);
    if let Some(descriptors) = &descriptors {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let bytes = code.to_ne_bytes();
    let message = [io::IoSlice::new(&bytes)];
    rustix::net::sendmsg(to, &message, &mut control, SendFlags::NOSIGNAL)?;
    listener.map(drop)
}

/// Whether the kernel has filters with a listener.
pub(super) fn is_supported() -> bool {
    let action = libc::SECCOMP_RET_USER_NOTIF;
    // SAFETY: the kernel reads a live number of four bytes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::c_ulong::from(libc::SECCOMP_GET_ACTION_AVAIL),
            0,
            &raw const action,
        )
    };
    result == 0
}

/// The descriptor closes by itself at `exec`.
fn listen(program: &[sock_filter]) -> io::Result<OwnedFd> {
    // Without the second flag, signals that a runtime sends itself (Go) would break off each call
    // that we look at; Linux 5.19 has it.
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let calm = flags | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    match set_filter(program, calm) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => set_filter(program, flags),
        other => other,
    }
}

fn set_filter(program: &[sock_filter], flags: libc::c_ulong) -> io::Result<OwnedFd> {
    let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog {
        len: length,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: `program` points to as many live instructions as it says; the kernel copies them and
    // does not write to them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::c_ulong::from(libc::SECCOMP_SET_MODE_FILTER),
            flags,
            &raw const program,
        )
    };
    let fd = i32::try_from(result).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes what [`install`] sent; the inner error is the program's. It has been sent by the time that
/// the program runs.
pub(super) fn receive(from: &UnixStream) -> io::Result<io::Result<Listener>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; size_of::<i32>()];
    let mut buffers = [io::IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = rustix::net::recvmsg(from, &mut buffers, &mut control, flags)?;
    if received.bytes != size_of::<i32>() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let fd = descriptors.flatten().next();
    Ok(match (i32::from_ne_bytes(bytes), fd) {
        (INSTALLED, Some(fd)) => Ok(Listener {
            fd,
            received: SharedNumber::new()?,
        }),
        (INSTALLED, None) => Err(io::ErrorKind::UnexpectedEof.into()),
        (errno, _) => Err(io::Error::from_raw_os_error(errno)),
    })
}

/// Receives the calls of a supervised program.
#[derive(Debug)]
pub(super) struct Listener {
    fd: OwnedFd,
    /// Identifies the call that was received last, for the keeper; 0 before the first.
    received: SharedNumber,
}

/// A call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    id: u64,
    /// The thread that made it, in our process namespace; 0 where it is in none that we see.
    pub(super) thread: u32,
    pub(super) number: i32,
    pub(super) arguments: [u64; 6],
}

/// Answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The kernel carries it out.
    Continue,
    /// Return 0 without doing anything.
    Done,
}

impl Listener {
    /// Waits for a call; `None` when no process is left under the filter.
    pub(super) fn next(&self) -> io::Result<Option<Call>> {
        loop {
            let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
            match poll(&mut fds, None) {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            let events = fds[0].revents();
            if !events.contains(PollFlags::IN) {
                return Ok(None);
            }
            match receive_call(&self.fd) {
                // The thread was killed meanwhile, or a signal came.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                other => {
                    let call = other?;
                    self.received.set(call.id);
                    return Ok(Some(call));
                }
            }
        }
    }

    /// Identifies the call that was received last.
    pub(super) const fn received(&self) -> &SharedNumber {
        &self.received
    }

    /// Whether the call still waits: until then its thread's number means its thread.
    pub(super) fn is_waiting(&self, call: &Call) -> bool {
        // SAFETY: the kernel reads a live number of eight bytes.
        let result = unsafe {
            libc::ioctl(
                self.fd.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
                &raw const call.id,
            )
        };
        result == 0
    }

    /// Lets the call go on. One whose thread was killed needs no answer.
    pub(super) fn answer(&self, call: &Call, answer: Answer) {
        send_answer(self.fd.as_raw_fd(), call.id, answer);
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

fn receive_call(fd: &OwnedFd) -> Result<Call, Errno> {
    let seccomp_notif {
        id,
        pid,
        flags: _,
        data,
    } = receive_raw(fd.as_raw_fd())?;
    Ok(Call {
        id,
        thread: pid,
        number: data.nr,
        arguments: data.args,
    })
}

/// The next call; only a system call, so that it may run after a `fork`.
pub(super) fn receive_raw(fd: i32) -> Result<seccomp_notif, Errno> {
    // SAFETY: it consists of numbers, for which zero is a value; the kernel wants it cleared.
    let mut call: seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: `call` is live and as large as the request says.
    let result = unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) };
    match result {
        0 => Ok(call),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// Answers a call; only a system call, so that it may run after a `fork`.
pub(super) fn send_answer(fd: i32, id: u64, answer: Answer) {
    let response = seccomp_notif_resp {
        id,
        val: 0,
        error: 0,
        flags: match answer {
            Answer::Continue => libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
            Answer::Done => 0,
        },
    };
    // SAFETY: `response` is live and as large as the request says. Failing means that the caller no
    // longer waits.
    unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const response) };
}
