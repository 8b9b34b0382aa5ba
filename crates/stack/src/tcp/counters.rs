//! What one connection counted, by name.

use alloc::vec::Vec;

use super::Connection;
use crate::recovery::RecoveryStats;
use crate::recv::RecvStats;
use crate::send::SendStats;

impl Connection {
    /// Every counter of its halves and of loss recovery.
    // tidy: long because each counter is named once
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        let &RecvStats {
            pruned: recv_pruned,
            collapsed: recv_collapsed,
            out_of_order_pruned: recv_out_of_order_pruned,
            queue_drops: recv_queue_drops,
            out_of_order_drops: recv_out_of_order_drops,
            zero_window_drops: recv_zero_window_drops,
            out_of_window_drops: recv_out_of_window_drops,
            compressed_acks: recv_compressed_acks,
            delayed_acks: recv_delayed_acks,
            quick_acks: recv_quick_acks,
            window_updates: recv_window_updates,
            duplicates: recv_duplicates,
            out_of_order: recv_out_of_order,
            bytes: recv_bytes,
        } = self.recv.stats();
        let &SendStats {
            writes: send_writes,
            short_writes: send_short_writes,
            refused_writes: send_refused_writes,
            packets: send_packets,
            segments: send_segments,
            partial_segments: send_partial_segments,
            nagle_holds: send_nagle_holds,
            cork_holds: send_cork_holds,
            deferrals: send_deferrals,
            interface_holds: send_interface_holds,
            buffer_growths: send_buffer_growths,
        } = self.send.stats();
        let &RecoveryStats {
            fast_recoveries,
            timeouts,
            tlps,
            tlp_recoveries,
            spurious_timeouts,
            undos,
            dsacks,
            retransmitted_packets,
            retransmitted_bytes,
            reordering_seen,
            sack_rejected,
            lost_retransmissions,
            renegings,
            ecn_reductions,
            restarts,
        } = self.recovery.stats();
        alloc::vec![
            ("recv.pruned", recv_pruned),
            ("recv.collapsed", recv_collapsed),
            ("recv.out_of_order_pruned", recv_out_of_order_pruned),
            ("recv.queue_drops", recv_queue_drops),
            ("recv.out_of_order_drops", recv_out_of_order_drops),
            ("recv.zero_window_drops", recv_zero_window_drops),
            ("recv.out_of_window_drops", recv_out_of_window_drops),
            ("recv.compressed_acks", recv_compressed_acks),
            ("recv.delayed_acks", recv_delayed_acks),
            ("recv.quick_acks", recv_quick_acks),
            ("recv.window_updates", recv_window_updates),
            ("recv.duplicates", recv_duplicates),
            ("recv.out_of_order", recv_out_of_order),
            ("recv.bytes", recv_bytes),
            ("send.writes", send_writes),
            ("send.short_writes", send_short_writes),
            ("send.refused_writes", send_refused_writes),
            ("send.packets", send_packets),
            ("send.segments", send_segments),
            ("send.partial_segments", send_partial_segments),
            ("send.nagle_holds", send_nagle_holds),
            ("send.cork_holds", send_cork_holds),
            ("send.deferrals", send_deferrals),
            ("send.interface_holds", send_interface_holds),
            ("send.buffer_growths", send_buffer_growths),
            ("recovery.fast_recoveries", fast_recoveries),
            ("recovery.timeouts", timeouts),
            ("recovery.tlps", tlps),
            ("recovery.tlp_recoveries", tlp_recoveries),
            ("recovery.spurious_timeouts", spurious_timeouts),
            ("recovery.undos", undos),
            ("recovery.dsacks", dsacks),
            ("recovery.retransmitted_packets", retransmitted_packets),
            ("recovery.retransmitted_bytes", retransmitted_bytes),
            ("recovery.reordering_seen", reordering_seen),
            ("recovery.sack_rejected", sack_rejected),
            ("recovery.lost_retransmissions", lost_retransmissions),
            ("recovery.renegings", renegings),
            ("recovery.ecn_reductions", ecn_reductions),
            ("recovery.restarts", restarts),
        ]
    }
}
