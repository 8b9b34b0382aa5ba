//! The peer's window: the window of the newest segment counts (RFC 9293 section 3.10.7.4).

use base::tcp::TcpFlags;

use super::Connection;
use crate::packet::Segment;

/// The peer's window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerWindow {
    /// In bytes.
    bytes: u32,
    /// Its right edge as an offset of our stream.
    end: u64,
    /// Largest window offered so far.
    max: u32,
    /// Offset of the peer's segment that it came with (`SND.WL1`).
    from_seq: i64,
    /// Shift of the window field.
    scale: u8,
}

/// Change of the peer's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowUpdate {
    /// Its size has changed.
    pub(super) has_changed: bool,
    /// Larger than all before.
    pub(super) is_largest: bool,
}

impl PeerWindow {
    /// The unscaled window of the peer's SYN; later ones are scaled by `scale`.
    pub(super) fn of_syn(window: u16, scale: u8) -> Self {
        Self {
            bytes: window.into(),
            end: 1 + u64::from(window),
            max: window.into(),
            from_seq: 0,
            scale,
        }
    }

    /// Two SYNs crossed: Linux scales the window of the one that acknowledges ours, against RFC
    /// 7323 section 2.2, but not the largest one so far (`tcp_rcv_state_process`).
    pub(super) fn scale_crossed(&mut self, window: u16) {
        self.bytes = u32::from(window) << self.scale;
        self.end = 1 + u64::from(self.bytes);
    }

    pub(super) const fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Offset after the last byte that it permits.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    pub(super) const fn max(&self) -> u32 {
        self.max
    }

    pub(super) const fn scale(&self) -> u8 {
        self.scale
    }

    /// The largest window counts from the next segment on.
    pub(super) const fn forget_max(&mut self) {
        self.max = 0;
    }

    /// Bytes of the window that a segment offers; that of a SYN is never scaled (RFC 7323 section
    /// 2.2).
    pub(super) fn of_segment(&self, segment: &Segment) -> u32 {
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        let scale = if is_syn { 0 } else { self.scale };
        u32::from(segment.window) << scale
    }

    /// Whether a segment offers the present window.
    pub(super) fn is_same(&self, segment: &Segment) -> bool {
        self.of_segment(segment) == self.bytes
    }

    /// Whether the window of a segment from `start` on, which acknowledges up to `ack` where `una`
    /// was acknowledged, is newer than the one that counts (Linux `tcp_may_update_window`).
    pub(super) fn is_news(&self, segment: &Segment, start: i64, ack: i64, una: u64) -> bool {
        let bytes = self.of_segment(segment);
        ack > una as i64
            || start > self.from_seq
            || start == self.from_seq && (bytes > self.bytes || bytes == 0)
    }

    /// The window of that segment counts from now on.
    #[inline]
    pub(super) fn update(&mut self, segment: &Segment, start: i64, ack: u64) -> WindowUpdate {
        let bytes = self.of_segment(segment);
        let update = WindowUpdate {
            has_changed: bytes != self.bytes,
            is_largest: self.max > 0 && bytes > self.max,
        };
        self.from_seq = start;
        self.bytes = bytes;
        self.max = self.max.max(bytes);
        self.end = ack + u64::from(bytes);
        update
    }
}

impl Connection {
    /// A first block longer than any window of the peer is not a D-SACK, and nothing else either
    /// (Linux `tcp_dsack_seen`).
    #[inline]
    pub(super) fn without_dubious<'a>(&self, blocks: &'a [(u64, u64)]) -> &'a [(u64, u64)] {
        match blocks {
            [(start, end), rest @ ..]
                if end.saturating_sub(*start) > self.window.max().into()
                    && self.linux().is_some() =>
            {
                rest
            }
            _ => blocks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offering(window: u16) -> Segment {
        Segment {
            window,
            ..Segment::default()
        }
    }

    #[test]
    fn the_newest_segment_counts() {
        let mut window = PeerWindow::of_syn(1000, 2);
        assert_eq!((window.bytes(), window.end()), (1000, 1001));
        let update = window.update(&offering(500), 1, 1);
        assert_eq!((window.bytes(), window.end()), (2000, 2001));
        assert!(update.has_changed && update.is_largest);
        // With the same numbers only a larger one, or zero, is news.
        let is_news = |bytes, start, ack| window.is_news(&offering(bytes), start, ack, 1);
        assert!(is_news(501, 1, 1) && is_news(0, 1, 1) && !is_news(499, 1, 1));
        assert!(is_news(499, 2, 1) && is_news(499, 0, 2) && !is_news(501, 0, 1));
    }
}
