//! Names in scenario files that other crates define: probes, and documents that describe
//! experiments.

/// A probe as far as a scenario file is concerned: a measurement that stands in place of a path and
/// a workload and returns named figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSpec {
    /// Name used in scenario files.
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Names of all the figures that it may return.
    pub figures: &'static [&'static str],
}

impl ProbeSpec {
    /// In place of one that there is not.
    pub(super) const UNKNOWN: Self = Self {
        name: "",
        about: "",
        figures: &[],
    };
}

/// The names that a reader of scenario files knows beside those of [`crate::Scenario::parse`].
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    /// For `[probe]`; without any, no file may have that table.
    pub probes: Vec<ProbeSpec>,
    /// For `document` of `[experiment]`; without any, a file may write what it likes.
    pub documents: &'static [&'static str],
}
