//! The shared pool of packet buffers (seed: `NetBurner`).

use alloc::vec::Vec;

use crate::host::SocketId;

/// What [`Host::pool`](crate::Host::pool) reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Buffers there are; 0 where the host has no pool.
    pub buffers: u32,
    /// Free ones (`GetFreeCount`).
    pub free: u32,
    /// Least that were ever free.
    pub low_watermark: u32,
    /// Bytes that one takes in memory, with its descriptor.
    pub buffer_bytes: u32,
    /// Who holds how many: received and unread or out of order, written and not acknowledged.
    pub by_owner: Vec<(SocketId, u32, u32)>,
    /// Times that a buffer was wanted and none was free.
    pub refused: u64,
}
