//! How much memory connections take, as docs/captures.md says it: so much for each that is open,
//! however many packets it has.

use base::ip::{IpHeader, Ipv4Header, protocol};
use base::pcap::{CapturedPacket, LinkType};
use base::tcp::{TcpFlags, TcpHeader};
use base::{Instant, SeqNum};
use capture::{Analysis, Settings};

/// As a capture of a SYN flood has them.
const CONNECTIONS: u32 = 200_000;
/// Of one packet.
const EACH_MAX: u64 = 2_400;
/// Those with all ACKs on their way.
const BUSY: u32 = 20;
const BUSY_EACH_MAX: u64 = 400_000;
const MILLISECOND: u64 = 1_000_000;

/// One measurement after the other: threads share the memory of a process.
#[test]
fn connections_take_what_the_page_says() {
    let before = resident_bytes();
    let mut analysis = Analysis::new(Settings::default());
    for number in 0..BUSY {
        keep_busy(number, &mut analysis);
    }
    let each = (resident_bytes() - before) / u64::from(BUSY);
    println!("{each} bytes for each that is busy");
    assert!((10_000..=BUSY_EACH_MAX).contains(&each), "{each} bytes");
    analysis.end();
    let (recording, summary) = analysis.finish();
    assert_eq!(summary.connections, u64::from(BUSY));
    for track in &recording.flows {
        let bytes = track.samples.memory_bytes();
        assert!(bytes <= 256 << 10, "{bytes} bytes");
    }
    drop(recording);

    let before = resident_bytes();
    let mut analysis = Analysis::new(Settings::default());
    for number in 0..CONNECTIONS {
        let knock = Sent {
            number,
            flags: TcpFlags::SYN,
            ..Sent::default()
        };
        knock.hand_to(&mut analysis, u64::from(number) * 1000);
    }
    let each = (resident_bytes() - before) / u64::from(CONNECTIONS);
    println!("{each} bytes for each of one packet");
    assert!((1000..=EACH_MAX).contains(&each), "{each} bytes");
    analysis.end();
    assert_eq!(analysis.finish().1.connections, u64::from(CONNECTIONS));
}

/// A handshake seen half-way, data that are acknowledged later, and in the end more ACKs than are
/// kept.
fn keep_busy(number: u32, analysis: &mut Analysis) {
    let client = Sent {
        number,
        flags: TcpFlags::ACK,
        ..Sent::default()
    };
    let server = Sent {
        from_server: true,
        ..client
    };
    let syn = Sent {
        flags: TcpFlags::SYN,
        ..client
    };
    let answer = Sent {
        flags: TcpFlags::SYN | TcpFlags::ACK,
        ack: 1,
        ..server
    };
    syn.hand_to(analysis, 0);
    answer.hand_to(analysis, 50 * MILLISECOND);
    let mut seq = 1;
    let mut now = 200 * MILLISECOND;
    for _ in 0..4000 {
        let data = Sent {
            seq,
            ack: 1,
            payload: 100,
            ..client
        };
        data.hand_to(analysis, now);
        seq += 100;
        let ack = Sent {
            seq: 1,
            ack: seq,
            ..server
        };
        ack.hand_to(analysis, now + 12 * MILLISECOND);
        now += 200 * MILLISECOND;
    }
    for ack in 0..600 {
        now += 1000;
        let pure = Sent {
            seq: 1,
            ack: seq - 600 + ack,
            ..server
        };
        pure.hand_to(analysis, now);
    }
}

/// A packet of one of the connections.
#[derive(Clone, Copy, Default)]
struct Sent {
    number: u32,
    from_server: bool,
    seq: u32,
    ack: u32,
    flags: TcpFlags,
    /// Claimed, and cut off.
    payload: u16,
}

impl Sent {
    fn hand_to(&self, analysis: &mut Analysis, nanos: u64) {
        let [_, b, c, d] = self.number.to_be_bytes();
        let (client, server) = (([10, b, c, d], 40_000), ([192, 0, 2, 1], 80));
        let (source, destination) = match self.from_server {
            true => (server, client),
            false => (client, server),
        };
        let header = TcpHeader {
            source_port: source.1,
            destination_port: destination.1,
            seq: SeqNum::new(self.seq),
            ack: SeqNum::new(self.ack),
            flags: self.flags,
            window: 5000,
            urgent: 0,
        };
        let ip = Ipv4Header::new(source.0.into(), destination.0.into(), protocol::TCP);
        let mut bytes = Vec::new();
        header.write_packet(&IpHeader::V4(ip), &[], &[], &mut bytes);
        let length = bytes.len() as u16 + self.payload;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        analysis.handle(&CapturedPacket {
            at: Instant::from_nanos(nanos),
            interface: 0,
            link: LinkType::Raw,
            original_bytes: length.into(),
            bytes: &bytes,
        });
    }
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("a Linux system");
    let pages = text.split(' ').nth(1).expect("the second number");
    pages.parse::<u64>().expect("a number") * 4096
}
