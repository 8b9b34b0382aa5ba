//! Processing of one ACK: marks what arrived, measures, and hands the rest to the state machine.
//!
//! The order of the steps is Linux's `tcp_ack`: SACK blocks first, then the cumulative
//! acknowledgment, then probes, then losses and the state, and the window last.

use core::time::Duration;

use base::settings::{RtoRule, Validation};
use base::tcp::SackBlocks;
use base::{CongestionState, Instant};

use super::prr::PrrInput;
use super::rack::Rack;
use super::rate::{PendingSample, RateSampler};
use super::records::{Delivered, Duplicate, Scoreboard};
use super::undo::is_before;
use super::{AckInput, AckOutcome, LossRecovery, REORDERING_MAX};
use crate::cc::AckSample;
use crate::progress::Mark;

/// State during the processing of one ACK.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) now: Instant,
    pub(super) echo: Option<u32>,
    pub(super) ece: bool,
    pub(super) has_new_data: bool,
    pub(super) prior_una: u64,
    prior_highest: u64,
    prior_sacked: u32,
    prior_in_flight: u32,
    /// The cumulative acknowledgment advanced.
    pub(super) is_progress: bool,
    /// Duplicate ACKs that this one is (0 or 1).
    pub(super) duplicates: u32,
    /// Packets acknowledged cumulatively.
    pub(super) acked: u32,
    /// Data that was retransmitted was acknowledged.
    retransmitted_acked: bool,
    /// Data from before the recovery arrived that was sent only once.
    pub(super) original_arrived: bool,
    /// Something was newly SACKed.
    pub(super) has_sacked: bool,
    /// A duplicate was reported.
    pub(super) is_dsack: bool,
    /// The duplicate is that of the tail-loss probe.
    is_dsack_of_probe: bool,
    /// The timer is to be set anew.
    pub(super) sets_timer: bool,
    /// A retransmission was found lost.
    pub(super) lost_retransmission: bool,
    acked_sent: SentSpan,
    sacked_sent: SentSpan,
    /// Lowest offset of what arrived without having been retransmitted.
    lowest_original: u64,
    /// Round-trip time of the latest packet that arrived.
    latest_rtt: Option<Duration>,
    sample: PendingSample,
}

/// First and last sending time of what was delivered.
#[derive(Clone, Copy, Debug, Default)]
struct SentSpan {
    first: Option<Instant>,
    last: Option<Instant>,
}

impl SentSpan {
    fn add(&mut self, sent: Instant) {
        self.first.get_or_insert(sent);
        self.last = Some(sent);
    }
}

/// What is told of newly delivered data, cumulatively acknowledged or SACKed.
struct Arrivals<'a> {
    /// The recovery ends when this is acknowledged.
    recovery_point: u64,
    min_rtt: Option<Duration>,
    rack: &'a mut Rack,
    rate: &'a mut RateSampler,
}

impl Arrivals<'_> {
    /// `tells_order`: it arrived as it was last sent, so that what was sent before it is late.
    fn add(&mut self, piece: &Delivered<'_>, pass: &mut Pass, tells_order: bool) {
        let record = piece.record;
        if tells_order {
            let was_retransmitted = record.was_retransmitted;
            self.rack.on_delivered(
                pass.now,
                record.sent,
                piece.end,
                was_retransmitted,
                self.min_rtt,
            );
        }
        self.rate
            .on_delivered(&mut pass.sample, record.sent, piece.end, &record.state);
        if !record.was_retransmitted {
            pass.original_arrived |= piece.end <= self.recovery_point;
            pass.lowest_original = pass.lowest_original.min(piece.start);
        }
    }
}

impl LossRecovery {
    /// An ACK came.
    pub(crate) fn on_ack(&mut self, input: &AckInput<'_>) -> AckOutcome {
        if input.ack < self.board.una() {
            self.timer_of_burst = None;
            return self.on_old_ack(input);
        }
        self.on_ack_of_nothing();
        if self.board.packets_out() == 0 && input.sack.is_empty() && !self.awaits_probe_ack() {
            return AckOutcome::default();
        }
        let mut pass = self.begin_pass(input);
        let una_before = self.board.una();
        let (delivered_before, lost_before) = (self.rate.delivered(), self.board.lost_total());
        let was_empty = self.board.packets_out() == 0;
        self.process_sack(input, &mut pass);
        if pass.is_progress {
            self.timeouts = 0;
            self.owes_timed_out = false;
            self.process_cumulative(input.ack.min(self.board.next()), &mut pass);
        }
        self.update_rtt(input, &mut pass);
        if was_empty {
            if pass.is_dsack {
                self.alert(&mut pass);
            }
            self.process_probe_ack(input, &pass);
            return AckOutcome::default();
        }
        self.rack
            .adapt(pass.sample.prior_delivered(), self.rate.delivered());
        self.process_probe_ack(input, &pass);
        let is_news = input.has_data || input.is_window_update || pass.acked > 0;
        let is_plain = is_news && !(pass.has_sacked || pass.ece || pass.is_dsack);
        if !is_plain || self.state != CongestionState::Open {
            if !is_news && !pass.is_progress && !pass.is_dsack {
                pass.duplicates = u32::from(input.ack == una_before);
            }
            self.alert(&mut pass);
        }
        if pass.sets_timer {
            self.set_timer(pass.now);
        }
        let delivered = self.rate.delivered() - delivered_before;
        let lost = self.board.lost_total().saturating_sub(lost_before);
        let delivered = u32::try_from(delivered).unwrap_or(u32::MAX);
        let lost = u32::try_from(lost).unwrap_or(u32::MAX);
        self.control_congestion(&pass, delivered, lost);
        self.change_detection();
        AckOutcome {
            acked_bytes: self.board.una() - una_before,
            delivered,
            lost,
            is_duplicate: pass.duplicates > 0,
        }
    }

    /// An ACK came that was not reordered: all that it does where nothing is in flight and it
    /// carries no SACK blocks.
    #[inline]
    pub(crate) fn on_ack_of_nothing(&mut self) {
        self.timer_of_burst = None;
        self.probe.is_due = false;
        self.holds_retransmissions = false;
    }

    /// A reordered ACK has news only in its SACK blocks (Linux `tcp_ack`, `old_ack`).
    fn on_old_ack(&mut self, input: &AckInput<'_>) -> AckOutcome {
        let mut pass = self.begin_pass(input);
        let (counted, lost) = (self.rate.counted(), self.board.lost_total());
        self.process_sack(input, &mut pass);
        if self.board.packets_out() > 0 || pass.is_dsack {
            self.alert(&mut pass);
        }
        let delivered = self.rate.delivered() - counted.0;
        self.rate.count_again_from(counted);
        let lost = self.board.lost_total().saturating_sub(lost);
        AckOutcome {
            delivered: u32::try_from(delivered).unwrap_or(u32::MAX),
            lost: u32::try_from(lost).unwrap_or(u32::MAX),
            ..AckOutcome::default()
        }
    }

    fn begin_pass(&self, input: &AckInput<'_>) -> Pass {
        Pass {
            now: input.now,
            echo: input.timestamp_echo,
            ece: input.ece,
            has_new_data: input.has_new_data,
            prior_una: self.board.una(),
            prior_highest: self.board.highest_sack(),
            prior_sacked: self.board.sacked(),
            prior_in_flight: self.board.in_flight(),
            is_progress: input.ack > self.board.una() && input.ack <= self.board.next(),
            duplicates: 0,
            acked: 0,
            retransmitted_acked: false,
            original_arrived: false,
            has_sacked: false,
            is_dsack: false,
            is_dsack_of_probe: false,
            sets_timer: false,
            lost_retransmission: false,
            acked_sent: SentSpan::default(),
            sacked_sent: SentSpan::default(),
            lowest_original: u64::MAX,
            latest_rtt: None,
            sample: PendingSample::default(),
        }
    }

    /// Linux `tcp_sacktag_write_queue`.
    fn process_sack(&mut self, input: &AckInput<'_>, pass: &mut Pass) {
        if !self.uses_sack() || input.sack.is_empty() {
            return;
        }
        let mut blocks = input.sack;
        if let Some((&first, rest)) = blocks.split_first()
            && is_dsack(first, rest.first().copied(), input.ack)
        {
            self.process_dsack(first, pass);
            blocks = rest;
        }
        let una = input.ack.max(self.board.una());
        // In the order of the stream: what RACK sees last gives the round-trip time.
        let mut sorted = [(0, 0); SackBlocks::MAX];
        let sorted = &mut sorted[..blocks.len().min(SackBlocks::MAX)];
        sorted.copy_from_slice(&blocks[..sorted.len()]);
        sorted.sort_unstable();
        for &(start, end) in &*sorted {
            // A block from the first missing byte on, or before it, is invalid (Linux
            // `tcp_is_sackblock_valid`).
            if start >= end || end > self.board.next() || start <= una {
                if end > una {
                    self.stats.make().sack_rejected += 1;
                }
                continue;
            }
            self.process_sack_block((start, end), pass);
        }
        // In Loss the marks do not show reordering, unless the timeout may still be undone.
        if pass.lowest_original < u64::MAX
            && (self.state != CongestionState::Loss || self.has_undo())
            && pass.lowest_original < pass.prior_highest
        {
            self.on_reordering(pass.lowest_original);
        }
        pass.lowest_original = u64::MAX;
    }

    fn arrivals(&mut self) -> (&mut Scoreboard, Arrivals<'_>) {
        let arrivals = Arrivals {
            recovery_point: self.recovery_point,
            min_rtt: self.rtt.min_rtt(),
            rack: &mut self.rack,
            rate: &mut self.rate,
        };
        (&mut self.board, arrivals)
    }

    fn process_sack_block(&mut self, block: (u64, u64), pass: &mut Pass) {
        let (board, mut arrivals) = self.arrivals();
        let packets = board.sack(block, |piece| {
            arrivals.add(piece, pass, true);
            if !piece.record.was_retransmitted {
                pass.sacked_sent.add(piece.record.sent);
            }
        });
        self.rate.count(packets, pass.ece);
        pass.has_sacked |= packets > 0;
    }

    /// The peer reports a duplicate (Linux `tcp_dsack_seen`).
    fn process_dsack(&mut self, (start, end): (u64, u64), pass: &mut Pass) {
        let is_sent = end <= self.board.next();
        if start >= end || !(is_sent || self.settings.recovery.rto_rule == RtoRule::Linux) {
            self.stats.make().sack_rejected += 1;
            return;
        }
        let packets = (end - start).div_ceil(u64::from(self.mss));
        let stats = self.stats.make();
        stats.dsacks += packets;
        let exceeds_sent = stats.dsacks > stats.retransmitted_packets;
        if packets == 1 && self.probe.end == Mark::at(end) {
            pass.is_dsack_of_probe = true;
        }
        if exceeds_sent {
            // We never retransmitted this much: the network duplicated it, or the peer lies.
            return;
        }
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        if self.has_seen_reordering() && !pass.is_dsack_of_probe {
            self.rack.on_dsack();
        }
        pass.is_dsack = true;
        self.rate.count(packets, pass.ece);
        if !is_sent {
            // Linux counts it before it finds that (`tcp_is_sackblock_valid`).
            self.stats.make().sack_rejected += 1;
            return;
        }
        if end > self.board.una() && self.settings.recovery.rto_rule == RtoRule::Linux {
            self.board.cut_runs(start, end);
        }
        let duplicate = self.board.duplicate(start, end);
        if duplicate == Duplicate::OfTheNetwork {
            return;
        }
        if duplicate == Duplicate::Sacked {
            // Both it and its retransmission arrived: it was delayed, not lost.
            pass.lowest_original = pass.lowest_original.min(start);
        }
        if let Some(reduction) = self.reduction.as_mut() {
            reduction.undo.on_duplicate(end, packets);
        }
    }

    /// Linux `tcp_clean_rtx_queue`.
    fn process_cumulative(&mut self, ack: u64, pass: &mut Pass) {
        let uses_sack = self.uses_sack();
        let echo = pass.echo.filter(|_| self.timestamps);
        let mut fresh = 0;
        let (board, mut arrivals) = self.arrivals();
        let acknowledged = board.acknowledge(ack, |piece| {
            pass.retransmitted_acked |= piece.record.was_retransmitted;
            fresh += piece.packets;
            arrivals.add(piece, pass, uses_sack && !is_spurious(piece, echo));
            if !piece.record.was_retransmitted {
                pass.acked_sent.add(piece.record.sent);
            }
        });
        let acked = acknowledged.packets;
        pass.retransmitted_acked |= acknowledged.is_of_retransmission;
        // Linux keeps the number of a packet of which a part was acknowledged, below what was: its
        // rest seems to be late (`tcp_clean_rtx_queue`).
        if let Some(start) = acknowledged.cut_packet
            && self.settings.recovery.rto_rule == RtoRule::Linux
        {
            pass.lowest_original = pass.lowest_original.min(start);
        }
        pass.acked = acked;
        pass.sets_timer |= acked > 0;
        if uses_sack {
            self.rate.count(fresh, pass.ece);
            // A hole was filled that was never retransmitted: packets were reordered.
            if pass.lowest_original < pass.prior_highest {
                self.on_reordering(pass.lowest_original);
            }
        } else {
            self.remove_duplicates(acked, pass.ece);
            pass.original_arrived &= !pass.retransmitted_acked;
        }
    }

    /// Without SACK: one ACK filled a hole, the rest are taken from the duplicates (Linux
    /// `tcp_remove_reno_sacks`).
    fn remove_duplicates(&mut self, acked: u32, ece: bool) {
        if acked == 0 {
            return;
        }
        let sacked = self.board.sacked();
        self.rate.count(acked.saturating_sub(sacked).max(1), ece);
        self.board.set_duplicates(sacked.saturating_sub(acked - 1));
        self.limit_duplicates(acked);
    }

    /// More duplicates than packets that can have caused them mean reordering (Linux
    /// `tcp_check_reno_reordering`).
    pub(super) fn limit_duplicates(&mut self, added: u32) {
        let out = self.board.packets_out();
        if self.cut_duplicates() {
            let degree = (out + added).min(REORDERING_MAX);
            // In Linux so few packets also lower it (`tcp_check_reno_reordering`).
            self.reordering = match self.settings.recovery.rto_rule {
                RtoRule::Linux => degree,
                RtoRule::Rfc6298 => degree.max(self.reordering),
            };
            self.stats.make().reordering_seen += 1;
        }
    }

    /// As many duplicates as packets can have caused; whether there were more (Linux
    /// `tcp_limit_reno_sacked`).
    pub(super) fn cut_duplicates(&mut self) -> bool {
        let out = self.board.packets_out();
        let holes = self.board.lost().max(1).min(out);
        let has_more = self.board.sacked() + holes > out;
        if has_more {
            self.board.set_duplicates(out - holes);
        }
        has_more
    }

    /// Whether packets were seen to be reordered.
    pub(super) fn has_seen_reordering(&self) -> bool {
        self.stats
            .as_ref()
            .is_some_and(|stats| stats.reordering_seen > 0)
    }

    /// A packet at `low` arrived after ones far above it (Linux `tcp_check_sack_reordering`).
    pub(super) fn on_reordering(&mut self, low: u64) {
        let highest = self.board.highest_sack();
        if low >= highest {
            return;
        }
        let mss = u64::from(self.mss);
        let distance = highest - low;
        if distance > u64::from(self.reordering) * mss {
            let degree = u32::try_from(distance.div_ceil(mss)).unwrap_or(REORDERING_MAX);
            self.reordering = degree.min(REORDERING_MAX);
        }
        self.stats.make().reordering_seen += 1;
    }

    /// Linux `tcp_ack_update_rtt`.
    fn update_rtt(&mut self, input: &AckInput<'_>, pass: &mut Pass) {
        let now = pass.now;
        let since = |sent: Option<Instant>| sent.map(|sent| now.since(sent));
        let acked = if pass.retransmitted_acked {
            SentSpan::default()
        } else {
            pass.acked_sent
        };
        let mut smooth = since(acked.first);
        let mut latest = since(acked.last);
        if let Some(sacked) = pass.sacked_sent.last {
            latest = Some(now.since(sacked));
        }
        smooth = smooth.or(since(pass.sacked_sent.first));
        if smooth.is_none() && pass.acked > 0 {
            smooth = input
                .timestamp_rtt
                .map(|rtt| rtt.max(Duration::from_millis(1)));
            latest = smooth;
        }
        pass.latest_rtt = latest;
        let Some(smooth) = smooth else { return };
        // A lone short packet may have waited for a delayed ACK.
        let is_delayed = pass.acked == 1
            && pass.prior_sacked == 0
            && !pass.has_sacked
            && self.board.una() - pass.prior_una < u64::from(self.mss);
        self.rtt
            .on_min_sample(now, latest.unwrap_or(smooth), is_delayed);
        let (una, next) = (self.board.una(), self.board.next());
        self.rtt
            .on_sample(&self.settings.recovery, smooth, una, next);
        // What was SACKed was sent before the first unaccounted packet: the timer may restart
        // without being put off for ever.
        let sack_rtt = since(pass.sacked_sent.first);
        let head = self.board.head_sent().map(|sent| now.since(sent));
        pass.sets_timer |= sack_rtt.zip(head).is_some_and(|(sack, head)| sack > head);
    }

    /// Whether the outcome of the last tail-loss probe is still unknown; no other is sent before
    /// (RFC 8985 section 7.4).
    pub(crate) fn awaits_probe_ack(&self) -> bool {
        self.probe.end.is_set()
    }

    /// Linux `tcp_process_tlp_ack`.
    fn process_probe_ack(&mut self, input: &AckInput<'_>, pass: &Pass) {
        let Some(end) = self.probe.end.get() else {
            return;
        };
        if input.ack < end {
            return;
        }
        if !self.probe.is_retransmit || pass.is_dsack_of_probe {
            self.probe.end = Mark::NONE;
        } else if input.ack > end {
            // The ACK advanced without a report of a duplicate: the probe repaired a loss.
            self.stats.make().tlp_recoveries += 1;
            self.begin_reduction(pass.now);
            self.state = CongestionState::Cwr;
            self.end_reduction();
            self.keep_open();
        } else if !(pass.is_progress
            || pass.has_sacked
            || input.has_data
            || input.is_window_update
            || pass.acked > 0)
        {
            self.probe.end = Mark::NONE;
        }
    }

    /// Linux `tcp_cong_control`.
    fn control_congestion(&mut self, pass: &Pass, delivered: u32, lost: u32) {
        let rate = self
            .rate
            .finish(pass.now, &pass.sample, delivered, lost, self.rtt.min_rtt());
        if delivered > 0 || pass.acked > 0 || lost > 0 {
            // Linux tcp_may_raise_cwnd; a D-SACK alone is not progress.
            let is_reordered =
                pass.has_sacked && self.reordering > self.settings.recovery.dupack_threshold;
            let sample = AckSample {
                now: pass.now,
                acked: pass.acked,
                delivered,
                delivered_total: self.rate.delivered(),
                lost,
                is_reordered,
                prior_in_flight: pass.prior_in_flight,
                in_flight: self.board.in_flight(),
                rtt: pass.latest_rtt,
                srtt: self.rtt.srtt(),
                min_rtt: self.rtt.min_rtt(),
                rate,
                una: self.board.una(),
                next: self.board.next(),
                state: self.state,
                ece: pass.ece,
                mss: self.mss,
                gso_max: self.settings.path.gso_max,
                pacing_rate: self.pacing_rate,
                is_paced: self.is_paced(),
            };
            self.cc.on_ack(&mut self.window, &sample);
            if self.settings.congestion.validation == Validation::Rfc7661 {
                self.usage.on_ack(pass.now, pass.acked, self.rtt.srtt());
            }
            let counted = if is_reordered { delivered } else { pass.acked };
            if counted > 0 && !self.is_reducing() && !self.cc.is_in_charge() {
                self.usage.on_window_set(pass.now);
            }
        }
        let reduces = self.is_reducing() && !self.cc.is_in_charge() && self.settings.recovery.prr;
        if reduces && delivered > 0 && self.window.prior_cwnd > 0 {
            self.window.cwnd = self.reduction.make().prr.on_ack(&PrrInput {
                ssthresh: self.window.ssthresh,
                prior_cwnd: self.window.prior_cwnd,
                in_flight: self.board.in_flight(),
                delivered,
                is_progress: pass.is_progress && lost == 0,
            });
        }
        self.window.cwnd = self.window.cwnd.min(self.window.clamp).max(1);
        self.update_pacing_rate();
    }
}

/// Whether `first` reports a duplicate: it lies below the acknowledgment or inside the second
/// block (RFC 2883 section 4).
fn is_dsack(first: (u64, u64), second: Option<(u64, u64)>, ack: u64) -> bool {
    first.0 < ack || second.is_some_and(|second| first.1 <= second.1 && first.0 >= second.0)
}

/// Whether the ACK answers the original and not the retransmission (Linux
/// `tcp_skb_spurious_retrans`).
fn is_spurious(piece: &Delivered<'_>, echo: Option<u32>) -> bool {
    piece.record.was_retransmitted
        && echo.is_some_and(|echo| is_before(echo, piece.record.timestamp))
}
