//! Reports of a connection: whose it is, the flow record, and why it waits.

use core::net::SocketAddr;

use base::settings::{Nagle, SocketSettings};
use base::{CongestionState, FlowKey, FlowSample, Instant, Limit, Rate, Source};

use super::{Connection, End, State, Timer};
use crate::cc::SSTHRESH_INFINITE;
use crate::host::{Failure, Socket, Wait, Writer};
use crate::progress::FIRST_BYTE;

/// Bytes that have arrived at either end of a connection: a few counters of its [`FlowSample`],
/// cheap to read often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// As [`FlowSample::bytes_received`].
    pub bytes_received: u64,
    /// As [`FlowSample::data_segs_in`].
    pub data_segs_in: u64,
    /// As [`FlowSample::bytes_acked`].
    pub bytes_acked: u64,
    /// As [`FlowSample::delivered_pkts`].
    pub delivered_pkts: u64,
    /// As [`FlowSample::snd_mss_bytes`].
    pub snd_mss_bytes: u32,
}

impl Connection {
    /// Our end.
    pub(crate) const fn local(&self) -> SocketAddr {
        self.local.address()
    }

    /// The other end.
    pub(crate) const fn remote(&self) -> SocketAddr {
        self.remote.address()
    }

    /// Whether those are its ends.
    pub(crate) fn is_between(&self, remote: &SocketAddr, local: &SocketAddr) -> bool {
        self.remote == End::from(*remote) && self.local == End::from(*local)
    }

    pub(crate) fn settings(&self) -> &SocketSettings {
        &self.settings
    }

    /// Why it broke; `None` where it did not.
    pub(crate) const fn failure(&self) -> Option<Failure> {
        self.failures.broke()
    }

    /// Its state outside of TCP.
    pub(crate) const fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether both ends have sent and acknowledged a SYN, and it has not ended.
    pub(crate) const fn is_synchronized(&self) -> bool {
        self.state.is_synchronized()
    }

    /// Whether it is established and waits to be accepted.
    pub(crate) const fn is_acceptable(&self) -> bool {
        self.socket.is_unaccepted() && self.state.is_synchronized()
    }

    /// Bytes received in order and not read.
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.recv.unread_bytes()
    }

    /// Bytes written and not acknowledged, sent or not.
    pub(crate) fn outstanding_bytes(&self) -> u64 {
        self.send.outstanding_bytes(self.recovery.progress())
    }

    /// Bytes written and not sent.
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.send.unsent_bytes(self.recovery.progress())
    }

    /// Whether a FIN was asked for and has not left yet.
    pub(super) fn owes_fin(&self) -> bool {
        self.send.has_fin() && !self.recovery.progress().is_fin_sent()
    }

    /// Writes that were taken and are not complete.
    pub(crate) fn incomplete_sends(&self) -> usize {
        self.send.incomplete_sends()
    }

    /// Sizes of the buffers for sending and for receiving.
    pub(crate) fn buffer_bytes(&self) -> (u32, u32) {
        (
            self.send.memory(self.recovery.progress()).sndbuf_bytes,
            self.recv.memory().rcvbuf_bytes,
        )
    }

    pub(crate) fn arrived(&self) -> Arrived {
        Arrived {
            bytes_received: self.recv.received_bytes(),
            data_segs_in: self.traffic.data_segments_in(),
            bytes_acked: self.recovery.progress().acked_bytes(),
            delivered_pkts: self.recovery.delivered(),
            snd_mss_bytes: self.fitted_mss(),
        }
    }

    /// Why it does not send more at this moment, and until when at the latest.
    pub(crate) fn wait(&self) -> Wait {
        if !self.state.is_synchronized() {
            return Wait {
                limit: Limit::Handshake,
                until: self.timers.due(Timer::Handshake),
            };
        }
        let limit = match self.held.limit() {
            Limit::Congestion if self.is_recovering() => Limit::Recovery,
            Limit::Application if self.recovery.lost() > 0 => Limit::Recovery,
            held @ (Limit::Application | Limit::SendBuffer) => match self.socket.writer() {
                Writer::AwaitsPool => Limit::BufferPool,
                Writer::AwaitsRoom => Limit::SendBuffer,
                Writer::Free => held,
            },
            limit => limit,
        };
        let timer = match limit {
            Limit::Pacing => Timer::Pacing,
            Limit::PeerWindow | Limit::Cork | Limit::Nagle => Timer::Probe,
            _ => Timer::Recovery,
        };
        Wait {
            limit,
            until: self
                .timers
                .due(timer)
                .or_else(|| self.timers.due(Timer::Recovery)),
        }
    }

    /// Timeouts in a row, those of the handshake among them.
    fn timeouts(&self) -> u32 {
        match self.state {
            State::SynSent(state) => state.retransmits,
            State::SynReceived(state) => state.retransmits,
            _ => self.recovery.timeouts(),
        }
    }

    /// Whether loss recovery decides what is sent.
    pub(super) fn is_recovering(&self) -> bool {
        matches!(
            self.recovery.state(),
            CongestionState::Recovery | CongestionState::Loss
        )
    }

    /// The whole flow record.
    // tidy: long because each of the fields is named once
    pub(crate) fn sample(&self, now: Instant) -> FlowSample {
        let recovery = &self.recovery;
        let (rtt, window, stats) = (recovery.rtt(), recovery.window(), recovery.stats());
        let (send, recv, recv_stats) = (
            self.send.memory(self.recovery.progress()),
            self.recv.memory(),
            self.recv.stats(),
        );
        let key = FlowKey {
            local: self.local(),
            remote: self.remote(),
        };
        let waited = self.held.waited(now);
        let handshake_retransmits = self.traffic.handshake_retransmits();
        let (delivery_rate, delivery_app_limited) = recovery.delivery_rate().unzip();
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let numbers = self.numbers_beside_data();
        let mut sample = FlowSample {
            source: Source::Stack,
            state: Some(self.state.name()),
            congestion_state: Some(recovery.state()),
            congestion: Some(recovery.congestion_name().into()),
            bbr: recovery.cc().bbr(),
            timestamps: Some(self.agreed.timestamps),
            sack: Some(self.agreed.sack),
            window_scaling: Some(self.agreed.window_scaling),
            ecn: Some(self.ecn.is_agreed()),
            snd_wscale: Some(self.window.scale()),
            rcv_wscale: Some(self.recv_scale()),
            snd_mss_bytes: Some(self.fitted_mss()),
            rcv_mss_bytes: Some(recv.rcv_mss),
            advmss_bytes: Some(self.agreed.advmss),
            pmtu_bytes: Some(u32::from(self.size.path_mtu())),
            unacked_pkts: Some(recovery.packets_out()),
            sacked_pkts: Some(recovery.sacked()),
            lost_pkts: Some(recovery.lost()),
            retrans_pkts: Some(recovery.retransmitted()),
            timeouts: Some(self.timeouts().min(255) as u8),
            // Linux counts probes of both kinds in one field, and their backoff with that of the
            // timeout.
            probes: Some(self.probes.unanswered().min(255) as u8),
            backoff: Some(self.probe_backoff().max(recovery.backoff()).min(255) as u8),
            cwnd_pkts: Some(window.cwnd),
            ssthresh_pkts: Some(if window.ssthresh == SSTHRESH_INFINITE {
                u32::MAX
            } else {
                window.ssthresh
            }),
            reordering_pkts: Some(recovery.reordering()),
            snd_wnd_bytes: Some(self.window.bytes()),
            rcv_wnd_bytes: Some(self.recv.offered_window()),
            rcv_ssthresh_bytes: Some(recv.rcv_ssthresh),
            rcv_space_bytes: Some(recv.space),
            notsent_bytes: Some(small(self.unsent_bytes() + numbers.unsent)),
            send_queue_bytes: Some(small(self.outstanding_bytes() + numbers.outstanding)),
            unread_bytes: Some(small(self.recv.unread_bytes())),
            srtt: rtt.srtt(),
            rttvar: rtt.srtt().map(|_| rtt.variation()),
            min_rtt: rtt.min_rtt(),
            rcv_rtt: recv.rtt,
            rto: Some(rtt.rto()),
            ato: Some(recv.ato),
            bytes_acked: Some(recovery.progress().acked_bytes() + numbers.acked),
            bytes_received: Some(self.recv.received_bytes() + numbers.received),
            bytes_retrans: Some(stats.retransmitted_bytes),
            delivered_pkts: Some(recovery.delivered()),
            delivered_ce_pkts: Some(recovery.delivered_ce()),
            retrans_total_pkts: Some(
                stats.retransmitted_packets + handshake_retransmits + self.traffic.duplicate_syns(),
            ),
            dsack_dups: Some(stats.dsacks),
            reord_seen: Some(stats.reordering_seen),
            out_of_order_pkts: Some(recv_stats.queue.out_of_order),
            rto_total: Some(stats.timeouts + self.traffic.handshake_timeouts()),
            busy_time: Some(waited.busy),
            rwnd_limited_time: Some(waited.by_peer_window),
            sndbuf_limited_time: Some(waited.by_send_buffer),
            delivery_rate,
            delivery_app_limited,
            pacing_rate: Some(recovery.pacing_rate()).filter(|rate| *rate != Rate::default()),
            max_pacing_rate: self.settings.congestion.pacing_rate_max,
            rmem_bytes: Some(recv.rmem_bytes),
            rcvbuf_bytes: Some(recv.rcvbuf_bytes),
            wmem_queued_bytes: Some(send.wmem_queued_bytes),
            sndbuf_bytes: Some(send.sndbuf_bytes),
            local_queue_bytes: Some(self.local_queue.bytes()),
            backlog_bytes: Some(0),
            socket_drops: Some(recv_stats.queue.drops),
            nodelay: Some(self.settings.small_writes.nagle == Nagle::Off),
            cork: Some(self.settings.small_writes.cork),
            sndbuf_locked: Some(send.locked),
            rcvbuf_locked: Some(recv.locked),
            notsent_lowat_bytes: self.settings.send.notsent_lowat,
            limit: Some(self.wait().limit),
            ..FlowSample::empty(now, key)
        };
        self.traffic.tell(now, &mut sample);
        sample.since_data_sent = self.recovery.last_sent().map(|at| now.since(at));
        match self.state {
            State::SynSent(state) => {
                tell_of_syn(&mut sample, state.retransmits);
                sample.snd_mss_bytes = Some(self.mss_before_options());
            }
            State::SynReceived(state) if !self.socket.is_passive() => {
                tell_of_syn(&mut sample, state.retransmits);
            }
            State::Closed if self.failures.broke().is_some() => tell_of_nothing(&mut sample),
            _ => {}
        }
        sample
    }

    /// SYN and FIN, which Linux counts as bytes.
    fn numbers_beside_data(&self) -> NumbersBesideData {
        if self.linux().is_none() {
            return NumbersBesideData::default();
        }
        let progress = self.recovery.progress();
        let has_fin = self.send.has_fin();
        let is_fin_acked = progress.fin_end().is_some_and(|end| progress.una() >= end);
        let is_syn_acked = !self.socket.is_passive() && self.state.is_synchronized();
        NumbersBesideData {
            unsent: u64::from(has_fin && !progress.is_fin_sent()),
            outstanding: u64::from(has_fin && !is_fin_acked),
            acked: u64::from(is_fin_acked) + u64::from(is_syn_acked),
            received: self.recv.next() - FIRST_BYTE - self.recv.received_bytes(),
        }
    }
}

/// Sequence numbers that Linux counts as bytes: of FINs, and of a SYN.
#[derive(Default)]
struct NumbersBesideData {
    unsent: u64,
    outstanding: u64,
    acked: u64,
    received: u64,
}

/// A SYN is a packet in flight, and one that is retransmitted was lost (Linux `tcp_connect`).
fn tell_of_syn(sample: &mut FlowSample, retransmits: u32) {
    sample.unacked_pkts = Some(1);
    if retransmits > 0 {
        sample.congestion_state = Some(CongestionState::Loss);
        sample.retrans_pkts = Some(1);
        sample.lost_pkts = Some(1);
        sample.cwnd_pkts = Some(1);
    }
}

/// Clears the flight of a connection that failed (Linux `tcp_write_queue_purge`).
fn tell_of_nothing(sample: &mut FlowSample) {
    sample.unacked_pkts = Some(0);
    sample.sacked_pkts = Some(0);
    sample.lost_pkts = Some(0);
    sample.retrans_pkts = Some(0);
}
