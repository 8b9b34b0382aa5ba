//! A trial with its path in numbers that can be varied, and its runs in virtual time.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base::settings::Held;
use base::{Bytes, QueueLimit, Rate, Scope};
use doctor::Place;
use lab::app::LAB_PORT;
use lab::{End, HostSpec, PathSpec, SAMPLE_INTERVAL, Trial, Virtual, VirtualTarget, Workload};

use super::Tweak;
use super::hosts::Hosts;
use super::observables::{Observables, fraction};
use crate::simulated::{Simulated, SimulatedError};
use crate::subject::{Look, Subject};

/// Approximate packets of a run: a prediction may take less than two seconds, for some sixty runs.
const PACKETS_MAX: f64 = 15_000.0;
/// This many times as many in a run with a change, of which there are few.
const CHANGE_FACTOR: f64 = 6.0;
/// No look at a twin is shorter: this many round trips, and this time.
const LOOK_MIN: Duration = Duration::from_millis(400);
const LOOK_RTTS_MIN: f64 = 30.0;

/// Parameters varied by the fit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Draft {
    /// In bit/s, both ways.
    pub(super) rate_bps: f64,
    /// When the queues are empty, in seconds.
    pub(super) rtt: f64,
    /// In front of the wire, in packets of the MTU.
    pub(super) queue_pkts: f64,
    /// Loss from client to server, and back.
    pub(super) loss: [f64; 2],
    /// How many of them are lost in a row, on average; 1: each by itself.
    pub(super) in_a_row: f64,
    pub(super) mtu: u64,
    pub(super) hosts: Hosts,
    /// What the programs of client and server keep in their send buffers.
    pub(super) held: [Option<Held>; 2],
    pub(super) workload: Workload,
    /// In place of the numbers above, where the path was given and not fitted.
    pub(super) path: Option<PathSpec>,
}

/// When a twin is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    /// From the start to the look.
    pub(super) warm_up: Duration,
    pub(super) look: Duration,
    /// From a change to the look at its effect.
    pub(super) settle: Duration,
    /// Mean distance of the samples of a look.
    pub(super) interval: Duration,
    /// Packets of each of these times at most, which are cut short where more would pass: how many
    /// a change lets pass is only known when it is made.
    pub(super) packets_max: f64,
}

impl Times {
    /// Where a run is one of few.
    pub(super) const PACKETS_MAX: f64 = CHANGE_FACTOR * PACKETS_MAX;

    /// The look at a twin that passes so many packets per second: no shorter than some round trips
    /// and samples.
    fn look_at(self, packets_per_s: f64, rtt: f64) -> Duration {
        let least =
            Duration::from_secs_f64(LOOK_RTTS_MIN * rtt).max(self.interval * LOOK_SAMPLES_MIN);
        let most = Duration::try_from_secs_f64(self.packets_max / packets_per_s.max(1e-9));
        self.look.min(most.unwrap_or(Duration::MAX).max(least))
    }

    /// The same, shortened where so much would be sent that it takes long.
    pub(super) fn bounded(self, events_per_s: f64, rtt: f64) -> Self {
        self.bounded_by(PACKETS_MAX, events_per_s, rtt)
    }

    /// The same for one of few runs.
    pub(super) fn bounded_loosely(self, events_per_s: f64, rtt: f64) -> Self {
        self.bounded_by(2.0 * PACKETS_MAX, events_per_s, rtt)
    }

    /// The same for the runs of a prediction: what follows from a change may take all of its look.
    pub(super) fn bounded_for_change(self, events_per_s: f64, rtt: f64) -> Self {
        self.bounded_by(CHANGE_FACTOR * PACKETS_MAX, events_per_s, rtt)
    }

    fn bounded_by(self, packets_max: f64, events_per_s: f64, rtt: f64) -> Self {
        // What follows from a change takes its time.
        let budget = packets_max / events_per_s.max(1e-9) - self.settle.as_secs_f64();
        let budget = budget.max(LOOK_MIN.as_secs_f64());
        let all = (self.warm_up + self.look).as_secs_f64();
        if all <= budget {
            return self;
        }
        let rtts = Duration::from_secs_f64(LOOK_RTTS_MIN * rtt);
        let shrink = |time: Duration| {
            let least = LOOK_MIN
                .max(rtts)
                .min(time)
                .min(Duration::from_secs_f64(budget));
            time.mul_f64(budget / all).max(least)
        };
        Self {
            warm_up: shrink(self.warm_up),
            look: shrink(self.look),
            ..self
        }
    }
}

/// Nor has it fewer samples.
const LOOK_SAMPLES_MIN: u32 = 3;
/// How often a run is asked whether it carries too much.
const SLICES: u32 = 10;
/// Shows how much a change lets pass.
const SETTLE_MIN: Duration = Duration::from_millis(1);
/// The first of these times is this part of all.
const FIRST_SLICE: u32 = 1000;

/// Bits on the wire of a handshake, both ways: two headers with all options.
const HANDSHAKE_BITS: f64 = 2.0 * 60.0 * 8.0;

impl Draft {
    /// The same at another rate, with the same round-trip time of the shortest packets.
    pub(super) fn at_rate(&self, rate_bps: f64) -> Self {
        let wire = HANDSHAKE_BITS / self.rate_bps - HANDSHAKE_BITS / rate_bps;
        Self {
            rate_bps,
            rtt: (self.rtt + wire).max(1e-6),
            ..self.clone()
        }
    }

    pub(super) fn trial(&self, seed: u64) -> Trial {
        let rate = Rate::from_bits_per_second(self.rate_bps.max(1.0) as u64);
        let queue = QueueLimit::Packets(self.queue_pkts.round().max(1.0) as u64);
        let rtt = Duration::from_secs_f64(self.rtt.max(0.0));
        let fitted = || {
            PathSpec::emulated(rate, rtt, queue)
                .without_overhead()
                .with_mtu(Bytes(self.mtu))
                .with_losses(self.loss.map(fraction), self.in_a_row)
        };
        let path = self.path.clone().unwrap_or_else(fitted);
        let host = |settings: &lab::Settings, held: Option<Held>| HostSpec {
            settings: settings.clone(),
            held,
            ..HostSpec::default()
        };
        let trial = Trial {
            path,
            client: host(&self.hosts.client, self.held[0]),
            server: host(&self.hosts.server, self.held[1]),
            workload: self.workload.clone(),
            seed,
        };
        trial.with_seed(seed)
    }

    /// A trial whose path is known.
    pub(super) fn given(trial: &Trial) -> Self {
        let (rate, mtu) = match &trial.path {
            PathSpec::Emulated { forward, mtu, .. } => (forward.rate, mtu.0),
            PathSpec::Veth { mtu } => (None, mtu.0),
            PathSpec::Loopback => (None, 65_535),
        };
        Self {
            rate_bps: rate.map_or(20e9, |rate| rate.bits_per_second() as f64),
            rtt: trial.path.rtt().as_secs_f64(),
            queue_pkts: 0.0,
            loss: [0.0; 2],
            in_a_row: 1.0,
            mtu,
            hosts: Hosts {
                client: trial.client.settings.clone(),
                server: trial.server.settings.clone(),
            },
            held: [trial.client.held, trial.server.held],
            workload: trial.workload.clone(),
            path: Some(trial.path.clone()),
        }
    }

    /// Whether our stack has these settings.
    pub(super) fn is_possible(&self, tweaks: &[Tweak]) -> bool {
        let refused = match Virtual::default().start(&self.trial(1)) {
            Ok(_) => return true,
            Err(refused) => refused,
        };
        refused.iter().all(|caveat| match caveat {
            lab::Caveat::SettingNotApplied { knob, .. } => {
                tweaks.iter().all(|tweak| tweak.knob.name != knob)
            }
            _ => true,
        })
    }

    /// The same as [`Draft::run`] without changes, where it carries no more than this many packets;
    /// `None` where it would carry more: it is far from what was seen, and takes long.
    pub(super) fn run_within(
        &self,
        seed: u64,
        times: Times,
        seen_from: (End, bool),
        packets_max: f64,
    ) -> Option<Observables> {
        let stop = AtomicBool::new(false);
        let times = Times {
            packets_max,
            ..times
        };
        let mut subject = self.start(seed, times, &stop)?;
        let passed = pass(&mut subject, times.warm_up, packets_max)?;
        if passed.is_cut {
            return None;
        }
        let time = times.look_at(passed.packets_per_s, self.rtt);
        look(&mut subject, time, seen_from)
    }

    /// Runs it and looks at both ends.
    pub(super) fn look(&self, seed: u64, times: Times) -> Option<Look> {
        let stop = AtomicBool::new(false);
        let mut subject = self.start(seed, times, &stop)?;
        subject.wait(times.warm_up).ok()?;
        subject.look(times.look).ok()
    }

    fn start<'s>(
        &self,
        seed: u64,
        times: Times,
        stop: &'s AtomicBool,
    ) -> Option<Simulated<'s, SimulatedError>> {
        let engine = Virtual::default();
        let mut trial = self.trial(seed);
        let session = match engine.start(&trial) {
            Ok(session) => session,
            Err(refused) => {
                leave_out(&mut trial, &refused);
                engine.start(&trial).ok()?
            }
        };
        let subject = Simulated::new(session, stop, Box::new(|_, _, _| ()));
        Some(subject.with_interval(times.interval))
    }

    /// Runs it, looks, makes changes where there are some, and looks again, at `here` and at the
    /// other end where `both_ends` says so.
    pub(super) fn run(
        &self,
        seed: u64,
        times: Times,
        seen_from: (End, bool),
        tweaks: &[Tweak],
    ) -> Option<Vec<Observables>> {
        let stop = AtomicBool::new(false);
        let mut subject = self.start(seed, times, &stop)?;
        let passed = pass(&mut subject, times.warm_up, times.packets_max)?;
        let time = times.look_at(passed.packets_per_s, self.rtt);
        let mut all = vec![look(&mut subject, time, seen_from)?];
        if !tweaks.is_empty() {
            for tweak in tweaks {
                make(&mut subject, tweak)?;
            }
            let settle = times.settle.max(SETTLE_MIN);
            let passed = pass(&mut subject, settle, times.packets_max)?;
            let time = times.look_at(passed.packets_per_s, self.rtt);
            all.push(look(&mut subject, time, seen_from)?);
        }
        Some(all)
    }
}

/// What passed while nothing was looked at.
struct Passed {
    /// In the last part of the time, both ways.
    packets_per_s: f64,
    /// It was cut short.
    is_cut: bool,
}

/// Lets `time` pass in slices, the first of them short, as long as no link carries more packets.
fn pass(
    subject: &mut Simulated<'_, SimulatedError>,
    time: Duration,
    packets_max: f64,
) -> Option<Passed> {
    let carried = |subject: &mut Simulated<'_, SimulatedError>| {
        let (forward, reverse) = subject.session().links();
        [forward.sent, reverse.sent]
    };
    let first = carried(subject);
    let mut passed = Passed {
        packets_per_s: 0.0,
        is_cut: false,
    };
    let (mut left, mut slice) = (time, time / FIRST_SLICE);
    while !left.is_zero() {
        let before = carried(subject);
        slice = slice.min(left);
        Subject::wait(subject, slice).ok()?;
        left -= slice;
        let now = carried(subject);
        let more: u64 = now.iter().sum::<u64>() - before.iter().sum::<u64>();
        passed.packets_per_s = more as f64 / slice.as_secs_f64();
        let most = (now[0] - first[0]).max(now[1] - first[1]);
        if most as f64 > packets_max {
            passed.is_cut = !left.is_zero();
            break;
        }
        slice = (slice * 2).min(time / SLICES);
    }
    Some(passed)
}

/// Settings that our stack does not have do not act in a twin.
fn leave_out(trial: &mut Trial, refused: &[lab::Caveat]) {
    for caveat in refused {
        if let lab::Caveat::SettingNotApplied { knob, .. } = caveat {
            trial.client.settings.remove(knob.as_str());
            trial.server.settings.remove(knob.as_str());
        }
    }
}

fn look(
    subject: &mut Simulated<'_, SimulatedError>,
    time: Duration,
    (here, both_ends): (End, bool),
) -> Option<Observables> {
    let look = subject.look(time).ok()?;
    let (there, there_netns) = look.there?;
    let (client, server) = ((look.here, look.netns), (there, there_netns));
    let (here_seen, there_seen) = match here {
        End::Client => (client, server),
        End::Server => (server, client),
    };
    let look = Look {
        measure: look.measure,
        here: here_seen.0,
        netns: here_seen.1,
        there: both_ends.then_some(there_seen),
        close: look.close,
        others: look.others,
    };
    let place = look.here.flows.first().map(|track| match here {
        End::Client => Place::Remote(track.key.remote),
        End::Server => Place::Listening(LAB_PORT),
    })?;
    Observables::of(&look, place)
}

fn make(subject: &mut Simulated<'_, SimulatedError>, tweak: &Tweak) -> Option<()> {
    let session = subject.session();
    let stop = AtomicBool::new(false);
    if tweak.knob.scope != Scope::Socket {
        let host = VirtualTarget::Host(tweak.end);
        return session.set(host, tweak.knob.name, &tweak.to).ok();
    }
    let look = session
        .look(
            (Duration::from_millis(1), SAMPLE_INTERVAL),
            &stop,
            &mut |_| (),
        )
        .ok()?;
    let flows = match tweak.end {
        End::Client => look.client.flows,
        End::Server => look.server.flows,
    };
    for flow in flows.iter().filter(|flow| !flow.ended) {
        let socket = VirtualTarget::Socket {
            end: tweak.end,
            cookie: flow.cookie,
        };
        session.set(socket, tweak.knob.name, &tweak.to).ok()?;
    }
    Some(())
}
