//! One run of one cell as data: the same for every engine and every output.

use std::collections::BTreeMap;

use base::Limit;
use serde::Serialize;

use crate::engine::EngineName;
use crate::outcome::{Caveat, LinkOutcome, Outcome, Point, ResponseMicros, SenderOutcome};
use crate::scenario::{Cell, Scenario};

/// One run in `lab run --json`.
#[derive(Clone, Debug, Serialize)]
pub struct OutcomeRow {
    engine: EngineName,
    scenario: String,
    variant: Option<String>,
    /// Keys and values of the sweep.
    axes: BTreeMap<String, String>,
    /// From 0.
    run: u32,
    seed: u64,
    /// False where a caveat says that the numbers must not be used.
    usable: bool,
    goodput_bps: u64,
    duration_s: f64,
    response_us: Option<ResponseMicros>,
    /// Longest time between two arrivals of payload; null where the engine does not see each.
    stall_max_us: Option<u64>,
    limits: Vec<LimitRow>,
    /// Counters of the sending end over the measured time; null where nothing counted them.
    sender: Option<SenderOutcome>,
    /// Course over time; absent unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<Vec<Point>>,
    link: LinkRow,
    caveats: Vec<Caveat>,
}

#[derive(Clone, Debug, Serialize)]
struct LimitRow {
    limit: Limit,
    share: f64,
}

#[derive(Clone, Debug, Serialize)]
struct LinkRow {
    forward: LinkOutcome,
    reverse: LinkOutcome,
}

impl OutcomeRow {
    /// Row of run `run` of a cell, from 0, with this seed; without its series.
    #[must_use]
    pub fn new(
        engine: EngineName,
        scenario: &Scenario,
        cell: &Cell,
        (run, seed): (u32, u64),
        outcome: &Outcome,
    ) -> Self {
        let limit = |&(limit, share): &(Limit, f64)| LimitRow {
            limit,
            share: (share * 1e4).round() / 1e4,
        };
        Self {
            engine,
            scenario: scenario.name.clone(),
            variant: cell.variant.clone(),
            axes: cell.axes.iter().cloned().collect(),
            run,
            seed,
            usable: outcome.is_usable(),
            goodput_bps: outcome.goodput_bps,
            duration_s: outcome.duration_s,
            response_us: outcome.response_us,
            stall_max_us: outcome.stall_max_us,
            limits: outcome.limits.iter().map(limit).collect(),
            sender: outcome.sender,
            series: None,
            link: LinkRow {
                forward: outcome.forward,
                reverse: outcome.reverse,
            },
            caveats: outcome.caveats.clone(),
        }
    }

    /// The same with the course of the run.
    #[must_use]
    pub fn with_series(mut self, outcome: &Outcome) -> Self {
        self.series = Some(outcome.series.clone());
        self
    }
}
