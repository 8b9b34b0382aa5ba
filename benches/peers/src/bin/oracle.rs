//! The oracle: the least TCP that can fulfil the contract, and so the roofline of all that do.
//!
//! It delivers in order, acknowledges, heeds the window, and after a loss sends everything again.
//! It has no congestion control, keeps nothing that comes out of order, and serves one connection
//! per port. What a stack costs beyond the oracle is the price of being a TCP.

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use anyhow::Context;
use base::ip::{Ipv4Header, Ipv4Packet, protocol};
use base::tcp::{TcpFlags, TcpHeader, TcpOption, TcpSegment};
use base::{Checksum, GsoType, Instant, SeqNum, VirtioHeader};
use clap::Parser;
use linux::Clock;
use linux::tun::{Offloads, READ_BYTES, Tun};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const DISCARD: u16 = 5001;
const CHARGEN: u16 = 5002;
const ECHO: u16 = 5003;

/// IPv4 and TCP without options.
const HEADERS: usize = 40;
/// Where TCP's checksum stands in its header.
const CHECKSUM_AT: usize = 16;
const WINDOW_SHIFT: u8 = 8;
const FIRST: SeqNum = SeqNum::new(1);
/// Packets read, and packets of data sent, before the other direction has its turn.
const READS: usize = 256;
const WRITES: usize = 64;
/// Kernels offer windows of many megabytes; data that wait in such a queue have left the caches by
/// the time they are read.
const IN_FLIGHT_MAX: u32 = 4 << 20;
const TIMEOUT: Duration = Duration::from_millis(200);

/// The least TCP there can be, on a TUN device.
#[derive(Parser)]
struct Arguments {
    /// Largest packet, bytes.
    #[arg(long, default_value_t = 1500)]
    mtu: u16,
    /// Take and send GSO packets, and leave checksums to the kernel.
    #[arg(long)]
    tso: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let offloads = if arguments.tso {
        Offloads::ALL
    } else {
        Offloads::NONE
    };
    let tun = Tun::create_with("stack0", offloads)?;
    let mut poll = Poll::new().context("making an epoll")?;
    let fd = tun.as_fd().as_raw_fd();
    poll.registry()
        .register(&mut SourceFd(&fd), Token(0), Interest::READABLE)
        .context("watching the device")?;
    let mut oracle = Oracle {
        mtu: arguments.mtu,
        connections: Default::default(),
        wire: Wire {
            tun,
            tso: arguments.tso,
            identification: 0,
            header: Vec::with_capacity(128),
            packet: vec![0; READ_BYTES],
        },
    };
    writeln!(io::stdout(), "ready")?;
    let mut buffer = vec![0; READ_BYTES];
    let mut events = Events::with_capacity(1);
    loop {
        if oracle.turn(&mut buffer)? == 0 {
            // An interrupted sleep is a short one.
            let _ = poll.poll(&mut events, Some(TIMEOUT / 2));
        }
    }
}

/// One connection; what it does with data depends on its port alone.
struct Connection {
    remote: (Ipv4Addr, u16),
    port: u16,
    mss: u16,
    /// By how much the other side's window is shifted.
    shift: u8,
    window: u32,
    /// The next byte that should come in.
    expected: SeqNum,
    /// The oldest byte that is not acknowledged, and the next to be sent.
    oldest: SeqNum,
    next: SeqNum,
    segments_to_acknowledge: u32,
    bytes_to_echo: u32,
    duplicates: u32,
    /// When the oldest byte last changed.
    progress: Instant,
    remote_closed: bool,
}

struct Oracle {
    mtu: u16,
    /// For each port from [`DISCARD`] on.
    connections: [Option<Connection>; 3],
    wire: Wire,
}

impl Oracle {
    /// Takes in what waits, then sends what is to be sent. Returns the number of packets read.
    fn turn(&mut self, buffer: &mut [u8]) -> anyhow::Result<usize> {
        let mut count = 0;
        while count < READS {
            let Some(length) = self.wire.tun.read(buffer).context("reading the device")? else {
                break;
            };
            count += 1;
            let packet = buffer.get(self.wire.vnet_bytes()..length);
            self.handle(packet.unwrap_or_default());
        }
        let now = Clock.now();
        for slot in &mut self.connections {
            if let Some(connection) = slot {
                connection.send(&mut self.wire, now);
                if connection.remote_closed {
                    *slot = None;
                }
            }
        }
        Ok(count)
    }

    /// What is not a segment for us is none of our business.
    fn handle(&mut self, packet: &[u8]) {
        let Ok(ip) = Ipv4Packet::parse(packet) else {
            return;
        };
        if ip.protocol() != protocol::TCP || ip.destination() != ADDRESS {
            return;
        }
        let Ok(segment) = TcpSegment::parse(ip.payload()) else {
            return;
        };
        let ends = (ip.source().into(), ip.destination().into());
        if !self.wire.tso && !segment.checksum_is_right(ends) {
            return;
        }
        let index = usize::from(segment.destination_port().wrapping_sub(DISCARD));
        let Some(slot) = self.connections.get_mut(index) else {
            return;
        };
        if segment.flags().contains(TcpFlags::SYN) {
            let opened = Connection::open(&segment, ip.source(), self.mtu);
            self.wire.send(&opened, FIRST, TcpFlags::SYN, 0);
            *slot = Some(opened);
        } else if segment.flags().contains(TcpFlags::RST) {
            *slot = None;
        } else if let Some(connection) = slot {
            connection.receive(&segment, &mut self.wire);
        }
    }
}

impl Connection {
    fn open(syn: &TcpSegment<'_>, remote: Ipv4Addr, mtu: u16) -> Self {
        let mut connection = Self {
            remote: (remote, syn.source_port()),
            port: syn.destination_port(),
            mss: 536,
            shift: 0,
            window: 0,
            expected: syn.seq() + 1,
            oldest: FIRST,
            next: FIRST + 1,
            segments_to_acknowledge: 0,
            bytes_to_echo: 0,
            duplicates: 0,
            progress: Clock.now(),
            remote_closed: false,
        };
        for option in syn.options() {
            match option {
                TcpOption::Mss(mss) => connection.mss = mss.clamp(1, mtu - HEADERS as u16),
                TcpOption::WindowScale(shift) => connection.shift = shift.min(14),
                _ => {}
            }
        }
        connection
    }

    fn receive(&mut self, segment: &TcpSegment<'_>, wire: &mut Wire) {
        self.acknowledged(segment);
        let length = segment.payload().len() as u32;
        let fin = segment.flags().contains(TcpFlags::FIN);
        if length == 0 && !fin {
            return;
        }
        if segment.seq() != self.expected {
            // A duplicate acknowledgment, by which the other side learns of the gap.
            wire.acknowledge(self);
            return;
        }
        self.expected += length + u32::from(fin);
        self.remote_closed |= fin;
        if self.port == ECHO {
            self.bytes_to_echo += length;
        }
        self.segments_to_acknowledge += 1;
        if self.segments_to_acknowledge >= wire.segments_per_ack() {
            wire.acknowledge(self);
        }
    }

    fn acknowledged(&mut self, segment: &TcpSegment<'_>) {
        let window = u32::from(segment.window()) << self.shift;
        if segment.ack().after(self.oldest) {
            self.oldest = segment.ack();
            self.duplicates = 0;
            self.progress = Clock.now();
            if self.next.before(self.oldest) {
                self.next = self.oldest;
            }
        } else if self.in_flight() > 0 && segment.payload().is_empty() && window == self.window {
            self.duplicates += 1;
            if self.duplicates == 3 {
                self.next = self.oldest;
            }
        }
        self.window = window;
    }

    const fn in_flight(&self) -> u32 {
        self.next.bytes_since(self.oldest)
    }

    fn send(&mut self, wire: &mut Wire, now: Instant) {
        if self.in_flight() > 0 && now.since(self.progress) > TIMEOUT {
            (self.next, self.progress) = (self.oldest, now);
        }
        if self.bytes_to_echo > 0 {
            let length = self.bytes_to_echo.min(u32::from(self.mss));
            self.bytes_to_echo -= length;
            wire.send_data(self, TcpFlags::PSH, length);
        }
        if self.port == CHARGEN && !self.remote_closed {
            self.fill_window(wire);
        }
        if self.remote_closed {
            wire.send(self, self.next, TcpFlags::FIN, 0);
        } else if self.segments_to_acknowledge > 0 {
            wire.acknowledge(self);
        }
    }

    fn fill_window(&mut self, wire: &mut Wire) {
        let mss = u32::from(self.mss);
        let longest = wire.longest_payload(mss);
        for _ in 0..WRITES {
            let window = self.window.min(IN_FLIGHT_MAX);
            let length = longest.min(window.saturating_sub(self.in_flight()));
            // A small segment only where nothing else would open the window.
            if length == 0 || (length < mss && self.in_flight() > 0) {
                return;
            }
            wire.send_data(self, TcpFlags::default(), length);
        }
    }
}

/// The device, and the buffer of every packet that is written: whatever stands behind the headers
/// is the payload, so that nothing is ever copied.
struct Wire {
    tun: Tun,
    tso: bool,
    identification: u16,
    header: Vec<u8>,
    packet: Vec<u8>,
}

impl Wire {
    /// What stands in front of each packet.
    const fn vnet_bytes(&self) -> usize {
        if self.tso { VirtioHeader::BYTES } else { 0 }
    }

    /// A GSO packet holds some 44 segments, so that few of them are worth an acknowledgment.
    const fn segments_per_ack(&self) -> u32 {
        if self.tso { 4 } else { 64 }
    }

    /// What the receiver of GSO packets promises must be some 100 of them to keep both busy.
    const fn window(&self) -> u16 {
        let bytes: u32 = if self.tso { 16_000_000 } else { 1 << 20 };
        (bytes >> WINDOW_SHIFT) as u16
    }

    /// Whole segments, as many as one packet may stand for.
    const fn longest_payload(&self, mss: u32) -> u32 {
        if self.tso {
            (u16::MAX as u32 - HEADERS as u32) / mss * mss
        } else {
            mss
        }
    }

    fn acknowledge(&mut self, connection: &mut Connection) {
        self.send_data(connection, TcpFlags::default(), 0);
    }

    fn send_data(&mut self, connection: &mut Connection, flags: TcpFlags, length: u32) {
        self.send(connection, connection.next, flags, length);
        connection.next += length;
        connection.segments_to_acknowledge = 0;
    }

    fn send(&mut self, connection: &Connection, seq: SeqNum, flags: TcpFlags, length: u32) {
        let is_syn = flags.contains(TcpFlags::SYN);
        let tcp = TcpHeader {
            source_port: connection.port,
            destination_port: connection.remote.1,
            seq,
            ack: connection.expected,
            flags: flags | TcpFlags::ACK,
            window: if is_syn { u16::MAX } else { self.window() },
            urgent: 0,
        };
        let syn_options = [
            TcpOption::Mss(connection.mss),
            TcpOption::WindowScale(WINDOW_SHIFT),
        ];
        let options = if is_syn { &syn_options[..] } else { &[] };
        self.identification = self.identification.wrapping_add(1);
        let ip = Ipv4Header {
            identification: self.identification,
            ..Ipv4Header::new(ADDRESS, connection.remote.0, protocol::TCP)
        };

        let tcp_bytes = TcpSegment::HEADER_BYTES_MIN + if is_syn { 8 } else { 0 };
        let segment_bytes = tcp_bytes + length as usize;
        let vnet = vnet(tcp_bytes, length, connection.mss);
        self.header.clear();
        self.header
            .extend_from_slice(&vnet.to_bytes()[..self.vnet_bytes()]);
        ip.write(segment_bytes, &mut self.header);
        let tcp_at = self.header.len();
        tcp.write(options, &mut self.header);
        let end = self.header.len() + length as usize;
        self.packet[..self.header.len()].copy_from_slice(&self.header);

        let ends = (ADDRESS.into(), connection.remote.0.into());
        let pseudo = Checksum::new().pseudo_header(ends, protocol::TCP, segment_bytes as u32);
        let checksum = if self.tso {
            pseudo.partial()
        } else {
            pseudo.bytes(&self.packet[tcp_at..end]).finish()
        };
        self.packet[tcp_at + CHECKSUM_AT..][..2].copy_from_slice(&checksum.to_be_bytes());
        // A packet that the kernel does not take is a lost packet.
        let _ = self.tun.write(&self.packet[..end]);
    }
}

/// What is left to the kernel: the checksum, and the cutting where there is more than one segment.
fn vnet(tcp_bytes: usize, length: u32, mss: u16) -> VirtioHeader {
    let is_one = length <= u32::from(mss);
    VirtioHeader {
        flags: VirtioHeader::NEEDS_CSUM,
        gso: if is_one {
            GsoType::None
        } else {
            GsoType::TcpV4
        },
        gso_size: if is_one { 0 } else { mss },
        header_bytes: (Ipv4Packet::HEADER_BYTES_MIN + tcp_bytes) as u16,
        csum_start: Ipv4Packet::HEADER_BYTES_MIN as u16,
        csum_offset: CHECKSUM_AT as u16,
        ..VirtioHeader::default()
    }
}
