//! Memory that packets are read into, so that their payload stays where the kernel put it.

use std::collections::VecDeque;
use std::io;

use bytes::{Bytes, BytesMut};

use super::{READ_BYTES, Tun};

/// Packets up to this length are copied out: who keeps a larger one keeps a whole block, at most
/// four times of what it has in it.
const COPY_BYTES_MAX: usize = READ_BYTES / 4;

/// Blocks in use that are remembered, to be used again (4 MiB); with more in use, memory comes from
/// the allocator.
const LENT_MAX: usize = 64;

/// Blocks in use that are looked at before a new one is made.
const LOOKS: usize = 4;

/// Blocks that each hold one packet.
///
/// A packet that was forgotten before the next one is read leaves its block, which is still in the
/// cache, to that one.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// Read buffer; empty between calls except for a packet being inspected.
    block: BytesMut,
    /// Blocks that packets lie in, the oldest first.
    lent: VecDeque<BytesMut>,
}

/// A packet that was read.
#[derive(Debug)]
pub(super) enum Raw<'b> {
    /// A large one, in memory that may be kept.
    Shared(Bytes),
    /// A small one, to be copied.
    Borrowed(&'b [u8]),
}

impl Buffers {
    /// Reads one packet; `None` where none waits.
    pub(super) fn read(&mut self, tun: &Tun) -> io::Result<Option<Raw<'_>>> {
        self.make_room();
        let Some(length) = tun.read_uninit(self.block.spare_capacity_mut())? else {
            return Ok(None);
        };
        // SAFETY: the block is empty, and the first `length` bytes behind its end were just
        // written.
        unsafe { self.block.set_len(length) };
        Ok(Some(if length > COPY_BYTES_MAX {
            Raw::Shared(self.block.split().freeze())
        } else {
            Raw::Borrowed(&self.block)
        }))
    }

    /// Makes sure that the block is empty and takes the largest packet.
    fn make_room(&mut self) {
        self.block.clear();
        if self.block.capacity() >= READ_BYTES || self.block.try_reclaim(READ_BYTES) {
            return;
        }
        let next = self.free_block();
        let used = std::mem::replace(&mut self.block, next);
        if used.capacity() > 0 && self.lent.len() < LENT_MAX {
            self.lent.push_back(used);
        }
    }

    /// A block of a packet that was forgotten, or a new one.
    fn free_block(&mut self) -> BytesMut {
        for _ in 0..LOOKS.min(self.lent.len()) {
            let Some(mut block) = self.lent.pop_front() else {
                break;
            };
            if block.try_reclaim(READ_BYTES) {
                return block;
            }
            self.lent.push_back(block);
        }
        BytesMut::with_capacity(READ_BYTES)
    }
}
