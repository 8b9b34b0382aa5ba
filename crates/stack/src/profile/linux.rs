//! Linux, by version.
//!
//! The values are those of the reference machine (rule 0.3: Linux 6.18.44, HZ 250), with CUBIC
//! where that machine has BBR, because CUBIC is what the kernel is built with by default. The
//! versions differ by the rule of receive autotuning and by what the comments name.

use core::time::Duration;

use base::settings::{
    Accounting, AckEvery, Acks, BufferSize, Completion, Congestion, CongestionName, Detection, Ecn,
    HyStart, Life, LinuxVersion, MtuProbing, Nagle, Options, Path, Push, Recovery, RecvMemory,
    RtoRule, SackCompression, SendMemory, SizeRule, SmallWrites, SocketSettings, Validation,
};

use super::{Profile, millis, secs};
use crate::{HostSettings, MemoryBudget};

/// Before 6.6 the window was half of the buffer (rule 3.1; `tcp_adv_win_scale` 1).
const RATIO_BEFORE_6_6: u8 = 128;
/// A full GSO packet of 45 segments over its charge: 65160 / (65160 + 832) (rule 5.2).
const SEND_RATIO: u8 = 252;
const MIB: u32 = 1 << 20;

/// Linux 6.18 with its defaults, on a TUN at MTU 1500; for paths of up to 10 Gbit/s.
#[must_use]
pub fn linux_6_18() -> Profile {
    linux(LinuxVersion::V6_18)
}

/// Linux 6.18 on a kernel with 1000 ticks a second in place of 250 (`CONFIG_HZ`): a delayed ACK
/// comes after 41 ms at the latest, not after 44.
#[must_use]
pub fn linux_6_18_hz1000() -> Profile {
    let profile = linux_6_18();
    Profile {
        name: "linux_6_18_hz1000",
        about: "Linux 6.18 with 1000 ticks a second.",
        system: HostSettings {
            hz: 1000,
            ..profile.system
        },
        ..profile
    }
}

/// Linux until 6.15, the long-term kernel 6.12 among them.
#[must_use]
pub fn linux_6_12() -> Profile {
    linux(LinuxVersion::V6_12)
}

/// Linux 6.16 and 6.17, whose receive buffers grow too slowly.
#[must_use]
pub fn linux_6_16() -> Profile {
    linux(LinuxVersion::V6_16)
}

/// Linux from 6.19 on.
#[must_use]
pub fn linux_6_19() -> Profile {
    linux(LinuxVersion::V6_19)
}

/// Linux of that version.
#[must_use]
pub fn linux(version: LinuxVersion) -> Profile {
    let (name, about) = match version {
        LinuxVersion::V6_12 => ("linux_6_12", "Linux until 6.15, such as 6.12."),
        LinuxVersion::V6_16 => ("linux_6_16", "Linux 6.16 and 6.17."),
        LinuxVersion::V6_18 => ("linux_6_18", "Linux 6.18."),
        LinuxVersion::V6_19 => ("linux_6_19", "Linux from 6.19 on."),
    };
    Profile {
        name,
        about,
        settings: SocketSettings {
            small_writes: small_writes(),
            acks: acks(version),
            send: send(version),
            recv: recv(version),
            options: options(),
            recovery: recovery(),
            congestion: congestion(),
            path: path(version),
            life: life(),
        },
        system: system(),
        backlog: 4096,     // net.core.somaxconn since 5.4 (recalled)
        syn_cookies: true, // net.ipv4.tcp_syncookies 1 (recalled)
    }
}

/// Linux as a datacenter of 2019 had it (DC10): 4.19, the last long-term kernel with an initial
/// receive buffer of 87380 bytes.
#[must_use]
pub fn linux_2019() -> Profile {
    let mut profile = linux(LinuxVersion::V6_12);
    profile.name = "linux_2019";
    profile.about = "Linux 4.19, as machines of 2019 had it.";
    let SocketSettings {
        recv,
        options,
        path,
        life,
        ..
    } = &mut profile.settings;
    recv.buffer.initial = 87_380; // DC10
    recv.accounting = Accounting::Truesize {
        ratio: Some(RATIO_BEFORE_6_6),
    };
    // Until 4.19 the first window is at most twice the initial congestion window (recalled:
    // `tcp_default_init_rwnd`).
    options.initial_window_segments = Some(20);
    path.local_queue_max = 262_144; // tcp_limit_output_bytes before 5.0 (recalled)
    path.tso_rtt_log = 0; // since 5.18 (recalled)
    life.syn_linear_timeouts = 0; // since 6.5 (rule 11.2)
    profile.backlog = 128; // net.core.somaxconn before 5.4 (recalled)
    profile
}

const fn small_writes() -> SmallWrites {
    SmallWrites {
        nagle: Nagle::Minshall, // rule 7.1
        half_window: false,     // rule 7.1 has no such exception; rule 6.3 sets PSH
        push: Push::EachWrite,  // rule 6.4
        cork: false,
        cork_ceiling: Some(millis(200)), // rule 7.5
        autocork: true,                  // net.ipv4.tcp_autocorking 1 (rule 7.6)
    }
}

const fn acks(version: LinuxVersion) -> Acks {
    Acks {
        every: AckEvery::MoreThanSegments(1), // rule 8.3.1
        delay: millis(40),                    // rule 8.2.2: ato starts at HZ/25
        follows_pace: true,
        delay_min: millis(40),      // rule 8.1: HZ/25
        delay_max: millis(200),     // rule 8.1: HZ/5
        timer_tick: Duration::ZERO, // the host's tick (rule 2.1)
        quick_max: 16,              // rule 8.1
        pingpong_threshold: 1,      // net.ipv4.tcp_pingpong_thresh (rule 8.6)
        on_read: true,              // rule 8.5
        always_quick: false,
        compress: Some(SackCompression {
            delay_max: millis(1), // net.ipv4.tcp_comp_sack_delay_ns
            rtt_percent: match version {
                LinuxVersion::V6_12 | LinuxVersion::V6_16 | LinuxVersion::V6_18 => 5, // rule 8.3.3
                LinuxVersion::V6_19 => 33, // net.ipv4.tcp_comp_sack_rtt_percent
            },
            count_max: 44, // net.ipv4.tcp_comp_sack_nr
        }),
        window_update_segments: None, // rule 8.5: when it doubles
        challenge_per_second: 2,      // tcp_invalid_ratelimit 500 ms (recalled)
    }
}

/// Largest size that `SO_SNDBUF` and `SO_RCVBUF` accept: `net.core.wmem_max`, `rmem_max` (rule
/// 0.3).
const fn request_max(version: LinuxVersion) -> u32 {
    match version {
        LinuxVersion::V6_12 => 212_992,
        LinuxVersion::V6_16 | LinuxVersion::V6_18 | LinuxVersion::V6_19 => 4 * MIB,
    }
}

const fn send(version: LinuxVersion) -> SendMemory {
    SendMemory {
        buffer: BufferSize {
            min: 4096, // net.ipv4.tcp_wmem
            initial: 16_384,
            max: 4 * MIB,
            request_max: request_max(version),
            fixed: None,
            rule: SizeRule::Linux(version), // rule 5.1
        },
        accounting: Accounting::Truesize {
            ratio: Some(SEND_RATIO),
        },
        completion: Completion::Linux, // rule 5.2
        unacked_budget: None,
        held: None,
        notsent_lowat: None, // net.ipv4.tcp_notsent_lowat 4294967295
        auto_lowat: false,
    }
}

const fn recv(version: LinuxVersion) -> RecvMemory {
    RecvMemory {
        buffer: BufferSize {
            min: 4096, // net.ipv4.tcp_rmem
            initial: 131_072,
            max: match version {
                LinuxVersion::V6_12 => 6 * MIB,
                LinuxVersion::V6_16 | LinuxVersion::V6_18 | LinuxVersion::V6_19 => 32 * MIB,
            },
            request_max: request_max(version),
            fixed: None,
            rule: SizeRule::Linux(version), // rule 4.3; net.ipv4.tcp_moderate_rcvbuf 1
        },
        accounting: Accounting::Truesize { ratio: None }, // rule 3.1
        out_of_order_budget: None,                        // inside the receive buffer (NB19)
        lowat: 1,
    }
}

const fn options() -> Options {
    Options {
        window_scaling: true, // net.ipv4.tcp_window_scaling 1
        timestamps: true,     // net.ipv4.tcp_timestamps 1 (rule 10.1)
        sack: true,           // net.ipv4.tcp_sack 1
        dsack: true,          // net.ipv4.tcp_dsack 1 (recalled)
        ecn: Ecn::Accept,     // net.ipv4.tcp_ecn 2 (rule 12.8)
        mss: None,
        advmss: None,
        default_mss: 536,              // TCP_MSS_DEFAULT; RFC 9293 section 3.7.1
        initial_window_segments: None, // rule 3.2
        window_clamp: None,
        accept_window_zero: false,
    }
}

const fn recovery() -> Recovery {
    Recovery {
        detection: Detection::Rack, // net.ipv4.tcp_recovery 1 (rule 11.4)
        dupack_threshold: 3,        // net.ipv4.tcp_reordering
        tail_loss_probe: true,      // net.ipv4.tcp_early_retrans 3 (rule 11.3)
        prr: true,                  // rule 11.5
        frto: true,                 // net.ipv4.tcp_frto 2 (rule 11.6)
        undo: true,                 // rule 11.6
        limited_transmit: true,     // rule 11.7
        rto_initial: secs(1),       // rule 11.2
        rto_min: millis(200),       // net.ipv4.tcp_rto_min_us 200000
        rto_max: secs(120),         // net.ipv4.tcp_rto_max_ms 120000
        rto_rule: RtoRule::Linux,   // rule 11.1
    }
}

const fn congestion() -> Congestion {
    Congestion {
        name: CongestionName::Cubic, // DEFAULT_TCP_CONG of the kernel (recalled)
        hystart: HyStart::Classic,   // rule 12.4
        initial_window: 10,          // rule 12.1
        slow_start_after_idle: true, // net.ipv4.tcp_slow_start_after_idle 1 (rule 12.6)
        validation: Validation::Linux, // rule 12.7
        pacing: false,               // default_qdisc pfifo_fast (rule 6.8)
        pacing_rate_max: None,
        pacing_ss_percent: 200, // net.ipv4.tcp_pacing_ss_ratio
        pacing_ca_percent: 120, // net.ipv4.tcp_pacing_ca_ratio
        byte_counting: true,    // rule 12.3: segments acknowledged, not ACKs
    }
}

const fn path(version: LinuxVersion) -> Path {
    Path {
        pmtu_discovery: true,         // net.ipv4.ip_no_pmtu_disc 0 (recalled)
        pmtu_confirm: false,          // tcp_v4_mtu_reduced
        mtu_probing: MtuProbing::Off, // net.ipv4.tcp_mtu_probing 0 (rule 10.4)
        mtu_base: 1064,               // net.ipv4.tcp_base_mss 1024 and 40 of headers (recalled)
        gso_max: 65_536,              // rule 6.1
        tso_min_segments: 2,          // net.ipv4.tcp_min_tso_segs (rule 6.5)
        tso_rtt_log: 9,               // net.ipv4.tcp_tso_rtt_log (rule 6.5)
        tso_win_divisor: 3,           // net.ipv4.tcp_tso_win_divisor (rule 6.6)
        local_queue_max: match version {
            // net.ipv4.tcp_limit_output_bytes (rule 6.7)
            LinuxVersion::V6_12 => MIB,
            LinuxVersion::V6_16 | LinuxVersion::V6_18 | LinuxVersion::V6_19 => 4 * MIB,
        },
        hop_limit: 64, // net.ipv4.ip_default_ttl (recalled)
    }
}

const fn life() -> Life {
    Life {
        syn_retries: 6,                     // net.ipv4.tcp_syn_retries
        syn_linear_timeouts: 4,             // net.ipv4.tcp_syn_linear_timeouts (rule 11.2)
        synack_retries: 5,                  // net.ipv4.tcp_synack_retries (recalled)
        retries: 15,                        // net.ipv4.tcp_retries2 (recalled)
        retries_timeout: Some(millis(200)), // TCP_RTO_MIN (recalled)
        user_timeout: None,
        defer_accept: None,
        keepalive: None,                // SO_KEEPALIVE off
        keepalive_interval: secs(75),   // net.ipv4.tcp_keepalive_intvl (recalled)
        keepalive_probes: 9,            // net.ipv4.tcp_keepalive_probes (recalled)
        fin_timeout: secs(60),          // net.ipv4.tcp_fin_timeout (recalled)
        time_wait: secs(60),            // TCP_TIMEWAIT_LEN (recalled)
        time_wait_reuse: true,          // tcp_timewait_state_process (recalled)
        unreachable_ends_opening: true, // tcp_v4_err (recalled)
    }
}

const fn system() -> HostSettings {
    HostSettings {
        hz: 250,                // rule 0.3
        coarse_above_ticks: 63, // rule 2.2
        pool: None,
        memory: MemoryBudget::DEFAULT, // ours
        ports: (32_768, 60_999),       // net.ipv4.ip_local_port_range (recalled)
        txqueuelen: 1000,              // DC8
        pacing_horizon: Duration::ZERO,
        completes_at_once: false,
        connections_max: 65_536, // ours; Linux is bounded by memory
        time_wait_max: 131_072,  // net.ipv4.tcp_max_tw_buckets of the reference machine
        any_address: false,
        answers_per_second: 1000, // net.ipv4.tcp_challenge_ack_limit until 5.19 (recalled)
    }
}
