//! One connection of a script: its ports, and what numbers on the wire mean.

use base::tcp::TcpFlags;
use base::{Instant, SeqNum};

use super::run::Wire;

/// Port at which the host listens.
pub const HOST_PORT: u16 = 8080;
/// Port of the peer to which the host connects, for the first connection.
pub const PEER_PORT_ACTIVE: u16 = 7000;
/// Port from which the peer connects, for the first connection.
pub const PEER_PORT_PASSIVE: u16 = 40_000;

/// First sequence number of the peer: near the end, so that all scripts pass it.
const PEER_ISN: u32 = 0xffff_fc00;
/// First value of the peer's clock; the unit is a millisecond.
const PEER_CLOCK: u32 = 100_000;

/// Largest distance of a plausible sequence number; segments further ahead are meant to be
/// rejected, and nothing follows them.
const PLAUSIBLE_BYTES: i64 = 100_000;

/// State of a connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) host_port: Option<u16>,
    pub(super) peer_port: u16,
    /// Sequence number of the host's SYN.
    pub(super) host_isn: Option<SeqNum>,
    pub(super) peer_isn: SeqNum,
    /// End of what the host sent, relative.
    pub(super) host_next: i64,
    /// End of what the peer sent, relative.
    pub(super) peer_next: i64,
    /// Offered in the SYNs.
    pub(super) host_offer: Offer,
    pub(super) peer_offer: Offer,
    /// Last clock value of the host.
    pub(super) host_clock: u32,
    /// Number from which the connection derives the peer's address.
    index: u16,
}

/// Options offered in a SYN.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offer {
    pub(super) timestamps: bool,
    pub(super) window_scale: Option<u8>,
}

impl Connection {
    pub(super) fn new(index: u16) -> Self {
        Self {
            host_port: None,
            peer_port: PEER_PORT_PASSIVE + index,
            host_isn: None,
            peer_isn: SeqNum::new(PEER_ISN),
            host_next: 0,
            peer_next: 0,
            host_offer: Offer::default(),
            peer_offer: Offer::default(),
            host_clock: 0,
            index,
        }
    }

    /// The host opens it: it is the host's port that is not known.
    pub(super) fn opens(&mut self) {
        self.peer_port = PEER_PORT_ACTIVE + self.index;
        self.host_port = None;
        self.forget_host();
    }

    /// A new incarnation with the same ports.
    pub(super) fn forget_host(&mut self) {
        self.host_isn = None;
        self.host_next = 0;
        self.host_offer = Offer::default();
    }

    /// The peer begins anew with a higher number.
    pub(super) fn renew_peer(&mut self) {
        self.peer_isn += 1_000_000;
        self.peer_next = 0;
    }

    pub(super) fn owns(&self, wire: &Wire) -> bool {
        let host = self
            .host_port
            .is_none_or(|port| port == wire.header.source_port);
        host && self.peer_port == wire.header.destination_port
    }

    /// A sequence number of the host, relative to its SYN.
    pub(super) fn host_relative(&self, seq: SeqNum) -> i64 {
        let isn = self.host_isn.unwrap_or_default();
        relative(seq, isn, self.host_next)
    }

    pub(super) fn peer_relative(&self, seq: SeqNum) -> i64 {
        relative(seq, self.peer_isn, self.peer_next)
    }

    pub(super) fn host_seq(&self, relative: i64) -> SeqNum {
        absolute(self.host_isn.unwrap_or_default(), relative)
    }

    pub(super) fn peer_seq(&self, relative: i64) -> SeqNum {
        absolute(self.peer_isn, relative)
    }

    fn is_scaled(&self) -> bool {
        self.host_offer.window_scale.is_some() && self.peer_offer.window_scale.is_some()
    }

    /// Shift of the windows that the host offers, after the SYN.
    pub(super) fn host_shift(&self) -> u8 {
        let shift = self.host_offer.window_scale.unwrap_or(0);
        if self.is_scaled() { shift } else { 0 }
    }

    pub(super) fn peer_shift(&self) -> u8 {
        let shift = self.peer_offer.window_scale.unwrap_or(0);
        if self.is_scaled() { shift } else { 0 }
    }

    pub(super) fn has_timestamps(&self) -> bool {
        self.host_offer.timestamps && self.peer_offer.timestamps
    }

    /// The peer's clock at `now`.
    pub(super) fn peer_clock(now: Instant) -> u32 {
        PEER_CLOCK.wrapping_add((now.as_nanos() / 1_000_000) as u32)
    }

    /// Takes note of what the host sent.
    pub(super) fn sent(&mut self, wire: &Wire) {
        if self.host_port.is_none() {
            self.host_port = Some(wire.header.source_port);
        }
        let flags = wire.header.flags;
        if flags.contains(TcpFlags::RST) {
            return;
        }
        if flags.contains(TcpFlags::SYN) {
            self.host_isn.get_or_insert(wire.header.seq);
            self.host_offer = Offer::of(wire);
        }
        if let Some((value, _)) = wire.options.timestamps {
            self.host_clock = value;
        }
        let end = self.host_relative(wire.header.seq) + i64::from(wire.sequence_bytes());
        self.host_next = self.host_next.max(end);
    }

    /// Takes note of what the peer sends.
    pub(super) fn receives(&mut self, wire: &Wire) {
        let flags = wire.header.flags;
        if flags.contains(TcpFlags::RST) {
            return;
        }
        let start = self.peer_relative(wire.header.seq);
        if flags.contains(TcpFlags::SYN) && start == 0 {
            self.peer_offer = Offer::of(wire);
        }
        if wire.sequence_bytes() > 0 && start < self.peer_next + PLAUSIBLE_BYTES {
            let end = start + i64::from(wire.sequence_bytes());
            self.peer_next = self.peer_next.max(end);
        }
    }
}

impl Offer {
    fn of(wire: &Wire) -> Self {
        Self {
            timestamps: wire.options.timestamps.is_some(),
            window_scale: wire.options.window_scale,
        }
    }
}

/// The number nearest to `near` that `seq` may mean.
fn relative(seq: SeqNum, isn: SeqNum, near: i64) -> i64 {
    let offset = seq.bytes_since(absolute(isn, near)) as i32;
    near + i64::from(offset)
}

fn absolute(isn: SeqNum, relative: i64) -> SeqNum {
    isn + relative as u32
}
