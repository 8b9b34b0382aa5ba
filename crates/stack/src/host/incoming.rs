//! Delivery of segments to sockets, and replies to those without one.

use alloc::boxed::Box;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::tcp::TcpFlags;
use base::{Instant, SeqNum};

use super::listener::SynDisposition;
use super::sockets::Kind;
use super::time_wait::TimeWaitDisposition;
use super::{Host, Listener, Shared, SocketId};
use crate::Arc;
use crate::packet::{EcnMark, Packet, Segment};
use crate::tcp::{Connection, Opening};

/// Least distance of the next initial sequence number from the last one of the old connection (RFC
/// 1122 section 4.2.2.13; Linux `tcp_timewait_state_process`).
const REUSE_DISTANCE: u32 = 65_535 + 2;

impl Host {
    pub(super) fn handle_segment(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        segment: &mut Segment,
        mark: EcnMark,
    ) {
        let Some(index) = self.flow_of_segment(remote, local) else {
            ignore_marks_of_syn(segment, mark);
            self.handle_unknown(now, local, remote, segment, None);
            return;
        };
        self.deliver(now, index, segment, mark);
    }

    /// Passes a segment to the connection that it is for, or to what is left of it. A call of its
    /// own would cost each segment of a train a seventieth of its instructions.
    #[inline(always)]
    pub(super) fn deliver(
        &mut self,
        now: Instant,
        index: u32,
        segment: &mut Segment,
        mark: EcnMark,
    ) {
        match self.sockets.kind_at(index) {
            Kind::Connection(connection) if connection.socket().half_open_of().is_none() => {
                if segment.flags.contains(TcpFlags::SYN) {
                    ignore_marks_of_syn(segment, mark);
                }
                connection.handle_segment(now, &mut self.shared, segment, mark);
                let has_effects = connection.has_effects();
                self.settle_any(now, index, has_effects);
            }
            _ => self.deliver_to_unfinished(now, index, segment, mark),
        }
    }

    /// The same where a listener still counts the connection as half open, or TIME-WAIT is left of
    /// it.
    #[inline(never)]
    fn deliver_to_unfinished(
        &mut self,
        now: Instant,
        index: u32,
        segment: &mut Segment,
        mark: EcnMark,
    ) {
        ignore_marks_of_syn(segment, mark);
        let connection = match self.sockets.kind_at(index) {
            Kind::TimeWait(_) => return self.handle_in_time_wait(now, index, segment),
            Kind::Connection(connection) => connection,
            Kind::Listener(_) | Kind::Free => unreachable!("flows lead to connections"),
        };
        let listener = connection.socket().half_open_of();
        if may_end_handshake(segment) && listener.is_some_and(|it| self.is_overflowing(it)) {
            self.shared.counters.accept_overflows += 1;
        } else if let Some(connection) = self.sockets.connection_at(index) {
            connection.handle_segment(now, &mut self.shared, segment, mark);
            self.settle(now, index);
        }
    }

    /// Whether a listener has no room for another established connection.
    fn is_overflowing(&self, listener: SocketId) -> bool {
        self.sockets
            .look_at_listener(listener)
            .is_some_and(Listener::is_accept_queue_full)
    }

    /// Handles a segment of no connection: for a listener, or for none (RFC 9293 sections 3.10.7.1
    /// and 3.10.7.2).
    fn handle_unknown(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        segment: &Segment,
        first: Option<SeqNum>,
    ) {
        let flags = segment.flags;
        let is_valid = remote.port() != 0
            && local.port() != 0
            && !is_many(remote.ip())
            && !is_many(local.ip())
            && !is_own(remote, local);
        let listener = self.listener_of(local).filter(|_| is_valid);
        match listener {
            Some(_) if flags.contains(TcpFlags::RST) => {}
            // Linux drops a SYN with a FIN, which no TCP sends.
            Some(_) if flags.contains(TcpFlags::SYN | TcpFlags::FIN) => {}
            Some(_) if flags.contains(TcpFlags::SYN | TcpFlags::ACK) => {
                self.shared.reset_in_reply(now, local, remote, segment);
            }
            Some(id) if flags.contains(TcpFlags::ACK) => {
                self.handle_cookie(now, id, local, remote, segment);
            }
            Some(id) if flags.contains(TcpFlags::SYN) => {
                let iss = first.unwrap_or_else(|| self.isn.next(now, local, remote));
                self.handle_syn(now, id, (local, remote, iss), segment);
            }
            Some(_) => {}
            None => {
                self.shared.counters.no_socket += 1;
                if is_valid {
                    self.shared.reset_in_reply(now, local, remote, segment);
                }
            }
        }
    }

    fn listener_of(&self, local: SocketAddr) -> Option<SocketId> {
        let any: IpAddr = match local {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let index = self
            .listeners
            .get(&local)
            .or_else(|| self.listeners.get(&SocketAddr::new(any, local.port())))
            .or_else(|| self.listeners.get(&SocketAddr::new(any, 0)))?;
        Some(self.sockets.id_at(*index))
    }

    fn handle_syn(
        &mut self,
        now: Instant,
        id: SocketId,
        (local, remote, iss): (SocketAddr, SocketAddr, SeqNum),
        syn: &Segment,
    ) {
        // NB12: without a free buffer the host receives nothing.
        if !self.shared.take_one_buffer() {
            return;
        }
        let is_crowded = self.is_crowded();
        let Some(listener) = self.sockets.listener(id) else {
            return;
        };
        match listener.judge_syn(is_crowded) {
            SynDisposition::DropHalfOpen => self.shared.counters.syn_backlog_drops += 1,
            SynDisposition::DropUnaccepted => self.shared.counters.accept_overflows += 1,
            SynDisposition::Cookie => self.send_cookie(now, id, local, remote, syn),
            SynDisposition::Open if !self.has_room() => {
                self.shared.counters.too_many_connections += 1;
            }
            SynDisposition::Open => {
                self.open_half(now, id, (local, remote, iss), syn, Connection::accept_syn);
            }
        }
    }

    /// Begins a connection of a listener, half open: from its SYN, or from a cookie.
    pub(super) fn open_half(
        &mut self,
        now: Instant,
        id: SocketId,
        (local, remote, iss): (SocketAddr, SocketAddr, SeqNum),
        syn: &Segment,
        accept: fn(Instant, &mut Shared, &Opening<'_>, &Segment) -> Box<Connection>,
    ) {
        let Some(listener) = self.sockets.listener(id) else {
            return;
        };
        listener.half_open += 1;
        let settings = Arc::clone(&listener.settings);
        let timestamp_offset = self.isn.timestamp_offset(local.ip(), remote.ip());
        let shared = &mut self.shared;
        let socket = self.sockets.insert(|socket| {
            let opening = Opening {
                id: socket,
                listener: Some(id),
                local,
                remote,
                iss,
                timestamp_offset,
                settings: &settings,
            };
            Kind::Connection(accept(now, shared, &opening, syn))
        });
        self.lead_to(&(remote, local), socket.index);
        self.settle(now, socket.index);
    }

    fn handle_in_time_wait(&mut self, now: Instant, index: u32, segment: &Segment) {
        let Kind::TimeWait(rest) = self.sockets.kind_at(index) else {
            return;
        };
        let (local, remote) = (rest.local, rest.remote);
        let disposition = rest.judge(segment);
        let is_listening = self.listener_of(local).is_some();
        let Kind::TimeWait(rest) = self.sockets.kind_at(index) else {
            return;
        };
        match disposition {
            TimeWaitDisposition::Ignore => {}
            TimeWaitDisposition::End => self.end_time_wait(index),
            TimeWaitDisposition::Ack => self.answer_from_time_wait(now, index, segment),
            // Without a listener the port pair cannot be taken over. Linux does not rate-limit that
            // answer.
            TimeWaitDisposition::Reuse if !is_listening => match rest.any_restarts {
                true => self.acknowledge_from_time_wait(now, index),
                false => self.answer_from_time_wait(now, index, segment),
            },
            TimeWaitDisposition::Restart | TimeWaitDisposition::AckAndRestart => {
                let due = self.shared.tick.expiry(now, rest.lasts);
                rest.due = due;
                self.set_deadline(index, Some(due));
                if disposition == TimeWaitDisposition::AckAndRestart {
                    self.answer_from_time_wait(now, index, segment);
                }
            }
            TimeWaitDisposition::Reuse => {
                let first = rest.next + REUSE_DISTANCE;
                self.end_time_wait(index);
                self.shared.counters.time_wait_reused += 1;
                self.handle_unknown(now, local, remote, segment, Some(first));
            }
        }
    }

    fn answer_from_time_wait(&mut self, now: Instant, index: u32, segment: &Segment) {
        if let Kind::TimeWait(rest) = self.sockets.kind_at(index) {
            if !rest.may_answer(now, segment) {
                self.shared.counters.answers_suppressed += 1;
                return;
            }
            self.acknowledge_from_time_wait(now, index);
        }
    }

    fn acknowledge_from_time_wait(&mut self, now: Instant, index: u32) {
        if let Kind::TimeWait(rest) = self.sockets.kind_at(index) {
            if !self.shared.may_answer(now) {
                return;
            }
            let ack = rest.ack(now);
            let mut packet = Packet::of_segment(rest.local.ip(), rest.remote.ip(), ack);
            packet.hop_limit = rest.hop_limit;
            self.shared.transmit(now, None, Box::new(packet));
        }
    }

    /// Whether another connection may begin.
    pub(super) fn has_room(&self) -> bool {
        self.occupied() < self.shared.system.connections_max as usize
    }

    /// Whether half-open connections have half of the places that the others leave: SYNs from
    /// made-up addresses, which cost nothing, could take all of them on a host with fewer places
    /// than its backlogs have.
    fn is_crowded(&self) -> bool {
        let (occupied, most) = (self.occupied(), self.shared.system.connections_max as usize);
        // With fewer sockets in all there cannot be that many half-open ones.
        if occupied * 2 < most {
            return false;
        }
        let listeners = self.listeners.values();
        let half_open = listeners.filter_map(|&index| {
            let id = self.sockets.id_at(index);
            Some(self.sockets.look_at_listener(id)?.half_open as usize)
        });
        let half_open: usize = half_open.sum();
        half_open * 2 >= most.saturating_sub(occupied - half_open)
    }

    /// Places that connections and listeners have; what waits in TIME-WAIT has its own.
    fn occupied(&self) -> usize {
        self.sockets.len() - self.sockets.time_waits() as usize
    }
}

/// Whether a segment would move a connection out of SYN-RECEIVED.
const fn may_end_handshake(segment: &Segment) -> bool {
    segment.flags.contains(TcpFlags::ACK) && !segment.flags.contains(TcpFlags::RST)
}

/// A SYN is never ECN-capable (RFC 3168 section 6.1.1): a device on the path sets these bits, and
/// the ECN flags of such a SYN offer nothing (Linux `tcp_ecn_create_request`).
#[inline(never)]
fn ignore_marks_of_syn(segment: &mut Segment, mark: EcnMark) {
    let is_syn = segment.flags.without(TcpFlags::ECE | TcpFlags::CWR) == TcpFlags::SYN;
    if is_syn && mark != EcnMark::NotEct {
        segment.flags = TcpFlags::SYN;
    }
}

/// Whether a packet claims to come from this host itself: from the end that it is for, or from a
/// loopback address (Linux drops such packets as martians).
fn is_own(remote: SocketAddr, local: SocketAddr) -> bool {
    remote == local || remote.ip().is_loopback() && !local.ip().is_loopback()
}

/// Multicast and broadcast take no part in TCP (RFC 1122 section 4.2.3.10).
pub(super) fn is_many(address: IpAddr) -> bool {
    address.is_multicast() || address.is_unspecified() || address == IpAddr::V4(Ipv4Addr::BROADCAST)
}
