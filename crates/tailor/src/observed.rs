//! Connections recorded at one end or at both, with the doctor's answers.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::{FlowKey, Instant, Netns};
use doctor::{Case, Cases, Place, Recording, Report, Timeline, Track, Verdict};

use crate::relay::Relays;
use crate::row::{Rank, is_for_control};
use crate::targets::{End, Ends};

/// The cases of one namespace, and of another one that was recorded at the same time.
#[derive(Debug)]
pub struct Observed<'r> {
    netns: &'r Netns,
    began: Instant,
    recording: &'r Recording,
    cases: Cases<'r>,
    elsewhere: Option<&'r Netns>,
    /// Turnover of each service by owning process, `None` where the process is unknown.
    turnovers: OnceLock<BTreeMap<Place, BTreeMap<Option<u32>, Turnover>>>,
    relays: OnceLock<Relays>,
}

/// A service that opens less than one connection in this time turns over slowly.
const SLOW_TURN: Duration = Duration::from_secs(1);

/// Rank of an answer without a finding, less its share; and of one on a connection for control,
/// which is still before those that another connection holds up.
const WITHOUT_FINDING: f64 = 1.0;
const FOR_CONTROL: f64 = 0.8;

/// How many connections were opened while it was recorded, were there from the beginning to the
/// end, and ended.
#[derive(Clone, Copy, Debug, Default)]
struct Turnover {
    opened: usize,
    stayed: usize,
    went: usize,
}

impl Turnover {
    fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.stayed += other.stayed;
        self.went += other.went;
    }
}

/// One connection, or several short ones of one service, with the doctor's answer.
#[derive(Debug)]
pub struct Answered<'o, 'r> {
    /// The case.
    pub case: Case<'o, 'r>,
    /// The doctor's report.
    pub report: Report,
    /// Places of its settings.
    pub ends: Ends,
    /// The program keeps several connections of this service open for long, and opened one of them
    /// while it was watched.
    pub is_pool: bool,
    /// The mean time from one of its service's connections that came or went to the next, where
    /// some did.
    pub turn: Option<Duration>,
    /// Has ended and another one was opened, or was opened and another one has ended.
    pub is_replaced: bool,
    /// Follows a connection that was changed alone, and has ended: so will this one.
    pub is_followed: bool,
    /// Its program reads slowly because it cannot pass on as fast what it reads: another of its
    /// connections is what limits it.
    pub is_held_up: bool,
}

impl<'r> Observed<'r> {
    /// Observations from `recording`, which was made in `netns`.
    #[must_use]
    pub fn new(recording: &'r Recording, netns: &'r Netns) -> Self {
        Self {
            netns,
            began: recording.began,
            recording,
            cases: Cases::of(recording),
            elsewhere: None,
            turnovers: OnceLock::new(),
            relays: OnceLock::new(),
        }
    }

    /// The same connections, whose other ends are in `elsewhere`.
    #[must_use]
    pub fn with_other_ends(mut self, elsewhere: &'r Self) -> Self {
        self.elsewhere = Some(elsewhere.netns);
        self.cases = self.cases.with_other_ends(&elsewhere.cases);
        self
    }

    /// The cases.
    #[must_use]
    pub const fn cases(&self) -> &Cases<'r> {
        &self.cases
    }

    /// The namespace.
    #[must_use]
    pub const fn netns(&self) -> &'r Netns {
        self.netns
    }

    /// When the recording began.
    #[must_use]
    pub const fn began(&self) -> Instant {
        self.began
    }

    /// Asks the doctor about every connection that is `wanted`; the most important first.
    pub fn answers(&self, wanted: impl Fn(&Track) -> bool) -> Vec<Answered<'_, 'r>> {
        self.ranked(&wanted)
    }

    /// Compiled once, not for each caller.
    fn ranked(&self, wanted: &dyn Fn(&Track) -> bool) -> Vec<Answered<'_, 'r>> {
        let mut answers = Vec::new();
        self.each_answer(wanted, |answered| answers.push(answered));
        let most = answers.iter().map(Answered::carried).max().unwrap_or(0);
        answers.sort_by_cached_key(|answered| {
            Reverse(Rank(placed(answered.rank(), answered.carried(), most)))
        });
        answers
    }

    /// Maps `make` over the answers, in order. It is called while the timelines of the connection
    /// are present; no more than one answer is kept.
    pub fn answers_as<'o, T>(
        &'o self,
        wanted: impl Fn(&Track) -> bool,
        mut make: impl FnMut(&Answered<'o, 'r>) -> T,
    ) -> Vec<T> {
        let mut made = Vec::new();
        self.each_answer(wanted, |answered| {
            made.push((answered.rank(), answered.carried(), make(&answered)));
        });
        let most = made.iter().map(|made| made.1).max().unwrap_or(0);
        made.sort_by_cached_key(|(rank, carried, _)| Reverse(Rank(placed(*rank, *carried, most))));
        made.into_iter().map(|(_, _, made)| made).collect()
    }

    /// The answers one after the other, in no particular order: very many at once would take more
    /// memory than the recording.
    pub fn each_answer<'o>(
        &'o self,
        wanted: impl Fn(&Track) -> bool,
        mut take: impl FnMut(Answered<'o, 'r>),
    ) {
        for case in self.cases.select(wanted) {
            take(self.answer(case));
        }
    }

    /// Asks the doctor about one of the [`Observed::cases`].
    pub fn answer<'o>(&'o self, case: Case<'o, 'r>) -> Answered<'o, 'r> {
        let report = case.diagnose();
        let reads_slowly = report
            .main()
            .is_some_and(|main| main.diagnosis.id == "slow-reader");
        let relays = || self.relays.get_or_init(|| Relays::of(self.recording));
        let other = case.other_end();
        let ends = Ends {
            local: self.end(&self.cases, case.track()),
            remote: other.map(|(cases, track)| self.end(cases, track)),
            beside: report
                .verdicts
                .iter()
                .flat_map(|verdict| self.ends_beside(verdict))
                .collect(),
        };
        Answered {
            is_pool: self.is_pool(case.track()),
            turn: self.turn(case.track()),
            is_replaced: self.is_replaced(case.track()),
            is_followed: false,
            is_held_up: reads_slowly && relays().hold_up(case.track()),
            case,
            report,
            ends,
        }
    }

    /// Whether the service of a connection is a pool: one was opened, and more stay than go.
    fn is_pool(&self, track: &Track) -> bool {
        let sum = self.turnover(track);
        sum.opened > 0 && sum.stayed > 0 && sum.went <= sum.stayed
    }

    /// See [`Answered::turn`].
    fn turn(&self, track: &Track) -> Option<Duration> {
        let sum = self.turnover(track);
        let turns = u32::try_from(sum.opened.max(sum.went)).ok()?;
        self.recording.ended.since(self.began).checked_div(turns)
    }

    /// Whether it came or went while it was recorded, and its process has another connection of the
    /// service before or after it.
    fn is_replaced(&self, track: &Track) -> bool {
        let sum = self.turnover(track);
        match track.ended {
            true => sum.opened > 0,
            false => sum.went > 0 && !track.was_open_at(self.recording.first_look()),
        }
    }

    /// Turnover of a connection's service in the owning process.
    fn turnover(&self, track: &Track) -> Turnover {
        let turnovers = self.turnovers.get_or_init(|| self.turnovers());
        let mut sum = Turnover::default();
        let Some(of_service) = turnovers.get(&self.cases.place(track.key)) else {
            return sum;
        };
        // A connection that ended early does not show its process.
        match track.pid() {
            None => of_service.values().for_each(|some| sum.add(some)),
            own => [own, None]
                .into_iter()
                .filter_map(|pid| of_service.get(&pid))
                .for_each(|some| sum.add(some)),
        }
        sum
    }

    /// Counted once for all connections, of which there may be thousands.
    fn turnovers(&self) -> BTreeMap<Place, BTreeMap<Option<u32>, Turnover>> {
        let first_look = self.recording.first_look();
        let mut turnovers: BTreeMap<Place, BTreeMap<Option<u32>, Turnover>> = BTreeMap::new();
        for track in &self.recording.flows {
            let of_service = turnovers.entry(self.cases.place(track.key)).or_default();
            let turnover = of_service.entry(track.pid()).or_default();
            *match (track.ended, track.was_open_at(first_look)) {
                (true, _) => &mut turnover.went,
                (false, true) => &mut turnover.stayed,
                (false, false) => &mut turnover.opened,
            } += 1;
        }
        turnovers
    }

    /// The ends of other connections that a verdict wants to change.
    fn ends_beside(&self, verdict: &Verdict) -> Vec<End> {
        let keys = verdict
            .proposals
            .iter()
            .filter_map(|proposal| proposal.beside);
        let end = |key: FlowKey| {
            let (cases, track) = self.cases.find(key)?;
            Some(self.end(cases, track))
        };
        keys.filter_map(end).collect()
    }

    /// One end, in the cases of this namespace or of the other one.
    fn end(&self, cases: &Cases<'r>, track: &Track) -> End {
        let is_here = std::ptr::eq(cases, &raw const self.cases);
        let netns = match self.elsewhere {
            Some(elsewhere) if !is_here => elsewhere,
            _ => self.netns,
        };
        // One that has closed shows nothing of it any more.
        let mut looks = [track.samples.last(), track.samples.first()]
            .into_iter()
            .flatten();
        End {
            netns: netns.clone(),
            key: track.key,
            cookie: Some(track.cookie),
            pid: track.pid(),
            link: cases.interface(track),
            is_subflow: looks.any(|look| look.upper.as_deref() == Some("mptcp")),
        }
    }
}

/// Where an answer of this rank comes beside a connection that carries `most` bytes: one without a
/// finding on a connection for control behind those on transfers.
fn placed(rank: f64, carried: u64, most: u64) -> f64 {
    match (WITHOUT_FINDING..=WITHOUT_FINDING + 1.0).contains(&rank) {
        true if is_for_control(carried, most) => FOR_CONTROL,
        _ => rank,
    }
}

impl Answered<'_, '_> {
    /// The main verdict, where there is one.
    #[must_use]
    pub fn main(&self) -> Option<&Verdict> {
        self.report.main()
    }

    /// The main verdict, where it is a finding that is sure enough to act on.
    #[must_use]
    pub fn actionable(&self) -> Option<&Verdict> {
        self.main().filter(|verdict| verdict.is_actionable())
    }

    /// Whether its main verdict is a finding of which too little was seen to act on it.
    pub(crate) fn is_unsure(&self) -> bool {
        self.main().is_some_and(Verdict::is_unsure)
    }

    /// Whether only the host at the other end tells more of its main finding, and can be changed.
    pub(crate) fn is_for_the_other_end(&self) -> bool {
        self.main().is_some_and(Verdict::is_for_the_other_end)
    }

    /// Whether its connections come and go: several were seen, or are known to have been.
    pub(crate) fn comes_and_goes(&self) -> bool {
        self.case.connections() > 1 || self.is_replaced || self.is_followed
    }

    /// Whether these come and go so slowly that one of them is open for longer than a short look.
    pub(crate) fn turns_slowly(&self) -> bool {
        self.turn > Some(SLOW_TURN)
    }

    /// Its samples as one timeline.
    #[must_use]
    pub fn timeline(&self) -> Arc<Timeline> {
        self.case.timeline()
    }

    /// Findings first, then connections that do something; within them by share. A connection held
    /// up by another one comes after that one.
    fn rank(&self) -> f64 {
        match self.main() {
            Some(_) if self.is_held_up => 0.5,
            Some(verdict) if verdict.diagnosis.is_finding() => 3.0 + verdict.share,
            Some(verdict) => WITHOUT_FINDING + verdict.share,
            None => 0.0,
        }
    }

    /// Payload that its connections carried while they were watched, both ways.
    pub(crate) fn carried(&self) -> u64 {
        let (sent, received) = self.case.payload_bytes();
        sent.saturating_add(received)
    }
}

#[cfg(test)]
mod tests {
    use base::FlowSample;
    use doctor::{ProcessInfo, SocketOwner};

    use super::*;

    /// A connection to a database, seen from this many seconds after the beginning on.
    fn track(cookie: u16, pid: Option<u32>, first_s: u64, ended: bool) -> Track {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 50_000 + cookie).into(),
            remote: ([10, 0, 0, 2], 5432).into(),
        };
        let owner = |pid| SocketOwner {
            fd: 3,
            process: Arc::new(ProcessInfo {
                pid,
                command: "client".into(),
                cmdline: String::new(),
                cgroup: None,
            }),
        };
        let look = |second: u64| {
            let at = Instant::ZERO + Duration::from_secs(second);
            FlowSample::empty(at, key)
        };
        Track {
            key,
            cookie: cookie.into(),
            owners: pid.map(owner).into_iter().collect(),
            samples: [look(first_s), look(first_s + 1)].into_iter().collect(),
            ended,
            interface: None,
            options_error: None,
        }
    }

    #[test]
    fn a_connection_is_replaced_where_another_one_takes_its_place() {
        let check = |tracks: &[(u64, bool)], expected: bool| {
            let flows = tracks.iter().zip(1..);
            let flows =
                flows.map(|((first_s, ended), cookie)| track(cookie, Some(7), *first_s, *ended));
            let recording = Recording {
                flows: flows.collect(),
                ..Recording::default()
            };
            let observed = Observed::new(&recording, &Netns::Own);
            let found = observed.is_replaced(&recording.flows[0]);
            assert_eq!(found, expected, "{tracks:?}");
        };
        check(&[(0, true), (3, false)], true);
        check(&[(3, false), (0, true)], true);
        // The first or the last one, and what stays beside others that come and go.
        check(&[(3, false), (4, false)], false);
        check(&[(0, true), (0, true)], false);
        check(&[(0, false), (1, true), (3, false)], false);
    }

    /// A connection of process 7 with 25 samples, each 200 ms, that `set` fills with its counters.
    fn flowing(cookie: u16, set: impl Fn(&mut FlowSample, u32)) -> Track {
        let mut track = track(cookie, Some(7), 0, false);
        let key = track.key;
        let look = |tick: u32| {
            let mut sample =
                FlowSample::empty(Instant::ZERO + Duration::from_millis(200) * tick, key);
            sample.snd_mss_bytes = Some(1448);
            sample.min_rtt = Some(Duration::from_millis(20));
            sample.srtt = Some(Duration::from_millis(21));
            set(&mut sample, tick);
            sample
        };
        track.samples = (0..25).map(look).collect();
        track
    }

    #[test]
    fn a_subflow_is_known_after_it_has_closed() {
        let check = |upper: [Option<&str>; 2], expected: bool| {
            let flow = flowing(1, |sample, tick| {
                sample.upper = upper[usize::from(tick == 24)].map(Into::into);
            });
            let recording = Recording {
                flows: vec![flow],
                ..Recording::default()
            };
            let observed = Observed::new(&recording, &Netns::Own);
            let answers = observed.answers(|_| true);
            assert_eq!(answers[0].ends.local.is_subflow, expected, "{upper:?}");
        };
        check([Some("mptcp"), None], true);
        check([Some("mptcp"); 2], true);
        check([Some("tls"); 2], false);
        check([None; 2], false);
    }

    #[test]
    fn what_a_relay_reads_comes_behind_what_it_sends() {
        // 1 MB/s are read, and ten times as much waits.
        let read = flowing(1, |s, tick| {
            s.bytes_received = Some(u64::from(tick) * 200_000);
            s.data_segs_in = Some(u64::from(tick) * 140);
            s.data_segs_out = Some(1);
            s.bytes_acked = Some(100);
            s.unread_bytes = Some(800_000);
            s.rcvbuf_bytes = Some(1_000_000);
        });
        let sent = |share: f64, waits: u32| {
            flowing(2, move |s, tick| {
                s.bytes_acked = Some((f64::from(tick) * 200_000.0 * share) as u64);
                s.bytes_sent = s.bytes_acked.map(|bytes| bytes + 40_000);
                s.data_segs_out = Some(u64::from(tick) * 140);
                s.data_segs_in = Some(0);
                s.bytes_received = Some(100);
                s.snd_wnd_bytes = Some(40_000);
                s.unacked_pkts = Some(28);
                s.cwnd_pkts = Some(200);
                s.snd_wscale = Some(7);
                s.notsent_bytes = Some(waits);
                s.sndbuf_bytes = Some(4_000_000);
                s.wmem_queued_bytes = Some(60_000);
                s.busy_time = Some(Duration::from_millis(200) * tick);
                s.rwnd_limited_time = Some(Duration::from_millis(150) * tick);
            })
        };
        let check = |other: Track, expected: &[u64]| {
            let recording = Recording {
                flows: vec![read.clone(), other],
                ..Recording::default()
            };
            let observed = Observed::new(&recording, &Netns::Own);
            let answers = observed.answers(|_| true);
            let cookies: Vec<u64> = answers
                .iter()
                .map(|answered| answered.case.track().cookie)
                .collect();
            assert_eq!(cookies, expected);
        };
        check(sent(1.0, 300_000), &[2, 1]);
        // A third of it, and a program that has nothing to send.
        check(sent(0.3, 300_000), &[1, 2]);
        check(sent(1.0, 0), &[1, 2]);
    }

    #[test]
    fn a_connection_for_control_comes_behind_transfers() {
        // A word each second.
        let words = |bytes: u64| {
            flowing(1, move |s, tick| {
                let second = u64::from(tick) / 5;
                s.bytes_acked = Some(second * bytes);
                s.bytes_sent = s.bytes_acked;
                s.data_segs_out = Some(second);
                s.data_segs_in = Some(second);
                s.bytes_received = Some(second * bytes);
                s.unacked_pkts = Some(0);
                s.notsent_bytes = Some(0);
                s.cwnd_pkts = Some(10);
                s.busy_time = Some(Duration::from_millis(20) * second as u32);
                s.rwnd_limited_time = Some(Duration::ZERO);
            })
        };
        // 10 MB/s, and nothing waits in three of four looks.
        let blocks = flowing(2, |s, tick| {
            s.bytes_acked = Some(u64::from(tick) * 2_000_000);
            s.bytes_sent = s.bytes_acked.map(|bytes| bytes + 100_000);
            s.data_segs_out = Some(u64::from(tick) * 1400);
            s.data_segs_in = Some(0);
            s.bytes_received = Some(100);
            s.unacked_pkts = Some(if tick % 4 == 0 { 70 } else { 0 });
            s.notsent_bytes = Some(if tick % 4 == 0 { 20_000 } else { 0 });
            s.cwnd_pkts = Some(200);
            s.snd_wnd_bytes = Some(4_000_000);
            s.busy_time = Some(Duration::from_millis(150) * tick);
            s.rwnd_limited_time = Some(Duration::ZERO);
        });
        let check = |other: Track, expected: [u64; 2]| {
            let recording = Recording {
                flows: vec![other, blocks.clone()],
                ..Recording::default()
            };
            let observed = Observed::new(&recording, &Netns::Own);
            let cookie = |answered: &Answered<'_, '_>| answered.case.track().cookie;
            let answers = observed.answers(|_| true);
            let kept = || {
                let mains = answers.iter().map(|one| Some(one.main()?.diagnosis.id));
                mains.collect::<Vec<_>>()
            };
            assert_eq!(
                answers.iter().map(cookie).collect::<Vec<_>>(),
                expected,
                "{:?}",
                kept()
            );
            assert!(
                answers.iter().all(|one| one.main().is_some()),
                "{:?}",
                kept()
            );
            let made = observed.answers_as(|_| true, cookie);
            assert_eq!(made, expected);
            let mut rows: Vec<crate::FlowRow<true>> = answers
                .iter()
                .map(|one| crate::FlowRow::of(&observed, one))
                .collect();
            rows.reverse();
            crate::sort_rows(&mut rows);
            assert_eq!(
                rows.iter().map(|row| row.cookie).collect::<Vec<_>>(),
                expected
            );
        };
        check(words(100), [2, 1]);
        check(words(200_000), [1, 2]);
    }

    #[test]
    fn a_pool_opens_connections_and_keeps_more_than_it_closes() {
        let check = |tracks: &[(Option<u32>, u64, bool)], expected: bool| {
            let flows = tracks.iter().zip(1..);
            let flows =
                flows.map(|((pid, first_s, ended), cookie)| track(cookie, *pid, *first_s, *ended));
            let recording = Recording {
                flows: flows.collect(),
                ..Recording::default()
            };
            let observed = Observed::new(&recording, &Netns::Own);
            let found = observed.is_pool(&recording.flows[0]);
            assert_eq!(found, expected, "{tracks:?}");
        };
        let (own, other) = (Some(7), Some(8));
        let (stays, opened) = ((own, 0, false), (own, 3, false));
        check(&[stays], false);
        check(&[stays, opened], true);
        check(&[stays, (other, 3, false)], false);
        check(&[stays, opened, (own, 0, true)], true);
        // One that ended does not show its process.
        let went = (None, 0, true);
        check(&[stays, opened, went, went], false);
        check(&[stays, opened, went, (other, 0, true)], true);
        // Of one without a process all count.
        check(&[(None, 0, false), (other, 3, false)], true);
    }
}
