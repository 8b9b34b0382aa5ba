//! What a host counts. Every drop and every special event has a counter.

/// Counters of a host since it began. Named as Linux names them where it has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Segments that came in.
    pub segments_in: u64,
    /// Segments that went out.
    pub segments_out: u64,
}
