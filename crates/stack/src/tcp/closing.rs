//! The end of a connection: in order, by failure, or closed by its application.

use alloc::boxed::Box;

use base::tcp::TcpFlags;
use base::{Instant, SeqNum};

use super::{Connection, State, Timer};
use crate::host::{Event, Failure, RateLimit, Shared, TimeWait};
use crate::packet::{IcmpError, IcmpKind, Packet, Segment};
use crate::trace::TraceEvent;

/// Recorded failures.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Failures {
    /// Why it broke.
    broke: Option<Failure>,
    /// An ICMP error, reported if the attempt to connect times out.
    soft: Option<Failure>,
}

impl Failures {
    /// Why it broke; `None` where it did not.
    pub(super) const fn broke(&self) -> Option<Failure> {
        self.broke
    }

    /// The failure to report when the peer has not answered.
    pub(super) fn when_unanswered(&self) -> Failure {
        self.soft.unwrap_or(Failure::TimedOut)
    }

    /// The peer has answered: earlier reports that it is unreachable are obsolete.
    pub(super) const fn on_answer(&mut self) {
        self.soft = None;
    }
}

impl Connection {
    /// Goes to another state, with what belongs to it.
    pub(super) fn enter(&mut self, now: Instant, shared: &mut Shared, state: State) {
        if state == self.state {
            return;
        }
        let before = core::mem::replace(&mut self.state, state);
        let name = state.name();
        shared.tell(now, Some(self.socket.id()), || TraceEvent::State(name));
        match state {
            State::FinWait2(_) => self.arm_fin_wait(now, shared),
            State::Closing(_) => {
                // Linux `tcp_fin`: the ACK of the peer's FIN is not delayed, not even for our own
                // FIN if that was not sent yet.
                self.recv.force_ack();
                if self.linux().is_some() {
                    self.send_ack(now, shared);
                }
            }
            State::TimeWait => {
                // The peer's FIN still has to be acknowledged where it came last; the timer is the
                // host's then.
                if matches!(before, State::FinWait2(_)) {
                    self.recv.force_ack();
                    self.send_last_ack(now, shared);
                }
                self.end(shared);
            }
            State::Closed => self.end(shared),
            _ => {}
        }
    }

    /// Whether the application has closed the connection and only the peer's FIN is missing. Linux
    /// keeps little of such a connection: sequence numbers, window and clock (`tcp_time_wait`,
    /// `tcp_timewait_state_process`).
    pub(super) fn is_orphan_fin_wait2(&self) -> bool {
        self.socket.is_orphan()
            && matches!(self.state, State::FinWait2(_))
            && self.linux().is_some()
    }

    /// Bounds the wait for a peer that never closes, once the application has closed the connection
    /// (Linux `tcp_fin_timeout`).
    fn arm_fin_wait(&mut self, now: Instant, shared: &Shared) {
        if self.socket.is_orphan() {
            let due = shared.tick.expiry(now, self.settings.life.fin_timeout);
            self.timers.set(Timer::FinWait, Some(due));
            if self.linux().is_some() {
                // The little that Linux keeps of it counts its answers anew (`tcp_time_wait`).
                self.challenges = RateLimit::default();
            }
        }
    }

    fn end(&mut self, shared: &mut Shared) {
        self.timers.stop_all();
        self.socket.report(shared, Event::Closed);
    }

    /// Fails the connection: pending data is dropped, and the application is given the reason.
    pub(super) fn fail(&mut self, now: Instant, shared: &mut Shared, failure: Failure) {
        if self.state == State::Closed {
            return;
        }
        if !self.state.is_synchronized() && failure != Failure::Disconnected {
            shared.counters.attempt_fails += 1;
        }
        if failure == Failure::TimedOut {
            shared.counters.timed_out += 1;
        }
        self.state = State::Closed;
        self.failures.broke = Some(failure);
        self.timers.stop_all();
        self.give_back_buffers(shared);
        shared.tell(now, Some(self.socket.id()), || TraceEvent::Failed(failure));
        self.socket.report_failure(shared, failure);
    }

    /// The application sends no more (RFC 9293 section 3.10.4); reading continues.
    pub(crate) fn shutdown(&mut self, now: Instant, shared: &mut Shared) {
        let next = self.state.on_close();
        if next == self.state {
            return;
        }
        match self.state {
            State::SynSent(_) if self.linux().is_some() && !self.socket.is_orphan() => {
                // Linux `tcp_disconnect`.
                self.fail(now, shared, Failure::Disconnected);
                return;
            }
            State::SynSent(_) => {}
            // The FIN waits for the ACK of our SYN.
            State::SynReceived(_) if self.linux().is_some() => {}
            _ => self.send.close(),
        }
        if self.linux().is_some() {
            self.recv.tell_behind_fin();
        }
        self.enter(now, shared, next);
        self.output(now, shared);
    }

    /// The application waits for no more data: reads return what is here, and then the end. Data
    /// that comes is still kept and acknowledged, unless we have closed our side, too (Linux
    /// `inet_shutdown`, `tcp_rcv_state_process`).
    pub(crate) fn shutdown_read(&mut self, now: Instant, shared: &mut Shared) {
        match self.state {
            State::Closed => {}
            // Linux gives such an attempt up, whichever direction is shut.
            State::SynSent(_) => self.shutdown(now, shared),
            _ => {
                self.recv.shut();
                self.socket.report_readable(shared);
            }
        }
    }

    /// The application closes the connection. Data that it has not read makes this a reset (RFC
    /// 9293 section 3.10.4; RFC 2525 section 2.17).
    pub(crate) fn close(&mut self, now: Instant, shared: &mut Shared) {
        if self.recv.unread_bytes() > 0 {
            self.abort(now, shared);
            return;
        }
        self.socket.let_go();
        match self.state {
            State::FinWait2(_) => self.arm_fin_wait(now, shared),
            State::SynReceived(state) if !self.is_half_open() && self.linux().is_some() => {
                self.close_crossed(now, shared, state);
                return;
            }
            _ => {}
        }
        self.shutdown(now, shared);
    }

    /// The application aborts the connection (RFC 9293 section 3.10.5).
    pub(crate) fn abort(&mut self, now: Instant, shared: &mut Shared) {
        // Linux reports out-of-order data even in a reset (`tcp_send_active_reset`).
        let blocks = self.linux().and_then(|_| self.sack_option());
        self.socket.let_go();
        let tells = match self.state {
            // The peer has no connection, or needs nothing more.
            State::SynSent(_) | State::TimeWait | State::Closed => false,
            // Both have closed already. Linux resets if data was not read, or our FIN was not sent
            // (`tcp_close`, `tcp_disconnect`).
            State::Closing(_) | State::LastAck(_) => {
                let misses = self.recovery.progress().fin_end().is_none();
                self.linux().is_some() && (misses || self.recv.unread_bytes() > 0)
            }
            // A listener drops its half-open connections silently (Linux `inet_csk_listen_stop`).
            State::SynReceived(_) => !self.socket.is_passive(),
            State::Established(_)
            | State::FinWait1(_)
            | State::FinWait2(_)
            | State::CloseWait(_) => true,
        };
        if tells {
            // What was not read is dropped first, so that the window is open (Linux `tcp_close`).
            self.recv.drop_unread();
            if shared.pool.is_limited() {
                // If the pool is empty, the reset takes one of these.
                self.give_back_buffers(shared);
            }
            self.send_reset(now, shared, blocks);
        }
        self.fail(now, shared, Failure::Aborted);
    }

    /// An ICMP error about one of our segments. Only a connection that is not yet established
    /// breaks by it (RFC 5927 section 5; RFC 9293 section 3.9.2.2).
    pub(crate) fn handle_icmp(&mut self, now: Instant, shared: &mut Shared, error: IcmpError) {
        shared.counters.icmp_errors += 1;
        let is_open = self.state.is_synchronized();
        let (una, next) = self.sent_range();
        let seq = self.iss.offset(error.seq, next);
        // A half-open connection of a listener ignores it (Linux `tcp_req_err`).
        let is_half_open = self.is_half_open() && self.linux().is_some();
        // Linux believes an error of the next segment, too (`tcp_v4_err`).
        let end = next as i64 + i64::from(!is_half_open && self.linux().is_some());
        if seq < una as i64 || seq >= end {
            shared.counters.icmp_ignored += 1;
            return;
        }
        // Nor does an attempt to connect over IPv6 look at an MTU: the size of segments, which the
        // peer has said nothing of, is small still (Linux `tcp_v6_mtu_reduced`).
        let ignores_mtu = is_half_open
            || matches!(self.state, State::SynSent(_))
                && !self.remote.is_ipv4()
                && self.linux().is_some();
        match error.kind {
            IcmpKind::Refused if is_half_open => {}
            IcmpKind::TooBig { .. } if ignores_mtu => {}
            IcmpKind::TooBig { mtu } => self.on_too_big(now, shared, mtu, seq as u64),
            IcmpKind::Refused if !is_open => self.fail(now, shared, Failure::Refused),
            IcmpKind::Unreachable | IcmpKind::TimeExceeded
                if !is_open && self.settings.life.unreachable_ends_opening =>
            {
                self.fail(now, shared, Failure::Unreachable);
            }
            IcmpKind::Refused | IcmpKind::Unreachable | IcmpKind::TimeExceeded => {
                self.failures.soft = Some(Failure::Unreachable);
                if is_open && error.kind == IcmpKind::Unreachable && seq == una as i64 {
                    self.recovery.on_unreachable(now);
                    self.arm_timers(now, shared);
                    // The reverted timeout may be due already.
                    self.handle_timeout(now, shared);
                }
            }
        }
    }

    /// Whether it is a passive open whose SYN-ACK is not acknowledged yet.
    pub(super) const fn is_half_open(&self) -> bool {
        matches!(self.state, State::SynReceived(_)) && self.socket.is_passive()
    }

    /// The state that remains in TIME-WAIT.
    pub(super) fn time_wait(&self, now: Instant, shared: &Shared) -> TimeWait {
        let scale = self.recv_scale();
        TimeWait {
            local: self.local(),
            remote: self.remote(),
            next: self.iss.number(self.recovery.next()),
            expected: self.irs.number(self.recv.next()),
            window: (self.recv.current_window() >> scale).min(u32::from(u16::MAX)) as u16,
            timestamps: self.agreed.timestamps.then_some(self.clocks.rest()),
            may_reuse: self.settings.life.time_wait_reuse,
            lasts: self.settings.life.time_wait,
            due: shared.tick.expiry(now, self.settings.life.time_wait),
            hop_limit: self.settings.path.hop_limit,
            any_restarts: self.linux().is_some(),
            answers: RateLimit::default(),
            answers_per_second: self.settings.acks.challenge_per_second,
        }
    }

    /// An acceptable reset (RFC 9293 section 3.10.7.4, second step).
    #[inline(never)]
    pub(super) fn on_reset(&mut self, now: Instant, shared: &mut Shared) {
        if self.state.is_synchronized() {
            shared.counters.established_resets += 1;
        }
        self.fail(now, shared, self.failure_by_reset());
    }

    /// The error for the application when a reset, from either side, ends the connection.
    pub(super) fn failure_by_reset(&self) -> Failure {
        match self.state {
            // In Linux only a connection that never heard from the peer is refused (`tcp_reset`).
            State::SynReceived(_) if self.socket.is_passive() || self.linux().is_none() => {
                Failure::Refused
            }
            State::CloseWait(_) if self.linux().is_some() => Failure::BrokenPipe,
            _ => Failure::Reset,
        }
    }
}

impl Shared {
    /// Answers a segment that belongs to no connection (RFC 9293 section 3.5.2).
    pub(crate) fn reset_in_reply(
        &mut self,
        now: Instant,
        local: core::net::SocketAddr,
        remote: core::net::SocketAddr,
        segment: &Segment,
    ) {
        if segment.flags.contains(TcpFlags::RST) || !self.may_answer(now) {
            return;
        }
        let (seq, ack, flags) = if segment.flags.contains(TcpFlags::ACK) {
            (segment.ack, SeqNum::default(), TcpFlags::RST)
        } else {
            let ack = segment.seq + segment.sequence_bytes();
            (SeqNum::default(), ack, TcpFlags::RST | TcpFlags::ACK)
        };
        self.counters.resets_sent += 1;
        let reply = Segment {
            source_port: local.port(),
            destination_port: remote.port(),
            seq,
            ack,
            flags,
            ..Segment::default()
        };
        let reply = Packet::of_segment(local.ip(), remote.ip(), reply);
        self.transmit(now, None, Box::new(reply));
    }
}
