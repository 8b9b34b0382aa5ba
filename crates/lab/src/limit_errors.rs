//! Errors of the doctor's limit shares, against the truth known to our stack.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use base::{FlowSample, Limit};
use doctor::{Shares, paces_itself};

use crate::builtin::{BUILTIN_SCENARIOS, parse_builtin};
use crate::engine::EngineName;
use crate::faults::FAULTS;
use crate::outcome::Caveat;
use crate::scenario::Cell;
use crate::trial::{End, Trial};
use crate::virtual_engine::{LabelledFlow, Virtual};
use crate::workload::Amount;

/// Longer trials are cut: what limits a flow shows before.
const TIME_MAX: Duration = Duration::from_secs(10);
/// A limit that truly took this share of a flow's time counts as one that matters there.
pub const SHARE_THAT_MATTERS: f64 = 0.05;
/// The mean error of shares that is promised, per limit and in all.
pub const SHARE_ERROR_MAX: f64 = 0.05;

/// The true and the inferred shares of one end of one connection.
#[derive(Clone, Debug)]
pub struct ScoredFlow {
    /// Which end.
    pub end: End,
    /// Share of the time that was watched, by our stack, in the order of [`Limit::ALL`].
    pub truth: [f64; Limit::ALL.len()],
    /// The doctor's shares, inferred from samples.
    pub said: Shares,
}

/// The errors of one limit over many flows.
#[derive(Clone, Copy, Debug)]
pub struct LimitError {
    /// Which.
    pub limit: Limit,
    /// Mean of the true shares.
    pub truth_mean: f64,
    /// Mean of the inferred shares.
    pub said_mean: f64,
    /// Mean absolute error over all flows.
    pub error_mean: f64,
    /// Flows in which it matters ([`SHARE_THAT_MATTERS`]).
    pub flows: usize,
    /// Mean absolute error over these; `None` where there are none.
    pub error_where: Option<f64>,
}

/// The errors over many flows.
#[derive(Clone, Debug)]
pub struct LimitErrors {
    /// How many flows.
    pub flows: usize,
    /// One row per limit, in the order of [`Limit::ALL`].
    pub limits: Vec<LimitError>,
    /// Mean share of the time that is given to the wrong limit, or to none.
    pub wrong_mean: f64,
    /// Mean share of the time that is called unclear.
    pub unclear_mean: f64,
}

/// All cells of the built-in scenarios as run on this engine, variants included.
#[must_use]
pub fn gallery_cells(engine: EngineName) -> Vec<Cell> {
    BUILTIN_SCENARIOS
        .iter()
        .map(|(name, text)| parse_builtin(name, text))
        .filter(|scenario| scenario.probe.is_none())
        .flat_map(|scenario| scenario.on(engine).trials())
        .collect()
}

/// The faults that can be provoked in virtual time, as cells `fault/ID`: the rules on shares were
/// made without them.
#[must_use]
pub fn fault_cells() -> Vec<Cell> {
    FAULTS
        .iter()
        .filter(|fault| fault.kernel_only.is_none())
        .map(|fault| Cell {
            id: format!("fault/{}", fault.id),
            variant: None,
            axes: Vec::new(),
            trial: fault.trial(),
        })
        .collect()
}

/// Runs a trial and scores every connection at both ends; `stop` ends it early.
///
/// # Errors
/// The settings of the trial that our stack does not have.
pub fn score_limits(trial: &Trial, stop: &AtomicBool) -> Result<Vec<ScoredFlow>, Vec<Caveat>> {
    let time = match trial.workload.amount() {
        Amount::Time(time) => time.min(TIME_MAX),
        Amount::Bytes(_) | Amount::Operations(_) => TIME_MAX,
    };
    let flows = Virtual::with_machine_costs().labelled(trial, time, stop)?;
    Ok(flows.iter().filter_map(ScoredFlow::of).collect())
}

impl ScoredFlow {
    fn of(flow: &LabelledFlow) -> Option<Self> {
        let all: Duration = flow.truth.values().sum();
        if all.is_zero() {
            return None;
        }
        let own = share_of_own_pace(flow.samples.iter().map(|sample| &**sample));
        let of = |limit| flow.truth.get(&limit).copied().unwrap_or_default();
        let own_pace = of(Limit::Pacing).mul_f64(own);
        let share = |limit| {
            let time = match limit {
                Limit::Pacing => of(limit).saturating_sub(own_pace),
                Limit::Congestion => of(limit) + own_pace,
                _ => of(limit),
            };
            time.as_secs_f64() / all.as_secs_f64()
        };
        Some(Self {
            end: flow.end,
            truth: Limit::ALL.map(share),
            said: Shares::of_samples(flow.samples.iter().map(|sample| &**sample))?,
        })
    }

    /// Share of the time that is given to the wrong limit, or to none.
    #[must_use]
    pub fn wrong(&self) -> f64 {
        let pairs = Limit::ALL.into_iter().zip(self.truth);
        pairs
            .map(|(limit, truth)| (truth - self.said.get(limit)).max(0.0))
            .sum()
    }
}

/// Share of the samples with a pace in which it is BBR's own: what it finds the path to carry, and
/// told as that.
fn share_of_own_pace<'s>(samples: impl Iterator<Item = &'s FlowSample>) -> f64 {
    let is_paced = |sample: &&FlowSample| sample.bbr.is_some() || sample.max_pacing_rate.is_some();
    let (mut all, mut own) = (0_u32, 0_u32);
    for sample in samples.filter(is_paced) {
        all += 1;
        own += u32::from(paces_itself(sample));
    }
    f64::from(own) / f64::from(all.max(1))
}

impl LimitErrors {
    /// Errors over these flows; each has the same weight.
    #[must_use]
    pub fn of(flows: &[ScoredFlow]) -> Self {
        let mean = |read: &dyn Fn(&ScoredFlow) -> f64| mean(flows.iter().map(read));
        let limits = Limit::ALL.into_iter().enumerate().map(|(at, limit)| {
            let error = |flow: &ScoredFlow| (flow.truth[at] - flow.said.get(limit)).abs();
            let matters = |flow: &&ScoredFlow| flow.truth[at] >= SHARE_THAT_MATTERS;
            let there = flows.iter().filter(matters).count();
            LimitError {
                limit,
                truth_mean: mean(&|flow| flow.truth[at]),
                said_mean: mean(&|flow| flow.said.get(limit)),
                error_mean: mean(&error),
                flows: there,
                error_where: (there > 0)
                    .then(|| self::mean(flows.iter().filter(matters).map(error))),
            }
        });
        Self {
            flows: flows.len(),
            limits: limits.collect(),
            wrong_mean: mean(&ScoredFlow::wrong),
            unclear_mean: mean(&|flow| flow.said.unclear()),
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_usize), |(sum, count), value| {
        (sum + value, count + 1)
    });
    sum / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use base::{BbrState, FlowKey, Instant, Rate};

    use super::*;

    /// A program bounds the pace of BBR at 10 Mbit/s, which the path carries half of the time. One
    /// look before the bound was set decides nothing.
    #[test]
    fn pacing_is_bbrs_own_where_no_bound_is_reached() {
        let key = FlowKey {
            local: ([10, 0, 0, 1], 443).into(),
            remote: ([10, 0, 0, 2], 50_000).into(),
        };
        let rate = |mbit: u64| Rate::from_bits_per_second(mbit * 1_000_000);
        let look = |is_bbr: bool, pace: u64, bound: Option<u64>| FlowSample {
            bbr: is_bbr.then(|| BbrState {
                bandwidth: rate(pace),
                min_rtt: Duration::from_millis(20),
                pacing_gain: 256,
                cwnd_gain: 512,
            }),
            pacing_rate: Some(rate(pace)),
            max_pacing_rate: bound.map(rate),
            ..FlowSample::empty(Instant::ZERO, key)
        };
        let check = |looks: &[FlowSample], own: f64| {
            assert!(
                (share_of_own_pace(looks.iter()) - own).abs() < 1e-9,
                "{own}"
            );
        };
        check(&[look(true, 30, None), look(true, 20, None)], 1.0);
        check(&[look(true, 10, Some(10)), look(true, 5, Some(10))], 0.5);
        let late = [(30, None), (10, Some(10)), (10, Some(10)), (10, Some(10))];
        check(&late.map(|(pace, bound)| look(true, pace, bound)), 0.25);
        check(&[look(false, 30, Some(10)), look(false, 30, None)], 0.0);
        check(&[], 0.0);
    }
}
