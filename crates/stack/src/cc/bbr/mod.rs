//! BBR: sends at the measured bandwidth of the path, with about two of its round trips in flight.
//!
//! Version 1 as Linux has it (`tcp_bbr.c`; Cardwell et al., "BBR: Congestion-Based Congestion
//! Control", 2016; draft-cardwell-iccrg-bbr-congestion-control-00), not version 2 or 3: losses and
//! ECN marks do not change its rate. It decides from delivery-rate samples, round-trip times and
//! losses; one file per idea:
//!
//! - `bandwidth`: the maximum of the last ten rounds,
//! - `min_rtt`: the least round-trip time of ten seconds, and the pauses that show it,
//! - `startup`: when the pipe is full,
//! - `cycle`: probing for more bandwidth,
//! - `policer`: a path that drops everything above a rate,
//! - `aggregation`: ACKs in clumps,
//! - `conservation`: the window in recovery.
//!
//! Left out: packets that pacing has already scheduled are not told from those in the network
//! (Linux `bbr_packets_in_net_at_edt`), nor delayed ACKs from others where the least round-trip
//! time has expired. Windows are in packets, times in microseconds, gains in 1/256.

mod aggregation;
mod bandwidth;
mod conservation;
mod cycle;
mod min_rtt;
mod policer;
mod startup;

use core::time::Duration;

use base::{BbrState, Instant, Rate, Rng};

use super::{
    AckSample, CongestionControl, KnownPath, RateSample, SSTHRESH_INFINITE, Window, micros,
};
use aggregation::Aggregation;
use bandwidth::{Bandwidth, MaxFilter, UNIT};
use conservation::Conservation;
use cycle::{Cycle, PhaseInput};
use min_rtt::{MinRtt, PROBE_CWND, ProbeRtt, ProbeStep};
use policer::{Policer, PolicerChange, PolicerInput, Totals};
use startup::FullPipe;

/// Gain of startup, 2/ln 2 = 2.885: the least that doubles the rate in each round trip.
const HIGH_GAIN: u32 = UNIT * 2_885 / 1_000 + 1;
/// Its inverse, which drains in one round trip what startup queued.
const DRAIN_GAIN: u32 = UNIT * 1_000 / 2_885;
/// Gain of the window while probing: room for delayed and merged ACKs.
const CWND_GAIN: u32 = UNIT * 2;
/// Minimum window in packets, so that ACKs keep coming if each acknowledges two.
const CWND_MIN: u32 = 4;
/// The window where nothing is known, and the packets until it grows freely (RFC 6928).
const CWND_INITIAL: u64 = 10;
/// Assumed round-trip time before any sample.
const RTT_INITIAL: Duration = Duration::from_millis(1);
/// Below this rate bursts are of one packet (Linux `bbr_min_tso_rate`).
const SINGLE_RATE: Rate = Rate::from_bits_per_second(1_200_000);
/// A burst takes 1/1024 s at the pacing rate (Linux `sk_pacing_shift`).
const BURST_SHIFT: u32 = 10;
/// Most payload of a burst: 64 KiB less headers.
const BURST_BYTES_MAX: u32 = 65_536 - 1 - 320;
/// Most segments of a burst.
const BURST_SEGMENTS_MAX: u64 = 127;

/// State of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Doubles its rate until the pipe is full.
    Startup,
    /// Empties the queue that startup made.
    Drain,
    /// Cycles around the bandwidth.
    ProbeBandwidth,
    /// Empties its queue to see the round-trip time.
    ProbeRtt,
}

/// BBR version 1.
#[derive(Clone, Debug)]
pub struct Bbr {
    rng: Rng,
    mode: Mode,
    pacing_gain: u32,
    cwnd_gain: u32,
    /// `None` before anything is known of the path.
    pacing_rate: Option<Rate>,
    /// The first pacing rate came from a round-trip time, not from [`RTT_INITIAL`].
    has_rtt: bool,
    /// Payload of a segment, and most bytes of a GSO packet, as the last ACK said.
    mss: u32,
    gso_max: u32,
    totals: Totals,
    rounds: u64,
    /// This ACK began a round.
    is_round: bool,
    /// A round ends with a packet that was sent after this many had been delivered.
    round_end: u64,
    /// Data was sent after nothing had been in flight.
    is_restarting: bool,
    max: MaxFilter,
    min_rtt: MinRtt,
    probe_rtt: ProbeRtt,
    full_pipe: FullPipe,
    cycle: Cycle,
    policer: Policer,
    aggregation: Aggregation,
    conservation: Conservation,
}

impl Bbr {
    /// BBR that begins its cycles at phases that `rng` gives.
    #[must_use]
    pub fn new(rng: Rng) -> Self {
        Self {
            rng,
            mode: Mode::Startup,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            pacing_rate: None,
            has_rtt: false,
            mss: 0,
            gso_max: 0,
            totals: Totals::ZERO,
            rounds: 0,
            is_round: false,
            round_end: 0,
            is_restarting: false,
            max: MaxFilter::new(),
            min_rtt: MinRtt::new(None, Instant::ZERO),
            probe_rtt: ProbeRtt::new(),
            full_pipe: FullPipe::new(),
            cycle: Cycle::new(),
            policer: Policer::new(Totals::ZERO),
            aggregation: Aggregation::new(Instant::ZERO),
            conservation: Conservation::new(),
        }
    }

    /// Begins with what is known of the path (Linux `bbr_init`).
    fn start(&mut self, window: &mut Window, path: &KnownPath) {
        window.ssthresh = SSTHRESH_INFINITE;
        self.mss = path.mss;
        self.totals = Totals {
            at: path.now,
            delivered: path.delivered_total,
            lost: 0,
        };
        self.round_end = self.totals.delivered;
        self.min_rtt = MinRtt::new(path.min_rtt, path.now);
        self.policer = Policer::new(self.totals);
        self.aggregation = Aggregation::new(path.now);
        self.set_first_rate(window.cwnd, path.srtt);
    }

    /// The pacing rate that `cwnd` packets in one round-trip time give, at high gain.
    fn set_first_rate(&mut self, cwnd: u32, srtt: Option<Duration>) {
        self.has_rtt = srtt.is_some();
        let rtt = micros(srtt.unwrap_or(RTT_INITIAL));
        let bandwidth = Bandwidth::of(cwnd.into(), rtt);
        self.pacing_rate = Some(bandwidth.pacing_rate(self.mss, HIGH_GAIN));
    }

    fn bandwidth(&self) -> Bandwidth {
        self.policer.bandwidth().unwrap_or(self.max.max())
    }

    /// The sample of `ack`, where it has one; what a small window of our own limited counts as
    /// limited by the application.
    fn rate_sample(&self, ack: &AckSample) -> Option<RateSample> {
        let mut rate = ack.rate.filter(|rate| !rate.interval.is_zero())?;
        rate.is_app_limited |= self.probe_rtt.limited(rate.prior_delivered);
        Some(rate)
    }

    /// Linux `bbr_update_bw`.
    fn update_bandwidth(&mut self, ack: &AckSample, rate: &RateSample) {
        if rate.prior_delivered >= self.round_end {
            self.round_end = ack.delivered_total;
            self.rounds += 1;
            self.is_round = true;
            self.conservation.on_round();
        }
        self.look_for_policer(ack.lost > 0, rate.is_app_limited);
        let bandwidth = Bandwidth::of(rate.delivered.into(), micros(rate.interval));
        // A sample limited by the application does not show the path's bandwidth, unless it is
        // larger.
        if !rate.is_app_limited || bandwidth >= self.max.max() {
            self.max.insert(self.rounds, bandwidth);
        }
    }

    fn look_for_policer(&mut self, has_losses: bool, is_app_limited: bool) {
        let change = self.policer.on_sample(&PolicerInput {
            totals: self.totals,
            has_losses,
            is_app_limited,
            is_round: self.is_round,
            is_probing_bandwidth: self.mode == Mode::ProbeBandwidth,
            mss: self.mss,
        });
        match change {
            PolicerChange::None => {}
            PolicerChange::Found => self.pacing_gain = UNIT,
            PolicerChange::Expired => self.begin_probing_bandwidth(),
        }
    }

    fn update_aggregation(&mut self, window: &Window, ack: &AckSample) {
        if ack.delivered == 0 {
            return;
        }
        if self.is_round {
            self.aggregation.on_round();
        }
        let bandwidth = self.bandwidth();
        self.aggregation
            .update(ack.now, bandwidth, ack.delivered, window.cwnd);
    }

    fn update_cycle(&mut self, ack: &AckSample) {
        if self.mode != Mode::ProbeBandwidth {
            return;
        }
        let max = self.max.max();
        self.cycle.update(&PhaseInput {
            now: self.totals.at,
            min_rtt: self.min_rtt.least().unwrap_or(Duration::MAX),
            in_flight: self.in_network(ack.prior_in_flight),
            has_losses: ack.lost > 0,
            gain: self.pacing_gain,
            target_at_gain: self.quantized(self.path_packets(max, self.pacing_gain)),
            target: self.quantized(self.path_packets(max, UNIT)),
        });
    }

    /// Linux `bbr_check_full_bw_reached`, `bbr_check_drain`.
    fn update_startup(&mut self, window: &mut Window, ack: &AckSample, is_app_limited: bool) {
        if self.is_round && !is_app_limited {
            self.full_pipe.on_round(self.max.max());
        }
        let full = self.quantized(self.path_packets(self.max.max(), UNIT));
        if self.mode == Mode::Startup && self.full_pipe.is_reached() {
            self.mode = Mode::Drain;
            window.ssthresh = narrow(full);
        }
        if self.mode == Mode::Drain && self.in_network(ack.in_flight) <= full {
            self.begin_probing_bandwidth();
        }
    }

    fn begin_probing_bandwidth(&mut self) {
        self.mode = Mode::ProbeBandwidth;
        self.cycle.restart(self.totals.at, &mut self.rng);
    }

    /// Linux `bbr_update_min_rtt`.
    fn update_min_rtt(&mut self, window: &mut Window, ack: &AckSample) {
        let has_expired = self.min_rtt.update(ack.now, ack.rtt);
        if has_expired && !self.is_restarting && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.conservation.save(window.cwnd, true);
            self.probe_rtt.begin(ack.delivered_total);
        }
        if self.mode != Mode::ProbeRtt {
            return;
        }
        let delivered = ack.delivered_total;
        let step = self
            .probe_rtt
            .on_ack(ack.now, ack.in_flight, delivered, self.is_round);
        match step {
            ProbeStep::Wait => {}
            ProbeStep::BeginRound => self.round_end = delivered,
            ProbeStep::Check => self.end_probe_rtt(window, ack.now),
        }
    }

    fn end_probe_rtt(&mut self, window: &mut Window, now: Instant) {
        if !self.probe_rtt.is_over(now) {
            return;
        }
        self.min_rtt.confirm(now);
        window.cwnd = self.conservation.restored(window.cwnd);
        if self.full_pipe.is_reached() {
            self.begin_probing_bandwidth();
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth if self.policer.bandwidth().is_some() => (UNIT, CWND_GAIN),
            Mode::ProbeBandwidth => (self.cycle.gain(), CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    /// Linux `bbr_set_pacing_rate`: until the pipe is full the rate never falls.
    fn set_pacing_rate(&mut self, window: &Window, srtt: Option<Duration>, gain: u32) {
        if !self.has_rtt && srtt.is_some() {
            self.set_first_rate(window.cwnd, srtt);
        }
        let rate = self.bandwidth().pacing_rate(self.mss, gain);
        if self.full_pipe.is_reached() || self.pacing_rate.is_none_or(|before| rate > before) {
            self.pacing_rate = Some(rate);
        }
    }

    /// Linux `bbr_set_cwnd`.
    fn set_window(&mut self, window: &mut Window, ack: &AckSample) {
        if ack.delivered > 0 {
            let step = self.conservation.on_ack(window.cwnd, ack);
            if step.has_begun {
                self.round_end = ack.delivered_total;
            }
            window.cwnd = if step.is_final {
                step.cwnd
            } else {
                self.grown(step.cwnd, ack).max(CWND_MIN)
            };
        }
        window.cwnd = window.cwnd.min(window.clamp);
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(PROBE_CWND);
        }
    }

    /// `cwnd` moved towards its target by what was delivered.
    fn grown(&self, cwnd: u32, ack: &AckSample) -> u32 {
        let bandwidth = self.bandwidth();
        let mut packets = self.path_packets(bandwidth, self.cwnd_gain);
        if self.full_pipe.is_reached() {
            packets += self.aggregation.extra_packets(bandwidth);
        }
        let target = narrow(self.quantized(packets));
        let more = cwnd.saturating_add(ack.delivered);
        if self.full_pipe.is_reached() {
            more.min(target)
        } else if cwnd < target || ack.delivered_total < CWND_INITIAL {
            more
        } else {
            cwnd
        }
    }

    /// Packets that fill the path at `gain` times `bandwidth` (Linux `bbr_bdp`).
    fn path_packets(&self, bandwidth: Bandwidth, gain: u32) -> u64 {
        self.min_rtt.least().map_or(CWND_INITIAL, |rtt| {
            bandwidth.packets_in_at(micros(rtt), gain)
        })
    }

    /// Adds room for the bursts in sending and receiving host, makes it even for delayed ACKs, and
    /// lets probing show on small paths (Linux `bbr_quantization_budget`).
    fn quantized(&self, packets: u64) -> u64 {
        let even = packets
            .saturating_add(3 * self.burst_segments())
            .div_ceil(2)
            * 2;
        if self.mode == Mode::ProbeBandwidth && self.cycle.is_probing_up() {
            even + 2
        } else {
            even
        }
    }

    /// Packets in the network if `in_flight` are unacknowledged: while more than the bandwidth is
    /// sent, a burst is about to leave.
    fn in_network(&self, in_flight: u32) -> u64 {
        let burst = if self.pacing_gain > UNIT {
            self.burst_segments()
        } else {
            0
        };
        u64::from(in_flight) + burst
    }

    /// Segments of a burst at the pacing rate (Linux `bbr_tso_segs_goal`).
    fn burst_segments(&self) -> u64 {
        let rate = self.pacing_rate.unwrap_or_default();
        let bytes = (rate.bits_per_second() / 8) >> BURST_SHIFT;
        let bytes = bytes.min(self.gso_max.min(BURST_BYTES_MAX).into());
        let least = u64::from(least_burst(rate));
        (bytes / u64::from(self.mss.max(1))).clamp(least, BURST_SEGMENTS_MAX)
    }
}

/// Least segments of a burst at `rate` (Linux `bbr_min_tso_segs`).
fn least_burst(rate: Rate) -> u32 {
    if rate < SINGLE_RATE { 1 } else { 2 }
}

fn narrow(packets: u64) -> u32 {
    u32::try_from(packets).unwrap_or(u32::MAX)
}

impl CongestionControl for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    /// Linux paces from then on, not from the first ACK (`bbr_init`).
    fn on_path_known(&mut self, window: &mut Window, path: &KnownPath) {
        self.start(window, path);
    }

    fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
        self.mss = ack.mss;
        self.gso_max = ack.gso_max;
        if self.pacing_rate.is_none() {
            // Whoever calls it has said nothing of the path before.
            let path = KnownPath {
                now: ack.now,
                mss: ack.mss,
                delivered_total: ack.delivered_total - u64::from(ack.delivered),
                srtt: ack.srtt,
                min_rtt: ack.min_rtt,
            };
            self.start(window, &path);
        }
        self.totals.delivered = ack.delivered_total;
        self.totals.lost += u64::from(ack.lost);
        if ack.delivered > 0 {
            self.totals.at = ack.now;
        }
        self.is_round = false;
        let rate = self.rate_sample(ack);
        if let Some(rate) = &rate {
            self.update_bandwidth(ack, rate);
            self.update_aggregation(window, ack);
        }
        self.update_cycle(ack);
        let is_app_limited = rate.is_some_and(|rate| rate.is_app_limited);
        self.update_startup(window, ack, is_app_limited);
        self.update_min_rtt(window, ack);
        if rate.is_some_and(|rate| rate.delivered > 0) {
            self.is_restarting = false;
        }
        self.update_gains();
        self.set_pacing_rate(window, ack.srtt, self.pacing_gain);
        self.set_window(window, ack);
    }

    /// The threshold stays: BBR has no use for it. The window is remembered (Linux
    /// `bbr_ssthresh`).
    fn on_congestion(&mut self, window: &Window, _now: Instant) -> u32 {
        let is_probing_rtt = self.mode == Mode::ProbeRtt;
        self.conservation.save(window.cwnd, is_probing_rtt);
        window.ssthresh.max(2)
    }

    /// Linux `bbr_set_state`: a new round begins, and the loss is one that a policer may have
    /// caused.
    fn on_timeout(&mut self, _window: &mut Window, _now: Instant) {
        self.conservation.on_timeout();
        self.full_pipe.forget_bandwidth();
        self.is_round = true;
        self.look_for_policer(true, false);
    }

    /// The flow was idle, so the queue is empty: sending goes on at the bandwidth, not above
    /// (Linux `bbr_cwnd_event`).
    fn on_restart(&mut self, window: &mut Window, now: Instant, _idle: Duration) {
        if self.pacing_rate.is_none() {
            return;
        }
        self.is_restarting = true;
        self.aggregation.restart(now);
        match self.mode {
            Mode::Startup | Mode::Drain => {}
            Mode::ProbeBandwidth => self.set_pacing_rate(window, None, UNIT),
            Mode::ProbeRtt => self.end_probe_rtt(window, now),
        }
    }

    fn undo(&mut self, window: &Window) -> u32 {
        self.full_pipe.restart();
        self.policer = Policer::new(self.totals);
        window.cwnd
    }

    fn is_in_charge(&self) -> bool {
        true
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.pacing_rate
    }

    fn burst_segments_min(&self) -> Option<u32> {
        self.pacing_rate.map(least_burst)
    }

    fn send_buffer_windows(&self) -> u32 {
        3
    }

    fn wants_validation(&self) -> bool {
        false
    }

    fn bbr(&self) -> Option<BbrState> {
        Some(BbrState {
            bandwidth: self.bandwidth().rate(self.mss),
            min_rtt: self.min_rtt.least().unwrap_or_default(),
            pacing_gain: self.pacing_gain,
            cwnd_gain: self.cwnd_gain,
        })
    }
}
