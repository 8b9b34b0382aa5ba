use super::*;
use crate::ip::{Ecn, IpHeader, Ipv4Header, Ipv6Header};
use crate::seq::SeqNum;
use crate::tcp::{TcpHeader, TcpOption};
use alloc::vec;
use proptest::prelude::*;

const TIMESTAMPS: [TcpOption<'static>; 3] = [
    TcpOption::Nop,
    TcpOption::Nop,
    TcpOption::Timestamps { value: 7, echo: 9 },
];

/// A transfer that is to be cut, in the terms of its headers.
#[derive(Clone, Copy, Debug)]
struct Plan {
    is_v4: bool,
    payload: usize,
    gso_size: u16,
    flags: TcpFlags,
    seq: u32,
    identification: u16,
    finished_checksum: bool,
}

impl Plan {
    fn ip(&self, segment: usize) -> IpHeader {
        if self.is_v4 {
            let mut header =
                Ipv4Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol::TCP);
            header.identification = self.identification.wrapping_add(segment as u16);
            header.ecn = Ecn::Ect0;
            IpHeader::V4(header)
        } else {
            let header = Ipv6Header::new(
                "fd00::1".parse().unwrap(),
                "fd00::2".parse().unwrap(),
                protocol::TCP,
            );
            IpHeader::V6(header)
        }
    }

    fn bytes(&self) -> Vec<u8> {
        (0..self.payload).map(|at| (at * 7 / 3) as u8).collect()
    }

    fn header(&self, from: usize, flags: TcpFlags) -> TcpHeader {
        TcpHeader {
            source_port: 4000,
            destination_port: 80,
            seq: SeqNum::new(self.seq) + from as u32,
            ack: SeqNum::new(77),
            flags,
            window: 501,
            urgent: 0,
        }
    }

    /// What is to arrive: each segment written from the rules, not cut.
    fn wire_packets(&self) -> Vec<Vec<u8>> {
        let payload = self.bytes();
        let step = usize::from(self.gso_size);
        let count = payload.len().div_ceil(step).max(1);
        let segment = |index: usize| {
            let from = index * step;
            let mut flags = self.flags;
            if index > 0 {
                flags = flags.without(TcpFlags::CWR);
            }
            if index + 1 < count {
                flags = flags.without(TcpFlags::FIN | TcpFlags::PSH);
            }
            let mut out = Vec::new();
            let part = &payload[from..(from + step).min(payload.len())];
            self.header(from, flags)
                .write_packet(&self.ip(index), &TIMESTAMPS, part, &mut out);
            out
        };
        (0..count).map(segment).collect()
    }

    /// As Linux hands it over, in a buffer with room to spare.
    fn gso_packet(&self) -> GsoPacket {
        let mut packet = Vec::new();
        self.header(0, self.flags).write_packet(
            &self.ip(0),
            &TIMESTAMPS,
            &self.bytes(),
            &mut packet,
        );
        let tcp_at: usize = if self.is_v4 { 20 } else { 40 };
        let mut vnet = VirtioHeader {
            gso: if self.is_v4 {
                GsoType::TcpV4
            } else {
                GsoType::TcpV6
            },
            ecn: self.flags.contains(TcpFlags::CWR),
            header_bytes: tcp_at as u16 + 32,
            gso_size: self.gso_size,
            ..VirtioHeader::default()
        };
        if !self.finished_checksum {
            vnet.flags = VirtioHeader::NEEDS_CSUM;
            vnet.csum_start = tcp_at as u16;
            vnet.csum_offset = 16;
            let length = (packet.len() - tcp_at) as u32;
            let sum = Checksum::new().pseudo_header(self.ip(0).ends(), protocol::TCP, length);
            set_be16(&mut packet, tcp_at + 16, sum.partial());
        }
        let mut buffer = vec![0xee; 70_000];
        buffer[..VNET].copy_from_slice(&vnet.to_bytes());
        buffer[VNET..VNET + packet.len()].copy_from_slice(&packet);
        GsoPacket::from_tun(buffer, VNET + packet.len()).unwrap()
    }
}

fn plans() -> impl Strategy<Value = Plan> {
    let flags = (0_u16..0x200).prop_map(|bits| TcpFlags::from_bits(bits) | TcpFlags::ACK);
    (
        any::<(bool, u32, u16, bool)>(),
        flags,
        1_usize..20_000,
        200_u16..3000,
    )
        .prop_map(
            |((is_v4, seq, identification, finished_checksum), flags, payload, gso_size)| Plan {
                is_v4,
                payload,
                gso_size,
                flags,
                seq,
                identification,
                finished_checksum,
            },
        )
}

/// What a network card with checksum offload sends for a packet of one segment.
fn send(packet: &GsoPacket) -> Vec<u8> {
    let vnet = VirtioHeader::parse(packet.as_tun_bytes()).unwrap();
    assert_eq!(&vnet, packet.vnet());
    assert_eq!(vnet.gso, GsoType::None);
    assert!(!vnet.ecn);
    let mut bytes = packet.packet().to_vec();
    if vnet.needs_checksum() {
        let start = usize::from(vnet.csum_start);
        let sum = Checksum::new().bytes(&bytes[start..]).finish();
        set_be16(&mut bytes, start + usize::from(vnet.csum_offset), sum);
    }
    bytes
}

/// Cuts at places that `cuts` names until single packets remain.
fn take_apart(mut packet: GsoPacket, cuts: &mut impl Iterator<Item = u32>) -> Vec<Vec<u8>> {
    let segments = packet.segments();
    if segments == 1 {
        return vec![send(&packet)];
    }
    let at = 1 + cuts.next().unwrap_or(0) % (segments - 1);
    let whole_bytes = packet.wire_bytes();
    let tail = packet.split_off(at);
    assert_eq!((packet.segments(), tail.segments()), (at, segments - at));
    assert_eq!(packet.wire_bytes() + tail.wire_bytes(), whole_bytes);
    for part in [&packet, &tail] {
        let copy = part.as_tun_bytes().to_vec();
        let length = copy.len();
        let again = GsoPacket::from_tun(copy, length).unwrap();
        assert_eq!((again.shape, again.vnet), (part.shape, part.vnet));
        if part.segments() > 1 {
            let ip = IpPacket::parse(part.packet()).unwrap();
            let flags = TcpSegment::parse(ip.payload()).unwrap().flags();
            assert_eq!(part.vnet.ecn, flags.contains(TcpFlags::CWR));
        }
    }
    let mut packets = take_apart(packet, cuts);
    packets.extend(take_apart(tail, cuts));
    packets
}

proptest! {
    #[test]
    fn parts_are_what_a_sender_without_offload_sends(plan in plans(), cuts: Vec<u32>) {
        let packet = plan.gso_packet();
        let expected = plan.wire_packets();
        prop_assert_eq!(packet.segments() as usize, expected.len());
        let bytes: usize = expected.iter().map(Vec::len).sum();
        prop_assert_eq!(packet.wire_bytes(), bytes as u64);
        let largest = expected.iter().map(Vec::len).max();
        prop_assert_eq!(Some(packet.largest_segment_bytes() as usize), largest);
        if expected.len() > 1 {
            let copy = packet.duplicate();
            prop_assert_eq!(&take_apart(packet, &mut cuts.into_iter().cycle()), &expected);
            prop_assert_eq!(take_apart(copy, &mut core::iter::empty()), expected);
        }
    }

    #[test]
    fn any_bytes_are_some_packet(bytes: Vec<u8>) {
        let length = bytes.len();
        match GsoPacket::from_tun(bytes, length) {
            Ok(packet) => { exercise(packet); }
            Err(bytes) => prop_assert!(bytes.len() < VNET),
        }
    }

    #[test]
    fn mutated_gso_packets_are_some_packet(
        plan in plans(),
        changes in prop::collection::vec((0_usize..120, any::<u8>()), 1..4),
        cut: prop::sample::Index,
    ) {
        let packet = plan.gso_packet();
        let mut bytes = packet.as_tun_bytes().to_vec();
        for (at, value) in changes {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        let length = VNET + cut.index(bytes.len() - VNET + 1);
        exercise(GsoPacket::from_tun(bytes.clone(), length).unwrap());
        let length = bytes.len();
        exercise(GsoPacket::from_tun(bytes, length).unwrap());
    }
}

/// Calls everything; takes no more than the packet has bytes.
fn exercise(mut packet: GsoPacket) {
    assert!(packet.segments() as usize <= packet.packet().len().max(1));
    assert!(packet.wire_bytes() >= packet.packet().len() as u64);
    assert!(packet.largest_segment_bytes() as usize <= packet.packet().len());
    let reply = packet.too_big_reply(1280, None);
    assert!(reply.is_none_or(|reply| reply.packet().len() <= 1280));
    while packet.segments() > 1 {
        let tail = packet.split_off(packet.segments() / 2);
        assert!(tail.packet().len() <= 70_000);
        if tail.segments() > 1 {
            packet = tail;
        }
    }
}

/// Bytes as Linux 6.18 wrote them to a TUN device, MTU 1500, after an echoed congestion mark;
/// of the payload only the length counts.
#[test]
fn headers_of_linux_are_understood() {
    let check = |headers: &str, packet_bytes: usize, header_bytes: usize| {
        let hex = |at: usize| u8::from_str_radix(&headers[at..at + 2], 16).unwrap();
        let mut buffer: Vec<u8> = (0..headers.len()).step_by(2).map(hex).collect();
        assert_eq!(buffer.len(), VNET + header_bytes);
        buffer.resize(VNET + packet_bytes, 0);
        let mut head = GsoPacket::from_tun(buffer, VNET + packet_bytes).unwrap();
        assert_eq!(head.segments(), 10);
        let wire_bytes = packet_bytes + 9 * header_bytes;
        assert_eq!(head.wire_bytes(), wire_bytes as u64);
        check_partial(&head);
        let tail = head.split_off(1);
        check_partial(&head);
        check_partial(&tail);
        assert!(tail.vnet().header_bytes == header_bytes as u16 && !tail.vnet().ecn);
        let [head, tail] = [&head, &tail].map(|part| {
            let ip = IpPacket::parse(part.packet()).unwrap();
            let tcp = TcpSegment::parse(ip.payload()).unwrap();
            (ip, tcp.seq(), tcp.flags(), tcp.payload().len() as u32)
        });
        assert_eq!(head.2, TcpFlags::CWR | TcpFlags::ACK);
        assert_eq!(tail.2, TcpFlags::PSH | TcpFlags::ACK);
        assert_eq!(tail.1, head.1 + head.3);
        assert_eq!(head.3 * 9, tail.3);
        if let (IpPacket::V4(head), IpPacket::V4(tail)) = (head.0, tail.0) {
            // Its next GSO packet had the number that comes after ten.
            assert_eq!(tail.identification(), head.identification() + 1);
            assert!(head.checksum_is_right() && tail.checksum_is_right());
        }
    };
    let v4 = "01813400a80514001000450238c4ea894000400603940a0900010a090002a56200508d7e85e100\
              0003e98098003f4ccb00000101080ab1c83ebf00000005";
    check(v4, 14_532, 52);
    let v6 = "018448009405280010006029e47b37e80640fd090000000000000000000000000001fd09000000\
              0000000000000000000002d4ae0050aacecf45000003e980980040320500000101080a4727592d\
              00000005";
    check(v6, 14_352, 72);
}

/// The checksum field holds the sum over the pseudo header.
fn check_partial(packet: &GsoPacket) {
    assert!(packet.vnet().needs_checksum());
    let ip = IpPacket::parse(packet.packet()).unwrap();
    let segment = TcpSegment::parse(ip.payload()).unwrap();
    let ends = (ip.source(), ip.destination());
    let length = ip.payload().len() as u32;
    let sum = Checksum::new().pseudo_header(ends, protocol::TCP, length);
    assert_eq!(segment.checksum(), sum.partial());
}

const BULK: Plan = Plan {
    is_v4: true,
    payload: 45 * 1448,
    gso_size: 1448,
    flags: TcpFlags::ACK,
    seq: u32::MAX - 3000,
    identification: u16::MAX,
    finished_checksum: false,
};

#[test]
fn buffers_come_back_for_reuse() {
    let mut packet = BULK.gso_packet();
    let at = packet.as_tun_bytes().as_ptr();
    // The head is small: it is the one copied.
    let tail = packet.split_off(1);
    assert!(packet.into_buffer().len() < 2000);
    assert_eq!(tail.as_tun_bytes().len(), VNET + 52 + 44 * 1448);
    let buffer = tail.into_buffer();
    assert_eq!((buffer.as_ptr(), buffer.len()), (at, 70_000));

    let mut packet = BULK.gso_packet();
    let at = packet.as_tun_bytes().as_ptr();
    // The tail is small.
    assert!(packet.split_off(44).into_buffer().len() < 2000);
    let buffer = packet.into_buffer();
    assert_eq!((buffer.as_ptr(), buffer.len()), (at, 70_000));

    assert_eq!(GsoPacket::from_tun(vec![0; 9], 9).unwrap_err().len(), 9);
    assert_eq!(GsoPacket::from_tun(vec![0; 9], 99).unwrap_err().len(), 9);
}

#[test]
fn what_is_not_to_be_cut_counts_as_one() {
    let check = |name: &str, at: usize, value: u8| {
        let mut bytes = BULK.gso_packet().as_tun_bytes().to_vec();
        bytes[at] = value;
        let length = bytes.len();
        let packet = GsoPacket::from_tun(bytes.clone(), length).unwrap();
        assert_eq!(packet.segments(), 1, "{name}");
        assert_eq!(packet.wire_bytes(), (length - VNET) as u64, "{name}");
        assert_eq!(packet.as_tun_bytes(), bytes, "{name}");
    };
    check("no offload", 1, 0);
    check("UDP offload", 1, 5);
    check("the other IP version", 1, 4);
    check("checksum elsewhere", 6, 0);
    check("not IP", VNET, 0);
    check("another length", VNET + 3, 0);
    check("a fragment", VNET + 6, 0x20);
    check("UDP", VNET + 9, 17);
    check("no TCP header", VNET + 20 + 12, 0);
}

#[test]
fn a_routing_header_with_hops_left_is_not_cut() {
    let check = |hops_left: u8, segments: u32| {
        let plan = Plan {
            is_v4: false,
            ..BULK
        };
        let packet = plan.gso_packet();
        let mut bytes = packet.as_tun_bytes().to_vec();
        let routing = [protocol::TCP, 0, 4, hops_left, 0, 0, 0, 0];
        bytes.splice(VNET + 40..VNET + 40, routing);
        let total = (bytes.len() - VNET - 40) as u16;
        bytes[6] = 48;
        set_be16(&mut bytes, VNET + 4, total);
        bytes[VNET + 6] = 43;
        let length = bytes.len();
        let mut packet = GsoPacket::from_tun(bytes, length).unwrap();
        assert_eq!(packet.segments(), segments);
        if segments > 1 {
            let tail = packet.split_off(44);
            let ip = IpPacket::parse(tail.packet()).unwrap();
            assert_eq!((ip.header_bytes(), ip.payload().len()), (48, 32 + 1448));
        }
    };
    check(0, 45);
    check(1, 1);
}

#[test]
#[should_panic(expected = "cut in front of segment 45 of 45")]
fn cutting_behind_the_end_is_a_bug() {
    BULK.gso_packet().split_off(45);
}

#[test]
fn too_big_quotes_the_first_wire_packet() {
    for plan in [
        BULK,
        Plan {
            is_v4: false,
            ..BULK
        },
    ] {
        let reply = plan.gso_packet().too_big_reply(1400, None).unwrap();
        assert_eq!(
            (reply.segments(), reply.vnet()),
            (1, &VirtioHeader::default())
        );
        let message = icmp::TooBig::parse(reply.packet()).unwrap();
        assert_eq!((message.mtu, message.from), (1400, plan.ip(0).ends().1));
        let first = &plan.wire_packets()[0];
        let tcp_at = if plan.is_v4 { 20 } else { 40 };
        // All but the TCP checksum, which a device would have set.
        assert_eq!(message.quoted[..tcp_at + 16], first[..tcp_at + 16]);
        assert!(message.quoted.len() > 500);
        let router = "192.0.2.1".parse().unwrap();
        let reply = plan.gso_packet().too_big_reply(1400, Some(router));
        let from = icmp::TooBig::parse(reply.unwrap().packet()).unwrap().from;
        assert_eq!(from == router, plan.is_v4);
    }
}
