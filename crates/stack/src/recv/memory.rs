//! A full receive buffer, and changes of its settings on an open connection.
//!
//! The order of remedies is Linux's (rule 3.5); in stacks that do not count memory only the last
//! one applies: the segment is dropped.

use base::Instant;
use base::settings::SocketSettings;

use crate::Arc;
use crate::host::memory_of;
use crate::progress::FIRST_BYTE;

use super::{DataInput, DropReason, Receiver, RecvMemoryState, RecvStats};

impl Receiver {
    /// Whether data in order can be taken, after making room where that is allowed (Linux
    /// `tcp_data_queue`, `tcp_try_rmem_schedule`).
    pub(super) fn make_room(
        &mut self,
        start: u64,
        is_predicted: bool,
        charge: u32,
    ) -> Result<(), DropReason> {
        // If out-of-order data takes all memory, as in a buffer that was made smaller, only the
        // data that fills the gap can free it.
        let is_stuck = || self.queue.unread() == 0 && self.queue.range_bytes() > 0;
        if self.current_window() == 0 && !is_stuck() {
            return Err(DropReason::ZeroWindow);
        }
        if self.queue.ready_packets() >= self.buffer.packets_max() {
            // Very small packets cost more memory than they are charged.
            self.collapse(true);
        }
        let fits = is_predicted || self.buffer.fits(charge) || self.prune(start, charge);
        // The next byte in order is never dropped while nothing can be read.
        if fits || self.queue.unread() == 0 {
            return Ok(());
        }
        self.is_out_of_memory = true;
        Err(DropReason::BufferFull)
    }

    /// A bare FIN at `start` is taken even without memory, but the window shrinks to zero then,
    /// announced at once, as for refused data (Linux `tcp_data_queue`).
    pub(super) fn note_room_for_fin(&mut self, start: u64, charge: u32) {
        if self.buffer.is_truesize() && !self.buffer.fits(charge) && !self.prune(start, charge) {
            self.is_out_of_memory = true;
            self.force_ack();
        }
    }

    /// The same as [`Self::make_room`] for out-of-order data.
    pub(super) fn make_room_out_of_order(&mut self, data: &DataInput<'_>, charge: u32) -> bool {
        if self.queue.range_packets() >= self.buffer.packets_max() {
            return false;
        }
        let bytes = data.payload.len();
        let fits = |receiver: &Self| {
            receiver
                .buffer
                .fits_out_of_order(charge, bytes, receiver.queue.range_bytes())
        };
        fits(self) || (self.prune(data.start, charge) && fits(self))
    }

    /// Linux `tcp_prune_queue`; whether a packet of `charge` at `start` fits now.
    #[inline(never)]
    fn prune(&mut self, start: u64, charge: u32) -> bool {
        if !self.buffer.is_truesize() {
            return false;
        }
        self.trouble.make().pruned += 1;
        let charged = self.buffer.charged();
        if charged >= self.buffer.bytes() {
            self.acks.clear_quick();
            if !self.buffer.is_locked() {
                self.buffer.grow_to(charged.into());
            }
            if charged > self.buffer.bytes() {
                self.window.shrink_threshold();
            }
        }
        if self.buffer.fits(charge) {
            return true;
        }
        self.collapse_where_worthwhile();
        if self.buffer.fits(charge) {
            return true;
        }
        let (limit, in_order) = (self.buffer.bytes(), self.queue.ready_charge());
        // In steps of an eighth of the buffer, so that not every packet has to prune.
        let goal = self.queue.range_charge().saturating_sub(limit / 8);
        self.trouble.make().out_of_order_pruned += self.queue.prune(start, |left| {
            left <= goal && in_order.saturating_add(left) <= limit
        });
        self.buffer.set_out_of_order(self.queue.range_charge());
        let fits = self.buffer.fits(charge);
        self.is_predicting &= fits;
        fits
    }

    /// Bytes of memory that everything takes which is kept here.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let payload = self.queue.unread() + self.queue.range_bytes();
        memory_of(self.buffer.charged(), payload, self.queue.packets() as u64)
    }

    /// Bytes of memory that a packet of `segments` with `payload` bytes takes.
    pub(crate) fn memory_of(&self, payload: u32, segments: u32) -> u64 {
        let charge = self.buffer.blocks_of(payload, segments).charge;
        memory_of(charge, payload.into(), 1)
    }

    /// Collapses small packets where that pays; whether it did.
    pub(crate) fn collapse_where_worthwhile(&mut self) -> bool {
        let is_worthwhile = self.queue.is_collapse_worthwhile();
        if is_worthwhile {
            self.collapse(false);
        }
        is_worthwhile
    }

    /// Drops out-of-order data that begins above `above`; returns the packets.
    pub(crate) fn give_out_of_order(&mut self, above: u64) -> u64 {
        let dropped = self.queue.prune(above, |_| false);
        if dropped > 0 {
            self.trouble.make().out_of_order_pruned += dropped;
        }
        self.buffer.set_out_of_order(self.queue.range_charge());
        dropped
    }

    /// The host has no memory for a segment: the next ACK offers no window.
    pub(crate) fn refuse_for_memory(&mut self, is_in_order: bool) {
        if is_in_order {
            self.is_out_of_memory = true;
            self.refuse(DropReason::BufferFull);
        } else {
            self.refuse(DropReason::OutOfOrderFull);
        }
    }

    /// Collapses packets that waste memory, and all after them (Linux `tcp_collapse`); or all
    /// packets.
    #[inline(never)]
    fn collapse(&mut self, is_everything: bool) {
        let buffer = &self.buffer;
        let is_bloated = |payload, charge| is_everything || buffer.is_bloated(payload, charge);
        let blocks_of = |payload, charged| buffer.blocks_of_copy(payload, charged);
        let fewer = self.queue.collapse(is_bloated, blocks_of);
        self.trouble.make().collapsed += fewer;
        self.buffer.set_in_order(self.queue.ready_charge());
        self.buffer.set_out_of_order(self.queue.range_charge());
    }

    /// Takes new settings. What only acts in the handshake is ignored after it.
    pub(crate) fn configure(&mut self, _now: Instant, settings: &Arc<SocketSettings>) {
        let lowat = self.buffer.rules().lowat;
        self.buffer.configure(settings, self.is_established);
        if lowat != settings.recv.lowat && self.buffer.set_lowat() {
            self.window.raise_clamp(self.buffer.lowat());
        }
        if self.is_established {
            let headers = self.buffer.headers();
            self.buffer.set_segment(self.window.mss(), headers);
            self.window.follow_settings(&self.buffer);
        }
        self.window
            .ask_clamp(settings.options.window_clamp, &self.buffer);
        self.autotune.set_rule(settings.recv.buffer.rule);
        self.acks.configure(settings);
    }

    /// State of memory and window.
    pub(crate) fn memory(&self) -> RecvMemoryState {
        RecvMemoryState {
            rmem_bytes: self.buffer.charged(),
            rcvbuf_bytes: self.buffer.bytes(),
            window_clamp: self.window.clamp(),
            rcv_ssthresh: self.window.threshold(),
            rcv_mss: self.window.segment(),
            space: self.autotune.space(),
            rtt: self.autotune.rtt(),
            ato: self.acks.delay(),
            locked: self.buffer.is_locked(),
        }
    }

    /// Whole buffers of `buffer_bytes` that received data occupies: at least one per segment.
    pub(crate) fn buffers_held(&self, buffer_bytes: u32) -> u32 {
        let bytes = self.queue.unread() + self.queue.range_bytes();
        let buffers = bytes.div_ceil(u64::from(buffer_bytes.max(1)));
        self.queue.segments().max(buffers as u32)
    }

    /// The counters.
    pub(crate) fn stats(&self) -> RecvStats {
        RecvStats {
            acks: self.sent_acks,
            queue: self.trouble.value(),
            bytes: self.received_bytes(),
        }
    }

    /// Bytes taken in order.
    pub(crate) const fn received_bytes(&self) -> u64 {
        self.queue.next() - FIRST_BYTE
    }
}
