//! A path that loses, reorders and duplicates what goes over it.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use tcptailor_tokio::base::Rng;

/// Of this many packets one is lost, one held back, and one comes twice.
const LOST: u64 = 100;
const HELD: u64 = 50;
const TWICE: u64 = 200;

/// The receiving end.
pub(crate) struct Lossy<S, P> {
    incoming: S,
    rng: Rng,
    held: Option<P>,
    next: VecDeque<P>,
}

impl<S, P> Lossy<S, P> {
    pub(crate) fn new(incoming: S, seed: u64) -> Self {
        Self {
            incoming,
            rng: Rng::new(seed, "lossy"),
            held: None,
            next: VecDeque::new(),
        }
    }
}

impl<S, P> Stream for Lossy<S, P>
where
    S: Stream<Item = P> + Unpin,
    P: Clone + Unpin,
{
    type Item = io::Result<P>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<P>>> {
        let this = self.get_mut();
        loop {
            if let Some(packet) = this.next.pop_front() {
                return Poll::Ready(Some(Ok(packet)));
            }
            match Pin::new(&mut this.incoming).poll_next(cx) {
                Poll::Ready(Some(packet)) => {
                    let is = |rng: &mut Rng, of| rng.below(of) == 0;
                    if is(&mut this.rng, LOST) {
                        continue;
                    }
                    if is(&mut this.rng, HELD) {
                        this.next.extend(this.held.replace(packet));
                        continue;
                    }
                    if is(&mut this.rng, TWICE) {
                        this.next.push_back(packet.clone());
                    }
                    this.next.push_back(packet);
                    if is(&mut this.rng, 4) {
                        this.next.extend(this.held.take());
                    }
                }
                // A packet that none passes continues.
                Poll::Pending if this.held.is_some() => this.next.extend(this.held.take()),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
            }
        }
    }
}
