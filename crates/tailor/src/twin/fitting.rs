//! Fitting a twin: its path is varied until it reproduces the observations.

use std::time::Duration;

use base::Bytes;
use lab::{End, Workload};

use super::NoPrediction;
use super::draft::{Draft, Times};
use super::observables::{HEADERS_BYTES, Observables};
use super::parallel::each;

/// Seeds of the runs that a path is chosen by; those of predictions are others.
const SEEDS: [u64; SEEDS_MAX] = [11, 12, 13, 14, 15, 16];
/// So many for the paths between which chance decides.
const SEEDS_MAX: usize = 6;
/// Packets of all runs, and what setting one up takes, as packets: less than
/// a second, about.
pub(super) const PACKETS_MAX: f64 = 800_000.0;
/// The same where chance decides of losses, so that each path takes several runs.
const PACKETS_MAX_LOSSY: f64 = 2.0 * PACKETS_MAX;
pub(super) const RUN_COSTS: f64 = 1000.0;
/// Small messages tell a slow path from hosts that have other work to do only by little, and few
/// paths are slower than this; each factor of e below it has to be worth this many units.
const SLOW_BPS: f64 = 100e6;
const SLOW_WEIGHT: f64 = 0.8;
/// A run that carries this many times what was seen, and this beside it, is far off.
const CARRIED_FACTOR: f64 = 2.5;
const CARRIED_MIN: f64 = 3000.0;
/// Rates that are tried, each this many times the one before.
const RATE_STEP: f64 = 1.4;
/// Step of the rate for messages, whose responses tell little of it.
const RATE_STEP_MESSAGES: f64 = 2.0;
/// Above this many times what was carried, how fast the path is does not show.
const RATE_FACTOR_MAX: f64 = 60.0;
const RATE_MAX_BPS: f64 = 12e9;
const RATE_MIN_BPS: f64 = 500e3;
/// Around the best one, in rounds: this many steps down and up.
const NEARER: [(f64, i32); 2] = [(1.08, 4), (1.02, 2)];
/// The same where packets are lost by chance, which leaves no more to be found.
const NEARER_LOSSY: [(f64, i32); 1] = [(1.15, 2)];
/// Rates that differ by this factor are looked around separately, where one fits worse than the
/// other by no more than that.
const BASIN_FACTOR: f64 = 1.5;
const BASIN_DISTANCE: f64 = 15.0;
/// A path that fits worse by no more than this is as plausible: three units of what two looks at
/// one connection differ by, squared.
const PLAUSIBLE: f64 = 9.0;
/// The same where chance decides of losses: two units, of one parameter, since the units have that
/// chance in them.
const PLAUSIBLE_LOSSY: f64 = 4.0;
/// One in each of the numbers that are compared.
const GOOD_DISTANCE: f64 = 6.0;
/// Queue size, in bandwidth-delay products, where none was seen to overflow.
const QUEUE_BDPS: f64 = 1.0;
/// Noise that hosts and an emulator add to a round-trip time.
const TIME_NOISE: f64 = 60e-6;
/// Looks at a connection with losses differ by so much more, squared.
const LOSS_VARIANCE: f64 = 5.0;
/// How much two looks at one connection differ in [`Observables::lost_together`], as a share, if
/// there are many losses.
const TOGETHER_NOISE: f64 = 0.1;
/// How much two looks at one connection differ in [`Observables::swing`].
const SWING_NOISE: f64 = 0.03;
/// The same as a share of it where losses keep the window from being as large at one time as at
/// another.
const SWING_NOISE_LOSSY: f64 = 0.2;
/// A response that takes so much longer than a round trip waits for a timer, and what such a timer
/// may be late by, in seconds.
const STALL: f64 = 0.035;
const TICK: f64 = 0.006;
/// Write sizes of a program that writes at a pace.
const WRITE_SIZES: [u64; 4] = [1448, 5000, 16_384, 65_536];
/// Queue sizes tried where blocks overflow a queue: samples between them do not show its length.
const BURST_QUEUES_PKTS: [f64; 8] = [20.0, 35.0, 50.0, 75.0, 110.0, 160.0, 250.0, 400.0];
/// A path is taken to be full where congestion control is the limit for this much of the time, so
/// many packets stand in the queue, and a twin is at most three units off in each of three numbers.
const FULL_CONGESTION_SHARE: f64 = 0.6;
const FULL_QUEUE_PKTS: f64 = 2.5;
const FULL_DISTANCE: f64 = 27.0;
/// Where packets are lost, a queue of this many can have dropped them.
const LOSING_QUEUE_PKTS: f64 = 12.0;
/// Nor is the rate of its path more than this many times what was carried.
const OVERFLOW_FACTOR_MAX: f64 = 4.0;
/// A queue that drops packets is at least this long.
const STOOD_MIN_PKTS: f64 = 8.0;
/// The rate of a link that trains show, and what it may be off by, as a share.
pub(super) const LINK_STEPS: [f64; 5] = [1.0, 0.95, 0.975, 1.025, 1.05];
const LINK_NOISE: f64 = 0.03;
const LINK_LOOSER: f64 = 5.0;
/// To the time of a message, for which programs are woken.
const MESSAGE_NOISE: f64 = 120e-6;
/// No router has a shorter queue.
const QUEUE_MIN_PKTS: f64 = 20.0;

/// A draft with its distance to what was seen.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    pub(super) draft: Draft,
    pub(super) distance: f64,
    /// What it was worse by beforehand; part of the distance.
    pub(super) prior: f64,
    /// Runs that this is of.
    pub(super) seeds: usize,
}

/// Parameters that fit.
#[derive(Clone, Debug)]
pub(super) struct Fits {
    pub(super) best: Fitted,
    /// Others that fit nearly as well, as different from each other as they can be.
    pub(super) others: Vec<Fitted>,
    /// The rate is that of a path that was full, or that trains showed, or none that is much faster
    /// fits.
    pub(super) is_rate_known: bool,
    pub(super) runs: usize,
}

pub(super) struct Search<'s> {
    pub(super) seen: &'s Observables,
    times: Times,
    pub(super) tried: Vec<Fitted>,
    pub(super) runs: usize,
    pub(super) seeds: usize,
    /// Packets of all runs so far, estimated; but for those of a full path that did not fit.
    packets: f64,
    /// Drafts that are to be tried, with what they are worse by beforehand.
    waiting: Vec<(Draft, f64)>,
    /// There was no room for a run.
    is_spent: bool,
    /// Runs may take longer, since they are few.
    is_loose: bool,
    /// The rate of the link, where it showed and matters.
    pub(super) link_bps: Option<f64>,
    /// See [`Fits::is_rate_known`].
    pub(super) is_rate_known: bool,
}

/// Varies the path of `draft`; an error where that would take too long, or no path carries anything
/// like what was seen.
pub(super) fn fit(draft: &Draft, seen: &Observables, times: Times) -> Result<Fits, NoPrediction> {
    // Losses by chance make a run differ from the next.
    let seeds = match (seen.lost_share > 0.0, seen.is_one_way()) {
        (true, _) => 3,
        (false, true) => 2,
        (false, false) => 1,
    };
    let mut search = Search {
        seen,
        times,
        tried: Vec::new(),
        runs: 0,
        seeds,
        packets: 0.0,
        waiting: Vec::new(),
        is_spent: false,
        is_loose: false,
        is_rate_known: false,
        link_bps: seen.link_bps(),
    };
    let draft = search.with_rtt(draft);
    let draft = search.with_writes(draft);
    if search.is_full(&draft) {
        search.is_rate_known = true;
        return search.found();
    }
    if search.holds_buffer(&draft) {
        return search.found();
    }
    if let Some(link) = search.link_bps {
        for step in LINK_STEPS {
            search.try_rate(&draft, link * step);
        }
        search.run_all();
        search.try_losses();
        search.is_rate_known = true;
        return search.found();
    }
    search.seeds = 1;
    for rate in rates(seen) {
        search.try_rate(&draft, rate);
    }
    // Before the first of them is run: some rates alone tell nothing.
    if search.is_spent {
        return Err(NoPrediction::TooMuch);
    }
    search.run_all();
    search.seeds = seeds;
    let rounds: &[_] = match seen.loses_by_chance() {
        true => &NEARER_LOSSY,
        false => &NEARER,
    };
    let mut around = search.basins();
    for (step, count) in rounds {
        for draft in &around {
            search.try_around(draft, *step, *count);
        }
        search.run_all();
        around = search.best().map(|best| best.draft).into_iter().collect();
    }
    search.try_mean();
    search.try_queues();
    search.try_losses();
    search.try_ends();
    // A path that is slower than what it carried there is not; that no faster one fits shows.
    let most = rates(seen).last().copied().unwrap_or(RATE_MAX_BPS);
    search.is_rate_known = search.is_below(most);
    search.found()
}

/// Rates from the carried one upwards.
pub(super) fn rates(seen: &Observables) -> Vec<f64> {
    let wire = 1.0 + HEADERS_BYTES / seen.mss_bytes;
    let carried = seen.up.bps.max(seen.down.bps) * wire;
    let (step, most) = match seen.is_one_way() {
        true => (RATE_STEP, carried * RATE_FACTOR_MAX),
        false => (RATE_STEP_MESSAGES, RATE_MAX_BPS),
    };
    let mut rates = Vec::new();
    let mut rate = carried.max(RATE_MIN_BPS);
    while rate < most.clamp(20.0 * RATE_MIN_BPS, RATE_MAX_BPS) {
        rates.push(rate);
        rate *= step;
    }
    rates
}

impl Search<'_> {
    pub(super) fn best(&self) -> Option<Fitted> {
        let best = self
            .tried
            .iter()
            .min_by(|a, b| a.distance.total_cmp(&b.distance));
        best.cloned()
    }

    /// Whether there is room for the runs of one draft.
    fn affords(&mut self, draft: &Draft) -> bool {
        let costs = (self.events_in(self.times_of(draft)) + RUN_COSTS) * self.seeds as f64;
        let most = match self.seen.loses_by_chance() {
            true => PACKETS_MAX_LOSSY,
            false => PACKETS_MAX,
        };
        self.is_spent |= self.packets + costs > most;
        if !self.is_spent {
            self.packets += costs;
            self.runs += self.seeds;
        }
        !self.is_spent
    }

    pub(super) fn times_of(&self, draft: &Draft) -> Times {
        let events = self.seen.events_per_s();
        match self.is_loose {
            true => self.times.bounded_loosely(events, draft.rtt),
            false => self.times.bounded(events, draft.rtt),
        }
    }

    pub(super) fn events_in(&self, times: Times) -> f64 {
        self.seen.events_per_s() * (times.warm_up + times.look).as_secs_f64()
    }

    pub(super) fn run(&self, draft: &Draft) -> Vec<Observables> {
        let times = self.times_of(draft);
        let from = (self.seen.here, self.seen.both_ends);
        let packets_max = self.events_in(times) * CARRIED_FACTOR + CARRIED_MIN;
        let run = |seed: &u64| draft.run_within(*seed, times, from, packets_max);
        // Where the first run is far off, so are the others.
        let Some(first) = run(&SEEDS[0]) else {
            return Vec::new();
        };
        let others = SEEDS[1..self.seeds].iter().filter_map(run);
        core::iter::once(first).chain(others).collect()
    }

    /// To be tried by [`Search::run_all`].
    fn try_one(&mut self, draft: Draft, prior: f64) {
        if self.affords(&draft) {
            self.waiting.push((draft, prior));
        }
    }

    /// Runs what is to be tried.
    fn run_all(&mut self) {
        let waiting = core::mem::take(&mut self.waiting);
        let seen = each(&waiting, |(draft, _)| likely(self.seen, &self.run(draft)));
        for ((draft, prior), distance) in waiting.into_iter().zip(seen) {
            if let Some(distance) = distance {
                self.tried.push(Fitted {
                    draft,
                    distance: distance + prior,
                    prior,
                    seeds: self.seeds,
                });
            }
        }
    }

    /// With the round-trip time such that the smallest one that its hosts see is the one that was
    /// seen: hosts and short packets take their part of it.
    fn with_rtt(&mut self, draft: &Draft) -> Draft {
        let mut draft = draft.clone();
        for _ in 0..2 {
            let Some(wanted) = self.seen.min_rtt else {
                break;
            };
            let mut times = self.times;
            times.warm_up = times.warm_up.min(Duration::from_millis(300));
            times.look = times.look.min(Duration::from_millis(500));
            let from = (self.seen.here, self.seen.both_ends);
            self.runs += 1;
            let seen = draft.run(
                SEEDS[0],
                times.bounded(self.seen.events_per_s(), draft.rtt),
                from,
                &[],
            );
            let found = seen.and_then(|seen| seen.first()?.min_rtt);
            let Some(found) = found else { break };
            draft.rtt = (draft.rtt + wanted - found).max(1e-6);
        }
        draft
    }

    fn try_rate(&mut self, draft: &Draft, rate: f64) {
        let of_link = self
            .link_bps
            .map_or(0.0, |link| ((rate / link).ln() / LINK_NOISE).powi(2));
        let prior = match self.seen.is_small() {
            true => ((SLOW_BPS / rate).ln().max(0.0) * SLOW_WEIGHT).powi(2),
            false => of_link,
        };
        for draft in self.at_rate_with_queues(draft, rate).into_iter().flatten() {
            self.try_one(draft, prior);
        }
    }

    /// `draft` at another rate with the queue that it has there, and where packets were lost with
    /// one that may have lost them.
    pub(super) fn at_rate_with_queues(&self, draft: &Draft, rate: f64) -> [Option<Draft>; 2] {
        let mut draft = draft.at_rate(rate);
        let bdp = rate / 8.0 * draft.rtt / draft.mtu as f64;
        let stood = self
            .seen
            .srtt_max
            .zip(self.seen.min_rtt)
            .map_or(0.0, |(most, least)| {
                (most - least).max(0.0) * rate / 8.0 / draft.mtu as f64
            });
        draft.queue_pkts = (bdp * QUEUE_BDPS).max(stood * 1.2).max(QUEUE_MIN_PKTS);
        // A queue that overflows is one of a path that is full most of the time.
        let is_filled = rate < OVERFLOW_FACTOR_MAX * self.seen.goodput_bps();
        let may_overflow = stood > STOOD_MIN_PKTS && is_filled && !self.seen.is_small();
        let overflows = (self.seen.lost_share > 0.0 && may_overflow).then(|| Draft {
            // Perhaps only the queue lost them.
            loss: [0.0; 2],
            queue_pkts: stood.max(2.0),
            ..draft.clone()
        });
        [Some(draft), overflows]
    }

    /// Whether what was carried is what the path can carry: it is if congestion control is the
    /// limit, a queue stands, and a twin whose path is that slow shows the same.
    fn is_full(&mut self, draft: &Draft) -> bool {
        let seen = self.seen;
        let wire = 1.0 + HEADERS_BYTES / seen.mss_bytes;
        let rate = seen.goodput_bps() * wire;
        let packet = draft.mtu as f64 * 8.0 / rate.max(1.0);
        let queue = seen.queue_time().unwrap_or(0.0);
        let is_random = seen.loses_at_random() == Some(true);
        let loses = seen.lost_share > 0.0;
        let congested = seen.congestion_share.unwrap_or(0.0);
        let shut = seen.window_shut_share.unwrap_or(0.0);
        let is_slower = congested < FULL_CONGESTION_SHARE || shut > 1.0 - FULL_CONGESTION_SHARE;
        let is_slower = is_slower && !seen.is_even();
        if is_slower
            || queue < FULL_QUEUE_PKTS * packet
            || (loses && (is_random || queue < LOSING_QUEUE_PKTS * packet))
        {
            return false;
        }
        self.is_loose = true;
        let stood = seen
            .srtt_max
            .zip(seen.min_rtt)
            .map_or(0.0, |(most, least)| most - least);
        let stood_pkts = (stood / packet).max(2.0);
        let factors: &[f64] = if loses {
            &[0.8, 0.9, 1.0, 1.1, 1.25]
        } else {
            &[4.0]
        };
        for factor in factors {
            self.try_one(
                Draft {
                    queue_pkts: stood_pkts * factor,
                    loss: [0.0; 2],
                    ..draft.at_rate(rate)
                },
                0.0,
            );
        }
        self.run_all();
        let fits = self.best().is_some_and(|best| {
            best.distance <= FULL_DISTANCE / if loses { LOSS_VARIANCE } else { 1.0 }
        });
        self.is_loose = fits;
        if !fits {
            self.tried.clear();
            // The search of other paths is not charged for it, which it would leave too little for.
            self.packets = 0.0;
        }
        fits
    }

    /// Whether no path of this rate or a higher one is as plausible as the best.
    pub(super) fn is_below(&self, rate: f64) -> bool {
        let best = self.best();
        let plausible = best.as_ref().map(|best| self.plausible(best));
        plausible.is_some_and(|all| all.iter().all(|fitted| fitted.draft.rate_bps < rate))
    }

    /// What fits nearly as well as the best.
    pub(super) fn plausible(&self, best: &Fitted) -> Vec<&Fitted> {
        // Where even the best is far off, the units are too small for this connection.
        // ACKs alone show how dense trains are too badly, where few segments are out.
        let is_seen_well = self.seen.loses_by_chance() && self.seen.both_ends;
        let more = match is_seen_well {
            true => PLAUSIBLE_LOSSY,
            false => PLAUSIBLE,
        };
        let limit = best.distance + more * (best.distance / GOOD_DISTANCE).max(1.0);
        let plausible = self.tried.iter();
        plausible
            .filter(|fitted| fitted.distance <= limit)
            .collect()
    }

    fn found(&self) -> Result<Fits, NoPrediction> {
        let best = self.best().ok_or(NoPrediction::NoPath)?;
        let mut plausible = self.plausible(&best);
        plausible.sort_by(|a, b| a.draft.rate_bps.total_cmp(&b.draft.rate_bps));
        let ends = [plausible.first(), plausible.last()];
        let mut others: Vec<Fitted> = Vec::new();
        for fitted in ends.into_iter().flatten() {
            if fitted.draft != best.draft && others.iter().all(|other| other.draft != fitted.draft)
            {
                others.push((*fitted).clone());
            }
        }
        Ok(Fits {
            best,
            others,
            is_rate_known: self.is_rate_known,
            runs: self.runs,
        })
    }

    /// The draft that fits best, and another one far from it that may come to fit better.
    fn basins(&self) -> Vec<Draft> {
        let Some(best) = self.best() else {
            return Vec::new();
        };
        let is_far = |fitted: &&Fitted| {
            let ratio = fitted.draft.rate_bps / best.draft.rate_bps;
            !(1.0 / BASIN_FACTOR..BASIN_FACTOR).contains(&ratio)
        };
        let far = self.tried.iter().filter(is_far);
        let second = far.min_by(|a, b| a.distance.total_cmp(&b.distance));
        let near = second.filter(|second| second.distance <= best.distance + BASIN_DISTANCE);
        let second = near.map(|near| near.draft.clone());
        [best.draft].into_iter().chain(second).collect()
    }

    fn try_around(&mut self, draft: &Draft, step: f64, count: i32) {
        for place in -count..=count {
            if place != 0 {
                self.try_rate(draft, draft.rate_bps * step.powi(place));
            }
        }
    }

    /// The mean of all rates that were tried, each with the weight of its likelihood.
    pub(super) fn mean_rate(&self, best: &Fitted) -> f64 {
        let same = |fitted: &&Fitted| fitted.draft.loss == best.draft.loss;
        let weight = |fitted: &Fitted| ((best.distance - fitted.distance) / 2.0).exp();
        let tried = self.tried.iter().filter(same);
        let (sum, of) = tried.fold((0.0, 0.0), |(sum, of), fitted| {
            (
                sum + weight(fitted) * fitted.draft.rate_bps.ln(),
                of + weight(fitted),
            )
        });
        (sum / of).exp()
    }

    fn try_mean(&mut self) {
        let Some(best) = self.best() else { return };
        let rate = self.mean_rate(&best);
        self.try_rate(&best.draft, rate);
        self.run_all();
        self.prefer(rate, &best);
    }

    /// A mean that is not significantly worse than the best, which is the best by chance, comes
    /// before it.
    pub(super) fn prefer(&mut self, rate: f64, best: &Fitted) {
        let mut tried = self.tried.iter_mut().rev();
        let mean = tried.find(|tried| tried.draft.rate_bps.to_bits() == rate.to_bits());
        if let Some(mean) = mean.filter(|mean| mean.distance <= best.distance + 1.0) {
            mean.distance = mean.distance.min(best.distance - 1e-9);
        }
    }

    /// More runs of the slowest and the fastest path that are plausible by what few runs showed.
    fn try_ends(&mut self) {
        if self.seen.loses_by_chance() {
            self.seeds = SEEDS_MAX;
        }
        while let Some(best) = self.best() {
            let plausible = self.plausible(&best);
            let by_rate =
                |a: &&&Fitted, b: &&&Fitted| a.draft.rate_bps.total_cmp(&b.draft.rate_bps);
            let ends = [
                plausible.iter().min_by(by_rate),
                plausible.iter().max_by(by_rate),
            ];
            let few = ends
                .into_iter()
                .flatten()
                .find(|end| end.seeds < self.seeds);
            let Some((draft, prior)) = few.map(|end| (end.draft.clone(), end.prior)) else {
                return;
            };
            if !self.affords(&draft) {
                return;
            }
            self.tried
                .retain(|fitted| fitted.draft != draft || fitted.seeds == self.seeds);
            self.waiting.push((draft, prior));
            self.run_all();
        }
    }

    /// How much a program that is not as fast as its connection writes at once, the queue in front
    /// of the path tells.
    fn with_writes(&mut self, draft: Draft) -> Draft {
        let Workload::Paced { rate, amount, .. } = draft.workload else {
            return draft;
        };
        for size in WRITE_SIZES {
            for factor in [2.0, 5.0, 15.0, 50.0] {
                let workload = Workload::Paced {
                    rate,
                    write_size: Bytes(size),
                    amount,
                };
                let draft = Draft {
                    workload,
                    ..draft.clone()
                };
                self.try_rate(&draft, self.seen.goodput_bps() * factor);
            }
        }
        if self.is_spent {
            self.waiting.clear();
        }
        self.run_all();
        self.best().map_or(draft, |best| best.draft)
    }

    /// Other queues, where one was seen to fill.
    fn try_queues(&mut self) {
        if self.seen.lost_share == 0.0 {
            return;
        }
        let Some(best) = self.best() else { return };
        if matches!(best.draft.workload, Workload::Bursts { .. }) {
            for queue_pkts in BURST_QUEUES_PKTS {
                let loss = [0.0; 2];
                self.try_one(
                    Draft {
                        queue_pkts,
                        loss,
                        ..best.draft.clone()
                    },
                    0.0,
                );
            }
            self.run_all();
        }
        let Some(best) = self.best() else { return };
        if best.draft.loss != [0.0; 2] {
            return;
        }
        for factor in [0.7, 0.85, 1.2, 1.5] {
            let queue_pkts = (best.draft.queue_pkts * factor).max(2.0);
            self.try_one(
                Draft {
                    queue_pkts,
                    ..best.draft.clone()
                },
                0.0,
            );
        }
        self.run_all();
    }

    /// Other shares of loss: few losses are counted badly, and the rate tells of them too.
    fn try_losses(&mut self) {
        let Some(best) = self.best() else { return };
        if best.draft.loss == [0.0; 2] {
            return;
        }
        let counted = (self.seen.lost_share * self.seen.lost_of).max(1.0);
        for factor in [0.6_f64, 0.8, 1.25, 1.6] {
            let loss = best.draft.loss.map(|loss| loss * factor);
            let prior = factor.ln().powi(2) * counted;
            self.try_one(
                Draft {
                    loss,
                    ..best.draft.clone()
                },
                prior,
            );
        }
        let in_a_row = best.draft.in_a_row;
        for in_a_row in [1.0, in_a_row.sqrt(), in_a_row * 1.4] {
            self.try_one(
                Draft {
                    in_a_row,
                    ..best.draft.clone()
                },
                0.0,
            );
        }
        self.run_all();
    }
}

/// The distance whose likelihood is the mean of those of the runs. How the bursts of a flow came to
/// lie, or where its losses fell, is chance, and seeds draw it: what was seen need be like one of
/// the runs, not like their mean.
pub(super) fn likely(seen: &Observables, runs: &[Observables]) -> Option<f64> {
    let distances: Vec<f64> = runs
        .iter()
        .filter_map(|run| distance(seen, core::slice::from_ref(run)))
        .collect();
    let least = distances.iter().copied().reduce(f64::min)?;
    let weights = distances
        .iter()
        .map(|distance| ((least - distance) / 2.0).exp());
    let mean = weights.sum::<f64>() / distances.len() as f64;
    Some(least - 2.0 * mean.ln())
}

/// Reads a number.
type Read<'r> = &'r dyn Fn(&Observables) -> Option<f64>;

/// How far runs of a twin are from what was seen: a sum of squares, each in units of what two looks
/// at one connection differ by.
pub(super) fn distance(seen: &Observables, twin: &[Observables]) -> Option<f64> {
    if twin.is_empty() {
        return None;
    }
    let mean = |read: Read<'_>| {
        let values: Vec<f64> = twin.iter().filter_map(read).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let by_ratio = |read: Read<'_>, unit: f64| {
        let pair = read(seen)
            .zip(mean(read))
            .filter(|(a, b)| *a > 0.0 && *b > 0.0);
        pair.map_or(0.0, |(a, b)| ((a / b).ln() / unit).powi(2).min(1e4))
    };
    // How trains lie, and what queues they make for themselves, is chance to a large part; where
    // they show the link, nothing more is asked of them.
    let has_link = seen.link_bps().is_some();
    let looser = if has_link { LINK_LOOSER } else { 1.0 };
    let by_time = |read: Read<'_>, share: f64| {
        let pair = read(seen).zip(mean(read));
        let noise = if seen.is_small() {
            MESSAGE_NOISE
        } else {
            TIME_NOISE
        };
        let unit = |a: f64| a * share + noise;
        pair.map_or(0.0, |(a, b)| ((a - b) / unit(a)).powi(2).min(1e4))
    };
    let is_lossy = seen.lost_share > 0.0;
    let noise = if is_lossy { 0.08 } else { 0.03 };
    let mut sum = by_ratio(&|s| Some(s.goodput_bps()), noise);
    // A timer of a kernel may be a tick late, and where several are waited for, each of them.
    let tick = match seen.response() {
        Some(time) if time > seen.min_rtt.unwrap_or(0.0) + STALL => TICK,
        _ => 0.0,
    };
    let pair = seen.response().zip(mean(&Observables::response));
    sum += pair.map_or(0.0, |(a, b)| {
        ((a - b) / (a * 0.03 + TIME_NOISE + tick)).powi(2)
    });
    sum += by_time(&|s| s.min_rtt, 0.005);
    sum += by_time(&Observables::queue_time, 0.08 * looser);
    sum += by_time(&|s| Some(s.srtt_high? - s.min_rtt?), 0.15 * looser);
    if seen.is_one_way() && !has_link {
        let by_chance = seen.loses_by_chance();
        // How dense a train can be is hardly a matter of where losses fell.
        let is_certain = by_chance && seen.both_ends;
        let certain = if is_certain { LOSS_VARIANCE } else { 1.0 };
        sum += certain * by_ratio(&|s| Some(s.crest?.bps), 0.15);
        let swing = |s: &Observables| s.swing;
        let pair = swing(seen).zip(mean(&swing));
        sum += pair.map_or(0.0, |(a, b)| {
            let unit = if by_chance {
                a * SWING_NOISE_LOSSY
            } else {
                SWING_NOISE
            };
            ((a - b) / unit.max(SWING_NOISE)).powi(2)
        });
    }
    sum += distance_of_losses(seen, mean);
    // Where chance decides of losses, it decides of all that follows from them.
    Some(if is_lossy { sum / LOSS_VARIANCE } else { sum })
}

/// The part of [`distance`] that losses have. `mean`: of a number over the runs.
fn distance_of_losses(seen: &Observables, mean: impl Fn(Read<'_>) -> Option<f64>) -> f64 {
    let together = seen.lost_together.filter(|_| seen.loses_by_chance());
    let of_twin = mean(&|s| Some(s.lost_together?.segments));
    let of_together = together.zip(of_twin).map_or(0.0, |(seen, twin)| {
        let unit = TOGETHER_NOISE + 1.0 / seen.times.sqrt();
        ((seen.segments / twin).ln() / unit).powi(2)
    });
    let lost = seen.lost_share;
    let counted = (lost * seen.lost_of).max(1.0);
    let twin_lost = mean(&|s| Some(s.lost_share)).unwrap_or(0.0);
    let unit = lost.max(3.0 / seen.lost_of.max(1.0)) * (0.3 + 1.0 / counted.sqrt());
    let of_share = ((twin_lost - lost) / unit.max(1e-9)).powi(2).min(400.0);
    of_together + of_share
}

/// The direction that a loss is counted in.
pub(super) const fn loss_of(sender: End, share: f64, workload: &Workload) -> [f64; 2] {
    match (workload, sender) {
        (Workload::Bulk { .. } | Workload::Paced { .. } | Workload::Records(_), End::Client) => {
            [share, 0.0]
        }
        (Workload::Bulk { .. } | Workload::Paced { .. } | Workload::Records(_), End::Server) => {
            [0.0, share]
        }
        (Workload::Bursts { .. } | Workload::SlowReader { .. }, _) => [share, 0.0],
        _ => [share, share],
    }
}
