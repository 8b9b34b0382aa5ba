//! Effect of a change by arithmetic, for programs that no twin imitates, such as a server that
//! works on each request and then writes its response in two pieces.
//!
//! An operation of whose time a change saves the share `s` takes `1 - s` of it afterwards, and one
//! round trip at least. What BBR keeps in flight is two bandwidth-delay products at most
//! (`bbr_cwnd_gain`) and some whole packets (`bbr_quantization_budget`), so that the round trip
//! is hardly longer than twice the shortest where no others fill the queue. Several under BBR each
//! find more bandwidth than their share.

use doctor::{Objective, Place, Verdict};
use lab::Measure;

use crate::observed::Answered;
use crate::prediction::{OPERATION_MIN_S, Prediction, Range, Source};

/// A share of the time is off by this, however often it was looked at: a look comes late where the
/// processors are busy.
const SHARE_SLACK: f64 = 0.02;
/// Savings counted in whole round trips may be off by one.
const SAVED_SLACK: f64 = 0.25;
/// The shortest delay of an ACK, and a tick of the kernel's timer (Linux `TCP_DELACK_MIN`; a quick
/// answer cancels it), in seconds.
const HELD_S: f64 = 0.044;
/// Ten segments that double nine times are 7 MB; few blocks are larger, and the last round trip
/// stays.
const TRANSFER_GAIN_MAX: f64 = 10.0;
/// Samples within one wait are not independent.
const LOOKS_PER_DRAW: f64 = 2.0;
/// In round trips: with a queue that BBR keeps itself, and one that others keep beside it.
const RTTS_OF_BBR: Range = Range {
    low: 1.0,
    value: 1.5,
    high: 2.5,
};
/// The same of several connections under BBR, of which each keeps [`OWN_BYTES`] beside it.
/// Measured, in shortest round trips: two 3.1 and four 4.7 over 8 Mbit/s and 30 ms; two 2.4, four
/// 2.8 and eight 3.6 over 20 Mbit/s and 40 ms.
const RTTS_OF_SEVERAL: Range = Range {
    low: 1.5,
    value: 2.2,
    high: 3.5,
};
/// Three bursts of two packets, and one for the rounding (`bbr_set_cwnd`).
const OWN_BYTES: f64 = 7.0 * 1514.0;
/// How many times these bytes one connection keeps: all of them where its bandwidth-delay product
/// is a few packets, of which samples overestimate the rate.
const OWN_OF_BBR: Range = Range {
    low: 0.0,
    value: 0.5,
    high: 1.0,
};

/// A wait that a change ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waited {
    /// A share of the time of an operation is saved.
    Saved {
        /// From 0 to 1.
        share: f64,
        /// The same at most.
        share_most: f64,
        /// How far off that may be, below and above.
        error: [f64; 2],
        /// How many times better it gets, at most.
        most: f64,
        /// Share of the service's payload on connections that the change is for: the others carry
        /// what they carried.
        part: f64,
    },
    /// All wait in a queue that so many connections fill; both times in seconds.
    Queue {
        srtt: f64,
        min_rtt: f64,
        connections: usize,
    },
}

impl Waited {
    /// `None` where the finding is of another kind.
    pub(crate) fn of(answered: &Answered<'_, '_>, verdict: &Verdict) -> Option<Self> {
        let timeline = answered.timeline();
        let min_rtt = timeline.min_rtt()?.as_secs_f64();
        if verdict.diagnosis.id == "bufferbloat" {
            let srtt = timeline.srtt()?.as_secs_f64();
            return Some(Self::Queue {
                srtt,
                min_rtt,
                connections: 1,
            });
        }
        let share = verdict.saves?;
        let share_most = verdict.saves_most.unwrap_or(share).max(share);
        if verdict.diagnosis.objective == Objective::Transfer {
            return Some(Self::of_round_trips(share, share_most));
        }
        let draws = (timeline.looks() as f64 / LOOKS_PER_DRAW).max(1.0);
        let messages = [
            timeline.counted(|s| s.data_segs_in)?,
            timeline.counted(|s| s.data_segs_out)?,
        ];
        // A message may have two segments, which may leave one after the other.
        let operations = messages[0].min(messages[1]).max(1) as f64 / 2.0;
        let each = timeline.interval().as_secs_f64() / operations;
        let off = (share * (1.0 - share) / draws).sqrt() * 2.0 + SHARE_SLACK;
        // A cork joins the writes of a message in one segment. Without it Nagle's algorithm may
        // hold the last one for the ACK of those before (RFC 896), which may be delayed.
        let is_corked = verdict.diagnosis.id == "cork-not-uncorked";
        let may_hold = is_corked && timeline.latest(|s| s.nodelay) != Some(true);
        let held = match may_hold {
            true => (min_rtt + HELD_S) * 2.0 / each,
            false => 0.0,
        };
        Some(Self::Saved {
            share,
            share_most,
            error: [off + held, off],
            most: (each / min_rtt.max(OPERATION_MIN_S)).max(1.0),
            part: 1.0,
        })
    }

    /// Of a transfer, of which whole round trips are saved.
    fn of_round_trips(share: f64, share_most: f64) -> Self {
        let off = share * SAVED_SLACK;
        // What it may save at most has the round trip above already.
        let above = if share_most > share { 0.0 } else { off };
        Self::Saved {
            share,
            share_most,
            error: [off, above].map(|off| off + SHARE_SLACK),
            most: TRANSFER_GAIN_MAX,
            part: 1.0,
        }
    }

    /// The same where the change is for one connection of a program with all these, and for those
    /// of its service with the same diagnosis, from the one at `own` on: those before it are left.
    pub(crate) fn among(
        self,
        (all, own): (&[Answered<'_, '_>], usize),
        place: Place,
        diagnosis: &str,
    ) -> Self {
        let Self::Saved {
            share,
            share_most,
            error,
            most,
            part: _,
        } = self
        else {
            return self;
        };
        let carried = |from: usize, is_counted: &dyn Fn(&Answered<'_, '_>) -> bool| -> u64 {
            let of_service = all.iter().skip(from);
            let of_service = of_service.filter(|one| one.case.place() == place);
            let counted = of_service.filter(|one| is_counted(one));
            counted.map(Answered::carried).sum()
        };
        let is_alike = |one: &Answered<'_, '_>| {
            let mut ids = one
                .report
                .verdicts
                .iter()
                .map(|verdict| verdict.diagnosis.id);
            one.comes_and_goes() || ids.any(|id| id == diagnosis)
        };
        let part = match (carried(own, &is_alike), carried(0, &|_| true)) {
            (0, _) | (_, 0) => 1.0,
            (alike, all) => alike as f64 / all as f64,
        };
        Self::Saved {
            share,
            share_most,
            error,
            most,
            part,
        }
    }

    /// The same where the change is for so many connections at once.
    pub(crate) const fn of_connections(self, connections: usize) -> Self {
        match self {
            Self::Queue { srtt, min_rtt, .. } => Self::Queue {
                srtt,
                min_rtt,
                connections,
            },
            Self::Saved { .. } => self,
        }
    }

    /// Predicted effect of the change on a program that had `before`.
    pub(crate) fn ended(self, objective: Objective, before: &Measure) -> Prediction {
        match self {
            Self::Saved {
                share,
                share_most,
                error,
                most,
                part,
            } => {
                let gain = |share: f64| (1.0 / (1.0 - share).max(1e-9)).clamp(1.0, most);
                let gains = Range {
                    low: gain((share - error[0]).max(0.0)),
                    value: gain((share + share_most) / 2.0),
                    high: gain(share_most + error[1]),
                };
                saved(gains, part, objective, before)
            }
            Self::Queue {
                srtt,
                min_rtt,
                connections,
            } => {
                let own = OWN_BYTES * 8.0 / before.goodput_bps.max(1) as f64;
                let (times, counts) = match connections {
                    0 | 1 => (RTTS_OF_BBR, OWN_OF_BBR),
                    several => (RTTS_OF_SEVERAL, Range::at(several as f64)),
                };
                let time = |times: f64, count: f64| (times * min_rtt + count * own).min(srtt) * 1e6;
                let range = Range {
                    low: time(times.low, counts.low),
                    value: time(times.value, counts.value),
                    high: time(times.high, counts.high),
                };
                Prediction {
                    before: Some(srtt * 1e6),
                    range: Some(range),
                    gain: Some(Objective::Rtt.gain(srtt * 1e6, range.value)),
                    rtt_us: Some(range),
                    ..Prediction::by(Source::TimeSaved, Objective::Rtt)
                }
            }
        }
    }
}

/// Every operation on `part` of the payload gets so many times as fast.
fn saved(gains: Range, part: f64, objective: Objective, before: &Measure) -> Prediction {
    let goodput = before.goodput_bps as f64;
    let of_payload = gains.map(|gain| 1.0 - part + part * gain);
    // The share is one of all time, and payload per time with data in flight is not.
    let now = match objective {
        Objective::Goodput => None,
        _ => before.value(objective),
    };
    let Some(now) = now else {
        // For response times that no program reported, too.
        let range = of_payload.map(|gain| gain * goodput);
        return Prediction {
            before: Some(goodput),
            range: Some(range),
            gain: Some(of_payload.value),
            goodput_bps: Some(range),
            ..Prediction::by(Source::TimeSaved, objective)
        };
    };
    // A median is that of the others, where these are more.
    let is_of_most = part >= 0.5;
    let range = is_of_most.then_some(Range {
        low: now / gains.high,
        value: now / gains.value,
        high: now / gains.low,
    });
    Prediction {
        before: Some(now),
        range,
        gain: is_of_most.then_some(gains.value),
        response_us: range.filter(|_| objective == Objective::Response),
        ..Prediction::by(Source::TimeSaved, objective)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of all that a program carries.
    const fn all_saved(share: f64, error: f64, most: f64) -> Waited {
        Waited::Saved {
            share,
            share_most: share,
            error: [error; 2],
            most,
            part: 1.0,
        }
    }

    fn gains(share: f64, most: f64) -> [f64; 3] {
        let error = 0.1;
        let before = Measure {
            goodput_bps: 1_000_000,
            ..Measure::default()
        };
        let ended = all_saved(share, error, most).ended(Objective::Response, &before);
        let range = ended.range.expect("it is known");
        [range.low, range.value, range.high].map(|bps| (bps / 1e4).round() / 100.0)
    }

    /// A server that works for 100 ms and holds its response back for 40 gets 1.4 times as fast,
    /// and not forty times; nothing gets faster than a round trip.
    #[test]
    fn what_waits_for_a_share_of_the_time_gets_as_much_faster() {
        assert_eq!(gains(0.275, 40.0), [1.21, 1.38, 1.6]);
        assert_eq!(gains(0.95, 200.0)[1], 20.0);
        assert_eq!(gains(0.99, 30.0)[1..], [30.0, 30.0]);
        assert_eq!(gains(0.0, 30.0)[..2], [1.0, 1.0]);
    }

    /// A program that exchanges a message each 57 ms, has data in flight for 8 of them, and waits
    /// for a held segment in 4, gets a fourteenth more in a second.
    #[test]
    fn a_share_of_all_time_is_told_of_payload_per_second() {
        let before = Measure {
            goodput_bps: 311_000,
            busy_goodput_bps: Some(2_190_000),
            ..Measure::default()
        };
        let (share, error, most) = (0.07, 0.03, 14.0);
        let ended = all_saved(share, error, most).ended(Objective::Goodput, &before);
        assert_eq!(ended.before, Some(311_000.0));
        let range = ended.range.expect("it is known");
        assert!(range.contains(334_000.0), "{range:?}");
        assert_eq!(ended.goodput_bps, Some(range));
    }

    /// One of eight connections stalls, and carries an eightieth of all: nine times as much of that
    /// is a tenth more of all.
    #[test]
    fn other_connections_carry_what_they_carried() {
        let before = Measure {
            goodput_bps: 2_650_000,
            ..Measure::default()
        };
        let stalled = Waited::Saved {
            share: 0.89,
            share_most: 0.89,
            error: [0.02; 2],
            most: 20.0,
            part: 0.0125,
        };
        let ended = stalled.ended(Objective::Goodput, &before);
        let range = ended.range.expect("it is known");
        assert!(range.contains(2_910_000.0), "{range:?}");
        assert!(range.high < 3_100_000.0, "{range:?}");
    }

    #[test]
    fn a_transfer_takes_the_less_the_more_is_saved() {
        let before = Measure {
            transfer_us: Some(600_000),
            ..Measure::default()
        };
        let (share, error, most) = (0.5, 0.1, f64::INFINITY);
        let ended = all_saved(share, error, most).ended(Objective::Transfer, &before);
        let range = ended.range.expect("it is known");
        let shown = [range.low, range.value, range.high].map(|us| (us / 1e3).round());
        assert_eq!(shown, [240.0, 300.0, 360.0]);
    }

    /// The window of the other end may open later than it did in the looks: what is saved may be a
    /// round trip less, whether or not it may be one more.
    #[test]
    fn a_window_that_may_open_early_may_open_late_too() {
        let before = Measure {
            transfer_us: Some(500_000),
            ..Measure::default()
        };
        let shown = |share: f64, share_most: f64| {
            let waited = Waited::of_round_trips(share, share_most);
            let range = waited.ended(Objective::Transfer, &before).range;
            let range = range.expect("it is known");
            [range.low, range.value, range.high].map(|us| (us / 1e3).round())
        };
        assert_eq!(shown(0.4, 0.4), [240.0, 300.0, 360.0]);
        assert_eq!(shown(0.4, 0.6), [190.0, 250.0, 360.0]);
    }

    #[test]
    fn a_queue_is_drained_to_twice_the_shortest_round_trip() {
        let queue = Waited::Queue {
            srtt: 0.9,
            min_rtt: 0.02,
            connections: 1,
        };
        let before = Measure {
            goodput_bps: 500_000_000,
            ..Measure::default()
        };
        let found = queue.ended(Objective::Rtt, &before);
        assert_eq!(found.gain.map(f64::round), Some(30.0));
        assert!(found.range.is_some_and(|range| range.contains(35_000.0)));
    }

    /// Medians of connections under BBR on a lab path; all of them together have its rate.
    #[test]
    fn several_under_bbr_keep_a_longer_queue() {
        let check = |mbit: u64, min_rtt: f64, connections: usize, measured: f64| {
            let before = Measure {
                goodput_bps: mbit * 1_000_000,
                ..Measure::default()
            };
            let srtt = 0.7;
            let queue = Waited::Queue {
                srtt,
                min_rtt,
                connections: 1,
            };
            let found = queue
                .of_connections(connections)
                .ended(Objective::Rtt, &before);
            let range = found.range.expect("it is known");
            assert!(range.contains(measured * 1e3), "{measured}: {range:?}");
        };
        check(8, 0.0089, 1, 27.3);
        check(8, 0.03, 1, 40.9);
        check(8, 0.03, 2, 92.4);
        check(8, 0.03, 4, 140.4);
        check(20, 0.04, 2, 95.2);
        check(20, 0.04, 4, 112.7);
        check(20, 0.04, 8, 144.8);
    }
}
