//! Zero-window probes and keepalives. The end of a cork belongs here too, because Linux ends it
//! with the same timer (rule 7.5).

use core::time::Duration;

use base::{Instant, Limit};

use super::{Connection, State, Timer};
use crate::host::{Failure, Shared};
use crate::send::NewProbe;

/// Largest probe interval of the other profiles; Linux uses that of its timeouts.
const PROBE_INTERVAL_MAX: Duration = Duration::from_secs(120);
/// Linux: a probe waits at least this long, whatever the timeout (rule 11.9).
const PROBE_INTERVAL_MIN: Duration = Duration::from_millis(200);

/// Probes of both kinds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probes {
    /// Unanswered probes in a row, zero-window and keepalive (Linux `icsk_probes_out`).
    unanswered: u32,
    /// Zero-window probes since a round trip was measured, or the window opened for what waits: the
    /// exponent of their interval.
    backoff: u32,
}

impl Probes {
    /// The peer acknowledged what it has, or more.
    pub(super) const fn on_answer(&mut self) {
        self.unanswered = 0;
    }

    /// A round trip was measured (Linux `tcp_ack_update_rtt`).
    pub(super) const fn on_sample(&mut self) {
        self.backoff = 0;
    }

    /// Unanswered probes of both kinds in a row.
    pub(super) const fn unanswered(&self) -> u32 {
        self.unanswered
    }
}

impl Connection {
    /// Sets the timer for data that is held while nothing is in flight, since no ACK will release
    /// it.
    #[inline]
    pub(super) fn arm_probe(&mut self, now: Instant, shared: &Shared) {
        let is_silent = self.recovery.packets_out() == 0;
        if !is_silent || self.unsent_bytes() == 0 && !self.send.has_fin() {
            self.timers.stop(Timer::Probe);
            self.forget_probe_backoff();
        } else {
            self.arm_probe_of_held(now, shared);
        }
    }

    fn arm_probe_of_held(&mut self, now: Instant, shared: &Shared) {
        if self.timers.due(Timer::Handshake).is_some() {
            // A SYN that crossed the peer's is in flight still, though the connection was closed:
            // its timer is the one that waits for an answer.
            return;
        }
        if self.held.limit() != Limit::PeerWindow {
            self.forget_probe_backoff();
        }
        let due = match self.held.limit() {
            Limit::PeerWindow => self.timers.due(Timer::Probe).or_else(|| {
                // In Linux the first one waits for one timeout, without backoff
                // (`tcp_probe0_base`).
                let doublings = match self.linux() {
                    Some(_) => 0,
                    None => self.probes.backoff,
                };
                Some(self.probe_due(now, shared, doublings))
            }),
            Limit::Cork => {
                let (progress, rto) = (self.recovery.progress(), self.recovery.rtt().rto());
                self.send.hold_deadline(now, progress, rto, &shared.tick)
            }
            _ => None,
        };
        self.timers.set(Timer::Probe, due);
    }

    /// Probing has ended: resets the backoff. In Linux only an ACK does (`tcp_ack_probe`,
    /// `tcp_ack_update_rtt`).
    pub(super) fn forget_probe_backoff(&mut self) {
        if self.linux().is_none() {
            self.probes.backoff = 0;
        }
    }

    /// Time to a zero-window probe: the retransmission timeout, doubled so often (RFC 9293 section
    /// 3.8.6.1).
    fn probe_interval(&self, doublings: u32) -> Duration {
        let first = self.recovery.rtt().rto().max(PROBE_INTERVAL_MIN);
        let longest = match self.linux() {
            Some(_) => self.settings.recovery.rto_max,
            None => PROBE_INTERVAL_MAX,
        };
        first.saturating_mul(1 << doublings.min(16)).min(longest)
    }

    /// When the next zero-window probe is due: what pacing holds back, its timer waits longer, too
    /// (Linux `tcp_check_probe_timer`, `tcp_ack_probe`, `tcp_send_probe0`).
    fn probe_due(&self, now: Instant, shared: &Shared, doublings: u32) -> Instant {
        let wait = self.probe_interval(doublings) + self.recovery.paced_for(now);
        shared.tick.expiry(now, wait)
    }

    /// How often the interval of the probes that follow the first is doubled: in Linux timeouts
    /// that no sample has ended count with them, though the timeout is longer by them already
    /// (`tcp_probe0_when`).
    pub(super) fn probe_backoff(&self) -> u32 {
        match self.linux() {
            Some(_) => self.probes.backoff + self.recovery.backoff(),
            None => self.probes.backoff,
        }
    }

    /// The peer answered while its window was probed (Linux `tcp_ack_probe`).
    #[inline(never)]
    pub(super) fn on_probe_answer(&mut self, now: Instant, shared: &Shared) {
        let next = self.recovery.next();
        let of_segment = next + self.unsent_bytes().min(self.mss().into());
        let head_end = self.send.first_packet_end().unwrap_or(of_segment);
        // A FIN takes window.
        let has_fin = self.send.has_fin() && head_end == self.send.end();
        let head_end = head_end + u64::from(has_fin);
        if head_end <= self.window.end() {
            self.probes.backoff = 0;
            self.recovery.forget_backoff();
        } else {
            let due = self.probe_due(now, shared, self.probe_backoff());
            self.timers.set(Timer::Probe, Some(due));
        }
    }

    /// The probe timer fired.
    pub(super) fn on_probe_timeout(&mut self, now: Instant, shared: &mut Shared) {
        if self.held.limit() != Limit::PeerWindow {
            let next = self.recovery.next();
            if self.linux().is_some() {
                // It does not count as use of the window (`tcp_write_wakeup`).
                self.send_new_probe(now, shared, NewProbe::OfWindow);
            } else {
                self.send.release_held();
                self.output(now, shared);
            }
            if self.recovery.next() > next {
                self.await_timeout(now);
                self.arm_timers(now, shared);
            }
            return;
        }
        if self.gives_up_probing(now) {
            self.give_up(now, shared);
            return;
        }
        self.awaits_timeout = false;
        self.timers.stop(Timer::User);
        shared.counters.window_probes += 1;
        self.probes.unanswered += 1;
        self.probes.backoff += 1;
        if self.window.end() > self.recovery.next() {
            // Less than a segment fits: silly-window avoidance has waited long enough (RFC 9293
            // section 3.8.6.2.1).
            self.send_new_probe(now, shared, NewProbe::OfWindow);
            self.await_timeout(now);
        } else {
            self.send_urgent_probe(now, shared);
            self.send_probe(now, shared);
            let due = self.probe_due(now, shared, self.probe_backoff());
            self.timers.set(Timer::Probe, Some(due));
        }
        self.arm_timers(now, shared);
    }

    /// In Linux the data that this timer sent is no longer a probe: the retransmission timer guards
    /// it, without a tail-loss probe before (`tcp_send_probe0`).
    fn await_timeout(&mut self, now: Instant) {
        if self.linux().is_some() && self.recovery.packets_out() > 0 {
            self.probes.unanswered = 0;
            self.probes.backoff = 0;
            self.recovery.forget_backoff();
            self.recovery.await_timeout(now);
        }
    }

    /// Whether to give up probing. A peer that answers may keep its window closed for as long as
    /// the application waits (RFC 9293 section 3.8.6.1). One that does not answer is gone. Once the
    /// application has closed the connection, probing ends in any case (Linux `tcp_probe_timer`).
    fn gives_up_probing(&mut self, now: Instant) -> bool {
        let stalled = self.stall.lasts(now);
        let retries = self.retries(self.probe_interval(self.probe_backoff()));
        let user_timeout = self.settings.life.user_timeout;
        let is_too_long = user_timeout.is_some_and(|timeout| stalled >= timeout);
        is_too_long
            || self.probes.unanswered >= retries
            || self.socket.is_orphan() && self.probe_backoff() >= retries
    }

    /// Starts or stops the keepalive timer after traffic or a change of settings.
    pub(super) fn arm_keepalive(&mut self, now: Instant, shared: &Shared) {
        let is_open = self.state.is_synchronized() && self.state != State::TimeWait;
        let due = self
            .settings
            .life
            .keepalive
            .filter(|_| is_open)
            .map(|idle| shared.tick.expiry(now, idle));
        self.timers.set(Timer::Keepalive, due);
    }

    /// The idle time is another one. Where there was one, what has passed of it counts (Linux
    /// `tcp_sock_set_keepidle_locked`).
    #[cold]
    pub(super) fn rearm_keepalive(&mut self, now: Instant, shared: &Shared, had: bool) {
        self.arm_keepalive(now, shared);
        let heard = self.traffic.last_heard();
        let (Some(idle), Some(_)) = (
            self.settings.life.keepalive,
            self.timers.due(Timer::Keepalive),
        ) else {
            return;
        };
        if !had || self.linux().is_none() {
            return;
        }
        let quiet = heard.map_or(Duration::ZERO, |at| now.since(at));
        let left = idle.saturating_sub(quiet);
        let due = shared.tick.expiry(now, left);
        self.timers.set(Timer::Keepalive, Some(due));
    }

    /// The keepalive timer fired (RFC 9293 section 3.8.4; Linux `tcp_keepalive_timer`).
    pub(super) fn on_keepalive_timeout(&mut self, now: Instant, shared: &mut Shared) {
        let life = &self.settings.life;
        let Some(idle) = life.keepalive.filter(|_| !self.is_orphan_fin_wait2()) else {
            return;
        };
        if self.recovery.packets_out() > 0 || self.unsent_bytes() > 0 || self.owes_fin() {
            // Data or a FIN is in flight or unsent: its timers guard the connection.
            self.timers
                .set(Timer::Keepalive, Some(shared.tick.expiry(now, idle)));
            return;
        }
        let heard = self.traffic.last_heard();
        let quiet = heard.map_or(Duration::MAX, |at| now.since(at));
        if quiet < idle {
            let rest = idle - quiet;
            self.timers
                .set(Timer::Keepalive, Some(shared.tick.expiry(now, rest)));
            return;
        }
        let is_over = match life.user_timeout {
            Some(timeout) => self.probes.unanswered > 0 && quiet >= timeout,
            None => self.probes.unanswered >= life.keepalive_probes,
        };
        if is_over {
            let blocks = self.sack_option();
            self.send_reset(now, shared, blocks);
            self.fail(now, shared, Failure::TimedOut);
            return;
        }
        let interval = life.keepalive_interval;
        self.send_keepalive(now, shared);
        self.timers
            .set(Timer::Keepalive, Some(shared.tick.expiry(now, interval)));
    }

    /// Sends one keepalive probe now (seed: `NetBurner` `TcpSendKeepAlive`).
    pub(crate) fn send_keepalive(&mut self, now: Instant, shared: &mut Shared) {
        shared.counters.keepalive_probes += 1;
        self.probes.unanswered += 1;
        self.send_probe(now, shared);
    }
}
