//! The one timer of recovery: retransmission, tail-loss probe, or RACK's reordering window.
//!
//! Decides what it waits for and when it is due (Linux `tcp_rearm_rto`, `tcp_schedule_loss_probe`,
//! `tcp_rack_reo_timeout`), and what happens then. Deadlines lie on the ticks of the host.

use core::time::Duration;

use base::{CongestionState, Instant};

use super::prr::PrrInput;
use super::{LossRecovery, Probe, RecoveryTimer};
use crate::progress::Mark;

/// Added to waits that a peer's timer granularity may stretch (Linux `TCP_TIMEOUT_MIN_US`).
const WAIT_MIN: Duration = Duration::from_millis(2);
/// Wait for a probe before any round-trip time is known.
const PROBE_WITHOUT_RTT: Duration = Duration::from_secs(1);
/// Least time that a peer that reneged gets to take it back.
const RENEGING_WAIT_MIN: Duration = Duration::from_millis(10);

impl LossRecovery {
    /// The deadline and what is due then; `None` where nothing is outstanding.
    pub(crate) fn deadline(&self) -> Option<(Instant, RecoveryTimer)> {
        self.timer.map(|(timer, at)| (at, timer))
    }

    /// The retransmission timeout expired: everything outstanding counts as lost, the window is
    /// one packet (Linux `tcp_retransmit_timer`, `tcp_enter_loss`). Afterwards
    /// [`Self::poll_retransmit`] has the first segment.
    pub(crate) fn on_retransmit_timeout(&mut self, now: Instant) {
        self.timer = None;
        if self.board.packets_out() == 0 {
            return;
        }
        self.stats.make().timeouts += 1;
        self.probe.is_due = false;
        self.holds_retransmissions = false;
        self.awaits_reneged = false;
        self.enter_loss(now);
        self.probe.end = Mark::NONE;
        self.forces_retransmission = true;
        self.owes_timed_out = true;
        self.timeouts = self.timeouts.saturating_add(1);
        self.rtt.back_off(&self.settings.recovery);
        self.arm_unpaced(now);
    }

    /// The network says that it cannot reach the peer, about the segment that is retransmitted: it
    /// was no congestion that the timeout saw, so that one doubling is taken back (RFC 6069 section
    /// 4.2; Linux `tcp_ld_RTO_revert`).
    pub(crate) fn on_unreachable(&mut self, now: Instant) {
        let waits = matches!(self.timer, Some((RecoveryTimer::Retransmit, _)));
        if waits && self.timeouts > 0 && self.rtt.revert_back_off(&self.settings.recovery) {
            let left = self.timeout_left(now);
            let due = match left.is_zero() {
                true => now,
                false => self.rtt.expiry(now, left),
            };
            self.timer = Some((RecoveryTimer::Retransmit, due));
        }
    }

    /// The last timeout does not count against the peer: it answers, with a zero window.
    pub(crate) fn forgive_timeout(&mut self) {
        self.timeouts = self.timeouts.saturating_sub(1);
        if let Some(stats) = self.stats.as_mut() {
            stats.timeouts = stats.timeouts.saturating_sub(1);
        }
    }

    fn enter_loss(&mut self, now: Instant) {
        let is_new = !matches!(
            self.state,
            CongestionState::Recovery | CongestionState::Loss
        );
        self.mark_timed_out(now);
        let is_first_of_window = matches!(
            self.state,
            CongestionState::Open | CongestionState::Disorder
        ) || self.recovery_point <= self.board.una()
            || (self.state == CongestionState::Loss && self.timeouts == 0);
        if is_first_of_window {
            self.prior_ssthresh = self.current_ssthresh();
            self.window.prior_cwnd = self.window.cwnd;
            self.window.ssthresh = self.cc.on_congestion(&self.window, now);
            self.begin_undo();
        }
        self.window.cwnd = self.board.in_flight() + 1;
        self.usage.on_window_set(now);
        self.window.credit = 0;
        self.cc.on_timeout(&mut self.window, now);
        if is_new
            && self.state != CongestionState::Cwr
            && self.board.sacked() >= self.settings.recovery.dupack_threshold
        {
            // This many duplicates and still a timeout: the degree of reordering is too high.
            self.reordering = self.reordering.min(self.settings.recovery.dupack_threshold);
        }
        self.is_frto = self.settings.recovery.frto && (is_new || self.timeouts > 0);
        self.state = CongestionState::Loss;
        self.recovery_point = self.board.next();
        self.owes_cwr = true;
    }

    /// Linux `tcp_timeout_mark_lost`.
    fn mark_timed_out(&mut self, now: Instant) {
        if !self.uses_sack() {
            self.board.set_duplicates(0);
        } else if self.board.is_reneged() {
            self.stats.make().renegings += 1;
            let state = self.rate.on_sent(now, false);
            self.board.forget_sacks(self.rack.latest.0, self.mss, state);
            self.board.mark_all_lost(|_| false);
            return;
        }
        let rtt = self.rack.rtt();
        let knows_time = self.uses_rack();
        self.board
            .mark_all_lost(|sent| knows_time && sent + rtt > now);
    }

    /// RACK's reordering window ended: what was sent before delivered data and did not arrive is
    /// lost.
    pub(crate) fn on_reorder_timeout(&mut self, now: Instant) {
        self.timer = None;
        if self.board.packets_out() == 0 {
            return;
        }
        let before = (self.board.in_flight(), self.board.lost_total());
        self.look_for_expired(now);
        if self.board.in_flight() != before.0 && self.state != CongestionState::Recovery {
            self.enter_recovery(now, false);
            if !self.cc.is_in_charge() && self.settings.recovery.prr {
                self.window.cwnd = self.reduction.make().prr.on_ack(&PrrInput {
                    ssthresh: self.window.ssthresh,
                    prior_cwnd: self.window.prior_cwnd,
                    in_flight: self.board.in_flight(),
                    delivered: 1,
                    is_progress: false,
                });
            }
        }
        if self.timer.is_none() {
            self.arm_retransmit_for_head(now);
        }
    }

    /// A tail-loss probe is due (Linux `tcp_send_loss_probe`). What the connection then sends
    /// counts as the probe. `segment`: payload of the largest segment that fits now.
    pub(crate) fn on_probe_timeout(&mut self, now: Instant, segment: u32) -> Probe {
        self.timer = None;
        self.arm_retransmit_for_head(now);
        if self.probe.end.is_set() {
            return Probe::None;
        }
        let Some((start, end)) = self.board.last_segment(segment) else {
            return Probe::None;
        };
        self.probe.is_due = true;
        Probe::NewOr { start, end }
    }

    /// The window does not let the probe from `start` on out: it is cut off its packet all the same
    /// (Linux `tcp_send_loss_probe`). `segment`: payload of the largest segment that fits now.
    pub(crate) fn part_probe(&mut self, start: u64, segment: u32) {
        self.board.part(start, segment);
    }

    /// The probe left: the full timeout begins anew.
    pub(super) fn on_probe_sent(&mut self, now: Instant, is_retransmit: bool) {
        self.probe.is_due = false;
        self.probe.end = Mark::at(self.board.next());
        self.probe.is_retransmit = is_retransmit;
        self.stats.make().tlps += 1;
        self.timer = None;
        self.arm_retransmit(now);
    }

    /// An ACK moved on (Linux `tcp_set_xmit_timer`).
    pub(super) fn set_timer(&mut self, now: Instant) {
        if self.schedule_probe(now, true) {
            return;
        }
        match self.timer {
            // The time since the last segment left counts: these timers took its place.
            Some((RecoveryTimer::Reorder | RecoveryTimer::LossProbe, _)) => {
                self.arm_retransmit_for_head(now);
            }
            Some((RecoveryTimer::Retransmit, _)) | None => self.arm_retransmit(now),
        }
    }

    /// The whole timeout from now on.
    pub(super) fn arm_retransmit(&mut self, now: Instant) {
        self.arm_retransmit_in(now, self.rtt.rto());
    }

    /// The same, whatever pacing holds back (Linux `tcp_retransmit_timer`).
    pub(super) fn arm_unpaced(&mut self, now: Instant) {
        self.arm_bounded(now, self.rtt.rto());
    }

    fn arm_retransmit_in(&mut self, now: Instant, wait: Duration) {
        self.arm_bounded(now, wait + self.paced_for(now));
    }

    /// The largest timeout also bounds one that was doubled before it was set (Linux
    /// `tcp_reset_xmit_timer`).
    fn arm_bounded(&mut self, now: Instant, wait: Duration) {
        let wait = wait.min(self.settings.recovery.rto_max);
        self.timer = (self.board.packets_out() > 0)
            .then(|| (RecoveryTimer::Retransmit, self.rtt.expiry(now, wait)));
    }

    /// How long pacing holds the next packet back, which timers wait longer (Linux
    /// `tcp_pacing_delay`).
    #[inline]
    pub(crate) fn paced_for(&self, now: Instant) -> Duration {
        match self.reduction.as_ref() {
            Some(rare) if rare.paced_until > now => {
                self.rtt.whole_ticks(rare.paced_until.since(now))
            }
            _ => Duration::ZERO,
        }
    }

    /// Nothing is waited for until [`Self::on_late_syn_acked`].
    pub(crate) fn stop_timer(&mut self) {
        self.timer = None;
        self.timer_of_burst = None;
    }

    /// The SYN in front of all that was sent is acknowledged, after so many timeouts of it; `rtt`:
    /// a sample of it.
    pub(crate) fn on_late_syn_acked(&mut self, now: Instant, rtt: Option<Duration>, timeouts: u32) {
        let rules = &self.settings.recovery;
        match rtt {
            Some(rtt) => {
                self.rtt.on_min_sample(now, rtt, false);
                self.rtt.on_sample(rules, rtt, 1, 1);
            }
            None => self.rtt.on_unmeasured_handshake(rules, timeouts),
        }
        // After a timeout there is no tail-loss probe: Linux was in Loss until now.
        if timeouts > 0 || !self.schedule_probe(now, true) {
            self.arm_retransmit(now);
        }
    }

    /// No tail-loss probe for what left just now.
    pub(crate) fn await_timeout(&mut self, now: Instant) {
        self.arm_retransmit(now);
        self.timer_of_burst = None;
    }

    /// The timeout from the time on at which the first unacknowledged segment left.
    pub(super) fn arm_retransmit_for_head(&mut self, now: Instant) {
        let left = self.timeout_left(now).max(Duration::from_micros(1));
        self.arm_retransmit_in(now, left);
    }

    /// Linux `tcp_rto_delta_us`.
    fn timeout_left(&self, now: Instant) -> Duration {
        match self.board.head_sent() {
            Some(sent) => (sent + self.rtt.rto()).since(now),
            None => self.rtt.rto(),
        }
    }

    pub(super) fn arm_reorder(&mut self, now: Instant, wait: Duration) {
        let wait = wait + WAIT_MIN;
        self.timer = Some((RecoveryTimer::Reorder, self.rtt.expiry(now, wait)));
    }

    /// The first byte that the peer misses is one that it had SACKed: soon a timeout tests
    /// whether it means it (Linux `tcp_check_sack_reneging`).
    pub(super) fn arm_for_reneging(&mut self, now: Instant) {
        let wait = (self.rtt.srtt().unwrap_or_default() / 2).max(RENEGING_WAIT_MIN);
        self.timer = Some((RecoveryTimer::Retransmit, self.rtt.expiry(now, wait)));
    }

    /// Arms a tail-loss probe where one is allowed (Linux `tcp_schedule_loss_probe`, rule 11.3).
    /// `is_ack`: an ACK came, so that the timeout counts from now.
    pub(super) fn schedule_probe(&mut self, now: Instant, is_ack: bool) -> bool {
        let is_calm = matches!(self.state, CongestionState::Open | CongestionState::Cwr);
        let is_wanted = self.settings.recovery.tail_loss_probe && self.uses_rack() && is_calm;
        if !is_wanted || self.board.packets_out() == 0 {
            return false;
        }
        let wait = match self.rtt.srtt() {
            // A lone packet's ACK may be delayed.
            Some(srtt) if self.board.packets_out() == 1 => {
                srtt * 2 + self.settings.recovery.rto_min
            }
            Some(srtt) => srtt * 2 + WAIT_MIN,
            None => PROBE_WITHOUT_RTT,
        };
        let bound = if is_ack {
            self.rtt.rto()
        } else {
            self.timeout_left(now)
        };
        let wait = if bound.is_zero() {
            wait
        } else {
            wait.min(bound)
        };
        let wait = (wait + self.paced_for(now)).min(self.settings.recovery.rto_max);
        self.timer = Some((RecoveryTimer::LossProbe, self.rtt.expiry(now, wait)));
        true
    }
}
