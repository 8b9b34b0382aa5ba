//! The packets of a run, each with when it left one host and when it reached the other: what a
//! diagram of a connection is drawn from.

use core::cell::RefCell;
use core::time::Duration;
use std::rc::Rc;

use base::tcp::{SackBlocks, TcpFlags};
use base::{Instant, SeqNum};
use lab::PathSpec;
use lab::app::LAB_PORT;
use lab::world::Tap;
use serde::Serialize;
use stack::{Packet, Segment, Timestamps};

/// Packets that are shown. What comes later is counted only.
const SHOWN_MAX: usize = 6000;
/// Packets that are looked at as they arrive: GSO packets may be cut on the way.
const ARRIVED_MAX: usize = 4 * SHOWN_MAX;
/// Packets on their way among which one that arrives is looked for.
const ON_THE_WAY_MAX: usize = 4096;

/// The packets of a run in the order in which they left.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Packets {
    shown: Vec<Shown>,
    /// Packets that left after those that are shown.
    left_out: u64,
}

/// One packet. Numbers count from the first of its direction, as captures are shown.
#[derive(Debug, Serialize)]
struct Shown {
    sent_us: u64,
    /// When the last of it arrived; `None` if all of it was lost, or is still in flight when the
    /// run ends.
    arrived_us: Option<u64>,
    /// Payload that did not arrive: a GSO packet may lose some of its segments.
    missing: u32,
    from_client: bool,
    /// The connection, from 0 in the order of appearance.
    flow: usize,
    seq: u32,
    /// Payload size.
    bytes: u32,
    ack: u32,
    /// Letters as tcpdump writes them.
    flags: String,
    /// Window field of the header, not scaled.
    window: u16,
    /// Ranges that have arrived behind a gap.
    sack: Vec<[u32; 2]>,
    /// Retransmission.
    is_retransmission: bool,
}

/// Packets that pass both ends of the path.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketLog(Rc<RefCell<Passed>>);

/// In the order of time.
#[derive(Debug, Default)]
struct Passed {
    sent: Vec<(Instant, Header)>,
    arrived: Vec<(Instant, Header)>,
    left_out: u64,
}

/// A segment without its payload, which would keep the memory of the whole transfer.
#[derive(Clone, Copy, Debug)]
struct Header {
    from_client: bool,
    client_port: u16,
    seq: SeqNum,
    /// Payload size.
    bytes: u32,
    /// Numbers that it takes: payload, SYN and FIN.
    sequence_bytes: u32,
    ack: SeqNum,
    flags: TcpFlags,
    window: u16,
    timestamps: Option<Timestamps>,
    sack: Option<SackBlocks>,
}

impl Header {
    fn of(segment: &Segment) -> Self {
        // The server of every trial listens on the same port.
        let from_client = segment.destination_port == LAB_PORT;
        Self {
            from_client,
            client_port: match from_client {
                true => segment.source_port,
                false => segment.destination_port,
            },
            seq: segment.seq,
            bytes: segment.payload.len(),
            sequence_bytes: segment.sequence_bytes(),
            ack: segment.ack,
            flags: segment.flags,
            window: segment.window,
            timestamps: segment.options.timestamps,
            sack: segment.options.sack,
        }
    }

    /// The direction: 0 from client to server.
    fn way(&self) -> usize {
        usize::from(!self.from_client)
    }
}

/// One end of the path.
#[derive(Debug)]
struct Watch {
    is_client: bool,
    log: PacketLog,
}

impl PacketLog {
    /// A tap for the client, `end` 0, or the server.
    pub(crate) fn tap(&self, end: u32) -> Box<dyn Tap> {
        Box::new(Watch {
            is_client: end == 0,
            log: self.clone(),
        })
    }

    /// All that passed, of a run on this path.
    pub(crate) fn packets(&self, path: &PathSpec) -> Packets {
        let passed = self.0.borrow();
        let mut flows: Vec<Flow> = Vec::new();
        let mut shown: Vec<Shown> = passed
            .sent
            .iter()
            .map(|(at, header)| show(*at, header, &mut flows))
            .collect();
        let delays = delays(path);
        let mut ways = [Way::default(), Way::default()];
        let mut sent = passed.sent.iter().enumerate().peekable();
        for (at, header) in &passed.arrived {
            while let Some((index, (left, header))) = sent.next_if(|(_, (left, _))| left <= at) {
                ways[header.way()].push(index, *left, *header);
            }
            let delay = nanos(delays[header.way()]);
            let latest = Instant::from_nanos(at.as_nanos().saturating_sub(delay));
            if let Some(index) = ways[header.way()].arrival(latest, header) {
                let shown = &mut shown[index];
                shown.arrived_us = Some(micros(*at));
                shown.missing = shown.missing.saturating_sub(header.bytes);
            }
        }
        Packets {
            shown,
            left_out: passed.left_out,
        }
    }
}

impl Tap for Watch {
    fn on_packet(&mut self, at: Instant, packet: &Packet) {
        let Some(header) = packet.segment().map(Header::of) else {
            return;
        };
        let mut passed = self.log.0.borrow_mut();
        let leaves = header.from_client == self.is_client;
        match leaves {
            true if passed.sent.len() == SHOWN_MAX => passed.left_out += 1,
            true => passed.sent.push((at, header)),
            // Some of it may have left before what is left out.
            false if passed.arrived.len() < ARRIVED_MAX => passed.arrived.push((at, header)),
            false => {}
        }
    }
}

/// Sequence numbers of a connection.
#[derive(Debug)]
struct Flow {
    client_port: u16,
    /// Initial sequence numbers of client and server.
    first: [Option<SeqNum>; 2],
    /// End of the data that each has sent so far.
    end: [Option<SeqNum>; 2],
}

/// Packets in flight in one direction.
#[derive(Debug, Default)]
struct Way {
    in_flight: Vec<InFlight>,
}

#[derive(Debug)]
struct InFlight {
    index: usize,
    left: Instant,
    header: Header,
    /// Payload that has not arrived.
    missing: u32,
}

impl Way {
    fn push(&mut self, index: usize, left: Instant, header: Header) {
        if self.in_flight.len() == ON_THE_WAY_MAX {
            self.in_flight.remove(0);
        }
        self.in_flight.push(InFlight {
            index,
            left,
            header,
            missing: header.bytes,
        });
    }

    /// Which of them arrives, having left by `latest`: of data the one that left last, as a packet
    /// that was lost has the same numbers; of the rest, which are alike, the first. A GSO packet
    /// that was cut on the way arrives in pieces.
    fn arrival(&mut self, latest: Instant, header: &Header) -> Option<usize> {
        let fits = |of: &InFlight| of.left <= latest && is_part(header, &of.header);
        let mut all = self.in_flight.iter();
        let place = match header.bytes {
            0 => all.position(fits),
            _ => all.rposition(fits),
        }?;
        let found = &mut self.in_flight[place];
        let index = found.index;
        found.missing = found.missing.saturating_sub(header.bytes);
        if found.missing == 0 {
            self.in_flight.remove(place);
        }
        Some(index)
    }
}

/// Whether what arrived is `of`, or a piece of it.
fn is_part(header: &Header, of: &Header) -> bool {
    let end = header.seq.bytes_since(of.seq).checked_add(header.bytes);
    header.client_port == of.client_port
        && header.ack == of.ack
        && header.timestamps == of.timestamps
        && match header.bytes {
            0 => of.bytes == 0 && header.seq == of.seq && header.flags == of.flags,
            _ => end.is_some_and(|end| end <= of.bytes),
        }
}

fn show(at: Instant, header: &Header, flows: &mut Vec<Flow>) -> Shown {
    let place = flows
        .iter()
        .position(|flow| flow.client_port == header.client_port);
    let flow = place.unwrap_or_else(|| {
        flows.push(Flow {
            client_port: header.client_port,
            first: [None; 2],
            end: [None; 2],
        });
        flows.len() - 1
    });
    let of = &mut flows[flow];
    let (own, other) = (header.way(), 1 - header.way());
    let first = *of.first[own].get_or_insert(header.seq);
    let takes_numbers = header.sequence_bytes > 0;
    let end = SeqNum::new(header.seq.number().wrapping_add(header.sequence_bytes));
    let is_new = of.end[own].is_none_or(|sent| end.after(sent));
    let is_retransmission =
        takes_numbers && of.end[own].is_some_and(|sent| header.seq.before(sent));
    if takes_numbers && is_new {
        of.end[own] = Some(end);
    }
    let theirs = of.first[other];
    let since = |number: SeqNum| theirs.map_or(0, |first| number.bytes_since(first));
    let blocks = header.sack.into_iter();
    let blocks = blocks.flat_map(|blocks| blocks.iter().collect::<Vec<_>>());
    Shown {
        sent_us: micros(at),
        arrived_us: None,
        missing: header.bytes,
        from_client: header.from_client,
        flow,
        seq: header.seq.bytes_since(first),
        bytes: header.bytes,
        ack: match header.flags.contains(TcpFlags::ACK) {
            true => since(header.ack),
            false => 0,
        },
        flags: letters(header.flags),
        window: header.window,
        sack: blocks
            .map(|(begin, end)| [since(begin), since(end)])
            .collect(),
        is_retransmission,
    }
}

fn letters(flags: TcpFlags) -> String {
    let known = [
        (TcpFlags::SYN, 'S'),
        (TcpFlags::FIN, 'F'),
        (TcpFlags::RST, 'R'),
        (TcpFlags::PSH, 'P'),
        (TcpFlags::ACK, '.'),
        (TcpFlags::ECE, 'E'),
        (TcpFlags::CWR, 'W'),
    ];
    let known = known.into_iter();
    known
        .filter(|(flag, _)| flags.contains(*flag))
        .map(|(_, letter)| letter)
        .collect()
}

/// The least time from end to end: client to server, and back.
fn delays(path: &PathSpec) -> [Duration; 2] {
    match path {
        PathSpec::Emulated {
            forward, reverse, ..
        } => [forward.delay, reverse.delay],
        PathSpec::Loopback | PathSpec::Veth { .. } => [Duration::ZERO; 2],
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn micros(at: Instant) -> u64 {
    u64::try_from(at.since(Instant::ZERO).as_micros()).unwrap_or(u64::MAX)
}
