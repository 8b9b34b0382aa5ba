//! smoltcp on a TUN device, under the contract; it is used as it comes, only the device is ours.

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration as StdDuration;

use anyhow::Context;
use base::{GsoType, VirtioHeader};
use clap::{Parser, ValueEnum};
use linux::Clock;
use linux::tun::{Offloads, READ_BYTES, Tun};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Checksum, Device, DeviceCapabilities, Medium, PacketMeta};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

const ADDRESS: IpCidr = IpCidr::new(IpAddress::v4(10, 77, 0, 2), 24);
/// IPv4 and TCP headers, of which smoltcp writes no IP options.
const TCP_AT: u16 = 20;
const TCP_CHECKSUM_AT: u16 = 16;
/// Longest GSO packet, as Linux makes them.
const SUPERPACKET: usize = 65_535;
/// Sockets of each port that wait for a connection. Each takes one, and those who come when all are
/// taken are refused, so there must be as many as one look at the device may bring.
const LISTENING: usize = 8;
const SLEEP_MAX: StdDuration = StdDuration::from_millis(100);

/// smoltcp under the contract of the peers.
#[derive(Parser)]
struct Arguments {
    /// Largest packet, bytes.
    #[arg(long, default_value_t = 1500)]
    mtu: usize,
    /// Receive buffer and send buffer of each socket, bytes.
    #[arg(long, default_value_t = 65_535)]
    buffer: usize,
    /// Congestion control.
    #[arg(long, value_enum, default_value = "none")]
    congestion: Congestion,
    /// GSO packets and checksums: what the kernel may leave to us, or we to the kernel.
    #[arg(long, value_enum, default_value = "none")]
    offload: Offload,
}

#[derive(Clone, Copy, ValueEnum)]
enum Congestion {
    None,
    Cubic,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Offload {
    None,
    /// From the kernel only.
    In,
    Both,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut device = TunDevice::open(&arguments)?;
    let mut poll = Poll::new().context("making an epoll")?;
    let fd = device.tun.as_fd().as_raw_fd();
    poll.registry()
        .register(&mut SourceFd(&fd), Token(0), Interest::READABLE)
        .context("watching the device")?;
    let config = Config::new(HardwareAddress::Ip);
    let mut interface = Interface::new(config, &mut device, now());
    interface.update_ip_addrs(|addresses| {
        addresses.push(ADDRESS).expect("the first address has room");
    });
    let mut services = [5001, 5002, 5003].map(|port| Service::new(port, &arguments));
    let mut sockets = SocketSet::new(Vec::new());
    let mut events = Events::with_capacity(1);
    for service in &mut services {
        service.serve(&mut sockets);
    }
    writeln!(io::stdout(), "ready")?;
    loop {
        interface.poll(now(), &mut device, &mut sockets);
        for service in &mut services {
            service.serve(&mut sockets);
        }
        let delay = interface.poll_delay(now(), &sockets).map(Into::into);
        if delay != Some(StdDuration::ZERO) {
            // An interrupted sleep is a short one.
            let _ = poll.poll(
                &mut events,
                Some(delay.map_or(SLEEP_MAX, |d| d.min(SLEEP_MAX))),
            );
        }
    }
}

fn now() -> Instant {
    Instant::from_micros((Clock.now().as_nanos() / 1000).cast_signed())
}

/// One port with its sockets.
struct Service {
    port: u16,
    buffer: usize,
    congestion: CongestionControl,
    sockets: Vec<SocketHandle>,
}

impl Service {
    fn new(port: u16, arguments: &Arguments) -> Self {
        Self {
            port,
            buffer: arguments.buffer,
            congestion: match arguments.congestion {
                Congestion::None => CongestionControl::None,
                Congestion::Cubic => CongestionControl::Cubic,
            },
            sockets: Vec::new(),
        }
    }

    /// Moves data, closes what the other side closed, and keeps enough sockets listening.
    fn serve(&mut self, sockets: &mut SocketSet<'static>) {
        let mut listening = 0;
        for &handle in &self.sockets {
            let socket = sockets.get_mut::<Socket<'_>>(handle);
            match socket.state() {
                State::Closed => {
                    let listens = socket.listen(self.port);
                    listens.expect("the port is not 0 and the socket is closed");
                    listening += 1;
                }
                State::Listen => listening += 1,
                _ => move_data(socket, self.port),
            }
        }
        for _ in listening..LISTENING {
            self.sockets.push(sockets.add(self.socket()));
        }
    }

    fn socket(&self) -> Socket<'static> {
        let buffer = || SocketBuffer::new(vec![0; self.buffer]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_congestion_control(self.congestion);
        let listens = socket.listen(self.port);
        listens.expect("the port is not 0 and the socket is new");
        socket
    }
}

/// An error of a call here says that the connection has ended meanwhile; its state says so too.
fn move_data(socket: &mut Socket<'_>, port: u16) {
    match port {
        5001 => while matches!(socket.recv(|data| (data.len(), data.len())), Ok(1..)) {},
        5002 => while matches!(socket.send(|room| (room.len(), room.len())), Ok(1..)) {},
        _ => echo(socket),
    }
    if socket.state() == State::CloseWait {
        if port == 5002 {
            // Its buffer is never empty, so that closing would never end.
            socket.abort();
        } else if socket.recv_queue() == 0 {
            socket.close();
        }
    }
}

fn echo(socket: &mut Socket<'_>) {
    while socket.can_recv() && socket.can_send() {
        let room = socket.send_capacity() - socket.send_queue();
        let taken = socket.recv(|data| {
            let length = data.len().min(room);
            (length, data[..length].to_vec())
        });
        let _ = taken.map(|data| socket.send_slice(&data));
    }
}

struct TunDevice {
    tun: Tun,
    /// What stands in front of each packet.
    vnet_bytes: usize,
    offload: Offload,
    mtu: usize,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

impl TunDevice {
    fn open(arguments: &Arguments) -> anyhow::Result<Self> {
        let offloads = match arguments.offload {
            Offload::None => Offloads::NONE,
            Offload::In | Offload::Both => Offloads::ALL,
        };
        Ok(Self {
            tun: Tun::create_with("stack0", offloads)?,
            vnet_bytes: if offloads.vnet_header {
                VirtioHeader::BYTES
            } else {
                0
            },
            offload: arguments.offload,
            mtu: arguments.mtu,
            incoming: vec![0; READ_BYTES],
            outgoing: vec![0; READ_BYTES],
        })
    }
}

impl Device for TunDevice {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Transmit<'a>;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        match self.offload {
            Offload::None => {}
            Offload::In => capabilities.checksum.tcp = Checksum::Tx,
            Offload::Both => {
                capabilities.checksum.tcp = Checksum::None;
                capabilities.segmentation.tcpv4 = SUPERPACKET.try_into().ok();
            }
        }
        capabilities
    }

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Transmit<'_>)> {
        let length = self.tun.read(&mut self.incoming).ok()??;
        let received = Received(self.incoming.get(self.vnet_bytes..length)?);
        let transmit = Transmit {
            tun: &self.tun,
            vnet_bytes: self.vnet_bytes,
            buffer: &mut self.outgoing,
            partial: self.offload == Offload::Both,
            segment: None,
        };
        Some((received, transmit))
    }

    fn transmit(&mut self, _: Instant) -> Option<Transmit<'_>> {
        Some(Transmit {
            tun: &self.tun,
            vnet_bytes: self.vnet_bytes,
            buffer: &mut self.outgoing,
            partial: self.offload == Offload::Both,
            segment: None,
        })
    }
}

struct Received<'a>(&'a [u8]);

impl phy::RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(self.0)
    }
}

struct Transmit<'a> {
    tun: &'a Tun,
    vnet_bytes: usize,
    buffer: &'a mut [u8],
    /// smoltcp leaves TCP's checksum to the kernel.
    partial: bool,
    /// Payload of each segment of a GSO packet.
    segment: Option<u16>,
}

impl phy::TxToken for Transmit<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        let (vnet, packet) = self.buffer[..self.vnet_bytes + length].split_at_mut(self.vnet_bytes);
        let result = fill(packet);
        if self.vnet_bytes > 0 {
            let header = if self.partial {
                finish_by_kernel(packet, self.segment)
            } else {
                VirtioHeader::default()
            };
            vnet.copy_from_slice(&header.to_bytes());
        }
        // A packet that the kernel does not take is a lost packet.
        let _ = self.tun.write(&self.buffer[..self.vnet_bytes + length]);
        result
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.segment = meta.segmentation_offload_size.map(Into::into);
    }
}

/// Writes the sum over the pseudo header, to which the kernel adds the rest, and says so.
fn finish_by_kernel(packet: &mut [u8], segment: Option<u16>) -> VirtioHeader {
    let ends = base::ip::Ipv4Packet::parse(packet)
        .map(|ip| (ip.source().into(), ip.destination().into(), ip.protocol()));
    let Ok((source, destination, base::ip::protocol::TCP)) = ends else {
        return VirtioHeader::default();
    };
    let at = usize::from(TCP_AT);
    let length = packet.len() - at;
    let sum = base::Checksum::new()
        .pseudo_header(
            (source, destination),
            base::ip::protocol::TCP,
            length as u32,
        )
        .partial();
    let checksum_at = at + usize::from(TCP_CHECKSUM_AT);
    packet[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
    let header_bytes = TCP_AT + u16::from(packet[at + 12] >> 4) * 4;
    VirtioHeader {
        flags: VirtioHeader::NEEDS_CSUM,
        gso: segment.map_or(GsoType::None, |_| GsoType::TcpV4),
        gso_size: segment.unwrap_or(0),
        header_bytes,
        csum_start: TCP_AT,
        csum_offset: TCP_CHECKSUM_AT,
        ..VirtioHeader::default()
    }
}
