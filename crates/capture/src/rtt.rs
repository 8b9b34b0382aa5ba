//! Round-trip times and the retransmission timeout, as a Linux sender keeps them (RFC 6298).

use core::time::Duration;

/// Linux's smallest timeout, in which the variation counts at least.
const RTO_MIN: Duration = Duration::from_millis(200);
/// RFC 6298: before the first sample.
const RTO_INITIAL: Duration = Duration::from_secs(1);
const RTO_MAX: Duration = Duration::from_secs(120);

/// Round-trip times from the ACKs of a sender.
/// In nanoseconds: there may be a sample with each packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    srtt: Option<u64>,
    variation: u64,
    min: Option<u64>,
    pub(crate) samples: u64,
}

impl Rtt {
    pub(crate) fn sample(&mut self, nanos: u64) {
        self.samples += 1;
        self.min = Some(self.min.map_or(nanos, |min| min.min(nanos)));
        match self.srtt {
            None => {
                self.srtt = Some(nanos);
                self.variation = nanos / 2;
            }
            Some(srtt) => {
                self.variation = mean::<4>(self.variation, srtt.abs_diff(nanos));
                self.srtt = Some(mean::<8>(srtt, nanos));
            }
        }
    }

    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.srtt.map(Duration::from_nanos)
    }

    pub(crate) const fn srtt_nanos(&self) -> Option<u64> {
        self.srtt
    }

    pub(crate) const fn variation(&self) -> Duration {
        Duration::from_nanos(self.variation)
    }

    pub(crate) fn min(&self) -> Option<Duration> {
        self.min.map(Duration::from_nanos)
    }

    pub(crate) const fn min_nanos(&self) -> Option<u64> {
        self.min
    }

    pub(crate) fn rto(&self) -> Duration {
        self.srtt().map_or(RTO_INITIAL, |srtt| {
            (srtt + (self.variation() * 4).max(RTO_MIN)).min(RTO_MAX)
        })
    }

    /// After this many timeouts in a row, each of which doubles it (RFC 6298 section 5.5); as
    /// `tcp_info` tells it.
    pub(crate) fn rto_after(&self, timeouts: u8) -> Duration {
        let times = 1_u32.checked_shl(timeouts.into()).unwrap_or(u32::MAX);
        self.rto().saturating_mul(times).min(RTO_MAX)
    }
}

/// The mean of a sample and what was known, which counts for all but one of this many.
const fn mean<const PARTS: u64>(known: u64, sample: u64) -> u64 {
    ((known as u128 * (PARTS - 1) as u128 + sample as u128) / PARTS as u128) as u64
}
