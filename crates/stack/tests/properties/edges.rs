//! What packets show of a connection: the right edges that each side offers.

use std::hash::{DefaultHasher, Hash as _};

use base::SeqNum;
use base::tcp::TcpFlags;
use tcptailor_stack::Packet;

use super::common::Side;

/// The right edges that were offered, as packets show them.
#[derive(Default)]
pub(crate) struct Edges {
    /// Shift of each side's windows, from its SYN.
    scales: [Option<u8>; 2],
    edges: [Option<SeqNum>; 2],
    /// The client's port in its latest attempt.
    client_port: Option<u16>,
    pub(crate) retracted: u64,
    /// Bytes of the largest packet.
    pub(crate) largest: u32,
    /// A hash of all.
    pub(crate) passed: DefaultHasher,
}

impl Edges {
    pub(crate) fn see(&mut self, side: Side, packet: &Packet) {
        let Some(segment) = packet.segment() else {
            return;
        };
        let side = usize::from(side == Side::Server);
        let numbers = (segment.seq, segment.ack, segment.flags, segment.window);
        let bytes = (segment.payload.len(), segment.gso_size);
        (side, numbers, bytes, packet.not_before).hash(&mut self.passed);
        format!("{:?}", segment.options).hash(&mut self.passed);
        self.largest = self
            .largest
            .max(segment.payload.len() + 1024 * segment.segments());
        let client_port = match side {
            0 => segment.source_port,
            _ => segment.destination_port,
        };
        // Attempts that failed may be answered late.
        if segment.flags.without(TcpFlags::ACK) == TcpFlags::SYN && side == 0 {
            self.client_port = Some(client_port);
        }
        let is_of_another = self.client_port.is_some_and(|port| port != client_port);
        if segment.flags.contains(TcpFlags::RST) || is_of_another {
            return;
        }
        if segment.flags.contains(TcpFlags::SYN) {
            self.scales[side] = segment.options.window_scale;
            self.edges[side] = None;
            if !segment.flags.contains(TcpFlags::ACK) {
                return;
            }
        }
        let shift = match (self.scales, segment.flags.contains(TcpFlags::SYN)) {
            ([Some(client), Some(server)], false) => [client, server][side],
            _ => 0,
        };
        let edge = segment.ack + (u32::from(segment.window) << shift);
        match self.edges[side] {
            Some(before) if before.after(edge) => self.retracted += 1,
            _ => self.edges[side] = Some(edge),
        }
    }
}
