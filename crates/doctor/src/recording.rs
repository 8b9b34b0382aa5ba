//! Recordings: samples of a host and its connections over some time. They are all the input of the
//! rules, whatever the source.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::{FlowKey, HostSample, Instant};

pub use samples::{Alike, LONG_IDLE, Samples, placed};

mod anonymous;
#[cfg(feature = "files")]
pub mod file;
mod samples;

/// Everything that was seen in one network namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The connections in order of appearance.
    pub flows: Vec<Track>,
    /// Samples of the host in order of time; at least two.
    pub hosts: Vec<HostSample>,
    /// When it began.
    pub began: Instant,
    /// When it ended.
    pub ended: Instant,
    /// Stopped early.
    pub stopped: bool,
    /// Ended early because the requested process has exited.
    pub process_ended: bool,
    /// Connections that matched and were left out because there were too many.
    pub flows_left_out: usize,
    /// Processes whose sockets may not be seen; a connection of theirs has no owners.
    pub unseen_processes: usize,
}

impl Recording {
    /// When the first of its connections was sampled; see [`Track::was_open_at`].
    #[must_use]
    pub fn first_look(&self) -> Option<Instant> {
        let tracks = self.flows.iter();
        tracks.filter_map(|track| track.samples.began()).min()
    }

    /// Both recordings joined; `later` was made afterwards in the same namespace.
    #[must_use]
    pub fn followed_by(mut self, later: Self) -> Self {
        let known = self.flows.iter().enumerate();
        let places: BTreeMap<u64, usize> = known.map(|(at, track)| (track.cookie, at)).collect();
        for track in &mut self.flows {
            // Ended, unless the later one has it.
            track.ended = true;
        }
        for track in later.flows {
            match places.get(&track.cookie) {
                Some(&at) => self.flows[at].go_on(track),
                None => self.flows.push(track),
            }
        }
        self.hosts.extend(later.hosts);
        Self {
            flows: self.flows,
            hosts: self.hosts,
            began: self.began,
            ended: later.ended,
            stopped: later.stopped,
            process_ended: later.process_ended,
            flows_left_out: self.flows_left_out.max(later.flows_left_out),
            unseen_processes: later.unseen_processes,
        }
    }
}

/// One connection and what was seen of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Its two ends.
    pub key: FlowKey,
    /// Its identity.
    pub cookie: u64,
    /// Owners at the time of the lookup; empty where unknown.
    pub owners: Vec<SocketOwner>,
    /// Its samples in order of time; at least one.
    pub samples: Samples,
    /// The connection was closed before the window ended.
    pub ended: bool,
    /// The interface through which it sends, by the routes at the end; `None` if that was not
    /// looked up.
    pub interface: Option<String>,
    /// Why the options of its owner could not be read, such as a missing permission.
    pub options_error: Option<String>,
}

/// Longest time to sample all sockets: the kernel lists one after the other, and each sample has
/// its own time.
const LOOK_LASTS: Duration = Duration::from_millis(50);

impl Track {
    /// Whether it was open when the recording began, whose first connection was sampled at
    /// `first_look`. One opened just after that counts as open, too: then its first few bytes are
    /// not counted, while the other mistake would count the whole past of an open one.
    #[must_use]
    pub fn was_open_at(&self, first_look: Option<Instant>) -> bool {
        let first = self.samples.began();
        first
            .zip(first_look)
            .is_some_and(|(first, look)| first <= look + LOOK_LASTS)
    }

    /// Appends what was seen of it later.
    fn go_on(&mut self, later: Self) {
        for sample in &later.samples {
            self.samples.push(sample);
        }
        self.ended = later.ended;
        if !later.owners.is_empty() {
            self.owners = later.owners;
        }
        self.interface = later.interface.or(self.interface.take());
        self.options_error = later.options_error.or(self.options_error.take());
    }

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
    /// characters and invalid text are replaced by U+FFFD.
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

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use base::FlowSample;

    use super::*;

    #[test]
    fn of_two_recordings_one_is_made() {
        let at = |second: u64| Instant::ZERO + Duration::from_secs(second);
        let key = FlowKey {
            local: ([10, 0, 0, 1], 443).into(),
            remote: ([10, 0, 0, 2], 50_000).into(),
        };
        let track = |cookie, seconds: [u64; 2], ended| Track {
            key,
            cookie,
            owners: Vec::new(),
            samples: seconds
                .map(|second| FlowSample::empty(at(second), key))
                .into_iter()
                .collect(),
            ended,
            interface: None,
            options_error: None,
        };
        let recording = |flows, [began, ended]: [u64; 2], left_out| Recording {
            flows,
            began: at(began),
            ended: at(ended),
            flows_left_out: left_out,
            ..Recording::default()
        };
        let earlier = recording(
            vec![track(1, [0, 1], false), track(2, [0, 1], false)],
            [0, 1],
            7,
        );
        let later = recording(
            vec![track(3, [2, 3], false), track(2, [2, 3], false)],
            [2, 3],
            4,
        );
        let both = earlier.followed_by(later);
        assert_eq!(
            (both.began, both.ended, both.flows_left_out),
            (at(0), at(3), 7)
        );
        let seen = both.flows.iter().map(|track| {
            let times: Vec<Instant> = track.samples.iter().map(|sample| sample.at).collect();
            (track.cookie, times, track.ended)
        });
        let expected = [
            (1, vec![at(0), at(1)], true),
            (2, vec![at(0), at(1), at(2), at(3)], false),
            (3, vec![at(2), at(3)], false),
        ];
        assert_eq!(seen.collect::<Vec<_>>(), expected);
    }
}
