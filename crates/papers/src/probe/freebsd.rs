//! Probes of `FreeBSD`'s automatic buffer sizing: which sizes a buffer goes through and how fast,
//! and what a thousand connections reserve.
//!
//! Paths and hosts are made here, since no workload tells the sizes of buffers.

mod crowd;
mod growth;
mod memory;

pub(super) use growth::{recv_growth, send_growth};
pub(super) use memory::memory;

/// Figures of [`recv_growth`]. `rtts`: round-trip times of the path.
pub(super) const RECV_GROWTH: &[&str] = &[
    "rule_2006_first_bytes",
    "rule_2006_last_bytes",
    "rule_2006_steps",
    "rule_2006_smallest_step_bytes",
    "rule_2006_largest_step_bytes",
    "rule_2006_apart_rtts_min",
    "rule_2006_growth_rtts",
    "rule_2006_reordered_last_bytes",
    "rule_2006_reordered_gaps",
    "rule_2006_reordered_gap_to_step_rtts_min",
    "rule_2006_without_timestamps_steps",
    "rule_2017_without_timestamps_steps",
    "rule_14_first_bytes",
    "rule_14_last_bytes",
    "rule_14_steps",
    "rule_14_right_sizes",
    "rule_14_apart_rtts_min",
    "rule_14_growth_rtts",
];

/// Figures of [`send_growth`].
pub(super) const SEND_GROWTH: &[&str] = &[
    "first_bytes",
    "last_bytes",
    "steps",
    "smallest_step_bytes",
    "largest_step_bytes",
    "acks_per_step_min",
    "growth_rtts",
    "window_64k_last_bytes",
    "window_64k_lowat_last_bytes",
    "fixed_steps",
];

/// Figures of [`memory`], and of the probe of that name on the kernel.
pub(super) const MEMORY: &[&str] = &[
    "connections",
    "fixed_reserved_bytes",
    "automatic_start_bytes",
    "automatic_reserved_bytes",
    "automatic_grown_bytes",
    "reserved_ratio",
    "idle_used_bytes",
    "fixed_used_max_bytes",
    "automatic_used_max_bytes",
    "fixed_goodput_bps",
    "automatic_goodput_bps",
    "idle_charged_bytes",
    "fixed_charged_bytes",
    "automatic_charged_bytes",
];
