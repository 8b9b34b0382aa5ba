//! The pair of sample programs of the cork document, on sockets of the kernel.

mod client;
mod server;

use clap::ValueEnum;

pub(crate) use client::{ClientArgs, client};
pub(crate) use server::{ServerArgs, server};

/// The words that the sample programs take after their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Word {
    /// Set `TCP_NODELAY`.
    #[value(name = "no_delay", alias = "no-delay", alias = "nodelay")]
    NoDelay,
    /// Cork around each message.
    Cork,
}
