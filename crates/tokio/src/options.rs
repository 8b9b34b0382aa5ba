//! Sockets that are neither connected nor listening yet: for what has to be set before.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use base::settings::SocketSettings;
use base::{Instant, KnobValue, find_knob};
use stack::{ConnectError, ListenError, ListenOptions, SocketId};

use crate::entry::Entry;
use crate::error;
use crate::listener::TcpListener;
use crate::net::Net;
use crate::socket::Socket;
use crate::state::State;
use crate::stream::TcpStream;

/// A socket to be; the counterpart of `tokio::net::TcpSocket`. One kind serves both IP versions.
#[derive(Debug)]
pub struct TcpSocket {
    net: Net,
    plan: Mutex<Plan>,
}

#[derive(Debug)]
struct Plan {
    local: Option<SocketAddr>,
    settings: SocketSettings,
}

impl TcpSocket {
    /// A socket of `net` with the settings of its host.
    #[must_use]
    pub fn new(net: &Net) -> Self {
        let settings = net.default_settings();
        Self {
            net: net.clone(),
            plan: Mutex::new(Plan {
                local: None,
                settings,
            }),
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut Plan) -> R) -> R {
        change(&mut self.plan.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The address to connect from or to listen at; port 0 is a port that is free.
    ///
    /// # Errors
    /// None; an address that the host does not have is told by what follows.
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        self.change(|plan| plan.local = Some(addr));
        Ok(())
    }

    /// Turns a knob of [`base::KNOBS`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`]: no such knob, none of this stack's, or a value out of its
    /// range.
    pub fn set_knob(&self, name: &str, value: &KnobValue) -> io::Result<()> {
        let set = self.change(|plan| find_knob(name)?.set(&mut plan.settings, value));
        set.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }

    /// The value of a knob of [`base::KNOBS`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`]: no such knob, or none of this stack's.
    pub fn knob(&self, name: &str) -> io::Result<KnobValue> {
        let value = self.change(|plan| find_knob(name)?.get(&plan.settings));
        value.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }

    /// Does nothing: who listens here never waits for connections in TIME-WAIT, and two never
    /// listen at one address (`SO_REUSEADDR` of Linux).
    ///
    /// # Errors
    /// None.
    pub const fn set_reuseaddr(&self, _reuseaddr: bool) -> io::Result<()> {
        Ok(())
    }

    /// Always so; see [`TcpSocket::set_reuseaddr`].
    ///
    /// # Errors
    /// None.
    pub const fn reuseaddr(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// Whether small writes leave at once (`TCP_NODELAY`).
    ///
    /// # Errors
    /// None.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(self.knob("nodelay")? == KnobValue::Flag(true))
    }

    /// Makes small writes leave at once (`TCP_NODELAY`).
    ///
    /// # Errors
    /// None but those of [`TcpSocket::set_knob`].
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.set_knob("nodelay", &KnobValue::Flag(nodelay))
    }

    /// Fixes the send buffer (`SO_SNDBUF`), in bytes.
    ///
    /// # Errors
    /// None but those of [`TcpSocket::set_knob`].
    pub fn set_send_buffer_size(&self, bytes: u32) -> io::Result<()> {
        self.set_knob("sndbuf", &KnobValue::Number(bytes.into()))
    }

    /// Fixes the receive buffer (`SO_RCVBUF`), in bytes.
    ///
    /// # Errors
    /// None but those of [`TcpSocket::set_knob`].
    pub fn set_recv_buffer_size(&self, bytes: u32) -> io::Result<()> {
        self.set_knob("rcvbuf", &KnobValue::Number(bytes.into()))
    }

    /// Opens the connection. A future that is dropped gives the attempt up.
    ///
    /// # Errors
    /// Those of [`TcpStream::connect`]; [`io::ErrorKind::AddrNotAvailable`] where the pair of ends
    /// is in use.
    pub async fn connect(self, remote: SocketAddr) -> io::Result<TcpStream> {
        let Self { net, plan } = self;
        let Plan { local, settings } = plan.into_inner().unwrap_or_else(PoisonError::into_inner);
        let opened = net.shared().call(|state, now| {
            state.check()?;
            let opened = match local {
                Some(local) => state.connect_from(now, local, remote, &settings),
                None => state.host.connect(now, remote, settings),
            };
            let id = opened.map_err(error::of_connect)?;
            state.sockets.insert(id, Entry::opening());
            Ok::<_, io::Error>(id)
        });
        let stream = TcpStream::of(Socket::new(net, opened?));
        poll_fn(|cx| stream.poll_connected(cx)).await?;
        Ok(stream)
    }

    /// Listens; `backlog` connections may wait to be accepted.
    ///
    /// # Errors
    /// Those of [`TcpListener::bind`].
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        let Self { net, plan } = self;
        let Plan { local, settings } = plan.into_inner().unwrap_or_else(PoisonError::into_inner);
        let options = ListenOptions::new(settings).with_backlog(backlog);
        let (id, local) = net.shared().call(|state, _| {
            state.check()?;
            let any: IpAddr = Ipv4Addr::UNSPECIFIED.into();
            let local = local.unwrap_or_else(|| SocketAddr::new(any, 0));
            let (id, local) = state.listen(local, &options).map_err(error::of_listen)?;
            state.sockets.insert(id, Entry::open());
            Ok::<_, io::Error>((id, local))
        })?;
        Ok(TcpListener::of(Socket::new(net, id), local))
    }
}

impl State {
    /// Listens at `local`, or at a free port of that address.
    fn listen(
        &mut self,
        local: SocketAddr,
        options: &ListenOptions,
    ) -> Result<(SocketId, SocketAddr), ListenError> {
        // On such a host this is all ports, not any.
        if self.any_address && local.port() == 0 && local.ip().is_unspecified() {
            return self
                .host
                .listen(local, options.clone())
                .map(|id| (id, local));
        }
        for port in self.ports(local.port()) {
            let local = SocketAddr::new(local.ip(), port);
            match self.host.listen(local, options.clone()) {
                Ok(id) => return Ok((id, local)),
                Err(ListenError::InUse) => {}
                Err(error) => return Err(error),
            }
        }
        Err(ListenError::InUse)
    }

    /// Opens a connection from `local`, or from a free port of that address.
    fn connect_from(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        settings: &SocketSettings,
    ) -> Result<SocketId, ConnectError> {
        let mut addrs = self.host.addrs().iter().copied();
        let same_family = |ip: &IpAddr| ip.is_ipv4() == remote.is_ipv4();
        let ip = match local.ip() {
            ip if ip.is_unspecified() => addrs.find(same_family).ok_or(ConnectError::NoAddress)?,
            ip => ip,
        };
        for port in self.ports(local.port()) {
            let local = SocketAddr::new(ip, port);
            match self.host.connect_from(now, local, remote, settings.clone()) {
                Err(ConnectError::NoPort) => {}
                opened => return opened,
            }
        }
        Err(ConnectError::NoPort)
    }
}
