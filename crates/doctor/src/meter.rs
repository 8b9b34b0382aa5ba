//! What a connection did since it was last asked: rate, direction, and the limit that held it most
//! of the time. Two looks at a time are compared, so that this costs the same however long the
//! recording is: for a screen that shows thousands of connections second by second.

use core::time::Duration;
use std::collections::BTreeMap;

use base::{FlowSample, Instant, Limit, Rate};

use crate::recording::Track;
use crate::shares::Shares;

/// A rate over less is an accident.
const MEASURED_MIN: Duration = Duration::from_millis(100);

/// What a connection did most of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// This limit held it as a sender.
    Limit(Limit),
    /// It mostly received: its own limits as a sender say little.
    Receiving,
    /// It did something, and what held it could not be said.
    Unclear,
    /// No payload moved and none was waiting.
    Idle,
}

/// A connection over the last moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Payload acknowledged or received, whichever was more.
    pub rate: Rate,
    /// More was received than was acknowledged.
    pub is_receiving: bool,
    /// What held it.
    pub held: Held,
    /// For which share of the time, 0 to 1.
    pub share: f64,
}

/// Counters of a connection when it was last asked, and what its time went to since.
#[derive(Debug)]
struct Meter {
    began: Counters,
    /// The newest look that is summed up.
    last: Instant,
    times_s: [f64; Limit::ALL.len()],
    unclear_s: f64,
    /// The last answer, which stands until there is enough for another one.
    reading: Option<Reading>,
}

#[derive(Clone, Copy, Debug)]
struct Counters {
    at: Instant,
    acked: u64,
    received: u64,
}

impl Counters {
    fn of(sample: &FlowSample) -> Self {
        Self {
            at: sample.at,
            acked: sample.bytes_acked.unwrap_or(0),
            received: sample.bytes_received.unwrap_or(0),
        }
    }
}

/// The meters of connections, by their cookies.
#[derive(Debug, Default)]
pub struct Meters {
    of: BTreeMap<u64, Meter>,
}

impl Meters {
    /// Sums up the newest look at a connection. To be called about once for each look.
    pub fn handle_look(&mut self, track: &Track) {
        let Some(last) = track.samples.last() else {
            return;
        };
        let meter = self.of.entry(track.cookie);
        let meter = meter.or_insert_with(|| Meter::new(last));
        if last.at > meter.last {
            meter.last = last.at;
            if let Some(before) = track.samples.before_last() {
                meter.sum_up(before, last);
            }
        }
    }

    /// What a connection did since this was last asked of it; `None` without a look at it.
    pub fn poll(&mut self, track: &Track) -> Option<Reading> {
        let last = track.samples.last()?;
        let meter = self.of.entry(track.cookie);
        Some(meter.or_insert_with(|| Meter::new(last)).poll(last))
    }

    /// Forgets the connections that were not looked at since then.
    pub fn forget_before(&mut self, time: Instant) {
        self.of.retain(|_, meter| meter.last >= time);
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}

impl Meter {
    fn new(sample: &FlowSample) -> Self {
        Self {
            began: Counters::of(sample),
            last: sample.at,
            times_s: [0.0; Limit::ALL.len()],
            unclear_s: 0.0,
            reading: None,
        }
    }

    fn sum_up(&mut self, before: &FlowSample, last: &FlowSample) {
        if last.repeats(before) {
            return;
        }
        let Some(shares) = Shares::of_samples([before, last]) else {
            return;
        };
        let time = last.at.since(before.at).as_secs_f64();
        for (sum, limit) in self.times_s.iter_mut().zip(Limit::ALL) {
            *sum += shares.get(limit) * time;
        }
        self.unclear_s += shares.unclear() * time;
    }

    fn poll(&mut self, sample: &FlowSample) -> Reading {
        let counters = Counters::of(sample);
        let time = counters.at.since(self.began.at);
        if let Some(reading) = self.reading.filter(|_| time < MEASURED_MIN) {
            return reading;
        }
        let began = core::mem::replace(&mut self.began, counters);
        let times_s = core::mem::take(&mut self.times_s);
        let unclear_s = core::mem::take(&mut self.unclear_s);
        let sent = counters.acked.saturating_sub(began.acked);
        let received = counters.received.saturating_sub(began.received);
        let is_receiving = received > sent;
        let rate = if time < MEASURED_MIN {
            Rate::from_bits_per_second(0)
        } else {
            Rate::of(sent.max(received), time)
        };
        let is_waiting = sample.unacked_pkts > Some(0) || sample.notsent_bytes > Some(0);
        let (held, share) = if sent + received == 0 && !is_waiting {
            (Held::Idle, 1.0)
        } else {
            largest(times_s, unclear_s, is_receiving)
        };
        let reading = Reading {
            rate,
            is_receiving,
            held,
            share,
        };
        self.reading = (time >= MEASURED_MIN).then_some(reading);
        reading
    }
}

/// What took most of the time, and the share that it took.
fn largest(times_s: [f64; Limit::ALL.len()], unclear_s: f64, is_receiving: bool) -> (Held, f64) {
    let known = Limit::ALL.into_iter().map(Held::Limit).zip(times_s);
    let all = known.chain([(Held::Unclear, unclear_s)]);
    let most = all.max_by(|a, b| a.1.total_cmp(&b.1));
    let (held, most) = most.unwrap_or((Held::Unclear, 0.0));
    let sum = times_s.iter().sum::<f64>() + unclear_s;
    if sum <= 0.0 {
        return (Held::Unclear, 0.0);
    }
    let held = match held {
        Held::Limit(Limit::Application) if is_receiving => Held::Receiving,
        held => held,
    };
    (held, most / sum)
}

#[cfg(test)]
mod tests {
    use base::{FlowKey, TcpState};

    use super::*;
    use crate::recording::Samples;

    fn key() -> FlowKey {
        FlowKey {
            local: ([10, 0, 0, 1], 50_000).into(),
            remote: ([10, 0, 0, 2], 443).into(),
        }
    }

    fn track(samples: Samples) -> Track {
        Track {
            key: key(),
            cookie: 7,
            owners: Vec::new(),
            samples,
            ended: false,
            interface: None,
            options_error: None,
        }
    }

    /// A look at a sender that waits for room in the peer's window.
    fn stopped(millis: u64, acked: u64) -> FlowSample {
        let time = Duration::from_millis(millis);
        FlowSample {
            state: Some(TcpState::Established),
            bytes_acked: Some(acked),
            bytes_received: Some(0),
            unacked_pkts: Some(1),
            notsent_bytes: Some(100_000),
            busy_time: Some(time),
            rwnd_limited_time: Some(time),
            segs_in: Some(millis),
            segs_out: Some(millis),
            ..FlowSample::empty(Instant::ZERO + time, key())
        }
    }

    #[test]
    fn a_reading_begins_where_the_last_one_ended() {
        let mut meters = Meters::default();
        let mut seen = track(Samples::new());
        let mut read = |looks: &[FlowSample]| {
            for look in looks {
                seen.samples.push(look.clone());
                meters.handle_look(&seen);
            }
            meters.poll(&seen).expect("a look")
        };
        let first = read(&[stopped(0, 1000), stopped(500, 1000), stopped(1000, 2000)]);
        let rate = Rate::from_bits_per_second(8000);
        assert_eq!(
            (first.rate, first.held),
            (rate, Held::Limit(Limit::PeerWindow))
        );
        assert!(first.share > 0.99, "{first:?}");
        let later = read(&[stopped(1500, 4000), stopped(2000, 6000)]);
        assert_eq!(later.rate, Rate::from_bits_per_second(32_000));
        // No look since then.
        assert_eq!(read(&[]), later);
    }

    #[test]
    fn where_nothing_moves_or_waits_it_is_idle() {
        let idle = |millis| FlowSample {
            unacked_pkts: Some(0),
            notsent_bytes: Some(0),
            ..stopped(millis, 500)
        };
        let mut meters = Meters::default();
        let seen = track([idle(0), idle(500), idle(1000)].into_iter().collect());
        meters.handle_look(&seen);
        assert_eq!(
            meters.poll(&seen).map(|reading| reading.held),
            Some(Held::Idle)
        );
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut meters = Meters::default();
        meters.handle_look(&track([stopped(5, 0)].into_iter().collect()));
        meters.forget_before(Instant::ZERO + Duration::from_millis(5));
        assert_eq!(meters.len(), 1);
        meters.forget_before(Instant::ZERO + Duration::from_millis(6));
        assert!(meters.is_empty());
    }

    #[test]
    fn a_receiver_is_not_limited_by_its_program() {
        let mut times_s = [0.0; Limit::ALL.len()];
        times_s[0] = 3.0;
        let application = Held::Limit(Limit::Application);
        assert_eq!(largest(times_s, 1.0, true), (Held::Receiving, 0.75));
        assert_eq!(largest(times_s, 1.0, false), (application, 0.75));
    }
}
