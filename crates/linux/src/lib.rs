//! Do it for real: every system call of tcptailor. The only crate that holds `unsafe`, reads a
//! clock or touches a file descriptor.

pub mod cleanup;
mod clock;
mod emulator;
mod error;
mod lab_netns;
mod lateness;
pub mod netlink;
mod netns;
mod path;
pub mod tun;

pub use clock::Clock;
pub use error::{Error, Result};
pub use lab_netns::LabNetns;
pub use netns::{NAMED_DIR, NetnsHandle};
pub use path::{INTERFACE, LabPath};
