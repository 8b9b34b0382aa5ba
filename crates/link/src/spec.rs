//! Parameters of a link.

use core::fmt;
use core::time::Duration;

use base::{Bytes, Fraction, QueueLimit, Rate, format_duration};

/// How packets get lost on the wire, apart from a full queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

impl Loss {
    /// This share of all packets, of which so many are lost in a row on average: each by itself
    /// where that is 1 or less.
    #[must_use]
    pub fn in_bursts(share: Fraction, in_a_row: f64) -> Self {
        let share_lost = share.parts() as f64 / 1e9;
        if share == Fraction::ZERO {
            return Self::Never;
        }
        if in_a_row <= 1.0 || share == Fraction::ONE {
            return Self::Random(share);
        }
        let part = |of: f64| Fraction::from_parts((of.min(1.0) * 1e9).round() as u32);
        // In the long run the bad state has this share of the packets.
        let leave_bad = 1.0 / in_a_row;
        Self::GilbertElliott {
            good_to_bad: part(leave_bad * share_lost / (1.0 - share_lost)),
            bad_to_good: part(leave_bad),
            loss_good: Fraction::ZERO,
            loss_bad: Fraction::ONE,
        }
    }
}

/// How packets are reordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reorder {
    /// Probability that a wire packet is held back.
    pub share: Fraction,
    /// For how long; later packets pass it meanwhile.
    pub hold: Duration,
}

/// Treatment of a packet above the MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooBig {
    /// It vanishes without a word: a path-MTU black hole.
    Vanish,
    /// Report it to the sender by ICMP (RFC 1191, RFC 8201).
    Report,
}

/// One direction of one hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Rate on the wire; `None` for no limit.
    pub rate: Option<Rate>,
    /// Rates that replace `rate`, each for its time, one after the other from the first packet on
    /// and repeated from the beginning; empty for a constant rate. A GSO packet is cut into single
    /// packets on such a link.
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
    /// Capacity of the queue in front of the wire; a packet that finds it full is dropped (tail
    /// drop). The packet on the wire does not count: `10p` takes 11 packets of a burst.
    pub queue: QueueLimit,
    /// Largest packet; `None` for no limit.
    pub mtu: Option<Bytes>,
    /// Treatment of a larger packet.
    pub too_big: TooBig,
    /// Bytes that each wire packet has on the wire beyond its IP length (14 for Ethernet without
    /// FCS); they count for the rate only.
    pub overhead_bytes: u32,
}

/// Reason to reject a link's parameters. [`fmt::Display`] says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecError {
    /// A rate of zero never sends.
    RateZero,
    /// A step of the rate trace that has no duration or no rate.
    TraceStepEmpty {
        /// Its place, from 0.
        step: usize,
    },
    /// A queue that holds nothing.
    QueueZero,
    /// An MTU below the smallest that IPv4 allows.
    MtuTooSmall {
        /// The requested value.
        mtu: Bytes,
    },
    /// A time that no path has.
    TooLong {
        /// Which one.
        what: &'static str,
        /// The requested value.
        time: Duration,
    },
    /// More overhead than any encapsulation has.
    OverheadTooLarge {
        /// The requested value.
        overhead_bytes: u32,
    },
    /// Packets are held back, but for no time.
    HoldZero,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RateZero => {
                write!(
                    f,
                    "a rate of 0 never sends; write a rate such as `25mbit`, or none"
                )
            }
            Self::TraceStepEmpty { step } => write!(
                f,
                "step {step} of the rate trace is empty; write a time, and `1bit` for an outage"
            ),
            Self::QueueZero => {
                write!(
                    f,
                    "a queue of 0 passes no burst; write for example `100p` or `64KiB`"
                )
            }
            Self::MtuTooSmall { mtu } => {
                write!(f, "an MTU of {mtu} is below the {MTU_MIN} bytes of RFC 791")
            }
            Self::TooLong { what, time } => write!(
                f,
                "a {what} of {} is longer than the limit of {}",
                format_duration(*time),
                format_duration(TIME_MAX)
            ),
            Self::OverheadTooLarge { overhead_bytes } => write!(
                f,
                "an overhead of {overhead_bytes} bytes per packet is above the limit of \
                 {OVERHEAD_BYTES_MAX}"
            ),
            Self::HoldZero => {
                write!(
                    f,
                    "reordering needs a time to hold packets back, such as `1ms`"
                )
            }
        }
    }
}

impl core::error::Error for SpecError {}

/// Every host must be able to forward this much without fragmentation (RFC 791 section 3.2).
const MTU_MIN: u64 = 68;
/// Far above the longest path (a geostationary satellite has 0.25 s), and small enough that sums
/// of times never overflow.
const TIME_MAX: Duration = Duration::from_secs(3600);
/// Above every stack of encapsulations, and small enough that sums never overflow.
const OVERHEAD_BYTES_MAX: u32 = 4096;

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

    /// Whether a link can be built from this.
    ///
    /// # Errors
    /// [`SpecError`] for the first value that makes no sense.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.rate.is_some_and(|rate| rate.bits_per_second() == 0) {
            return Err(SpecError::RateZero);
        }
        let empty = |(time, rate): &(Duration, Rate)| time.is_zero() || rate.bits_per_second() == 0;
        if let Some(step) = self.rate_trace.iter().position(empty) {
            return Err(SpecError::TraceStepEmpty { step });
        }
        if matches!(
            self.queue,
            QueueLimit::Packets(0) | QueueLimit::Bytes(Bytes(0))
        ) {
            return Err(SpecError::QueueZero);
        }
        if let Some(mtu) = self.mtu.filter(|mtu| mtu.0 < MTU_MIN) {
            return Err(SpecError::MtuTooSmall { mtu });
        }
        if self.overhead_bytes > OVERHEAD_BYTES_MAX {
            return Err(SpecError::OverheadTooLarge {
                overhead_bytes: self.overhead_bytes,
            });
        }
        let hold = self
            .reorder
            .as_ref()
            .map_or(Duration::ZERO, |reorder| reorder.hold);
        if hold.is_zero()
            && self
                .reorder
                .as_ref()
                .is_some_and(|reorder| reorder.share.parts() > 0)
        {
            return Err(SpecError::HoldZero);
        }
        let trace = self
            .rate_trace
            .iter()
            .map(|(time, _)| ("step of the rate trace", *time));
        [
            ("delay", self.delay),
            ("jitter", self.jitter),
            ("hold", hold),
        ]
        .into_iter()
        .chain(trace)
        .find(|(_, time)| *time > TIME_MAX)
        .map_or(Ok(()), |(what, time)| {
            Err(SpecError::TooLong { what, time })
        })
    }
}
