//! Question and answer: on one connection, on a new one each, and with the question in pieces.

use std::io;

use lab::WriteMethod;
use socket2::SockRef;

use super::Redial;
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
    redial: &Redial<'_>,
) -> io::Result<()> {
    let mut first = Some(redial.dialled_at);
    while flow.more() {
        let asked_at = first.unwrap_or_else(|| Clock.now());
        if first.take().is_none() {
            flow.adopt((redial.dial)()?);
        }
        flow.send_after(&redial.opening, exchange.request)?;
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
pub(super) struct Pieces {
    pub(super) count: u32,
    pub(super) bytes: u64,
}

impl Pieces {
    pub(super) const fn total(self) -> u64 {
        self.count as u64 * self.bytes
    }
}

/// Hands over the pieces, then awaits the reply.
pub(super) fn ask_in_pieces(
    flow: &mut Flow<'_>,
    pieces: Pieces,
    reply: u64,
    method: WriteMethod,
) -> io::Result<()> {
    flow.reserve(pieces.bytes);
    if method == WriteMethod::CorkForever {
        SockRef::from(&*flow.stream).set_tcp_cork(true)?;
    }
    let mut asked_at = Clock.now();
    while flow.more() {
        write_pieces(flow, pieces, method)?;
        flow.receive(reply)?;
        let now = Clock.now();
        flow.on_response(now.since(asked_at), pieces.total() + reply);
        asked_at = now;
    }
    flow.finish()
}

pub(super) fn write_pieces(
    flow: &mut Flow<'_>,
    pieces: Pieces,
    method: WriteMethod,
) -> io::Result<()> {
    let bytes = pieces.bytes as usize;
    match method {
        WriteMethod::Write | WriteMethod::CorkForever => {
            (0..pieces.count).try_for_each(|_| flow.write_piece(bytes))
        }
        WriteMethod::Writev => flow.write_pieces_at_once(pieces.count as usize, bytes),
        WriteMethod::MsgMore => {
            (1..pieces.count).try_for_each(|_| flow.write_piece_with_more(bytes))?;
            flow.write_piece(bytes)
        }
        WriteMethod::Cork => {
            SockRef::from(&*flow.stream).set_tcp_cork(true)?;
            (0..pieces.count).try_for_each(|_| flow.write_piece(bytes))?;
            SockRef::from(&*flow.stream).set_tcp_cork(false)
        }
    }
}
