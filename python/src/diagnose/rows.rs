//! Connections and what is said of them, in the words of `diagnose --json`. What is of living
//! connections only, such as where a change would be made, is left out: nothing can be changed in a
//! file. A test of Python holds these rows against those of the program.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::{KnobValue, Limit, Live, Rate, Scope};
use doctor::{
    Confidence, Evidence, NextLimit, Proposal, Shares, Side, Timeline, Verdict, find_diagnosis,
};
use serde::Serialize;
use tailor::{Answered, Observed};

/// Shares of less are not told.
const SHARE_MIN: f64 = 0.005;

/// One connection, or several short ones of one service.
#[derive(Serialize)]
pub(super) struct FlowRow {
    local: SocketAddr,
    remote: SocketAddr,
    pid: Option<u32>,
    command: Option<String>,
    /// `out` or `in`: where most of the payload went.
    direction: &'static str,
    idle: bool,
    both_ends_seen: bool,
    samples: usize,
    seen_s: f64,
    connections: usize,
    rate_bps: Option<u64>,
    min_rtt_us: Option<u64>,
    srtt_us: Option<u64>,
    limits: Vec<LimitShare>,
    verdicts: Vec<VerdictRow>,
    unknown: Option<String>,
}

#[derive(Serialize)]
struct LimitShare {
    limit: &'static str,
    share: f64,
}

/// One verdict.
#[derive(Serialize)]
pub(super) struct VerdictRow {
    id: &'static str,
    sentence: &'static str,
    finding: bool,
    limit: Option<Limit>,
    share: f64,
    held_s: Option<[f64; 2]>,
    confidence: Confidence,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    consistent_with: bool,
    act: bool,
    evidence: Vec<Evidence>,
    next: Option<NextLimit>,
    change: Option<ChangeRow>,
    alternatives: Vec<ChangeRow>,
    remark: String,
}

/// A setting that would help.
#[derive(Serialize)]
struct ChangeRow {
    knob: &'static str,
    to: KnobValue,
    to_text: String,
    side: Side,
    scope: Scope,
    takes_effect: Live,
    risk: &'static str,
    /// The host, for connections of a capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<IpAddr>,
}

/// Puts the most important first.
pub(super) fn sort(flows: &mut [FlowRow]) {
    flows.sort_by(|a, b| {
        let by_rank = b.rank().total_cmp(&a.rank());
        by_rank.then(b.rate_bps.cmp(&a.rate_bps))
    });
}

impl FlowRow {
    pub(super) fn of(observed: &Observed<'_>, answered: &Answered<'_, '_>) -> Self {
        let Answered {
            case, report, ends, ..
        } = answered;
        let timeline = case.timeline();
        let (sent, received) = (timeline.rate(), timeline.receive_rate());
        let (mut direction, rate) = match received > sent {
            true => ("in", received),
            false => ("out", sent),
        };
        let limits = match direction {
            "out" => limits(&timeline),
            _ => Vec::new(),
        };
        let mut rate_bps = rate.map(Rate::bits_per_second);
        let mut idle = is_idle(&timeline);
        if case.connections() > 1 {
            let ((sent, received), seen) = (case.payload_bytes(), observed.cases().whole());
            direction = if received > sent { "in" } else { "out" };
            let rate = Rate::of(sent.max(received), seen);
            rate_bps = (!seen.is_zero()).then(|| rate.bits_per_second());
            idle = (sent, received) == (0, 0);
        }
        let row = Self {
            local: ends.local.key.local,
            remote: ends.local.key.remote,
            pid: ends.local.pid,
            command: case
                .track()
                .owners
                .first()
                .map(|owner| owner.process.command.clone()),
            direction,
            idle,
            both_ends_seen: ends.remote.is_some(),
            samples: timeline.looks(),
            seen_s: timeline.interval().as_secs_f64(),
            connections: case.connections(),
            rate_bps,
            min_rtt_us: timeline.min_rtt().and_then(micros),
            srtt_us: timeline.srtt().and_then(micros),
            limits,
            verdicts: report.verdicts.iter().map(VerdictRow::of).collect(),
            unknown: report.unknown.clone(),
        };
        row.with_times(observed, &report.verdicts).told()
    }

    /// From when to when each limit was seen; each of many connections has its own time.
    fn with_times(mut self, observed: &Observed<'_>, verdicts: &[Verdict]) -> Self {
        if self.connections == 1 {
            for (row, verdict) in self.verdicts.iter_mut().zip(verdicts) {
                row.held_s = verdict.held.map(|(first, last)| {
                    [first, last].map(|at| {
                        let after = at.since(observed.began()).as_secs_f64();
                        (after * 1e3).round() / 1e3
                    })
                });
            }
        }
        self
    }

    /// Of a connection that no one asked for more, `idle` says all.
    fn told(mut self) -> Self {
        if self.idle && !self.has_finding() {
            self.verdicts.clear();
            self.unknown = None;
        }
        self
    }

    pub(super) fn has_finding(&self) -> bool {
        self.verdicts.iter().any(|verdict| verdict.finding)
    }

    /// Findings first, then flows that do something; within them by share.
    fn rank(&self) -> f64 {
        let main = self.verdicts.first();
        let share = main.map_or(0.0, |verdict| verdict.share);
        share
            + match main {
                Some(verdict) if verdict.finding => 30.0,
                _ if self.has_finding() => 20.0,
                _ if self.idle => 0.0,
                _ => 10.0,
            }
    }

    /// Hosts of a capture have addresses and no "here", and what only a socket could confirm is no
    /// more than consistent with what is seen.
    pub(super) fn seen_in_packets(&mut self) {
        let (local, remote) = (self.local.ip(), self.remote.ip());
        for verdict in &mut self.verdicts {
            verdict.act = false;
            let diagnosis = find_diagnosis(verdict.id);
            let most = diagnosis.and_then(|diagnosis| diagnosis.in_packets.confidence_max());
            if let Some(most) = most {
                verdict.confidence = verdict.confidence.min(most);
                verdict.consistent_with = true;
            }
            for change in verdict.change.iter_mut().chain(&mut verdict.alternatives) {
                change.at = Some(match change.side {
                    Side::Local => local,
                    Side::Remote => remote,
                });
            }
        }
    }
}

fn micros(time: Duration) -> Option<u64> {
    u64::try_from(time.as_micros()).ok()
}

/// Why this end did not send more, largest first.
fn limits(timeline: &Timeline) -> Vec<LimitShare> {
    let Some(shares) = Shares::of_timeline(timeline) else {
        return Vec::new();
    };
    let known = shares.largest_first().into_iter();
    let known = known.map(|(limit, share)| (limit.name(), share));
    known
        .chain([("unclear", shares.unclear())])
        .filter(|(_, share)| *share >= SHARE_MIN)
        .map(|(limit, share)| LimitShare {
            limit,
            share: rounded(share),
        })
        .collect()
}

fn rounded(share: f64) -> f64 {
    (share * 1e4).round() / 1e4
}

/// No payload moved and none was waiting for anything.
fn is_idle(timeline: &Timeline) -> bool {
    let moved = |count: Option<u64>| count.is_some_and(|bytes| bytes > 0);
    let waiting = |pkts: Option<u32>| pkts.is_some_and(|pkts| pkts > 0);
    !moved(timeline.counted(|s| s.bytes_sent))
        && !moved(timeline.counted(|s| s.bytes_received))
        && !waiting(timeline.largest(|s| s.unacked_pkts))
        && !moved(timeline.largest(|s| s.notsent_bytes.map(u64::from)))
}

impl VerdictRow {
    pub(super) fn of(verdict: &Verdict) -> Self {
        let mut changes = verdict.proposals.iter().map(ChangeRow::of);
        Self {
            id: verdict.diagnosis.id,
            sentence: verdict.diagnosis.sentence,
            finding: verdict.diagnosis.is_finding(),
            limit: verdict.limit,
            share: rounded(verdict.share),
            held_s: None,
            confidence: verdict.confidence,
            consistent_with: false,
            act: verdict.confidence >= verdict.diagnosis.act_from,
            evidence: verdict.evidence.clone(),
            next: verdict.next.clone(),
            change: changes.next(),
            alternatives: changes.collect(),
            remark: verdict.remark.clone(),
        }
    }
}

impl ChangeRow {
    fn of(proposal: &Proposal) -> Self {
        Self {
            knob: proposal.knob.name,
            to: proposal.to.clone(),
            to_text: proposal.knob.format(&proposal.to),
            side: proposal.side,
            scope: proposal.knob.scope,
            takes_effect: proposal.live,
            risk: proposal.risk,
            at: None,
        }
    }
}
