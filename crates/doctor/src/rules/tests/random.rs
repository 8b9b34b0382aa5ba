//! Samples that no kernel gives: nothing may panic, and shares stay shares.

use base::{CongestionState, FlowKey, FlowSample, HostSample, Instant, LinkSample, Rate, TcpState};
use core::net::SocketAddr;
use core::time::Duration;
use proptest::prelude::*;

use crate::{HostTimeline, Observation, Timeline, diagnose};

/// Draws from a seed: values that sit at the edges of the rules more often than chance would.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn number(&mut self) -> Option<u64> {
        let value = self.next();
        match self.next() % 9 {
            0 => None,
            1 => Some(0),
            2 => Some(1 + value % 3),
            3 => Some(value % 1448),
            4 | 5 => Some(value % 100_000),
            6 => Some(value % 5_000_000),
            7 => Some(value % 5_000_000_000),
            _ => Some([u64::MAX, 65_535, u64::from(u32::MAX), 4608][value as usize % 4]),
        }
    }

    fn small(&mut self) -> Option<u32> {
        self.number()
            .map(|value| u32::try_from(value).unwrap_or(u32::MAX))
    }

    fn byte(&mut self) -> Option<u8> {
        self.number().map(|value| value as u8)
    }

    fn time(&mut self) -> Option<Duration> {
        self.number().map(Duration::from_micros)
    }

    fn flag(&mut self) -> Option<bool> {
        [None, Some(true), Some(false)][self.next() as usize % 3]
    }

    fn counter(&mut self, total: &mut Option<u64>) -> Option<u64> {
        let step = self.next() % 100_000;
        *total = total.map(|total| total.saturating_add(step));
        *total
    }
}

fn timeline(draws: &mut Draws, key: FlowKey) -> Timeline {
    let mut timeline = Timeline::new();
    let mut at = Instant::ZERO;
    let mut totals: Vec<Option<u64>> = (0..16).map(|_| draws.number()).collect();
    // States change seldom, so that votes have something to hold on.
    let mut state = FlowSample::empty(at, key);
    for i in 0..draws.next() % 120 {
        if i == 0 || draws.next().is_multiple_of(16) {
            state = states(draws, key);
        }
        at += Duration::from_millis(draws.next() % 120);
        let mut s = state.clone();
        s.at = at;
        let mut total = totals.iter_mut();
        let mut next = || draws.counter(total.next().expect("enough of them"));
        s.bytes_acked = next();
        s.bytes_sent = next();
        s.bytes_retrans = next();
        s.bytes_received = next();
        s.data_segs_out = next();
        s.data_segs_in = next();
        s.retrans_total_pkts = next();
        s.dsack_dups = next();
        s.reord_seen = next();
        s.rto_total = next();
        s.busy_time = next().map(Duration::from_micros);
        s.rwnd_limited_time = next().map(Duration::from_micros);
        s.owner_cpu_time = next().map(Duration::from_micros);
        timeline.push(s);
    }
    timeline
}

fn states(draws: &mut Draws, key: FlowKey) -> FlowSample {
    let mut s = FlowSample::empty(Instant::ZERO, key);
    s.state = draws.flag().map(|open| {
        if open {
            TcpState::Established
        } else {
            TcpState::CloseWait
        }
    });
    s.congestion_state = draws.flag().map(|loss| {
        if loss {
            CongestionState::Loss
        } else {
            CongestionState::Open
        }
    });
    s.congestion = draws
        .flag()
        .map(|bbr| if bbr { "bbr" } else { "cubic" }.into());
    s.sack = draws.flag();
    s.window_scaling = draws.flag();
    s.snd_wscale = draws.byte();
    s.rcv_wscale = draws.byte();
    s.snd_mss_bytes = draws.small();
    s.unacked_pkts = draws.small();
    s.sacked_pkts = draws.small();
    s.lost_pkts = draws.small();
    s.retrans_pkts = draws.small();
    s.backoff = draws.byte();
    s.cwnd_pkts = draws.small();
    s.ssthresh_pkts = draws.small();
    s.snd_wnd_bytes = draws.small();
    s.rcv_wnd_bytes = draws.small();
    s.rcv_ssthresh_bytes = draws.small();
    s.notsent_bytes = draws.small();
    s.send_queue_bytes = draws.small();
    s.unread_bytes = draws.small();
    s.srtt = draws.time();
    s.min_rtt = draws.time();
    s.rcv_rtt = draws.time();
    s.rto = draws.time();
    s.since_data_sent = draws.time();
    s.delivery_rate = draws.number().map(Rate::from_bits_per_second);
    s.delivery_app_limited = draws.flag();
    s.rmem_bytes = draws.small();
    s.rcvbuf_bytes = draws.small();
    s.wmem_queued_bytes = draws.small();
    s.sndbuf_bytes = draws.small();
    s.nodelay = draws.flag();
    s.cork = draws.flag();
    s.sndbuf_locked = draws.flag();
    s.rcvbuf_locked = draws.flag();
    s
}

fn host(draws: &mut Draws) -> HostTimeline {
    let mut timeline = HostTimeline::new();
    for i in 0..draws.next() % 4 {
        let mut host = HostSample {
            at: Instant::from_nanos(i * 1_000_000_000),
            ..HostSample::default()
        };
        let link = LinkSample {
            tx_pkts: draws.number().unwrap_or(0),
            tx_dropped_pkts: draws.number().unwrap_or(0),
            txqueuelen_pkts: draws.small().unwrap_or(0),
            ..LinkSample::default()
        };
        host.links.push(link);
        host.counters
            .insert("TcpExtDelayedACKs".into(), draws.number().unwrap_or(0));
        for name in [
            "net.ipv4.tcp_rmem",
            "net.ipv4.tcp_wmem",
            "net.ipv4.tcp_sack",
            "net.ipv4.tcp_window_scaling",
            "net.ipv4.tcp_slow_start_after_idle",
        ] {
            let mut words: Vec<u64> = (0..3)
                .map(|_| u64::from(draws.small().unwrap_or(0)) / 2)
                .collect();
            words.sort_unstable();
            let text = match draws.next() % 4 {
                0 => String::new(),
                1 => (draws.next() % 2).to_string(),
                _ => format!("{} {} {}", words[0], words[1], words[2]),
            };
            host.sysctls.insert(name.into(), text);
        }
        timeline.push(host);
    }
    timeline
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1024,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_samples_give_an_answer(seed: u64) {
        let draws = &mut Draws(seed);
        let key = |port: u16| FlowKey {
            local: SocketAddr::from(([10, 0, 0, 1], port)),
            remote: SocketAddr::from(([10, 0, 0, 2], 80)),
        };
        let local = timeline(draws, key(1));
        let remote = timeline(draws, key(1).reversed());
        let sibling = timeline(draws, key(2));
        let (here, there) = (host(draws), host(draws));
        let report = diagnose(&Observation {
            local: &local,
            remote: draws.flag().map(|_| &remote),
            siblings: &[&sibling],
            remote_siblings: &[&sibling],
            host: draws.flag().map(|_| &here),
            remote_host: draws.flag().map(|_| &there),
            interface: draws.flag().map(|_| "tt0"),
            remote_interface: None,
            shares_process: draws.flag().is_some(),
            hosts_answer_elsewhere: draws.flag().is_some(),
            seen_alike: Duration::from_secs(u64::from(draws.flag().is_some())),
        });
        prop_assert_eq!(report.verdicts.is_empty(), report.unknown.is_some());
        for verdict in &report.verdicts {
            prop_assert!((0.0..=1.0).contains(&verdict.share), "{}", verdict.diagnosis.id);
            for proposal in &verdict.proposals {
                prop_assert!(proposal.knob.check(&proposal.to).is_ok(), "{:?}", proposal);
            }
        }
    }
}
