//! The sending half of a connection: the stream of written data, how much a writer may add, and
//! what to send next.
//!
//! Linux forms packets when data is written, so that memory is charged per packet and a later write
//! fills up the last one; BSD and Winsock cut the stream when they send. Here the unsent data is a
//! list of packet boundaries, with a single entry for stacks of the second kind.
//!
//! It knows no congestion control, no retransmission and no timer: windows, allowances and how far
//! the stream has come are arguments, the connection asks [`Sender::hold_deadline`], and what was
//! sent stays readable until it is acknowledged.

mod buffer;
mod completion;
mod hold;
mod ledger;
mod memory;
mod segment;
mod write;

#[cfg(test)]
mod tests;

use core::time::Duration;

use base::Instant;
use base::settings::{Accounting, Completion, Nagle, Push, SocketSettings};

pub(crate) use memory::SendMemoryEnv;
pub(crate) use segment::{NewProbe, Outgoing, SegmentSizes, SendEnv, burst_segments};
pub(crate) use write::{Pause, Source, WriteOutcome};

use crate::Arc;
use crate::packet::Payload;
use crate::progress::{FIRST_BYTE, Mark, Progress};
use crate::rare::Rare;
use crate::tick::TickClock;
use completion::Sends;
use ledger::Ledger;
use memory::BufferSize;

/// Counters since the connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendStats {
    /// Writes that were accepted, at least in part.
    pub writes: u64,
    /// Writes that took less than was offered.
    pub short_writes: u64,
    /// Writes that were refused for lack of room.
    pub refused_writes: u64,
    /// Packets that were sent for the first time; a GSO packet is one.
    pub packets: u64,
    /// Segments in them.
    pub segments: u64,
    /// Of these, segments smaller than the MSS.
    pub partial_segments: u64,
    /// Times that Nagle's algorithm held a segment.
    pub nagle_holds: u64,
    /// Times that a cork or the lack of a push held one.
    pub cork_holds: u64,
    /// Times that a GSO packet waited for the next ACK to become larger.
    pub deferrals: u64,
    /// Times that the local queue held a packet.
    pub interface_holds: u64,
    /// Times that the send buffer grew.
    pub buffer_growths: u64,
}

/// Memory of the send buffer, from [`Sender::memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendMemoryState {
    /// Charge of the buffer by its accounting rule.
    pub(crate) wmem_queued_bytes: u32,
    /// Its size.
    pub(crate) sndbuf_bytes: u32,
    /// The application fixed the size.
    pub(crate) locked: bool,
    /// A write was refused or cut short, and there was no room since.
    pub(crate) writer_waits: bool,
}

/// The sending half of one connection.
#[derive(Debug)]
pub(crate) struct Sender {
    /// Shared with the rest of the connection until they change.
    settings: Arc<SocketSettings>,
    ledger: Ledger,
    size: BufferSize,
    writer_waits: bool,
    /// Bytes taken so far of a paused write.
    paused_bytes: u64,
    /// Pending sends, where the stack is Winsock.
    sends: Rare<Sends>,
    /// End of the last write that carries PSH.
    pushed: u64,
    /// End of the last sent segment that was not full (Linux `snd_sml`).
    small_end: u64,
    /// After the last urgent byte.
    urgent_end: Mark,
    /// The FIN was sent with pushed data, and keeps PSH (Linux `tcp_trim_head`).
    is_fin_pushed: bool,
    /// A partial segment that begins before this offset is sent in any case.
    flush_until: u64,
    round: Round,
    /// Payload of a full segment when the last one was formed.
    segment_bytes: u32,
    /// Acknowledged bytes of the first packet in flight, which stay in memory with it.
    kept_bytes: u32,
    /// The tail is held by a cork with nothing in flight.
    is_corked: bool,
    cork_deadline: Option<Instant>,
    sent: Sent,
    /// Reasons for which writes and segments wait.
    waits: Rare<Waits>,
}

/// Counters of data written and sent since the connection began; see [`SendStats`].
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    writes: u64,
    packets: u64,
    segments: u64,
    partial_segments: u64,
    buffer_growths: u64,
}

/// How often something waited since the connection began, as [`SendStats`] has it.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    short_writes: u64,
    refused_writes: u64,
    nagle_holds: u64,
    cork_holds: u64,
    deferrals: u64,
    interface_holds: u64,
}

/// State of a round of sending, which lasts until a segment is refused.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Partial segments are sent in any case (a write ended for lack of room).
    pushes: bool,
    /// The round follows a write, and nothing was sent since.
    after_write: bool,
    /// Nothing was in flight when it began; `None`: it has not begun.
    was_idle: Option<bool>,
}

impl Sender {
    pub(crate) fn new(settings: &Arc<SocketSettings>) -> Self {
        Self {
            settings: Arc::clone(settings),
            ledger: Ledger::new(settings.send.accounting),
            size: BufferSize::new(&settings.send),
            writer_waits: false,
            paused_bytes: 0,
            sends: Rare::NONE,
            pushed: FIRST_BYTE,
            small_end: FIRST_BYTE,
            urgent_end: Mark::NONE,
            is_fin_pushed: false,
            flush_until: FIRST_BYTE,
            round: Round::default(),
            segment_bytes: settings.options.default_mss.into(),
            kept_bytes: 0,
            is_corked: false,
            cork_deadline: None,
            sent: Sent::default(),
            waits: Rare::NONE,
        }
    }

    /// Settings changed on the open connection. What an option releases is sent by the next
    /// [`Sender::poll_segment`] (rule 7.4).
    pub(crate) fn configure(&mut self, settings: &Arc<SocketSettings>) {
        let before = core::mem::replace(&mut self.settings, Arc::clone(settings));
        let (old, new) = (&before.small_writes, &settings.small_writes);
        let nagle_ends = old.nagle != Nagle::Off && new.nagle == Nagle::Off;
        let cork_ends = old.cork && !new.cork;
        let push_begins = old.push == Push::Never && new.push != Push::Never;
        // Uncorking leaves the tail to Nagle's algorithm where that is on (Linux
        // `__tcp_sock_set_cork`).
        if nagle_ends || push_begins || (cork_ends && new.nagle == Nagle::Off) {
            self.flush();
        }
        if cork_ends {
            self.end_more();
        }

        if settings.send.buffer.fixed != before.send.buffer.fixed {
            self.size.fix(&settings.send);
        }
    }

    /// The handshake ended: sizes the buffer for the first time (rule 5.1).
    pub(crate) fn on_established(&mut self, env: &SendMemoryEnv) {
        self.size.look_at(env);
        self.segment_bytes = env.mss.max(1);
        self.expand_as_linux(env);
    }

    /// Sends of Winsock that are not complete.
    pub(crate) fn incomplete_sends(&self) -> usize {
        self.sends.as_ref().map_or(0, Sends::pending)
    }

    /// Releases this many more acknowledged bytes of data; `kept` of what is acknowledged by now
    /// stay in memory. Returns how many sends of Winsock became complete. [`Sender::check_space`]
    /// follows when what may be sent is sent.
    pub(crate) fn on_ack(
        &mut self,
        (bytes, kept): (u64, u32),
        progress: &Progress,
        env: &SendMemoryEnv,
    ) -> u32 {
        self.size.look_at(env);
        self.kept_bytes = kept;
        if bytes == 0 {
            return 0;
        }
        let una = progress.data_acked();
        self.ledger.release(una, self.segment_bytes);
        // What `MSG_MORE` held is pushed as ordinary data when an ACK comes.
        self.end_more();
        self.round.was_idle = None;
        self.size.on_ack();
        self.expand_as_freebsd(progress);
        let quota = self.size.bytes();
        self.sends
            .as_mut()
            .map_or(0, |sends| sends.on_ack(una, quota))
    }

    /// Whether a writer that was refused may write again, which is said once. To be asked after
    /// [`Sender::on_ack`] and after what the ACK allowed has been sent (Linux `tcp_check_space`).
    pub(crate) fn check_space(&mut self, progress: &Progress, env: &SendMemoryEnv) -> bool {
        if !self.writer_waits {
            return false;
        }
        self.size.look_at(env);
        self.grow(env);
        let is_writable = self.is_writable(progress);
        self.writer_waits = !is_writable;
        is_writable
    }

    /// So many bytes more stay in memory, until what the next [`Sender::on_ack`] says.
    pub(crate) const fn keep(&mut self, bytes: u32) {
        self.kept_bytes += bytes;
    }

    /// What a packet up to `end` would take from the one that does not end with it.
    pub(crate) fn cut_off(&self, progress: &Progress, end: u64) -> u32 {
        self.ledger.cut_off(progress, end)
    }

    /// Where the packet in flight ends that holds `offset`.
    pub(crate) fn sent_end(&self, offset: u64) -> Option<u64> {
        self.ledger.sent_end(offset)
    }

    /// What is retransmitted begins with the first unacknowledged byte.
    pub(crate) const fn trim_head(&mut self) {
        self.kept_bytes = 0;
    }

    /// Lets the buffer grow as Linux does, unless the congestion window is used up (Linux
    /// `tcp_should_expand_sndbuf`).
    pub(crate) fn grow(&mut self, env: &SendMemoryEnv) {
        if env.in_flight < env.cwnd && !env.is_tight {
            self.expand_as_linux(env);
        }
    }

    /// The shared pool or the host's memory refused a write or cut it short: the writer waits as
    /// for the send buffer.
    pub(crate) const fn on_write_refused(&mut self) {
        self.writer_waits = true;
    }

    /// No more data follows; FIN ends the stream.
    pub(crate) fn close(&mut self) {
        self.ledger.close();
    }

    /// The cork's timer fired: the next [`Sender::poll_segment`] sends the held data, as the end of
    /// a write (Linux `tcp_write_wakeup`).
    pub(crate) fn release_held(&mut self) {
        if let Some(tail) = self.ledger.tail_mut() {
            tail.push = true;
        }
        self.flush();
    }

    /// Releases data held by Nagle's algorithm or a cork, with the next [`Sender::poll_segment`].
    pub(crate) fn flush(&mut self) {
        self.flush_until = self.end();
    }

    /// As [`Self::flush`], but data that the congestion window holds back then waits as other data
    /// does.
    pub(crate) fn push_once(&mut self) {
        self.round.pushes = true;
    }

    /// When the connection is to call [`Sender::release_held`], because a cork holds the tail and
    /// no ACK will come (rule 7.5; Linux does it with the zero-window probe). Stays the same until
    /// something is sent.
    pub(crate) fn hold_deadline(
        &mut self,
        now: Instant,
        progress: &Progress,
        rto: Duration,
        tick: &TickClock,
    ) -> Option<Instant> {
        let delay = self.hold_delay(progress, rto)?;
        Some(
            *self
                .cork_deadline
                .get_or_insert_with(|| tick.expiry(now, delay)),
        )
    }

    /// Restarts the wait of [`Sender::hold_deadline`].
    pub(crate) const fn restart_hold(&mut self) {
        self.cork_deadline = None;
    }

    /// How long a corked tail waits while nothing is in flight.
    fn hold_delay(&self, progress: &Progress, rto: Duration) -> Option<Duration> {
        let ceiling = self.settings.small_writes.cork_ceiling?;
        (self.is_corked && progress.is_quiet()).then(|| rto.max(ceiling))
    }

    /// The bytes `start..end`, for the first time or again.
    ///
    /// # Panics
    /// Where some of them are acknowledged or were never written.
    pub(crate) fn payload(&mut self, start: u64, end: u64) -> Payload {
        self.ledger.payload(start, end)
    }

    /// Packets that were begun and are not wholly sent.
    pub(crate) fn unsent_packets(&self) -> usize {
        self.ledger.unsent_packets()
    }

    /// Offset after the last written byte.
    pub(crate) const fn end(&self) -> u64 {
        self.ledger.end()
    }

    /// Where the first unsent packet ends, if packets are formed when written.
    pub(crate) fn first_packet_end(&self) -> Option<u64> {
        self.ledger.head_end()
    }

    /// Bytes that were written and not sent.
    pub(crate) const fn unsent_bytes(&self, progress: &Progress) -> u64 {
        self.ledger.end() - progress.data_sent()
    }

    /// Bytes that were written and not acknowledged, sent or not.
    pub(crate) const fn outstanding_bytes(&self, progress: &Progress) -> u64 {
        // With the FIN acknowledged, `una` lies after the end.
        self.ledger.end().saturating_sub(progress.una())
    }

    /// Whether the application has closed its side.
    pub(crate) fn has_fin(&self) -> bool {
        self.ledger.is_closed()
    }

    /// Bytes of memory that the data takes which was written and not acknowledged, with the records
    /// that it may get: where losses or another MTU cut up a GSO packet, each segment has one.
    #[inline]
    pub(crate) fn memory_bytes(&self, progress: &Progress) -> u64 {
        let bytes = self.outstanding_bytes(progress);
        let packets = self.ledger.packets_out() + self.ledger.unsent_packets();
        let of_packet = match self.settings.send.accounting {
            Accounting::Truesize { ratio: _ } => memory::PACKET_OVERHEAD_BYTES,
            Accounting::Payload | Accounting::Buffers { .. } => memory::SMALL_PACKET_BYTES,
        };
        let segments = bytes / u64::from(self.segment_bytes);
        bytes + (packets as u64 * of_packet).max(segments * memory::SMALL_PACKET_BYTES)
    }

    /// The connection is over: nothing of the data will be sent.
    pub(crate) fn forget(&mut self) {
        self.kept_bytes = 0;
        self.ledger.forget();
    }

    /// Whether a write was refused or cut short, and there was no room since.
    pub(crate) const fn writer_waits(&self) -> bool {
        self.writer_waits
    }

    /// The state of the buffer.
    pub(crate) fn memory(&self, progress: &Progress) -> SendMemoryState {
        let clamp = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        SendMemoryState {
            wmem_queued_bytes: clamp(self.queued_bytes(progress)),
            sndbuf_bytes: clamp(self.size.bytes()),
            locked: self.size.is_locked(&self.settings.send),
            writer_waits: self.writer_waits,
        }
    }

    /// Buffers of a shared pool that the data takes: one per sent segment, the rest packed.
    pub(crate) fn buffers_held(&self, progress: &Progress, buffer_bytes: u32) -> u32 {
        let buffers = |bytes: u64| bytes.div_ceil(u64::from(buffer_bytes.max(1))) as u32;
        let in_flight = buffers(progress.unacked_bytes()).max(self.ledger.segments_out());
        in_flight + buffers(self.unsent_bytes(progress))
    }

    pub(crate) fn stats(&self) -> SendStats {
        let Sent {
            writes,
            packets,
            segments,
            partial_segments,
            buffer_growths,
        } = self.sent;
        let Waits {
            short_writes,
            refused_writes,
            nagle_holds,
            cork_holds,
            deferrals,
            interface_holds,
        } = self.waits.value();
        SendStats {
            writes,
            short_writes,
            refused_writes,
            packets,
            segments,
            partial_segments,
            nagle_holds,
            cork_holds,
            deferrals,
            interface_holds,
            buffer_growths,
        }
    }

    /// Packets are formed when data is written, not when it is sent.
    fn forms_packets(&self) -> bool {
        self.settings.send.completion == Completion::Linux
    }

    /// Charge of the buffer (rule 5.2).
    pub(crate) fn queued_bytes(&self, progress: &Progress) -> u64 {
        match self.settings.send.accounting {
            Accounting::Payload => self.outstanding_bytes(progress),
            Accounting::Truesize { ratio: _ } => {
                // A FIN that no data carries is a packet.
                let unsent = self.ledger.unsent_packets();
                let is_fin_alone = unsent == 0 && self.has_fin() && !progress.is_fin_sent();
                let unsent = unsent as u64 + u64::from(is_fin_alone);
                let packets = u64::from(progress.records()) + unsent;
                let bytes = self.outstanding_bytes(progress) + u64::from(self.kept_bytes);
                bytes + packets * memory::PACKET_OVERHEAD_BYTES
            }
            // Seed: NetBurner; sent data has a budget of its own.
            Accounting::Buffers { payload_bytes } => {
                let payload_bytes = u64::from(payload_bytes.max(1));
                self.unsent_bytes(progress).div_ceil(payload_bytes) * payload_bytes
            }
        }
    }

    /// The data announced by `MSG_MORE` does not follow.
    pub(crate) fn end_more(&mut self) {
        if let Some(tail) = self.ledger.tail_mut() {
            tail.more = false;
        }
    }

    fn expand_as_linux(&mut self, env: &SendMemoryEnv) {
        let has_grown = self.size.expand_as_linux(&self.settings.send, env);
        self.sent.buffer_growths += u64::from(has_grown);
    }

    /// At most one step per ACK, as often as data is written or acknowledged.
    fn expand_as_freebsd(&mut self, progress: &Progress) {
        let used = self.outstanding_bytes(progress);
        let unsent = self.unsent_bytes(progress);
        let has_grown = self
            .size
            .expand_as_freebsd(&self.settings.send, used, unsent);
        self.sent.buffer_growths += u64::from(has_grown);
    }
}
