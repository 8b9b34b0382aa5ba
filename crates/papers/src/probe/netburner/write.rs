//! Results of write and writeall, and the time at which they report a reset by the peer
//! (experiments N8, NB36, NB37).

use core::task::Poll;
use core::time::Duration;

use stack::{SocketId, profile};

use super::super::{Figures, Probe};
use super::wire::{BOARD, PEERS, PORT, Wire};
use crate::netburner::{Call, MAXPEND, TCP_ERR_CON_RESET};

/// Size of the document's example: more than twice the buffers.
const BYTES: usize = 20_480;

pub(in crate::probe) const WRITE: Probe = Probe {
    name: "netburner-write",
    about: "What write and writeall of 20 KB return with 5 buffers, and when a reset is told.",
    figures: &[
        "write_first_bytes",
        "write_second_bytes",
        "write_third_waits",
        "writeall_bytes",
        "writeall_sleeps",
        "writeall_left_at_first_bytes",
        "writeall_unacked_at_return_bytes",
        "writeall_unsent_at_return_bytes",
        "received_bytes",
        "write_after_reset_tells",
        "writeall_after_reset_tells",
        "writeall_returned_before_reset_bytes",
        "call_after_buffered_writeall_tells",
    ],
    run: Some(run),
    run_on_kernel: None,
};

fn run(seed: u64) -> Figures {
    let mut figures = Figures::new();
    // The peer does not answer: as much as there are buffers, twice.
    let mut pair = Pair::new(seed);
    pair.wire.hang(pair.peer);
    for name in ["write_first_bytes", "write_second_bytes"] {
        let taken = pair.write(BYTES);
        pair.wire.carry();
        figures.insert(name, code(taken));
    }
    let waits = pair.write(BYTES).is_pending();
    figures.insert("write_third_waits", f64::from(u8::from(waits)));

    // It answers: writeall comes back when the last byte is buffered, not when it has arrived.
    let mut pair = Pair::new(seed);
    pair.writeall_to_end(&mut figures);

    // It resets while the call sleeps: the same call, made again, tells.
    for (name, call) in [
        (
            "write_after_reset_tells",
            Pair::write as fn(&mut Pair, usize) -> Call,
        ),
        ("writeall_after_reset_tells", Pair::writeall),
    ] {
        let mut pair = Pair::new(seed);
        while pair.writeall(BYTES).is_ready() {}
        pair.reset();
        figures.insert(name, tells_reset(call(&mut pair, BYTES)));
    }

    // It resets after writeall came back: the next call tells.
    let mut pair = Pair::new(seed);
    let returned = pair.writeall(100);
    figures.insert("writeall_returned_before_reset_bytes", code(returned));
    pair.reset();
    let fd = pair.fd;
    let next = pair.wire.system().read(fd, &mut [0]);
    figures.insert("call_after_buffered_writeall_tells", tells_reset(next));
    figures
}

/// Result of a call as a number; none for a blocked one.
fn code(call: Call) -> f64 {
    match call {
        Poll::Ready(code) => code.into(),
        Poll::Pending => unreachable!("it has an answer by then"),
    }
}

/// Whether a call returned the code of a reset.
fn tells_reset(call: Call) -> f64 {
    f64::from(u8::from(call == Poll::Ready(TCP_ERR_CON_RESET)))
}

/// A board's connection to a peer.
struct Pair {
    wire: Wire,
    peer: SocketId,
    fd: i32,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut wire = Wire::new(&profile::netburner(), seed);
        let listener = wire.system().listen(BOARD, PORT, MAXPEND);
        let peer = wire.dial();
        wire.carry();
        let (mut address, mut port) = (PEERS, 0);
        let accepted = wire.system().accept(listener, &mut address, &mut port, 0);
        let Poll::Ready(fd) = accepted else {
            unreachable!("the peer waits to be accepted");
        };
        wire.carry();
        Self { wire, peer, fd }
    }

    fn write(&mut self, bytes: usize) -> Call {
        let fd = self.fd;
        self.wire.system().write(fd, &vec![7; bytes])
    }

    fn writeall(&mut self, bytes: usize) -> Call {
        let fd = self.fd;
        self.wire.system().writeall(fd, &vec![7; bytes])
    }

    fn reset(&mut self) {
        self.wire.peers.abort(self.wire.now, self.peer);
        self.wire.carry();
    }

    /// The peer reads all that is there.
    fn receive(&mut self) -> u64 {
        let now = self.wire.now;
        let read = self.wire.peers.read_chunks(now, self.peer, usize::MAX);
        read.map_or(0, |payload| u64::from(payload.len()))
    }

    fn writeall_to_end(&mut self, figures: &mut Figures) {
        let fd = self.fd;
        let mut sleeps = 0;
        let mut received = 0;
        let returned = loop {
            let call = self.writeall(BYTES);
            if call.is_ready() {
                break code(call);
            }
            if sleeps == 0 {
                let left = self.wire.system().left(fd, BYTES);
                figures.insert("writeall_left_at_first_bytes", left as f64);
            }
            sleeps += 1;
            let step = Duration::from_millis(300);
            self.wire.pass(step, |_| false);
            received += self.receive();
        };
        figures.insert("writeall_bytes", returned);
        figures.insert("writeall_sleeps", sleeps.into());
        let id = self.wire.id(fd);
        let unsent = self.wire.board.unsent_bytes(id);
        let unacked = self.wire.board.unacked_bytes(id) - unsent;
        figures.insert("writeall_unacked_at_return_bytes", unacked as f64);
        figures.insert("writeall_unsent_at_return_bytes", unsent as f64);
        for _ in 0..20 {
            let step = Duration::from_millis(300);
            self.wire.pass(step, |_| false);
            received += self.receive();
        }
        figures.insert("received_bytes", received as f64);
    }
}
