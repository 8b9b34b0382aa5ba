//! One host of ours, with the source and destination of its packets.

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base::Instant;
use base::settings::SocketSettings;
use bytes::Bytes;
use futures_channel::mpsc;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use linux::tun::TunPort;
use stack::{Host, HostConfig, Packet};

use crate::driver::{Driver, Link};
use crate::packets::{PacketLink, decoded, encoding};
use crate::state::Shared;
use crate::time::Clock;
use crate::tun::{Tun, TunReadiness};
use crate::waiters::WaiterKey;

/// The runtime's timers are exact to a millisecond. A paced packet is handed out this much before
/// its time, so that a late timer delays no packet.
const PACING_HORIZON: Duration = Duration::from_millis(2);

/// Smallest MTU of an IPv4 path, in bytes (RFC 791 section 3.2).
const MTU_MIN: u16 = 68;

/// Packets that the cable of [`Net::pair`] holds in each direction.
const CABLE_PACKETS: usize = 1000;

/// A host with its own TCP, to which sockets belong.
///
/// Clones are the same host. One task per net moves its packets. After the last clone and the last
/// socket are dropped it goes on until what was written is delivered, for a minute at most; then
/// the connections that are left are broken. It sends what is left to send, for five seconds at
/// most, closes the sink, and gives the device back. A runtime that ends earlier ends it at once:
/// [`Net::wait_idle`] waits until nothing is left to do.
#[derive(Clone)]
pub struct Net(Arc<Handle>);

/// Handle shared by all clones and sockets, but not by the driver.
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Net {
    /// A host behind a TUN device. The host has the addresses of `config`, and the machine sees
    /// them through the device: it has to be enabled, and the machine needs an address or a route
    /// there. The MTU of `config` should be that of the device; if that changes later, the host
    /// follows within a second, if there is traffic.
    ///
    /// # Errors
    /// Where no further descriptor can be had.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time enabled.
    pub fn over_tun(config: HostConfig, tun: Tun) -> io::Result<Self> {
        let port = tun.into_port();
        let link = TunReadiness::of(&port)?;
        // Times of samples compare with those of other programs.
        let clock = Clock::starting_at(linux::Clock.now());
        Ok(Self::start(config, clock, Some(port), link))
    }

    /// A host that sends and receives whole IP packets, such as the inside of a VPN. Packets of
    /// `incoming` that are not TCP for this host are ignored. The net fails when `incoming` ends,
    /// or either has an error.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub fn over_bytes(
        config: HostConfig,
        incoming: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
        outgoing: impl Sink<Bytes, Error = io::Error> + Send + 'static,
    ) -> Self {
        Self::over_link(
            config,
            PacketLink::new(decoded(incoming), encoding(outgoing)),
        )
    }

    /// As [`Net::over_bytes`], with packets as the host has them: headers in fields, payload in
    /// shared slices, and up to 64 KiB under one header.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub fn over_packets(
        config: HostConfig,
        incoming: impl Stream<Item = io::Result<Packet>> + Send + 'static,
        outgoing: impl Sink<Packet, Error = io::Error> + Send + 'static,
    ) -> Self {
        let incoming = incoming.map(|packet| packet.map(Some));
        Self::over_link(config, PacketLink::new(incoming, outgoing))
    }

    fn over_link(config: HostConfig, link: impl Link) -> Self {
        // The same at every run: where the runtime's clock is paused, all of a test repeats.
        let clock = Clock::starting_at(Instant::ZERO);
        Self::start(config, clock, None, link)
    }

    /// Two hosts and a cable between them, in memory, without delay or loss: for tests of programs.
    /// With `tokio::time::pause` they run in virtual time.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    #[must_use]
    pub fn pair(configs: [HostConfig; 2]) -> [Self; 2] {
        let [a, b] = configs;
        let (to_b, from_a) = mpsc::channel(CABLE_PACKETS);
        let (to_a, from_b) = mpsc::channel(CABLE_PACKETS);
        let host = |config, sender: mpsc::Sender<Packet>, receiver: mpsc::Receiver<Packet>| {
            let outgoing = sender.sink_map_err(io::Error::other);
            Self::over_packets(config, receiver.map(Ok), outgoing)
        };
        [host(a, to_b, from_b), host(b, to_a, from_a)]
    }

    fn start(mut config: HostConfig, clock: Clock, port: Option<TunPort>, link: impl Link) -> Self {
        let horizon = &mut config.system.pacing_horizon;
        *horizon = PACING_HORIZON.max(*horizon);
        let shared = Arc::new(Shared::new(config, port, clock));
        tokio::spawn(Driver::new(Arc::clone(&shared), link));
        Self(Arc::new(Handle(shared)))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.0
    }

    /// Inspects the host: counters, sockets, buffers. Everything else waits meanwhile, so keep it
    /// short, and do not use a socket of the same net, nor the net itself, in `look`: that would
    /// deadlock. A panic of `look` is propagated, and harms no other task.
    pub fn host<R>(&self, look: impl FnOnce(&Host) -> R) -> R {
        let state = self.shared().lock();
        // A read-only access cannot leave the host inconsistent: the lock is released before the
        // panic continues, so that it is not poisoned.
        let looked = catch_unwind(AssertUnwindSafe(|| look(&state.host)));
        drop(state);
        looked.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// The path of a host over packets or bytes has another MTU from now on, in bytes of the whole
    /// IP packet: connections that send larger packets send smaller ones, and larger ones are for
    /// connections to come. On a TUN device set that of the device instead; the host follows.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] below 68 bytes; where packets cannot move any more.
    pub fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        if mtu < MTU_MIN {
            let text = format!("an MTU of {mtu} bytes; give at least {MTU_MIN}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.shared().call(|state, now| {
            state.check()?;
            state.host.set_mtu(now, mtu);
            Ok(())
        })
    }

    pub(crate) fn default_settings(&self) -> SocketSettings {
        self.host(|host| host.default_settings().clone())
    }

    /// Waits until no connection is left: all streams are dropped, what they wrote was delivered or
    /// given up, and the last packet has left the device or the sink. Listeners do not count.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    ///
    /// # Errors
    /// Where packets cannot move any more.
    pub async fn wait_idle(&self) -> io::Result<()> {
        Idle {
            net: self,
            key: None,
        }
        .await
    }
}

/// Waits until no connection is left.
struct Idle<'n> {
    net: &'n Net,
    /// Under which it waits already.
    key: Option<WaiterKey>,
}

impl Future for Idle<'_> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.net.shared().lock();
        state.check_sound()?;
        if state.is_idle() {
            return Poll::Ready(Ok(()));
        }
        state.check()?;
        let key = self.key.unwrap_or_else(|| state.next_key());
        state.idle.insert(key, cx.waker());
        drop(state);
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.net.shared().lock().idle.remove(key);
        }
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addrs = self.host(|host| host.addrs().to_vec());
        f.debug_struct("Net").field("addrs", &addrs).finish()
    }
}

#[cfg(test)]
mod tests {
    use stack::profile;

    use super::*;
    use crate::{TcpListener, TcpStream};

    fn nets() -> [Net; 2] {
        let linux = profile::linux_6_18();
        Net::pair([[10, 0, 0, 1], [10, 0, 0, 2]].map(|addr| HostConfig::of(&linux, addr.into(), 1)))
    }

    #[tokio::test]
    async fn a_host_that_panicked_is_not_called_again() -> io::Result<()> {
        let [a, b] = nets();
        let listener = TcpListener::bind(&b, "10.0.0.2:80").await?;
        let client = TcpStream::connect(&a, "10.0.0.2:80").await?;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            a.shared().call(|_, _| panic!("a bug of the host"));
        }));
        assert!(panicked.is_err());
        for result in [
            client.try_read(&mut [0; 1]).map(drop),
            client.try_write(b"x").map(drop),
            client.set_nodelay(true),
            TcpStream::connect(&a, "10.0.0.2:80").await.map(drop),
        ] {
            let error = result.expect_err("the host is half done");
            assert!(error.to_string().contains("panicked"), "{error}");
        }
        drop(client);
        let sockets = a.shared().lock().host.sockets().count();
        assert_eq!(sockets, 1, "not even to close a socket");
        drop(listener);
        Ok(())
    }

    #[tokio::test]
    async fn a_panic_of_who_looks_harms_nobody_else() -> io::Result<()> {
        let [a, b] = nets();
        let look = || a.host(|_| -> () { panic!("a bug of the program") });
        assert!(catch_unwind(AssertUnwindSafe(look)).is_err());
        let _listener = TcpListener::bind(&b, "10.0.0.2:80").await?;
        TcpStream::connect(&a, "10.0.0.2:80").await.map(drop)
    }
}
