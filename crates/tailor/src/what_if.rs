//! Changes to try in a twin, and their predicted effects. Nothing is changed on a host.

use base::{Live, Scope};
use doctor::{Objective, Place, Proposal, Services, Side, Verdict};
use lab::Measure;
use serde::Serialize;

use crate::candidate::Candidate;
use crate::measure::measurable;
use crate::observed::Answered;
use crate::prediction::Prediction;
use crate::subject::Look;
use crate::twin::{NoPrediction, Observables, Timing, Tweak, Twin, end_of_place};
use crate::waited::Waited;

/// Settings to try together.
#[derive(Clone, Debug)]
pub struct WhatIf {
    /// The finding that proposes them; `None` where a user does.
    pub diagnosis: Option<&'static str>,
    /// Objective to improve.
    pub objective: Objective,
    /// The widest scope of them.
    pub scope: Scope,
    /// Risks.
    pub risk: &'static str,
    /// Their effect is that on connections that are opened afterwards.
    pub on_new: bool,
    /// The settings.
    pub tweaks: Vec<Tweak>,
    /// The wait that they end, where it is known.
    pub(crate) waited: Option<Waited>,
}

/// Result of predicting one candidate.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forecast {
    /// Predicted effect.
    Known(Box<Prediction>),
    /// Why that is not known.
    Unknown(NoPrediction),
}

impl WhatIf {
    /// A change that a user wants to try.
    #[must_use]
    pub fn of(tweaks: Vec<Tweak>, seen: &Observables) -> Self {
        let scope = tweaks.iter().map(|tweak| tweak.knob.scope).max();
        let scope = scope.unwrap_or(Scope::Socket);
        // The only option of a socket that is read when it connects.
        let needs_new = tweaks.iter().any(|tweak| tweak.knob.name == "mss");
        Self {
            diagnosis: None,
            objective: seen.measure.own_objective(),
            scope,
            risk: "",
            on_new: needs_new || scope > Scope::Socket,
            tweaks,
            waited: None,
        }
    }

    /// `nodelay = on`.
    #[must_use]
    pub fn text(&self) -> String {
        let mut shown: Vec<String> = self.tweaks.iter().map(Tweak::text).collect();
        shown.dedup();
        shown.join(", ")
    }

    /// `client`, `server` or `both`.
    #[must_use]
    pub fn at(&self) -> &'static str {
        let mut ends = self.tweaks.iter().map(|tweak| tweak.end);
        let first = ends.next();
        match first {
            Some(first) if ends.all(|end| end == first) => first.name(),
            Some(_) => "both",
            None => "",
        }
    }

    /// Predicts its effect.
    #[must_use]
    pub fn forecast(&self, twin: &Twin, timing: Timing) -> Forecast {
        let forecast = twin.predict(&self.tweaks, self.objective, (self.on_new, timing));
        Forecast::of(
            forecast,
            (self.waited, self.objective),
            &twin.seen().measure,
        )
    }

    /// Its effect if there is no twin.
    pub(crate) fn forecast_without_twin(&self, why: &NoPrediction, before: &Measure) -> Forecast {
        Forecast::of(Err(why.clone()), (self.waited, self.objective), before)
    }
}

impl Forecast {
    /// Prediction by the twin; else by the time saved.
    fn of(
        twin: Result<Prediction, NoPrediction>,
        (waited, objective): (Option<Waited>, Objective),
        before: &Measure,
    ) -> Self {
        let is_told = |prediction: &Prediction| prediction.gain.is_some();
        match (twin, waited) {
            (Ok(prediction), _) if is_told(&prediction) => Self::Known(Box::new(prediction)),
            (_, Some(waited)) => Self::Known(Box::new(waited.ended(objective, before))),
            (Ok(prediction), None) => Self::Known(Box::new(prediction)),
            (Err(why), None) => Self::Unknown(why),
        }
    }

    /// How many times better; `None` where that is not known.
    #[must_use]
    pub fn gain(&self) -> Option<f64> {
        match self {
            Self::Known(prediction) => prediction.gain,
            Self::Unknown(_) => None,
        }
    }
}

/// The changes that the doctor's findings on the first of these connections propose, on whichever
/// host; proposals of one scope belong together. The others are those that it has beside it.
#[must_use]
pub fn what_ifs(answers: &[Answered<'_, '_>]) -> Vec<WhatIf> {
    let Some(answered) = answers.first() else {
        return Vec::new();
    };
    let findings = answered.report.verdicts.iter();
    let findings = findings.filter(|verdict| verdict.diagnosis.is_finding());
    findings
        .flat_map(|verdict| of_verdict(answered, answers, verdict))
        .collect()
}

/// The same for the most important connection of a service.
#[must_use]
pub fn proposed(look: &Look, place: Place) -> Vec<WhatIf> {
    look.observed(|observed| {
        let services = Services::of(&look.here);
        let answers = observed.answers(|track| services.place(track.key) == place);
        what_ifs(&answers)
    })
}

fn of_verdict(
    answered: &Answered<'_, '_>,
    all: &[Answered<'_, '_>],
    verdict: &Verdict,
) -> Vec<WhatIf> {
    let (place, diagnosis) = (answered.case.place(), verdict.diagnosis.id);
    let waited =
        Waited::of(answered, verdict).map(|waited| waited.among((all, 0), place, diagnosis));
    let mut found: Vec<WhatIf> = Vec::new();
    for proposal in &verdict.proposals {
        let scope = proposal.knob.scope;
        let on_new = proposal.live != Live::Now || scope > Scope::Socket;
        let tweak = Tweak {
            end: end_of_proposal(answered, proposal),
            knob: proposal.knob,
            to: proposal.to.clone(),
        };
        let is_same = |known: &&mut WhatIf| known.scope == scope && known.on_new == on_new;
        match found.iter_mut().find(is_same) {
            Some(known) => known.tweaks.push(tweak),
            None => found.push(WhatIf {
                diagnosis: Some(verdict.diagnosis.id),
                objective: verdict.diagnosis.objective,
                scope,
                risk: proposal.risk,
                on_new,
                tweaks: vec![tweak],
                waited,
            }),
        }
    }
    found
}

fn end_of_proposal(answered: &Answered<'_, '_>, proposal: &Proposal) -> lab::End {
    let local = answered.ends.local.key;
    let here = end_of_place(answered.case.place());
    let is_here = match (proposal.beside, proposal.side) {
        (Some(key), _) => key.local.ip() == local.local.ip(),
        (None, side) => side == Side::Local,
    };
    if is_here { here } else { here.other() }
}

/// Predicts the effects of candidates, by their texts, from a look at the connections before any of
/// them is applied, in the metric that experiments have of a program with these results.
pub(crate) fn forecast(
    look: &Look,
    (candidates, measured): (&[Candidate], &Measure),
    timing: Timing,
) -> Vec<(String, Forecast)> {
    let Some(place) = candidates.first().map(|candidate| candidate.place) else {
        return Vec::new();
    };
    let twin = Twin::of(look, place);
    let foretell_one = |candidate: &Candidate| {
        let tweaks = Twin::tweaks(look, place, &candidate.changes)?;
        let how = (candidate.acts_on_new_connections(), timing);
        twin.as_ref().map_err(Clone::clone)?.predict(
            &tweaks,
            measurable(candidate.objective, measured),
            how,
        )
    };
    candidates
        .iter()
        .map(|candidate| {
            let forecast = Forecast::of(
                foretell_one(candidate),
                (candidate.waited, measurable(candidate.objective, measured)),
                measured,
            );
            (candidate.text(), forecast)
        })
        .collect()
}

/// The best first: by gain in steps of a tenth, then by scope, then those without a risk.
pub(crate) fn rank(all: &mut [(WhatIf, Forecast)]) {
    all.sort_by(|(a, a_gives), (b, b_gives)| {
        let steps = |forecast: &Forecast| {
            forecast
                .gain()
                .map_or(i64::MIN, |gain| (gain.max(1e-9).ln() / 0.1).round() as i64)
        };
        steps(b_gives)
            .cmp(&steps(a_gives))
            .then(a.scope.cmp(&b.scope))
            .then(a.risk.is_empty().cmp(&b.risk.is_empty()).reverse())
    });
}
