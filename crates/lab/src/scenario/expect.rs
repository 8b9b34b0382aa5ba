//! Expectations of a scenario.

use super::metric::Metric;
use crate::app::HostCosts;
use crate::engine::EngineName;
use crate::show::{number_name, unit_name};

/// A claim: a number lies between two limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// About what.
    pub metric: Metric,
    /// For which variant; `None` for all.
    pub variant: Option<String>,
    /// The claim is about the number divided by that of this variant, at the same point of the
    /// sweep.
    pub over: Option<String>,
    /// On which engines; empty for all.
    pub engines: Vec<EngineName>,
    /// With which costs of virtual hosts; `None` for all.
    pub costs: Option<CostsOf>,
    /// Smallest value that is right, in the unit of the metric; a bare number with `over`.
    pub min: Option<f64>,
    /// Largest value that is right, in the same unit.
    pub max: Option<f64>,
    /// Why it is claimed.
    pub reason: String,
    /// Changes of a bound after a run: date, previous bound, and reason; oldest first.
    pub history: Vec<String>,
}

/// Origin of the processing times of virtual hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostsOf {
    /// [`HostCosts::linux`].
    Usual,
    /// Measured on a machine.
    Measured,
}

impl CostsOf {
    /// By the names that scenario files use.
    pub(super) const ALL: &[(&'static str, Self)] =
        &[("usual", Self::Usual), ("measured", Self::Measured)];

    /// Origin of the costs of a virtual engine.
    #[must_use]
    pub fn of(costs: &HostCosts) -> Self {
        match *costs == HostCosts::linux() {
            true => Self::Usual,
            false => Self::Measured,
        }
    }
}

/// Whether trials of a variant tell about a number of `of`, or about its ratio to that of `over`.
pub(super) fn needs_trials_of(
    variant: Option<&str>,
    (of, over): (Option<&str>, Option<&str>),
) -> bool {
    of.is_none() || of == variant || over.is_some() && over == variant
}

impl Expectation {
    /// Whether it is about trials of `variant`, by themselves or as what is divided.
    #[must_use]
    pub fn applies_to(&self, variant: Option<&str>) -> bool {
        self.variant.is_none() || self.variant.as_deref() == variant
    }

    /// Whether trials of `variant` tell about it: as what is divided, or as what it is divided by.
    #[must_use]
    pub fn needs(&self, variant: Option<&str>) -> bool {
        needs_trials_of(variant, (self.variant.as_deref(), self.over.as_deref()))
    }

    /// Unit of its bounds: `bit/s`, `us`, `bytes`, `share`, `ratio`, or empty for names.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        unit_name(self.metric, self.over.is_some())
    }

    /// Subject for sentences: `goodput_bps`, or `goodput_bps over that of nodelay`.
    #[must_use]
    pub fn name(&self) -> String {
        number_name(self.metric, self.over.as_deref())
    }

    /// Whether it is about virtual hosts with such costs, or about any.
    #[must_use]
    pub fn applies_with(&self, costs: CostsOf) -> bool {
        self.costs.is_none_or(|claimed| claimed == costs)
    }

    /// Whether it is about this engine.
    #[must_use]
    pub fn applies_on(&self, engine: EngineName) -> bool {
        self.engines.is_empty() || self.engines.contains(&engine)
    }
}
