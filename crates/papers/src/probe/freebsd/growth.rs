//! Growth of the buffers of both ends (FB4 to FB19), at 100 ms and 100 Mbit/s.
//!
//! The rule of 2018 at 1 Gbit/s, since half a round-trip time at 100 Mbit/s carries less than its
//! last step asks for. The rule of 2006 takes at most one step per round-trip time, and fewer while
//! the buffer is small: a larger window brings more data only a round-trip time after it was
//! offered, and before that less than 7/8 of the larger buffer arrive.

use core::time::Duration;

use base::settings::{SizeRule, SocketSettings};
use base::{Fraction, Instant, Rate};
use link::Reorder;
use stack::profile::{freebsd_14, freebsd_2006};

use super::super::Figures;
use super::crowd::{CrowdResult, CrowdSetup, Sizes, run};

const RTT: Duration = Duration::from_millis(100);
const RATE: Rate = Rate::from_bits_per_second(100_000_000);
const FAST: Rate = Rate::from_bits_per_second(1_000_000_000);
/// Sizes of the rule of 2018, by its arithmetic: half more each time, at most 2 MiB.
const SIZES_14: [u32; 10] = [
    65_536, 98_304, 147_456, 221_184, 331_776, 497_664, 746_496, 1_119_744, 1_679_616, 2_097_152,
];
/// A packet comes behind the next two: a gap as a loss makes it, which costs the sender nothing.
const REORDER: Reorder = Reorder {
    share: Fraction::from_parts(5_000_000),
    hold: Duration::from_micros(300),
};
/// More than either end may be limited by.
const AMPLE_BYTES: u32 = 8 << 20;

/// The receive buffer while a sender fills it (F7).
pub(in super::super) fn recv_growth(seed: u64) -> Figures {
    let seen = |rate, bytes, change: &dyn Fn(&mut SocketSettings)| {
        let mut receiver = freebsd_2006().settings;
        change(&mut receiver);
        run(&CrowdSetup {
            rate,
            ..setup(ample_sender(), receiver, bytes, seed)
        })
        .recv
    };
    let without = |rule| {
        let sizes = seen(RATE, 8 << 20, &|it| {
            it.options.timestamps = false;
            it.recv.buffer.rule = rule;
        });
        steps(&sizes) as f64
    };
    let by_2006 = seen(RATE, 8 << 20, &|_| ());
    let by_14 = seen(FAST, 24 << 20, &|it| {
        it.recv.buffer = freebsd_14().settings.recv.buffer;
    });
    let reordered = run(&CrowdSetup {
        reorder: Some(REORDER),
        ..setup(ample_sender(), freebsd_2006().settings, 32 << 20, seed)
    });
    let right = by_14.0.iter().zip(SIZES_14);
    let right = right.filter(|((_, size), right)| size == right).count();
    let step = 16_384;
    Figures::from([
        ("rule_2006_first_bytes", first_bytes(&by_2006)),
        ("rule_2006_last_bytes", last_bytes(&by_2006)),
        ("rule_2006_steps", steps(&by_2006) as f64),
        ("rule_2006_smallest_step_bytes", step_bytes(&by_2006).0),
        ("rule_2006_largest_step_bytes", step_bytes(&by_2006).1),
        ("rule_2006_apart_rtts_min", apart_rtts_min(&by_2006)),
        ("rule_2006_growth_rtts", growth_rtts(&by_2006)),
        (
            "rule_2006_reordered_last_bytes",
            last_bytes(&reordered.recv),
        ),
        ("rule_2006_reordered_gaps", gaps(&reordered) as f64),
        (
            "rule_2006_reordered_gap_to_step_rtts_min",
            gap_to_step_rtts_min(&reordered),
        ),
        (
            "rule_2006_without_timestamps_steps",
            without(SizeRule::FreeBsd2006 { step }),
        ),
        (
            "rule_2017_without_timestamps_steps",
            without(SizeRule::FreeBsd2017 { step }),
        ),
        ("rule_14_first_bytes", first_bytes(&by_14)),
        ("rule_14_last_bytes", last_bytes(&by_14)),
        ("rule_14_steps", steps(&by_14) as f64),
        ("rule_14_right_sizes", right as f64),
        ("rule_14_apart_rtts_min", apart_rtts_min(&by_14)),
        ("rule_14_growth_rtts", growth_rtts(&by_14)),
    ])
}

/// The send buffer towards a peer that offers much, and towards one that offers 64 KB (F7s, F2).
pub(in super::super) fn send_growth(seed: u64) -> Figures {
    let seen = |window: Option<u32>, change: &dyn Fn(&mut SocketSettings)| {
        let mut sender = freebsd_2006().settings;
        change(&mut sender);
        let mut receiver = freebsd_2006().settings;
        receiver.recv.buffer.fixed = window;
        receiver.recv.buffer.request_max = AMPLE_BYTES;
        // 65535 bytes is what a window without scaling ends at.
        receiver.options.window_scaling = window != Some(65_535);
        run(&setup(sender, receiver, 8 << 20, seed))
    };
    let wide = seen(Some(1 << 20), &|_| ());
    let narrow = seen(Some(65_535), &|_| ());
    let lowat = seen(Some(65_535), &|it| it.send.auto_lowat = true);
    let fixed = seen(Some(1 << 20), &|it| it.send.buffer.fixed = Some(32 << 10));
    let sizes = &wide.send;
    Figures::from([
        ("first_bytes", first_bytes(sizes)),
        ("last_bytes", last_bytes(sizes)),
        ("steps", steps(sizes) as f64),
        ("smallest_step_bytes", step_bytes(sizes).0),
        ("largest_step_bytes", step_bytes(sizes).1),
        ("acks_per_step_min", acks_per_step_min(&wide)),
        ("growth_rtts", growth_rtts(sizes)),
        ("window_64k_last_bytes", last_bytes(&narrow.send)),
        ("window_64k_lowat_last_bytes", last_bytes(&lowat.send)),
        ("fixed_steps", steps(&fixed.send) as f64),
    ])
}

fn ample_sender() -> SocketSettings {
    let mut sender = freebsd_2006().settings;
    sender.send.buffer.fixed = Some(AMPLE_BYTES);
    sender
}

const fn setup(
    sender: SocketSettings,
    receiver: SocketSettings,
    bytes: u64,
    seed: u64,
) -> CrowdSetup {
    CrowdSetup {
        sender,
        receiver,
        connections: 1,
        bytes,
        rate: RATE,
        rtt: RTT,
        reorder: None,
        seed,
    }
}

fn first_bytes(sizes: &Sizes) -> f64 {
    sizes.0.first().map_or(0.0, |(_, size)| f64::from(*size))
}

fn last_bytes(sizes: &Sizes) -> f64 {
    sizes.0.last().map_or(0.0, |(_, size)| f64::from(*size))
}

const fn steps(sizes: &Sizes) -> usize {
    sizes.0.len().saturating_sub(1)
}

/// The smallest and the largest step.
fn step_bytes(sizes: &Sizes) -> (f64, f64) {
    let steps = sizes.0.windows(2).map(|pair| pair[1].1 - pair[0].1);
    let (min, max) = (steps.clone().min(), steps.max());
    (min.map_or(0.0, f64::from), max.map_or(0.0, f64::from))
}

/// The shortest time between two steps. What it was before the first one is not known.
fn apart_rtts_min(sizes: &Sizes) -> f64 {
    let steps = sizes.0.get(1..).unwrap_or_default();
    let gaps = steps.windows(2).map(|pair| pair[1].0.since(pair[0].0));
    gaps.min().map_or(0.0, in_rtts)
}

/// Time from the first step to the last.
fn growth_rtts(sizes: &Sizes) -> f64 {
    let (first, last) = (sizes.0.get(1), sizes.0.last());
    let time = first.zip(last).map(|(first, last)| last.0.since(first.0));
    time.map_or(0.0, in_rtts)
}

/// Packets that came behind a gap while the receive buffer still grew.
fn gaps(seen: &CrowdResult) -> usize {
    let last = seen.recv.0.last().map_or(Instant::ZERO, |(at, _)| *at);
    seen.out_of_order_at.iter().filter(|at| **at < last).count()
}

/// The shortest time from a packet behind a gap to the next larger receive buffer.
fn gap_to_step_rtts_min(seen: &CrowdResult) -> f64 {
    let steps = seen.recv.0.get(1..).unwrap_or_default();
    let since_gap = |(step, _): &(Instant, u32)| {
        let before = seen.out_of_order_at.iter().rfind(|at| *at <= step)?;
        Some(step.since(*before))
    };
    steps
        .iter()
        .filter_map(since_gap)
        .min()
        .map_or(0.0, in_rtts)
}

fn in_rtts(time: Duration) -> f64 {
    time.as_secs_f64() / RTT.as_secs_f64()
}

/// The fewest segments that came between two steps.
fn acks_per_step_min(seen: &CrowdResult) -> f64 {
    let steps = seen.acks.get(1..).unwrap_or_default();
    let between = steps.windows(2).map(|pair| pair[1] - pair[0]);
    between.min().map_or(0.0, |acks| acks as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(figures: &Figures, expected: &[(&str, f64, f64)]) {
        for (name, min, max) in expected {
            let found = figures[name];
            assert!(
                (*min..=*max).contains(&found),
                "{name} is {found}, not {min} to {max}: {figures:?}"
            );
        }
    }

    /// F7: FB7, FB8, FB16, FB17, FB19.
    #[test]
    fn receive_buffers_grow_by_the_schedule() {
        let expected = [
            ("rule_2006_first_bytes", 65_536.0, 65_536.0),
            ("rule_2006_last_bytes", 262_144.0, 262_144.0),
            ("rule_2006_steps", 12.0, 12.0),
            ("rule_2006_smallest_step_bytes", 16_384.0, 16_384.0),
            ("rule_2006_largest_step_bytes", 16_384.0, 16_384.0),
            ("rule_2006_apart_rtts_min", 1.0, 1.1),
            ("rule_2006_growth_rtts", 11.0, 17.0),
            ("rule_2006_reordered_last_bytes", 262_144.0, 262_144.0),
            ("rule_2006_reordered_gaps", 1.0, 1000.0),
            ("rule_2006_reordered_gap_to_step_rtts_min", 1.0, 1.1),
            ("rule_2006_without_timestamps_steps", 0.0, 0.0),
            ("rule_2017_without_timestamps_steps", 12.0, 12.0),
            ("rule_14_first_bytes", 65_536.0, 65_536.0),
            ("rule_14_last_bytes", 2_097_152.0, 2_097_152.0),
            ("rule_14_steps", 9.0, 9.0),
            ("rule_14_right_sizes", 10.0, 10.0),
            ("rule_14_apart_rtts_min", 0.5, 1.1),
        ];
        check(&recv_growth(1), &expected);
    }

    /// F7s and F2: FB4, FB5, FB11 to FB14.
    #[test]
    fn send_buffers_grow_by_the_schedule() {
        let expected = [
            ("first_bytes", 32_768.0, 32_768.0),
            ("last_bytes", 262_144.0, 262_144.0),
            ("steps", 28.0, 28.0),
            ("smallest_step_bytes", 8_192.0, 8_192.0),
            ("largest_step_bytes", 8_192.0, 8_192.0),
            ("acks_per_step_min", 1.0, 1000.0),
            ("window_64k_last_bytes", 81_920.0, 81_920.0),
            ("window_64k_lowat_last_bytes", 90_112.0, 90_112.0),
            ("fixed_steps", 0.0, 0.0),
        ];
        check(&send_growth(1), &expected);
    }
}
