//! The bytes are a script: what the two ends of a few connections send each other, how the time
//! passes, and what a capture makes of their packets.
//!
//! Each end goes on where it stood, so that connections get long.

use std::net::IpAddr;
use std::time::Duration;

use base::ip::{IpHeader, Ipv4Header, Ipv6Header, protocol};
use base::pcap::{CapturedPacket, LinkType};
use base::tcp::{SackBlocks, TcpFlags, TcpHeader, TcpOption};
use base::{Instant, SeqNum};
use capture::Analysis;

use super::input::Input;
use super::judged::{self, SETTINGS};

const CONNECTIONS: usize = 8;
const STEPS_MAX: usize = 4_000;
const PACKETS_MAX: u32 = 2_000;
const MSS: u32 = 1448;
/// An IPv4 packet states its whole length, an IPv6 packet the length behind its header.
const LENGTH_AT: [(usize, usize); 2] = [(2, 0), (4, 40)];

/// No script makes the analysis panic, count what was not there, or keep more than its bounds.
pub(crate) fn check(bytes: &[u8]) {
    let mut input = Input { bytes };
    let mut world = World::new();
    for _ in 0..STEPS_MAX {
        let Some(step) = input.byte() else { break };
        world.step(step, &mut input);
    }
    judged::check(world.analysis);
}

/// One end of a connection.
#[derive(Clone, Copy, Default)]
struct Sender {
    /// Behind the last that it sent.
    next: u32,
    /// Its last timestamp.
    stamp: u32,
}

/// What a capture makes of packets.
#[derive(Clone, Copy)]
struct Form {
    link: LinkType,
    in_tunnel: bool,
    device: u32,
    snap_bytes: usize,
    /// Claimed beyond what was sent.
    more_bytes: u32,
}

struct World {
    now: Instant,
    ends: [[Sender; 2]; CONNECTIONS],
    form: Form,
    analysis: Analysis,
    /// Packets that may still come.
    left: u32,
}

/// A connection, and which of its ends sends.
type Place = (usize, usize);

impl World {
    fn new() -> Self {
        Self {
            now: Instant::from_nanos(1_000_000_000),
            ends: [[Sender::default(); 2]; CONNECTIONS],
            form: Form {
                link: LinkType::Raw,
                in_tunnel: false,
                device: 0,
                snap_bytes: 256,
                more_bytes: 0,
            },
            analysis: Analysis::new(SETTINGS),
            left: PACKETS_MAX,
        }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        match step % 12 {
            0..3 => self.send_data(input),
            3 | 4 => self.send_ack(input),
            5 => self.shake_hands(input),
            6 => self.exchange(input),
            7 | 8 => {
                let shift = input.number() % 36;
                self.now += Duration::from_nanos(u64::from(input.number()) << shift);
            }
            9 => self.send_anything(input),
            10 => self.end(input),
            _ => self.change_form(input),
        }
    }

    fn place(input: &mut Input<'_>) -> (Place, u32) {
        let number = input.number();
        let place = (number as usize / 2 % CONNECTIONS, number as usize % 2);
        (place, number >> 4)
    }

    fn side(&mut self, (connection, from): Place) -> &mut Sender {
        &mut self.ends[connection][from]
    }

    /// Payload behind what was sent, or near to it.
    fn send_data(&mut self, input: &mut Input<'_>) {
        let (place, shape) = Self::place(input);
        let length = match shape & 3 {
            0 => MSS,
            1 => input.number(),
            2 => input.wide(),
            _ => 10 * MSS,
        };
        let away = if shape & 4 == 0 { 0 } else { input.distance() };
        let mut flags = TcpFlags::ACK;
        if shape & 8 != 0 {
            flags |= TcpFlags::PSH;
        }
        let seq = self.side(place).next.wrapping_add(away);
        self.send(place, (seq, length), flags, &[]);
    }

    /// An ACK for all that the other end sent, or for what is near to it.
    fn send_ack(&mut self, input: &mut Input<'_>) {
        let (place, shape) = Self::place(input);
        let (connection, from) = place;
        let other = self.ends[connection][1 - from].next;
        let ack = match shape & 1 {
            0 => other,
            _ => other.wrapping_sub(input.distance()),
        };
        let mut options = Vec::new();
        if shape & 2 != 0 {
            let mut block = || {
                let edge =
                    |input: &mut Input<'_>| SeqNum::new(other.wrapping_sub(input.distance()));
                (edge(input), edge(input))
            };
            let blocks = [block(), block(), block()];
            let blocks = &blocks[..1 + shape as usize / 4 % 3];
            options.push(TcpOption::Sack(SackBlocks::new(blocks)));
        }
        let window = input.wide() as u16;
        let seq = self.side(place).next;
        let header = self.header(place, (seq, ack), TcpFlags::ACK, window);
        self.emit(place, &header, 0, &options);
    }

    /// The three packets of a handshake, or only the first of them.
    fn shake_hands(&mut self, input: &mut Input<'_>) {
        let ((connection, from), shape) = Self::place(input);
        let (options, first) = (input.number(), input.wide() << 16);
        let numbers = [first, !first];
        let whole = 1 + shape as usize % 3;
        let steps = [
            (from, TcpFlags::SYN),
            (1 - from, TcpFlags::SYN | TcpFlags::ACK),
            (from, TcpFlags::ACK),
        ];
        for (number, (from, flags)) in steps.into_iter().take(whole).enumerate() {
            let place = (connection, from);
            let mut offered = Vec::new();
            if number < 2 {
                let mine = options >> (4 * number);
                self.side(place).next = numbers[number];
                if mine & 1 != 0 {
                    offered.push(TcpOption::WindowScale(if mine & 8 != 0 { 255 } else { 7 }));
                }
                if mine & 2 != 0 {
                    offered.push(TcpOption::Mss(if mine & 8 != 0 { 0 } else { 1460 }));
                }
                if mine & 4 != 0 {
                    offered.push(TcpOption::SackPermitted);
                }
            }
            let seq = self.side(place).next;
            self.send(place, (seq, 0), flags, &offered);
            self.now += Duration::from_micros(100 << (shape & 7));
        }
    }

    /// A transfer of some rounds: segments, an ACK for all of them, a round trip between.
    fn exchange(&mut self, input: &mut Input<'_>) {
        let (place, shape) = Self::place(input);
        let (rounds, segments, length) = (input.number(), 1 + input.number() % 32, input.wide());
        let trip = Duration::from_micros(50 << (shape & 15));
        for _ in 0..rounds {
            for _ in 0..segments {
                let seq = self.side(place).next;
                self.send(place, (seq, length), TcpFlags::ACK, &[]);
                self.now += Duration::from_micros(10);
            }
            self.now += trip;
            let back = (place.0, 1 - place.1);
            let seq = self.side(back).next;
            self.send(back, (seq, 0), TcpFlags::ACK, &[]);
        }
    }

    fn send_anything(&mut self, input: &mut Input<'_>) {
        let (place, _) = Self::place(input);
        let mut word = || input.wide() << 16 | input.wide();
        let (seq, ack) = (word(), word());
        let flags = TcpFlags::from_bits(input.wide() as u16);
        let header = self.header(place, (seq, ack), flags, input.wide() as u16);
        self.emit(place, &header, input.wide(), &[]);
    }

    fn end(&mut self, input: &mut Input<'_>) {
        let (place, shape) = Self::place(input);
        let flags = match shape & 3 {
            0 => TcpFlags::RST,
            _ => TcpFlags::FIN | TcpFlags::ACK,
        };
        let seq = self.side(place).next;
        self.send(place, (seq, 0), flags, &[]);
    }

    fn change_form(&mut self, input: &mut Input<'_>) {
        let what = input.number();
        match what % 6 {
            0 => {
                self.form.link = match input.number() % 4 {
                    0 => LinkType::Raw,
                    1 => LinkType::Ethernet,
                    2 => LinkType::LinuxSll2,
                    _ => LinkType::Null,
                };
            }
            1 => self.form.in_tunnel = !self.form.in_tunnel,
            2 => self.form.device = input.number() % 3,
            3 => self.form.snap_bytes = input.number() as usize,
            4 => self.form.more_bytes = input.number() << (input.number() % 25),
            _ => self.now = Instant::from_nanos(u64::from(input.wide()) << 48),
        }
    }

    /// A segment that acknowledges all that the other end sent; what is new moves this end on.
    fn send(
        &mut self,
        place: Place,
        (seq, length): (u32, u32),
        flags: TcpFlags,
        options: &[TcpOption<'_>],
    ) {
        let ack = self.ends[place.0][1 - place.1].next;
        let header = self.header(place, (seq, ack), flags, 5000);
        let numbers = u32::from(flags.contains(TcpFlags::SYN) || flags.contains(TcpFlags::FIN));
        let end = seq.wrapping_add(length).wrapping_add(numbers);
        let side = self.side(place);
        if SeqNum::new(end).after(SeqNum::new(side.next)) {
            side.next = end;
        }
        self.emit(place, &header, length, options);
    }

    fn header(
        &self,
        place: Place,
        (seq, ack): (u32, u32),
        flags: TcpFlags,
        window: u16,
    ) -> TcpHeader {
        let (source, destination) = ends(place);
        TcpHeader {
            source_port: source.1,
            destination_port: destination.1,
            seq: SeqNum::new(seq),
            ack: SeqNum::new(ack),
            flags,
            window,
            urgent: 0,
        }
    }

    /// Hands over the packet without its payload, of which only the length is told.
    fn emit(&mut self, place: Place, header: &TcpHeader, length: u32, options: &[TcpOption<'_>]) {
        let (connection, from) = place;
        let Some(left) = self.left.checked_sub(1) else {
            return;
        };
        self.left = left;
        let mut options = options.to_vec();
        // The upper half of the connections has timestamps.
        if connection >= CONNECTIONS / 2 {
            let millis = self.now.as_nanos() / 1_000_000;
            self.side(place).stamp = millis as u32;
            options.push(TcpOption::Timestamps {
                value: millis as u32,
                echo: self.ends[connection][1 - from].stamp,
            });
        }
        let mut bytes = Vec::new();
        header.write_packet(&ip_header(place), &options, &[], &mut bytes);
        let (at, in_front) = LENGTH_AT[usize::from(bytes[0] >> 4 == 6)];
        let claimed = bytes.len() + length as usize - in_front;
        let claimed = u16::try_from(claimed).unwrap_or(0);
        bytes[at..at + 2].copy_from_slice(&claimed.to_be_bytes());
        let bytes = self.form.enclose(&bytes);
        let whole = bytes.len() as u32 + length;
        let kept = bytes.len().min(self.form.snap_bytes);
        self.analysis.handle(&CapturedPacket {
            at: self.now,
            interface: self.form.device,
            link: self.form.link,
            original_bytes: whole.saturating_add(self.form.more_bytes),
            bytes: &bytes[..kept],
        });
    }
}

impl Form {
    /// The packet behind the headers of its link, and of a tunnel.
    fn enclose(&self, packet: &[u8]) -> Vec<u8> {
        let is_v6 = packet[0] >> 4 == 6;
        let mut bytes: Vec<u8> = match self.link {
            LinkType::Ethernet => vec![0; 14],
            LinkType::LinuxSll2 => vec![0; 20],
            LinkType::Null => vec![0; 4],
            _ => Vec::new(),
        };
        let is_v6_outside = is_v6 && !self.in_tunnel;
        let ether_type = if is_v6_outside { [0x86, 0xdd] } else { [8, 0] };
        match self.link {
            LinkType::Ethernet => bytes[12..].copy_from_slice(&ether_type),
            LinkType::LinuxSll2 => bytes[..2].copy_from_slice(&ether_type),
            _ => {}
        }
        if self.in_tunnel {
            let inner = if is_v6 { 41 } else { 4 };
            let header = Ipv4Header::new([192, 0, 2, 1].into(), [192, 0, 2, 2].into(), inner);
            IpHeader::V4(header).write(packet.len(), &mut bytes);
        }
        bytes.extend_from_slice(packet);
        bytes
    }
}

/// Source and destination. One connection is of a socket with itself, and some are of IPv6.
fn ends((connection, from): Place) -> ((IpAddr, u16), (IpAddr, u16)) {
    let host = |last: u8| -> IpAddr {
        match connection % 4 {
            3 => [0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(last)].into(),
            _ => [10, 0, 0, last].into(),
        }
    };
    if connection == 1 {
        return ((host(1), 7), (host(1), 7));
    }
    let client = (host(1), 40_000 + connection as u16);
    let server = (host(2), 80);
    match from {
        0 => (client, server),
        _ => (server, client),
    }
}

fn ip_header(place: Place) -> IpHeader {
    let ((source, _), (destination, _)) = ends(place);
    match (source, destination) {
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            IpHeader::V6(Ipv6Header::new(source, destination, protocol::TCP))
        }
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            IpHeader::V4(Ipv4Header::new(source, destination, protocol::TCP))
        }
        _ => unreachable!("both ends have one version"),
    }
}
