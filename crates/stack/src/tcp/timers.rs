//! Expiry of a connection's timers.

use core::time::Duration;

use base::{Instant, Limit};

use super::held::Pending;
use super::{Connection, State, Timer};
use crate::host::{Failure, Shared, Writer};
use crate::recovery::{Probe, RecoveryTimer, SendRound};
use crate::send::NewProbe;
use crate::trace::TraceEvent;

/// Retransmissions of an orphaned connection (Linux: 8 where `net.ipv4.tcp_orphan_retries` is 0).
const ORPHAN_RETRIES: u32 = 8;

/// Since when repeated timeouts or zero-window probes have brought no progress.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stall {
    since: Option<Instant>,
}

impl Stall {
    /// How long there was no progress; starts now if it had not started.
    pub(super) fn lasts(&mut self, now: Instant) -> Duration {
        now.since(*self.since.get_or_insert(now))
    }

    /// Whether there is no progress.
    pub(super) const fn is_begun(&self) -> bool {
        self.since.is_some()
    }

    /// Starts at `since`.
    pub(super) const fn begin(&mut self, since: Instant) {
        self.since = Some(since);
    }

    /// There was progress.
    pub(super) const fn end(&mut self) {
        self.since = None;
    }
}

impl Connection {
    /// Serves every timer that is due by `now`.
    pub(crate) fn handle_timeout(&mut self, now: Instant, shared: &mut Shared) {
        // Each timer is set again by what it causes, always in the future, so this ends.
        for _ in 0..Timer::ALL.len() {
            let Some(timer) = self.timers.take_expired(now) else {
                return;
            };
            shared.tell(now, Some(self.socket.id()), || {
                TraceEvent::Timer(timer.name())
            });
            match timer {
                Timer::Handshake => self.on_handshake_timeout(now, shared),
                Timer::Recovery => self.on_recovery_timeout(now, shared),
                Timer::Probe => self.on_probe_timeout(now, shared),
                Timer::Ack => self.on_ack_timeout(now, shared),
                Timer::Pacing => self.output(now, shared),
                Timer::Keepalive => self.on_keepalive_timeout(now, shared),
                Timer::User => self.on_user_timeout(now, shared),
                Timer::FinWait => self.on_fin_wait_timeout(now, shared),
                Timer::Mtu => self.on_mtu_timeout(now, shared),
            }
        }
    }

    fn on_ack_timeout(&mut self, now: Instant, shared: &mut Shared) {
        let env = self.recv_env(false);
        self.recv.on_ack_timeout(now, env);
        if self.linux().is_some() {
            // Linux sends an ACK and nothing else (`tcp_delack_timer_handler`).
            self.output_ack(now, shared);
        } else {
            self.output(now, shared);
        }
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
            RecoveryTimer::Reorder => {
                self.recovery.on_reorder_timeout(now);
                if self.linux().is_some() {
                    self.output_lost(now, shared);
                    return;
                }
            }
            RecoveryTimer::LossProbe => {
                self.send_loss_probe(now, shared);
                if self.linux().is_some() {
                    // Nothing leaves but the probe.
                    self.tell_changes(now, shared);
                    self.arm_timers(now, shared);
                    return;
                }
            }
            RecoveryTimer::Retransmit => {
                if self.gives_up(now, shared) {
                    return;
                }
                self.awaits_timeout = false;
                self.timers.stop(Timer::User);
                let is_zero_window_only = self.is_zero_window_only(now);
                self.recovery.on_retransmit_timeout(now);
                if is_zero_window_only {
                    self.recovery.forgive_timeout();
                    // The user timeout counts all the same (RFC 5482).
                    if self.settings.life.user_timeout.is_none() {
                        self.stall.end();
                    }
                }
                self.on_mtu_timeouts(now);
                if self.linux().is_some() {
                    // Nor does it count as use of the window (`tcp_retransmit_timer`).
                    self.output_lost(now, shared);
                    debug_assert!(
                        !self.recovery.owes_timed_out() || self.is_held_back(),
                        "a timeout retransmits"
                    );
                    return;
                }
            }
        }
        self.output(now, shared);
    }

    /// Whether something holds back even retransmissions.
    fn is_held_back(&self) -> bool {
        matches!(
            self.held.limit(),
            Limit::Pacing | Limit::Interface | Limit::PeerWindow
        )
    }

    /// RFC 9293 section 3.8.3: after this many retransmissions, or this long, the peer counts as
    /// gone.
    fn gives_up(&mut self, now: Instant, shared: &mut Shared) -> bool {
        if self.linux().is_some() {
            self.stall.begin(now - self.repair_time(now));
            if self.recovery.timeouts() == 0 {
                return false;
            }
        }
        let stalled = self.stall.lasts(now);
        let life = &self.settings.life;
        let is_over = match (life.user_timeout, life.retries_timeout) {
            (Some(timeout), _) => stalled >= timeout,
            (None, _) if self.is_zero_window_only(now) => false,
            (None, Some(first)) => {
                let rto_max = self.settings.recovery.rto_max;
                stalled >= time_of_timeouts(self.retries(self.recovery.rtt().rto()), first, rto_max)
            }
            (None, None) => self.recovery.timeouts() >= life.retries,
        };
        if is_over {
            self.give_up(now, shared);
        }
        is_over
    }

    /// Time since the first retransmission of what is being repaired, whatever has been
    /// acknowledged since (Linux `retransmits_timed_out`).
    pub(super) fn repair_time(&self, now: Instant) -> Duration {
        let first = self.recovery.first_retransmission();
        let millis = first.map_or(0, |first| self.timestamp(now).wrapping_sub(first));
        Duration::from_millis(millis.into())
    }

    /// How often something is retransmitted before the peer counts as gone, where the next wait is
    /// `wait`. Linux gives up orphans sooner, and at once when the wait is the largest
    /// (`tcp_orphan_retries`).
    pub(super) fn retries(&self, wait: Duration) -> u32 {
        let life = &self.settings.life;
        match (self.socket.is_orphan(), life.retries_timeout) {
            (true, Some(_)) if wait < self.settings.recovery.rto_max => ORPHAN_RETRIES,
            (true, Some(_)) => 0,
            _ => life.retries,
        }
    }

    /// The peer does not answer, or the user timeout is over.
    pub(super) fn give_up(&mut self, now: Instant, shared: &mut Shared) {
        self.fail(now, shared, self.failures.when_unanswered());
    }

    /// RFC 5482: the time without progress counts from the first timeout or zero-window probe on.
    /// The timer is set anew with each of them (Linux `tcp_clamp_rto_to_user_timeout`).
    #[inline]
    pub(super) fn arm_user(&mut self, now: Instant, shared: &Shared) {
        let Some(since) = self.stall.since else {
            self.timers.stop(Timer::User);
            return;
        };
        if let Some(timeout) = self.settings.life.user_timeout
            && !self.awaits_timeout
            && self.timers.due(Timer::User).is_none()
        {
            let due = shared.tick.expiry(now, (since + timeout).since(now));
            self.timers.set(Timer::User, Some(due));
        }
    }

    /// The user timeout is over, unless it was extended.
    fn on_user_timeout(&mut self, now: Instant, shared: &mut Shared) {
        let stalled = self.stall.lasts(now);
        let timeout = self.settings.life.user_timeout;
        if timeout.is_some_and(|timeout| stalled >= timeout) {
            self.give_up(now, shared);
        } else {
            self.arm_user(now, shared);
        }
    }

    /// Whether the peer shrank its window to zero but still answers: retransmissions are window
    /// probes then, and the connection lives as long as they are answered (Linux
    /// `tcp_retransmit_timer`).
    fn is_zero_window_only(&self, now: Instant) -> bool {
        let heard = self.traffic.last_ack_received();
        self.window.bytes() == 0
            && !self.socket.is_orphan()
            && heard.is_some_and(|at| now.since(at) <= 2 * self.settings.recovery.rto_max)
    }

    /// RFC 8985 section 7.3: one segment of new data, or the last one retransmitted. Linux sends as
    /// many new ones as the congestion window permits, if they waited to be sent as one
    /// (`tcp_write_xmit`).
    fn send_loss_probe(&mut self, now: Instant, shared: &mut Shared) {
        let segment = self.retransmit_mss();
        let Probe::NewOr { start, end } = self.recovery.on_probe_timeout(now, segment) else {
            return;
        };
        let next = self.recovery.next();
        // A bare FIN is new, too.
        if self.window.end() > next {
            let segments = match self.linux() {
                Some(_) => self.burst_allowance().max(1),
                None => 1,
            };
            self.send_new_probe(now, shared, NewProbe::OfLoss { segments });
            if self.recovery.next() > next {
                // It uses the window as other data does (Linux `tcp_write_xmit`), and what is
                // left counts as waiting for it only when that is asked for again.
                self.end_send(now, Limit::Application, next);
                if self.linux().is_some() {
                    self.held.hold(now, self.held.limit(), Pending::Sent);
                }
                return;
            }
        }
        if self.may_retransmit(start) {
            self.retransmit(now, shared, (start, end), now);
        } else {
            self.recovery.part_probe(start, segment);
        }
    }

    fn on_fin_wait_timeout(&mut self, now: Instant, shared: &mut Shared) {
        if matches!(self.state, State::FinWait2(_)) {
            self.fail(now, shared, Failure::TimedOut);
        }
    }

    /// Notes why nothing more is sent, and counts the time of the wait that ends (Linux
    /// `tcp_chrono_*`): busy while something is unsent or unacknowledged, be it a FIN.
    #[inline]
    pub(super) fn hold(&mut self, now: Instant, limit: Limit) {
        let pending = if self.owes_fin() || self.unsent_bytes() > 0 {
            Pending::Unsent
        } else if self.recovery.packets_out() > 0 || self.outstanding_bytes() > 0 {
            Pending::Sent
        } else {
            Pending::Nothing
        };
        self.held.hold(now, limit, pending);
    }

    /// The send buffer is no longer the limit once the writer was told of room (Linux
    /// `tcp_check_space`).
    #[inline]
    pub(super) fn hold_with_room(&mut self, now: Instant) {
        if self.held.limit() == Limit::SendBuffer && self.socket.writer() == Writer::Free {
            self.hold(now, Limit::Application);
        }
    }

    /// Tells recovery how a round of sending ended that began at `from`.
    pub(super) fn end_send(&mut self, now: Instant, limit: Limit, from: u64) {
        if self.unsent_bytes() < self.mss().into() {
            self.recovery.mark_app_limited();
        }
        let round = self.send_round(limit, from);
        self.recovery.after_transmit(now, &round);
    }

    /// The round as recovery judges it.
    pub(super) fn send_round(&self, limit: Limit, from: u64) -> SendRound {
        SendRound {
            is_window_limited: limit == Limit::Congestion,
            has_sent: self.recovery.next() > from,
            writer_waits: self.send.writer_waits(),
        }
    }
}

/// Time from the first of `count` retransmissions to the timeout of the last one: the first timeout
/// takes `first`, each of the others twice as long as the one before, at most `max` (Linux
/// `tcp_model_timeout`).
pub(super) fn time_of_timeouts(count: u32, first: Duration, max: Duration) -> Duration {
    let times = max.as_nanos() / first.as_nanos().max(1);
    let doublings = count.min(times.max(1).ilog2());
    let doubled = first.saturating_mul((2_u32 << doublings.min(30)).saturating_sub(1));
    doubled.saturating_add(max.saturating_mul(count - doublings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retransmissions_stand_for_a_time() {
        let check = |count, max: u64, expected: u64| {
            let (first, max) = (Duration::from_millis(200), Duration::from_secs(max));
            let expected = Duration::from_millis(expected);
            assert_eq!(time_of_timeouts(count, first, max), expected, "{count}");
        };
        check(0, 120, 200);
        check(2, 120, 1400);
        // What ip-sysctl says of tcp_retries2: 924.6 s.
        check(15, 120, 924_600);
    }
}
