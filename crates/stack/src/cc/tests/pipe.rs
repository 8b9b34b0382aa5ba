//! One flow over one queue, packet by packet, without loss recovery: what is lost is known as soon
//! as a later packet is acknowledged, and the next new packet takes its place. In recovery one
//! packet leaves per ACK.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use base::{CongestionState, Instant, Rate};

use super::super::{AckSample, CongestionControl, RateSample, Window};

pub(super) const MSS: u32 = 1_500;

/// The path: a wire behind a queue, then a delay.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) packet_time: Duration,
    pub(super) rtt: Duration,
    pub(super) queue_packets_max: u64,
    /// One of this many packets is lost on the wire; 0: none.
    pub(super) lost_one_of: u64,
    /// A policer in front of the queue: time per packet, and packets of a burst.
    pub(super) policer: Option<(Duration, u64)>,
}

impl Path {
    /// 1000 packets per second, 100 ms: 100 packets fill it.
    pub(super) fn thousand(queue_packets_max: u64) -> Self {
        Self {
            packet_time: Duration::from_millis(1),
            rtt: Duration::from_millis(100),
            queue_packets_max,
            lost_one_of: 0,
            policer: None,
        }
    }
}

struct Sent {
    at: Instant,
    acked_at: Option<Instant>,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    is_app_limited: bool,
}

/// The window at the end of a round trip, and the times.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) now: Instant,
    pub(super) window: Window,
    pub(super) controller: Option<base::BbrState>,
    pub(super) delivered: u64,
    pub(super) lost: u64,
}

pub(super) struct Pipe {
    pub(super) path: Path,
    pub(super) now: Instant,
    pub(super) controller: Box<dyn CongestionControl>,
    pub(super) window: Window,
    pub(super) srtt: Option<Duration>,
    min_rtt: Option<Duration>,
    /// The application writes this many packets per second; `None`: as many as go.
    pub(super) application: Option<u64>,
    in_flight: VecDeque<Sent>,
    wire_free: Instant,
    policer_free: Instant,
    send_free: Instant,
    sent: u64,
    popped: u64,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    lost: u64,
    state: CongestionState,
    recovery_end: u64,
    /// Packets that may leave in recovery: one per ACK, where the controller leaves it to us.
    recovery_credit: Option<u32>,
    round_end: u64,
}

impl Pipe {
    pub(super) fn new(path: Path, controller: Box<dyn CongestionControl>) -> Self {
        Self {
            path,
            now: Instant::from_nanos(1_000_000_000),
            controller,
            window: Window::new(10),
            srtt: None,
            min_rtt: None,
            application: None,
            in_flight: VecDeque::new(),
            wire_free: Instant::ZERO,
            policer_free: Instant::ZERO,
            send_free: Instant::ZERO,
            sent: 0,
            popped: 0,
            delivered: 0,
            delivered_at: Instant::from_nanos(1_000_000_000),
            first_sent_at: Instant::from_nanos(1_000_000_000),
            lost: 0,
            state: CongestionState::Open,
            recovery_end: 0,
            recovery_credit: None,
            round_end: 0,
        }
    }

    /// Runs `count` round trips; a row for each.
    pub(super) fn rounds(&mut self, count: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        while rows.len() < count {
            if self.step() {
                rows.push(Row {
                    now: self.now,
                    window: self.window.clone(),
                    controller: self.controller.bbr(),
                    delivered: self.delivered,
                    lost: self.lost,
                });
            }
        }
        rows
    }

    /// Runs for `time`; a row for each round trip in it.
    pub(super) fn run_for(&mut self, time: Duration) -> Vec<Row> {
        let end = self.now + time;
        let mut rows = Vec::new();
        while self.now < end {
            rows.append(&mut self.rounds(1));
        }
        rows
    }

    /// The next event: a packet leaves, or an ACK comes. Whether a round ended.
    fn step(&mut self) -> bool {
        let ack_at = self.in_flight.iter().find_map(|sent| sent.acked_at);
        let has_room = (self.in_flight.len() as u64) < u64::from(self.window.cwnd)
            && self.recovery_credit.is_none_or(|credit| credit > 0);
        let send_at = has_room.then(|| self.send_free.max(self.now));
        match (send_at, ack_at) {
            (Some(send), None) => self.send(send),
            (Some(send), Some(ack)) if send <= ack => self.send(send),
            (_, Some(ack)) => return self.acknowledge(ack),
            (None, None) => panic!("everything in flight was lost: {:?}", self.window),
        }
        false
    }

    fn send(&mut self, at: Instant) {
        self.now = at;
        if self.in_flight.is_empty() {
            self.first_sent_at = at;
            self.delivered_at = at;
        }
        let acked_at = self.arrive();
        self.in_flight.push_back(Sent {
            at,
            acked_at,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            is_app_limited: self.application.is_some(),
        });
        self.sent += 1;
        self.recovery_credit = self.recovery_credit.map(|credit| credit - 1);
        let paced = self.controller.pacing_rate().map(|rate| {
            let (time, _) = rate.serialize(MSS.into(), 0);
            time
        });
        let written = self
            .application
            .map(|per_second| Duration::from_secs(1) / per_second as u32);
        self.send_free = at + paced.max(written).unwrap_or_default();
    }

    /// When the packet that leaves now is acknowledged, if it arrives.
    fn arrive(&mut self) -> Option<Instant> {
        if let Some((time, burst)) = self.path.policer {
            let ahead = self.policer_free.since(self.now);
            if ahead > time * burst as u32 {
                return None;
            }
            self.policer_free = self.policer_free.max(self.now) + time;
        }
        let queued = self.wire_free.since(self.now).as_nanos() / self.path.packet_time.as_nanos();
        if queued > self.path.queue_packets_max.into() {
            return None;
        }
        self.wire_free = self.wire_free.max(self.now) + self.path.packet_time;
        let is_lost = self.path.lost_one_of > 0
            && self.sent % self.path.lost_one_of == self.path.lost_one_of - 1;
        (!is_lost).then(|| self.wire_free + self.path.rtt)
    }

    fn acknowledge(&mut self, at: Instant) -> bool {
        self.now = at;
        let prior_in_flight = self.in_flight.len() as u32;
        let lost = self
            .in_flight
            .iter()
            .take_while(|sent| sent.acked_at.is_none())
            .count();
        self.in_flight.drain(..lost);
        self.lost += lost as u64;
        let acked = self
            .in_flight
            .pop_front()
            .expect("an ACK is for a packet in flight");
        self.popped += lost as u64 + 1;
        self.delivered += 1;
        let interval = acked
            .at
            .since(acked.first_sent_at)
            .max(at.since(acked.delivered_at));
        self.first_sent_at = acked.at;
        self.delivered_at = at;
        let rtt = at.since(acked.at);
        self.srtt = Some(self.srtt.map_or(rtt, |srtt| (srtt * 7 + rtt) / 8));
        let min_rtt = self.min_rtt.map_or(rtt, |least| least.min(rtt));
        self.min_rtt = Some(min_rtt);
        self.on_losses(lost as u32);
        let rate = (interval >= min_rtt).then(|| RateSample {
            delivered: (self.delivered - acked.delivered) as u32,
            interval,
            prior_delivered: acked.delivered,
            is_app_limited: acked.is_app_limited,
            losses: lost as u32,
        });
        let ack = self.sample(rtt, prior_in_flight, rate);
        self.window.is_limited = self.application.is_none();
        self.window.max_packets_out = prior_in_flight;
        self.controller.on_ack(&mut self.window, &ack);
        let is_round = self.popped > self.round_end;
        if is_round {
            self.round_end = self.sent;
        }
        is_round
    }

    fn on_losses(&mut self, lost: u32) {
        if lost > 0 && self.state == CongestionState::Open {
            self.window.prior_cwnd = self.window.cwnd;
            self.window.ssthresh = self.controller.on_congestion(&self.window, self.now);
            if !self.controller.is_in_charge() {
                self.window.cwnd = self.window.ssthresh;
                self.recovery_credit = Some(0);
            }
            self.window.credit = 0;
            self.state = CongestionState::Recovery;
            self.recovery_end = self.sent;
        } else if self.state == CongestionState::Recovery && self.popped >= self.recovery_end {
            self.state = CongestionState::Open;
            self.recovery_credit = None;
        }
        self.recovery_credit = self.recovery_credit.map(|_| 1);
    }

    fn sample(&self, rtt: Duration, prior_in_flight: u32, rate: Option<RateSample>) -> AckSample {
        let lost = rate.map_or(0, |rate| rate.losses);
        let srtt = self.srtt.unwrap_or(rtt);
        AckSample {
            now: self.now,
            acked: 1,
            delivered: 1,
            delivered_total: self.delivered,
            lost,
            is_reordered: false,
            prior_in_flight,
            in_flight: self.in_flight.len() as u32,
            rtt: Some(rtt),
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            rate,
            una: self.popped,
            next: self.sent,
            state: self.state,
            ece: false,
            mss: MSS,
            gso_max: 65_536,
            pacing_rate: Rate::of(u64::from(self.window.cwnd * MSS) * 2, srtt),
            is_paced: self.controller.pacing_rate().is_some(),
        }
    }
}
