//! The embedded stack of the NetBurner seed.
//!
//! Memory is counted in whole packet buffers of a shared pool, one segment each, with separate
//! budgets for receiving, data out of order, data not yet sent and data not yet acknowledged
//! (experiments A1). Its congestion control is not published; the budgets bound what is in flight.

use core::time::Duration;

use base::settings::{
    Accounting, AckEvery, Acks, BufferSize, Completion, Congestion, CongestionName, Detection, Ecn,
    HyStart, Life, Nagle, Options, Path, Push, Recovery, RecvMemory, SendMemory, SmallWrites,
    SocketSettings, Validation,
};

use super::{Profile, acks_after, fixed_size, millis, plain_recovery, secs, single_segments};
use crate::{HostSettings, MemoryBudget, PoolSize};

/// NB8: what one buffer carries, the MSS of Ethernet.
const PAYLOAD_BYTES: u32 = 1460;
/// NB15, NB18: most buffers per socket that are of use.
const BUFFERS_MAX: u32 = 43;

/// NetBurner as the seed describes it: 5 buffers of each kind, a LAN or a 25 Mbit/s link.
#[must_use]
pub fn netburner() -> Profile {
    Profile {
        name: "netburner",
        about: "NetBurner's embedded stack: whole buffers from one pool, 5 of each kind.",
        ..with_buffers(5, 256) // NB18, NB19, NB22, NB23, NB44
    }
}

/// NetBurner by its headers of 2009: 3 buffers of each kind and 32 sockets (NB59, NB60).
#[must_use]
pub fn netburner_2009() -> Profile {
    Profile {
        name: "netburner_2009",
        about: "NetBurner's embedded stack of 2009: 3 buffers of each kind, 32 sockets.",
        ..with_buffers(3, 32)
    }
}

fn with_buffers(buffers: u32, connections_max: u32) -> Profile {
    let accounting = Accounting::Buffers {
        payload_bytes: PAYLOAD_BYTES,
    };
    let bytes = buffers * PAYLOAD_BYTES;
    Profile {
        name: "",
        about: "",
        settings: SocketSettings {
            small_writes: small_writes(),
            acks: acks(),
            send: SendMemory {
                buffer: whole_buffers(buffers), // NB22
                accounting,
                completion: Completion::Bsd, // NB36
                unacked_budget: Some(bytes), // NB23
                held: None,
                notsent_lowat: None,
                auto_lowat: false,
            },
            recv: RecvMemory {
                buffer: whole_buffers(buffers), // NB18
                accounting,
                out_of_order_budget: Some(5 * PAYLOAD_BYTES), // NB19
                lowat: 1,
            },
            options: options(),
            recovery: recovery(),
            congestion: congestion(),
            path: path(),
            life: life(),
        },
        system: system(connections_max),
        backlog: 5, // NB48
        syn_cookies: false,
    }
}

const fn whole_buffers(buffers: u32) -> BufferSize {
    fixed_size(
        buffers * PAYLOAD_BYTES,
        buffers * PAYLOAD_BYTES,
        BUFFERS_MAX * PAYLOAD_BYTES,
    )
}

const fn small_writes() -> SmallWrites {
    SmallWrites {
        nagle: Nagle::Rfc896, // NB28, NB33
        half_window: false,
        push: Push::EachWrite, // NB30, NB33
        cork: false,
        cork_ceiling: None, // NB29: a partial packet waits until SO_NOPUSH is cleared
        autocork: false,
    }
}

const fn acks() -> Acks {
    Acks {
        every: AckEvery::Packets(2), // RFC 1122 section 4.2.3.2; not published
        timer_tick: Duration::ZERO,  // the host's tick, NB54
        window_update_segments: Some(2), // not published; BSD's rule
        challenge_per_second: 20,    // ours: one per tick
        ..acks_after(millis(200))    // NB55: 4 ticks
    }
}

const fn options() -> Options {
    Options {
        window_scaling: false, // NB14
        timestamps: false,     // C2
        sack: false,           // C2
        dsack: false,
        ecn: Ecn::Off,
        mss: None,
        advmss: None,
        default_mss: 512, // NB56
        initial_window_segments: None,
        window_clamp: None,
        accept_window_zero: true, // NB46: state 4
    }
}

const fn recovery() -> Recovery {
    Recovery {
        rto_initial: secs(3),                 // NB57
        rto_min: millis(500),                 // NB57
        rto_max: secs(64),                    // NB57
        ..plain_recovery(Detection::NewReno)  // no SACK
    }
}

const fn congestion() -> Congestion {
    Congestion {
        name: CongestionName::None, // not published; the budgets bound what is out (NB23)
        hystart: HyStart::Off,
        initial_window: BUFFERS_MAX,
        slow_start_after_idle: false,
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
        pmtu_discovery: false,
        pmtu_confirm: true, // RFC 5927 section 7.2
        mtu_base: 552,      // NB56 and 40 of headers
        hop_limit: 64,      // not published
        ..single_segments()
    }
}

const fn life() -> Life {
    Life {
        syn_retries: 4, // NB58: connect 75 s, at an initial timeout of 3 s
        syn_linear_timeouts: 0,
        synack_retries: 4,
        retries: 12, // NB58
        retries_timeout: None,
        user_timeout: None,
        defer_accept: None,
        keepalive: None, // NB51: the program builds its own
        keepalive_interval: secs(75),
        keepalive_probes: 9,
        fin_timeout: secs(60),
        time_wait: secs(60), // NB58
        time_wait_reuse: false,
        unreachable_ends_opening: false,
    }
}

const fn system(connections_max: u32) -> HostSettings {
    HostSettings {
        hz: 20, // NB54
        coarse_above_ticks: 0,
        pool: Some(PoolSize {
            buffers: 256,       // NB5
            buffer_bytes: 1548, // NB6
            reserved: 0,        // NB13: 4 per serial port in use
        }),
        memory: MemoryBudget::UNLIMITED, // the pool is the bound
        ports: (32_769, 65_535),         // NB49: above 0x8000
        txqueuelen: 256,                 // as many as there are buffers
        pacing_horizon: Duration::ZERO,
        completes_at_once: false,
        connections_max,
        time_wait_max: connections_max, // ours
        any_address: false,
        answers_per_second: 20, // ours: one per tick
    }
}
