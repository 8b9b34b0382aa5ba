//! Packets of a script as bytes.

use std::net::IpAddr;

use base::ip::{Ecn, IpHeader, IpPacket, Ipv4Header, Ipv6Header, protocol};
use base::tcp::{TcpHeader, TcpOption, TcpSegment};
use packet_script::{Icmp, IcmpName, Wire, WireOptions};

/// Reads a packet of the host; `None` where it is not TCP.
pub(crate) fn decode(bytes: &[u8]) -> Option<Wire> {
    let packet = IpPacket::parse(bytes).ok()?;
    if packet.protocol() != protocol::TCP {
        return None;
    }
    let segment = TcpSegment::parse(packet.payload()).ok()?;
    let ends = (packet.source(), packet.destination());
    assert!(
        segment.checksum_is_right(ends),
        "a segment with a wrong checksum"
    );
    let mut options = WireOptions::default();
    for option in segment.options() {
        match option {
            TcpOption::Mss(bytes) => options.mss = Some(bytes),
            TcpOption::WindowScale(shift) => options.window_scale = Some(shift),
            TcpOption::SackPermitted => options.sack_permitted = true,
            TcpOption::Sack(blocks) => options.sack = Some(blocks),
            TcpOption::Timestamps { value, echo } => options.timestamps = Some((value, echo)),
            _ => {}
        }
    }
    Some(Wire {
        ecn: packet.ecn(),
        header: TcpHeader {
            source_port: segment.source_port(),
            destination_port: segment.destination_port(),
            seq: segment.seq(),
            ack: segment.ack(),
            flags: segment.flags(),
            window: segment.window(),
            urgent: segment.urgent(),
        },
        options,
        payload: segment.payload().to_vec(),
    })
}

/// A packet from `peer` to `host`.
pub(crate) fn encode(wire: &Wire, peer: IpAddr, host: IpAddr) -> Vec<u8> {
    let mut options = Vec::new();
    let given = &wire.options;
    options.extend(given.mss.map(TcpOption::Mss));
    options.extend(given.sack_permitted.then_some(TcpOption::SackPermitted));
    if let Some((value, echo)) = given.timestamps {
        options.extend([
            TcpOption::Nop,
            TcpOption::Nop,
            TcpOption::Timestamps { value, echo },
        ]);
    }
    if let Some(shift) = given.window_scale {
        options.extend([TcpOption::Nop, TcpOption::WindowScale(shift)]);
    }
    if let Some(blocks) = given.sack {
        options.extend([TcpOption::Nop, TcpOption::Nop, TcpOption::Sack(blocks)]);
    }
    let mut out = Vec::new();
    let ip = ip_header(peer, host, protocol::TCP, wire.ecn);
    wire.header
        .write_packet(&ip, &options, &wire.payload, &mut out);
    out
}

/// An ICMP error from the peer's address about a segment of the host.
pub(crate) fn encode_icmp(icmp: &Icmp, peer: IpAddr, host: IpAddr) -> Vec<u8> {
    let mut about = Vec::new();
    let ip = ip_header(host, peer, protocol::TCP, Ecn::NotCapable);
    icmp.quoted.write_packet(&ip, &[], &[0; 100], &mut about);
    let mtu = match icmp.kind {
        IcmpName::TooBig(mtu) => mtu,
        _ => 0,
    };
    let mut bytes = base::icmp::too_big(&about, mtu, Some(peer)).expect("a segment of the host");
    let header = IpPacket::parse(&bytes).expect("made here").header_bytes();
    let (kind, code) = match (icmp.kind, host.is_ipv4()) {
        (IcmpName::TooBig(_), _) => return bytes,
        (IcmpName::NetUnreachable, true) => (3, 0),
        (IcmpName::HostUnreachable, true) => (3, 1),
        (IcmpName::ProtocolUnreachable, true) => (3, 2),
        (IcmpName::PortUnreachable, true) => (3, 3),
        (IcmpName::TimeExceeded, true) => (11, 0),
        (IcmpName::NetUnreachable, false) => (1, 0),
        (IcmpName::HostUnreachable, false) => (1, 3),
        (IcmpName::ProtocolUnreachable, false) => (4, 1),
        (IcmpName::PortUnreachable, false) => (1, 4),
        (IcmpName::TimeExceeded, false) => (3, 0),
    };
    let message = &mut bytes[header..];
    message[0] = kind;
    message[1] = code;
    message[2..4].fill(0);
    let mut sum = base::Checksum::new();
    if host.is_ipv6() {
        let length = u32::try_from(message.len()).expect("a small message");
        sum = sum.pseudo_header((peer, host), protocol::ICMPV6, length);
    }
    let sum = sum.bytes(message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn ip_header(from: IpAddr, to: IpAddr, protocol: u8, ecn: Ecn) -> IpHeader {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut header = Ipv4Header::new(from, to, protocol);
            header.ecn = ecn;
            IpHeader::V4(header)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut header = Ipv6Header::new(from, to, protocol);
            header.ecn = ecn;
            IpHeader::V6(header)
        }
        _ => panic!("both ends have one version"),
    }
}
