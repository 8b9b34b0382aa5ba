//! State shared by the sockets of a [`Net`](crate::Net) and its driver: the host behind a lock.
//!
//! The lock is held for one call of the host and for what that makes it send over a TUN device,
//! never across an await. Who is to be woken is collected under it and woken after it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use base::Instant;
use futures_util::task::AtomicWaker;
use linux::tun::{Received, TunPort};
use stack::{Departures, Host, HostConfig, Packet, SocketId};

use crate::copies::Copies;
use crate::driver::BATCH_PACKETS;
use crate::entry::Entry;
use crate::time::Clock;
use crate::waiters::{WaiterKey, Waiters, Woken};

/// Time between two looks at the device's MTU, where packets come in.
const MTU_INTERVAL: Duration = Duration::from_secs(1);

/// The host, shared by all handles.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    driver: AtomicWaker,
    clock: Clock,
    copies: Copies,
}

/// The host, behind the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) host: Host,
    pub(crate) sockets: BTreeMap<SocketId, Entry>,
    /// Tasks that wait until no connection is left.
    pub(crate) idle: Waiters,
    exit: Exit,
    departures: Departures,
    /// When the driver wakes by itself.
    armed: Option<Instant>,
    /// The latest time passed to the host.
    now: Instant,
    /// A call of the host panicked: its state is inconsistent, and it must not be called again.
    is_broken: bool,
    /// Reason why packets can no longer be sent or received.
    failure: Option<(io::ErrorKind, String)>,
    /// All handles of the net and its sockets are dropped.
    is_released: bool,
    pub(crate) woken: Woken,
    keys: u64,
    /// Ports for those who do not care which, first and last.
    ports: (u16, u16),
    /// Every address is one of the host's.
    pub(crate) any_address: bool,
    ports_asked: u16,
}

/// How packets leave.
#[derive(Debug)]
enum Exit {
    /// In the call that made them, up to a batch; the rest through the driver.
    Tun {
        port: Box<TunPort>,
        has_more: bool,
        /// The device's MTU as it was last seen, and when it is looked at again.
        mtu: Option<u16>,
        mtu_due: Instant,
    },
    /// Through the driver; `is_stuck` while what is behind it takes nothing, `is_flushed` once that
    /// has passed on all that it took.
    Driver { is_stuck: bool, is_flushed: bool },
}

/// Result of a look at the timers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    pub(crate) now: Instant,
    /// When something is due next.
    pub(crate) next: Option<Instant>,
    /// Something was due.
    pub(crate) served: bool,
    pub(crate) life: Life,
}

/// How far a host has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// There is a handle of the net or a socket of it.
    Held,
    /// There is none, and not all of what was written is delivered.
    Delivering,
    /// There is none, and nothing is left to deliver.
    Delivered,
    /// Packets cannot move any more.
    Failed,
}

impl Shared {
    pub(crate) fn new(config: HostConfig, port: Option<TunPort>, clock: Clock) -> Self {
        let (ports, any_address) = (config.system.ports, config.system.any_address);
        let exit = match port {
            Some(port) => Exit::Tun {
                mtu: port.tun().mtu().ok(),
                mtu_due: Instant::ZERO,
                port: Box::new(port),
                has_more: false,
            },
            None => Exit::Driver {
                is_stuck: false,
                is_flushed: true,
            },
        };
        let state = State {
            host: Host::new(config),
            sockets: BTreeMap::new(),
            idle: Waiters::default(),
            exit,
            departures: Departures::default(),
            armed: None,
            now: clock.now(),
            is_broken: false,
            failure: None,
            is_released: false,
            woken: Woken::new(),
            keys: 0,
            ports,
            any_address,
            ports_asked: 0,
        };
        Self {
            state: Mutex::new(state),
            driver: AtomicWaker::new(),
            clock,
            copies: Copies::default(),
        }
    }

    pub(crate) const fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) const fn copies(&self) -> &Copies {
        &self.copies
    }

    /// The state, to be looked at, or to wait for a change of it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            let mut state = PoisonError::into_inner(poisoned);
            state.is_broken = true;
            state.fail(&io::Error::other("the host panicked in an earlier call"));
            state
        })
    }

    /// A call of a socket: what the host has to send and to say after it is sent and said.
    pub(crate) fn call<R>(&self, work: impl FnOnce(&mut State, Instant) -> R) -> R {
        let mut state = self.lock();
        let now = state.advance(&self.clock);
        let result = work(&mut state, now);
        let needs_driver = state.settle(now);
        Self::unlock(state);
        if needs_driver {
            self.driver.wake();
        }
        result
    }

    /// Wakes who is to be woken, without the lock.
    fn unlock(mut state: MutexGuard<'_, State>) {
        let woken = std::mem::take(&mut state.woken);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn register_driver(&self, waker: &Waker) {
        self.driver.register(waker);
    }

    /// No caller of the host is left.
    pub(crate) fn release(&self) {
        self.lock().is_released = true;
        self.driver.wake();
    }

    /// Fails everything: packets can no longer be sent or received; all waiting tasks are woken.
    pub(crate) fn fail(&self, error: &io::Error) {
        let mut state = self.lock();
        state.fail(error);
        Self::unlock(state);
    }

    /// Serves what is due. The driver wakes by itself at the next deadline, or at `armed` if that
    /// is earlier; a caller with something for it to do before that wakes it.
    pub(crate) fn serve_timers(&self, armed: Option<Instant>) -> Timers {
        let mut state = self.lock();
        let now = state.advance(&self.clock);
        let served = !state.is_broken && state.due().is_some_and(|due| due <= now);
        if served {
            state.host.handle_timeout(now);
            state.settle(now);
        }
        let next = if state.is_broken { None } else { state.due() };
        state.armed = [armed, next].into_iter().flatten().min();
        let life = state.life();
        Self::unlock(state);
        Timers {
            now,
            next,
            served,
            life,
        }
    }

    /// Reads a batch from the TUN device; false where it had less.
    pub(crate) fn receive_from_tun(&self) -> io::Result<bool> {
        let mut state = self.lock();
        let now = state.advance(&self.clock);
        state.check_sound()?;
        let State { host, exit, .. } = &mut *state;
        let Exit::Tun { port, .. } = exit else {
            return Ok(false);
        };
        let mut count = 0;
        while count < BATCH_PACKETS {
            match port.receive().map_err(|error| gone(port, &error))? {
                Received::Packet(packet) => host.handle_packet(now, packet),
                Received::Ignored => {}
                Received::Nothing => break,
            }
            count += 1;
        }
        if count > 0 {
            state.follow_mtu(now);
            state.settle(now);
        }
        Self::unlock(state);
        Ok(count == BATCH_PACKETS)
    }

    /// Writes a batch to the TUN device that calls left; true where there may be more.
    pub(crate) fn send_to_tun(&self) -> bool {
        let mut state = self.lock();
        if !matches!(state.exit, Exit::Tun { has_more: true, .. }) {
            return false;
        }
        let now = state.advance(&self.clock);
        state.settle(now);
        let has_more = state.needs_transmit();
        Self::unlock(state);
        has_more
    }

    /// Hands packets over that came by another way.
    pub(crate) fn receive(&self, packets: &mut Vec<Packet>) {
        let mut state = self.lock();
        let now = state.advance(&self.clock);
        if !state.is_broken {
            for packet in packets.drain(..) {
                state.host.handle_packet(now, packet);
            }
        }
        state.settle(now);
        Self::unlock(state);
    }

    /// Takes a batch of packets out that are to be sent; false where there were less.
    pub(crate) fn transmit(&self, packets: &mut impl Extend<Packet>) -> bool {
        let mut state = self.lock();
        let now = state.advance(&self.clock);
        state.set_stuck(false);
        let mut count = 0;
        while count < BATCH_PACKETS
            && !state.is_broken
            && let Some(packet) = state.poll_transmit(now)
        {
            packets.extend([packet]);
            count += 1;
        }
        if count > 0 {
            if let Exit::Driver { is_flushed, .. } = &mut state.exit {
                *is_flushed = false;
            }
            state.settle(now);
        }
        Self::unlock(state);
        count == BATCH_PACKETS
    }

    /// Aborts all connections, with a RST to their peers.
    pub(crate) fn abort_all(&self) {
        self.call(|state, now| {
            let sockets: Vec<SocketId> = state.host.sockets().collect();
            for id in sockets {
                state.host.abort(now, id);
            }
        });
    }

    /// Called when the layer below has passed on all packets that it took.
    pub(crate) fn set_flushed(&self) {
        let mut state = self.lock();
        if let Exit::Driver { is_flushed, .. } = &mut state.exit {
            *is_flushed = true;
        }
        state.wake_if_idle();
        Self::unlock(state);
    }

    /// Called when the layer below takes no packet now; it wakes the driver when it does again.
    pub(crate) fn set_stuck(&self) {
        self.lock().set_stuck(true);
    }
}

impl State {
    /// The time; never earlier than the latest passed to the host.
    fn advance(&mut self, clock: &Clock) -> Instant {
        self.now = self.now.max(clock.now());
        self.now
    }

    pub(crate) fn next_key(&mut self) -> WaiterKey {
        self.keys += 1;
        WaiterKey(self.keys)
    }

    /// `port`; where it is 0 all that may be taken, beginning with another one each time.
    pub(crate) fn ports(&mut self, port: u16) -> impl Iterator<Item = u16> + use<> {
        let (first, last) = if port == 0 { self.ports } else { (port, port) };
        let count = u32::from(last.saturating_sub(first)) + 1;
        let asked = (u32::from(self.ports_asked) % count) as u16;
        self.ports_asked = self.ports_asked.wrapping_add(1);
        (first + asked..=last).chain(first..first + asked)
    }

    /// Whether packets can still move.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self) -> io::Result<()> {
        match &self.failure {
            Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
            None => Ok(()),
        }
    }

    /// Whether the host may still be called; see [`State::check`] for more.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check_sound(&self) -> io::Result<()> {
        if self.is_broken { self.check() } else { Ok(()) }
    }

    fn fail(&mut self, error: &io::Error) {
        if self.failure.is_some() {
            return;
        }
        self.failure = Some((error.kind(), error.to_string()));
        for entry in self.sockets.values_mut() {
            entry.readers.take(&mut self.woken);
            entry.writers.take(&mut self.woken);
        }
        self.idle.take(&mut self.woken);
    }

    /// When there is something to do.
    fn due(&mut self) -> Option<Instant> {
        // What cannot leave is not due: the driver hears when it can.
        let is_stuck = matches!(self.exit, Exit::Driver { is_stuck: true, .. });
        let paced = self.departures.poll_timeout().filter(|_| !is_stuck);
        [self.host.poll_timeout(), paced]
            .into_iter()
            .flatten()
            .min()
    }

    /// Draws the consequences of a call of the host; true where the driver has something to do.
    fn settle(&mut self, now: Instant) -> bool {
        if self.is_broken {
            return true;
        }
        self.send_to_tun(now);
        while let Some((id, event)) = self.host.poll_event() {
            if let Some(entry) = self.sockets.get_mut(&id) {
                entry.on_event(event, &mut self.woken);
            }
        }
        self.wake_if_idle();
        let due = self.due();
        let must_wake_earlier = due.is_some_and(|due| self.armed.is_none_or(|armed| due < armed));
        must_wake_earlier || self.needs_transmit() || self.failure.is_some()
    }

    fn needs_transmit(&self) -> bool {
        match self.exit {
            Exit::Tun { has_more, .. } => has_more,
            Exit::Driver { is_stuck: true, .. } => false,
            Exit::Driver { .. } => self.host.local_queue_bytes() > 0,
        }
    }

    /// The MTU of the device may have been changed.
    fn follow_mtu(&mut self, now: Instant) {
        let Exit::Tun {
            port, mtu, mtu_due, ..
        } = &mut self.exit
        else {
            return;
        };
        if now < *mtu_due {
            return;
        }
        *mtu_due = now + MTU_INTERVAL;
        let seen = port.tun().mtu().ok();
        if let Some(seen) = seen.filter(|_| seen != *mtu) {
            *mtu = Some(seen);
            self.host.set_mtu(now, seen);
        }
    }

    fn set_stuck(&mut self, stuck: bool) {
        if let Exit::Driver { is_stuck, .. } = &mut self.exit {
            *is_stuck = stuck;
        }
    }

    /// Sends a batch at most: others wait for the lock.
    fn send_to_tun(&mut self, now: Instant) {
        if !matches!(self.exit, Exit::Tun { .. }) || self.failure.is_some() {
            return;
        }
        for _ in 0..BATCH_PACKETS {
            let packet = self.poll_transmit(now);
            let Exit::Tun { port, has_more, .. } = &mut self.exit else {
                return;
            };
            *has_more = packet.is_some();
            let Some(packet) = packet else {
                return;
            };
            if let Err(error) = port.send(packet) {
                let error = gone(port, &error);
                self.fail(&error);
                return;
            }
        }
    }

    /// The next packet that may leave now.
    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        self.departures.poll_transmit(now, &mut self.host)
    }

    fn wake_if_idle(&mut self) {
        if !self.idle.is_empty() && self.is_idle() {
            self.idle.take(&mut self.woken);
        }
    }

    fn life(&self) -> Life {
        if self.failure.is_some() {
            Life::Failed
        } else if !self.is_released {
            Life::Held
        } else if self.is_idle() {
            Life::Delivered
        } else {
            Life::Delivering
        }
    }

    /// Whether no connection is left that has anything to deliver, and all packets are on their
    /// way. Listeners do not count, nor does what rests in TIME-WAIT.
    pub(crate) fn is_idle(&self) -> bool {
        let is_sent = match self.exit {
            Exit::Tun { has_more, .. } => !has_more,
            Exit::Driver { is_flushed, .. } => is_flushed,
        };
        let mut sockets = self.host.sockets();
        is_sent
            && self.departures.is_empty()
            && self.host.local_queue_bytes() == 0
            && sockets.all(|id| self.host.remote_addr(id).is_none())
    }

    /// Lets go of a socket.
    pub(crate) fn close(&mut self, now: Instant, id: SocketId) {
        let Some(entry) = self.sockets.remove(&id) else {
            return;
        };
        // In a drop, while the panic of the first call unwinds, a second one would end the process.
        if self.is_broken {
            return;
        }
        // What was taken out of the host and not read is unread data too.
        if entry.is_broken_at_close() {
            self.host.abort(now, id);
        } else {
            self.host.close(now, id);
        }
    }
}

/// The device was removed.
fn gone(port: &TunPort, error: &io::Error) -> io::Error {
    let text = format!("TUN device {} is gone: {error}", port.tun().name());
    io::Error::new(io::ErrorKind::NetworkDown, text)
}
