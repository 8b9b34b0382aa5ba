//! What a capture cannot truly have seen is told, and not counted as if it had.

mod made;

use std::net::SocketAddr;

use base::pcap::{CapturedPacket, LinkType};
use capture::Settings;
use made::{CLIENT, Made, analysed, analysed_all, listing, plain, raw};

const SYN: u16 = 0x02;
const RST: u16 = 0x04;
const ACK: u16 = 0x10;
const FIN_ACK: u16 = 0x11;
const PSH_ACK: u16 = 0x18;
const SECOND: u64 = 1_000_000;

/// A packet of the client with payload.
fn data(micros: u64, seq: u32) -> Made {
    Made {
        seq,
        ..plain(micros, 9)
    }
}

/// One of the server without.
fn ack(micros: u64, ack: u32) -> Made {
    Made {
        from_client: false,
        seq: 1,
        ack,
        flags: ACK,
        payload: 0,
        ..plain(micros, 9)
    }
}

#[test]
fn billions_of_segments_in_flight_are_counted() {
    const PAYLOAD: u16 = 65_400;
    const SEGMENTS: u32 = 70_000;
    let syn = |from_client| Made {
        from_client,
        seq: 0,
        flags: if from_client { SYN } else { SYN | ACK },
        payload: 0,
        mss: 0,
        ..plain(0, 9)
    };
    let seq = |number: u32| 1_u32.wrapping_add(number.wrapping_mul(PAYLOAD.into()));
    let full = |number: u32| Made {
        payload: PAYLOAD,
        ..data(number.into(), seq(number))
    };
    let mut made = vec![syn(true), syn(false)];
    made.extend((0..10_000).map(full));
    // The first of them, after a timeout.
    made.push(Made {
        micros: SECOND,
        ..full(0)
    });
    made.extend((10_000..SEGMENTS).map(|number| Made {
        micros: 2 * SECOND,
        ..full(number)
    }));
    made.push(ack(3 * SECOND, seq(SEGMENTS)));
    let (_, _, flows) = analysed_all(&made, listing());
    let forward = &flows[0].forward;
    let bytes = u64::from(SEGMENTS) * u64::from(PAYLOAD);
    assert_eq!((forward.payload_bytes, forward.timeouts), (bytes, 1));
    // A segment has one byte where the other end takes no more.
    assert_eq!(forward.data_segments, bytes + u64::from(PAYLOAD));
}

#[test]
fn a_packet_of_4_gib_is_damaged() {
    let mut bytes = plain(0, 9).bytes();
    bytes[2..4].fill(0);
    let check = |original_bytes, tcp, unreadable| {
        let packet = CapturedPacket {
            original_bytes,
            ..raw(0, &bytes)
        };
        let (_, summary, _) = analysed([packet], listing());
        let found = (summary.tcp_packets, summary.unreadable_packets);
        assert_eq!(found, (tcp, unreadable), "{original_bytes} bytes");
    };
    check(u32::MAX, 0, 1);
    check(600_000, 0, 1);
    // A GSO packet of IPv4 above 64 KiB says so little too.
    check(200_000, 1, 0);
}

#[test]
fn the_ends_of_a_socket_that_talks_to_itself_are_not_guessed() {
    let mut bytes = plain(0, 80).bytes();
    bytes.copy_within(12..16, 16);
    let (recording, summary, _) = analysed([raw(0, &bytes)], listing());
    assert_eq!((summary.other_packets, summary.tcp_packets), (1, 0));
    assert!(recording.flows.is_empty());
}

#[test]
fn what_is_cut_off_before_its_protocol_is_unreadable() {
    let check = |link, bytes: &[u8], expected: (u64, u64)| {
        let packet = CapturedPacket {
            link,
            original_bytes: 60,
            ..raw(0, bytes)
        };
        let (_, summary, _) = analysed([packet], listing());
        let found = (summary.other_packets, summary.unreadable_packets);
        assert_eq!(found, expected, "{link:?} {bytes:?}");
    };
    let arp = [&[0; 12][..], &[8, 6], &[0; 28]].concat();
    check(LinkType::Ethernet, &arp, (1, 0));
    check(LinkType::Ethernet, &arp[..13], (0, 1));
    check(LinkType::Other(105), &arp, (1, 0));
    for link in [
        LinkType::Raw,
        LinkType::Null,
        LinkType::Ethernet,
        LinkType::LinuxSll,
        LinkType::LinuxSll2,
    ] {
        check(link, &[], (0, 1));
        check(link, &[2, 0, 0, 0], (0, 1));
    }
}

#[test]
fn headers_without_end_come_to_one() {
    let inner = plain(0, 9).bytes();
    let check = |frame: &[u8]| {
        let packet = CapturedPacket {
            link: LinkType::Ethernet,
            ..raw(0, frame)
        };
        let (_, summary, _) = analysed([packet], listing());
        assert_eq!(summary.tcp_packets, 0);
        assert_eq!(summary.other_packets + summary.unreadable_packets, 1);
    };
    let ether = |kind: [u8; 2]| [&[0; 12][..], &kind].concat();
    check(&[ether([0x81, 0]), [0, 5, 0x81, 0].repeat(9000)].concat());
    check(&[ether([0x88, 0x47]), [0, 0, 0x10, 64].repeat(9000)].concat());
    // IP in IP in IP.
    let outer = [&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 4], &inner[10..20]].concat();
    check(&[&ether([8, 0])[..], &outer.repeat(2), &inner].concat());
    // Options for the destination, of IPv6, each eight bytes.
    let mut fixed = vec![0x60, 0, 0, 0, 0xff, 0xf8, 60, 64];
    fixed.resize(40, 1);
    let chain = [60, 0, 1, 4, 0, 0, 0, 0].repeat(8000);
    check(&[&ether([0x86, 0xdd])[..], &fixed, &chain].concat());
}

#[test]
fn numbers_from_elsewhere_are_told_and_not_counted() {
    let far = |number: u32| data(u64::from(number), 0x8000_0000 + 100 * number);
    let mut made = vec![data(0, 1000), ack(10, 1100)];
    made.extend((0..7).map(far));
    made.push(data(100, 1100));
    let (_, summary, flows) = analysed_all(&made, listing());
    assert_eq!((flows.len(), summary.stray_segments), (1, 7));
    let forward = &flows[0].forward;
    assert_eq!((forward.payload_bytes, forward.retransmissions), (200, 0));
}

#[test]
fn who_does_not_know_the_numbers_ends_nothing() {
    let check = |flags, seq, expected: bool| {
        let last = Made {
            flags,
            payload: 0,
            ..data(100, seq)
        };
        let answer = Made {
            flags: FIN_ACK,
            ..ack(200, 1100)
        };
        let made = [data(0, 1000), ack(10, 1100), last, answer];
        let (_, _, flows) = analysed_all(&made, listing());
        assert_eq!(flows[0].ended, expected, "{flags:#x}");
    };
    for flags in [RST, FIN_ACK] {
        check(flags, 0x8000_0000, false);
        check(flags, 1100, true);
    }
}

#[test]
fn a_connection_goes_on_behind_what_the_capture_missed() {
    // Two gigabytes are not in it.
    let later = |number: u32| data(SECOND + u64::from(number), 0x8000_0000 + 100 * number);
    let mut made = vec![data(0, 1000), ack(10, 1100)];
    made.extend((0..20).map(later));
    let (_, summary, flows) = analysed_all(&made, listing());
    assert_eq!((flows.len(), summary.stray_segments), (2, 8));
    assert_eq!(flows[1].forward.payload_bytes, 1200);
    assert_eq!(summary.connections_without_syn, 2);
}

#[test]
fn a_syn_opens_another_connection_where_the_first_was_seen_from_its_middle() {
    let syn = |seq| Made {
        seq,
        flags: SYN,
        payload: 0,
        ..data(SECOND, seq)
    };
    let next = [
        data(0, 1000),
        syn(0x8000_0000),
        data(2 * SECOND, 0x8000_0001),
    ];
    let (_, _, flows) = analysed_all(&next, listing());
    let bytes = |made: &[Made]| -> Vec<u64> {
        let (_, _, flows) = analysed_all(made, listing());
        flows
            .iter()
            .map(|flow| flow.forward.payload_bytes)
            .collect()
    };
    assert_eq!(bytes(&next), [100, 100]);
    assert_eq!((flows[0].syn_seen, flows[1].syn_seen), (false, true));
    // Its own, reordered on the way to the capture.
    assert_eq!(
        bytes(&[data(0, 1000), syn(999), data(2 * SECOND, 1100)]),
        [200]
    );
}

#[test]
fn a_gap_that_is_filled_after_a_round_trip_was_a_loss_though_data_went_on() {
    let check = |filled_us: u64, expected: (u64, u64)| {
        let seq = |number: u64| 1000 + 100 * number as u32;
        // A segment each half millisecond; the one with number 4 comes later.
        let mut made: Vec<Made> = (0..100)
            .map(|number| {
                data(
                    500 * number + if number == 4 { filled_us } else { 0 },
                    seq(number),
                )
            })
            .collect();
        made.sort_by_key(|packet| packet.micros);
        let (_, _, flows) = analysed_all(&made, listing());
        let sent = &flows[0].forward;
        assert_eq!((sent.retransmissions, sent.reordered_segments), expected);
    };
    check(20_100, (1, 0));
    check(1_100, (0, 1));
}

#[test]
fn one_time_that_is_wrong_makes_no_centuries() {
    let of_year_2262 = Made {
        micros: u64::MAX / 2000,
        ..plain(0, 11)
    };
    let began = 1_700_000_000 * SECOND;
    let good = |after: u64, seq| data(began + after, seq);
    let check = |made: &[Made], expected_us: u64| {
        let (recording, summary, flows) = analysed_all(made, listing());
        assert_eq!(summary.duration_us, expected_us);
        assert!(summary.clock_jumps > 0);
        let whole = recording.ended.since(recording.began);
        assert_eq!(whole.as_micros(), expected_us.into());
        let own = flows.iter().find(|flow| flow.sender.port() == 9);
        assert_eq!(own.expect("it is there").duration_us, expected_us);
    };
    check(
        &[good(0, 1000), of_year_2262.clone(), good(SECOND, 1100)],
        SECOND,
    );
    check(
        &[of_year_2262, good(0, 1000), good(3 * SECOND, 1100)],
        3 * SECOND,
    );
}

#[test]
fn without_acks_nothing_is_said_of_what_is_in_flight() {
    let made: Vec<Made> = (0..9)
        .map(|number| data(number, 100 * number as u32))
        .collect();
    let (_, _, flows) = analysed_all(&made, listing());
    assert_eq!(flows[0].forward.flight_max_bytes, None);
    assert_eq!(flows[0].forward.payload_bytes, 900);
}

#[test]
fn requests_show_no_scale() {
    let mut made = Vec::new();
    for round in 0..20 {
        let (at, seq, ack) = (u64::from(round) * 10_000, 1000 + 100 * round, 4344 * round);
        // Nothing of the other end is in flight then: its window has no meaning.
        made.push(Made {
            ack,
            window: 500,
            ..data(at, seq)
        });
        made.extend((0..3).map(|segment| Made {
            from_client: false,
            seq: ack + 1448 * segment,
            ack: seq + 100,
            flags: if segment < 2 { ACK } else { PSH_ACK },
            payload: 1448,
            ..plain(at + 1000 + u64::from(segment), 9)
        }));
        made.push(Made {
            ack: ack + 4344,
            flags: ACK,
            window: 500,
            payload: 0,
            ..data(at + 2000, seq + 100)
        });
    }
    let (_, _, flows) = analysed_all(&made, listing());
    let scales = [&flows[0].forward, &flows[0].reverse].map(|way| way.window_scale);
    assert_eq!(scales, [None, None]);
}

#[test]
fn a_clock_that_stands_still_measures_no_way() {
    for stamp in [0, 7] {
        let stamps = Some((stamp, stamp));
        let mut made = Vec::new();
        // What the two send each other passes the capture at nearly the same time.
        for round in 0..20 {
            let (at, seq) = (u64::from(round) * 10_000, 1000 + 100 * round);
            made.push(Made {
                stamps,
                ..data(at, seq)
            });
            made.push(Made {
                from_client: false,
                seq,
                stamps,
                ..plain(at + 10, 9)
            });
        }
        let (_, summary, flows) = analysed_all(&made, listing());
        let ways = [&flows[0].forward, &flows[0].reverse].map(|way| way.to_sender_us);
        assert_eq!((ways, summary.taken), ([None, None], None));
    }
}

#[test]
fn what_only_knocks_leaves_room_for_what_carries_payload() {
    let settings = Settings {
        judged_max: 4,
        ..listing()
    };
    let knock = |port: u16| Made {
        flags: SYN,
        payload: 0,
        ..plain(port.into(), port)
    };
    let mut made: Vec<Made> = (100..150).map(knock).collect();
    // Two that do, of which one begins with a SYN.
    made.push(knock(9));
    made.push(data(1000, 1001));
    made.push(plain(2000, 11));
    let (recording, summary, _) = analysed_all(&made, settings);
    let judged = |port: u16| {
        let mut ends = recording.flows.iter().map(|track| track.key.local);
        ends.any(|end| end == SocketAddr::from((CLIENT, port)))
    };
    assert!(judged(9) && judged(11));
    assert_eq!(recording.flows.len(), 8);
    assert_eq!(summary.connections_left_out, 48);
}

/// Every second flight is a full window of the largest scale that fits, so that the scale is known
/// and unknown in turn.
#[test]
fn looks_at_a_scale_that_turns_back_and_forth_are_bounded() {
    let mut made = Vec::new();
    let mut seq = 1000;
    for round in 0..6000_u32 {
        let at = u64::from(round) * 30_000;
        let payload = if round % 2 == 0 { 64_512 } else { 3000 };
        let sent = Made {
            payload,
            ..data(at, seq)
        };
        seq += u32::from(payload);
        let answer = Made {
            window: 63,
            ..ack(at + 12_000, seq)
        };
        made.extend([sent, answer]);
    }
    let (recording, _, flows) = analysed_all(&made, listing());
    assert_eq!(flows.len(), 1);
    for track in &recording.flows {
        let bytes = track.samples.memory_bytes();
        assert!(bytes <= 256 << 10, "{bytes} bytes");
        assert!(track.samples.len() > 30);
    }
    let known = recording
        .flows
        .iter()
        .flat_map(|track| track.samples.iter());
    let known: Vec<bool> = known.map(|look| look.snd_wscale.is_some()).collect();
    let turns = known.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(turns > 60, "{turns} turns");
}

/// Both ends have closed: a FIN that comes once more, and an ACK that was captured twice, are of
/// that connection; payload is not.
#[test]
fn what_comes_behind_the_end_opens_no_connection_unless_it_is_new() {
    let fin = |micros, from_client| Made {
        from_client,
        seq: if from_client { 1010 } else { 1 },
        ack: if from_client { 1 } else { 1011 },
        flags: FIN_ACK,
        payload: 0,
        ..plain(micros, 9)
    };
    let last = Made {
        seq: 1011,
        ack: 2,
        ..ack(30_000, 2)
    };
    let last = Made {
        from_client: true,
        ..last
    };
    let sent = Made {
        payload: 10,
        ..data(0, 1000)
    };
    let twice = Made {
        micros: 30_100,
        ..last.clone()
    };
    let closed = vec![
        sent,
        fin(10_000, true),
        fin(20_000, false),
        last.clone(),
        twice,
    ];
    let mut late = closed.clone();
    // From another queue of the interface.
    late.push(data(30_500, 1000));
    late.extend([
        fin(250_000, false),
        Made {
            micros: 260_000,
            ..last
        },
    ]);
    let (_, summary, flows) = analysed_all(&late, listing());
    assert_eq!((flows.len(), summary.duplicate_packets), (1, 1));
    assert_eq!(flows[0].packets, 4);
    let mut later = closed;
    later.push(data(100_000, 5_000_000));
    let (_, _, flows) = analysed_all(&later, listing());
    assert_eq!(flows.len(), 2);
}

#[test]
fn a_timeout_is_twice_as_long_with_each_one_in_a_row() {
    // Round trips of 10 ms: the same data is retransmitted after 210 ms, 420 ms and so on.
    let answered = (0..4).flat_map(|number: u32| {
        let (at, seq) = (20_000 * u64::from(number), 1000 + 100 * number);
        [data(at, seq), ack(at + 10_000, seq + 100)]
    });
    let lost = [0, 210, 630, 1470, 3150].map(|millis| data(100_000 + 1000 * millis, 1400));
    let made: Vec<Made> = answered
        .chain(lost)
        .chain([ack(4 * SECOND, 1500)])
        .collect();
    let (recording, _, _) = analysed_all(&made, listing());
    let of_client = |track: &&doctor::Track| track.key.local.port() == 9;
    let track = recording.flows.iter().find(of_client);
    let samples = &track.expect("it is there").samples;
    let timeout = |backoff: u8| {
        let mut known = samples.iter().filter(|s| s.backoff == Some(backoff));
        known.find_map(|s| s.rto).map(|rto| rto.as_millis())
    };
    let seen: Vec<_> = (1..=4).map(timeout).collect();
    assert_eq!(seen, [420, 840, 1680, 3360].map(Some));
}

/// A snapshot of 54 bytes of an Ethernet frame ends where the options begin.
#[test]
fn options_that_the_capture_cut_are_unknown_and_not_refused() {
    let opening = |from_client, flags| Made {
        from_client,
        seq: 0,
        flags,
        payload: 0,
        mss: 1460,
        scale: 10,
        ..plain(0, 9)
    };
    let mut made = vec![opening(true, SYN), opening(false, SYN | ACK)];
    for number in 0..40 {
        made.push(data(1000 * u64::from(number), 1 + 100 * number));
        made.push(ack(1000 * u64::from(number) + 500, 101 + 100 * number));
    }
    let check = |cut: usize, expected: (u64, Option<u8>, Option<bool>)| {
        let bytes: Vec<Vec<u8>> = made.iter().map(Made::headers).collect();
        let packets = made.iter().zip(&bytes).map(|(made, bytes)| CapturedPacket {
            original_bytes: 1500,
            ..raw(1000 * made.micros, &bytes[..bytes.len().min(cut)])
        });
        let (recording, summary, flows) = analysed(packets, listing());
        let sample = recording.flows[0].samples.iter().last();
        let seen = (
            summary.cut_options_packets,
            flows[0].forward.window_scale,
            sample.and_then(|sample| sample.sack),
        );
        assert_eq!(seen, expected, "cut to {cut} bytes");
        assert_eq!(summary.doubts().is_empty(), expected.0 == 0);
    };
    check(40, (2, None, None));
    // These SYNs offer no SACK.
    check(128, (0, Some(10), Some(false)));
}

/// ACKs of segments that went another way tell how much arrived, and not what the sender waited
/// for.
#[test]
fn a_sender_whose_segments_are_not_there_is_not_said_to_wait() {
    let acks: Vec<Made> = (1..400)
        .map(|number| ack(10_000 * u64::from(number), 1 + 1000 * number))
        .collect();
    let (recording, summary, _) = analysed_all(&acks, listing());
    assert_eq!(summary.one_way_connections, 1);
    let sender = recording.flows.iter();
    let sender = sender.filter(|track| track.key.remote.port() == 80);
    let samples: Vec<_> = sender.flat_map(|track| track.samples.iter()).collect();
    assert!(samples.len() > 20);
    for sample in samples {
        assert!(sample.bytes_acked.is_some());
        assert_eq!((sample.unacked_pkts, sample.notsent_bytes), (None, None));
        assert_eq!(sample.busy_time, None);
    }
}
