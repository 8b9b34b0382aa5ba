//! Do it for real: every system call of tcptailor. The only crate that holds `unsafe`, reads a
//! clock or touches a file descriptor.

mod clock;
mod error;
mod netns;
mod worker;
pub mod workload;

pub use clock::Clock;
pub use error::{Error, Result};
pub use netns::{NAMED_DIR, NetnsHandle};
pub use worker::{
    Role, Worker, WorkerReport, WorkerSpec, own_program, run_worker, run_worker_process,
};
