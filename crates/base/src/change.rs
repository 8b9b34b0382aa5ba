//! One change of one setting in one place.

use alloc::string::{String, ToString};
use core::fmt;

use crate::sample::FlowKey;

/// The value of a knob. Its unit is the knob's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(untagged))]
pub enum KnobValue {
    /// On or off.
    Flag(bool),
    /// A number in the unit of the knob.
    Number(u64),
    /// Minimum, default and maximum, as in `tcp_rmem`.
    Triple([u64; 3]),
    /// A name, such as that of a congestion control.
    Name(String),
}

impl fmt::Display for KnobValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(on) => f.pad(if *on { "on" } else { "off" }),
            Self::Number(number) => f.pad(&number.to_string()),
            Self::Triple([min, default, max]) => f.pad(&alloc::format!("{min} {default} {max}")),
            Self::Name(name) => f.pad(name),
        }
    }
}

/// A network namespace, as a user names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Netns {
    /// The network namespace in which the program runs.
    #[default]
    Own,
    /// `/run/netns/NAME`, as `ip netns` shows it.
    Named(String),
    /// The namespace of a process.
    OfProcess(u32),
    /// A host of a simulation, which has no processes and ends with its program.
    Simulated(String),
}

impl fmt::Display for Netns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.pad("this namespace"),
            Self::Named(name) => write!(f, "namespace {name}"),
            Self::OfProcess(pid) => write!(f, "namespace of process {pid}"),
            Self::Simulated(host) => write!(f, "simulated {host}"),
        }
    }
}

/// The scope of a change, from the smallest to the largest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", tag = "scope"))]
pub enum Target {
    /// One live socket of a process, found again by its cookie.
    Socket {
        /// Namespace of the socket.
        netns: Netns,
        /// The process that holds it; 0 on a simulated host.
        pid: u32,
        /// The socket's cookie.
        cookie: u64,
        /// Its two ends, for people.
        key: FlowKey,
    },
    /// The route to one destination, such as `10.0.0.9/32` or `default`.
    Route {
        /// Namespace of the route.
        netns: Netns,
        /// Destination prefix.
        destination: String,
    },
    /// One interface.
    Link {
        /// Namespace of the interface.
        netns: Netns,
        /// Its name.
        name: String,
    },
    /// The root queueing discipline of one interface.
    Qdisc {
        /// Namespace of the interface.
        netns: Netns,
        /// The interface's name.
        link: String,
    },
    /// A whole network namespace (a sysctl).
    Namespace {
        /// Which.
        netns: Netns,
    },
}

impl Target {
    /// The namespace that it lies in.
    #[must_use]
    pub const fn netns(&self) -> &Netns {
        match self {
            Self::Socket { netns, .. }
            | Self::Route { netns, .. }
            | Self::Link { netns, .. }
            | Self::Qdisc { netns, .. }
            | Self::Namespace { netns } => netns,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket {
                netns: host @ Netns::Simulated(_),
                key,
                ..
            } => write!(f, "socket {key}, {host}"),
            Self::Socket { pid, key, .. } => write!(f, "socket {key} of process {pid}"),
            Self::Route { netns, destination } => write!(f, "route to {destination}, {netns}"),
            Self::Link { netns, name } => write!(f, "interface {name}, {netns}"),
            Self::Qdisc { netns, link } => write!(f, "queue of {link}, {netns}"),
            Self::Namespace { netns } => write!(f, "sysctl, {netns}"),
        }
    }
}

/// When a change takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Live {
    /// On the open connection.
    Now,
    /// Only on connections that are opened afterwards.
    Reconnect,
    /// Only after the program that holds the socket (or its listener) is started again.
    Restart,
}

/// Set `knob` at `target` to `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Change {
    /// The scope.
    pub target: Target,
    /// Name of a knob in [`crate::KNOBS`].
    pub knob: String,
    /// The value to set.
    pub to: KnobValue,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.knob, self.to, self.target)
    }
}
