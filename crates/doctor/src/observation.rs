//! Input of the rules, and their answer.

use core::cell::OnceCell;
use core::time::Duration;

use base::FlowSample;

use crate::host_timeline::HostTimeline;
use crate::rules::loss::losses_come_together;
use crate::rules::thresholds::{
    INTERVAL_SLACK, MIN_INTERVAL, MIN_SAMPLES, ONE_WAY_SHARE, THINKING_CONNECTIONS,
};
use crate::rules::{self, Scope};
use crate::timeline::Timeline;
use crate::verdict::{Side, Verdict};
use crate::view::View;

/// Everything that was seen of one flow and around it, over the same interval.
///
/// `local` may be either end: the counters show the direction of the payload. What was not observed
/// is `None` or empty, which makes some verdicts less sure or impossible.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// The flow's socket on the host that was observed.
    pub local: &'a Timeline,
    /// The same flow's socket at the other end, if that was visible.
    pub remote: Option<&'a Timeline>,
    /// Other sockets of the observed host: open ones to the same host (for two one-way
    /// connections), and earlier short-lived ones of the same service (for the initial window).
    pub siblings: &'a [&'a Timeline],
    /// The same of the socket at the other end, on its host: of short-lived connections, since
    /// these are judged together.
    pub remote_siblings: &'a [&'a Timeline],
    /// The observed host (its network namespace).
    pub host: Option<&'a HostTimeline>,
    /// The host at the other end.
    pub remote_host: Option<&'a HostTimeline>,
    /// Name of the interface through which the observed host sends to the other one.
    pub interface: Option<&'a str>,
    /// The same of the host at the other end.
    pub remote_interface: Option<&'a str>,
    /// The process at the observed end has other connections that carry data, so that its CPU time
    /// is not for this one alone.
    pub shares_process: bool,
    /// Answers arrive on another connection between the same two hosts, of any process.
    pub hosts_answer_elsewhere: bool,
    /// How long other connections of the same service were watched that, each by itself, gave the
    /// same main verdict: several short ones show together what one long one does.
    pub seen_alike: Duration,
}

impl<'a> Observation<'a> {
    /// Observation of one socket alone.
    #[must_use]
    pub const fn of(local: &'a Timeline) -> Self {
        Self {
            local,
            remote: None,
            siblings: &[],
            remote_siblings: &[],
            host: None,
            remote_host: None,
            interface: None,
            remote_interface: None,
            shares_process: false,
            hosts_answer_elsewhere: false,
            seen_alike: Duration::ZERO,
        }
    }
}

/// The doctor's answer.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The main verdict first, notes after it. Empty if and only if `unknown` says why.
    pub verdicts: Vec<Verdict>,
    /// Why there is no verdict, and what would give one.
    pub unknown: Option<String>,
}

impl Report {
    /// The verdict on what limits the flow.
    #[must_use]
    pub fn main(&self) -> Option<&Verdict> {
        self.verdicts.first()
    }

    fn unknown(reason: impl Into<String>) -> Self {
        Self {
            verdicts: Vec::new(),
            unknown: Some(reason.into()),
        }
    }
}

/// Says what limited the flow in the observed interval.
///
/// The rules are evaluated from the view of the end that sent most of the payload; latency stalls
/// and dead paths are looked for in the other direction too, since a request of a few bytes can
/// hold up a response of many.
#[must_use]
pub fn diagnose(observation: &Observation<'_>) -> Report {
    let opening = rules::evaluate_opening(observation.local);
    if !opening.is_empty() {
        return Report {
            verdicts: opening,
            unknown: None,
        };
    }
    let broken = [Some(observation.local), observation.remote]
        .into_iter()
        .flatten()
        .find_map(Timeline::went_backwards);
    if let Some(counter) = broken {
        return Report::unknown(format!(
            "the data is not good: the counter {counter} went backwards; observe again"
        ));
    }
    let (main, minor) = views(observation);
    let enough = |view: &View<'_>| view.main_timeline().is_some_and(is_enough);
    let scope = if enough(&main) {
        Scope::All
    } else {
        // A connection may be shorter than any interval; earlier ones of its kind are used then.
        Scope::ShortLived
    };
    let mut verdicts = rules::evaluate(&main, scope);
    if enough(&minor) {
        let other = rules::evaluate(&minor, Scope::OtherDirection);
        verdicts = rules::prefer(verdicts, other);
        if verdicts.is_empty() && main.sender.is_none() && carries_as_much(&minor, &main) {
            verdicts = rules::evaluate(&minor, Scope::All);
        }
    }
    if verdicts.is_empty() {
        return Report::unknown(why_unknown(observation, &main, scope));
    }
    Report {
        verdicts,
        unknown: None,
    }
}

/// At least this part of what the other direction carries.
const AS_MUCH: f64 = 0.5;

/// Whether the one direction carries about as much as the other: which of them carries more is
/// chance then, so that a verdict on either is a verdict on the connection.
fn carries_as_much(one: &View<'_>, other: &View<'_>) -> bool {
    let bps = |view: &View<'_>| view.rate().map(|rate| rate.bits_per_second() as f64);
    bps(one)
        .zip(bps(other))
        .is_some_and(|(one, other)| one >= other * AS_MUCH)
}

/// Says what is wrong with a host as a whole: queues of its listeners, its memory.
#[must_use]
pub fn diagnose_host(host: &HostTimeline) -> Vec<Verdict> {
    rules::evaluate_host(host)
}

/// The view from the end that sends most, and the one from the other end.
fn views<'a>(observation: &Observation<'a>) -> (View<'a>, View<'a>) {
    let &Observation {
        local,
        remote,
        siblings,
        remote_siblings,
        host,
        remote_host,
        interface,
        remote_interface,
        shares_process,
        hosts_answer_elsewhere,
        seen_alike,
    } = observation;
    let forward = View {
        sender: Some(local),
        receiver: remote,
        siblings,
        sender_siblings: siblings,
        sender_host: host,
        receiver_host: remote_host,
        sender_interface: interface,
        shares_process,
        hosts_answer_elsewhere,
        seen_alike,
        sender_side: Side::Local,
        at_one_rate: OnceCell::new(),
        drops_at_one_rate: OnceCell::new(),
    };
    let reverse = View {
        sender: remote,
        receiver: Some(local),
        siblings,
        sender_siblings: remote_siblings,
        sender_host: remote_host,
        receiver_host: host,
        sender_interface: remote_interface,
        shares_process,
        hosts_answer_elsewhere,
        seen_alike,
        sender_side: Side::Remote,
        at_one_rate: OnceCell::new(),
        drops_at_one_rate: OnceCell::new(),
    };
    if local_sends_most(local, remote) {
        (forward, reverse)
    } else {
        (reverse, forward)
    }
}

/// The view from the end that sends most.
#[cfg(test)]
pub(crate) fn sender_view<'a>(observation: &Observation<'a>) -> View<'a> {
    views(observation).0
}

fn local_sends_most(local: &Timeline, remote: Option<&Timeline>) -> bool {
    let acked = |timeline: &Timeline| timeline.counted(|s| s.bytes_acked);
    let received = |timeline: &Timeline| timeline.counted(|s| s.bytes_received);
    let sent_here = acked(local).or(remote.and_then(received)).unwrap_or(0);
    let sent_there = received(local).or(remote.and_then(acked)).unwrap_or(0);
    if sent_here > 0 || sent_there > 0 {
        return sent_here >= sent_there;
    }
    // Nothing moves: unread data is received data, and the end that waits for ACKs is the sender.
    let unread = |timeline: &Timeline| timeline.latest(|s| s.unread_bytes).unwrap_or(0);
    match (unread(local), remote.map_or(0, unread)) {
        (0, 0) => {}
        (here, there) => return here < there,
    }
    let waiting = |timeline: &Timeline| timeline.latest(|s| s.unacked_pkts).unwrap_or(0);
    waiting(local) > 0 || remote.is_none_or(|remote| waiting(remote) == 0)
}

/// Whether enough of a connection was observed to judge it by itself.
pub(crate) fn is_enough(timeline: &Timeline) -> bool {
    timeline.looks() >= MIN_SAMPLES && timeline.interval() >= MIN_INTERVAL.mul_f64(INTERVAL_SLACK)
}

/// What is missing: samples, or, where there are enough of them, time.
fn too_little(samples: usize, interval: Duration) -> String {
    let least = MIN_INTERVAL.mul_f64(INTERVAL_SLACK).as_secs_f64();
    let seconds = interval.as_secs_f64();
    if samples < MIN_SAMPLES {
        return format!(
            "too few samples: {samples} in {seconds:.1} s; at least {MIN_SAMPLES} in {least:.1} s \
             are needed"
        );
    }
    format!("observed too briefly: {seconds:.2} s; at least {least:.1} s are needed")
}

/// What helps where too little was seen of a live connection.
pub const WATCH_LONGER: &str = "watch longer (-t 30s)";
/// Why nothing is known of a connection at its receiving end.
pub const SENDER_UNSEEN: &str = "this end mainly receives and its program reads promptly; what \
    limits the sender can only be seen at the other end";

fn why_unknown(observation: &Observation<'_>, main: &View<'_>, scope: Scope) -> String {
    let timeline = main.main_timeline().unwrap_or(observation.local);
    let is_short = |other: &&Timeline| !is_enough(other);
    let alike = observation.siblings.iter().copied().filter(is_short);
    if scope == Scope::ShortLived && alike.count() >= THINKING_CONNECTIONS {
        return format!(
            "each of these connections is too short to be judged alone ({} in {}), and \
             together they do not show what they wait for",
            base::human::count(timeline.looks() as u64, "sample"),
            base::human::time(timeline.interval()),
        );
    }
    if scope == Scope::ShortLived {
        return too_little(timeline.looks(), timeline.interval());
    }
    if main.sender.is_none() {
        return SENDER_UNSEEN.into();
    }
    if main.stops_and_goes() {
        return "the sender stops and goes, and packets do not show whether a send buffer or its \
                program holds it; watch its sockets"
            .into();
    }
    if main.fills_cwnd() && losses_come_together(main) {
        return "the congestion window is the limit, cut by losses of several segments at a time, \
                which a queue of a few packets, a policer and a bad link have in common; half a \
                minute captured at the sender tells, since what comes behind a drop has waited \
                longer if a queue was full"
            .into();
    }
    if main.fills_cwnd() && main.acks_pause() && main.window_offered().is_none() {
        return "the limit is the congestion window, the send buffer or the receiver's window, not \
                the path, which is idle between bursts; the SYN with the window scale was not \
                captured: capture a new connection, or look at the sockets (tcptailor diagnose \
                there)"
            .into();
    }
    if main.fills_cwnd() && main.acks_pause() {
        return "the limit is the sender's congestion window or send buffer, not the path, which \
                is idle between bursts; look at the sender (tcptailor diagnose there)"
            .into();
    }
    if main.fills_cwnd() {
        return format!(
            "the congestion window is the limit, and no queue and no regular loss shows that the \
             path is full; {WATCH_LONGER}, or at the other end too"
        );
    }
    format!(
        "the flow shows the signs of several limits or of none; {WATCH_LONGER}, and at the other \
         end too"
    )
}

/// Whether payload goes (nearly) only away from the sampled end (`Some(true)`), only towards it
/// (`Some(false)`), or both ways or not at all (`None`). An answer may be a single byte, so that
/// segments count as well as bytes where they are known.
pub(crate) fn only_sends(timeline: &Timeline) -> Option<bool> {
    let count = |read: fn(&FlowSample) -> Option<u64>| timeline.counted(read);
    let bytes = one_way(count(|s| s.bytes_acked)?, count(|s| s.bytes_received)?)?;
    match (count(|s| s.data_segs_out), count(|s| s.data_segs_in)) {
        (Some(sent), Some(received)) => {
            one_way(sent, received).filter(|by_segments| *by_segments == bytes)
        }
        _ => Some(bytes),
    }
}

fn one_way(sent: u64, received: u64) -> Option<bool> {
    let (sent, received) = (sent as f64, received as f64);
    if sent > 0.0 && received <= sent * ONE_WAY_SHARE {
        Some(true)
    } else if received > 0.0 && sent <= received * ONE_WAY_SHARE {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let few = too_little(5, Duration::from_secs(2));
        assert_eq!(
            few,
            "too few samples: 5 in 2.0 s; at least 20 in 0.8 s are needed"
        );
        let brief = too_little(22, Duration::from_millis(600));
        assert_eq!(
            brief,
            "observed too briefly: 0.60 s; at least 0.8 s are needed"
        );
    }
}
