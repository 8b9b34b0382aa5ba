//! Puts received data in order.
//!
//! Data in order waits in one queue of slices, out-of-order data in ranges by offset. Nothing is
//! copied except by [`Assembler::collapse`]. The caller decides what may be kept at all.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};

use bytes::BytesMut;
use smallvec::SmallVec;

use super::blocks::Blocks;
use super::{DataInput, Received};
use crate::packet::Payload;
use crate::shrink::{KEPT, push, shrink_empty};

/// Most bytes that one copy of small packets gets, about a page.
const COPY_BYTES_MAX: u32 = 3776;
/// Ranges that are remembered for SACK blocks, as many as fit into the options.
const RECENT_BLOCKS_MAX: usize = 4;
/// Largest queue whose memory a host keeps, in packets.
const SPARE_MAX: usize = 256;

/// A received packet, or what is left of it.
#[derive(Clone, Debug)]
pub(super) struct QueuedPacket {
    pub(super) start: u64,
    pub(super) payload: Payload,
    /// Memory that it is charged; released when the last byte is read. Where the data of several
    /// packets shares one block, the last of them is charged for all.
    charge: u32,
    /// Unused bytes in that block after the data.
    room: u16,
    /// Segments that it came in.
    segments: u16,
    /// It came with bytes of the packet before, which are kept once.
    overlaps: bool,
}

impl QueuedPacket {
    /// Takes the data of a segment.
    pub(super) fn new(data: &mut DataInput<'_>, received: &Received, blocks: Blocks) -> Self {
        Self {
            start: data.start,
            payload: core::mem::take(data.payload),
            charge: blocks.charge,
            room: blocks.room,
            segments: received.segments.min(u16::MAX.into()) as u16,
            overlaps: false,
        }
    }

    /// Moves the data of a block, the `bytes` up to the end of `self`, into the one that ends with
    /// `before`, if it has room for it (Linux `skb_try_coalesce`); returns the memory that is free.
    fn share_block(&mut self, bytes: u32, before: &mut Self) -> Option<u32> {
        let room = u32::from(before.room).checked_sub(bytes)?;
        self.room = room as u16;
        Some(core::mem::replace(
            &mut self.charge,
            core::mem::take(&mut before.charge),
        ))
    }

    fn end(&self) -> u64 {
        self.start + u64::from(self.payload.len())
    }

    /// Drops what lies before `offset`, which is kept already.
    fn trim_front(&mut self, offset: u64) {
        if offset > self.start {
            self.payload.advance((offset - self.start) as u32);
            self.start = offset;
            self.overlaps = true;
        }
    }
}

/// A contiguous range of out-of-order data.
#[derive(Debug, Default)]
struct Range {
    end: u64,
    packets: VecDeque<QueuedPacket>,
}

/// A range of a packet that was there already.
#[derive(Clone, Copy, Debug)]
pub(super) struct Duplicate {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The packet begins inside the range that was there.
    pub(super) is_front: bool,
}

/// Received data in order and out of order.
#[derive(Debug)]
pub(super) struct Assembler {
    /// The next byte that is missing.
    next: u64,
    /// The next byte that is to be read.
    read: u64,
    ready: VecDeque<QueuedPacket>,
    ready_charge: u32,
    /// Segments of all that is kept.
    segments: u32,
    /// Packets taken since the last collapse.
    uncollapsed: u32,
    /// A part of the first block was read.
    is_partly_read: bool,
    /// Exists while something is kept out of order.
    out_of_order: Option<Box<OutOfOrder>>,
}

/// The memory of a queue that was read to its end, for the next one of any connection of a host, so
/// that no allocation is needed if programs read all that has arrived.
#[derive(Debug, Default)]
pub(crate) struct SpareQueue(VecDeque<QueuedPacket>);

/// Out-of-order data.
#[derive(Debug, Default)]
struct OutOfOrder {
    /// By start; ranges neither overlap nor touch, and all start after the next byte that is
    /// missing.
    ranges: BTreeMap<u64, Range>,
    charge: u32,
    bytes: u64,
    packets: usize,
    /// The blocks that changed last, the latest first. Linux forgets older ones, and reports a
    /// block without a forgotten one that it joins (rule 9.3; `tcp_sack_new_ofo_skb`).
    recent_blocks: SmallVec<[(u64, u64); RECENT_BLOCKS_MAX]>,
}

impl OutOfOrder {
    /// Adds a piece to the end of a range; `is_whole`: nothing was cut off at its start, so that it
    /// may share the block of the piece before.
    fn keep(&mut self, range: &mut Range, mut packet: QueuedPacket, is_whole: bool) {
        range.end = packet.end();
        let before = range.packets.back_mut().filter(|_| is_whole);
        let shared = before.and_then(|before| packet.share_block(packet.payload.len(), before));
        if shared.is_none() {
            self.charge = self.charge.saturating_add(packet.charge);
        }
        self.bytes += u64::from(packet.payload.len());
        self.packets += 1;
        if range.packets.capacity() == 0 {
            // Most ranges of a peer that leaves many gaps hold one packet.
            range.packets.reserve_exact(1);
        }
        range.packets.push_back(packet);
    }

    /// Subtracts a packet of a range from the counts.
    fn forget(&mut self, packet: &QueuedPacket) {
        self.charge -= packet.charge;
        self.bytes -= u64::from(packet.payload.len());
        self.packets -= 1;
    }

    /// Subtracts a range from the counts that new data covers and replaces (Linux
    /// `tcp_data_queue_ofo`); returns its segments.
    fn forget_range(&mut self, range: &Range) -> u32 {
        range.packets.iter().for_each(|packet| self.forget(packet));
        range
            .packets
            .iter()
            .map(|packet| u32::from(packet.segments))
            .sum()
    }

    /// Data `start..end` came, all of it or a part for the first time.
    fn note_block(&mut self, start: u64, end: u64) {
        let touched = |block: (u64, u64), (from, to): (u64, u64)| {
            (from <= block.1 && block.0 <= to).then(|| (from.min(block.0), to.max(block.1)))
        };
        let mut block = (start, end);
        let mut at = 0;
        while let Some(&other) = self.recent_blocks.get(at) {
            match touched(block, other) {
                Some(joined) => {
                    block = joined;
                    self.recent_blocks.remove(at);
                }
                None => at += 1,
            }
        }
        self.recent_blocks.truncate(RECENT_BLOCKS_MAX - 1);
        self.recent_blocks.insert(0, block);
    }
}

impl Assembler {
    /// Nothing received; the first byte has offset 1.
    pub(super) fn new() -> Self {
        Self {
            next: 1,
            read: 1,
            ready: VecDeque::new(),
            ready_charge: 0,
            segments: 0,
            uncollapsed: 0,
            is_partly_read: false,
            out_of_order: None,
        }
    }

    /// Another packet may come: where the queue is full it moves to spare memory, if there is more.
    #[inline]
    pub(super) fn take_memory(&mut self, spare: &mut SpareQueue) {
        let room = self.ready.capacity();
        if self.ready.len() == room && spare.0.capacity() > room {
            spare.0.append(&mut self.ready);
            core::mem::swap(&mut self.ready, &mut spare.0);
        }
    }

    /// Gives the memory of the queue to the host, where all was read.
    #[inline]
    pub(super) fn give_memory(&mut self, spare: &mut SpareQueue) {
        let room = self.ready.capacity();
        if self.ready.is_empty() && room > KEPT {
            if room > spare.0.capacity() && room <= SPARE_MAX {
                core::mem::swap(&mut self.ready, &mut spare.0);
            }
            shrink_empty(&mut self.ready);
        }
    }

    /// Appends the data that was expected next; `is_whole`: nothing was cut off at its start, so
    /// that it may share the block of the data before.
    pub(super) fn append(&mut self, mut packet: QueuedPacket, is_whole: bool) {
        packet.overlaps = !is_whole;
        let before = self.ready.back_mut().filter(|_| is_whole);
        let shared = before.and_then(|before| packet.share_block(packet.payload.len(), before));
        if shared.is_none() {
            self.ready_charge = self.ready_charge.saturating_add(packet.charge);
        }
        self.push(packet);
    }

    /// Appends a part of a block, which has `bytes` up to its end: with the last part, which is
    /// charged for all, they may go into the block before.
    fn push_block(&mut self, mut packet: QueuedPacket, bytes: u32, is_whole: bool) {
        let mut parts = 0;
        let mut at = self.ready.len();
        while parts + packet.payload.len() < bytes && at > 0 {
            at -= 1;
            parts += self.ready[at].payload.len();
        }
        let before = at.checked_sub(1).filter(|_| is_whole && packet.charge > 0);
        let shared = before.and_then(|at| packet.share_block(bytes, &mut self.ready[at]));
        if shared.is_none() {
            self.ready_charge = self.ready_charge.saturating_add(packet.charge);
        }
        self.push(packet);
    }

    fn push(&mut self, packet: QueuedPacket) {
        debug_assert_eq!(packet.start, self.next, "not the next byte");
        self.next = packet.end();
        self.segments += u32::from(packet.segments);
        self.uncollapsed += 1;
        push(&mut self.ready, packet);
    }

    /// Keeps out-of-order data; returns the first range of it that was there already.
    pub(super) fn insert(&mut self, mut packet: QueuedPacket) -> Option<Duplicate> {
        debug_assert!(packet.start > self.next, "no gap in front");
        let out_of_order = self.out_of_order.get_or_insert_default();
        let (start, end) = (packet.start, packet.end());
        let mut duplicate = None;
        let mut is_whole = true;
        let mut range = Range::default();
        let mut range_start = start;
        if let Some((&before, found)) = out_of_order.ranges.range(..=start).next_back()
            && found.end >= start
        {
            if found.end > start {
                duplicate = Some(Duplicate {
                    start,
                    end: found.end.min(end),
                    is_front: before < start || found.end >= end,
                });
            }
            if found.end >= end {
                out_of_order.note_block(start, end);
                return duplicate;
            }
            is_whole = found.end == start;
            let found = out_of_order.ranges.remove(&before).expect("just found");
            if before == start {
                self.segments -= out_of_order.forget_range(&found);
            } else {
                packet.trim_front(found.end);
                (range_start, range) = (before, found);
            }
        }
        let mut last = None;
        while last.is_none()
            && let Some((&after, _)) = out_of_order.ranges.range(range_start..=end).next()
        {
            let mut later = out_of_order.ranges.remove(&after).expect("just found");
            if after < end {
                duplicate = duplicate.or(Some(Duplicate {
                    start: after,
                    end: later.end.min(end),
                    is_front: false,
                }));
            }
            if later.end <= end {
                self.segments -= out_of_order.forget_range(&later);
                continue;
            }
            // Overlapping data is kept once; the packet is charged for all of it.
            let common = packet.payload.split_off((after - packet.start) as u32);
            if let Some(first) = later.packets.front_mut() {
                first.overlaps = !common.is_empty();
            }
            last = Some(later);
        }
        self.segments += u32::from(packet.segments);
        self.uncollapsed += 1;
        out_of_order.keep(&mut range, packet, is_whole);
        if let Some(last) = last {
            join(&mut range, last);
        }
        out_of_order.note_block(start, end);
        out_of_order.ranges.insert(range_start, range);
        duplicate
    }

    /// Moves the ranges that are in order now; returns the first range that was there twice.
    pub(super) fn join_ranges(&mut self) -> Option<(u64, u64)> {
        let mut duplicate = None;
        let mut out_of_order = self.out_of_order.take()?;
        while let Some(entry) = out_of_order.ranges.first_entry()
            && *entry.key() <= self.next
        {
            let (start, range) = entry.remove_entry();
            if start < self.next {
                duplicate = duplicate.or(Some((start, self.next.min(range.end))));
            }
            let (mut block_bytes, mut is_whole) = (0, true);
            for mut packet in range.packets {
                out_of_order.forget(&packet);
                self.segments -= u32::from(packet.segments);
                if packet.end() <= self.next {
                    continue;
                }
                is_whole &= packet.start == self.next;
                packet.trim_front(self.next);
                block_bytes += packet.payload.len();
                let is_block = packet.charge > 0;
                self.push_block(packet, block_bytes, is_whole);
                if is_block {
                    (block_bytes, is_whole) = (0, true);
                }
            }
        }
        if !out_of_order.ranges.is_empty() {
            out_of_order
                .recent_blocks
                .retain(|(start, _)| *start > self.next);
            self.out_of_order = Some(out_of_order);
        }
        duplicate
    }

    /// Takes up to `max` bytes out of the first packet that waits to be read.
    #[inline]
    pub(super) fn pop(&mut self, max: u32) -> Option<Payload> {
        let first = self.ready.front_mut()?;
        if first.payload.len() > max {
            let rest = first.payload.split_off(max);
            first.start += u64::from(max);
            self.read += u64::from(max);
            self.is_partly_read = true;
            return Some(core::mem::replace(&mut first.payload, rest));
        }
        let packet = self.ready.pop_front().expect("just seen");
        self.ready_charge -= packet.charge;
        self.segments -= u32::from(packet.segments);
        self.read += u64::from(packet.payload.len());
        self.is_partly_read = packet.charge == 0;
        Some(packet.payload)
    }

    /// Up to `max` bytes of what is next to be read, which stays.
    pub(super) fn peek(&self, max: u32) -> Payload {
        let mut seen = Payload::default();
        for packet in &self.ready {
            if seen.len() == max {
                break;
            }
            let mut part = packet.payload.clone();
            let _rest = part.split_off(part.len().min(max - seen.len()));
            seen.append(part, self.ready.len());
        }
        seen
    }

    /// Drops out-of-order packets, from the highest down to `above`, until `is_enough` of the
    /// memory that is left (Linux `tcp_prune_ofo_queue`); returns how many.
    pub(super) fn prune(&mut self, above: u64, is_enough: impl Fn(u32) -> bool) -> u64 {
        let mut dropped = 0;
        let Some(out_of_order) = &mut self.out_of_order else {
            return dropped;
        };
        let mut is_inside_block = false;
        while let Some(mut last) = out_of_order.ranges.last_entry() {
            let range = last.get_mut();
            let highest = range.packets.back().expect("ranges are never empty");
            // A block goes as a whole: its last part was charged for the others.
            is_inside_block &= highest.charge == 0;
            if (!is_inside_block && is_enough(out_of_order.charge)) || highest.start <= above {
                break;
            }
            let packet = range.packets.pop_back().expect("just seen");
            range.end = packet.start;
            if range.packets.is_empty() {
                last.remove();
                is_inside_block = false;
            } else {
                is_inside_block |= packet.charge > 0;
            }
            out_of_order.forget(&packet);
            self.segments -= u32::from(packet.segments);
            dropped += 1;
        }
        if dropped > 0 {
            // Dropped data was SACKed: all blocks are forgotten (RFC 2018 section 8).
            out_of_order.recent_blocks.clear();
        }
        if out_of_order.ranges.is_empty() {
            self.out_of_order = None;
        }
        dropped
    }

    /// Collapses what follows the first block in each range that `is_bloated` by its bytes and
    /// charge, or that the next one overlaps. `blocks_of` gives the charge of a copy by its bytes
    /// and by the charges of the packets in it. Returns how many packets fewer there are.
    pub(super) fn collapse(
        &mut self,
        is_bloated: impl Fn(u32, u32) -> bool,
        blocks_of: impl Fn(u32, u32) -> Blocks,
    ) -> u64 {
        let before = self.packets();
        self.uncollapsed = 0;
        let is_partly_read = core::mem::take(&mut self.is_partly_read);
        let is_cut = is_partly_read || self.ready.front().is_some_and(|first| first.overlaps);
        collapse_queue(&mut self.ready, is_cut, &is_bloated, &blocks_of);
        self.ready_charge = self.ready.iter().map(|packet| packet.charge).sum();
        if let Some(out_of_order) = &mut self.out_of_order {
            for range in out_of_order.ranges.values_mut() {
                let blocks = range
                    .packets
                    .iter()
                    .filter(|packet| packet.charge > 0)
                    .count();
                if blocks > 1 {
                    collapse_queue(&mut range.packets, false, &is_bloated, &blocks_of);
                }
            }
            let ranges = out_of_order.ranges.values();
            out_of_order.packets = ranges.clone().map(|range| range.packets.len()).sum();
            out_of_order.charge = ranges
                .flat_map(|range| range.packets.iter().map(|packet| packet.charge))
                .sum();
        }
        before.saturating_sub(self.packets()) as u64
    }

    /// The blocks that changed last, the latest first; `whole`: all of the ranges in which they lie
    /// (RFC 2018 section 4).
    pub(super) fn blocks(&self, max: usize, whole: bool) -> SmallVec<[(u64, u64); 4]> {
        let mut blocks = SmallVec::new();
        let recent = self.out_of_order.iter().flat_map(|it| &it.recent_blocks);
        for &block in recent {
            let block = match whole {
                true => self.range_around(block.0).unwrap_or(block),
                false => block,
            };
            if blocks.len() < max && !blocks.contains(&block) {
                blocks.push(block);
            }
        }
        blocks
    }

    /// Nothing is out of order any more; these blocks are still reported once.
    pub(super) fn keep_blocks(&mut self, blocks: &[(u64, u64)]) {
        let blocks = blocks.iter().copied().collect();
        self.out_of_order.get_or_insert_default().recent_blocks = blocks;
    }

    /// The range in which `offset` lies.
    pub(super) fn range_around(&self, offset: u64) -> Option<(u64, u64)> {
        let ranges = &self.out_of_order.as_ref()?.ranges;
        let (&start, range) = ranges.range(..=offset).next_back()?;
        (offset < range.end).then_some((start, range.end))
    }

    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    pub(super) const fn read(&self) -> u64 {
        self.read
    }

    pub(super) const fn unread(&self) -> u64 {
        self.next - self.read
    }

    pub(super) const fn has_gap(&self) -> bool {
        self.out_of_order.is_some()
    }

    /// Bytes from the next missing one to the end of what is kept.
    pub(super) fn span(&self) -> u64 {
        let last = self
            .out_of_order
            .as_ref()
            .and_then(|it| it.ranges.last_key_value());
        last.map_or(0, |(_, range)| range.end.saturating_sub(self.next))
    }

    pub(super) const fn ready_charge(&self) -> u32 {
        self.ready_charge
    }

    pub(super) fn range_charge(&self) -> u32 {
        self.out_of_order.as_ref().map_or(0, |it| it.charge)
    }

    pub(super) fn range_bytes(&self) -> u64 {
        self.out_of_order.as_ref().map_or(0, |it| it.bytes)
    }

    pub(super) fn packets(&self) -> usize {
        self.ready.len() + self.range_packets()
    }

    /// Packets that wait to be read.
    pub(super) fn ready_packets(&self) -> usize {
        self.ready.len()
    }

    /// Out-of-order packets.
    pub(super) fn range_packets(&self) -> usize {
        self.out_of_order.as_ref().map_or(0, |it| it.packets)
    }

    /// Whether enough arrived since the last collapse to pay for another: a full buffer must not
    /// cost a pass over all packets for each that arrives.
    pub(super) fn is_collapse_worthwhile(&self) -> bool {
        self.uncollapsed as usize > self.packets() / 8
    }

    pub(super) const fn segments(&self) -> u32 {
        self.segments
    }

    /// Packets for which the queue has room.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.ready.capacity()
    }
}

/// Appends `after` to `range`; the shorter one moves.
fn join(range: &mut Range, mut after: Range) {
    range.end = after.end;
    if range.packets.len() >= after.packets.len() {
        range.packets.append(&mut after.packets);
    } else {
        while let Some(packet) = range.packets.pop_back() {
            after.packets.push_front(packet);
        }
        range.packets = after.packets;
    }
}

/// See [`Assembler::collapse`]; `is_cut`: the first block is worth it, some of which was read or
/// kept before (Linux `tcp_collapse`).
fn collapse_queue(
    queue: &mut VecDeque<QueuedPacket>,
    is_cut: bool,
    is_bloated: &impl Fn(u32, u32) -> bool,
    blocks_of: &impl Fn(u32, u32) -> Blocks,
) {
    let mut worth = (is_cut && !queue.is_empty()).then_some(0);
    let (mut before, mut first, mut bytes) = (0, 0, 0);
    for (at, packet) in queue.iter().enumerate() {
        if worth.is_some() {
            break;
        }
        if packet.overlaps && at > 0 {
            worth = Some(before);
        }
        bytes += packet.payload.len();
        if packet.charge > 0 && worth.is_none() {
            worth = is_bloated(bytes, packet.charge).then_some(first);
            (before, first, bytes) = (first, at + 1, 0);
        }
    }
    let Some(first) = worth else {
        return;
    };
    let copied = queue.split_off(first);
    let mut left: u32 = copied.iter().map(|packet| packet.payload.len()).sum();
    let mut copy = Copy::new(first_start(&copied), left);
    for packet in copied {
        let mut chunks = packet.payload.chunks().iter().map(|chunk| &chunk[..]);
        let mut chunk = chunks.next().unwrap_or_default();
        while !chunk.is_empty() {
            if copy.is_full() {
                let next = copy.start + copy.bytes.len() as u64;
                let full = core::mem::replace(&mut copy, Copy::new(next, left));
                queue.push_back(full.into_packet(blocks_of));
            }
            let taken = chunk.len().min(copy.room());
            let (head, rest) = chunk.split_at(taken);
            copy.bytes.extend_from_slice(head);
            left -= taken as u32;
            chunk = if rest.is_empty() {
                chunks.next().unwrap_or_default()
            } else {
                rest
            };
        }
        copy.charged += packet.charge;
        copy.segments = copy.segments.saturating_add(packet.segments);
    }
    queue.push_back(copy.into_packet(blocks_of));
    // More capacity would cost more than the packets.
    queue.shrink_to_fit();
}

fn first_start(queue: &VecDeque<QueuedPacket>) -> u64 {
    queue.front().map_or(0, |packet| packet.start)
}

/// Data that is copied together.
struct Copy {
    start: u64,
    bytes: BytesMut,
    bytes_max: usize,
    /// Charges of the packets that end in it.
    charged: u32,
    segments: u16,
}

impl Copy {
    /// The first of `left` bytes.
    fn new(start: u64, left: u32) -> Self {
        let bytes_max = left.min(COPY_BYTES_MAX) as usize;
        Self {
            start,
            bytes: BytesMut::with_capacity(bytes_max),
            bytes_max,
            charged: 0,
            segments: 0,
        }
    }

    fn room(&self) -> usize {
        self.bytes_max - self.bytes.len()
    }

    fn is_full(&self) -> bool {
        self.room() == 0
    }

    fn into_packet(self, blocks_of: &impl Fn(u32, u32) -> Blocks) -> QueuedPacket {
        let blocks = blocks_of(self.bytes.len() as u32, self.charged);
        QueuedPacket {
            start: self.start,
            payload: Payload::from(self.bytes.freeze()),
            charge: blocks.charge,
            room: blocks.room,
            segments: self.segments,
            overlaps: false,
        }
    }
}
