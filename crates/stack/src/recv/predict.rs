//! Header prediction of Linux, as far as it decides which data is taken.

use super::Receiver;

/// Unit in which Linux reserves memory for a connection (`sk_forward_alloc`).
const PAGE_BYTES: u64 = 4096;

impl Receiver {
    /// Whether it matters if the next segment is the one that Linux predicts: the buffer is full,
    /// or a duplicate waits to be reported.
    #[inline]
    pub(crate) fn asks_for_prediction(&self) -> bool {
        self.buffer.is_truesize() && (self.buffer.is_over() || self.duplicate.is_some())
    }

    /// Whether memory for a packet of `payload` bytes is reserved already, so that Linux takes a
    /// predicted packet without looking at the buffer (`tcp_rcv_established`). Memory is reserved
    /// in pages for what is received and the `sent` bytes of memory that written data takes, and
    /// given back in pages: what is unused of the last page is reserved. With data in both
    /// directions there is repeatedly a new last page: Linux keeps taking tiny segments into these,
    /// we stop at the end of the page in which the packet lies that exceeds the buffer.
    pub(crate) fn is_reserved(&self, payload: u32, segments: u32, sent: u64) -> bool {
        if !self.buffer.is_truesize() {
            return !self.has_out_of_order();
        }
        let charge = u64::from(self.buffer.blocks_of(payload, segments).charge);
        let received = u64::from(self.buffer.charged());
        let used = received + sent;
        let reserved = used.next_multiple_of(PAGE_BYTES) - used;
        let most = (u64::from(self.buffer.peak()) + charge).next_multiple_of(PAGE_BYTES);
        self.is_predicting && charge <= reserved && received + charge <= most
    }

    /// The peer's window changed: prediction may start again.
    pub(crate) fn predict_anew(&mut self) {
        self.is_predicting = self.may_predict();
    }

    /// Nothing is predicted until data comes in order.
    pub(crate) const fn stop_predicting(&mut self) {
        self.is_predicting = false;
    }

    /// Linux `tcp_fast_path_check`.
    pub(super) fn may_predict(&self) -> bool {
        let has_room = self.window.offered() > 0 && self.buffer.charged() < self.buffer.bytes();
        has_room && self.buffer.is_truesize() && !self.has_out_of_order()
    }
}
