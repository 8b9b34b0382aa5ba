//! Requests on one connection, answers on another, so that no answer can carry an ACK; or both on
//! one connection.
//!
//! Seed: Winsock, case 2.

use std::io;

use lab::{Quotes, WriteMethod};

use super::flow::Flow;
use super::request::{Pieces, write_pieces};
use crate::clock::Clock;

/// Sends requests on `ask` and reads the answers from `hear`; where that is none, from `ask` too.
pub(super) fn ask<'f>(
    ask: &mut Flow<'f>,
    mut hear: Option<&mut Flow<'f>>,
    quotes: &Quotes,
) -> io::Result<()> {
    let request = request_of(quotes);
    ask.reserve(request.bytes);
    if quotes.delayed_acks {
        hear.as_deref_mut().unwrap_or(ask).set_quickack(false);
    }
    let mut asked_at = Clock.now();
    while ask.more() {
        write_pieces(ask, request, WriteMethod::Write)?;
        let answer = quotes.answer_bytes();
        hear.as_deref_mut().unwrap_or(ask).receive(answer)?;
        let now = Clock.now();
        ask.on_responses(now.since(asked_at), request.total() + answer, quotes.joined);
        asked_at = now;
    }
    ask.finish()
}

/// Reads requests from `hear` and writes each answer to `tell`, or to `hear` too, in as many pieces
/// as the request.
pub(super) fn answer<'f>(
    hear: &mut Flow<'f>,
    mut tell: Option<&mut Flow<'f>>,
    quotes: &Quotes,
) -> io::Result<()> {
    if quotes.delayed_acks {
        hear.set_quickack(false);
    }
    let request = request_of(quotes);
    let answer = quotes.answer_bytes();
    while hear.receive_next(request.total())? {
        for bytes in parts(answer, request.count) {
            tell.as_deref_mut().unwrap_or(hear).send(bytes)?;
        }
        hear.on_operations(request.total() + answer, quotes.joined);
    }
    Ok(())
}

const fn request_of(quotes: &Quotes) -> Pieces<'static> {
    let (count, bytes) = quotes.pieces();
    Pieces {
        count,
        bytes,
        sizes: &[],
    }
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
