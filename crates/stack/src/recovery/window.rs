//! Changes of the congestion window without an ACK: after idle times, and for unused windows.
//!
//! Rules 12.2, 12.6 and 12.7; RFC 5681 section 4.1, RFC 2861, RFC 7661; Linux
//! `tcp_cwnd_validate`, `tcp_slow_start_after_idle_check`, `tcp_update_pacing_rate`.

use alloc::boxed::Box;
use core::time::Duration;

use base::settings::Validation;
use base::{CongestionState, Instant, Rate};

use super::LossRecovery;
use crate::progress::Mark;

/// How long a window that is not used stays as it is (RFC 7661 section 4.4.3).
const UNVALIDATED_MAX: Duration = Duration::from_secs(300);
/// Least time over which the used window is measured (RFC 7661 section 4.2).
const MEASUREMENT_MIN: Duration = Duration::from_secs(1);

/// How much of the window is used.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    /// The round ends when this is acknowledged.
    round_end: u64,
    /// Most packets in flight since the window was last the limit.
    used: u32,
    /// When it was last the limit, or last reduced for not being so.
    limited_at: Instant,
    /// Pipe estimate, where it is measured.
    pipe: Option<Box<Pipe>>,
}

/// How a round of sending ended that had something to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendRound {
    /// There was more to send, and the congestion window forbade it.
    pub(crate) is_window_limited: bool,
    /// Something was sent.
    pub(crate) has_sent: bool,
    /// A writer waits for room in the send buffer.
    pub(crate) writer_waits: bool,
}

/// RFC 7661's pipeACK: most packets acknowledged in one recent round-trip time.
#[derive(Clone, Debug)]
struct Pipe {
    round_began: Instant,
    acked: u32,
    /// Most of this measurement period and of the one before; none before the first round.
    most: Option<[u32; 2]>,
    period_began: Instant,
    /// When the window stopped being used.
    unvalidated_since: Option<Instant>,
}

impl Pipe {
    /// A measurement begins.
    const fn new(now: Instant) -> Self {
        Self {
            round_began: now,
            acked: 0,
            most: None,
            period_began: now,
            unvalidated_since: None,
        }
    }
}

impl Usage {
    /// The connection is established. `rule`: by which a window must be used.
    pub(super) fn reset(&mut self, now: Instant, rule: Validation) {
        *self = Self {
            limited_at: now,
            pipe: (rule == Validation::Rfc7661).then(|| Box::new(Pipe::new(now))),
            ..Self::default()
        };
    }

    /// The controller or a loss set the window: what is unused is measured anew (Linux
    /// `snd_cwnd_stamp`).
    pub(super) const fn on_window_set(&mut self, now: Instant) {
        self.limited_at = now;
    }

    /// `acked` packets were acknowledged; measures how many are in a round trip.
    pub(super) fn on_ack(&mut self, now: Instant, acked: u32, srtt: Option<Duration>) {
        let pipe = self.pipe.get_or_insert_with(|| Box::new(Pipe::new(now)));
        pipe.acked = pipe.acked.saturating_add(acked);
        let Some(srtt) = srtt else { return };
        if now.since(pipe.round_began) < srtt {
            return;
        }
        let [current, before] = pipe.most.unwrap_or_default();
        pipe.most = Some([current.max(pipe.acked), before]);
        pipe.acked = 0;
        pipe.round_began = now;
        if now.since(pipe.period_began) >= (srtt * 3).max(MEASUREMENT_MIN) {
            pipe.most = pipe.most.map(|[current, _]| [0, current]);
            pipe.period_began = now;
        }
    }

    /// The used window, where it is less than half of `cwnd` (RFC 7661 section 4.3).
    pub(super) fn unvalidated(&self, cwnd: u32) -> Option<u32> {
        let [current, before] = self.pipe.as_ref()?.most?;
        let used = current.max(before);
        (used < cwnd / 2).then_some(used)
    }
}

impl LossRecovery {
    /// A packet was written, or the peer's window has opened for what waits. After an idle time
    /// longer than the timeout the window shrinks, with each packet until one is sent (Linux
    /// `tcp_slow_start_after_idle_check`).
    #[inline]
    pub(crate) fn before_transmit(&mut self, now: Instant) {
        if self.board.packets_out() == 0 {
            self.begin_anew(now);
        }
    }

    /// As [`Self::before_transmit`], with nothing in flight.
    #[inline(never)]
    fn begin_anew(&mut self, now: Instant) {
        let Some(last_sent) = self.last_sent else {
            return;
        };
        let idle = now.since(last_sent);
        let rto = self.rtt.rto();
        let is_wanted =
            self.settings.congestion.slow_start_after_idle && self.cc.wants_validation();
        if is_wanted && idle > rto {
            self.restart(now, idle, rto);
        }
    }

    /// Data is sent with nothing in flight (Linux `tcp_event_data_sent`): the controller is told
    /// how long that was so.
    pub(super) fn tell_restart(&mut self, now: Instant) {
        if self.board.packets_out() == 0
            && let Some(last_sent) = self.last_sent
        {
            let idle = now.since(last_sent);
            self.cc.on_restart(&mut self.window, now, idle);
        }
    }

    /// Linux `tcp_cwnd_restart`.
    fn restart(&mut self, now: Instant, idle: Duration, rto: Duration) {
        let least = self.initial_window().min(self.window.cwnd);
        self.window.ssthresh = self.current_ssthresh();
        let mut left = idle.saturating_sub(rto);
        while !left.is_zero() && self.window.cwnd > least {
            self.window.cwnd >>= 1;
            left = left.saturating_sub(rto);
        }
        self.window.cwnd = self.window.cwnd.max(least);
        self.usage.limited_at = now;
        self.usage.used = 0;
        self.stats.make().restarts += 1;
    }

    /// A round of sending is over.
    pub(crate) fn after_transmit(&mut self, now: Instant, round: &SendRound) {
        self.end_test_without_data();
        self.note_use(now, round);
    }

    /// The use of the window is judged: by each round, in the middle of a write too (rule 12.2).
    pub(crate) fn note_use(&mut self, now: Instant, round: &SendRound) {
        let SendRound {
            is_window_limited,
            has_sent,
            writer_waits,
        } = *round;
        let out = self.board.packets_out();
        let is_limited = is_window_limited || self.board.in_flight() >= self.window.cwnd;
        let learns = has_sent || is_limited;
        let is_new_round = self.board.una() >= self.usage.round_end;
        let is_news = is_new_round
            || is_limited
            || (!self.window.is_limited && out > self.window.max_packets_out);
        if learns && is_news {
            self.window.is_limited = is_limited;
            self.window.max_packets_out = out;
            self.usage.round_end = self.board.next();
        }
        self.validate(now, learns.then_some(writer_waits));
    }

    /// A round of sending had nothing to send, from which nothing is learned (Linux
    /// `tcp_write_xmit`).
    #[inline]
    pub(crate) fn after_nothing_to_send(&mut self, now: Instant) {
        self.mark_app_limited();
        self.end_test_without_data();
        self.validate(now, None);
    }

    /// Whether the window stays as it is while nothing is sent (RFC 7661's does not).
    pub(crate) fn is_settled_by_use(&self) -> bool {
        self.settings.congestion.validation != Validation::Rfc7661
    }

    /// Ends the test for a spurious timeout if there was no new data to send.
    fn end_test_without_data(&mut self) {
        if self.holds_retransmissions && self.board.next() <= self.recovery_point {
            self.holds_retransmissions = false;
            self.is_frto = false;
        }
    }

    /// Whether the window may grow, or shall shrink, by what was used of it. `learned`: the round
    /// said something of that, and whether a writer waits for room.
    #[inline]
    fn validate(&mut self, now: Instant, learned: Option<bool>) {
        match (self.settings.congestion.validation, learned) {
            (Validation::Off, _) => self.window.is_limited = true,
            (Validation::Linux, Some(writer_waits)) => self.validate_by_use(now, writer_waits),
            (Validation::Linux, None) => {}
            (Validation::Rfc7661, _) => self.validate_by_pipe(now),
        }
    }

    /// Rule 12.7 (Linux `tcp_cwnd_application_limited`).
    fn validate_by_use(&mut self, now: Instant, writer_waits: bool) {
        if self.window.may_grow() {
            self.usage.used = 0;
            self.usage.limited_at = now;
            return;
        }
        self.usage.used = self.usage.used.max(self.board.packets_out());
        // Linux has one switch for this and for idle times.
        let is_wanted =
            self.settings.congestion.slow_start_after_idle && self.cc.wants_validation();
        if !is_wanted || now.since(self.usage.limited_at) < self.rtt.rto() {
            return;
        }
        if self.state == CongestionState::Open && !writer_waits {
            let used = self.usage.used.max(self.initial_window());
            if used < self.window.cwnd {
                self.window.ssthresh = self.current_ssthresh();
                self.window.cwnd = u32::midpoint(self.window.cwnd, used);
            }
            self.usage.used = 0;
        }
        self.usage.limited_at = now;
    }

    /// RFC 7661 sections 4.3 and 4.4.3: an unused window does not grow, and shrinks after long.
    fn validate_by_pipe(&mut self, now: Instant) {
        let unvalidated = self.usage.unvalidated(self.window.cwnd);
        self.window.is_limited = unvalidated.is_none();
        let Some(pipe) = &mut self.usage.pipe else {
            return;
        };
        if unvalidated.is_none() {
            pipe.unvalidated_since = None;
            return;
        }
        let since = *pipe.unvalidated_since.get_or_insert(now);
        if now.since(since) < UNVALIDATED_MAX || !self.cc.wants_validation() {
            return;
        }
        let cwnd = self.window.cwnd;
        self.window.ssthresh = self.window.ssthresh.max(cwnd / 4 * 3);
        self.window.cwnd = (cwnd / 2).max(self.initial_window().min(cwnd));
        if let Some(pipe) = &mut self.usage.pipe {
            pipe.unvalidated_since = Some(now);
        }
    }

    /// The application has nothing more to send, and nothing waits in the local queue: rate
    /// samples say so until this is delivered (Linux `tcp_rate_check_app_limited`).
    pub(crate) fn mark_app_limited(&mut self) {
        let in_flight = self.board.in_flight();
        if in_flight < self.window.cwnd && self.board.lost() <= self.board.retransmitted() {
            self.rate.mark_app_limited(in_flight);
        }
    }

    /// The path takes segments of `mss` bytes only, or of `longest` with the options of now: larger
    /// ones in flight are lost, without being a sign of congestion (Linux `tcp_simple_retransmit`).
    /// The window keeps its packets, so that it holds fewer bytes.
    pub(crate) fn on_mtu_change(&mut self, now: Instant, mss: u32, longest: u32) {
        self.set_mss(mss);
        if self.board.mark_larger(longest) {
            self.retransmit_without_reduction(now);
            self.holds_retransmissions = false;
            // In Linux the timer stays, unless the first segment in flight is retransmitted.
            if !self.is_linux() {
                self.arm_retransmit(now);
            }
        }
    }

    /// A probe of another MTU is sent. It counts twice: if it is lost, it is retransmitted (Linux
    /// `tcp_mtu_probe`).
    pub(crate) fn on_mtu_probe_sent(&mut self) {
        self.window.cwnd = (self.window.cwnd - 1).max(1);
    }

    /// Segments fill packets of `after` bytes in place of `before`: the window keeps its bytes
    /// (Linux `tcp_mtup_probe_success`).
    pub(crate) fn on_mtu_probe_acked(&mut self, before: u16, after: u16) {
        let cwnd = u64::from(self.window.cwnd) * u64::from(before) / u64::from(after.max(1));
        self.window.cwnd = u32::try_from(cwnd).unwrap_or(u32::MAX).max(1);
        self.window.credit = 0;
        self.window.ssthresh = self.current_ssthresh();
    }

    /// Returns the window that a forgotten probe was charged.
    pub(crate) fn on_mtu_probe_forgotten(&mut self) {
        self.window.cwnd = self.window.cwnd.saturating_add(1).min(self.window.clamp);
    }

    /// `start..end` was an MTU probe and is lost, without being a sign of congestion: a recovery
    /// that began with it is undone.
    pub(crate) fn on_mtu_probe_lost(&mut self, now: Instant, start: u64, end: u64) {
        if self.began_at(start) {
            self.undo_reduction(false);
        }
        let start = start.max(self.board.una());
        if start < end {
            self.board.mark_all_in(start, end);
            self.retransmit_without_reduction(now);
        }
    }

    /// Whether the present recovery began with the loss of what starts at `start`.
    pub(crate) fn began_at(&self, start: u64) -> bool {
        self.state == CongestionState::Recovery && self.undo_marker() == Mark::at(start)
    }

    fn retransmit_without_reduction(&mut self, now: Instant) {
        if !self.uses_sack() {
            // Nothing is learned about reordering (`tcp_simple_retransmit`).
            self.cut_duplicates();
        }
        if self.state != CongestionState::Loss {
            self.recovery_point = self.board.next();
            self.window.ssthresh = self.current_ssthresh();
            self.prior_ssthresh = 0;
            self.end_undo();
            self.is_frto = false;
            self.state = CongestionState::Loss;
            if self.is_linux() {
                // CUBIC's curve ends as by a timeout (`tcp_set_ca_state`).
                self.cc.on_timeout(&mut self.window, now);
            }
        }
        self.forces_retransmission = true;
    }

    /// The pacing rate, used or not (rule 6.8).
    pub(crate) fn pacing_rate(&self) -> Rate {
        self.cc
            .pacing_rate()
            .map_or(self.pacing_rate, |rate| self.bounded(rate))
    }

    /// Whether this connection is paced.
    pub(crate) fn is_paced(&self) -> bool {
        self.settings.congestion.pacing
            || self.stays_paced
            || self.settings.congestion.pacing_rate_max.is_some()
            || self.cc.pacing_rate().is_some()
    }

    /// Linux `tcp_update_pacing_rate`.
    pub(super) fn update_pacing_rate(&mut self) {
        let window = &self.window;
        let percent = match window.cwnd < window.ssthresh / 2 {
            true => self.settings.congestion.pacing_ss_percent,
            false => self.settings.congestion.pacing_ca_percent,
        };
        let packets = u64::from(window.cwnd.max(self.board.packets_out()));
        let bytes = packets * u64::from(self.mss);
        let bytes = bytes.saturating_mul(percent.into()) / 100;
        // Before the first sample Linux divides by one microsecond.
        let least = Duration::from_micros(1);
        let srtt = self.rtt.srtt().unwrap_or(least).max(least);
        self.pacing_rate = self.bounded(Rate::of(bytes, srtt));
    }

    fn bounded(&self, rate: Rate) -> Rate {
        self.settings
            .congestion
            .pacing_rate_max
            .map_or(rate, |max| rate.min(max))
    }
}
