//! Keeping the processors out of deep sleep where a late wake-up would be taken for delay.

use std::fs::{File, OpenOptions};
use std::io::Write;

use base::Rate;
use link::LinkSpec;

/// Linux 6.18 kernel/power/qos.c: as long as this file is open, no processor sleeps so deeply that
/// it takes longer to wake than the microseconds that were written (four bytes).
const DEVICE: &str = "/dev/cpu_dma_latency";

/// Above this rate a path hardly sleeps, and processors that never do leave less to each other.
/// Measured in a virtual machine: 10 Gbit/s falls to 9.1, while a ping over 40 ms at 25 Mbit/s
/// falls from 40.4 to 40.2 ms.
const RATE_MAX: Rate = Rate::from_bits_per_second(1_000_000_000);

/// Holds the processors awake while it lives. Without the permission (root has it) nothing happens:
/// the lateness that is reported with every result tells the difference.
#[derive(Debug)]
pub(crate) struct CpuLatencyLimit {
    _file: Option<File>,
}

impl CpuLatencyLimit {
    /// For a path of these links.
    pub(crate) fn hold(links: &[LinkSpec]) -> Self {
        let is_slow = |link: &LinkSpec| link.rate.is_some_and(|rate| rate <= RATE_MAX);
        let file = links.iter().all(is_slow).then(open).flatten();
        Self { _file: file }
    }
}

fn open() -> Option<File> {
    let mut file = OpenOptions::new().write(true).open(DEVICE).ok()?;
    file.write_all(&0_i32.to_ne_bytes()).ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slow_paths_keep_the_processors_awake() {
        let of = |rate: Option<u64>| LinkSpec {
            rate: rate.map(Rate::from_bits_per_second),
            ..LinkSpec::ideal()
        };
        let holds = |links: [LinkSpec; 2]| CpuLatencyLimit::hold(&links)._file.is_some();
        assert!(!holds([of(None), of(Some(1_000_000))]));
        assert!(!holds([of(Some(10_000_000_000)), of(Some(1_000_000))]));
        let allowed = OpenOptions::new().write(true).open(DEVICE).is_ok();
        assert_eq!(
            holds([of(Some(1_000_000_000)), of(Some(1_000_000))]),
            allowed
        );
    }
}
