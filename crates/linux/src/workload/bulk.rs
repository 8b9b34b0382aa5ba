//! Streams in one direction: as fast as they go, at a rate, or into a reader that takes its time.

use std::io;
use std::time::Duration;

use base::{Bytes, Rate};
use lab::{UNACKED_LOOK, unacked_room};

use super::flow::{CHUNK_BYTES, Flow};
use super::socket::unacked_bytes;
use crate::clock::Clock;

/// Time by which a paced writer may be behind before it gives up catching up.
const LAG_MAX: Duration = Duration::from_millis(100);

/// Writes pieces of `write_size` until the amount is done, then waits until all has arrived. With a
/// bound on what is `unacked`, it writes no more than that leaves room for.
pub(super) fn send(flow: &mut Flow<'_>, write_size: u64, unacked: Option<Bytes>) -> io::Result<()> {
    flow.reserve(write_size);
    while flow.more() {
        let mut bytes = flow.next_write(write_size);
        if let Some(bound) = unacked {
            bytes = await_room(flow, bound, bytes)?;
        }
        flow.write_piece(bytes)?;
        flow.on_done(bytes as u64, 1);
    }
    flow.finish()
}

/// How much of `left` may be written now; 0 where the session ends first. `SO_SNDBUF` is not such a
/// bound on Linux: it counts memory, and not only data in flight. Nothing wakes a program when data
/// is acknowledged (`EPOLLOUT` follows that memory), so it polls: it may be late by
/// [`UNACKED_LOOK`] and what the kernel adds to a sleep (50 us).
fn await_room(flow: &Flow<'_>, bound: Bytes, left: usize) -> io::Result<usize> {
    loop {
        let room = unacked_room(bound, unacked_bytes(&*flow.stream)?, left as u64);
        if room > 0 || !flow.session.sleep_until(Clock.now() + UNACKED_LOOK) {
            return Ok(room as usize);
        }
    }
}

/// As [`send`], at `rate`: each piece leaves when the ones before it would have been serialised. A
/// writer that was held up catches up, but not by more than [`LAG_MAX`].
pub(super) fn send_paced(flow: &mut Flow<'_>, write_size: u64, rate: Rate) -> io::Result<()> {
    flow.reserve(write_size);
    let mut due = Clock.now();
    let mut carry = 0;
    while flow.more() && flow.session.sleep_until(due) {
        let bytes = flow.next_write(write_size);
        flow.write_piece(bytes)?;
        flow.on_done(bytes as u64, 1);
        let (gap, rest) = rate.serialize(bytes as u64, carry);
        carry = rest;
        due = (due + gap).max(Clock.now() - LAG_MAX);
    }
    flow.finish()
}

/// Reads to the end of the stream.
pub(super) fn receive(flow: &mut Flow<'_>) -> io::Result<()> {
    while flow.read(CHUNK_BYTES)? > 0 {}
    Ok(())
}

/// Reads at most `read_size` once every `every`.
pub(super) fn receive_slowly(
    flow: &mut Flow<'_>,
    read_size: u64,
    every: Duration,
) -> io::Result<()> {
    let read_size = usize::try_from(read_size).unwrap_or(CHUNK_BYTES);
    let mut due = Clock.now();
    // At the end of the session the rest is read at once, so that the sender can finish.
    while !flow.session.is_stopping() {
        if flow.read(read_size)? == 0 {
            return Ok(());
        }
        due = (due + every).max(Clock.now());
        flow.session.sleep_until(due);
    }
    receive(flow)
}
