//! Clients that hang, and the pool of buffers that they empty (experiments N6, NB12, NB38).

use core::task::Poll;
use core::time::Duration;

use base::Limit;
use stack::{SocketId, profile};

use super::super::{Figures, Probe};
use super::wire::{BOARD, PEERS, PORT, Wire};
use crate::netburner::MAXPEND;

/// Clients that will hang.
const HUNG: usize = 60;
/// Longer than all retransmissions take.
const GIVEN_UP_MAX: Duration = Duration::from_secs(4 * 3600);

pub(in crate::probe) const POOL: Probe = Probe {
    name: "netburner-pool",
    about: "60 clients hang, and their buffers empty the pool of the device.",
    figures: &[
        "free_at_start",
        "held_by_each",
        "free_after_25",
        "free_after_26",
        "free_after_60",
        "culprits",
        "held_by_culprits",
        "limit_is_pool",
        "new_connections",
        "acked_bytes",
        "free_after_abort",
        "new_connections_after_abort",
        "acked_bytes_after_abort",
        "low_watermark",
        "given_up_after_us",
        "free_after_giving_up",
        "new_connections_after_giving_up",
        "free_after_51_with_5",
        "free_after_52_with_5",
    ],
    run: Some(run),
    run_on_kernel: None,
};

fn run(seed: u64) -> Figures {
    let mut figures = Figures::new();
    let mut crowd = Crowd::new(seed);
    crowd.hang(&mut figures);
    crowd.probe_empty_pool(&mut figures);
    crowd.abort(&mut figures);

    let mut crowd = Crowd::new(seed);
    crowd.hang(&mut Figures::new());
    crowd.wait(&mut figures);

    let mut crowd = Crowd::new(seed);
    // As much as stays on the list of what is not acknowledged, and no more.
    for (index, name) in [(51, "free_after_51_with_5"), (52, "free_after_52_with_5")] {
        crowd.fill(index, 5 * 1460);
        figures.insert(name, crowd.free());
    }
    figures
}

/// A board with a listener, one client that lives, and clients that hang.
struct Crowd {
    wire: Wire,
    /// The surviving connection: its peer's socket and the board's number.
    live: (SocketId, i32),
    /// The board's numbers of those that hang.
    hung: Vec<i32>,
    /// How many of them have got all that they could.
    filled: usize,
}

impl Crowd {
    fn new(seed: u64) -> Self {
        let mut wire = Wire::new(&profile::netburner(), seed);
        let listener = wire.system().listen(BOARD, PORT, MAXPEND);
        let live = open(&mut wire, listener).expect("the pool is full");
        let hung: Vec<i32> = (0..HUNG)
            .map(|_| {
                let (peer, fd) = open(&mut wire, listener).expect("the pool is full");
                wire.hang(peer);
                fd
            })
            .collect();
        Self {
            hung,
            live,
            filled: 0,
            wire,
        }
    }

    fn free(&mut self) -> f64 {
        self.wire.system().GetFreeCount().into()
    }

    /// Writes to clients that hang, up to this one, until nothing more is taken of `bytes` each.
    fn fill(&mut self, count: usize, bytes: usize) {
        while self.filled < count {
            let fd = self.hung[self.filled];
            let mut left = bytes;
            while let Poll::Ready(n @ 1..) = self.wire.system().write(fd, &vec![7; left]) {
                left -= n as usize;
            }
            self.wire.carry();
            self.filled += 1;
        }
    }

    /// 20 KB for each, of which its buffers take 10.
    fn hang(&mut self, figures: &mut Figures) {
        figures.insert("free_at_start", self.free());
        self.fill(1, 20_480);
        figures.insert("held_by_each", 256.0 - self.free());
        for (count, name) in [
            (25, "free_after_25"),
            (26, "free_after_26"),
            (HUNG, "free_after_60"),
        ] {
            self.fill(count, 20_480);
            figures.insert(name, self.free());
        }
    }

    /// No peer gets through any more, and the device knows why.
    fn probe_empty_pool(&mut self, figures: &mut Figures) {
        let pool = self.wire.board.pool();
        let hung: Vec<SocketId> = self.hung.iter().map(|fd| self.wire.id(*fd)).collect();
        let culprits = pool.by_owner.iter();
        let culprits = culprits.filter(|owner| hung.contains(&owner.socket));
        let held: u32 = culprits
            .clone()
            .map(|owner| owner.received + owner.sent)
            .sum();
        figures.insert("culprits", culprits.count() as f64);
        figures.insert("held_by_culprits", held.into());

        let (peer, fd) = self.live;
        assert_eq!(self.wire.system().write(fd, b"x"), Poll::Pending);
        let limit = self.wire.board.limit(self.wire.now, self.wire.id(fd));
        let is_pool = limit.is_some_and(|wait| wait.limit == Limit::BufferPool);
        figures.insert("limit_is_pool", f64::from(u8::from(is_pool)));
        let asked = self.wire.peers.write(self.wire.now, peer, &[1; 100]);
        assert_eq!(asked, Ok(100));
        figures.insert("new_connections", self.newcomers());
        figures.insert("acked_bytes", self.acked_bytes());
    }

    /// Whether a new peer gets a connection.
    fn newcomers(&mut self) -> f64 {
        let peer = self.wire.dial();
        // As long as it takes to ask a second time.
        self.wire.pass(Duration::from_secs(3), |_| false);
        f64::from(u8::from(self.wire.is_open(peer)))
    }

    /// Share of the 100 bytes of the surviving client that was acknowledged.
    fn acked_bytes(&self) -> f64 {
        100.0 - self.wire.peers.unacked_bytes(self.live.0) as f64
    }

    /// The program lets go of those that hang.
    fn abort(&mut self, figures: &mut Figures) {
        for fd in self.hung.split_off(0) {
            self.wire.system().abortsocket(fd);
        }
        figures.insert("free_after_abort", self.free());
        figures.insert("new_connections_after_abort", self.newcomers());
        self.wire.pass(Duration::from_secs(120), |_| false);
        figures.insert("acked_bytes_after_abort", self.acked_bytes());
        figures.insert("low_watermark", self.wire.board.pool().low_watermark.into());
    }

    /// Without any action the stack gives up what was never acknowledged (NB58).
    fn wait(&mut self, figures: &mut Figures) {
        let began = self.wire.now;
        self.wire
            .pass(GIVEN_UP_MAX, |wire| wire.board.pool().free == 256);
        let took = self.wire.now.since(began);
        figures.insert("given_up_after_us", took.as_secs_f64() * 1e6);
        figures.insert("free_after_giving_up", self.free());
        figures.insert("new_connections_after_giving_up", self.newcomers());
    }
}

/// A client's connection, accepted.
fn open(wire: &mut Wire, listener: i32) -> Option<(SocketId, i32)> {
    let peer = wire.dial();
    wire.carry();
    let (mut address, mut port) = (PEERS, 0);
    let accepted = wire.system().accept(listener, &mut address, &mut port, 0);
    wire.carry();
    match accepted {
        Poll::Ready(fd) if fd > 0 => Some((peer, fd)),
        _ => None,
    }
}
