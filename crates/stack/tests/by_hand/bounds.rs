//! How much memory a host may take under attack: what follows from its settings, not from what was
//! seen.

use base::settings::{Accounting, SocketSettings};
use tcptailor_stack::profile::Profile;

use crate::honest::BATCH;

/// A connection and its places in the tables of the host, empty queues included: twice the 2.0 KB
/// of an idle one (docs/stack.md), for the state that only trouble brings and for tables that
/// double.
const CONNECTION_BYTES: u64 = 4096;
/// A connection in TIME-WAIT with its places in the tables.
const TIME_WAIT_BYTES: u64 = 512;
/// What stays of either when it is gone: the places.
const PLACE_BYTES: u64 = 256;
/// A packet without its data in the local queue, or in the hands of the test, in a vector that
/// doubles.
const QUEUED_BYTES: u64 = 512;
/// What the stack itself counts for a received packet beside its bytes (`host/memory.rs`).
const PACKET_BYTES: u64 = 256;
/// What each connection may write beyond the budget (`host/memory.rs`).
const WRITE_FLOOR_BYTES: u64 = 4096;
/// Packets beyond the size of the buffer in each of the two queues of received data
/// (`recv/accounting.rs`, `packets_max`).
const PACKETS_MIN: u64 = 32;
/// One packet more than a limit is allowed wherever something is counted before it comes.
const SEGMENT_BYTES: u64 = 1460;
/// `FreeBSD` keeps mbufs of eight times a send buffer for it (`sb_efficiency`); here that is all
/// that a connection may take where payload alone is charged.
const PAYLOAD_EFFICIENCY: u64 = 8;

/// What attackers can make a host hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Holds {
    /// Connections at once, half open ones included.
    pub(crate) connections: u64,
    /// Of these, whose receive buffers they can fill.
    pub(crate) receivers: u64,
    /// Of these, whose send buffers the program fills.
    pub(crate) senders: u64,
    /// Connections in TIME-WAIT at once.
    pub(crate) time_waits: u64,
    /// The driver takes no packets, and the local queue fills.
    pub(crate) is_link_down: bool,
}

impl Holds {
    /// One connection and none of its buffers.
    pub(crate) const ONE: Self = Self::connections(1);

    pub(crate) const fn connections(count: u64) -> Self {
        Self {
            connections: count,
            receivers: 0,
            senders: 0,
            time_waits: 0,
            is_link_down: false,
        }
    }

    /// And their receive buffers.
    pub(crate) const fn receiving(self) -> Self {
        Self {
            receivers: self.connections,
            ..self
        }
    }

    /// And their send buffers.
    pub(crate) const fn sending(self) -> Self {
        Self {
            senders: self.connections,
            ..self
        }
    }

    /// Bytes that the host may take at most.
    pub(crate) fn bytes(&self, profile: &Profile) -> u64 {
        let Self {
            connections,
            receivers,
            senders,
            time_waits,
            is_link_down: _,
        } = *self;
        let budget = profile.system.memory.max_bytes;
        let wanted =
            receivers * receive_bytes(&profile.settings) + senders * send_bytes(&profile.settings);
        // Beyond the budget each may take the segment that its program waits for, and write a
        // little; of a copy that is cut short all stays (`COPY_BYTES_OF_LITTLE`).
        let one_each = receivers * (SEGMENT_BYTES + PACKET_BYTES) + senders * 2 * WRITE_FLOOR_BYTES;
        let in_buffers = match profile.system.pool {
            // A pool bounds both directions together.
            Some(pool) => u64::from(pool.buffers) * (u64::from(pool.buffer_bytes) + PACKET_BYTES),
            None => budget.min(wanted) + one_each,
        };
        connections * CONNECTION_BYTES
            + time_waits * TIME_WAIT_BYTES
            + in_buffers
            + self.queue_bytes(profile)
    }

    /// Bytes that the host may keep when all of it is over.
    pub(crate) fn left_bytes(&self, profile: &Profile) -> u64 {
        (self.connections + self.time_waits) * PLACE_BYTES + self.queue_bytes(profile)
    }

    /// The local queue, and what the test holds of it.
    fn queue_bytes(&self, profile: &Profile) -> u64 {
        // Bare ACKs stop at twice the limit; a batch is what waits otherwise.
        let queue = 2 * u64::from(profile.system.txqueuelen);
        let packets = if self.is_link_down { queue } else { 2 * BATCH };
        2 * packets * QUEUED_BYTES
    }
}

/// Both queues with as much as they may hold by their own rules.
fn receive_bytes(settings: &SocketSettings) -> u64 {
    let buffer = u64::from(settings.recv.buffer.fixed.expect("a test fixes it"));
    let packets = buffer / 256 + PACKETS_MIN;
    2 * (buffer + packets * PACKET_BYTES)
}

/// A send buffer with one write more than it has room for, by how it is charged.
fn send_bytes(settings: &SocketSettings) -> u64 {
    let buffer = settings.send.buffer.fixed;
    let buffer = u64::from(buffer.unwrap_or(settings.send.buffer.max));
    match settings.send.accounting {
        // Linux charges each packet 832 bytes, more than any record of it takes, and asks for room
        // only where a packet begins, which is filled up to the largest (rule 5.2).
        Accounting::Truesize { .. } => 2 * buffer + u64::from(settings.path.gso_max),
        Accounting::Payload | Accounting::Buffers { .. } => PAYLOAD_EFFICIENCY * buffer,
    }
}
