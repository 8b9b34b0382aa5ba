//! The tailor: predicts, tries, keeps and rolls back changes.
//!
//! A pure crate: it works on a [`Subject`], in which time passes. The program drives it; real
//! hosts, lab paths and simulated hosts are all the same to it. A *look* is one period of
//! observation: its recordings, and what the program achieved in it ([`Look`]).
//!
//! [`Observed`] asks the doctor about what was recorded; [`candidates`] turns a finding into the
//! changes that may fix it; an [`Experiment`] says whether one is better than none; [`fit`] does so
//! until nothing is left.

mod arrivals;
mod candidate;
mod experiment;
mod fit;
mod measure;
mod observed;
mod prediction;
mod predictions;
mod relay;
mod row;
mod simulated;
mod subject;
mod targets;
mod truth;
mod twin;
mod waited;
mod what_if;

pub use arrivals::{Arrivals, LOOK_INTERVAL};
pub use candidate::{Candidate, Design, NoCandidate, candidates};
pub use experiment::{Answer, Arm, Experiment, GAIN_MIN, Outcome};
pub use fit::{
    ChangeMade, Ending, Finding, FitEvent, FitOptions, Fitting, Tell, Tried, apply_and_look,
    comparison, fit, fit_given,
};
pub use measure::{Counters, Others, completed, measure_of};
pub use observed::{Answered, Observed};
pub use prediction::{Prediction, Range, Source};
pub use predictions::{PredictionRow, Predictions, Tries, TwinRow};
pub use row::{ChangeRow, Direction, FlowRow, LimitShare, VerdictRow, rate_of_rows, sort_rows};
pub use simulated::{Progress, Simulated, SimulatedError, host_name};
pub use subject::{Applied, Look, Settings, Subject, Undone, Values};
pub use targets::{End, Ends};
pub use truth::{
    KnobChange, Score, Scored, TruthCase, Unpredicted, WORST, drawn_cases, refusals, score,
    truth_cases,
};
pub use twin::{
    Compared, GOODPUT_TOLERANCE, LostTogether, MEAN_TOLERANCE, NoPrediction, Observables,
    RESPONSE_TOLERANCE, RTT_TOLERANCE, SelfCheck, Timing, Tweak, Twin, Way,
};
pub use what_if::{Forecast, WhatIf, proposed, what_ifs};
