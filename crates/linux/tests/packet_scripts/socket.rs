//! Sockets of the kernel, used as a script says.

use std::ffi::CString;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use packet_script::{CallResult, Setting, SettingValue, Value};
use socket2::{Domain, SockAddr, Socket, Type};

/// How a setting reaches the kernel.
enum Unit {
    Plain,
    Seconds,
    Millis,
    Micros,
}

/// Name, level, option and unit (`include/uapi/linux/tcp.h`, `asm-generic/socket.h`).
const OPTIONS: &[(&str, libc::c_int, libc::c_int, Unit)] = &[
    ("cork", libc::IPPROTO_TCP, libc::TCP_CORK, Unit::Plain),
    (
        "defer_accept",
        libc::IPPROTO_TCP,
        libc::TCP_DEFER_ACCEPT,
        Unit::Seconds,
    ),
    ("delack_max", libc::IPPROTO_TCP, 46, Unit::Micros),
    (
        "keepalive_interval",
        libc::IPPROTO_TCP,
        libc::TCP_KEEPINTVL,
        Unit::Seconds,
    ),
    (
        "keepalive_probes",
        libc::IPPROTO_TCP,
        libc::TCP_KEEPCNT,
        Unit::Plain,
    ),
    ("max_pacing_rate", libc::SOL_SOCKET, 47, Unit::Plain),
    ("mss", libc::IPPROTO_TCP, libc::TCP_MAXSEG, Unit::Plain),
    ("nodelay", libc::IPPROTO_TCP, libc::TCP_NODELAY, Unit::Plain),
    ("notsent_lowat", libc::IPPROTO_TCP, 25, Unit::Plain),
    (
        "quickack",
        libc::IPPROTO_TCP,
        libc::TCP_QUICKACK,
        Unit::Plain,
    ),
    ("rcvbuf", libc::SOL_SOCKET, libc::SO_RCVBUF, Unit::Plain),
    ("rcvlowat", libc::SOL_SOCKET, libc::SO_RCVLOWAT, Unit::Plain),
    ("rto_max", libc::IPPROTO_TCP, 44, Unit::Millis),
    ("rto_min", libc::IPPROTO_TCP, 45, Unit::Micros),
    ("sndbuf", libc::SOL_SOCKET, libc::SO_SNDBUF, Unit::Plain),
    (
        "syn_retries",
        libc::IPPROTO_TCP,
        libc::TCP_SYNCNT,
        Unit::Plain,
    ),
    (
        "thin_linear",
        libc::IPPROTO_TCP,
        libc::TCP_THIN_LINEAR_TIMEOUTS,
        Unit::Plain,
    ),
    (
        "urgent_inline",
        libc::SOL_SOCKET,
        libc::SO_OOBINLINE,
        Unit::Plain,
    ),
    (
        "user_timeout",
        libc::IPPROTO_TCP,
        libc::TCP_USER_TIMEOUT,
        Unit::Millis,
    ),
    (
        "window_clamp",
        libc::IPPROTO_TCP,
        libc::TCP_WINDOW_CLAMP,
        Unit::Plain,
    ),
];

/// Field of `struct tcp_info`, its offset and length; they never move.
const INFO: &[(&str, usize, usize)] = &[
    ("timeouts", 2, 1),
    ("probes", 3, 1),
    ("backoff", 4, 1),
    ("rto", 8, 4),
    ("ato", 12, 4),
    ("snd_mss", 16, 4),
    ("rcv_mss", 20, 4),
    ("unacked", 24, 4),
    ("sacked", 28, 4),
    ("lost", 32, 4),
    ("retrans", 36, 4),
    ("pmtu", 60, 4),
    ("rcv_ssthresh", 64, 4),
    ("srtt", 68, 4),
    ("rttvar", 72, 4),
    ("ssthresh", 76, 4),
    ("cwnd", 80, 4),
    ("advmss", 84, 4),
    ("reordering", 88, 4),
    ("rcv_space", 96, 4),
    ("total_retrans", 100, 4),
    ("bytes_acked", 120, 8),
    ("bytes_received", 128, 8),
    ("segs_out", 136, 4),
    ("segs_in", 140, 4),
    ("notsent", 144, 4),
    ("min_rtt", 148, 4),
    ("data_segs_in", 152, 4),
    ("data_segs_out", 156, 4),
    ("busy", 168, 8),
    ("rwnd_limited", 176, 8),
    ("sndbuf_limited", 184, 8),
    ("delivered", 192, 4),
    ("delivered_ce", 196, 4),
    ("bytes_sent", 200, 8),
    ("bytes_retrans", 208, 8),
    ("dsack_dups", 216, 4),
    ("reord_seen", 220, 4),
    ("out_of_order", 224, 4),
    ("snd_wnd", 228, 4),
    ("rcv_wnd", 232, 4),
    ("rto_total", 240, 2),
];

const STATES: [&str; 12] = [
    "established",
    "syn-sent",
    "syn-received",
    "fin-wait-1",
    "fin-wait-2",
    "time-wait",
    "closed",
    "close-wait",
    "last-ack",
    "listen",
    "closing",
    "syn-received",
];

const CONGESTION_STATES: [&str; 5] = ["open", "disorder", "cwr", "recovery", "loss"];

/// Place of the values in `SO_MEMINFO`.
const MEMORY: &[(&str, usize)] = &[("rmem", 0), ("rcvbuf", 1), ("sndbuf", 3), ("wmem", 5)];

/// One socket.
pub(crate) struct KernelSocket {
    fd: OwnedFd,
    pub(crate) written: i64,
    pub(crate) read: i64,
}

impl KernelSocket {
    pub(crate) fn new(ipv6: bool, settings: &[Setting]) -> Result<Self, String> {
        let domain = if ipv6 { Domain::IPV6 } else { Domain::IPV4 };
        let socket = Socket::new(domain, Type::STREAM.nonblocking(), None);
        let fd: OwnedFd = socket.map_err(|error| error.to_string())?.into();
        let socket = Self::from_fd(fd);
        socket.set_name(libc::TCP_CONGESTION, "cubic")?;
        for setting in settings {
            socket.set(setting)?;
        }
        Ok(socket)
    }

    fn from_fd(fd: OwnedFd) -> Self {
        Self {
            fd,
            written: 0,
            read: 0,
        }
    }

    fn raw(&self) -> libc::c_int {
        self.fd.as_raw_fd()
    }

    pub(crate) fn listen(&self, at: SocketAddr, backlog: u32) -> Result<(), String> {
        let socket = socket2::SockRef::from(&self.fd);
        let bound = socket
            .set_reuse_address(true)
            .and_then(|()| socket.bind(&at.into()));
        let backlog = libc::c_int::try_from(backlog).unwrap_or(libc::c_int::MAX);
        bound
            .and_then(|()| socket.listen(backlog))
            .map_err(|error| error.to_string())
    }

    pub(crate) fn connect(&self, to: SocketAddr) -> CallResult {
        match socket2::SockRef::from(&self.fd).connect(&SockAddr::from(to)) {
            Ok(()) => CallResult::Done,
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => CallResult::Done,
            Err(error) => failed(&error),
        }
    }

    pub(crate) fn accept(&self) -> Result<Self, CallResult> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let none = std::ptr::null_mut();
        // SAFETY: no address is asked for.
        let fd = unsafe { libc::accept4(self.raw(), none, std::ptr::null_mut(), flags) };
        if fd < 0 {
            return Err(failed(&io::Error::last_os_error()));
        }
        // SAFETY: the kernel just made it, and nothing else has it.
        Ok(Self::from_fd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn write(&mut self, bytes: &[u8], more: bool, urgent: bool) -> CallResult {
        let mut flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        flags |= if more { libc::MSG_MORE } else { 0 };
        flags |= if urgent { libc::MSG_OOB } else { 0 };
        // SAFETY: the slice is valid for its length.
        let done = unsafe { libc::send(self.raw(), bytes.as_ptr().cast(), bytes.len(), flags) };
        match u32::try_from(done) {
            Ok(count) => {
                self.written += i64::from(count);
                CallResult::Count(count)
            }
            Err(_) => failed(&io::Error::last_os_error()),
        }
    }

    /// What was read.
    pub(crate) fn read(&mut self, bytes: u32, peeks: bool) -> Result<Vec<u8>, CallResult> {
        let mut buffer = vec![0; bytes as usize];
        let flags = libc::MSG_DONTWAIT | if peeks { libc::MSG_PEEK } else { 0 };
        // SAFETY: the buffer is valid for its length.
        let done =
            unsafe { libc::recv(self.raw(), buffer.as_mut_ptr().cast(), buffer.len(), flags) };
        match usize::try_from(done) {
            Ok(0) => Err(CallResult::End),
            Ok(count) => {
                buffer.truncate(count);
                self.read += if peeks { 0 } else { done as i64 };
                Ok(buffer)
            }
            Err(_) => Err(failed(&io::Error::last_os_error())),
        }
    }

    pub(crate) fn shutdown(&self, how: std::net::Shutdown) -> CallResult {
        match socket2::SockRef::from(&self.fd).shutdown(how) {
            Ok(()) => CallResult::Done,
            Err(error) => failed(&error),
        }
    }

    /// Dropping it then resets the connection.
    pub(crate) fn reset_on_close(&self) {
        let reset = socket2::SockRef::from(&self.fd).set_linger(Some(Duration::ZERO));
        reset.expect("every TCP socket lingers");
    }

    pub(crate) fn set(&self, setting: &Setting) -> Result<(), String> {
        let Setting { name, value } = setting;
        match (name.as_str(), value) {
            ("congestion", SettingValue::Name(name)) => self.set_name(libc::TCP_CONGESTION, name),
            ("keepalive", SettingValue::Time(idle)) => {
                let seconds = idle.as_secs() as libc::c_int;
                self.set_int(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds)?;
                self.set_int(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)
            }
            ("linger", SettingValue::Time(time)) => socket2::SockRef::from(&self.fd)
                .set_linger(Some(*time))
                .map_err(|error| error.to_string()),
            _ => {
                let found = OPTIONS.iter().find(|(known, ..)| known == name);
                let (_, level, option, unit) = found.ok_or(format!("no setting {name}"))?;
                self.set_int(*level, *option, in_unit(value, unit)?)
            }
        }
    }

    fn set_int(&self, level: i32, option: i32, value: libc::c_int) -> Result<(), String> {
        self.set_bytes(level, option, &value.to_ne_bytes())
    }

    fn set_name(&self, option: i32, name: &str) -> Result<(), String> {
        let text = CString::new(name).map_err(|error| error.to_string())?;
        self.set_bytes(libc::IPPROTO_TCP, option, text.as_bytes())
    }

    fn set_bytes(&self, level: i32, option: i32, value: &[u8]) -> Result<(), String> {
        let length = value.len() as libc::socklen_t;
        // SAFETY: the value is valid for its length and outlives the call.
        let done =
            unsafe { libc::setsockopt(self.raw(), level, option, value.as_ptr().cast(), length) };
        if done == 0 {
            return Ok(());
        }
        Err(format!("option {option}: {}", io::Error::last_os_error()))
    }

    /// The bytes of an option.
    fn option(&self, level: i32, option: i32) -> Vec<u8> {
        let mut value = vec![0; 512];
        let mut length = value.len() as libc::socklen_t;
        // SAFETY: the buffer is valid for `length`, and both outlive the call.
        let done = unsafe {
            libc::getsockopt(
                self.raw(),
                level,
                option,
                value.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        value.truncate(if done == 0 { length as usize } else { 0 });
        value
    }

    fn queue(&self, request: libc::Ioctl) -> Option<Value> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: these requests write one `c_int`, which outlives the call.
        let done = unsafe { libc::ioctl(self.raw(), request, &raw mut bytes) };
        (done == 0).then_some(Value::Number(bytes as u64))
    }

    fn is_readable(&self) -> bool {
        let mut poll = libc::pollfd {
            fd: self.raw(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one `pollfd`, which outlives the call.
        unsafe { libc::poll(&raw mut poll, 1, 0) };
        poll.revents & libc::POLLIN != 0
    }

    pub(crate) fn sample(&self, field: &str) -> Option<Value> {
        match field {
            "readable" => return Some(Value::Number(self.is_readable().into())),
            "outq" => return self.queue(libc::TIOCOUTQ),
            "unread" => return self.queue(libc::FIONREAD),
            "error" => {
                let error = self.option(libc::SOL_SOCKET, libc::SO_ERROR);
                let number = i32::from_ne_bytes(error.try_into().ok()?);
                return Some(Value::Name(error_name(number)));
            }
            _ => {}
        }
        if let Some((_, index)) = MEMORY.iter().find(|(name, _)| *name == field) {
            let memory = self.option(libc::SOL_SOCKET, 55);
            return number(&memory, index * 4, 4);
        }
        let info = self.option(libc::IPPROTO_TCP, libc::TCP_INFO);
        let flag = |bit: u8| {
            let set = info.get(5)? & bit != 0;
            Some(Value::Number(set.into()))
        };
        match field {
            "state" => name(&STATES, usize::from(*info.first()?).checked_sub(1)?),
            "congestion_state" => name(&CONGESTION_STATES, (*info.get(1)?).into()),
            "timestamps" => flag(1),
            "sack" => flag(2),
            "ecn" => flag(8),
            "snd_wscale" => Some(Value::Number((info.get(6)? & 15).into())),
            "rcv_wscale" => Some(Value::Number((info.get(6)? >> 4).into())),
            _ => {
                let (_, at, length) = INFO.iter().find(|(name, ..)| *name == field)?;
                number(&info, *at, *length)
            }
        }
    }
}

fn name(names: &[&str], index: usize) -> Option<Value> {
    names.get(index).map(|name| Value::Name((*name).to_owned()))
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<Value> {
    let mut wide = [0; 8];
    wide[..length].copy_from_slice(bytes.get(at..at + length)?);
    Some(Value::Number(u64::from_le_bytes(wide)))
}

fn in_unit(value: &SettingValue, unit: &Unit) -> Result<libc::c_int, String> {
    let number = match (value, unit) {
        (SettingValue::Number(number), _) => u128::from(*number),
        (SettingValue::Time(time), Unit::Seconds) => time.as_secs().into(),
        (SettingValue::Time(time), Unit::Millis) => time.as_millis(),
        (SettingValue::Time(time), Unit::Micros) => time.as_micros(),
        _ => return Err(format!("{value:?} does not fit")),
    };
    // Limits such as that of unsent data are unsigned.
    u32::try_from(number)
        .map(u32::cast_signed)
        .map_err(|error| error.to_string())
}

fn failed(error: &io::Error) -> CallResult {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINPROGRESS) => CallResult::Again,
        number => CallResult::Error(error_name(number.unwrap_or(0))),
    }
}

fn error_name(number: i32) -> String {
    match number {
        0 => "none".into(),
        libc::ECONNRESET => "reset".into(),
        libc::ECONNREFUSED => "refused".into(),
        libc::ETIMEDOUT => "timed-out".into(),
        libc::EHOSTUNREACH | libc::ENETUNREACH => "unreachable".into(),
        libc::EPIPE => "broken".into(),
        libc::ENOTCONN => "not-connected".into(),
        libc::ENOPROTOOPT => "no-protocol".into(),
        other => format!("errno-{other}"),
    }
}
