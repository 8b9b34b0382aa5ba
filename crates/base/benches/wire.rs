//! What a packet costs: to look at, to sum, to cut. Each figure stands beside a yardstick of the
//! same run.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use tcptailor_base::ip::{IpHeader, IpPacket, Ipv4Header, protocol};
use tcptailor_base::tcp::{TcpFlags, TcpHeader, TcpOption, TcpSegment};
use tcptailor_base::{Checksum, GsoPacket, GsoType, SeqNum, VirtioHeader, WirePacket};

const GSO_SIZE: u16 = 1448;
const SEGMENTS: usize = 44;
/// IPv4 and TCP with timestamps.
const HEADER_BYTES: usize = 52;

fn parse(c: &mut Criterion) {
    let packet = packet(usize::from(GSO_SIZE));
    let mut group = c.benchmark_group("parse");
    group.throughput(Throughput::Elements(1));
    group.bench_function("ipv4_tcp_timestamps", |b| {
        b.iter(|| {
            let ip = IpPacket::parse(black_box(&packet)).expect("it was written by us");
            let tcp = TcpSegment::parse(ip.payload()).expect("it was written by us");
            let ends = (ip.source(), ip.destination());
            let ports = (tcp.source_port(), tcp.destination_port());
            let place = (tcp.seq(), tcp.ack(), tcp.flags(), tcp.payload().len());
            black_box((ends, ports, place, tcp.timestamps()))
        });
    });
    group.bench_function("gso_packet_from_tun", |b| {
        let mut buffer = gso_packet().into_buffer();
        let length = buffer.len();
        b.iter(|| {
            let packet = GsoPacket::from_tun(std::mem::take(&mut buffer), length);
            let packet = packet.expect("it has a virtio header");
            black_box((packet.segments(), packet.wire_bytes()));
            buffer = packet.into_buffer();
        });
    });
    group.finish();
}

fn checksum(c: &mut Criterion) {
    for bytes in [HEADER_BYTES, 1500, 64 * 1024] {
        let data: Vec<u8> = (0..bytes).map(|at| (at * 31) as u8).collect();
        assert_eq!(Checksum::new().bytes(&data).finish(), byte_pairs(&data));
        let mut group = c.benchmark_group(format!("checksum_{bytes}"));
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function("base", |b| {
            b.iter(|| Checksum::new().bytes(black_box(&data)).finish());
        });
        group.bench_function("byte_pairs", |b| b.iter(|| byte_pairs(black_box(&data))));
        group.finish();
    }
}

fn split(c: &mut Criterion) {
    let mut group = c.benchmark_group("split");
    group.throughput(Throughput::Bytes(gso_packet().wire_bytes()));
    group.bench_function("duplicate", |b| {
        let packet = gso_packet();
        b.iter(|| black_box(packet.duplicate()));
    });
    for (name, at) in [("off_first", 1), ("off_half", 22), ("off_last", 43)] {
        group.bench_function(name, |b| {
            b.iter_batched(
                gso_packet,
                |mut packet| {
                    let tail = packet.split_off(at);
                    (packet, tail)
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.bench_function("into_single_packets", |b| {
        b.iter_batched(
            gso_packet,
            |mut packet| {
                let mut singles = Vec::with_capacity(SEGMENTS);
                while packet.segments() > 1 {
                    let tail = packet.split_off(1);
                    singles.push(std::mem::replace(&mut packet, tail));
                }
                (singles, packet)
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// The yardstick: RFC 1071 as it is written down.
fn byte_pairs(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8;
        sum += u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn packet(payload_bytes: usize) -> Vec<u8> {
    let header = TcpHeader {
        seq: SeqNum::new(1),
        flags: TcpFlags::ACK,
        ..TcpHeader::default()
    };
    let options = [
        TcpOption::Nop,
        TcpOption::Nop,
        TcpOption::Timestamps { value: 1, echo: 2 },
    ];
    let ends = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let ip = IpHeader::V4(Ipv4Header::new(ends.0, ends.1, protocol::TCP));
    let mut packet = Vec::new();
    header.write_packet(&ip, &options, &vec![7; payload_bytes], &mut packet);
    packet
}

fn gso_packet() -> GsoPacket {
    let vnet = VirtioHeader {
        flags: VirtioHeader::NEEDS_CSUM,
        gso: GsoType::TcpV4,
        header_bytes: HEADER_BYTES as u16,
        gso_size: GSO_SIZE,
        csum_start: 20,
        csum_offset: 16,
        ..VirtioHeader::default()
    };
    let mut buffer = vnet.to_bytes().to_vec();
    buffer.extend(packet(SEGMENTS * usize::from(GSO_SIZE)));
    let length = buffer.len();
    let packet = GsoPacket::from_tun(buffer, length).expect("it has a virtio header");
    assert_eq!(packet.segments() as usize, SEGMENTS);
    packet
}

criterion_group!(benches, parse, checksum, split);
criterion_main!(benches);
