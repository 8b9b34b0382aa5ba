//! The doctor's findings on a trial: it sees samples, as `diagnose` does of a kernel, and knows
//! nothing of what our stack knows.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use base::{Limit, Live};
use doctor::{Confidence, Evidence, Side, Verdict};
use lab::{Amount, Caveat, End, SetError, Trial, Virtual};
use serde::Serialize;
use tailor::{Answered, Simulated, SimulatedError, Subject};

/// How long the doctor looks at least and at most: less shows too little, and more makes slow
/// machines wait. In between it looks for as long as is measured.
const LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3));

/// One thing that the doctor says.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    /// Which end was looked at.
    seen_at: &'static str,
    id: &'static str,
    sentence: &'static str,
    /// Whether there is something to change, or a defect.
    is_finding: bool,
    limit: Option<Limit>,
    share: f64,
    confidence: Confidence,
    evidence: Vec<Evidence>,
    changes: Vec<ChangeRow>,
    remark: String,
}

/// A setting that would help.
#[derive(Debug, Serialize)]
struct ChangeRow {
    knob: &'static str,
    /// With its unit.
    to: String,
    /// `client` or `server`.
    host: &'static str,
    takes_effect: Live,
}

/// Reason for which a look is impossible.
#[derive(Debug)]
enum Obstacle {
    Caveats(Vec<Caveat>),
    Simulated(SimulatedError),
}

impl From<SimulatedError> for Obstacle {
    fn from(error: SimulatedError) -> Self {
        Self::Simulated(error)
    }
}

impl From<SetError> for Obstacle {
    fn from(error: SetError) -> Self {
        Self::Simulated(SimulatedError::Refused(error))
    }
}

impl Obstacle {
    fn told(&self) -> String {
        match self {
            Self::Caveats(caveats) => {
                let told: Vec<String> = caveats.iter().map(ToString::to_string).collect();
                told.join("; ")
            }
            Self::Simulated(error) => error.to_string(),
        }
    }
}

/// The doctor's findings on the connections of a trial while they are busy, each verdict once.
///
/// # Errors
/// Why there is no finding.
pub(crate) fn of(trial: &Trial) -> Result<Vec<Finding>, String> {
    let (findings, unknown) = look(trial).map_err(|hindrance| hindrance.told())?;
    match unknown {
        Some(why) if findings.is_empty() => Err(why),
        _ => Ok(findings),
    }
}

/// Findings, and the reason if a connection has none.
fn look(trial: &Trial) -> Result<(Vec<Finding>, Option<String>), Obstacle> {
    let stop = AtomicBool::new(false);
    // The doctor looks at programs that go on.
    let mut endless = trial.clone();
    endless.workload.set_endless();
    let session = Virtual::default()
        .start(&endless)
        .map_err(Obstacle::Caveats)?;
    let mut hosts: Simulated<'_, Obstacle> =
        Simulated::new(session, &stop, Box::new(|_, _, _| {})).with_interval(lab::SAMPLE_INTERVAL);
    hosts.wait(lab::WARM_UP)?;
    let time = match trial.workload.amount() {
        Amount::Time(time) => time.clamp(LOOK.0, LOOK.1),
        _ => LOOK.1,
    };
    let look = hosts.look(time)?;
    let (mut findings, mut unknown): (Vec<Finding>, Option<String>) = (Vec::new(), None);
    look.observed(|observed| {
        for answered in observed.answers(|_| true) {
            let end = end_of(&answered);
            if unknown.is_none() {
                unknown.clone_from(&answered.report.unknown);
            }
            for verdict in &answered.report.verdicts {
                let is_told = findings.iter().any(|told| told.id == verdict.diagnosis.id);
                if !is_told {
                    findings.push(Finding::new(end, verdict));
                }
            }
        }
    });
    Ok((findings, unknown))
}

/// The end that was looked at: the program listens at the server's.
fn end_of(answered: &Answered<'_, '_>) -> End {
    match answered.ends.local.key.local.port() {
        lab::app::LAB_PORT => End::Server,
        _ => End::Client,
    }
}

impl Finding {
    fn new(end: End, verdict: &Verdict) -> Self {
        let other = match end {
            End::Client => End::Server,
            End::Server => End::Client,
        };
        let change = |proposal: &doctor::Proposal| ChangeRow {
            knob: proposal.knob.name,
            to: proposal.knob.format(&proposal.to),
            host: match proposal.side {
                Side::Local => end.name(),
                Side::Remote => other.name(),
            },
            takes_effect: proposal.live,
        };
        Self {
            seen_at: end.name(),
            id: verdict.diagnosis.id,
            sentence: verdict.diagnosis.sentence,
            is_finding: verdict.diagnosis.is_finding(),
            limit: verdict.limit,
            share: verdict.share,
            confidence: verdict.confidence,
            evidence: verdict.evidence.clone(),
            changes: verdict.proposals.iter().map(change).collect(),
            remark: verdict.remark.clone(),
        }
    }
}
