//! Packet diagrams: who sent what when at the beginning of a run, as the documents explain a stall
//! and its repair.

use core::cell::RefCell;
use core::fmt::Write;
use core::net::IpAddr;
use core::sync::atomic::AtomicBool;
use std::rc::Rc;

use base::tcp::TcpFlags;
use base::{Instant, SeqNum, human};
use lab::world::Tap;
use lab::{End, EngineName, Outcome, SentPacket, Trial, Virtual};
use serde::{Deserialize, Serialize};
use stack::{Body, Packet, Segment};

use crate::evaluation::Material;

/// Packets of a diagram, those that open the connections included.
pub const PACKETS_MAX: usize = 20;

/// From this time on without a packet, in microseconds, a diagram says how long it was.
const SILENCE_MIN_US: f64 = 10_000.0;

/// Columns between the two hosts.
const COLUMNS: usize = 32;

/// A diagram that can be made of a run in virtual time.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Name of the experiment's file.
    pub scenario: &'static str,
    /// The variant.
    pub variant: &'static str,
    /// Title.
    pub title: &'static str,
}

/// All: each stall beside its repair.
pub const DIAGRAMS: &[Shown] = &[
    Shown {
        scenario: "w1",
        variant: "w1",
        title: "A send buffer of zero: each record waits for a delayed ACK",
    },
    Shown {
        scenario: "w1",
        variant: "w1a",
        title: "With a send buffer: records gather behind the first",
    },
    Shown {
        scenario: "w2",
        variant: "w2",
        title: "Two one-way connections: symbol and quote each wait for a delayed ACK",
    },
    Shown {
        scenario: "w2",
        variant: "w2b",
        title: "With TCP_NODELAY at both ends: nothing waits for an ACK",
    },
    Shown {
        scenario: "w6",
        variant: "two-sends",
        title: "Send, send, receive: the second send waits for the ACK of the first",
    },
    Shown {
        scenario: "w6",
        variant: "one-send",
        title: "The same bytes in one send",
    },
    Shown {
        scenario: "r2",
        variant: "baseline",
        title: "15 writes of 2 bytes: the second to the last wait for a delayed ACK",
    },
    Shown {
        scenario: "r2",
        variant: "no_delay",
        title: "With TCP_NODELAY: a packet for each write",
    },
    Shown {
        scenario: "r2",
        variant: "cork",
        title: "With TCP_CORK: one packet for all writes",
    },
];

/// Whether a cell has a diagram.
pub(crate) fn is_shown(scenario: &str, variant: Option<&str>) -> bool {
    let mut all = DIAGRAMS.iter();
    all.any(|shown| shown.scenario == scenario && Some(shown.variant) == variant)
}

/// A diagram with its packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PacketDiagram {
    /// See [`Shown::title`].
    pub title: String,
    /// See [`Shown::variant`].
    pub variant: String,
    /// In the order in which they were sent.
    pub packets: Vec<SentPacket>,
}

/// A line of a diagram.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// When, from the first packet on; empty where nothing is sent.
    pub time: String,
    /// Sender; `None` for a pause.
    pub from: Option<End>,
    /// Description of the packet, or of the pause.
    pub words: String,
}

impl PacketDiagram {
    /// A row for each packet, and one for each silence between two.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let has_several = self.packets.iter().any(|packet| packet.connection > 1);
        let began_us = self.packets.first().map_or(0.0, |packet| packet.at_us);
        let mut rows = Vec::new();
        let mut last_us = began_us;
        for packet in &self.packets {
            let silence_us = packet.at_us - last_us;
            if silence_us >= SILENCE_MIN_US {
                rows.push(Row {
                    time: String::new(),
                    from: None,
                    words: format!("{} without a packet", time(silence_us)),
                });
            }
            last_us = packet.at_us;
            let connection = has_several.then(|| format!("#{} ", packet.connection));
            rows.push(Row {
                time: time(packet.at_us - began_us),
                from: Some(packet.from),
                words: connection.unwrap_or_default() + &words(packet),
            });
        }
        rows
    }

    /// The diagram as text: two hosts and arrows between them.
    ///
    /// # Panics
    ///
    /// Never: a `String` grows.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{:>8}  {:<COLUMNS$}  server\n", "", "client");
        for Row { time, from, words } in self.rows() {
            let arrow = format!("{:-^width$}", format!(" {words} "), width = COLUMNS - 1);
            let line = match from {
                None => format!(":{words:^COLUMNS$}:"),
                Some(End::Client) => format!("|{arrow}>|"),
                Some(End::Server) => format!("|<{arrow}|"),
            };
            writeln!(text, "{time:>8}  {line}").expect("a String grows");
        }
        text
    }
}

fn time(micros: f64) -> String {
    match micros {
        micros if micros < 0.5 => "0".into(),
        micros => human::micros(micros.round() as u64),
    }
}

/// `SYN, ACK`, `57 bytes`, `ACK 58`: numbers as tcpdump shows them, relative to the first.
fn words(packet: &SentPacket) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(packet.syn.then(|| "SYN".to_owned()));
    if packet.payload_bytes > 0 {
        parts.push(human::count(packet.payload_bytes, "byte"));
    }
    parts.extend(packet.fin.then(|| "FIN".to_owned()));
    parts.extend(packet.rst.then(|| "RST".to_owned()));
    match packet.acked_bytes {
        Some(_) if packet.syn => parts.push("ACK".into()),
        Some(acked) if parts.is_empty() => parts.push(format!("ACK {}", acked + 1)),
        _ => {}
    }
    parts.join(", ")
}

/// The diagrams of an experiment that ran in virtual time.
pub(crate) fn diagrams(material: &Material<'_>) -> Vec<PacketDiagram> {
    let mine = DIAGRAMS.iter();
    let mine = mine.filter(|shown| shown.scenario == material.scenario);
    let drawn = mine.filter_map(|shown| {
        let mut runs = material.runs.iter().filter(|run| {
            let variant = material.cells[run.cell].variant.as_deref();
            run.engine == EngineName::Virtual && variant == Some(shown.variant)
        });
        let run = runs.find(|run| !run.outcome.packets.is_empty())?;
        Some(PacketDiagram {
            title: shown.title.into(),
            variant: shown.variant.into(),
            packets: run.outcome.packets.clone(),
        })
    });
    drawn.collect()
}

/// Runs a trial and keeps its first packets.
pub(crate) fn run(engine: &Virtual, trial: &Trial, stop: &AtomicBool) -> Outcome {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let mut run = engine.prepare(trial);
    run.add_taps(|end| {
        Box::new(Observer {
            is_client: end == 0,
            seen: Rc::clone(&seen),
        })
    });
    run.run(stop, &mut |_| ());
    let outcome = run.finish(stop);
    let packets = core::mem::take(&mut seen.borrow_mut().packets);
    Outcome { packets, ..outcome }
}

/// Packets seen by both observers.
#[derive(Debug, Default)]
struct Seen {
    packets: Vec<SentPacket>,
    /// Address of the host that sent the first packet.
    client: Option<IpAddr>,
    /// The client's port and both initial sequence numbers of each connection.
    connections: Vec<(u16, [SeqNum; 2])>,
}

/// Sees the packets of one end.
#[derive(Debug)]
struct Observer {
    is_client: bool,
    seen: Rc<RefCell<Seen>>,
}

impl Tap for Observer {
    fn on_packet(&mut self, at: Instant, packet: &Packet) {
        let mut seen = self.seen.borrow_mut();
        let client = *seen.client.get_or_insert(packet.source);
        let from_client = packet.source == client;
        // What arrives was seen where it was sent.
        if from_client == self.is_client
            && seen.packets.len() < PACKETS_MAX
            && let Body::Tcp(segment) = &packet.body
        {
            seen.take(at, from_client, segment);
        }
    }
}

impl Seen {
    fn take(&mut self, at: Instant, from_client: bool, segment: &Segment) {
        let port = match from_client {
            true => segment.source_port,
            false => segment.destination_port,
        };
        let known = self.connections.iter().position(|(of, _)| *of == port);
        let connection = known.unwrap_or_else(|| {
            self.connections.push((port, [segment.seq; 2]));
            self.connections.len() - 1
        });
        let (own, other) = (usize::from(!from_client), usize::from(from_client));
        let firsts = &mut self.connections[connection].1;
        let has = |flag| segment.flags.contains(flag);
        if has(TcpFlags::SYN) {
            firsts[own] = segment.seq;
        }
        // SYN takes a number.
        let acked = segment.ack.bytes_since(firsts[other]).saturating_sub(1);
        self.packets.push(SentPacket {
            at_us: at.since(Instant::ZERO).as_secs_f64() * 1e6,
            from: if from_client {
                End::Client
            } else {
                End::Server
            },
            connection: u16::try_from(connection + 1).unwrap_or(u16::MAX),
            payload_bytes: segment.payload.len() as u64,
            acked_bytes: has(TcpFlags::ACK).then_some(u64::from(acked)),
            syn: has(TcpFlags::SYN),
            fin: has(TcpFlags::FIN),
            rst: has(TcpFlags::RST),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::find_scenario;

    fn drawn(scenario: &str, variant: &str) -> PacketDiagram {
        let scenario = find_scenario(scenario).expect("it is built in");
        let scenario = scenario.on(EngineName::Virtual).quick();
        let cells = scenario.trials();
        let cell = cells
            .iter()
            .find(|cell| cell.variant.as_deref() == Some(variant));
        let trial = cell.expect(variant).run(0);
        let outcome = run(&Virtual::default(), &trial, &AtomicBool::new(false));
        PacketDiagram {
            title: String::new(),
            variant: variant.into(),
            packets: outcome.packets,
        }
    }

    /// Otherwise a renamed variant would lose its diagram unnoticed.
    #[test]
    fn every_diagram_has_its_packets() {
        for shown in DIAGRAMS {
            let diagram = drawn(shown.scenario, shown.variant);
            assert_eq!(diagram.packets.len(), PACKETS_MAX, "{shown:?}");
            assert!(diagram.packets[0].syn && diagram.packets[0].from == End::Client);
        }
    }

    #[test]
    fn a_stall_and_its_repair_are_told() {
        let stalled = drawn("r2", "baseline").text();
        let head = "          client                            server\n       \
                    0  |------------- SYN ------------->|\n    \
                    2 us  |<---------- SYN, ACK -----------|\n";
        assert!(stalled.starts_with(head), "{stalled}");
        assert!(stalled.contains("ms without a packet"), "{stalled}");
        let repaired = drawn("r2", "cork").text();
        assert!(
            repaired.contains("30 bytes") && !repaired.contains("without a packet"),
            "{repaired}"
        );
    }
}
