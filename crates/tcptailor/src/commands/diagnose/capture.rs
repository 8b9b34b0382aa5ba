//! Packet captures, judged as if their connections had been watched.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufWriter, Write};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use base::pcap::{PcapError, PcapErrorKind, Reader};
use base::{Netns, human};
use capture::{Analysis, CaptureInfo, FlowSummary, Input, Settings};
use serde::Serialize;

use super::document::Document;
use super::page::{Drawn, TRACED_MAX};
use super::{Args, judged};
use crate::commands::watching;
use crate::exit::Problem;
use crate::interrupt;
use crate::output::{self, Output};
use crate::progress::Progress;

/// How a line of `--write-flows` calls itself; the number rises when a field changes its meaning.
const FLOW_SCHEMA: &str = "tcptailor/capture-flow/1";

/// The doctor's answers for the connections of a capture.
pub(super) fn judge(
    input: Input,
    path: &Path,
    args: &Args,
    output: &Output,
) -> anyhow::Result<(Document, Drawn)> {
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
        lists_flows: flows.is_some(),
        traced_max: args.html.as_ref().map_or(0, |_| TRACED_MAX),
        ..settings()
    };
    let mut read = read(input, path, settings, (&mut flows, output))?;
    if let Some(flows) = flows {
        flows.finish()?;
    }
    let traces = read.analysis.traces();
    let (recording, summary) = read.analysis.finish();
    let has_page = args.html.is_some();
    let (mut document, drawn) = judged(&recording, &Netns::Own, &filter, has_page);
    document.interrupted = read.stopped;
    for row in &mut document.flows {
        row.set_seen_in_packets();
    }
    document.capture = Some(CaptureInfo::new(summary, read.cut_short.as_ref()));
    // The program ends soon: to give the memory of thousands of connections back piece by piece
    // would take longer than to judge some hundred of them.
    std::mem::forget(recording);
    Ok((document, Drawn { traces, ..drawn }))
}

/// Recording of a capture's connections, at the usual interval.
pub(super) fn recording(
    input: Input,
    path: &Path,
    output: &Output,
) -> anyhow::Result<doctor::Recording> {
    let read = read(input, path, settings(), (&mut None, output))?;
    Ok(read.analysis.finish().0)
}

fn settings() -> Settings {
    Settings {
        hash_keys: [random(), random()],
        ..Settings::default()
    }
}

/// A number that the writer of the capture does not know.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

struct Read {
    analysis: Analysis,
    /// Why the rest could not be read.
    cut_short: Option<PcapError>,
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
    let mut reader = Reader::new(input.reader).map_err(|error| match interrupt::stopped() {
        true => Problem::interrupted("interrupted while reading"),
        false if matches!(error.kind, PcapErrorKind::Io(_)) => {
            Problem::failed(format!("{shown}: {error}"))
        }
        false => Problem::usage(format!("{shown}: {error}")),
    })?;
    let (mut analysis, mut stopped) = (Analysis::new(settings), false);
    let cut_short = analysis.handle_file(&mut reader, |analysis| {
        bar.set(position.bytes());
        write_flows(analysis, flows)?;
        stopped = interrupt::stopped();
        anyhow::Ok(!stopped)
    })?;
    write_flows(&mut analysis, flows)?;
    // Where it waited for more.
    stopped |= interrupt::stopped();
    Ok(Read {
        analysis,
        cut_short: cut_short.filter(|_| !stopped),
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

/// The lines below the table.
pub(super) fn push_summary(text: &mut String, info: &CaptureInfo) {
    let CaptureInfo { summary, doubts } = info;
    let time = human::time(Duration::from_micros(summary.duration_us));
    let mut line = format!(
        "Capture: {} in {time}, {} of them TCP",
        human::count(summary.packets, "packet"),
        summary.tcp_packets,
    );
    line += &match (summary.taken_at, summary.taken) {
        (Some(at), _) => {
            format!("; made at {at}, the sender of some connections and receiver of others.")
        }
        (None, Some(taken)) => format!("; made {}.", taken.name()),
        (None, None) => "; where it was made does not show.".into(),
    };
    output::push_wrapped(text, &line, "  ", 0);
    for doubt in doubts {
        output::push_wrapped(text, &format!("- {doubt}"), "  ", 0);
    }
}

/// Host on which a change is to be made.
pub(super) fn place(at: IpAddr) -> String {
    format!("at {at}")
}
