//! Sockets of workloads: every option by its knob, set before it decides anything.
//!
//! Which option may be set when: a receive buffer decides the window scale in the handshake, so it
//! is set before `connect`, and on a listener before `listen` (accepted sockets inherit it). The
//! congestion control is always set per socket, never by sysctl.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use base::{Instant, KnobValue, find_knob};
use lab::Settings;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::sockopt;

/// Connections that may wait for `accept`.
const BACKLOG: i32 = 1024;

/// How the sockets of one end are set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SocketSpec {
    /// Knobs of scope socket, by name. `quickack` is set again before every read, because the
    /// kernel clears it by itself.
    #[serde(default, with = "settings")]
    pub settings: Settings,
    /// Congestion control where `settings` names none: tried, and left alone where the kernel
    /// refuses. `None` keeps what the kernel chose.
    #[serde(default)]
    pub default_congestion: Option<String>,
    /// Sets buffers on accepted sockets instead of the listener: the window scale is then decided
    /// by the kernel's default.
    #[serde(default)]
    pub buffers_after_accept: bool,
}

impl SocketSpec {
    /// Checks that every setting is a knob of a socket, with a value in its range.
    ///
    /// # Errors
    /// A sentence that says what to write.
    pub fn check(&self) -> Result<(), String> {
        for (name, value) in &self.settings {
            let knob = find_knob(name).map_err(|error| error.to_string())?;
            knob.check_for_linux(value)
                .map_err(|error| error.to_string())?;
            if !knob.is_socket_option() {
                return Err(format!(
                    "`{name}` is not a socket option; set it on the host"
                ));
            }
        }
        Ok(())
    }

    /// The value to which `TCP_QUICKACK` is set before every read.
    pub(crate) fn quickack(&self) -> Option<bool> {
        match self.settings.get("quickack") {
            Some(KnobValue::Flag(on)) => Some(*on),
            _ => None,
        }
    }

    /// A listening socket with these settings. Port 0 lets the kernel choose.
    ///
    /// # Errors
    /// Where the address is taken or not of this host, or an option is refused.
    pub fn listen(&self, local: SocketAddr) -> Result<TcpListener> {
        let socket = tcp_socket(local)?;
        let op = || format!("listening on {local}");
        socket.set_reuse_address(true).map_err(Error::os(op()))?;
        if local.is_ipv6() {
            // One socket for both families where the address is a wildcard.
            let both = local.ip().is_unspecified();
            socket.set_only_v6(!both).map_err(Error::os(op()))?;
        }
        self.apply(&socket, |name| !self.is_for_accepted(name))?;
        socket
            .bind(&local.into())
            .and_then(|()| socket.listen(BACKLOG))
            .map_err(|error| listen_error(local, error))?;
        Ok(socket.into())
    }

    /// Sets on an accepted socket what it could not inherit.
    ///
    /// # Errors
    /// Where an option is refused.
    pub(crate) fn finish_accepted(&self, stream: &TcpStream) -> Result<()> {
        self.apply_settings(stream, |name| self.is_for_accepted(name))
    }

    fn is_for_accepted(&self, name: &str) -> bool {
        name == "cork" || (self.buffers_after_accept && is_buffer(name))
    }

    /// Sets everything on a socket that was accepted by a listener without these settings.
    ///
    /// # Errors
    /// Where an option is refused.
    pub(crate) fn apply_all(&self, stream: &TcpStream) -> Result<()> {
        self.apply(stream, |_| true)
    }

    /// Opens a connection with these settings.
    ///
    /// # Errors
    /// [`Error::Peer`] where the host refuses or does not answer within `timeout`.
    pub(crate) fn connect(&self, remote: SocketAddr, timeout: Duration) -> Result<TcpStream> {
        let socket = tcp_socket(remote)?;
        self.apply(&socket, |_| true)?;
        // tcp(7): SO_SNDTIMEO also bounds a blocking connect.
        socket
            .set_write_timeout(Some(timeout))
            .map_err(Error::os("SO_SNDTIMEO"))?;
        socket
            .connect(&remote.into())
            .map_err(|error| connect_error(remote, timeout, &error))?;
        socket
            .set_write_timeout(None)
            .map_err(Error::os("SO_SNDTIMEO"))?;
        Ok(socket.into())
    }

    fn apply(&self, socket: &impl AsFd, wanted: impl Fn(&str) -> bool) -> Result<()> {
        if let (Some(name), None) = (&self.default_congestion, self.settings.get("congestion")) {
            // A kernel without it, or one that reserves it, keeps its own; the summary says which.
            let _ = SockRef::from(socket).set_tcp_congestion(name.as_bytes());
        }
        self.apply_settings(socket, wanted)
    }

    fn apply_settings(&self, socket: &impl AsFd, wanted: impl Fn(&str) -> bool) -> Result<()> {
        self.settings
            .iter()
            .filter(|(name, _)| wanted(name))
            .try_for_each(|(name, value)| set_option(socket, name, value))
    }
}

/// Sets one option by its knob. A name that is not a socket option is left out:
/// [`SocketSpec::check`] has rejected it.
fn set_option(socket: &impl AsFd, name: &str, value: &KnobValue) -> Result<()> {
    match find_knob(name) {
        Ok(knob) if knob.is_socket_option() => {
            sockopt::write(socket.as_fd(), knob, value).map_err(|error| match error {
                Error::NotFound { what, hint, .. } => Error::NotFound {
                    what,
                    name: value.to_string(),
                    hint,
                },
                other => other,
            })
        }
        _ => Ok(()),
    }
}

/// Sets `TCP_QUICKACK`, which the kernel clears by itself.
pub(crate) fn set_quickack(stream: &TcpStream, on: bool) -> io::Result<()> {
    rustix::net::sockopt::set_tcp_quickack(stream, on).map_err(Into::into)
}

/// Bytes that were written but not acknowledged yet (`SIOCOUTQ`).
pub(crate) fn unacked_bytes(socket: &impl AsFd) -> io::Result<u64> {
    const SIOCOUTQ: rustix::ioctl::Opcode = libc::TIOCOUTQ as rustix::ioctl::Opcode;
    // SAFETY: tcp(7): SIOCOUTQ fills in one int.
    let bytes: i32 = unsafe {
        rustix::ioctl::ioctl(
            socket.as_fd(),
            rustix::ioctl::Getter::<SIOCOUTQ, i32>::new(),
        )?
    };
    Ok(u64::from(bytes.unsigned_abs()))
}

/// The congestion control of a socket; empty where the kernel does not say.
pub(crate) fn congestion_of(socket: &impl AsFd) -> String {
    let name = SockRef::from(socket).tcp_congestion().unwrap_or_default();
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Meaning of a failed read or write on a connection. Its remote end is to be asked for earlier:
/// the kernel tells none of a connection that was reset.
pub(crate) fn flow_error(remote: Option<SocketAddr>, source: io::Error) -> Error {
    use io::ErrorKind as Kind;
    let remote = remote.map_or_else(|| "the other end".into(), |remote| remote.to_string());
    let source = match source.downcast::<Error>() {
        Ok(error) => return error,
        Err(source) => source,
    };
    match source.kind() {
        Kind::ConnectionReset | Kind::BrokenPipe | Kind::UnexpectedEof => Error::Peer(format!(
            "{remote} closed the connection in the middle of the test"
        )),
        Kind::TimedOut | Kind::HostUnreachable | Kind::NetworkUnreachable => Error::Peer(format!(
            "{remote} vanished in the middle of the test: {source}"
        )),
        _ => Error::Os {
            op: format!("connection with {remote}"),
            source,
        },
    }
}

fn tcp_socket(address: SocketAddr) -> Result<Socket> {
    Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )
    .map_err(Error::os("making a TCP socket"))
}

fn listen_error(local: SocketAddr, source: io::Error) -> Error {
    let op = match source.kind() {
        io::ErrorKind::AddrInUse => {
            format!("listening on {local} (another program does; choose another port)")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("listening on {local} (choose an address of this machine)")
        }
        io::ErrorKind::PermissionDenied => {
            format!("listening on {local} (choose a port from 1024 on)")
        }
        _ => format!("listening on {local}"),
    };
    Error::Os { op, source }
}

/// Fills the buffer, however many reads it takes, until the deadline.
///
/// # Errors
/// `TimedOut` at the deadline, `UnexpectedEof` where the peer closes, and those of `read`.
pub(crate) fn read_exact_by(
    mut stream: &TcpStream,
    buffer: &mut [u8],
    deadline: Instant,
) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        let left = deadline.since(Clock.now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => filled += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn connect_error(remote: SocketAddr, timeout: Duration, source: &io::Error) -> Error {
    use io::ErrorKind as Kind;
    match (source.kind(), source.raw_os_error()) {
        (Kind::ConnectionRefused, _) => Error::ConnectionRefused { remote },
        (Kind::WouldBlock | Kind::TimedOut, _) | (_, Some(libc::EINPROGRESS)) => {
            Error::Peer(format!(
                "{remote} does not answer within {}; check the address and the firewall",
                base::format_duration(timeout)
            ))
        }
        (Kind::AddrNotAvailable, _) => Error::Peer(format!(
            "no free local port towards {remote}; wait a minute, or widen \
             net.ipv4.ip_local_port_range"
        )),
        _ => Error::Peer(format!("{remote} cannot be reached: {source}")),
    }
}

fn is_buffer(name: &str) -> bool {
    matches!(name, "sndbuf" | "rcvbuf" | "buf_lock")
}

/// Settings as a map from knob names to values; an unknown knob is refused with the nearest name.
pub(crate) mod settings {
    use std::collections::BTreeMap;

    use base::{KnobValue, find_knob};
    use lab::Settings;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(s: &Settings, serializer: S) -> Result<S::Ok, S::Error> {
        s.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Settings, D::Error> {
        BTreeMap::<String, KnobValue>::deserialize(d)?
            .into_iter()
            .map(|(name, value)| {
                let knob = find_knob(&name).map_err(D::Error::custom)?;
                knob.check(&value).map_err(D::Error::custom)?;
                Ok((knob.name, value))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(pairs: &[(&str, &str)]) -> SocketSpec {
        let settings = pairs.iter().map(|(name, text)| {
            let knob = find_knob(name).expect("a knob");
            (knob.name, knob.parse(text).expect("a value"))
        });
        SocketSpec {
            settings: settings.collect(),
            ..SocketSpec::default()
        }
    }

    #[test]
    fn options_reach_both_ends_and_accepted_sockets_inherit_them() {
        let server = spec(&[
            ("rcvbuf", "32KiB"),
            ("nodelay", "on"),
            ("congestion", "reno"),
        ]);
        let listener = server
            .listen("127.0.0.1:0".parse().expect("address"))
            .expect("listens");
        let address = listener.local_addr().expect("bound");
        let client = spec(&[("sndbuf", "16KiB"), ("cork", "on")]);
        let stream = client
            .connect(address, Duration::from_secs(5))
            .expect("connects");
        let (accepted, _) = listener.accept().expect("a connection");
        server.finish_accepted(&accepted).expect("options");
        assert_eq!(
            SockRef::from(&accepted).recv_buffer_size().expect("int"),
            65_536
        );
        assert!(accepted.nodelay().expect("flag"));
        assert_eq!(congestion_of(&accepted), "reno");
        assert_eq!(
            SockRef::from(&stream).send_buffer_size().expect("int"),
            32_768
        );
        assert!(SockRef::from(&stream).tcp_cork().expect("flag"));
        assert_eq!(unacked_bytes(&stream).expect("int"), 0);
    }

    #[test]
    fn buffers_can_wait_for_the_accepted_socket() {
        let server = SocketSpec {
            buffers_after_accept: true,
            ..spec(&[("rcvbuf", "32KiB")])
        };
        let listener = server
            .listen("127.0.0.1:0".parse().expect("address"))
            .expect("listens");
        assert_ne!(
            SockRef::from(&listener).recv_buffer_size().expect("int"),
            65_536
        );
        let _client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (accepted, _) = listener.accept().expect("a connection");
        server.finish_accepted(&accepted).expect("options");
        assert_eq!(
            SockRef::from(&accepted).recv_buffer_size().expect("int"),
            65_536
        );
    }

    #[test]
    fn refusals_say_what_to_do() {
        let closed = {
            let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
            listener.local_addr().expect("bound")
        };
        let refused = SocketSpec::default().connect(closed, Duration::from_secs(5));
        let message = refused.expect_err("no listener").to_string();
        assert!(
            message.contains("is `tcptailor serve` running there?"),
            "{message}"
        );

        let unknown = spec(&[("congestion", "none_such")]);
        let message = unknown
            .connect(closed, Duration::from_secs(5))
            .expect_err("no such congestion control")
            .to_string();
        assert!(
            message.contains("tcp_available_congestion_control"),
            "{message}"
        );

        let sysctl = spec(&[("net.ipv4.tcp_sack", "off")]).check();
        assert!(
            sysctl
                .expect_err("a sysctl")
                .contains("not a socket option")
        );
    }

    #[test]
    fn settings_travel_as_json() {
        let before = spec(&[("nodelay", "on"), ("rcvbuf", "4MiB"), ("congestion", "bbr")]);
        let text = serde_json::to_string(&before).expect("json");
        assert_eq!(
            serde_json::from_str::<SocketSpec>(&text).expect("back"),
            before
        );
        let error = serde_json::from_str::<SocketSpec>(r#"{"settings":{"nodlay":true}}"#);
        let message = error.expect_err("unknown").to_string();
        assert!(message.contains("did you mean `nodelay`"), "{message}");
    }
}
