//! Detects unnecessary window reductions and undoes them.
//!
//! Remembers what a recovery retransmitted. They were spurious if the ACKs that end it echo a
//! timestamp from before the first retransmission (Eifel, RFC 3522), or when every retransmission
//! was reported as a duplicate (D-SACK, RFC 3708). Linux `tcp_may_undo`, `tcp_packet_delayed`.
//!
//! A timeout is also tested with new data (F-RTO, RFC 5682; Linux `tcp_process_loss`).

use base::CongestionState;

use super::LossRecovery;
use super::ack::Pass;
use crate::progress::Mark;

/// State needed to undo the present recovery.
#[derive(Clone, Debug, Default)]
pub(super) struct Undo {
    /// Acknowledged offset when the recovery began; unset: nothing to undo.
    pub(super) marker: Mark,
    /// Retransmissions not reported as duplicates yet; `None`: nothing was retransmitted.
    pending: Option<u32>,
    /// Our timestamp in the first retransmission.
    first_retransmission: Option<u32>,
}

impl Undo {
    /// A recovery begins at `una` with `retransmitted` retransmissions in flight already.
    pub(super) fn begin(&mut self, una: u64, retransmitted: u32) {
        self.marker = Mark::at(una);
        self.pending = (retransmitted > 0).then_some(retransmitted);
    }

    /// There is nothing to undo any more.
    pub(super) fn end(&mut self) {
        self.marker = Mark::NONE;
    }

    /// Nothing that was retransmitted is outstanding.
    pub(super) fn forget_retransmissions(&mut self) {
        self.first_retransmission = None;
    }

    /// Our timestamp in the first retransmission of what is being repaired (Linux `retrans_stamp`).
    pub(super) const fn first_retransmission(&self) -> Option<u32> {
        self.first_retransmission
    }

    pub(super) fn on_retransmit(&mut self, packets: u32, timestamp: u32) {
        self.first_retransmission.get_or_insert(timestamp);
        self.pending = Some(self.pending.unwrap_or(0).saturating_add(packets));
    }

    /// `packets` of the data up to `end` arrived twice.
    pub(super) fn on_duplicate(&mut self, end: u64, packets: u32) {
        if self.marker.get().is_some_and(|marker| end > marker)
            && let Some(pending) = &mut self.pending
        {
            *pending = pending.saturating_sub(packets);
        }
    }

    /// Every retransmission was spurious.
    pub(super) fn is_all_duplicate(&self) -> bool {
        self.marker.is_set() && self.pending == Some(0)
    }

    /// Whether the ACK that advanced answers a packet that was only delayed. `echo`: the timestamp
    /// that it echoes; `is_certain`: it is known that nothing was retransmitted.
    pub(super) fn was_late(&self, echo: Option<u32>, is_certain: bool) -> bool {
        match self.first_retransmission {
            Some(first) => echo.is_some_and(|echo| is_before(echo, first)),
            None => is_certain,
        }
    }
}

impl LossRecovery {
    /// A reduction begins that may prove wrong.
    pub(super) fn begin_undo(&mut self) {
        let (una, retransmitted) = (self.board.una(), self.retransmissions_in_flight());
        self.reduction.make().undo.begin(una, retransmitted);
    }

    /// There is nothing to undo any more.
    pub(super) fn end_undo(&mut self) {
        if let Some(reduction) = self.reduction.as_mut() {
            reduction.undo.end();
        }
    }

    /// Nothing that was retransmitted is outstanding.
    pub(super) fn forget_retransmissions(&mut self) {
        if let Some(reduction) = self.reduction.as_mut() {
            reduction.undo.forget_retransmissions();
        }
    }

    /// Acknowledged offset when the reduction began that may be undone.
    pub(super) fn undo_marker(&self) -> Mark {
        self.reduction
            .as_ref()
            .map_or(Mark::NONE, |reduction| reduction.undo.marker)
    }

    /// Whether there is a reduction that may be undone.
    pub(super) fn has_undo(&self) -> bool {
        self.undo_marker().is_set()
    }

    fn is_all_duplicate(&self) -> bool {
        let reduction = self.reduction.as_ref();
        reduction.is_some_and(|reduction| reduction.undo.is_all_duplicate())
    }

    /// Linux `tcp_may_undo`.
    fn may_undo(&self, echo: Option<u32>) -> bool {
        self.settings.recovery.undo
            && self.has_undo()
            && (self.is_all_duplicate() || self.was_late(echo))
    }

    /// Linux `tcp_packet_delayed`.
    fn was_late(&self, echo: Option<u32>) -> bool {
        // Without SACK the mark of the first retransmission may have been cleared at the recovery
        // point.
        let is_certain = self.uses_sack() || self.board.una() < self.recovery_point;
        // An echo of 0 is not a timestamp of ours.
        let echo = echo.filter(|echo| self.timestamps && *echo != 0);
        match self.reduction.as_ref() {
            Some(reduction) => reduction.undo.was_late(echo, is_certain),
            None => is_certain,
        }
    }

    /// Linux `tcp_undo_cwnd_reduction`.
    pub(super) fn undo_reduction(&mut self, unmark: bool) {
        if unmark {
            // In Linux a retransmission is in flight still, even if its segment is lost later.
            let is_linux = self.is_linux();
            self.board.unmark_lost(is_linux);
        }
        if self.prior_ssthresh > 0 {
            self.window.cwnd = self.cc.undo(&self.window).min(self.window.clamp).max(1);
            // An undone reduction is not signalled by CWR (Linux `tcp_ecn_withdraw_cwr`).
            self.owes_cwr &= self.window.ssthresh >= self.prior_ssthresh;
            self.window.ssthresh = self.window.ssthresh.max(self.prior_ssthresh);
        }
        self.end_undo();
        self.rack.is_advanced = true;
        self.stats.make().undos += 1;
    }

    /// Everything below the recovery point is acknowledged (Linux `tcp_try_undo_recovery`). True:
    /// without SACK the state stays until something above it is, so that late duplicates start
    /// nothing (RFC 6582 section 5).
    pub(super) fn try_undo_recovery(&mut self, echo: Option<u32>) -> bool {
        if self.may_undo(echo) {
            self.undo_reduction(false);
        } else {
            self.rack.on_recovery_end();
        }
        if self.stays_without_sack() {
            return true;
        }
        self.state = CongestionState::Open;
        false
    }

    /// Linux `tcp_is_non_sack_preventing_reopen`.
    fn stays_without_sack(&mut self) -> bool {
        let stays = !self.uses_sack() && self.board.una() == self.recovery_point;
        if stays && !self.board.is_any_retransmitted() {
            self.forget_retransmissions();
        }
        stays
    }

    /// A partial ACK in Recovery (Linux `tcp_try_undo_partial`). True: nothing more is marked.
    pub(super) fn try_undo_partial(&mut self, pass: &Pass) -> bool {
        let may_undo = self.settings.recovery.undo && self.has_undo();
        if !may_undo || !self.was_late(pass.echo) {
            return false;
        }
        // The hole was filled by the original: the order was wrong, nothing was lost.
        self.on_reordering(pass.prior_una);
        if self.board.retransmitted() > 0 {
            return true;
        }
        if !self.board.is_any_retransmitted() {
            self.forget_retransmissions();
        }
        self.undo_reduction(true);
        self.keep_open();
        false
    }

    /// All retransmissions were duplicates (Linux `tcp_try_undo_dsack`).
    pub(super) fn try_undo_dsack(&mut self) -> bool {
        if !self.settings.recovery.undo || !self.is_all_duplicate() {
            return false;
        }
        self.rack.on_undo();
        self.undo_reduction(false);
        true
    }

    /// Linux `tcp_try_undo_loss`.
    fn try_undo_loss(&mut self, echo: Option<u32>, by_frto: bool) -> bool {
        if !by_frto && !self.may_undo(echo) {
            return false;
        }
        self.undo_reduction(true);
        self.stats.make().spurious_timeouts += 1;
        self.timeouts = 0;
        self.is_frto = false;
        if !self.stays_without_sack() && (by_frto || self.uses_sack()) {
            self.state = CongestionState::Open;
        }
        true
    }

    /// An ACK in Loss (Linux `tcp_process_loss`).
    pub(super) fn process_loss(&mut self, pass: &Pass) {
        let is_recovered = self.board.una() >= self.recovery_point;
        if pass.is_progress && self.try_undo_loss(pass.echo, false) {
            return;
        }
        if self.is_frto && self.test_timeout(pass, is_recovered) {
            return;
        }
        if is_recovered {
            self.try_undo_recovery(pass.echo);
            return;
        }
        if self.uses_sack() {
            return;
        }
        // Duplicate ACKs below the recovery point answer spurious retransmissions; above it they
        // count.
        if self.board.next() > self.recovery_point && pass.duplicates > 0 {
            self.add_duplicates(pass);
        } else if pass.is_progress {
            self.board.set_duplicates(0);
        }
    }

    /// F-RTO (RFC 5682 section 2.1 and 3.1). True: the ACK needs no more treatment.
    fn test_timeout(&mut self, pass: &Pass, is_recovered: bool) -> bool {
        // Step 3b: what was sent once only arrived, so not everything was lost.
        if pass.original_arrived && self.try_undo_loss(pass.echo, true) {
            return true;
        }
        if self.board.next() > self.recovery_point {
            // Step 3a: the new data arrived, and the hole is still there.
            self.is_frto &= !(pass.has_sacked || pass.duplicates > 0);
        } else if pass.is_progress && !is_recovered {
            // Step 2b: new data instead of retransmissions, if there is any.
            self.recovery_point = self.board.next();
            self.is_frto = pass.has_new_data;
            self.holds_retransmissions = pass.has_new_data;
            return pass.has_new_data;
        }
        false
    }
}

/// Whether timestamp `a` is older than `b` (RFC 7323 section 5.2).
pub(super) fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_of_all_retransmissions_prove_it_wrong() {
        let mut undo = Undo::default();
        undo.begin(100, 0);
        assert!(!undo.is_all_duplicate(), "nothing was retransmitted");
        undo.on_retransmit(2, 7);
        undo.on_duplicate(200, 1);
        undo.on_duplicate(90, 1);
        assert!(
            !undo.is_all_duplicate(),
            "the second one is of an older time"
        );
        undo.on_duplicate(300, 1);
        assert!(undo.is_all_duplicate());
    }

    #[test]
    fn an_older_echo_proves_it_wrong() {
        let mut undo = Undo::default();
        undo.begin(100, 0);
        assert!(undo.was_late(None, true));
        undo.on_retransmit(1, 5);
        assert!(undo.was_late(Some(4), true) && undo.was_late(Some(u32::MAX), true));
        assert!(!undo.was_late(Some(5), true) && !undo.was_late(None, true));
    }
}
