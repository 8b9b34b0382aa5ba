//! The five published documents that tcptailor grew from: the calls of the systems they describe,
//! their sample programs, what they measured as experiments, what they are mistaken in, and what
//! comes out here beside what they printed.
//!
//! [`experiments`] are scenario files; [`probe`] measures what no path and no workload expresses.
//! [`reproduction`] plans and runs them on the engines that a machine has, [`evaluation`] judges
//! the runs. [`netburner`] and [`nodelay`] are the programming interface and the sample programs
//! that two of the documents are about. Showing, storing and printing are elsewhere.
#![forbid(unsafe_code)]

mod corrections;
pub mod diagrams;
pub mod evaluation;
pub mod experiments;
pub mod figures;
pub mod netburner;
pub mod nodelay;
pub mod page;
pub mod probe;
pub mod reproduction;

pub use corrections::{CORRECTIONS, Correction, find_correction};
