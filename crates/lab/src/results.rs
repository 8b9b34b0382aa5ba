//! Results folders: what a sweep writes down, so that it can be interrupted, resumed, split over
//! machines and joined again.
//!
//! A folder has a manifest, `run.json`, which says what is run, and for each shard a file
//! `outcomes-I-of-N.jsonl` to which a line is added for each run that is over. Here is what these
//! files say; reading and writing them is the program's. Nothing depends on what
//! date a run has; that it has one says that it was made in real time.

mod compare;
mod manifest;
mod reasons;
mod record;
mod summary;

pub use compare::{CellComparison, Compared, compare};
pub use manifest::{FORMAT, Host, Manifest, Planned, SWEEP_RUNS_MAX, SweepPlan};
pub use reasons::Reason;
pub use record::{Line, Record, RunId, Usability, read_line};
pub use summary::{CellSummary, Figure, Measured, Summary};

/// The name of the manifest in its folder.
pub const MANIFEST_FILE: &str = "run.json";

/// The name of a shard's file in its folder.
#[must_use]
pub fn outcomes_file(shard: crate::Shard) -> String {
    format!("outcomes-{}-of-{}.jsonl", shard.index(), shard.of())
}

/// Whether a file of a folder holds outcomes.
#[must_use]
pub fn is_outcomes_file(name: &str) -> bool {
    name.starts_with("outcomes-") && name.ends_with(".jsonl")
}
