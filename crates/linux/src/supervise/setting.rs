//! One setting that the sockets of a supervised program get, whatever the program sets itself.

use std::fmt;
use std::os::fd::AsFd;
use std::str::FromStr;

use base::knob::LinuxSite;
use base::{Knob, KnobError, KnobValue, find_knob};

use crate::error::Result;
use crate::remote_socket::RemoteSocket;
use crate::sockopt;

const SOL_SOCKET: i32 = libc::SOL_SOCKET;
/// The word for buffers that the kernel sizes.
const AUTO: &str = "auto";

/// A knob of a socket and what it is set to.
#[derive(Clone, Debug)]
pub struct SocketSetting {
    knob: &'static Knob,
    to: To,
}

impl PartialEq for SocketSetting {
    fn eq(&self, other: &Self) -> bool {
        // Names are of one knob each.
        (self.knob.name, &self.to) == (other.knob.name, &other.to)
    }
}

#[derive(Clone, Debug, PartialEq)]
enum To {
    Value(KnobValue),
    /// The kernel sizes the buffer: its lock is open.
    Auto(sockopt::Direction),
}

/// A socket option that the program does not set itself while a setting forces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forced {
    pub(super) level: i32,
    pub(super) option: i32,
}

impl SocketSetting {
    /// The name of the knob.
    #[must_use]
    pub const fn knob(&self) -> &'static str {
        self.knob.name
    }

    /// Its value; `None` for a buffer that the kernel sizes.
    #[must_use]
    pub const fn value(&self) -> Option<&KnobValue> {
        match &self.to {
            To::Value(value) => Some(value),
            To::Auto(_) => None,
        }
    }

    /// A buffer that the kernel sizes: `sndbuf=auto` or `rcvbuf=auto`; `None` for other knobs.
    #[must_use]
    pub fn automatic(knob: &str) -> Option<Self> {
        let direction = match knob {
            "sndbuf" => sockopt::Direction::Send,
            "rcvbuf" => sockopt::Direction::Receive,
            _ => return None,
        };
        Some(Self {
            knob: find_knob(knob).ok()?,
            to: To::Auto(direction),
        })
    }

    /// A knob with a value of its own.
    ///
    /// # Errors
    /// [`KnobError::Invalid`] if it cannot be set on a socket before it is connected, or the value
    /// is not valid; [`KnobError::NotInLinux`].
    pub fn new(knob: &'static Knob, value: KnobValue) -> Result<Self, KnobError> {
        knob.check_for_linux(&value)?;
        let invalid = |reason: &str| {
            Err(KnobError::Invalid {
                knob: knob.name,
                reason: reason.into(),
            })
        };
        if !knob.is_socket_option() {
            return invalid("not a setting of a socket; `tcptailor apply` sets those of a host");
        }
        if knob.name == "quickack" {
            return invalid("the kernel clears it when the connection opens; use route.quickack");
        }
        Ok(Self {
            knob,
            to: To::Value(value),
        })
    }

    /// The options that the program would change it by.
    pub(super) fn forced(&self) -> Vec<Forced> {
        let socket = |option| Forced {
            level: SOL_SOCKET,
            option,
        };
        match (self.knob.name, self.knob.linux) {
            ("sndbuf", _) => vec![socket(libc::SO_SNDBUF), socket(libc::SO_SNDBUFFORCE)],
            ("rcvbuf", _) => vec![socket(libc::SO_RCVBUF), socket(libc::SO_RCVBUFFORCE)],
            (_, Some(LinuxSite::SocketOption { level, option, .. })) => {
                vec![Forced { level, option }]
            }
            _ => Vec::new(),
        }
    }

    /// Gives it to a socket.
    pub(super) fn apply(&self, socket: &RemoteSocket) -> Result<()> {
        match &self.to {
            To::Value(value) => sockopt::write(socket.as_fd(), self.knob, value),
            To::Auto(direction) => sockopt::unlock(socket.as_fd(), *direction),
        }
    }
}

impl fmt::Display for SocketSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.to {
            To::Value(value) => {
                let text = self.knob.format(value);
                write!(f, "{}={}", self.knob.name, text.replace(' ', ""))
            }
            To::Auto(_) => write!(f, "{}={AUTO}", self.knob.name),
        }
    }
}

impl FromStr for SocketSetting {
    type Err = KnobError;

    /// Reads `KNOB=VALUE`.
    fn from_str(text: &str) -> Result<Self, KnobError> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let knob = find_knob(name.trim())?;
        if value.trim() == AUTO {
            return Self::automatic(knob.name).ok_or_else(|| KnobError::Invalid {
                knob: knob.name,
                reason: "`auto` is for sndbuf and rcvbuf".into(),
            });
        }
        if value.is_empty() {
            return Err(KnobError::Invalid {
                knob: knob.name,
                reason: "write KNOB=VALUE, such as nodelay=on or sndbuf=auto".into(),
            });
        }
        Self::new(knob, knob.parse(value)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_written() {
        let check = |text: &str, expected: &str| {
            let shown = match text.parse::<SocketSetting>() {
                Ok(setting) => setting.to_string(),
                Err(error) => error.to_string(),
            };
            assert_eq!(shown, expected);
            if let Ok(setting) = text.parse::<SocketSetting>() {
                assert_eq!(setting.to_string().parse(), Ok(setting));
            }
        };
        check("nodelay=on", "nodelay=on");
        check("SO_NONAGLE=1", "nodelay=on");
        check("sndbuf=auto", "sndbuf=auto");
        check("rcvbuf=64KiB", "rcvbuf=64KiB");
        check("delack_max=40ms", "delack_max=40ms");
        check("congestion=reno", "congestion=reno");
        check("cork=auto", "cork: `auto` is for sndbuf and rcvbuf");
        check(
            "nodelay",
            "nodelay: write KNOB=VALUE, such as nodelay=on or sndbuf=auto",
        );
        check(
            "quickack=on",
            "quickack: the kernel clears it when the connection opens; use route.quickack",
        );
        check(
            "net.ipv4.tcp_sack=off",
            "net.ipv4.tcp_sack: not a setting of a socket; `tcptailor apply` sets those of a host",
        );
        check(
            "nodely=on",
            "unknown knob `nodely`; did you mean `nodelay`?",
        );
    }
}
