//! A socket of another process, taken over by `pidfd_getfd`: the only way to see the options that
//! its owner set, and the way to set them on a live connection.
//!
//! The descriptor is a second handle of the *same* socket. While one lives, the connection does not
//! end when its owner closes it: the peer waits for a FIN. So a [`RemoteSocket`] is opened, used
//! and dropped, never kept; an [`OwnerProcess`] can be kept, it holds no socket.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::{fs, io};

use base::{FlowKey, FlowSample, KernelName, Rate};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::error::{Error, Result};

/// `SO_BUF_LOCK` (`include/uapi/asm-generic/socket.h`, Linux 5.15): bit 0 send, bit 1 receive.
const SO_BUF_LOCK: libc::c_int = 72;
const SOCK_SNDBUF_LOCK: u32 = 1;
const SOCK_RCVBUF_LOCK: u32 = 2;

/// A process, held so that its number cannot come to mean another one.
#[derive(Debug)]
pub struct OwnerProcess {
    pid: u32,
    pidfd: OwnedFd,
}

impl OwnerProcess {
    /// Finds the process with this number.
    ///
    /// # Errors
    /// [`Error::NotFound`] (`process`) where it is gone, [`Error::Unsupported`] before Linux 5.3.
    pub fn open(pid: u32) -> Result<Self> {
        let number = i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| process_gone(pid))?;
        let pidfd = pidfd_open(number, PidfdFlags::empty()).map_err(|errno| match errno {
            // EINVAL: a thread that leads no process.
            Errno::SRCH | Errno::INVAL => process_gone(pid),
            Errno::NOSYS => too_old("pidfd_open", "5.3"),
            _ => descriptor_error(format!("open process {pid}"), errno),
        })?;
        Ok(Self { pid, pidfd })
    }

    /// Its number.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it has ended, even where its parent has not asked for it yet.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // A pidfd becomes readable when the process ends (pidfd_open(2)).
        matches!(poll(&mut fds, Some(&at_once)), Ok(1..))
    }

    /// Takes a second handle of the socket at descriptor `fd`, if that still is the socket with
    /// this cookie (the owner may have closed it and used the number again).
    ///
    /// # Errors
    /// [`Error::NotFound`] for a `process` that is gone or a `socket` that is no longer there,
    /// [`Error::Permission`] where we may not look into the process, [`Error::Unsupported`] before
    /// Linux 5.6.
    pub fn socket(&self, fd: i32, cookie: u64) -> Result<RemoteSocket> {
        let taken = self.take(fd)?;
        match sockopt::socket_cookie(&taken) {
            Ok(found) if found == cookie => Ok(RemoteSocket { fd: taken }),
            // Another cookie, or no socket that can be used (opened with O_PATH): the number was
            // used again.
            Ok(_) | Err(Errno::NOTSOCK | Errno::BADF) => Err(socket_gone(self.pid, fd)),
            Err(errno) => Err(Error::Os {
                op: format!("read the cookie of a socket of process {}", self.pid),
                source: errno.into(),
            }),
        }
    }

    /// Takes a second handle of what descriptor `fd` is, if that is a TCP socket, and its cookie.
    /// For a process that waits for us meanwhile, so that the number keeps its meaning.
    pub(crate) fn tcp_socket(&self, fd: i32) -> Result<Option<(RemoteSocket, u64)>> {
        let socket = RemoteSocket { fd: self.take(fd)? };
        if !socket.is_tcp() {
            return Ok(None);
        }
        let cookie = sockopt::socket_cookie(&socket.fd);
        Ok(cookie.ok().map(|cookie| (socket, cookie)))
    }

    /// Whether descriptor `fd` is a socket of Multipath TCP with these ends: the kernel opens its
    /// connections itself, and no process has a descriptor of one.
    pub(crate) fn holds_multipath(&self, fd: i32, key: FlowKey) -> bool {
        let Ok(fd) = self.take(fd) else {
            return false;
        };
        let socket = RemoteSocket { fd };
        let plain = |end: SocketAddr| (end.ip().to_canonical(), end.port());
        socket.protocol() == Some(libc::IPPROTO_MPTCP)
            && socket.local().map(plain) == Some(plain(key.local))
            && socket.remote().map(plain) == Some(plain(key.remote))
    }

    fn take(&self, fd: i32) -> Result<OwnedFd> {
        pidfd_getfd(&self.pidfd, fd, PidfdGetfdFlags::empty()).map_err(|errno| {
            let pid = self.pid;
            match errno {
                Errno::SRCH => process_gone(pid),
                Errno::BADF => socket_gone(pid, fd),
                Errno::PERM => not_permitted(pid),
                Errno::NOSYS => too_old("pidfd_getfd", "5.6"),
                _ => descriptor_error(format!("take descriptor {fd} of process {pid}"), errno),
            }
        })
    }
}

/// A second handle of another process's socket. Drop it soon: see the module's head.
#[derive(Debug)]
pub struct RemoteSocket {
    fd: OwnedFd,
}

impl RemoteSocket {
    /// Takes over descriptor `fd` of process `pid`, if it is the socket with this cookie.
    ///
    /// # Errors
    /// As [`OwnerProcess::open`] and [`OwnerProcess::socket`].
    pub fn open(pid: u32, fd: i32, cookie: u64) -> Result<Self> {
        OwnerProcess::open(pid)?.socket(fd, cookie)
    }

    /// Fills the options that only the owner's descriptor shows into `sample`, and brings those up
    /// to date that `sock_diag` shows too. What this kernel does not have stays as it is.
    pub fn read_options(&self, sample: &mut FlowSample) {
        let flag = |name| self.number(libc::IPPROTO_TCP, name).map(|value| value != 0);
        let socket = |name| self.number(libc::SOL_SOCKET, name);
        // TCP_NODELAY reads as 0 or 1, whatever of autocork and push is in the same field.
        sample.nodelay = flag(libc::TCP_NODELAY);
        sample.cork = flag(libc::TCP_CORK);
        sample.quickack = flag(libc::TCP_QUICKACK);
        let locks = socket(SO_BUF_LOCK);
        sample.sndbuf_locked = locks.map(|locks| locks & SOCK_SNDBUF_LOCK != 0);
        sample.rcvbuf_locked = locks.map(|locks| locks & SOCK_RCVBUF_LOCK != 0);
        // All ones: no limit but tcp_notsent_lowat, which is unlimited too unless set.
        sample.notsent_lowat_bytes = self
            .number(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT)
            .filter(|&bytes| bytes != u32::MAX && bytes != 0);
        sample.sndbuf_bytes = socket(libc::SO_SNDBUF).or(sample.sndbuf_bytes);
        sample.rcvbuf_bytes = socket(libc::SO_RCVBUF).or(sample.rcvbuf_bytes);
        if let Some(rate) = self.max_pacing_rate() {
            sample.max_pacing_rate = rate;
        }
        if let Ok(name) = sockopt::tcp_congestion(&self.fd) {
            sample.congestion = Some(KernelName::from(&*name));
        }
    }

    /// Outer `None` where the kernel does not tell, inner where there is no bound.
    #[expect(
        clippy::option_option,
        reason = "unknown and unlimited are different answers"
    )]
    fn max_pacing_rate(&self) -> Option<Option<Rate>> {
        // 8 bytes on 64-bit kernels since Linux 4.20, 4 bytes elsewhere.
        let mut value = [0_u8; 8];
        let rate = match self.read(libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &mut value)? {
            8 => Some(u64::from_ne_bytes(value)).filter(|&rate| rate != u64::MAX),
            _ => crate::netlink_dump::u32_at(&value, 0)
                .filter(|&rate| rate != u32::MAX)
                .map(u64::from),
        };
        Some(rate.map(Rate::from_bytes_per_second))
    }

    /// Whether it is a socket of TCP or of Multipath TCP.
    fn is_tcp(&self) -> bool {
        matches!(
            self.protocol(),
            Some(libc::IPPROTO_TCP | libc::IPPROTO_MPTCP)
        )
    }

    fn protocol(&self) -> Option<libc::c_int> {
        let protocol = self.number(libc::SOL_SOCKET, libc::SO_PROTOCOL);
        protocol.map(u32::cast_signed)
    }

    pub(crate) fn is_listening(&self) -> bool {
        matches!(
            self.number(libc::SOL_SOCKET, libc::SO_ACCEPTCONN),
            Some(1..)
        )
    }

    pub(crate) fn is_connected(&self) -> bool {
        rustix::net::getpeername(&self.fd).is_ok_and(|peer| peer.is_some())
    }

    /// The other end; `None` where it is not connected, or is not one of IP.
    fn remote(&self) -> Option<SocketAddr> {
        let address = rustix::net::getpeername(&self.fd).ok()??;
        SocketAddr::try_from(address).ok()
    }

    /// The end of it that is here; `None` where it is not one of IP.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        let address = rustix::net::getsockname(&self.fd).ok()?;
        SocketAddr::try_from(address).ok()
    }

    fn number(&self, level: libc::c_int, name: libc::c_int) -> Option<u32> {
        let mut value = [0_u8; 4];
        self.read(level, name, &mut value)?;
        Some(u32::from_ne_bytes(value))
    }

    /// The number of bytes of the answer.
    fn read(&self, level: libc::c_int, name: libc::c_int, value: &mut [u8]) -> Option<usize> {
        let mut length = libc::socklen_t::try_from(value.len()).expect("options are short");
        // SAFETY: `value` is writable for `length` bytes, and the kernel writes no more than that.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                level,
                name,
                value.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        (result == 0).then_some(length as usize)
    }
}

impl AsFd for RemoteSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn process_gone(pid: u32) -> Error {
    Error::NotFound {
        what: "process",
        name: pid.to_string(),
        hint: " (any more); `ps` lists those that run".into(),
    }
}

fn socket_gone(pid: u32, fd: i32) -> Error {
    Error::NotFound {
        what: "socket",
        name: format!("descriptor {fd} of process {pid}"),
        hint: "; its owner closed it, list the sockets again".into(),
    }
}

fn too_old(call: &str, version: &str) -> Error {
    Error::Unsupported {
        what: call.into(),
        hint: format!("reading the options of other programs' sockets needs Linux {version}"),
    }
}

fn descriptor_error(what: String, errno: Errno) -> Error {
    let op = match errno {
        Errno::MFILE | Errno::NFILE => format!("{what} (raise `ulimit -n`)"),
        _ => what,
    };
    Error::Os {
        op,
        source: io::Error::from(errno),
    }
}

/// The rules of `ptrace(2)`, mode `PTRACE_MODE_ATTACH_REALCREDS`.
fn not_permitted(pid: u32) -> Error {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let hint = match scope.trim() {
        "1" => "run as root (kernel.yama.ptrace_scope = 1 lets a user only look into children)",
        "2" => "run as root (kernel.yama.ptrace_scope = 2 wants CAP_SYS_PTRACE)",
        "3" => "kernel.yama.ptrace_scope = 3 forbids it to all users until the next boot",
        _ => "run as root or as the user of that process; a seccomp filter may forbid it too",
    };
    Error::Permission {
        what: format!("looking into the sockets of process {pid}"),
        needs: "CAP_SYS_PTRACE",
        hint: hint.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (TcpStream, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        (TcpStream::connect(address).expect("a listener"), listener)
    }

    fn empty_sample(stream: &TcpStream) -> FlowSample {
        let key = FlowKey {
            local: stream.local_addr().expect("bound"),
            remote: stream.peer_addr().expect("connected"),
        };
        FlowSample::empty(base::Instant::ZERO, key)
    }

    #[test]
    fn options_are_read_as_they_were_set() {
        let (stream, _listener) = pair();
        let cookie = sockopt::socket_cookie(&stream).expect("a cookie");
        let remote = RemoteSocket::open(std::process::id(), stream.as_raw_fd(), cookie)
            .expect("our own socket");
        let mut sample = empty_sample(&stream);
        remote.read_options(&mut sample);
        assert_eq!((sample.nodelay, sample.cork), (Some(false), Some(false)));
        assert_eq!(
            (sample.sndbuf_locked, sample.rcvbuf_locked),
            (Some(false), Some(false))
        );
        assert_eq!(sample.max_pacing_rate, None);

        stream.set_nodelay(true).expect("an option");
        sockopt::set_tcp_cork(&stream, true).expect("an option");
        sockopt::set_socket_send_buffer_size(&stream, 32768).expect("an option");
        remote.read_options(&mut sample);
        assert_eq!((sample.nodelay, sample.cork), (Some(true), Some(true)));
        assert_eq!(sample.sndbuf_locked, Some(true));
        assert_eq!(sample.rcvbuf_locked, Some(false));
        assert_eq!(sample.sndbuf_bytes, Some(65536), "the kernel doubles it");
        assert!(sample.congestion.is_some());
        assert!(sample.quickack.is_some());
    }

    #[test]
    fn the_end_of_a_process_is_seen_before_it_is_reaped() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("a program that waits");
        let process = OwnerProcess::open(child.id()).expect("it runs");
        assert!(!process.has_ended());
        drop(child.stdin.take());
        while !process.has_ended() {
            std::thread::yield_now();
        }
        child.wait().expect("our child");
        assert!(process.has_ended());
    }

    #[test]
    fn what_is_gone_is_named() {
        let (stream, _listener) = pair();
        let pid = std::process::id();
        let cookie = sockopt::socket_cookie(&stream).expect("a cookie");
        let check = |opened: Result<RemoteSocket>, object: &str| match opened {
            Err(Error::NotFound { what, .. }) => assert_eq!(what, object),
            other => panic!("{other:?}"),
        };
        check(RemoteSocket::open(0, 3, cookie), "process");
        check(RemoteSocket::open(u32::MAX, 3, cookie), "process");
        check(RemoteSocket::open(pid, 1 << 20, cookie), "socket");
        check(
            RemoteSocket::open(pid, stream.as_raw_fd(), cookie + 1),
            "socket",
        );
        let file = std::fs::File::open("/proc/self/stat").expect("/proc");
        check(RemoteSocket::open(pid, file.as_raw_fd(), cookie), "socket");
    }
}
