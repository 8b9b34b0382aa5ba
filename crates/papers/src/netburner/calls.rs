//! The calls on one socket.
#![expect(
    non_snake_case,
    reason = "the names are those of the system that the calls are made like"
)]

use core::net::{IpAddr, SocketAddr};
use core::task::Poll;

use base::settings::{Nagle, Push};
use base::{Instant, KnobValue, TcpState};
use stack::{ListenOptions, ReadError, SocketId, WriteError};

use super::codes::{
    self, BUFFERS_MAX, BUFFERS_MIN, SO_DEBUG, SO_NONAGLE, SO_NOPUSH, TCP_CONN_TO, TCP_ERR_NORMAL,
    TCP_ERR_NOSUCH_SOCKET, TCP_ERR_TIMEOUT, TCP_STATE_CLOSED, TCP_STATE_LISTEN, TCP_WRITE_TIMEOUT,
};
use super::sockets::Blocking;
use super::{Call, Netburner, TICK, ticks};

impl Netburner<'_> {
    /// Listens; up to `maxpend` connections wait to be accepted ([`MAXPEND`](super::MAXPEND) where
    /// programs name none). An unspecified address stands for all.
    ///
    /// # Returns
    /// The listener's number, or an error code.
    pub fn listen(&mut self, address: IpAddr, port: u16, maxpend: u8) -> i32 {
        let options = ListenOptions::new(self.host.default_settings().clone())
            .with_backlog(maxpend.into())
            .with_syn_cookies(false);
        match self.host.listen(SocketAddr::new(address, port), options) {
            Ok(id) => self.sockets.insert(id, true),
            Err(error) => codes::of_listen(error),
        }
    }

    /// Takes the next connection of a listener, and says whose it is. `timeout` in ticks, 0 for
    /// ever.
    ///
    /// # Returns
    /// The connection's number, or an error code; waits for a connection.
    pub fn accept(&mut self, fd: i32, address: &mut IpAddr, port: &mut u16, timeout: u16) -> Call {
        let Some(listener) = self.sockets.id(fd) else {
            return Poll::Ready(TCP_ERR_NOSUCH_SOCKET);
        };
        let Some(id) = self.host.accept(self.now, listener) else {
            return self.wait(Blocking::Accept, fd, timeout);
        };
        if let Some(remote) = self.host.remote_addr(id) {
            (*address, *port) = (remote.ip(), remote.port());
        }
        let number = self.sockets.insert(id, false);
        self.done(fd, number)
    }

    /// Opens a connection, from a port of its own choice above 0x8000 where `local_port` is 0.
    /// `timeout` in ticks; 0 stands for 75 s. Made again with the same arguments, it goes on with
    /// what it began.
    ///
    /// # Returns
    /// The connection's number, or an error code; waits until it is established.
    pub fn connect(
        &mut self,
        address: IpAddr,
        local_port: u16,
        remote_port: u16,
        timeout: u16,
    ) -> Call {
        let remote = SocketAddr::new(address, remote_port);
        let key = (self.task, remote, local_port);
        let id = match self.sockets.opening.get(&key) {
            Some(id) => *id,
            None => match self.open(remote, local_port) {
                Ok(id) => {
                    self.sockets.opening.insert(key, id);
                    self.sockets.go_on(self.task);
                    id
                }
                Err(code) => return Poll::Ready(code),
            },
        };
        let failure = self.host.failure(id).map(codes::of_failure);
        let timeout = if timeout == 0 { TCP_CONN_TO } else { timeout };
        let result = match failure {
            Some(code) => code,
            None if self.is_opening(id) => match self.wait(Blocking::Connect, -1, timeout) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(code) => code,
            },
            None => self.sockets.insert(id, false),
        };
        self.sockets.opening.remove(&key);
        self.sockets.go_on(self.task);
        if result < 0 {
            self.host.abort(self.now, id);
        }
        Poll::Ready(result)
    }

    fn open(&mut self, remote: SocketAddr, local_port: u16) -> Result<SocketId, i32> {
        let settings = self.host.default_settings().clone();
        let opened = match local_port {
            0 => self.host.connect(self.now, remote, settings),
            port => {
                let mut addresses = self.host.addrs().iter().copied();
                let own = addresses.find(|ip| ip.is_ipv4() == remote.is_ipv4());
                let own = own.unwrap_or(remote.ip());
                let local = SocketAddr::new(own, port);
                self.host.connect_from(self.now, local, remote, settings)
            }
        };
        opened.map_err(codes::of_connect)
    }

    fn is_opening(&self, id: SocketId) -> bool {
        let state = self.host.sample(self.now, id).and_then(|flow| flow.state);
        matches!(state, Some(TcpState::SynSent | TcpState::SynReceived))
    }

    /// Lets go of a socket; what was written is still delivered.
    pub fn close(&mut self, fd: i32) -> i32 {
        match self.sockets.remove(fd) {
            Some(id) => {
                self.host.close(self.now, id);
                TCP_ERR_NORMAL
            }
            None => TCP_ERR_NOSUCH_SOCKET,
        }
    }

    /// Breaks a connection: nothing more is delivered, its buffers are free, the peer is reset.
    pub fn abortsocket(&mut self, fd: i32) -> i32 {
        match self.sockets.remove(fd) {
            Some(id) => {
                self.host.abort(self.now, id);
                TCP_ERR_NORMAL
            }
            None => TCP_ERR_NOSUCH_SOCKET,
        }
    }

    /// Reads into `buffer`.
    ///
    /// # Returns
    /// Bytes; 0 at the end of what the peer sends; an error code; waits for data.
    pub fn read(&mut self, fd: i32, buffer: &mut [u8]) -> Call {
        self.ReadWithTimeout(fd, buffer, 0)
    }

    /// As [`read`](Self::read), for this many ticks at most; 0 for ever.
    pub fn ReadWithTimeout(&mut self, fd: i32, buffer: &mut [u8], timeout: u16) -> Call {
        let Some(id) = self.sockets.id(fd) else {
            return Poll::Ready(TCP_ERR_NOSUCH_SOCKET);
        };
        match self.host.read(self.now, id, buffer) {
            Ok(bytes) => self.done(fd, count(bytes)),
            Err(ReadError::Empty) => self.wait(Blocking::Read, fd, timeout),
            Err(error) => self.done(fd, codes::of_read(error)),
        }
    }

    /// Bytes that a read would return now, or an error code.
    pub fn dataavail(&self, fd: i32) -> i32 {
        match self.sockets.id(fd) {
            Some(id) => count(usize::try_from(self.host.unread_bytes(id)).unwrap_or(usize::MAX)),
            None => TCP_ERR_NOSUCH_SOCKET,
        }
    }

    /// Puts of `data` what there is room for into the transmit buffers: the caller looks at the
    /// number and writes the rest (NB36).
    ///
    /// # Returns
    /// Bytes taken, never more than the transmit buffers hold; an error code; waits, for 10 s at
    /// most, where there is no room at all.
    pub fn write(&mut self, fd: i32, data: &[u8]) -> Call {
        let Some(id) = self.sockets.id(fd) else {
            return Poll::Ready(TCP_ERR_NOSUCH_SOCKET);
        };
        match self.host.write(self.now, id, data) {
            Ok(bytes) => self.done(fd, count(bytes)),
            Err(WriteError::Full) => self.wait(Blocking::Write, fd, TCP_WRITE_TIMEOUT),
            Err(error) => self.done(fd, codes::of_write(error)),
        }
    }

    /// Puts all of `data` into the transmit buffers (NB37). The call is made again, with the same
    /// data, until it has done so; how much is still to be taken, [`left`](Self::left) tells.
    ///
    /// # Returns
    /// All bytes, as soon as the last one is buffered, whatever becomes of them then; an error code
    /// where the connection broke before. An error that comes later is told by the next call.
    pub fn writeall(&mut self, fd: i32, data: &[u8]) -> Call {
        loop {
            let Some(entry) = self.sockets.entry(fd) else {
                return Poll::Ready(TCP_ERR_NOSUCH_SOCKET);
            };
            let (id, written) = (entry.id, entry.written.min(data.len()));
            if written == data.len() {
                return self.end_writeall(fd, count(data.len()));
            }
            match self.host.write(self.now, id, &data[written..]) {
                Ok(bytes) => {
                    if let Some(entry) = self.sockets.entry_mut(fd) {
                        entry.written = written + bytes;
                    }
                }
                // It sleeps as long as that takes.
                Err(WriteError::Full) => return self.wait(Blocking::Write, fd, 0),
                Err(error) => return self.end_writeall(fd, codes::of_write(error)),
            }
        }
    }

    fn end_writeall(&mut self, fd: i32, result: i32) -> Call {
        if let Some(entry) = self.sockets.entry_mut(fd) {
            entry.written = 0;
        }
        self.done(fd, result)
    }

    /// How much of `length` bytes the `writeall` that waits has still to buffer.
    #[must_use]
    pub fn left(&self, fd: i32, length: usize) -> usize {
        let written = self.sockets.entry(fd).map_or(0, |entry| entry.written);
        length.saturating_sub(written)
    }

    /// Sets the options whose bits are set in `option`, and no others (NB31).
    pub fn setsockoption(&mut self, fd: i32, option: i32) -> i32 {
        self.change_options(fd, option, true)
    }

    /// Clears the options whose bits are set in `option`. Clearing [`SO_NOPUSH`] sends what it
    /// held.
    pub fn clrsockoption(&mut self, fd: i32, option: i32) -> i32 {
        self.change_options(fd, option, false)
    }

    /// The bits that are set, or an error code.
    pub fn getsockoption(&self, fd: i32) -> i32 {
        let Some(entry) = self.sockets.entry(fd) else {
            return TCP_ERR_NOSUCH_SOCKET;
        };
        let debug = if entry.debug { SO_DEBUG } else { 0 };
        let small = self.host.settings(entry.id).map(|all| &all.small_writes);
        let bits = small.map_or(0, |small| {
            let no_nagle = small.nagle == Nagle::Off;
            let no_push = small.push == Push::Never;
            i32::from(no_nagle) * SO_NONAGLE + i32::from(no_push) * SO_NOPUSH
        });
        debug | bits
    }

    fn change_options(&mut self, fd: i32, option: i32, set: bool) -> i32 {
        let Some(entry) = self.sockets.entry_mut(fd) else {
            return TCP_ERR_NOSUCH_SOCKET;
        };
        if option & SO_DEBUG != 0 {
            entry.debug = set;
        }
        self.host.configure(self.now, entry.id, |settings| {
            let small = &settings.small_writes;
            let is_nagle_off = small.nagle == Nagle::Off;
            if option & SO_NONAGLE != 0 && set != is_nagle_off {
                settings.small_writes.nagle = match set {
                    true => Nagle::Off,
                    false => settings.usual_nagle(),
                };
            }
            if option & SO_NOPUSH != 0 {
                settings.small_writes.push = match set {
                    true => Push::Never,
                    false => Push::EachWrite,
                };
            }
        });
        TCP_ERR_NORMAL
    }

    /// Buffers for what arrives in order and waits to be read: 5 to 43 (NB18).
    ///
    /// # Returns
    /// The number in use from now on, which is the nearest one in the range, or an error code.
    pub fn SetSocketRxBuffers(&mut self, fd: i32, n: u8) -> i32 {
        self.set_buffers(fd, "rx_buffers", (n, BUFFERS_MIN))
    }

    /// Buffers, not bytes, for what is written and not sent: 5 to 43 (NB22). Returns as
    /// [`SetSocketRxBuffers`](Self::SetSocketRxBuffers).
    pub fn SetSocketTxBuffers(&mut self, fd: i32, n: u8) -> i32 {
        self.set_buffers(fd, "tx_buffers", (n, BUFFERS_MIN))
    }

    /// Buffers for what is sent and not acknowledged: 5 to 43 (NB23). Returns as
    /// [`SetSocketRxBuffers`](Self::SetSocketRxBuffers).
    pub fn SetSocketUnackBuffers(&mut self, fd: i32, n: u8) -> i32 {
        self.set_buffers(fd, "unack_buffers", (n, BUFFERS_MIN))
    }

    /// The older name of [`SetSocketUnackBuffers`](Self::SetSocketUnackBuffers), the only one in
    /// the headers (NB24, D-N10).
    pub fn setsocketackbuffers(&mut self, fd: i32, n: u8) -> i32 {
        self.SetSocketUnackBuffers(fd, n)
    }

    /// Most buffers that hold what arrived behind a gap: 0 to 43; what finds none is dropped and
    /// must be retransmitted (NB19). On a lossy network: one less than the receive buffers (NB20).
    /// Returns as [`SetSocketRxBuffers`](Self::SetSocketRxBuffers).
    pub fn SetOutOfOrderBuffers(&mut self, fd: i32, max: u8) -> i32 {
        self.set_buffers(fd, "out_of_order_buffers", (max, 0))
    }

    fn set_buffers(&mut self, fd: i32, knob: &str, (n, least): (u8, u8)) -> i32 {
        let Some(id) = self.sockets.id(fd) else {
            return TCP_ERR_NOSUCH_SOCKET;
        };
        let n = n.clamp(least, BUFFERS_MAX);
        match self
            .host
            .set(self.now, id, knob, &KnobValue::Number(n.into()))
        {
            Ok(()) => n.into(),
            Err(_) => TCP_ERR_NOSUCH_SOCKET,
        }
    }

    /// Free buffers of the pool (NB11); 65535 on a host without a pool.
    #[must_use]
    pub fn GetFreeCount(&self) -> u16 {
        let pool = self.host.pool();
        match pool.buffers {
            0 => u16::MAX,
            _ => u16::try_from(pool.free).unwrap_or(u16::MAX),
        }
    }

    /// Latest error of a socket; 0 if there was none.
    pub fn getsocketerror(&self, fd: i32) -> i32 {
        let Some(entry) = self.sockets.entry(fd) else {
            return TCP_ERR_NOSUCH_SOCKET;
        };
        let failure = self.host.failure(entry.id).map(codes::of_failure);
        failure.unwrap_or(entry.error)
    }

    /// The peer's address.
    pub fn GetSocketRemoteAddr(&self, fd: i32) -> Option<IpAddr> {
        self.remote(fd).map(|end| end.ip())
    }

    /// The peer's port; 0 where there is none.
    pub fn GetSocketRemotePort(&self, fd: i32) -> u16 {
        self.remote(fd).map_or(0, |end| end.port())
    }

    /// The port of this side; 0 where there is none.
    pub fn GetSocketLocalPort(&self, fd: i32) -> u16 {
        self.local(fd).map_or(0, |end| end.port())
    }

    /// The address of this side.
    pub fn GetSocketLocalAddr(&self, fd: i32) -> Option<IpAddr> {
        self.local(fd).map(|end| end.ip())
    }

    fn remote(&self, fd: i32) -> Option<SocketAddr> {
        self.host.remote_addr(self.sockets.id(fd)?)
    }

    fn local(&self, fd: i32) -> Option<SocketAddr> {
        self.host.local_addr(self.sockets.id(fd)?)
    }

    /// State of a socket, 0 to 11 (NB46); also 0 for anything that is not a socket. A closed one
    /// has no number: [`socket_states`](Self::socket_states) shows it as long as it exists.
    pub fn TcpGetSocketState(&self, fd: i32) -> i32 {
        match self.sockets.entry(fd) {
            None => TCP_STATE_CLOSED,
            Some(entry) if entry.is_listener => TCP_STATE_LISTEN,
            Some(entry) => self.state(entry.id),
        }
    }

    /// Every connection of the host with its state: those too that wait for accept (4), and those
    /// that were closed and are not over yet.
    #[must_use]
    pub fn socket_states(&self) -> Vec<(SocketId, i32)> {
        let connections = self
            .host
            .sockets()
            .filter(|id| self.host.settings(*id).is_some());
        connections.map(|id| (id, self.state(id))).collect()
    }

    fn state(&self, id: SocketId) -> i32 {
        let state = self.host.sample(self.now, id).and_then(|flow| flow.state);
        let is_unaccepted = self.host.is_unaccepted(id);
        state.map_or(TCP_STATE_CLOSED, |state| {
            codes::of_state(state, is_unaccepted)
        })
    }

    /// Segments that this socket retransmitted (NB52), or an error code.
    pub fn GetTcpRtxCount(&self, fd: i32) -> i32 {
        let Some(id) = self.sockets.id(fd) else {
            return TCP_ERR_NOSUCH_SOCKET;
        };
        let flow = self.host.sample(self.now, id);
        let again = flow.and_then(|flow| flow.retrans_total_pkts).unwrap_or(0);
        i32::try_from(again).unwrap_or(i32::MAX)
    }

    /// Sends a segment that the peer must answer, whatever else is sent (NB51). With
    /// [`TcpGetLastRxInterval`](Self::TcpGetLastRxInterval) programs build their own keepalive.
    pub fn TcpSendKeepAlive(&mut self, fd: i32) -> i32 {
        match self.sockets.id(fd) {
            Some(id) => {
                self.host.send_keepalive(self.now, id);
                TCP_ERR_NORMAL
            }
            None => TCP_ERR_NOSUCH_SOCKET,
        }
    }

    /// The tick in which something came from the peer last; 0 where nothing ever did.
    pub fn TcpGetLastRxTime(&self, fd: i32) -> u32 {
        self.last_received(fd).map_or(0, ticks)
    }

    /// Ticks since something came from the peer; 0 where nothing ever did.
    pub fn TcpGetLastRxInterval(&self, fd: i32) -> u32 {
        let last = self.last_received(fd).map(ticks);
        last.map_or(0, |last| ticks(self.now).saturating_sub(last))
    }

    fn last_received(&self, fd: i32) -> Option<Instant> {
        let flow = self.host.sample(self.now, self.sockets.id(fd)?)?;
        let since = [flow.since_data_received, flow.since_ack_received];
        let since = since.into_iter().flatten().min()?;
        Some(self.now - since)
    }

    /// Result of a call that must wait, or has timed out.
    pub(super) fn wait(&mut self, call: Blocking, fd: i32, timeout: u16) -> Call {
        let until = (timeout > 0).then(|| self.now + TICK * u32::from(timeout));
        match self.sockets.wait(self.now, self.task, (call, fd), until) {
            true => Poll::Pending,
            false => self.done(fd, TCP_ERR_TIMEOUT),
        }
    }

    /// Result of a completed call.
    fn done(&mut self, fd: i32, result: i32) -> Call {
        self.sockets.go_on(self.task);
        if let Some(entry) = self.sockets.entry_mut(fd).filter(|_| result < 0) {
            entry.error = result;
        }
        Poll::Ready(result)
    }
}

/// A count as these calls return it.
fn count(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}
