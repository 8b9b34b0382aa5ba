//! Counters of a link.

/// Counts of one link since it was made, in wire packets (segments of GSO packets), and its queue.
///
/// At any time `sent + duplicated == delivered + lost + queue_dropped + too_big + inside`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkStats {
    /// Came in.
    pub sent: u64,
    /// Came out.
    pub delivered: u64,
    /// Copies that the link made.
    pub duplicated: u64,
    /// Lost on the wire.
    pub lost: u64,
    /// Found the queue full.
    pub queue_dropped: u64,
    /// Exceeded the MTU; vanished or were handed back to be reported.
    pub too_big: u64,
    /// Neither delivered nor dropped yet: queued or in transit.
    pub inside: u64,
    /// Bytes queued at the latest time passed to the link.
    pub queue_bytes: u64,
    /// Packets queued at the latest time passed to the link.
    pub queue_packets: u64,
    /// Most bytes ever queued.
    pub queue_bytes_max: u64,
    /// Most packets ever queued.
    pub queue_packets_max: u64,
}

impl LinkStats {
    /// All packets that came in and will not be delivered, for any reason.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.lost + self.queue_dropped + self.too_big
    }
}
