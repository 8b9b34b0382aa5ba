//! Round-trip times and the retransmission timeout, as a Linux sender keeps them (RFC 6298).

use core::time::Duration;

/// Linux's smallest timeout, in which the variation counts at least.
const RTO_MIN: Duration = Duration::from_millis(200);
/// RFC 6298: before the first sample.
const RTO_INITIAL: Duration = Duration::from_secs(1);
const RTO_MAX: Duration = Duration::from_secs(120);

/// Round-trip times from the ACKs of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    srtt: Option<Duration>,
    variation: Duration,
    min: Option<Duration>,
    pub(crate) samples: u64,
}

impl Rtt {
    pub(crate) fn sample(&mut self, sample: Duration) {
        self.samples += 1;
        self.min = Some(self.min.map_or(sample, |min| min.min(sample)));
        match self.srtt {
            None => {
                self.srtt = Some(sample);
                self.variation = sample / 2;
            }
            Some(srtt) => {
                let off = srtt.abs_diff(sample);
                self.variation = (self.variation * 3 + off) / 4;
                self.srtt = Some((srtt * 7 + sample) / 8);
            }
        }
    }

    pub(crate) const fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    pub(crate) const fn variation(&self) -> Duration {
        self.variation
    }

    pub(crate) const fn min(&self) -> Option<Duration> {
        self.min
    }

    pub(crate) fn rto(&self) -> Duration {
        self.srtt.map_or(RTO_INITIAL, |srtt| {
            (srtt + (self.variation * 4).max(RTO_MIN)).min(RTO_MAX)
        })
    }

    /// After this many timeouts in a row, each of which doubles it (RFC 6298 section 5.5); as
    /// `tcp_info` tells it.
    pub(crate) fn rto_after(&self, timeouts: u8) -> Duration {
        let times = 1_u32.checked_shl(timeouts.into()).unwrap_or(u32::MAX);
        self.rto().saturating_mul(times).min(RTO_MAX)
    }
}
