use super::*;
use crate::packet::{
    Body, EcnMark, IcmpError, IcmpKind, Packet, Payload, Segment, SegmentOptions, Timestamps,
};
use alloc::vec;
use alloc::vec::Vec;
use base::ip::IpPacket;
use base::tcp::{SackBlocks, TcpFlags, TcpSegment};
use base::{GsoPacket, Instant, SeqNum, VirtioHeader, WirePacket};
use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use proptest::prelude::*;

fn seq() -> impl Strategy<Value = SeqNum> {
    any::<u32>().prop_map(SeqNum::new)
}

/// Options that fit into a header; those of the handshake only with SYN.
fn options(is_syn: bool) -> impl Strategy<Value = SegmentOptions> {
    let stamps = any::<(u32, u32)>().prop_map(|(value, echo)| Timestamps { value, echo });
    let blocks = prop::collection::vec((seq(), seq()), 1..=3);
    (
        prop::option::of(1_u16..),
        prop::option::of(0_u8..=14),
        any::<bool>(),
        prop::option::of(stamps),
        prop::option::of(blocks),
    )
        .prop_map(
            move |(mss, window_scale, sack_permitted, timestamps, blocks)| {
                if is_syn {
                    SegmentOptions {
                        mss,
                        window_scale,
                        sack_permitted,
                        timestamps,
                        sack: None,
                    }
                } else {
                    SegmentOptions {
                        timestamps,
                        sack: blocks.map(|blocks| SackBlocks::new(&blocks)),
                        ..SegmentOptions::default()
                    }
                }
            },
        )
}

/// A payload in several slices, and the size of its segments.
fn payload() -> impl Strategy<Value = (Payload, u16)> {
    let chunks = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..500), 0..5);
    (chunks, 0_u16..600).prop_map(|(chunks, size)| {
        let mut payload = Payload::default();
        for chunk in chunks {
            payload.push(chunk.into());
        }
        let size = if u32::from(size) < payload.len() {
            size
        } else {
            0
        };
        (payload, size)
    })
}

fn segment() -> impl Strategy<Value = Segment> {
    let flags = any::<u16>().prop_map(TcpFlags::from_bits);
    let fields = (any::<(u16, u16, u16, u16)>(), seq(), seq());
    (fields, flags, payload())
        .prop_flat_map(|(fields, flags, payload)| {
            let options = options(flags.contains(TcpFlags::SYN));
            (Just(fields), Just(flags), Just(payload), options)
        })
        .prop_map(
            |((numbers, seq, ack), flags, (payload, gso_size), options)| Segment {
                source_port: numbers.0,
                destination_port: numbers.1,
                seq,
                ack,
                flags,
                window: numbers.2,
                urgent: numbers.3,
                options,
                payload,
                gso_size,
            },
        )
}

fn ends() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<(u32, u32)>().prop_map(|(a, b)| { (IpAddr::V4(a.into()), IpAddr::V4(b.into())) }),
        any::<(u128, u128)>().prop_map(|(a, b)| { (IpAddr::V6(a.into()), IpAddr::V6(b.into())) }),
    ]
}

fn tcp_packet() -> impl Strategy<Value = Packet> {
    let ecn = prop::sample::select(vec![
        EcnMark::NotEct,
        EcnMark::Ect0,
        EcnMark::Ect1,
        EcnMark::Ce,
    ]);
    (ends(), ecn, any::<bool>(), any::<u8>(), segment()).prop_map(
        |((source, destination), ecn, dont_fragment, hop_limit, segment)| Packet {
            source,
            destination,
            ecn,
            dont_fragment: dont_fragment || source.is_ipv6(),
            hop_limit,
            not_before: Instant::ZERO,
            body: Body::Tcp(segment),
        },
    )
}

fn icmp_packet() -> impl Strategy<Value = Packet> {
    let kind = prop_oneof![
        any::<u16>().prop_map(|mtu| IcmpKind::TooBig { mtu: mtu.into() }),
        Just(IcmpKind::Unreachable),
        Just(IcmpKind::TimeExceeded),
        Just(IcmpKind::Refused),
    ];
    (
        tcp_packet(),
        kind,
        any::<u16>(),
        any::<u16>(),
        seq(),
        ends(),
    )
        .prop_map(|(mut packet, kind, local, remote, seq, other)| {
            let to = match packet.source {
                IpAddr::V4(_) if other.0.is_ipv4() => other.0,
                IpAddr::V6(_) if other.0.is_ipv6() => other.0,
                same => same,
            };
            packet.body = Body::Icmp(IcmpError {
                kind,
                local: SocketAddr::from((packet.destination, local)),
                remote: SocketAddr::from((to, remote)),
                seq,
            });
            packet
        })
}

fn packet() -> impl Strategy<Value = Packet> {
    prop_oneof![4 => tcp_packet(), 1 => icmp_packet()]
}

fn encoded(packet: &Packet) -> Bytes {
    let mut bytes = Vec::new();
    encode(packet, &mut bytes).unwrap();
    bytes.into()
}

fn encoded_for_tun(packet: &Packet) -> Bytes {
    let mut bytes = Vec::new();
    encode_tun(packet, &mut bytes).unwrap();
    bytes.into()
}

/// The same packet with its payload in one slice: how it was sliced is not on the wire.
fn in_one_slice(mut packet: Packet) -> Packet {
    if let Body::Tcp(segment) = &mut packet.body {
        segment.payload = Bytes::from(segment.payload.to_vec()).into();
    }
    packet
}

fn without_chain(mut packet: Packet) -> Packet {
    if let Body::Tcp(segment) = &mut packet.body {
        segment.gso_size = 0;
    }
    packet
}

proptest! {
    #[test]
    fn plain_packets_round_trip(packet in packet(), behind: Vec<u8>) {
        let bytes = encoded(&packet);
        let whole: Bytes = [&bytes[..], &behind[..]].concat().into();
        let read = decode(&whole, None).unwrap();
        prop_assert_eq!(read, without_chain(in_one_slice(packet.clone())));
        prop_assert_eq!(bytes.len() as u64, without_chain(packet).wire_bytes());
    }

    #[test]
    fn gso_packets_round_trip(packet in packet()) {
        let bytes = encoded_for_tun(&packet);
        prop_assert_eq!(decode_tun(&bytes), Ok(in_one_slice(packet.clone())));
        let mut headers = Vec::new();
        encode_tun_headers(&packet, &mut headers).unwrap();
        if let Some(segment) = packet.segment() {
            headers.extend_from_slice(&segment.payload.to_vec());
        }
        prop_assert_eq!(headers, bytes);
    }

    /// The bytes and the structure agree on what they stand for, cut in the same places.
    #[test]
    fn gso_packets_are_cut_as_their_bytes_are(packet in tcp_packet(), at: prop::sample::Index) {
        let bytes = encoded_for_tun(&packet).to_vec();
        let length = bytes.len();
        let mut raw = GsoPacket::from_tun(bytes, length).unwrap();
        let mut packet = packet;
        prop_assert_eq!(raw.segments(), packet.segments());
        prop_assert_eq!(raw.wire_bytes(), packet.wire_bytes());
        prop_assert_eq!(raw.largest_segment_bytes(), packet.largest_segment_bytes());
        if packet.segments() > 1 {
            let at = 1 + at.index(packet.segments() as usize - 1) as u32;
            let (raw_tail, tail) = (raw.split_off(at), packet.split_off(at));
            for (raw, packet) in [(raw, packet), (raw_tail, tail)] {
                let read = decode_tun(&Bytes::copy_from_slice(raw.as_tun_bytes()));
                prop_assert_eq!(read, Ok(in_one_slice(packet)));
            }
        }
    }

    #[test]
    fn any_bytes_are_a_packet_or_an_error(
        mut bytes: Vec<u8>,
        first in prop::sample::select(vec![0_u8, 0x45, 0x4f, 0x60]),
        vnet: [u8; 10],
    ) {
        if let Some(byte) = bytes.first_mut().filter(|_| first != 0) {
            *byte = first;
        }
        let bytes = Bytes::from(bytes);
        let _ = decode(&bytes, None);
        let _ = decode_tun(&bytes);
        let _ = decode(&bytes, Some(VirtioHeader::parse(&vnet).unwrap()));
    }

    /// Damage is survived, and without an offload it is found.
    #[test]
    fn damaged_packets_are_refused(
        packet in packet(),
        at: prop::sample::Index,
        mask in 1_u8..,
        cut: prop::sample::Index,
        vnet: [u8; 10],
    ) {
        let bytes = encoded(&packet);
        let mut damaged = bytes.to_vec();
        let at = at.index(damaged.len());
        damaged[at] ^= mask;
        let read = decode(&Bytes::from(damaged.clone()), None);
        // What IPv6 has no checksum for: version and traffic class, flow label, hop limit.
        if packet.source.is_ipv4() || at >= 40 {
            prop_assert!(read.is_err(), "byte {at} ^ {mask:#x}: {read:?}");
        }
        let vnet = VirtioHeader::parse(&vnet).unwrap();
        let _ = decode(&Bytes::from(damaged), Some(vnet));
        let cut = bytes.slice(..cut.index(bytes.len()));
        prop_assert!(decode(&cut, None).is_err());
        let _ = decode(&cut, Some(vnet));
    }
}

fn syn() -> Packet {
    Packet {
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
        ecn: EcnMark::NotEct,
        dont_fragment: true,
        hop_limit: 64,
        not_before: Instant::ZERO,
        body: Body::Tcp(Segment {
            source_port: 40_000,
            destination_port: 80,
            seq: SeqNum::new(1000),
            flags: TcpFlags::SYN,
            window: 64_240,
            options: SegmentOptions {
                mss: Some(1460),
                window_scale: Some(7),
                sack_permitted: true,
                timestamps: Some(Timestamps { value: 5, echo: 0 }),
                sack: None,
            },
            ..Segment::default()
        }),
    }
}

/// A segment with such options, as bytes of options in a SYN or another segment.
fn with_raw_options(flags: TcpFlags, raw: &[u8]) -> Result<SegmentOptions, WireError> {
    let mut packet = syn();
    let Body::Tcp(segment) = &mut packet.body else {
        unreachable!("it is a SYN");
    };
    segment.flags = flags;
    segment.options = SegmentOptions {
        sack: Some(SackBlocks::new(&[(SeqNum::new(1), SeqNum::new(2)); 4])),
        ..SegmentOptions::default()
    };
    let mut bytes = encoded_for_tun(&packet).to_vec();
    let options_at = VirtioHeader::BYTES + 40;
    bytes[options_at..].fill(0);
    bytes[options_at..options_at + raw.len()].copy_from_slice(raw);
    decode_tun(&bytes.into()).map(|packet| packet.segment().expect("TCP").options)
}

#[test]
fn a_syn_looks_as_linux_writes_it() {
    let bytes = encoded(&syn());
    let options = [
        2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 5, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    assert_eq!(&bytes[40..], options);
    let IpPacket::V4(ip) = IpPacket::parse(&bytes).unwrap() else {
        panic!("not IPv4")
    };
    assert!(ip.checksum_is_right() && ip.dont_fragment());
    let tcp = TcpSegment::parse(ip.payload()).unwrap();
    assert!(tcp.checksum_is_right((syn().source, syn().destination)));
}

#[test]
fn options_that_make_no_sense_do_no_harm() {
    let nothing = SegmentOptions::default();
    let check = |flags, raw: &[u8], expected| {
        assert_eq!(with_raw_options(flags, raw), Ok(expected), "{raw:?}");
    };
    // Those of the handshake count in the handshake only.
    check(TcpFlags::ACK, &[2, 4, 5, 0xb4, 3, 3, 7, 4, 2], nothing);
    // A shift above 14 counts as 14, an MSS of 0 is none.
    let expected = SegmentOptions {
        window_scale: Some(14),
        ..nothing
    };
    check(TcpFlags::SYN, &[2, 4, 0, 0, 3, 3, 255], expected);
    // The last of two counts.
    let expected = SegmentOptions {
        mss: Some(2),
        ..nothing
    };
    check(TcpFlags::SYN, &[2, 4, 0, 1, 2, 4, 0, 2], expected);
    // Wrong lengths, lengths that reach nowhere or too far.
    check(TcpFlags::SYN, &[2, 3, 1, 3, 4, 1, 1], nothing);
    check(TcpFlags::SYN, &[2, 0, 2, 4, 0, 1], nothing);
    check(TcpFlags::SYN, &[2, 200, 0, 1], nothing);
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_no_trace() {
    let check = |change: fn(&mut Packet), expected| {
        let mut packet = syn();
        change(&mut packet);
        let mut bytes = vec![7];
        assert_eq!(encode(&packet, &mut bytes), Err(expected));
        assert_eq!(encode_tun(&packet, &mut bytes), Err(expected));
        assert_eq!(bytes, [7]);
    };
    check(
        |packet| packet.source = "::1".parse().unwrap(),
        EncodeError::MixedVersions,
    );
    check(
        |packet| {
            packet.body = Body::Icmp(IcmpError {
                kind: IcmpKind::Refused,
                local: "10.0.0.2:1".parse().unwrap(),
                remote: "[::1]:1".parse().unwrap(),
                seq: SeqNum::new(0),
            });
        },
        EncodeError::MixedVersions,
    );
    check(
        |packet| {
            if let Body::Tcp(segment) = &mut packet.body {
                segment.options.sack = Some(SackBlocks::new(&[(segment.seq, segment.seq); 3]));
            }
        },
        EncodeError::OptionsTooLong(48),
    );
    check(
        |packet| {
            if let Body::Tcp(segment) = &mut packet.body {
                segment.payload = Bytes::from(vec![0; 65_496 - 20]).into();
            }
        },
        EncodeError::TooLong(65_536),
    );
}

#[test]
fn what_is_not_for_tcp_is_named() {
    let good = encoded(&syn());
    let check = |change: fn(&mut Vec<u8>), expected| {
        let mut bytes = good.to_vec();
        change(&mut bytes);
        // The header checksum again.
        bytes[10..12].fill(0);
        let sum = base::Checksum::new().bytes(&bytes[..20]).finish();
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(decode(&bytes.into(), None), Err(expected));
    };
    check(|bytes| bytes[9] = 17, WireError::Protocol(17));
    check(|bytes| bytes[9] = 58, WireError::Protocol(58));
    check(|bytes| bytes[6] = 0x20, WireError::Fragment);
    check(|bytes| bytes[7] = 1, WireError::Fragment);
    check(|bytes| bytes[3] += 1, WireError::CutShort);
    check(|bytes| bytes[25] ^= 1, WireError::Checksum);
    let mut bytes = good.to_vec();
    bytes[11] ^= 1;
    assert_eq!(decode(&bytes.into(), None), Err(WireError::Checksum));
    // A device that vouches for the segment does not vouch for the IP header.
    let mut bytes = encoded_for_tun(&syn()).to_vec();
    bytes[VirtioHeader::BYTES + 11] ^= 1;
    assert_eq!(decode_tun(&bytes.into()), Err(WireError::Checksum));
}

#[test]
fn a_virtio_header_that_contradicts_the_packet_says_nothing() {
    let mut packet = syn();
    let Body::Tcp(segment) = &mut packet.body else {
        unreachable!("it is a SYN");
    };
    segment.payload = Bytes::from_static(&[1; 300]).into();
    segment.gso_size = 100;
    let bytes = encoded_for_tun(&packet);
    let check = |change: fn(&mut VirtioHeader), expected: Result<u16, WireError>| {
        let mut vnet = VirtioHeader::parse(&bytes).unwrap();
        change(&mut vnet);
        let read = decode(&bytes.slice(VirtioHeader::BYTES..), Some(vnet));
        let size = read.map(|packet| packet.segment().expect("TCP").gso_size);
        assert_eq!(size, expected, "{vnet:?}");
    };
    check(|_| {}, Ok(100));
    check(|vnet| vnet.gso = base::GsoType::TcpV6, Ok(0));
    check(|vnet| vnet.gso = base::GsoType::UdpL4, Ok(0));
    check(|vnet| vnet.gso_size = 0, Ok(0));
    check(|vnet| vnet.gso_size = 300, Ok(0));
    check(|vnet| vnet.csum_start = 0, Err(WireError::Checksum));
    check(|vnet| vnet.flags = 0, Err(WireError::Checksum));
    check(|vnet| vnet.flags = VirtioHeader::DATA_VALID, Ok(100));
}

#[test]
fn errors_of_routers_are_understood() {
    let packet = syn();
    let about = encoded(&packet);
    let message = base::icmp::too_big(&about, 1400, Some([192, 0, 2, 1].into())).unwrap();
    let read = decode(&message.clone().into(), None).unwrap();
    let expected = IcmpError {
        kind: IcmpKind::TooBig { mtu: 1400 },
        local: "10.0.0.1:40000".parse().unwrap(),
        remote: "10.0.0.2:80".parse().unwrap(),
        seq: SeqNum::new(1000),
    };
    assert_eq!(read.body, Body::Icmp(expected));
    assert_eq!(read.source, IpAddr::from([192, 0, 2, 1]));

    let check = |kind: u8, code: u8, expected: Result<IcmpKind, WireError>| {
        let mut bytes = message.clone();
        bytes[20..22].copy_from_slice(&[kind, code]);
        bytes[22..24].fill(0);
        let sum = base::Checksum::new().bytes(&bytes[20..]).finish();
        bytes[22..24].copy_from_slice(&sum.to_be_bytes());
        let read = decode(&bytes.into(), None).map(|packet| match packet.body {
            Body::Icmp(error) => error.kind,
            Body::Tcp(_) => panic!("not ICMP"),
        });
        assert_eq!(read, expected, "type {kind} code {code}");
    };
    for soft in [0, 1, 5, 6, 7, 11, 12] {
        check(3, soft, Ok(IcmpKind::Unreachable));
    }
    for hard in [2, 3, 9, 10, 13] {
        check(3, hard, Ok(IcmpKind::Refused));
    }
    check(11, 0, Ok(IcmpKind::TimeExceeded));
    for (kind, code) in [(0, 0), (8, 0), (4, 0), (5, 1), (12, 0)] {
        check(kind, code, Err(WireError::IcmpIrrelevant));
    }
}

#[test]
fn errors_about_others_are_not_ours() {
    let about = encoded(&syn());
    let message = base::icmp::too_big(&about, 1400, None).unwrap();
    let check = |change: fn(&mut Vec<u8>)| {
        let mut bytes = message.clone();
        change(&mut bytes);
        let length = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        for (checksum, range) in [(10, 0..20), (22, 20..bytes.len())] {
            bytes[checksum..checksum + 2].fill(0);
            let sum = base::Checksum::new().bytes(&bytes[range]).finish();
            bytes[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
        }
        assert_eq!(decode(&bytes.into(), None), Err(WireError::IcmpIrrelevant));
    };
    check(|bytes| bytes[28 + 9] = 17);
    check(|bytes| bytes[28 + 15] += 1);
    check(|bytes| bytes[28 + 7] = 1);
    check(|bytes| bytes.truncate(28 + 20 + 7));
    check(|bytes| bytes.truncate(28));
    check(|bytes| bytes.truncate(27));
    check(|bytes| bytes[28] = 0);
}
