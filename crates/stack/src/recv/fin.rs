//! The peer's FIN: its offset, data beyond it, and data in its place (rule 9.2).

use base::tcp::SackBlocks;

use super::Receiver;
use super::sack::BlockOffsets;
use crate::progress::Mark;

impl Receiver {
    /// Where the stream ends for data `start..end`. Linux takes a FIN behind a gap for one byte
    /// more of its packet: data that covers that packet takes its place (rule 9.2;
    /// `tcp_data_queue_ofo`, `tcp_ofo_queue`).
    #[inline(never)]
    pub(super) fn end_of_stream(&self, start: u64, end: u64) -> u64 {
        let Some(fin) = self.fin.get() else {
            return u64::MAX;
        };
        let gives_way = self.buffer.is_truesize()
            && !self.is_fin_reached
            && (start > fin
                || end > fin
                    && self
                        .queue
                        .range_around(fin - 1)
                        .is_none_or(|(from, _)| start <= from));
        if gives_way { u64::MAX } else { fin }
    }

    /// Data up to `end` covers a FIN that came before: the FIN is dropped.
    #[inline(never)]
    pub(super) fn cover_fin(&mut self, start: u64, end: u64) {
        if let Some(fin) = self.early_fin()
            && start <= fin
            && fin < end
        {
            self.fin = Mark::NONE;
            self.buffer.hold_fin(false);
            self.extend_duplicate(fin, fin + 1);
            self.acks.set_urgent();
        }
    }

    /// Our side has closed: the ACK of the peer's FIN still carries SACK blocks (Linux `tcp_fin`).
    pub(crate) const fn tell_behind_fin(&mut self) {
        self.tells_behind_fin = true;
    }

    /// The SACK blocks for the ACK of the FIN, if the present segment reaches it: those from before
    /// the segment, some of which may be in order now.
    #[inline]
    pub(super) fn blocks_before_fin(&self) -> Option<BlockOffsets> {
        (self.tells_behind_fin && self.has_out_of_order())
            .then(|| self.out_of_order_blocks(SackBlocks::MAX))
    }

    /// Drops data beyond the FIN, which is not the peer's, and all SACK state (Linux `tcp_fin`).
    #[inline(never)]
    pub(crate) fn drop_behind_fin(&mut self) {
        self.duplicate = None;
        if self.queue.prune(0, |_| false) > 0 {
            self.buffer.set_out_of_order(self.queue.range_charge());
        }
    }

    /// The FIN is at this offset, unless it was seen at another before. In Linux the lowest counts.
    pub(super) fn note_fin(&mut self, offset: u64) {
        let is_first = self.buffer.is_truesize() && self.fin.get() > Some(offset);
        if !self.fin.is_set() || is_first {
            self.fin = Mark::at(offset);
        }
    }

    #[inline]
    pub(super) fn reach_fin(&mut self, blocks: Option<BlockOffsets>) -> bool {
        let is_reached = self.fin == Mark::at(self.queue.next()) && !self.is_fin_reached;
        if is_reached {
            self.is_fin_reached = true;
            let duplicate = self.duplicate.take();
            self.drop_behind_fin();
            if let Some(blocks) = blocks {
                self.duplicate = duplicate;
                self.queue.keep_blocks(&blocks);
            }
            self.acks.on_fin();
        }
        is_reached
    }

    /// The FIN is in order: the data in front of it takes it in, if some waits to be read (Linux
    /// `tcp_try_coalesce`); else its packet stays.
    #[cold]
    pub(super) fn charge_fin(&mut self) {
        self.buffer.hold_fin(self.queue.unread() == 0);
    }

    /// The FIN came at this offset behind a gap. `is_again`: without data, as before.
    #[cold]
    pub(super) fn note_early_fin(&mut self, fin: u64, is_again: bool) {
        self.note_fin(fin);
        self.is_fin_latest = self.fin == Mark::at(fin);
        if self.is_fin_latest && !is_again {
            let is_alone = self.queue.range_around(fin - 1).is_none();
            self.buffer.hold_fin(is_alone);
        }
    }

    /// Offset of a FIN that arrived before all data below it.
    #[inline]
    pub(super) fn early_fin(&self) -> Option<u64> {
        self.fin.get().filter(|_| !self.is_fin_reached)
    }
}
