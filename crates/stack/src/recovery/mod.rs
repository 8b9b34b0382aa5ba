//! Loss recovery: what is in flight, what of it is lost, and how much more may be sent.
//!
//! Decides from ACKs and from the times at which data was sent. Owns the scoreboard, round-trip
//! times, the retransmission timeout, the detection of losses, the congestion window with its
//! controller, and the samples of the delivery rate. It sees no packets and arms no timers: the
//! connection asks [`LossRecovery::deadline`]. The handshake and zero-window probes are the
//! connection's.
//!
//! Positions are *offsets*: sequence numbers unwrapped to 64 bits. Our SYN is offset 0, the first
//! byte of data offset 1; a FIN takes one offset after the data.
//!
//! Reading list: RFC 5681, 6298, 6582, 6675, 6937, 5682, 3522, 3708, 8985; Linux
//! `tcp_fastretrans_alert` and what it calls.

mod ack;
mod alert;
mod prr;
mod rack;
mod rate;
mod records;
mod rtt;
mod timers;
mod undo;
mod window;

use alloc::boxed::Box;
use core::time::Duration;

use base::settings::{Detection, RtoRule, SocketSettings};
use base::{CongestionState, Instant, Rate};

use crate::Arc;
use crate::cc::{CongestionControl, KnownPath, Window};
use crate::progress::{Mark, Progress};
use crate::rare::Rare;
use crate::tick::TickClock;

use prr::Prr;
use rack::Rack;
use rate::RateSampler;
pub(crate) use records::SpareFlight;
use records::{Retransmission, Scoreboard};
pub(crate) use rtt::RttEstimator;
use undo::Undo;
pub(crate) use window::SendRound;
use window::Usage;

/// Largest degree of reordering that is learned (Linux `tcp_max_reordering`).
const REORDERING_MAX: u32 = 300;

/// The content of an ACK for the sender, once the connection has accepted it.
#[derive(Clone, Debug)]
pub(crate) struct AckInput<'a> {
    pub(crate) now: Instant,
    /// Cumulative acknowledgment.
    pub(crate) ack: u64,
    /// SACK blocks as offsets [start, end); D-SACK still among them, first.
    pub(crate) sack: &'a [(u64, u64)],
    /// Round-trip time by the echoed timestamp, where one came (resolution 1 ms: zero is
    /// possible).
    pub(crate) timestamp_rtt: Option<Duration>,
    /// Send time (in the timestamp clock) that the peer echoed, for Eifel (RFC 3522).
    pub(crate) timestamp_echo: Option<u32>,
    /// The segment carried data, or SYN or FIN.
    pub(crate) has_data: bool,
    /// The window field changed something.
    pub(crate) is_window_update: bool,
    /// ECE is set, and ECN was agreed.
    pub(crate) ece: bool,
    /// There is unsent data that the peer's window permits (RFC 5682 step 2b asks).
    pub(crate) has_new_data: bool,
}

/// Result of an ACK.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AckOutcome {
    /// Bytes newly acknowledged cumulatively (SYN and FIN counted).
    pub(crate) acked_bytes: u64,
    /// Packets newly delivered (acknowledged or SACKed).
    pub(crate) delivered: u32,
    /// Packets newly marked lost.
    pub(crate) lost: u32,
    /// Duplicate ACK.
    pub(crate) is_duplicate: bool,
}

/// Which of the recovery timers is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecoveryTimer {
    /// Retransmission timeout (RFC 6298).
    Retransmit,
    /// Tail-loss probe (RFC 8985 section 7.2).
    LossProbe,
    /// RACK's reordering window ends (RFC 8985 section 6.2).
    Reorder,
}

/// Content of a tail-loss probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// One segment of new data, if there is one and the peer's window allows it, whatever the
    /// congestion window says; else a retransmission of this one.
    NewOr {
        /// First offset of the last segment.
        start: u64,
        /// Offset after it.
        end: u64,
    },
    /// Nothing (no data or already a probe is in flight).
    None,
}

/// Counters of loss recovery since the connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryStats {
    /// Fast recoveries that began.
    pub fast_recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail-loss probes sent.
    pub tlps: u64,
    /// Losses that a probe repaired (Linux `TCPLossProbeRecovery`).
    pub tlp_recoveries: u64,
    /// Timeouts that proved wrong (Linux `TCPSpuriousRTOs`).
    pub spurious_timeouts: u64,
    /// Reductions that were taken back.
    pub undos: u64,
    /// Duplicates that the peer reported.
    pub dsacks: u64,
    /// Packets retransmitted.
    pub retransmitted_packets: u64,
    /// Bytes retransmitted.
    pub retransmitted_bytes: u64,
    /// Times that packets were seen to be reordered.
    pub reordering_seen: u64,
    /// Invalid SACK blocks.
    pub sack_rejected: u64,
    /// Retransmissions that were lost again.
    pub lost_retransmissions: u64,
    /// The peer dropped what it had SACKed.
    pub renegings: u64,
    /// Reductions for ECN marks.
    pub ecn_reductions: u64,
    /// Slow starts after idle.
    pub restarts: u64,
}

/// Tail-loss probe in flight.
#[derive(Clone, Copy, Debug, Default)]
struct TailProbe {
    /// `next` when the probe was sent (RFC 8985 `TLP.end_seq`).
    end: Mark,
    /// The probe retransmitted the last segment.
    is_retransmit: bool,
    /// The connection was told to send one.
    is_due: bool,
}

/// Record of a window reduction, and of what else is rare.
#[derive(Clone, Debug, Default)]
struct Reduction {
    prr: Prr,
    undo: Undo,
    /// When the next packet of a paced connection may leave: its timers wait for that first.
    paced_until: Instant,
}

/// Loss recovery of one connection.
#[derive(Debug)]
pub(crate) struct LossRecovery {
    /// Shared with the rest of the connection until they change.
    settings: Arc<SocketSettings>,
    /// How losses are found; what the settings ask for counts from a clean state on.
    detection: Detection,
    mss: u32,
    sack_agreed: bool,
    timestamps: bool,
    cc: Box<dyn CongestionControl>,
    window: Window,
    state: CongestionState,
    board: Scoreboard,
    rtt: RttEstimator,
    rack: Rack,
    /// The present reduction, or the last.
    reduction: Rare<Reduction>,
    rate: RateSampler,
    usage: Usage,
    timer: Option<(RecoveryTimer, Instant)>,
    /// When the last of two or more packets in flight was sent, and the timer as it was set then:
    /// others that are sent at the same time do not change it.
    timer_of_burst: Option<(Instant, Option<(RecoveryTimer, Instant)>)>,
    /// The recovery ends when this is acknowledged (RFC 6675 `RecoveryPoint`; Linux `high_seq`).
    recovery_point: u64,
    /// Threshold before the reduction, for undoing it; 0: it is not undone.
    prior_ssthresh: u32,
    reordering: u32,
    timeouts: u32,
    /// A timeout is being tested for being spurious (RFC 5682).
    is_frto: bool,
    /// F-RTO sends new data before retransmissions.
    holds_retransmissions: bool,
    /// The last ACK showed that the peer took back what it SACKed: nothing is retransmitted until
    /// another ACK or the timeout.
    awaits_reneged: bool,
    /// One retransmission may be sent whatever the window says.
    forces_retransmission: bool,
    /// A timeout has not retransmitted its first segment yet.
    owes_timed_out: bool,
    /// The window was reduced, and CWR not sent yet.
    owes_cwr: bool,
    /// A controller that paces was in charge before.
    stays_paced: bool,
    probe: TailProbe,
    last_sent: Option<Instant>,
    pacing_rate: Rate,
    /// On most paths nothing is lost, so that there is nothing to count.
    stats: Rare<RecoveryStats>,
}

impl LossRecovery {
    /// For a connection that is not established yet. `mss`: payload of a full segment.
    pub(crate) fn new(
        settings: &Arc<SocketSettings>,
        mss: u32,
        cc: Box<dyn CongestionControl>,
        tick: TickClock,
    ) -> Self {
        Self {
            settings: Arc::clone(settings),
            detection: settings.recovery.detection,
            mss: mss.max(1),
            sack_agreed: false,
            timestamps: false,
            cc,
            window: Window::new(settings.congestion.initial_window.max(1)),
            state: CongestionState::Open,
            board: Scoreboard::default(),
            rtt: RttEstimator::new(&settings.recovery, tick),
            rack: Rack::default(),
            reduction: Rare::NONE,
            rate: RateSampler::default(),
            usage: Usage::default(),
            timer: None,
            timer_of_burst: None,
            recovery_point: 0,
            prior_ssthresh: 0,
            reordering: settings.recovery.dupack_threshold,
            timeouts: 0,
            is_frto: false,
            holds_retransmissions: false,
            awaits_reneged: false,
            forces_retransmission: false,
            owes_timed_out: false,
            owes_cwr: false,
            stays_paced: false,
            probe: TailProbe::default(),
            last_sent: None,
            pacing_rate: Rate::default(),
            stats: Rare::NONE,
        }
    }

    /// Applies the options agreed in the handshake.
    pub(crate) fn set_options(&mut self, sack: bool, timestamps: bool) {
        self.sack_agreed = sack;
        self.timestamps = timestamps;
    }

    /// The handshake is over. `rtt`: the time that it took, where nothing of it was retransmitted;
    /// `syn_retransmits`: how often our SYN or SYN-ACK was (rule 12.1).
    pub(crate) fn on_established(
        &mut self,
        now: Instant,
        rtt: Option<Duration>,
        syn_retransmits: u32,
    ) {
        self.recovery_point = self.una();
        // The handshake's packet counts as delivered, as in Linux.
        self.rate.count(1, false);
        match rtt {
            Some(rtt) => {
                self.rtt.on_min_sample(now, rtt, false);
                self.rtt.on_sample(&self.settings.recovery, rtt, 1, 1);
            }
            None => self.rtt.on_lost_handshake(&self.settings.recovery),
        }
        self.window.cwnd = self.initial_window();
        if syn_retransmits > 1 {
            self.window.cwnd = 1;
        }
        self.usage.reset(now, self.settings.congestion.validation);
        self.start_congestion(now);
        self.update_pacing_rate();
    }

    /// The congestion control begins.
    fn start_congestion(&mut self, now: Instant) {
        self.cc.on_start(&mut self.window, now);
        let path = KnownPath {
            now,
            mss: self.mss,
            delivered_total: self.rate.delivered(),
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
        };
        self.cc.on_path_known(&mut self.window, &path);
    }

    /// Our SYN, which left once, was acknowledged after this time: in Linux RACK takes it for what
    /// was delivered last (`tcp_clean_rtx_queue`).
    pub(crate) fn on_syn_delivered(&mut self, now: Instant, rtt: Duration) {
        if self.uses_rack() {
            self.rack.on_delivered(now, now - rtt, 1, false, None);
        }
    }

    /// Our SYN was retransmitted: without SACK that Loss ends when more is acknowledged (Linux
    /// `tcp_is_non_sack_preventing_reopen`).
    pub(crate) fn on_lost_syn(&mut self) {
        if !self.uses_sack() {
            self.state = CongestionState::Loss;
        }
    }

    /// Of two SYNs that crossed, Linux counts ours twice: as acknowledged, and as a listener's
    /// (`tcp_rcv_state_process`). What timeouts of it did is undone.
    pub(crate) fn on_crossed_syn(&mut self) {
        self.rate.count(1, false);
        self.owes_cwr = false;
    }

    /// The window was reduced before ECN was agreed: the peer is told with the first data.
    #[cold]
    pub(crate) const fn owe_cwr(&mut self) {
        self.owes_cwr = true;
    }

    /// The settings changed.
    pub(crate) fn configure(&mut self, settings: &Arc<SocketSettings>) {
        self.timer_of_burst = None;
        if self.settings.recovery.dupack_threshold != settings.recovery.dupack_threshold {
            self.reordering = settings.recovery.dupack_threshold;
        }
        let before = core::mem::replace(&mut self.settings, Arc::clone(settings));
        let was_paced = before.congestion.pacing_rate_max.is_some();
        self.stays_paced |= was_paced && self.is_linux();
        self.change_detection();
        self.rtt.configure(&before.recovery, &settings.recovery);
        self.update_pacing_rate();
    }

    /// Another way to find losses counts from when nothing is marked by the old one: SACKed data
    /// and counted duplicates mean different things.
    fn change_detection(&mut self) {
        let is_clean = self.state == CongestionState::Open
            && self.board.sacked() == 0
            && self.board.lost() == 0;
        if self.detection != self.settings.recovery.detection && is_clean {
            self.detection = self.settings.recovery.detection;
        }
    }

    pub(super) fn is_linux(&self) -> bool {
        self.settings.recovery.rto_rule == RtoRule::Linux
    }

    /// Another controller takes the window over as it is.
    pub(crate) fn set_congestion(&mut self, now: Instant, cc: Box<dyn CongestionControl>) {
        // Linux never turns pacing off again (`sk_pacing_status`), and the rate stays until an ACK.
        let rate = self.cc.pacing_rate();
        let is_linux = self.is_linux();
        self.stays_paced |= is_linux && rate.is_some();
        if is_linux {
            // The other one's reduction stands (`tcp_init_congestion_control`).
            self.prior_ssthresh = 0;
        }
        self.cc = cc;
        self.window.credit = 0;
        self.start_congestion(now);
        let is_paced_by_it = self.cc.pacing_rate().is_some();
        match rate.filter(|_| is_linux && !is_paced_by_it) {
            Some(rate) => self.pacing_rate = rate,
            None => self.update_pacing_rate(),
        }
    }

    /// Full segments carry `mss` bytes from now on.
    pub(crate) fn set_mss(&mut self, mss: u32) {
        self.mss = mss.max(1);
        self.update_pacing_rate();
    }

    /// Takes memory for what is about to be sent, where the host has some to spare.
    #[inline]
    pub(crate) fn take_memory(&mut self, spare: &mut SpareFlight) {
        self.board.take_memory(spare);
    }

    /// Gives the memory of what was sent back to the host, where all is acknowledged.
    #[inline]
    pub(crate) fn give_memory(&mut self, spare: &mut SpareFlight) {
        self.board.give_memory(spare);
    }

    /// `start..end` was sent for the first time, in segments of `segment` bytes (0: as one); where
    /// `has_fin`, the last offset is the FIN's.
    pub(crate) fn on_transmit(
        &mut self,
        now: Instant,
        (start, end): (u64, u64),
        segment: u32,
        has_fin: bool,
    ) {
        debug_assert_eq!(start, self.board.next(), "data leaves in order");
        self.tell_restart(now);
        let is_first = self.board.packets_out() == 0;
        let before = self.board.packets_out();
        let state = self.rate.on_sent(now, is_first);
        let whole = u32::try_from(end - start).unwrap_or(u32::MAX);
        let segment = if segment == 0 { whole } else { segment };
        self.board.transmit(now, end, segment, has_fin, state);
        let packets = self.board.packets_out() - before;
        self.last_sent = Some(now);
        if self.is_reducing() {
            self.reduction.make().prr.out += u64::from(packets);
        }
        if self.probe.is_due {
            self.on_probe_sent(now, false);
            return;
        }
        if self.timer_of_burst == Some((now, self.timer)) {
            return;
        }
        if !self.schedule_probe(now, false) {
            match self.timer {
                // The time since the first packet was sent counts (Linux `tcp_rearm_rto`).
                Some((RecoveryTimer::LossProbe, _)) if !is_first => {
                    self.arm_retransmit_for_head(now);
                }
                Some((RecoveryTimer::Retransmit | RecoveryTimer::Reorder, _)) if !is_first => {}
                _ => self.arm_retransmit(now),
            }
        }
        self.timer_of_burst = (self.board.packets_out() > 1).then_some((now, self.timer));
    }

    /// `start..end` was retransmitted in segments of `segment` bytes. `dated` and `timestamp`:
    /// when, by our clock and in our TSval.
    pub(crate) fn on_retransmit(
        &mut self,
        now: Instant,
        (start, end): (u64, u64),
        segment: u32,
        (dated, timestamp): (Instant, u32),
    ) {
        let state = self.rate.on_sent(now, false);
        let is_head = start <= self.board.una();
        let is_probe = self.probe.is_due;
        let retransmission = Retransmission {
            now: dated,
            segment,
            timestamp,
            state,
            // A probe counts as the packet that it retransmits (Linux `__tcp_retransmit_skb`).
            is_in_flight: !is_probe,
        };
        let packets = self.board.retransmit((start, end), &retransmission);
        if !is_probe {
            self.reduction.make().undo.on_retransmit(packets, timestamp);
        }
        self.forces_retransmission = false;
        let is_timed_out = core::mem::take(&mut self.owes_timed_out);
        self.stats.make().retransmitted_packets += u64::from(packets);
        self.stats.make().retransmitted_bytes += self.board.data_bytes(start, end);
        self.last_sent = Some(now);
        if is_probe {
            self.on_probe_sent(now, true);
            return;
        }
        if self.is_reducing() {
            self.reduction.make().prr.out += u64::from(packets);
        }
        if is_head && !matches!(self.timer, Some((RecoveryTimer::Reorder, _))) {
            self.timer = None;
            match is_timed_out {
                true => self.arm_unpaced(now),
                false => self.arm_retransmit(now),
            }
        }
    }

    /// Whether the new data that is sent now carries CWR where ECN was agreed: it is the first
    /// since the window was reduced, for whatever reason (RFC 3168 section 6.1.2).
    pub(crate) fn take_cwr(&mut self) -> bool {
        core::mem::take(&mut self.owes_cwr)
    }

    /// The next packet may be sent then at the earliest (Linux `tcp_wstamp_ns`).
    pub(crate) fn pace_until(&mut self, next: Instant) {
        self.reduction.make().paced_until = next;
        self.timer_of_burst = None;
    }

    /// Whether new data is sent before anything is retransmitted (RFC 5682 step 2b).
    pub(crate) fn wants_new_data(&self) -> bool {
        self.holds_retransmissions
    }

    /// Next range to retransmit in segments of `segment` bytes: at most `max_bytes`, within one
    /// record, lost and not retransmitted yet, where the window permits.
    pub(crate) fn poll_retransmit(&self, max_bytes: u32, segment: u32) -> Option<(u64, u64)> {
        if self.holds_retransmissions || self.awaits_reneged {
            return None;
        }
        let room = self.window.cwnd.saturating_sub(self.board.in_flight());
        if room == 0 && !self.forces_retransmission {
            return None;
        }
        self.board.first_to_retransmit(room, max_bytes, segment)
    }

    /// The record `start..end`, which is to be retransmitted, takes in the small ones behind it;
    /// see [`Scoreboard::join`]. Returns where it ends then.
    pub(crate) fn join(&mut self, range: (u64, u64), room: u32, window_end: u64) -> u64 {
        self.board.join(range, room, window_end)
    }

    /// When the latest data was sent, as it is dated.
    pub(crate) fn latest_sent(&self) -> Option<Instant> {
        self.board.latest_sent()
    }

    /// When data or a FIN was sent last, be it a retransmission.
    pub(crate) fn last_sent(&self) -> Option<Instant> {
        self.last_sent
    }

    /// When the first packet in flight that is not SACKed was sent last.
    pub(crate) fn head_sent(&self) -> Option<Instant> {
        self.board.head_sent()
    }

    /// Packets of new data that the congestion window permits now.
    pub(crate) fn allowance(&self) -> u32 {
        let mut in_flight = self.board.in_flight();
        if self.state == CongestionState::Disorder && !self.settings.recovery.limited_transmit {
            in_flight += self.board.sacked();
        }
        self.window.cwnd.saturating_sub(in_flight)
    }

    /// How far our stream has come.
    pub(crate) const fn progress(&self) -> &Progress {
        self.board.progress()
    }

    /// Acknowledged bytes that stay in memory.
    #[inline]
    pub(crate) fn kept_bytes(&self) -> u32 {
        self.board.kept_bytes()
    }

    /// First unacknowledged offset.
    pub(crate) fn una(&self) -> u64 {
        self.board.una()
    }

    /// Next offset to be sent.
    pub(crate) fn next(&self) -> u64 {
        self.board.next()
    }

    /// State of recovery.
    pub(crate) fn state(&self) -> CongestionState {
        self.state
    }

    /// The congestion window.
    pub(crate) fn window(&self) -> &Window {
        &self.window
    }

    /// Packets believed to be in the network.
    pub(crate) fn in_flight(&self) -> u32 {
        self.board.in_flight()
    }

    /// Packets sent and not acknowledged cumulatively.
    pub(crate) fn packets_out(&self) -> u32 {
        self.board.packets_out()
    }

    /// Of these, packets that the peer has reported (without SACK: duplicate ACKs).
    pub(crate) fn sacked(&self) -> u32 {
        self.board.sacked()
    }

    /// Of these, packets considered lost.
    pub(crate) fn lost(&self) -> u32 {
        self.board.lost()
    }

    /// Packets of which a retransmission is in flight.
    pub(crate) fn retransmitted(&self) -> u32 {
        self.board.retransmitted()
    }

    /// Whether the retransmission of a timeout has yet to be sent; nothing holds it back.
    pub(crate) fn owes_timed_out(&self) -> bool {
        self.owes_timed_out
    }

    /// Degree of reordering: duplicates that do not mean a loss yet.
    pub(crate) fn reordering(&self) -> u32 {
        self.reordering
    }

    /// Round-trip times and the timeout.
    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// How often the timeout was doubled.
    pub(crate) fn backoff(&self) -> u32 {
        self.rtt.backoff()
    }

    /// Doublings of the timeout no longer count from now on; the timeout itself stays.
    pub(crate) fn forget_backoff(&mut self) {
        self.rtt.forget_backoff();
    }

    /// Our timestamp in the first retransmission of what is being repaired.
    pub(crate) fn first_retransmission(&self) -> Option<u32> {
        self.reduction.as_ref()?.undo.first_retransmission()
    }

    /// Timeouts in a row without progress.
    pub(crate) fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// The last delivery rate, and whether the application limited it.
    pub(crate) fn delivery_rate(&self) -> Option<(Rate, bool)> {
        self.rate.rate(self.mss)
    }

    /// Packets delivered since the connection began.
    pub(crate) fn delivered(&self) -> u64 {
        self.rate.delivered()
    }

    /// Of these, delivered by ACKs with ECE.
    pub(crate) fn delivered_ce(&self) -> u64 {
        self.rate.delivered_ce()
    }

    /// Counters.
    pub(crate) fn stats(&self) -> RecoveryStats {
        self.stats.value()
    }

    /// Name of the congestion control.
    pub(crate) fn congestion_name(&self) -> &'static str {
        self.cc.name()
    }

    /// The congestion control.
    pub(crate) fn cc(&self) -> &dyn CongestionControl {
        &*self.cc
    }

    /// Whether SACK blocks are believed.
    pub(crate) fn uses_sack(&self) -> bool {
        self.sack_agreed && self.detection != Detection::NewReno
    }

    /// Whether losses are found by time.
    fn uses_rack(&self) -> bool {
        self.uses_sack() && self.detection == Detection::Rack
    }

    /// Whether the window falls to its threshold (Linux `tcp_in_cwnd_reduction`).
    fn is_reducing(&self) -> bool {
        matches!(self.state, CongestionState::Cwr | CongestionState::Recovery)
    }

    fn initial_window(&self) -> u32 {
        self.settings.congestion.initial_window.max(1)
    }
}

#[cfg(test)]
mod tests;
