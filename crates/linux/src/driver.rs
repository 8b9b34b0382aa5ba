//! The loop that runs a host of ours on a TUN device: one thread that reads, serves timers and the
//! program, writes, and sleeps until there is more to do.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use base::Instant;
use lab::app::App;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use stack::{Host, Packet};

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::tun::{PortCounters, Received, TunPort};

/// Packets that are read in a row before the program and the timers get their turn.
const READ_BATCH: usize = 16;

/// System calls that the program makes in a row before packets are read again.
const CALL_BATCH: usize = 64;

/// What a driver did, and what its own work cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverStats {
    /// What went through the device.
    pub port: PortCounters,
    /// Turns of the loop.
    pub turns: u64,
    /// Times that it slept.
    pub sleeps: u64,
}

/// Ends a driver from another thread.
#[derive(Clone, Debug)]
pub struct DriverStopper(Arc<OwnedFd>);

impl DriverStopper {
    /// The driver returns after its turn.
    pub fn stop(&self) {
        // Adding to an event counter only fails where it is nearly full.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

/// A host, its program and its device.
#[derive(Debug)]
pub struct Driver<A> {
    host: Host,
    app: A,
    port: TunPort,
    /// Packets that are not to leave yet (pacing), by time and order.
    paced: BTreeMap<(Instant, u64), Packet>,
    paced_count: u64,
    busy_poll: Duration,
    stop: Arc<OwnedFd>,
    stats: DriverStats,
}

impl<A: App> Driver<A> {
    /// Not running yet.
    ///
    /// # Errors
    /// Where no event descriptor can be had.
    pub fn new(host: Host, app: A, port: TunPort) -> Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(Error::errno("make an event descriptor"))?;
        Ok(Self {
            host,
            app,
            port,
            paced: BTreeMap::new(),
            paced_count: 0,
            busy_poll: Duration::ZERO,
            stop: Arc::new(stop),
            stats: DriverStats::default(),
        })
    }

    /// Looks for packets for so long before it sleeps. It takes a processor and saves the time of
    /// waking up; zero (the default) sleeps at once.
    pub const fn set_busy_poll(&mut self, time: Duration) {
        self.busy_poll = time;
    }

    /// What ends it.
    #[must_use]
    pub fn stopper(&self) -> DriverStopper {
        DriverStopper(Arc::clone(&self.stop))
    }

    /// The program.
    #[must_use]
    pub const fn app(&self) -> &A {
        &self.app
    }

    /// The host.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// What it did so far.
    #[must_use]
    pub const fn stats(&self) -> DriverStats {
        DriverStats {
            port: self.port.counters(),
            ..self.stats
        }
    }

    /// Runs until it is stopped or its program is done.
    ///
    /// # Errors
    /// Where the device was taken away.
    pub fn run(&mut self) -> Result<()> {
        self.app.start(Clock.now(), &mut self.host);
        let mut quiet_since = None;
        while !self.app.is_done() {
            self.stats.turns += 1;
            let received = self.receive()?;
            let now = Clock.now();
            let called = self.work(now)?;
            self.flush(now)?;
            if received || called {
                quiet_since = None;
                continue;
            }
            let quiet_since = *quiet_since.get_or_insert(now);
            if now.since(quiet_since) >= self.busy_poll && self.sleep(now)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads what waits, up to a batch; whether there was anything.
    fn receive(&mut self) -> Result<bool> {
        let now = Clock.now();
        for count in 0..READ_BATCH {
            match self
                .port
                .receive()
                .map_err(Error::os("read the TUN device"))?
            {
                Received::Packet(packet) => self.host.handle_packet(now, packet),
                Received::Ignored => {}
                Received::Nothing => return Ok(count > 0),
            }
        }
        Ok(true)
    }

    /// Serves timers and the program; whether the program may have more to do.
    fn work(&mut self, now: Instant) -> Result<bool> {
        if self.host.poll_timeout().is_some_and(|due| due <= now) {
            self.host.handle_timeout(now);
        }
        for _ in 0..CALL_BATCH {
            while let Some((id, event)) = self.host.poll_event() {
                self.app.handle_event(now, id, event);
            }
            if !self.app.call(now, &mut self.host) {
                return Ok(false);
            }
            self.flush(now)?;
        }
        Ok(true)
    }

    /// Sends what the host has, and what pacing held back until now.
    fn flush(&mut self, now: Instant) -> Result<()> {
        while let Some(entry) = self.paced.first_entry()
            && entry.key().0 <= now
        {
            let packet = entry.remove();
            self.send(packet)?;
        }
        while let Some(packet) = self.host.poll_transmit(now) {
            if packet.not_before > now {
                self.paced_count += 1;
                self.paced
                    .insert((packet.not_before, self.paced_count), packet);
            } else {
                self.send(packet)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, packet: Packet) -> Result<()> {
        self.port
            .send(packet)
            .map(drop)
            .map_err(Error::os("write to the TUN device"))
    }

    /// Sleeps until the next deadline or packet; true where it was told to stop.
    fn sleep(&mut self, now: Instant) -> Result<bool> {
        let due = [
            self.host.poll_timeout(),
            self.app.poll_timeout(),
            self.paced.keys().next().map(|(at, _)| *at),
        ];
        let wait = due.into_iter().flatten().min().map(|due| {
            Timespec::try_from(due.since(now)).unwrap_or(Timespec {
                tv_sec: 3600,
                tv_nsec: 0,
            })
        });
        let mut fds = [
            PollFd::new(&self.port, PollFlags::IN),
            PollFd::new(&*self.stop, PollFlags::IN),
        ];
        self.stats.sleeps += 1;
        match poll(&mut fds, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Error::errno("wait for packets")(errno)),
        }
        Ok(fds[1].revents().contains(PollFlags::IN))
    }
}
