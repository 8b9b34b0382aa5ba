//! What a link costs per packet: the bound of the emulator and of the simulator.
//!
//! `cargo bench -p tcptailor-link`. A GSO packet of 45 segments is what Linux sends at 10 Gbit/s.

use core::hint::black_box;
use core::time::Duration;

use base::{Fraction, Instant, QueueLimit, WirePacket};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tcptailor_link::{Link, LinkSpec, Loss};

/// As large as the emulator's handle of a packet buffer.
struct Packet {
    segments: u32,
    last_bytes: u32,
    _handle: usize,
}

impl WirePacket for Packet {
    fn segments(&self) -> u32 {
        self.segments
    }

    fn wire_bytes(&self) -> u64 {
        1500 * u64::from(self.segments - 1) + u64::from(self.last_bytes)
    }

    fn largest_segment_bytes(&self) -> u32 {
        if self.segments == 1 {
            self.last_bytes
        } else {
            1500
        }
    }

    fn split_off(&mut self, at: u32) -> Self {
        let tail = Self {
            segments: self.segments - at,
            ..*self
        };
        (self.segments, self.last_bytes) = (at, 1500);
        tail
    }

    fn duplicate(&self) -> Self {
        Self { ..*self }
    }
}

/// A 10 Gbit/s link that is kept busy: one packet in, whatever has arrived out.
fn packets(criterion: &mut Criterion, name: &str, loss: &Loss) {
    let spec = LinkSpec {
        rate: Some("10gbit".parse().expect("a rate")),
        delay: Duration::from_micros(790),
        queue: QueueLimit::Packets(1000),
        overhead_bytes: 14,
        loss: loss.clone(),
        ..LinkSpec::ideal()
    };
    let mut group = criterion.benchmark_group(name);
    for (label, segments) in [("single", 1_u32), ("GSO packet of 45", 45)] {
        let mut link = Link::new(spec.clone(), 1).expect("a valid link");
        // A little slower than the wire, so that there is a queue at times and never a full one.
        let gap = Duration::from_nanos(u64::from(segments) * 1_212);
        let mut now = Instant::ZERO;
        group.throughput(Throughput::Elements(1));
        group.bench_function(label, |bencher| {
            bencher.iter(|| {
                now += gap;
                let packet = Packet {
                    segments,
                    last_bytes: 1500,
                    _handle: 0,
                };
                let _ = black_box(link.handle_packet(now, black_box(packet)));
                while let Some(packet) = link.poll_deliver(now) {
                    black_box(packet);
                }
            });
        });
    }
    group.finish();
}

fn link(criterion: &mut Criterion) {
    packets(criterion, "clean", &Loss::Never);
    let share = Fraction::from_parts(10_000_000);
    packets(criterion, "1 % loss", &Loss::Random(share));
}

criterion_group!(benches, link);
criterion_main!(benches);
