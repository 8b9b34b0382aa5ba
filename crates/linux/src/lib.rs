//! Access to the real system: every system call of tcptailor. The only crate that holds `unsafe`,
//! reads a clock or touches a file descriptor.

#[cfg(test)]
extern crate self as linux;

mod actuator;
mod all_netns;
#[cfg(test)]
#[path = "../tests/asking/mod.rs"]
mod asking;
pub mod autocork;
mod calibrate;
pub mod calls;
pub mod cleanup;
mod clock;
mod counters;
mod cpu_latency;
mod driver;
mod emulator;
mod error;
mod filter;
pub mod http;
pub mod journal;
pub mod kernel;
mod lab_netns;
mod lateness;
mod links;
mod named_pipe;
pub mod netlink;
mod netlink_dump;
mod netns;
mod offload;
mod path;
mod path_to;
mod persist;
mod plan;
pub mod privilege;
mod process;
mod readable;
mod record_writer;
mod regular_file;
mod remote_socket;
mod seed;
pub mod service;
mod sock_diag;
pub mod sockopt;
mod state;
pub mod supervise;
pub mod sysctl;
mod terminal;
pub mod tun;
mod tun_engine;
mod watch;
mod worker;
pub mod workload;

pub use actuator::Setting;
pub use all_netns::{NetnsPlace, all_netns};
pub use calibrate::calibrate;
pub use clock::Clock;
pub use counters::{counters, host_sample, sysctl};
pub use driver::{Driver, DriverStats, DriverStopper};
pub use error::{Error, Result};
pub use filter::{Filter, FilterError, Serving};
pub use journal::Journal;
pub use lab_netns::LabNetns;
pub use links::link_samples;
pub use named_pipe::{open_to_read, open_to_write};
pub use netns::{NAMED_DIR, NetnsHandle};
pub use path::{INTERFACE, LabPath, configure_stack_device};
pub use path_to::{PathTo, interface_to, probe_path_to, seen_path_to};
pub use persist::{AtBoot, Persistence, SetAtBoot, SinceBoot, apply_at_boot};
pub use plan::{Plan, Planned};
pub use privilege::{Capabilities, Fact};
pub use process::{
    SocketOwners, cgroup_id, ignores_signal, process_cgroup, process_cpu_time, process_info,
};
pub use readable::wait_readable;
pub use record_writer::RecordWriter;
pub use remote_socket::{OwnerProcess, RemoteSocket};
pub use seed::{random_secret, random_seed};
pub use sock_diag::{ClosedSockets, ScanRequest, SockDiag, accepts};
pub use state::State;
pub use terminal::discard_typed;
pub use tun_engine::{Side, StackEnd, StackSpec, StackSummary};
pub use watch::{
    AnnouncedSockets, KnownOwners, Tracks, WatchObserver, WatchProgress, WatchRequest, watch,
    watch_by,
};
pub use worker::{
    Role, Worker, WorkerFailure, WorkerReport, WorkerSpec, own_program, run_worker,
    run_worker_process,
};
