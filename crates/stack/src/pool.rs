//! The shared pool of packet buffers (seed: `NetBurner`).
//!
//! Counts who holds how many buffers; the buffers themselves are [`Bytes`](bytes::Bytes) like all
//! other data. Connections say what they hold whenever it changes, and ask before they take more.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::host::{PoolSize, SocketId};

/// Memory of one buffer's descriptor (seed: `NetBurner`; 164 + 1548 = 1712 bytes).
const DESCRIPTOR_BYTES: u32 = 164;

/// State of a pool, from [`Host::pool`](crate::Host::pool).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolState {
    /// Buffers there are; 0 where the host has no pool.
    pub buffers: u32,
    /// Free ones (`GetFreeCount`).
    pub free: u32,
    /// Least that were ever free.
    pub low_watermark: u32,
    /// Bytes that one takes in memory, with its descriptor.
    pub buffer_bytes: u32,
    /// Buffers by owner, for owners with any.
    pub by_owner: Vec<PoolOwner>,
    /// Times that a buffer was wanted and none was free.
    pub refused: u64,
}

/// Buffers of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolOwner {
    /// The connection.
    pub socket: SocketId,
    /// Buffers of received data, unread or out of order.
    pub received: u32,
    /// Buffers of written, unacknowledged data.
    pub sent: u32,
}

/// The buffers of a host, counted.
#[derive(Debug)]
pub(crate) struct Pool {
    /// `None`: unlimited.
    size: Option<PoolSize>,
    /// Received and sent buffers of each owner; as many entries as sockets that hold any.
    held: BTreeMap<SocketId, (u32, u32)>,
    held_total: u64,
    low_watermark: u32,
    refused: u64,
}

impl Pool {
    /// A pool of this size with all buffers free; `None`: without any limit.
    pub(crate) fn new(size: Option<PoolSize>) -> Self {
        let mut pool = Self {
            size,
            held: BTreeMap::new(),
            held_total: 0,
            low_watermark: 0,
            refused: 0,
        };
        pool.low_watermark = pool.free();
        pool
    }

    /// Whether buffers are counted at all.
    pub(crate) const fn is_limited(&self) -> bool {
        self.size.is_some()
    }

    /// Free buffers, without those reserved for other uses.
    pub(crate) const fn free(&self) -> u32 {
        let usable = match self.size {
            Some(size) => size.buffers.saturating_sub(size.reserved),
            None => return u32::MAX,
        };
        // Received packets are counted after the fact, so they may exceed the pool for a moment.
        if self.held_total < usable as u64 {
            usable - self.held_total as u32
        } else {
            0
        }
    }

    /// Whether `buffers` more may be taken now.
    pub(crate) const fn can_take(&self, buffers: u32) -> bool {
        buffers <= self.free()
    }

    /// Whether less than a quarter of the buffers is free.
    pub(crate) const fn is_short(&self) -> bool {
        match self.size {
            Some(size) => self.free() < size.buffers.saturating_sub(size.reserved) / 4,
            None => false,
        }
    }

    /// A buffer was wanted, and none was free.
    pub(crate) const fn on_refused(&mut self) {
        self.refused += 1;
    }

    /// Sets how many buffers `id` holds with received and with sent data.
    pub(crate) fn set_held(&mut self, id: SocketId, received: u32, sent: u32) {
        if self.size.is_none() {
            return;
        }
        let before = if (received, sent) == (0, 0) {
            self.held.remove(&id)
        } else {
            self.held.insert(id, (received, sent))
        };
        self.held_total += u64::from(received) + u64::from(sent);
        if let Some((received, sent)) = before {
            self.held_total -= u64::from(received) + u64::from(sent);
        }
        self.low_watermark = self.low_watermark.min(self.free());
    }

    /// `id` is gone and holds nothing more.
    pub(crate) fn release(&mut self, id: SocketId) {
        self.set_held(id, 0, 0);
    }

    /// State of the pool, in order of sockets.
    pub(crate) fn state(&self) -> PoolState {
        let Some(size) = self.size else {
            return PoolState::default();
        };
        PoolState {
            buffers: size.buffers,
            free: self.free(),
            low_watermark: self.low_watermark,
            buffer_bytes: size.buffer_bytes.saturating_add(DESCRIPTOR_BYTES),
            by_owner: self
                .held
                .iter()
                .map(|(&socket, &(received, sent))| PoolOwner {
                    socket,
                    received,
                    sent,
                })
                .collect(),
            refused: self.refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    const NETBURNER: PoolSize = PoolSize {
        buffers: 256,
        buffer_bytes: 1548,
        reserved: 0,
    };

    const fn id(index: u32) -> SocketId {
        SocketId {
            index,
            generation: 0,
        }
    }

    #[test]
    fn n6_hung_sockets_empty_the_pool_and_give_it_back() {
        let mut pool = Pool::new(Some(NETBURNER));
        // Each filled 5 transmit and 5 unacknowledged buffers.
        for index in 0..25 {
            assert!(pool.can_take(10));
            pool.set_held(id(index), 0, 10);
        }
        assert_eq!(pool.state().free, 6);
        assert!(pool.can_take(6) && !pool.can_take(10));
        pool.set_held(id(25), 0, 6);
        assert!(!pool.can_take(1));
        pool.on_refused();
        let state = pool.state();
        assert_eq!((state.free, state.low_watermark, state.refused), (0, 0, 1));
        assert_eq!(state.by_owner.len(), 26);
        let owner = PoolOwner {
            socket: id(25),
            received: 0,
            sent: 6,
        };
        assert_eq!(state.by_owner[25], owner);
        for index in 0..26 {
            pool.release(id(index));
        }
        let state = pool.state();
        assert_eq!((state.free, state.low_watermark), (256, 0));
        assert_eq!(state.by_owner, vec![]);
        // NB7.
        assert_eq!(state.buffer_bytes, 1712);
    }

    #[test]
    fn no_pool_refuses_nothing_and_keeps_no_list() {
        let mut pool = Pool::new(None);
        pool.set_held(id(1), 1_000_000, 1_000_000);
        assert!(pool.can_take(u32::MAX) && !pool.is_limited());
        assert_eq!(pool.state(), PoolState::default());
    }

    #[test]
    fn reserved_buffers_are_not_free() {
        let pool = Pool::new(Some(PoolSize {
            reserved: 8,
            ..NETBURNER
        }));
        assert!(pool.can_take(248) && !pool.can_take(249));
        assert_eq!(pool.state().free, 248);
    }

    proptest! {
        #[test]
        fn the_sum_always_balances(
            calls in prop::collection::vec((0_u32..4, 0_u32..200, 0_u32..200), 0..50),
        ) {
            let mut pool = Pool::new(Some(NETBURNER));
            let mut model = [(0, 0); 4];
            let mut least = 256;
            for (index, received, sent) in calls {
                pool.set_held(id(index), received, sent);
                model[index as usize] = (received, sent);
                let held: u32 = model.iter().map(|(received, sent)| received + sent).sum();
                least = least.min(256_u32.saturating_sub(held));
                let state = pool.state();
                prop_assert_eq!(state.free, 256_u32.saturating_sub(held));
                prop_assert_eq!(state.low_watermark, least);
                for PoolOwner { socket, received, sent } in state.by_owner {
                    prop_assert_eq!(model[socket.index as usize], (received, sent));
                    prop_assert!(received + sent > 0);
                }
            }
        }
    }
}
