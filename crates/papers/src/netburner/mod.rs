//! The calls of `NetBurner`'s TCP/IP system on a host of ours, so that code that is written for
//! that system reads the same here.
//!
//! It adds no behaviour: each call is one or two of [`stack::Host`], and everything that this stack
//! is lies in [`stack::profile::netburner`]. Names, numbers and error codes are those of its public
//! interface ([`TCP_ERR_TIMEOUT`], [`SO_NOPUSH`], [`TCP_STATE_WAIT_FOR_ACCEPT`] and so on); the
//! text and the code are ours.
//!
//! # Calls that wait
//!
//! There a task sleeps within a call. Here a call that would sleep returns [`Poll::Pending`], and
//! is made again, with the same arguments, when something has happened on the host or [`Board`]
//! says that its time is over. What it had done so far is kept: `writeall` goes on behind the byte
//! that it buffered last ([`Netburner::left`] says how much there is still to do), `connect` waits
//! for the connection that it began. A [`Task`] is a program that is written this way, and a
//! [`Board`] is an [`App`](lab::app::App): it runs in a [`World`](lab::world::World) of virtual
//! time and, unchanged, in `linux::Driver` on a TUN device. Timeouts are in ticks of a twentieth of
//! a second, 0 is for ever.
//!
//! # Buffers
//!
//! A socket has four budgets, in whole buffers of one segment (1460 bytes) each, 5 by default:
//! received and unread, out of order, written and not sent, sent and not acknowledged. They are
//! set one by one, 5 to 43 (0 to 43 out of order): see [`BUFFERS_MAX`] for the reason of 43. All
//! sockets take their buffers from one pool of 256, and a host whose pool is empty neither opens
//! connections nor sends an ACK: [`Netburner::GetFreeCount`] is the first thing to look at where a
//! program does not get the speed that it should have.
//!
//! # Recipes
//!
//! *Fast answers:* `setsockoption(fd, SO_NONAGLE)` and `clrsockoption(fd, SO_NOPUSH)`, or
//! [`interactive`](stack::profile::preset::interactive). *Much data:*
//! `clrsockoption(fd, SO_NONAGLE)`, `setsockoption(fd, SO_NOPUSH)`, or
//! [`bulk`](stack::profile::preset::bulk), and `clrsockoption(fd, SO_NOPUSH)` after the last
//! write; before it works too, but may cost a round trip. *Buffers:* 20 each on a LAN, 40 over the
//! Internet, and on a lossy network one less than the receive buffers out of order: that is
//! [`preset::netburner(_, n, lossy)`](stack::profile::preset::netburner).
//!
//! # What is not here
//!
//! - `RegisterDataProcessor`: part of a special build; a task that reads does the same.
//! - `DumpTcpDebug`, `EnableTcpDebug`: [`stack::Trace`] and [`stack::Host::sample`] tell more, in a
//!   form that programs read.
//! - `connectvia`, `connectwlocal`: a host has one interface; [`stack::Host::connect_from`] takes
//!   an address of its own.
//! - UDP calls, `UDP_MIN_BUFFER_THRESHOLD`: there is no UDP.
//! - Serial ports and their 2 + 2 buffers: there are none; [`stack::PoolSize::reserved`] keeps
//!   their buffers.
//!
//! # Example
//!
//! A client that uploads 64 KiB to a board with the recipe for much data, in virtual time.
//!
//! ```
//! use core::task::Poll;
//! use std::net::{IpAddr, Ipv4Addr};
//! use lab::app::HostCosts;
//! use papers::netburner::{Board, Netburner, SO_NOPUSH, TCP_STATE_ESTABLISHED, Task, Turn};
//! use lab::world::{World, chain};
//! use stack::{HostConfig, profile};
//!
//! /// Reads until the other side closes.
//! #[derive(Debug, Default)]
//! struct Server { listener: i32, fd: i32, received: i32 }
//!
//! impl Task for Server {
//!     fn turn(&mut self, nb: &mut Netburner<'_>) -> Turn {
//!         if self.listener == 0 {
//!             self.listener = nb.listen(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 1234, 5);
//!         }
//!         if self.fd == 0 {
//!             let (mut address, mut port) = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
//!             match nb.accept(self.listener, &mut address, &mut port, 0) {
//!                 Poll::Ready(fd) => self.fd = fd,
//!                 Poll::Pending => return Turn::Blocked,
//!             }
//!             assert_eq!(nb.TcpGetSocketState(self.fd), TCP_STATE_ESTABLISHED);
//!             nb.SetSocketRxBuffers(self.fd, 20);
//!         }
//!         match nb.read(self.fd, &mut [0; 1460]) {
//!             Poll::Pending => Turn::Blocked,
//!             Poll::Ready(n) if n > 0 => { self.received += n; Turn::Again }
//!             Poll::Ready(_) => { nb.close(self.fd); Turn::Done }
//!         }
//!     }
//! }
//!
//! /// Writes all and closes.
//! #[derive(Debug, Default)]
//! struct Client { fd: i32 }
//!
//! impl Task for Client {
//!     fn turn(&mut self, nb: &mut Netburner<'_>) -> Turn {
//!         if self.fd == 0 {
//!             let server = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
//!             match nb.connect(server, 0, 1234, 0) {
//!                 Poll::Ready(fd) => self.fd = fd,
//!                 Poll::Pending => return Turn::Blocked,
//!             }
//!             nb.SetSocketTxBuffers(self.fd, 20);
//!             nb.SetSocketUnackBuffers(self.fd, 20);
//!             nb.setsockoption(self.fd, SO_NOPUSH);
//!         }
//!         match nb.writeall(self.fd, &[7; 65_536]) {
//!             Poll::Pending => Turn::Blocked,
//!             Poll::Ready(n) => {
//!                 assert_eq!(n, 65_536);
//!                 nb.clrsockoption(self.fd, SO_NOPUSH);
//!                 nb.close(self.fd);
//!                 Turn::Done
//!             }
//!         }
//!     }
//! }
//!
//! let mut world = World::new();
//! let config = |host| {
//!     HostConfig::of(&profile::netburner(), Ipv4Addr::new(10, 0, 0, host).into(), 1)
//! };
//! let client = world.add_host(config(1), HostCosts::NONE);
//! let server = world.add_host(config(2), HostCosts::NONE);
//! let delay = core::time::Duration::from_millis(5);
//! let link = link::LinkSpec { delay, ..link::LinkSpec::ideal() };
//! chain(&mut world, (client, server), &[(link.clone(), link)], 1).expect("a link");
//! world.start(server, Board::new([Box::new(Server::default()) as Box<dyn Task>]));
//! world.start(client, Board::new([Box::new(Client::default()) as Box<dyn Task>]));
//! world.run(base::Instant::ZERO + core::time::Duration::from_secs(60));
//! // Both tasks are done; all buffers are back.
//! for node in [client, server] {
//!     assert!(lab::app::App::is_done(world.app(node).expect("a board")));
//!     assert_eq!(world.host(node).pool().free, 256);
//! }
//! ```

mod calls;
mod codes;
mod select;
mod sockets;
mod task;
#[cfg(test)]
mod tests;

use core::task::Poll;
use core::time::Duration;

use base::Instant;
use stack::Host;

pub use codes::*;
pub use select::FdSet;
pub use sockets::Sockets;
pub use task::{Board, Task, Turn};

/// Result of a call that may wait: a count, the number of a socket, or a negative error code.
pub type Call = Poll<i32>;

/// One tick.
pub const TICK: Duration = Duration::from_millis(1000 / TICKS_PER_SECOND as u64);

/// The system, as a program sees it at one moment: its host and its sockets by their numbers.
#[derive(Debug)]
pub struct Netburner<'a> {
    host: &'a mut Host,
    now: Instant,
    sockets: &'a mut Sockets,
    /// The calling task: each task waits in one call at a time.
    task: u32,
}

impl<'a> Netburner<'a> {
    /// For a program of a single task that calls by itself; others are tasks of a [`Board`].
    pub const fn new(host: &'a mut Host, now: Instant, sockets: &'a mut Sockets) -> Self {
        Self::of_task(host, now, sockets, 0)
    }

    const fn of_task(
        host: &'a mut Host,
        now: Instant,
        sockets: &'a mut Sockets,
        task: u32,
    ) -> Self {
        Self {
            host,
            now,
            sockets,
            task,
        }
    }

    /// The time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Ticks since the start, the clock of that system.
    #[must_use]
    pub const fn ticks(&self) -> u32 {
        ticks(self.now)
    }

    /// The host, for what that system has no call for.
    pub const fn host(&mut self) -> &mut Host {
        self.host
    }

    /// The sockets by their numbers.
    #[must_use]
    pub const fn sockets(&self) -> &Sockets {
        self.sockets
    }
}

/// The tick in which a time lies.
const fn ticks(at: Instant) -> u32 {
    (at.as_nanos() / TICK.as_nanos() as u64) as u32
}
