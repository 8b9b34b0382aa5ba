//! Observable state of a flow and of its host at one instant.
//!
//! A [`FlowSample`] is filled by `sock_diag`, by a capture, or by our own stack. **What a source
//! cannot see is `None`, never 0**; units are in the names, and kernel units (microseconds,
//! segments, bytes per second) are converted where the sample is made. Counters are cumulative
//! since the connection began: only differences over an interval mean anything.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;

use crate::{Instant, KernelName, Limit, Rate};

/// The two ends of a connection, as seen from the host that was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FlowKey {
    /// Address and port on the sampled host.
    pub local: SocketAddr,
    /// Address and port of the other side.
    pub remote: SocketAddr,
}

impl FlowKey {
    /// The same flow seen from the other side.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self {
            local: self.remote,
            remote: self.local,
        }
    }

    /// The first address of the network that the other side is taken to be in: 24 bits of an IPv4
    /// address, 64 of an IPv6 one. Hosts of one network are mostly reached by one path.
    #[must_use]
    pub fn remote_network(self) -> IpAddr {
        match self.remote.ip().to_canonical() {
            IpAddr::V4(host) => Ipv4Addr::from(u32::from(host) & (u32::MAX << 8)).into(),
            IpAddr::V6(host) => Ipv6Addr::from(u128::from(host) & (u128::MAX << 64)).into(),
        }
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.local, self.remote)
    }
}

/// Source of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Source {
    /// The kernel's `sock_diag`.
    #[default]
    SockDiag,
    /// A packet capture.
    Capture,
    /// Our own stack.
    Stack,
}

/// RFC 9293 section 3.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[expect(missing_docs, reason = "the names are those of RFC 9293")]
pub enum TcpState {
    Established,
    SynSent,
    SynReceived,
    FinWait1,
    FinWait2,
    TimeWait,
    Closed,
    CloseWait,
    LastAck,
    Listen,
    Closing,
}

impl TcpState {
    /// Name of the state as in RFC 9293 section 3.3.2, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Established => "established",
            Self::SynSent => "syn-sent",
            Self::SynReceived => "syn-received",
            Self::FinWait1 => "fin-wait-1",
            Self::FinWait2 => "fin-wait-2",
            Self::TimeWait => "time-wait",
            Self::Closed => "closed",
            Self::CloseWait => "close-wait",
            Self::LastAck => "last-ack",
            Self::Listen => "listen",
            Self::Closing => "closing",
        }
    }
}

/// The sender's state of congestion control (Linux `tcp_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum CongestionState {
    /// Nothing suspicious.
    Open,
    /// Duplicate ACKs or SACKs arrived, nothing is marked lost yet.
    Disorder,
    /// The window is being reduced after an ECN mark or a local drop.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

impl CongestionState {
    /// The kernel's name, in small letters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Disorder => "disorder",
            Self::Cwr => "cwr",
            Self::Recovery => "recovery",
            Self::Loss => "loss",
        }
    }
}

/// BBR's model of the path (Linux `struct tcp_bbr_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct BbrState {
    /// Its estimate of the bottleneck's rate.
    #[cfg_attr(feature = "serde", serde(with = "bits_per_second::known"))]
    pub bandwidth: Rate,
    /// Its estimate of the round-trip time without a queue.
    pub min_rtt: Duration,
    /// Pacing rate over bandwidth, in 1/256.
    pub pacing_gain: u32,
    /// Congestion window over the bandwidth-delay product, in 1/256.
    pub cwnd_gain: u32,
}

/// One look at one flow. See the module's head for the rules of units and of `None`.
///
/// The comments give the field of Linux's `struct tcp_info` or of `sock_diag` where the name alone
/// does not.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FlowSample {
    /// When.
    pub at: Instant,
    /// Which flow.
    pub key: FlowKey,
    /// An identity that is never reused while the host is up (the socket's cookie).
    pub cookie: Option<u64>,
    /// Inode of the socket, which leads to its owner.
    pub inode: Option<u64>,
    /// User that owns the socket.
    pub uid: Option<u32>,
    /// Inode number of the socket's cgroup directory.
    pub cgroup_id: Option<u64>,
    /// Source of the sample.
    pub source: Source,
    /// RFC 9293 state.
    pub state: Option<TcpState>,
    /// State of congestion control.
    pub congestion_state: Option<CongestionState>,
    /// Name of the congestion control, such as `cubic`.
    pub congestion: Option<KernelName>,
    /// BBR's state, where BBR is the congestion control.
    pub bbr: Option<BbrState>,

    /// Timestamps were agreed (RFC 7323).
    pub timestamps: Option<bool>,
    /// SACK was agreed (RFC 2018).
    pub sack: Option<bool>,
    /// Window scaling was agreed (RFC 7323).
    pub window_scaling: Option<bool>,
    /// ECN was agreed (RFC 3168).
    pub ecn: Option<bool>,
    /// Upper-layer protocol that the kernel runs on this connection: `mptcp` for a subflow of
    /// Multipath TCP (RFC 8684), `tls` for kernel TLS.
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "Option::is_none")
    )]
    pub upper: Option<KernelName>,
    /// Scale of the windows that the peer offers.
    pub snd_wscale: Option<u8>,
    /// Scale of the windows that we offer: the largest is `65535 << rcv_wscale`.
    pub rcv_wscale: Option<u8>,

    /// Payload of a full segment that we send.
    pub snd_mss_bytes: Option<u32>,
    /// The receiver's guess of the peer's segment size.
    pub rcv_mss_bytes: Option<u32>,
    /// The MSS that we announced.
    pub advmss_bytes: Option<u32>,
    /// Path MTU in use.
    pub pmtu_bytes: Option<u32>,

    /// Sent and not acknowledged. On a listener: length of the accept queue.
    pub unacked_pkts: Option<u32>,
    /// Selectively acknowledged (without SACK: duplicate ACKs). On a listener: the backlog.
    pub sacked_pkts: Option<u32>,
    /// Marked lost.
    pub lost_pkts: Option<u32>,
    /// Retransmitted and still out.
    pub retrans_pkts: Option<u32>,
    /// Consecutive timeouts of the head segment.
    pub timeouts: Option<u8>,
    /// Unanswered zero-window probes.
    pub probes: Option<u8>,
    /// Exponent of the current timeout.
    pub backoff: Option<u8>,
    /// Congestion window in segments.
    pub cwnd_pkts: Option<u32>,
    /// Slow-start threshold in segments; `u32::MAX` where none was set yet.
    pub ssthresh_pkts: Option<u32>,
    /// Current degree of reordering.
    pub reordering_pkts: Option<u32>,

    /// Window that the peer offers now.
    pub snd_wnd_bytes: Option<u32>,
    /// Window that we offered last, whatever has arrived since.
    pub rcv_wnd_bytes: Option<u32>,
    /// The receiver's limit on the growth of its window.
    pub rcv_ssthresh_bytes: Option<u32>,
    /// Bytes that the application took in the last receiver-side round trip.
    pub rcv_space_bytes: Option<u32>,

    /// Written and never sent.
    pub notsent_bytes: Option<u32>,
    /// Written and not acknowledged (`idiag_wqueue`).
    pub send_queue_bytes: Option<u32>,
    /// Received in order and not read (`idiag_rqueue`).
    pub unread_bytes: Option<u32>,

    /// Smoothed round-trip time; delayed ACKs inflate it.
    pub srtt: Option<Duration>,
    /// The newest single measurement of the round-trip time, from a source that shows these: a
    /// capture that is not at the sender.
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "Option::is_none")
    )]
    pub last_rtt: Option<Duration>,
    /// Gaps in what has arrived, from a source that times the packets behind them: a capture.
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "Option::is_none")
    )]
    pub gaps: Option<u64>,
    /// Sum over these gaps of the share of earlier round trips that were shorter than that of the
    /// packet behind the gap, in thousandths.
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "Option::is_none")
    )]
    pub gap_ranks: Option<u64>,
    /// Mean deviation of the round-trip time.
    pub rttvar: Option<Duration>,
    /// Smallest round-trip time of the last minutes.
    pub min_rtt: Option<Duration>,
    /// Round-trip time as the receiver sees it.
    pub rcv_rtt: Option<Duration>,
    /// Retransmission timeout.
    pub rto: Option<Duration>,
    /// Delayed-ACK interval.
    pub ato: Option<Duration>,
    /// Time since data was sent.
    pub since_data_sent: Option<Duration>,
    /// Time since data arrived.
    pub since_data_received: Option<Duration>,
    /// Time since an ACK arrived.
    pub since_ack_received: Option<Duration>,

    /// Counter: payload sent, retransmissions included.
    pub bytes_sent: Option<u64>,
    /// Counter: payload retransmitted.
    pub bytes_retrans: Option<u64>,
    /// Counter: payload acknowledged. Linux counts a FIN as a byte, and at the end that opened the
    /// SYN, too.
    pub bytes_acked: Option<u64>,
    /// Counter: payload received in order; in Linux one more for the FIN.
    pub bytes_received: Option<u64>,
    /// Counter: segments sent.
    pub segs_out: Option<u64>,
    /// Counter: segments received.
    pub segs_in: Option<u64>,
    /// Counter: segments with payload sent.
    pub data_segs_out: Option<u64>,
    /// Counter: segments with payload received.
    pub data_segs_in: Option<u64>,
    /// Counter: segments delivered to the peer.
    pub delivered_pkts: Option<u64>,
    /// Counter: segments delivered with an ECN mark.
    pub delivered_ce_pkts: Option<u64>,
    /// Counter: segments retransmitted.
    pub retrans_total_pkts: Option<u64>,
    /// Counter: retransmissions that were not needed (D-SACK).
    pub dsack_dups: Option<u64>,
    /// Counter: reordering events.
    pub reord_seen: Option<u64>,
    /// Counter: packets received out of order.
    pub out_of_order_pkts: Option<u64>,
    /// Counter: retransmission timeouts.
    pub rto_total: Option<u64>,

    /// Counter: time with something to send or unacknowledged, including the next two.
    pub busy_time: Option<Duration>,
    /// Counter: time stopped by the peer's window.
    pub rwnd_limited_time: Option<Duration>,
    /// Counter: time stopped by the send buffer. False negatives: no rule may use it.
    pub sndbuf_limited_time: Option<Duration>,

    /// Best recent delivery-rate sample.
    #[cfg_attr(feature = "serde", serde(default, with = "bits_per_second"))]
    pub delivery_rate: Option<Rate>,
    /// Whether the application limited that sample.
    pub delivery_app_limited: Option<bool>,
    /// Rate at which packets are paced; `None` where it is unlimited or unknown.
    #[cfg_attr(feature = "serde", serde(default, with = "bits_per_second"))]
    pub pacing_rate: Option<Rate>,
    /// Upper bound on that rate, where the application set one.
    #[cfg_attr(feature = "serde", serde(default, with = "bits_per_second"))]
    pub max_pacing_rate: Option<Rate>,

    /// Memory charged by received packets (`skmeminfo` r).
    pub rmem_bytes: Option<u32>,
    /// Limit of receive memory (rb).
    pub rcvbuf_bytes: Option<u32>,
    /// Memory charged by unsent and unacknowledged packets (w).
    pub wmem_queued_bytes: Option<u32>,
    /// Limit of send memory (tb).
    pub sndbuf_bytes: Option<u32>,
    /// Memory of this flow's packets in qdisc and driver (t).
    pub local_queue_bytes: Option<u32>,
    /// Packets that arrived while the application held the socket (bl).
    pub backlog_bytes: Option<u32>,
    /// Counter: packets dropped at this socket (d).
    pub socket_drops: Option<u64>,

    /// `TCP_NODELAY` as the owner set it.
    pub nodelay: Option<bool>,
    /// State of `TCP_CORK`.
    pub cork: Option<bool>,
    /// `TCP_QUICKACK` as it reads: the next ACK is not held back (no ping-pong mode).
    pub quickack: Option<bool>,
    /// The application fixed the send buffer (`SO_BUF_LOCK` bit 0).
    pub sndbuf_locked: Option<bool>,
    /// The application fixed the receive buffer (`SO_BUF_LOCK` bit 1).
    pub rcvbuf_locked: Option<bool>,
    /// `TCP_NOTSENT_LOWAT`; `None` also where it is unlimited.
    pub notsent_lowat_bytes: Option<u32>,
    /// Counter: CPU time of the process that owns the socket.
    pub owner_cpu_time: Option<Duration>,

    /// Why it is not sending, from a source that knows.
    pub limit: Option<Limit>,

    /// Number of looks that it represents, at least 1: the last of several that found an idle
    /// connection unchanged ([`FlowSample::repeats`]); the others were not kept.
    #[cfg_attr(feature = "serde", serde(default = "one_look"))]
    pub looks: u32,
}

#[cfg(feature = "serde")]
const fn one_look() -> u32 {
    1
}

impl FlowSample {
    /// Whether it equals `earlier` but for the time, on a connection with nothing in progress: no
    /// packet was sent or received, nothing waits, and no setting was changed.
    #[must_use]
    pub fn repeats(&self, earlier: &Self) -> bool {
        let packets = |s: &Self| s.segs_in.zip(s.segs_out);
        let buffers = |s: &Self| {
            (
                s.unread_bytes,
                s.rcvbuf_bytes,
                s.sndbuf_bytes,
                s.backlog_bytes,
            )
        };
        let flags = |s: &Self| (s.nodelay, s.cork, s.sndbuf_locked, s.rcvbuf_locked);
        let settings = |s: &Self| (s.state, s.snd_mss_bytes, s.notsent_lowat_bytes);
        self.unacked_pkts == Some(0)
            && self.notsent_bytes == Some(0)
            && earlier.notsent_bytes == Some(0)
            && packets(self).is_some()
            && packets(self) == packets(earlier)
            && buffers(self) == buffers(earlier)
            && flags(self) == flags(earlier)
            && settings(self) == settings(earlier)
            && (self.cookie, self.key) == (earlier.cookie, earlier.key)
            && self.congestion == earlier.congestion
    }

    /// A sample in which nothing is known but time and flow: the start for every source and test.
    #[must_use]
    // tidy: long because each of the fields is named once
    pub const fn empty(at: Instant, key: FlowKey) -> Self {
        Self {
            at,
            key,
            cookie: None,
            inode: None,
            uid: None,
            cgroup_id: None,
            source: Source::SockDiag,
            state: None,
            congestion_state: None,
            congestion: None,
            bbr: None,
            timestamps: None,
            sack: None,
            window_scaling: None,
            ecn: None,
            upper: None,
            snd_wscale: None,
            rcv_wscale: None,
            snd_mss_bytes: None,
            rcv_mss_bytes: None,
            advmss_bytes: None,
            pmtu_bytes: None,
            unacked_pkts: None,
            sacked_pkts: None,
            lost_pkts: None,
            retrans_pkts: None,
            timeouts: None,
            probes: None,
            backoff: None,
            cwnd_pkts: None,
            ssthresh_pkts: None,
            reordering_pkts: None,
            snd_wnd_bytes: None,
            rcv_wnd_bytes: None,
            rcv_ssthresh_bytes: None,
            rcv_space_bytes: None,
            notsent_bytes: None,
            send_queue_bytes: None,
            unread_bytes: None,
            srtt: None,
            last_rtt: None,
            gaps: None,
            gap_ranks: None,
            rttvar: None,
            min_rtt: None,
            rcv_rtt: None,
            rto: None,
            ato: None,
            since_data_sent: None,
            since_data_received: None,
            since_ack_received: None,
            bytes_sent: None,
            bytes_retrans: None,
            bytes_acked: None,
            bytes_received: None,
            segs_out: None,
            segs_in: None,
            data_segs_out: None,
            data_segs_in: None,
            delivered_pkts: None,
            delivered_ce_pkts: None,
            retrans_total_pkts: None,
            dsack_dups: None,
            reord_seen: None,
            out_of_order_pkts: None,
            rto_total: None,
            busy_time: None,
            rwnd_limited_time: None,
            sndbuf_limited_time: None,
            delivery_rate: None,
            delivery_app_limited: None,
            pacing_rate: None,
            max_pacing_rate: None,
            rmem_bytes: None,
            rcvbuf_bytes: None,
            wmem_queued_bytes: None,
            sndbuf_bytes: None,
            local_queue_bytes: None,
            backlog_bytes: None,
            socket_drops: None,
            nodelay: None,
            cork: None,
            quickack: None,
            sndbuf_locked: None,
            rcvbuf_locked: None,
            notsent_lowat_bytes: None,
            owner_cpu_time: None,
            limit: None,
            looks: 1,
        }
    }

    /// Packets in flight: sent, neither acknowledged nor known to be lost, plus retransmissions.
    #[must_use]
    pub fn packets_out(&self) -> Option<u32> {
        let gone = self
            .sacked_pkts
            .unwrap_or(0)
            .saturating_add(self.lost_pkts.unwrap_or(0));
        Some(
            self.unacked_pkts?
                .saturating_sub(gone)
                .saturating_add(self.retrans_pkts.unwrap_or(0)),
        )
    }

    /// Bytes in flight by the counters, exact also for small segments up to the SYN's one byte; no
    /// more than full segments would be. Linux counts a packet as sent that its own queue then
    /// drops, and again when it is sent after that (`__tcp_transmit_skb`): the counters alone would
    /// say for ever that it is in flight.
    #[must_use]
    pub fn bytes_out(&self) -> Option<u64> {
        let counted = self
            .bytes_sent?
            .saturating_sub(self.bytes_retrans.unwrap_or(0))
            .saturating_sub(self.bytes_acked?);
        let full = self.unacked_pkts.zip(self.snd_mss_bytes);
        let most = full.map_or(u64::MAX, |(packets, bytes)| {
            u64::from(packets) * u64::from(bytes)
        });
        Some(counted.min(most))
    }
}

/// A measured rate is a number in files, since it may be 0: as text, 0 is not a valid rate of a
/// link.
#[cfg(feature = "serde")]
mod bits_per_second {
    use super::Rate;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        rate: &Option<Rate>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        rate.map(Rate::bits_per_second).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Rate>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Rate::from_bits_per_second))
    }

    pub(super) mod known {
        use super::{Deserialize, Deserializer, Rate, Serialize, Serializer};

        pub(in super::super) fn serialize<S: Serializer>(
            rate: &Rate,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            rate.bits_per_second().serialize(serializer)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Rate, D::Error> {
            u64::deserialize(deserializer).map(Rate::from_bits_per_second)
        }
    }
}

/// Named counters of a namespace (`/proc/net/snmp`, `/proc/net/netstat`), such as `TcpRetransSegs`
/// and `TcpExtDelayedACKs`: the group's name and the counter's, as `nstat` prints them.
pub type CounterSet = BTreeMap<String, u64>;

/// One look at what the flows of a network namespace share.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HostSample {
    /// When.
    pub at: Instant,
    /// Counters of the namespace.
    pub counters: CounterSet,
    /// Its interfaces.
    pub links: Vec<LinkSample>,
    /// Its listening sockets.
    pub listeners: Vec<ListenerSample>,
    /// The destination that takes most local ports; `None` where that was not counted.
    pub ports: Option<PortUse>,
    /// Sysctls by name, such as `net.ipv4.tcp_rmem`, as text with single spaces.
    pub sysctls: BTreeMap<String, String>,
}

/// How many local ports connections to one destination take, those in TIME-WAIT included: a port
/// serves each destination once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PortUse {
    /// Address and port of the destination.
    pub remote: SocketAddr,
    /// Ports taken, of those that the kernel chooses from (`ip_local_port_range`).
    pub taken: u32,
    /// Ports of that range.
    pub range: u32,
}

/// One look at a listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ListenerSample {
    /// Address and port.
    pub local: SocketAddr,
    /// An identity that is never reused while the host is up.
    pub cookie: u64,
    /// Connections that wait to be accepted.
    pub queue_pkts: u32,
    /// How many may wait; a full queue holds one more (Linux `sk_acceptq_is_full`).
    pub backlog_pkts: u32,
}

/// One look at an interface.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LinkSample {
    /// Index in its namespace.
    pub index: u32,
    /// Name, such as `eth0`.
    pub name: String,
    /// Largest packet.
    pub mtu_bytes: u32,
    /// Length of the transmit queue in packets.
    pub txqueuelen_pkts: u32,
    /// Counter: packets sent.
    pub tx_pkts: u64,
    /// Counter: bytes sent.
    pub tx_bytes: u64,
    /// Counter: packets dropped on the way out.
    pub tx_dropped_pkts: u64,
    /// Counter: packets received.
    pub rx_pkts: u64,
    /// Counter: bytes received.
    pub rx_bytes: u64,
    /// Counter: packets dropped on the way in.
    pub rx_dropped_pkts: u64,
    /// Counter: packets for which the card had no room (`rx_missed_errors`, or the larger of
    /// `rx_over_errors` and `rx_fifo_errors`: drivers differ); `None` where it was not read.
    #[cfg_attr(feature = "serde", serde(default))]
    pub rx_missed_pkts: Option<u64>,
    /// Whether TCP segmentation offload is on, as read at the first look; `None` later, and where
    /// the interface has no such setting.
    #[cfg_attr(feature = "serde", serde(default))]
    pub tso: Option<bool>,
    /// Its queueing disciplines.
    pub qdiscs: Vec<QdiscSample>,
}

/// One look at a queueing discipline.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct QdiscSample {
    /// Kind, such as `pfifo_fast`.
    pub kind: String,
    /// Handle (`major << 16 | minor`).
    pub handle: u32,
    /// Parent (`u32::MAX` is the root).
    pub parent: u32,
    /// Its limit, in the unit of its kind (packets for `pfifo`, bytes for `bfifo` and `tbf`).
    pub limit: Option<u64>,
    /// Counter: packets dropped.
    pub dropped_pkts: u64,
    /// Counter: packets that had to wait.
    pub overlimits: u64,
    /// Packets in it now.
    pub backlog_pkts: u64,
    /// Bytes in it now.
    pub backlog_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_own_queue_dropped_is_not_in_flight() {
        let key = FlowKey {
            local: ([10, 0, 0, 2], 80).into(),
            remote: ([10, 0, 0, 1], 40_000).into(),
        };
        // One of Linux behind a token bucket, which had dropped 2.1 MB.
        let sample = FlowSample {
            bytes_sent: Some(15_098_296),
            bytes_acked: Some(9_946_312),
            bytes_retrans: Some(3_011_840),
            unacked_pkts: Some(17),
            snd_mss_bytes: Some(1448),
            ..FlowSample::empty(Instant::ZERO, key)
        };
        assert_eq!(sample.bytes_out(), Some(17 * 1448));
        let small = FlowSample {
            bytes_sent: Some(300),
            bytes_acked: Some(100),
            bytes_retrans: None,
            ..sample
        };
        assert_eq!(small.bytes_out(), Some(200));
    }
}
