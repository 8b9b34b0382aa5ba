//! Packets that come out of a stream and go into a sink.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _, stream};
use stack::{Packet, wire};

use base::WirePacket as _;

use crate::driver::{BATCH_PACKETS, Link};
use crate::state::Shared;

/// The two ends. What arrives is a packet, or something that is none and only costs time.
pub(crate) struct PacketLink<I, O> {
    incoming: Pin<Box<I>>,
    outgoing: Pin<Box<O>>,
    /// Received, and not handed to the host yet.
    received: Vec<Packet>,
    /// Taken from the host, and not sent yet.
    waiting: VecDeque<Packet>,
    /// All that the sink took has left it.
    is_flushed: bool,
}

impl<I, O> PacketLink<I, O>
where
    I: Stream<Item = io::Result<Option<Packet>>>,
    O: Sink<Packet, Error = io::Error>,
{
    pub(crate) fn new(incoming: I, outgoing: O) -> Self {
        Self {
            incoming: Box::pin(incoming),
            outgoing: Box::pin(outgoing),
            received: Vec::with_capacity(BATCH_PACKETS),
            waiting: VecDeque::with_capacity(BATCH_PACKETS),
            is_flushed: true,
        }
    }

    /// Takes a batch from the host; false where there was less.
    fn take_batch(&mut self, shared: &Shared) -> bool {
        let is_full = shared.transmit(&mut self.waiting);
        self.is_flushed &= self.waiting.is_empty();
        is_full
    }

    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            ready!(self.outgoing.as_mut().poll_ready(cx))?;
            if let Some(packet) = self.waiting.pop_front() {
                self.outgoing.as_mut().start_send(packet)?;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<I, O> Link for PacketLink<I, O>
where
    I: Stream<Item = io::Result<Option<Packet>>> + Send + 'static,
    O: Sink<Packet, Error = io::Error> + Send + 'static,
{
    fn poll_receive(&mut self, cx: &mut Context<'_>, shared: &Shared) -> Poll<io::Result<()>> {
        let mut end = None;
        let mut count = 0;
        while count < BATCH_PACKETS {
            match self.incoming.as_mut().poll_next(cx) {
                Poll::Ready(Some(Ok(packet))) => self.received.extend(packet),
                Poll::Ready(Some(Err(error))) => end = Some(error),
                Poll::Ready(None) => {
                    let gone = "the stream of packets has ended";
                    end = Some(io::Error::new(io::ErrorKind::NetworkDown, gone));
                }
                Poll::Pending => break,
            }
            if end.is_some() {
                break;
            }
            count += 1;
        }
        if !self.received.is_empty() {
            shared.receive(&mut self.received);
        }
        match end {
            Some(error) => Poll::Ready(Err(error)),
            None if count == BATCH_PACKETS => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, shared: &Shared) -> Poll<io::Result<()>> {
        let mut is_full = true;
        if self.poll_waiting(cx)?.is_ready() {
            is_full = self.take_batch(shared);
            if self.poll_waiting(cx)?.is_ready() && is_full {
                return Poll::Ready(Ok(()));
            }
        }
        if is_full || !self.waiting.is_empty() {
            shared.set_stuck();
        }
        // Pending: the sink wakes this task when it goes on.
        let flushed = self.outgoing.as_mut().poll_flush(cx)?;
        if flushed.is_ready() && self.waiting.is_empty() && !self.is_flushed {
            self.is_flushed = true;
            shared.set_flushed();
        }
        Poll::Pending
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, shared: &Shared) -> Poll<io::Result<()>> {
        ready!(self.poll_waiting(cx))?;
        if self.take_batch(shared) {
            // There may be more, after a turn of others.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.poll_waiting(cx))?;
        self.outgoing.as_mut().poll_close(cx)
    }
}

/// Whole IP packets as packets. What is none counts as one, so that a flood of them leaves others
/// their turn.
pub(crate) fn decoded(
    incoming: impl Stream<Item = io::Result<Bytes>>,
) -> impl Stream<Item = io::Result<Option<Packet>>> {
    incoming.map(|bytes| bytes.map(|bytes| wire::decode(&bytes, None).ok()))
}

/// Packets as whole IP packets, each no longer than the path's MTU.
pub(crate) fn encoding(
    outgoing: impl Sink<Bytes, Error = io::Error>,
) -> impl Sink<Packet, Error = io::Error> {
    outgoing.with_flat_map(|packet| stream::iter(segments(packet).map(Ok)))
}

/// The segments of a packet, as bytes.
fn segments(packet: Packet) -> impl Iterator<Item = Bytes> {
    let mut rest = Some(packet);
    std::iter::from_fn(move || {
        let mut first = rest.take()?;
        if first.segments() > 1 {
            rest = Some(first.split_off(1));
        }
        Some(first)
    })
    .filter_map(|packet| {
        let mut bytes = Vec::new();
        // A packet without a form on the wire is lost, as any packet may be.
        wire::encode(&packet, &mut bytes).ok()?;
        Some(bytes.into())
    })
}
