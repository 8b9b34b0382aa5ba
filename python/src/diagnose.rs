//! What the doctor says of a recording or of a packet capture, as `tcptailor diagnose FILE --json`.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufRead, BufReader, ErrorKind};

use base::Netns;
use base::pcap::Reader;
use capture::{Analysis, CaptureInfo, Input, Settings};
use doctor::Recording;
use doctor::recording::file::{self, FileError};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use serde::Serialize;
use tailor::{Answered, Look, Observed, sort_rows};

use crate::{pool, wrong};

/// Nothing can be changed in a file.
type FlowRow = tailor::FlowRow<false>;
type VerdictRow = tailor::VerdictRow<false>;

#[derive(Serialize)]
struct Answer {
    duration_s: f64,
    /// Flows with at least one finding, and findings of the host.
    findings: usize,
    flows_left_out: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    capture: Option<CaptureInfo>,
    host_findings: Vec<VerdictRow>,
    flows: Vec<FlowRow>,
}

/// The doctor's answers for the connections of a file.
#[pyfunction]
pub(crate) fn diagnose(py: Python<'_>, path: &str) -> PyResult<String> {
    let answer = py.detach(|| {
        let mut input = input(path)?;
        if input.is_capture() {
            return of_capture(input, path);
        }
        let (recording, netns) = recording(input, path)?;
        Ok(Answer::of(&recording, &netns, None))
    })?;
    Ok(serde_json::to_string(&answer).expect("plain data"))
}

/// What a recording or a capture shows.
pub(crate) fn look(path: &str) -> PyResult<Look> {
    let mut input = input(path)?;
    if input.is_capture() {
        return Ok(Look::of_capture(captured(input, path)?.0));
    }
    Ok(Look::new(recording(input, path)?, None, |recording| {
        tailor::measure_of(recording, |_| true)
    }))
}

/// A recording and the namespace that it was made in.
fn recording(mut input: Input, path: &str) -> PyResult<(Recording, Netns)> {
    /// A recording is lines of JSON objects.
    const RECORDING: u8 = b'{';
    let start = input.reader.fill_buf().unwrap_or_default();
    if start.first().is_some_and(|byte| *byte != RECORDING) {
        let what = "neither a packet capture (pcap, pcapng) nor a recording";
        return Err(wrong(format!("{path}: {what}")));
    }
    file::read(&mut input.reader).map_err(|error| refused(path, error))
}

fn input(path: &str) -> PyResult<Input> {
    let opened = File::open(path).and_then(|file| {
        let bytes = file.metadata().ok().filter(|meta| meta.is_file());
        let bytes = bytes.map(|meta| meta.len());
        let reader = BufReader::with_capacity(capture::BUFFER_BYTES, file);
        Input::of(Box::new(reader), bytes)
    });
    opened.map_err(|error| refused(path, FileError::Io(error)))
}

/// What cannot be read is the system's error; what is damaged is the file's.
fn refused(path: &str, error: FileError) -> PyErr {
    match error {
        FileError::Io(error) if !is_damage(&error) => {
            let told = format!("{path}: {error}");
            match error.raw_os_error() {
                // Python makes `FileNotFoundError` and the like of the number.
                Some(number) => PyOSError::new_err((number, told)),
                None => PyOSError::new_err(told),
            }
        }
        error => wrong(format!("{path}: {error}")),
    }
}

/// What is compressed is cut or damaged.
fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData
    )
}

fn of_capture(input: Input, path: &str) -> PyResult<Answer> {
    let (recording, info) = captured(input, path)?;
    Ok(Answer::of(&recording, &Netns::Own, Some(info)))
}

/// What a capture shows of its connections, and of itself.
fn captured(input: Input, path: &str) -> PyResult<(Recording, CaptureInfo)> {
    let random = || RandomState::new().build_hasher().finish();
    let mut analysis = Analysis::new(Settings {
        // Numbers that the writer of the capture does not know.
        hash_keys: [random(), random()],
        ..Settings::default()
    });
    let mut reader =
        Reader::new(input.reader).map_err(|error| wrong(format!("{path}: {error}")))?;
    let cut_short = analysis.handle_file(&mut reader, |_| pool::asked().map(|()| true))?;
    let (recording, summary) = analysis.finish();
    Ok((recording, CaptureInfo::new(summary, cut_short.as_ref())))
}

impl Answer {
    fn of(recording: &Recording, netns: &Netns, capture: Option<CaptureInfo>) -> Self {
        let observed = Observed::new(recording, netns);
        let row = |answered: &Answered<'_, '_>| FlowRow::of(&observed, answered);
        let mut flows = observed.answers_as(|_| true, row);
        if capture.is_some() {
            flows.iter_mut().for_each(FlowRow::set_seen_in_packets);
        }
        sort_rows(&mut flows);
        let host = doctor::diagnose_host(observed.cases().host());
        let host: Vec<VerdictRow> = host.iter().map(VerdictRow::of_host).collect();
        let found = flows.iter().filter(|flow| flow.has_finding()).count();
        Self {
            duration_s: recording.ended.since(recording.began).as_secs_f64(),
            findings: found + host.len(),
            flows_left_out: recording.flows_left_out,
            capture,
            host_findings: host,
            flows,
        }
    }
}
