//! The loop that runs a host of ours on a TUN device: one thread that reads, serves timers and the
//! program, writes, and sleeps until there is more to do.
//!
//! Nothing starves: a turn reads a few packets, makes a few calls and writes a few packets, so that
//! neither a flood of packets nor a program that never pauses blocks the others.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{Instant, WirePacket as _};
use lab::app::App;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::thread::{current_timer_slack, set_current_timer_slack};
use stack::{Departures, Host, Packet};

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::tun::{PortCounters, Received, TunPort};

/// Packets that are read in a row before the program and the timers get their turn: twice as many
/// as a turn sends. Each packet that is sent may bring an acknowledgment, and with fewer the
/// device's ring would fill up with those of a thousand connections.
const READ_BATCH: u32 = 2 * SEND_BATCH;

/// Bytes after which they get it at the latest, two GSO packets. What was just read is still in the
/// cache then, and its memory is free for the next packets; with less, a receiver acknowledges more
/// often than it must, and an acknowledgment costs as much as half a GSO packet. In nine rounds,
/// beside other work, it received 57 Gbit/s per core on average with this, and 51 with twice as
/// much; with half of it 52, with eight times 41.
const READ_BATCH_BYTES: u64 = 128 << 10;

/// System calls that the program makes in a row before packets are read again.
const CALL_BATCH: u32 = 64;

/// Packets that one turn sends: about a millisecond of the processor's time.
const SEND_BATCH: u32 = 256;

/// Packets that are sent between two looks at the clock.
const SENDS_PER_CLOCK: u32 = 8;

/// Time between two looks at the device's MTU.
const MTU_INTERVAL: Duration = Duration::from_secs(1);

/// One of this many turns is timed.
const TURNS_PER_SAMPLE: u64 = 64;

/// As many packets in a row that came alone make the next one expected to be alone too.
const LONE_PACKETS: u32 = 4;

/// A shorter sleep was none: something was ready already.
const NO_SLEEP: Duration = Duration::from_micros(2);

/// Whether packets come one by one, as those of a peer do that waits for each answer. Asking for
/// another one behind each costs a system call in vain.
#[derive(Clone, Copy, Debug, Default)]
struct LonePackets {
    in_a_row: u32,
    /// The first packet after a sleep was just served.
    is_first: bool,
}

impl LonePackets {
    /// A turn ended that asked for `packets_max` packets; whether it is worth asking for more.
    const fn on_turn(&mut self, packets_max: u32, received: bool) -> bool {
        if self.is_first {
            self.in_a_row = if received { 0 } else { self.in_a_row + 1 };
        }
        self.is_first = packets_max == 1 && received;
        received && !(self.is_first && self.in_a_row >= LONE_PACKETS)
    }

    /// A sleep ended: where nothing is asked for any more, only one that was none tells that
    /// something waited.
    fn on_woken(&mut self, slept: Duration) {
        self.is_first = false;
        if slept < NO_SLEEP {
            self.in_a_row = 0;
        }
    }
}

/// Counters of a driver, and the cost of its own work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverStats {
    /// Counters of the device.
    pub port: PortCounters,
    /// Turns of the loop.
    pub turns: u64,
    /// Times that it slept.
    pub sleeps: u64,
    /// Time that some of its turns took, one of 64.
    pub timed: Duration,
    /// Of that, time spent in reads and writes of the device; the rest is the host's, the
    /// program's, and the loop's own.
    pub timed_device: Duration,
}

/// Ends a driver from another thread.
#[derive(Clone, Debug)]
pub struct DriverStopper(Arc<Stop>);

#[derive(Debug)]
struct Stop {
    /// Flag for a driver that polls without sleeping.
    is_told: AtomicBool,
    /// Wakes a driver that sleeps.
    wake: OwnedFd,
}

impl DriverStopper {
    /// The driver returns after its turn.
    pub fn stop(&self) {
        self.0.is_told.store(true, Ordering::Release);
        // Adding to an event counter only fails where it is nearly full.
        let _ = rustix::io::write(&self.0.wake, &1_u64.to_ne_bytes());
    }
}

/// A host, its program and its device.
#[derive(Debug)]
pub struct Driver<A> {
    host: Host,
    app: A,
    port: TunPort,
    departures: Departures,
    busy_poll: Duration,
    /// The device's MTU as it was last seen, and when it is looked at again.
    mtu: Option<u16>,
    mtu_due: Instant,
    stop: Arc<Stop>,
    is_timed: bool,
    lone: LonePackets,
    /// Packets that this turn may still send.
    sends_left: u32,
    stats: DriverStats,
}

impl<A: App> Driver<A> {
    /// Not running yet. The MTU of the host counts until that of the device changes.
    ///
    /// # Errors
    /// Where no event descriptor can be had.
    pub fn new(host: Host, app: A, port: TunPort) -> Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(Error::errno("make an event descriptor"))?;
        let stop = Stop {
            is_told: AtomicBool::new(false),
            wake,
        };
        Ok(Self {
            host,
            app,
            departures: Departures::default(),
            busy_poll: Duration::ZERO,
            mtu: port.tun().mtu().ok(),
            mtu_due: Instant::ZERO,
            port,
            stop: Arc::new(stop),
            is_timed: false,
            lone: LonePackets::default(),
            sends_left: 0,
            stats: DriverStats::default(),
        })
    }

    /// Looks for packets for this long before it sleeps. It takes a processor and saves the time of
    /// waking up; zero (the default) sleeps at once.
    pub const fn set_busy_poll(&mut self, time: Duration) {
        self.busy_poll = time;
    }

    /// Handle that stops it.
    #[must_use]
    pub fn stopper(&self) -> DriverStopper {
        DriverStopper(Arc::clone(&self.stop))
    }

    /// The program.
    #[must_use]
    pub const fn app(&self) -> &A {
        &self.app
    }

    /// The program, to be asked what it must give away; it makes no calls here.
    pub(crate) const fn app_mut(&mut self) -> &mut A {
        &mut self.app
    }

    /// The host.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// The device.
    #[must_use]
    pub const fn port(&self) -> &TunPort {
        &self.port
    }

    /// Counters so far.
    #[must_use]
    pub const fn stats(&self) -> DriverStats {
        DriverStats {
            port: self.port.counters(),
            ..self.stats
        }
    }

    /// Runs until it is stopped or its program is done. Timers of the calling thread are exact
    /// meanwhile, not gathered as the kernel does by default (`PR_SET_TIMERSLACK`).
    ///
    /// # Errors
    /// Where the device was deleted.
    pub fn run(&mut self) -> Result<()> {
        let slack = current_timer_slack().ok().and_then(NonZeroU64::new);
        // Where it cannot be set, timers are some 50 us late.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let outcome = self.turn_until_stopped();
        let _ = set_current_timer_slack(slack);
        outcome
    }

    /// Breaks all connections and tells their peers (RST), who would otherwise wait for a host that
    /// is gone.
    ///
    /// # Errors
    /// Where the device was deleted.
    pub fn abort_all(&mut self) -> Result<()> {
        let mut now = Clock.now();
        let sockets: Vec<_> = self.host.sockets().collect();
        for id in sockets {
            self.host.abort(now, id);
            self.send_all(&mut now)?;
        }
        Ok(())
    }

    /// Sends all that may leave now, however much it is.
    fn send_all(&mut self, now: &mut Instant) -> Result<()> {
        loop {
            self.sends_left = SEND_BATCH;
            if self.flush(now)? {
                return Ok(());
            }
        }
    }

    fn turn_until_stopped(&mut self) -> Result<()> {
        let mut now = Clock.now();
        self.app.start(now, &mut self.host);
        let mut quiet_since = now;
        // The first packet after a sleep is served at once; whether more wait is asked after.
        let mut packets_max = READ_BATCH;
        while !self.app.is_done() && !self.stop.is_told.load(Ordering::Acquire) {
            let begun = now;
            self.begin_turn(now);
            let received = self.receive(now, packets_max)?;
            let called = self.work(&mut now)?;
            let more_wait = self.lone.on_turn(packets_max, received);
            packets_max = READ_BATCH;
            now = Clock.now();
            self.end_turn(begun, now);
            if received || called {
                quiet_since = now;
            }
            // A program that is done with this turn is not slept for.
            let goes_on = called || more_wait || self.app.is_done();
            if goes_on || now.since(quiet_since) < self.busy_poll {
                continue;
            }
            let asleep_since = now;
            packets_max = u32::from(self.sleep()?);
            now = Clock.now();
            quiet_since = now;
            self.lone.on_woken(now.since(asleep_since));
        }
        if self.app.is_done() {
            // Its last words may exceed what one turn sends.
            self.send_all(&mut now)?;
        }
        Ok(())
    }

    fn begin_turn(&mut self, now: Instant) {
        self.stats.turns += 1;
        self.sends_left = SEND_BATCH;
        self.is_timed = self.stats.turns.is_multiple_of(TURNS_PER_SAMPLE);
        if now >= self.mtu_due {
            self.mtu_due = now + MTU_INTERVAL;
            self.follow_mtu(now);
        }
    }

    fn end_turn(&mut self, begun: Instant, now: Instant) {
        if self.is_timed {
            self.stats.timed += now.since(begun);
        }
    }

    /// The MTU of the device may have been changed.
    fn follow_mtu(&mut self, now: Instant) {
        let mtu = self.port.tun().mtu().ok();
        if let Some(mtu) = mtu.filter(|_| mtu != self.mtu) {
            self.mtu = Some(mtu);
            self.host.set_mtu(now, mtu);
        }
    }

    /// Reads what waits, up to a batch; whether there was anything.
    fn receive(&mut self, now: Instant, packets_max: u32) -> Result<bool> {
        let mut bytes = 0;
        for count in 0..packets_max {
            match self.read()? {
                Received::Packet(packet) => {
                    bytes += packet.wire_bytes();
                    self.host.handle_packet(now, packet);
                }
                Received::Ignored => {}
                Received::Nothing => return Ok(count > 0),
            }
            if bytes >= READ_BATCH_BYTES {
                break;
            }
        }
        Ok(packets_max > 0)
    }

    /// Serves timers and the program, and sends; whether there may be more to do.
    fn work(&mut self, now: &mut Instant) -> Result<bool> {
        if self.host.poll_timeout().is_some_and(|due| due <= *now) {
            self.host.handle_timeout(*now);
        }
        self.tell(*now);
        for _ in 0..CALL_BATCH {
            let called = self.app.call(*now, &mut self.host);
            // What one call made the host send leaves before the next one is made.
            if !self.flush(now)? {
                return Ok(true);
            }
            let told = self.tell(*now);
            if !called && !told {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Tells the program what happened; whether there was anything.
    fn tell(&mut self, now: Instant) -> bool {
        let mut told = false;
        while let Some((id, event)) = self.host.poll_event() {
            self.app.handle_event(now, id, event);
            told = true;
        }
        told
    }

    /// Sends what the host has, and what pacing held back until now, as far as this turn may;
    /// whether that was all. `now` follows the clock.
    fn flush(&mut self, now: &mut Instant) -> Result<bool> {
        while self.sends_left > 0 {
            let Some(packet) = self.departures.poll_transmit(*now, &mut self.host) else {
                return Ok(true);
            };
            self.write(packet)?;
            self.sends_left -= 1;
            if self.sends_left.is_multiple_of(SENDS_PER_CLOCK) {
                *now = Clock.now();
            }
        }
        Ok(false)
    }

    fn read(&mut self) -> Result<Received> {
        let begun = self.is_timed.then(|| Clock.now());
        let received = self.port.receive();
        self.count_device_time(begun);
        received.map_err(|error| self.device_error("read", error))
    }

    fn write(&mut self, packet: Packet) -> Result<()> {
        let begun = self.is_timed.then(|| Clock.now());
        let sent = self.port.send(packet);
        self.count_device_time(begun);
        sent.map(drop)
            .map_err(|error| self.device_error("write to", error))
    }

    fn count_device_time(&mut self, begun: Option<Instant>) {
        if let Some(begun) = begun {
            self.stats.timed_device += Clock.now().since(begun);
        }
    }

    fn device_error(&self, verb: &str, source: io::Error) -> Error {
        let name = self.port.tun().name();
        if source.raw_os_error() == Some(libc::EBADFD) {
            return Error::Peer(format!(
                "the TUN device {name} was deleted; start again to make a new one"
            ));
        }
        Error::Os {
            op: format!("{verb} TUN device {name}"),
            source,
        }
    }

    /// Sleeps until the next deadline or packet; whether a packet waits.
    fn sleep(&mut self) -> Result<bool> {
        let due = [
            self.host.poll_timeout(),
            self.app.poll_timeout(),
            self.departures.poll_timeout(),
        ];
        let due = due.into_iter().flatten().min();
        let wait = due.map(|due| due.since(Clock.now()));
        if wait == Some(Duration::ZERO) {
            return Ok(true);
        }
        let wait = wait.map(|wait| {
            Timespec::try_from(wait).unwrap_or(Timespec {
                tv_sec: 3600,
                tv_nsec: 0,
            })
        });
        let mut fds = [
            PollFd::new(&self.port, PollFlags::IN),
            PollFd::new(&self.stop.wake, PollFlags::IN),
        ];
        self.stats.sleeps += 1;
        match poll(&mut fds, wait.as_ref()) {
            // Errors of the device show when it is read.
            Ok(_) => Ok(!fds[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(errno) => Err(Error::errno("wait for packets")(errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_come_alone_are_learned_and_forgotten() {
        let mut lone = LonePackets::default();
        let slept = Duration::from_micros(50);
        for _ in 0..LONE_PACKETS {
            assert!(lone.on_turn(1, true), "not known yet");
            assert!(!lone.on_turn(READ_BATCH, false));
            lone.on_woken(slept);
        }
        for _ in 0..3 {
            assert!(!lone.on_turn(1, true), "nothing is asked for any more");
            lone.on_woken(slept);
        }
        // A timer does not mean packets.
        assert!(!lone.on_turn(0, false));
        lone.on_woken(slept);
        assert!(!lone.on_turn(1, true));
        lone.on_woken(Duration::from_nanos(700));
        assert!(lone.on_turn(1, true), "another one waited");
        assert!(lone.on_turn(READ_BATCH, true));
        assert!(!lone.on_turn(READ_BATCH, false));
    }
}
