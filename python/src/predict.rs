//! What changes would give, as `tcptailor predict FILE --json`.

use std::time::Duration;

use base::{Knob, KnobValue};
use pyo3::prelude::*;
use serde::Deserialize;
use tailor::{Forecast, Look, NoPrediction, Predictions, Timing, Tries, Twin};

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

/// A knob and its value.
type Setting = (&'static Knob, KnobValue);

/// Predicts, of the most important connection of a recording or a capture, what the doctor
/// proposes and what the user wants to try.
#[pyfunction]
pub(crate) fn predict(py: Python<'_>, asked: &str) -> PyResult<String> {
    let asked: Request = request(asked)?;
    let tries = Tries {
        near: parse(&asked.near)?,
        far: parse(&asked.far)?,
    };
    let answer = py.detach(|| {
        let look = diagnose::look(&asked.path)?;
        Ok::<_, PyErr>(answer(&look, tries))
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

fn answer(look: &Look, tries: Tries) -> Predictions {
    let place = look.observed(|observed| {
        let answers = observed.answers(|_| true);
        answers.first().map(|first| first.case.place())
    });
    let Some(place) = place else {
        return Predictions::without_twin(NoPrediction::NoConnection, Vec::new(), &look.measure);
    };
    let proposed = tailor::proposed(look, place);
    let mut answer = match Twin::of(look, place) {
        Ok(twin) => Predictions::of(&twin, proposed, tries, TIMING),
        Err(why) => Predictions::without_twin(why, proposed, &look.measure),
    };
    for row in &mut answer.predictions {
        row.text = Some(match &row.forecast {
            Forecast::Known(prediction) => prediction.text(),
            Forecast::Unknown(why) => why.to_string(),
        });
    }
    answer
}
