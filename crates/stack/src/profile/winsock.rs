//! The Microsoft stack of Knowledge Base article 214397: Windows NT 4 and 2000.
//!
//! Values from the seed and its original (experiments A3, WS1 to WS47) are exact: the timer is 200
//! ms, without a tick, because the article reasons so. The rest is recalled from Windows 2000.

use core::time::Duration;

use base::settings::{
    Accounting, AckEvery, Acks, Completion, Congestion, CongestionName, Detection, Ecn, HyStart,
    Life, MtuProbing, Nagle, Options, Path, Push, Recovery, RecvMemory, SendMemory, SmallWrites,
    SocketSettings, Validation,
};

use super::{Profile, acks_after, fixed_size, millis, plain_recovery, secs, single_segments};
use crate::{HostSettings, MemoryBudget};

/// Windows of the seed, for a LAN of 10 Mbit/s.
#[must_use]
pub fn winsock() -> Profile {
    Profile {
        name: "winsock",
        about: "Windows NT 4 and 2000, whose sends complete by quota.",
        settings: SocketSettings {
            small_writes: SmallWrites {
                nagle: Nagle::Rfc896, // WS6
                half_window: false,   // KB 214397 names two exceptions only (WS7, WS8)
                push: Push::EachWrite,
                cork: false,
                cork_ceiling: None,
                autocork: false,
            },
            acks: acks(),
            send: SendMemory {
                // WS9, WS42; 0 is allowed and means "complete when acknowledged" (WS12).
                buffer: fixed_size(0, 8192, i32::MAX as u32),
                accounting: Accounting::Payload,
                completion: Completion::Winsock, // WS13 to WS16
                unacked_budget: None,
                held: None,
                notsent_lowat: None,
                auto_lowat: false,
            },
            recv: RecvMemory {
                buffer: fixed_size(0, 17_520, 65_535), // WS47: 12 segments of 1460
                accounting: Accounting::Payload,
                out_of_order_budget: None,
                lowat: 1,
            },
            options: options(),
            recovery: recovery(),
            congestion: congestion(),
            path: path(),
            life: life(),
        },
        system: system(),
        backlog: 200, // SOMAXCONN of server editions (recalled)
        syn_cookies: false,
    }
}

const fn acks() -> Acks {
    Acks {
        every: AckEvery::Packets(2),     // WS2, WS36: TcpAckFrequency
        timer_tick: Duration::ZERO,      // B3: exactly 200 ms
        quick_max: 0,                    // WS5
        pingpong_threshold: 0,           // WS3: an answer carries the ACK, nothing more
        on_read: false,                  // WS5
        window_update_segments: Some(2), // recalled
        challenge_per_second: 200,       // ours; RFC 5961 came later
        ..acks_after(millis(200))        // WS1, WS38: TcpDelAckTicks 2
    }
}

const fn options() -> Options {
    Options {
        window_scaling: false, // WS47
        timestamps: false,     // Tcp1323Opts (recalled)
        sack: true,            // SackOpts 1 in Windows 2000 (recalled)
        dsack: false,
        ecn: Ecn::Off,
        mss: None,
        advmss: None,
        default_mss: 536,
        initial_window_segments: None,
        window_clamp: None,
        accept_window_zero: false,
    }
}

const fn recovery() -> Recovery {
    Recovery {
        dupack_threshold: 2,  // TcpMaxDupAcks (recalled)
        rto_initial: secs(3), // TcpInitialRtt (recalled)
        rto_min: millis(300), // recalled
        rto_max: secs(240),   // recalled
        ..plain_recovery(Detection::DupSack)
    }
}

const fn congestion() -> Congestion {
    Congestion {
        name: CongestionName::NewReno,
        hystart: HyStart::Off,
        initial_window: 2, // RFC 2581 (recalled)
        slow_start_after_idle: true,
        validation: Validation::Off,
        pacing: false,
        pacing_rate_max: None,
        pacing_ss_percent: 200, // as Linux, where pacing is turned on
        pacing_ca_percent: 120,
        byte_counting: false,
    }
}

const fn path() -> Path {
    Path {
        pmtu_discovery: true,         // EnablePMTUDiscovery 1 (recalled)
        pmtu_confirm: true,           // RFC 5927 section 7.2
        mtu_probing: MtuProbing::Off, // EnablePMTUBHDetect 0 (recalled)
        mtu_base: 576,                // what black hole detection falls back to (recalled)
        hop_limit: 128,               // DefaultTTL (recalled)
        ..single_segments()
    }
}

const fn life() -> Life {
    Life {
        syn_retries: 2, // TcpMaxConnectRetransmissions (recalled)
        syn_linear_timeouts: 0,
        synack_retries: 2, // TcpMaxConnectResponseRetransmissions (recalled)
        retries: 5,        // TcpMaxDataRetransmissions (recalled)
        retries_timeout: None,
        user_timeout: None,
        defer_accept: None,
        keepalive: None, // KeepAliveTime 2 h, but off unless asked for (recalled)
        keepalive_interval: secs(1), // KeepAliveInterval (recalled)
        keepalive_probes: 5, // recalled
        fin_timeout: secs(240), // recalled
        time_wait: secs(240), // TcpTimedWaitDelay (recalled)
        time_wait_reuse: true,
        unreachable_ends_opening: false,
    }
}

const fn system() -> HostSettings {
    HostSettings {
        hz: 0, // B3: tick 0
        coarse_above_ticks: 0,
        pool: None,
        memory: MemoryBudget::DEFAULT, // ours
        ports: (1025, 5000),           // MaxUserPort (recalled)
        txqueuelen: 1000,              // ours
        pacing_horizon: Duration::ZERO,
        completes_at_once: false,
        connections_max: 65_536, // ours
        time_wait_max: 65_536,   // ours
        any_address: false,
        answers_per_second: 1000, // ours
    }
}
