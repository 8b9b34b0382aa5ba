//! Memory that packets are read into, so that their payload stays where the kernel put it.

use std::io;

use bytes::{Bytes, BytesMut};

use super::{READ_BYTES, Tun};

/// Bytes of one slab: as many of the largest packets as fit into a second-level cache together
/// with what is done to them.
const SLAB_BYTES: usize = 4 * READ_BYTES;

/// Packets up to this length are copied out, so that a few bytes that somebody keeps do not hold a
/// whole slab.
const SMALL_BYTES: usize = 2048;

/// Slabs that are kept for reuse while their packets are still in use.
const SLABS_MAX: usize = 16;

/// Slabs that packets are cut from, and that are used again when all their packets are gone.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    slab: BytesMut,
    retired: Vec<BytesMut>,
}

impl Buffers {
    /// Reads one packet; `None` where none waits.
    pub(super) fn read(&mut self, tun: &Tun) -> io::Result<Option<Bytes>> {
        self.make_room();
        let Some(length) = tun.read_uninit(self.slab.spare_capacity_mut())? else {
            return Ok(None);
        };
        // SAFETY: the slab is empty, and the first `length` bytes behind its end were just written.
        unsafe { self.slab.set_len(length) };
        if length > SMALL_BYTES {
            return Ok(Some(self.slab.split().freeze()));
        }
        let small = Bytes::copy_from_slice(&self.slab);
        self.slab.clear();
        Ok(Some(small))
    }

    /// Makes sure that the slab takes the largest packet.
    fn make_room(&mut self) {
        if self.slab.capacity() >= READ_BYTES {
            return;
        }
        let free = self
            .retired
            .iter_mut()
            .position(|slab| slab.try_reclaim(SLAB_BYTES));
        let next = match free {
            Some(index) => self.retired.swap_remove(index),
            None => BytesMut::with_capacity(SLAB_BYTES),
        };
        let used = std::mem::replace(&mut self.slab, next);
        if used.capacity() < READ_BYTES && self.retired.len() < SLABS_MAX {
            self.retired.push(used);
        }
    }
}
