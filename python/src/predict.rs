//! What changes would give, as `tcptailor predict FILE --json`.

use std::time::Duration;

use base::{Knob, KnobValue, Scope};
use doctor::Place;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use tailor::{CannotKnow, Foretold, Look, Range, SelfCheck, Timing, Tweak, Twin, WhatIf};

use crate::{diagnose, request, wrong};

/// As the program has it.
const TIMING: Timing = Timing {
    settle: Duration::from_secs(3),
    warm_up: Duration::from_secs(3),
    look: Duration::from_secs(4),
};

/// What is to be predicted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    path: String,
    /// Settings to try at the observed end, each on its own.
    near: Vec<(String, String)>,
    /// The same at the other end.
    far: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Answer {
    twin: Option<TwinRow>,
    cannot_know: Option<CannotKnow>,
    /// Why nothing is predicted, in words.
    why: Option<String>,
    predictions: Vec<Row>,
}

#[derive(Serialize)]
struct TwinRow {
    given: bool,
    path_bps: Range,
    rtt_us: u64,
    workload: lab::Workload,
    self_check: SelfCheck,
    ok: bool,
    seen: lab::Measure,
    fitting_runs: usize,
}

#[derive(Serialize)]
struct Row {
    change: String,
    end: &'static str,
    scope: Scope,
    diagnosis: Option<&'static str>,
    risk: &'static str,
    acts_on_new_connections: bool,
    #[serde(flatten)]
    foretold: Foretold,
    /// What is predicted, or why nothing is, in words.
    text: String,
}

/// A knob and its value.
type Setting = (&'static Knob, KnobValue);

/// Predicts, of the most important connection of a recording, what the doctor proposes and what
/// the user wants to try.
#[pyfunction]
pub(crate) fn predict(py: Python<'_>, asked: &str) -> PyResult<String> {
    let asked: Request = request(asked)?;
    let (near, far) = (parse(&asked.near)?, parse(&asked.far)?);
    let answer = py.detach(|| {
        let here = diagnose::open(&asked.path)?;
        let look = Look::new(here, None, |recording| {
            tailor::measure_of(recording, |_| true)
        });
        Ok::<_, PyErr>(answer(&look, (near, far)))
    })?;
    Ok(serde_json::to_string(&answer).expect("plain data"))
}

fn parse(settings: &[(String, String)]) -> PyResult<Vec<Setting>> {
    let one = |(name, value): &(String, String)| {
        setting(name, value).map_err(|error| wrong(format!("{name} = {value}: {error}")))
    };
    settings.iter().map(one).collect()
}

fn setting(name: &str, value: &str) -> Result<Setting, base::KnobError> {
    let knob = base::find_knob(name)?;
    Ok((knob, knob.parse(value)?))
}

fn answer(look: &Look, (near, far): (Vec<Setting>, Vec<Setting>)) -> Answer {
    let place = look.observed(|observed| {
        let answers = observed.answers(|_| true);
        answers.first().map(|first| Place::of(first.ends.local.key))
    });
    let Some(place) = place else {
        return Answer::none(CannotKnow::NoConnection);
    };
    let twin = match Twin::of(look, place) {
        Ok(twin) => twin,
        Err(why) => return Answer::none(why),
    };
    let mut all: Vec<WhatIf> = look.observed(|observed| {
        let answers = observed.answers(|track| Place::of(track.key) == place);
        answers.first().map_or_else(Vec::new, tailor::what_ifs)
    });
    let here = twin.seen().here;
    let tweak = |end, (knob, to)| Tweak { end, knob, to };
    let near = near.into_iter().map(|setting| tweak(here, setting));
    let far = far.into_iter().map(|setting| tweak(here.other(), setting));
    for tweak in near.chain(far) {
        let what_if = WhatIf::of(vec![tweak], twin.seen());
        let same = |known: &WhatIf| known.text() == what_if.text() && known.at() == what_if.at();
        if !all.iter().any(same) {
            all.push(what_if);
        }
    }
    let foretell = |what_if: WhatIf| {
        let gives = what_if.foretell(&twin, TIMING);
        (what_if, gives)
    };
    let mut foretold: Vec<(WhatIf, Foretold)> = all.into_iter().map(foretell).collect();
    tailor::rank(&mut foretold);
    let check = twin.self_check();
    let failed = (!check.holds()).then(|| CannotKnow::SelfCheck(check.clone()));
    Answer {
        twin: Some(TwinRow::of(&twin)),
        why: failed.as_ref().map(ToString::to_string),
        cannot_know: failed,
        predictions: foretold.into_iter().map(Row::of).collect(),
    }
}

impl Answer {
    fn none(why: CannotKnow) -> Self {
        Self {
            twin: None,
            why: Some(why.to_string()),
            cannot_know: Some(why),
            predictions: Vec::new(),
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
            workload: trial.workload,
            self_check: twin.self_check().clone(),
            ok: twin.self_check().holds(),
            seen: twin.seen().measure,
            fitting_runs: twin.runs(),
        }
    }
}

impl Row {
    fn of((what_if, foretold): (WhatIf, Foretold)) -> Self {
        Self {
            change: what_if.text(),
            end: what_if.at(),
            scope: what_if.scope,
            diagnosis: what_if.diagnosis,
            risk: what_if.risk,
            acts_on_new_connections: what_if.on_new,
            text: match &foretold {
                Foretold::Known(prediction) => prediction.text(),
                Foretold::Unknown(why) => why.to_string(),
            },
            foretold,
        }
    }
}
