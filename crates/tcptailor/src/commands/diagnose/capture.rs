//! Packet captures, judged as if their connections had been watched.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufWriter, Write};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use base::pcap::Reader;
use base::{Netns, human};
use capture::{Analysis, CaptureSummary, FlowSummary, Settings};
use doctor::{Confidence, InPackets, Side, find_diagnosis};
use serde::Serialize;

use super::Args;
use super::document::{Document, FlowRow, VerdictRow};
use super::seen;
use crate::commands::input::Input;
use crate::commands::watching;
use crate::exit::Problem;
use crate::interrupt;
use crate::output::{self, Output};
use crate::progress::Progress;

/// How a line of `--write-flows` calls itself; the number rises when a field changes its meaning.
const FLOW_SCHEMA: &str = "tcptailor/capture-flow/1";
/// Packets between two looks at whether to stop.
const PACKETS_AT_ONCE: u32 = 4096;

/// What is said of the capture as a whole.
#[derive(Debug, Serialize)]
pub(crate) struct CaptureInfo {
    #[serde(flatten)]
    pub(crate) summary: CaptureSummary,
    /// What it misses, and what that makes unsure, in sentences.
    pub(crate) doubts: Vec<String>,
}

/// Whether packets follow, and no recording.
pub(super) fn is_capture(input: &mut Input) -> bool {
    const STARTS: [[u8; 4]; 5] = [
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0x0a, 0x0d, 0x0d, 0x0a],
    ];
    let start = input.reader.fill_buf().unwrap_or_default();
    STARTS.iter().any(|known| start.starts_with(known))
}

/// The doctor's answers for the connections of a capture.
pub(super) fn judge(
    input: Input,
    path: &Path,
    args: &Args,
    output: &Output,
) -> anyhow::Result<Document> {
    let watching = &args.watching;
    if watching.time.is_some() {
        return Err(Problem::usage("-t: a capture is as long as it is; all of it is read").into());
    }
    watching::check_interval(watching.interval)?;
    let filter = watching::parse_filter(&watching.watched.filter[1..], watching.watched.pid)?;
    if filter.needs_owners() {
        let what = "pid, comm, uid, cgroup: packets do not tell of processes";
        return Err(Problem::usage(what)
            .hint("filter by sport, dport, src, dst")
            .into());
    }
    let mut flows = args.write_flows.as_deref().map(Flows::create).transpose()?;
    let settings = Settings {
        interval: watching.interval,
        hash_keys: [random(), random()],
        lists_flows: flows.is_some(),
        ..Settings::default()
    };
    let read = read(input, path, settings, (&mut flows, output))?;
    if let Some(flows) = flows {
        flows.finish()?;
    }
    let (recording, summary) = read.analysis.finish();
    let mut document = seen::diagnose(&recording, &Netns::Own, &filter);
    document.interrupted = read.stopped;
    for row in &mut document.flows {
        as_of_a_capture(row);
    }
    let doubts = doubts(&summary, read.cut_short);
    document.capture = Some(CaptureInfo { summary, doubts });
    Ok(document)
}

/// A number that whoever wrote the capture does not know.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

struct Read {
    analysis: Analysis,
    /// Why the rest could not be read.
    cut_short: Option<String>,
    stopped: bool,
}

fn read(
    input: Input,
    path: &Path,
    settings: Settings,
    (flows, output): (&mut Option<Flows>, &Output),
) -> anyhow::Result<Read> {
    let shown = path.display();
    let position = input.position();
    let bar = match input.bytes {
        Some(bytes) => Progress::bar(output, "reading", bytes),
        None => Progress::spinner(output, "reading packets"),
    };
    let mut analysis = Analysis::new(settings);
    let (mut cut_short, mut stopped, mut left) = (None, false, PACKETS_AT_ONCE);
    let mut reader =
        Reader::new(input.reader).map_err(|error| Problem::failed(format!("{shown}: {error}")))?;
    while let Some(packet) = reader.next_packet() {
        match packet {
            Ok(packet) => analysis.handle(&packet),
            Err(error) => {
                // What stands in front of a damaged part is good.
                cut_short = Some(error.to_string());
            }
        }
        left -= 1;
        if left == 0 {
            left = PACKETS_AT_ONCE;
            bar.set(position.bytes());
            write_flows(&mut analysis, flows)?;
            if interrupt::stopped() {
                stopped = true;
                break;
            }
        }
    }
    analysis.note_drops(reader.dropped());
    analysis.end();
    write_flows(&mut analysis, flows)?;
    Ok(Read {
        analysis,
        cut_short,
        stopped,
    })
}

fn write_flows(analysis: &mut Analysis, flows: &mut Option<Flows>) -> anyhow::Result<()> {
    let Some(flows) = flows else { return Ok(()) };
    while let Some(flow) = analysis.poll_flow() {
        flows.write(&flow)?;
    }
    Ok(())
}

/// The file of `--write-flows`.
struct Flows {
    file: BufWriter<std::fs::File>,
    shown: String,
}

/// A line of it.
#[derive(Serialize)]
struct FlowLine<'f> {
    schema: &'static str,
    #[serde(flatten)]
    flow: &'f FlowSummary,
}

impl Flows {
    fn create(path: &Path) -> anyhow::Result<Self> {
        let is_ours = |start: &[u8]| String::from_utf8_lossy(start).contains(FLOW_SCHEMA);
        Ok(Self {
            file: BufWriter::new(output::open_result(path, &is_ours)?),
            shown: path.display().to_string(),
        })
    }

    fn write(&mut self, flow: &FlowSummary) -> anyhow::Result<()> {
        let line = FlowLine {
            schema: FLOW_SCHEMA,
            flow,
        };
        let line = serde_json::to_string(&line).context("writing JSON")?;
        writeln!(self.file, "{line}").with_context(|| format!("writing {}", self.shown))
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.file
            .flush()
            .with_context(|| format!("writing {}", self.shown))
    }
}

/// Nothing can be changed from here, hosts have addresses and no "here", and what only a socket
/// could confirm is no more than consistent with what is seen.
fn as_of_a_capture(row: &mut FlowRow) {
    let (local, remote) = (row.local.ip(), row.remote.ip());
    for verdict in &mut row.verdicts {
        verdict.act = false;
        weaken(verdict);
        for change in verdict.change.iter_mut().chain(&mut verdict.alternatives) {
            change.target = None;
            change.requires = None;
            change.at = Some(match change.side {
                Side::Local => local,
                Side::Remote => remote,
            });
        }
    }
}

fn weaken(verdict: &mut VerdictRow) {
    let shown = find_diagnosis(verdict.id).map(|diagnosis| diagnosis.in_packets);
    let most = match shown {
        Some(InPackets::Shown) | None => return,
        Some(InPackets::Consistent(most)) => most,
        Some(InPackets::Hidden) => Confidence::Low,
    };
    verdict.confidence = verdict.confidence.min(most);
    verdict.consistent_with = true;
}

/// What is missing, and what that makes unsure.
fn doubts(summary: &CaptureSummary, cut_short: Option<String>) -> Vec<String> {
    let count = |number: u64, what: &str| human::count(number, what);
    let mut doubts: Vec<String> = cut_short.into_iter().collect();
    let rows: [(u64, &str, &str); 11] = [
        (
            summary.dropped_packets.unwrap_or(0),
            "packet",
            "dropped while it was made: losses and delays may be those of the capture",
        ),
        (
            summary.missed_bytes,
            "byte",
            "acknowledged and not in it: it dropped packets, or they went another way",
        ),
        (
            summary.one_way_connections,
            "connection",
            "seen in one direction only: without ACKs, round trips and waits are unknown",
        ),
        (
            summary.connections_without_syn,
            "connection",
            "begun before it: the scale of their windows is estimated or unknown",
        ),
        (
            summary.duplicate_packets,
            "packet",
            "in it twice, as captures on several devices have them: counted once",
        ),
        (
            summary.fragments,
            "fragment",
            "of IP packets: not put together, so their segments are missing",
        ),
        (
            summary.unreadable_packets,
            "packet",
            "damaged, or cut off before the end of the TCP header (tcpdump -s 128)",
        ),
        (
            summary.clock_steps_back,
            "packet",
            "older than the one before: the clock stepped, or devices were merged",
        ),
        (
            summary.clock_jumps,
            "jump",
            "of its clock: times across one are wrong, and connections count as two",
        ),
        (
            summary.stray_segments,
            "segment",
            "with numbers far from those of its connection: not counted",
        ),
        (
            summary.evicted_connections,
            "connection",
            "forgotten early, because too many were open at once",
        ),
    ];
    let told = rows.into_iter().filter(|(number, _, _)| *number > 0);
    doubts.extend(told.map(|(number, what, why)| format!("{} {why}", count(number, what))));
    doubts
}

/// The lines below the table.
pub(super) fn push_summary(text: &mut String, info: &CaptureInfo) {
    let CaptureInfo { summary, doubts } = info;
    let time = human::time(Duration::from_micros(summary.duration_us));
    let mut line = format!(
        "Capture: {} in {time}, {} of them TCP",
        human::count(summary.packets, "packet"),
        summary.tcp_packets,
    );
    match summary.taken {
        Some(taken) => line += &format!("; made {}.", taken.name()),
        None => line += "; where it was made does not show.",
    }
    output::push_wrapped(text, &line, "  ", 0);
    for doubt in doubts {
        output::push_wrapped(text, &format!("- {doubt}"), "  ", 0);
    }
}

/// Where a change is to be made.
pub(super) fn place(at: IpAddr) -> String {
    format!("at {at}")
}
