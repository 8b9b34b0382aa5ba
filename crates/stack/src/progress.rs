//! Progress of our stream: how far it was sent and acknowledged, the FIN included.
//!
//! The only place that knows. Loss recovery owns it, since it processes each transmission and each
//! ACK; the sending half, which knows what was written, is passed it.
//!
//! Offsets count a FIN as one behind the data. Our SYN is offset 0.

/// Offset of the first byte of data; the SYN is before it.
pub(crate) const FIRST_BYTE: u64 = 1;

/// An optional offset in the size of an offset: 0 means unset, since no mark lies there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl Mark {
    /// Not set.
    pub(crate) const NONE: Self = Self(0);

    /// Set to `offset`, which is not 0.
    #[inline]
    pub(crate) const fn at(offset: u64) -> Self {
        debug_assert!(offset > 0, "offset 0 is that of the SYN");
        Self(offset)
    }

    /// The offset, where it is set.
    #[inline]
    pub(crate) fn get(self) -> Option<u64> {
        self.is_set().then_some(self.0)
    }

    #[inline]
    pub(crate) const fn is_set(self) -> bool {
        self.0 > 0
    }
}

/// How far the stream of one connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    una: u64,
    next: u64,
    /// Packets in memory that hold what is in flight.
    records: u32,
    /// The last offset below `next` is the FIN's.
    is_fin_sent: bool,
}

impl Default for Progress {
    /// Nothing but the SYN was sent.
    fn default() -> Self {
        Self {
            una: FIRST_BYTE,
            next: FIRST_BYTE,
            records: 0,
            is_fin_sent: false,
        }
    }
}

impl Progress {
    /// Everything below it is acknowledged.
    pub(crate) const fn una(&self) -> u64 {
        self.una
    }

    /// Everything below it was sent.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// Offset after the FIN, if that was sent.
    pub(crate) fn fin_end(&self) -> Option<u64> {
        self.is_fin_sent.then_some(self.next)
    }

    /// Whether the FIN was sent.
    pub(crate) const fn is_fin_sent(&self) -> bool {
        self.is_fin_sent
    }

    /// Offset after the last byte of data that was sent.
    pub(crate) const fn data_sent(&self) -> u64 {
        self.next - self.is_fin_sent as u64
    }

    /// Offset after the last byte of data that was acknowledged.
    pub(crate) fn data_acked(&self) -> u64 {
        self.una.min(self.data_sent())
    }

    /// Bytes of data that were acknowledged.
    pub(crate) fn acked_bytes(&self) -> u64 {
        self.data_acked() - FIRST_BYTE
    }

    /// Bytes of data that were sent and not acknowledged.
    pub(crate) const fn unacked_bytes(&self) -> u64 {
        self.data_sent().saturating_sub(self.una)
    }

    /// Whether all data that was sent is acknowledged.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.una >= self.data_sent()
    }

    /// All up to `end` was sent for the first time; where `has_fin`, the last offset is the FIN's.
    pub(crate) const fn on_sent(&mut self, end: u64, has_fin: bool) {
        self.next = end;
        self.records += 1;
        self.is_fin_sent |= has_fin;
    }

    /// Packets in memory that hold what is in flight: retransmissions cut them, and those that the
    /// peer has SACKed are joined.
    pub(crate) const fn records(&self) -> u32 {
        self.records
    }

    /// There are so many of them now.
    pub(crate) const fn set_records(&mut self, records: u32) {
        self.records = records;
    }

    /// All below `una` is acknowledged.
    pub(crate) const fn on_acked(&mut self, una: u64) {
        self.una = una;
    }
}
