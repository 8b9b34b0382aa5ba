//! Totals over rounds: by service, in a bounded number of services, and their metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Instant, Limit};
use doctor::DIAGNOSES;

use super::finding::{Event, Findings};
use super::history::{FoundNow, History};
use super::metrics::{Exposition, QUANTILES, Summary};
use super::round::{AcceptQueue, LIMITS, Round, ServiceRound, Traffic};
use crate::commands::diagnose::service::Counts;

/// The service that all others are counted as.
const OTHER: &str = "other";
/// The name under which findings of the host stand. No service is called so: theirs have a colon.
const HOST: &str = "host";
/// A name that was not seen for this long gives its slot to another one.
const SLOT_KEPT: Duration = Duration::from_secs(600);
/// The time of which nothing can be said, as a limit.
const UNCLEAR: &str = "unclear";

/// A bounded number of services, and what is kept for each.
#[derive(Debug)]
struct Slots {
    max: usize,
    slots: BTreeMap<String, (Totals, Instant)>,
}

impl Slots {
    const fn new(max: usize) -> Self {
        Self {
            max,
            slots: BTreeMap::new(),
        }
    }

    /// Whether a name has a slot; takes a free one where there is one.
    fn has(&mut self, name: &str, now: Instant) -> bool {
        if let Some((_, seen)) = self.slots.get_mut(name) {
            *seen = now;
            return true;
        }
        let is_free = self.slots.len() < self.max;
        if is_free {
            self.slots.insert(name.to_owned(), (Totals::default(), now));
        }
        is_free
    }

    /// Frees the slots of names that are not among those of this round and were not seen for long.
    /// Rounds may be farther apart than slots are kept.
    fn expire<V>(&mut self, of_round: &BTreeMap<String, V>, now: Instant) {
        self.slots
            .retain(|name, (_, seen)| of_round.contains_key(name) || now.since(*seen) < SLOT_KEPT);
    }

    fn value_mut(&mut self, name: &str) -> Option<&mut Totals> {
        self.slots.get_mut(name).map(|(value, _)| value)
    }
}

/// Totals of a service.
#[derive(Debug, Default)]
struct Totals {
    counts: Counts,
    limits_s: [f64; LIMITS],
    traffic: Traffic,
    rtt: Summary,
    /// Connections by finding in the last round; those that were once seen stay, with 0.
    findings: BTreeMap<&'static str, usize>,
}

impl Totals {
    fn forget_last_round(&mut self) {
        self.counts = Counts::default();
        self.rtt.quantiles = None;
        for connections in self.findings.values_mut() {
            *connections = 0;
        }
    }

    fn take_in(&mut self, round: &mut ServiceRound) {
        self.counts = round.counts;
        for (total, more) in self.limits_s.iter_mut().zip(round.limits_s) {
            *total += more;
        }
        self.traffic.add(round.traffic);
        round.rtts_s.sort_unstable_by(f64::total_cmp);
        self.rtt.sum += round.rtts_s.iter().sum::<f64>();
        self.rtt.count += round.rtts_s.len() as u64;
        self.rtt.quantiles = quantiles(&round.rtts_s);
        for (id, found) in &round.findings {
            self.findings.insert(id, found.connections);
        }
    }
}

/// For each share, the smallest of the sorted values that is not below it.
fn quantiles(sorted: &[f64]) -> Option<[f64; QUANTILES.len()]> {
    let last = sorted.len().checked_sub(1)?;
    let of = |(_, share): (&str, f64)| {
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted[rank.saturating_sub(1).min(last)]
    };
    Some(QUANTILES.map(of))
}

/// Everything that is kept from round to round.
#[derive(Debug)]
pub(super) struct State {
    services: Slots,
    other: Totals,
    /// The fullest listeners of the last round.
    listeners: BTreeMap<String, AcceptQueue>,
    listeners_max: usize,
    findings: Findings,
    /// Findings that began, by diagnosis.
    begun: BTreeMap<&'static str, u64>,
    host: BTreeMap<&'static str, usize>,
    overflows: u64,
    drops: u64,
    rounds: u64,
    last: Option<Last>,
    /// For the page, where there is one.
    history: Option<History>,
}

/// Results of the last round only.
#[derive(Debug)]
struct Last {
    ended_unix_s: f64,
    connections_left_out: usize,
    unseen_processes: usize,
    netns_watched: usize,
    netns_left_out: usize,
}

impl State {
    /// With room for this many services and as many listeners.
    pub(super) fn new(services_max: usize) -> Self {
        let findings = DIAGNOSES.iter().filter(|row| row.is_finding());
        Self {
            services: Slots::new(services_max),
            other: Totals::default(),
            listeners: BTreeMap::new(),
            listeners_max: services_max,
            findings: Findings::default(),
            begun: findings.map(|row| (row.id, 0)).collect(),
            host: BTreeMap::new(),
            overflows: 0,
            drops: 0,
            rounds: 0,
            last: None,
            history: None,
        }
    }

    /// The same with what a page tells, kept from `now` on; rounds are at this distance.
    pub(super) fn with_history(mut self, now: Instant, every: Duration) -> Self {
        // And what has no slot, as one.
        self.history = Some(History::new(now, every, self.services.max + 1));
        self
    }

    /// History for a page.
    pub(super) const fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    /// Takes in what the last interval of rounds cost.
    pub(super) fn handle_cost(&mut self, interval: Duration, cpu: Duration) {
        if let Some(history) = &mut self.history {
            history.handle_cost(interval, cpu);
        }
    }

    /// Takes in a round that has ended; what people are to be told. `wall` is the time of `now` as
    /// text, `unix_s` in seconds since 1970.
    pub(super) fn handle_round(
        &mut self,
        round: Round,
        now: Instant,
        (wall, unix_s): (&str, f64),
    ) -> Vec<Event> {
        self.rounds += 1;
        self.overflows += round.overflows;
        self.drops += round.drops;
        self.last = Some(Last {
            ended_unix_s: unix_s,
            connections_left_out: round.connections_left_out,
            unseen_processes: round.unseen_processes,
            netns_watched: round.netns_watched,
            netns_left_out: round.netns_left_out,
        });
        self.take_listeners(round.listeners);
        let mut services = self.named(round.services, now);
        for (totals, _) in self.services.slots.values_mut() {
            totals.forget_last_round();
        }
        self.other.forget_last_round();
        for connections in self.host.values_mut() {
            *connections = 0;
        }
        if let Some(history) = &mut self.history {
            history.handle_round(&services, now);
        }
        for (name, service) in &mut services {
            let totals = match self.services.value_mut(name) {
                Some(totals) => totals,
                None => &mut self.other,
            };
            totals.take_in(service);
        }
        for (id, found) in &round.host {
            self.host.insert(id, found.connections);
        }
        let of_host = round.host.iter().map(|(id, found)| (HOST, *id, found));
        let of_services = services.iter().flat_map(|(name, service)| {
            let findings = service.findings.iter();
            findings.map(|(id, found)| (name.as_str(), *id, found))
        });
        let found: Vec<FoundNow<'_>> = of_host.chain(of_services).collect();
        let events = self.findings.handle_round(found.iter().copied(), now, wall);
        if let Some(history) = &mut self.history {
            history.handle_findings(&found, &events, wall);
        }
        for event in &events {
            if let Event::FindingBegan { diagnosis, .. } = event {
                *self.begun.entry(diagnosis).or_default() += 1;
            }
        }
        events
    }

    /// The services under the names of their slots; those that have none, as one. Where there are
    /// more than slots, first come those with findings, then those that carry data.
    fn named(
        &mut self,
        services: BTreeMap<String, ServiceRound>,
        now: Instant,
    ) -> BTreeMap<String, ServiceRound> {
        self.services.expire(&services, now);
        let mut ranked: Vec<(String, ServiceRound)> = services.into_iter().collect();
        let rank = |service: &ServiceRound| {
            let Counts {
                connections,
                with_finding,
                idle,
                ..
            } = service.counts;
            (with_finding, connections.saturating_sub(idle), connections)
        };
        ranked.sort_by_key(|(_, service)| std::cmp::Reverse(rank(service)));
        let mut named: BTreeMap<String, ServiceRound> = BTreeMap::new();
        for (name, service) in ranked {
            let name = if self.services.has(&name, now) {
                name
            } else {
                OTHER.to_owned()
            };
            match named.get_mut(&name) {
                Some(known) => known.merge(service),
                None => {
                    named.insert(name, service);
                }
            }
        }
        named
    }

    /// Keeps the fullest listeners: what has no totals needs no slot of its own.
    fn take_listeners(&mut self, listeners: BTreeMap<String, AcceptQueue>) {
        let mut ranked: Vec<_> = listeners.into_iter().collect();
        ranked.sort_by(|(_, a), (_, b)| b.by_fullness(a));
        ranked.truncate(self.listeners_max);
        self.listeners = ranked.into_iter().collect();
    }

    /// All metrics that rounds change.
    pub(super) fn expose(&self, exposition: &mut Exposition) {
        let named = self.services.slots.iter();
        let named = named.map(|(name, (totals, _))| (name.as_str(), totals));
        let services: Vec<(&str, &Totals)> = named.chain([(OTHER, &self.other)]).collect();
        self.expose_services(&services, exposition);
        let listeners = || self.listeners.iter();
        exposition.values(
            "tcptailor_accept_queue_connections",
            listeners().map(|(name, queue)| ([name.as_str()], f64::from(queue.waiting))),
        );
        exposition.values(
            "tcptailor_accept_queue_limit_connections",
            listeners().map(|(name, queue)| ([name.as_str()], f64::from(queue.limit))),
        );
        exposition.value(
            "tcptailor_accept_queue_overflows_total",
            self.overflows as f64,
        );
        exposition.value("tcptailor_accept_queue_drops_total", self.drops as f64);
        exposition.value("tcptailor_rounds_total", self.rounds as f64);
        let Some(last) = &self.last else {
            return;
        };
        exposition.value("tcptailor_last_round_timestamp_seconds", last.ended_unix_s);
        let left_out = last.connections_left_out as f64;
        exposition.value("tcptailor_left_out_connections", left_out);
        exposition.value("tcptailor_unseen_processes", last.unseen_processes as f64);
        let netns = [
            (["watched"], last.netns_watched as f64),
            (["left-out"], last.netns_left_out as f64),
        ];
        exposition.values("tcptailor_network_namespaces", netns);
    }

    fn expose_services(&self, services: &[(&str, &Totals)], exposition: &mut Exposition) {
        let limits = || Limit::ALL.iter().map(|limit| limit.name()).chain([UNCLEAR]);
        let each = || services.iter().copied();
        exposition.values(
            "tcptailor_limit_seconds_total",
            each().flat_map(|(name, totals)| {
                let times = limits().zip(totals.limits_s);
                times.map(move |(limit, time_s)| ([name, limit], time_s))
            }),
        );
        exposition.values(
            "tcptailor_connections",
            each().flat_map(|(name, totals)| {
                let counts = totals.counts;
                let states = [
                    ("finding", counts.with_finding),
                    ("healthy", counts.healthy),
                    ("unclear", counts.unclear),
                    ("idle", counts.idle),
                ];
                states.map(|(state, connections)| ([name, state], connections as f64))
            }),
        );
        let of_host = self
            .host
            .iter()
            .map(|(id, number)| ([HOST, *id], *number as f64));
        let of_services = each().flat_map(|(name, totals)| {
            let findings = totals.findings.iter();
            findings.map(move |(id, number)| ([name, *id], *number as f64))
        });
        exposition.values("tcptailor_finding_connections", of_host.chain(of_services));
        exposition.values(
            "tcptailor_findings_total",
            self.begun
                .iter()
                .map(|(id, number)| ([*id], *number as f64)),
        );
        type Read = fn(&Traffic) -> u64;
        let counters: [(&str, Read); 4] = [
            ("tcptailor_sent_bytes_total", |traffic| traffic.sent_bytes),
            ("tcptailor_received_bytes_total", |traffic| {
                traffic.received_bytes
            }),
            ("tcptailor_sent_segments_total", |traffic| traffic.segments),
            ("tcptailor_retransmitted_segments_total", |traffic| {
                traffic.retransmitted
            }),
        ];
        for (metric, read) in counters {
            let values = each().map(|(name, totals)| ([name], read(&totals.traffic) as f64));
            exposition.values(metric, values);
        }
        let rtts = each().map(|(name, totals)| (name, totals.rtt));
        exposition.summaries("tcptailor_rtt_seconds", rtts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: (&str, f64) = ("2026-01-01T00:00:00Z", 1.0);

    fn service(connections: usize, sent_bytes: u64) -> ServiceRound {
        let mut service = ServiceRound {
            rtts_s: vec![0.25, 0.5],
            ..ServiceRound::default()
        };
        service.counts.connections = connections;
        service.counts.healthy = connections;
        service.limits_s[0] = 2.0;
        service.traffic.sent_bytes = sent_bytes;
        service
    }

    fn round(services: &[(&str, usize, u64)]) -> Round {
        let of = |&(name, connections, bytes): &(&str, usize, u64)| {
            (name.to_owned(), service(connections, bytes))
        };
        Round {
            services: services.iter().map(of).collect(),
            ..Round::default()
        }
    }

    fn text(state: &State) -> String {
        let mut exposition = Exposition::default();
        state.expose(&mut exposition);
        exposition.into_text()
    }

    #[track_caller]
    fn assert_has(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(
                text.lines().any(|found| found == *line),
                "{line} is not in\n{text}"
            );
        }
    }

    #[test]
    fn a_page_is_told_of_what_has_a_slot_and_of_the_rest_as_one() {
        assert!(State::new(2).history().is_none(), "it costs memory");
        let now = Instant::ZERO;
        let mut state = State::new(2).with_history(now, Duration::from_secs(15));
        let services = round(&[
            ("a:1", 3, 100),
            ("b:2", 2, 10),
            ("c:3", 1, 5),
            ("d:4", 1, 5),
        ]);
        state.handle_round(services, now + Duration::from_secs(15), AT);
        state.handle_cost(Duration::from_secs(15), Duration::from_millis(150));
        let history = state.history().expect("it is asked for");
        let services = history.services();
        let carried: Vec<(&str, u64)> = services
            .map(|(name, course)| (name, course.bytes()))
            .collect();
        assert_eq!(carried, [("a:1", 100), ("b:2", 10), ("other", 10)]);
    }

    #[test]
    fn totals_grow_and_gauges_are_of_the_last_round() {
        let mut state = State::new(2);
        let now = Instant::ZERO;
        state.handle_round(round(&[("a:1", 3, 100), ("b:2", 1, 10)]), now, AT);
        state.handle_round(round(&[("a:1", 5, 100)]), now, AT);
        assert_has(
            &text(&state),
            &[
                "tcptailor_sent_bytes_total{service=\"a:1\"} 200",
                "tcptailor_sent_bytes_total{service=\"b:2\"} 10",
                "tcptailor_limit_seconds_total{service=\"a:1\",limit=\"application\"} 4",
                "tcptailor_limit_seconds_total{service=\"b:2\",limit=\"unclear\"} 0",
                "tcptailor_connections{service=\"a:1\",state=\"healthy\"} 5",
                "tcptailor_connections{service=\"b:2\",state=\"healthy\"} 0",
                "tcptailor_rtt_seconds{service=\"a:1\",quantile=\"0.5\"} 0.25",
                "tcptailor_rtt_seconds_sum{service=\"a:1\"} 1.5",
                "tcptailor_rtt_seconds_count{service=\"a:1\"} 4",
                "tcptailor_rounds_total 2",
                "tcptailor_findings_total{diagnosis=\"nagle-delack-stall\"} 0",
            ],
        );
        assert!(!text(&state).contains("service=\"b:2\",quantile"));
    }

    #[test]
    fn services_have_a_bound_whatever_they_are_called() {
        let mut state = State::new(3);
        let mut lines = 0;
        for index in 0..500_u64 {
            let now = Instant::ZERO + Duration::from_secs(index);
            let own = format!("worker-{index}:1");
            state.handle_round(
                round(&[("a:1", 9, 1), (&own, 1, 1), ("b:2", 2, 1)]),
                now,
                AT,
            );
            let text = text(&state);
            let mut names: Vec<&str> = text
                .lines()
                .filter_map(|line| line.strip_prefix("tcptailor_sent_bytes_total{service="))
                .collect();
            names.sort_unstable();
            assert!(names.len() <= 4, "{names:?}");
            lines = lines.max(text.lines().count());
        }
        let text = text(&state);
        assert_has(&text, &["tcptailor_sent_bytes_total{service=\"a:1\"} 500"]);
        // What had no slot was counted all the same.
        let sent = text
            .lines()
            .find_map(|line| line.strip_prefix("tcptailor_sent_bytes_total{service=\"other\"} "));
        assert!(sent.is_some_and(|sent| sent.parse::<f64>().is_ok_and(|sent| sent > 400.0)));
        assert!(lines < 300, "{lines}");
    }

    #[test]
    fn a_slot_is_given_away_when_its_service_is_gone() {
        let mut state = State::new(1);
        let seconds = |s| Instant::ZERO + Duration::from_secs(s);
        state.handle_round(round(&[("a:1", 1, 1)]), seconds(0), AT);
        state.handle_round(round(&[("b:2", 1, 1)]), seconds(1), AT);
        assert!(!text(&state).contains("b:2"));
        state.handle_round(round(&[("b:2", 1, 1)]), seconds(601), AT);
        assert!(text(&state).contains("b:2"));
        assert!(!text(&state).contains("a:1"));
    }

    #[test]
    fn totals_go_on_where_rounds_are_far_apart() {
        let mut state = State::new(1);
        for index in 0..3 {
            let now = Instant::ZERO + Duration::from_secs(900 * index);
            state.handle_round(round(&[("a:1", 1, 100)]), now, AT);
        }
        assert_has(
            &text(&state),
            &["tcptailor_sent_bytes_total{service=\"a:1\"} 300"],
        );
    }

    #[test]
    fn the_fullest_listeners_of_the_last_round_are_told() {
        let mut state = State::new(2);
        let mut handle = |listeners: &[(&str, u32, u32)]| {
            let of = |&(name, waiting, limit): &(&str, u32, u32)| {
                (name.to_owned(), AcceptQueue { waiting, limit })
            };
            let round = Round {
                listeners: listeners.iter().map(of).collect(),
                ..Round::default()
            };
            state.handle_round(round, Instant::ZERO, AT);
            let text = text(&state);
            let lines = text.lines();
            let of_queue = lines.filter_map(|line| {
                line.strip_prefix("tcptailor_accept_queue_connections{listener=")
            });
            of_queue.map(str::to_owned).collect::<Vec<_>>()
        };
        let quiet = handle(&[("a:1", 0, 128), ("b:2", 0, 128), ("c:3", 0, 128)]);
        assert_eq!(quiet, ["\"a:1\"} 0", "\"b:2\"} 0"]);
        // The one with the longest queue is not the fullest.
        let busy = handle(&[("a:1", 10, 4096), ("b:2", 3, 128), ("c:3", 7, 8)]);
        assert_eq!(busy, ["\"b:2\"} 3", "\"c:3\"} 7"]);
        assert!(handle(&[]).is_empty());
    }

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantiles(&values), Some([50.0, 90.0, 99.0]));
        assert_eq!(quantiles(&[7.0]), Some([7.0; 3]));
        assert_eq!(quantiles(&[]), None);
    }
}
