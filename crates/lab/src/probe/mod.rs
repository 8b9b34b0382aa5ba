//! Measurements that no path and no workload express: counting buffers, growth schedules, return
//! values. A probe returns named figures; a scenario file names the probe and claims about them.
//!
//! What is here runs in virtual time. The same probe on the kernel has its row in `linux::probe`.

mod cork;
mod freebsd;
mod netburner;
mod winsock;

use std::collections::BTreeMap;

/// What a probe found: by name, in the unit with which the name ends (`_us`, `_bps`, `_bytes`), or
/// a bare count or ratio.
pub type Figures = BTreeMap<&'static str, f64>;

/// One kind of measurement.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// As scenario files write it.
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Names of all the figures that it may return.
    pub figures: &'static [&'static str],
    /// Runs it in virtual time, with a seed for everything random; `None` where only the kernel has
    /// something to show.
    pub run: Option<fn(u64) -> Figures>,
}

impl PartialEq for Probe {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// All probes.
pub const PROBES: &[Probe] = &[
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
    },
    Probe {
        name: "freebsd-recv-growth",
        about: "The sizes of a receive buffer that sizes itself, and how fast it takes them.",
        figures: freebsd::RECV_GROWTH,
        run: Some(freebsd::recv_growth),
    },
    Probe {
        name: "freebsd-send-growth",
        about: "The sizes of a send buffer that sizes itself, and how fast it takes them.",
        figures: freebsd::SEND_GROWTH,
        run: Some(freebsd::send_growth),
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
            assert!(
                !PROBES[..index].contains(probe),
                "{} is there twice",
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
