//! How far our stream has come: what of it was acknowledged, what was sent, and whether the FIN was.
//!
//! The only place that knows. Loss recovery owns it, since it is the one to hear of each packet that
//! leaves and of each ACK; the sending half, which knows what was written, is shown it.
//!
//! Offsets count a FIN as one behind the data. Our SYN is offset 0.

/// Offset of the first byte of data; the SYN stands in front of it.
pub(crate) const FIRST_BYTE: u64 = 1;

/// How far the stream of one connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    una: u64,
    next: u64,
    fin_end: Option<u64>,
}

impl Default for Progress {
    /// Nothing but the SYN was sent.
    fn default() -> Self {
        Self {
            una: FIRST_BYTE,
            next: FIRST_BYTE,
            fin_end: None,
        }
    }
}

impl Progress {
    /// Everything in front of it is acknowledged.
    pub(crate) const fn una(&self) -> u64 {
        self.una
    }

    /// Everything in front of it was sent.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// Behind the FIN, where it was sent.
    pub(crate) const fn fin_end(&self) -> Option<u64> {
        self.fin_end
    }

    /// Behind the last byte of data that was sent.
    pub(crate) const fn data_sent(&self) -> u64 {
        self.next - self.fin_end.is_some() as u64
    }

    /// Behind the last byte of data that was acknowledged.
    pub(crate) fn data_acked(&self) -> u64 {
        self.una.min(self.data_sent())
    }

    /// Bytes of data that were sent and not acknowledged.
    pub(crate) fn unacked_bytes(&self) -> u64 {
        self.data_sent() - self.data_acked()
    }

    /// Whether all data that was sent is acknowledged.
    pub(crate) fn is_quiet(&self) -> bool {
        self.una >= self.data_sent()
    }

    /// All up to `end` left for the first time; where `has_fin`, the last offset is the FIN's.
    pub(crate) const fn on_sent(&mut self, end: u64, has_fin: bool) {
        self.next = end;
        if has_fin {
            self.fin_end = Some(end);
        }
    }

    /// All in front of `una` is acknowledged.
    pub(crate) const fn on_acked(&mut self, una: u64) {
        self.una = una;
    }
}
