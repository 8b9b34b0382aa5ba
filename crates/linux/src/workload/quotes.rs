//! Requests on one connection, answers on another: no answer can carry an ACK.
//!
//! Seed: Winsock, case 1 with two one-way connections.

use std::io;

use lab::WriteMethod;

use super::flow::Flow;
use super::request::{Pieces, write_pieces};
use crate::clock::Clock;

/// Sends requests on `ask` and reads the answers from `hear`.
pub(super) fn ask(
    ask: &mut Flow<'_>,
    hear: &mut Flow<'_>,
    request: Pieces<'_>,
    reply: u64,
) -> io::Result<()> {
    ask.reserve(request.bytes);
    let mut asked_at = Clock.now();
    while ask.more() {
        write_pieces(ask, request, WriteMethod::Write)?;
        hear.receive(reply)?;
        let now = Clock.now();
        ask.on_response(now.since(asked_at), request.total() + reply);
        asked_at = now;
    }
    ask.finish()
}

/// Reads requests from `hear` and writes each answer to `tell`, in as many pieces as the request.
pub(super) fn answer(
    hear: &mut Flow<'_>,
    tell: &mut Flow<'_>,
    request: Pieces<'_>,
    reply: u64,
) -> io::Result<()> {
    while hear.receive_next(request.total())? {
        for bytes in parts(reply, request.count) {
            tell.send(bytes)?;
        }
        hear.on_operation(request.total() + reply);
    }
    Ok(())
}

/// `total` in `count` parts that differ by at most one; parts of nothing are left out.
fn parts(total: u64, count: u32) -> impl Iterator<Item = u64> {
    let count = u64::from(count.max(1));
    let (each, rest) = (total / count, total % count);
    (0..count)
        .map(move |index| each + u64::from(index < rest))
        .filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn parts_add_up() {
        assert_eq!(parts(10, 3).collect::<Vec<_>>(), [4, 3, 3]);
        assert_eq!(parts(2, 5).collect::<Vec<_>>(), [1, 1]);
    }
}
