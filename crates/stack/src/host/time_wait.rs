//! TIME-WAIT: what is kept of a connection that both sides have closed (RFC 9293 section 3.3.2).

use core::net::SocketAddr;
use core::time::Duration;

use base::tcp::TcpFlags;
use base::{Instant, SeqNum};

use super::shared::RateLimit;
use crate::packet::{Segment, SegmentOptions, Timestamps};

/// A port pair that stays in use, so that old segments do not reach a new connection.
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
    /// Linux waits anew after any segment of the peer, others after a FIN only.
    pub(crate) any_restarts: bool,
    /// Rate limit of answers to segments without data.
    pub(crate) answers: RateLimit,
    pub(crate) answers_per_second: u32,
}

/// Treatment of a segment in TIME-WAIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeWaitDisposition {
    /// The peer missed our ACK: repeat it, and restart the timer.
    AckAndRestart,
    /// Restart the timer without an answer.
    Restart,
    /// Answer with an ACK.
    Ack,
    /// Nothing.
    Ignore,
    /// End the state at once.
    End,
    /// A new connection may reuse the port pair.
    Reuse,
}

impl TimeWait {
    /// RFC 9293 section 3.10.7.4 for TIME-WAIT; the reuse rule of RFC 6191; Linux
    /// `tcp_timewait_state_process`.
    pub(crate) fn judge(&mut self, segment: &Segment) -> TimeWaitDisposition {
        use TimeWaitDisposition as D;
        let flags = segment.flags;
        let is_reset = flags.contains(TcpFlags::RST);
        let ahead = self.clock_ahead(segment);
        let is_old_clock = ahead < 0;
        let is_bare = segment.sequence_bytes() == 0;
        if !is_old_clock && segment.seq == self.expected && (is_bare || is_reset) {
            // RFC 1337 would ignore a reset; Linux ends the state unless told otherwise.
            if is_reset {
                return D::End;
            }
            self.note_clock(segment);
            return if self.any_restarts {
                D::Restart
            } else {
                D::Ignore
            };
        }
        if is_reset {
            return D::Ignore;
        }
        if flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK) {
            let is_newer = segment.seq.after(self.expected) || ahead > 0;
            if self.may_reuse && is_newer && !is_old_clock {
                return D::Reuse;
            }
            // It may belong to a new connection whose number happens to be old.
            if !is_old_clock {
                return D::Ack;
            }
        }
        if flags.contains(TcpFlags::FIN) || self.any_restarts {
            D::AckAndRestart
        } else {
            D::Ack
        }
    }

    /// Whether a segment may be answered now. Segments without data are answered at a limited rate,
    /// against ACK loops (Linux `tcp_oow_rate_limited`).
    pub(crate) fn may_answer(&mut self, now: Instant, segment: &Segment) -> bool {
        let carries = segment.sequence_bytes() > 0 && !segment.flags.contains(TcpFlags::SYN);
        carries || self.answers.take(now, self.answers_per_second, 1)
    }

    /// How far the timestamp of a segment is ahead of the last one; 0 if unknown.
    fn clock_ahead(&self, segment: &Segment) -> i32 {
        match (self.timestamps, segment.options.timestamps) {
            (Some((_, recent)), Some(timestamps)) if recent != 0 => {
                timestamps.value.wrapping_sub(recent) as i32
            }
            _ => 0,
        }
    }

    fn note_clock(&mut self, segment: &Segment) {
        if let (Some((_, recent)), Some(timestamps)) =
            (&mut self.timestamps, segment.options.timestamps)
        {
            *recent = timestamps.value;
        }
    }

    /// The ACK with our present numbers.
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
            any_restarts: true,
            answers: RateLimit::default(),
            answers_per_second: 2,
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
        check(syn, 5001, Some(999), D::AckAndRestart);
        check(fin | ack, 4999, Some(1000), D::AckAndRestart);
        check(ack, 5000, Some(1000), D::Restart);
        check(ack, 5000, Some(999), D::AckAndRestart);
        check(ack, 4000, Some(1000), D::AckAndRestart);
        check(syn | ack, 5001, None, D::AckAndRestart);
        check(rst, 5000, Some(999), D::Ignore);
        check(rst, 5000, None, D::End);
        check(rst, 5001, None, D::Ignore);
        let syn = Segment {
            seq: SeqNum::new(6000),
            flags: syn,
            ..Segment::default()
        };
        assert_eq!(waiting(false).judge(&syn), D::Ack);
    }

    #[test]
    fn a_fin_alone_restarts_the_time_of_others() {
        let mut waiting = TimeWait {
            any_restarts: false,
            ..waiting(true)
        };
        let mut judge = |seq: u32, flags: TcpFlags| {
            waiting.judge(&Segment {
                seq: SeqNum::new(seq),
                flags,
                ..Segment::default()
            })
        };
        let (ack, fin) = (TcpFlags::ACK, TcpFlags::FIN | TcpFlags::ACK);
        assert_eq!(judge(5000, ack), TimeWaitDisposition::Ignore);
        assert_eq!(judge(4000, ack), TimeWaitDisposition::Ack);
        assert_eq!(judge(4999, fin), TimeWaitDisposition::AckAndRestart);
    }
}
