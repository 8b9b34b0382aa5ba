//! Activity of a connection since the previous poll: rate, direction, and the limit that held it
//! most of the time. Each sample is compared with the one before, without a recording: for a screen
//! that shows thousands of connections second by second.

use core::time::Duration;

use base::{FlowSample, Instant, Limit, Rate};

use crate::by_cookie::ByCookie;
use crate::shares::{Shown, Times};

/// A rate over a shorter time is meaningless.
const MEASURED_MIN: Duration = Duration::from_millis(100);

/// State of a connection for most of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// This limit held it as a sender.
    Limit(Limit),
    /// Mostly receiving: its limits as a sender mean little.
    Receiving,
    /// Active, and its limit could not be determined.
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
    /// Its limit.
    pub held: Held,
    /// For which share of the time, 0 to 1.
    pub share: f64,
}

/// Counters of a connection at the last poll, and its time by limit since.
#[derive(Debug)]
struct Meter {
    began: Counters,
    /// Counters of the newest sample.
    newest: Counters,
    shown: Shown,
    rest: Option<Rest>,
    times: Times,
    /// The last answer, valid until there is enough for another one.
    reading: Option<Reading>,
}

#[derive(Clone, Copy, Debug)]
struct Counters {
    at: Instant,
    acked: u64,
    received: u64,
    /// Something waits to be sent, or for an answer.
    is_waiting: bool,
}

/// Evidence that nothing was in flight at a sample, and that nothing has happened since another
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rest {
    segs_in: u64,
    segs_out: u64,
    unread_bytes: Option<u32>,
}

impl Counters {
    fn of(sample: &FlowSample) -> Self {
        Self {
            at: sample.at,
            acked: sample.bytes_acked.unwrap_or(0),
            received: sample.bytes_received.unwrap_or(0),
            is_waiting: sample.unacked_pkts > Some(0) || sample.notsent_bytes > Some(0),
        }
    }
}

impl Rest {
    fn of(sample: &FlowSample) -> Option<Self> {
        let rests = sample.unacked_pkts == Some(0) && sample.notsent_bytes == Some(0);
        let (segs_in, segs_out) = sample.segs_in.zip(sample.segs_out)?;
        rests.then_some(Self {
            segs_in,
            segs_out,
            unread_bytes: sample.unread_bytes,
        })
    }
}

/// The meters of connections, by their cookies.
#[derive(Debug, Default)]
pub struct Meters {
    of: ByCookie<Meter>,
}

impl Meters {
    /// Adds a sample of a connection.
    pub fn handle_look(&mut self, cookie: u64, sample: &FlowSample) {
        match self.of.value_mut(cookie) {
            Some(meter) => meter.handle_look(sample),
            None => self.of.insert(cookie, Meter::new(sample)),
        }
    }

    /// The state of a connection since the previous call; `None` without a sample.
    pub fn poll(&mut self, cookie: u64) -> Option<Reading> {
        self.of.value_mut(cookie).map(Meter::poll)
    }

    /// Removes the connections that were not sampled since then.
    pub fn forget_before(&mut self, time: Instant) {
        self.of.retain(|meter| meter.newest.at >= time);
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.of.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}

impl Meter {
    fn new(sample: &FlowSample) -> Self {
        let counters = Counters::of(sample);
        Self {
            began: counters,
            newest: counters,
            shown: Shown::of(sample),
            rest: Rest::of(sample),
            times: Times::default(),
            reading: None,
        }
    }

    fn handle_look(&mut self, sample: &FlowSample) {
        if sample.at <= self.newest.at {
            return;
        }
        self.newest = Counters::of(sample);
        let (shown, rest) = (Shown::of(sample), Rest::of(sample));
        let before = core::mem::replace(&mut self.shown, shown);
        let rested = core::mem::replace(&mut self.rest, rest);
        // An idle connection has no limit.
        if rest.is_none() || rest != rested {
            self.times.share_out(&before, &shown);
        }
    }

    fn poll(&mut self) -> Reading {
        let counters = self.newest;
        let time = counters.at.since(self.began.at);
        if let Some(reading) = self.reading.filter(|_| time < MEASURED_MIN) {
            return reading;
        }
        let began = core::mem::replace(&mut self.began, counters);
        let times = core::mem::take(&mut self.times);
        let sent = counters.acked.saturating_sub(began.acked);
        let received = counters.received.saturating_sub(began.received);
        let is_receiving = received > sent;
        let rate = if time < MEASURED_MIN {
            Rate::from_bits_per_second(0)
        } else {
            Rate::of(sent.max(received), time)
        };
        let (held, share) = if sent + received == 0 && !counters.is_waiting {
            (Held::Idle, 1.0)
        } else {
            largest(times.of, times.unclear, is_receiving)
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

/// The largest part of the time, with its share.
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

    fn key() -> FlowKey {
        FlowKey {
            local: ([10, 0, 0, 1], 50_000).into(),
            remote: ([10, 0, 0, 2], 443).into(),
        }
    }

    /// A sample of a sender that waits for room in the peer's window.
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
        let mut read = |looks: &[FlowSample]| {
            for look in looks {
                meters.handle_look(7, look);
            }
            meters.poll(7).expect("a look")
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
        // No sample since then.
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
        for millis in [0, 500, 1000] {
            meters.handle_look(7, &idle(millis));
        }
        assert_eq!(meters.poll(7).map(|reading| reading.held), Some(Held::Idle));
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut meters = Meters::default();
        meters.handle_look(7, &stopped(5, 0));
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
