//! Records and runs of what is out, and the order in which it was sent.
//!
//! They exist while something is out and say nothing of the rest of the connection.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::time::Duration;

use base::Instant;

use super::outstanding::Outstanding;
use super::record::Record;
use crate::rare::Rare;
use crate::shrink::shrink_empty;

/// How far back the end of a wait is looked for.
const LOOK_BACK_MAX: usize = 32;

/// Records for which a flight that ended keeps room.
const KEPT: usize = 8;

/// Neighbouring packets of one size that were SACKed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) end: u64,
    /// Bytes of each packet, but the last one of several.
    pub(super) segment: u32,
    pub(super) packets: u32,
    /// One of them had been retransmitted.
    pub(super) was_retransmitted: bool,
}

/// What an ACK acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::recovery) struct Acknowledged {
    /// What was SACKed before included.
    pub(in crate::recovery) packets: u32,
    /// Of what was SACKed before, some had been retransmitted.
    pub(in crate::recovery) is_of_retransmission: bool,
    /// Where a packet began of which a part had been acknowledged before.
    pub(in crate::recovery) cut_packet: Option<u64>,
}

/// A range that left at one time; what is left of it in `outstanding` with that time counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentRange {
    pub(super) sent: Instant,
    pub(super) start: u64,
    pub(super) end: u64,
}

impl SentRange {
    /// End of the part that was sent before `rack` (sent, end): of what was sent at the same time,
    /// only the part below it.
    pub(super) fn overtaken_end(&self, rack: (Instant, u64)) -> u64 {
        if self.sent == rack.0 {
            self.end.min(rack.1)
        } else {
            self.end
        }
    }
}

/// Records and runs of what is out.
#[derive(Clone, Debug, Default)]
pub(super) struct Flight {
    pub(super) outstanding: Outstanding,
    pub(super) runs: BTreeMap<u64, Run>,
    /// Starts of the lost records that were not retransmitted yet.
    pub(super) to_retransmit: BTreeSet<u64>,
    /// In the order of sending; entries may be outdated.
    pub(super) by_time: VecDeque<SentRange>,
    /// End of the highest SACKed record.
    pub(super) highest_sack: u64,
    /// Counting duplicates found everything below lost already.
    pub(super) counted_below: u64,
    /// What is left of a single packet of which a part was acknowledged, and where that began.
    pub(super) cut: (u64, u64),
    /// Packets delivered when something was last retransmitted.
    delivered: u64,
}

/// The memory of a flight that ended, for the next one of any connection of a host: a connection
/// that is idle takes none, and one that sends a message at a time allocates none.
#[derive(Debug, Default)]
pub(crate) struct SpareFlight(pub(super) Rare<Flight>);

impl Flight {
    /// Whether nothing is out any more.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.outstanding.is_empty() && self.runs.is_empty()
    }

    /// Begins anew, in the memory that it has.
    pub(super) fn clear(&mut self) {
        self.outstanding.clear(KEPT);
        // An empty map or set keeps a node.
        self.runs = BTreeMap::new();
        self.to_retransmit = BTreeSet::new();
        self.by_time.clear();
        self.by_time.shrink_to(KEPT);
        self.highest_sack = 0;
        self.counted_below = 0;
        self.cut = (0, 0);
    }

    /// Joins packets with their neighbours of the same size: which of them was retransmitted is not
    /// known any more (Linux `tcp_shift_skb_data`).
    pub(super) fn add_run(&mut self, mut start: u64, mut added: Run) {
        if let Some((&before, run)) = self.runs.range(..start).next_back()
            && run.end == start
            && run.segment == added.segment
        {
            added.packets += run.packets;
            added.was_retransmitted |= run.was_retransmitted;
            start = before;
        }
        if let Some(after) = self.runs.get(&added.end)
            && after.segment == added.segment
        {
            added.packets += after.packets;
            added.was_retransmitted |= after.was_retransmitted;
            let joined = core::mem::replace(&mut added.end, after.end);
            self.runs.remove(&joined);
        }
        self.runs.insert(start, added);
    }

    /// The first record of a range that still stands as it was sent then.
    pub(super) fn first_waiting(&mut self, range: SentRange, end: u64) -> Option<u64> {
        let from = self.record_start(range.start);
        let found = self
            .outstanding
            .up_to(end)
            .range(from..end)
            .find(|(_, record)| record.sent == range.sent && !record.waits())
            .map(|(&start, _)| start)?;
        // What was looked at in vain is not looked at again.
        if let Some(front) = self.by_time.front_mut() {
            front.start = front.start.max(found);
        }
        Some(found)
    }

    /// The first record that begins in `start..end`.
    pub(super) fn first_in(&mut self, start: u64, end: u64) -> Option<(&u64, &Record)> {
        // A map refuses ranges that end before they begin.
        let end = end.max(start);
        self.outstanding.up_to(end).range(start..end).next()
    }

    /// The start of the record that holds `offset`, or `offset`.
    pub(super) fn record_start(&mut self, offset: u64) -> u64 {
        match self
            .outstanding
            .up_to(offset + 1)
            .range(..=offset)
            .next_back()
        {
            Some((&start, record)) if record.end > offset => start,
            _ => offset,
        }
    }

    /// Forgets the first range up to `end`.
    pub(super) fn drop_front(&mut self, end: u64) {
        match self.by_time.front_mut() {
            Some(range) if range.end > end => range.start = end,
            _ => {
                self.by_time.pop_front();
            }
        }
    }

    /// All in front of `ack` is acknowledged.
    pub(super) fn forget_sent(&mut self, ack: u64) {
        while self.by_time.front().is_some_and(|range| range.end <= ack) {
            self.by_time.pop_front();
        }
        shrink_empty(&mut self.by_time);
    }

    /// Sending time of the last range before `rack` of which something stands; a little later
    /// where that takes long to find.
    pub(super) fn last_before(&mut self, rack: (Instant, u64)) -> Option<Instant> {
        let after = self
            .by_time
            .partition_point(|range| (range.sent, range.start) < rack);
        let mut last = None;
        for at in (0..after).rev().take(LOOK_BACK_MAX) {
            let range = self.by_time[at];
            last = Some(range.sent);
            let stands = |record: &Record| record.sent == range.sent && !record.waits();
            let from = self.record_start(range.start);
            let end = range.overtaken_end(rack);
            let records = self
                .outstanding
                .up_to(end)
                .range(from..end.max(from))
                .take(LOOK_BACK_MAX);
            if records.into_iter().any(|(_, record)| stands(record)) {
                break;
            }
        }
        last
    }

    /// When new data leaves, if the clock says `now`: not before a retransmission that has left.
    #[inline]
    pub(super) fn leaves_at(&self, now: Instant) -> Instant {
        match self.by_time.back() {
            Some(last) if last.sent > now => last.sent,
            _ => now,
        }
    }

    /// When a retransmission of `start` leaves, after `delivered` packets were. What left in the
    /// same instant, but before the last ACK, left earlier: a clock that stands still while
    /// several packets are handled must not let RACK think otherwise, which compares numbers then.
    pub(super) fn leaves_again_at(&mut self, now: Instant, start: u64, delivered: u64) -> Instant {
        let is_after_ack = core::mem::replace(&mut self.delivered, delivered) != delivered;
        match self.by_time.back() {
            Some(last) if last.sent >= now && (is_after_ack || last.start > start) => {
                last.sent + Duration::from_nanos(1)
            }
            _ => self.leaves_at(now),
        }
    }

    /// `start..end` left at `sent`, as [`Self::leaves_at`] says.
    #[inline]
    pub(super) fn remember(&mut self, sent: Instant, start: u64, end: u64) {
        match self.by_time.back_mut() {
            Some(last) if last.sent == sent && last.end == start => last.end = end,
            _ => self.by_time.push_back(SentRange { sent, start, end }),
        }
        if self.by_time.len() > 64 + 4 * self.outstanding.len() {
            self.forget_outdated();
        }
    }

    /// Drops the ranges of which nothing stands any more; each costs what its sending cost.
    fn forget_outdated(&mut self) {
        let outstanding = self.outstanding.all();
        self.by_time.retain(|range| {
            let from = match outstanding.range(..=range.start).next_back() {
                Some((&start, record)) if record.end > range.start => start,
                _ => range.start,
            };
            outstanding
                .range(from..range.end)
                .any(|(_, record)| record.sent == range.sent && !record.waits())
        });
    }
}
