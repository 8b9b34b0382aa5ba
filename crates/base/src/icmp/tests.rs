use super::*;
use crate::ip::Ecn;
use crate::seq::SeqNum;
use crate::tcp::{TcpFlags, TcpHeader};
use alloc::vec;
use etherparse::{IpHeaders, NetSlice, SlicedPacket, TransportSlice};

fn tcp_packet(ip: &IpHeader, payload: usize) -> Vec<u8> {
    let header = TcpHeader {
        seq: SeqNum::new(1),
        flags: TcpFlags::ACK,
        ..TcpHeader::default()
    };
    let mut out = Vec::new();
    header.write_packet(ip, &[], &vec![7; payload], &mut out);
    out
}

fn v4() -> Ipv4Header {
    Ipv4Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), protocol::TCP)
}

fn v6() -> Ipv6Header {
    let (source, destination) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
    Ipv6Header::new(source, destination, protocol::TCP)
}

#[test]
fn messages_are_what_another_library_reads() {
    let packet = tcp_packet(&IpHeader::V4(v4()), 1460);
    let message = too_big(&packet, 1400, None).unwrap();
    assert_eq!(message.len(), 576);
    let parsed = SlicedPacket::from_ip(&message).unwrap();
    let Some(NetSlice::Ipv4(ip)) = &parsed.net else {
        panic!("{parsed:?}")
    };
    assert_eq!(ip.header().destination(), [10, 0, 0, 1]);
    let header = ip.header().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    let Some(TransportSlice::Icmpv4(icmp)) = parsed.transport else {
        panic!("{parsed:?}")
    };
    let checksum = icmp.header().icmp_type.calc_checksum(icmp.payload());
    assert_eq!(icmp.checksum(), checksum);
    let expected =
        etherparse::icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1400 };
    assert_eq!(
        icmp.header().icmp_type,
        etherparse::Icmpv4Type::DestinationUnreachable(expected)
    );
    assert!(packet.starts_with(icmp.payload()));

    let packet = tcp_packet(&IpHeader::V6(v6()), 1460);
    let message = too_big(&packet, 1400, None).unwrap();
    assert_eq!(message.len(), 1280);
    let parsed = SlicedPacket::from_ip(&message).unwrap();
    let Some(TransportSlice::Icmpv6(icmp)) = parsed.transport else {
        panic!("{parsed:?}")
    };
    let (IpHeaders::Ipv6(ip, _), _) = IpHeaders::from_slice(&message)
        .map(|(headers, payload)| (headers, payload.payload.len()))
        .unwrap()
    else {
        panic!("not IPv6")
    };
    assert!(icmp.is_checksum_valid(ip.source, ip.destination));
    assert_eq!(
        icmp.header().icmp_type,
        etherparse::Icmpv6Type::PacketTooBig { mtu: 1400 }
    );
    assert!(packet.starts_with(icmp.payload()));
}

#[test]
fn silence_where_no_message_may_be_sent() {
    let check = |name: &str, packet: &[u8]| {
        assert_eq!(too_big(packet, 1400, None), None, "{name}");
    };
    let v4_packet = |change: fn(&mut Ipv4Header)| {
        let mut header = v4();
        change(&mut header);
        tcp_packet(&IpHeader::V4(header), 1460)
    };
    assert!(too_big(&v4_packet(|header| header.ecn = Ecn::Ect0), 1400, None).is_some());
    check(
        "may be fragmented",
        &v4_packet(|header| header.dont_fragment = false),
    );
    check(
        "to many",
        &v4_packet(|header| header.destination = [224, 0, 0, 1].into()),
    );
    check(
        "from many",
        &v4_packet(|header| header.source = [255; 4].into()),
    );
    check(
        "from nobody",
        &v4_packet(|header| header.source = [0; 4].into()),
    );
    check("not IP", &[0; 60]);
    let mut fragment = v4_packet(|_| {});
    fragment[7] = 1;
    check("a later fragment", &fragment);
    for packet in [v4_packet(|_| {}), tcp_packet(&IpHeader::V6(v6()), 1460)] {
        let error = too_big(&packet, 1400, None).unwrap();
        check("about a message of its own kind", &error);
    }
}

#[test]
fn what_is_no_such_message_is_not_read_as_one() {
    let packet = tcp_packet(&IpHeader::V4(v4()), 100);
    assert_eq!(TooBig::parse(&packet), None);
    let message = too_big(&packet, 70_000, Some([192, 0, 2, 1].into())).unwrap();
    let read = TooBig::parse(&message).unwrap();
    assert_eq!((read.mtu, read.from), (65_535, [192, 0, 2, 1].into()));
    for length in 0..28 {
        assert_eq!(TooBig::parse(&message[..length]), None);
    }
}
