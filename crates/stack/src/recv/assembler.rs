//! Puts received data in order.
//!
//! Data in order waits in one queue of slices, data behind a gap in ranges by offset. Nothing is
//! copied except by [`Assembler::collapse`]. What may be kept at all is decided by the caller.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};

use bytes::BytesMut;
use smallvec::SmallVec;

use super::blocks::Blocks;
use super::{Came, DataInput};
use crate::packet::Payload;
use crate::shrink::{KEPT, push, shrink_empty};

/// Most bytes that one copy of small packets gets, about a page.
const COPY_BYTES_MAX: u32 = 3776;
/// Ranges that are remembered for SACK blocks, as many as fit into the options.
const TOLD_MAX: usize = 4;
/// Largest queue whose memory a host keeps, in packets.
const SPARE_MAX: usize = 256;

/// A received packet, or what is left of it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) start: u64,
    pub(super) payload: Payload,
    /// Memory that it is charged; released when the last byte is read. Where the data of several
    /// packets shares one block, the last of them is charged for all.
    charge: u32,
    /// Bytes that are unused in that block behind the data.
    room: u16,
    /// Segments that it came in.
    segments: u16,
    /// It came with bytes of the packet before, which are kept once.
    overlaps: bool,
}

impl Held {
    /// Takes the data of a segment.
    pub(super) fn new(data: &mut DataInput<'_>, came: &Came, blocks: Blocks) -> Self {
        Self {
            start: data.start,
            payload: core::mem::take(data.payload),
            charge: blocks.charge,
            room: blocks.room,
            segments: came.segments.min(u16::MAX.into()) as u16,
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

    /// Drops what lies in front of `offset`, which is kept already.
    fn trim_front(&mut self, offset: u64) {
        if offset > self.start {
            self.payload.advance((offset - self.start) as u32);
            self.start = offset;
            self.overlaps = true;
        }
    }
}

/// Data without a gap that waits behind one.
#[derive(Debug, Default)]
struct Range {
    end: u64,
    held: VecDeque<Held>,
}

/// A stretch of a packet that was there already.
#[derive(Clone, Copy, Debug)]
pub(super) struct Duplicate {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The packet begins inside what was there.
    pub(super) is_front: bool,
}

/// Received data in order and out of order.
#[derive(Debug)]
pub(super) struct Assembler {
    /// The next byte that is missing.
    next: u64,
    /// The next byte that is to be read.
    read: u64,
    ready: VecDeque<Held>,
    ready_charge: u32,
    /// Segments of all that is kept.
    segments: u32,
    /// Packets taken since the last collapse.
    uncollapsed: u32,
    /// A part of the first block was read.
    is_partly_read: bool,
    /// While something is kept behind a gap.
    behind: Option<Box<Behind>>,
}

/// The memory of a queue that was read to its end, for the next one of any connection of a host: a
/// program that reads all that came makes no queue grow anew.
#[derive(Debug, Default)]
pub(crate) struct SpareQueue(VecDeque<Held>);

/// Data behind gaps.
#[derive(Debug, Default)]
struct Behind {
    /// By start; ranges neither overlap nor touch, and all start behind the next byte that is
    /// missing.
    ranges: BTreeMap<u64, Range>,
    charge: u32,
    bytes: u64,
    packets: usize,
    /// The blocks that changed last, the latest first. Linux forgets the oldest of more, so that a
    /// block that joins what it forgot is told without it (rule 9.3; `tcp_sack_new_ofo_skb`).
    told: SmallVec<[(u64, u64); TOLD_MAX]>,
}

impl Behind {
    /// Adds a piece to the end of a range; `is_whole`: nothing was cut off in front, so that it may
    /// share the block of the piece before.
    fn keep(&mut self, range: &mut Range, mut held: Held, is_whole: bool) {
        range.end = held.end();
        let before = range.held.back_mut().filter(|_| is_whole);
        let shared = before.and_then(|before| held.share_block(held.payload.len(), before));
        if shared.is_none() {
            self.charge = self.charge.saturating_add(held.charge);
        }
        self.bytes += u64::from(held.payload.len());
        self.packets += 1;
        if range.held.capacity() == 0 {
            // Most ranges of a peer that leaves many gaps hold one packet.
            range.held.reserve_exact(1);
        }
        range.held.push_back(held);
    }

    /// Takes a packet of a range out of the books.
    fn forget(&mut self, held: &Held) {
        self.charge -= held.charge;
        self.bytes -= u64::from(held.payload.len());
        self.packets -= 1;
    }

    /// Takes a range out of the books that new data covers, which replaces it (Linux
    /// `tcp_data_queue_ofo`); returns its segments.
    fn forget_range(&mut self, range: &Range) -> u32 {
        range.held.iter().for_each(|held| self.forget(held));
        range.held.iter().map(|held| u32::from(held.segments)).sum()
    }

    /// Data `start..end` came, all of it or a part for the first time.
    fn note_told(&mut self, start: u64, end: u64) {
        let touched = |block: (u64, u64), (from, to): (u64, u64)| {
            (from <= block.1 && block.0 <= to).then(|| (from.min(block.0), to.max(block.1)))
        };
        let mut block = (start, end);
        let mut at = 0;
        while let Some(&other) = self.told.get(at) {
            match touched(block, other) {
                Some(joined) => {
                    block = joined;
                    self.told.remove(at);
                }
                None => at += 1,
            }
        }
        self.told.truncate(TOLD_MAX - 1);
        self.told.insert(0, block);
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
            behind: None,
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

    /// Appends the data that was expected next; `is_whole`: nothing was cut off in front, so that
    /// it may share the block of the data before.
    pub(super) fn append(&mut self, mut held: Held, is_whole: bool) {
        held.overlaps = !is_whole;
        let before = self.ready.back_mut().filter(|_| is_whole);
        let shared = before.and_then(|before| held.share_block(held.payload.len(), before));
        if shared.is_none() {
            self.ready_charge = self.ready_charge.saturating_add(held.charge);
        }
        self.push(held);
    }

    /// Appends a part of a block, which has `bytes` up to its end: with the last part, which is
    /// charged for all, they may go into the block before.
    fn push_block(&mut self, mut held: Held, bytes: u32, is_whole: bool) {
        let mut parts = 0;
        let mut at = self.ready.len();
        while parts + held.payload.len() < bytes && at > 0 {
            at -= 1;
            parts += self.ready[at].payload.len();
        }
        let before = at.checked_sub(1).filter(|_| is_whole && held.charge > 0);
        let shared = before.and_then(|at| held.share_block(bytes, &mut self.ready[at]));
        if shared.is_none() {
            self.ready_charge = self.ready_charge.saturating_add(held.charge);
        }
        self.push(held);
    }

    fn push(&mut self, held: Held) {
        debug_assert_eq!(held.start, self.next, "not the next byte");
        self.next = held.end();
        self.segments += u32::from(held.segments);
        self.uncollapsed += 1;
        push(&mut self.ready, held);
    }

    /// Keeps data behind a gap; returns the first stretch of it that was there already.
    pub(super) fn insert(&mut self, mut held: Held) -> Option<Duplicate> {
        debug_assert!(held.start > self.next, "no gap in front");
        let behind = self.behind.get_or_insert_default();
        let (start, end) = (held.start, held.end());
        let mut duplicate = None;
        let mut is_whole = true;
        let mut range = Range::default();
        let mut range_start = start;
        if let Some((&before, found)) = behind.ranges.range(..=start).next_back()
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
                behind.note_told(start, end);
                return duplicate;
            }
            is_whole = found.end == start;
            let found = behind.ranges.remove(&before).expect("just found");
            if before == start {
                self.segments -= behind.forget_range(&found);
            } else {
                held.trim_front(found.end);
                (range_start, range) = (before, found);
            }
        }
        let mut last = None;
        while last.is_none()
            && let Some((&after, _)) = behind.ranges.range(range_start..=end).next()
        {
            let mut later = behind.ranges.remove(&after).expect("just found");
            if after < end {
                duplicate = duplicate.or(Some(Duplicate {
                    start: after,
                    end: later.end.min(end),
                    is_front: false,
                }));
            }
            if later.end <= end {
                self.segments -= behind.forget_range(&later);
                continue;
            }
            // What both have is kept once; the packet is charged for all of it.
            let common = held.payload.split_off((after - held.start) as u32);
            if let Some(first) = later.held.front_mut() {
                first.overlaps = !common.is_empty();
            }
            last = Some(later);
        }
        self.segments += u32::from(held.segments);
        self.uncollapsed += 1;
        behind.keep(&mut range, held, is_whole);
        if let Some(last) = last {
            join(&mut range, last);
        }
        behind.note_told(start, end);
        behind.ranges.insert(range_start, range);
        duplicate
    }

    /// Moves the ranges that are in order now; returns the first stretch that was there twice.
    pub(super) fn join_ranges(&mut self) -> Option<(u64, u64)> {
        let mut duplicate = None;
        let mut behind = self.behind.take()?;
        while let Some(entry) = behind.ranges.first_entry()
            && *entry.key() <= self.next
        {
            let (start, range) = entry.remove_entry();
            if start < self.next {
                duplicate = duplicate.or(Some((start, self.next.min(range.end))));
            }
            let (mut block_bytes, mut is_whole) = (0, true);
            for mut held in range.held {
                behind.forget(&held);
                self.segments -= u32::from(held.segments);
                if held.end() <= self.next {
                    continue;
                }
                is_whole &= held.start == self.next;
                held.trim_front(self.next);
                block_bytes += held.payload.len();
                let is_block = held.charge > 0;
                self.push_block(held, block_bytes, is_whole);
                if is_block {
                    (block_bytes, is_whole) = (0, true);
                }
            }
        }
        if !behind.ranges.is_empty() {
            behind.told.retain(|(start, _)| *start > self.next);
            self.behind = Some(behind);
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
        let held = self.ready.pop_front().expect("just seen");
        self.ready_charge -= held.charge;
        self.segments -= u32::from(held.segments);
        self.read += u64::from(held.payload.len());
        self.is_partly_read = held.charge == 0;
        Some(held.payload)
    }

    /// Up to `max` bytes of what is next to be read, which stays.
    pub(super) fn peek(&self, max: u32) -> Payload {
        let mut seen = Payload::default();
        for held in &self.ready {
            if seen.len() == max {
                break;
            }
            let mut part = held.payload.clone();
            let _rest = part.split_off(part.len().min(max - seen.len()));
            seen.append(part, self.ready.len());
        }
        seen
    }

    /// Drops packets behind gaps, from the highest down to `above`, until `is_enough` of the memory
    /// that is left (Linux `tcp_prune_ofo_queue`); returns how many.
    pub(super) fn prune(&mut self, above: u64, is_enough: impl Fn(u32) -> bool) -> u64 {
        let mut dropped = 0;
        let Some(behind) = &mut self.behind else {
            return dropped;
        };
        let mut is_inside_block = false;
        while let Some(mut last) = behind.ranges.last_entry() {
            let range = last.get_mut();
            let highest = range.held.back().expect("ranges are never empty");
            // A block goes as a whole: its last part was charged for the others.
            is_inside_block &= highest.charge == 0;
            if (!is_inside_block && is_enough(behind.charge)) || highest.start <= above {
                break;
            }
            let held = range.held.pop_back().expect("just seen");
            range.end = held.start;
            if range.held.is_empty() {
                last.remove();
                is_inside_block = false;
            } else {
                is_inside_block |= held.charge > 0;
            }
            behind.forget(&held);
            self.segments -= u32::from(held.segments);
            dropped += 1;
        }
        if dropped > 0 {
            // What was promised is forgotten, so nothing is promised any more (RFC 2018 section 8).
            behind.told.clear();
        }
        if behind.ranges.is_empty() {
            self.behind = None;
        }
        dropped
    }

    /// Copies together what follows the first block in each range that `is_bloated` by its bytes
    /// and charge, or that the next one overlaps; `blocks_of` says what a copy of so many bytes is
    /// charged, in which packets end that were charged so much. Returns how many packets fewer
    /// there are.
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
        self.ready_charge = self.ready.iter().map(|held| held.charge).sum();
        if let Some(behind) = &mut self.behind {
            for range in behind.ranges.values_mut() {
                let blocks = range.held.iter().filter(|held| held.charge > 0).count();
                if blocks > 1 {
                    collapse_queue(&mut range.held, false, &is_bloated, &blocks_of);
                }
            }
            let ranges = behind.ranges.values();
            behind.packets = ranges.clone().map(|range| range.held.len()).sum();
            behind.charge = ranges
                .flat_map(|range| range.held.iter().map(|held| held.charge))
                .sum();
        }
        before.saturating_sub(self.packets()) as u64
    }

    /// The blocks that changed last, the latest first; `whole`: all of the ranges in which they lie
    /// (RFC 2018 section 4).
    pub(super) fn blocks(&self, max: usize, whole: bool) -> SmallVec<[(u64, u64); 4]> {
        let mut blocks = SmallVec::new();
        for &told in self.behind.iter().flat_map(|behind| &behind.told) {
            let block = match whole {
                true => self.range_around(told.0).unwrap_or(told),
                false => told,
            };
            if blocks.len() < max && !blocks.contains(&block) {
                blocks.push(block);
            }
        }
        blocks
    }

    /// Nothing is behind gaps any more, and these blocks are told of until it is dropped.
    pub(super) fn keep_told(&mut self, told: &[(u64, u64)]) {
        let told = told.iter().copied().collect();
        self.behind.get_or_insert_default().told = told;
    }

    /// The range in which `offset` lies.
    pub(super) fn range_around(&self, offset: u64) -> Option<(u64, u64)> {
        let ranges = &self.behind.as_ref()?.ranges;
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
        self.behind.is_some()
    }

    /// Bytes from the next missing one to the end of what is kept.
    pub(super) fn span(&self) -> u64 {
        let last = self
            .behind
            .as_ref()
            .and_then(|it| it.ranges.last_key_value());
        last.map_or(0, |(_, range)| range.end.saturating_sub(self.next))
    }

    pub(super) const fn ready_charge(&self) -> u32 {
        self.ready_charge
    }

    pub(super) fn range_charge(&self) -> u32 {
        self.behind.as_ref().map_or(0, |behind| behind.charge)
    }

    pub(super) fn range_bytes(&self) -> u64 {
        self.behind.as_ref().map_or(0, |behind| behind.bytes)
    }

    pub(super) fn packets(&self) -> usize {
        self.ready.len() + self.range_packets()
    }

    /// Packets that wait to be read.
    pub(super) fn ready_packets(&self) -> usize {
        self.ready.len()
    }

    /// Packets behind gaps.
    pub(super) fn range_packets(&self) -> usize {
        self.behind.as_ref().map_or(0, |behind| behind.packets)
    }

    /// Whether enough came since the last collapse to pay for another: a full buffer must not
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

/// Appends `behind` to `range`; the shorter one moves.
fn join(range: &mut Range, mut behind: Range) {
    range.end = behind.end;
    if range.held.len() >= behind.held.len() {
        range.held.append(&mut behind.held);
    } else {
        while let Some(held) = range.held.pop_back() {
            behind.held.push_front(held);
        }
        range.held = behind.held;
    }
}

/// See [`Assembler::collapse`]; `is_cut`: the first block is worth it, some of which was read or
/// kept before (Linux `tcp_collapse`).
fn collapse_queue(
    queue: &mut VecDeque<Held>,
    is_cut: bool,
    is_bloated: &impl Fn(u32, u32) -> bool,
    blocks_of: &impl Fn(u32, u32) -> Blocks,
) {
    let mut worth = (is_cut && !queue.is_empty()).then_some(0);
    let (mut before, mut first, mut bytes) = (0, 0, 0);
    for (at, held) in queue.iter().enumerate() {
        if worth.is_some() {
            break;
        }
        if held.overlaps && at > 0 {
            worth = Some(before);
        }
        bytes += held.payload.len();
        if held.charge > 0 && worth.is_none() {
            worth = is_bloated(bytes, held.charge).then_some(first);
            (before, first, bytes) = (first, at + 1, 0);
        }
    }
    let Some(first) = worth else {
        return;
    };
    let copied = queue.split_off(first);
    let mut left: u32 = copied.iter().map(|held| held.payload.len()).sum();
    let mut copy = Copy::new(first_start(&copied), left);
    for held in copied {
        let mut chunks = held.payload.chunks().iter().map(|chunk| &chunk[..]);
        let mut chunk = chunks.next().unwrap_or_default();
        while !chunk.is_empty() {
            if copy.is_full() {
                let next = copy.start + copy.bytes.len() as u64;
                let full = core::mem::replace(&mut copy, Copy::new(next, left));
                queue.push_back(full.into_held(blocks_of));
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
        copy.charged += held.charge;
        copy.segments = copy.segments.saturating_add(held.segments);
    }
    queue.push_back(copy.into_held(blocks_of));
    // Room for more would cost more than the packets.
    queue.shrink_to_fit();
}

fn first_start(queue: &VecDeque<Held>) -> u64 {
    queue.front().map_or(0, |held| held.start)
}

/// Data that is copied together.
struct Copy {
    start: u64,
    bytes: BytesMut,
    bytes_max: usize,
    /// Of the packets that end in it.
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

    fn into_held(self, blocks_of: &impl Fn(u32, u32) -> Blocks) -> Held {
        let blocks = blocks_of(self.bytes.len() as u32, self.charged);
        Held {
            start: self.start,
            payload: Payload::from(self.bytes.freeze()),
            charge: blocks.charge,
            room: blocks.room,
            segments: self.segments,
            overlaps: false,
        }
    }
}
