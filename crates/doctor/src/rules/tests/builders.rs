//! How the timelines of a scene are made from a few measured values.

use base::{CongestionState, FlowKey, FlowSample, HostSample, Instant, LinkSample, Rate};
use core::net::SocketAddr;
use core::time::Duration;

use crate::{HostTimeline, Timeline};

/// What is seen of one flow, and what it must be called.
pub(super) struct Scene {
    pub(super) name: &'static str,
    /// The diagnosis that comes first; `None` where there must be none.
    pub(super) expected: Option<&'static str>,
    /// No finding may be made.
    pub(super) healthy: bool,
    pub(super) local: Timeline,
    pub(super) remote: Option<Timeline>,
    pub(super) siblings: Vec<Timeline>,
    pub(super) host: Option<HostTimeline>,
    pub(super) remote_host: Option<HostTimeline>,
    pub(super) interface: Option<&'static str>,
    pub(super) remote_interface: Option<&'static str>,
    pub(super) hosts_answer_elsewhere: bool,
}

/// A sender in a steady state.
#[derive(Clone, Copy)]
pub(super) struct Sender {
    pub(super) mbit: f64,
    pub(super) rwnd: f64,
    pub(super) rtt_ms: f64,
    pub(super) min_rtt_ms: f64,
    pub(super) snd_wnd: u32,
    pub(super) unacked: u32,
    pub(super) cwnd: u32,
    pub(super) notsent: u32,
    pub(super) w: u32,
    pub(super) tb: u32,
    pub(super) app_limited: bool,
    /// Retransmitted share of what is sent.
    pub(super) lost: f64,
    pub(super) segment: u32,
    /// Payload per second received in the other direction, and segments with it.
    pub(super) back_bytes: f64,
    pub(super) back_segs: f64,
}

/// Samples in 4 s, one every 50 ms.
const TICKS: u64 = 81;
const TICK: Duration = Duration::from_millis(50);

pub(super) fn key(port: u16) -> FlowKey {
    FlowKey {
        local: SocketAddr::from(([10, 0, 0, 1], port)),
        remote: SocketAddr::from(([10, 0, 0, 2], 5001)),
    }
}

pub(super) fn millis(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

pub(super) fn sample(at: Duration, flow: FlowKey) -> FlowSample {
    let mut s = FlowSample::empty(Instant::ZERO + at, flow);
    s.cookie = Some(u64::from(flow.local.port()));
    s.congestion = Some("cubic".into());
    s.congestion_state = Some(CongestionState::Open);
    s.timestamps = Some(true);
    s.sack = Some(true);
    s.window_scaling = Some(true);
    s.snd_wscale = Some(10);
    s.rcv_wscale = Some(10);
    s.snd_mss_bytes = Some(1448);
    s.rto = Some(millis(244.0));
    s.ssthresh_pkts = Some(300);
    s.backoff = Some(0);
    s.nodelay = Some(false);
    s.cork = Some(false);
    s.sndbuf_locked = Some(false);
    s.rcvbuf_locked = Some(false);
    s
}

/// `sender` over four seconds, each sample changed by `edit` (with the number of the sample).
pub(super) fn sending(sender: Sender, edit: impl Fn(&mut FlowSample, u64)) -> Timeline {
    let mut timeline = Timeline::new();
    for tick in 0..TICKS {
        let at = TICK * tick as u32;
        let seconds = at.as_secs_f64();
        let mut s = sample(at, key(40_001));
        let acked = 1.0 + sender.mbit * 1e6 / 8.0 * seconds;
        let again = acked * sender.lost;
        let out = f64::from(sender.unacked) * f64::from(sender.segment.min(1448));
        s.bytes_acked = Some(acked as u64);
        s.bytes_retrans = Some(again as u64);
        s.bytes_sent = Some((acked + again + out) as u64);
        s.retrans_total_pkts = Some((again / f64::from(sender.segment)) as u64);
        s.data_segs_out = Some((acked / f64::from(sender.segment)) as u64);
        s.bytes_received = Some((sender.back_bytes * seconds) as u64);
        s.data_segs_in = Some((sender.back_segs * seconds) as u64);
        s.dsack_dups = Some(0);
        s.reord_seen = Some(0);
        s.rto_total = Some(0);
        s.busy_time = Some(at);
        s.rwnd_limited_time = Some(at.mul_f64(sender.rwnd));
        s.sndbuf_limited_time = Some(Duration::ZERO);
        s.srtt = Some(millis(sender.rtt_ms));
        s.min_rtt = Some(millis(sender.min_rtt_ms));
        s.snd_wnd_bytes = Some(sender.snd_wnd);
        s.unacked_pkts = Some(sender.unacked);
        s.sacked_pkts = Some(0);
        s.lost_pkts = Some(0);
        s.retrans_pkts = Some(0);
        s.cwnd_pkts = Some(sender.cwnd);
        s.notsent_bytes = Some(sender.notsent);
        s.wmem_queued_bytes = Some(sender.w);
        s.sndbuf_bytes = Some(sender.tb);
        s.delivery_rate = Some(Rate::from_bits_per_second((sender.mbit * 1.05e6) as u64));
        s.delivery_app_limited = Some(sender.app_limited);
        s.owner_cpu_time = Some(at.mul_f64(0.2));
        edit(&mut s, tick);
        timeline.push(s);
    }
    timeline
}

/// The other end of [`sending`].
pub(super) fn receiving(sender: Sender, edit: impl Fn(&mut FlowSample, u64)) -> Timeline {
    let mut timeline = Timeline::new();
    for tick in 0..TICKS {
        let at = TICK * tick as u32;
        let seconds = at.as_secs_f64();
        let mut s = sample(at, key(40_001).reversed());
        s.cookie = Some(9);
        s.bytes_received = Some((sender.mbit * 1e6 / 8.0 * seconds) as u64);
        s.bytes_acked = Some((sender.back_bytes * seconds) as u64);
        s.bytes_sent = s.bytes_acked;
        s.data_segs_out = Some((sender.back_segs * seconds) as u64);
        s.data_segs_in =
            Some((sender.mbit * 1e6 / 8.0 * seconds / f64::from(sender.segment)) as u64);
        s.unacked_pkts = Some(0);
        s.notsent_bytes = Some(0);
        s.srtt = Some(millis(sender.min_rtt_ms * 1.02));
        s.min_rtt = Some(millis(sender.min_rtt_ms));
        s.rcv_wnd_bytes = Some(sender.snd_wnd);
        s.rcv_ssthresh_bytes = Some(sender.snd_wnd);
        s.rcvbuf_bytes = Some(6_291_456);
        s.rmem_bytes = Some(0);
        s.unread_bytes = Some(0);
        s.sndbuf_bytes = Some(46_080);
        s.wmem_queued_bytes = Some(0);
        s.owner_cpu_time = Some(at.mul_f64(0.2));
        edit(&mut s, tick);
        timeline.push(s);
    }
    timeline
}

pub(super) fn host(edit: impl Fn(&mut HostSample, u64)) -> Option<HostTimeline> {
    let mut timeline = HostTimeline::new();
    for tick in [0, TICKS - 1] {
        let link = LinkSample {
            index: 2,
            name: "tt0".into(),
            mtu_bytes: 1500,
            txqueuelen_pkts: 1000,
            tx_pkts: 200 * tick,
            ..LinkSample::default()
        };
        let mut sample = HostSample {
            at: Instant::ZERO + TICK * tick as u32,
            links: vec![link],
            ..HostSample::default()
        };
        sample
            .counters
            .insert("TcpExtDelayedACKs".into(), tick / 20);
        for (name, value) in [
            ("net.ipv4.tcp_rmem", "4096 131072 33554432"),
            ("net.ipv4.tcp_wmem", "4096 16384 4194304"),
            ("net.ipv4.tcp_window_scaling", "1"),
            ("net.ipv4.tcp_sack", "1"),
            ("net.ipv4.tcp_mtu_probing", "0"),
            ("net.ipv4.tcp_slow_start_after_idle", "1"),
        ] {
            sample.sysctls.insert(name.into(), value.into());
        }
        edit(&mut sample, tick);
        timeline.push(sample);
    }
    Some(timeline)
}

/// Losses at any size of the window: CUBIC is cut to these in turn.
pub(super) fn cut_to(s: &mut FlowSample, tick: u64, cuts: [u32; 5]) {
    let cut = |number: u64| cuts[number as usize % 5];
    let (from, to) = (cut(tick / 16), cut(tick / 16 + 1) * 10 / 7);
    let grown = (to - from) * (tick % 16) as u32 / 15;
    (s.ssthresh_pkts, s.cwnd_pkts) = (Some(from), Some(from + grown));
    s.unacked_pkts = s.cwnd_pkts;
}

pub(super) fn plain(_: &mut FlowSample, _: u64) {}

pub(super) fn set(host: &mut HostSample, name: &str, value: &str) {
    host.sysctls.insert(name.into(), value.into());
}

/// Both ends of `sender`, with the sender's samples changed by `edit`.
pub(super) fn scene(
    name: &'static str,
    expected: &'static str,
    sender: Sender,
    edit: impl Fn(&mut FlowSample, u64),
) -> Scene {
    Scene {
        name,
        expected: Some(expected),
        healthy: crate::find_diagnosis(expected).is_some_and(|found| !found.is_finding()),
        local: sending(sender, edit),
        remote: Some(receiving(sender, plain)),
        siblings: Vec::new(),
        host: host(|_, _| ()),
        remote_host: host(|_, _| ()),
        interface: None,
        remote_interface: None,
        hosts_answer_elsewhere: false,
    }
}

impl Scene {
    pub(super) fn remote(mut self, sender: Sender, edit: impl Fn(&mut FlowSample, u64)) -> Self {
        self.remote = Some(receiving(sender, edit));
        self
    }

    pub(super) fn answered_elsewhere(mut self) -> Self {
        self.hosts_answer_elsewhere = true;
        self
    }

    pub(super) fn host(mut self, edit: impl Fn(&mut HostSample, u64)) -> Self {
        self.host = host(edit);
        self
    }

    pub(super) fn remote_host(mut self, edit: impl Fn(&mut HostSample, u64)) -> Self {
        self.remote_host = host(edit);
        self
    }
}
