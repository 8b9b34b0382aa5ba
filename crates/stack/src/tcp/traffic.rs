//! Segments and bytes of a connection, as `tcp_info` counts them. They decide nothing but pacing of
//! the first segments, and when a silent peer counts as gone.

use base::{FlowSample, Instant};

use crate::packet::Segment;

/// Counters of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    segments_in: u64,
    segments_out: u64,
    data_segments_in: u64,
    data_segments_out: u64,
    bytes_sent: u64,
    /// SYNs and SYN-ACKs that were retransmitted after a timeout.
    handshake_retransmits: u16,
    /// SYN-ACKs that were retransmitted because the peer's SYN was.
    duplicate_syns: u32,
    /// Timeouts by which no SYN-ACK was retransmitted, since the peer had answered.
    deferred_timeouts: u16,
    /// When a segment of any kind was queued last.
    last_sent: Option<Instant>,
    last_data_received: Option<Instant>,
    last_ack_received: Option<Instant>,
}

impl Traffic {
    /// A segment came, acceptable or not (Linux `tcp_segs_in`).
    #[inline]
    pub(super) fn on_segment_received(&mut self, segment: &Segment) {
        let segments = u64::from(segment.segments());
        self.segments_in += segments;
        if !segment.payload.is_empty() {
            self.data_segments_in += segments;
        }
    }

    /// An acceptable acknowledgment came.
    pub(super) const fn on_ack_received(&mut self, now: Instant) {
        self.last_ack_received = Some(now);
    }

    /// Acceptable data came.
    pub(super) const fn on_data_received(&mut self, now: Instant) {
        self.last_data_received = Some(now);
    }

    /// `segments` with `bytes` of data are sent, or a bare FIN.
    pub(super) const fn on_data_sent(&mut self, segments: u64, bytes: u32) {
        if bytes > 0 {
            self.data_segments_out += segments;
        }
        self.bytes_sent += bytes as u64;
    }

    /// Segments of any kind were queued.
    pub(super) const fn on_sent(&mut self, now: Instant, segments: u64) {
        self.segments_out += segments;
        self.last_sent = Some(now);
    }

    /// When a segment of any kind was queued last (Linux `tcp_wstamp_ns`).
    pub(super) const fn last_sent(&self) -> Option<Instant> {
        self.last_sent
    }

    /// SYN or SYN-ACK is retransmitted.
    pub(super) const fn on_handshake_retransmit(&mut self) {
        self.handshake_retransmits = self.handshake_retransmits.saturating_add(1);
    }

    /// A SYN-ACK is not retransmitted, though its time has come.
    pub(super) const fn on_deferred_timeout(&mut self) {
        self.deferred_timeouts = self.deferred_timeouts.saturating_add(1);
    }

    /// A SYN-ACK is retransmitted because the peer's SYN was.
    pub(super) const fn on_duplicate_syn(&mut self) {
        self.duplicate_syns += 1;
    }

    /// Drops counters of a handshake that a listener answered, except for the peer's SYN and
    /// `segment` (Linux `tcp_create_openreq_child`).
    pub(super) fn forget_answers(&mut self, segment: &Segment) {
        self.segments_in = 1 + u64::from(segment.segments());
        self.data_segments_in = match segment.payload.is_empty() {
            true => 0,
            false => segment.segments().into(),
        };
        self.segments_out = 0;
    }

    pub(super) const fn data_segments_out(&self) -> u64 {
        self.data_segments_out
    }

    pub(super) const fn data_segments_in(&self) -> u64 {
        self.data_segments_in
    }

    pub(super) fn handshake_retransmits(&self) -> u64 {
        self.handshake_retransmits.into()
    }

    /// Timeouts of the handshake, whether something was retransmitted or not.
    pub(super) fn handshake_timeouts(&self) -> u64 {
        u64::from(self.handshake_retransmits) + u64::from(self.deferred_timeouts)
    }

    /// SYN-ACKs that were retransmitted because the peer's SYN was.
    pub(super) fn duplicate_syns(&self) -> u64 {
        self.duplicate_syns.into()
    }

    /// When the last acknowledgment came.
    pub(super) const fn last_ack_received(&self) -> Option<Instant> {
        self.last_ack_received
    }

    /// When the peer was heard last.
    pub(super) fn last_heard(&self) -> Option<Instant> {
        self.last_ack_received.max(self.last_data_received)
    }

    /// Fills the part of a flow record in that is counted here.
    pub(super) fn tell(&self, now: Instant, sample: &mut FlowSample) {
        let Self {
            segments_in,
            segments_out,
            data_segments_in,
            data_segments_out,
            bytes_sent,
            handshake_retransmits: _,
            duplicate_syns: _,
            deferred_timeouts: _,
            last_sent: _,
            last_data_received,
            last_ack_received,
        } = *self;
        let since = |at: Option<Instant>| at.map(|at| now.since(at));
        sample.since_data_received = since(last_data_received);
        sample.since_ack_received = since(last_ack_received);
        sample.bytes_sent = Some(bytes_sent);
        sample.segs_out = Some(segments_out);
        sample.segs_in = Some(segments_in);
        sample.data_segs_out = Some(data_segments_out);
        sample.data_segs_in = Some(data_segments_in);
    }
}
