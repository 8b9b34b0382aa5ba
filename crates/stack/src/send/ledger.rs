//! The transmit ledger of written data: the bytes that are not acknowledged, the packets that they
//! were cut into, and whether more follow.
//!
//! Decides nothing. [`Progress`] knows what was sent and acknowledged; a packet stays here until it
//! is acknowledged as a whole, since its memory does.

use alloc::collections::VecDeque;

use base::settings::Accounting;
use bytes::Bytes;

use super::buffer::StreamBuffer;
use super::segment::Outgoing;
use crate::packet::Payload;
use crate::progress::{FIRST_BYTE, Progress};
use crate::shrink::{push, shrink_empty};

/// A packet that is not sent yet, from the end of the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsent {
    pub(super) end: u64,
    /// A write ended here, and its last segment carries PSH.
    pub(super) push: bool,
    /// The writer said that more follows at once (`MSG_MORE`).
    pub(super) more: bool,
}

/// A packet that is sent and not wholly acknowledged.
#[derive(Clone, Copy, Debug)]
struct Sent {
    end: u64,
    segments: u32,
    push: bool,
}

/// The written stream of one connection.
#[derive(Debug)]
pub(super) struct Ledger {
    stream: StreamBuffer,
    unsent: VecDeque<Unsent>,
    in_flight: VecDeque<Sent>,
    in_flight_segments: u32,
    /// FIN follows the last byte.
    is_closed: bool,
}

impl Ledger {
    pub(super) fn new(accounting: Accounting) -> Self {
        Self {
            stream: StreamBuffer::new(FIRST_BYTE, accounting),
            unsent: VecDeque::new(),
            in_flight: VecDeque::new(),
            in_flight_segments: 0,
            is_closed: false,
        }
    }

    /// Offset after the last written byte.
    pub(super) const fn end(&self) -> u64 {
        self.stream.end()
    }

    /// Whether no more data follows.
    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Packets that were begun and are not wholly sent.
    pub(super) fn unsent_packets(&self) -> usize {
        self.unsent.len()
    }

    /// Packets that were sent and are not wholly acknowledged.
    pub(super) fn packets_out(&self) -> usize {
        self.in_flight.len()
    }

    /// Segments in them.
    pub(super) const fn segments_out(&self) -> u32 {
        self.in_flight_segments
    }

    /// End of the first unsent packet.
    pub(super) fn head_end(&self) -> Option<u64> {
        self.unsent.front().map(|head| head.end)
    }

    /// The first unsent packet takes up to this many bytes of the next one, with the marks of one
    /// that it takes as a whole.
    pub(super) fn grow_head(&mut self, bytes: u64) {
        let Some(&next) = self.unsent.get(1) else {
            return;
        };
        let head = &mut self.unsent[0];
        head.end = next.end.min(head.end + bytes);
        if head.end == next.end {
            head.push |= next.push;
            head.more = next.more;
            self.unsent.remove(1);
        }
    }

    /// What a packet up to `end` would take from the unsent one that does not end with it.
    pub(super) fn cut_off(&self, progress: &Progress, end: u64) -> u32 {
        let whole = self.unsent.partition_point(|packet| packet.end <= end);
        if whole == self.unsent.len() {
            return 0;
        }
        let in_front = whole.checked_sub(1);
        let start = in_front.map_or(progress.data_sent(), |index| self.unsent[index].end);
        u32::try_from(end - start).unwrap_or(u32::MAX)
    }

    /// Where the packet in flight ends that holds `offset`.
    pub(super) fn sent_end(&self, offset: u64) -> Option<u64> {
        let index = self
            .in_flight
            .partition_point(|packet| packet.end <= offset);
        self.in_flight.get(index).map(|packet| packet.end)
    }

    /// The last unsent packet.
    pub(super) fn tail(&self) -> Option<&Unsent> {
        self.unsent.back()
    }

    /// The last unsent packet, to be marked.
    pub(super) fn tail_mut(&mut self) -> Option<&mut Unsent> {
        self.unsent.back_mut()
    }

    /// Bytes in the last unsent packet.
    pub(super) fn tail_bytes(&self, progress: &Progress) -> u64 {
        let in_front = self.unsent.len().checked_sub(2);
        let start = in_front.map_or(progress.data_sent(), |index| self.unsent[index].end);
        self.end() - start
    }

    /// Whether a write ended at `end`, which is not sent yet.
    pub(super) fn is_written_end(&self, end: u64) -> bool {
        self.unsent
            .front()
            .is_some_and(|front| front.push && front.end == end)
    }

    /// Whether a packet that was pushed ended in `start..=end`, which is not acknowledged.
    pub(super) fn was_pushed_in(&self, start: u64, end: u64) -> bool {
        let from = self.in_flight.partition_point(|sent| sent.end <= start);
        let packets = self.in_flight.iter().skip(from);
        packets
            .take_while(|sent| sent.end <= end)
            .any(|sent| sent.push)
    }

    /// The bytes `start..end`, for a transmission or a retransmission.
    ///
    /// # Panics
    /// Where some of them are acknowledged or were never written.
    pub(super) fn payload(&mut self, start: u64, end: u64) -> Payload {
        self.stream.payload(start, end)
    }

    /// Bytes were written: they belong to no packet before [`Ledger::tail_mut`] says where its
    /// packet ends.
    pub(super) fn write(&mut self, chunk: Bytes) {
        self.stream.push(chunk);
    }

    /// Begins a packet that ends where the stream ends now.
    pub(super) fn begin_packet(&mut self) {
        let packet = Unsent {
            end: self.end(),
            push: false,
            more: false,
        };
        push(&mut self.unsent, packet);
    }

    /// No more data follows.
    pub(super) const fn close(&mut self) {
        self.is_closed = true;
    }

    /// `outgoing` was sent for the first time, as this many segments; `is_pushed`: a write ended
    /// with it.
    pub(super) fn on_sent(&mut self, outgoing: &Outgoing, segments: u32, is_pushed: bool) {
        if outgoing.end == outgoing.start {
            return;
        }
        while self
            .unsent
            .front()
            .is_some_and(|head| head.end <= outgoing.end)
        {
            self.unsent.pop_front();
        }
        let packet = Sent {
            end: outgoing.end,
            segments,
            push: is_pushed,
        };
        push(&mut self.in_flight, packet);
        self.in_flight_segments += segments;
    }

    /// All data below `una` is acknowledged: releases it. What is left of a GSO packet counts in
    /// segments of `segment_bytes`.
    pub(super) fn release(&mut self, una: u64, segment_bytes: u32) {
        while let Some(front) = self.in_flight.front_mut() {
            if front.end > una {
                // What is left of a GSO packet that is partly acknowledged.
                let left = (front.end - una).div_ceil(u64::from(segment_bytes)) as u32;
                let left = left.min(front.segments);
                self.in_flight_segments -= front.segments - left;
                front.segments = left;
                break;
            }
            self.in_flight_segments -= front.segments;
            self.in_flight.pop_front();
        }
        if self.in_flight.is_empty() {
            shrink_empty(&mut self.in_flight);
            shrink_empty(&mut self.unsent);
        }
        self.stream.release(una);
    }

    /// Nothing is sent any more: the bytes that were not acknowledged are released, though they
    /// stay counted.
    pub(super) fn forget(&mut self) {
        self.stream.forget();
        self.unsent = VecDeque::new();
        self.in_flight = VecDeque::new();
        self.in_flight_segments = 0;
    }

    /// Checks that incremental counters equal a recount.
    #[cfg(test)]
    pub(super) fn check_accounts(&self, progress: &Progress) {
        let segments: u32 = self.in_flight.iter().map(|packet| packet.segments).sum();
        assert_eq!(self.in_flight_segments, segments);
        let (acked, all_sent) = (progress.data_acked(), progress.data_sent());
        let sent_end = self.in_flight.back().map_or(acked, |packet| packet.end);
        assert_eq!(sent_end, all_sent);
        let sent = self.in_flight.iter().map(|packet| packet.end);
        let unsent = self.unsent.iter().map(|packet| packet.end);
        let ends: alloc::vec::Vec<u64> = sent.chain(unsent).collect();
        assert!(ends.is_sorted_by(|a, b| a < b));
        assert_eq!(ends.last().copied().unwrap_or(acked), self.end());
    }
}
