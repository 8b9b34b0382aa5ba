//! What a link is told to be.

use core::time::Duration;

use base::{Bytes, Fraction, QueueLimit, Rate};

/// How packets get lost on the wire, apart from a full queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// None.
    Never,
    /// Each wire packet by itself, with this probability.
    Random(Fraction),
    /// In bursts: the model of Gilbert and Elliott. The state changes before each wire packet.
    GilbertElliott {
        /// Probability to go from good to bad.
        good_to_bad: Fraction,
        /// Probability to go from bad to good.
        bad_to_good: Fraction,
        /// Loss in the good state.
        loss_good: Fraction,
        /// Loss in the bad state.
        loss_bad: Fraction,
    },
}

/// How packets overtake each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reorder {
    /// Probability that a wire packet is held back.
    pub share: Fraction,
    /// For how long; those behind it overtake.
    pub hold: Duration,
}

/// What becomes of a packet above the MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooBig {
    /// It vanishes without a word: a path-MTU black hole.
    Vanish,
    /// The sender is told by ICMP (RFC 1191, RFC 8201).
    Report,
}

/// One direction of one hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Rate on the wire; `None` for no limit.
    pub rate: Option<Rate>,
    /// Rates that replace `rate` from given times on (time since the link's start), repeated from
    /// the beginning after the last one ended; empty for a constant rate.
    pub rate_trace: Vec<(Duration, Rate)>,
    /// Propagation delay.
    pub delay: Duration,
    /// Extra delay, drawn for each packet evenly between zero and this; packets stay in order.
    pub jitter: Duration,
    /// Loss on the wire.
    pub loss: Loss,
    /// Reordering; `None` for none.
    pub reorder: Option<Reorder>,
    /// Probability that a wire packet arrives twice.
    pub duplicate: Fraction,
    /// What waits in front of the wire; a packet that finds it full is dropped (tail drop).
    pub queue: QueueLimit,
    /// Largest packet; `None` for no limit.
    pub mtu: Option<Bytes>,
    /// What becomes of a larger one.
    pub too_big: TooBig,
    /// Bytes that each wire packet has on the wire beyond its IP length (14 for Ethernet without
    /// FCS); they count for the rate only.
    pub overhead_bytes: u32,
}

impl LinkSpec {
    /// A wire without limits: no rate, no delay, no loss, a queue of a million packets.
    #[must_use]
    pub const fn ideal() -> Self {
        Self {
            rate: None,
            rate_trace: Vec::new(),
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: Loss::Never,
            reorder: None,
            duplicate: Fraction::ZERO,
            queue: QueueLimit::Packets(1_000_000),
            mtu: None,
            too_big: TooBig::Report,
            overhead_bytes: 0,
        }
    }
}
