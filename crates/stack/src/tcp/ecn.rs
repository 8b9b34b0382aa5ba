//! ECN on a connection (RFC 3168): whether it is used, and what is echoed to a sender whose packets
//! were marked. How our own sending reacts to an echo is loss recovery's.

use base::Instant;
use base::tcp::TcpFlags;

use super::Connection;
use crate::host::Shared;
use crate::packet::{EcnMark, Segment};

/// ECN on this connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EcnState {
    is_agreed: bool,
    /// A marked packet came: ACKs carry ECE until the peer says CWR.
    echoes: bool,
    /// Data came in an ECN-capable packet.
    saw_capable: bool,
    /// The last segment with data or FIN was new data with our FIN, and ECN-capable.
    ends_capable: bool,
}

impl EcnState {
    /// Applies the result of the handshake.
    pub(super) const fn agree(&mut self, is_agreed: bool) {
        self.is_agreed = is_agreed;
    }

    pub(super) const fn is_agreed(&self) -> bool {
        self.is_agreed
    }

    /// A segment with data or FIN was sent.
    #[inline]
    pub(super) const fn on_data_sent(&mut self, is_capable_fin: bool) {
        self.ends_capable = is_capable_fin;
    }

    /// Whether segments carry ECE now.
    pub(super) const fn echoes(&self) -> bool {
        self.echoes
    }

    /// RFC 3168 section 6.1.3: a mark on data is echoed until the sender says, with data, that it
    /// has reacted; Linux hears it from a bare ACK, too. Those are never ECN-capable, so a mark on
    /// one is ignored, and so is one on duplicate data (`has_new_data`). Returns whether the
    /// sender's window may be so small that no ACK should wait: it has just been told to react, or
    /// this is probably a retransmission, which is not ECN-capable (Linux `tcp_data_ecn_check`).
    pub(super) fn on_segment(
        &mut self,
        segment: &Segment,
        mark: EcnMark,
        has_new_data: bool,
    ) -> bool {
        if !self.is_agreed {
            return false;
        }
        if segment.flags.contains(TcpFlags::CWR) {
            self.echoes = false;
        }
        if !has_new_data {
            return false;
        }
        let was_capable = self.saw_capable;
        self.saw_capable |= mark != EcnMark::NotEct;
        match mark {
            EcnMark::Ce => !core::mem::replace(&mut self.echoes, true),
            EcnMark::NotEct => was_capable,
            EcnMark::Ect0 | EcnMark::Ect1 => false,
        }
    }
}

impl Connection {
    /// Acknowledges the peer's FIN, the last that it sends. Linux gives TIME-WAIT the ECN field of
    /// the segment before, where the application has closed both directions (`tcp_time_wait`).
    #[cold]
    pub(super) fn send_last_ack(&mut self, now: Instant, shared: &mut Shared) {
        let is_last = self.recovery.last_sent() == self.traffic.last_sent();
        let is_capable = self.ecn.ends_capable && is_last && self.linux().is_some();
        if is_capable && self.socket.is_orphan() {
            self.send_capable_ack(now, shared);
        } else {
            self.send_ack(now, shared);
        }
    }

    /// The peer has reduced its window, perhaps to one segment: what comes with that, a FIN too, is
    /// acknowledged at once (Linux `tcp_ecn_accept_cwr`).
    #[cold]
    pub(super) fn hurry_after_cwr(&mut self, segment: &Segment) {
        if self.ecn.is_agreed() && segment.sequence_bytes() > 0 && self.linux().is_some() {
            self.recv.hurry();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_echoed_until_the_sender_has_reacted() {
        let mut ecn = EcnState::default();
        let segment = |flags| Segment {
            flags,
            ..Segment::default()
        };
        let (ack, cwr) = (segment(TcpFlags::ACK), segment(TcpFlags::CWR));
        assert!(!ecn.on_segment(&ack, EcnMark::Ce, true) && !ecn.echoes());
        ecn.agree(true);
        assert!(!ecn.on_segment(&ack, EcnMark::Ce, false) && !ecn.echoes());
        assert!(ecn.on_segment(&ack, EcnMark::Ce, true) && ecn.echoes());
        // It has been told already.
        assert!(!ecn.on_segment(&ack, EcnMark::Ce, true) && ecn.echoes());
        assert!(!ecn.on_segment(&cwr, EcnMark::Ect0, true) && !ecn.echoes());
        // A retransmission from a sender that is ECN-capable otherwise.
        assert!(ecn.on_segment(&ack, EcnMark::NotEct, true));
    }
}
