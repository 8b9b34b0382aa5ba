//! A block, an idle gap, the next block. The server answers each block by one byte.

use std::io;
use std::time::Duration;

use super::Reconnect;
use super::flow::Flow;
use crate::clock::Clock;

/// Bytes of the answer to a block.
pub(super) const RECEIPT_BYTES: u64 = 1;

/// A block and the gap after it.
#[derive(Clone, Copy)]
pub(super) struct Burst {
    pub(super) bytes: u64,
    pub(super) idle: Duration,
}

/// Sends blocks. The response time runs from the start of the block (of its connection, where each
/// has one) to the answer. Without `reconnect` all blocks take the first connection.
pub(super) fn send(
    flow: &mut Flow<'_>,
    burst: Burst,
    reconnect: Option<&Reconnect<'_>>,
) -> io::Result<()> {
    let opening = reconnect.map_or(&[][..], |reconnect| &reconnect.opening);
    let mut first = reconnect.map(|reconnect| reconnect.connect_began);
    let mut is_first = true;
    while flow.more() {
        let begun_at = first.take().unwrap_or_else(|| Clock.now());
        if let (Some(reconnect), false) = (reconnect, is_first) {
            flow.adopt((reconnect.connect)()?);
        }
        is_first = false;
        flow.send_after(opening, burst.bytes)?;
        flow.receive(RECEIPT_BYTES)?;
        flow.on_response(Clock.now().since(begun_at), burst.bytes);
        if flow.more() {
            flow.session.sleep_until(Clock.now() + burst.idle);
        }
    }
    flow.finish()
}

/// Takes blocks until the client finishes.
pub(super) fn receive(flow: &mut Flow<'_>, burst: Burst) -> io::Result<()> {
    while flow.receive_next(burst.bytes)? {
        flow.send(RECEIPT_BYTES)?;
        flow.on_operations(burst.bytes, 1);
    }
    Ok(())
}
