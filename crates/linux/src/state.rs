//! State of a setting at one moment, with everything needed to restore it.

use std::fmt;

use base::KnobValue;
use serde::{Deserialize, Serialize};

use crate::netlink::route::Route;

/// The state of one setting, as [`crate::Setting::read`] finds it. It is written into the journal
/// before a change, so its form in JSON only ever grows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
#[non_exhaustive]
pub enum State {
    /// A setting that is nothing but its value.
    Plain {
        /// The value.
        value: KnobValue,
    },
    /// One buffer of a socket.
    Buffer {
        /// Its size as the kernel reports it, which is twice what was asked for.
        bytes: u64,
        /// Whether the size is fixed. Where it is not, the kernel changes it at will.
        locked: bool,
    },
    /// The buffer locks of a socket.
    Locks {
        /// 1 send, 2 receive.
        bits: u64,
        /// Size of the send buffer as the kernel reports it.
        send_bytes: u64,
        /// Size of the receive buffer as the kernel reports it.
        receive_bytes: u64,
    },
    /// A kernel parameter.
    Sysctl {
        /// Its text, with single spaces.
        text: String,
    },
    /// The root queue of an interface.
    Qdisc {
        /// Kind, such as `pfifo`.
        kind: String,
        /// Handle of the queue.
        handle: u32,
        /// Packets or bytes, by kind.
        limit: u64,
    },
    /// A route.
    Route {
        /// The whole route, or nothing where none has exactly this destination.
        route: Option<Route>,
        /// The metric that the knob sets, where the route has it.
        value: Option<KnobValue>,
    },
}

impl State {
    /// Whether both are the same setting as far as we set it: what the kernel changes by itself
    /// (the size of a buffer that is not locked) does not count.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Buffer { locked: false, .. }, Self::Buffer { locked: false, .. }) => true,
            (Self::Locks { bits, .. }, Self::Locks { bits: other, .. }) => bits == other,
            _ => self == other,
        }
    }

    /// Whether it is what a user asked for with `to`, neither clipped nor rounded.
    #[must_use]
    pub fn is_exactly(&self, to: &KnobValue) -> bool {
        match self {
            // Setting the size also fixes it, so an open buffer of the same size is another state.
            Self::Buffer { bytes, locked } => *locked && KnobValue::Number(bytes / 2) == *to,
            Self::Sysctl { text } => match to {
                KnobValue::Flag(on) => *text == u8::from(*on).to_string(),
                other => *text == other.to_string(),
            },
            other => other.value().as_ref() == Some(to),
        }
    }

    /// The value as a user would write it, where the setting has one.
    #[must_use]
    pub fn value(&self) -> Option<KnobValue> {
        match self {
            Self::Plain { value } => Some(value.clone()),
            Self::Buffer { bytes, .. } => Some(KnobValue::Number(bytes / 2)),
            Self::Locks { bits, .. } => Some(KnobValue::Number(*bits)),
            Self::Sysctl { text } => Some(KnobValue::Name(text.clone())),
            Self::Qdisc { limit, .. } => Some(KnobValue::Number(*limit)),
            Self::Route { value, .. } => value.clone(),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain { value } => value.fmt(f),
            Self::Buffer { bytes, locked } => {
                let how = if *locked {
                    "locked"
                } else {
                    "sized by the kernel"
                };
                write!(f, "{bytes}, {how}")
            }
            Self::Locks { bits, .. } => bits.fmt(f),
            Self::Sysctl { text } => f.pad(text),
            Self::Qdisc { limit, .. } => limit.fmt(f),
            Self::Route { route: None, .. } => f.pad("no route of its own"),
            Self::Route { value: None, .. } => f.pad("unset"),
            Self::Route {
                value: Some(value), ..
            } => value.fmt(f),
        }
    }
}
