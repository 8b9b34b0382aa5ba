//! A twin: a trial fitted to observations of a service before any change, in which changes can be
//! tried in virtual time.
//!
//! It never sees observations after a change. If it does not reproduce the observations, it
//! predicts nothing: see [`SelfCheck`].

mod arriving;
mod check;
mod draft;
mod fitting;
mod held;
mod hosts;
mod observables;
mod parallel;
mod traffic;

use std::time::Duration;

use base::{Change, Knob, KnobValue, Scope, Source};
use doctor::{Objective, Place, Services};
use lab::{End, SAMPLE_INTERVAL, Trial};
use serde::Serialize;

pub use self::check::{
    Compared, GOODPUT_TOLERANCE, MEAN_TOLERANCE, RESPONSE_TOLERANCE, RTT_TOLERANCE, SelfCheck,
};
pub(crate) use self::check::{ROUND_TRIP, TRANSFER_TIME};
use self::draft::{Draft, Times};
use self::fitting::{Fitted, fit, loss_of};
use self::hosts::{Hosts, end_of};
pub(crate) use self::observables::end_of as end_of_place;
pub use self::observables::{LostTogether, Observables, Way};
use self::parallel::each;
use crate::prediction::{Basis, Prediction, Range, Run};
use crate::subject::Look;

/// Seeds of the runs of a self-check and of a prediction.
const SEEDS: [u64; 3] = [21, 22, 23];
/// Seeds for paths with random loss.
const SEEDS_LOSSY: [u64; 10] = [21, 22, 23, 24, 25, 26, 27, 28, 29, 30];
/// A connection is warmed up no longer than this, or than so many round trips, in which a window
/// grows to what it may be.
const WARM_UP_MAX: Duration = Duration::from_secs(6);
const WARM_UP_RTTS_MAX: f64 = 20.0;
const WARM_UP_MIN: Duration = Duration::from_millis(300);
/// Nor is it looked at longer.
const LOOK_MAX: Duration = Duration::from_secs(3);
/// Longest look where operations or losses are rare.
const LOOK_RARE_MAX: Duration = Duration::from_secs(10);
/// Fewer operations per second are rare.
const RARE_PER_S: f64 = 5.0;
/// With a change, this many times as much may be carried.
const FASTER_MAX: f64 = 20.0;
/// Factor on the rate of a window bounded by losses, up to which a path is tried.
const LOSING_FACTOR: f64 = 2.0;
/// Above this share of segments that arrived out of order the path reorders, which no twin does.
const REORDERED_SHARE: f64 = 0.002;
/// Packets of all runs of a prediction, each way: about a second.
const PACKETS_MAX: f64 = 1_000_000.0;
/// Times in a run: to the first look, that look, to the second one, and it.
const PHASES: f64 = 4.0;
/// Looks that are shorter by this factor than they were to be are told of.
const SHORTENED: u32 = 2;
/// Least segments for a twin.
const SEGMENTS_MIN: f64 = 10.0;

/// Why there is no twin, or why it does not predict.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "why", content = "what", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NoPrediction {
    /// No connection was seen.
    NoConnection,
    /// Almost no payload was carried.
    Silent,
    /// The workload could not be inferred.
    Traffic,
    /// No round-trip time was seen.
    RoundTrip,
    /// Too much traffic to simulate within the time of a prediction.
    TooMuch,
    /// No path that was tried carries anything like what was seen.
    NoPath,
    /// Packets are reordered.
    Reordering,
    /// The program's writes are hidden by the cork that the change takes away.
    Pieces,
    /// The change is made at an end that was not seen.
    FarEnd,
    /// A setting that tcptailor's own TCP does not have.
    Knob(String),
    /// The connection was seen in packets only, which do not show what this setting is.
    NotInPackets(String),
    /// The rate of the path is unknown, and the change depends on it.
    PathRate {
        /// In bit/s, payload.
        at_least_bps: f64,
    },
    /// The twin does not reproduce the observations.
    SelfCheck(SelfCheck),
}

impl core::fmt::Display for NoPrediction {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoConnection => f.write_str("no connection was seen"),
            Self::Silent => f.write_str("too little traffic to tell how the path behaves"),
            Self::Traffic => f.write_str("the traffic pattern of the programs is unknown"),
            Self::TooMuch => f.write_str("too much traffic to simulate in time"),
            Self::RoundTrip => f.write_str("the round-trip time is unknown"),
            Self::NoPath => f.write_str("no simulated path carries anything like it"),
            Self::Reordering => {
                f.write_str("the path reorders packets, which the twin does not model")
            }
            Self::Pieces => f.write_str(
                "the cork hides how many writes make up a message, and Nagle's algorithm may \
                 delay some of them",
            ),
            Self::FarEnd => f.write_str("it is set at the far end, which was not observed"),
            Self::Knob(knob) => write!(
                f,
                "{knob}: the simulated TCP has no such setting or value; only a kernel may"
            ),
            Self::NotInPackets(knob) => write!(
                f,
                "packets do not show how {knob} is set there now; predict from a recording of that \
                 end (`tcptailor record -o FILE`)"
            ),
            Self::PathRate { at_least_bps } => write!(
                f,
                "the rate of the path is unknown (at least {}), and the effect of the change \
                 depends on it",
                base::human::bps(at_least_bps.round() as u64)
            ),
            Self::SelfCheck(check) => {
                f.write_str("the twin does not reproduce the measurement:")?;
                let off = check.compared.iter().filter(|compared| !compared.ok);
                for (at, compared) in off.enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(
                        f,
                        "{comma} {} is off by {}",
                        compared.what,
                        base::human::share(compared.error)
                    )?;
                }
                Ok(())
            }
        }
    }
}

impl core::error::Error for NoPrediction {}

impl NoPrediction {
    /// The kind of reason, for counting.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::NoConnection => "no connection",
            Self::Silent => "too little traffic",
            Self::Traffic => "traffic unknown",
            Self::RoundTrip => "round-trip time unknown",
            Self::TooMuch => "too much traffic",
            Self::NoPath => "no path fits",
            Self::Reordering => "reordering",
            Self::Pieces => "writes hidden by a cork",
            Self::FarEnd => "far end unknown",
            Self::Knob(_) => "only a kernel has the setting",
            Self::NotInPackets(_) => "setting unknown from packets",
            Self::PathRate { .. } => "rate of the path unknown",
            Self::SelfCheck(_) => "self-check failed",
        }
    }
}

/// How an effect will be measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// From a change on an open connection to the look.
    pub settle: Duration,
    /// From a new connection to the look.
    pub warm_up: Duration,
    /// How long the look lasts.
    pub look: Duration,
}

/// A setting of one end of a twin, or a change of it.
#[derive(Clone, Debug)]
pub struct Tweak {
    /// Which end.
    pub end: End,
    /// Which knob.
    pub knob: &'static Knob,
    /// The value.
    pub to: KnobValue,
}

impl Tweak {
    /// `nodelay = on`.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{} = {}", self.knob.name, self.knob.format(&self.to))
    }
}

/// A trial that behaves like the observed service.
#[derive(Clone, Debug)]
pub struct Twin {
    seen: Observables,
    times: Times,
    best: Draft,
    /// Paths that fit nearly as well.
    others: Vec<Draft>,
    check: SelfCheck,
    /// The rate of the path is known, and not only bounded.
    is_rate_known: bool,
    /// The look is from a packet capture, which shows few settings of sockets.
    is_of_packets: bool,
    /// Runs that the fitting took.
    runs: usize,
}

impl Twin {
    /// Fits one to the connections of `place`.
    ///
    /// # Errors
    /// Why there is none.
    pub fn of(look: &Look, place: Place) -> Result<Self, NoPrediction> {
        let seen = Observables::of(look, place).ok_or(NoPrediction::NoConnection)?;
        let pairs = observables::pairs(look, place);
        let carrying = observables::carrying(&pairs);
        let busiest = carrying.max_by_key(|pair| pair.here.samples.len());
        let main = busiest.ok_or(NoPrediction::NoConnection)?;
        check_enough(&seen)?;
        let workload = traffic::workload(&seen, main)?;
        let mut hosts = Hosts::seen(look, main, seen.here);
        hosts.note_acks(&seen, &workload);
        let draft = Draft {
            rate_bps: 1e9,
            rtt: seen.min_rtt.ok_or(NoPrediction::RoundTrip)?,
            queue_pkts: 1000.0,
            loss: [0.0; 2],
            in_a_row: seen.in_a_row(),
            mtu: mtu(&seen),
            hosts,
            held: [None; 2],
            workload,
            path: None,
        };
        let draft = Draft {
            loss: loss_of(seen.sender(), seen.lost_share, &draft.workload),
            ..draft
        };
        // Where operations are rare, or losses, all that was seen of them is needed.
        let is_rare = seen
            .measure
            .operations_per_s
            .is_some_and(|count| count < RARE_PER_S);
        let look_max = match is_rare || seen.lost_share > 0.0 {
            true => LOOK_RARE_MAX,
            false => LOOK_MAX,
        };
        let times = Times {
            warm_up: seen.age.clamp(WARM_UP_MIN, warm_up_max(draft.rtt)),
            look: seen.span.min(look_max),
            settle: Duration::ZERO,
            // Of messages nothing is compared that closer looks would show.
            interval: match seen.is_one_way() {
                true => seen.interval,
                false => seen.interval.max(SAMPLE_INTERVAL),
            },
            packets_max: Times::PACKETS_MAX,
        };
        let fits = fit(&draft, &seen, times)?;
        let others: Vec<Draft> = fits
            .others
            .into_iter()
            .map(|fitted: Fitted| fitted.draft)
            .collect();
        let mut twin = Self {
            seen,
            times,
            best: fits.best.draft,
            others,
            check: SelfCheck::default(),
            is_rate_known: fits.is_rate_known,
            is_of_packets: main
                .here
                .samples
                .last()
                .is_some_and(|sample| sample.source == Source::Capture),
            runs: fits.runs,
        };
        twin.check = twin.check_self();
        Ok(twin)
    }

    /// A twin of a known trial, with a look at it: nothing needs to be fitted.
    ///
    /// # Errors
    /// Where our stack does not have it, or nothing is carried.
    pub fn given(trial: &Trial, timing: Timing) -> Result<(Self, Look), NoPrediction> {
        let draft = Draft::given(trial);
        let times = Times {
            warm_up: timing.warm_up.min(warm_up_max(draft.rtt)),
            look: timing.look,
            settle: Duration::ZERO,
            interval: SAMPLE_INTERVAL,
            packets_max: Times::PACKETS_MAX,
        };
        let look = draft
            .look(trial.seed, times)
            .ok_or(NoPrediction::NoConnection)?;
        let first = look.here.flows.first().ok_or(NoPrediction::NoConnection)?;
        let place = Services::of(&look.here).place(first.key);
        let seen = Observables::of(&look, place).ok_or(NoPrediction::NoConnection)?;
        let twin = Self {
            check: SelfCheck::of(&seen, core::slice::from_ref(&seen), false),
            seen,
            times,
            best: draft,
            others: Vec::new(),
            is_rate_known: true,
            is_of_packets: false,
            runs: 1,
        };
        Ok((twin, look))
    }

    /// The observables that it was fitted to.
    #[must_use]
    pub const fn seen(&self) -> &Observables {
        &self.seen
    }

    /// How far it agrees with them.
    #[must_use]
    pub const fn self_check(&self) -> &SelfCheck {
        &self.check
    }

    /// The trial.
    #[must_use]
    pub fn trial(&self) -> Trial {
        self.best.trial(SEEDS[0])
    }

    /// The rates of the paths that fit, in bit/s.
    #[must_use]
    pub fn path_range(&self) -> Range {
        let rates = self.others.iter().map(|draft| draft.rate_bps);
        let value = self.best.rate_bps;
        Range {
            low: rates.clone().fold(value, f64::min),
            value,
            high: rates.fold(value, f64::max),
        }
    }

    /// Whether the path was given and not fitted.
    #[must_use]
    pub const fn is_given(&self) -> bool {
        self.best.path.is_some()
    }

    /// How many runs the fitting took.
    #[must_use]
    pub const fn runs(&self) -> usize {
        self.runs
    }

    /// Seeds of the runs of the best draft.
    fn seeds(&self) -> &'static [u64] {
        match self.best.loss == [0.0; 2] {
            true => &SEEDS,
            false => &SEEDS_LOSSY,
        }
    }

    fn check_self(&self) -> SelfCheck {
        let times = self
            .times
            .bounded_loosely(self.seen.events_per_s(), self.best.rtt);
        let from = (self.seen.here, self.seen.both_ends);
        let looks = each(self.seeds(), |seed| {
            self.best.run(*seed, times, from, &[])?.into_iter().next()
        });
        let looks: Vec<Observables> = looks.into_iter().flatten().collect();
        SelfCheck::of(&self.seen, &looks, self.best.held != [None; 2])
    }

    /// `changes` as they are made in a twin of `look`.
    ///
    /// # Errors
    /// Where one of them is made elsewhere, or is not known.
    pub fn tweaks(
        look: &Look,
        place: Place,
        changes: &[Change],
    ) -> Result<Vec<Tweak>, NoPrediction> {
        let here = observables::end_of(place);
        let tweak = |change: &Change| {
            let unknown = |_| NoPrediction::Knob(change.knob.clone());
            Ok(Tweak {
                end: end_of(look, here, &change.target)?,
                knob: base::find_knob(&change.knob).map_err(unknown)?,
                to: change.to.clone(),
            })
        };
        changes.iter().map(tweak).collect()
    }

    /// Predicts the effect of `tweaks`. `on_new`: the effect is measured on connections opened
    /// after them.
    ///
    /// # Errors
    /// Why that is not known.
    pub fn predict(
        &self,
        tweaks: &[Tweak],
        objective: Objective,
        (on_new, timing): (bool, Timing),
    ) -> Result<Prediction, NoPrediction> {
        self.check_may_tell(tweaks)?;
        let others = self.others.iter().map(|draft| (draft, SEEDS[0]));
        let seeds = self.seeds().iter();
        let all: Vec<(&Draft, u64)> = seeds
            .map(|seed| (&self.best, *seed))
            .chain(others)
            .collect();
        let packets_max = PACKETS_MAX / (all.len() as f64 * PHASES);
        let runs = each(&all, |(draft, seed)| {
            let how = (on_new, timing, packets_max);
            let (before, after) = self.try_out(draft, tweaks, how, *seed)?;
            Some(Run {
                before,
                after,
                is_best: **draft == self.best,
            })
        });
        let knob = || tweaks.first().map_or("nothing", |tweak| tweak.knob.name);
        let runs: Option<Vec<Run>> = runs.into_iter().collect();
        let runs = runs.ok_or_else(|| NoPrediction::Knob(knob().to_owned()))?;
        let of_best = runs.iter().filter(|run| run.is_best);
        let of_best: Vec<Observables> = of_best.map(|run| run.before.clone()).collect();
        let check = self.check.with_metric(objective, (&self.seen, &of_best));
        if !check.holds() {
            return Err(NoPrediction::SelfCheck(check));
        }
        let wanted = timing.look.min(self.times.look);
        let basis = Basis {
            shortened: runs.iter().any(|run| run.after.span * SHORTENED < wanted),
            seen: &self.seen,
            runs: &runs,
            check: &check,
            path_bps: self.path_range(),
            operations_bytes: traffic::bytes_at_once(&self.best.workload),
        };
        let prediction = Prediction::of(objective, &basis);
        let prediction = prediction.ok_or(NoPrediction::Traffic)?;
        let is_bound = prediction.is_bound_by_path();
        if self.seen.is_one_way()
            && (is_bound && !self.is_rate_known || prediction.goodput_bps.is_none())
        {
            return Err(NoPrediction::PathRate {
                at_least_bps: self.seen.at_least_bps(),
            });
        }
        Ok(prediction)
    }

    /// Whether the effect of `tweaks` can be known at all.
    fn check_may_tell(&self, tweaks: &[Tweak]) -> Result<(), NoPrediction> {
        if !self.check.holds() {
            return Err(NoPrediction::SelfCheck(self.check.clone()));
        }
        let is_far = |tweak: &Tweak| tweak.end != self.seen.here;
        let shows = |tweak: &Tweak| !is_far(tweak) && hosts::shows_in_packets(tweak.knob);
        if self.is_of_packets
            && let Some(tweak) = tweaks.iter().find(|tweak| !shows(tweak))
        {
            return Err(NoPrediction::NotInPackets(tweak.knob.name.to_owned()));
        }
        if !self.seen.both_ends && tweaks.iter().any(is_far) {
            return Err(NoPrediction::FarEnd);
        }
        // What waits and is dropped before an interface of a host does not show in its sockets.
        let is_queue = |tweak: &&Tweak| {
            tweak.knob.scope == Scope::Qdisc || tweak.knob.name == "link.txqueuelen"
        };
        if let Some(tweak) = tweaks.iter().find(is_queue) {
            return Err(NoPrediction::Knob(tweak.knob.name.to_owned()));
        }
        if tweaks.iter().any(|tweak| self.is_behind_a_cork(tweak)) {
            return Err(NoPrediction::Pieces);
        }
        Ok(())
    }

    /// Whether a cork is taken away that hid in how many pieces the program writes, and Nagle's
    /// algorithm would wait between them.
    fn is_behind_a_cork(&self, tweak: &Tweak) -> bool {
        let settings = self.best.hosts.settings(tweak.end);
        let has_nagle = settings.get("nodelay") != Some(&KnobValue::Flag(true));
        tweak.knob.name == "cork" && tweak.to == KnobValue::Flag(false) && has_nagle
    }

    /// Segments per second that losses by chance allow at most, about: a window of
    /// `sqrt(1.5 / loss)` segments a round trip (Mathis and others, 1997), where those in a row are
    /// one loss; CUBIC exceeds it on long paths.
    fn losing_events_per_s(&self, draft: &Draft) -> f64 {
        let [up, down] = draft.loss;
        let window = (1.5 * draft.in_a_row.max(1.0) / up.max(down)).sqrt();
        LOSING_FACTOR * window * self.seen.connections.max(1) as f64 / draft.rtt
    }

    /// One run without and one with `tweaks`; `None` where our stack does not have one of them.
    fn try_out(
        &self,
        draft: &Draft,
        tweaks: &[Tweak],
        (on_new, timing, packets_max): (bool, Timing, f64),
        seed: u64,
    ) -> Option<(Observables, Observables)> {
        let from = (self.seen.here, self.seen.both_ends);
        let events = self.seen.events_per_s();
        // A bulk transfer may come to fill the path, if its losses let it.
        let full = draft.rate_bps / 8.0 / draft.mtu as f64;
        let most = match tweaks.iter().any(|tweak| tweak.knob.name == "congestion") {
            true => full,
            false => full.min(self.losing_events_per_s(draft)),
        };
        let fast = match self.seen.is_one_way() {
            true => events.max(most.min(events * FASTER_MAX)),
            false => events * 2.0,
        };
        // Close looks show the rate of a path, which is known by now.
        let before = Times {
            look: timing.look.min(self.times.look),
            interval: self.times.interval.max(SAMPLE_INTERVAL),
            packets_max,
            ..self.times
        };
        if !on_new {
            let times = Times {
                settle: timing.settle.min(WARM_UP_MAX),
                ..before
            };
            let times = times.bounded_for_change(fast, draft.rtt);
            let mut looks = draft.run(seed, times, from, tweaks)?.into_iter();
            return looks.next().zip(looks.next());
        }
        let after = Times {
            warm_up: timing.warm_up.min(warm_up_max(draft.rtt)),
            ..before
        };
        let mut changed = draft.clone();
        tweaks.iter().for_each(|tweak| changed.hosts.tweak(tweak));
        if !changed.is_possible(tweaks) {
            return None;
        }
        let first = |draft: &Draft, times: Times, events_per_s: f64| {
            let times = times.bounded_for_change(events_per_s, draft.rtt);
            draft.run(seed, times, from, &[])?.into_iter().next()
        };
        first(draft, before, events).zip(first(&changed, after, fast))
    }
}

fn warm_up_max(rtt: f64) -> Duration {
    WARM_UP_MAX.max(Duration::from_secs_f64(WARM_UP_RTTS_MAX * rtt))
}

fn check_enough(seen: &Observables) -> Result<(), NoPrediction> {
    let segments = (seen.up.segments_per_s + seen.down.segments_per_s) * seen.span.as_secs_f64();
    if segments < SEGMENTS_MIN {
        return Err(NoPrediction::Silent);
    }
    if seen.reordered_share > REORDERED_SHARE {
        return Err(NoPrediction::Reordering);
    }
    Ok(())
}

/// From the payload of a segment, with headers and timestamps.
fn mtu(seen: &Observables) -> u64 {
    (seen.mss_bytes as u64 + 52).clamp(576, 65_535)
}

#[cfg(test)]
mod tests;
