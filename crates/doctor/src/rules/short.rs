//! Connections that end before anything can be said of one of them: their looks together.

use core::time::Duration;

use base::{FlowSample, TcpState, human};

use super::thresholds::{MIN_SAMPLES, QUESTION_SEGMENTS, THINKING_CONNECTIONS, TICK};
use crate::observation::is_enough;
use crate::timeline::Timeline;
use crate::verdict::Side;

/// Waits of many short connections with one request each, as shares of the looks at them.
pub(crate) struct ShortConnections {
    count: usize,
    looks: u32,
    /// The program here.
    pub(crate) here: f64,
    /// The program at the other end.
    pub(crate) there: f64,
    /// The handshake, or a packet and its answer.
    pub(crate) network: f64,
}

/// Wait of a connection at a look.
enum Wait {
    Program(Side),
    Network,
}

impl ShortConnections {
    /// `None` where one of them tells enough by itself, or all together do not.
    pub(crate) fn of(one: &Timeline, siblings: &[&Timeline]) -> Option<Self> {
        if is_enough(one) {
            return None;
        }
        let all = std::iter::once(one).chain(siblings.iter().copied());
        let (mut count, mut looks) = (0, 0);
        let (mut here, mut there, mut network) = (0, 0, 0);
        for waited in all.filter_map(ShortWaits::of) {
            count += 1;
            looks += waited.looks;
            here += waited.here;
            there += waited.there;
            network += waited.network;
        }
        let enough = count >= THINKING_CONNECTIONS && looks as usize >= MIN_SAMPLES;
        let share = |part: u32| f64::from(part) / f64::from(looks);
        enough.then(|| Self {
            count,
            looks,
            here: share(here),
            there: share(there),
            network: share(network),
        })
    }

    /// Description of the basis.
    pub(crate) fn shown(&self) -> String {
        let connections = human::count(self.count as u64, "short connection");
        format!("{connections} looked at {} times", self.looks)
    }
}

/// Waits of one connection, in looks; computed once, since each of many is asked by all others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShortWaits {
    looks: u32,
    here: u32,
    there: u32,
    network: u32,
}

impl ShortWaits {
    /// `None` where it is none of them.
    fn of(timeline: &Timeline) -> Option<Self> {
        let waits = &timeline.short_waits;
        *waits.get_or_init(|| Self::read(timeline))
    }

    fn read(timeline: &Timeline) -> Option<Self> {
        if is_enough(timeline) || !asks_little(timeline) {
            return None;
        }
        let opening = timeline.opening_looks();
        let mut waits = Self {
            looks: opening,
            network: opening,
            ..Self::default()
        };
        let round_trip = timeline.min_rtt().unwrap_or_default() + TICK;
        for sample in timeline.samples().filter(|sample| is_open(sample)) {
            waits.looks += 1;
            match waits_for(sample, round_trip) {
                Some(Wait::Program(Side::Local)) => waits.here += 1,
                Some(Wait::Program(Side::Remote)) => waits.there += 1,
                Some(Wait::Network) => waits.network += 1,
                None => {}
            }
        }
        Some(waits)
    }
}

/// Whether time passed between this look and the next one: when a socket ends it is sampled once
/// more, which does not measure shares of time. One that was closed by the program still waits for
/// what it sent.
fn is_open(sample: &FlowSample) -> bool {
    match sample.state {
        Some(TcpState::Established) => true,
        Some(TcpState::FinWait1) => sample.unacked_pkts.is_some_and(|pkts| pkts > 0),
        _ => false,
    }
}

/// Whether it carries a question or an answer of few segments, so that it lasts as long as a user
/// or program takes between requests.
fn asks_little(timeline: &Timeline) -> bool {
    let segments = || {
        let out = timeline.latest(|s| s.data_segs_out)?;
        Some(out.max(timeline.latest(|s| s.data_segs_in)?))
    };
    segments().is_some_and(|most| (1..=QUESTION_SEGMENTS).contains(&most))
}

/// A server that has not answered yet has no data sent to reckon from, and a client without an
/// answer none received: packets tell no time of it then.
fn waits_for(sample: &FlowSample, round_trip: Duration) -> Option<Wait> {
    if sample.notsent_bytes.is_some_and(|bytes| bytes > 0) {
        return None;
    }
    let (sent, received) = (sample.since_data_sent, sample.since_data_received);
    let has = |count: Option<u64>| count.is_some_and(|segments| segments > 0);
    match (has(sample.data_segs_in), has(sample.data_segs_out)) {
        (true, false) if received? >= TICK => Some(Wait::Program(Side::Local)),
        (false, true) if sent? >= round_trip => Some(Wait::Program(Side::Remote)),
        (false, true) => Some(Wait::Network),
        // Established, and the question is on its way.
        (false, false) if received? < round_trip => Some(Wait::Network),
        (true, true) if sample.unacked_pkts? > 0 => Some(Wait::Network),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{FlowKey, Instant, Source};

    /// A client's connection over 100 ms that is answered `thinks` later: five looks until then.
    fn connection(port: u16, thinks: u64) -> Timeline {
        let key = FlowKey {
            local: ([10, 0, 0, 1], port).into(),
            remote: ([10, 0, 0, 2], 80).into(),
        };
        let mut timeline = Timeline::new();
        for look in 0..5 {
            let since = Duration::from_millis((100 + thinks) * look / 5);
            timeline.push(FlowSample {
                state: Some(TcpState::Established),
                min_rtt: Some(Duration::from_millis(100)),
                notsent_bytes: Some(0),
                unacked_pkts: Some(0),
                data_segs_out: Some(1),
                data_segs_in: Some(0),
                since_data_sent: Some(since),
                since_data_received: Some(since),
                ..FlowSample::empty(Instant::ZERO + since, key)
            });
        }
        timeline
    }

    fn waits(connections: u16, thinks: u64) -> Option<[f64; 3]> {
        let all: Vec<Timeline> = (0..connections)
            .map(|at| connection(40_000 + at, thinks))
            .collect();
        let (one, siblings) = all.split_first().expect("there is one");
        let siblings: Vec<&Timeline> = siblings.iter().collect();
        let short = ShortConnections::of(one, &siblings)?;
        Some([short.here, short.there, short.network])
    }

    /// What a capture shows of servers that answer after 80 ms, three quarters of the looks.
    #[test]
    fn a_server_that_has_sent_nothing_yet_thinks() {
        let answering = |port: u16| {
            let key = FlowKey {
                local: ([10, 0, 0, 1], 80).into(),
                remote: ([10, 0, 0, 2], port).into(),
            };
            let mut timeline = Timeline::new();
            for look in 0..8 {
                let since = Duration::from_millis(10) * look;
                timeline.push(FlowSample {
                    source: Source::Capture,
                    state: Some(TcpState::Established),
                    min_rtt: Some(Duration::from_millis(15)),
                    data_segs_out: Some(0),
                    data_segs_in: Some(1),
                    since_data_received: Some(since),
                    ..FlowSample::empty(Instant::ZERO + since, key)
                });
            }
            timeline
        };
        let all: Vec<Timeline> = (0..6).map(|at| answering(40_000 + at)).collect();
        let siblings: Vec<&Timeline> = all[1..].iter().collect();
        let short = ShortConnections::of(&all[0], &siblings).expect("enough");
        assert!((short.here - 0.875).abs() < 0.01, "{}", short.here);
    }

    #[test]
    fn looks_at_many_connections_are_counted_together() {
        assert_eq!(waits(6, 0), Some([0.0, 0.0, 1.0]));
        assert_eq!(waits(6, 400), Some([0.0, 0.6, 0.4]));
        assert_eq!(waits(3, 400), None, "too few");
    }
}
