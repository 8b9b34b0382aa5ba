//! What the sensors saw of a host and its connections over some time: all that an answer is made
//! from, whoever filled it.

use std::sync::Arc;

use base::{FlowKey, HostSample, Instant};

pub use samples::Samples;

mod anonymous;
#[cfg(feature = "files")]
pub mod file;
mod samples;

/// Everything that was seen in one network namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The connections in order of appearance.
    pub flows: Vec<Track>,
    /// The looks at the host in order of time; at least two.
    pub hosts: Vec<HostSample>,
    /// When it began.
    pub began: Instant,
    /// When it ended.
    pub ended: Instant,
    /// It was told to stop early.
    pub stopped: bool,
    /// It ended early because the process that was asked for has ended.
    pub process_ended: bool,
    /// Connections that matched and were left out because there were too many.
    pub flows_left_out: usize,
    /// Processes whose sockets may not be seen; a connection of theirs has no owners.
    pub unseen_processes: usize,
}

/// One connection and what was seen of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Its two ends.
    pub key: FlowKey,
    /// Its identity.
    pub cookie: u64,
    /// Who held it when that was looked up; empty where it is not known.
    pub owners: Vec<SocketOwner>,
    /// The looks at it in order of time; at least one.
    pub samples: Samples,
    /// It was gone before the window ended.
    pub ended: bool,
    /// The interface through which it sends, as the routes stand at the end; `None` where that was
    /// not looked up.
    pub interface: Option<String>,
    /// Why the options of its owner could not be read, such as a missing permission.
    pub options_error: Option<String>,
}

impl Track {
    /// A process that holds it, where one is known.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.owners.first().map(SocketOwner::pid)
    }
}

/// A process by name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ProcessInfo {
    /// Its number in the caller's process namespace.
    pub pid: u32,
    /// Its short name (`/proc/PID/comm`), at most 15 bytes. In this and the other names, control
    /// characters and what is no text are replaced by U+FFFD.
    pub command: String,
    /// Its arguments joined by spaces, 4096 bytes of them; empty for a kernel thread.
    pub cmdline: String,
    /// Its control group (version 2), such as `/system.slice/backup.service`.
    pub cgroup: Option<String>,
}

/// A process that holds a socket, and the descriptor by which it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOwner {
    /// The number of the descriptor in that process.
    pub fd: i32,
    /// The process.
    pub process: Arc<ProcessInfo>,
}

impl SocketOwner {
    /// Number of the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid
    }
}
