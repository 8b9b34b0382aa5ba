//! A link with its place in the world.

use core::net::SocketAddr;

use base::{Instant, Rate, WirePacket};
use link::{Link, LinkSpec, SpecError};
use stack::{Body, EcnMark, IcmpError, IcmpKind, Packet};

use super::packet_pool::BoxedPacket;
use super::tap::{Tap, TapPoint};

/// Hop limit of packets that routers originate (RFC 1812 section 4.2.2.9).
const HOP_LIMIT: u8 = 64;

/// A link and where it leads.
#[derive(Debug)]
pub(super) struct Hop {
    pub(super) link: Link<BoxedPacket>,
    pub(super) to: usize,
    /// In the agenda.
    pub(super) member: usize,
    /// In the agenda, the host that reads packets directly from this link.
    pub(super) read_by: Option<usize>,
    pub(super) interface_rate: Option<Rate>,
    /// When the interface is free for the next packet.
    interface_free: Instant,
    pub(super) taps: Vec<(TapPoint, Box<dyn Tap>)>,
    /// Wire packets that were handed to it.
    pub(super) taken: u64,
}

impl Hop {
    pub(super) fn new(
        spec: LinkSpec,
        seed: u64,
        (_, to): (usize, usize),
        member: usize,
    ) -> Result<Self, SpecError> {
        Ok(Self {
            link: Link::new(spec, seed)?,
            to,
            member,
            read_by: None,
            interface_rate: None,
            interface_free: Instant::ZERO,
            taps: Vec::new(),
            taken: 0,
        })
    }

    /// Takes a packet at `at`; it comes back where it is too big and that is to be reported.
    pub(super) fn handle_packet(
        &mut self,
        at: Instant,
        packet: BoxedPacket,
    ) -> Option<BoxedPacket> {
        self.taken += u64::from(packet.segments());
        let mut at = at;
        if let Some(rate) = self.interface_rate {
            at = at.max(self.interface_free);
            let (nanos, _) = rate.serialize_nanos(packet.wire_bytes(), 0);
            self.interface_free = at.after_nanos(nanos);
        }
        self.show(TapPoint::Entry, at, &packet);
        self.link.handle_packet(at, packet).too_big
    }

    #[inline]
    pub(super) fn poll_deliver(&mut self, now: Instant) -> Option<BoxedPacket> {
        let packet = self.link.poll_deliver(now)?;
        self.show(TapPoint::Exit, now, &packet);
        Some(packet)
    }

    #[inline]
    fn show(&mut self, point: TapPoint, at: Instant, packet: &Packet) {
        for (_, tap) in self.taps.iter_mut().filter(|(here, _)| *here == point) {
            tap.on_packet(at, packet);
        }
    }
}

/// A router's reply to the sender of a packet that does not fit the next hop: ICMP "fragmentation
/// needed" or "packet too big" (RFC 1191 section 4, RFC 4443 section 3.2). `None` for anything but
/// a segment: no errors about errors.
pub(super) fn too_big_reply(packet: &Packet, spec: &LinkSpec) -> Option<Packet> {
    let segment = packet.segment()?;
    let mtu = spec.mtu.map_or(0, |mtu| mtu.0);
    let error = IcmpError {
        kind: IcmpKind::TooBig {
            mtu: u32::try_from(mtu).unwrap_or(u32::MAX),
        },
        local: SocketAddr::new(packet.source, segment.source_port),
        remote: SocketAddr::new(packet.destination, segment.destination_port),
        seq: segment.seq,
    };
    Some(Packet {
        // Routers have no addresses here.
        source: packet.destination,
        destination: packet.source,
        ecn: EcnMark::NotEct,
        dont_fragment: false,
        hop_limit: HOP_LIMIT,
        not_before: Instant::ZERO,
        body: Body::Icmp(error),
    })
}
