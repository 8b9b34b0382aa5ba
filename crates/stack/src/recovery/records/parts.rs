//! Parts of packets: what is left of one of which a part was acknowledged, retransmitted or probed.

use super::{Scoreboard, packets_of};

impl Scoreboard {
    /// Acknowledged bytes of the first packet in flight: one of a single segment stays in memory as
    /// it is until all of it is acknowledged, or it is retransmitted (Linux `tcp_clean_rtx_queue`).
    #[inline]
    pub(in crate::recovery) fn kept_bytes(&self) -> u32 {
        match self.flight.as_ref() {
            Some(flight) if flight.cut.0 == self.una() => (flight.cut.0 - flight.cut.1) as u32,
            _ => 0,
        }
    }

    /// A packet begins at `offset`; what is left of the one before has segments of `segment` bytes.
    pub(in crate::recovery) fn part(&mut self, offset: u64, segment: u32) {
        if let Some(before) = self.cut(offset) {
            self.recount(before, segment);
        }
        self.count_records();
    }

    /// A retransmission began or stopped inside a record: the rest of it, which begins at `start`,
    /// counts in segments of what fits now, too (Linux `tcp_fragment`).
    pub(super) fn recount(&mut self, start: u64, segment: u32) {
        let fin_end = self.fin_end();
        let Some(flight) = self.flight.as_mut() else {
            return;
        };
        let Some(record) = flight.outstanding.up_to(start + 1).get_mut(&start) else {
            return;
        };
        let before = record.packets;
        record.segment = segment;
        record.packets = packets_of(start, record.end, segment, fin_end);
        let after = record.packets;
        self.packets_out = self.packets_out + after - before;
        if record.is_lost {
            self.lost = self.lost + after - before;
        }
        if record.is_retransmitted {
            self.retransmitted = self.retransmitted + after - before;
        }
        self.drop_duplicates(before.saturating_sub(after));
    }
}
