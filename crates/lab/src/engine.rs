//! The names of the engines. This crate runs only the virtual one.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// TCP implementation at both ends of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineName {
    /// Our stack at both ends, in virtual time.
    Virtual,
    /// The Linux kernel at both ends.
    Kernel,
    /// Our stack at the end that sends, on real packets; the kernel at the other.
    Tun,
    /// Our stack at the end that receives, on real packets; the kernel at the other.
    TunReceiver,
}

impl EngineName {
    /// All, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Virtual, Self::Kernel, Self::Tun, Self::TunReceiver];

    /// Name used in files and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Virtual => "virtual",
            Self::Kernel => "kernel",
            Self::Tun => "tun",
            Self::TunReceiver => "tun-receiver",
        }
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No engine has this name. [`fmt::Display`] says which there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEngine(String);

impl fmt::Display for UnknownEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = EngineName::ALL.map(EngineName::name).join(", ");
        write!(f, "unknown engine `{}`; there are {names}", self.0)
    }
}

impl core::error::Error for UnknownEngine {}

impl FromStr for EngineName {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Self, UnknownEngine> {
        let short = || text.chars().take(60).collect();
        Self::ALL
            .into_iter()
            .find(|engine| engine.name() == text)
            .ok_or_else(|| UnknownEngine(short()))
    }
}
