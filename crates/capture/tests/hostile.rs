//! Untrusted captures: they end in answers, in bounded memory, never in a panic.

mod made;

use core::time::Duration;
use std::net::IpAddr;

use base::Instant;
use base::ip::{IpHeader, Ipv4Header};
use base::pcap::{CapturedPacket, LinkType, Reader, Writer};
use capture::{Analysis, Settings};
use doctor::Cases;
use made::{CLIENT, Made, analysed, analysed_all, listing, plain, raw};
use proptest::prelude::*;

fn any_made() -> impl Strategy<Value = Made> {
    let place = prop_oneof![0_u32..20_000, any::<u32>()];
    let numbers = (place.clone(), place.clone(), 0_u16..512, any::<u16>());
    let times = prop_oneof![0_u64..5_000_000, any::<u64>()];
    let option = prop::option::of((0_u32..2000, 0_u32..2000));
    let sack = prop::option::of((place.clone(), place));
    (
        times,
        any::<bool>(),
        1_u16..4,
        numbers,
        0_u16..3000,
        option,
        sack,
    )
        .prop_map(
            |(micros, from_client, port, (seq, ack, flags, window), payload, stamps, sack)| Made {
                micros: micros % 1_000_000_000,
                from_client,
                port,
                seq,
                ack,
                flags,
                window,
                payload,
                stamps,
                sack,
                mss: seq as u16,
                scale: ack as u8,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_segments_end_in_answers(made in prop::collection::vec(any_made(), 1..200)) {
        let bytes: Vec<Vec<u8>> = made.iter().map(Made::bytes).collect();
        let packets = made.iter().zip(&bytes).map(|(made, bytes)| raw(made.micros * 1000, bytes));
        let (recording, summary, flows) = analysed(packets, listing());
        prop_assert_eq!(summary.tcp_packets, made.len() as u64);
        prop_assert_eq!(flows.len() as u64, summary.connections);
        prop_assert!(recording.flows.len() <= 2 * flows.len());
        for track in &recording.flows {
            let looks = track.samples.len();
            prop_assert!((1..=1100).contains(&looks), "{looks} looks");
        }
    }

    #[test]
    fn any_bytes_are_packets_that_tell_nothing(
        packets in prop::collection::vec(
            (any::<u64>(), prop::collection::vec(any::<u8>(), 0..120)),
            0..40,
        ),
        link in prop::sample::select(vec![
            LinkType::Raw,
            LinkType::Null,
            LinkType::Ethernet,
            LinkType::LinuxSll,
            LinkType::LinuxSll2,
        ]),
    ) {
        let packets = packets.iter().map(|(at, bytes)| CapturedPacket { link, ..raw(*at, bytes) });
        let (_, summary, _) = analysed(packets, listing());
        let told = summary.tcp_packets + summary.other_packets + summary.fragments;
        prop_assert_eq!(told + summary.unreadable_packets, summary.packets);
    }

    #[test]
    fn damaged_captures_give_what_is_good(
        made in prop::collection::vec(any_made(), 1..40),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cut in any::<prop::sample::Index>(),
        snap in 20_u32..120,
    ) {
        let mut writer = Writer::pcapng(Vec::new(), &["a", "b"]).unwrap().with_snap_bytes(snap);
        for (number, made) in made.iter().enumerate() {
            let at = Instant::from_nanos(made.micros * 1000);
            writer.write(number as u32 % 2, at, &made.bytes()).unwrap();
        }
        let mut file = writer.finish().unwrap();
        for (at, value) in flips {
            let at = at.index(file.len());
            file[at] ^= value;
        }
        file.truncate(cut.index(file.len()) + 1);
        let mut analysis = Analysis::new(listing());
        if let Ok(mut reader) = Reader::new(&file[..]) {
            while let Some(Ok(packet)) = reader.next_packet() {
                analysis.handle(&packet);
            }
        }
        analysis.end();
        let (recording, summary) = analysis.finish();
        prop_assert!(summary.tcp_packets <= made.len() as u64);
        for case in Cases::of(&recording).select(|_| true) {
            let _ = case.diagnose();
        }
    }
}

#[test]
fn more_connections_than_the_bound_go_and_are_told() {
    let settings = Settings {
        open_max: 100,
        judged_max: 50,
        ..listing()
    };
    let bytes: Vec<Vec<u8>> = (1..=1000).map(|port| plain(0, port).bytes()).collect();
    let packets = bytes.iter().enumerate();
    let packets = packets.map(|(at, bytes)| raw(at as u64 * 1_000_000, bytes));
    let (recording, summary, flows) = analysed(packets, settings);
    assert_eq!((summary.connections, flows.len()), (1000, 1000));
    assert_eq!(summary.evicted_connections, 900);
    assert_eq!(recording.flows.len(), 100, "both ends of 50");
    assert_eq!(summary.connections_left_out, 950);
    assert_eq!(summary.one_way_connections, 1000);
    assert_eq!(summary.connections_without_syn, 1000);
}

#[test]
fn clocks_that_step_are_told_and_cost_little() {
    let times = [5_000_000, 1, u64::MAX / 2000, 3, 4];
    let made: Vec<Made> = times
        .iter()
        .enumerate()
        .map(|(number, micros)| Made {
            seq: 1000 + 100 * number as u32,
            ..plain(*micros, 5)
        })
        .collect();
    let (recording, summary, flows) = analysed_all(&made, listing());
    // What comes behind the year 2262 is another connection.
    assert_eq!((summary.clock_steps_back, summary.clock_jumps), (1, 2));
    assert_eq!(flows.len(), 2);
    assert!(
        recording
            .flows
            .iter()
            .all(|track| track.samples.len() < 100)
    );
}

#[test]
fn duplicates_of_the_capture_count_once() {
    let made = Made {
        stamps: Some((5, 6)),
        ..plain(10, 7)
    };
    let bytes = made.bytes();
    let later = Made {
        seq: 1100,
        ..made.clone()
    };
    let later = later.bytes();
    let packets = [(0, &bytes), (20, &bytes), (40, &later), (60, &later)];
    let packets = packets.map(|(micros, bytes)| raw(micros * 1000, bytes));
    let (_, summary, flows) = analysed(packets, listing());
    assert_eq!(summary.duplicate_packets, 2);
    let forward = &flows[0].forward;
    assert_eq!((forward.payload_bytes, forward.retransmissions), (200, 0));
    assert_eq!(flows[0].sender.ip(), IpAddr::from(CLIENT));
}

#[test]
fn payload_that_only_its_ack_shows_was_missed() {
    let ack = |micros, ack| Made {
        from_client: false,
        seq: 1,
        ack,
        flags: 0x10,
        payload: 0,
        ..plain(micros, 9)
    };
    let data = |micros, seq| Made {
        seq,
        ..plain(micros, 9)
    };
    // 1100 to 1300 were dropped by the capture, and 1400 to 1500 behind all that it has.
    let made = [
        data(0, 1000),
        data(500, 1300),
        ack(1000, 1400),
        ack(1500, 1500),
    ];
    let (_, summary, flows) = analysed_all(&made, listing());
    assert_eq!(summary.missed_bytes, 300);
    assert_eq!(flows[0].forward.retransmissions, 0);
    assert_eq!(
        flows[0].duration_us,
        Duration::from_micros(1500).as_micros() as u64
    );
}

/// What encloses a packet, and the same packet.
#[test]
fn tunnels_and_tags_are_looked_through() {
    let inner = plain(0, 11).bytes();
    let ether = |kind: [u8; 2], payload: &[u8]| [&[0; 12][..], &kind, payload].concat();
    let ip = |protocol: u8, payload: &[u8]| {
        let header = Ipv4Header::new([192, 0, 2, 1].into(), [192, 0, 2, 2].into(), protocol);
        let header = IpHeader::V4(header);
        let mut bytes = Vec::new();
        header.write(payload.len(), &mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    };
    let udp = |port: u16, payload: &[u8]| {
        let length = (8 + payload.len()) as u16;
        let mut bytes = [
            [0x30, 0x39],
            port.to_be_bytes(),
            length.to_be_bytes(),
            [0, 0],
        ]
        .concat();
        bytes.extend_from_slice(payload);
        ip(17, &bytes)
    };
    let check = |name: &str, frame: &[u8]| {
        let packet = CapturedPacket {
            link: LinkType::Ethernet,
            ..raw(0, frame)
        };
        let (_, summary, flows) = analysed([packet], listing());
        assert_eq!(summary.tcp_packets, 1, "{name}");
        assert_eq!(flows[0].forward.payload_bytes, 100, "{name}");
    };
    let v4 = [8, 0];
    check("plain", &ether(v4, &inner));
    check(
        "VLAN",
        &ether([0x81, 0], &[&[0, 5, 8, 0][..], &inner].concat()),
    );
    let tags = [0, 5, 0x81, 0, 0, 6, 8, 0];
    check("QinQ", &ether([0x88, 0xa8], &[&tags[..], &inner].concat()));
    let labels = [0, 0, 0x10, 64, 0, 0, 0x21, 64];
    check(
        "MPLS",
        &ether([0x88, 0x47], &[&labels[..], &inner].concat()),
    );
    let session = [0x11, 0, 0, 1, 0, 140, 0, 0x21];
    check(
        "PPPoE",
        &ether([0x88, 0x64], &[&session[..], &inner].concat()),
    );
    check("IP in IP", &ether(v4, &ip(4, &inner)));
    check(
        "GRE",
        &ether(
            v4,
            &ip(47, &[&[0x20, 0, 8, 0, 0, 0, 0, 9][..], &inner].concat()),
        ),
    );
    let vxlan = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &ether(v4, &inner)].concat();
    check("VXLAN", &ether(v4, &udp(4789, &vxlan)));
    let geneve = [
        &[1, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 4][..],
        &ether(v4, &inner),
    ]
    .concat();
    check("Geneve", &ether(v4, &udp(6081, &geneve)));
}
