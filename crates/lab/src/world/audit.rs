//! Checks promises of hosts that are visible from outside: an offered window is never taken back
//! (RFC 9293 section 3.8.6.2.2). Where a host is out of memory for what it offered, it may say 0,
//! as Linux does (`tcp_select_window`, rule 3.4.7).

use core::net::SocketAddr;
use std::collections::BTreeMap;

use base::SeqNum;
use base::tcp::TcpFlags;
use stack::{Packet, Segment};

/// Directions that are remembered; beyond them the oldest names are forgotten at once.
const DIRECTIONS_MAX: usize = 65_536;

/// Sender and receiver of packets.
type Direction = (SocketAddr, SocketAddr);

/// Promises of hosts, checked on each packet.
#[derive(Debug, Default)]
pub(super) struct Audit {
    offers: BTreeMap<Direction, Offer>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Offer {
    /// The shift that the SYN named; `None` where it offered no scaling.
    scale: Option<u8>,
    /// The end of the window offered last.
    edge: Option<SeqNum>,
}

impl Audit {
    /// # Panics
    /// Where a host takes back a window.
    pub(super) fn on_sent(&mut self, packet: &Packet) {
        let Some(segment) = packet.segment() else {
            return;
        };
        let from = SocketAddr::new(packet.source, segment.source_port);
        let to = SocketAddr::new(packet.destination, segment.destination_port);
        if segment.flags.contains(TcpFlags::RST) {
            return;
        }
        if segment.flags.contains(TcpFlags::SYN) {
            if self.offers.len() >= DIRECTIONS_MAX {
                self.offers.clear();
            }
            let offer = Offer {
                scale: segment.options.window_scale,
                edge: None,
            };
            self.offers.insert((from, to), offer);
            return;
        }
        let theirs = self.offers.get(&(to, from)).map(|offer| offer.scale);
        let (Some(theirs), Some(offer)) = (theirs, self.offers.get_mut(&(from, to))) else {
            return;
        };
        let scale = theirs.and(offer.scale).unwrap_or(0);
        offer.check(segment, scale, (from, to));
    }
}

impl Offer {
    fn check(&mut self, segment: &Segment, scale: u8, direction: Direction) {
        if !segment.flags.contains(TcpFlags::ACK) {
            return;
        }
        let edge = segment.ack + (u32::from(segment.window) << scale);
        if let Some(before) = self.edge.filter(|_| segment.window > 0) {
            assert!(
                !edge.before(before),
                "{} takes back {} bytes of the window that it offered to {}",
                direction.0,
                before.bytes_since(edge),
                direction.1
            );
        }
        self.edge = Some(edge);
    }
}
