//! An honest peer beside attackers: from time to time it asks for a byte, and the program answers.

use base::tcp::TcpFlags;
use tcptailor_stack::profile::Profile;
use tcptailor_stack::{Body, SegmentOptions, SocketId};

use crate::hand::{ACK, Bench, Peer, packet, with_mss};

/// Packets of attackers between two requests: as many as a driver may hand over at once.
pub(crate) const BATCH: u64 = 64;
/// No attacker is here.
const PORT: u16 = 3999;

/// The honest peer, and how it fared.
pub(crate) struct Honest {
    peer: Peer,
    id: SocketId,
    /// Nanoseconds of some clock.
    clock: fn() -> u64,
    /// Time that the host has spent since the last answer.
    spent: u64,
    pub(crate) asked: u64,
    /// Requests without an answer in the same call.
    pub(crate) unanswered: u64,
    /// Most packets of others that left between a request and its answer.
    pub(crate) ahead: u64,
    /// Time from the first packet of a batch to the answer behind it.
    pub(crate) times: Vec<u64>,
    /// Another one on a host without attackers, which asks as often.
    alone: Option<Box<(Bench, Self)>>,
}

impl Honest {
    /// A connection to the listener; no clock runs.
    pub(crate) fn open(bench: &mut Bench, listener: SocketId) -> Self {
        let options = SegmentOptions {
            window_scale: Some(7),
            sack_permitted: true,
            ..with_mss(1460)
        };
        let mut peer = Peer::new(PORT);
        let id = peer.open(bench, listener, options);
        Self {
            peer,
            id,
            clock: || 0,
            spent: 0,
            asked: 0,
            unanswered: 0,
            ahead: 0,
            times: Vec::new(),
            alone: None,
        }
    }

    /// From now on time counts by `clock`, for this many requests, and as many on a host with
    /// `profile` that is not attacked.
    pub(crate) fn set_clock(&mut self, clock: fn() -> u64, requests: usize, profile: &Profile) {
        let mut bench = Bench::new(profile);
        let listener = bench.listen(profile);
        let mut alone = Self::open(&mut bench, listener);
        for honest in [&mut *self, &mut alone] {
            honest.clock = clock;
            honest.times.reserve(requests);
        }
        self.alone = Some(Box::new((bench, alone)));
    }

    /// Times of who asks alone.
    pub(crate) fn alone_times(&mut self) -> &mut [u64] {
        let alone = self.alone.as_deref_mut();
        alone.map_or(&mut [], |(_, alone)| &mut alone.times)
    }

    /// The host works for another peer.
    pub(crate) fn wait<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begun = (self.clock)();
        let done = work();
        self.spent += (self.clock)() - begun;
        done
    }

    /// A byte there and back, in one call of the driver: the packet, the program, the answer.
    pub(crate) fn ask(&mut self, bench: &mut Bench) {
        self.asked += 1;
        let request = self.peer.segment(ACK | TcpFlags::PSH, b"?");
        let begun = (self.clock)();
        bench
            .host
            .handle_packet(bench.now, packet(Body::Tcp(request)));
        let read = bench.read(self.id);
        if !read.is_empty() {
            // A refusal gives no answer, which is counted.
            let _ = bench.write(self.id, &read);
        }
        let answer = self.await_answer(bench);
        let time = self.spent + (self.clock)() - begun;
        self.spent = 0;
        self.peer.seq += read.len() as u32;
        let ack = packet(Body::Tcp(self.peer.segment(ACK, b"")));
        bench.host.handle_packet(bench.now, ack);
        if !answer {
            self.unanswered += 1;
        } else if self.times.len() < self.times.capacity() {
            self.times.push(time);
        }
        if let Some((bench, alone)) = self.alone.as_deref_mut() {
            alone.ask(bench);
        }
    }

    fn await_answer(&mut self, bench: &mut Bench) -> bool {
        let mut ahead = 0;
        while let Some(packet) = bench.host.poll_transmit(bench.now) {
            if let Body::Tcp(segment) = packet.body {
                let is_its = segment.destination_port == self.peer.port;
                if is_its && !segment.payload.is_empty() {
                    self.peer.take(&[segment]);
                    self.ahead = self.ahead.max(ahead);
                    return true;
                }
                ahead += u64::from(!is_its);
            }
        }
        false
    }
}
