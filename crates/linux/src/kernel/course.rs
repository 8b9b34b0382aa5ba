//! Course of a flow of the kernel's TCP, from samples that are taken in any case: the reports of
//! the programs say what arrived, the samples of the watch what the sender's connections were like.

use std::sync::Arc;
use std::time::Duration;

use base::{FlowSample, Instant, Limit};
use doctor::{Recording, Shares, Track};
use lab::{FlowLook, Point, Series};

use super::LAB_PORT;
use crate::workload::Interval;

/// Knowledge about a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'k> {
    /// The reports of the end that receives; our stack on real packets makes none.
    pub(super) receiver: &'k [Interval],
    /// Intervals of the other end, where it receives payload too.
    pub(super) other: &'k [Interval],
    /// The look at the end that sends.
    pub(super) sender: Option<&'k Recording>,
}

/// A point for each report, or fewer; without reports for each sample, where payload counts when it
/// is acknowledged.
pub(super) fn points(known: &Known<'_>) -> Vec<Point> {
    let sender = known.sender.map(Sender::of);
    let firsts = [known.receiver, known.other].map(|all| all.first().map(Interval::start));
    let Some(began) = firsts.into_iter().flatten().min() else {
        return sender.map_or_else(Vec::new, |sender| sender.acknowledged());
    };
    let mut series = Series::new(began, None);
    series.push(began, FlowLook::default(), None);
    let mut received_bytes = 0;
    let mut other = known.other.iter().peekable();
    let mut last = began;
    for interval in known.receiver {
        let at = interval.end();
        received_bytes += interval.received_bytes;
        while let Some(interval) = other.next_if(|interval| interval.end() <= at) {
            received_bytes += interval.received_bytes;
        }
        let seen = sender.as_ref().map(|sender| sender.look(last, at));
        let (look, limit) = seen.unwrap_or_default();
        let look = FlowLook {
            received_bytes,
            ..look
        };
        series.push(at, look, limit);
        last = at;
    }
    series.points()
}

/// Round-trip times of the points, in microseconds.
pub(super) fn rtts_us(points: &[Point]) -> Vec<u64> {
    points.iter().filter_map(|point| point.rtt_us).collect()
}

/// The connections of the end that sends.
struct Sender {
    /// The samples of each.
    flows: Vec<Vec<Arc<FlowSample>>>,
    /// Place of the one that sent most, whose limits are told.
    main: Option<usize>,
}

impl Sender {
    fn of(watched: &Recording) -> Self {
        let is_of_lab = |flow: &&Track| {
            [flow.key.local, flow.key.remote]
                .map(|end| end.port())
                .contains(&LAB_PORT)
        };
        // The congestion window of an end that only receives has no meaning.
        let sends = |flow: &&Track| {
            let last = flow.samples.last();
            last.is_some_and(|sample| sample.data_segs_out != Some(0))
        };
        let flows = watched.flows.iter().filter(is_of_lab).filter(sends);
        let flows: Vec<Vec<_>> = flows.map(|flow| flow.samples.iter().collect()).collect();
        let acked = |flow: &[Arc<FlowSample>]| flow.last().and_then(|last| last.bytes_acked);
        let main = (0..flows.len()).max_by_key(|&at| acked(&flows[at]));
        Self { flows, main }
    }

    /// A point for each sample of the main connection, or fewer.
    fn acknowledged(&self) -> Vec<Point> {
        let samples = self.main.map_or(&[][..], |main| &self.flows[main]);
        let Some(first) = samples.first() else {
            return Vec::new();
        };
        let mut series = Series::new(first.at, None);
        let mut last = first.at;
        for sample in samples {
            let at = sample.at;
            let acked = self.flows.iter().filter_map(|flow| {
                let seen = flow.partition_point(|sample| sample.at <= at);
                flow[..seen].last()?.bytes_acked
            });
            let (look, limit) = self.look(last, at);
            let look = FlowLook {
                received_bytes: acked.sum(),
                ..look
            };
            series.push(at, look, limit);
            last = at;
        }
        series.points()
    }

    /// Samples between two times.
    fn look(&self, from: Instant, until: Instant) -> (FlowLook, Option<(Limit, Duration)>) {
        let newest = self.flows.iter().filter_map(|flow| {
            let samples = between(flow, from, until);
            samples.last().map(|sample| &**sample)
        });
        let limit = self.main.and_then(|main| {
            let flow = &self.flows[main];
            // From the last sample before, so that no time is missing.
            let first = flow.partition_point(|sample| sample.at <= from);
            let end = flow.partition_point(|sample| sample.at <= until);
            limit(&flow[first.saturating_sub(1)..end])
        });
        (FlowLook::of(newest), limit)
    }
}

fn between(flow: &[Arc<FlowSample>], from: Instant, until: Instant) -> &[Arc<FlowSample>] {
    let begin = flow.partition_point(|sample| sample.at <= from);
    let end = flow.partition_point(|sample| sample.at <= until);
    &flow[begin..end.max(begin)]
}

/// The limit that held a sender for longest between these samples, as the doctor shares the time
/// out; `None` where more of it is unclear.
fn limit(samples: &[Arc<FlowSample>]) -> Option<(Limit, Duration)> {
    let time = samples.last()?.at.since(samples.first()?.at);
    let shares = Shares::of_samples(samples.iter().map(|sample| &**sample))?;
    let (limit, share) = shares.largest_first().into_iter().next()?;
    (share > shares.unclear()).then(|| (limit, time.mul_f64(share)))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use base::FlowKey;

    use super::*;
    use crate::workload::{Phase, ResponseCounts};

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn interval(end_ms: u64, received_bytes: u64) -> Interval {
        Interval {
            end_ns: at(end_ms).as_nanos(),
            length_ns: 50_000_000,
            phase: Phase::Measured,
            received_bytes,
            sent_bytes: 0,
            operations: 0,
            responses_ns: ResponseCounts::default(),
            sending: None,
        }
    }

    fn sample(at_ms: u64, busy_ms: u64, window_ms: u64) -> FlowSample {
        let port = |port| SocketAddr::from(([10, 77, 0, 1], port));
        let key = FlowKey {
            local: port(40_000),
            remote: port(LAB_PORT),
        };
        let time = Duration::from_millis;
        FlowSample {
            srtt: Some(time(20)),
            cwnd_pkts: Some(10),
            snd_mss_bytes: Some(1_000),
            unacked_pkts: Some(10),
            notsent_bytes: Some(50_000),
            snd_wnd_bytes: Some(1_000_000),
            bytes_acked: Some(5),
            busy_time: Some(time(busy_ms)),
            rwnd_limited_time: Some(time(window_ms)),
            sndbuf_limited_time: Some(time(0)),
            ..FlowSample::empty(at(at_ms), key)
        }
    }

    #[test]
    fn reports_and_samples_make_points() {
        let samples = [sample(160, 0, 0), sample(190, 30, 30), sample(240, 80, 30)];
        let sender = Recording {
            flows: vec![Track {
                key: samples[0].key,
                cookie: 1,
                owners: Vec::new(),
                samples: samples.into_iter().collect(),
                ended: false,
                interface: None,
                options_error: None,
            }],
            began: at(150),
            ended: at(250),
            ..Recording::default()
        };
        let points = points(&Known {
            receiver: &[interval(150, 50), interval(200, 100), interval(250, 100)],
            other: &[interval(200, 25)],
            sender: Some(&sender),
        });
        let shown: Vec<_> = points
            .iter()
            .map(|point| (point.at_us, point.goodput_bps, point.limit))
            .collect();
        let expected = [
            (50_000, 8_000, None),
            (100_000, 20_000, Some(Limit::PeerWindow)),
            (150_000, 16_000, Some(Limit::Congestion)),
        ];
        assert_eq!(shown, expected);
        assert_eq!(points[0].rtt_us, None);
        let last = points[2];
        assert_eq!((last.rtt_us, last.cwnd_bytes), (Some(20_000), Some(10_000)));
        assert_eq!(lab::stats::whole_mean(&rtts_us(&points)), Some(20_000));
    }

    #[test]
    fn without_reports_what_is_acknowledged_counts() {
        let acked = |at_ms, bytes| FlowSample {
            bytes_acked: Some(bytes),
            ..sample(at_ms, 0, 0)
        };
        let flow = [acked(10, 100), acked(20, 150), acked(30, 250)].map(Arc::new);
        let sender = Sender {
            main: Some(0),
            flows: vec![flow.into()],
        };
        let points = sender.acknowledged();
        let shown: Vec<_> = points
            .iter()
            .map(|point| (point.at_us, point.goodput_bps))
            .collect();
        assert_eq!(shown, [(10_000, 40_000), (20_000, 80_000)]);
    }

    #[test]
    fn nothing_reported_is_no_point() {
        let none = Known {
            receiver: &[],
            other: &[],
            sender: None,
        };
        assert_eq!(points(&none), []);
        assert!(rtts_us(&[]).is_empty());
    }
}
