//! The receiving half: the vectors of the Linux rules, the rules of other stacks, and a naive model
//! that any input is compared with.

mod acks;
mod autotune;
mod order;
mod other_stacks;
mod properties;
mod window;

use alloc::vec;
use alloc::vec::Vec;

use base::settings::*;
use bytes::Bytes;

use super::*;
use crate::packet::Payload;
use crate::profile;

const HZ: u32 = 250;
const JIFFY: Duration = Duration::from_millis(4);

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(micros: u64) -> Instant {
    // Not on a tick, as the clocks of the tests have their own phase.
    Instant::from_nanos(1_000_000_000 + micros * 1000)
}

const ENV: Env = Env {
    is_tight: false,
    srtt_micros: 40_200,
    rto: Duration::from_millis(244),
};

/// The profile of the reference machine.
fn linux() -> SocketSettings {
    profile::linux_6_18().settings
}

/// Payload counts, the window is the free space, ACKs by number of packets.
fn bsd(buffer: u32, every: u32, timer: Duration, timer_tick: Duration) -> SocketSettings {
    let mut settings = linux();
    settings.recv.accounting = Accounting::Payload;
    settings.recv.buffer.initial = buffer;
    settings.recv.buffer.max = 262_144;
    settings.recv.buffer.request_max = 262_144;
    settings.recv.buffer.rule = SizeRule::Fixed;
    settings.acks = Acks {
        every: AckEvery::Packets(every),
        delay: timer,
        follows_pace: false,
        delay_min: timer,
        delay_max: timer,
        timer_tick,
        quick_max: 0,
        pingpong_threshold: 0,
        on_read: false,
        always_quick: false,
        compress: None,
        window_update_segments: Some(2),
        challenge_per_second: 10,
    };
    settings
}

fn netburner(receive: u32, out_of_order: u32) -> SocketSettings {
    let mut settings = bsd(receive * 1460, 2, millis(200), Duration::ZERO);
    settings.recv.accounting = Accounting::Buffers {
        payload_bytes: 1460,
    };
    settings.recv.out_of_order_budget = Some(out_of_order * 1460);
    settings.options.window_scaling = false;
    settings
}

fn clock() -> TickClock {
    TickClock::new(HZ, 63, 1)
}

/// A receiver, with what a connection does around it.
struct Connection {
    receiver: Receiver,
    end: u64,
}

fn open(settings: &SocketSettings) -> Connection {
    open_with(settings, 1448)
}

fn open_with(settings: &SocketSettings, mss: u32) -> Connection {
    let mut receiver = Receiver::new(&Arc::new(settings.clone()), clock());
    receiver.first_window(mss);
    receiver.on_established(
        at(0),
        &Agreed {
            sack: settings.options.sack,
            timestamps: settings.options.timestamps,
            window_scaling: settings.options.window_scaling,
            advmss: mss,
            send_mss: mss,
            headers: 52,
        },
    );
    Connection { receiver, end: 1 }
}

/// The stream whose byte at offset n is n in base 251.
fn stream(start: u64, length: u32) -> Bytes {
    (start..start + u64::from(length))
        .map(|offset| (offset % 251) as u8)
        .collect::<Vec<_>>()
        .into()
}

fn payload(start: u64, length: u32) -> Payload {
    Payload::from(stream(start, length))
}

fn segment(payload: &mut Payload, start: u64, push: bool) -> DataInput<'_> {
    let length = payload.len();
    DataInput {
        start,
        payload,
        segment_bytes: length,
        option_bytes: 12,
        urgent: false,
        push,
        fin: false,
        is_predicted: false,
        wants_quick_acks: false,
        pushes_acks: false,
        echo: None,
    }
}

impl Connection {
    fn data_at(&mut self, micros: u64, start: u64, length: u32, push: bool) -> DataOutcome {
        let mut payload = payload(start, length);
        let segment = segment(&mut payload, start, push);
        self.receiver.handle_data(at(micros), segment, ENV)
    }

    /// The next `length` bytes arrive; what is wanted then.
    fn next_at(&mut self, micros: u64, length: u32, push: bool) -> AckWanted {
        let start = self.end;
        self.end += u64::from(length);
        self.data_at(micros, start, length, push);
        self.receiver.ack_wanted()
    }

    fn fin_at(&mut self, micros: u64, start: u64, length: u32) -> DataOutcome {
        let mut payload = payload(start, length);
        let mut segment = segment(&mut payload, start, true);
        segment.fin = true;
        self.receiver.handle_data(at(micros), segment, ENV)
    }

    fn send_at(&mut self, micros: u64, has_data: bool) -> u32 {
        let window = self.receiver.offer_window(at(micros));
        self.receiver.on_segment_sent(at(micros), has_data);
        window
    }

    fn read_at(&mut self, micros: u64, max: usize) -> Vec<u8> {
        self.receiver.read(at(micros), max, false).to_vec()
    }

    /// Lets the timers run until `micros`; when ACKs left.
    fn run_until(&mut self, micros: u64) -> Vec<Instant> {
        let mut left = Vec::new();
        loop {
            match self.receiver.ack_wanted() {
                AckWanted::At(due) if due <= at(micros) => {
                    self.receiver.on_ack_timeout(due, ENV);
                    assert_eq!(self.receiver.ack_wanted(), AckWanted::Now);
                    self.receiver.offer_window(due);
                    self.receiver.on_segment_sent(due, false);
                    left.push(due);
                }
                AckWanted::At(_) | AckWanted::No | AckWanted::Now => return left,
            }
        }
    }

    fn blocks(&self) -> Vec<(u64, u64)> {
        self.receiver.sack_blocks(4).to_vec()
    }
}
