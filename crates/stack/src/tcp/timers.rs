//! What happens when a timer of a connection fires.

use base::{Instant, Limit};

use super::{Connection, State, Timer};
use crate::host::{Failure, Shared};
use crate::recovery::{Probe, RecoveryTimer};
use crate::trace::TraceEvent;

impl Connection {
    /// Serves every timer that is due by `now`.
    pub(crate) fn handle_timeout(&mut self, now: Instant, shared: &mut Shared) {
        // Each timer is set again by what it causes, always in the future, so this ends.
        for _ in 0..Timer::ALL.len() {
            let Some(timer) = self.timers.take_expired(now) else {
                return;
            };
            shared.tell(now, Some(self.id), || TraceEvent::Timer(timer.name()));
            match timer {
                Timer::Handshake => self.on_handshake_timeout(now, shared),
                Timer::Recovery => self.on_recovery_timeout(now, shared),
                Timer::Probe => self.on_probe_timeout(now, shared),
                Timer::Ack => self.on_ack_timeout(now, shared),
                Timer::Pacing => self.output(now, shared),
                Timer::Keepalive => self.on_keepalive_timeout(now, shared),
                Timer::User => self.fail(now, shared, Failure::TimedOut),
                Timer::FinWait => self.on_fin_wait_timeout(now, shared),
                Timer::Mtu => self.on_mtu_timeout(now, shared),
            }
        }
    }

    fn on_ack_timeout(&mut self, now: Instant, shared: &mut Shared) {
        let env = self.recv_env();
        self.recv.on_ack_timeout(now, &env);
        self.output(now, shared);
    }

    fn on_recovery_timeout(&mut self, now: Instant, shared: &mut Shared) {
        let Some((due, timer)) = self.recovery.deadline() else {
            return;
        };
        if due > now {
            self.timers.set(Timer::Recovery, Some(due));
            return;
        }
        match timer {
            RecoveryTimer::Reorder => self.recovery.on_reorder_timeout(now),
            RecoveryTimer::LossProbe => self.send_loss_probe(now, shared),
            RecoveryTimer::Retransmit => {
                if self.gives_up(now, shared) {
                    return;
                }
                let is_only_shut = self.is_only_shut(now);
                self.recovery.on_retransmit_timeout(now);
                if is_only_shut {
                    self.recovery.forgive_timeout();
                }
                self.on_mtu_timeouts(now);
            }
        }
        self.output(now, shared);
    }

    /// RFC 9293 section 3.8.3: after so many repetitions, or so long, the peer counts as gone.
    fn gives_up(&mut self, now: Instant, shared: &mut Shared) -> bool {
        let sent = self.traffic.last_data_sent.unwrap_or(now);
        let since = *self.stalled_since.get_or_insert(sent);
        let life = &self.settings.life;
        let is_over = match life.user_timeout {
            Some(timeout) => now.since(since) >= timeout,
            None => self.recovery.timeouts() >= life.retries && !self.is_only_shut(now),
        };
        if !is_over {
            return false;
        }
        let failure = self.soft_error.unwrap_or(Failure::TimedOut);
        self.fail(now, shared, failure);
        true
    }

    /// Whether the peer took its window back and answers nevertheless: what is repeated then are
    /// probes, and the connection lives as long as they are answered (Linux
    /// `tcp_retransmit_timer`).
    fn is_only_shut(&self, now: Instant) -> bool {
        let heard = self.traffic.last_ack_received;
        self.window.bytes == 0
            && !self.is_orphan
            && heard.is_some_and(|at| now.since(at) <= 2 * self.settings.recovery.rto_max)
    }

    /// RFC 8985 section 7.3: one segment of new data, or the last one again.
    fn send_loss_probe(&mut self, now: Instant, shared: &mut Shared) {
        let Probe::NewOr { start, end } = self.recovery.on_probe_timeout(now) else {
            return;
        };
        let next = self.recovery.next();
        if self.send.unsent_bytes() > 0 && self.window.end > next {
            let sent_before = self.traffic.data_segments_out;
            self.send_one_new(now, shared);
            if self.traffic.data_segments_out > sent_before {
                return;
            }
        }
        if self.may_repeat(start) {
            self.retransmit(now, shared, start, end);
        }
    }

    fn on_fin_wait_timeout(&mut self, now: Instant, shared: &mut Shared) {
        if matches!(self.state, State::FinWait2(_)) {
            self.fail(now, shared, Failure::TimedOut);
        }
    }

    /// Notes why nothing more is sent, and counts the time of the wait that ends.
    pub(super) fn hold(&mut self, now: Instant, limit: Limit) {
        self.count_time(now);
        self.held = limit;
    }

    /// Counts the time up to `now` (Linux `tcp_chrono_*`): busy while something is unsent or
    /// unacknowledged.
    fn count_time(&mut self, now: Instant) {
        let time = now.since(self.busy.counted_until);
        self.busy.counted_until = now;
        if self.send.unacked_bytes() == 0 {
            return;
        }
        self.busy.busy += time;
        match self.held {
            Limit::PeerWindow => self.busy.by_peer_window += time,
            Limit::SendBuffer => self.busy.by_send_buffer += time,
            _ => {}
        }
    }
}
