//! The scoreboard of segments in flight.
//!
//! A [`Record`] is a chain of segments that left together and shares one fate; SACK and
//! retransmission cut it, always between segments. What was SACKed is taken out and kept as runs,
//! so that whatever is left in `outstanding` is unaccounted for and no ACK walks over what an
//! earlier one reported. There are never more records and runs than packets in flight.
//!
//! It decides nothing: RACK or the count of duplicates, both outside, decide what is lost.

mod flight;
mod outstanding;
mod parts;
mod record;
mod undo;

use core::mem;

use base::Instant;

use super::rate::SentState;
use crate::progress::Progress;
use crate::rare::Rare;
pub(super) use flight::Acknowledged;
pub(crate) use flight::SpareFlight;
use flight::{Flight, Run};
pub(super) use record::{Delivered, Duplicate, Record, Retransmission};

/// Result of the search for expired records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Expired {
    /// A retransmission was lost again.
    pub(super) lost_retransmission: bool,
    /// Sending time of the last record that only waits for its time.
    pub(super) waiting: Option<Instant>,
}

/// The scoreboard of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    progress: Progress,
    /// Exists while something is in flight: most connections are idle most of the time. Its memory
    /// comes from [`SpareFlight`] and goes there.
    flight: Rare<Flight>,
    packets_out: u32,
    sacked: u32,
    lost: u32,
    /// At least those of the records: see [`Self::release_retransmission`].
    retransmitted: u32,
    /// Packets marked lost since the connection began.
    lost_total: u64,
}

impl Scoreboard {
    pub(super) const fn progress(&self) -> &Progress {
        &self.progress
    }

    pub(super) const fn una(&self) -> u64 {
        self.progress.una()
    }

    pub(super) const fn next(&self) -> u64 {
        self.progress.next()
    }

    pub(super) fn packets_out(&self) -> u32 {
        self.packets_out
    }

    pub(super) fn sacked(&self) -> u32 {
        self.sacked
    }

    pub(super) fn lost(&self) -> u32 {
        self.lost
    }

    pub(super) fn retransmitted(&self) -> u32 {
        self.retransmitted
    }

    pub(super) fn lost_total(&self) -> u64 {
        self.lost_total
    }

    /// Packets that are believed to be in the network (RFC 6675 "pipe").
    pub(super) fn in_flight(&self) -> u32 {
        (self.packets_out + self.retransmitted).saturating_sub(self.sacked + self.lost)
    }

    /// Whether a record that was retransmitted is still outstanding (Linux `tcp_any_retrans_done`).
    pub(super) fn is_any_retransmitted(&self) -> bool {
        self.retransmitted > 0
            || self
                .first()
                .is_some_and(|(_, record)| record.was_retransmitted)
    }

    /// The end of the highest SACKed record, or of what is acknowledged where nothing is SACKed
    /// (Linux `tcp_highest_sack_seq`).
    pub(super) fn highest_sack(&self) -> u64 {
        if self.sacked == 0 {
            self.una()
        } else {
            let highest = self.flight.as_ref().map_or(0, |flight| flight.highest_sack);
            highest.max(self.una())
        }
    }

    /// Bytes of data in `start..end`, a FIN not counted.
    pub(super) fn data_bytes(&self, start: u64, end: u64) -> u64 {
        end - start - u64::from(self.fin_end() == Some(end))
    }

    /// The peer took back what it SACKed: the first byte that it misses is one of them.
    pub(super) fn is_reneged(&self) -> bool {
        let first = self
            .flight
            .as_ref()
            .and_then(|it| it.runs.first_key_value());
        first.is_some_and(|(&start, _)| start <= self.una())
    }

    /// When the last record was sent, as it is dated.
    pub(super) fn latest_sent(&self) -> Option<Instant> {
        Some(self.flight.as_ref()?.by_time.back()?.sent)
    }

    /// When the first unaccounted record was last sent.
    pub(super) fn head_sent(&self) -> Option<Instant> {
        Some(self.first()?.1.sent)
    }

    /// The first unaccounted record and its start.
    fn first(&self) -> Option<(u64, &Record)> {
        self.flight.as_ref()?.outstanding.first()
    }

    /// Without SACK, `sacked` counts the duplicate ACKs (Linux `tcp_add_reno_sack`).
    pub(super) fn set_duplicates(&mut self, count: u32) {
        debug_assert!(
            self.flight
                .as_ref()
                .is_none_or(|flight| flight.runs.is_empty()),
            "duplicates are counted without SACK only"
        );
        self.sacked = count;
    }

    /// This many packets fewer are in flight, since segments grew: as many duplicates no longer
    /// count (Linux `tcp_adjust_pcount`).
    fn drop_duplicates(&mut self, packets: u32) {
        let flight = self.flight.as_ref();
        if packets > 0 && flight.is_some_and(|flight| flight.runs.is_empty()) {
            self.sacked = self.sacked.saturating_sub(packets);
        }
    }

    /// Something is about to be sent: records it in spare memory, where there is some.
    #[inline]
    pub(super) fn take_memory(&mut self, spare: &mut SpareFlight) {
        if self.flight.as_ref().is_none() {
            self.flight = mem::take(&mut spare.0);
        }
    }

    /// Gives the memory away where nothing is in flight.
    #[inline]
    pub(super) fn give_memory(&mut self, spare: &mut SpareFlight) {
        if self.flight.as_ref().is_some_and(Flight::is_over) {
            spare.0 = mem::take(&mut self.flight);
        }
    }

    /// `next..end` was sent for the first time.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        end: u64,
        segment: u32,
        has_fin: bool,
        state: SentState,
    ) {
        let start = self.next();
        debug_assert!(end > start, "recovery does not handle empty segments");
        self.progress.on_sent(end, has_fin);
        let packets = self.packets_of(start, end, segment);
        let flight = self.flight.make();
        let sent = flight.leaves_at(now);
        let record = Record {
            end,
            segment,
            packets,
            sent,
            state,
            timestamp: 0,
            is_lost: false,
            is_overdue: false,
            is_retransmitted: false,
            was_retransmitted: false,
        };
        flight.outstanding.push(start, record);
        flight.remember(sent, start, end);
        self.packets_out += packets;
    }

    /// `start..end` was retransmitted. Returns its packets.
    pub(super) fn retransmit(&mut self, (start, end): (u64, u64), how: &Retransmission) -> u32 {
        let Retransmission {
            now,
            segment,
            timestamp,
            state,
            is_in_flight,
        } = *how;
        if let Some(before) = self.cut(start) {
            self.recount(before, segment);
        }
        if self.cut(end).is_some() {
            self.recount(end, segment);
        }
        let fin_end = self.fin_end();
        let (mut packets, out_before) = (0, self.packets_out);
        let Some(flight) = self.flight.as_mut() else {
            return packets;
        };
        if flight.cut.0 == start {
            flight.cut = (0, 0);
        }
        let sent = flight.leaves_again_at(now, start, state.delivered);
        for (&start, record) in flight.outstanding.up_to(end).range_mut(start..end) {
            let was = (record.packets, record.is_retransmitted);
            record.segment = segment;
            record.packets = packets_of(start, record.end, segment, fin_end);
            self.packets_out = self.packets_out + record.packets - was.0;
            if record.is_lost {
                self.lost = self.lost + record.packets - was.0;
            }
            if record.waits() && is_in_flight {
                flight.to_retransmit.remove(&start);
            }
            record.is_retransmitted |= is_in_flight;
            let counts = if record.is_retransmitted {
                record.packets
            } else {
                0
            };
            self.retransmitted = self.retransmitted + counts - if was.1 { was.0 } else { 0 };
            record.was_retransmitted = true;
            record.is_overdue = false;
            record.timestamp = timestamp;
            record.sent = sent;
            record.state = state;
            packets += record.packets;
        }
        flight.remember(sent, start, end);
        self.drop_duplicates(out_before.saturating_sub(self.packets_out));
        packets
    }

    /// The record `start..end` takes in those of one segment behind it, as long as the data of all
    /// fits into `room` bytes and they end inside the window (Linux `tcp_retrans_try_collapse`).
    /// What was SACKed stands between others. Returns where it ends then.
    pub(super) fn join(&mut self, (start, mut end): (u64, u64), room: u32, window_end: u64) -> u64 {
        let fin_end = self.fin_end();
        let data_end = |end: u64| end - u64::from(fin_end == Some(end));
        if data_end(end) - start >= room.into() {
            return end;
        }
        while let Some(flight) = self.flight.as_mut()
            && let records = flight.outstanding.up_to(end + 1)
            && records.get(&start).is_some_and(|head| head.end == end)
            && let Some(next) = records.get(&end)
            && next.packets == 1
            && data_end(next.end) - start <= room.into()
            && next.end <= window_end
        {
            let next = records.remove(&end).expect("it was found above");
            let head = records.get_mut(&start).expect("it was found above");
            head.end = next.end;
            head.was_retransmitted |= next.was_retransmitted;
            self.release(&next, end, next.packets);
            end = next.end;
            self.drop_duplicates(1);
        }
        self.count_records();
        end
    }

    /// Records and runs are other ones now.
    #[inline]
    fn count_records(&mut self) {
        let flight = self.flight.as_ref();
        let records = flight.map_or(0, |flight| flight.outstanding.len() + flight.runs.len());
        self.progress.set_records(records as u32);
    }

    /// Everything below `ack` arrived; calls `visit` for what was not SACKed before.
    pub(super) fn acknowledge(
        &mut self,
        ack: u64,
        mut visit: impl FnMut(&Delivered<'_>),
    ) -> Acknowledged {
        let (mut packets, mut cut_packet) = (0, None);
        while let Some(flight) = self.flight.as_mut()
            && let Some((start, mut record)) = flight.outstanding.pop_below(ack)
        {
            let cut = Some(flight.cut).filter(|cut| cut.0 == start);
            let left = if record.end > ack {
                packets_of(ack, record.end, record.segment, self.fin_end()).min(record.packets)
            } else {
                0
            };
            let taken = record.packets - left;
            self.release(&record, start, taken);
            // Part of a packet gives no round-trip sample (Linux `tcp_clean_rtx_queue`).
            if taken > 0 {
                cut_packet = cut_packet.or(cut.filter(|_| !record.was_retransmitted));
                visit(&Delivered {
                    start,
                    end: record.end.min(ack),
                    packets: taken,
                    record: &record,
                });
            }
            packets += taken;
            if left > 0 {
                record.packets = left;
                let flight = self.flight.make();
                if taken == 0 && left == 1 {
                    flight.cut = (ack, cut.map_or(start, |cut| cut.1));
                }
                if record.waits() {
                    flight.to_retransmit.insert(ack);
                }
                flight.outstanding.up_to(ack).insert(ack, record);
            }
        }
        let mut acknowledged = self.acknowledge_runs(ack);
        acknowledged.packets += packets;
        acknowledged.cut_packet = cut_packet.map(|cut| cut.1);
        self.progress.on_acked(ack);
        if let Some(flight) = self.flight.as_mut() {
            if flight.is_over() {
                flight.clear();
                self.retransmitted = 0;
            } else {
                flight.forget_sent(ack);
            }
        }
        self.count_records();
        acknowledged
    }

    fn acknowledge_runs(&mut self, ack: u64) -> Acknowledged {
        let mut acknowledged = Acknowledged::default();
        let Some(flight) = self.flight.as_mut() else {
            return acknowledged;
        };
        while let Some(entry) = flight.runs.first_entry() {
            let start = *entry.key();
            if start >= ack {
                break;
            }
            let run = entry.remove();
            let taken = if run.end <= ack {
                run.packets
            } else {
                // Which of its packets these bytes were is not known any more: take the share.
                let share = u64::from(run.packets) * (ack - start) / (run.end - start);
                let taken = u32::try_from(share).unwrap_or(0).min(run.packets - 1);
                let rest = Run {
                    end: run.end,
                    packets: run.packets - taken,
                    ..run
                };
                flight.runs.insert(ack, rest);
                taken
            };
            acknowledged.packets += taken;
            acknowledged.is_of_retransmission |= run.was_retransmitted;
            self.sacked -= taken;
            self.packets_out -= taken;
        }
        acknowledged
    }

    /// The peer holds `start..end`. Calls `visit` for what is newly SACKed; returns its packets.
    pub(super) fn sack(
        &mut self,
        (start, end): (u64, u64),
        mut visit: impl FnMut(&Delivered<'_>),
    ) -> u32 {
        let start = self.whole_segments_from(start.max(self.una()));
        let end = end.min(self.next());
        let fin_end = self.fin_end();
        let mut packets = 0;
        while let Some((&at, record)) = self.first_in(start, end) {
            if record.end > end {
                let whole = (end - at) / u64::from(record.segment) * u64::from(record.segment);
                if whole == 0 {
                    break;
                }
                self.cut(at + whole);
            }
            let flight = self.flight.make();
            let record = flight
                .outstanding
                .up_to(end)
                .remove(&at)
                .expect("it was found above");
            flight.highest_sack = flight.highest_sack.max(record.end);
            let data = record.end - at - u64::from(fin_end == Some(record.end));
            let run = Run {
                end: record.end,
                segment: match record.packets {
                    1 => u32::try_from(data).unwrap_or(u32::MAX),
                    _ => record.segment,
                },
                packets: record.packets,
                was_retransmitted: record.was_retransmitted,
            };
            flight.add_run(at, run);
            self.release(&record, at, record.packets);
            self.packets_out += record.packets;
            self.sacked += record.packets;
            packets += record.packets;
            visit(&Delivered {
                start: at,
                end: record.end,
                packets: record.packets,
                record: &record,
            });
        }
        self.count_records();
        packets
    }

    /// The start of the first whole segment at or above `offset`; cuts its record there.
    fn whole_segments_from(&mut self, offset: u64) -> u64 {
        let Some(flight) = self.flight.as_mut() else {
            return offset;
        };
        let before = flight.outstanding.up_to(offset).range(..offset);
        let Some((&at, record)) = before.into_iter().next_back() else {
            return offset;
        };
        if record.end <= offset {
            return offset;
        }
        let segment = u64::from(record.segment);
        let from = (at + (offset - at).div_ceil(segment) * segment).min(record.end);
        self.cut(from);
        from
    }

    /// `packets` of a record that leaves `outstanding` are not in flight any more.
    fn release(&mut self, record: &Record, start: u64, packets: u32) {
        self.packets_out -= packets;
        if record.is_lost {
            self.lost -= packets;
        }
        if record.is_retransmitted {
            self.retransmitted -= packets;
        }
        if record.waits()
            && let Some(flight) = self.flight.as_mut()
        {
            flight.to_retransmit.remove(&start);
        }
    }

    /// Cuts the record that `offset` lies inside; returns where that begins, if there is one.
    fn cut(&mut self, offset: u64) -> Option<u64> {
        let fin_end = self.fin_end();
        let flight = self.flight.as_mut()?;
        let before = flight.outstanding.up_to(offset).range_mut(..offset);
        let (&start, record) = before.into_iter().next_back()?;
        if record.end <= offset {
            return None;
        }
        let mut tail = record.clone();
        let before = record.packets;
        record.end = offset;
        record.packets = packets_of(start, offset, record.segment, fin_end);
        tail.packets = packets_of(offset, tail.end, tail.segment, fin_end);
        let after = record.packets + tail.packets;
        self.packets_out = self.packets_out + after - before;
        if tail.is_lost {
            self.lost = self.lost + after - before;
        }
        if tail.is_retransmitted {
            self.retransmitted = self.retransmitted + after - before;
        }
        if tail.waits() {
            flight.to_retransmit.insert(offset);
        }
        flight.outstanding.up_to(offset).insert(offset, tail);
        self.count_records();
        Some(start)
    }

    fn fin_end(&self) -> Option<u64> {
        self.progress.fin_end()
    }

    fn packets_of(&self, start: u64, end: u64, segment: u32) -> u32 {
        packets_of(start, end, segment, self.fin_end())
    }

    /// The record at `start`, as it was sent last, is lost. Returns whether it was lost before, and
    /// its retransmission is lost now. The retransmission of a record whose loss was undone stays
    /// in flight until the record is lost once more (Linux `tcp_mark_skb_lost`).
    fn mark_lost(&mut self, start: u64) -> bool {
        let Some(flight) = self.flight.as_mut() else {
            return false;
        };
        let Some(record) = flight.outstanding.up_to(start + 1).get_mut(&start) else {
            return false;
        };
        let is_lost_again = record.is_lost && record.is_retransmitted;
        if is_lost_again {
            record.is_retransmitted = false;
            self.retransmitted -= record.packets;
        }
        if !record.is_lost {
            record.is_lost = true;
            self.lost += record.packets;
        }
        self.lost_total += u64::from(record.packets);
        if record.waits() {
            flight.to_retransmit.insert(start);
        }
        is_lost_again
    }

    /// The first segment of the lost record at `start` waits to be retransmitted, though a
    /// retransmission of it is in flight, since its loss was undone. Linux keeps counting that one
    /// until nothing is in flight (`tcp_retransmit_skb`).
    fn release_retransmission(&mut self, start: u64) {
        let found = self.first_in(start, start + 1);
        let Some((_, record)) = found.filter(|(_, it)| it.is_retransmitted) else {
            return;
        };
        let segment_end = start + u64::from(record.segment);
        if record.packets > 1 && segment_end < record.end {
            self.cut(segment_end);
        }
        let flight = self.flight.make();
        if let Some(record) = flight.outstanding.up_to(start + 1).get_mut(&start) {
            record.is_retransmitted = false;
            flight.to_retransmit.insert(start);
        }
    }

    /// RACK: marks as lost what was sent before the record (`rack.0`, `rack.1`: sent, end), and at
    /// least `wait` ago: a round-trip time and the reordering window (Linux
    /// `tcp_rack_detect_loss`).
    pub(super) fn expire(
        &mut self,
        now: Instant,
        rack: (Instant, u64),
        wait: core::time::Duration,
    ) -> Expired {
        let mut found = Expired::default();
        while let Some(flight) = self.flight.as_mut()
            && let Some(&range) = flight.by_time.front()
        {
            if (range.sent, range.start) >= rack {
                break;
            }
            let end = range.overtaken_end(rack);
            let Some(start) = flight.first_waiting(range, end) else {
                flight.drop_front(end);
                continue;
            };
            if range.sent + wait > now {
                found.waiting = Some(flight.last_before(rack).unwrap_or(range.sent));
                break;
            }
            found.lost_retransmission |= self.mark_range_lost(start, end, range.sent);
            self.flight.make().drop_front(end);
        }
        found
    }

    /// The first record that begins in `start..end`.
    fn first_in(&mut self, start: u64, end: u64) -> Option<(&u64, &Record)> {
        self.flight.as_mut()?.first_in(start, end)
    }

    fn mark_range_lost(&mut self, start: u64, end: u64, sent: Instant) -> bool {
        let (mut at, mut again) = (start, false);
        while let Some((&found, record)) = self.first_in(at, end) {
            at = record.end;
            if record.sent == sent && !record.waits() {
                again |= self.mark_lost(found);
                let records = self.flight.make().outstanding.up_to(found + 1);
                if let Some(record) = records.get_mut(&found) {
                    record.is_overdue = true;
                }
            }
        }
        again
    }

    /// RFC 6675: marks the records with at least `threshold` packets SACKed above them.
    pub(super) fn mark_by_count(&mut self, threshold: u32) {
        let mut above = 0;
        let mut border = None;
        let una = self.una();
        let Some(flight) = self.flight.as_mut() else {
            return;
        };
        for (&start, run) in flight.runs.iter().rev() {
            above += run.packets;
            if above >= threshold {
                border = Some(start);
                break;
            }
        }
        let Some(border) = border else { return };
        let mut at = flight.record_start(flight.counted_below.max(una));
        flight.counted_below = flight.counted_below.max(border);
        while let Some((&found, record)) = self.first_in(at, border) {
            at = record.end;
            if !record.is_lost {
                self.mark_lost(found);
            }
        }
    }

    /// Marks the first segment, however often it was sent (Linux `tcp_newreno_mark_lost`).
    pub(super) fn mark_head_lost(&mut self) {
        let Some((start, record)) = self.first() else {
            return;
        };
        if record.is_lost {
            return;
        }
        let segment = u64::from(record.segment);
        if record.packets > 1 && record.end > start + segment {
            self.cut(start + segment);
        }
        self.mark_lost(start);
    }

    /// Marks everything in `start..end`.
    pub(super) fn mark_all_in(&mut self, start: u64, end: u64) {
        self.cut(start);
        self.cut(end);
        let mut at = start;
        while let Some((&found, record)) = self.first_in(at, end) {
            at = record.end;
            if !record.waits() {
                self.mark_lost(found);
            }
        }
    }

    /// After a timeout: everything unaccounted is lost, except what `spare` says left too recently;
    /// the first record never is, and is retransmitted in any case.
    pub(super) fn mark_all_lost(&mut self, spare: impl Fn(Instant) -> bool) {
        let mut at = self.una();
        let mut is_head = true;
        while let Some(flight) = self.flight.as_mut()
            && let Some((&found, record)) = flight.outstanding.all().range(at..).next()
        {
            at = record.end;
            if !record.waits() && (is_head || !spare(record.sent)) {
                self.mark_lost(found);
            }
            if is_head {
                self.release_retransmission(found);
            }
            is_head = false;
        }
    }

    /// The peer reneged: what it SACKed counts as unaccounted for again (RFC 2018 section 8).
    /// `sent`: when the latest of it left.
    pub(super) fn forget_sacks(&mut self, sent: Instant, segment: u32, state: SentState) {
        let (una, fin_end) = (self.una(), self.fin_end());
        let Some(flight) = self.flight.as_mut() else {
            return;
        };
        while let Some((start, run)) = flight.runs.pop_first() {
            let packets = packets_of(start, run.end, segment, fin_end);
            self.sacked -= run.packets;
            self.packets_out = self.packets_out - run.packets + packets;
            let record = Record {
                end: run.end,
                segment,
                packets,
                sent,
                state,
                timestamp: 0,
                is_lost: false,
                is_overdue: false,
                is_retransmitted: false,
                was_retransmitted: run.was_retransmitted,
            };
            flight.outstanding.up_to(start).insert(start, record);
        }
        flight.counted_below = una;
        self.count_records();
    }

    /// Segments are at most `segment` bytes from now on: what was sent in larger ones is lost, and
    /// counts in smaller ones when it is retransmitted (Linux `tcp_simple_retransmit`). Returns
    /// whether there was any.
    pub(super) fn mark_larger(&mut self, segment: u32) -> bool {
        let lost_before = self.lost_total;
        let mut at = self.una();
        while let Some(flight) = self.flight.as_mut()
            && let Some((&start, record)) = flight.outstanding.all().range(at..).next()
        {
            at = record.end;
            let longest = u64::from(record.segment).min(record.end - start);
            if longest > u64::from(segment) && !record.waits() {
                self.mark_lost(start);
            }
        }
        self.lost_total > lost_before
    }

    /// The first range that waits to be retransmitted: whole segments of `segment` bytes, whatever
    /// they were when they left (Linux `__tcp_retransmit_skb`), at most `packets` and `bytes` of
    /// them, at least one.
    pub(super) fn first_to_retransmit(
        &self,
        packets: u32,
        bytes: u32,
        segment: u32,
    ) -> Option<(u64, u64)> {
        let flight = self.flight.as_ref()?;
        let &start = flight.to_retransmit.first()?;
        let record = flight.outstanding.touched(start)?;
        let segment = segment.max(1);
        let packets = packets.min(bytes / segment).max(1);
        let most = u64::from(packets) * u64::from(segment);
        // A FIN rides on the segment before it.
        let end = match record.end - start {
            length if self.fin_end() == Some(record.end) && length == most + 1 => record.end,
            length => start + length.min(most),
        };
        Some((start, end))
    }

    /// The last segment, for a tail-loss probe: as it was counted, cut to `segment` bytes that fit
    /// now (Linux `tcp_send_loss_probe`).
    pub(super) fn last_segment(&self, segment: u32) -> Option<(u64, u64)> {
        let (start, record) = self.flight.as_ref()?.outstanding.last()?;
        let segment = u64::from(segment.max(1));
        let data_end = match self.fin_end() {
            Some(end) if end == record.end => end - 1,
            _ => record.end,
        };
        let before = u64::from(record.packets - 1) * segment;
        let from = if start + before < data_end {
            start + before
        } else {
            start
        };
        let end = if data_end.saturating_sub(from) > segment {
            from + segment
        } else {
            record.end
        };
        Some((from, end))
    }
}

/// Packets of `start..end`; a FIN takes an offset and no packet of its own, unless it is alone.
fn packets_of(start: u64, end: u64, segment: u32, fin_end: Option<u64>) -> u32 {
    let bytes = end - start - u64::from(fin_end == Some(end));
    let packets = bytes.div_ceil(u64::from(segment.max(1))).max(1);
    u32::try_from(packets).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
