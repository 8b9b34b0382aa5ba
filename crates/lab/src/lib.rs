//! The lab: trials, workloads, scenario files, statistics, and what an engine returns.
//!
//! This crate runs nothing on a real network and reads no clock or file: scenario files come in as
//! text, measurements as numbers.
#![forbid(unsafe_code)]

mod agenda;
mod agreement;
pub mod app;
pub mod bdp;
mod builtin;
mod doubts;
mod engine;
mod faults;
pub mod judge;
pub mod known;
mod limit_errors;
mod measure;
mod outcome;
mod repeat;
pub mod results;
mod row;
mod scenario;
mod series;
pub mod show;
pub mod stats;
mod sweep;
pub mod text;
mod trial;
mod virtual_engine;
mod workload;
pub mod world;

pub use agreement::{
    AGREEMENT_SCENARIOS, Agreement, ERROR_MEDIAN_MAX, ERROR_P90_MAX, ERROR_TO_EXPLAIN, StackMode,
    agreement_label, agreement_scenarios, compared_metrics, error_percentile, everyday_cells,
    known_cause, median_and_spread,
};
pub use app::WARM_UP;
pub use builtin::{
    BUILTIN_SCENARIOS, UnknownScenario, find_scenario, find_scenario_text, find_scenario_text_in,
};
pub use doubts::{CaveatKind, caveat_kinds};
pub use engine::{EngineName, UnknownEngine};
pub use faults::{FAULTS, Fault, RequiredEffect, find_fault};
pub use limit_errors::{
    LimitError, LimitErrors, SHARE_ERROR_MAX, SHARE_THAT_MATTERS, ScoredFlow, fault_cells,
    gallery_cells, score_limits,
};
pub use measure::{Measure, Offered, show_value};
pub use outcome::{
    Caveat, LatenessMicros, LinkOutcome, Outcome, Point, ResponseMicros, STALL_US, SenderOutcome,
    SentPacket,
};
pub use repeat::wants_another_run;
pub use row::OutcomeRow;
pub use scenario::{
    CELLS_MAX, Cell, Class, CostsOf, Expectation, Experiment, Metric, ProbeSpec, Published,
    SWEEP_CELLS_MAX, Scenario, Unit, Vocabulary,
};
pub use series::{FlowLook, POINTS_MAX, Series};
pub use show::cell_name;
pub use sweep::{AXIS_VALUES_MAX, Shard, Vary, axis_number};
pub use trial::{End, HostSpec, PathSpec, Settings, Trial};
pub use virtual_engine::{
    Arrival, LabelledFlow, SAMPLE_INTERVAL, SeenFlow, SeenHost, SetError, Virtual, VirtualLook,
    VirtualProgress, VirtualRun, VirtualSession, VirtualTarget,
};
pub use workload::{
    Amount, Completion, Direction, Pace, Quotes, RecordWrites, Records, SizeRange, UNACKED_LOOK,
    UNACKED_ROOM_MIN, Workload, WriteMethod, unacked_room,
};
