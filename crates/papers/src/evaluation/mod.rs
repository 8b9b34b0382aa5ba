//! Experiments of the published documents beside what came out here: the judgement, and the
//! document that holds it.
//!
//! Nothing here runs a trial. Outcomes come in by engine and cell; what goes out is plain data from
//! which a text, a page and JSON are made, so that all three have the same numbers.

mod evaluate;
mod published;
pub mod remarks;
mod sentence;
pub mod words;

use std::collections::BTreeMap;

use lab::app::HostCosts;
use lab::judge::{Bounds, Spread, VALUE_TOLERANCE, Verdict};
use lab::{Caveat, Class, EngineName};
use serde::{Deserialize, Serialize};

use crate::diagrams::PacketDiagram;
use crate::experiments::SeedDocument;
use crate::figures::Drawing;
pub use evaluate::{CellName, Material, RunOf, evaluate, wants_more_runs};

/// Everything that was reproduced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// Circumstances of the reproduction.
    pub summary: Summary,
    /// One per scenario file, in the order in which they were chosen.
    pub experiments: Vec<ExperimentResult>,
}

/// How many experiments came out how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// See [`Verdict::Holds`].
    pub holds: usize,
    /// See [`Verdict::DeviatesAsExpected`].
    pub deviates_as_expected: usize,
    /// See [`Verdict::Calibrated`].
    pub calibrated: usize,
    /// See [`Verdict::Recorded`].
    pub recorded: usize,
    /// See [`Verdict::NotDistinguishable`].
    pub not_distinguishable: usize,
    /// See [`Verdict::NotTested`].
    #[serde(default)]
    pub not_tested: usize,
    /// See [`Verdict::Fails`].
    pub fails: usize,
    /// See [`Verdict::NotRun`].
    pub not_run: usize,
}

/// How a reproduction was made, and what it came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Experiments.
    pub verdicts: Counts,
    /// Real time that it took, in seconds.
    pub elapsed_s: f64,
    /// Whether the scenarios were shortened.
    pub quick: bool,
    /// Processing times of virtual hosts; `None` for the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_costs: Option<HostCosts>,
    /// Whether the user ended it early.
    pub interrupted: bool,
    /// Runs on all engines.
    pub runs: usize,
    /// Of these, taken from an earlier reproduction.
    pub runs_found: usize,
    /// Engines that were asked for, in the order of tables.
    pub engines: Vec<EngineName>,
    /// Experiments that this machine cannot run, with reasons.
    pub missing: Vec<NotRun>,
}

/// An engine that did not run something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotRun {
    /// Which.
    pub engine: EngineName,
    /// Why, in a few words.
    pub why: String,
    /// Whether the user left it out.
    #[serde(default)]
    pub by_choice: bool,
}

/// One scenario file with what came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentResult {
    /// Name of the scenario.
    pub scenario: String,
    /// Short names, such as `N1`.
    pub ids: Vec<String>,
    /// Description, in a sentence.
    pub about: String,
    /// Document in which it was published.
    pub document: SeedDocument,
    /// Meaning of its result.
    pub class: Class,
    /// The expectation.
    pub claim: String,
    /// Statement of the document that cannot be promised, with the reason.
    pub not_promised: Option<String>,
    /// Verdict.
    pub verdict: Verdict,
    /// The same in a sentence.
    pub why: String,
    /// A row per variant, point of the sweep, and number that is published or claimed.
    pub rows: Vec<NumberRow>,
    /// Engines that the file names and that did not run it.
    pub not_run: Vec<NotRun>,
    /// Doubts about its runs.
    pub doubts: Vec<Doubt>,
    /// Mistakes of the document that belong beside the numbers.
    pub corrections: Vec<CorrectionRow>,
    /// Its numbers as the document draws them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drawings: Vec<Drawing>,
    /// The first packets of its runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagrams: Vec<PacketDiagram>,
}

/// One number on all engines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumberRow {
    /// `None` where the scenario has no variants.
    pub variant: Option<String>,
    /// The number is divided by that of this variant.
    pub over: Option<String>,
    /// Keys and values of the sweep.
    pub axes: BTreeMap<String, String>,
    /// Its name in scenario files.
    pub metric: String,
    /// `bit/s`, `us`, `bytes`, `share`, `ratio`, or empty for things.
    pub unit: String,
    /// The value as printed in the document.
    pub published_text: Option<String>,
    /// The same as a number in the unit.
    pub published: Option<f64>,
    /// Whether a parameter was fitted on it, so that it is not a prediction.
    #[serde(default)]
    pub fitted: bool,
    /// How far a number may lie from the published one and still be that number, as a share of it.
    #[serde(default = "usual_tolerance")]
    pub tolerance: f64,
    /// Expected bounds.
    #[serde(alias = "claims")]
    pub expectations: Vec<Bounds>,
    /// In the order of tables; engines that did not run it are left out.
    pub engines: Vec<EngineValue>,
    /// The worst of those of the engines; by the class of the experiment.
    pub verdict: Verdict,
}

const fn usual_tolerance() -> f64 {
    VALUE_TOLERANCE
}

/// One number on one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineValue {
    /// Which.
    pub engine: EngineName,
    /// Median, its interval and the values; `None` where no run can be used or none measured it.
    pub spread: Option<Spread>,
    /// Runs that cannot be used and are left out.
    pub left_out: usize,
    /// Whether fewer runs can be used than it takes to tell from chance; see
    /// [`lab::judge::runs_to_tell`].
    #[serde(default)]
    pub untested: bool,
    /// [`Verdict::Recorded`] where nothing is claimed of it here.
    pub verdict: Verdict,
    /// A sentence where it does not plainly hold, or lies off the published number.
    pub why: Option<String>,
}

/// A doubt about runs of one experiment on one engine: the worst of its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// Which.
    pub engine: EngineName,
    /// The worst.
    #[serde(flatten)]
    pub caveat: Caveat,
    /// The same as a sentence.
    pub text: String,
    /// Number of runs.
    pub runs: usize,
    /// Total.
    pub of: usize,
}

/// A mistake of a document, as a report quotes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectionRow {
    /// Such as `D-N8`.
    pub id: String,
    /// Statement in the document.
    pub says: String,
    /// The error in it.
    pub wrong: String,
    /// The corrected wording.
    pub wording: String,
}

impl Counts {
    /// Counts the verdicts of experiments.
    #[must_use]
    pub fn of(experiments: &[ExperimentResult]) -> Self {
        let mut counts = Self::default();
        for experiment in experiments {
            *match experiment.verdict {
                Verdict::Recorded => &mut counts.recorded,
                Verdict::Holds => &mut counts.holds,
                Verdict::Calibrated => &mut counts.calibrated,
                Verdict::DeviatesAsExpected => &mut counts.deviates_as_expected,
                Verdict::NotRun => &mut counts.not_run,
                Verdict::NotTested => &mut counts.not_tested,
                Verdict::NotDistinguishable => &mut counts.not_distinguishable,
                Verdict::Fails => &mut counts.fails,
            } += 1;
        }
        counts
    }

    /// With what is counted, in the order of a summary; zeros included.
    #[must_use]
    pub const fn rows(&self) -> [(usize, Verdict); 8] {
        let Self {
            holds,
            deviates_as_expected,
            calibrated,
            recorded,
            not_distinguishable,
            not_tested,
            fails,
            not_run,
        } = *self;
        [
            (holds, Verdict::Holds),
            (deviates_as_expected, Verdict::DeviatesAsExpected),
            (calibrated, Verdict::Calibrated),
            (recorded, Verdict::Recorded),
            (not_distinguishable, Verdict::NotDistinguishable),
            (not_tested, Verdict::NotTested),
            (fails, Verdict::Fails),
            (not_run, Verdict::NotRun),
        ]
    }
}
