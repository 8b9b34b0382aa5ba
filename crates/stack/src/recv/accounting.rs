//! Memory charge of received data: the size of the receive buffer, what each packet charges to it,
//! and how memory becomes window.
//!
//! Decides from the settings of the receive memory and the segment size. `autotune` decides when
//! the buffer grows.

use base::settings::{Accounting, RecvMemory, SocketSettings};

use super::blocks::{self, Blocks};
use crate::Arc;

/// Least size of a buffer (Linux `SOCK_MIN_RCVBUF`).
const TRUESIZE_BUFFER_MIN: u32 = 2304;
/// Memory of the smallest packet if a ratio is set: descriptor, shared information and one cache
/// line.
const TRUESIZE_MIN: u32 = 640;
/// Window of memory before a full segment was measured (Linux `TCP_DEFAULT_SCALING_RATIO`).
const RATIO_INITIAL: u32 = 128;
/// Ratio at which all of the memory is window.
const RATIO_ONE: u32 = 256;

/// What one packet of the size that most have takes, so that it is not computed for each.
#[derive(Clone, Copy, Debug)]
struct Usual {
    /// Bytes of payload; 0: none is known.
    payload: u16,
    room: u16,
    charge: u32,
}

impl Usual {
    const UNKNOWN: Self = Self {
        payload: 0,
        room: 0,
        charge: 0,
    };
}

/// The receive buffer.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    /// Shared with the rest of the connection until they change.
    settings: Arc<SocketSettings>,
    bytes: u32,
    /// Its size in bytes; its fill level at the time, if it was made smaller than that.
    peak: u32,
    is_locked: bool,
    /// Unread bytes from which on the application is told of them.
    lowat: u32,
    /// Memory of data that waits to be read.
    in_order: u32,
    /// Memory of out-of-order data, and of a FIN that came alone.
    out_of_order: u32,
    /// Ratio of window to memory, in 1/256.
    ratio: u32,
    /// Memory of a full segment beyond its payload, where a ratio is set.
    segment_overhead: u32,
    /// Headers of a segment with data.
    headers: u8,
    /// Forgotten where the rules or the headers change.
    usual: Usual,
    /// The host is short of memory: the buffer does not grow.
    is_tight: bool,
    /// A FIN that came alone waits to be read.
    holds_fin: bool,
}

impl Buffer {
    pub(super) fn new(settings: &Arc<SocketSettings>) -> Self {
        let mut buffer = Self {
            settings: Arc::clone(settings),
            bytes: 0,
            peak: 0,
            is_locked: false,
            lowat: 1,
            in_order: 0,
            out_of_order: 0,
            ratio: match settings.recv.accounting {
                Accounting::Truesize { .. } => RATIO_INITIAL,
                Accounting::Payload | Accounting::Buffers { .. } => RATIO_ONE,
            },
            segment_overhead: 0,
            headers: 0,
            usual: Usual::UNKNOWN,
            is_tight: false,
            holds_fin: false,
        };
        buffer.resize();
        buffer.set_lowat();
        buffer
    }

    /// Takes new settings; the size changes where the application asks for another.
    pub(super) fn configure(&mut self, settings: &Arc<SocketSettings>, is_established: bool) {
        let before = core::mem::replace(&mut self.settings, Arc::clone(settings));
        self.usual = Usual::UNKNOWN;
        let (before, now) = (&before.recv, &settings.recv);
        let resizes = before.buffer.fixed != now.buffer.fixed || !is_established;
        if before.accounting != now.accounting {
            self.ratio = match now.accounting {
                Accounting::Truesize { .. } => RATIO_INITIAL,
                Accounting::Payload | Accounting::Buffers { .. } => RATIO_ONE,
            };
        }
        if resizes {
            self.resize();
        }
    }

    /// Unread bytes from which on the application is told of them.
    pub(super) const fn lowat(&self) -> u32 {
        self.lowat
    }

    /// Sets them to what the application asked for: half of what the buffer may grow to now is the
    /// most that can be waited for. Makes the buffer so large that this fits into the window,
    /// unless the application has fixed its size; whether it grew (Linux `tcp_set_rcvlowat`).
    pub(super) fn set_lowat(&mut self) -> bool {
        let rules = self.rules();
        let most = match self.is_locked {
            true => self.bytes,
            false => rules.buffer.max,
        };
        self.lowat = rules.lowat.min(most / 2).max(1);
        let space = self.space_of(self.lowat.into());
        self.is_truesize() && !self.is_locked && self.grow_to(space)
    }

    /// The size that the settings give; what automatic sizing added counts only while it is on.
    fn resize(&mut self) {
        let size = &self.settings.recv.buffer;
        self.is_locked = size.fixed.is_some();
        // The setting is what the stack's rule made of the request.
        self.bytes = match (size.fixed, self.rules().accounting) {
            (Some(bytes), Accounting::Truesize { .. }) => bytes.max(TRUESIZE_BUFFER_MIN),
            (Some(bytes), _) => bytes.max(size.min),
            (None, _) => self.bytes.max(size.initial),
        };
        if let Accounting::Buffers { payload_bytes } = self.rules().accounting {
            let buffer = payload_bytes.max(1);
            self.bytes = (self.bytes / buffer).max(1) * buffer;
        }
        self.peak = self.bytes.max(self.charged());
    }

    /// Payload and headers of a full segment.
    pub(super) fn set_segment(&mut self, mss: u32, headers: u8) {
        self.headers = headers;
        self.usual = Usual::UNKNOWN;
        self.segment_overhead = match self.rules().accounting {
            Accounting::Truesize { ratio: Some(ratio) } => {
                let whole = u64::from(mss) * 256 / u64::from(ratio.max(1));
                (whole as u32).saturating_sub(mss)
            }
            Accounting::Truesize { ratio: None }
            | Accounting::Payload
            | Accounting::Buffers { .. } => 0,
        };
    }

    pub(super) const fn headers(&self) -> u8 {
        self.headers
    }

    /// Memory of a packet of `segments` with `payload` bytes in all.
    #[inline]
    pub(super) fn blocks_of(&self, payload: u32, segments: u32) -> Blocks {
        let is_usual = segments == 1 && payload == u32::from(self.usual.payload);
        if is_usual && payload > 0 {
            return Blocks {
                charge: self.usual.charge,
                room: self.usual.room,
            };
        }
        self.blocks_of_any(payload, segments)
    }

    #[inline(never)]
    fn blocks_of_any(&self, payload: u32, segments: u32) -> Blocks {
        let charge = match self.rules().accounting {
            Accounting::Truesize { ratio: None } => {
                return blocks::of_packet(self.headers.into(), payload, segments > 1);
            }
            Accounting::Payload => payload,
            Accounting::Truesize { ratio: Some(_) } => self
                .segment_overhead
                .saturating_mul(segments)
                .saturating_add(payload)
                .max(TRUESIZE_MIN),
            Accounting::Buffers { payload_bytes } => {
                let buffer = payload_bytes.max(1);
                buffer.saturating_mul(segments.max(payload.div_ceil(buffer)))
            }
        };
        Blocks { charge, room: 0 }
    }

    /// Memory of a collapsed copy of `payload` bytes, made of packets that were charged `charged`.
    pub(super) fn blocks_of_copy(&self, payload: u32, charged: u32) -> Blocks {
        match self.rules().accounting {
            Accounting::Truesize { .. } => blocks::of_copy(payload),
            Accounting::Payload | Accounting::Buffers { .. } => Blocks {
                charge: charged,
                room: 0,
            },
        }
    }

    /// Whether memory that is charged `charge` for `payload` bytes is worth copying together with
    /// what follows: the window that it gives is more than it holds (Linux `tcp_collapse`).
    pub(super) fn is_bloated(&self, payload: u32, charge: u32) -> bool {
        !self.is_truesize() || self.window_of(charge) > payload
    }

    /// Whether less than an eighth is free (Linux `tcp_rmem_pressure`).
    pub(super) fn is_nearly_full(&self) -> bool {
        self.is_truesize() && self.charged() > self.bytes() - self.bytes() / 8
    }

    /// Measures the ratio on a packet (Linux `tcp_measure_rcv_mss`); whether it changed.
    #[inline(never)]
    pub(super) fn measure(&mut self, payload: u32, charge: u32) -> bool {
        if let Ok(payload) = u16::try_from(payload) {
            let Blocks { charge, room } = self.blocks_of_any(payload.into(), 1);
            self.usual = Usual {
                payload,
                room,
                charge,
            };
        }
        if !self.is_truesize() {
            return false;
        }
        let ratio = u64::from(payload) * 256 / u64::from(charge.max(1));
        let ratio = (ratio as u32).clamp(1, 255);
        let changed = ratio != self.ratio;
        self.ratio = ratio;
        changed
    }

    /// Window that `space` bytes of memory give (Linux `tcp_win_from_space`).
    pub(super) fn window_of(&self, space: u32) -> u32 {
        ((u64::from(space) * u64::from(self.ratio)) >> 8) as u32
    }

    /// Memory that a window needs (Linux `tcp_space_from_win`).
    pub(super) fn space_of(&self, window: u64) -> u64 {
        (window << 8) / u64::from(self.ratio)
    }

    /// The whole buffer as window.
    pub(super) fn full(&self) -> u32 {
        self.window_of(self.bytes)
    }

    /// The free part of it as window. Memory behind a gap counts where memory is what counts; BSD
    /// and `NetBurner` keep it beside the buffer.
    pub(super) fn free(&self) -> u32 {
        self.window_of(self.bytes.saturating_sub(self.counted()))
    }

    fn counted(&self) -> u32 {
        if self.is_truesize() {
            self.charged()
        } else {
            self.in_order
        }
    }

    /// Whether a packet of `charge` may be added in order. Linux and BSD may exceed the limit by
    /// one packet; a pool of whole buffers may not.
    pub(super) fn fits(&self, charge: u32) -> bool {
        match self.rules().accounting {
            Accounting::Buffers { .. } => self.counted().saturating_add(charge) <= self.bytes,
            Accounting::Payload | Accounting::Truesize { .. } => self.counted() <= self.bytes,
        }
    }

    /// Whether a packet of `charge` may be added behind a gap, where `kept` bytes of payload are.
    pub(super) fn fits_out_of_order(&self, charge: u32, payload: u32, kept: u64) -> bool {
        match (self.rules().accounting, self.rules().out_of_order_budget) {
            (Accounting::Truesize { .. }, budget) => {
                budget.is_none_or(|budget| kept + u64::from(payload) <= budget.into())
                    && self.fits(charge)
            }
            (Accounting::Payload | Accounting::Buffers { .. }, budget) => {
                let budget = budget.unwrap_or(self.bytes);
                // Filling a gap may put more in order than the buffer holds: that counts too.
                let behind_gaps = self.out_of_order.saturating_add(charge);
                behind_gaps <= budget
                    && self.in_order.saturating_add(behind_gaps)
                        <= self.bytes.saturating_add(budget)
            }
        }
    }

    /// Whether it holds more than its size.
    pub(super) fn is_over(&self) -> bool {
        self.counted() > self.bytes
    }

    pub(super) fn set_out_of_order(&mut self, charge: u32) {
        self.out_of_order = charge.saturating_add(self.fin_charge());
    }

    pub(super) fn set_in_order(&mut self, charge: u32) {
        self.in_order = charge;
    }

    /// Whether a FIN without data takes the memory of a packet: until the application has seen the
    /// end, or data in front of it takes it in.
    pub(super) fn hold_fin(&mut self, holds: bool) {
        let data = self.out_of_order.saturating_sub(self.fin_charge());
        self.holds_fin = holds && self.is_truesize();
        self.set_out_of_order(data);
    }

    fn fin_charge(&self) -> u32 {
        match self.holds_fin {
            true => self.blocks_of(0, 1).charge,
            false => 0,
        }
    }

    pub(super) const fn set_tight(&mut self, is_tight: bool) {
        self.is_tight = is_tight;
    }

    pub(super) const fn is_tight(&self) -> bool {
        self.is_tight
    }

    /// Grows to `bytes`, at most to the maximum; whether it did.
    pub(super) fn grow_to(&mut self, bytes: u64) -> bool {
        let bytes = bytes.min(self.rules().buffer.max.into()) as u32;
        let grows = bytes > self.bytes && !self.is_tight;
        if grows {
            self.bytes = bytes;
            self.peak = self.peak.max(bytes);
        }
        grows
    }

    /// Grows as `FreeBSD` does: where a reservation would be larger than an application may ask for
    /// (`kern.ipc.maxsockbuf`), automatic sizing ends (FB13; `sbreserve`).
    pub(super) fn reserve(&mut self, bytes: u64) {
        let size = &self.settings.recv.buffer;
        if bytes.min(size.max.into()) > size.request_max.max(self.bytes).into() {
            self.is_locked = true;
        } else {
            self.grow_to(bytes);
        }
    }

    /// Whether memory is counted as Linux does, with a window that follows measurements.
    pub(super) fn is_truesize(&self) -> bool {
        matches!(self.rules().accounting, Accounting::Truesize { .. })
    }

    pub(super) const fn is_locked(&self) -> bool {
        self.is_locked
    }

    pub(super) const fn bytes(&self) -> u32 {
        self.bytes
    }

    pub(super) const fn peak(&self) -> u32 {
        self.peak
    }

    /// Memory in use, in order and behind gaps.
    pub(super) const fn charged(&self) -> u32 {
        self.in_order.saturating_add(self.out_of_order)
    }

    /// The accounting settings.
    pub(super) fn rules(&self) -> &RecvMemory {
        &self.settings.recv
    }

    /// All settings of the connection.
    pub(super) fn settings(&self) -> &SocketSettings {
        &self.settings
    }

    /// Packets that either queue may hold whatever they are charged: a peer that sends single bytes
    /// costs no more than a few times the buffer.
    pub(super) const fn packets_max(&self) -> usize {
        (self.bytes / 256) as usize + 32
    }

    #[cfg(test)]
    pub(super) fn set_for_test(&mut self, bytes: u32, ratio: u32, in_order: u32) {
        self.bytes = bytes;
        self.ratio = ratio;
        self.in_order = in_order;
    }

    #[cfg(test)]
    pub(super) const fn ratio(&self) -> u32 {
        self.ratio
    }
}
