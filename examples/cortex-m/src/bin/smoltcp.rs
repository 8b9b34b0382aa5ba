//! The same firmware with smoltcp, for comparison.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use board::{Answer, Clock, Decoder, Serial, answer, encode};
use cortex_m_rt::entry;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

/// Connections of each of the two services, each with buffers of its own.
const CONNECTIONS: usize = 2;
/// Bytes of a buffer, one for each direction: what fits into the memory that ours has, too.
const BUFFER_BYTES: usize = 3 * 1460;

/// The serial line as a device of packets.
struct Line {
    serial: Serial,
    decoder: Decoder,
    sent: Vec<u8>,
}

struct Received<'a>(&'a [u8]);

struct Sending<'a> {
    serial: &'a mut Serial,
    sent: &'a mut Vec<u8>,
}

impl phy::RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl phy::TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, write: F) -> R {
        self.sent.clear();
        self.sent.resize(bytes, 0);
        let result = write(self.sent);
        encode(self.sent, |byte| self.serial.send(byte));
        result
    }
}

impl Device for Line {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Received<'_>, Sending<'_>)> {
        let Self {
            serial,
            decoder,
            sent,
        } = self;
        let byte = loop {
            let byte = serial.poll_receive()?;
            if decoder.completes(byte) {
                break byte;
            }
            decoder.handle_byte(byte);
        };
        let packet = decoder.handle_byte(byte)?;
        Some((Received(packet), Sending { serial, sent }))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Sending<'_>> {
        Some(Sending {
            serial: &mut self.serial,
            sent: &mut self.sent,
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = board::MTU.into();
        capabilities
    }
}

/// What a connection has in hand.
enum Service {
    /// What comes goes back from the buffers of the socket.
    Echo,
    /// A request that is not complete yet.
    Request(Vec<u8>),
    /// An answer on its way.
    Answer(Answer),
}

struct Server {
    interface: Interface,
    sockets: SocketSet<'static>,
    clients: Vec<(SocketHandle, Service)>,
}

impl Server {
    #[inline(never)]
    fn new(line: &mut Line, now: Instant) -> Box<Self> {
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), line, now);
        let [a, b, c, d] = board::ADDRESS;
        interface.update_ip_addrs(|addresses| {
            let address = IpCidr::new(IpAddress::v4(a, b, c, d), 24);
            addresses.push(address).expect("room for one address");
        });
        let mut sockets = SocketSet::new(Vec::new());
        let mut clients = Vec::new();
        for index in 0..2 * CONNECTIONS {
            let buffer = || SocketBuffer::new(vec![0; BUFFER_BYTES]);
            let handle = sockets.add(Socket::new(buffer(), buffer()));
            let service = match index % 2 {
                0 => Service::Echo,
                _ => Service::Request(Vec::new()),
            };
            clients.push((handle, service));
        }
        Box::new(Self {
            interface,
            sockets,
            clients,
        })
    }

    /// Serves all connections; returns whether anything was done.
    fn serve(&mut self) -> bool {
        let Self {
            interface: _,
            sockets,
            clients,
        } = self;
        let mut has_acted = false;
        for (handle, service) in clients {
            has_acted |= serve_client(sockets.get_mut::<Socket<'_>>(*handle), service);
        }
        has_acted
    }
}

fn serve_client(socket: &mut Socket<'_>, service: &mut Service) -> bool {
    if !socket.is_open() {
        let port = match service {
            Service::Echo => board::ECHO_PORT,
            Service::Request(_) | Service::Answer(_) => {
                *service = Service::Request(Vec::new());
                board::WEB_PORT
            }
        };
        return socket.listen(port).is_ok();
    }
    let acted = match service {
        Service::Echo => echo(socket),
        Service::Request(request) => match receive(socket, request) {
            Some(answer) => {
                *service = Service::Answer(answer);
                true
            }
            None => false,
        },
        Service::Answer(answer) => send(socket, answer),
    };
    // The peer has sent all, and it has gone back.
    let is_over = socket.may_send() && !socket.may_recv() && !socket.can_recv();
    if is_over && socket.is_active() {
        socket.close();
    }
    acted
}

fn echo(socket: &mut Socket<'_>) -> bool {
    if !socket.can_recv() || !socket.can_send() {
        return false;
    }
    let room = socket.send_capacity() - socket.send_queue();
    let data = socket.recv(|bytes| {
        let taken = bytes.len().min(room);
        (taken, bytes[..taken].to_vec())
    });
    data.is_ok_and(|data| socket.send_slice(&data).is_ok())
}

fn receive(socket: &mut Socket<'_>, request: &mut Vec<u8>) -> Option<Answer> {
    if !socket.can_recv() {
        return None;
    }
    let room = board::REQUEST_BYTES_MAX - request.len();
    let read = socket.recv(|bytes| {
        let taken = bytes.len().min(room);
        request.extend_from_slice(&bytes[..taken]);
        (taken, ())
    });
    read.ok().and_then(|()| answer(request))
}

fn send(socket: &mut Socket<'_>, answer: &mut Answer) -> bool {
    let mut has_sent = false;
    while socket.can_send() {
        let sent = match answer.head.is_empty() {
            false => {
                let sent = socket.send_slice(&answer.head).unwrap_or(0);
                answer.head = answer.head.slice(sent..);
                sent
            }
            true if answer.rest().is_empty() => {
                socket.close();
                return true;
            }
            true => {
                let sent = socket.send_slice(answer.rest()).unwrap_or(0);
                answer.on_sent(sent);
                sent
            }
        };
        has_sent |= sent > 0;
    }
    has_sent
}

#[entry]
fn main() -> ! {
    board::start_heap();
    let peripherals = cortex_m::Peripherals::take().expect("taken once");
    let clock = Clock::start(peripherals.SYST);
    let mut line = Line {
        serial: Serial::start(peripherals.NVIC),
        decoder: Decoder::new(board::MTU.into()),
        sent: Vec::with_capacity(board::MTU.into()),
    };
    let time = || Instant::from_millis(clock.millis());
    let mut server = Server::new(&mut line, time());
    loop {
        let now = time();
        let Server {
            interface, sockets, ..
        } = &mut *server;
        interface.poll(now, &mut line, sockets);
        let has_acted = server.serve();
        let Server {
            interface, sockets, ..
        } = &mut *server;
        if !has_acted && interface.poll_delay(now, sockets) != Some(Duration::ZERO) {
            line.serial.sleep();
        }
    }
}
