//! TCP by the standards alone: what an RFC recommends, and nothing of a particular stack.
//!
//! For paths of up to 100 Mbit/s at 20 ms (buffers of 256 KiB), and as a peer that adds no effects
//! of its own. Experimental RFCs are left out.

use core::time::Duration;

use base::settings::{
    Accounting, AckEvery, Acks, Completion, Congestion, CongestionName, Detection, Ecn, HyStart,
    Life, MtuProbing, Nagle, Options, Path, Push, Recovery, RecvMemory, SendMemory, SmallWrites,
    SocketSettings, Validation,
};

use super::{Profile, acks_after, fixed_size, millis, plain_recovery, secs, single_segments};
use crate::{HostSettings, MemoryBudget};

/// 100 Mbit/s at 20 ms are 250 000 bytes.
const BUFFER_BYTES: u32 = 256 << 10;
/// The largest window that RFC 7323 can express.
const WINDOW_MAX: u32 = 1 << 30;

/// The standards' defaults.
#[must_use]
pub fn textbook() -> Profile {
    Profile {
        name: "textbook",
        about: "What the RFCs recommend, with exact timers and buffers of 256 KiB.",
        settings: SocketSettings {
            small_writes: small_writes(),
            acks: acks(),
            send: SendMemory {
                buffer: fixed_size(1, BUFFER_BYTES, WINDOW_MAX),
                accounting: Accounting::Payload,
                completion: Completion::Bsd,
                unacked_budget: None,
                held: None,
                notsent_lowat: None,
                auto_lowat: false,
            },
            recv: RecvMemory {
                buffer: fixed_size(1, BUFFER_BYTES, WINDOW_MAX),
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
        backlog: 128,      // ours
        syn_cookies: true, // RFC 4987 section 3.6
    }
}

const fn small_writes() -> SmallWrites {
    SmallWrites {
        nagle: Nagle::Rfc896,    // RFC 9293 section 3.7.4
        half_window: true,       // RFC 9293 section 3.8.6.2.1
        push: Push::BufferEmpty, // RFC 9293 section 3.9.1.2
        cork: false,
        cork_ceiling: None,
        autocork: false,
    }
}

const fn acks() -> Acks {
    Acks {
        every: AckEvery::MoreThanSegments(1), // RFC 9293 section 3.8.6.3: every second full segment
        compress: None,                       // RFC 5681 section 4.2
        window_update_segments: Some(2),      // RFC 9293 section 3.8.6.2.2 as BSD does it
        challenge_per_second: 2,              // RFC 5961 section 7: 10 in 5 s
        ..acks_after(millis(200))             // RFC 9293 section 3.8.6.3: below 500 ms; ours
    }
}

const fn options() -> Options {
    Options {
        window_scaling: true, // RFC 7323 section 2
        timestamps: true,     // RFC 7323 section 3
        sack: true,           // RFC 2018
        dsack: true,          // RFC 2883
        ecn: Ecn::Accept,     // RFC 3168
        mss: None,
        advmss: None,
        default_mss: 536, // RFC 9293 section 3.7.1
        initial_window_segments: None,
        window_clamp: None,
        accept_window_zero: false,
    }
}

const fn recovery() -> Recovery {
    Recovery {
        frto: true,                           // RFC 5682
        undo: true,                           // RFC 4015
        limited_transmit: true,               // RFC 3042
        rto_initial: secs(1),                 // RFC 6298 section 2.1
        rto_min: secs(1),                     // RFC 6298 section 2.4
        rto_max: secs(60),                    // RFC 6298 section 2.5
        ..plain_recovery(Detection::DupSack)  // RFC 6675
    }
}

const fn congestion() -> Congestion {
    Congestion {
        name: CongestionName::NewReno, // RFC 5681, RFC 6582
        hystart: HyStart::Off,
        initial_window: 3,           // RFC 5681 section 3.1, at an MSS of 1460
        slow_start_after_idle: true, // RFC 5681 section 4.1
        validation: Validation::Off, // RFC 7661 is experimental
        pacing: false,
        pacing_rate_max: None,
        pacing_ss_percent: 200, // ours, where pacing is turned on
        pacing_ca_percent: 120,
        byte_counting: true, // RFC 5681 section 3.1
    }
}

const fn path() -> Path {
    Path {
        mtu_probing: MtuProbing::Off, // RFC 4821 leaves it to the host
        mtu_base: 1064,               // RFC 4821 section 7.2: 1024 and headers
        ..single_segments()
    }
}

const fn life() -> Life {
    Life {
        syn_retries: 7, // RFC 9293 section 3.8.3: at least 3 minutes
        syn_linear_timeouts: 0,
        synack_retries: 7,
        retries: 7, // RFC 9293 section 3.8.3: at least 100 s
        retries_timeout: None,
        user_timeout: None,
        defer_accept: None,
        keepalive: None,                 // RFC 9293 section 3.8.4: off
        keepalive_interval: secs(75),    // ours
        keepalive_probes: 9,             // ours
        fin_timeout: secs(240),          // ours: as long as TIME-WAIT
        time_wait: secs(240),            // RFC 9293 section 3.4.2: twice 2 minutes
        time_wait_reuse: true,           // RFC 6191
        unreachable_ends_opening: false, // RFC 1122 section 4.2.3.9
    }
}

const fn system() -> HostSettings {
    HostSettings {
        hz: 0,
        coarse_above_ticks: 0,
        pool: None,
        memory: MemoryBudget::DEFAULT, // ours
        ports: (1024, 65_535),         // RFC 6056 section 3.2
        txqueuelen: 1000,              // ours
        pacing_horizon: Duration::ZERO,
        completes_at_once: false,
        connections_max: 65_536, // ours
        time_wait_max: 65_536,   // ours
        any_address: false,
        answers_per_second: 1000, // ours
    }
}
