//! The socket knobs of [`base::KNOBS`] on one descriptor: reading, writing, and putting back.
//!
//! Two of them are more than a number. Setting a buffer also locks it, that is, ends the kernel's
//! own sizing for good; and a lock that is opened lets the kernel change the size. So the state of
//! a buffer is its size together with its lock, and the state of the locks holds both sizes.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use base::knob::{Kind, LinuxSite};
use base::{FlowSample, Knob, KnobValue, tcp_info};
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};

use crate::error::{Error, Result};
use crate::state::State;

const SOL_SOCKET: i32 = libc::SOL_SOCKET;
const SO_BUF_LOCK: i32 = 72;
/// Room for what kernels to come may add to the 280 bytes of Linux 6.18.
const TCP_INFO_BYTES_MAX: usize = 512;
/// Bits of `SO_BUF_LOCK`. Linux 6.18 include/net/sock.h: the first two of `sk_userlocks`.
const LOCK_SEND: u64 = 1;
const LOCK_RECEIVE: u64 = 2;

/// One of the two buffers of a socket.
#[derive(Clone, Copy)]
struct Buffer {
    option: i32,
    /// The option that is not limited by `wmem_max` or `rmem_max`; needs `CAP_NET_ADMIN`.
    forced: i32,
    lock: u64,
}

const SEND: Buffer = Buffer {
    option: libc::SO_SNDBUF,
    forced: libc::SO_SNDBUFFORCE,
    lock: LOCK_SEND,
};
const RECEIVE: Buffer = Buffer {
    option: libc::SO_RCVBUF,
    forced: libc::SO_RCVBUFFORCE,
    lock: LOCK_RECEIVE,
};

/// Reads a socket knob of a descriptor.
///
/// # Errors
/// [`Error::Unsupported`] where this kernel lacks the option; [`Error::Os`] otherwise.
pub fn read(socket: BorrowedFd<'_>, knob: &Knob) -> Result<State> {
    let option = SocketOption::of(knob);
    if let Some(buffer) = option.buffer() {
        let locks = option.with("SO_BUF_LOCK", number(socket, SOL_SOCKET, SO_BUF_LOCK))?;
        return Ok(State::Buffer {
            bytes: option.check(number(socket, SOL_SOCKET, buffer.option))?,
            locked: locks & buffer.lock != 0,
        });
    }
    if option.is_lock() {
        return Ok(State::Locks {
            bits: option.check(number(socket, SOL_SOCKET, SO_BUF_LOCK))?,
            send_bytes: option.check(number(socket, SOL_SOCKET, SEND.option))?,
            receive_bytes: option.check(number(socket, SOL_SOCKET, RECEIVE.option))?,
        });
    }
    let value = match knob.kind {
        Kind::Name => KnobValue::Name(option.check(tcp_congestion(socket).map_err(Into::into))?),
        Kind::Flag => {
            KnobValue::Flag(option.check(number(socket, option.level, option.option))? != 0)
        }
        _ => KnobValue::Number(option.check(number(socket, option.level, option.option))?),
    };
    Ok(State::Plain { value })
}

/// Sets a socket knob of a descriptor. The kernel may clip or round the value; [`read()`] tells.
///
/// # Errors
/// [`Error::Knob`] where the value is none of this knob's, [`Error::Unsupported`] where this kernel
/// lacks the option, [`Error::Permission`] where the kernel reserves the value (a congestion
/// control that is not in `tcp_allowed_congestion_control`), [`Error::Os`] otherwise.
pub fn write(socket: BorrowedFd<'_>, knob: &Knob, value: &KnobValue) -> Result<()> {
    knob.check_for_linux(value)?;
    let option = SocketOption::of(knob);
    option.check(match value {
        KnobValue::Name(name) => set_tcp_congestion(socket, name).map_err(Into::into),
        KnobValue::Flag(on) => set(socket, option.level, option.option, u64::from(*on)),
        KnobValue::Number(number) => set(socket, option.level, option.option, *number),
        KnobValue::Triple(_) => Err(io::ErrorKind::InvalidInput.into()),
    })
}

/// Checks that this host has a congestion control, and that a socket of this process may have it.
///
/// # Errors
/// [`Error::NotFound`] where there is none of this name; otherwise as [`write()`].
pub fn check_congestion(name: &str) -> Result<()> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
        .map_err(Error::os("make a socket"))?;
    let knob = base::find_knob("congestion")?;
    write(socket.as_fd(), knob, &KnobValue::Name(name.into())).map_err(|error| match error {
        Error::NotFound { what, hint, .. } => Error::NotFound {
            what,
            name: name.into(),
            hint,
        },
        other => other,
    })
}

/// Puts back what [`read()`] returned before a [`write()`]. For a buffer and for the locks this
/// takes two calls; in between the buffer has its old size and is locked.
///
/// # Errors
/// As [`write()`].
pub fn restore(socket: BorrowedFd<'_>, knob: &Knob, old: &State) -> Result<()> {
    let option = SocketOption::of(knob);
    match old {
        State::Buffer { bytes, locked } => {
            let buffer = option.buffer().ok_or_else(|| option.foreign_state())?;
            option.check(set_buffer(socket, buffer, *bytes))?;
            if !locked {
                let bits = option.check(number(socket, SOL_SOCKET, SO_BUF_LOCK))?;
                option.check(set(socket, SOL_SOCKET, SO_BUF_LOCK, bits & !buffer.lock))?;
            }
            Ok(())
        }
        State::Locks {
            bits,
            send_bytes,
            receive_bytes,
        } => {
            let now = option.check(number(socket, SOL_SOCKET, SO_BUF_LOCK))?;
            // A size matters only where it was fixed; where it still is fixed it is not ours.
            for (buffer, bytes) in [(SEND, *send_bytes), (RECEIVE, *receive_bytes)] {
                if bits & buffer.lock != 0 && now & buffer.lock == 0 {
                    option.check(set_buffer(socket, buffer, bytes))?;
                }
            }
            option.check(set(socket, SOL_SOCKET, SO_BUF_LOCK, *bits))
        }
        State::Plain { value } => write(socket, knob, value),
        _ => Err(option.foreign_state()),
    }
}

/// One of the two buffers of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Send,
    Receive,
}

/// Lets the kernel size a buffer from now on, whatever the program has fixed it to.
pub(crate) fn unlock(socket: BorrowedFd<'_>, direction: Direction) -> Result<()> {
    let option = SocketOption {
        knob: "buf_lock",
        symbol: "SO_BUF_LOCK",
        level: SOL_SOCKET,
        option: SO_BUF_LOCK,
    };
    let lock = match direction {
        Direction::Send => LOCK_SEND,
        Direction::Receive => LOCK_RECEIVE,
    };
    let bits = option.check(number(socket, SOL_SOCKET, SO_BUF_LOCK))?;
    if bits & lock == 0 {
        return Ok(());
    }
    option.check(set(socket, SOL_SOCKET, SO_BUF_LOCK, bits & !lock))
}

/// Gives a buffer the size that was read from it, which also locks it. The kernel doubles what it
/// is told, and limits what it is told without privilege (Linux 6.18 `net/core/sock.c`,
/// `sk_setsockopt`), so the unlimited option comes first: a size that was reached by autotuning
/// lies above the limit. One call does it, so that no crash leaves a third size.
fn set_buffer(socket: BorrowedFd<'_>, buffer: Buffer, bytes: u64) -> io::Result<()> {
    match set(socket, SOL_SOCKET, buffer.forced, bytes / 2) {
        // Without the privilege the limited size must do; the journal reports what is read.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            set(socket, SOL_SOCKET, buffer.option, bytes / 2)
        }
        other => other,
    }
}

/// A socket option of a knob, with the names that error messages need.
#[derive(Clone, Copy)]
struct SocketOption {
    knob: &'static str,
    symbol: &'static str,
    level: i32,
    option: i32,
}

impl SocketOption {
    /// # Panics
    /// Where the knob is none of a socket: the caller has matched the site.
    fn of(knob: &Knob) -> Self {
        let Some(LinuxSite::SocketOption {
            level,
            option,
            symbol,
        }) = knob.linux
        else {
            panic!("{} is not a socket option", knob.name);
        };
        Self {
            knob: knob.name,
            symbol,
            level,
            option,
        }
    }

    fn buffer(self) -> Option<Buffer> {
        [SEND, RECEIVE]
            .into_iter()
            .find(|buffer| self.level == SOL_SOCKET && self.option == buffer.option)
    }

    fn is_lock(self) -> bool {
        self.level == SOL_SOCKET && self.option == SO_BUF_LOCK
    }

    fn check<T>(self, result: io::Result<T>) -> Result<T> {
        self.with(self.symbol, result)
    }

    fn with<T>(self, symbol: &str, result: io::Result<T>) -> Result<T> {
        result.map_err(|source| match source.raw_os_error() {
            Some(libc::ENOPROTOOPT) => Error::Unsupported {
                what: format!("the socket option {symbol}"),
                hint: format!(
                    "{} cannot be changed safely on a live socket here",
                    self.knob
                ),
            },
            Some(libc::ENOENT) => Error::NotFound {
                what: "congestion control",
                name: self.knob.into(),
                hint: "; `sysctl net.ipv4.tcp_available_congestion_control` lists those there are"
                    .into(),
            },
            Some(libc::EPERM) => Error::Permission {
                what: format!("setting {symbol}"),
                needs: "CAP_NET_ADMIN",
                hint: "run as root, or choose a value that requires no privilege".into(),
            },
            _ => Error::Os {
                op: format!("socket option {symbol}"),
                source,
            },
        })
    }

    fn foreign_state(self) -> Error {
        Error::Peer(format!("the saved state is not one of {}", self.knob))
    }
}

/// An option of type `int`, as an unsigned number: -1 of `TCP_NOTSENT_LOWAT` means 4294967295.
fn number(socket: BorrowedFd<'_>, level: i32, option: i32) -> io::Result<u64> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` and `length` are live and `length` says how large `value` is.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(u64::from(value.cast_unsigned()))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads the state of a connection of this process (`TCP_INFO`); fields unknown to the kernel are
/// `None`.
pub(crate) fn connection_info(socket: BorrowedFd<'_>, sample: &mut FlowSample) -> io::Result<()> {
    let mut info = [0; TCP_INFO_BYTES_MAX];
    tcp_info::fill(sample, read_info(socket, &mut info)?);
    Ok(())
}

/// Segments with payload that a socket of this process has sent, retransmissions included
/// (`tcpi_data_segs_out`); `None` where the kernel does not count them.
#[must_use]
pub fn data_segments_sent(socket: BorrowedFd<'_>) -> Option<u64> {
    let mut info = [0; TCP_INFO_BYTES_MAX];
    tcp_info::data_segments_sent(read_info(socket, &mut info).ok()?)
}

fn read_info<'i>(socket: BorrowedFd<'_>, info: &'i mut [u8]) -> io::Result<&'i [u8]> {
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: `info` and `length` are live and `length` says how large `info` is; the kernel
    // fills in at most that much and says how much it was.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let known = (length as usize).min(info.len());
    Ok(&info[..known])
}

fn set(socket: BorrowedFd<'_>, level: i32, option: i32, value: u64) -> io::Result<()> {
    let value = u32::try_from(value)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?
        .cast_signed();
    // SAFETY: the kernel reads `size_of::<c_int>()` bytes from a live `c_int`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::find_knob;
    use std::net::{TcpListener, TcpStream};

    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    /// Sets a knob, expects what is read back, restores, and expects the start in every knob.
    #[track_caller]
    fn check(knob: &str, text: &str, expected: &str) {
        let (client, _server) = connection();
        let whole = |fd: BorrowedFd<'_>| {
            base::KNOBS
                .iter()
                .filter(|knob| knob.is_socket_option())
                .map(|knob| (knob.name, read(fd, knob).unwrap()))
                .collect::<Vec<_>>()
        };
        let start = whole(client.as_fd());
        let knob = find_knob(knob).unwrap();
        let old = read(client.as_fd(), knob).unwrap();
        write(client.as_fd(), knob, &knob.parse(text).unwrap()).unwrap();
        let now = read(client.as_fd(), knob).unwrap();
        assert_eq!(now.to_string(), expected);
        restore(client.as_fd(), knob, &old).unwrap();
        assert_eq!(whole(client.as_fd()), start);
    }

    #[test]
    fn every_socket_knob_is_set_read_back_and_restored() {
        check("nodelay", "on", "on");
        check("cork", "on", "on");
        check("quickack", "off", "off");
        check("congestion", "reno", "reno");
        check("sndbuf", "64KiB", "131072, locked");
        check("sndbuf", "0", "4608, locked");
        check("rcvbuf", "64KiB", "131072, locked");
        check("buf_lock", "3", "3");
        check("notsent_lowat", "16KiB", "16384");
        check("delack_max", "40ms", "40000");
    }

    #[test]
    fn a_lock_that_was_opened_closes_again_at_the_old_size() {
        let (client, _server) = connection();
        let knob = |name| find_knob(name).unwrap();
        let fd = client.as_fd();
        write(fd, knob("sndbuf"), &KnobValue::Number(30_000)).unwrap();
        let start = read(fd, knob("buf_lock")).unwrap();
        write(fd, knob("buf_lock"), &KnobValue::Number(0)).unwrap();
        // The kernel grows the open buffer.
        set(fd, SOL_SOCKET, SEND.option, 90_000).unwrap();
        set(fd, SOL_SOCKET, SO_BUF_LOCK, 0).unwrap();
        restore(fd, knob("buf_lock"), &start).unwrap();
        assert_eq!(read(fd, knob("buf_lock")).unwrap(), start);
        assert_eq!(
            read(fd, knob("sndbuf")).unwrap().to_string(),
            "60000, locked"
        );
    }

    #[test]
    fn a_size_above_the_limit_is_restored_where_that_is_allowed() {
        let (client, _server) = connection();
        let knob = find_knob("sndbuf").unwrap();
        if set(client.as_fd(), SOL_SOCKET, SEND.forced, 8 << 20).is_err() {
            return; // Not ours to exceed the limit.
        }
        let start = read(client.as_fd(), knob).unwrap();
        write(client.as_fd(), knob, &KnobValue::Number(4096)).unwrap();
        restore(client.as_fd(), knob, &start).unwrap();
        assert_eq!(read(client.as_fd(), knob).unwrap(), start);
        assert_eq!(start.to_string(), "16777216, locked");
    }
}
