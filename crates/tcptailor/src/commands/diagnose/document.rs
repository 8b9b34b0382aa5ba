//! The answer as data: what `--json` prints, and what the table is made of.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::{Change, KnobValue, Limit, Live, Netns, Rate, Scope, Target};
use doctor::{
    Case, Confidence, Evidence, NextLimit, Place, Proposal, Shares, Side, Timeline, Verdict,
};
use serde::Serialize;

use super::capture::CaptureInfo;
use super::service::{self, Answer, Counts, Service};
use tailor::Ends;

/// The whole answer. Flows with findings come first.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Document {
    /// Seconds that were observed.
    pub(crate) duration_s: f64,
    /// Whether the user ended the observation early.
    pub(crate) interrupted: bool,
    /// Whether the process that was asked for ended first.
    pub(crate) process_ended: bool,
    /// Flows with at least one finding, and findings of the host.
    pub(crate) findings: usize,
    /// Processes whose sockets have no owner here, because we may not look into them.
    pub(crate) unseen_processes: usize,
    /// Connections that were not watched because there were too many.
    pub(crate) flows_left_out: usize,
    /// What is said of the packet capture; absent where live connections or a recording were looked
    /// at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) capture: Option<CaptureInfo>,
    /// Network namespaces that were not watched, of all that were asked for.
    pub(crate) netns_left_out: usize,
    /// Connections by what is said of them.
    pub(crate) counts: Counts,
    /// What is wrong with the host as a whole, such as a listener that does not accept.
    #[serde(rename = "host_findings")]
    pub(crate) host: Vec<HostRow>,
    /// The connections by the program and the place that they belong to.
    pub(crate) services: Vec<Service>,
    pub(crate) flows: Vec<FlowRow>,
}

impl Document {
    /// The same with its connections, sorted and summed up.
    pub(crate) fn with_flows(mut self, mut flows: Vec<FlowRow>) -> Self {
        sort(&mut flows);
        let found = flows.iter().filter(|flow| flow.has_finding()).count();
        self.findings = found + self.host.len();
        self.counts = Counts::of(&flows);
        self.services = service::services(&flows);
        self.flows = flows;
        self
    }
}

/// Puts the most important first.
pub(crate) fn sort(flows: &mut [FlowRow]) {
    flows.sort_by(|a, b| {
        rank(b)
            .total_cmp(&rank(a))
            .then(b.rate_bps.cmp(&a.rate_bps))
    });
}

/// Findings first, then flows that do something; within them by share.
fn rank(flow: &FlowRow) -> f64 {
    let share = flow.main().map_or(0.0, |verdict| verdict.share);
    match flow.main() {
        Some(verdict) if verdict.finding => 30.0 + share,
        _ if flow.has_finding() => 20.0 + share,
        _ if flow.idle => share,
        _ => 10.0 + share,
    }
}

/// One verdict on a host, or on the part of it that a network namespace is.
#[derive(Debug, Serialize)]
pub(crate) struct HostRow {
    pub(crate) netns: Netns,
    /// The container in the namespace, if there is one.
    pub(crate) container: Option<String>,
    #[serde(flatten)]
    pub(crate) verdict: VerdictRow,
}

/// One connection.
#[derive(Debug, Serialize)]
pub(crate) struct FlowRow {
    /// Identity of the connection in what was recorded.
    #[serde(skip)]
    pub(crate) cookie: u64,
    pub(crate) netns: Netns,
    /// The container in the namespace, if there is one and all were watched.
    pub(crate) container: Option<String>,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    #[serde(skip)]
    pub(crate) place: Place,
    pub(crate) pid: Option<u32>,
    pub(crate) command: Option<String>,
    /// What the kernel runs above it: `mptcp` for a subflow, `tls`.
    pub(crate) upper: Option<String>,
    /// Where most of the payload went.
    pub(crate) direction: Direction,
    /// Whether no payload moved and none was waiting.
    pub(crate) idle: bool,
    /// Whether the socket at the other end was seen too.
    pub(crate) both_ends_seen: bool,
    pub(crate) samples: usize,
    /// Seconds from its first sample to its last.
    pub(crate) seen_s: f64,
    /// Short connections of one service are shown as one: so many.
    pub(crate) connections: usize,
    pub(crate) rate_bps: Option<u64>,
    pub(crate) min_rtt_us: Option<u64>,
    pub(crate) srtt_us: Option<u64>,
    /// Why this end did not send more, as shares of the time; empty where it mostly receives.
    pub(crate) limits: Vec<LimitShare>,
    pub(crate) verdicts: Vec<VerdictRow>,
    /// Why there is no verdict.
    pub(crate) unknown: Option<String>,
    /// Why options such as `TCP_NODELAY` could not be read.
    pub(crate) options_error: Option<String>,
}

/// How much of the time a limit held.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct LimitShare {
    /// One of [`Limit`], or `unclear`.
    pub(crate) limit: &'static str,
    pub(crate) share: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Direction {
    Out,
    In,
}

/// One verdict on it.
#[derive(Debug, Serialize)]
pub(crate) struct VerdictRow {
    pub(crate) id: &'static str,
    pub(crate) sentence: &'static str,
    pub(crate) finding: bool,
    pub(crate) limit: Option<Limit>,
    pub(crate) share: f64,
    /// From when to when its limit was seen, in seconds after the watch began.
    pub(crate) held_s: Option<[f64; 2]>,
    pub(crate) confidence: Confidence,
    /// Packets alone were seen, and a socket would have to confirm it; absent where not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) consistent_with: bool,
    /// Whether that is sure enough to make the change.
    pub(crate) act: bool,
    pub(crate) evidence: Vec<Evidence>,
    pub(crate) next: Option<NextLimit>,
    /// What to change: the smallest scope.
    pub(crate) change: Option<ChangeRow>,
    /// Whether that change reaches the open connection; null where there is no change.
    pub(crate) live: Option<bool>,
    /// Other changes that would help as well.
    pub(crate) alternatives: Vec<ChangeRow>,
    pub(crate) remark: String,
}

/// A change, with where to make it if that is known and reachable.
#[derive(Debug, Serialize)]
pub(crate) struct ChangeRow {
    pub(crate) knob: &'static str,
    pub(crate) to: KnobValue,
    /// The value with its unit.
    pub(crate) to_text: String,
    pub(crate) side: Side,
    pub(crate) scope: Scope,
    pub(crate) takes_effect: Live,
    pub(crate) risk: &'static str,
    pub(crate) target: Option<Target>,
    /// The host, for connections of a capture; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<IpAddr>,
    /// What the user who asked lacks to make it here, such as `CAP_NET_ADMIN`; null where nothing
    /// does, and for changes on other machines.
    pub(crate) requires: Option<&'static str>,
}

impl FlowRow {
    /// What limits it, if that could be said.
    pub(crate) fn main(&self) -> Option<&VerdictRow> {
        self.verdicts.first()
    }

    pub(crate) fn has_finding(&self) -> bool {
        self.verdicts.iter().any(|verdict| verdict.finding)
    }

    /// What is said of it.
    pub(crate) fn answer(&self) -> Answer {
        if self.has_finding() {
            Answer::Finding
        } else if self.idle {
            Answer::Idle
        } else if self.verdicts.is_empty() {
            Answer::Unclear
        } else {
            Answer::Healthy
        }
    }

    /// The id of its main verdict, or what stands in place of one.
    pub(crate) fn answer_id(&self) -> &'static str {
        match self.main() {
            Some(main) => main.id,
            None if self.idle => "idle",
            None => "unknown",
        }
    }

    /// The end of it that a service has.
    pub(crate) const fn place(&self) -> Place {
        self.place
    }

    /// Makes it stand for several connections, which moved these bytes while they were watched.
    pub(crate) fn stand_for(&mut self, connections: usize, payload: (u64, u64), seen: Duration) {
        self.connections = connections;
        if connections > 1 {
            let (sent, received) = payload;
            self.direction = if received > sent {
                Direction::In
            } else {
                Direction::Out
            };
            let rate = Rate::of(sent.max(received), seen);
            self.rate_bps = (!seen.is_zero()).then(|| rate.bits_per_second());
            self.idle = payload == (0, 0);
        }
    }

    /// The numbers of a flow; verdicts are added by the caller.
    pub(crate) fn of(timeline: &Timeline, ends: &Ends, case: &Case<'_, '_>) -> Self {
        let track = case.track();
        let micros = |time: Duration| u64::try_from(time.as_micros()).ok();
        let (sent, received) = (timeline.rate(), timeline.receive_rate());
        let (direction, rate) = if received > sent {
            (Direction::In, received)
        } else {
            (Direction::Out, sent)
        };
        Self {
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
            upper: timeline.latest(|s| s.upper.clone()),
            direction,
            idle: is_idle(timeline),
            both_ends_seen: ends.remote.is_some(),
            samples: timeline.looks(),
            seen_s: timeline.interval().as_secs_f64(),
            connections: 1,
            rate_bps: rate.map(base::Rate::bits_per_second),
            min_rtt_us: timeline.min_rtt().and_then(micros),
            srtt_us: timeline.srtt().and_then(micros),
            limits: match direction {
                Direction::Out => limits(timeline),
                Direction::In => Vec::new(),
            },
            verdicts: Vec::new(),
            unknown: None,
            options_error: track.options_error.clone(),
        }
    }
}

/// Those of half a percent and more, largest first.
fn limits(timeline: &Timeline) -> Vec<LimitShare> {
    let Some(shares) = Shares::of_timeline(timeline) else {
        return Vec::new();
    };
    let known = shares.largest_first().into_iter();
    known
        .map(|(limit, share)| (limit.name(), share))
        .chain([("unclear", shares.unclear())])
        .filter(|(_, share)| *share >= 0.005)
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
    let waiting = |samples: Option<u32>| samples.is_some_and(|pkts| pkts > 0);
    !moved(timeline.counted(|s| s.bytes_sent))
        && !moved(timeline.counted(|s| s.bytes_received))
        && !waiting(timeline.largest(|s| s.unacked_pkts))
        && !moved(timeline.largest(|s| s.notsent_bytes.map(u64::from)))
}

impl VerdictRow {
    pub(crate) fn of(verdict: &Verdict, ends: &Ends) -> Self {
        let mut changes = verdict
            .proposals
            .iter()
            .map(|proposal| ChangeRow::of(proposal, ends));
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

    /// A verdict that no connection is meant by.
    pub(crate) fn of_host(verdict: &Verdict) -> Self {
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
            live: None,
            change: None,
            alternatives: Vec::new(),
            remark: verdict.remark.clone(),
        }
    }
}

impl ChangeRow {
    fn of(proposal: &Proposal, ends: &Ends) -> Self {
        let target = ends.change(proposal).map(|change| change.target);
        Self {
            requires: lacking(proposal, target.as_ref()),
            knob: proposal.knob.name,
            to: proposal.to.clone(),
            to_text: proposal.knob.format(&proposal.to),
            side: proposal.side,
            scope: proposal.knob.scope,
            takes_effect: proposal.live,
            risk: proposal.risk,
            target,
            at: None,
        }
    }
}

/// What this process lacks to make a change on this machine.
fn lacking(proposal: &Proposal, target: Option<&Target>) -> Option<&'static str> {
    let is_simulated = |netns: &Netns| matches!(netns, Netns::Simulated(_));
    match target {
        // Whose socket it is was not to be seen.
        None if proposal.side == Side::Local && proposal.knob.scope == Scope::Socket => {
            Some("root, to find its program")
        }
        None | Some(Target::Socket { .. }) => None,
        Some(
            Target::Route { netns, .. }
            | Target::Link { netns, .. }
            | Target::Qdisc { netns, .. }
            | Target::Namespace { netns },
        ) => (!is_simulated(netns) && !linux::privilege::may_configure_network())
            .then_some("CAP_NET_ADMIN"),
    }
}

/// What `apply` can do at once: for each finding the live changes of the smallest scope whose
/// target is known. The same change for several flows is made once.
pub(crate) fn plan(flows: &[FlowRow]) -> Vec<Change> {
    let mut planned = Vec::new();
    for verdict in flows
        .iter()
        .filter_map(FlowRow::main)
        .filter(|verdict| verdict.finding && verdict.act)
    {
        let live = || {
            verdict
                .change
                .iter()
                .chain(&verdict.alternatives)
                .filter(|change| change.takes_effect == Live::Now && change.target.is_some())
                .filter(|change| change.requires.is_none())
        };
        let Some(smallest) = live().map(|change| change.scope).min() else {
            continue;
        };
        for row in live().filter(|change| change.scope == smallest) {
            let change = Change {
                target: row.target.clone().expect("filtered above"),
                knob: row.knob.into(),
                to: row.to.clone(),
            };
            add(&mut planned, change);
        }
    }
    planned
}

/// Adds a change. One setting has one value: of two the larger, which suffices for both, and of two
/// names the first.
fn add(planned: &mut Vec<Change>, change: Change) {
    let is_same =
        |known: &&mut Change| (&known.target, &known.knob) == (&change.target, &change.knob);
    let Some(known) = planned.iter_mut().find(is_same) else {
        return planned.push(change);
    };
    match (&mut known.to, change.to) {
        (KnobValue::Number(known), KnobValue::Number(other)) => *known = other.max(*known),
        (KnobValue::Triple(known), KnobValue::Triple(other)) => {
            for (known, other) in known.iter_mut().zip(other) {
                *known = other.max(*known);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{FlowKey, find_knob};
    use serde_json::{Value, json, to_value};
    use tailor::End;

    fn row(proposals: Vec<Proposal>) -> Value {
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
            },
            remote: None,
            beside: Vec::new(),
        };
        to_value(VerdictRow::of(&verdict, &ends)).unwrap()
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
        let row = row(vec![
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
    fn two_values_for_one_setting_become_one() {
        let change = |knob: &str, to| Change {
            target: Target::Namespace { netns: Netns::Own },
            knob: knob.into(),
            to,
        };
        let rmem = |most| change("net.ipv4.tcp_rmem", KnobValue::Triple([4096, 8192, most]));
        let name = |name: &str| change("congestion", KnobValue::Name(name.into()));
        let mut planned = Vec::new();
        for change in [
            rmem(1000),
            name("bbr"),
            rmem(3000),
            rmem(2000),
            name("reno"),
        ] {
            add(&mut planned, change);
        }
        assert_eq!(planned, [rmem(3000), name("bbr")]);
    }

    #[test]
    fn what_no_setting_helps_has_no_change() {
        let row = row(Vec::new());
        assert_eq!(row["change"], Value::Null);
        assert_eq!(row["live"], Value::Null);
    }
}
