//! SACK blocks for out-of-order data, and D-SACK for duplicates.

use alloc::boxed::Box;

use base::tcp::SackBlocks;
use smallvec::SmallVec;

use super::Receiver;

/// Blocks by their offsets, the one that changed last first.
pub(super) type BlockOffsets = SmallVec<[(u64, u64); SackBlocks::MAX]>;

/// SACK blocks that may wait with merged ACKs (Linux `TCP_SACK_BLOCKS_EXPECTED`).
const SACK_BLOCKS_EXPECTED: usize = 2;

impl Receiver {
    /// Whether merged duplicate ACKs are to be sent before the data `start..end` is taken: it lies
    /// in the third block or begins another, and the option has room for few. In Linux that ACK is
    /// the last until something else asks for one (`tcp_sack_compress_send_ack`).
    pub(crate) fn pushes_merged_acks(&self, start: u64, end: u64) -> bool {
        if !self.acks.is_merging() || start <= self.next() || start >= self.window.edge() {
            return false;
        }
        let blocks = self.recent_blocks(SackBlocks::MAX);
        let touches = |&(from, to): &(u64, u64)| start <= to && from <= end;
        blocks.iter().position(touches).unwrap_or(blocks.len()) >= SACK_BLOCKS_EXPECTED
    }

    /// Whether the next segment carries a SACK option.
    pub(crate) fn has_sack_blocks(&self) -> bool {
        self.has_sack && (self.duplicate.is_some() || self.has_out_of_order())
    }

    /// The blocks of a SACK option, the one that changed last first; a duplicate leads them until a
    /// segment was sent (RFC 2018 section 4, RFC 2883 section 4).
    pub(crate) fn sack_blocks(&self, max: usize) -> BlockOffsets {
        let mut blocks = BlockOffsets::new();
        if !self.has_sack || max == 0 {
            return blocks;
        }
        blocks.extend(self.duplicate.as_deref().copied());
        blocks.extend(self.out_of_order_blocks(max - blocks.len()));
        blocks
    }

    /// The same without a duplicate.
    pub(super) fn out_of_order_blocks(&self, max: usize) -> BlockOffsets {
        let mut blocks = self.recent_blocks(max);
        let Some(fin) = self.early_fin().filter(|_| max > 0) else {
            return blocks;
        };
        // A FIN is a byte that extends a block or is one of its own.
        let mut joined = (fin, fin + 1);
        let mut place = None;
        let mut at = 0;
        while let Some(&(from, to)) = blocks.get(at) {
            if from <= fin + 1 && fin <= to {
                joined = (joined.0.min(from), joined.1.max(to));
                place = place.or(Some(at));
                blocks.remove(at);
            } else {
                at += 1;
            }
        }
        let place = if self.is_fin_latest {
            0
        } else {
            place.unwrap_or(at)
        };
        blocks.insert(place, joined);
        blocks.truncate(max);
        blocks
    }

    /// The blocks of out-of-order data: in Linux those that it remembers, otherwise all.
    fn recent_blocks(&self, max: usize) -> BlockOffsets {
        self.queue.blocks(max, !self.buffer.is_truesize())
    }

    /// The next option reports this duplicate instead of an earlier one (Linux `tcp_dsack_set`).
    pub(super) fn report_duplicate(&mut self, start: u64, end: u64) {
        if self.has_sack && self.buffer.settings().options.dsack {
            match self.duplicate.as_deref_mut() {
                Some(duplicate) => *duplicate = (start, end),
                None => self.duplicate = Some(Box::new((start, end))),
            }
        }
    }

    /// The same if one packet covers others: extends a pending report by what touches it (Linux
    /// `tcp_dsack_extend`).
    pub(super) fn extend_duplicate(&mut self, start: u64, end: u64) {
        match self.duplicate.as_deref_mut() {
            Some((from, to)) if start <= *to && *from <= end => {
                *from = start.min(*from);
                *to = end.max(*to);
            }
            Some(_) => {}
            None => self.report_duplicate(start, end),
        }
    }
}
