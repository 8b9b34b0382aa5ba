//! Size of the send buffer: what the application asked for, or a rule of automatic sizing.

use base::settings::{Accounting, Completion, SendMemory, SizeRule};

/// Linux charges each packet in memory this much beside its payload (rule 5.2: descriptor and
/// header reserve of a kernel without tunnels).
pub(super) const PACKET_OVERHEAD_BYTES: u64 = 832;
/// Largest memory of the records of a packet; an mbuf of `FreeBSD` takes as much (`MSIZE`).
pub(super) const SMALL_PACKET_BYTES: u64 = 256;
/// Header reserve and shared info in Linux's figure of memory per segment (rule 5.1).
const SEGMENT_HEADROOM_BYTES: u64 = 192 + 320;
/// Descriptor in the same figure.
const SEGMENT_DESCRIPTOR_BYTES: u64 = 256;
/// Least send buffer of Linux (`SOCK_MIN_SNDBUF`, vector B2).
const LINUX_MIN_BYTES: u64 = 4608;
/// Low-water mark of a `FreeBSD` send buffer: one cluster (`MCLBYTES`, `soreserve`).
const FREEBSD_LOWAT_BYTES: u64 = 2048;
/// Least window for which Linux sizes a buffer, in segments (`TCP_INIT_CWND`).
const LINUX_MIN_SEGMENTS: u32 = 10;

/// Input to automatic sizing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SendMemoryEnv {
    /// Congestion window in packets.
    pub(crate) cwnd: u32,
    /// Degree of reordering in packets.
    pub(crate) reordering: u32,
    /// Packets in flight.
    pub(crate) in_flight: u32,
    /// Payload of a segment.
    pub(crate) mss: u32,
    /// The peer's MSS option.
    pub(crate) peer_mss: u32,
    /// Window that the peer offers now, in bytes.
    pub(crate) window: u32,
    /// Windows that the congestion control wants room for (Linux: 2, BBR 3).
    pub(crate) cc_windows: u32,
    /// The host is short of memory: the buffer does not grow (Linux `tcp_should_expand_sndbuf`).
    pub(crate) is_tight: bool,
}

/// Limits set by the peer and by congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// Congestion window in packets.
    pub(super) cwnd: u32,
    /// Payload of a segment.
    pub(super) mss: u32,
    /// Window that the peer offers now, in bytes.
    pub(super) window: u32,
    /// The host is short of memory.
    pub(super) is_tight: bool,
}

/// The size of a send buffer, and how it grows.
#[derive(Debug)]
pub(super) struct BufferSize {
    bytes: u64,
    /// Those limits when last examined.
    reach: Reach,
    /// `FreeBSD`'s rule has taken its step since the last ACK.
    has_grown: bool,
    /// More than a request may be was reserved: the rule is off from then on (FB13).
    is_auto_off: bool,
}

impl BufferSize {
    pub(super) fn new(memory: &SendMemory) -> Self {
        Self {
            bytes: fixed_bytes(memory).unwrap_or(memory.buffer.initial.into()),
            reach: Reach::default(),
            has_grown: false,
            is_auto_off: false,
        }
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it stays as it is.
    pub(super) const fn is_locked(&self, memory: &SendMemory) -> bool {
        memory.buffer.fixed.is_some() || self.is_auto_off
    }

    /// The application fixes it, or no longer.
    pub(super) fn fix(&mut self, memory: &SendMemory) {
        self.bytes = fixed_bytes(memory).unwrap_or(self.bytes);
    }

    /// Updates the input of the rules.
    pub(super) const fn look_at(&mut self, env: &SendMemoryEnv) {
        self.reach = Reach {
            cwnd: env.cwnd,
            mss: env.mss,
            window: env.window,
            is_tight: env.is_tight,
        };
    }

    /// Data was acknowledged.
    pub(super) const fn on_ack(&mut self) {
        self.has_grown = false;
    }

    /// Linux's rule, where it is in force; whether the size is another now.
    pub(super) fn expand_as_linux(&mut self, memory: &SendMemory, env: &SendMemoryEnv) -> bool {
        let buffer = &memory.buffer;
        let is_in_force = buffer.fixed.is_none() && matches!(buffer.rule, SizeRule::Linux(_));
        is_in_force && self.grow_to(linux_bytes(env).min(buffer.max.into()))
    }

    /// `FreeBSD`'s rule for a buffer with this many bytes, where it is in force: at most one step
    /// per ACK. Whether the size is another now.
    pub(super) fn expand_as_freebsd(
        &mut self,
        memory: &SendMemory,
        used: u64,
        unsent: u64,
    ) -> bool {
        if self.has_grown || self.reach.is_tight || self.is_locked(memory) {
            return false;
        }
        let fill = Fill {
            size: self.bytes,
            used,
            unsent,
        };
        let bytes = freebsd_bytes(memory, fill, &self.reach);
        self.has_grown = bytes > self.bytes;
        // `kern.ipc.maxsockbuf`, which bounds reservations too (`sbreserve`).
        self.is_auto_off = self.has_grown && bytes > memory.buffer.request_max.into();
        !self.is_auto_off && self.grow_to(bytes)
    }

    fn grow_to(&mut self, bytes: u64) -> bool {
        let grows = bytes > self.bytes;
        if grows {
            self.bytes = bytes;
        }
        grows
    }
}

/// The size that the application fixed, if it did (rule 5.3): the setting is what the stack's rule
/// made of the request.
pub(super) fn fixed_bytes(memory: &SendMemory) -> Option<u64> {
    let bytes = u64::from(memory.buffer.fixed?);
    // Less than one buffer would be nothing at all.
    let one = match memory.accounting {
        Accounting::Buffers { payload_bytes } => payload_bytes.into(),
        Accounting::Payload | Accounting::Truesize { ratio: _ } => 1,
    };
    Some(match memory.completion {
        Completion::Linux => bytes.max(LINUX_MIN_BYTES),
        Completion::Bsd => bytes.max(one),
        Completion::Winsock => bytes,
    })
}

/// Memory that Linux reckons for a segment (`tcp_sndbuf_expand`).
pub(super) fn linux_segment_bytes(mss: u32) -> u64 {
    (u64::from(mss) + SEGMENT_HEADROOM_BYTES).next_power_of_two() + SEGMENT_DESCRIPTOR_BYTES
}

/// The size that Linux's rule wants (`tcp_sndbuf_expand`), before its upper bound.
pub(super) fn linux_bytes(env: &SendMemoryEnv) -> u64 {
    let segments = env
        .cwnd
        .max(LINUX_MIN_SEGMENTS)
        .max(env.reordering.saturating_add(1));
    let segment_bytes = linux_segment_bytes(env.mss.max(env.peer_mss));
    u64::from(env.cc_windows) * u64::from(segments) * segment_bytes
}

/// Fill level of a buffer, for the rule of `FreeBSD`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    /// Its size.
    pub(super) size: u64,
    /// Unsent and unacknowledged bytes.
    pub(super) used: u64,
    /// Unsent bytes.
    pub(super) unsent: u64,
}

/// The size after `tcp_output` of `FreeBSD` looked at it: one step more where the window could
/// carry more than a nearly full buffer gives (seed: `FreeBSD`, automatic socket buffer sizing).
pub(super) fn freebsd_bytes(memory: &SendMemory, fill: Fill, reach: &Reach) -> u64 {
    let step = match memory.buffer.rule {
        SizeRule::FreeBsd2006 { step }
        | SizeRule::FreeBsd2017 { step }
        | SizeRule::FreeBsd14 { step } => u64::from(step),
        SizeRule::Fixed | SizeRule::Linux(_) => return fill.size,
    };
    let max = u64::from(memory.buffer.max);
    let window = u64::from(reach.window);
    let cwnd_bytes = u64::from(reach.cwnd) * u64::from(reach.mss);
    let lowat = match memory.auto_lowat {
        true => FREEBSD_LOWAT_BYTES,
        false => 0,
    };
    let grows = window / 4 * 5 >= fill.size.saturating_sub(lowat)
        && fill.used >= (fill.size / 8 * 7).saturating_sub(lowat)
        && fill.used < max
        && window.min(cwnd_bytes) >= fill.unsent;
    if grows {
        (fill.size + step).min(max).max(fill.size)
    } else {
        fill.size
    }
}
