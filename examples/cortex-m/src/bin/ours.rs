//! The firmware with our TCP: NetBurner's stack with a smaller pool of buffers.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use base::Instant;
use board::{Answer, Clock, Decoder, Serial, answer, encode};
use bytes::Bytes;
use cortex_m_rt::entry;
use stack::{Event, Host, HostConfig, ListenOptions, PoolSize, ReadError, SocketId, WriteError};
use stack::{WriteFlags, profile, wire};

/// Buffers of the pool, each a full segment.
const POOL_BUFFERS: u32 = 12;
/// Connections and listeners for which there is memory beside the pool.
const CONNECTIONS_MAX: u32 = 4 + 2;
/// Packets that wait for the serial line.
const QUEUE_PACKETS_MAX: u32 = 16;

/// Which service a connection belongs to, and what it has in hand.
enum Service {
    /// What came and was not sent back yet.
    Echo(Bytes),
    /// A request that is not complete yet.
    Request(Vec<u8>),
    /// An answer on its way.
    Answer(Answer),
}

struct Server {
    host: Host,
    web: SocketId,
    clients: BTreeMap<SocketId, Service>,
}

impl Server {
    /// On the heap, built by a function of its own: what that needs of the stack is given back.
    #[inline(never)]
    fn new() -> Box<Self> {
        let mut profile = profile::netburner();
        profile.system.pool = Some(PoolSize {
            buffers: POOL_BUFFERS,
            buffer_bytes: 1548,
            reserved: 0,
        });
        profile.system.connections_max = CONNECTIONS_MAX;
        profile.system.time_wait_max = 4;
        profile.system.txqueuelen = QUEUE_PACKETS_MAX;
        // A device on the Internet needs a secret here; this one has no source of it.
        let mut host = Host::new(HostConfig::of(&profile, board::ADDRESS.into(), 1));
        let mut listen = |port| {
            let address = (board::ADDRESS, port).into();
            host.listen(address, ListenOptions::of(&profile))
                .expect("a free port")
        };
        listen(board::ECHO_PORT);
        Box::new(Self {
            web: listen(board::WEB_PORT),
            host,
            clients: BTreeMap::new(),
        })
    }

    /// Hands over what happened to the services, until nothing more does.
    fn serve(&mut self, now: Instant) {
        while let Some((id, event)) = self.host.poll_event() {
            match event {
                Event::Acceptable => self.accept(now, id),
                Event::Readable | Event::Writable => self.serve_client(now, id),
                Event::Closed | Event::Failed(_) => self.let_go(now, id),
                _ => {}
            }
        }
    }

    fn accept(&mut self, now: Instant, listener: SocketId) {
        while let Some(id) = self.host.accept(now, listener) {
            let service = match listener == self.web {
                true => Service::Request(Vec::new()),
                false => Service::Echo(Bytes::new()),
            };
            self.clients.insert(id, service);
            self.serve_client(now, id);
        }
    }

    fn let_go(&mut self, now: Instant, id: SocketId) {
        self.clients.remove(&id);
        self.host.close(now, id);
    }

    fn serve_client(&mut self, now: Instant, id: SocketId) {
        // A connection that is not here was let go of.
        let Some(mut service) = self.clients.remove(&id) else {
            return;
        };
        let host = &mut self.host;
        let goes_on = match &mut service {
            Service::Echo(in_hand) => echo(host, now, id, in_hand),
            Service::Request(request) => match receive(host, now, id, request) {
                Ok(Some(mut answer)) => {
                    let goes_on = send(host, now, id, &mut answer);
                    service = Service::Answer(answer);
                    goes_on
                }
                Ok(None) => true,
                Err(Ended) => false,
            },
            Service::Answer(answer) => send(host, now, id, answer),
        };
        self.clients.insert(id, service);
        if !goes_on {
            self.let_go(now, id);
        }
    }
}

/// The connection has nothing more to do.
struct Ended;

/// Sends back what comes, for as long as there is room; false at the end.
fn echo(host: &mut Host, now: Instant, id: SocketId, in_hand: &mut Bytes) -> bool {
    loop {
        if in_hand.is_empty() {
            *in_hand = match host.read_chunks(now, id, usize::MAX) {
                Ok(data) if data.is_empty() => return false,
                Ok(data) => data.to_vec().into(),
                Err(ReadError::Empty) => return true,
                Err(_) => return false,
            };
        }
        match host.write_chunk(now, id, in_hand.clone(), WriteFlags::default()) {
            Ok(taken) => *in_hand = in_hand.slice(taken..),
            Err(WriteError::Full) => return true,
            Err(_) => return false,
        }
    }
}

/// Reads a request; `None` where more has to come.
fn receive(
    host: &mut Host,
    now: Instant,
    id: SocketId,
    request: &mut Vec<u8>,
) -> Result<Option<Answer>, Ended> {
    loop {
        match host.read_chunks(now, id, board::REQUEST_BYTES_MAX - request.len()) {
            Ok(data) if data.is_empty() => return Err(Ended),
            Ok(data) => data
                .chunks()
                .iter()
                .for_each(|chunk| request.extend_from_slice(chunk)),
            Err(ReadError::Empty) => return Ok(None),
            Err(_) => return Err(Ended),
        }
        if let Some(answer) = answer(request) {
            return Ok(Some(answer));
        }
    }
}

/// Sends what there is room for; false at the end.
fn send(host: &mut Host, now: Instant, id: SocketId, answer: &mut Answer) -> bool {
    let more = WriteFlags::default().with_more(true);
    loop {
        // What is in flash is sent from there.
        let (chunk, is_head) = match answer.head.is_empty() {
            false => (answer.head.clone(), true),
            true => (Bytes::from_static(answer.rest()), false),
        };
        if chunk.is_empty() {
            return false;
        }
        match host.write_chunk(now, id, chunk, more) {
            Ok(taken) if is_head => answer.head = answer.head.slice(taken..),
            Ok(taken) => answer.on_sent(taken),
            Err(WriteError::Full) => return true,
            Err(_) => return false,
        }
    }
}

#[entry]
fn main() -> ! {
    board::start_heap();
    let peripherals = cortex_m::Peripherals::take().expect("taken once");
    let clock = Clock::start(peripherals.SYST);
    let mut serial = Serial::start(peripherals.NVIC);
    let mut decoder = Decoder::new(board::MTU.into());
    let mut server = Server::new();
    let mut sent = Vec::with_capacity(board::MTU.into());
    loop {
        let now = Instant::from_nanos(u64::from(clock.millis()) * 1_000_000);
        while let Some(byte) = serial.poll_receive() {
            if let Some(bytes) = decoder.handle_byte(byte) {
                let copied = |range| Bytes::copy_from_slice(&bytes[range]);
                if let Ok(packet) = wire::decode_with(bytes, None, copied) {
                    server.host.handle_packet(now, packet);
                }
                break;
            }
        }
        if server.host.poll_timeout().is_some_and(|due| due <= now) {
            server.host.handle_timeout(now);
        }
        server.serve(now);
        let mut is_idle = true;
        while let Some(packet) = server.host.poll_transmit(now) {
            is_idle = false;
            sent.clear();
            if wire::encode(&packet, &mut sent).is_ok() {
                encode(&sent, |byte| serial.send(byte));
            }
        }
        if is_idle {
            serial.sleep();
        }
    }
}
