//! Each call against a peer that is a host too, with a wire between them that takes no time.

use core::net::{IpAddr, Ipv4Addr};
use core::task::Poll;
use core::time::Duration;

use base::Instant;
use base::settings::SocketSettings;
use stack::profile::{self, Profile, preset};
use stack::{Host, HostConfig};

use super::*;

const BOARD: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const PORT: u16 = 1234;

/// Two boards and their time. What board 0 sends is lost while `silent`.
struct Pair {
    now: Instant,
    hosts: [Host; 2],
    sockets: [Sockets; 2],
    silent: bool,
}

impl Pair {
    fn new() -> Self {
        Self::of(&profile::netburner())
    }

    fn of(profile: &Profile) -> Self {
        Self {
            now: Instant::ZERO + Duration::from_secs(1),
            hosts: [BOARD, PEER].map(|ip| Host::new(HostConfig::of(profile, ip, 7))),
            sockets: [Sockets::default(), Sockets::default()],
            silent: false,
        }
    }

    /// The system of one of them.
    fn at(&mut self, index: usize) -> Netburner<'_> {
        Netburner::new(&mut self.hosts[index], self.now, &mut self.sockets[index])
    }

    /// Everything that waits to be sent arrives.
    fn carry(&mut self) {
        loop {
            let mut moved = false;
            for (from, to) in [(0, 1), (1, 0)] {
                while let Some(packet) = self.hosts[from].poll_transmit(self.now) {
                    moved = true;
                    if !(self.silent && from == 0) {
                        self.hosts[to].handle_packet(self.now, packet);
                    }
                }
            }
            if !moved {
                return;
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        self.carry();
        let due = |hosts: &mut [Host; 2]| hosts.iter_mut().filter_map(Host::poll_timeout).min();
        while let Some(at) = due(&mut self.hosts).filter(|at| *at <= until) {
            self.now = at;
            self.hosts
                .iter_mut()
                .for_each(|host| host.handle_timeout(at));
            self.carry();
        }
        self.now = until;
    }

    /// A connection from board 0 to board 1: the numbers at both ends.
    fn connect(&mut self) -> (i32, i32) {
        let listener = self.at(1).listen(PEER, PORT, MAXPEND);
        assert!(listener > 0);
        assert_eq!(self.at(0).connect(PEER, 0, PORT, 20), Poll::Pending);
        self.carry();
        let Poll::Ready(client) = self.at(0).connect(PEER, 0, PORT, 20) else {
            panic!("it is established");
        };
        let (mut address, mut port) = (PEER, 0);
        let Poll::Ready(server) = self.at(1).accept(listener, &mut address, &mut port, 0) else {
            panic!("somebody waits");
        };
        assert_eq!(address, BOARD);
        assert!(port > 0x8000, "NB49: {port}");
        self.carry();
        (client, server)
    }
}

fn settings(pair: &Pair, fd: i32) -> SocketSettings {
    let id = pair.sockets[0].id(fd).expect("a socket");
    pair.hosts[0].settings(id).expect("a connection").clone()
}

#[test]
fn numbers_are_those_of_the_headers() {
    assert_eq!([SO_DEBUG, SO_NONAGLE, SO_NOPUSH], [1, 2, 4]);
    let errors = [
        TCP_ERR_NORMAL,
        TCP_ERR_TIMEOUT,
        TCP_ERR_NOCON,
        TCP_ERR_CLOSING,
        TCP_ERR_NOSUCH_SOCKET,
        TCP_ERR_NONE_AVAIL,
        TCP_ERR_CON_RESET,
        TCP_ERR_CON_ABORT,
    ];
    assert_eq!(errors, [0, -1, -2, -3, -4, -5, -6, -7]);
    let states = [
        TCP_STATE_CLOSED,
        TCP_STATE_LISTEN,
        TCP_STATE_SYN_SENT,
        TCP_STATE_SYN_RCVD,
        TCP_STATE_WAIT_FOR_ACCEPT,
        TCP_STATE_ESTABLISHED,
        TCP_STATE_CLOSE_WAIT,
        TCP_STATE_LAST_ACK,
        TCP_STATE_FIN_WAIT_1,
        TCP_STATE_FIN_WAIT_2,
        TCP_STATE_CLOSING,
        TCP_STATE_TIME_WAIT,
    ];
    assert!(states.iter().copied().eq(0..12));
    assert_eq!(TICK, Duration::from_millis(50));
    // D-N3, D-N4.
    let window_max = u32::from(u16::MAX);
    assert_eq!(u32::from(BUFFERS_MAX) * 1460, 62_780);
    assert_eq!(
        (65_536 / 1500, window_max / 1460),
        (u32::from(BUFFERS_MAX), 44)
    );
}

/// Every call on an invalid socket number.
#[test]
fn no_socket_is_an_error_everywhere() {
    let mut pair = Pair::new();
    let mut nb = pair.at(0);
    let wrong = Poll::Ready(TCP_ERR_NOSUCH_SOCKET);
    let (mut address, mut port) = (PEER, 0);
    assert_eq!(nb.accept(9, &mut address, &mut port, 0), wrong);
    assert_eq!(nb.read(9, &mut [0]), wrong);
    assert_eq!(nb.ReadWithTimeout(9, &mut [0], 1), wrong);
    assert_eq!(nb.write(9, b"x"), wrong);
    assert_eq!(nb.writeall(9, b"x"), wrong);
    let codes = [
        nb.close(9),
        nb.abortsocket(9),
        nb.dataavail(9),
        nb.setsockoption(9, SO_NONAGLE),
        nb.clrsockoption(9, SO_NONAGLE),
        nb.getsockoption(9),
        nb.SetSocketRxBuffers(9, 20),
        nb.SetSocketTxBuffers(9, 20),
        nb.SetSocketUnackBuffers(9, 20),
        nb.setsocketackbuffers(9, 20),
        nb.SetOutOfOrderBuffers(9, 19),
        nb.getsocketerror(9),
        nb.GetTcpRtxCount(9),
        nb.TcpSendKeepAlive(9),
    ];
    assert_eq!(codes, [TCP_ERR_NOSUCH_SOCKET; 14]);
    assert_eq!(nb.TcpGetSocketState(9), TCP_STATE_CLOSED);
    assert_eq!((nb.TcpGetLastRxTime(9), nb.TcpGetLastRxInterval(9)), (0, 0));
    assert_eq!(
        (nb.GetSocketRemoteAddr(9), nb.GetSocketRemotePort(9)),
        (None, 0)
    );
    assert_eq!(
        (nb.GetSocketLocalAddr(9), nb.GetSocketLocalPort(9)),
        (None, 0)
    );
    assert_eq!(nb.left(9, 5), 5);
    assert_eq!(nb.GetFreeCount(), 256);
}

#[test]
fn a_connection_goes_through_its_states() {
    let mut pair = Pair::new();
    let listener = pair.at(1).listen(PEER, PORT, MAXPEND);
    assert_eq!(pair.at(1).TcpGetSocketState(listener), TCP_STATE_LISTEN);
    let _ = pair.at(0).connect(PEER, 0, PORT, 0);
    let states = |pair: &mut Pair, index| -> Vec<i32> {
        let all = pair.at(index).socket_states();
        all.into_iter().map(|(_, state)| state).collect()
    };
    assert_eq!(states(&mut pair, 0), [TCP_STATE_SYN_SENT]);
    let syn = pair.hosts[0].poll_transmit(pair.now).expect("a SYN");
    pair.hosts[1].handle_packet(pair.now, syn);
    assert_eq!(states(&mut pair, 1), [TCP_STATE_SYN_RCVD]);
    pair.carry();
    assert_eq!(states(&mut pair, 1), [TCP_STATE_WAIT_FOR_ACCEPT]);
    let Poll::Ready(client) = pair.at(0).connect(PEER, 0, PORT, 0) else {
        panic!("it is established");
    };
    // NB46: nothing may be sent before the connection was accepted.
    let _ = pair.at(0).write(client, b"early");
    pair.carry();
    assert_eq!(pair.hosts[1].pool().free, 256);
    let (mut address, mut port) = (PEER, 0);
    let Poll::Ready(server) = pair.at(1).accept(listener, &mut address, &mut port, 0) else {
        panic!("somebody waits");
    };
    pair.carry();
    assert_eq!(pair.at(1).TcpGetSocketState(server), TCP_STATE_ESTABLISHED);
    assert_eq!(pair.at(1).dataavail(server), 5);
    assert_eq!(pair.at(0).close(client), TCP_ERR_NORMAL);
    pair.carry();
    assert_eq!(pair.at(1).TcpGetSocketState(server), TCP_STATE_CLOSE_WAIT);
    assert_eq!(states(&mut pair, 0), [TCP_STATE_FIN_WAIT_2]);
    let mut buffer = [0; 10];
    assert_eq!(pair.at(1).read(server, &mut buffer), Poll::Ready(5));
    assert_eq!(&buffer[..5], b"early");
    assert_eq!(
        pair.at(1).read(server, &mut buffer),
        Poll::Ready(0),
        "the end"
    );
    assert_eq!(pair.at(1).close(server), TCP_ERR_NORMAL);
    assert_eq!(states(&mut pair, 1), [TCP_STATE_LAST_ACK]);
    pair.carry();
    assert!(states(&mut pair, 1).is_empty());
    assert_eq!(pair.at(1).close(listener), TCP_ERR_NORMAL);
    assert_eq!(pair.at(1).TcpGetSocketState(listener), TCP_STATE_CLOSED);
}

#[test]
fn option_calls_are_bit_masks() {
    let mut pair = Pair::new();
    let (client, _) = pair.connect();
    let mut nb = pair.at(0);
    assert_eq!(nb.getsockoption(client), 0, "NB33: PUSH and Nagle are on");
    assert_eq!(
        nb.setsockoption(client, SO_NONAGLE | SO_NOPUSH),
        TCP_ERR_NORMAL
    );
    assert_eq!(nb.getsockoption(client), 6);
    assert_eq!(nb.clrsockoption(client, SO_NONAGLE), TCP_ERR_NORMAL);
    assert_eq!(nb.getsockoption(client), 4);
    nb.setsockoption(client, SO_DEBUG);
    nb.clrsockoption(client, SO_NOPUSH);
    assert_eq!(nb.getsockoption(client), 1);
    nb.setsockoption(client, 0);
    assert_eq!(nb.getsockoption(client), 1);
    assert_eq!(
        nb.clrsockoption(client, SO_DEBUG | SO_NONAGLE | SO_NOPUSH),
        0
    );
    assert_eq!(nb.getsockoption(client), 0);
}

/// NB34, NB35, NB20, NB64: the calls of the recipes and the presets are the same.
#[test]
fn recipes_and_presets_agree() {
    type Calls = fn(&mut Netburner<'_>, i32);
    type Change = fn(&mut SocketSettings);
    let check = |calls: Calls, change: Change| {
        let mut pair = Pair::new();
        let (client, _) = pair.connect();
        let mut expected = settings(&pair, client);
        change(&mut expected);
        calls(&mut pair.at(0), client);
        assert_eq!(settings(&pair, client), expected);
    };
    let fast: Calls = |nb, fd| {
        nb.setsockoption(fd, SO_NONAGLE);
        nb.clrsockoption(fd, SO_NOPUSH);
    };
    check(fast, preset::interactive);
    let much: Calls = |nb, fd| {
        nb.clrsockoption(fd, SO_NONAGLE);
        nb.setsockoption(fd, SO_NOPUSH);
    };
    check(much, preset::bulk);
    check(|_, _| {}, preset::balanced);
    let buffers = |nb: &mut Netburner<'_>, fd, n| {
        nb.SetSocketRxBuffers(fd, n);
        nb.SetSocketTxBuffers(fd, n);
        nb.SetSocketUnackBuffers(fd, n);
    };
    for n in [5, 15, 20, 40, 43] {
        let mut pair = Pair::new();
        let (client, _) = pair.connect();
        let mut expected = settings(&pair, client);
        preset::netburner(&mut expected, n.into(), true);
        buffers(&mut pair.at(0), client, n);
        pair.at(0).SetOutOfOrderBuffers(client, n - 1);
        assert_eq!(settings(&pair, client), expected, "{n}");
    }
}

/// 5 to 43, and what is beyond counts as the nearest end (NB15, NB18, NB19, NB22, NB23).
#[test]
fn buffers_stay_in_their_range() {
    type Set = fn(&mut Netburner<'_>, i32, u8) -> i32;
    type Get = fn(&SocketSettings) -> Option<u32>;
    let table: [(Set, Get, i32); 5] = [
        (
            |nb, fd, n| nb.SetSocketRxBuffers(fd, n),
            |s| s.recv.buffer.fixed,
            5,
        ),
        (
            |nb, fd, n| nb.SetSocketTxBuffers(fd, n),
            |s| s.send.buffer.fixed,
            5,
        ),
        (
            |nb, fd, n| nb.SetSocketUnackBuffers(fd, n),
            |s| s.send.unacked_budget,
            5,
        ),
        (
            |nb, fd, n| nb.setsocketackbuffers(fd, n),
            |s| s.send.unacked_budget,
            5,
        ),
        (
            |nb, fd, n| nb.SetOutOfOrderBuffers(fd, n),
            |s| s.recv.out_of_order_budget,
            0,
        ),
    ];
    let mut pair = Pair::new();
    let (client, _) = pair.connect();
    for (set, get, least) in table {
        for (n, expected) in [(20, 20), (0, least), (4, least.max(4)), (44, 43), (255, 43)] {
            assert_eq!(set(&mut pair.at(0), client, n), expected, "{n}");
            let bytes = get(&settings(&pair, client));
            assert_eq!(bytes, Some(expected as u32 * 1460), "{n}");
        }
    }
}

/// N8: write takes what there are buffers for, writeall goes on until all is buffered.
#[test]
fn a_write_is_cut_where_the_buffers_end() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect();
    let data = vec![1; 20_000];
    pair.silent = true;
    // 5 leave at once, and stay on the other list; 5 more wait.
    assert_eq!(pair.at(0).write(client, &data), Poll::Ready(5 * 1460));
    assert_eq!(pair.at(0).write(client, &data), Poll::Ready(5 * 1460));
    assert_eq!(pair.at(0).GetFreeCount(), 246);
    // NB58: 10 s later it gives up.
    assert_eq!(pair.at(0).write(client, &data), Poll::Pending);
    pair.pass(Duration::from_millis(9_999));
    assert_eq!(pair.at(0).write(client, &data), Poll::Pending);
    pair.pass(Duration::from_millis(1));
    assert_eq!(
        pair.at(0).write(client, &data),
        Poll::Ready(TCP_ERR_TIMEOUT)
    );
    assert_eq!(pair.at(0).getsocketerror(client), TCP_ERR_TIMEOUT);
    assert!(pair.at(0).GetTcpRtxCount(client) > 0);
    pair.silent = false;
    let mut sent = 0;
    let mut lefts = std::collections::BTreeSet::new();
    for _ in 0..100 {
        pair.pass(Duration::from_millis(300));
        while let Poll::Ready(n @ 1..) = pair.at(1).read(server, &mut [0; 1460]) {
            sent += n;
        }
        if let Poll::Ready(n) = pair.at(0).writeall(client, &data) {
            assert_eq!(n, 20_000);
            break;
        }
        let left = pair.at(0).left(client, data.len());
        assert!(left > 0);
        lefts.insert(left);
    }
    assert!(lefts.len() > 2, "in several steps: {lefts:?}");
    for _ in 0..100 {
        pair.pass(Duration::from_millis(300));
        while let Poll::Ready(n @ 1..) = pair.at(1).read(server, &mut [0; 1460]) {
            sent += n;
        }
    }
    assert_eq!(sent, 10 * 1460 + 20_000);
    assert_eq!(pair.at(0).left(client, 7), 7);
    assert_eq!(pair.at(0).GetFreeCount(), 256);
}

/// NB37: an error is told by the next call, whatever call that is.
#[test]
fn a_reset_is_told_by_the_next_call() {
    let check = |call: fn(&mut Netburner<'_>, i32) -> Call| {
        let mut pair = Pair::new();
        let (client, server) = pair.connect();
        assert_eq!(pair.at(0).writeall(client, &[1; 100]), Poll::Ready(100));
        assert_eq!(pair.at(1).abortsocket(server), TCP_ERR_NORMAL);
        pair.carry();
        assert_eq!(
            call(&mut pair.at(0), client),
            Poll::Ready(TCP_ERR_CON_RESET)
        );
        assert_eq!(pair.at(0).getsocketerror(client), TCP_ERR_CON_RESET);
        assert_eq!(pair.at(0).TcpGetSocketState(client), TCP_STATE_CLOSED);
        assert_eq!(pair.at(0).close(client), TCP_ERR_NORMAL);
        assert_eq!(
            pair.at(0).read(client, &mut [0]),
            Poll::Ready(TCP_ERR_NOSUCH_SOCKET)
        );
    };
    check(|nb, fd| nb.write(fd, b"x"));
    check(|nb, fd| nb.writeall(fd, b"x"));
    check(|nb, fd| nb.read(fd, &mut [0]));
}

#[test]
fn timeouts_are_in_ticks() {
    let mut pair = Pair::new();
    let (client, _) = pair.connect();
    let listener = pair.at(0).listen(BOARD, 80, 5);
    let check = |pair: &mut Pair, over: i32, call: &dyn Fn(&mut Netburner<'_>, u16) -> Call| {
        assert_eq!(call(&mut pair.at(0), 0), Poll::Pending, "for ever");
        pair.pass(Duration::from_secs(3600));
        assert_eq!(call(&mut pair.at(0), 0), Poll::Pending);
        // Another call is between them, so that this one begins anew.
        let _ = pair.at(0).write(client, b"");
        assert_eq!(call(&mut pair.at(0), 20), Poll::Pending);
        pair.pass(Duration::from_millis(999));
        assert_eq!(call(&mut pair.at(0), 20), Poll::Pending);
        pair.pass(Duration::from_millis(1));
        assert_eq!(call(&mut pair.at(0), 20), Poll::Ready(over));
    };
    check(&mut pair, TCP_ERR_TIMEOUT, &|nb, ticks| {
        nb.ReadWithTimeout(client, &mut [0], ticks)
    });
    check(&mut pair, TCP_ERR_TIMEOUT, &|nb, ticks| {
        nb.accept(listener, &mut { PEER }, &mut 0, ticks)
    });
    check(&mut pair, 0, &|nb, ticks| {
        nb.select(
            &mut [client].into(),
            &mut [].into(),
            &mut [client].into(),
            ticks,
        )
    });
}

#[test]
fn nobody_is_where_a_connection_goes() {
    let mut pair = Pair::new();
    // No listener there: the peer refuses.
    assert_eq!(pair.at(0).connect(PEER, 0, 99, 0), Poll::Pending);
    pair.carry();
    assert_eq!(
        pair.at(0).connect(PEER, 0, 99, 0),
        Poll::Ready(TCP_ERR_NOCON)
    );
    // No answer: the call times out.
    pair.silent = true;
    assert_eq!(pair.at(0).connect(PEER, 4000, PORT, 40), Poll::Pending);
    pair.pass(Duration::from_secs(2));
    assert_eq!(
        pair.at(0).connect(PEER, 4000, PORT, 40),
        Poll::Ready(TCP_ERR_TIMEOUT)
    );
    // Without any time of its own it is 75 s (NB58).
    assert_eq!(pair.at(0).connect(PEER, 4000, PORT, 0), Poll::Pending);
    pair.pass(Duration::from_millis(74_999));
    assert_eq!(pair.at(0).connect(PEER, 4000, PORT, 0), Poll::Pending);
    pair.pass(Duration::from_millis(1));
    assert_eq!(
        pair.at(0).connect(PEER, 4000, PORT, 0),
        Poll::Ready(TCP_ERR_TIMEOUT)
    );
    assert_eq!(pair.hosts[0].sockets().count(), 0);
    // A port is taken, an address is unused.
    assert!(pair.at(0).listen(BOARD, 80, 5) > 0);
    assert_eq!(pair.at(0).listen(BOARD, 80, 5), TCP_ERR_NONE_AVAIL);
    assert_eq!(pair.at(0).listen(PEER, 80, 5), TCP_ERR_NOCON);
}

#[test]
fn a_program_builds_its_own_keepalive() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect();
    assert_eq!(pair.at(1).write(server, b"hello"), Poll::Ready(5));
    pair.carry();
    let began = pair.at(0).ticks();
    assert_eq!(pair.at(0).TcpGetLastRxTime(client), began);
    pair.pass(Duration::from_secs(10));
    assert_eq!(pair.at(0).TcpGetLastRxInterval(client), 200);
    // The peer must answer.
    assert_eq!(pair.at(0).TcpSendKeepAlive(client), TCP_ERR_NORMAL);
    pair.carry();
    assert_eq!(pair.at(0).TcpGetLastRxInterval(client), 0);
    assert_eq!(pair.at(0).TcpGetLastRxTime(client), began + 200);
    // A peer that is gone does not.
    pair.silent = true;
    pair.pass(Duration::from_secs(10));
    pair.at(0).TcpSendKeepAlive(client);
    pair.carry();
    assert_eq!(pair.at(0).TcpGetLastRxInterval(client), 200);
}

#[test]
fn addresses_and_ports_of_both_ends() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect();
    let local = pair.at(0).GetSocketLocalPort(client);
    assert_eq!(pair.at(0).GetSocketLocalAddr(client), Some(BOARD));
    assert_eq!(pair.at(0).GetSocketRemoteAddr(client), Some(PEER));
    assert_eq!(pair.at(0).GetSocketRemotePort(client), PORT);
    assert_eq!(pair.at(1).GetSocketLocalPort(server), PORT);
    assert_eq!(pair.at(1).GetSocketRemotePort(server), local);
    let id = pair.sockets[0].id(client).expect("a socket");
    assert_eq!(pair.sockets[0].number(id), Some(client));
    assert_eq!(
        pair.at(0).host().local_addr(id).map(|end| end.port()),
        Some(local)
    );
    // A port of one's own choice.
    assert_eq!(pair.at(0).connect(PEER, 777, PORT, 0), Poll::Pending);
    pair.carry();
    let Poll::Ready(second) = pair.at(0).connect(PEER, 777, PORT, 0) else {
        panic!("it is established");
    };
    assert_eq!(pair.at(0).GetSocketLocalPort(second), 777);
}

#[test]
fn select_tells_what_may_be_done() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect();
    let select = |nb: &mut Netburner<'_>, fd: i32| {
        let mut sets = [[fd].into(), [fd].into(), [fd].into()];
        let [read, write, error]: &mut [FdSet; 3] = &mut sets;
        let count = nb.select(read, write, error, 0);
        (count, sets.map(|set| set.contains(&fd)))
    };
    let writable = (Poll::Ready(1), [false, true, false]);
    assert_eq!(select(&mut pair.at(0), client), writable);
    let _ = pair.at(1).write(server, b"x");
    pair.carry();
    assert_eq!(
        select(&mut pair.at(0), client),
        (Poll::Ready(2), [true, true, false])
    );
    // A full buffer.
    pair.silent = true;
    for _ in 0..2 {
        let _ = pair.at(0).write(client, &[0; 9_000]);
    }
    pair.carry();
    let _ = pair.at(0).read(client, &mut [0]);
    let mut sets = [
        FdSet::from([client]),
        FdSet::from([client]),
        FdSet::from([client]),
    ];
    let [read, write, error] = &mut sets;
    assert_eq!(pair.at(0).select(read, write, error, 0), Poll::Pending);
    pair.silent = false;
    pair.at(1).abortsocket(server);
    pair.carry();
    assert_eq!(
        select(&mut pair.at(0), client),
        (Poll::Ready(2), [true, false, true])
    );
    // A listener is readable when a connection waits.
    let listener = pair.at(0).listen(BOARD, 80, 5);
    let mut read = FdSet::from([listener, 99]);
    let (mut none, mut nobody) = (FdSet::new(), FdSet::new());
    assert_eq!(
        pair.at(0).select(&mut read, &mut none, &mut nobody, 0),
        Poll::Pending
    );
    let _ = pair.at(1).connect(BOARD, 0, 80, 0);
    pair.carry();
    assert_eq!(
        pair.at(0).select(&mut read, &mut none, &mut nobody, 0),
        Poll::Ready(1)
    );
    assert_eq!(read, FdSet::from([listener]));
}

/// NB59, NB60: the system of 2009 has 3 buffers and 32 sockets.
#[test]
fn the_system_of_2009_has_32_sockets() {
    let mut pair = Pair::of(&profile::netburner_2009());
    pair.at(1).listen(PEER, PORT, 60);
    let mut opened = 0;
    let refused = loop {
        if let Poll::Ready(code) = pair.at(0).connect(PEER, 5000 + opened, PORT, 0) {
            break code;
        }
        opened += 1;
        assert!(opened < 100, "without end");
    };
    assert_eq!((opened, refused), (32, TCP_ERR_NONE_AVAIL));
}

/// A host of another kind has no pool to run out of.
#[test]
fn a_host_without_a_pool_never_runs_out() {
    let mut pair = Pair::of(&profile::textbook());
    assert_eq!(pair.at(0).GetFreeCount(), u16::MAX);
}
