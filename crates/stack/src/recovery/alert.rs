//! The states of recovery: Open, Disorder, CWR, Recovery, Loss.
//!
//! Decides when a recovery begins and ends and what is marked lost in it. Follows Linux
//! `tcp_fastretrans_alert`; names of the kernel's functions stand at each step.

use base::settings::Validation;
use base::{CongestionState, Instant};

use super::LossRecovery;
use super::ack::Pass;
use super::prr::Prr;
use super::rack::ReorderInput;
use super::records::Expired;
use crate::cc::SSTHRESH_INFINITE;
use crate::progress::Mark;

impl LossRecovery {
    /// An ACK with anything beside plain progress, or any ACK outside of Open.
    pub(super) fn alert(&mut self, pass: &mut Pass) {
        if pass.ece {
            // A reduction for an ECN mark is not undone.
            self.prior_ssthresh = 0;
        }
        self.awaits_reneged = self.uses_sack() && self.board.is_reneged() && pass.is_progress;
        if self.awaits_reneged {
            self.arm_for_reneging(pass.now);
            pass.sets_timer = false;
            return;
        }
        if self.state == CongestionState::Open {
            self.forget_retransmissions();
        } else if self.board.una() >= self.recovery_point && self.leave_at_recovery_point(pass.echo)
        {
            return;
        }
        match self.state {
            CongestionState::Recovery => self.alert_in_recovery(pass),
            CongestionState::Loss => {
                self.process_loss(pass);
                self.identify_losses(pass);
                if self.state == CongestionState::Open || pass.lost_retransmission {
                    self.alert_before_recovery(pass);
                }
            }
            _ => self.alert_before_recovery(pass),
        }
    }

    /// Everything up to the recovery point is acknowledged. True: the state stays.
    fn leave_at_recovery_point(&mut self, echo: Option<u32>) -> bool {
        match self.state {
            CongestionState::Cwr if self.board.una() != self.recovery_point => {
                // Only an ACK above it shows that the reduced window was used.
                self.end_reduction();
                self.state = CongestionState::Open;
            }
            CongestionState::Recovery => {
                if !self.uses_sack() {
                    self.board.set_duplicates(0);
                }
                if self.try_undo_recovery(echo) {
                    return true;
                }
                self.end_reduction();
            }
            _ => {}
        }
        false
    }

    fn alert_in_recovery(&mut self, pass: &mut Pass) {
        if !pass.is_progress {
            self.add_duplicates(pass);
        } else if self.try_undo_partial(pass) {
            return;
        } else if !self.settings.recovery.prr {
            // A partial ACK: the next hole is retransmitted at once (RFC 6582 section 3.2 step 3).
            self.forces_retransmission = true;
        }
        if self.try_undo_dsack() {
            self.try_to_open(pass);
        }
        self.identify_losses(pass);
        if self.state != CongestionState::Recovery && self.is_time_to_recover() {
            self.enter_recovery(pass.now, pass.ece);
        }
    }

    fn alert_before_recovery(&mut self, pass: &mut Pass) {
        if !self.uses_sack() {
            if pass.is_progress {
                self.board.set_duplicates(0);
            }
            self.add_duplicates(pass);
        }
        if matches!(
            self.state,
            CongestionState::Open | CongestionState::Disorder
        ) {
            self.try_undo_dsack();
        }
        self.identify_losses(pass);
        if !self.is_time_to_recover() {
            self.try_to_open(pass);
            return;
        }
        self.enter_recovery(pass.now, pass.ece);
        if !self.uses_sack() {
            self.board.mark_head_lost();
        }
    }

    /// Linux `tcp_add_reno_sack`.
    pub(super) fn add_duplicates(&mut self, pass: &Pass) {
        if self.uses_sack() || pass.duplicates == 0 {
            return;
        }
        let before = self.board.sacked();
        self.board.set_duplicates(before + pass.duplicates);
        self.limit_duplicates(0);
        let delivered = self.board.sacked().saturating_sub(before);
        self.rate.count(delivered, pass.ece);
    }

    /// Linux `tcp_identify_packet_loss`.
    fn identify_losses(&mut self, pass: &mut Pass) {
        if self.board.packets_out() == 0 {
            return;
        }
        if !self.uses_sack() {
            let is_before = !matches!(
                self.state,
                CongestionState::Recovery | CongestionState::Loss
            );
            let is_third = is_before && self.board.sacked() >= self.reordering;
            if is_third || (self.state == CongestionState::Recovery && pass.is_progress) {
                self.board.mark_head_lost();
            }
        } else if self.uses_rack() {
            if core::mem::take(&mut self.rack.is_advanced) {
                let expired = self.look_for_expired(pass.now);
                pass.lost_retransmission |= expired.lost_retransmission;
                // The timer waits for what may still come.
                pass.sets_timer &= expired.waiting.is_none();
            }
        } else {
            self.board.mark_by_count(self.reordering);
        }
    }

    /// RACK: marks what is overdue, and arms the timer for what may still arrive.
    pub(super) fn look_for_expired(&mut self, now: Instant) -> Expired {
        let window = self.rack.reorder_window(&ReorderInput {
            reordering_seen: self.has_seen_reordering(),
            is_recovering: matches!(
                self.state,
                CongestionState::Recovery | CongestionState::Loss
            ),
            sacked: self.board.sacked(),
            threshold: self.reordering,
            min_rtt: self.rtt.min_rtt(),
            srtt: self.rtt.srtt(),
        });
        let wait = self.rack.rtt() + window;
        let expired = self.board.expire(now, self.rack.latest, wait);
        if expired.lost_retransmission {
            self.stats.make().lost_retransmissions += 1;
        }
        if let Some(sent) = expired.waiting {
            self.arm_reorder(now, (sent + wait).since(now));
        }
        expired
    }

    /// Linux `tcp_time_to_recover`. With SACK the count is contained in RACK's window.
    fn is_time_to_recover(&self) -> bool {
        self.board.lost() > 0 || (!self.uses_rack() && self.board.sacked() >= self.reordering)
    }

    /// Linux `tcp_try_to_open`.
    fn try_to_open(&mut self, pass: &Pass) {
        if !self.board.is_any_retransmitted() {
            self.forget_retransmissions();
        }
        if pass.ece {
            let before = self.state;
            self.enter_cwr(pass.now);
            if before != self.state {
                self.stats.make().ecn_reductions += 1;
            }
        }
        if self.state != CongestionState::Cwr {
            self.keep_open();
        }
    }

    /// Linux `tcp_try_keep_open`.
    pub(super) fn keep_open(&mut self) {
        let left_out = self.board.sacked() + self.board.lost() > 0;
        let state = match left_out || self.board.is_any_retransmitted() {
            true => CongestionState::Disorder,
            false => CongestionState::Open,
        };
        if self.state != state {
            self.state = state;
            self.recovery_point = self.board.next();
        }
    }

    /// Linux `tcp_enter_recovery`.
    pub(super) fn enter_recovery(&mut self, now: Instant, ece: bool) {
        self.stats.make().fast_recoveries += 1;
        if !self.board.is_any_retransmitted() {
            self.forget_retransmissions();
        }
        self.begin_undo();
        if !self.is_reducing() {
            self.prior_ssthresh = if ece { 0 } else { self.current_ssthresh() };
            self.begin_reduction(now);
        }
        self.state = CongestionState::Recovery;
        // PRR makes room for it, where something is delivered.
        self.forces_retransmission = !self.settings.recovery.prr || self.cc.is_in_charge();
    }

    /// Packets of which a retransmission is in flight, a tail-loss probe among them (Linux
    /// `tcp_init_undo`).
    pub(super) fn retransmissions_in_flight(&self) -> u32 {
        let probes = u32::from(self.probe.end.is_set() && self.probe.is_retransmit);
        self.board.retransmitted() + probes
    }

    /// Linux `tcp_enter_cwr`.
    pub(super) fn enter_cwr(&mut self, now: Instant) {
        self.prior_ssthresh = 0;
        if matches!(
            self.state,
            CongestionState::Open | CongestionState::Disorder
        ) {
            self.end_undo();
            self.begin_reduction(now);
            self.state = CongestionState::Cwr;
        }
    }

    /// Linux `tcp_init_cwnd_reduction`.
    pub(super) fn begin_reduction(&mut self, now: Instant) {
        self.recovery_point = self.board.next();
        self.probe.end = Mark::NONE;
        self.window.credit = 0;
        self.shrink_to_used();
        self.window.prior_cwnd = self.window.cwnd;
        self.reduction.make().prr = Prr::default();
        self.window.ssthresh = self.cc.on_congestion(&self.window, now);
        self.owes_cwr = true;
        if !self.settings.recovery.prr && !self.cc.is_in_charge() {
            self.window.cwnd = self.window.cwnd.min(self.window.ssthresh).max(1);
        }
    }

    /// RFC 7661 section 4.4.1: the reduction starts from the used part of the window.
    fn shrink_to_used(&mut self) {
        if self.settings.congestion.validation == Validation::Rfc7661
            && let Some(used) = self.usage.unvalidated(self.window.cwnd)
        {
            self.window.cwnd = used.max(self.board.packets_out()).min(self.window.cwnd);
        }
    }

    /// Linux `tcp_end_cwnd_reduction`.
    pub(super) fn end_reduction(&mut self) {
        if self.cc.is_in_charge() {
            return;
        }
        let stands = self.state == CongestionState::Cwr || self.has_undo();
        if self.window.ssthresh < SSTHRESH_INFINITE && stands {
            self.window.cwnd = self.window.ssthresh.max(1);
        }
    }

    /// Linux `tcp_current_ssthresh`.
    pub(super) fn current_ssthresh(&self) -> u32 {
        match self.is_reducing() {
            true => self.window.ssthresh,
            false => {
                let cwnd = self.window.cwnd;
                self.window.ssthresh.max((cwnd >> 1) + (cwnd >> 2))
            }
        }
    }
}
