//! The last hours, for a page: what limited each service, which findings there were, and what
//! watching cost. In a bounded number of numbers: time is kept in slots, which become longer until
//! they hold some hours; then the oldest give way.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Instant;

use super::finding::{Event, Occurrence};
use super::round::{Found, LIMITS, ServiceRound, Traffic};
use crate::commands::diagnose::service::Counts;

/// Slots that are kept.
pub(super) const SLOTS: u64 = 120;
/// The length of the first ones, at least.
const SLOT_MIN: Duration = Duration::from_secs(15);
/// A slot as long as this is not made longer: all of them hold eight hours.
const SLOT_MAX: Duration = Duration::from_secs(240);
/// Findings that have ended and are still told of.
pub(super) const ENDED_MAX: usize = 40;

/// Samples of a service in a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    /// Connection-seconds by limit, as in a round.
    pub(super) limits_s: [f64; LIMITS],
    pub(super) traffic: Traffic,
    /// Sum and number of the round-trip times.
    rtt_sum_s: f64,
    rtts: u64,
    /// Connections with a finding, in the round that had most.
    pub(super) with_finding: usize,
}

impl Slot {
    fn of(round: &ServiceRound) -> Self {
        Self {
            limits_s: round.limits_s,
            traffic: round.traffic,
            rtt_sum_s: round.rtts_s.iter().sum(),
            rtts: round.rtts_s.len() as u64,
            with_finding: round.counts.with_finding,
        }
    }

    fn add(&mut self, other: &Self) {
        for (time, more) in self.limits_s.iter_mut().zip(other.limits_s) {
            *time += more;
        }
        self.traffic.add(other.traffic);
        self.rtt_sum_s += other.rtt_sum_s;
        self.rtts += other.rtts;
        self.with_finding = self.with_finding.max(other.with_finding);
    }

    /// The mean of the smoothed round-trip times of connections that carried data.
    pub(super) fn rtt_s(&self) -> Option<f64> {
        (self.rtts > 0).then(|| self.rtt_sum_s / self.rtts as f64)
    }
}

/// The rounds of a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    /// Time since the rounds before, for which traffic was counted.
    pub(super) time_s: f64,
    pub(super) number: u64,
    /// CPU time, and the time in which it was used.
    pub(super) cpu_s: f64,
    pub(super) cpu_of_s: f64,
}

impl Rounds {
    pub(super) fn add(&mut self, other: &Self) {
        self.time_s += other.time_s;
        self.number += other.number;
        self.cpu_s += other.cpu_s;
        self.cpu_of_s += other.cpu_of_s;
    }
}

/// How a service went.
#[derive(Debug, Default)]
pub(super) struct Course {
    slots: BTreeMap<u64, Slot>,
    /// Its connections in the last round.
    pub(super) counts: Counts,
}

impl Course {
    /// Bytes carried in the period kept.
    pub(super) fn bytes(&self) -> u64 {
        let carried = self.slots.values().map(|slot| slot.traffic);
        carried
            .map(|traffic| traffic.sent_bytes.saturating_add(traffic.received_bytes))
            .fold(0, u64::saturating_add)
    }

    /// All that is kept, in one.
    pub(super) fn whole(&self) -> Slot {
        let mut whole = Slot::default();
        for slot in self.slots.values() {
            whole.add(slot);
        }
        whole
    }
}

/// A finding, from when it began.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) service: String,
    pub(super) diagnosis: &'static str,
    /// The wall clock, as text.
    pub(super) began: String,
    pub(super) ended: Option<String>,
    /// In the last round that had it.
    pub(super) connections: usize,
    /// Mean share of the time of these connections.
    pub(super) share: f64,
    /// State at its beginning.
    pub(super) occurrence: Box<Occurrence>,
}

impl Finding {
    fn is_open(&self, service: &str, diagnosis: &str) -> bool {
        self.ended.is_none() && self.service == service && self.diagnosis == diagnosis
    }
}

/// A finding of a round, by service and diagnosis.
pub(super) type FoundNow<'f> = (&'f str, &'static str, &'f Found);

/// The last hours.
#[derive(Debug)]
pub(super) struct History {
    began: Instant,
    /// When the last round ended.
    last: Instant,
    slot: Duration,
    /// The oldest slot that is kept.
    first: u64,
    rounds: BTreeMap<u64, Rounds>,
    services: BTreeMap<String, Course>,
    services_max: usize,
    findings: Vec<Finding>,
}

impl History {
    /// From `now` on, with rounds at this distance, of this many services.
    pub(super) fn new(now: Instant, every: Duration, services_max: usize) -> Self {
        Self {
            began: now,
            last: now,
            slot: every.max(SLOT_MIN),
            first: 0,
            rounds: BTreeMap::new(),
            services: BTreeMap::new(),
            services_max,
            findings: Vec::new(),
        }
    }

    /// The services of a round that has ended.
    pub(super) fn handle_round(&mut self, services: &BTreeMap<String, ServiceRound>, now: Instant) {
        self.make_room(now);
        let at = self.slot_at(now);
        let rounds = self.rounds.entry(at).or_default();
        rounds.time_s += now.since(self.last).as_secs_f64();
        rounds.number += 1;
        self.last = now;
        for course in self.services.values_mut() {
            course.counts = Counts::default();
        }
        for (name, service) in services {
            if !self.services.contains_key(name) {
                self.make_place(services);
            }
            let course = self.services.entry(name.clone()).or_default();
            course.counts = service.counts;
            course.slots.entry(at).or_default().add(&Slot::of(service));
        }
    }

    /// The findings of that round, and which of them began or ended with it.
    pub(super) fn handle_findings(&mut self, found: &[FoundNow<'_>], events: &[Event], wall: &str) {
        for event in events {
            match event {
                Event::FindingBegan {
                    service,
                    diagnosis,
                    occurrence,
                    ..
                } => self.findings.push(Finding {
                    service: service.clone(),
                    diagnosis,
                    began: wall.to_owned(),
                    ended: None,
                    connections: 0,
                    share: 0.0,
                    occurrence: occurrence.clone(),
                }),
                Event::FindingEnded {
                    service, diagnosis, ..
                } => {
                    if let Some(open) = self.open_mut(service, diagnosis) {
                        open.ended = Some(wall.to_owned());
                    }
                }
            }
        }
        for (service, diagnosis, found) in found {
            if let Some(open) = self.open_mut(service, diagnosis) {
                open.connections = found.connections;
                open.share = found.shares / found.connections.max(1) as f64;
            }
        }
        let is_over = |finding: &Finding| finding.ended.is_some();
        let ended = self.findings.iter().filter(|one| is_over(one)).count();
        let mut surplus = ended.saturating_sub(ENDED_MAX);
        self.findings.retain(|finding| {
            let is_surplus = surplus > 0 && is_over(finding);
            surplus -= usize::from(is_surplus);
            !is_surplus
        });
    }

    /// The CPU time of the last interval of rounds.
    pub(super) fn handle_cost(&mut self, interval: Duration, cpu: Duration) {
        let at = self.slot_at(self.last);
        let rounds = self.rounds.entry(at).or_default();
        rounds.cpu_s += cpu.as_secs_f64();
        rounds.cpu_of_s += interval.as_secs_f64();
    }

    /// Present findings, the newest first.
    pub(super) fn findings(&self) -> Vec<&Finding> {
        let mut findings: Vec<&Finding> = self.findings.iter().rev().collect();
        findings.sort_by_key(|finding| finding.ended.is_some());
        findings
    }

    /// Services by name.
    pub(super) fn services(&self) -> impl Iterator<Item = (&str, &Course)> {
        let services = self.services.iter();
        services.map(|(name, course)| (name.as_str(), course))
    }

    /// The rounds of each slot that has some, with the time at which it ends, in seconds since the
    /// beginning of the oldest one.
    pub(super) fn rounds(&self) -> impl Iterator<Item = (f64, &Rounds)> {
        let rounds = self.rounds.iter();
        rounds.map(|(at, rounds)| (self.end_s(*at), rounds))
    }

    /// Samples of a service in each of these slots.
    pub(super) fn slots(&self, course: &Course) -> impl Iterator<Item = (f64, &Rounds, Slot)> {
        let rounds = self.rounds.iter();
        rounds.map(|(at, rounds)| {
            let slot = course.slots.get(at).copied();
            (self.end_s(*at), rounds, slot.unwrap_or_default())
        })
    }

    /// The time that is kept, up to the last round.
    pub(super) fn span(&self) -> Duration {
        self.last.since(self.begins())
    }

    /// When the oldest slot begins.
    fn begins(&self) -> Instant {
        let slots = u32::try_from(self.first).unwrap_or(u32::MAX);
        self.began + self.slot.saturating_mul(slots)
    }

    /// The last slot ends with the last round.
    fn end_s(&self, at: u64) -> f64 {
        let slots = (at + 1).saturating_sub(self.first);
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        self.slot
            .saturating_mul(slots)
            .min(self.span())
            .as_secs_f64()
    }

    fn slot_at(&self, now: Instant) -> u64 {
        let slots = now.since(self.began).as_nanos() / self.slot.as_nanos().max(1);
        u64::try_from(slots).unwrap_or(u64::MAX)
    }

    /// Makes slots longer, or forgets the oldest, until there is one for `now`.
    fn make_room(&mut self, now: Instant) {
        while self.slot_at(now) >= self.first + SLOTS {
            if self.slot < SLOT_MAX {
                self.lengthen_slots();
                continue;
            }
            let first = (self.slot_at(now) + 1).saturating_sub(SLOTS);
            self.first = first;
            self.rounds.retain(|at, _| *at >= first);
            self.services.retain(|_, course| {
                course.slots.retain(|at, _| *at >= first);
                !course.slots.is_empty()
            });
        }
    }

    /// Each two become one. None was forgotten so far.
    fn lengthen_slots(&mut self) {
        self.slot *= 2;
        self.rounds = joined(&self.rounds, Rounds::add);
        for course in self.services.values_mut() {
            course.slots = joined(&course.slots, Slot::add);
        }
    }

    /// Forgets the services that were seen least recently, where there is no place for one more.
    fn make_place(&mut self, of_round: &BTreeMap<String, ServiceRound>) {
        while self.services.len() >= self.services_max {
            let gone = self.services.iter();
            let gone = gone.filter(|(name, _)| !of_round.contains_key(*name));
            let oldest = gone.min_by_key(|(_, course)| course.slots.keys().next_back().copied());
            let Some(name) = oldest.map(|(name, _)| name.clone()) else {
                return;
            };
            self.services.remove(&name);
        }
    }

    fn open_mut(&mut self, service: &str, diagnosis: &str) -> Option<&mut Finding> {
        let mut findings = self.findings.iter_mut();
        findings.find(|finding| finding.is_open(service, diagnosis))
    }
}

/// Values of each two neighbours as one.
fn joined<V: Default>(fine: &BTreeMap<u64, V>, add: fn(&mut V, &V)) -> BTreeMap<u64, V> {
    let mut coarse: BTreeMap<u64, V> = BTreeMap::new();
    for (at, value) in fine {
        add(coarse.entry(at / 2).or_default(), value);
    }
    coarse
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn round(names: &[&str]) -> BTreeMap<String, ServiceRound> {
        let service = || {
            let mut service = ServiceRound {
                rtts_s: vec![0.25],
                ..ServiceRound::default()
            };
            service.counts.connections = 1;
            service.limits_s[0] = 5.0;
            service.traffic.sent_bytes = 1000;
            service
        };
        names
            .iter()
            .map(|name| ((*name).to_owned(), service()))
            .collect()
    }

    fn history(services_max: usize) -> History {
        History::new(Instant::ZERO, Duration::from_secs(15), services_max)
    }

    #[test]
    fn nothing_is_lost_as_slots_become_longer() {
        let mut history = history(2);
        // Two hours.
        for number in 1..=480 {
            history.handle_round(&round(&["a:1"]), after(15 * number));
        }
        assert_eq!(history.slot, Duration::from_secs(120));
        let (_, course) = history.services().next().expect("a service");
        assert_eq!(course.bytes(), 480_000);
        assert_eq!(course.whole().limits_s[0], 2400.0);
        assert_eq!(course.whole().rtt_s(), Some(0.25));
        let time_s: f64 = history.rounds().map(|(_, rounds)| rounds.time_s).sum();
        assert_eq!(time_s, 7200.0);
        let ends: Vec<f64> = history.slots(course).map(|(end_s, ..)| end_s).collect();
        assert_eq!(ends.last(), Some(&7200.0));
        assert!(ends.is_sorted(), "{ends:?}");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut history = history(3);
        let names: Vec<String> = (0..50).map(|number| format!("service:{number}")).collect();
        // Two days, in which services come and go.
        for number in 1..=5760 {
            let at = usize::try_from(number / 100).expect("few") % names.len();
            let name = names[at].as_str();
            history.handle_round(&round(&["a:1", name]), after(30 * number));
            history.handle_cost(Duration::from_secs(30), Duration::from_millis(300));
        }
        assert_eq!(history.rounds().count() as u64, SLOTS);
        let kept: Vec<&str> = history.services().map(|(name, _)| name).collect();
        assert_eq!(kept.len(), 3, "{kept:?}");
        for (name, course) in history.services() {
            assert!(course.slots.len() as u64 <= SLOTS, "{name}");
        }
        assert!(kept.contains(&"a:1"), "{kept:?}");
        let span = history.span();
        let hours = span.as_secs_f64() / 3600.0;
        assert!((7.9..=8.0).contains(&hours), "{hours}");
    }

    #[test]
    fn a_pause_of_days_is_no_reason_to_go_on_for_ever() {
        let mut history = history(2);
        history.handle_round(&round(&["a:1"]), after(15));
        history.handle_round(&round(&["b:2"]), after(10 * 86_400));
        let kept: Vec<&str> = history.services().map(|(name, _)| name).collect();
        assert_eq!(kept, ["b:2"]);
        assert_eq!(history.rounds().count(), 1);
    }

    #[test]
    fn findings_that_have_ended_give_way() {
        let mut history = history(2);
        for number in 0..100 {
            let wall = format!("t{number}");
            let began = Event::FindingBegan {
                service: format!("a:{number}"),
                diagnosis: "nagle-delack-stall",
                connections: 1,
                share: 0.5,
                occurrence: Box::new(Occurrence::of_nothing()),
            };
            history.handle_findings(&[], &[began], &wall);
            // The first one stays.
            if number > 0 {
                let ended = Event::FindingEnded {
                    service: format!("a:{number}"),
                    diagnosis: "nagle-delack-stall",
                    began: wall.clone(),
                    lasted_s: 1.0,
                };
                history.handle_findings(&[], &[ended], &wall);
            }
        }
        let findings = history.findings();
        assert_eq!(findings.len(), ENDED_MAX + 1);
        assert_eq!(findings[0].service, "a:0");
        assert_eq!(findings[1].service, "a:99", "the newest");
        assert_eq!(findings[1].ended.as_deref(), Some("t99"));
    }
}
