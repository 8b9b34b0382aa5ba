//! Results of a program over some seconds, and whether a change improved them.

use base::human;
use doctor::Objective;
use serde::{Deserialize, Serialize};

use crate::faults::RequiredEffect;
use crate::outcome::ResponseMicros;

/// A measurement of one running workload over one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Seconds that were measured.
    pub duration_s: f64,
    /// Payload that arrived, in bit/s.
    pub goodput_bps: u64,
    /// The same of the time in which payload waited to be sent or acknowledged: what a program
    /// that offers less than its connection could carry still shows of it. `None` where the
    /// programs count themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_goodput_bps: Option<u64>,
    /// Operations per second, for workloads that have them.
    pub operations_per_s: Option<f64>,
    /// Their response times.
    pub response_us: Option<ResponseMicros>,
    /// Smoothed round-trip time of the connection at its end, median of the samples.
    pub srtt_us: Option<u64>,
    /// Packets that the sender's own interface dropped.
    pub local_drops_pkts: u64,
    /// Median time of the transfers that began and ended meanwhile: blocks between two pauses, or
    /// short connections, as the kernel shows them. `None` if there was none, or it was not
    /// observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_us: Option<u64>,
    /// Share of the time with data to deliver in which nothing was acknowledged for longer than a
    /// round trip explains; `None` if there was nothing to deliver, or it was not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_share: Option<f64>,
    /// Payload that other connections to the same hosts carried the same way, in bit/s, such as
    /// those of other processes: what a gain may be taken from; for comparisons only. `None` if
    /// there were none, or they were not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside_bps: Option<u64>,
    /// Load offered by the program, in a measure independent of TCP's speed; for comparisons only.
    /// `None` where the connection carries as much as it can, or was not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<Offered>,
}

/// The load that a program puts on its connections.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offered {
    /// Payload for each message from the other end, in bytes, of a program that waits for answers.
    PerAnswer(f64),
    /// Payload per second, in bytes, of a program that pauses by itself.
    PerSecond(f64),
}

impl Offered {
    /// The number, of whatever it is.
    #[must_use]
    pub const fn value(self) -> f64 {
        let (Self::PerAnswer(value) | Self::PerSecond(value)) = self;
        value
    }
}

impl RequiredEffect {
    /// The number that this fix is judged by; `None` if there is nothing to fix.
    #[must_use]
    pub const fn objective(self) -> Option<Objective> {
        match self {
            Self::None => None,
            Self::ResponseBelow(_) | Self::ResponseFactor(_) => Some(Objective::Response),
            Self::ShareOfDefault(_) | Self::GoodputFactor(_) => Some(Objective::Goodput),
            Self::TransferFactor(_) => Some(Objective::Transfer),
            Self::StallsBelow(_) => Some(Objective::Stalls),
            Self::RttFactor(_) => Some(Objective::Rtt),
            Self::DropsEnd => Some(Objective::LocalDrops),
        }
    }

    /// Whether `after` fulfils it. `reference_bps` is what a connection with default settings gets
    /// on the same path, needed by [`RequiredEffect::ShareOfDefault`] only.
    #[must_use]
    pub fn is_met(self, before: &Measure, after: &Measure, reference_bps: Option<u64>) -> bool {
        match self {
            Self::None => true,
            Self::ResponseBelow(limit) => {
                median_us(after).is_some_and(|p50| u128::from(p50) < limit.as_micros())
            }
            Self::ResponseFactor(factor)
            | Self::TransferFactor(factor)
            | Self::RttFactor(factor) => self
                .objective()
                .and_then(|objective| before.gain(after, objective))
                .is_some_and(|gain| gain >= factor),
            Self::StallsBelow(share) => {
                let [before, after] = [before, after].map(|measure| measure.stalled_share);
                before.is_some_and(|before| before >= share)
                    && after.is_some_and(|after| after < share)
            }
            Self::ShareOfDefault(share) => {
                reference_bps.is_some_and(|bps| after.goodput_bps as f64 >= share * bps as f64)
            }
            Self::GoodputFactor(factor) => before
                .gain(after, Objective::Goodput)
                .is_some_and(|gain| gain >= factor),
            Self::DropsEnd => before.local_drops_pkts > 0 && after.local_drops_pkts == 0,
        }
    }
}

impl Measure {
    /// The objective's value in bit/s, microseconds or packets; `None` where it was not measured.
    #[must_use]
    pub fn value(&self, objective: Objective) -> Option<f64> {
        Some(match objective {
            Objective::Goodput => self.busy_goodput_bps.unwrap_or(self.goodput_bps) as f64,
            Objective::Response => median_us(self)? as f64,
            Objective::Tail => self.response_us.filter(|response| response.n > 0)?.p99 as f64,
            // A program that times its transfers itself knows best.
            Objective::Transfer => median_us(self).or(self.transfer_us)? as f64,
            Objective::Stalls => self.stalled_share?,
            Objective::Rtt => self.srtt_us? as f64,
            Objective::LocalDrops => self.local_drops_pkts as f64,
        })
    }

    /// The objective that fits a workload on its own: response time where it has operations.
    #[must_use]
    pub const fn own_objective(&self) -> Objective {
        if self.response_us.is_some() {
            Objective::Response
        } else {
            Objective::Goodput
        }
    }

    /// How many times better `after` is, by this objective; `None` where one of them lacks it.
    #[must_use]
    pub fn gain(&self, after: &Self, objective: Objective) -> Option<f64> {
        Some(objective.gain(self.value(objective)?, after.value(objective)?))
    }

    /// Its value in words; see [`show_value`]. Payload is that per second, whatever part of the time
    /// it was in flight: what the program gets.
    #[must_use]
    pub fn show(&self, objective: Objective) -> String {
        match (self.value(objective), objective) {
            (_, Objective::Goodput) => human::bps(self.goodput_bps),
            (Some(value), _) => show_value(objective, value),
            (None, Objective::Rtt) => "round trip unknown".into(),
            (None, Objective::Transfer) => "no transfer".into(),
            (None, Objective::Stalls) => "nothing to deliver".into(),
            (None, _) => "no response".into(),
        }
    }
}

/// A value of [`Measure::value`] in words, such as `44.0 ms median` or `26.0 Mbit/s`.
#[must_use]
pub fn show_value(objective: Objective, value: f64) -> String {
    let whole = value.round() as u64;
    match objective {
        Objective::Goodput => human::bps(whole),
        Objective::Response => format!("{} median", human::micros(whole)),
        Objective::Tail => format!("{} p99", human::micros(whole)),
        Objective::Transfer => format!("{} per transfer", human::micros(whole)),
        Objective::Stalls => format!("stalled {:.0} % of the time", value * 100.0),
        Objective::Rtt => format!("{} round trip", human::micros(whole)),
        Objective::LocalDrops => format!("{whole} local drops"),
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
        let stall = RequiredEffect::ResponseBelow(Duration::from_millis(1));
        assert!(stall.is_met(&response(44_000), &response(400), None));
        assert!(!stall.is_met(&response(44_000), &response(1_000), None));
        assert!(!stall.is_met(&response(44_000), &Measure::default(), None));

        let buffer = RequiredEffect::ShareOfDefault(0.9);
        assert!(buffer.is_met(&goodput(6_000_000), &goodput(45_000_000), Some(46_000_000)));
        assert!(!buffer.is_met(&goodput(6_000_000), &goodput(40_000_000), Some(46_000_000)));
        assert!(!buffer.is_met(&goodput(6_000_000), &goodput(40_000_000), None));

        let idle = RequiredEffect::ResponseFactor(2.5);
        assert!(idle.is_met(&response(480_000), &response(123_000), None));
        assert!(!idle.is_met(&response(480_000), &response(300_000), None));

        let drops = |local_drops_pkts| Measure {
            local_drops_pkts,
            ..Measure::default()
        };
        assert!(RequiredEffect::DropsEnd.is_met(&drops(5), &drops(0), None));
        assert!(
            !RequiredEffect::DropsEnd.is_met(&drops(0), &drops(0), None),
            "nothing was cured"
        );
        assert!(RequiredEffect::GoodputFactor(5.0).is_met(&goodput(0), &goodput(1), None));
    }

    #[test]
    fn a_number_is_shown_with_what_it_is() {
        let shown = |measure: &Measure| measure.show(measure.own_objective());
        assert_eq!(shown(&goodput(26_040_000)), "26.0 Mbit/s");
        assert_eq!(shown(&response(44_012)), "44.0 ms median");
        assert_eq!(goodput(1).show(Objective::Response), "no response");
    }
}
