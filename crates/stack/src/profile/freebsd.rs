//! FreeBSD: the patch of December 2006 on release 6.2 (the seed), and release 14.
//!
//! Sizes and their rules are from the seed and from FreeBSD's sources as experiments A4 (FB1 to
//! FB32) quotes them; what stands beside is recalled.

use core::time::Duration;

use base::settings::{
    Accounting, Acks, BufferSize, Completion, Congestion, CongestionName, Detection, Ecn, HyStart,
    Life, MtuProbing, Nagle, Options, Path, Push, Recovery, RecvMemory, RtoRule, SendMemory,
    SizeRule, SmallWrites, SocketSettings, Validation,
};

use super::{Profile, acks_after, millis, plain_recovery, secs, single_segments};
use crate::{HostSettings, MemoryBudget};

const KIB: u32 = 1 << 10;

/// FreeBSD 6.2 with Andre Oppermann's patch: the seed's machine after the change.
#[must_use]
pub fn freebsd_2006() -> Profile {
    Profile {
        name: "freebsd_2006",
        about: "FreeBSD 6.2 with the automatic buffer sizes of December 2006.",
        settings: SocketSettings {
            small_writes: small_writes(),
            acks: acks(),
            send: SendMemory {
                buffer: automatic(
                    32 * KIB,                                // FB10: sendspace
                    256 * KIB,                               // FB5: sendbuf_max
                    SizeRule::FreeBsd2006 { step: 8 * KIB }, // FB4: sendbuf_inc
                ),
                ..send_memory()
            },
            recv: RecvMemory {
                buffer: automatic(
                    64 * KIB,                                 // FB10: recvspace
                    256 * KIB,                                // FB8: recvbuf_max
                    SizeRule::FreeBsd2006 { step: 16 * KIB }, // FB7: recvbuf_inc
                ),
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
        backlog: 128,      // kern.ipc.somaxconn (recalled)
        syn_cookies: true, // net.inet.tcp.syncookies 1 (recalled)
    }
}

/// FreeBSD 14: CUBIC, PRR, buffers up to 2 MiB.
#[must_use]
pub fn freebsd_14() -> Profile {
    let mut profile = freebsd_2006();
    profile.name = "freebsd_14";
    profile.about = "FreeBSD 14.";
    let SocketSettings {
        acks,
        send,
        recv,
        options,
        recovery,
        congestion,
        path,
        life,
        ..
    } = &mut profile.settings;
    acks.delay = millis(40); // FB32: TCPTV_DELACK of tcp_timer.h; since 13 (recalled)
    acks.delay_min = acks.delay;
    acks.delay_max = acks.delay;
    acks.challenge_per_second = 5; // net.inet.tcp.ack_war_cnt (recalled)
    // FB9, FB11 and FB19.
    let rule = SizeRule::FreeBsd14 { step: 8 * KIB };
    send.buffer = automatic(32 * KIB, 2048 * KIB, rule);
    recv.buffer = automatic(64 * KIB, 2048 * KIB, rule);
    options.dsack = true; // since 13 (recalled)
    options.ecn = Ecn::Accept; // net.inet.tcp.ecn.enable 2 (recalled)
    options.default_mss = 536; // net.inet.tcp.mssdflt (recalled)
    recovery.prr = true; // net.inet.tcp.do_prr 1 (recalled)
    recovery.rto_initial = secs(1); // net.inet.tcp.rexmit_initial 1000 (recalled)
    congestion.name = CongestionName::Cubic; // default since 14.0 (recalled)
    congestion.initial_window = 10; // net.inet.tcp.initcwnd_segments (recalled)
    congestion.byte_counting = true; // net.inet.tcp.rfc3465 1 (recalled)
    path.gso_max = 65_535; // TSO of common drivers (recalled)
    life.syn_retries = 10; // what keepinit, 75 s, leaves room for at 1 s (recalled)
    profile.system.ports = (10_000, 65_535); // net.inet.ip.portrange (recalled)
    profile
}

/// FB13: what the application asked for ends it; `kern.ipc.maxsockbuf` is as large as the maximum
/// (recalled), and a request of 0 is refused.
const fn automatic(initial: u32, max: u32, rule: SizeRule) -> BufferSize {
    BufferSize {
        min: 1,
        initial,
        max,
        request_max: max,
        fixed: None,
        rule,
    }
}

const fn small_writes() -> SmallWrites {
    SmallWrites {
        nagle: Nagle::Rfc896,    // FB29
        half_window: true,       // FB29
        push: Push::BufferEmpty, // FB29
        cork: false,
        cork_ceiling: None, // FB30: NOPUSH holds until close or a full buffer
        autocork: false,
    }
}

const fn acks() -> Acks {
    Acks {
        // FB31; the quarter of the buffer came after 2006 (FreeBSD PR 116335).
        window_update_segments: Some(2),
        challenge_per_second: 200, // net.inet.icmp.icmplim (recalled)
        // FB32: delacktime, a tenth of a second (tcp_timer.h). DELAY_ACK (recalled); one-shot
        // timers since release 3 (recalled).
        ..acks_after(millis(100))
    }
}

/// All of [`SendMemory`] but the buffer's size.
const fn send_memory() -> SendMemory {
    SendMemory {
        buffer: automatic(0, 0, SizeRule::Fixed),
        accounting: Accounting::Payload,
        completion: Completion::Bsd,
        unacked_budget: None,
        held: None,
        notsent_lowat: None,
        auto_lowat: false, // FB14
    }
}

const fn options() -> Options {
    Options {
        window_scaling: true, // net.inet.tcp.rfc1323 1; FB20
        timestamps: true,     // net.inet.tcp.rfc1323 1; FB17
        sack: true,           // net.inet.tcp.sack.enable 1, since 5.3 (recalled)
        dsack: false,
        ecn: Ecn::Off, // since 8 (recalled)
        mss: None,
        advmss: None,
        default_mss: 512, // net.inet.tcp.mssdflt (recalled)
        initial_window_segments: None,
        window_clamp: None,
        accept_window_zero: false,
    }
}

const fn recovery() -> Recovery {
    Recovery {
        limited_transmit: true, // net.inet.tcp.rfc3042 1 (recalled)
        rto_initial: secs(3),   // TCPTV_RTOBASE (recalled)
        // net.inet.tcp.rexmit_min is 30 ms, but rexmit_slop adds 200 ms to srtt + 4 rttvar
        // (recalled), which is nearest to Linux's rule with a least variation of 200 ms.
        rto_min: millis(200),
        rto_max: secs(64), // TCPTV_REXMTMAX (recalled)
        rto_rule: RtoRule::Linux,
        ..plain_recovery(Detection::DupSack)
    }
}

const fn congestion() -> Congestion {
    Congestion {
        name: CongestionName::NewReno, // B4
        hystart: HyStart::Off,
        initial_window: 3, // net.inet.tcp.rfc3390 1: 4380 bytes (recalled)
        slow_start_after_idle: true, // tcp_output, idle for an RTO (recalled)
        validation: Validation::Off,
        pacing: false,
        pacing_rate_max: None,
        pacing_ss_percent: 200, // as Linux, where pacing is turned on
        pacing_ca_percent: 120,
        byte_counting: false, // since 8 (recalled)
    }
}

const fn path() -> Path {
    Path {
        pmtu_discovery: true,         // net.inet.tcp.path_mtu_discovery 1 (recalled)
        pmtu_confirm: true,           // RFC 5927 section 7.2
        mtu_probing: MtuProbing::Off, // net.inet.tcp.pmtud_blackhole_detection 0 (recalled)
        mtu_base: 1240,               // net.inet.tcp.pmtud_blackhole_mss 1200 and 40 (recalled)
        hop_limit: 64,                // net.inet.ip.ttl (recalled)
        ..single_segments()           // no TSO in release 6 (recalled)
    }
}

const fn life() -> Life {
    Life {
        syn_retries: 8,         // what keepinit, 75 s, leaves room for at 3 s (recalled)
        syn_linear_timeouts: 4, // tcp_syn_backoff 1 1 1 1 1 2 4 (recalled)
        synack_retries: 3,      // net.inet.tcp.syncache.rexmtlimit (recalled)
        retries: 12,            // TCP_MAXRXTSHIFT (recalled)
        retries_timeout: None,  // tcp_timer_rexmt counts
        user_timeout: None,
        defer_accept: None,
        keepalive: Some(secs(7200)), // net.inet.tcp.always_keepalive 1, keepidle (recalled)
        keepalive_interval: secs(75), // net.inet.tcp.keepintvl (recalled)
        keepalive_probes: 8,         // TCPTV_KEEPCNT (recalled)
        fin_timeout: secs(60),       // net.inet.tcp.finwait2_timeout (recalled)
        time_wait: secs(60),         // twice net.inet.tcp.msl (recalled)
        time_wait_reuse: true,
        unreachable_ends_opening: false, // tcp_notify (recalled)
    }
}

const fn system() -> HostSettings {
    HostSettings {
        hz: 1000, // since release 6 (recalled)
        coarse_above_ticks: 0,
        pool: None,
        memory: MemoryBudget::DEFAULT, // ours
        ports: (49_152, 65_535),       // net.inet.ip.portrange (recalled)
        txqueuelen: 50,                // net.link.ifqmaxlen (recalled)
        pacing_horizon: Duration::ZERO,
        completes_at_once: false,
        connections_max: 65_536, // ours; kern.ipc.maxsockets follows memory
        time_wait_max: 13_107,   // net.inet.tcp.maxtcptw: a fifth of the sockets (recalled)
        any_address: false,
        answers_per_second: 200, // net.inet.icmp.icmplim (recalled)
    }
}
