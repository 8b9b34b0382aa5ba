//! The settings of both ends, as far as their samples show them.

use base::{FlowSample, KNOBS, Knob, KnobValue, Scope, Target, find_knob};
use doctor::{Recording, Track};
use lab::{End, Settings, Workload, WriteMethod};

use super::observables::{Observables, Pair};
use super::{NoPrediction, Tweak};
use crate::subject::Look;

/// Settings not taken over: they are reported for single sockets by samples, or concern knowledge
/// of the path from other connections, which no twin has.
const NOT_TAKEN: &[&str] = &[
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_no_metrics_save",
];
/// The shortest time that Linux delays an ACK, in seconds.
const DELAYED_ACK_MIN: f64 = 0.04;
/// Congestion control of both engines for an end that was not observed.
const CONGESTION: &str = "cubic";

/// Settings of client and server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Hosts {
    pub(super) client: Settings,
    pub(super) server: Settings,
}

impl Hosts {
    pub(super) const fn of(&mut self, end: End) -> &mut Settings {
        match end {
            End::Client => &mut self.client,
            End::Server => &mut self.server,
        }
    }

    pub(super) const fn settings(&self, end: End) -> &Settings {
        match end {
            End::Client => &self.client,
            End::Server => &self.server,
        }
    }

    /// Settings as observed; an end that was not observed is Linux by default.
    pub(super) fn seen(look: &Look, main: &Pair<'_>, here: End) -> Self {
        let mut hosts = Self::default();
        take(hosts.of(here), &look.here, Some(main.here));
        match (&look.there, main.there) {
            (Some((recording, _)), track) => take(hosts.of(here.other()), recording, track),
            (None, _) => guess(hosts.of(here.other()), main.here),
        }
        hosts
    }

    /// With Nagle's algorithm the second write of a request waits for the ACK of the first one.
    /// Where it does not wait longer than the path takes, the server delays no ACK.
    pub(super) fn note_acks(&mut self, seen: &Observables, workload: &Workload) {
        let is_split = matches!(workload, Workload::WriteWriteRead { writes, method, .. }
            if *writes > 1 && *method == WriteMethod::Write);
        let sends_at_once = self.client.get("nodelay") == Some(&KnobValue::Flag(true));
        let times = seen.response().zip(seen.min_rtt);
        let is_prompt = times.is_some_and(|(response, rtt)| {
            response > 1.7 * rtt && response < 2.0 * rtt + DELAYED_ACK_MIN / 2.0
        });
        if is_split && !sends_at_once && is_prompt {
            put(&mut self.server, "route.quickack", KnobValue::Flag(true));
        }
    }

    /// The same with a change for connections that are opened after it.
    pub(super) fn tweak(&mut self, tweak: &Tweak) {
        set(self.of(tweak.end), tweak.knob, &tweak.to);
    }
}

/// Sets a knob of a host's sockets.
fn set(settings: &mut Settings, knob: &'static Knob, to: &KnobValue) {
    if let ("buf_lock", KnobValue::Number(lock)) = (knob.name, to) {
        // A size that was asked for is what locks a buffer.
        for (bit, sized) in [(1, "sndbuf"), (2, "rcvbuf")] {
            if lock & bit == 0 {
                settings.remove(sized);
            }
        }
        return;
    }
    if knob.name == "route.congctl" {
        // What was seen at the socket came from the route before, or from the sysctl.
        put(settings, "congestion", to.clone());
    }
    settings.insert(knob.name, to.clone());
}

/// Settings of a sender that its packets show: by what waits for what, by how much leaves at once,
/// and by the handshake. Where they matter, a twin that has others does not pass its self-check.
const IN_PACKETS: &[&str] = &[
    "nodelay",
    "mss",
    "route.initcwnd",
    "net.ipv4.tcp_slow_start_after_idle",
];

/// Whether packets show how a knob of their sender is set.
pub(super) fn shows_in_packets(knob: &Knob) -> bool {
    IN_PACKETS.contains(&knob.name)
}

/// The end at which a change is made.
pub(super) fn end_of(look: &Look, here: End, target: &Target) -> Result<End, NoPrediction> {
    let there = look.there.as_ref().map(|(_, netns)| netns);
    match target.netns() {
        netns if *netns == look.netns => Ok(here),
        netns if Some(netns) == there => Ok(here.other()),
        _ => Err(NoPrediction::FarEnd),
    }
}

fn take(settings: &mut Settings, recording: &Recording, track: Option<&Track>) {
    let sysctls = recording.hosts.last().map(|host| &host.sysctls);
    for knob in KNOBS.iter().filter(|knob| knob.scope >= Scope::Namespace) {
        let text = sysctls.and_then(|sysctls| sysctls.get(knob.name));
        let value = text.and_then(|text| knob.parse(&text.replace('\t', " ")).ok());
        if let Some(value) = value.filter(|_| !NOT_TAKEN.contains(&knob.name)) {
            settings.insert(knob.name, value);
        }
    }
    let Some(track) = track else {
        put(settings, "congestion", KnobValue::Name(CONGESTION.into()));
        return;
    };
    let mut looks: Vec<_> = track.samples.iter().collect();
    looks.reverse();
    let flag = |read: fn(&FlowSample) -> Option<bool>| looks.iter().find_map(|s| read(s));
    let number = |read: fn(&FlowSample) -> Option<u32>| looks.iter().find_map(|s| read(s));
    if flag(|s| s.nodelay) == Some(true) {
        put(settings, "nodelay", KnobValue::Flag(true));
    }
    let congestion = looks.iter().find_map(|s| s.congestion);
    let congestion = congestion.map_or_else(|| CONGESTION.to_owned(), |name| plain_name(&name));
    put(settings, "congestion", KnobValue::Name(congestion));
    // What the kernel tells is twice what was asked for (`sock_setsockopt`).
    if flag(|s| s.sndbuf_locked) == Some(true) {
        let half = number(|s| s.sndbuf_bytes).map(|bytes| u64::from(bytes / 2));
        half.into_iter()
            .for_each(|half| put(settings, "sndbuf", KnobValue::Number(half)));
    }
    if flag(|s| s.rcvbuf_locked) == Some(true) {
        let half = number(|s| s.rcvbuf_bytes).map(|bytes| u64::from(bytes / 2));
        half.into_iter()
            .for_each(|half| put(settings, "rcvbuf", KnobValue::Number(half)));
    }
    if let Some(bytes) = number(|s| s.notsent_lowat_bytes) {
        put(settings, "notsent_lowat", KnobValue::Number(bytes.into()));
    }
}

/// Infers the settings of an unobserved end from those agreed with the other.
fn guess(settings: &mut Settings, other: &Track) {
    put(settings, "congestion", KnobValue::Name(CONGESTION.into()));
    let Some(last) = other.samples.last() else {
        return;
    };
    let agreed = [
        ("net.ipv4.tcp_sack", last.sack),
        ("net.ipv4.tcp_timestamps", last.timestamps),
        ("net.ipv4.tcp_window_scaling", last.window_scaling),
    ];
    for (knob, agreed) in agreed {
        if agreed == Some(false) {
            put(settings, knob, KnobValue::Flag(false));
        }
    }
}

fn put(settings: &mut Settings, name: &str, value: KnobValue) {
    if let Ok(knob) = find_knob(name) {
        settings.insert(knob.name, value);
    }
}

/// Linux's name of a congestion control.
fn plain_name(name: &str) -> String {
    match name {
        "newreno" => "reno".into(),
        other => other.into(),
    }
}
