use super::*;
use alloc::vec;
use core::net::{Ipv4Addr, Ipv6Addr};
use etherparse::{IpSlice, Ipv4Header as TheirV4, Ipv6Header as TheirV6};
use proptest::prelude::*;

fn ecn() -> impl Strategy<Value = Ecn> {
    (0_u8..4).prop_map(Ecn::from_bits)
}

fn v4_header() -> impl Strategy<Value = Ipv4Header> {
    (any::<(u32, u32, u8, u16, bool, u8)>(), 0_u8..64, ecn()).prop_map(
        |((source, destination, protocol, identification, dont_fragment, ttl), dscp, ecn)| {
            Ipv4Header {
                source: Ipv4Addr::from(source),
                destination: Ipv4Addr::from(destination),
                protocol,
                dscp,
                ecn,
                identification,
                dont_fragment,
                time_to_live: ttl,
            }
        },
    )
}

fn v6_header() -> impl Strategy<Value = Ipv6Header> {
    let numbers = (any::<(u128, u128, u8)>(), 0_u32..1 << 20, 0_u8..64, ecn());
    numbers.prop_map(
        |((source, destination, hop_limit), flow_label, dscp, ecn)| Ipv6Header {
            source: Ipv6Addr::from(source),
            destination: Ipv6Addr::from(destination),
            protocol: protocol::TCP,
            dscp,
            ecn,
            flow_label,
            hop_limit,
        },
    )
}

proptest! {
    #[test]
    fn v4_headers_round_trip(header in v4_header(), payload: Vec<u8>, behind: Vec<u8>) {
        let mut bytes = vec![];
        header.write(payload.len(), &mut bytes);
        bytes.extend_from_slice(&payload);
        let total = bytes.len();
        bytes.extend_from_slice(&behind);
        let packet = Ipv4Packet::parse(&bytes).unwrap();
        let read = Ipv4Header {
            source: packet.source(),
            destination: packet.destination(),
            protocol: packet.protocol(),
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            identification: packet.identification(),
            dont_fragment: packet.dont_fragment(),
            time_to_live: packet.time_to_live(),
        };
        prop_assert_eq!(read, header);
        prop_assert_eq!(packet.total_bytes(), total);
        prop_assert_eq!(packet.payload(), payload);
        prop_assert!(packet.checksum_is_right());

        let (theirs, _) = TheirV4::from_slice(&bytes).unwrap();
        prop_assert_eq!(theirs.header_checksum, theirs.calc_header_checksum());
        prop_assert_eq!(theirs.source, header.source.octets());
        prop_assert_eq!(theirs.destination, header.destination.octets());
        prop_assert_eq!(usize::from(theirs.total_len), total);
        prop_assert_eq!(theirs.dscp.value(), header.dscp);
        prop_assert_eq!(theirs.ecn.value(), header.ecn.bits());
        prop_assert_eq!(theirs.dont_fragment, header.dont_fragment);
        prop_assert_eq!(theirs.time_to_live, header.time_to_live);
    }

    #[test]
    fn v6_headers_round_trip(
        header in v6_header(),
        payload in prop::collection::vec(any::<u8>(), 1..99),
    ) {
        let mut bytes = vec![];
        header.write(payload.len(), &mut bytes);
        bytes.extend_from_slice(&payload);
        let packet = Ipv6Packet::parse(&bytes).unwrap();
        let read = Ipv6Header {
            source: packet.source(),
            destination: packet.destination(),
            protocol: packet.protocol(),
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            flow_label: packet.flow_label(),
            hop_limit: packet.hop_limit(),
        };
        prop_assert_eq!(read, header);
        prop_assert_eq!(packet.payload(), payload);

        let (theirs, _) = TheirV6::from_slice(&bytes).unwrap();
        prop_assert_eq!(theirs.source, header.source.octets());
        prop_assert_eq!(theirs.destination, header.destination.octets());
        prop_assert_eq!(theirs.traffic_class, header.dscp << 2 | header.ecn.bits());
        prop_assert_eq!(theirs.flow_label.value(), header.flow_label);
        prop_assert_eq!(theirs.hop_limit, header.hop_limit);
    }

    #[test]
    fn any_bytes_are_a_packet_or_an_error(
        mut bytes: Vec<u8>,
        version in prop::sample::select(vec![0_u8, 0x45, 0x4f, 0x60]),
    ) {
        if let Some(first) = bytes.first_mut().filter(|_| version != 0) {
            *first = version;
        }
        exercise(&bytes);
    }

    /// Bytes that are likely to be chains of extension headers, against the other library.
    #[test]
    fn extension_headers_are_walked_as_another_library_walks_them(
        kinds in prop::collection::vec(prop::sample::select(vec![0_u8, 43, 44, 60]), 0..5),
        lengths: [u8; 5],
        rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = vec![0_u8; 40];
        bytes[0] = 0x60;
        let mut next_at = 6;
        for (kind, length) in kinds.iter().zip(lengths) {
            bytes[next_at] = *kind;
            next_at = bytes.len();
            let units = if *kind == 44 { 0 } else { usize::from(length % 3) };
            bytes.extend(vec![0; 8 + 8 * units]);
            // A fragment header of an unfragmented packet (RFC 6946) keeps its zeros.
            bytes[next_at + 1] = units as u8;
        }
        bytes[next_at] = protocol::TCP;
        bytes.extend_from_slice(&rest);
        let payload_bytes = (bytes.len() - 40) as u16;
        bytes[4..6].copy_from_slice(&payload_bytes.to_be_bytes());
        let ours = Ipv6Packet::parse(&bytes);
        // It is strict where RFC 8200 only recommends (order, number of each kind).
        if let Ok(IpSlice::Ipv6(theirs)) = IpSlice::from_slice(&bytes)
            && theirs.payload().ip_number.0 == protocol::TCP
        {
            let ours = ours.unwrap();
            prop_assert_eq!(ours.protocol(), protocol::TCP);
            prop_assert_eq!(ours.payload(), theirs.payload().payload);
            prop_assert_eq!(ours.is_fragment(), theirs.is_payload_fragmented());
        }
        exercise(&bytes);
    }
}

/// Calls everything.
fn exercise(bytes: &[u8]) {
    let Ok(packet) = IpPacket::parse(bytes) else {
        return;
    };
    assert!(packet.header_bytes() + packet.payload().len() <= bytes.len());
    assert!(packet.header_bytes() <= packet.total_bytes());
    let _ = (packet.ecn(), packet.hop_limit(), packet.protocol());
    assert!(packet.is_first_fragment() || packet.is_fragment());
    assert_eq!(packet.source().is_ipv4(), packet.destination().is_ipv4());
    match packet {
        IpPacket::V4(packet) => {
            assert!(packet.options().len() <= 40);
            let _ = packet.checksum_is_right();
        }
        IpPacket::V6(packet) => {
            let _ = (packet.is_routed(), packet.flow_label());
        }
    }
}

#[test]
fn what_is_no_packet_says_where() {
    let check = |bytes: &[u8], at, kind| {
        let error = IpPacket::parse(bytes).unwrap_err();
        assert_eq!(error, ParseError { at, kind });
    };
    check(&[], 0, ParseErrorKind::TooShort { needed: 1 });
    check(&[0x50; 40], 0, ParseErrorKind::Version(5));
    check(&[0x45; 19], 0, ParseErrorKind::TooShort { needed: 20 });
    check(&[0x44; 20], 0, ParseErrorKind::Length(16));
    check(&[0x46; 23], 0, ParseErrorKind::TooShort { needed: 24 });
    let mut short = [0_u8; 20];
    short[0] = 0x45;
    short[3] = 19;
    check(&short, 2, ParseErrorKind::Length(19));
    let mut v6 = [0_u8; 48];
    v6[0] = 0x60;
    check(&v6[..39], 0, ParseErrorKind::TooShort { needed: 40 });
    v6[41] = 1;
    check(&v6, 0, ParseErrorKind::TooShort { needed: 56 });
    // Hop-by-hop options that reach behind the stated length.
    v6[41] = 0;
    v6[5] = 4;
    check(&v6, 41, ParseErrorKind::Length(8));
}

#[test]
fn captures_may_be_cut_short_and_gso_packets_have_no_length() {
    let mut bytes = vec![];
    let header = Ipv4Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol::TCP);
    header.write(1000, &mut bytes);
    bytes.extend_from_slice(&[1, 2, 3]);
    let packet = IpPacket::parse(&bytes).unwrap();
    assert_eq!(
        (packet.total_bytes(), packet.payload()),
        (1020, &[1, 2, 3][..])
    );
    bytes[2..4].copy_from_slice(&[0, 0]);
    let packet = IpPacket::parse(&bytes).unwrap();
    assert_eq!(
        (packet.total_bytes(), packet.payload()),
        (23, &[1, 2, 3][..])
    );
    let mut bytes = vec![];
    let (source, destination) = (Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
    Ipv6Header::new(source, destination, protocol::TCP).write(0, &mut bytes);
    bytes.extend_from_slice(&[1, 2, 3]);
    assert_eq!(IpPacket::parse(&bytes).unwrap().total_bytes(), 43);
}

#[test]
fn fragments_are_known() {
    let mut v4 = vec![];
    Ipv4Header::new([1; 4].into(), [2; 4].into(), protocol::UDP).write(8, &mut v4);
    v4.extend_from_slice(&[0; 8]);
    let check = |bytes: &[u8], is_fragment, is_first| {
        let packet = IpPacket::parse(bytes).unwrap();
        assert_eq!(packet.is_fragment(), is_fragment);
        assert_eq!(packet.is_first_fragment(), is_first);
    };
    check(&v4, false, true);
    v4[6] = 0x20;
    check(&v4, true, true);
    v4[6..8].copy_from_slice(&[0, 2]);
    check(&v4, true, false);
    let IpPacket::V4(packet) = IpPacket::parse(&v4).unwrap() else {
        panic!("version 4")
    };
    assert_eq!(packet.fragment_offset(), 16);

    let mut v6 = vec![];
    let (source, destination) = (Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
    Ipv6Header::new(source, destination, 44).write(16, &mut v6);
    v6.extend_from_slice(&[protocol::UDP, 0, 0, 1, 0, 0, 0, 9]);
    v6.extend_from_slice(&[0; 8]);
    check(&v6, true, true);
    v6[43] = 16;
    check(&v6, true, false);
    let IpPacket::V6(packet) = IpPacket::parse(&v6).unwrap() else {
        panic!("version 6")
    };
    assert_eq!(
        (packet.fragment_offset(), packet.protocol()),
        (16, protocol::UDP)
    );
}
