//! Memory reserved by 1000 idle connections and a busy one, with fixed buffers and with automatic
//! ones (F10, FB28).
//!
//! Reserved is what a stack promises a connection and has to have if all are used at once; used is
//! what data occupies.

use core::time::Duration;

use base::Rate;
use base::settings::SocketSettings;
use stack::profile::freebsd_2006;

use super::super::Figures;
use super::crowd::{CrowdResult, CrowdSetup, run};

/// The busy one among them.
const CONNECTIONS: usize = 1001;
/// Both buffers where the application fixed them.
const FIXED_BYTES: u32 = 256 << 10;

/// Counts at the end that sends.
pub(in super::super) fn memory(seed: u64) -> Figures {
    let seen = |change: &dyn Fn(&mut SocketSettings)| {
        let mut settings = freebsd_2006().settings;
        change(&mut settings);
        run(&CrowdSetup {
            sender: settings.clone(),
            receiver: settings,
            connections: CONNECTIONS,
            bytes: 8 << 20,
            rate: Rate::from_bits_per_second(100_000_000),
            rtt: Duration::from_millis(100),
            reorder: None,
            seed,
        })
    };
    let fixed = seen(&|it| {
        it.send.buffer.fixed = Some(FIXED_BYTES);
        it.recv.buffer.fixed = Some(FIXED_BYTES);
    });
    figures(&fixed, &seen(&|_| ()))
}

fn figures(fixed: &CrowdResult, automatic: &CrowdResult) -> Figures {
    let ratio = fixed.reserved_bytes as f64 / automatic.reserved_bytes as f64;
    let grown_bytes = automatic.reserved_bytes - automatic.start_bytes;
    Figures::from([
        ("connections", CONNECTIONS as f64),
        ("fixed_reserved_bytes", fixed.reserved_bytes as f64),
        ("automatic_start_bytes", automatic.start_bytes as f64),
        ("automatic_reserved_bytes", automatic.reserved_bytes as f64),
        ("automatic_grown_bytes", grown_bytes as f64),
        ("reserved_ratio", ratio),
        (
            "idle_used_bytes",
            fixed.idle_used_bytes.max(automatic.idle_used_bytes) as f64,
        ),
        ("fixed_used_max_bytes", fixed.used_bytes_max as f64),
        ("automatic_used_max_bytes", automatic.used_bytes_max as f64),
        ("fixed_goodput_bps", fixed.goodput.bits_per_second() as f64),
        (
            "automatic_goodput_bps",
            automatic.goodput.bits_per_second() as f64,
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F10: 256 KiB twice for each of 1001, against 96 KiB and what the busy one grew by.
    #[test]
    fn what_is_reserved_is_exact() {
        let figures = memory(1);
        let check = |name: &str, expected: u64| {
            assert_eq!(figures[name], expected as f64, "{name} of {figures:?}");
        };
        check("fixed_reserved_bytes", 2 * (256 << 10) * 1001);
        check("automatic_start_bytes", (96 << 10) * 1001);
        check("automatic_grown_bytes", (256 - 32) << 10);
        check("idle_used_bytes", 0);
        assert!(figures["automatic_used_max_bytes"] <= f64::from(FIXED_BYTES));
    }
}
