//! Arrivals over time, sampled more densely than anything else: a slow link spaces out the packets
//! of a train, which shows its rate, but only to samples closer together than the train is long.
//! Everything else uses samples at the distance for which the doctor's rules are made.

use std::time::Duration;

use base::{FlowKey, FlowSample, Instant, Rng};
use doctor::{Recording, Samples, Track};
use lab::{Arrival, SAMPLE_INTERVAL};
use serde::{Deserialize, Serialize};

/// Mean sampling interval of a [`crate::Subject`].
pub const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Largest interval of dense samples.
const CLOSE_MAX: Duration = Duration::from_millis(5);

/// Bytes sent and received by one end of a connection at some times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    /// The connection, as that end sees it.
    pub key: FlowKey,
    /// In order of time.
    pub points: Vec<Arrival>,
}

impl Arrivals {
    /// From all samples of one end.
    #[must_use]
    pub fn of(track: &Track) -> Self {
        let point = |sample: &FlowSample| Arrival {
            at: sample.at,
            received: sample.bytes_received.unwrap_or(0),
            acked: sample.bytes_acked.unwrap_or(0),
            delivered: sample.delivered_pkts.unwrap_or(0)
                * u64::from(sample.snd_mss_bytes.unwrap_or(1448)),
            segments: sample.data_segs_in.unwrap_or(0),
        };
        Self {
            key: track.key,
            points: track.samples.iter().map(|sample| point(&sample)).collect(),
        }
    }
}

/// Splits a recording with dense samples into one with the usual interval and the arrivals. Another
/// one is returned as it is.
#[must_use]
pub(crate) fn apart(mut recording: Recording) -> (Recording, Vec<Arrivals>) {
    let mut rng = Rng::new(0, "looks that are kept");
    let mut all = Vec::new();
    for track in &mut recording.flows {
        if interval(track).is_some_and(|interval| interval < CLOSE_MAX) {
            all.push(Arrivals::of(track));
            track.samples = thinned(&track.samples, &mut rng);
        }
    }
    (recording, all)
}

/// Mean interval of the samples of a connection; `None` with a single one.
fn interval(track: &Track) -> Option<Duration> {
    let (first, last) = (track.samples.first()?, track.samples.last()?);
    let count = u32::try_from(track.samples.len()).ok()?;
    Some(last.at.since(first.at) / count.checked_sub(1).filter(|count| *count > 0)?)
}

/// At random intervals, as samples are always taken: from a quarter of the mean to one and three
/// quarters. The first and the last sample stay.
fn thinned(samples: &Samples, rng: &mut Rng) -> Samples {
    let mean = u64::try_from(SAMPLE_INTERVAL.as_nanos()).unwrap_or(u64::MAX / 4);
    let mut kept = Samples::new();
    let mut next = Instant::ZERO;
    let last = samples.len().saturating_sub(1);
    for (index, sample) in samples.iter().enumerate() {
        if sample.at >= next || index == last {
            next = sample.at + Duration::from_nanos(mean / 4 + rng.below(mean + mean / 2));
            kept.push(sample);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that receives a byte in each microsecond.
    fn recording(looks: u64, every: Duration) -> Recording {
        let addresses = ("10.0.0.1:5201", "10.0.0.2:33902");
        let key = FlowKey {
            local: addresses.0.parse().expect("an address"),
            remote: addresses.1.parse().expect("an address"),
        };
        let mut samples = Samples::new();
        for number in 0..looks {
            let at = Instant::ZERO + every * u32::try_from(number).expect("few");
            samples.push(FlowSample {
                bytes_received: Some(at.since(Instant::ZERO).as_micros() as u64),
                ..FlowSample::empty(at, key)
            });
        }
        let track = Track {
            key,
            cookie: 1,
            owners: Vec::new(),
            samples,
            ended: false,
            interface: None,
            options_error: None,
        };
        Recording {
            flows: vec![track],
            ..Recording::default()
        }
    }

    #[test]
    fn close_looks_are_thinned_and_their_arrivals_kept() {
        let close = recording(3000, LOOK_INTERVAL);
        let whole = close.flows[0].samples.clone();
        let (thin, arrivals) = apart(close);
        let kept = &thin.flows[0].samples;
        assert!((250..400).contains(&kept.len()), "{}", kept.len());
        assert_eq!(kept.first(), whole.first());
        assert_eq!(kept.last(), whole.last());
        assert_eq!(arrivals[0].points.len(), 3000);
        assert_eq!(arrivals[0].points[7].received, 7000);
    }

    #[test]
    fn looks_at_the_usual_distance_stay() {
        let usual = recording(300, SAMPLE_INTERVAL);
        let (same, arrivals) = apart(usual.clone());
        assert_eq!(same, usual);
        assert!(arrivals.is_empty());
    }
}
