//! Do it for real: every system call of tcptailor. The only crate that holds `unsafe`, reads a
//! clock or touches a file descriptor.

mod actuator;
pub mod cleanup;
mod clock;
mod error;
pub mod journal;
mod lab_netns;
pub mod netlink;
mod netns;
mod plan;
pub mod sockopt;
mod state;
pub mod sysctl;
pub mod tun;

pub use actuator::Setting;
pub use clock::Clock;
pub use error::{Error, Result};
pub use journal::Journal;
pub use lab_netns::LabNetns;
pub use netns::{NAMED_DIR, NetnsHandle};
pub use plan::Plan;
pub use state::State;
