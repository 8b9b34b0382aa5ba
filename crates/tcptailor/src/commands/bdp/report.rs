//! The bandwidth-delay product and the limits beside it, as a document and for people.

use std::fmt::Write;
use std::path::Path;

use base::{Bytes, LinkSample, Rate, human};
use lab::bdp::{Demand, HostLimits, LimitRow, PAPER_BUFFER_BYTES, Proposal, Standing};
use serde::Serialize;

use crate::output;

/// MTUs of Ethernet, of its jumbo frames, and of the datacenter paper.
const MTUS: [u64; 3] = [1500, 9000, 10_000];

/// From where a number is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    Given,
    Preset(&'static str),
    /// From open connections, this many.
    Connections(usize),
    /// From handshakes that were made for it, this many.
    Handshakes(usize),
    /// From a transfer that was made for it.
    Transfer,
}

impl Origin {
    fn text(self) -> String {
        match self {
            Self::Given => "given".into(),
            Self::Preset(about) => format!("preset: {about}"),
            Self::Connections(n) => {
                format!("smallest of {}", human::count(n as u64, "open connection"))
            }
            Self::Handshakes(n) => format!("fastest of {}", human::count(n as u64, "handshake")),
            Self::Transfer => "payload of four connections together".into(),
        }
    }
}

/// The document `bdp`.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    rate_bps: u64,
    rate_from: String,
    rtt_us: f64,
    rtt_from: String,
    mtu_bytes: u64,
    interface: Option<Link>,
    bdp_bits: u64,
    bdp_bytes: u64,
    packets: Vec<Packets>,
    /// Packets of this MTU that the queue in front of the slowest link needs.
    queue_needed_packets: u64,
    /// The largest window that a connection of this host can have, whatever is set.
    window_max_bytes: u64,
    /// This many connections have the path full between them; 1 where one can.
    connections_needed: u64,
    /// Window per byte of receive memory with which the needs are computed.
    receive_ratio: f64,
    limits: Vec<LimitRow>,
    /// Rate that these limits leave to a connection whose program sets no buffer.
    send_reach_bps: u64,
    receive_reach_bps: u64,
    /// Throughput with fixed windows.
    fixed_windows: Vec<FixedWindow>,
    verdict: Verdict,
    proposals: Vec<ChangeRow>,
}

#[derive(Debug, Serialize)]
struct Packets {
    mtu_bytes: u64,
    packets: u64,
}

#[derive(Debug, Serialize)]
struct FixedWindow {
    name: &'static str,
    window_bytes: u64,
    rate_bps: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    NothingToTune,
    Tune,
}

#[derive(Debug, Serialize)]
struct ChangeRow {
    knob: &'static str,
    to: base::KnobValue,
}

/// The interface through which the path leaves.
#[derive(Debug, Serialize)]
pub(super) struct Link {
    name: String,
    mtu_bytes: u32,
    txqueuelen_packets: u32,
    queue: Option<String>,
    queue_packets: Option<u64>,
}

impl Link {
    pub(super) fn of(link: &LinkSample) -> Self {
        Self {
            name: link.name.clone(),
            mtu_bytes: link.mtu_bytes,
            txqueuelen_packets: link.txqueuelen_pkts,
            queue: link.qdiscs.first().map(|queue| queue.kind.clone()),
            queue_packets: queue_packets(link),
        }
    }
}

/// Packets that the queue of an interface holds: what its discipline says, or the length that the
/// interface gives to those without a limit of their own. `None` where nothing queues, or where the
/// limit is in bytes.
pub(super) fn queue_packets(link: &LinkSample) -> Option<u64> {
    // A discipline of several queues has no limit; those below it follow.
    let limited = link.qdiscs.iter().find(|queue| queue.limit.is_some());
    match limited.or(link.qdiscs.last()) {
        None => None,
        Some(queue) if matches!(queue.kind.as_str(), "noqueue" | "bfifo" | "tbf") => None,
        Some(queue) => queue.limit.or(Some(link.txqueuelen_pkts.into())),
    }
}

impl Document {
    pub(super) fn new(
        (demand, (rate_from, rtt_from)): (&Demand, (Origin, Origin)),
        interface: Option<Link>,
        limits: &HostLimits,
        rows: Vec<LimitRow>,
        proposals: Vec<Proposal>,
    ) -> Self {
        let mut mtus = MTUS.to_vec();
        mtus.push(demand.mtu().0);
        mtus.sort_unstable();
        mtus.dedup();
        let packets = |mtu_bytes| Packets {
            mtu_bytes,
            packets: demand.packets(Bytes(mtu_bytes)),
        };
        let fixed = |name, window_bytes| FixedWindow {
            name,
            window_bytes,
            rate_bps: demand.rate_of_window(window_bytes).bits_per_second(),
        };
        let memory = (PAPER_BUFFER_BYTES as f64 * limits.receive_ratio) as u64;
        let reach = demand.reach(limits);
        let is_below = rows.iter().any(|row| row.standing == Standing::Below);
        Self {
            rate_bps: demand.rate().bits_per_second(),
            rate_from: rate_from.text(),
            rtt_us: demand.rtt().as_nanos() as f64 / 1e3,
            rtt_from: rtt_from.text(),
            mtu_bytes: demand.mtu().0,
            interface,
            bdp_bits: demand.bits(),
            bdp_bytes: demand.bytes(),
            packets: mtus.into_iter().map(packets).collect(),
            queue_needed_packets: demand.packets(demand.mtu()),
            window_max_bytes: limits.window_max(),
            connections_needed: demand.connections(limits),
            receive_ratio: limits.receive_ratio,
            limits: rows,
            send_reach_bps: reach.send.bits_per_second(),
            receive_reach_bps: reach.receive.bits_per_second(),
            fixed_windows: vec![
                fixed(
                    "87380 bytes (699 kbit), an earlier Linux default",
                    PAPER_BUFFER_BYTES,
                ),
                fixed("the same as a buffer, as this kernel counts memory", memory),
                fixed("65535 bytes, without window scaling", 65_535),
            ],
            verdict: match is_below {
                true => Verdict::Tune,
                false => Verdict::NothingToTune,
            },
            proposals: proposals
                .into_iter()
                .map(|(knob, to)| ChangeRow { knob, to })
                .collect(),
        }
    }
}

/// The document for people; `plan` is where the proposals were written.
pub(super) fn render(document: &Document, plan: Option<&Path>) -> String {
    let mut text = heading(document);
    let mut table = output::table(&["LIMIT OF THIS HOST", "NOW", "NEEDED", "", "WHAT IT LIMITS"]);
    for row in &document.limits {
        table.add_row([
            row.setting.to_owned(),
            shown(row, row.now),
            shown(row, row.needed),
            row.standing.name().to_owned(),
            row.about.to_owned(),
        ]);
    }
    output::keep_whole(&mut table, 0);
    output::align_right(&mut table, &[1, 2]);
    let _ = write!(text, "\n{}\n", output::render(&table));
    push_verdict(&mut text, document, plan);
    text
}

fn shown(row: &LimitRow, value: u64) -> String {
    match row.setting {
        "net.ipv4.tcp_moderate_rcvbuf" | "net.ipv4.tcp_window_scaling" => human::flag(value > 0),
        "queue" => format!("{value} packets"),
        _ => value.to_string(),
    }
}

fn heading(document: &Document) -> String {
    let Document {
        rate_bps,
        rate_from,
        rtt_us,
        rtt_from,
        mtu_bytes,
        interface,
        bdp_bits,
        bdp_bytes,
        packets,
        receive_ratio,
        ..
    } = document;
    let rtt = human::time(std::time::Duration::from_nanos((rtt_us * 1e3) as u64));
    let bits = human::bps(*bdp_bits);
    let bits = bits.trim_end_matches("/s");
    let mut text = format!(
        "rate      {} ({rate_from})\nrtt       {rtt} ({rtt_from})\n",
        human::bps(*rate_bps)
    );
    if let Some(link) = interface {
        let queue = match (&link.queue, link.queue_packets) {
            (Some(kind), Some(packets)) => format!(", queue {kind} of {packets} packets"),
            (Some(kind), None) => format!(", queue {kind}"),
            (None, _) => String::new(),
        };
        let _ = writeln!(
            text,
            "out by    {}, MTU {}, txqueuelen {}{queue}",
            link.name, link.mtu_bytes, link.txqueuelen_packets
        );
    }
    let list: Vec<String> = packets
        .iter()
        .map(|row| format!("{} of {}", row.packets, row.mtu_bytes))
        .collect();
    let _ = writeln!(
        text,
        "product   {bits}, {}; packets of bytes: {}",
        human::count(*bdp_bytes, "byte"),
        list.join(", ")
    );
    let _ = writeln!(
        text,
        "memory    {:.1} bytes of receive buffer for each byte of window\n\
         queue     the bottleneck needs about {} of {mtu_bytes} bytes; more adds delay only",
        1.0 / receive_ratio,
        human::count(document.queue_needed_packets, "packet"),
    );
    text
}

fn push_verdict(text: &mut String, document: &Document, plan: Option<&Path>) {
    let fixed: Vec<String> = document
        .fixed_windows
        .iter()
        .map(|fixed| format!("{:>11}  {}", human::bps(fixed.rate_bps), fixed.name))
        .collect();
    let reach = format!(
        "A connection whose program sets no buffer can send at {} and receive at {} here.{}",
        human::bps(document.send_reach_bps),
        human::bps(document.receive_reach_bps),
        bound(document)
    );
    match document.verdict {
        Verdict::NothingToTune => {
            output::push_wrapped(text, &format!("Nothing to tune. {reach}"), "", 0);
        }
        Verdict::Tune => {
            output::push_wrapped(text, &reach, "", 0);
            let for_each = match document.connections_needed {
                1 => String::new(),
                connections => format!(" for each of {connections} connections"),
            };
            let _ = writeln!(text, "\nWhat would be enough{for_each}:");
            for ChangeRow { knob, to } in &document.proposals {
                let to = match to {
                    base::KnobValue::Flag(on) => u8::from(*on).to_string(),
                    other => other.to_string(),
                };
                let _ = writeln!(text, "  {knob} = {to}");
            }
        }
    }
    let _ = write!(
        text,
        "\nThroughput with fixed windows:\n{}\n",
        fixed.join("\n")
    );
    match (document.verdict, plan) {
        (Verdict::NothingToTune, Some(path)) => {
            let _ = write!(text, "\nThe plan {} holds no change.\n", path.display());
        }
        (Verdict::NothingToTune, None) => {}
        (Verdict::Tune, Some(path)) => {
            let _ = write!(
                text,
                "\nNext: tcptailor apply {} --dry-run\n",
                path.display()
            );
        }
        (Verdict::Tune, None) => {
            text.push_str(
                "\nNext: the same with `-o plan.json`, then `tcptailor apply plan.json`\n",
            );
        }
    }
}

/// Why one connection is not enough, where it is not.
fn bound(document: &Document) -> String {
    let Document {
        rtt_us,
        window_max_bytes,
        connections_needed,
        ..
    } = document;
    if *connections_needed == 1 {
        return String::new();
    }
    let rtt = std::time::Duration::from_nanos((rtt_us * 1e3) as u64);
    let each = Rate::of(*window_max_bytes, rtt).bits_per_second();
    format!(
        " One connection cannot fill this path: its window ends at {window_max_bytes} bytes, which \
         give {}. It takes {connections_needed} connections.",
        human::bps(each)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::QdiscSample;

    #[test]
    fn the_queue_of_an_interface_is_that_of_its_discipline() {
        let check = |disciplines: &[(&str, Option<u64>)], expected: Option<u64>| {
            let qdiscs = disciplines.iter().map(|(kind, limit)| QdiscSample {
                kind: (*kind).into(),
                limit: *limit,
                ..QdiscSample::default()
            });
            let link = LinkSample {
                txqueuelen_pkts: 1000,
                qdiscs: qdiscs.collect(),
                ..LinkSample::default()
            };
            assert_eq!(queue_packets(&link), expected, "{disciplines:?}");
        };
        check(&[], None);
        check(&[("noqueue", None)], None);
        check(&[("pfifo_fast", None)], Some(1000));
        check(&[("pfifo", Some(50))], Some(50));
        check(&[("bfifo", Some(50_000))], None);
        check(&[("mq", None), ("fq_codel", Some(10_240))], Some(10_240));
        check(&[("mq", None), ("pfifo_fast", None)], Some(1000));
    }
}
