//! Fields that make a scenario an experiment: which statement of which document it is about, and
//! what was published.

use serde::{Deserialize, Serialize};

use super::expect::needs_trials_of;
use super::metric::Metric;
use crate::engine::EngineName;

/// Meaning of an experiment's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A rule: right to the byte, packet or tick of a timer in virtual time.
    Exact,
    /// The published number comes out within a tolerance.
    Value,
    /// One free parameter was fitted to this very number: no prediction.
    Calibrated,
    /// Order, monotony, plateau or ratio; no absolute number is claimed.
    Shape,
    /// The published statement is expected not to hold; the experiment shows why.
    Deviates,
}

impl Class {
    /// All, by the names that scenario files use.
    pub const ALL: &[(&'static str, Self)] = &[
        ("exact", Self::Exact),
        ("value", Self::Value),
        ("calibrated", Self::Calibrated),
        ("shape", Self::Shape),
        ("deviates", Self::Deviates),
    ];

    /// Name used in scenario files and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, class)| *class == self);
        named.map_or("", |(name, _)| name)
    }
}

/// A number that stands in a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Variant; `None` where the scenario has none.
    pub variant: Option<String>,
    /// Divided by that of this variant.
    pub over: Option<String>,
    /// Which number.
    pub metric: Metric,
    /// In the unit of the metric; a bare ratio with `over`.
    pub value: f64,
    /// The value as printed in the publication.
    pub text: String,
    /// Whether a parameter of the file was fitted on this number, so that it is not a prediction.
    pub fitted: bool,
}

impl Published {
    /// Whether trials of `variant` tell about it: as what is divided, or as what it is divided by.
    #[must_use]
    pub fn needs(&self, variant: Option<&str>) -> bool {
        needs_trials_of(variant, (self.variant.as_deref(), self.over.as_deref()))
    }
}

/// Additional fields of a scenario that is an experiment of the seed documents.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Its short names, such as `N1`; at least one.
    pub ids: Vec<String>,
    /// The document that describes it, as scenario files name it; see [`super::Vocabulary`].
    pub document: String,
    /// Meaning of the result.
    pub class: Class,
    /// How far a number may lie from the published one and still be that number, as a share of it;
    /// `None` for the usual one.
    pub tolerance: Option<f64>,
    /// The expectation, in a sentence.
    pub claim: String,
    /// Engines that can run it.
    pub engines: Vec<EngineName>,
    /// Ids of the document's mistakes that belong beside the numbers, such as `D-N5`.
    pub corrections: Vec<String>,
    /// Statement of the document that cannot be promised, with the reason.
    pub not_promised: Option<String>,
    /// Published values.
    pub published: Vec<Published>,
}
