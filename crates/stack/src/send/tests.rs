//! Whole writes through a [`Sender`]: the vectors of Linux, and the rules of the other stacks.

mod memory;
mod properties;
mod small;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::time::Duration;

use base::settings::*;
use base::{Instant, Limit, Rate};
use bytes::Bytes;

use super::segment::Hold;
use super::write::{Pause, WriteOutcome};
use super::*;
use crate::host::WriteFlags;

const MSS: u32 = 1448;

/// Linux 6.18 as the vectors assume it.
fn linux() -> SocketSettings {
    SocketSettings {
        small_writes: SmallWrites {
            nagle: Nagle::Minshall,
            half_window: false,
            push: Push::EachWrite,
            cork: false,
            cork_ceiling: Some(Duration::from_millis(200)),
            autocork: true,
        },
        send: SendMemory {
            buffer: BufferSize {
                min: 4096,
                initial: 16_384,
                max: 4_194_304,
                request_max: 4_194_304,
                fixed: None,
                rule: SizeRule::Linux(LinuxVersion::V6_18),
            },
            accounting: Accounting::Truesize { ratio: 170 },
            completion: Completion::Linux,
            unacked_budget: None,
            notsent_lowat: None,
        },
        ..anything()
    }
}

/// A stack in the manner of 4.4BSD.
fn bsd() -> SocketSettings {
    let mut settings = linux();
    settings.small_writes.nagle = Nagle::Rfc896;
    settings.small_writes.push = Push::BufferEmpty;
    settings.small_writes.autocork = false;
    settings.small_writes.cork_ceiling = None;
    settings.send.buffer.initial = 32_768;
    settings.send.buffer.max = 262_144;
    settings.send.buffer.rule = SizeRule::Fixed;
    settings.send.accounting = Accounting::Payload;
    settings.send.completion = Completion::Bsd;
    settings.path.gso_max = 0;
    settings
}

/// The stack of the Winsock seed.
fn winsock(quota: u32) -> SocketSettings {
    let mut settings = bsd();
    settings.send.completion = Completion::Winsock;
    settings.send.buffer.fixed = Some(quota);
    settings
}

/// Settings of which the sender uses only the path.
// tidy: long because every setting is named
fn anything() -> SocketSettings {
    let buffer = BufferSize {
        min: 4096,
        initial: 131_072,
        max: 33_554_432,
        request_max: 4_194_304,
        fixed: None,
        rule: SizeRule::Fixed,
    };
    SocketSettings {
        small_writes: SmallWrites {
            nagle: Nagle::Off,
            half_window: false,
            push: Push::BufferEmpty,
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
            quick_max: 0,
            pingpong_threshold: 0,
            on_read: false,
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
            name: CongestionName::None,
            hystart: HyStart::Off,
            initial_window: 10,
            slow_start_after_idle: true,
            validation: Validation::Off,
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
            retries_timeout: None,
            user_timeout: None,
            keepalive: None,
            keepalive_interval: Duration::from_secs(75),
            keepalive_probes: 9,
            fin_timeout: Duration::from_secs(60),
            time_wait: Duration::from_secs(60),
            time_wait_reuse: true,
            unreachable_ends_opening: false,
        },
    }
}

/// A sender with the rest of its connection: windows, time, and what left.
struct Bench {
    settings: SocketSettings,
    sender: Sender,
    now: Instant,
    /// Congestion window in packets.
    cwnd: u32,
    /// The peer's window in bytes.
    window: u32,
    window_max: u32,
    mss: u32,
    burst: u32,
    local_queue: u32,
    una: u64,
    written: u64,
    hold: Option<Limit>,
    /// What left in the middle of a write, until it is shown.
    early: Vec<Outgoing>,
}

impl Bench {
    /// An idle connection with cwnd 10, 40 ms from its peer.
    fn new(settings: SocketSettings) -> Self {
        let mut bench = Self {
            sender: Sender::new(&settings),
            settings,
            now: Instant::from_nanos(1_000_000_000),
            cwnd: 10,
            window: 65_160,
            window_max: 65_160,
            mss: MSS,
            burst: 2,
            local_queue: 0,
            una: 1,
            written: 0,
            hold: None,
            early: Vec::new(),
        };
        bench.sender.on_established(&bench.memory_env());
        bench
    }

    fn sizes(&self) -> SegmentSizes {
        SegmentSizes {
            mss: self.mss,
            gso_max: self.settings.path.gso_max,
            window_max: self.window_max,
        }
    }

    fn packets_out(&self) -> u32 {
        self.sender.in_flight_segments
    }

    fn memory_env(&self) -> SendMemoryEnv {
        SendMemoryEnv {
            cwnd: self.cwnd,
            reordering: 3,
            in_flight: self.packets_out(),
            mss: self.mss,
            peer_mss: 1460,
            window: self.window,
            cc_windows: 2,
        }
    }

    fn env(&self) -> SendEnv {
        SendEnv {
            now: self.now,
            window_end: self.una + u64::from(self.window),
            sizes: self.sizes(),
            allowance: self.cwnd.saturating_sub(self.packets_out()),
            burst_segments: self.burst,
            cwnd: self.cwnd,
            in_recovery: false,
            local_queue_bytes: self.local_queue,
            pacing_rate: Rate::from_bits_per_second(5_727_808),
            is_paced: false,
            srtt: Some(Duration::from_millis(40)),
            is_within_write: false,
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    /// Writes without sending, apart from what leaves in the middle of a write.
    fn offer(&mut self, bytes: usize, flags: WriteFlags) -> WriteOutcome {
        let chunk: Vec<u8> = (0..bytes as u64)
            .map(|i| byte_at(self.written + i))
            .collect();
        let sizes = self.sizes();
        let chunk = Bytes::from(chunk);
        let mut taken = 0;
        loop {
            let rest = chunk.slice(taken..);
            let outcome = self.sender.write(&[rest], flags, &sizes);
            taken += outcome.taken;
            self.written += outcome.taken as u64;
            match outcome.pause {
                None => return WriteOutcome { taken, ..outcome },
                Some(Pause::All) => self.early = self.send_packets(),
                Some(Pause::One) => self.send_one_within_write(),
            }
        }
    }

    fn send_one_within_write(&mut self) {
        let env = SendEnv {
            is_within_write: true,
            ..self.env()
        };
        if let Ok(outgoing) = self.sender.poll_segment(&env) {
            self.sender.on_sent(self.now, &outgoing);
            self.early.push(outgoing);
        }
    }

    /// Writes and sends what may go: the lengths of the segments, with `P` for PSH and `F` for FIN.
    fn write(&mut self, bytes: usize) -> String {
        self.write_with(bytes, WriteFlags::default())
    }

    fn write_with(&mut self, bytes: usize, flags: WriteFlags) -> String {
        let outcome = self.offer(bytes, flags);
        assert_eq!(outcome.taken, bytes, "all of the write is taken");
        self.send()
    }

    fn send(&mut self) -> String {
        let mut text = String::new();
        for outgoing in self.send_packets() {
            let mut left = outgoing.end - outgoing.start;
            let gso_size = u64::from(outgoing.gso_size);
            while gso_size > 0 && left > gso_size {
                write!(text, "{gso_size} ").unwrap();
                left -= gso_size;
            }
            let push = if outgoing.push { "P" } else { "" };
            let fin = if outgoing.fin { "F" } else { "" };
            let urgent = if outgoing.urgent.is_some() { "U" } else { "" };
            write!(text, "{left}{push}{fin}{urgent} ").unwrap();
        }
        text.truncate(text.trim_end().len());
        text
    }

    fn send_packets(&mut self) -> Vec<Outgoing> {
        let mut packets = core::mem::take(&mut self.early);
        loop {
            match self.sender.poll_segment(&self.env()) {
                Ok(outgoing) => {
                    self.sender.on_sent(self.now, &outgoing);
                    packets.push(outgoing);
                }
                Err(Hold { limit }) => {
                    self.hold = Some(limit);
                    return packets;
                }
            }
        }
    }

    /// So many bytes in all are acknowledged: what leaves then.
    fn ack(&mut self, bytes: u64) -> String {
        self.una = 1 + bytes;
        let env = self.memory_env();
        self.sender.on_ack(self.una, &env);
        self.send()
    }

    /// Whether the writer is woken now.
    fn is_woken(&mut self) -> bool {
        let env = self.memory_env();
        self.sender.check_space(&env)
    }

    fn change(&mut self, change: impl FnOnce(&mut SocketSettings)) -> String {
        change(&mut self.settings);
        self.sender.configure(&self.settings);
        self.send()
    }

    fn queued(&self) -> u32 {
        self.sender.memory().wmem_queued_bytes
    }
}

/// The byte at `offset` of every stream here.
fn byte_at(offset: u64) -> u8 {
    (offset ^ (offset >> 8)) as u8
}

fn more() -> WriteFlags {
    WriteFlags {
        more: true,
        ..WriteFlags::default()
    }
}

const WAIT: Duration = Duration::from_millis(40);
