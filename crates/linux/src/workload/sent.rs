//! Counters of one end's sockets as senders: the kernel's counters of each connection, taken when
//! the time that counts begins and ends, and before a connection is closed.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use base::{FlowKey, FlowSample, Instant, Limit};
use lab::SenderOutcome;

use super::measure::Sending;
use crate::sockopt::connection_info;

/// Segments with payload of some connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    data_segments: u64,
    retransmitted: u64,
    /// Sum of the smoothed round-trip times, in microseconds.
    rtt_sum_us: u64,
    rtts: u64,
    /// Time with something to send or unacknowledged, and of this the time stopped by the peer's
    /// window and by the send buffer, in microseconds.
    busy_us: u64,
    peer_window_us: u64,
    send_buffer_us: u64,
}

impl Sent {
    /// Counters of one connection so far; zero where the kernel does not report them.
    pub(super) fn of(stream: &TcpStream) -> Self {
        Self::with_cwnd(stream).0
    }

    /// The same, and its congestion window in bytes.
    pub(super) fn with_cwnd(stream: &TcpStream) -> (Self, Option<u64>) {
        let nowhere = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
        let key = FlowKey {
            local: nowhere,
            remote: nowhere,
        };
        let mut sample = FlowSample::empty(Instant::ZERO, key);
        if connection_info(stream.as_fd(), &mut sample).is_err() {
            return (Self::default(), None);
        }
        let rtt = sample.srtt.map(|rtt| rtt.as_micros());
        let micros = |time: Option<Duration>| {
            time.map_or(0, |time| {
                u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
            })
        };
        let sent = Self {
            data_segments: sample.data_segs_out.unwrap_or(0),
            retransmitted: sample.retrans_total_pkts.unwrap_or(0),
            rtt_sum_us: micros(sample.srtt),
            rtts: u64::from(rtt.is_some()),
            busy_us: micros(sample.busy_time),
            peer_window_us: micros(sample.rwnd_limited_time),
            send_buffer_us: micros(sample.sndbuf_limited_time),
        };
        let segment = sample.snd_mss_bytes.map(u64::from);
        let cwnd = sample.cwnd_pkts.map(u64::from);
        (
            sent,
            cwnd.zip(segment).map(|(packets, bytes)| packets * bytes),
        )
    }

    /// Mean of the smoothed round-trip times of what is not in `closed`.
    pub(super) fn rtt_us_beside(self, closed: Self) -> Option<u64> {
        let sum = self.rtt_sum_us.saturating_sub(closed.rtt_sum_us);
        sum.checked_div(self.rtts.saturating_sub(closed.rtts))
    }

    /// How sending went since `last` on this many connections; `None` where nothing was sent.
    pub(super) fn sending_since(
        self,
        last: Self,
        connections: u64,
        length_ns: u64,
    ) -> Option<Sending> {
        if self.data_segments <= last.data_segments {
            return None;
        }
        let half_us = length_ns.saturating_mul(connections) / 2_000;
        let busy = self.busy_us.saturating_sub(last.busy_us);
        let peer_window = self.peer_window_us.saturating_sub(last.peer_window_us);
        let send_buffer = self.send_buffer_us.saturating_sub(last.send_buffer_us);
        let limit = match () {
            // Connections have closed, or the kernel has no such clocks.
            () if connections == 0 || self.busy_us == 0 => None,
            () if busy <= half_us => Some(Limit::Application),
            () if peer_window > half_us => Some(Limit::PeerWindow),
            () if send_buffer > half_us => Some(Limit::SendBuffer),
            () => Some(Limit::Congestion),
        };
        Some(Sending {
            retransmitted_segments: self.retransmitted.saturating_sub(last.retransmitted),
            rtt_us: None,
            cwnd_bytes: None,
            limit,
        })
    }

    /// Sum of both.
    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            data_segments: self.data_segments + other.data_segments,
            retransmitted: self.retransmitted + other.retransmitted,
            rtt_sum_us: self.rtt_sum_us + other.rtt_sum_us,
            rtts: self.rtts + other.rtts,
            busy_us: self.busy_us + other.busy_us,
            peer_window_us: self.peer_window_us + other.peer_window_us,
            send_buffer_us: self.send_buffer_us + other.send_buffer_us,
        }
    }

    /// The difference from `begin`; `None` where no connection was seen.
    pub(super) fn since(self, begin: Self) -> Option<SenderOutcome> {
        (self.rtts > 0).then(|| SenderOutcome {
            data_segments: self.data_segments.saturating_sub(begin.data_segments),
            retransmitted_segments: self.retransmitted.saturating_sub(begin.retransmitted),
            rtt_mean_us: self.rtt_sum_us.checked_div(self.rtts),
            rtt_p99_us: None,
        })
    }
}
