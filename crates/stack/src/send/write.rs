//! Acceptance of writes, and when there is room again: the three semantics of
//! [`base::settings::Completion`].

use base::settings::{Accounting, Completion};
use bytes::Bytes;

use super::Sender;
use super::completion::Sends;
use super::memory::SMALL_PACKET_BYTES;
use super::segment::SegmentSizes;
use crate::host::WriteFlags;
use crate::progress::{Mark, Progress};

/// Room below which BSD does not take a part of a write (`so_snd.sb_lowat`): the program would be
/// woken for every acknowledged segment otherwise.
const BSD_LOW_WATER_BYTES: u64 = 2048;

/// This many times its size a send buffer may take in memory (`FreeBSD` `sb_efficiency`).
const MEMORY_FACTOR: u64 = 8;

/// Result of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteOutcome {
    /// Bytes that were taken, from the first on.
    pub(crate) taken: usize,
    /// The write is done; otherwise it was cut short, or completes later (Winsock).
    pub(crate) completed: bool,
    /// Data to send before the rest of the write is handed over; see [`Sender::write`].
    pub(crate) pause: Option<Pause>,
}

/// Data to send in the middle of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// One burst: the packet that became full is the first unsent one (Linux `tcp_push_one`).
    One,
    /// All that may be sent: half of the largest window was written since the last PSH (Linux
    /// `forced_push`).
    All,
}

/// The part of a write not taken yet.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    chunks: &'a [Bytes],
    /// Bytes of the first chunk that were taken.
    offset: usize,
}

impl<'a> Source<'a> {
    /// All of a write.
    pub(crate) const fn new(chunks: &'a [Bytes]) -> Self {
        Self { chunks, offset: 0 }
    }

    fn bytes(&self) -> u64 {
        let bytes: usize = self.chunks.iter().map(Bytes::len).sum();
        (bytes - self.offset) as u64
    }
}

impl Sender {
    /// Takes data from the front of `source`; segments are to be polled afterwards. Refused after
    /// [`Sender::close`].
    ///
    /// Linux sends in the middle of a write: as soon as the first unsent packet is full, a part of
    /// it is sent (`tcp_push_one`), and the rest of it takes more of the write whatever the
    /// buffer's size. So a write may pause; the caller sends one burst and writes the rest. This is
    /// why `SO_SNDBUF` does not bound what is in flight on paths with small bursts.
    pub(crate) fn write(
        &mut self,
        source: &mut Source<'_>,
        flags: WriteFlags,
        progress: &Progress,
        sizes: &SegmentSizes,
    ) -> WriteOutcome {
        let total = source.bytes();
        if self.has_fin() {
            return WriteOutcome::default();
        }
        if total == 0 {
            return WriteOutcome {
                completed: true,
                ..WriteOutcome::default()
            };
        }
        let (taken, pause) = match self.settings.send.completion {
            Completion::Linux => {
                let room = self.held_room(progress).unwrap_or(total);
                self.write_packets(source, total.min(room), flags.urgent, progress, sizes)
            }
            Completion::Bsd => {
                let room = self.room(total, progress);
                (self.write_stream(source, total.min(room)), None)
            }
            Completion::Winsock if self.refuses_send(flags) => (0, None),
            Completion::Winsock => (self.write_stream(source, total), None),
        };
        if pause.is_some() {
            self.paused_bytes += taken;
            return WriteOutcome {
                taken: taken as usize,
                completed: false,
                pause,
            };
        }
        self.writer_waits |= taken < total;
        let before = core::mem::take(&mut self.paused_bytes);
        if before + taken > 0 {
            self.end_write(taken < total, flags, u64::from(sizes.window_max / 2));
        } else {
            self.waits.make().refused_writes += 1;
        }
        let completed = match self.settings.send.completion {
            Completion::Linux | Completion::Bsd => taken == total,
            Completion::Winsock => {
                let (end, quota) = (self.end(), self.size.bytes());
                taken > 0 && self.sends.make().push(end, total, quota)
            }
        };
        self.expand_as_freebsd(progress);
        WriteOutcome {
            taken: taken as usize,
            completed,
            pause: None,
        }
    }

    /// Marks what a write left behind (Linux `tcp_push`). More than `half_window` is pushed though
    /// more follows.
    fn end_write(&mut self, is_short: bool, flags: WriteFlags, half_window: u64) {
        let WriteFlags {
            more,
            urgent,
            no_wait: _,
        } = flags;
        // A write cut short for lack of room is not held for its rest.
        let more = more && !is_short;
        let end = self.end();
        // All of it may have been sent during the write.
        let is_much = self.forms_packets() && end - self.pushed > half_window;
        if let Some(tail) = self.ledger.tail_mut() {
            tail.push |= !more || is_much;
            tail.more = more;
            if tail.push {
                self.pushed = end;
            }
        }
        if urgent {
            self.urgent_end = Mark::at(end);
        }
        self.round.after_write = true;
        self.round.was_idle = None;
        self.round.pushes |= is_short && self.forms_packets();
        self.sent.writes += 1;
        if is_short {
            self.waits.make().short_writes += 1;
        }
    }

    /// Fills up the last packet and starts new ones while there is memory (Linux
    /// `tcp_sendmsg_locked`, rules 5.2 and 6.1).
    fn write_packets(
        &mut self,
        source: &mut Source<'_>,
        total: u64,
        is_urgent: bool,
        progress: &Progress,
        sizes: &SegmentSizes,
    ) -> (u64, Option<Pause>) {
        // A GSO packet cannot say where urgent data ends (Linux `tcp_xmit_size_goal`).
        let goal = match is_urgent {
            true => sizes.bound_mss().into(),
            false => u64::from(sizes.size_goal()),
        };
        let half_window = u64::from(sizes.window_max / 2);
        let mut left = total;
        while left > 0 {
            let mut room = goal.saturating_sub(self.ledger.tail_bytes(progress));
            if self.ledger.unsent_packets() == 0 || room == 0 {
                if !self.may_start_packet(progress) {
                    break;
                }
                self.ledger.begin_packet();
                room = goal;
            }
            let bytes = room.min(left);
            self.take(source, bytes);
            let end = self.end();
            // Nothing of an urgent write is sent before its end is marked.
            let is_full = bytes == room && !is_urgent;
            let is_pushed = is_full && end - self.pushed > half_window;
            if is_pushed {
                self.pushed = end;
            }
            // The first bytes of a write take the mark of the write before; later ones leave the
            // mark of a packet of which a part was pushed (Linux `tcp_sendmsg_locked`).
            let is_first = self.paused_bytes + (total - left) == 0;
            let tail = self.ledger.tail_mut().expect("the packet just filled");
            tail.end = end;
            tail.push = is_pushed || (tail.push && !is_first);
            left -= bytes;
            let pause = match is_full {
                true if is_pushed => Some(Pause::All),
                true if self.ledger.unsent_packets() == 1 => Some(Pause::One),
                _ => None,
            };
            if left > 0 && pause.is_some() {
                return (total - left, pause);
            }
        }
        (total - left, None)
    }

    /// Whether a program with [`Held`](base::settings::Held) writes now. With nothing in flight it
    /// does, since its share of the buffer may be less than the room that it waits for.
    fn has_held_room(&self, progress: &Progress) -> bool {
        let least = self.settings.send.held.map_or(0, |held| held.room_bytes);
        let room = self.held_room(progress).unwrap_or(u64::MAX);
        room >= u64::from(least) || self.outstanding_bytes(progress) == 0
    }

    /// Whether Linux lets a writer start a packet (`sk_stream_memory_free`).
    fn may_start_packet(&self, progress: &Progress) -> bool {
        let is_held = self.settings.send.held.is_some();
        let has_memory = is_held || self.queued_bytes(progress) < self.size.bytes();
        has_memory && self.is_below_lowat(1, progress)
    }

    /// Bytes that a program with [`Held`](base::settings::Held) writes now.
    fn held_room(&self, progress: &Progress) -> Option<u64> {
        let share = self.settings.send.held?.share;
        let most = self.size.bytes() * u64::from(share) / 1000;
        Some(most.saturating_sub(self.outstanding_bytes(progress)))
    }

    /// Whether `factor` times the unsent bytes are below the low-water mark.
    fn is_below_lowat(&self, factor: u64, progress: &Progress) -> bool {
        let lowat = self.settings.send.notsent_lowat;
        // 0 is none, as in Linux (`tcp_notsent_lowat`).
        lowat.is_none_or(|lowat| {
            lowat == 0 || self.unsent_bytes(progress) * factor < u64::from(lowat)
        })
    }

    /// Appends `bytes` to a stream that is cut when it is sent.
    fn write_stream(&mut self, source: &mut Source<'_>, bytes: u64) -> u64 {
        if bytes > 0 {
            self.take(source, bytes);
            let end = self.end();
            match self.ledger.tail_mut() {
                Some(tail) => {
                    tail.end = end;
                    tail.push = false;
                }
                None => self.ledger.begin_packet(),
            }
        }
        bytes
    }

    /// Room for a write of `total` bytes where the buffer is a hard limit (BSD `sosend`).
    fn room(&self, total: u64, progress: &Progress) -> u64 {
        let room = match self.settings.send.accounting {
            Accounting::Payload | Accounting::Truesize { ratio: _ } => self
                .size
                .bytes()
                .saturating_sub(self.queued_bytes(progress)),
            // The last buffer may have room left.
            Accounting::Buffers { payload_bytes } => {
                let payload_bytes = u64::from(payload_bytes.max(1));
                let whole = self.size.bytes() / payload_bytes * payload_bytes;
                whole.saturating_sub(self.unsent_bytes(progress))
            }
        };
        let is_refused = (room < total && room < self.low_water())
            || !self.is_below_lowat(1, progress)
            || self.takes_too_much(progress);
        if is_refused { 0 } else { room }
    }

    /// Whether bytes and packets take more memory than the buffer may stand for, where bytes alone
    /// are charged: a peer that has acknowledged many small packets permits as many in flight, and
    /// may stop answering.
    fn takes_too_much(&self, progress: &Progress) -> bool {
        let packets = self.ledger.packets_out() as u64 * SMALL_PACKET_BYTES;
        let limit = MEMORY_FACTOR * self.size.bytes();
        packets + self.outstanding_bytes(progress) > limit
    }

    fn low_water(&self) -> u64 {
        match self.settings.send.accounting {
            Accounting::Payload | Accounting::Truesize { ratio: _ } => {
                BSD_LOW_WATER_BYTES.min(self.size.bytes())
            }
            Accounting::Buffers { payload_bytes: _ } => 1,
        }
    }

    /// A program that does not wait is refused beyond the quota; one that waits may have a bounded
    /// number of sends outstanding.
    fn refuses_send(&self, flags: WriteFlags) -> bool {
        (flags.no_wait && !self.is_within_quota()) || self.has_too_many_sends()
    }

    /// Whether the sends that are buffered leave room for another.
    fn is_within_quota(&self) -> bool {
        let quota = self.size.bytes();
        self.sends
            .as_ref()
            .is_none_or(|sends| sends.is_within(quota))
    }

    fn has_too_many_sends(&self) -> bool {
        self.sends.as_ref().is_some_and(Sends::is_full)
    }

    /// Whether a program that waits for room is to be woken (rule 5.2, vectors B14 and B15).
    pub(super) fn is_writable(&self, progress: &Progress) -> bool {
        match self.settings.send.completion {
            Completion::Linux => {
                let queued = self.queued_bytes(progress);
                let free = self.size.bytes().saturating_sub(queued);
                free >= queued / 2
                    && queued < self.size.bytes()
                    && self.has_held_room(progress)
                    && self.is_below_lowat(2, progress)
            }
            Completion::Bsd => self.room(u64::MAX, progress) > 0,
            Completion::Winsock => self.is_within_quota() && !self.has_too_many_sends(),
        }
    }

    /// Moves the next `bytes` of a write into the stream.
    fn take(&mut self, source: &mut Source<'_>, mut bytes: u64) {
        while bytes > 0 {
            let (chunk, rest) = source.chunks.split_first().expect("as many bytes as taken");
            let left = chunk.len() - source.offset;
            let part = left.min(usize::try_from(bytes).unwrap_or(usize::MAX));
            self.ledger
                .write(chunk.slice(source.offset..source.offset + part));
            bytes -= part as u64;
            source.offset += part;
            if part == left {
                *source = Source::new(rest);
            }
        }
    }
}
