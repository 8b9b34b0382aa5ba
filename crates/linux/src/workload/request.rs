//! Question and answer: on one connection, on a new one each, and with the question in pieces.

use std::io;
use std::time::Duration;

use base::Bytes;
use lab::WriteMethod;
use socket2::SockRef;

use super::Reconnect;
use super::flow::Flow;
use crate::clock::Clock;

/// Sizes of the two messages.
#[derive(Clone, Copy)]
pub(super) struct Exchange {
    pub(super) request: u64,
    pub(super) response: u64,
}

impl Exchange {
    const fn bytes(self) -> u64 {
        self.request + self.response
    }
}

/// Asks, one request at a time. The end of one operation is the start of the next, so that the
/// clock is read once each.
pub(super) fn ask(flow: &mut Flow<'_>, exchange: Exchange) -> io::Result<()> {
    let mut asked_at = Clock.now();
    while flow.more() {
        flow.send(exchange.request)?;
        flow.receive(exchange.response)?;
        let now = Clock.now();
        flow.on_response(now.since(asked_at), exchange.bytes());
        asked_at = now;
    }
    flow.finish()
}

/// Answers until the client finishes.
pub(super) fn answer(flow: &mut Flow<'_>, exchange: Exchange) -> io::Result<()> {
    while flow.receive_next(exchange.request)? {
        flow.send(exchange.response)?;
        flow.on_operations(exchange.bytes(), 1);
    }
    Ok(())
}

/// Asks once on each connection. The response time runs from before the connection is opened; the
/// server closes first, so that the client's ports are free again at once.
pub(super) fn ask_anew(
    flow: &mut Flow<'_>,
    exchange: Exchange,
    reconnect: &Reconnect<'_>,
) -> io::Result<()> {
    let mut first = Some(reconnect.connect_began);
    while flow.more() {
        let asked_at = first.unwrap_or_else(|| Clock.now());
        if first.take().is_none() {
            flow.adopt((reconnect.connect)()?);
        }
        flow.send_after(&reconnect.opening, exchange.request)?;
        flow.receive(exchange.response)?;
        flow.on_response(Clock.now().since(asked_at), exchange.bytes());
        flow.read(1)?;
    }
    Ok(())
}

/// Answers one request.
pub(super) fn answer_once(flow: &mut Flow<'_>, exchange: Exchange) -> io::Result<()> {
    if flow.receive_next(exchange.request)? {
        flow.send(exchange.response)?;
        flow.on_operations(exchange.bytes(), 1);
    }
    Ok(())
}

/// A request of several pieces.
#[derive(Clone, Copy)]
pub(super) struct Pieces<'p> {
    pub(super) count: u32,
    pub(super) bytes: u64,
    /// Sizes where they differ; replaces the two above.
    pub(super) sizes: &'p [Bytes],
}

impl Pieces<'_> {
    pub(super) fn total(&self) -> u64 {
        if self.sizes.is_empty() {
            u64::from(self.count) * self.bytes
        } else {
            self.sizes.iter().map(|size| size.0).sum()
        }
    }

    fn len(&self) -> usize {
        if self.sizes.is_empty() {
            self.count as usize
        } else {
            self.sizes.len()
        }
    }

    fn largest(&self) -> u64 {
        let largest = self.sizes.iter().map(|size| size.0).max();
        largest.unwrap_or(self.bytes)
    }

    fn size(&self, index: usize) -> usize {
        self.sizes.get(index).map_or(self.bytes, |size| size.0) as usize
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).map(|index| self.size(index))
    }
}

/// How pieces are handed over.
#[derive(Clone, Copy)]
pub(super) struct WriteStyle {
    pub(super) method: WriteMethod,
    /// From the last piece to the uncorking.
    pub(super) uncork_after: Duration,
}

/// Hands over the pieces, then awaits the reply.
pub(super) fn ask_in_pieces(
    flow: &mut Flow<'_>,
    pieces: Pieces<'_>,
    reply: u64,
    style: WriteStyle,
) -> io::Result<()> {
    flow.reserve(pieces.largest());
    if style.method == WriteMethod::CorkForever {
        SockRef::from(&*flow.stream).set_tcp_cork(true)?;
    }
    if style.method.needs_files() {
        flow.make_file(pieces.largest())?;
    }
    let mut asked_at = Clock.now();
    while flow.more() {
        write_request(flow, pieces, style)?;
        flow.receive(reply)?;
        let now = Clock.now();
        flow.on_response(now.since(asked_at), pieces.total() + reply);
        asked_at = now;
    }
    flow.finish()
}

fn write_request(flow: &mut Flow<'_>, pieces: Pieces<'_>, style: WriteStyle) -> io::Result<()> {
    let corks = matches!(style.method, WriteMethod::Cork | WriteMethod::CorkSendfile);
    if !corks {
        return write_pieces(flow, pieces, style.method);
    }
    SockRef::from(&*flow.stream).set_tcp_cork(true)?;
    write_pieces(flow, pieces, style.method)?;
    if !style.uncork_after.is_zero() {
        flow.session.sleep_until(Clock.now() + style.uncork_after);
    }
    SockRef::from(&*flow.stream).set_tcp_cork(false)
}

/// Hands over the pieces; the cork is the caller's.
pub(super) fn write_pieces(
    flow: &mut Flow<'_>,
    pieces: Pieces<'_>,
    method: WriteMethod,
) -> io::Result<()> {
    let last = pieces.len() - 1;
    let mut before = pieces.iter().take(last);
    match method {
        WriteMethod::Write | WriteMethod::CorkForever | WriteMethod::Cork => {
            pieces.iter().try_for_each(|bytes| flow.write_piece(bytes))
        }
        WriteMethod::Writev => flow.write_pieces_at_once(pieces.iter()),
        WriteMethod::MsgMore => {
            before.try_for_each(|bytes| flow.write_piece_with_more(bytes))?;
            flow.write_piece(pieces.size(last))
        }
        WriteMethod::Sendfile | WriteMethod::CorkSendfile => {
            before.try_for_each(|bytes| flow.write_piece(bytes))?;
            flow.send_file(pieces.size(last))
        }
    }
}
