//! Packets that tests make up, and all that follows from them.

use base::ip::{IpHeader, Ipv4Header, protocol};
use base::pcap::{CapturedPacket, LinkType};
use base::tcp::{SackBlocks, TcpFlags, TcpHeader, TcpOption};
use base::{Instant, SeqNum};
use capture::{Analysis, CaptureSummary, FlowSummary, FlowTrace, Settings};
use doctor::{Cases, Recording};

pub(crate) const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];

/// A packet that a test makes up.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) micros: u64,
    pub(crate) from_client: bool,
    pub(crate) port: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u16,
    pub(crate) window: u16,
    pub(crate) payload: u16,
    pub(crate) stamps: Option<(u32, u32)>,
    pub(crate) sack: Option<(u32, u32)>,
    /// Of a SYN.
    pub(crate) mss: u16,
    pub(crate) scale: u8,
}

impl Made {
    /// As a short snapshot has it: without the payload, of which only the length is told.
    pub(crate) fn headers(&self) -> Vec<u8> {
        let mut bytes = Self {
            payload: 0,
            ..self.clone()
        }
        .bytes();
        let length = bytes.len() as u16 + self.payload;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let (source, destination) = match self.from_client {
            true => (CLIENT, SERVER),
            false => (SERVER, CLIENT),
        };
        let (source_port, destination_port) = match self.from_client {
            true => (self.port, 80),
            false => (80, self.port),
        };
        let mut options = vec![];
        if let Some((value, echo)) = self.stamps {
            options.extend([TcpOption::Nop, TcpOption::Nop]);
            options.push(TcpOption::Timestamps { value, echo });
        }
        if let Some((from, to)) = self.sack {
            let block = (SeqNum::new(from), SeqNum::new(to));
            options.push(TcpOption::Sack(SackBlocks::new(&[block])));
        }
        if self.flags & 2 != 0 {
            options.push(TcpOption::WindowScale(self.scale));
            options.push(TcpOption::Mss(self.mss));
        }
        let header = TcpHeader {
            source_port,
            destination_port,
            seq: SeqNum::new(self.seq),
            ack: SeqNum::new(self.ack),
            flags: TcpFlags::from_bits(self.flags),
            window: self.window,
            urgent: 0,
        };
        let ip = Ipv4Header::new(source.into(), destination.into(), protocol::TCP);
        let ip = IpHeader::V4(Ipv4Header {
            // As the kernel numbers segments, near enough: retransmissions differ.
            identification: (self.micros % 60_000) as u16 + 1,
            ..ip
        });
        let mut bytes = Vec::new();
        header.write_packet(
            &ip,
            &options,
            &vec![7; usize::from(self.payload)],
            &mut bytes,
        );
        bytes
    }
}

/// Everything that follows from packets: the recording, its verdicts, and what is told of each.
pub(crate) fn analysed<'p>(
    packets: impl IntoIterator<Item = CapturedPacket<'p>>,
    settings: Settings,
) -> (Recording, CaptureSummary, Vec<FlowSummary>) {
    let mut analysis = Analysis::new(settings);
    for packet in packets {
        analysis.handle(&packet);
    }
    analysis.end();
    let mut flows = Vec::new();
    while let Some(flow) = analysis.poll_flow() {
        flows.push(flow);
    }
    check_traces(&analysis.traces());
    let (recording, summary) = analysis.finish();
    let cases = Cases::of(&recording);
    for case in cases.select(|_| true) {
        let _ = case.diagnose();
    }
    drop(cases);
    (recording, summary, flows)
}

/// A trace goes forward, is bounded, and counts what the summary counts.
fn check_traces(traces: &[FlowTrace]) {
    assert!(traces.len() <= TRACED_MAX);
    for trace in traces {
        assert!(trace.sent.is_sorted_by_key(|span| (span.begin, span.to)));
        assert!(trace.sent.iter().all(|span| span.from <= span.to));
        assert!(trace.acked.is_sorted_by_key(|acked| (acked.at, acked.to)));
        assert!(trace.sent.len() + trace.acked.len() + trace.retransmissions.len() <= 2601);
        let all: u64 = trace.counts.iter().sum();
        let counted = &trace.summary.forward;
        assert!(all <= counted.retransmissions, "{all} of {counted:?}");
        assert!(trace.counts[2] <= counted.tail_probes);
    }
}

/// Connections that are traced.
const TRACED_MAX: usize = 3;

pub(crate) fn listing() -> Settings {
    Settings {
        lists_flows: true,
        traced_max: TRACED_MAX,
        ..Settings::default()
    }
}

pub(crate) fn raw(at: u64, bytes: &[u8]) -> CapturedPacket<'_> {
    CapturedPacket {
        at: Instant::from_nanos(at),
        interface: 0,
        link: LinkType::Raw,
        original_bytes: bytes.len() as u32,
        bytes,
    }
}

pub(crate) fn plain(micros: u64, port: u16) -> Made {
    Made {
        micros,
        from_client: true,
        port,
        seq: 1000,
        ack: 1,
        flags: 0x18,
        window: 1000,
        payload: 100,
        stamps: None,
        sack: None,
        mss: 1460,
        scale: 7,
    }
}

/// What follows from these, in their order.
pub(crate) fn analysed_all(
    made: &[Made],
    settings: Settings,
) -> (Recording, CaptureSummary, Vec<FlowSummary>) {
    let bytes: Vec<Vec<u8>> = made.iter().map(Made::headers).collect();
    let packets = made.iter().zip(&bytes);
    let packets = packets.map(|(made, bytes)| raw(made.micros * 1000, bytes));
    analysed(packets, settings)
}
