//! Tests of the whole: what a sender does on ACKs, timers and losses.

use alloc::boxed::Box;
use core::time::Duration;
use std::vec;
use std::vec::Vec;

use base::settings::{
    Accounting, AckEvery, Acks, BufferSize, Completion, Congestion, CongestionName, Detection, Ecn,
    HyStart, Life, MtuProbing, Nagle, Options, Path, Push, Recovery, RecvMemory, RtoRule,
    SendMemory, SizeRule, SmallWrites, SocketSettings, Validation,
};
use base::{CongestionState, Instant};

use super::{AckInput, LossRecovery, Probe, RecoveryTimer};
use crate::cc::{AckSample, CongestionControl, Window};
use crate::tick::TickClock;

/// Settings as Linux has them; only recovery, congestion and path matter here.
pub(super) fn settings() -> SocketSettings {
    let buffer = BufferSize {
        min: 4096,
        initial: 131_072,
        max: 6_291_456,
        request_max: 212_992,
        fixed: None,
        rule: SizeRule::Fixed,
    };
    let hour = Duration::from_secs(3600);
    SocketSettings {
        small_writes: SmallWrites {
            nagle: Nagle::Off,
            half_window: false,
            push: Push::EachWrite,
            cork: false,
            cork_ceiling: None,
            autocork: false,
        },
        acks: Acks {
            every: AckEvery::Packets(2),
            delay: Duration::ZERO,
            delay_min: Duration::ZERO,
            delay_max: Duration::ZERO,
            timer_tick: Duration::ZERO,
            quick_max: 16,
            pingpong_threshold: 1,
            on_read: true,
            always_quick: false,
            compress: None,
            window_update_segments: None,
            challenge_per_second: 2,
        },
        send: SendMemory {
            buffer: buffer.clone(),
            accounting: Accounting::Payload,
            completion: Completion::Bsd,
            unacked_budget: None,
            notsent_lowat: None,
        },
        recv: RecvMemory {
            buffer,
            accounting: Accounting::Payload,
            out_of_order_budget: None,
        },
        options: Options {
            window_scaling: true,
            timestamps: true,
            sack: true,
            dsack: true,
            ecn: Ecn::Off,
            mss: None,
            default_mss: 536,
            initial_window_segments: None,
            window_clamp: None,
            accept_window_zero: false,
        },
        recovery: Recovery {
            detection: Detection::Rack,
            dupack_threshold: 3,
            tail_loss_probe: true,
            prr: true,
            frto: true,
            undo: true,
            limited_transmit: true,
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(120),
            rto_rule: RtoRule::Linux,
        },
        congestion: Congestion {
            name: CongestionName::NewReno,
            hystart: HyStart::Off,
            initial_window: 10,
            slow_start_after_idle: true,
            validation: Validation::Linux,
            pacing: false,
            pacing_rate_max: None,
            pacing_ss_percent: 200,
            pacing_ca_percent: 120,
            byte_counting: true,
        },
        path: Path {
            pmtu_discovery: true,
            mtu_probing: MtuProbing::Off,
            mtu_base: 1064,
            gso_max: 65_536,
            tso_min_segments: 2,
            tso_rtt_log: 9,
            tso_win_divisor: 3,
            local_queue_max: 4_194_304,
            hop_limit: 64,
        },
        life: Life {
            syn_retries: 6,
            syn_linear_timeouts: 4,
            synack_retries: 5,
            retries: 15,
            user_timeout: None,
            keepalive: None,
            keepalive_interval: hour,
            keepalive_probes: 9,
            fin_timeout: hour,
            time_wait: hour,
            time_wait_reuse: true,
        },
    }
}
