//! Records one way: at a rate or one after the other, done when written or when acknowledged.

use std::io;
use std::time::Duration;

use lab::Completion;

use super::flow::Flow;
use super::socket::unacked_bytes;
use crate::clock::Clock;

/// Looks at the queue before the waiting writer begins to sleep between looks.
const EAGER_LOOKS: u32 = 32;
/// Sleep between looks; what a completion time may be too long by.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// Writes records until the amount is done.
pub(super) fn send(
    flow: &mut Flow<'_>,
    record: u64,
    per_second: Option<u32>,
    completion: Completion,
) -> io::Result<()> {
    flow.reserve(record);
    let gap = per_second.map(|rate| Duration::from_secs(1) / rate.max(1));
    let mut due = Clock.now();
    while flow.more() {
        if let Some(gap) = gap {
            if !flow.session.sleep_until(due) {
                break;
            }
            due = (due + gap).max(Clock.now() - gap);
        }
        let written_at = Clock.now();
        flow.write_piece(record as usize)?;
        if completion == Completion::Acknowledged {
            wait_until_acknowledged(flow)?;
        }
        flow.on_response(Clock.now().since(written_at), record);
    }
    flow.finish()
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
