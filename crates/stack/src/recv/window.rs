//! The receive window: its first size, how it grows inside the buffer, and what to offer next.
//!
//! Decides from the buffer ([`Buffer`]) and the segments seen. Where the buffer counts memory as
//! Linux does, the window follows Linux (`rcv_ssthresh`, rounding up); elsewhere it is the free
//! space (BSD, `NetBurner`), with silly-window avoidance (RFC 9293 section 3.8.6.2.2).

use base::settings::Options;

use super::Arrived;
use super::accounting::Buffer;

/// Largest window without scaling.
const FIELD_MAX: u32 = 65_535;
/// Largest shift (RFC 7323 section 2.3).
const SCALE_MAX: u32 = 14;
/// Least estimate of the peer's segment size (Linux `TCP_MIN_MSS`).
const SEGMENT_MIN: u32 = 88;
/// Largest first estimate of the peer's segment size (Linux `TCP_MSS_DEFAULT`).
const SEGMENT_GUESS: u32 = 536;
/// Least clamp that can be set (half of Linux's `SOCK_MIN_RCVBUF`).
const CLAMP_MIN: u32 = 1152;
/// Payload from which on a packet in order opens the window (Linux `tcp_event_data_recv`).
pub(super) const GROWING_BYTES: u32 = 128;

/// Estimates from a segment's length that concern ACKs (Linux `tcp_measure_rcv_mss`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measured {
    /// Larger segments than before: the ratio of window and memory may be measured on it.
    pub(super) is_new_size: bool,
    /// Probably the end of a write.
    pub(super) is_pushed: bool,
    /// Shorter than a full segment.
    pub(super) is_short: bool,
}

/// A window to offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Selected {
    pub(super) bytes: u32,
    /// Less than half of the buffer is free: no quick ACKs (Linux `__tcp_select_window`).
    pub(super) is_tight: bool,
}

/// The receive window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    scale: u8,
    /// Largest window that may be offered.
    clamp: u32,
    /// The clamp that the application set (`TCP_WINDOW_CLAMP`).
    clamp_asked: u32,
    /// Bound of the window, which grows inside the buffer (`rcv_ssthresh`).
    threshold: u32,
    /// Payload of a segment with agreed options (`advmss`).
    mss: u32,
    /// Estimated payload of the peer's segments (`rcv_mss`).
    segment: u32,
    /// Length of the last short segment, if it may be a full one; else 0.
    short_before: u32,
    /// Last offered window, in bytes from `offered_at`.
    offered: u32,
    offered_at: u64,
    /// The farthest right edge ever offered.
    edge: u64,
    /// The first window, before the header field limits it.
    first: u32,
    /// Bytes of the options that each segment has.
    usual_options: u32,
    /// Nothing is offered until the application accepts the connection.
    is_held: bool,
}

impl Window {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            scale: 0,
            clamp: 0,
            clamp_asked: options.window_clamp.unwrap_or(u32::MAX),
            threshold: 0,
            mss: 0,
            segment: SEGMENT_MIN,
            short_before: 0,
            offered: 0,
            offered_at: 1,
            edge: 1,
            first: 0,
            usual_options: 0,
            is_held: false,
        }
    }

    /// The first window and the shift (rule 3.2; Linux `tcp_select_initial_window`).
    pub(super) fn select_first(&mut self, mss: u32, buffer: &Buffer, options: &Options) -> u32 {
        let full = buffer.full();
        let size = &buffer.rules().buffer;
        let clamp = match options.window_clamp {
            Some(asked) => asked,
            None => FIELD_MAX << SCALE_MAX,
        };
        let clamp = if buffer.is_locked() {
            clamp.min(full)
        } else {
            clamp
        };
        let mut space = full.min(clamp);
        if buffer.is_truesize() && space > mss && mss > 0 {
            space -= space % mss;
        }
        self.scale = if options.window_scaling {
            let largest = space.max(size.max).max(size.request_max).min(clamp);
            largest.max(1).ilog2().saturating_sub(15).min(SCALE_MAX) as u8
        } else {
            0
        };
        if let Some(segments) = options.initial_window_segments {
            space = space.min(segments.saturating_mul(mss));
        }
        self.mss = mss;
        self.clamp = clamp.min(FIELD_MAX << self.scale);
        self.threshold = space;
        self.first = space;
        // A window in a SYN is not scaled (RFC 7323 section 2.2).
        let announced = if self.is_held {
            0
        } else {
            space.min(FIELD_MAX)
        };
        // Linux counts all of it as offered, even what the field cannot express, so that the next
        // window does not end before it.
        let is_kept = buffer.is_truesize() && !self.is_held;
        self.offered = if is_kept { space } else { announced };
        self.offered_at = 1;
        self.edge = 1 + u64::from(self.offered);
        announced
    }

    /// The handshake is done (Linux `tcp_init_buffer_space`, `tcp_initialize_rcv_mss`).
    pub(super) fn establish(&mut self, is_scaled: bool, mss: u32, send_mss: u32, buffer: &Buffer) {
        self.mss = mss;
        if !is_scaled {
            self.scale = 0;
        }
        self.clamp = self.clamp.min(FIELD_MAX << self.scale);
        let full = buffer.full();
        if buffer.is_truesize() {
            self.clamp = self.clamp.min(full);
            if self.clamp > 2 * mss && self.clamp.saturating_add(mss) > full {
                self.clamp = (2 * mss).max(full.saturating_sub(mss));
            }
        }
        self.threshold = self.threshold.min(self.clamp);
        self.segment = mss
            .min(send_mss)
            .min(self.first / 2)
            .clamp(SEGMENT_MIN, SEGMENT_GUESS);
    }

    /// Sets the application's clamp. In Linux it holds until the buffer grows or the ratio of
    /// window to memory is measured anew.
    pub(super) fn ask_clamp(&mut self, clamp: Option<u32>, buffer: &Buffer) {
        let asked = clamp.unwrap_or(u32::MAX);
        let before = core::mem::replace(&mut self.clamp_asked, asked);
        if buffer.is_truesize() && asked != before && clamp.is_some() && self.clamp > 0 {
            self.set_clamp(asked.max(CLAMP_MIN));
        }
    }

    /// The buffer grew so that a window of this many bytes can be offered (Linux
    /// `tcp_set_rcvlowat`).
    pub(super) fn raise_clamp(&mut self, bytes: u32) {
        if self.clamp > 0 {
            self.clamp = self.clamp.max(bytes);
        }
    }

    /// The buffer grew: all of it may be offered.
    pub(super) fn follow_buffer(&mut self, buffer: &Buffer) {
        self.clamp = buffer.full();
    }

    /// The ratio of window to memory was measured anew.
    pub(super) fn follow_ratio(&mut self, buffer: &Buffer) {
        self.set_clamp(buffer.full());
    }

    /// Changes the clamp; the threshold follows it down, or up to what was offered (Linux
    /// `tcp_set_window_clamp`).
    fn set_clamp(&mut self, bytes: u32) {
        let before = core::mem::replace(&mut self.clamp, bytes);
        self.threshold = if self.clamp < before {
            self.threshold.min(self.clamp)
        } else {
            self.threshold.max(self.offered.min(self.clamp))
        };
    }

    /// Settings changed. If memory is counted, the clamp stays until the buffer grows by itself, as
    /// in Linux; otherwise the free space is offered.
    pub(super) fn follow_settings(&mut self, buffer: &Buffer) {
        if !buffer.is_truesize() {
            self.clamp = FIELD_MAX << self.scale;
        }
    }

    /// The options that each segment has.
    pub(super) const fn set_usual_options(&mut self, bytes: u32) {
        self.usual_options = bytes;
    }

    /// Learns from a segment's length (rule 8.1; Linux `tcp_measure_rcv_mss`). A short one counts
    /// as full when the next has the same length; bytes of SACK blocks count as data then, those of
    /// the usual options do not.
    pub(super) fn measure(&mut self, facts: &Arrived) -> Measured {
        let (length, is_pushed) = (facts.segment_bytes, facts.is_pushed);
        let short_before = core::mem::take(&mut self.short_before);
        if length >= self.segment {
            let is_new_size = length != self.segment;
            self.segment = length.min(self.mss).max(1);
            return Measured {
                is_new_size,
                is_pushed,
                is_short: false,
            };
        }
        let with_options = length + facts.option_bytes;
        let is_remnant = is_pushed || facts.is_last;
        if with_options >= SEGMENT_GUESS || (with_options >= SEGMENT_MIN && !is_remnant) {
            let length = with_options.saturating_sub(self.usual_options);
            self.short_before = length;
            if length == short_before {
                self.segment = length;
                return Measured::default();
            }
        }
        Measured {
            is_new_size: false,
            is_pushed: true,
            is_short: true,
        }
    }

    /// Grows inside the buffer with a packet (rule 3.3; Linux `tcp_grow_window`); whether it did.
    pub(super) fn grow(&mut self, payload: u32, charge: u32, buffer: &Buffer) -> bool {
        if !buffer.is_truesize() || buffer.is_tight() {
            return false;
        }
        let room = self.clamp.min(buffer.free()).saturating_sub(self.threshold);
        if room == 0 {
            return false;
        }
        let window = buffer.window_of(charge);
        let increment = if window <= payload {
            2 * self.mss
        } else {
            self.small_packet_increment(payload, window, buffer)
        };
        if increment == 0 {
            return false;
        }
        self.threshold += room.min(increment.max(payload.saturating_mul(2)));
        true
    }

    /// The more memory a packet wastes, the smaller the share of the largest buffer up to which it
    /// still opens the window (Linux `__tcp_grow_window`).
    fn small_packet_increment(&self, payload: u32, window: u32, buffer: &Buffer) -> u32 {
        let mut packet = window >> 1;
        let mut share = buffer.window_of(buffer.rules().buffer.max) >> 1;
        while self.threshold <= share {
            if packet <= payload {
                return 2 * self.segment;
            }
            packet >>= 1;
            share >>= 1;
        }
        0
    }

    /// The buffer is full (Linux `tcp_clamp_window`).
    pub(super) fn shrink_threshold(&mut self) {
        self.threshold = self.clamp.min(2 * self.mss);
    }

    /// The window that memory has room for (rule 3.4; Linux `__tcp_select_window`).
    #[inline]
    pub(super) fn fitting(&self, buffer: &Buffer) -> Selected {
        let (bytes, is_tight) = if self.is_held {
            (0, false)
        } else if buffer.is_truesize() {
            self.select_by_memory(buffer)
        } else {
            (self.select_by_space(buffer), false)
        };
        Selected { bytes, is_tight }
    }

    /// The window to offer now, which never shrinks (RFC 9293 section 3.8.6; Linux
    /// `tcp_select_window`).
    pub(super) fn select(&self, next: u64, buffer: &Buffer) -> Selected {
        let left = self.left(next);
        let Selected { bytes, is_tight } = self.fitting(buffer);
        let bytes = if self.is_held {
            left
        } else if bytes < left {
            left.next_multiple_of(1 << self.scale)
        } else {
            bytes
        };
        let most = if buffer.is_truesize() {
            u32::MAX
        } else {
            FIELD_MAX << self.scale
        };
        Selected {
            bytes: bytes.min(most),
            is_tight,
        }
    }

    fn select_by_memory(&self, buffer: &Buffer) -> (u32, bool) {
        let unit = 1_u32 << self.scale;
        let all = buffer.full();
        let full = self.clamp.min(all);
        // A window that never held a whole segment would be rounded down to nothing for ever.
        let segment = self.segment.min(full).min(self.threshold);
        if segment == 0 {
            return (0, false);
        }
        let mut free = buffer.free();
        let mut threshold = self.threshold;
        let is_tight = free < full / 2;
        if is_tight {
            if buffer.is_tight() {
                // Linux tcp_adjust_rcv_ssthresh.
                threshold = threshold.min(self.mss.saturating_mul(4));
            }
            free &= !(unit - 1);
            if free < all / 16 || free < segment {
                return (0, true);
            }
        }
        free = free.min(threshold);
        let bytes = if self.scale > 0 {
            (free + (unit - 1)) & !(unit - 1)
        } else if self.offered <= free.saturating_sub(segment) || self.offered > free {
            free - free % segment
        } else if segment == full && free > self.offered + full / 2 {
            free
        } else {
            self.offered
        };
        (bytes, is_tight)
    }

    /// The free space, unless it is less than a segment (silly-window avoidance; FreeBSD
    /// `tcp_output`).
    fn select_by_space(&self, buffer: &Buffer) -> u32 {
        let free = buffer.free();
        if free < buffer.full() / 4 && free < self.mss {
            return 0;
        }
        // A clamp below a segment does not mean that space is short.
        let offered = free.min(self.clamp).min(self.clamp_asked);
        let unit = 1_u32 << self.scale;
        let most = buffer.full().min(self.clamp_asked);
        if most < unit {
            // A buffer smaller than the unit of the header field: rounded down, its window would
            // stay zero for ever. What does not fit is dropped, and retransmitted.
            return if offered > most / 2 { unit } else { 0 };
        }
        offered - offered % unit
    }

    /// Notes that `bytes` are offered from `next` on.
    pub(super) fn on_offered(&mut self, next: u64, bytes: u32) {
        self.offered = bytes;
        self.offered_at = next;
        self.edge = self.edge.max(next + u64::from(bytes));
    }

    /// Shrinks the window to zero: there is no memory (rule 3.4.7).
    pub(super) fn take_back(&mut self, next: u64) {
        self.on_offered(next, 0);
        self.edge = next;
    }

    /// Remaining part of the last offered window (Linux `tcp_receive_window`).
    pub(super) fn left(&self, next: u64) -> u32 {
        let end = self.offered_at + u64::from(self.offered);
        end.saturating_sub(next) as u32
    }

    pub(super) fn set_held(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    pub(super) const fn is_held(&self) -> bool {
        self.is_held
    }

    /// The last offered window.
    pub(super) const fn offered(&self) -> u32 {
        self.offered
    }

    /// The byte that was expected when a window was offered last: all below is acknowledged.
    pub(super) const fn acknowledged(&self) -> u64 {
        self.offered_at
    }

    pub(super) const fn edge(&self) -> u64 {
        self.edge
    }

    pub(super) const fn scale(&self) -> u8 {
        self.scale
    }

    pub(super) const fn clamp(&self) -> u32 {
        self.clamp
    }

    pub(super) const fn threshold(&self) -> u32 {
        self.threshold
    }

    pub(super) const fn mss(&self) -> u32 {
        self.mss
    }

    pub(super) const fn segment(&self) -> u32 {
        self.segment
    }

    /// Full segments in half of it, which may be acknowledged at once (Linux `tcp_incr_quickack`).
    pub(super) fn quick_count(&self) -> u32 {
        match self.offered / (2 * self.segment) {
            0 => 2,
            count => count,
        }
    }

    pub(super) const fn first(&self) -> u32 {
        self.first
    }

    #[cfg(test)]
    pub(super) const fn set_for_test(
        &mut self,
        scale: u8,
        clamp: u32,
        threshold: u32,
        segment: u32,
    ) {
        self.scale = scale;
        self.clamp = clamp;
        self.threshold = threshold;
        self.segment = segment;
    }
}
