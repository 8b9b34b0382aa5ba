//! One connection of a program, with its positions in both streams and the test whether there is
//! more to do.

use core::time::Duration;

use base::Instant;
use stack::{Failure, SocketId};

use super::session::Session;
use crate::workload::Amount;

/// Most bytes per read and, for payload without a size of its own, per write; as iperf3 does.
pub(super) const CHUNK_BYTES: u64 = 128 << 10;

/// One connection, or one after the other.
#[derive(Debug)]
pub(super) struct Flow {
    /// The connection; `None` once it is closed.
    pub(super) socket: Option<SocketId>,
    /// Payload handed over so far on this connection: where the next piece stands.
    pub(super) written: u64,
    /// Payload read so far on this connection.
    pub(super) read: u64,
    /// The end of what the peer wrote was read.
    pub(super) saw_end: bool,
    /// Why the connection broke.
    pub(super) failed: Option<Failure>,
    /// `TCP_QUICKACK` is set to this before every read.
    pub(super) quickack: Option<bool>,
    /// A read waits in the host: what is done before each read was done for it.
    pub(super) is_reading: bool,
    /// Its writer does not block: a write beyond the quota of Winsock is refused.
    pub(super) non_blocking: bool,
    /// Writes of Winsock that may be incomplete at once.
    pub(super) outstanding: usize,
    /// Most bytes per write.
    pub(super) piece_max: u64,
    /// A sender without an end stops here.
    deadline: Option<Instant>,
    amount: Amount,
    counted_bytes: u64,
    counted_operations: u64,
}

impl Flow {
    pub(super) const fn new(socket: SocketId, amount: Amount, quickack: Option<bool>) -> Self {
        Self {
            socket: Some(socket),
            written: 0,
            read: 0,
            saw_end: false,
            failed: None,
            quickack,
            is_reading: false,
            non_blocking: false,
            outstanding: 1,
            piece_max: CHUNK_BYTES,
            deadline: None,
            amount,
            counted_bytes: 0,
            counted_operations: 0,
        }
    }

    /// Goes on with another connection.
    pub(super) fn adopt(&mut self, socket: SocketId) {
        self.socket = Some(socket);
        (self.written, self.read) = (0, 0);
        (self.saw_end, self.failed, self.is_reading) = (false, None, false);
    }

    /// Makes sure that pieces of this size are written at once.
    pub(super) fn reserve(&mut self, piece: u64) {
        self.piece_max = self.piece_max.max(piece);
    }

    /// Ends sending by itself after this time, where the amount is a time.
    pub(super) fn end_after(&mut self, now: Instant, warmup: Duration) {
        if let Amount::Time(time) = self.amount {
            self.deadline = Some(now + warmup + time);
        }
    }

    /// Whether there is another operation to do.
    #[inline]
    pub(super) fn more(&self, now: Instant, session: &Session) -> bool {
        !session.is_stopping()
            && self.deadline.is_none_or(|end| now < end)
            && match self.amount {
                Amount::Time(_) => true,
                Amount::Bytes(bytes) => self.counted_bytes < bytes.0,
                Amount::Operations(operations) => self.counted_operations < operations,
            }
    }

    /// Bytes of the next write of a stream: `write_size`, or what is left of the amount.
    pub(super) fn next_write(&self, write_size: u64) -> u64 {
        match self.amount {
            Amount::Bytes(bytes) => bytes.0.saturating_sub(self.counted_bytes).min(write_size),
            _ => write_size,
        }
    }

    /// Counts operations of this much payload together towards the amount. The warm-up does not
    /// count.
    #[inline]
    pub(super) fn on_done(&mut self, now: Instant, session: &Session, bytes: u64, count: u32) {
        if session.is_measuring(now) {
            self.counted_bytes += bytes;
            self.counted_operations += u64::from(count);
        }
    }
}
