//! Predictions for a connection, as written by `predict --json`.

use base::{Knob, KnobValue, Scope};
use lab::{Measure, Workload};
use serde::Serialize;

use crate::prediction::Range;
use crate::twin::{NoPrediction, SelfCheck, Timing, Tweak, Twin};
use crate::what_if::{Forecast, WhatIf, rank};

/// Settings to try, each on its own.
#[derive(Clone, Debug, Default)]
pub struct Tries {
    /// At the end that was looked at.
    pub near: Vec<(&'static Knob, KnobValue)>,
    /// At the other one.
    pub far: Vec<(&'static Knob, KnobValue)>,
}

/// Predictions for a connection.
#[derive(Clone, Debug, Serialize)]
pub struct Predictions {
    /// Null where there is no twin.
    pub twin: Option<TwinRow>,
    /// Why nothing is predicted.
    pub cannot_know: Option<NoPrediction>,
    /// The same in words.
    pub why: Option<String>,
    /// The best first.
    pub predictions: Vec<PredictionRow>,
}

/// The twin.
#[derive(Clone, Debug, Serialize)]
pub struct TwinRow {
    /// The path was given and not fitted.
    pub given: bool,
    /// The rates of the paths that fit, in bit/s.
    pub path_bps: Range,
    /// Round-trip time of the path, in microseconds.
    pub rtt_us: u64,
    /// The path in words; absent unless asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Inferred workload.
    pub workload: Workload,
    /// How well it shows what was seen.
    pub self_check: SelfCheck,
    /// Whether it may predict.
    pub ok: bool,
    /// Observed results.
    pub seen: Measure,
    /// Runs that were made to fit it.
    pub fitting_runs: usize,
}

/// Predicted effect of one change.
#[derive(Clone, Debug, Serialize)]
pub struct PredictionRow {
    /// The settings.
    pub change: String,
    /// `client`, `server` or `both`.
    pub end: &'static str,
    /// The widest scope of the settings.
    pub scope: Scope,
    /// The finding that proposes them; null where a user does.
    pub diagnosis: Option<&'static str>,
    /// Risks.
    pub risk: &'static str,
    /// Whether they act on connections that are opened afterwards.
    pub acts_on_new_connections: bool,
    /// Predicted effect, or the reason why it is unknown.
    #[serde(flatten)]
    pub forecast: Forecast,
    /// The same in words; absent unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Predictions {
    /// Without a twin, and why there is none: predictions by arithmetic, for proposals where that
    /// works.
    #[must_use]
    pub fn without_twin(why: NoPrediction, proposed: Vec<WhatIf>, before: &Measure) -> Self {
        let forecast = |what_if: WhatIf| {
            let gives = what_if.forecast_without_twin(&why, before);
            (what_if, gives)
        };
        let forecasts = proposed.into_iter().map(forecast);
        Self {
            twin: None,
            why: Some(why.to_string()),
            predictions: forecasts.map(PredictionRow::of).collect(),
            cannot_know: Some(why),
        }
    }

    /// Predictions by the twin for the proposals, and for other candidates.
    #[must_use]
    pub fn of(twin: &Twin, proposed: Vec<WhatIf>, tries: Tries, timing: Timing) -> Self {
        let mut all = proposed;
        let here = twin.seen().here;
        let tweak = |end, (knob, to)| Tweak { end, knob, to };
        let near = tries.near.into_iter().map(|setting| tweak(here, setting));
        let far = tries.far.into_iter();
        let far = far.map(|setting| tweak(here.other(), setting));
        for tweak in near.chain(far) {
            let what_if = WhatIf::of(vec![tweak], twin.seen());
            let same =
                |known: &WhatIf| known.text() == what_if.text() && known.at() == what_if.at();
            if !all.iter().any(same) {
                all.push(what_if);
            }
        }
        let forecast = |what_if: WhatIf| {
            let gives = what_if.forecast(twin, timing);
            (what_if, gives)
        };
        let mut forecasts: Vec<(WhatIf, Forecast)> = all.into_iter().map(forecast).collect();
        rank(&mut forecasts);
        let check = twin.self_check();
        let failed = (!check.holds()).then(|| NoPrediction::SelfCheck(check.clone()));
        Self {
            twin: Some(TwinRow::of(twin)),
            why: failed.as_ref().map(ToString::to_string),
            cannot_know: failed,
            predictions: forecasts.into_iter().map(PredictionRow::of).collect(),
        }
    }
}

impl TwinRow {
    fn of(twin: &Twin) -> Self {
        let trial = twin.trial();
        Self {
            given: twin.is_given(),
            path_bps: twin.path_range(),
            rtt_us: u64::try_from(trial.path.rtt().as_micros()).unwrap_or(u64::MAX),
            path: None,
            workload: trial.workload,
            self_check: twin.self_check().clone(),
            ok: twin.self_check().holds(),
            seen: twin.seen().measure,
            fitting_runs: twin.runs(),
        }
    }
}

impl PredictionRow {
    fn of((what_if, forecast): (WhatIf, Forecast)) -> Self {
        Self {
            change: what_if.text(),
            end: what_if.at(),
            scope: what_if.scope,
            diagnosis: what_if.diagnosis,
            risk: what_if.risk,
            acts_on_new_connections: what_if.on_new,
            forecast,
            text: None,
        }
    }
}
