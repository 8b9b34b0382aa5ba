//! Packets of a script as our stack has them.

use std::net::{IpAddr, SocketAddr};

use base::Instant;
use base::ip::Ecn;
use base::tcp::TcpHeader;
use bytes::Bytes;
use stack::{
    Body, EcnMark, IcmpError, IcmpKind, Packet, Payload, Segment, SegmentOptions, Timestamps,
};

use super::model::IcmpName;
use super::run::{Icmp, Wire, WireOptions};

/// The host's and the peer's address.
pub(super) const fn addresses(ipv6: bool) -> (IpAddr, IpAddr) {
    use std::net::{Ipv4Addr, Ipv6Addr};
    if ipv6 {
        (
            IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1)),
            IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2)),
        )
    } else {
        (
            IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)),
            IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2)),
        )
    }
}

/// A segment that the stack sent; `None` where it is none.
pub(super) fn of_packet(packet: &Packet) -> Option<Wire> {
    let segment = packet.segment()?;
    let Segment {
        source_port,
        destination_port,
        seq,
        ack,
        flags,
        window,
        urgent,
        options,
        payload,
        gso_size: _,
    } = segment;
    let ecn = match packet.ecn {
        EcnMark::NotEct => Ecn::NotCapable,
        EcnMark::Ect0 => Ecn::Ect0,
        EcnMark::Ect1 => Ecn::Ect1,
        EcnMark::Ce => Ecn::CongestionExperienced,
    };
    Some(Wire {
        ecn,
        header: TcpHeader {
            source_port: *source_port,
            destination_port: *destination_port,
            seq: *seq,
            ack: *ack,
            flags: *flags,
            window: *window,
            urgent: *urgent,
        },
        options: WireOptions {
            mss: options.mss,
            window_scale: options.window_scale,
            sack_permitted: options.sack_permitted,
            timestamps: options
                .timestamps
                .map(|Timestamps { value, echo }| (value, echo)),
            sack: options.sack,
        },
        payload: payload.to_vec(),
    })
}

/// A packet from `peer` to `host`.
pub(super) fn to_packet(wire: &Wire, peer: IpAddr, host: IpAddr) -> Packet {
    let Wire {
        ecn,
        header,
        options,
        payload,
    } = wire;
    let timestamps = options
        .timestamps
        .map(|(value, echo)| Timestamps { value, echo });
    let ecn = match ecn {
        Ecn::NotCapable => EcnMark::NotEct,
        Ecn::Ect0 => EcnMark::Ect0,
        Ecn::Ect1 => EcnMark::Ect1,
        Ecn::CongestionExperienced => EcnMark::Ce,
    };
    let segment = Segment {
        source_port: header.source_port,
        destination_port: header.destination_port,
        seq: header.seq,
        ack: header.ack,
        flags: header.flags,
        window: header.window,
        urgent: header.urgent,
        options: SegmentOptions {
            mss: options.mss,
            window_scale: options.window_scale,
            sack_permitted: options.sack_permitted,
            timestamps,
            sack: options.sack,
        },
        payload: Payload::from(Bytes::from(payload.clone())),
        gso_size: 0,
    };
    packet(peer, host, ecn, Body::Tcp(segment))
}

/// An ICMP error from `peer` about a segment of the host.
pub(super) fn icmp_packet(icmp: &Icmp, peer: IpAddr, host: IpAddr) -> Packet {
    let Icmp { kind, quoted } = icmp;
    let kind = match kind {
        IcmpName::TooBig(mtu) => IcmpKind::TooBig { mtu: *mtu },
        IcmpName::NetUnreachable | IcmpName::HostUnreachable => IcmpKind::Unreachable,
        IcmpName::TimeExceeded => IcmpKind::TimeExceeded,
        IcmpName::ProtocolUnreachable | IcmpName::PortUnreachable => IcmpKind::Refused,
    };
    let error = IcmpError {
        kind,
        local: SocketAddr::new(host, quoted.source_port),
        remote: SocketAddr::new(peer, quoted.destination_port),
        seq: quoted.seq,
    };
    packet(peer, host, EcnMark::NotEct, Body::Icmp(error))
}

const fn packet(source: IpAddr, destination: IpAddr, ecn: EcnMark, body: Body) -> Packet {
    Packet {
        source,
        destination,
        ecn,
        dont_fragment: true,
        hop_limit: 64,
        not_before: Instant::ZERO,
        body,
    }
}
