//! System calls on sockets and files that the standard library lacks, for the sample programs and
//! the probes of published documents.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::Errno;
use rustix::net::{SendFlags, send, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::error::{Error, Result};

/// Longest wait before [`connect`] looks whether it was stopped.
const NAP: Duration = Duration::from_millis(100);

/// Whether more will be sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// This is all for now.
    No,
    /// `MSG_MORE`: what does not fill a segment waits for the rest.
    Follows,
}

/// send(2): returns how many bytes were taken. A peer that is gone is an error, never a signal.
///
/// # Errors
/// Those of the call.
pub fn send_part(socket: impl AsFd, bytes: &[u8], more: More) -> io::Result<usize> {
    let more = match more {
        More::No => SendFlags::empty(),
        More::Follows => SendFlags::MORE,
    };
    Ok(send(socket, bytes, more | SendFlags::NOSIGNAL)?)
}

/// sendfile(2): sends up to `bytes` of a file from `offset`, and moves that on by what was taken.
///
/// # Errors
/// Those of the call.
pub fn send_file(
    socket: impl AsFd,
    file: &File,
    offset: &mut u64,
    bytes: usize,
) -> io::Result<usize> {
    Ok(sendfile(socket, file, Some(offset), bytes)?)
}

/// A file in memory (memfd_create(2)) with these contents.
///
/// # Errors
/// [`Error::Os`] where it cannot be made or written.
pub fn memory_file(name: &str, contents: &[u8]) -> Result<File> {
    let op = "making a file in memory";
    let fd = memfd_create(name, MemfdFlags::CLOEXEC).map_err(Error::errno(op))?;
    let mut file = File::from(fd);
    file.write_all(contents).map_err(Error::os(op))?;
    Ok(file)
}

/// `SO_RCVBUFFORCE`: a receive buffer that `net.core.rmem_max` does not bound.
///
/// # Errors
/// [`Error::Os`]; it needs `CAP_NET_ADMIN`.
pub fn force_receive_buffer(socket: impl AsFd, bytes: usize) -> Result<()> {
    sockopt::set_socket_recv_buffer_size_force(socket, bytes)
        .map_err(Error::errno("SO_RCVBUFFORCE"))
}

/// Connects; `stop` ends the wait. The socket waits in slices, because a stop cannot shut down what
/// is not open yet.
///
/// # Errors
/// Those of the calls, and one where it was stopped.
pub fn connect(remote: SocketAddr, stop: &AtomicBool) -> io::Result<TcpStream> {
    let domain = Domain::for_address(remote);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::from(remote)) {
        Ok(()) => {}
        Err(error) if is_under_way(&error) => {
            while !is_decided(&socket)? {
                if stop.load(Ordering::SeqCst) {
                    return Err(io::Error::other("stopped"));
                }
            }
            if let Some(error) = socket.take_error()? {
                return Err(error);
            }
        }
        Err(error) => return Err(error),
    }
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

/// connect(2): one that a signal interrupts goes on as well.
fn is_under_way(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR))
}

/// Whether a connection has come about, or has failed, within a nap.
fn is_decided(socket: &Socket) -> io::Result<bool> {
    let nap = Timespec::try_from(NAP).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&nap)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// The soft limit of open files of this process, raised for as long as this lives.
#[derive(Debug)]
pub struct OpenFiles(Rlimit);

impl OpenFiles {
    /// Raises the limit to at least `files`; `what` takes them, for the message.
    ///
    /// # Errors
    /// [`Error::Refused`] where the hard limit is lower.
    pub fn at_least(files: u64, what: &str) -> Result<Self> {
        let before = getrlimit(Resource::Nofile);
        let is_enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= files);
        if !is_enough(before.current) {
            if !is_enough(before.maximum) {
                return Err(Error::Refused {
                    what: what.into(),
                    reason: format!("they take {files} open files; raise `ulimit -Hn`"),
                });
            }
            let raised = Rlimit {
                current: Some(files),
                maximum: before.maximum,
            };
            setrlimit(Resource::Nofile, raised).map_err(Error::errno("raise `ulimit -n`"))?;
        }
        Ok(Self(before))
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        // A failure leaves a limit that is higher than before.
        let _ = setrlimit(Resource::Nofile, self.0);
    }
}
