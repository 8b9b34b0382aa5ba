//! Reads of the application, what it waits for, and the ACKs after reads (rule 8.5).

use base::Instant;
use base::settings::LinuxVersion;

use super::Receiver;
use crate::packet::Payload;

impl Receiver {
    /// Takes up to `max` bytes; empty if there are none. `is_tight`: the host is short of memory.
    pub(crate) fn read(&mut self, now: Instant, max: usize, is_tight: bool) -> Payload {
        self.buffer.set_tight(is_tight);
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        if max == 0 {
            return Payload::default();
        }
        let Some(mut taken) = self.queue.pop(max) else {
            if self.is_fin_reached {
                self.buffer.hold_fin(false);
            }
            return Payload::default();
        };
        self.on_piece_read(now);
        while taken.len() < max
            && self.queue.unread() > 0
            && let Some(piece) = self.queue.pop(max - taken.len())
        {
            self.on_piece_read(now);
            taken.append(piece, self.queue.ready_packets());
        }
        if !taken.is_empty() {
            self.buffer.set_in_order(self.queue.ready_charge());
            self.after_read();
        }
        taken
    }

    /// The application will read no more: drops what it has not.
    pub(crate) fn drop_unread(&mut self) {
        while self.queue.pop(u32::MAX).is_some() {}
        self.buffer.hold_fin(false);
        self.buffer.set_in_order(self.queue.ready_charge());
    }

    /// Up to `max` bytes of what a read would take. An ACK may follow as from a read (Linux
    /// `tcp_recvmsg_locked`).
    pub(crate) fn peek(&mut self, now: Instant, max: usize) -> Payload {
        let seen = self.queue.peek(u32::try_from(max).unwrap_or(u32::MAX));
        if !seen.is_empty() {
            self.on_piece_read(now);
            self.after_read();
        }
        seen
    }

    #[inline]
    fn on_piece_read(&mut self, now: Instant) {
        let now = match self.autotune.linux() {
            // Without automatic sizing it is told all the same (`tcp_rcvbuf_grow`).
            None if self.buffer.is_truesize() => self.last_packet,
            None => return,
            Some(LinuxVersion::V6_12) => now,
            Some(_) => self.last_packet,
        };
        let progress = self.progress();
        self.autotune
            .on_read(now, progress, &mut self.buffer, &mut self.window);
    }

    /// An ACK or a window update after a read (rule 8.5; Linux `__tcp_cleanup_rbuf`, FreeBSD
    /// `tcp_output`).
    pub(super) fn after_read(&mut self) {
        let unacknowledged = self.next() - self.window.acknowledged();
        let is_much = self.acks.is_much(unacknowledged, self.window.segment());
        let is_empty = self.buffer.charged() == 0;
        if self.acks.is_due_at_read(is_much, is_empty) {
            self.acks.force();
        } else if !self.is_fin_reached && !self.is_shut && self.is_worth_update() {
            self.sent_acks.window_updates += 1;
            self.acks.force();
        }
    }

    /// Whether the window has opened enough for a window update.
    fn is_worth_update(&mut self) -> bool {
        let left = self.current_window();
        let Some(segments) = self.acks.rules().window_update_segments else {
            if 2 * u64::from(left) > u64::from(self.window.clamp()) {
                return false;
            }
            let window = self.fitting_window();
            return window > 0 && u64::from(window) >= 2 * u64::from(left);
        };
        let window = self.select_window();
        let more = window.saturating_sub(left);
        let (all, mss) = (self.buffer.full(), self.window.mss());
        if more == 0 || window >> self.window.scale() == left >> self.window.scale() {
            return false;
        }
        let is_enough = more >= segments.saturating_mul(mss)
            && (more >= all / 4 || window <= all / 8 || all <= 8 * mss);
        is_enough || more >= all.div_ceil(2)
    }

    /// Whether everything was read up to the peer's FIN.
    pub(crate) const fn is_finished(&self) -> bool {
        self.is_fin_reached && self.queue.unread() == 0
    }

    /// Whether to wake a program that waits for data: as much has arrived as it asked for, or no
    /// more can before it reads (Linux `tcp_epollin_ready`).
    #[inline]
    pub(crate) fn is_readable(&self) -> bool {
        let unread = self.queue.unread();
        let is_enough = unread > 0 && unread >= self.buffer.lowat().into();
        is_enough || self.is_readable_with_less()
    }

    #[inline(never)]
    fn is_readable_with_less(&self) -> bool {
        if self.is_fin_reached || self.is_shut {
            return true;
        }
        self.queue.unread() > 0
            && (self.buffer.is_tight()
                || self.buffer.is_nearly_full()
                || self.current_window() <= self.window.segment())
    }

    /// The application shuts down reading; data is still kept and acknowledged.
    pub(crate) const fn shut(&mut self) {
        self.is_shut = true;
    }

    /// Whether the application has shut down reading.
    pub(crate) const fn is_shut(&self) -> bool {
        self.is_shut
    }

    /// Bytes that wait to be read.
    pub(crate) const fn unread_bytes(&self) -> u64 {
        self.queue.unread()
    }
}
