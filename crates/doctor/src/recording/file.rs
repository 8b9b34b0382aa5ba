//! Recordings as text: one line of JSON for each sample.
//!
//! The first line says what it is and when. Then each connection has a line, followed by its
//! samples; the samples of the host come last. Samples are written as what has changed since the
//! one before (JSON Merge Patch, RFC 7396: `null` takes a field away), which keeps a file small and
//! readable. Files are untrusted: lengths and numbers are bounded, and what is missing stays
//! unknown.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

use base::{FlowKey, FlowSample, HostSample, Instant, Netns};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ProcessInfo, Recording, Samples, SocketOwner, Track};

/// Format name in the first line; the number increases when older programs cannot read it.
const SCHEMA: &str = "tcptailor/recording/1";
/// The longest line.
const LINE_MAX: u64 = 4 << 20;
/// The longest sample of a host: one with some ten thousand interfaces, each with a queue.
const HOST_LINE_MAX: u64 = 32 << 20;
/// How such a line begins.
const HOST_START: &[u8] = b"{\"host\"";
/// Memory of a map and of a value while a line is read, at most; both are larger than their text.
const MAP_BYTES: usize = 640;
const VALUE_BYTES: usize = 32;
/// Samples of a file, at most: four times what a watch keeps, and 400 MB of memory.
const SAMPLES_MAX: usize = 400_000;
/// Most samples of the host.
const HOSTS_MAX: usize = 5_000;
/// Largest memory of a file. Only changes are written, so that a short file can expand to much.
const MEMORY_MAX: usize = 1 << 30;
/// Values that are read in all, at most: each sample is read with all that has not changed. The
/// longest recording has a quarter of it.
const VALUES_MAX: usize = 1 << 27;
/// Memory of a map entry, beside its name and value.
const ENTRY_BYTES: usize = 64;
const TOO_MUCH: &str = "more data than a recording may have";
/// Connections of a file, at most.
const TRACKS_MAX: usize = 100_000;

/// Why a file is not a recording.
#[derive(Debug)]
pub enum FileError {
    /// I/O error.
    Io(io::Error),
    /// A line is not what it should be.
    Line {
        /// Its number, from 1 on.
        number: usize,
        /// The problem.
        why: String,
    },
    /// The file ends before its last line.
    CutShort,
    /// It is empty.
    Empty,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Line { number, why } => write!(f, "line {number}: {why}"),
            Self::CutShort => f.write_str("its last lines are missing: copy or record it again"),
            Self::Empty => f.write_str("the file is empty: record or capture again"),
        }
    }
}

impl std::error::Error for FileError {}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    schema: String,
    netns: Netns,
    began: Instant,
    ended: Instant,
    stopped: bool,
    process_ended: bool,
    flows_left_out: usize,
    unseen_processes: usize,
}

/// The line of a connection.
#[derive(Debug, Serialize, Deserialize)]
struct TrackHead {
    key: FlowKey,
    cookie: u64,
    owners: Vec<(i32, ProcessInfo)>,
    ended: bool,
    interface: Option<String>,
    options_error: Option<String>,
}

/// Every other line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    /// A connection; its samples follow.
    Flow(TrackHead),
    /// Changes of a connection since its last sample.
    Sample(Value),
    /// Changes of the host since its last sample.
    Host(Value),
    /// The last line, with the number of lines before it.
    End(usize),
}

/// Writes a recording of a namespace.
///
/// # Errors
/// Where `to` cannot be written.
pub fn write(recording: &Recording, netns: &Netns, to: &mut dyn Write) -> io::Result<()> {
    let mut lines = Lines { to, count: 0 };
    lines.put(&Head {
        schema: SCHEMA.into(),
        netns: netns.clone(),
        began: recording.began,
        ended: recording.ended,
        stopped: recording.stopped,
        process_ended: recording.process_ended,
        flows_left_out: recording.flows_left_out,
        unseen_processes: recording.unseen_processes,
    })?;
    for track in &recording.flows {
        lines.put(&Line::Flow(TrackHead {
            key: track.key,
            cookie: track.cookie,
            owners: track
                .owners
                .iter()
                .map(|owner| (owner.fd, (*owner.process).clone()))
                .collect(),
            ended: track.ended,
            interface: track.interface.clone(),
            options_error: track.options_error.clone(),
        }))?;
        lines.put_changes::<FlowSample, _>(&track.samples, Line::Sample)?;
    }
    lines.put_changes::<HostSample, _>(&recording.hosts, Line::Host)?;
    let count = lines.count;
    lines.put(&Line::End(count))
}

struct Lines<'w> {
    to: &'w mut dyn Write,
    count: usize,
}

impl Lines<'_> {
    fn put(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut *self.to, line)?;
        self.count += 1;
        self.to.write_all(b"\n")
    }

    fn put_changes<T: Serialize, B: Borrow<T>>(
        &mut self,
        values: impl IntoIterator<Item = B>,
        line: fn(Value) -> Line,
    ) -> io::Result<()> {
        let mut before = Value::Object(Map::new());
        for value in values {
            let value = without_nulls(serde_json::to_value(value.borrow())?);
            self.put(&line(changes(&before, &value)))?;
            before = value;
        }
        Ok(())
    }
}

fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, field| !field.is_null());
    }
    value
}

/// The merge patch that makes `after` of `before`.
fn changes(before: &Value, after: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return after.clone();
    };
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    let mut patch: Map<String, Value> = gone.map(|name| (name.clone(), Value::Null)).collect();
    for (name, value) in new {
        match old.get(name) {
            Some(same) if same == value => {}
            Some(other) => {
                patch.insert(name.clone(), changes(other, value));
            }
            None => {
                patch.insert(name.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

/// Applies a merge patch.
fn apply(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(&name);
        } else {
            apply(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Reads what [`write()`] wrote: the recording, and the namespace that it is of.
///
/// # Errors
/// [`FileError`] where it is something else, of another version, cut short, or too large.
pub fn read(from: &mut dyn BufRead) -> Result<(Recording, Netns), FileError> {
    read_within(MEMORY_MAX, VALUES_MAX, from)
}

fn read_within(
    memory: usize,
    values: usize,
    from: &mut dyn BufRead,
) -> Result<(Recording, Netns), FileError> {
    let mut reader = Reader {
        from,
        number: 0,
        left: memory,
        values_left: values,
    };
    let head: Head = reader.head()?;
    let mut recording = Recording {
        began: head.began,
        ended: head.ended,
        stopped: head.stopped,
        process_ended: head.process_ended,
        flows_left_out: head.flows_left_out,
        unseen_processes: head.unseen_processes,
        ..Recording::default()
    };
    let mut sample = Value::Null;
    let mut host = Value::Null;
    let mut samples = 0;
    let mut processes = BTreeMap::new();
    loop {
        match reader.line()? {
            Line::Flow(head) => {
                if recording.flows.len() == TRACKS_MAX {
                    return Err(reader.wrong("more connections than a recording may have"));
                }
                sample = Value::Null;
                recording.flows.push(track(head, &mut processes));
            }
            Line::Sample(patch) => {
                samples += 1;
                if samples > SAMPLES_MAX {
                    return Err(reader.wrong("more samples than a recording may have"));
                }
                apply(&mut sample, patch);
                reader.spend(&sample)?;
                reader.hold(size_of::<FlowSample>() + heap_bytes(&sample))?;
                let sample: FlowSample = reader.value(&sample)?;
                match recording.flows.last_mut() {
                    Some(track) if track.key == sample.key => track.samples.push(Arc::new(sample)),
                    _ => return Err(reader.wrong("a sample of another connection")),
                }
            }
            Line::Host(patch) => {
                if recording.hosts.len() == HOSTS_MAX {
                    return Err(reader.wrong("more host samples than a recording may have"));
                }
                apply(&mut host, patch);
                reader.spend(&host)?;
                reader.hold(size_of::<HostSample>() + heap_bytes(&host))?;
                recording.hosts.push(reader.value::<HostSample>(&host)?);
            }
            Line::End(count) if count + 1 == reader.number => return Ok((recording, head.netns)),
            Line::End(_) => return Err(reader.wrong("lines are missing before it")),
        }
    }
}

/// The contents of a line, without control characters: the writer of the file chose the names in
/// it, and a name with an end of a line could look like an answer of ours.
fn parsed<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    // Ends of lines are escaped in JSON, and hardly any name has a reason for an escape.
    if !text.contains('\\') && !text.trim_end_matches('\n').contains(base::is_obeyed) {
        return serde_json::from_str(text);
    }
    let mut value: Value = serde_json::from_str(text)?;
    make_harmless(&mut value);
    serde_json::from_value(value)
}

fn make_harmless(value: &mut Value) {
    match value {
        Value::String(text) if text.contains(base::is_obeyed) => *text = base::harmless(text),
        Value::Array(items) => items.iter_mut().for_each(make_harmless),
        Value::Object(fields) => {
            fields.values_mut().for_each(make_harmless);
            if fields.keys().any(|name| name.contains(base::is_obeyed)) {
                let named = std::mem::take(fields).into_iter();
                *fields = named
                    .map(|(name, value)| (base::harmless(&name), value))
                    .collect();
            }
        }
        _ => {}
    }
}

/// How many values it consists of.
fn values_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
        Value::Array(items) => 1 + items.iter().map(values_of).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(values_of).sum::<usize>(),
    }
}

/// Heap memory of a value: its texts, and the contents of its lists and maps.
fn heap_bytes(value: &Value) -> usize {
    let entry = |value: &Value| ENTRY_BYTES + heap_bytes(value);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(entry).sum(),
        Value::Object(fields) => {
            let field = |value: &Value| match value {
                Value::Object(map) => map.iter().map(|(name, one)| name.len() + entry(one)).sum(),
                _ => heap_bytes(value),
            };
            fields.values().map(field).sum()
        }
    }
}

/// Connections of one process share what is known of it.
fn track(head: TrackHead, processes: &mut BTreeMap<u32, Arc<ProcessInfo>>) -> Track {
    let mut owner = |(fd, info): (i32, ProcessInfo)| {
        let known = processes.get(&info.pid).filter(|known| ***known == info);
        let process = known.cloned().unwrap_or_else(|| Arc::new(info));
        processes.insert(process.pid, Arc::clone(&process));
        SocketOwner { fd, process }
    };
    Track {
        key: head.key,
        cookie: head.cookie,
        owners: head.owners.into_iter().map(&mut owner).collect(),
        samples: Samples::new(),
        ended: head.ended,
        interface: head.interface,
        options_error: head.options_error,
    }
}

struct Reader<'r> {
    from: &'r mut dyn BufRead,
    number: usize,
    /// Approximate memory that further values may take.
    left: usize,
    /// Values that may still be read.
    values_left: usize,
}

impl Reader<'_> {
    /// Counts every value that is read, also fields that no sample has, which take time but no
    /// memory.
    fn spend(&mut self, value: &Value) -> Result<(), FileError> {
        match self.values_left.checked_sub(values_of(value)) {
            None => Err(self.wrong(TOO_MUCH)),
            Some(left) => {
                self.values_left = left;
                Ok(())
            }
        }
    }

    fn hold(&mut self, bytes: usize) -> Result<(), FileError> {
        match self.left.checked_sub(bytes) {
            None => Err(self.wrong(TOO_MUCH)),
            Some(left) => {
                self.left = left;
                Ok(())
            }
        }
    }

    fn head(&mut self) -> Result<Head, FileError> {
        let text = self.text()?;
        let schema = serde_json::from_str::<Value>(&text)
            .ok()
            .and_then(|value| Some(value.get("schema")?.as_str()?.to_owned()));
        match schema.as_deref() {
            Some(SCHEMA) => parsed(&text).map_err(|error| self.wrong(error.to_string())),
            Some(other) if other.starts_with("tcptailor/recording/") => {
                Err(self.wrong(format!("it is {other}, and this program reads {SCHEMA}")))
            }
            _ => Err(self.wrong("not a tcptailor recording")),
        }
    }

    fn line(&mut self) -> Result<Line, FileError> {
        let text = self.text()?;
        self.hold(text.len())?;
        let count = |wanted| text.bytes().filter(|byte| *byte == wanted).count();
        if count(b'{') * MAP_BYTES + count(b',') * VALUE_BYTES > self.left {
            return Err(self.wrong(TOO_MUCH));
        }
        parsed(&text).map_err(|error| self.wrong(error.to_string()))
    }

    fn value<T: DeserializeOwned>(&self, value: &Value) -> Result<T, FileError> {
        T::deserialize(value).map_err(|error| self.wrong(error.to_string()))
    }

    fn text(&mut self) -> Result<String, FileError> {
        self.number += 1;
        let mut text = Vec::new();
        let mut bounded = (&mut *self.from).take(LINE_MAX);
        bounded.read_until(b'\n', &mut text)?;
        let mut most = LINE_MAX;
        if text.len() as u64 == LINE_MAX && text.starts_with(HOST_START) && !text.ends_with(b"\n") {
            most = HOST_LINE_MAX;
            let mut bounded = (&mut *self.from).take(HOST_LINE_MAX - LINE_MAX);
            bounded.read_until(b'\n', &mut text)?;
        }
        match text.last() {
            Some(b'\n') => String::from_utf8(text).map_err(|_| self.wrong("it is not text")),
            _ if text.len() as u64 == most => Err(self.wrong("it is too long")),
            None if self.number == 1 => Err(FileError::Empty),
            _ => Err(FileError::CutShort),
        }
    }

    fn wrong(&self, why: impl Into<String>) -> FileError {
        FileError::Line {
            number: self.number,
            why: why.into(),
        }
    }
}

#[cfg(test)]
mod tests;
