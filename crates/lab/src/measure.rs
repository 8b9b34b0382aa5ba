//! What a program gets out of its connection over some seconds, and whether a change cured it.

use base::human;
use serde::{Deserialize, Serialize};

use crate::faults::Cure;
use crate::outcome::ResponseMicros;

/// A measurement of one running workload over one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Seconds that were measured.
    pub duration_s: f64,
    /// Payload that arrived, in bit/s.
    pub goodput_bps: u64,
    /// Operations per second, for workloads that have them.
    pub operations_per_s: Option<f64>,
    /// Their response times.
    pub response_us: Option<ResponseMicros>,
    /// Smoothed round-trip time of the connection at its end, median of the samples.
    pub srtt_us: Option<u64>,
    /// Packets that the sender's own interface dropped.
    pub local_drops_pkts: u64,
}

/// Which of its numbers a measurement is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Yardstick {
    /// Payload per second; more is better.
    Goodput,
    /// Median response time; less is better.
    Response,
    /// Smoothed round-trip time; less is better.
    Rtt,
    /// Dropped packets; fewer are better.
    Drops,
}

impl Cure {
    /// The number that this cure is judged by; `None` where there is nothing to cure.
    #[must_use]
    pub const fn yardstick(self) -> Option<Yardstick> {
        match self {
            Self::None => None,
            Self::ResponseBelow(_) | Self::ResponseFactor(_) => Some(Yardstick::Response),
            Self::ShareOfDefault(_) | Self::GoodputFactor(_) => Some(Yardstick::Goodput),
            Self::RttFactor(_) => Some(Yardstick::Rtt),
            Self::DropsEnd => Some(Yardstick::Drops),
        }
    }

    /// Whether `after` fulfils it. `reference_bps` is what a connection with default settings gets
    /// on the same path, needed by [`Cure::ShareOfDefault`] only.
    #[must_use]
    pub fn is_met(self, before: &Measure, after: &Measure, reference_bps: Option<u64>) -> bool {
        match self {
            Self::None => true,
            Self::ResponseBelow(limit) => {
                median_us(after).is_some_and(|p50| u128::from(p50) < limit.as_micros())
            }
            Self::ResponseFactor(factor) | Self::RttFactor(factor) => self
                .yardstick()
                .and_then(|yardstick| yardstick.gain(before, after))
                .is_some_and(|gain| gain >= factor),
            Self::ShareOfDefault(share) => {
                reference_bps.is_some_and(|bps| after.goodput_bps as f64 >= share * bps as f64)
            }
            Self::GoodputFactor(factor) => Yardstick::Goodput
                .gain(before, after)
                .is_some_and(|gain| gain >= factor),
            Self::DropsEnd => before.local_drops_pkts > 0 && after.local_drops_pkts == 0,
        }
    }
}

impl Yardstick {
    /// The yardstick that fits a workload on its own: response time where it has operations.
    #[must_use]
    pub const fn of(measure: &Measure) -> Self {
        if measure.response_us.is_some() {
            Self::Response
        } else {
            Self::Goodput
        }
    }

    /// How many times better `after` is than `before`: above 1 is better. `None` where one of them
    /// lacks the number. Where nothing came through before, everything is a million times better.
    #[must_use]
    pub fn gain(self, before: &Measure, after: &Measure) -> Option<f64> {
        // The quotient of these two is above 1 where `after` is better.
        let (dividend, divisor) = match self {
            Self::Goodput => (after.goodput_bps as f64, before.goodput_bps as f64),
            Self::Response => (median_us(before)? as f64, median_us(after)? as f64),
            Self::Rtt => (before.srtt_us? as f64, after.srtt_us? as f64),
            Self::Drops => (
                before.local_drops_pkts as f64 + 1.0,
                after.local_drops_pkts as f64 + 1.0,
            ),
        };
        Some(dividend / divisor.max(dividend * 1e-6).max(f64::MIN_POSITIVE))
    }

    /// The number in words, such as `44.0 ms median` or `26.0 Mbit/s`.
    #[must_use]
    pub fn show(self, measure: &Measure) -> String {
        match self {
            Self::Goodput => human::bps(measure.goodput_bps),
            Self::Response => match median_us(measure) {
                Some(p50) => format!("{} median", human::micros(p50)),
                None => "no response".into(),
            },
            Self::Rtt => match measure.srtt_us {
                Some(srtt) => format!("{} round trip", human::micros(srtt)),
                None => "round trip unknown".into(),
            },
            Self::Drops => format!("{} local drops", measure.local_drops_pkts),
        }
    }
}

fn median_us(measure: &Measure) -> Option<u64> {
    measure
        .response_us
        .filter(|response| response.n > 0)
        .map(|response| response.p50)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn response(p50: u64) -> Measure {
        let response_us = Some(ResponseMicros {
            n: 10,
            p50,
            p90: p50,
            p99: p50,
            max: p50,
            stalled: 0,
        });
        Measure {
            response_us,
            ..Measure::default()
        }
    }

    fn goodput(goodput_bps: u64) -> Measure {
        Measure {
            goodput_bps,
            ..Measure::default()
        }
    }

    #[test]
    fn cures_are_judged() {
        let stall = Cure::ResponseBelow(Duration::from_millis(1));
        assert!(stall.is_met(&response(44_000), &response(400), None));
        assert!(!stall.is_met(&response(44_000), &response(1_000), None));
        assert!(!stall.is_met(&response(44_000), &Measure::default(), None));

        let buffer = Cure::ShareOfDefault(0.9);
        assert!(buffer.is_met(&goodput(6_000_000), &goodput(45_000_000), Some(46_000_000)));
        assert!(!buffer.is_met(&goodput(6_000_000), &goodput(40_000_000), Some(46_000_000)));
        assert!(!buffer.is_met(&goodput(6_000_000), &goodput(40_000_000), None));

        let idle = Cure::ResponseFactor(2.5);
        assert!(idle.is_met(&response(480_000), &response(123_000), None));
        assert!(!idle.is_met(&response(480_000), &response(300_000), None));

        let drops = |local_drops_pkts| Measure {
            local_drops_pkts,
            ..Measure::default()
        };
        assert!(Cure::DropsEnd.is_met(&drops(5), &drops(0), None));
        assert!(
            !Cure::DropsEnd.is_met(&drops(0), &drops(0), None),
            "nothing was cured"
        );
        assert!(Cure::GoodputFactor(5.0).is_met(&goodput(0), &goodput(1), None));
    }

    #[test]
    fn a_number_is_shown_with_what_it_is() {
        assert_eq!(Yardstick::Goodput.show(&goodput(26_040_000)), "26.0 Mbit/s");
        assert_eq!(
            Yardstick::Response.show(&response(44_012)),
            "44.0 ms median"
        );
    }
}
