//! What a change gives that ends a wait, by arithmetic: for programs that no twin takes after, such
//! as a server that works on each request and then writes its response in two pieces.
//!
//! An operation that waits for a share `w` of its time takes `1 - w` of it without the wait, and one
//! round trip at least. What BBR keeps in flight is two bandwidth-delay products at most
//! (`bbr_cwnd_gain`), so that the round trip is no longer than twice the shortest.

use doctor::{Objective, Verdict};

use crate::observed::Answered;
use crate::prediction::{Prediction, Range, Source};

/// Findings whose share is that of the time in which a piece of a message is held back, and whose
/// change lets it go.
const HELD_BACK: &[&str] = &[
    "cork-not-uncorked",
    "nagle-delack-stall",
    "nagle-rtt-serialised",
];
/// A share of the time is off by this, however often it was looked at: a look comes late where the
/// processors are busy.
const SHARE_SLACK: f64 = 0.02;
/// Looks that follow each other within one wait are no independent ones.
const LOOKS_PER_DRAW: f64 = 2.0;
/// In round trips: with a queue that BBR keeps itself, and one that others keep beside it.
const RTTS_OF_BBR: Range = Range {
    low: 1.0,
    value: 1.5,
    high: 2.5,
};

/// What is known of a wait that a change ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waited {
    /// A message is held back for a share of the time.
    Held {
        /// From 0 to 1.
        share: f64,
        /// Independent looks.
        draws: f64,
        /// Payload per second.
        goodput_bps: f64,
        /// How many round trips an operation takes now, at most.
        round_trips: f64,
    },
    /// All wait in a queue; both in seconds.
    Queue { srtt: f64, min_rtt: f64 },
}

impl Waited {
    /// `None` where the finding is of another kind.
    pub(crate) fn of(answered: &Answered<'_, '_>, verdict: &Verdict) -> Option<Self> {
        let timeline = answered.timeline();
        let min_rtt = timeline.min_rtt()?.as_secs_f64();
        if verdict.diagnosis.id == "bufferbloat" {
            let srtt = timeline.srtt()?.as_secs_f64();
            return Some(Self::Queue { srtt, min_rtt });
        }
        if !HELD_BACK.contains(&verdict.diagnosis.id) || answered.case.connections() > 1 {
            return None;
        }
        let messages = [
            timeline.counted(|s| s.data_segs_in)?,
            timeline.counted(|s| s.data_segs_out)?,
        ];
        // A message may have two segments, which may leave one after the other.
        let least = messages[0].min(messages[1]).max(1) as f64 / 2.0;
        let each = timeline.interval().as_secs_f64() / least;
        Some(Self::Held {
            share: verdict.share.clamp(0.0, 1.0),
            draws: timeline.looks() as f64 / LOOKS_PER_DRAW,
            goodput_bps: timeline.rate()?.bits_per_second() as f64,
            round_trips: (each / min_rtt.max(1e-6)).max(1.0),
        })
    }

    /// What the change gives.
    pub(crate) fn ended(self) -> Prediction {
        match self {
            Self::Held {
                share,
                draws,
                goodput_bps,
                round_trips,
            } => {
                let error = (share * (1.0 - share) / draws.max(1.0)).sqrt() * 2.0 + SHARE_SLACK;
                let gain = |share: f64| (1.0 / (1.0 - share).max(1e-9)).clamp(1.0, round_trips);
                let gains = Range {
                    low: gain((share - error).max(0.0)),
                    value: gain(share),
                    high: gain(share + error),
                };
                let range = gains.map(|gain| gain * goodput_bps);
                let found = Prediction::by(Source::TimeWaited, Objective::Response);
                Prediction {
                    before: Some(goodput_bps),
                    range: Some(range),
                    gain: Some(gains.value),
                    goodput_bps: Some(range),
                    ..found
                }
            }
            Self::Queue { srtt, min_rtt } => {
                let range = RTTS_OF_BBR.map(|times| times * min_rtt * 1e6);
                let found = Prediction::by(Source::TimeWaited, Objective::Rtt);
                Prediction {
                    before: Some(srtt * 1e6),
                    range: Some(range),
                    gain: Some(Objective::Rtt.gain(srtt * 1e6, range.value)),
                    rtt_us: Some(range),
                    ..found
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gains(share: f64, round_trips: f64) -> [f64; 3] {
        let held = Waited::Held {
            share,
            draws: 100.0,
            goodput_bps: 1e6,
            round_trips,
        };
        let range = held.ended().range.expect("it is known");
        [range.low, range.value, range.high].map(|bps| (bps / 1e4).round() / 100.0)
    }

    /// A server that works for 100 ms and holds its response back for 40 gets 1.4 times as fast, and
    /// not forty times; nothing gets faster than a round trip.
    #[test]
    fn what_waits_for_a_share_of_the_time_gets_as_much_faster() {
        assert_eq!(gains(0.275, 40.0), [1.19, 1.38, 1.64]);
        assert_eq!(gains(0.95, 200.0)[1], 20.0);
        assert_eq!(gains(0.99, 30.0)[1..], [30.0, 30.0]);
        assert_eq!(gains(0.0, 30.0)[..2], [1.0, 1.0]);
    }

    #[test]
    fn a_queue_is_drained_to_twice_the_shortest_round_trip() {
        let queue = Waited::Queue {
            srtt: 0.9,
            min_rtt: 0.02,
        };
        let found = queue.ended();
        assert_eq!(found.gain.map(f64::round), Some(30.0));
        assert!(found.range.is_some_and(|range| range.contains(35_000.0)));
    }
}
