//! The emulator: carries packets between two TUN devices through two links, in real time.
//!
//! One thread reads both devices, asks the links when each packet is due, sleeps until the first is
//! and writes it to the other device. It sleeps in the kernel, never spins, and holds real-time
//! priority where that is allowed. Times are logical: a late delivery delays no later one. How late
//! deliveries were is counted and reported with every result.
//!
//! Nothing stops it but its end: what a device refuses is counted as dropped.

use core::time::Duration;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use base::{GsoPacket, Instant, QueueLimit, Rate, WirePacket};
use lab::LinkOutcome;
use link::{Link, LinkSpec};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::clock::Clock;
use crate::cpu_latency::CpuLatencyLimit;
use crate::error::{Error, Result};
use crate::lateness::Lateness;
use crate::tun::{READ_BYTES, Tun};

/// Packets that are read in a row before deliveries that have become due are made.
const READ_BATCH: usize = 16;

/// Real-time priority (1 to 99). Low, so that whatever else is real-time on this machine goes
/// first; any value goes before all ordinary programs.
const PRIORITY: libc::c_int = 10;

/// A processor that has slept for a while takes some tens of microseconds to wake: the thread is
/// woken this long before a delivery and sleeps the rest lightly. Halves the median lateness of
/// paths with little traffic (measured in a virtual machine: 30 to 13 us).
const LIGHT_SLEEP: Duration = Duration::from_micros(40);

/// Sleeps shorter than this are light ones anyway.
const DEEP_SLEEP: Duration = Duration::from_micros(200);

/// A thread that was kept from working for longer than this, or than a quarter of the queue takes,
/// lets the path stand still for the rest of that time; see [`Core::stand_still`].
const STALL_MIN: Duration = Duration::from_micros(400);

/// At what rate a host hands packets over. A TUN device takes them at the speed of memory; a real
/// interface has a line rate. Without it, a sender that was kept from running for a millisecond
/// would put its whole window into the queue of the path in an instant and overflow it. On links
/// below this rate it changes no time of delivery, only how many packets are waiting.
const HOST_RATE: Rate = Rate::from_bits_per_second(20_000_000_000);

/// Packets up to this length are copied into buffers of their own size, so that a queue of
/// acknowledgements does not hold 64 KiB for each.
const SMALL_BYTES: usize = 2048;

/// Buffers of each size that are kept for reuse.
const POOL_BUFFERS: usize = 4096;

/// Configuration of an emulator.
#[derive(Debug)]
pub(crate) struct EmulatorSpec {
    /// The devices of host A and host B.
    pub(crate) tuns: [Tun; 2],
    /// The links from A to B and from B to A.
    pub(crate) links: [LinkSpec; 2],
    /// Seed of everything random on the links.
    pub(crate) seed: u64,
}

/// A running emulator. Dropping it ends its thread and its devices.
#[derive(Debug)]
pub(crate) struct Emulator {
    core: Arc<Mutex<Core>>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    realtime: bool,
    _cpu_latency: CpuLatencyLimit,
}

impl Emulator {
    /// Starts the thread.
    ///
    /// # Errors
    /// Where a link makes no sense, or the thread cannot be started.
    pub(crate) fn start(spec: EmulatorSpec) -> Result<Self> {
        let cpu_latency = CpuLatencyLimit::hold(&spec.links);
        let core = Arc::new(Mutex::new(Core::new(spec)?));
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(Error::errno("make an event descriptor"))?;
        let stop = Arc::new(stop);
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let for_thread = (Arc::clone(&core), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("lab-emulator".into())
            .spawn(move || {
                let realtime = become_realtime();
                // The receiver waits for exactly this message.
                let _ = sender.send(realtime);
                run(&for_thread.0, &for_thread.1);
            })
            .map_err(Error::os("start the emulator's thread"))?;
        Ok(Self {
            core,
            stop,
            thread: Some(thread),
            realtime: receiver.recv().unwrap_or(false),
            _cpu_latency: cpu_latency,
        })
    }

    /// Whether it goes before ordinary programs.
    pub(crate) const fn is_realtime(&self) -> bool {
        self.realtime
    }

    /// Whether it no longer carries packets, since a device was removed.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Counters of the links from A to B and from B to A so far.
    pub(crate) fn outcomes(&self) -> [LinkOutcome; 2] {
        let mut core = lock(&self.core);
        let now = core.now();
        core.directions
            .each_mut()
            .map(|direction| direction.outcome(now))
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // Writing 1 to an event counter that is 0 cannot fail.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Everything that the thread works on. It holds the lock while it works and not while it sleeps.
#[derive(Debug)]
struct Core {
    tuns: [Arc<Tun>; 2],
    directions: [Direction; 2],
    buffers: Buffers,
    /// For how long the path has stood still so far; the links' time is behind the clock by it.
    stood_still: Duration,
}

/// One direction: out of one device, through the link, into the other.
#[derive(Debug)]
struct Direction {
    link: Link<GsoPacket>,
    lateness: Lateness,
    /// Lateness from which the path is taken to have stood still.
    stall: Duration,
    /// The latest stall: the delay that it added to packets in flight, and the latest time at which
    /// one of them is due.
    delayed: (Duration, Instant),
    /// When the sending host's interface is free for the next packet.
    interface_free: Instant,
    /// Wire packets that the receiving device refused.
    refused: u64,
    /// Packets that were read and are none that we understand.
    unreadable: u64,
}

/// Action after a step.
enum Next {
    /// There may be more to read at once.
    Again,
    /// Nothing to do before this time, unless a packet comes in.
    Sleep(Option<Instant>),
}

impl Core {
    fn new(spec: EmulatorSpec) -> Result<Self> {
        let mut seed = spec.seed;
        let mut directions = Vec::with_capacity(2);
        for link in spec.links {
            directions.push(Direction::new(link, seed)?);
            // The two directions lose different packets.
            seed = base::Rng::new(seed, "reverse link").next_u64();
        }
        Ok(Self {
            tuns: spec.tuns.map(Arc::new),
            directions: directions
                .try_into()
                .expect("two links make two directions"),
            buffers: Buffers::default(),
            stood_still: Duration::ZERO,
        })
    }

    /// The time by which the links live.
    fn now(&self) -> Instant {
        Clock.now() - self.stood_still
    }

    /// When the next packet is due in either direction, in the links' time.
    fn due(&self) -> Option<Instant> {
        let [forward, reverse] = self
            .directions
            .each_ref()
            .map(|one| one.link.poll_timeout());
        match (forward, reverse) {
            (Some(forward), Some(reverse)) => Some(forward.min(reverse)),
            (forward, reverse) => forward.or(reverse),
        }
    }

    /// Delays everything in flight by the time for which the thread did not run, with its spacing.
    /// Delivering all that became due meanwhile would make one burst of it; its ACKs would come in
    /// one burst, and the data that they release would overflow a queue that the real path never
    /// fills. The time counts as lateness.
    fn stand_still(&mut self) {
        let now = self.now();
        let late = |direction: &Direction| {
            let due = direction.link.poll_timeout().unwrap_or(now);
            now.since(due).saturating_sub(direction.stall)
        };
        let [forward, reverse] = self.directions.each_ref().map(late);
        let stalled = forward.max(reverse);
        if stalled.is_zero() {
            return;
        }
        self.stood_still += stalled;
        let now = self.now();
        for direction in &mut self.directions {
            direction.delay_by(stalled, now);
        }
    }

    fn step(&mut self) -> Next {
        self.stand_still();
        let mut more = false;
        for from in [0, 1] {
            more |= self.take_in(from);
        }
        for to in [1, 0] {
            self.deliver(to);
        }
        if more {
            return Next::Again;
        }
        Next::Sleep(self.due().map(|due| due + self.stood_still))
    }

    /// Reads from device `from` into its link. True where more may wait.
    fn take_in(&mut self, from: usize) -> bool {
        for _ in 0..READ_BATCH {
            let mut buffer = self.buffers.take();
            // A device that is switched off fails to be read; it may be switched on again.
            let Ok(Some(length)) = self.tuns[from].read(&mut buffer) else {
                self.buffers.give(buffer);
                return false;
            };
            let buffer = self.buffers.fit(buffer, length);
            self.handle(from, buffer, length);
        }
        true
    }

    fn handle(&mut self, from: usize, buffer: Vec<u8>, length: usize) {
        let now = self.now();
        let direction = &mut self.directions[from];
        let packet = match GsoPacket::from_tun(buffer, length) {
            Ok(packet) => packet,
            Err(buffer) => {
                direction.unreadable += 1;
                self.buffers.give(buffer);
                return;
            }
        };
        let left_host = direction.interface_free.max(now);
        direction.interface_free = left_host + HOST_RATE.serialize(packet.wire_bytes(), 0).0;
        let handled = direction.link.handle_packet(left_host, packet);
        if let Some(too_big) = handled.too_big {
            let mtu = direction.link.spec().mtu.map_or(0, |mtu| mtu.0);
            let mtu = u32::try_from(mtu).unwrap_or(u32::MAX);
            if let Some(reply) = too_big.too_big_reply(mtu, None) {
                // The router's answer; where the sender's device refuses it, it is lost.
                let _ = self.tuns[from].write(reply.as_tun_bytes());
            }
            self.buffers.give(too_big.into_buffer());
        }
    }

    /// Writes to device `to` what has arrived there.
    fn deliver(&mut self, to: usize) {
        let stood_still = self.stood_still;
        let direction = &mut self.directions[1 - to];
        while direction.link.poll_timeout().is_some() {
            let now = Clock.now() - stood_still;
            let Some((due, packet)) = direction.link.poll_deliver_at(now) else {
                return;
            };
            if self.tuns[to].write(packet.as_tun_bytes()).is_err() {
                direction.refused += u64::from(packet.segments());
            }
            direction.record(due, now);
            self.buffers.give(packet.into_buffer());
        }
    }
}

/// How long a link may be kept waiting before the burst that follows is a danger for its queue.
/// Without a rate nothing queues, and a burst does no harm.
fn harmful_stall(link: &LinkSpec) -> Duration {
    let traced = link.rate_trace.iter().map(|(_, rate)| *rate);
    let Some(rate) = link.rate.into_iter().chain(traced).max() else {
        return Duration::MAX;
    };
    let queue_bytes = match link.queue {
        QueueLimit::Packets(packets) => packets.saturating_mul(1500),
        QueueLimit::Bytes(bytes) => bytes.0,
    };
    STALL_MIN.max(rate.serialize(queue_bytes / 4, 0).0)
}

impl Direction {
    fn new(spec: LinkSpec, seed: u64) -> Result<Self> {
        let stall = harmful_stall(&spec);
        let link = Link::new(spec, seed).map_err(|error| Error::Unsupported {
            what: "this link".into(),
            hint: error.to_string(),
        })?;
        Ok(Self {
            link,
            lateness: Lateness::new(),
            stall,
            delayed: (Duration::ZERO, Instant::ZERO),
            interface_free: Instant::ZERO,
            refused: 0,
            unreadable: 0,
        })
    }

    /// Notes that all packets in flight at `now` are late by `stalled`.
    fn delay_by(&mut self, stalled: Duration, now: Instant) {
        self.link.advance(now);
        let spec = self.link.spec();
        let queued = self.link.stats().queue_bytes;
        let waits = spec
            .rate
            .map_or(Duration::ZERO, |rate| rate.serialize(queued, 0).0);
        let (before, until) = self.delayed;
        let before = if until > now { before } else { Duration::ZERO };
        let until = until.max(now + spec.delay + spec.jitter + waits);
        self.delayed = (before + stalled, until);
    }

    /// Counts the lateness of a packet that was due at `due` and was delivered at `now`.
    fn record(&mut self, due: Instant, now: Instant) {
        let (stalled, until) = self.delayed;
        let stalled = if due <= until {
            stalled
        } else {
            Duration::ZERO
        };
        self.lateness.record(now.since(due) + stalled);
    }

    fn outcome(&mut self, now: Instant) -> LinkOutcome {
        self.link.advance(now);
        let stats = self.link.stats();
        LinkOutcome {
            sent: stats.sent + self.unreadable,
            delivered: stats.delivered - self.refused,
            dropped_segments: stats.dropped() + self.refused + self.unreadable,
            queue_dropped_segments: stats.queue_dropped,
            queue_bytes_max: stats.queue_bytes_max,
            lateness_us: self.lateness.micros(),
        }
    }
}

/// Buffers for packets, so that carrying one allocates nothing.
#[derive(Debug, Default)]
struct Buffers {
    large: Vec<Vec<u8>>,
    small: Vec<Vec<u8>>,
}

impl Buffers {
    /// A buffer that takes whatever a device gives.
    fn take(&mut self) -> Vec<u8> {
        self.large.pop().unwrap_or_else(|| vec![0; READ_BYTES])
    }

    /// Moves a small packet to a small buffer.
    fn fit(&mut self, packet: Vec<u8>, length: usize) -> Vec<u8> {
        if length > SMALL_BYTES {
            return packet;
        }
        let mut small = self.small.pop().unwrap_or_else(|| vec![0; SMALL_BYTES]);
        small[..length].copy_from_slice(&packet[..length]);
        self.give(packet);
        small
    }

    /// Takes a buffer back. Those of other sizes come from packets that a link has cut.
    fn give(&mut self, buffer: Vec<u8>) {
        let pool = match buffer.len() {
            READ_BYTES => &mut self.large,
            SMALL_BYTES => &mut self.small,
            _ => return,
        };
        if pool.len() < POOL_BUFFERS {
            pool.push(buffer);
        }
    }
}

/// The thread: works, sleeps until the next delivery or packet, and ends when `stop` is readable or
/// a device is gone.
fn run(core: &Mutex<Core>, stop: &OwnedFd) {
    let tuns = lock(core).tuns.clone();
    loop {
        let timeout = match lock(core).step() {
            // No sleep, but a look at `stop`: a path that is never idle must end too.
            Next::Again => Some(Timespec::default()),
            Next::Sleep(due) => due.map(sleep_until),
        };
        let mut fds = [
            PollFd::new(&tuns[0], PollFlags::IN),
            PollFd::new(&tuns[1], PollFlags::IN),
            PollFd::new(stop, PollFlags::IN),
        ];
        // An interrupted sleep is a short sleep.
        let _ = poll(&mut fds, timeout.as_ref());
        // A removed device would wake us repeatedly.
        let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        let is_over = fds[..2].iter().any(|fd| fd.revents().intersects(gone));
        if is_over || fds[2].revents().contains(PollFlags::IN) {
            return;
        }
    }
}

/// How long to sleep before `due`; zero where it has come.
fn sleep_until(due: Instant) -> Timespec {
    let mut wait = due.since(Clock.now());
    if wait > DEEP_SLEEP {
        wait -= LIGHT_SLEEP;
    }
    Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: wait.subsec_nanos().into(),
    }
}

/// Asks for real-time priority for the calling thread, and for timers as exact as can be where
/// that is refused.
pub(crate) fn become_realtime() -> bool {
    // `struct sched_param` of include/uapi/linux/sched/types.h. The kernel is asked by number: the
    // function of musl refuses always, since POSIX means a process by it and Linux a thread.
    let parameters: libc::c_int = PRIORITY;
    // SAFETY: the parameters outlive the call; 0 means the calling thread.
    let refused = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
            &raw const parameters,
        )
    } != 0;
    if refused {
        // SAFETY: this request takes plain numbers. One nanosecond: the default of 50 us would be
        // added to every sleep.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
    }
    !refused
}

fn lock(core: &Mutex<Core>) -> MutexGuard<'_, Core> {
    core.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(rate: &str, queue: &str) -> LinkSpec {
        LinkSpec {
            rate: Some(rate.parse().expect("a rate")),
            queue: queue.parse().expect("a queue"),
            delay: Duration::from_millis(1),
            ..LinkSpec::ideal()
        }
    }

    #[test]
    fn a_stall_does_harm_where_the_queue_is_short_beside_it() {
        fn check(spec: &LinkSpec, expected: Duration) {
            assert_eq!(harmful_stall(spec), expected, "{spec:?}");
        }
        check(&LinkSpec::ideal(), Duration::MAX);
        check(&link("12mbit", "100p"), Duration::from_millis(25));
        check(&link("10gbit", "1000p"), STALL_MIN);
        check(&link("8mbit", "40000B"), Duration::from_millis(10));
        let mut traced = link("1mbit", "100p");
        let fastest = "12mbit".parse().expect("a rate");
        traced.rate_trace = vec![(Duration::from_secs(1), fastest)];
        check(&traced, Duration::from_millis(25));
    }

    #[test]
    fn what_was_under_way_during_a_stall_counts_as_late_by_it() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut direction = Direction::new(link("12mbit", "100p"), 1).expect("a valid link");
        let late = |direction: &Direction| direction.lateness.micros().expect("counted").max;
        direction.delay_by(Duration::from_millis(30), at(100));
        // Sent after the stall: due later than everything that was in flight at its end.
        direction.record(at(102), at(102));
        assert_eq!(late(&direction), 0);
        direction.record(at(101), at(101));
        assert_eq!(late(&direction), 30_000);
        // A second stall while the same packets are in flight adds to the first.
        direction.delay_by(Duration::from_millis(30), at(100));
        direction.record(at(100), at(101));
        assert_eq!(late(&direction), 61_000);
    }

    #[test]
    fn buffers_are_used_again_by_size() {
        let mut buffers = Buffers::default();
        let large = buffers.take();
        assert_eq!(large.len(), READ_BYTES);
        let small = buffers.fit(large, SMALL_BYTES);
        assert_eq!((small.len(), buffers.large.len()), (SMALL_BYTES, 1));
        buffers.give(small);
        buffers.give(vec![0; 77]);
        assert_eq!((buffers.small.len(), buffers.large.len()), (1, 1));
        let large = buffers.take();
        assert_eq!(buffers.fit(large, SMALL_BYTES + 1).len(), READ_BYTES);
    }
}
