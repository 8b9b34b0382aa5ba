//! Errors of the doctor's limit shares, against the truth known to our stack.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use base::Limit;
use doctor::Shares;

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
        // BBR's pace is what it finds the path to carry, and told as that.
        let is_bbr =
            |sample: &&base::FlowSample| sample.bbr.is_some() && sample.max_pacing_rate.is_none();
        let paces_itself = flow
            .samples
            .iter()
            .map(|sample| &**sample)
            .any(|s| is_bbr(&s));
        let of = |limit| flow.truth.get(&limit).copied().unwrap_or_default();
        let share = |limit| {
            let time = match limit {
                Limit::Pacing if paces_itself => Duration::ZERO,
                Limit::Congestion if paces_itself => of(limit) + of(Limit::Pacing),
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
