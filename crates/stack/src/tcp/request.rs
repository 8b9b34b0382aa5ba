//! Connections that a listener was asked for and that are not open yet (rule 9.1).

use base::tcp::TcpFlags;

use super::Connection;
use super::incoming::{Placed, Verdict};
use crate::host::Shared;

impl Connection {
    /// What Linux looks at first in a segment for a connection that was asked for and is not open
    /// yet (rule 9.1; `tcp_check_req`): the ACK, then whose clock is echoed. `None`: no objection.
    #[inline(never)]
    pub(super) fn judge_request(
        &self,
        shared: &mut Shared,
        placed: &Placed<'_>,
    ) -> Option<Verdict> {
        if !self.is_asked() || self.linux().is_none() {
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
