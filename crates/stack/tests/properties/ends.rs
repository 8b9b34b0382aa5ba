//! The two applications of a drawn transfer: what they have written and read, and when.

use std::time::Duration;

use base::Instant;
use tcptailor_stack::SocketId;

/// A transfer that is not done by then must have moved lately.
pub(crate) const STANDSTILL_MAX: Duration = Duration::from_secs(400);

/// Linux counts the time of its retries from the first retransmission of a repair, whatever is
/// acknowledged since. One that never ends, of a segment for each timeout, ends the connection no
/// sooner than this though its bytes move (11.2 in docs/linux-tcp.md).
const REPAIR_MIN: Duration = Duration::from_secs(400);

/// Both applications.
pub(crate) struct Ends {
    pub(crate) sender: SocketId,
    pub(crate) receiver: SocketId,
    pub(crate) written: u64,
    pub(crate) read: u64,
    began_at: Instant,
    pub(crate) read_at: Instant,
    /// The retries of one end are over.
    pub(crate) is_given_up: bool,
    pub(crate) may_write: bool,
    pub(crate) may_read: bool,
    pub(crate) is_finished: bool,
    /// The reader has read everything, and the end of it.
    pub(crate) is_read: bool,
    /// The largest sizes that the buffers of the data had.
    pub(crate) rcvbuf: u32,
    pub(crate) sndbuf: u32,
    /// The most that could wait behind a gap.
    pub(crate) behind_gaps: u32,
    /// Whether the sender's settings let more be queued at some time.
    pub(crate) is_unbounded: bool,
    pub(crate) back: Back,
}

/// What goes the other way.
#[derive(Debug, Default)]
pub(crate) struct Back {
    pub(crate) written: u64,
    pub(crate) read: u64,
    pub(crate) read_at: Instant,
    pub(crate) may_write: bool,
    pub(crate) may_read: bool,
    pub(crate) is_finished: bool,
}

impl Ends {
    pub(crate) fn new([sender, receiver]: [SocketId; 2], now: Instant, goes_back: bool) -> Self {
        Self {
            sender,
            receiver,
            written: 0,
            read: 0,
            began_at: now,
            read_at: now,
            is_given_up: false,
            may_write: true,
            may_read: true,
            is_finished: false,
            is_read: false,
            rcvbuf: 0,
            sndbuf: 0,
            behind_gaps: 0,
            is_unbounded: false,
            back: Back {
                may_write: goes_back,
                may_read: goes_back,
                ..Back::default()
            },
        }
    }

    /// When either end read last.
    pub(crate) fn moved_at(&self) -> Instant {
        self.read_at.max(self.back.read_at)
    }

    /// Whether end `id` may have been in repair for as long as its retries last, and what it sends
    /// has moved all the same.
    pub(crate) fn may_be_given_up(&self, id: SocketId, now: Instant) -> bool {
        let read_at = match id == self.sender {
            true => self.read_at,
            false => self.back.read_at,
        };
        now.since(self.began_at) >= REPAIR_MIN && now.since(read_at) < STANDSTILL_MAX
    }

    /// Whether an application has something to do.
    pub(crate) const fn is_busy(&self) -> bool {
        self.may_read || self.may_write || self.back.may_write || self.back.may_read
    }
}
