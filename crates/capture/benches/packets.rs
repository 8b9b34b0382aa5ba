//! What the whole analysis of a packet costs, beside reading it from the file alone: in one large
//! transfer, in a thousand at once, and in connections that end soon.

use std::hint::black_box;

use base::Instant;
use base::SeqNum;
use base::ip::{IpHeader, Ipv4Header, protocol};
use base::pcap::{Reader, Writer};
use base::tcp::{TcpFlags, TcpHeader, TcpOption};
use capture::{Analysis, Settings};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const MSS: u32 = 1448;
const PACKETS: u32 = 300_000;

/// A capture of this many connections, of which each sends this many segments and gets an ACK for
/// two; 200 000 packets a second.
fn file(connections: u32, segments_each: u32) -> Vec<u8> {
    let mut writer = Writer::pcapng(Vec::new(), &["eth0"]).expect("into memory");
    writer = writer.with_snap_bytes(96);
    let mut written = 0;
    let mut round = 0;
    while written < PACKETS {
        for connection in 0..connections {
            let (sent, port) = (
                round % segments_each,
                port(connection, round / segments_each),
            );
            for packet in exchange(sent, port) {
                let at = Instant::from_nanos(u64::from(written) * 5000);
                writer.write(0, at, &packet).expect("into memory");
                written += 1;
            }
        }
        round += 1;
    }
    writer.finish().expect("into memory")
}

fn port(connection: u32, generation: u32) -> (u8, u16) {
    let number = connection + generation * 7919;
    ((number >> 14) as u8, (1024 + (number & 0x3fff)) as u16)
}

/// A segment, and an ACK behind every second one; a SYN in front of the first.
fn exchange(sent: u32, (host, port): (u8, u16)) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    if sent == 0 {
        packets.push(packet((host, port), true, (0, 0), TcpFlags::SYN, 0));
        packets.push(packet(
            (host, port),
            false,
            (0, 1),
            TcpFlags::SYN | TcpFlags::ACK,
            0,
        ));
    }
    let seq = 1 + sent * MSS;
    packets.push(packet((host, port), true, (seq, 1), TcpFlags::ACK, MSS));
    if sent % 2 == 1 {
        packets.push(packet(
            (host, port),
            false,
            (1, seq + MSS),
            TcpFlags::ACK,
            0,
        ));
    }
    packets
}

fn packet(
    (host, port): (u8, u16),
    out: bool,
    (seq, ack): (u32, u32),
    flags: TcpFlags,
    payload: u32,
) -> Vec<u8> {
    let (client, server) = ([10, 0, host, 1], [10, 1, 0, 1]);
    let (source, destination) = if out {
        (client, server)
    } else {
        (server, client)
    };
    let ports = if out { (port, 443) } else { (443, port) };
    let header = TcpHeader {
        source_port: ports.0,
        destination_port: ports.1,
        seq: SeqNum::new(seq),
        ack: SeqNum::new(ack),
        flags,
        window: 5000,
        urgent: 0,
    };
    let stamps = TcpOption::Timestamps {
        value: seq / MSS,
        echo: ack / MSS,
    };
    let mut options = vec![TcpOption::Nop, TcpOption::Nop, stamps];
    if flags.contains(TcpFlags::SYN) {
        options.extend([TcpOption::Mss(1460), TcpOption::WindowScale(7)]);
    }
    let ip = Ipv4Header::new(source.into(), destination.into(), protocol::TCP);
    let ip = IpHeader::V4(ip);
    let mut bytes = Vec::new();
    header.write_packet(&ip, &options, &vec![0; payload as usize], &mut bytes);
    bytes
}

fn read(file: &[u8]) -> u64 {
    let mut reader = Reader::new(file).expect("it was written by us");
    let mut bytes = 0;
    while let Some(packet) = reader.next_packet() {
        bytes += packet.expect("it was written by us").bytes.len() as u64;
    }
    bytes
}

fn analyse(file: &[u8]) -> u64 {
    let mut reader = Reader::new(file).expect("it was written by us");
    let mut analysis = Analysis::new(Settings::default());
    while let Some(packet) = reader.next_packet() {
        analysis.handle(&packet.expect("it was written by us"));
    }
    analysis.end();
    analysis.finish().1.connections
}

fn packets(c: &mut Criterion) {
    for (name, connections, segments) in [
        ("one", 1, u32::MAX),
        ("thousand", 1000, u32::MAX),
        ("short", 1000, 10),
    ] {
        let file = file(connections, segments);
        let mut group = c.benchmark_group(format!("capture_{name}"));
        group.throughput(Throughput::Elements(u64::from(PACKETS)));
        group.sample_size(10);
        group.bench_function("read", |b| b.iter(|| read(black_box(&file))));
        group.bench_function("analyse", |b| b.iter(|| analyse(black_box(&file))));
        group.finish();
    }
}

criterion_group!(benches, packets);
criterion_main!(benches);
