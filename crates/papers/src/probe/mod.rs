//! Measurements that no path and no workload express: counting buffers, growth schedules, return
//! values. A probe returns named figures; a scenario file names the probe and claims about them.
//!
//! What is here runs in virtual time; `kernel` has those that ask the kernel of this machine.

mod cork;
pub mod datacenter;
mod freebsd;
mod kernel;
mod netburner;
mod winsock;

use core::sync::atomic::AtomicBool;
use std::collections::BTreeMap;

use lab::ProbeSpec;

/// Figures of a probe: by name, in the unit with which the name ends (`_us`, `_bps`, `_bytes`), or
/// a bare count or ratio.
pub type Figures = BTreeMap<&'static str, f64>;

/// One kind of measurement.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Name used in scenario files.
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Names of all the figures that it may return.
    pub figures: &'static [&'static str],
    /// Runs it in virtual time, with a seed for everything random; `None` where only the kernel has
    /// something to show.
    pub run: Option<fn(u64) -> Figures>,
    /// Runs it once on the kernel of this machine, with a seed for everything random; the flag ends
    /// it early. `None` where the kernel has nothing to show.
    pub run_on_kernel: Option<KernelRun>,
}

/// How a probe runs on the kernel; see [`Probe::run_on_kernel`].
pub type KernelRun = fn(u64, &AtomicBool) -> linux::Result<Figures>;

impl Probe {
    /// Specification for the parser of scenario files.
    #[must_use]
    pub const fn spec(&self) -> ProbeSpec {
        ProbeSpec {
            name: self.name,
            about: self.about,
            figures: self.figures,
        }
    }
}

/// All probes.
pub const PROBES: &[Probe] = &[
    datacenter::PRODUCTS,
    datacenter::SERIES,
    datacenter::RMEM_MAX,
    netburner::POOL,
    netburner::LOSSY_POOL,
    netburner::TELNET,
    netburner::NOPUSH,
    netburner::WRITE,
    netburner::SPEED,
    netburner::STRESS,
    Probe {
        name: "freebsd-memory",
        about: "What 1000 idle connections and a busy one reserve and use.",
        figures: freebsd::MEMORY,
        run: Some(freebsd::memory),
        run_on_kernel: Some(kernel::freebsd_memory::run),
    },
    Probe {
        name: "freebsd-recv-growth",
        about: "The sizes of a receive buffer that sizes itself, and how fast it takes them.",
        figures: freebsd::RECV_GROWTH,
        run: Some(freebsd::recv_growth),
        run_on_kernel: None,
    },
    Probe {
        name: "freebsd-send-growth",
        about: "The sizes of a send buffer that sizes itself, and how fast it takes them.",
        figures: freebsd::SEND_GROWTH,
        run: Some(freebsd::send_growth),
        run_on_kernel: None,
    },
    winsock::RULES,
    winsock::BLOCKS,
    cork::CEILING,
    cork::SHIM,
    cork::SENDFILE,
    cork::SAMPLE_PROGRAMS,
];

/// The probe of this name.
#[must_use]
pub fn find_probe(name: &str) -> Option<&'static Probe> {
    PROBES.iter().find(|probe| probe.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_figures_are_announced() {
        for (index, probe) in PROBES.iter().enumerate() {
            let mut before = PROBES[..index].iter();
            assert!(
                before.all(|other| other.name != probe.name),
                "{} is there twice",
                probe.name
            );
            assert!(
                probe.run.is_some() || probe.run_on_kernel.is_some(),
                "{} runs nowhere",
                probe.name
            );
            assert!(!probe.figures.is_empty(), "{} has no figures", probe.name);
            let mut figures = probe.figures.to_vec();
            figures.sort_unstable();
            figures.dedup();
            assert_eq!(figures.len(), probe.figures.len(), "{}", probe.name);
        }
    }
}
