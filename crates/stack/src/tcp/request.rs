//! Half-open connections of a listener (Linux: request sockets; rule 9.1).

use base::tcp::TcpFlags;

use super::Connection;
use super::incoming::{Placed, Verdict};
use crate::host::Shared;

impl Connection {
    /// The first checks of Linux for a segment to a half-open connection (rule 9.1;
    /// `tcp_check_req`): the ACK, then the echoed timestamp. `None`: no objection.
    #[inline(never)]
    pub(super) fn judge_request(
        &self,
        shared: &mut Shared,
        placed: &Placed<'_>,
    ) -> Option<Verdict> {
        if !self.is_half_open() || self.linux().is_none() {
            return None;
        }
        let flags = placed.segment.flags;
        if flags == TcpFlags::SYN && placed.start == 0 {
            return None;
        }
        let is_reset = flags.contains(TcpFlags::RST);
        if flags.contains(TcpFlags::ACK) && !is_reset {
            let verdict = self.judge_ack(shared, placed.segment);
            if verdict == Verdict::Foreign {
                return Some(verdict);
            }
        }
        if !self.echoes_no_syn_ack(placed.segment) {
            return None;
        }
        shared.counters.paws_rejected += 1;
        Some(if is_reset {
            Verdict::Drop
        } else if flags.contains(TcpFlags::SYN) {
            Verdict::Challenge
        } else {
            Verdict::Duplicate
        })
    }
}
