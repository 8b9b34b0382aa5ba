//! The example programs "TCP Speed Test" and "TCP Stress Test" of that system (experiments N10,
//! NB62, NB63), written anew from what is known of their traffic.

use core::cell::Cell;
use core::net::IpAddr;
use core::task::Poll;
use core::time::Duration;
use std::rc::Rc;

use base::{Instant, Rate};
use link::LinkSpec;
use stack::profile;

use super::super::{Figures, Probe};
use super::path::{AnyTask, DEVICE, PEER, Site, link, wan};
use crate::netburner::{FdSet, Netburner, SO_NOPUSH, Task, Turn};

const SPEED_PORT: u16 = 1234;
const STRESS_PORT: u16 = 10_000;
/// For this long the other side reads.
const READ_TIME: Duration = Duration::from_secs(3);
/// Connections of the accept and of the connect test.
const CONNECTIONS: u32 = 50;
/// Bytes that are echoed one by one.
const ECHOES: u32 = 200;
/// Time for which the program waits for the starting byte: 10 s.
const START_TICKS: u16 = 200;

pub(in crate::probe) const SPEED: Probe = Probe {
    name: "netburner-speed",
    about: "The speed test: 20 buffers, NOPUSH, 1460 bytes per write, on a LAN and a WAN.",
    figures: &[
        "lan_bytes",
        "lan_ticks",
        "lan_bps",
        "wan_bytes",
        "wan_ticks",
        "wan_bps",
    ],
    run: Some(run_speed),
    run_on_kernel: None,
};

pub(in crate::probe) const STRESS: Probe = Probe {
    name: "netburner-stress",
    about: "The stress test: accepts, connects, echoes of a byte, and bulk with 40 buffers.",
    figures: &[
        "lan_accepts_per_second",
        "lan_connects_per_second",
        "lan_responses_per_second",
        "lan_select_responses_per_second",
        "lan_bulk_bps",
        "wan_accepts_per_second",
        "wan_connects_per_second",
        "wan_responses_per_second",
        "wan_select_responses_per_second",
        "wan_bulk_bps",
    ],
    run: Some(run_stress),
    run_on_kernel: None,
};

/// `nb-lan`.
fn lan() -> LinkSpec {
    LinkSpec {
        overhead_bytes: 38,
        ..link(
            Rate::from_bits_per_second(100_000_000),
            Duration::from_micros(400),
        )
    }
}

fn run_speed(seed: u64) -> Figures {
    let mut figures = Figures::new();
    for (link, [bytes, ticks, rate]) in [
        (lan(), ["lan_bytes", "lan_ticks", "lan_bps"]),
        (wan(), ["wan_bytes", "wan_ticks", "wan_bps"]),
    ] {
        let done = flood(SPEED_PORT, (20, 20, 1460), &link, seed);
        figures.insert(bytes, done.count as f64);
        figures.insert(ticks, done.ticks.into());
        figures.insert(rate, 8.0 * done.count as f64 / done.seconds);
    }
    figures
}

fn run_stress(seed: u64) -> Figures {
    let mut figures = Figures::new();
    let [lan_names, wan_names] = [0, 5].map(|first| &STRESS.figures[first..first + 5]);
    for (link, names) in [(lan(), lan_names), (wan(), wan_names)] {
        let results = [
            visits(true, &link, seed).per_second(),
            visits(false, &link, seed).per_second(),
            echoes(false, &link, seed).per_second(),
            echoes(true, &link, seed).per_second(),
            8.0 * flood(STRESS_PORT, (5, 40, 3 * 1460), &link, seed).per_second(),
        ];
        figures.extend(names.iter().copied().zip(results));
    }
    figures
}

/// Counters and duration of a task.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    count: u64,
    ticks: u32,
    seconds: f64,
}

impl Done {
    fn per_second(self) -> f64 {
        self.count as f64 / self.seconds
    }

    fn since(began: Instant, count: u64, system: &Netburner<'_>) -> Self {
        let ticks = crate::netburner::TICK.as_nanos() as u64;
        Self {
            count,
            ticks: system.ticks() - u32::try_from(began.as_nanos() / ticks).unwrap_or(0),
            seconds: system.now().since(began).as_secs_f64(),
        }
    }
}

/// Runs two tasks; what the one that counts has noted.
fn pair(
    device: impl Task + 'static,
    peer: impl Task + 'static,
    done: &Rc<Cell<Done>>,
    (link, seed): (&LinkSpec, u64),
) -> Done {
    let boxed = |task: AnyTask| vec![task];
    let mut site = Site::new(
        (profile::netburner(), boxed(Box::new(device))),
        (profile::textbook(), boxed(Box::new(peer))),
        link,
        seed,
    );
    site.run();
    done.get()
}

/// The next connection of a listener at `fd`, which begins with the first call.
fn next_connection(
    system: &mut Netburner<'_>,
    listener: &mut i32,
    end: (IpAddr, u16),
) -> Option<i32> {
    if *listener == 0 {
        *listener = system.listen(end.0, end.1, 5);
    }
    let (mut address, mut port) = end;
    match system.accept(*listener, &mut address, &mut port, 0) {
        Poll::Ready(fd @ 1..) => Some(fd),
        _ => None,
    }
}

/// The device writes this many bytes at a time until its peer is gone; the peer reads for a while.
fn flood(
    port: u16,
    (tx, unacked, write_bytes): (u8, u8, usize),
    link: &LinkSpec,
    seed: u64,
) -> Done {
    let done = Rc::new(Cell::default());
    let device = Flood {
        port,
        tx,
        unacked,
        data: vec![7; write_bytes],
        listener: 0,
        fd: 0,
        began: None,
        written: 0,
        done: Rc::clone(&done),
    };
    let peer = Reader {
        port,
        fd: 0,
        until: None,
    };
    pair(device, peer, &done, (link, seed))
}

#[derive(Debug)]
struct Flood {
    port: u16,
    tx: u8,
    unacked: u8,
    data: Vec<u8>,
    listener: i32,
    fd: i32,
    began: Option<Instant>,
    written: u64,
    done: Rc<Cell<Done>>,
}

impl Task for Flood {
    fn turn(&mut self, system: &mut Netburner<'_>) -> Turn {
        if self.fd == 0 {
            let Some(fd) = next_connection(system, &mut self.listener, (DEVICE, self.port)) else {
                return Turn::Blocked;
            };
            self.fd = fd;
            system.setsockoption(fd, SO_NOPUSH);
            system.setsocketackbuffers(fd, self.unacked);
            system.SetSocketTxBuffers(fd, self.tx);
        }
        if self.began.is_none() {
            match system.ReadWithTimeout(self.fd, &mut [0], START_TICKS) {
                Poll::Pending => return Turn::Blocked,
                Poll::Ready(n) => assert_eq!(n, 1, "the peer starts it"),
            }
            self.began = Some(system.now());
        }
        match system.write(self.fd, &self.data) {
            Poll::Pending => Turn::Blocked,
            Poll::Ready(n @ 1..) => {
                self.written += n as u64;
                Turn::Again
            }
            Poll::Ready(_) => {
                let began = self.began.unwrap_or(system.now());
                self.done.set(Done::since(began, self.written, system));
                system.close(self.fd);
                system.close(self.listener);
                Turn::Done
            }
        }
    }
}

/// Starts a flood with a byte, reads for a while, and is gone.
#[derive(Debug)]
struct Reader {
    port: u16,
    fd: i32,
    until: Option<Instant>,
}

impl Task for Reader {
    fn turn(&mut self, system: &mut Netburner<'_>) -> Turn {
        if self.fd == 0 {
            let Poll::Ready(fd) = system.connect(DEVICE, 0, self.port, 0) else {
                return Turn::Blocked;
            };
            self.fd = fd;
            assert_eq!(system.write(fd, b"s"), Poll::Ready(1));
        }
        let now = system.now();
        if now >= *self.until.get_or_insert(now + READ_TIME) {
            system.abortsocket(self.fd);
            return Turn::Done;
        }
        let mut buffer = [0; 65_536];
        while let Poll::Ready(1..) = system.read(self.fd, &mut buffer) {}
        Turn::Blocked
    }
}

/// Connections that are opened and closed at once, one after the other: the device takes them, or
/// opens them.
fn visits(device_accepts: bool, link: &LinkSpec, seed: u64) -> Done {
    let done = Rc::new(Cell::default());
    let host = |end| Host {
        end: (end, STRESS_PORT),
        listener: 0,
        fd: 0,
        left: CONNECTIONS,
    };
    let visitor = |to| Visitor {
        to,
        left: CONNECTIONS,
        began: None,
        done: Rc::clone(&done),
    };
    match device_accepts {
        true => pair(host(DEVICE), visitor(DEVICE), &done, (link, seed)),
        false => pair(visitor(PEER), host(PEER), &done, (link, seed)),
    }
}

/// Takes connections and closes each when its peer does.
#[derive(Debug)]
struct Host {
    end: (IpAddr, u16),
    listener: i32,
    fd: i32,
    left: u32,
}

impl Task for Host {
    fn turn(&mut self, system: &mut Netburner<'_>) -> Turn {
        if self.fd == 0 {
            let Some(fd) = next_connection(system, &mut self.listener, self.end) else {
                return Turn::Blocked;
            };
            self.fd = fd;
        }
        match system.read(self.fd, &mut [0]) {
            Poll::Pending => Turn::Blocked,
            Poll::Ready(_) => {
                system.close(core::mem::take(&mut self.fd));
                self.left -= 1;
                match self.left {
                    0 => Turn::Done,
                    _ => Turn::Again,
                }
            }
        }
    }
}

/// Opens connections and closes them, the next one when the peer has closed the last.
#[derive(Debug)]
struct Visitor {
    to: IpAddr,
    left: u32,
    began: Option<Instant>,
    done: Rc<Cell<Done>>,
}

impl Task for Visitor {
    fn turn(&mut self, system: &mut Netburner<'_>) -> Turn {
        let began = *self.began.get_or_insert(system.now());
        if self.left == 0 {
            self.done
                .set(Done::since(began, CONNECTIONS.into(), system));
            return Turn::Done;
        }
        let Poll::Ready(fd) = system.connect(self.to, 0, STRESS_PORT, 0) else {
            return Turn::Blocked;
        };
        assert!(fd > 0, "a program listens: {fd}");
        system.close(fd);
        self.left -= 1;
        Turn::Again
    }
}

/// A byte there and back, one after the other; `X` ends it.
fn echoes(by_select: bool, link: &LinkSpec, seed: u64) -> Done {
    let done = Rc::new(Cell::default());
    let device = Echo {
        by_select,
        listener: 0,
        fd: 0,
    };
    let peer = Asker {
        fd: 0,
        asked: 0,
        answered: 0,
        began: None,
        done: Rc::clone(&done),
    };
    pair(device, peer, &done, (link, seed))
}

/// Sends each byte back.
#[derive(Debug)]
struct Echo {
    by_select: bool,
    listener: i32,
    fd: i32,
}

impl Task for Echo {
    fn turn(&mut self, system: &mut Netburner<'_>) -> Turn {
        if self.fd == 0 {
            let Some(fd) = next_connection(system, &mut self.listener, (DEVICE, STRESS_PORT))
            else {
                return Turn::Blocked;
            };
            self.fd = fd;
        }
        if self.by_select {
            let (mut read, mut write, mut error) =
                (FdSet::from([self.fd]), FdSet::new(), FdSet::new());
            if system
                .select(&mut read, &mut write, &mut error, 0)
                .is_pending()
            {
                return Turn::Blocked;
            }
            assert!(read.contains(&self.fd), "it waits for nothing else");
        }
        let mut byte = [0];
        match system.read(self.fd, &mut byte) {
            Poll::Pending => Turn::Blocked,
            Poll::Ready(1) if byte != *b"X" => {
                assert_eq!(system.write(self.fd, &byte), Poll::Ready(1));
                Turn::Again
            }
            Poll::Ready(_) => {
                system.close(self.fd);
                Turn::Done
            }
        }
    }
}

/// Sends a byte and waits for it to come back.
#[derive(Debug)]
struct Asker {
    fd: i32,
    asked: u32,
    answered: u32,
    began: Option<Instant>,
    done: Rc<Cell<Done>>,
}

impl Task for Asker {
    fn turn(&mut self, system: &mut Netburner<'_>) -> Turn {
        if self.fd == 0 {
            let Poll::Ready(fd) = system.connect(DEVICE, 0, STRESS_PORT, 0) else {
                return Turn::Blocked;
            };
            self.fd = fd;
        }
        // The first answer counts no time: the device opens its window when it accepts.
        if self.asked == self.answered {
            if self.answered == 1 {
                self.began = Some(system.now());
            }
            let is_over = self.answered == ECHOES + 1;
            let byte = if is_over { b"X" } else { b"e" };
            assert_eq!(system.write(self.fd, byte), Poll::Ready(1));
            if is_over {
                let began = self.began.unwrap_or(system.now());
                self.done.set(Done::since(began, ECHOES.into(), system));
                system.close(self.fd);
                return Turn::Done;
            }
            self.asked += 1;
        }
        match system.read(self.fd, &mut [0]) {
            Poll::Pending => Turn::Blocked,
            Poll::Ready(n) => {
                assert_eq!(n, 1, "a byte comes back");
                self.answered += 1;
                Turn::Again
            }
        }
    }
}
