//! The bytes that were written and are not acknowledged yet, as slices of the writer's memory.
//!
//! Only small slices are copied, into blocks that they share: a stream of two-byte writes would
//! otherwise cost a descriptor for each of them.

use alloc::collections::VecDeque;

use base::settings::Accounting;
use bytes::{Bytes, BytesMut};

use crate::packet::Payload;
use crate::shrink::{push, shrink_empty};

/// Slices up to this size are copied together; copying them costs less than one descriptor more in
/// each packet.
const COPY_BYTES_MAX: usize = 512;
/// Size of the block into which they are copied, where memory is not counted in smaller buffers.
const BLOCK_BYTES: u32 = 4096;

/// A part of the stream of written bytes, addressed by offset.
#[derive(Debug)]
pub(super) struct StreamBuffer {
    /// Slices with the offset at which each begins, without gaps.
    chunks: VecDeque<(u64, Bytes)>,
    /// Small slices behind them that may still grow.
    open: BytesMut,
    /// Size of the block that it grows in.
    block_bytes: u32,
    /// Offset after the last byte.
    end: u64,
    /// The slice after the last byte that was taken out: the next payload mostly begins there.
    near: u32,
}

impl StreamBuffer {
    /// An empty buffer for a stream from `start` on, in blocks of this memory rule.
    pub(super) fn new(start: u64, accounting: Accounting) -> Self {
        let block_bytes = match accounting {
            Accounting::Buffers { payload_bytes } => BLOCK_BYTES.min(payload_bytes),
            Accounting::Payload | Accounting::Truesize { .. } => BLOCK_BYTES,
        };
        Self {
            chunks: VecDeque::new(),
            open: BytesMut::new(),
            block_bytes,
            end: start,
            near: 0,
        }
    }

    /// Offset after the last byte.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Appends `chunk`.
    pub(super) fn push(&mut self, chunk: Bytes) {
        if chunk.is_empty() {
            return;
        }
        let bytes = chunk.len();
        if bytes <= COPY_BYTES_MAX {
            if self.open.len() + bytes > self.block_bytes as usize {
                self.seal();
            }
            if self.open.is_empty() && self.open.capacity() < bytes {
                // A single small write does not get a block, which an idle connection would keep.
                let is_first = self.chunks.is_empty();
                let block = if is_first {
                    bytes
                } else {
                    self.block_bytes as usize
                };
                self.open.reserve(block.max(bytes));
            }
            self.open.extend_from_slice(&chunk);
        } else {
            self.seal();
            push(&mut self.chunks, (self.end, chunk));
        }
        self.end += bytes as u64;
    }

    /// The bytes `start..end` without copying them.
    ///
    /// # Panics
    /// Where some of them were released or never written.
    pub(super) fn payload(&mut self, start: u64, end: u64) -> Payload {
        assert!(
            start <= end && end <= self.end,
            "{start}..{end} was not written"
        );
        let mut payload = Payload::default();
        if start == end {
            return payload;
        }
        if end > self.open_start() {
            self.seal();
        }
        let mut index = self.chunk_at(start);
        let mut at = start;
        while let Some((chunk_start, chunk)) = self.chunks.get(index)
            && at < end
        {
            let from = (at - chunk_start) as usize;
            let to = chunk.len().min((end - chunk_start) as usize);
            payload.push(chunk.slice(from..to));
            at = chunk_start + to as u64;
            index += usize::from(to == chunk.len());
        }
        self.near = index as u32;
        payload
    }

    /// Which slice has the byte at `offset`.
    fn chunk_at(&self, offset: u64) -> usize {
        let near = self.near as usize;
        let is_near = self
            .chunks
            .get(near)
            .is_some_and(|(start, chunk)| (*start..*start + chunk.len() as u64).contains(&offset));
        if is_near {
            return near;
        }
        let behind = self.chunks.partition_point(|&(first, _)| first <= offset);
        behind.checked_sub(1).expect("bytes that were not released")
    }

    /// Drops the slices that end at or before `offset`.
    pub(super) fn release(&mut self, offset: u64) {
        while let Some((start, chunk)) = self.chunks.front() {
            if start + chunk.len() as u64 > offset {
                break;
            }
            self.chunks.pop_front();
            self.near = self.near.saturating_sub(1);
        }
        shrink_empty(&mut self.chunks);
        if self.chunks.is_empty() && self.open.is_empty() {
            self.open = BytesMut::new();
        }
    }

    /// Drops everything; offsets stay.
    pub(super) fn forget(&mut self) {
        self.chunks = VecDeque::new();
        self.open = BytesMut::new();
        self.near = 0;
    }

    fn open_start(&self) -> u64 {
        self.end - self.open.len() as u64
    }

    #[inline]
    fn seal(&mut self) {
        if !self.open.is_empty() {
            let start = self.open_start();
            push(&mut self.chunks, (start, self.open.split().freeze()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn large_slices_are_not_copied_and_small_ones_share_a_block() {
        let mut buffer = StreamBuffer::new(1, Accounting::Payload);
        let large = Bytes::from(alloc::vec![7; COPY_BYTES_MAX + 1]);
        buffer.push(large.clone());
        for _ in 0..10 {
            buffer.push(Bytes::from_static(b"ab"));
        }
        let payload = buffer.payload(1, buffer.end());
        assert_eq!(payload.chunks().len(), 2);
        assert_eq!(payload.chunks()[0].as_ptr(), large.as_ptr());
        assert_eq!(payload.chunks()[1].len(), 20);
    }

    #[test]
    fn a_block_that_was_sent_is_not_changed_by_later_writes() {
        let mut buffer = StreamBuffer::new(1, Accounting::Payload);
        buffer.push(Bytes::from_static(b"first"));
        let sent = buffer.payload(1, 6);
        buffer.push(Bytes::from_static(b"second"));
        assert_eq!(sent.to_vec(), b"first");
        assert_eq!(buffer.payload(4, 9).to_vec(), b"stsec");
    }

    proptest! {
        #[test]
        fn it_equals_a_plain_vector(
            writes in proptest::collection::vec((0_usize..1500, 0_u64..4000, 0_u64..2000), 1..60),
        ) {
            let mut buffer = StreamBuffer::new(1, Accounting::Payload);
            let mut plain: Vec<u8> = Vec::new();
            let mut released = 0;
            for (bytes, from, more) in writes {
                let chunk: Vec<u8> = (0..bytes).map(|i| (plain.len() + i) as u8 ^ 0x5a).collect();
                plain.extend_from_slice(&chunk);
                buffer.push(chunk.into());
                prop_assert_eq!(buffer.end(), 1 + plain.len() as u64);
                let start = (released + from).min(plain.len() as u64);
                let end = (start + more).min(plain.len() as u64);
                prop_assert_eq!(
                    buffer.payload(1 + start, 1 + end).to_vec(),
                    &plain[start as usize..end as usize]
                );
                released = released.max(start / 2);
                buffer.release(1 + released);
            }
        }
    }
}
