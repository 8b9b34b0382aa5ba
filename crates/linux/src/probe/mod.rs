//! Probes on the kernel of this machine: what `lab::probe` has in virtual time, and what only a
//! kernel can show. Each makes what it needs (namespaces, sockets) and removes it.

mod cork;
mod freebsd_memory;

use core::sync::atomic::AtomicBool;

use lab::probe::Figures;

use crate::error::Result;

/// One kind of measurement on the kernel.
#[derive(Clone, Copy, Debug)]
pub struct KernelProbe {
    /// As in `lab::probe::PROBES`, which also announces the figures.
    pub name: &'static str,
    /// Runs it once, with a seed for everything random; the flag ends it early.
    pub run: fn(u64, &AtomicBool) -> Result<Figures>,
}

/// All probes that the kernel has.
pub const PROBES: &[KernelProbe] = &[
    cork::CEILING,
    cork::SHIM,
    cork::SENDFILE,
    cork::SAMPLE_PROGRAMS,
    KernelProbe {
        name: "freebsd-memory",
        run: freebsd_memory::run,
    },
];

/// The probe of this name.
#[must_use]
pub fn find_probe(name: &str) -> Option<&'static KernelProbe> {
    PROBES.iter().find(|probe| probe.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_probe_is_announced() {
        for probe in PROBES {
            assert!(
                lab::probe::find_probe(probe.name).is_some(),
                "{} has no row in lab::probe",
                probe.name
            );
        }
    }
}
