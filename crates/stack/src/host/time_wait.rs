//! What remains of a connection that both sides have closed (RFC 9293 section 3.3.2, TIME-WAIT).

use core::net::SocketAddr;
use core::time::Duration;

use base::tcp::TcpFlags;
use base::{Instant, SeqNum};

use crate::packet::{Segment, SegmentOptions, Timestamps};

/// A port pair that stays used, so that old segments do not reach a new connection.
#[derive(Debug)]
pub(crate) struct TimeWait {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// Our next number.
    pub(crate) next: SeqNum,
    /// The peer's next number.
    pub(crate) expected: SeqNum,
    /// The window field of our last ACK.
    pub(crate) window: u16,
    /// Offset of our timestamp clock and the value to echo, where timestamps were agreed.
    pub(crate) timestamps: Option<(u32, u32)>,
    pub(crate) may_reuse: bool,
    pub(crate) lasts: Duration,
    pub(crate) due: Instant,
    pub(crate) hop_limit: u8,
}

/// What a segment does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeWaitDisposition {
    /// The peer missed our ACK: it hears it again, and the time starts anew.
    AckAndRestart,
    /// It is answered with an ACK.
    Ack,
    /// Nothing.
    Ignore,
    /// The connection is forgotten at once.
    End,
    /// A new connection may take the port pair over.
    Reuse,
}

impl TimeWait {
    /// RFC 9293 section 3.10.7.4 for TIME-WAIT; the reuse rule of RFC 6191.
    pub(crate) fn judge(&self, segment: &Segment) -> TimeWaitDisposition {
        use TimeWaitDisposition as D;
        let flags = segment.flags;
        let is_old_clock = match (self.timestamps, segment.options.timestamps) {
            (Some((_, recent)), Some(timestamps)) => {
                (timestamps.value.wrapping_sub(recent) as i32) < 0
            }
            _ => false,
        };
        if flags.contains(TcpFlags::RST) {
            // RFC 1337 would ignore it; Linux ends the state unless told otherwise.
            return if segment.seq == self.expected {
                D::End
            } else {
                D::Ignore
            };
        }
        if flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK) {
            let is_newer = segment.seq.after(self.expected) || self.has_newer_clock(segment);
            return if self.may_reuse && is_newer && !is_old_clock {
                D::Reuse
            } else {
                D::Ack
            };
        }
        if flags.contains(TcpFlags::FIN) {
            return D::AckAndRestart;
        }
        if segment.sequence_bytes() > 0 || segment.seq != self.expected {
            D::Ack
        } else {
            D::Ignore
        }
    }

    fn has_newer_clock(&self, segment: &Segment) -> bool {
        match (self.timestamps, segment.options.timestamps) {
            (Some((_, recent)), Some(timestamps)) => {
                timestamps.value.wrapping_sub(recent) as i32 > 0
            }
            _ => false,
        }
    }

    /// The ACK that says where we are.
    pub(crate) fn ack(&self, now: Instant) -> Segment {
        let clock = (now.as_nanos() / 1_000_000) as u32;
        Segment {
            source_port: self.local.port(),
            destination_port: self.remote.port(),
            seq: self.next,
            ack: self.expected,
            flags: TcpFlags::ACK,
            window: self.window,
            options: SegmentOptions {
                timestamps: self.timestamps.map(|(offset, recent)| Timestamps {
                    value: clock.wrapping_add(offset),
                    echo: recent,
                }),
                ..SegmentOptions::default()
            },
            ..Segment::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(may_reuse: bool) -> TimeWait {
        TimeWait {
            local: "10.0.0.1:80".parse().unwrap(),
            remote: "10.0.0.2:4000".parse().unwrap(),
            next: SeqNum::new(100),
            expected: SeqNum::new(5000),
            window: 500,
            timestamps: Some((7, 1000)),
            may_reuse,
            lasts: Duration::from_secs(60),
            due: Instant::ZERO,
            hop_limit: 64,
        }
    }

    #[test]
    fn segments_are_judged() {
        use TimeWaitDisposition as D;
        let check = |flags: TcpFlags, seq: u32, clock: Option<u32>, expected: D| {
            let segment = Segment {
                seq: SeqNum::new(seq),
                flags,
                options: SegmentOptions {
                    timestamps: clock.map(|value| Timestamps { value, echo: 0 }),
                    ..SegmentOptions::default()
                },
                ..Segment::default()
            };
            assert_eq!(waiting(true).judge(&segment), expected, "{flags} {seq}");
        };
        let (syn, ack, fin, rst) = (TcpFlags::SYN, TcpFlags::ACK, TcpFlags::FIN, TcpFlags::RST);
        check(syn, 5001, None, D::Reuse);
        check(syn, 4999, None, D::Ack);
        check(syn, 4999, Some(1001), D::Reuse);
        check(syn, 5001, Some(999), D::Ack);
        check(fin | ack, 4999, Some(1000), D::AckAndRestart);
        check(ack, 5000, Some(1000), D::Ignore);
        check(ack, 4000, Some(1000), D::Ack);
        check(rst, 5000, None, D::End);
        check(rst, 5001, None, D::Ignore);
        let syn = Segment {
            seq: SeqNum::new(6000),
            flags: syn,
            ..Segment::default()
        };
        assert_eq!(waiting(false).judge(&syn), D::Ack);
    }
}
