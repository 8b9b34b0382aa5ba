//! Records one way: at a rate or one after the other, done when written or when acknowledged.

use std::io;
use std::time::Duration;

use lab::{Completion, Records};

use super::bulk;
use super::flow::{CHUNK_BYTES, Flow};
use super::socket::unacked_bytes;
use crate::clock::Clock;

/// Looks at the queue before the waiting writer begins to sleep between looks.
const EAGER_LOOKS: u32 = 32;
/// Sleep between looks; what a completion time may be too long by.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// Writes records until the amount is done.
pub(super) fn send(flow: &mut Flow<'_>, records: &Records) -> io::Result<()> {
    flow.reserve(records.write_bytes_max());
    let mut writes = records.writes();
    let pace = records.pace();
    let began = Clock.now();
    let mut due = began;
    while flow.more() {
        if let Some(gap) = pace.gap(Clock.now().since(began)) {
            if !flow.session.sleep_until(due) {
                break;
            }
            due = (due + gap).max(Clock.now() - gap);
        }
        let bytes = writes.next_bytes();
        let written_at = Clock.now();
        if records.non_blocking {
            flow.write_piece_without_blocking(bytes as usize)?;
        } else {
            flow.write_piece(bytes as usize)?;
        }
        if records.completion == Completion::Acknowledged {
            wait_until_acknowledged(flow)?;
        }
        flow.on_responses(Clock.now().since(written_at), bytes, records.joined);
    }
    flow.finish()
}

/// Reads to the end of the stream, with a pause before each read where there is to be one.
pub(super) fn receive(flow: &mut Flow<'_>, records: &Records) -> io::Result<()> {
    let read_size = records.read_size.map_or(CHUNK_BYTES as u64, |size| size.0);
    let read_size = usize::try_from(read_size).unwrap_or(CHUNK_BYTES);
    // At the end of the session the rest is read at once, so that the sender can finish.
    while !flow.session.is_stopping() {
        if !records.read_pause.is_zero() {
            flow.session.sleep_until(Clock.now() + records.read_pause);
        }
        if flow.read(read_size)? == 0 {
            return Ok(());
        }
    }
    bulk::receive(flow)
}

/// Waits until everything that was written is acknowledged, or the session ends.
fn wait_until_acknowledged(flow: &Flow<'_>) -> io::Result<()> {
    let mut looks = 0;
    while unacked_bytes(&*flow.stream)? > 0 && !flow.session.is_stopping() {
        looks += 1;
        if looks < EAGER_LOOKS {
            std::thread::yield_now();
        } else {
            flow.session.sleep_until(Clock.now() + LOOK_EVERY);
        }
    }
    Ok(())
}
