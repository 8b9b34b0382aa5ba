//! `struct tcp_info`, parsed from bytes into a flow sample.
//!
//! The struct grew with the kernel: 280 bytes in Linux 6.18, 104 in Linux 2.6. The length that came
//! decides; a field past it is `None`. Values by which the kernel says "none yet" are `None` too.
//! Offsets are those of `include/uapi/linux/tcp.h`, which never move.

use core::time::Duration;

use crate::inet_diag::{u16_at, u32_at, u64_at};
use crate::{CongestionState, FlowSample, Rate, TcpState};

/// `TCP_INFINITE_SSTHRESH`: no threshold was set yet.
const SSTHRESH_UNSET: u32 = 0x7fff_ffff;
/// Offset of `tcpi_data_segs_out`.
const DATA_SEGMENTS_OUT: usize = 156;
const OPTION_TIMESTAMPS: u8 = 1;
const OPTION_SACK: u8 = 2;
const OPTION_WSCALE: u8 = 4;
const OPTION_ECN: u8 = 8;

/// Fills what `info` knows into `sample`.
///
/// Of a listener the kernel fills only the two lengths of its accept queue
/// (Linux 6.18 `tcp_get_info`); everything else stays `None`.
pub fn fill(sample: &mut FlowSample, info: &[u8]) {
    let Some(&state) = info.first() else {
        return;
    };
    sample.state = tcp_state(state).or(sample.state);
    sample.unacked_pkts = u32_at(info, 24);
    sample.sacked_pkts = u32_at(info, 28);
    if sample.state == Some(TcpState::Listen) {
        return;
    }
    fill_head(sample, info);
    fill_segments(sample, info);
    fill_times(sample, info);
    fill_counters(sample, info);
    fill_rates(sample, info);
}

/// Segments with payload that were sent, retransmissions included; `None` where the kernel does not
/// count them.
#[must_use]
pub fn data_segments_sent(info: &[u8]) -> Option<u64> {
    u32_at(info, DATA_SEGMENTS_OUT).map(u64::from)
}

/// The RFC 9293 state for the kernel's number of it (`include/net/tcp_states.h`).
#[must_use]
pub fn tcp_state(number: u8) -> Option<TcpState> {
    Some(match number {
        1 => TcpState::Established,
        2 => TcpState::SynSent,
        // 12 is the kernel's request socket, a SYN-RECEIVED without a full socket.
        3 | 12 => TcpState::SynReceived,
        4 => TcpState::FinWait1,
        5 => TcpState::FinWait2,
        6 => TcpState::TimeWait,
        7 => TcpState::Closed,
        8 => TcpState::CloseWait,
        9 => TcpState::LastAck,
        10 => TcpState::Listen,
        11 => TcpState::Closing,
        _ => return None,
    })
}

fn fill_head(sample: &mut FlowSample, info: &[u8]) {
    sample.congestion_state = match info.get(1) {
        Some(0) => Some(CongestionState::Open),
        Some(1) => Some(CongestionState::Disorder),
        Some(2) => Some(CongestionState::Cwr),
        Some(3) => Some(CongestionState::Recovery),
        Some(4) => Some(CongestionState::Loss),
        _ => None,
    };
    sample.timeouts = info.get(2).copied();
    sample.probes = info.get(3).copied();
    sample.backoff = info.get(4).copied();
    if let Some(options) = info.get(5) {
        sample.timestamps = Some(options & OPTION_TIMESTAMPS != 0);
        sample.sack = Some(options & OPTION_SACK != 0);
        sample.window_scaling = Some(options & OPTION_WSCALE != 0);
        sample.ecn = Some(options & OPTION_ECN != 0);
    }
    // Two bit fields of four bits: the low half comes first on little-endian machines only.
    let (first, second) = match info.get(6) {
        Some(scales) => (Some(scales & 15), Some(scales >> 4)),
        None => (None, None),
    };
    (sample.snd_wscale, sample.rcv_wscale) = if cfg!(target_endian = "little") {
        (first, second)
    } else {
        (second, first)
    };
}

fn fill_segments(sample: &mut FlowSample, info: &[u8]) {
    sample.snd_mss_bytes = u32_at(info, 16);
    sample.rcv_mss_bytes = u32_at(info, 20);
    sample.lost_pkts = u32_at(info, 32);
    sample.retrans_pkts = u32_at(info, 36);
    sample.pmtu_bytes = known(u32_at(info, 60));
    sample.rcv_ssthresh_bytes = u32_at(info, 64);
    sample.ssthresh_pkts = u32_at(info, 76).map(|segments| match segments {
        SSTHRESH_UNSET.. => u32::MAX,
        _ => segments,
    });
    sample.cwnd_pkts = u32_at(info, 80);
    sample.advmss_bytes = u32_at(info, 84);
    sample.reordering_pkts = u32_at(info, 88);
    sample.rcv_space_bytes = u32_at(info, 96);
    sample.notsent_bytes = u32_at(info, 144);
    sample.snd_wnd_bytes = u32_at(info, 228);
    sample.rcv_wnd_bytes = u32_at(info, 232);
}

fn fill_times(sample: &mut FlowSample, info: &[u8]) {
    let micros = |offset| known(u32_at(info, offset)).map(|us| Duration::from_micros(us.into()));
    let millis = |offset| u32_at(info, offset).map(|ms| Duration::from_millis(ms.into()));
    sample.rto = micros(8);
    sample.ato = micros(12);
    sample.since_data_sent = millis(44);
    sample.since_data_received = millis(52);
    sample.since_ack_received = millis(56);
    sample.srtt = micros(68);
    sample.rttvar = sample.srtt.and(micros(72));
    sample.rcv_rtt = micros(92);
    sample.min_rtt = match u32_at(info, 148) {
        Some(u32::MAX) => None,
        _ => micros(148),
    };
    let time = |offset| u64_at(info, offset).map(Duration::from_micros);
    sample.busy_time = time(168);
    sample.rwnd_limited_time = time(176);
    sample.sndbuf_limited_time = time(184);
}

fn fill_counters(sample: &mut FlowSample, info: &[u8]) {
    let count = |offset| u32_at(info, offset).map(u64::from);
    sample.retrans_total_pkts = count(100);
    sample.bytes_acked = u64_at(info, 120);
    sample.bytes_received = u64_at(info, 128);
    sample.segs_out = count(136);
    sample.segs_in = count(140);
    sample.data_segs_in = count(152);
    sample.data_segs_out = data_segments_sent(info);
    sample.delivered_pkts = count(192);
    sample.delivered_ce_pkts = count(196);
    sample.bytes_sent = u64_at(info, 200);
    sample.bytes_retrans = u64_at(info, 208);
    sample.dsack_dups = count(216);
    sample.reord_seen = count(220);
    sample.out_of_order_pkts = count(224);
    sample.rto_total = u16_at(info, 240).map(u64::from);
}

fn fill_rates(sample: &mut FlowSample, info: &[u8]) {
    let limited = |offset| match u64_at(info, offset) {
        None | Some(u64::MAX) => None,
        Some(bytes) => Some(Rate::from_bytes_per_second(bytes)),
    };
    sample.pacing_rate = limited(104);
    sample.max_pacing_rate = limited(112);
    sample.delivery_rate = u64_at(info, 160)
        .filter(|&bytes| bytes != 0)
        .map(Rate::from_bytes_per_second);
    // The bit lies in an old byte, but kernels set it only since they measure the rate.
    sample.delivery_app_limited = match (info.get(7), info.len() >= 168) {
        (Some(bits), true) if cfg!(target_endian = "little") => Some(bits & 1 != 0),
        (Some(bits), true) => Some(bits & 0x80 != 0),
        _ => None,
    };
}

/// Treats zero as "not measured yet" in these fields.
fn known(value: Option<u32>) -> Option<u32> {
    value.filter(|&value| value != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowKey, Instant};

    /// The fields of one healthy flow at the offsets of Linux 6.18.
    fn recorded() -> [u8; 280] {
        let mut info = [0_u8; 280];
        info[..8].copy_from_slice(&[1, 3, 1, 2, 3, 1 | 2 | 4, 0xa7, 1]);
        let mut put32 = |offset: usize, value: u32| {
            info[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        };
        for (offset, value) in [
            (8, 204_000),
            (12, 40_000),
            (16, 1448),
            (20, 536),
            (24, 379),
            (28, 4),
            (32, 5),
            (36, 6),
            (44, 7),
            (52, 8),
            (56, 9),
            (60, 1500),
            (64, 64088),
            (68, 90_000),
            (72, 1_000),
            (76, SSTHRESH_UNSET),
            (80, 381),
            (84, 1448),
            (88, 3),
            (96, 14480),
            (100, 12),
            (136, 1000),
            (140, 600),
            (144, 1_100_000),
            (148, 40_000),
            (152, 1),
            (156, 990),
            (192, 620),
            (216, 2),
            (220, 11),
            (224, 13),
            (228, 39096),
            (232, 64256),
        ] {
            put32(offset, value);
        }
        info[240..242].copy_from_slice(&5_u16.to_ne_bytes());
        for (offset, value) in [
            (104, 6_000_000_u64),
            (112, u64::MAX),
            (120, 22_000_001),
            (128, 77),
            (160, 5_750_000),
            (168, 3_900_000),
            (176, 12_000),
            (200, 22_500_000),
            (208, 17_376),
        ] {
            info[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
        }
        info
    }

    fn filled(info: &[u8]) -> FlowSample {
        let end = "10.0.0.1:1".parse().expect("an address");
        let key = FlowKey {
            local: end,
            remote: end,
        };
        let mut sample = FlowSample::empty(Instant::ZERO, key);
        fill(&mut sample, info);
        sample
    }

    #[test]
    fn a_whole_struct_is_read_with_units() {
        let sample = filled(&recorded());
        assert_eq!(sample.state, Some(TcpState::Established));
        assert_eq!(sample.congestion_state, Some(CongestionState::Recovery));
        assert_eq!((sample.sack, sample.ecn), (Some(true), Some(false)));
        assert_eq!((sample.snd_wscale, sample.rcv_wscale), (Some(7), Some(10)));
        assert_eq!(sample.delivery_app_limited, Some(true));
        assert_eq!(sample.rto, Some(Duration::from_millis(204)));
        assert_eq!(sample.srtt, Some(Duration::from_millis(90)));
        assert_eq!(sample.min_rtt, Some(Duration::from_millis(40)));
        assert_eq!(sample.since_ack_received, Some(Duration::from_millis(9)));
        assert_eq!(sample.ssthresh_pkts, Some(u32::MAX));
        assert_eq!(sample.unacked_pkts, Some(379));
        assert_eq!(sample.notsent_bytes, Some(1_100_000));
        assert_eq!(sample.snd_wnd_bytes, Some(39096));
        assert_eq!(sample.rcv_wnd_bytes, Some(64256));
        assert_eq!(sample.rto_total, Some(5));
        assert_eq!(sample.busy_time, Some(Duration::from_millis(3900)));
        assert_eq!(
            sample.pacing_rate.map(Rate::bits_per_second),
            Some(48_000_000)
        );
        assert_eq!(
            sample.delivery_rate.map(Rate::bits_per_second),
            Some(46_000_000)
        );
        assert_eq!(sample.max_pacing_rate, None, "all ones mean unlimited");
        assert_eq!(sample.bytes_retrans, Some(17_376));
    }

    #[test]
    fn what_an_older_kernel_lacks_is_none_and_not_zero() {
        let info = recorded();
        // Linux 2.6, 3.15, 4.2, 4.9, 4.19, 5.4, 6.2, 6.7
        for length in [104, 120, 136, 168, 192, 224, 232, 240, 248] {
            let sample = filled(&info[..length]);
            assert_eq!(sample.srtt.is_some(), length >= 72, "{length}");
            assert_eq!(sample.bytes_acked.is_some(), length >= 128, "{length}");
            assert_eq!(sample.notsent_bytes.is_some(), length >= 148, "{length}");
            assert_eq!(
                sample.delivery_app_limited.is_some(),
                length >= 168,
                "{length}"
            );
            assert_eq!(sample.busy_time.is_some(), length >= 176, "{length}");
            assert_eq!(sample.bytes_sent.is_some(), length >= 208, "{length}");
            assert_eq!(sample.snd_wnd_bytes.is_some(), length >= 232, "{length}");
            assert_eq!(sample.rcv_wnd_bytes.is_some(), length >= 236, "{length}");
            assert_eq!(sample.rto_total.is_some(), length >= 242, "{length}");
        }
        // Any length at all, a field cut in its middle included.
        for length in 0..=info.len() {
            filled(&info[..length]);
        }
        assert_eq!(filled(&[]).state, None);
    }

    #[test]
    fn a_listener_shows_its_queue_and_nothing_else() {
        let mut info = recorded();
        info[0] = 10;
        let sample = filled(&info);
        assert_eq!(
            (sample.unacked_pkts, sample.sacked_pkts),
            (Some(379), Some(4))
        );
        assert_eq!(
            (sample.cwnd_pkts, sample.rto, sample.sack),
            (None, None, None)
        );
    }

    #[test]
    fn a_fresh_connection_has_no_measured_times() {
        let mut info = [0_u8; 280];
        info[0] = 1;
        info[148..152].copy_from_slice(&u32::MAX.to_ne_bytes());
        let sample = filled(&info);
        assert_eq!((sample.srtt, sample.min_rtt), (None, None));
        assert_eq!((sample.rcv_rtt, sample.delivery_rate), (None, None));
        assert_eq!(sample.bytes_acked, Some(0));
    }
}
