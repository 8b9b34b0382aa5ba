//! What the sockets of one end sent: the kernel's counters of each connection, taken when the time
//! that counts begins and ends, and before a connection is closed.

use std::net::TcpStream;
use std::os::fd::AsFd;

use base::{FlowKey, FlowSample, Instant};
use lab::SenderOutcome;

use crate::sockopt::connection_info;

/// Segments with payload of some connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    data_segments: u64,
    retransmitted: u64,
    /// Of the smoothed round-trip times, in microseconds.
    rtt_sum_us: u64,
    rtts: u64,
}

impl Sent {
    /// Of one connection so far; nothing where the kernel does not say.
    pub(super) fn of(stream: &TcpStream) -> Self {
        let nowhere = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
        let key = FlowKey {
            local: nowhere,
            remote: nowhere,
        };
        let mut sample = FlowSample::empty(Instant::ZERO, key);
        if connection_info(stream.as_fd(), &mut sample).is_err() {
            return Self::default();
        }
        let rtt = sample.srtt.map(|rtt| rtt.as_micros());
        Self {
            data_segments: sample.data_segs_out.unwrap_or(0),
            retransmitted: sample.retrans_total_pkts.unwrap_or(0),
            rtt_sum_us: rtt.and_then(|rtt| u64::try_from(rtt).ok()).unwrap_or(0),
            rtts: u64::from(rtt.is_some()),
        }
    }

    /// Of both.
    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            data_segments: self.data_segments + other.data_segments,
            retransmitted: self.retransmitted + other.retransmitted,
            rtt_sum_us: self.rtt_sum_us + other.rtt_sum_us,
            rtts: self.rtts + other.rtts,
        }
    }

    /// What was sent since `begin`; `None` where no connection was seen.
    pub(super) fn since(self, begin: Self) -> Option<SenderOutcome> {
        (self.rtts > 0).then(|| SenderOutcome {
            data_segments: self.data_segments.saturating_sub(begin.data_segments),
            retransmitted_segments: self.retransmitted.saturating_sub(begin.retransmitted),
            rtt_mean_us: self.rtt_sum_us.checked_div(self.rtts),
            rtt_p99_us: None,
        })
    }
}
