//! The doctor's answers as rows: what `diagnose --json` writes of each connection, and what tables
//! and pages are made of. It decides nothing itself.
//!
//! A row is `ON_HOST` where changes can be made to what it tells of. Where they cannot, as for a
//! package that only reads files, what is of use on that host alone is not written: namespaces,
//! what a kernel runs above TCP, targets, and whether changes reach them.

use std::cmp::{Ordering, Reverse};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::{Instant, KnobValue, Limit, Live, Netns, Rate, Scope, Target};
use doctor::{
    Confidence, Evidence, NextLimit, Place, Proposal, Shares, Side, Timeline, Verdict,
    find_diagnosis,
};
use serde::Serialize;

use crate::observed::{Answered, Observed};
use crate::targets::Ends;

/// Shares of the time below this are not shown.
const SHARE_MIN: f64 = 0.005;

/// One connection, or several short ones of one service.
#[derive(Clone, Debug, Serialize)]
pub struct FlowRow<const ON_HOST: bool> {
    /// Identity of the connection in what was recorded.
    #[serde(skip)]
    pub cookie: u64,
    /// The namespace of its socket.
    #[serde(skip_serializing_if = "is_left_out::<ON_HOST, _>")]
    pub netns: Netns,
    /// The container in the namespace, if there is one and all were watched.
    #[serde(skip_serializing_if = "is_left_out::<ON_HOST, _>")]
    pub container: Option<String>,
    /// Address and port of the end that was observed.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// The end of it that a service has.
    #[serde(skip)]
    pub place: Place,
    /// A process that holds the socket.
    pub pid: Option<u32>,
    /// Command name of that process.
    pub command: Option<String>,
    /// Upper-layer protocol in the kernel: `mptcp` for a subflow, `tls`.
    #[serde(skip_serializing_if = "is_left_out::<ON_HOST, _>")]
    pub upper: Option<String>,
    /// Direction of most of the payload.
    pub direction: Direction,
    /// Whether no payload moved and none was waiting.
    pub idle: bool,
    /// Whether its program reads slowly because another connection holds it up.
    #[serde(skip)]
    pub is_held_up: bool,
    /// Whether the socket at the other end was seen too.
    pub both_ends_seen: bool,
    /// How often it was looked at.
    pub samples: usize,
    /// Seconds from its first sample to its last.
    pub seen_s: f64,
    /// Short connections of one service are shown as one: this many.
    pub connections: usize,
    /// Payload per second in that direction, in bit/s.
    pub rate_bps: Option<u64>,
    /// The time that this is the rate of: rates of connections that came one after the other are
    /// not those of their sum.
    #[serde(skip)]
    pub rate_of: Option<(Instant, Instant)>,
    /// The smallest round-trip time, in microseconds.
    pub min_rtt_us: Option<u64>,
    /// The smoothed round-trip time, in microseconds: the median.
    pub srtt_us: Option<u64>,
    /// Why this end did not send more, as shares of the time; empty where it mostly receives.
    pub limits: Vec<LimitShare>,
    /// The doctor's verdicts, most important first.
    pub verdicts: Vec<VerdictRow<ON_HOST>>,
    /// Why there is no verdict.
    pub unknown: Option<String>,
    /// Why options such as `TCP_NODELAY` could not be read.
    #[serde(skip_serializing_if = "is_left_out::<ON_HOST, _>")]
    pub options_error: Option<String>,
}

/// How much of the time a limit held.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LimitShare {
    /// One of [`Limit`], or `unclear`.
    pub limit: &'static str,
    /// From 0 to 1.
    pub share: f64,
}

/// Direction of payload, from the observed end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To the other end.
    Out,
    /// From there.
    In,
}

/// One verdict on a connection or on a host.
#[derive(Clone, Debug, Serialize)]
pub struct VerdictRow<const ON_HOST: bool> {
    /// Diagnosis, as in docs/diagnoses.md.
    pub id: &'static str,
    /// Statement about every connection with this diagnosis.
    pub sentence: &'static str,
    /// Whether there is something to change, or a defect.
    pub finding: bool,
    /// Why the sender waited.
    pub limit: Option<Limit>,
    /// Share of the time, from 0 to 1.
    pub share: f64,
    /// From when to when its limit was seen, in seconds after the watch began.
    pub held_s: Option<[f64; 2]>,
    /// How sure it is.
    pub confidence: Confidence,
    /// Packets alone were seen, and a socket would have to confirm it; absent where not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub consistent_with: bool,
    /// Whether that is sure enough to make the change.
    pub act: bool,
    /// Observed values beside the rule's thresholds.
    pub evidence: Vec<Evidence>,
    /// The limit after this one is removed.
    pub next: Option<NextLimit>,
    /// Proposed change of the smallest scope.
    pub change: Option<ChangeRow<ON_HOST>>,
    /// Whether that change reaches the open connection; null where there is no change.
    #[serde(skip_serializing_if = "is_left_out::<ON_HOST, _>")]
    pub live: Option<bool>,
    /// Other changes that would help as well.
    pub alternatives: Vec<ChangeRow<ON_HOST>>,
    /// Remark; empty if none.
    pub remark: String,
}

/// A change, with where to make it if that is known and reachable.
#[derive(Clone, Debug, Serialize)]
pub struct ChangeRow<const ON_HOST: bool> {
    /// Name of the knob.
    pub knob: &'static str,
    /// The value.
    pub to: KnobValue,
    /// The value with its unit.
    pub to_text: String,
    /// At which end.
    pub side: Side,
    /// How much it reaches.
    pub scope: Scope,
    /// When.
    pub takes_effect: Live,
    /// Possible drawbacks.
    pub risk: &'static str,
    /// Scope of the change.
    #[serde(skip_serializing_if = "is_left_out::<ON_HOST, _>")]
    pub target: Option<Target>,
    /// The host, for connections of a capture; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<IpAddr>,
    /// Privilege that the user lacks to apply it here, such as `CAP_NET_ADMIN`; null where none is
    /// missing, and for changes on other machines. Filled in by callers that apply changes.
    #[serde(skip_serializing_if = "is_left_out::<ON_HOST, _>")]
    pub requires: Option<&'static str>,
}

/// Whether a field that is of use on a host alone is not written.
const fn is_left_out<const ON_HOST: bool, T>(_field: &T) -> bool {
    !ON_HOST
}

/// Share of the most that a connection carries, below which another one is for control: a program
/// that coordinates with its peers waits on such connections, which does not describe its
/// transfers.
const CONTROL_SHARE: f64 = 0.01;

/// Whether a connection is for control, beside one that carries `most`.
pub(crate) fn is_for_control(carried: u64, most: u64) -> bool {
    (carried as f64) < most as f64 * CONTROL_SHARE
}

/// Payload per second of several connections together, in bit/s: over the time in which any of them
/// was there.
#[must_use]
pub fn rate_of_rows<const ON_HOST: bool>(flows: &[&FlowRow<ON_HOST>]) -> Option<u64> {
    let known = flows
        .iter()
        .filter_map(|flow| flow.rate_bps.zip(Some(*flow)));
    let mut spans = Vec::new();
    let (mut sum, mut bits) = (None, 0.0);
    for (rate, flow) in known {
        sum = Some(sum.unwrap_or(0_u64).saturating_add(rate));
        let Some((from, to)) = flow.rate_of else {
            continue;
        };
        bits += rate as f64 * to.since(from).as_secs_f64();
        spans.push((from, to));
    }
    let time = joined(spans).as_secs_f64();
    match time > 0.0 {
        true => Some((bits / time).round() as u64),
        false => sum,
    }
}

/// How long any of these lasted.
fn joined(mut spans: Vec<(Instant, Instant)>) -> Duration {
    spans.sort_unstable();
    let mut all = Duration::ZERO;
    let mut until: Option<Instant> = None;
    for (from, to) in spans {
        let from = until.map_or(from, |until| from.max(until));
        all += to.max(from).since(from);
        until = Some(until.map_or(to, |until| until.max(to)));
    }
    all
}

/// Puts the most important first.
pub fn sort_rows<const ON_HOST: bool>(flows: &mut [FlowRow<ON_HOST>]) {
    let rates = flows.iter().filter_map(|flow| flow.rate_bps);
    let most = rates.max().unwrap_or(0);
    // Rows are large: their places are sorted, and then each moves once.
    flows.sort_by_cached_key(|flow| Reverse((Rank(flow.rank(most)), flow.rate_bps)));
}

/// A number by which rows are sorted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rank(pub(crate) f64);

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rank {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rank {}

impl<const ON_HOST: bool> FlowRow<ON_HOST> {
    /// A connection with what the doctor says of it.
    #[must_use]
    pub fn of(observed: &Observed<'_>, answered: &Answered<'_, '_>) -> Self {
        Self::measured(observed, answered).judged(observed, answered)
    }

    /// The numbers of a connection alone.
    #[must_use]
    pub fn measured(observed: &Observed<'_>, answered: &Answered<'_, '_>) -> Self {
        let Answered { case, ends, .. } = answered;
        let (track, timeline) = (case.track(), case.timeline());
        let sent = timeline.rate().or_else(|| timeline.send_rate());
        let received = timeline.receive_rate();
        let (direction, rate) = if received > sent {
            (Direction::In, received)
        } else {
            (Direction::Out, sent)
        };
        let row = Self {
            cookie: track.cookie,
            netns: ends.local.netns.clone(),
            container: None,
            local: ends.local.key.local,
            remote: ends.local.key.remote,
            place: case.place(),
            pid: ends.local.pid,
            command: track
                .owners
                .first()
                .map(|owner| owner.process.command.clone()),
            upper: timeline.latest(|s| s.upper.map(|name| name.to_string())),
            direction,
            idle: is_idle(&timeline),
            is_held_up: answered.is_held_up,
            both_ends_seen: ends.remote.is_some(),
            samples: timeline.looks(),
            seen_s: timeline.interval().as_secs_f64(),
            connections: case.connections(),
            rate_bps: rate.map(Rate::bits_per_second),
            rate_of: timeline
                .first()
                .zip(timeline.last())
                .map(|(first, last)| (first.at, last.at)),
            min_rtt_us: timeline.min_rtt().and_then(micros),
            srtt_us: timeline.srtt().and_then(micros),
            limits: match direction {
                Direction::Out => limits(&timeline),
                Direction::In => Vec::new(),
            },
            verdicts: Vec::new(),
            unknown: None,
            options_error: track.options_error.clone(),
        };
        if row.connections > 1 {
            let (began, whole) = (observed.began(), observed.cases().whole());
            row.standing_for(case.payload_bytes(), (began, began + whole))
        } else {
            row
        }
    }

    /// The row of several connections, which moved these bytes while they were watched.
    fn standing_for(mut self, payload: (u64, u64), seen: (Instant, Instant)) -> Self {
        let (sent, received) = payload;
        self.direction = if received > sent {
            Direction::In
        } else {
            Direction::Out
        };
        let whole = seen.1.since(seen.0);
        let rate = Rate::of(sent.max(received), whole);
        self.rate_bps = (!whole.is_zero()).then(|| rate.bits_per_second());
        self.rate_of = Some(seen);
        self.idle = payload == (0, 0);
        self
    }

    /// The row with what the doctor says of it.
    #[must_use]
    pub fn judged(mut self, observed: &Observed<'_>, answered: &Answered<'_, '_>) -> Self {
        let Answered { report, ends, .. } = answered;
        let is_one = self.connections == 1;
        let row = |verdict: &Verdict| VerdictRow {
            // Each of many has its own.
            held_s: held_s(verdict, observed).filter(|_| is_one),
            ..VerdictRow::of(verdict, ends)
        };
        self.verdicts = report.verdicts.iter().map(row).collect();
        self.unknown.clone_from(&report.unknown);
        if self.idle && !self.has_finding() {
            // Its program is the limit, and more was not asked for: `idle` says all.
            self.verdicts.clear();
            self.unknown = None;
        }
        self
    }

    /// The main verdict, if there is one.
    #[must_use]
    pub fn main(&self) -> Option<&VerdictRow<ON_HOST>> {
        self.verdicts.first()
    }

    /// Whether there is something to change, or a defect.
    #[must_use]
    pub fn has_finding(&self) -> bool {
        self.verdicts.iter().any(|verdict| verdict.finding)
    }

    /// All changes that would help.
    pub fn changes_mut(&mut self) -> impl Iterator<Item = &mut ChangeRow<ON_HOST>> {
        let verdicts = self.verdicts.iter_mut();
        verdicts.flat_map(|verdict| verdict.change.iter_mut().chain(&mut verdict.alternatives))
    }

    /// Makes it one of a capture: nothing can be changed from here, hosts have addresses and no
    /// "here", and what only a socket could confirm is at most consistent with what is seen.
    pub fn set_seen_in_packets(&mut self) {
        let (local, remote) = (self.local.ip(), self.remote.ip());
        // A file is as long as it is.
        let longer = |reason: String| reason.replace(doctor::WATCH_LONGER, "capture longer");
        self.unknown = self.unknown.take().map(longer);
        for verdict in &mut self.verdicts {
            verdict.act = false;
            verdict.weaken();
        }
        for change in self.changes_mut() {
            change.target = None;
            change.requires = None;
            change.at = Some(match change.side {
                Side::Local => local,
                Side::Remote => remote,
            });
        }
    }

    /// Findings first, then flows that do something, then those for control beside one of `most`
    /// bits per second; within them by share. What is held up by another connection comes behind
    /// that one.
    fn rank(&self, most: u64) -> f64 {
        let share = self.main().map_or(0.0, |verdict| verdict.share);
        match self.main() {
            Some(_) if self.is_held_up => 5.0 + share,
            Some(verdict) if verdict.finding => 30.0 + share,
            _ if self.has_finding() => 20.0 + share,
            _ if self.idle => share,
            Some(_) if is_for_control(self.rate_bps.unwrap_or(0), most) => 8.0 + share,
            _ => 10.0 + share,
        }
    }
}

impl<const ON_HOST: bool> VerdictRow<ON_HOST> {
    /// A verdict on a connection.
    #[must_use]
    pub fn of(verdict: &Verdict, ends: &Ends) -> Self {
        let proposals = verdict.proposals.iter();
        let mut changes = proposals.map(|proposal| ChangeRow::of(proposal, ends));
        let change = changes.next();
        Self {
            live: change
                .as_ref()
                .map(|change| change.takes_effect == Live::Now),
            change,
            alternatives: changes.collect(),
            ..Self::of_host(verdict)
        }
    }

    /// A verdict without a connection.
    #[must_use]
    pub fn of_host(verdict: &Verdict) -> Self {
        Self {
            id: verdict.diagnosis.id,
            sentence: verdict.diagnosis.sentence,
            finding: verdict.diagnosis.is_finding(),
            limit: verdict.limit,
            share: rounded(verdict.share),
            held_s: None,
            confidence: verdict.confidence,
            consistent_with: false,
            act: verdict.is_sure(),
            evidence: verdict.evidence.clone(),
            next: verdict.next.clone(),
            change: None,
            live: None,
            alternatives: Vec::new(),
            remark: verdict.remark.clone(),
        }
    }

    /// Limits its confidence to what packets can show.
    fn weaken(&mut self) {
        let diagnosis = find_diagnosis(self.id);
        if let Some(most) = diagnosis.and_then(|diagnosis| diagnosis.in_packets.confidence_max()) {
            self.confidence = self.confidence.min(most);
            self.consistent_with = true;
        }
    }
}

impl<const ON_HOST: bool> ChangeRow<ON_HOST> {
    fn of(proposal: &Proposal, ends: &Ends) -> Self {
        Self {
            knob: proposal.knob.name,
            to: proposal.to.clone(),
            to_text: proposal.knob.format(&proposal.to),
            side: proposal.side,
            scope: proposal.knob.scope,
            takes_effect: proposal.live,
            risk: proposal.risk,
            target: ends.change(proposal).map(|change| change.target),
            at: None,
            requires: None,
        }
    }
}

/// Limits shown, largest first.
fn limits(timeline: &Timeline) -> Vec<LimitShare> {
    let Some(shares) = Shares::of_timeline(timeline) else {
        return Vec::new();
    };
    let known = shares.largest_first().into_iter();
    known
        .map(|(limit, share)| (limit.name(), share))
        .chain([("unclear", shares.unclear())])
        .filter(|(_, share)| *share >= SHARE_MIN)
        .map(|(limit, share)| LimitShare {
            limit,
            share: rounded(share),
        })
        .collect()
}

/// From when to when the verdict's limit was seen, in seconds after the watch began.
fn held_s(verdict: &Verdict, observed: &Observed<'_>) -> Option<[f64; 2]> {
    let (first, last) = verdict.held?;
    Some([first, last].map(|at| {
        let after = at.since(observed.began()).as_secs_f64();
        (after * 1e3).round() / 1e3
    }))
}

/// No payload moved and none was waiting for anything.
fn is_idle(timeline: &Timeline) -> bool {
    let moved = |count: Option<u64>| count.is_some_and(|bytes| bytes > 0);
    let waiting = |count: Option<u32>| count.is_some_and(|pkts| pkts > 0);
    !moved(timeline.counted(|s| s.bytes_sent))
        // All that is known of segments which a capture does not have.
        && !moved(timeline.counted(|s| s.bytes_acked))
        && !moved(timeline.counted(|s| s.bytes_received))
        && !waiting(timeline.largest(|s| s.unacked_pkts))
        && !moved(timeline.largest(|s| s.notsent_bytes.map(u64::from)))
}

fn rounded(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}

fn micros(time: Duration) -> Option<u64> {
    u64::try_from(time.as_micros()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{FlowKey, find_knob};
    use serde_json::{Value, json, to_value};

    use crate::targets::End;

    fn row<const ON_HOST: bool>(proposals: Vec<Proposal>) -> Value {
        let diagnosis = doctor::find_diagnosis("nagle-delack-stall").unwrap();
        let verdict = Verdict {
            diagnosis,
            limit: diagnosis.limit,
            share: 0.973_456_7,
            held: None,
            confidence: Confidence::High,
            evidence: vec![Evidence {
                field: "nodelay",
                observed: "off".into(),
                expected: "off".into(),
            }],
            saves: None,
            saves_most: None,
            next: Some(NextLimit {
                what: "the path".into(),
                rate: Some(Rate::from_bits_per_second(25_000_000)),
            }),
            proposals,
            remark: String::new(),
        };
        let ends = Ends {
            local: End {
                netns: Netns::Own,
                key: FlowKey {
                    local: "10.0.0.5:51514".parse().unwrap(),
                    remote: "10.0.9.2:443".parse().unwrap(),
                },
                cookie: Some(7),
                pid: Some(4127),
                link: None,
                is_subflow: false,
            },
            remote: None,
            beside: Vec::new(),
        };
        to_value(VerdictRow::<ON_HOST>::of(&verdict, &ends)).unwrap()
    }

    fn propose(side: Side, knob: &str, live: Live) -> Proposal {
        Proposal {
            side,
            beside: None,
            knob: find_knob(knob).unwrap(),
            to: KnobValue::Flag(true),
            live,
            risk: "more packets",
        }
    }

    #[test]
    fn a_verdict_is_written_with_plain_numbers_and_names() {
        let row = row::<true>(vec![
            propose(Side::Local, "nodelay", Live::Now),
            propose(Side::Remote, "route.quickack", Live::Reconnect),
        ]);
        let check = |at: &str, expected: Value| {
            assert_eq!(row.pointer(at), Some(&expected), "{at} of {row:#}");
        };
        check("/id", json!("nagle-delack-stall"));
        check("/finding", json!(true));
        check("/limit", json!("nagle"));
        check("/share", json!(0.9735));
        check("/confidence", json!("high"));
        check("/evidence/0/field", json!("nodelay"));
        check("/next/rate_bps", json!(25_000_000));
        check("/live", json!(true));
        check("/change/knob", json!("nodelay"));
        check("/change/to", json!(true));
        check("/change/side", json!("local"));
        check("/change/takes_effect", json!("now"));
        check("/change/target/pid", json!(4127));
        check("/alternatives/0/side", json!("remote"));
        check("/alternatives/0/target", Value::Null);
    }

    #[test]
    fn connections_one_after_the_other_do_not_add_up() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let check = |spans: &[(u64, u64)], joins_ms: u64| {
            let spans = spans.iter().map(|(from, to)| (at(*from), at(*to)));
            assert_eq!(joined(spans.collect()), Duration::from_millis(joins_ms));
        };
        check(&[], 0);
        check(&[(0, 3000), (3000, 5000)], 5000);
        check(&[(3000, 5000), (0, 3000)], 5000);
        check(&[(0, 3000), (1000, 2000), (2500, 4000)], 4000);
        check(&[(0, 1000), (4000, 5000)], 2000);
    }

    #[test]
    fn what_no_setting_helps_has_no_change() {
        let row = row::<true>(Vec::new());
        assert_eq!(row["change"], Value::Null);
        assert_eq!(row["live"], Value::Null);
    }

    #[test]
    fn where_nothing_can_be_changed_no_target_is_written() {
        let row = row::<false>(vec![propose(Side::Local, "nodelay", Live::Now)]);
        assert_eq!(row["change"]["to_text"], json!("on"));
        for at in ["/live", "/change/target", "/change/requires"] {
            assert_eq!(row.pointer(at), None, "{at} of {row:#}");
        }
    }
}
