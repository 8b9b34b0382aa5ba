//! What a case is drawn from: sizes, paths, stacks, and settings, also of an open connection.

use std::time::Duration;

use base::settings::{
    AckEvery, CongestionName, Detection, Ecn, HyStart, MtuProbing, Nagle, Push, RtoRule,
    SocketSettings, Validation,
};
use base::{Bytes, Fraction, QueueLimit, Rate, Rng};
use link::{LinkSpec, Loss, Reorder};
use tcptailor_stack::profile::{PROFILES, Profile};

/// Evenly by orders of magnitude, below 2^`bits`.
pub(crate) fn any_size(rng: &mut Rng, bits: u64) -> u64 {
    let bits = rng.below(bits + 1);
    rng.below(1 << bits)
}

pub(crate) fn any_path(rng: &mut Rng) -> LinkSpec {
    let share = |rng: &mut Rng, most: u64| Fraction::from_parts(rng.below(most) as u32);
    let delay = Duration::from_micros(any_size(rng, 18));
    LinkSpec {
        rate: (rng.below(8) > 0).then(|| Rate::from_bits_per_second(64_000 + any_size(rng, 30))),
        delay,
        jitter: if rng.below(4) == 0 {
            delay / 4
        } else {
            Duration::ZERO
        },
        loss: match rng.below(3) {
            0 => Loss::Never,
            1 => Loss::Random(share(rng, 50_000_000)),
            _ => Loss::GilbertElliott {
                good_to_bad: share(rng, 20_000_000),
                bad_to_good: Fraction::from_parts(300_000_000),
                loss_good: Fraction::ZERO,
                loss_bad: share(rng, 800_000_000),
            },
        },
        reorder: (rng.below(3) == 0).then(|| Reorder {
            share: share(rng, 100_000_000),
            hold: Duration::from_micros(1 + any_size(rng, 17)),
        }),
        duplicate: if rng.below(3) == 0 {
            share(rng, 50_000_000)
        } else {
            Fraction::ZERO
        },
        queue: QueueLimit::Packets(2 + any_size(rng, 9)),
        mtu: Some(Bytes(1500)),
        ..LinkSpec::ideal()
    }
}

pub(crate) fn any_profile(rng: &mut Rng) -> Profile {
    let mut profile = PROFILES[rng.below(PROFILES.len() as u64) as usize].1();
    // A burst of losses takes packets, not time: where each waits for a timeout of minutes, it
    // would be over in hours, or after the last retry.
    profile.settings.life.retries = 60;
    profile.settings.recovery.rto_max = Duration::from_secs(8);
    for change in CHANGES {
        if rng.below(6) == 0 {
            change(&mut profile.settings, rng);
        }
    }
    profile
}

pub(crate) fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u64) as usize]
}

pub(crate) type Change = fn(&mut SocketSettings, &mut Rng);

/// What may be set to something else, one by one.
pub(crate) const CHANGES: &[Change] = &[
    |s, rng| s.small_writes.nagle = pick(rng, &[Nagle::Off, Nagle::Rfc896, Nagle::Minshall]),
    |s, rng| s.small_writes.push = pick(rng, &[Push::EachWrite, Push::BufferEmpty, Push::Never]),
    |s, _| s.small_writes.half_window ^= true,
    |s, _| s.small_writes.autocork ^= true,
    |s, _| {
        s.small_writes.cork = true;
        s.small_writes.cork_ceiling = Some(Duration::from_millis(200));
    },
    |s, rng| {
        s.acks.every = pick(
            rng,
            &[
                AckEvery::Packets(1),
                AckEvery::Packets(2),
                AckEvery::Packets(8),
                AckEvery::MoreThanSegments(1),
                AckEvery::MoreThanSegments(4),
            ],
        );
    },
    |s, rng| s.acks.quick_max = any_size(rng, 5) as u32,
    |s, rng| s.acks.pingpong_threshold = any_size(rng, 3) as u32,
    |s, _| s.acks.compress = None,
    |s, _| s.acks.on_read ^= true,
    |s, rng| s.acks.window_update_segments = pick(rng, &[None, Some(1), Some(2), Some(10)]),
    |s, rng| s.send.buffer.fixed = Some(256 + any_size(rng, 20) as u32),
    |s, rng| s.recv.buffer.fixed = Some(1 + any_size(rng, 20) as u32),
    |s, rng| s.send.notsent_lowat = Some(1 + any_size(rng, 17) as u32),
    |s, rng| s.send.unacked_budget = Some(1 + any_size(rng, 16) as u32),
    |s, rng| s.recv.out_of_order_budget = Some(any_size(rng, 16) as u32),
    |s, _| s.options.window_scaling ^= true,
    |s, _| s.options.timestamps ^= true,
    |s, _| s.options.sack ^= true,
    |s, _| s.options.dsack ^= true,
    |s, rng| {
        s.options.ecn = pick(rng, &[Ecn::Off, Ecn::Request]);
    },
    |s, rng| s.options.mss = Some(48 + any_size(rng, 11) as u16),
    |s, rng| s.options.window_clamp = Some(64 + any_size(rng, 17) as u32),
    |s, rng| s.options.initial_window_segments = Some(1 + any_size(rng, 4) as u32),
    |s, _| s.options.accept_window_zero ^= true,
    |s, rng| {
        s.recovery.detection = pick(
            rng,
            &[Detection::Rack, Detection::DupSack, Detection::NewReno],
        );
    },
    |s, _| s.recovery.tail_loss_probe ^= true,
    |s, _| s.recovery.prr ^= true,
    |s, _| s.recovery.frto ^= true,
    |s, _| s.recovery.undo ^= true,
    |s, _| s.recovery.limited_transmit ^= true,
    |s, rng| s.recovery.rto_rule = pick(rng, &[RtoRule::Linux, RtoRule::Rfc6298]),
    |s, rng| {
        s.congestion.name = pick(
            rng,
            &[
                CongestionName::NewReno,
                CongestionName::Cubic,
                CongestionName::Bbr,
                CongestionName::None,
            ],
        );
    },
    |s, rng| s.congestion.hystart = pick(rng, &[HyStart::Off, HyStart::Classic, HyStart::PlusPlus]),
    |s, rng| s.congestion.initial_window = 1 + any_size(rng, 6) as u32,
    |s, rng| {
        s.congestion.validation = pick(
            rng,
            &[Validation::Off, Validation::Linux, Validation::Rfc7661],
        );
    },
    |s, _| s.congestion.pacing ^= true,
    |s, _| s.congestion.byte_counting ^= true,
    |s, rng| s.path.gso_max = pick(rng, &[0, 3000, 16_384, 65_536]),
    |s, rng| s.path.tso_min_segments = any_size(rng, 3) as u32,
    |s, rng| s.path.local_queue_max = 1 + any_size(rng, 20) as u32,
    |s, rng| {
        s.path.mtu_probing = pick(
            rng,
            &[MtuProbing::Off, MtuProbing::BlackHole, MtuProbing::Always],
        );
    },
];

/// What programs set on an open connection.
pub(crate) const KNOBS: &[(&str, &str)] = &[
    ("nodelay", "on"),
    ("nodelay", "off"),
    ("quickack", "on"),
    ("quickack", "off"),
    ("cork", "off"),
    ("buf_lock", "0"),
    ("buf_lock", "3"),
    ("sndbuf", "8KiB"),
    ("sndbuf", "60000B"),
    ("rcvbuf", "8KiB"),
    ("rcvbuf", "60000B"),
    ("notsent_lowat", "1KiB"),
    ("congestion", "reno"),
    ("congestion", "cubic"),
    ("congestion", "bbr"),
    ("delack_max", "4ms"),
    ("delayed_ack_every", "0"),
    ("window_clamp", "20KiB"),
    ("window_clamp", "none"),
    ("route.rto_min", "200ms"),
    ("route.rto_min", "700ms"),
    ("loss_detection", "rack"),
    ("loss_detection", "dupsack"),
    ("loss_detection", "newreno"),
];
