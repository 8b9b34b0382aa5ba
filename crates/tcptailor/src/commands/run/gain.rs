//! Effect that the change for a finding would have had: the one place from which the report takes
//! it.

use std::time::Duration;

use base::{Netns, Scope};
use doctor::{Place, Recording, Services, Track};
use tailor::{Forecast, Look, Timing, Twin};

use crate::commands::diagnose::document::{FlowRow, VerdictRow};

/// Timing of a program of this length.
const TIMING: Timing = Timing {
    settle: Duration::from_secs(3),
    warm_up: Duration::from_secs(3),
    look: Duration::from_secs(3),
};

/// What the change for a finding on a connection of `recording` would have given; `None` where
/// nothing is known of that: what a twin of the connection predicts, and what limits it then.
pub(super) fn expected(
    recording: &Recording,
    flow: &FlowRow,
    verdict: &VerdictRow,
    predicts: bool,
) -> Option<String> {
    let then = verdict.next.as_ref();
    let then = then.map(|next| format!("then: {next}"));
    let forecast = match predicts {
        true => predicted(recording, flow.place, verdict.id),
        false => None,
    };
    let predicted = forecast.map(|forecast| match forecast {
        Forecast::Known(prediction) => format!("predicted {}", prediction.text()),
        Forecast::Unknown(why) => format!("not predicted: {why}"),
    });
    match (predicted, then) {
        (Some(predicted), Some(then)) => Some(format!("{predicted}; {then}")),
        (one, other) => one.or(other),
    }
}

/// Prediction of a twin for the doctor's change of a socket against this finding.
fn predicted(recording: &Recording, place: Place, diagnosis: &str) -> Option<Forecast> {
    let services = Services::of(recording);
    let is_of = |track: &Track| services.place(track.key) == place;
    let look = Look::new((recording.clone(), Netns::Own), None, |recording| {
        tailor::measure_of(recording, is_of)
    });
    let what_if = look.observed(|observed| {
        let answers = observed.answers(is_of);
        let mut all = tailor::what_ifs(&answers).into_iter();
        all.find(|what_if| what_if.diagnosis == Some(diagnosis) && what_if.scope == Scope::Socket)
    })?;
    Some(match Twin::of(&look, place) {
        Ok(twin) => what_if.forecast(&twin, TIMING),
        Err(why) => Forecast::Unknown(why),
    })
}
