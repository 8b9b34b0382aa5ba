//! Whole writes through a [`Sender`]: the vectors of Linux, and the rules of the other stacks.

mod memory;
mod properties;
mod small;

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::time::Duration;

use base::settings::*;
use base::{Instant, Limit, Rate};
use bytes::Bytes;

use super::segment::Hold;
use super::write::{Pause, Source, WriteOutcome};
use super::*;
use crate::host::WriteFlags;
use crate::profile;

const MSS: u32 = 1448;

/// Linux 6.18 as the vectors assume it: on a device that charges 256/170 of the payload.
fn linux() -> SocketSettings {
    let mut settings = profile::linux_6_18().settings;
    settings.send.accounting = Accounting::Truesize { ratio: Some(170) };
    settings
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
    progress: Progress,
    written: u64,
    hold: Option<Limit>,
    /// What left in the middle of a write, until it is shown.
    early: Vec<Outgoing>,
    /// End and time of each packet in flight.
    in_flight: VecDeque<(u64, Instant)>,
}

impl Bench {
    /// An idle connection with cwnd 10, 40 ms from its peer.
    fn new(settings: SocketSettings) -> Self {
        let mut bench = Self {
            sender: Sender::new(&Arc::new(settings.clone())),
            settings,
            now: Instant::from_nanos(1_000_000_000),
            cwnd: 10,
            window: 65_160,
            window_max: 65_160,
            mss: MSS,
            burst: 2,
            local_queue: 0,
            progress: Progress::default(),
            written: 0,
            hold: None,
            early: Vec::new(),
            in_flight: VecDeque::new(),
        };
        bench.sender.on_established(&bench.memory_env());
        bench
    }

    fn sizes(&self) -> SegmentSizes {
        SegmentSizes {
            mss: self.mss,
            gso_max: self.settings.path.gso_max,
            window_max: self.window_max,
            option_bytes: 12,
        }
    }

    fn packets_out(&self) -> u32 {
        self.sender.ledger.segments_out()
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
            is_tight: false,
        }
    }

    fn env(&self) -> SendEnv {
        SendEnv {
            now: self.now,
            progress: self.progress,
            window_end: self.progress.una() + u64::from(self.window),
            sizes: self.sizes(),
            allowance: self.cwnd.saturating_sub(self.packets_out()),
            burst_segments: self.burst,
            cwnd: self.cwnd,
            in_recovery: false,
            local_queue_bytes: self.local_queue,
            pacing_rate: Rate::from_bits_per_second(5_727_808),
            is_paced: false,
            srtt: Some(Duration::from_millis(40)),
            sent_between: self
                .in_flight
                .front()
                .zip(self.in_flight.back())
                .map(|(first, last)| (first.1, last.1)),
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
            let outcome =
                self.sender
                    .write(&mut Source::new(&[rest]), flags, &self.progress, &sizes);
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
            self.on_sent(&outgoing);
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
            let pointer = self.sender.urgent_pointer(outgoing.start, outgoing.end);
            let urgent = if pointer.is_some() { "U" } else { "" };
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
                    self.on_sent(&outgoing);
                    packets.push(outgoing);
                }
                Err(Hold { limit }) => {
                    self.hold = Some(limit);
                    return packets;
                }
            }
        }
    }

    fn on_sent(&mut self, outgoing: &Outgoing) {
        assert_eq!(outgoing.start, self.progress.data_sent(), "in order");
        self.progress.on_sent(outgoing.sequence_end(), outgoing.fin);
        self.in_flight.push_back((outgoing.end, self.now));
        self.sender.on_sent(outgoing);
    }

    /// This many bytes in all are acknowledged: what leaves then.
    fn ack(&mut self, bytes: u64) -> String {
        self.on_ack(1 + bytes);
        self.send()
    }

    /// Everything in front of `una` is acknowledged; returns the sends that became complete.
    fn on_ack(&mut self, una: u64) -> u32 {
        let before = self.progress.data_acked();
        self.progress.on_acked(una);
        self.in_flight.retain(|(end, _)| *end > una);
        self.progress.set_records(self.in_flight.len() as u32);
        let (bytes, env) = (self.progress.data_acked() - before, self.memory_env());
        self.sender.on_ack((bytes, 0), &self.progress, &env)
    }

    /// Whether the writer is woken now.
    fn is_woken(&mut self) -> bool {
        let env = self.memory_env();
        self.sender.check_space(&self.progress, &env)
    }

    fn change(&mut self, change: impl FnOnce(&mut SocketSettings)) -> String {
        change(&mut self.settings);
        self.sender.configure(&Arc::new(self.settings.clone()));
        self.send()
    }

    fn memory(&self) -> SendMemoryState {
        self.sender.memory(&self.progress)
    }

    fn unsent_bytes(&self) -> u64 {
        self.sender.unsent_bytes(&self.progress)
    }

    fn queued(&self) -> u32 {
        self.memory().wmem_queued_bytes
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
