//! Fits what a program keeps in a send buffer that does not grow.
//!
//! How much of it is in flight depends on how the program writes and waits: a write that has begun
//! may exceed it, and who waits until there is room leaves a part of it empty. The program of a
//! twin keeps the share of it with which it carries what was seen, and waits for as much room as
//! makes the trains that were seen. They tell how fast the path is, which its buffer never fills.

use base::KnobValue;
use base::settings::Held;

use super::draft::Draft;
use super::fitting::{Fitted, LINK_STEPS, PACKETS_MAX, RUN_COSTS, Search, likely, rates};
use super::observables::{HEADERS_BYTES, Observables};
use super::parallel::each;

/// For how much room a program waits.
const ROOMS: [u32; 3] = [2048, 32_768, 131_072];
/// Where no train is seen, the path is taken to be so many times as fast as what was carried.
const RATE_FACTOR: f64 = 10.0;
/// Rates that are tried where trains are seen: so many times theirs.
const CREST_STEPS: [f64; 10] = [0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.4, 2.0];
/// The same where packets were lost, which takes more runs.
const LOSSY_STEPS: [f64; 7] = [0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 2.0];
/// The same where trains are as long as that: they show it as it is.
const LONG_STEPS: [f64; 5] = [0.9, 0.95, 1.0, 1.05, 1.1];
const LONG_SEGMENTS: f64 = 40.0;
/// Rates that are tried above all these, as long as the highest is as plausible as the best.
const HIGHER_STEPS: [f64; 3] = [2.8, 4.0, 8.0];
/// How far the best twin may be from what was seen for that: a sum of squared differences, each in
/// its unit.
const HIGHER_DISTANCE: f64 = 30.0;
/// A queue that overflowed holds so many times what smoothed round-trip times show of it.
const QUEUE_FACTORS: [f64; 3] = [0.9, 1.2, 1.6];
const QUEUE_FACTOR: f64 = 1.25;
/// How often a share is corrected, each time by this factor at most, and until it carries what was
/// seen but for this share.
const STEPS: usize = 7;
const STEP: f64 = 3.0;
const NEAR: f64 = 0.02;
/// The unit in which a greater difference counts, and how great it may be.
const OFF_UNIT: f64 = 0.05;
const OFF_MAX: f64 = 0.1;
/// The same of round-trip times, and of the density of trains.
const LATE_UNIT: f64 = 0.1;
const DENSE_UNIT: f64 = 0.1;
/// A program that is this far off after so many corrections is bounded by something else.
const FAR_OFF: f64 = 0.3;
const FAR_STEPS: usize = 3;
/// What is tried, in 1/1000 of the buffer.
const SHARE_MIN: f64 = 10.0;
const SHARE_MAX: f64 = 100_000.0;
/// Approximate number of runs.
const RUNS: f64 = 60.0;

impl Search<'_> {
    /// Whether a program fits that keeps a send buffer full which does not grow, on paths that are
    /// tried with it.
    pub(super) fn holds_buffer(&mut self, draft: &Draft) -> bool {
        let costs = RUNS * (self.events_in(self.times_of(draft)) + RUN_COSTS);
        let is_held = self.has_last_size(draft) && self.seen.fills_buffer;
        let Some(share) = self
            .seen
            .held
            .filter(|_| is_held && costs < PACKETS_MAX * 2.0)
        else {
            return false;
        };
        let wire = 1.0 + HEADERS_BYTES / self.seen.mss_bytes;
        let carried = self.seen.goodput_bps() * wire;
        let train = self.seen.train;
        let crest = train.map(|train| (train.rate() * wire).max(carried));
        let is_long =
            train.is_some_and(|train| train.segments >= LONG_SEGMENTS && !self.seen.is_pace(train));
        let steps = match (is_long, self.seen.lost_share > 0.0) {
            (true, _) => &LONG_STEPS[..],
            (false, true) => &LOSSY_STEPS[..],
            (false, false) => &CREST_STEPS[..],
        };
        let rates: Vec<f64> = match (self.link_bps, crest) {
            (Some(link), _) => LINK_STEPS.iter().map(|step| link * step).collect(),
            (None, Some(crest)) => steps.iter().map(|step| crest * step).collect(),
            (None, None) => rates(self.seen),
        };
        let rate = self.link_bps.or(crest).unwrap_or(carried * RATE_FACTOR);
        let share = (share * 1000.0).clamp(SHARE_MIN, SHARE_MAX) as u32;
        let rooms = ROOMS.map(|room_bytes| Held { share, room_bytes });
        let first = rooms
            .iter()
            .flat_map(|held| self.drafts(draft, rate, *held));
        let first = first.map(|draft| self.with_queue(draft, QUEUE_FACTOR));
        let first: Vec<Draft> = first.collect();
        self.hold(&first);
        let Some((best, held)) = self.best().and_then(|best| {
            let held = self.held(&best.draft)?;
            Some((best.draft, held))
        }) else {
            return false;
        };
        let all = rates
            .iter()
            .flat_map(|rate| self.drafts(draft, *rate, held));
        let alike = all.filter(|draft| draft.loss == best.loss);
        let factors = match self.has_overflowed(&best) {
            true => &QUEUE_FACTORS[..],
            false => &[1.0],
        };
        let mut all = Vec::new();
        for draft in alike {
            let queues = factors.iter();
            all.extend(queues.map(|factor| self.with_queue(draft.clone(), *factor)));
        }
        self.hold(&all);
        self.hold_mean(draft);
        let mut most = rates.iter().copied().fold(rate, f64::max);
        if crest.is_some() && self.link_bps.is_none() && !is_long {
            most = self.hold_higher((draft, &best), (rate, most), factors[0]);
        }
        self.is_rate_known = self.link_bps.is_some() || is_long || self.is_below(most);
        true
    }

    /// Whether the send buffer does not grow: its program has set it, or it is as large as the
    /// host lets it become.
    fn has_last_size(&self, draft: &Draft) -> bool {
        let settings = draft.hosts.settings(self.seen.sender());
        let is_most = match settings.get("net.ipv4.tcp_wmem") {
            Some(KnobValue::Triple([_, _, most])) => {
                self.seen.buffer_bytes.is_some_and(|bytes| bytes >= *most)
            }
            _ => false,
        };
        settings.contains_key("sndbuf") || is_most
    }

    /// Tries rates above the highest one so far, as long as that is as plausible as the best: short
    /// trains may end before they are as dense as the link makes them. Returns the highest tried.
    fn hold_higher(
        &mut self,
        (draft, best): (&Draft, &Draft),
        (rate, mut most): (f64, f64),
        queue: f64,
    ) -> f64 {
        for step in HIGHER_STEPS {
            // A twin that is far off excludes nothing: its trains are not those of the link.
            let is_near = self
                .best()
                .is_some_and(|best| best.distance <= HIGHER_DISTANCE);
            let held = self.held(best).filter(|_| is_near && !self.is_below(most));
            let Some(held) = held else { break };
            most = rate * step;
            let higher = self.drafts(draft, most, held);
            let alike = higher.filter(|draft| draft.loss == best.loss);
            let alike: Vec<Draft> = alike.map(|draft| self.with_queue(draft, queue)).collect();
            self.hold(&alike);
            self.hold_mean(draft);
        }
        most
    }

    /// Tries the mean of the rates, with what the best has beside it.
    fn hold_mean(&mut self, draft: &Draft) {
        let Some(best) = self.best() else { return };
        let Some(held) = self.held(&best.draft) else {
            return;
        };
        let rate = self.mean_rate(&best);
        let queue_pkts = best.draft.queue_pkts * rate / best.draft.rate_bps;
        let mut all: Vec<Draft> = self.drafts(draft, rate, held).collect();
        all.retain(|draft| draft.loss == best.draft.loss);
        all.iter_mut()
            .for_each(|draft| draft.queue_pkts = queue_pkts);
        self.hold(&all);
        self.prefer(rate, &best);
    }

    fn held(&self, draft: &Draft) -> Option<Held> {
        draft.held[self.seen.sender() as usize]
    }

    /// On a path of this rate, a program that keeps so much.
    fn drafts(&self, draft: &Draft, rate: f64, held: Held) -> impl Iterator<Item = Draft> + use<> {
        let sender = self.seen.sender() as usize;
        let drafts = self.at_rate_with_queues(draft, rate).into_iter().flatten();
        let mut drafts: Vec<Draft> = drafts.collect();
        if let (2, Some(is_random)) = (drafts.len(), self.seen.loses_at_random()) {
            drafts.retain(|draft| is_random == (draft.loss != [0.0; 2]));
        }
        drafts.into_iter().map(move |mut draft| {
            draft.held[sender] = Some(held);
            draft
        })
    }

    /// Whether a queue that overflows lost the packets that were lost.
    fn has_overflowed(&self, draft: &Draft) -> bool {
        self.seen.lost_share > 0.0 && draft.loss == [0.0; 2]
    }

    /// With a queue that holds so many times as much, where it overflows.
    fn with_queue(&self, draft: Draft, factor: f64) -> Draft {
        let factor = if self.has_overflowed(&draft) {
            factor
        } else {
            1.0
        };
        Draft {
            queue_pkts: draft.queue_pkts * factor,
            ..draft
        }
    }

    /// Tries `drafts`, each with the share with which it carries what was seen.
    fn hold(&mut self, drafts: &[Draft]) {
        let found = each(drafts, |draft| self.share_held(draft));
        for (fitted, runs) in found.into_iter().flatten() {
            self.runs += runs;
            self.tried.push(fitted);
        }
    }

    /// How far `twins` are off in round-trip times and in the density of trains, in units squared.
    /// Losses come by chance and make all else uncertain, but not these.
    fn off_besides(&self, twins: &[Observables]) -> f64 {
        let off = |read: &dyn Fn(&Observables) -> Option<f64>, unit: f64| {
            let values: Vec<f64> = twins.iter().filter_map(read).collect();
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            let pair = read(self.seen).filter(|_| !values.is_empty());
            pair.map_or(0.0, |seen| ((mean - seen) / seen / unit).powi(2))
        };
        off(&|s| s.srtt_high, LATE_UNIT) + off(&|s| Some(s.train?.bps), DENSE_UNIT)
    }

    /// The share of its buffer with which the program of `draft` carries what was seen, and the
    /// runs that were needed; `None` where there is none.
    fn share_held(&self, draft: &Draft) -> Option<(Fitted, usize)> {
        let Held { share, room_bytes } = self.held(draft)?;
        let mut bracket = (SHARE_MIN, SHARE_MAX);
        let (mut next, mut runs) = (f64::from(share), 0);
        let mut best: Option<(f64, Fitted)> = None;
        for step in 1..=STEPS {
            let mut draft = draft.clone();
            let share = next as u32;
            draft.held[self.seen.sender() as usize] = Some(Held { share, room_bytes });
            let twins = self.run(&draft);
            runs += twins.len();
            let count = twins.len().max(1) as f64;
            let carried = twins.iter().map(Observables::goodput_bps).sum::<f64>() / count;
            // A run that carries far too much is cut short.
            let factor = match twins.is_empty() {
                true => 1.0 / STEP,
                false => (self.seen.goodput_bps() / carried.max(1.0)).clamp(1.0 / STEP, STEP),
            };
            let off = factor.ln().abs();
            let is_nearer = best.as_ref().is_none_or(|(nearest, _)| off < *nearest);
            if let Some(distance) = likely(self.seen, &twins).filter(|_| is_nearer) {
                let distance = distance + (off / OFF_UNIT).powi(2) + self.off_besides(&twins);
                best = Some((
                    off,
                    Fitted {
                        draft,
                        distance,
                        prior: 0.0,
                        seeds: self.seeds,
                    },
                ));
            }
            if off <= NEAR || off > FAR_OFF && step >= FAR_STEPS {
                break;
            }
            match factor > 1.0 {
                true => bracket.0 = next,
                false => bracket.1 = next,
            }
            let (least, most) = bracket;
            next *= factor;
            if !(least..most).contains(&next) {
                next = (least * most).sqrt();
            }
        }
        let near = best.filter(|(off, _)| *off <= OFF_MAX);
        near.map(|(_, fitted)| (fitted, runs))
    }
}
