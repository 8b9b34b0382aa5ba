//! A long measurement as a file: one line of JSON per interval, with the rate of the interval and
//! the mean of all. Each line is handed to the kernel whole, so that what was measured survives an
//! interruption, and the same command goes on where the file ends. A file is of one measurement,
//! and one process writes it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use base::human;
use lab::Direction;
use linux::workload::{Interval, Phase};
use serde::{Deserialize, Serialize};

use crate::commands::lab::lock;
use crate::exit::Problem;
use crate::output::{Output, rfc3339};

const SCHEMA: &str = "tcptailor/bench-log/1";
/// Longer than any line of ours: a file without a line end in this much of its end is not a log.
const TAIL_BYTES: u64 = 4096;

/// The measured workload. The mean of a log covers intervals with the same one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Measurement {
    /// With its port, as the command line names it.
    pub(super) host: String,
    /// Mode, as in the flag.
    pub(super) mode: String,
    pub(super) direction: Direction,
    /// Connections.
    pub(super) parallel: u32,
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            host,
            mode,
            direction,
            parallel,
        } = self;
        let direction = match direction {
            Direction::Up => "",
            Direction::Down => " -R",
            Direction::Both => " --bidir",
        };
        write!(f, "{host} --mode {mode}{direction} -P {parallel}")
    }
}

/// One interval at the receiving end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    schema: String,
    /// Lines of older versions have none.
    #[serde(default)]
    measurement: Option<Measurement>,
    /// Number of the line, from 1.
    n: u64,
    /// Number of the command that wrote it, from 1.
    run: u64,
    /// By the wall clock, when it was written. Nothing is computed from it.
    time: String,
    /// Length of the interval by the monotonic clock.
    interval_s: f64,
    bytes: u64,
    goodput_bps: u64,
    /// Total of all lines up to this one.
    pub(super) total_s: f64,
    total_bytes: u64,
    mean_bps: u64,
}

/// A log that is being written.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    measurement: Measurement,
    run: u64,
    last: Option<Entry>,
    failure: Option<std::io::Error>,
}

impl Log {
    /// Opens the log of a measurement to go on with it, or begins one.
    ///
    /// # Errors
    /// Where the file holds something else or is of another measurement, where another process is
    /// writing it, or where it cannot be written.
    pub(super) fn open(
        path: &Path,
        measurement: Measurement,
        output: &Output,
    ) -> anyhow::Result<Self> {
        let shown = path.display();
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .with_context(|| format!("opening {shown}"))?;
        let hint = "Wait until it ends, or name another file.";
        lock(&file, &format!("the log {shown}"), hint, output)?;
        let last = last_entry(&mut file)
            .with_context(|| format!("reading {shown}"))?
            .map_err(|what| {
                Problem::usage(format!("--log {shown}: {what}"))
                    .hint("Name a file that `bench --log` wrote, or one that is not there yet.")
            })?;
        let known = last.as_ref().and_then(|last| last.measurement.as_ref());
        if let Some(other) = known.filter(|known| **known != measurement) {
            let message = format!("--log {shown} is of `{other}`, and this is `{measurement}`");
            let hint = "Name another file: the mean is of one kind of traffic with one host.";
            return Err(Problem::usage(message).hint(hint).into());
        }
        Ok(Self {
            path: path.into(),
            state: Mutex::new(State {
                file,
                measurement,
                run: last.as_ref().map_or(0, |last| last.run) + 1,
                last,
                failure: None,
            }),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time covered by the log.
    pub(super) fn covered(&self) -> Duration {
        let seconds = self.lock().last.as_ref().map_or(0.0, |last| last.total_s);
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    /// Appends an interval; returns whether the log can be written. Warm-up does not count, nor
    /// what comes after the end.
    pub(super) fn append(&self, interval: &Interval, unix_seconds: u64) -> bool {
        let mut state = self.lock();
        if interval.phase != Phase::Measured || interval.length_ns == 0 {
            return state.failure.is_none();
        }
        let entry = state.next(interval, rfc3339(unix_seconds));
        let written = serde_json::to_string(&entry)
            .map_err(std::io::Error::from)
            // In one piece: what is interrupted has a whole line, or none.
            .and_then(|line| state.file.write_all((line + "\n").as_bytes()));
        match written {
            Ok(()) => state.last = Some(entry),
            Err(error) => state.failure = Some(error),
        }
        state.failure.is_none()
    }

    /// How far it is, in words.
    pub(super) fn progress(&self) -> String {
        self.lock().last.as_ref().map_or_else(String::new, |last| {
            format!(
                "{:.0} s, {}, mean {}",
                last.total_s,
                human::bps(last.goodput_bps),
                human::bps(last.mean_bps)
            )
        })
    }

    /// # Errors
    /// Where a line could not be written.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        match self.lock().failure.take() {
            Some(error) => Err(error).with_context(|| format!("writing {}", self.path.display())),
            None => Ok(()),
        }
    }
}

impl State {
    fn next(&self, interval: &Interval, time: String) -> Entry {
        let interval_s = interval.length_ns as f64 / 1e9;
        let bytes = interval.received_bytes;
        let (n, before_s, before_bytes) = self
            .last
            .as_ref()
            .map_or((0, 0.0, 0), |last| (last.n, last.total_s, last.total_bytes));
        // Whole nanoseconds, so that no error adds up over hours.
        let total_s = ((before_s + interval_s) * 1e9).round() / 1e9;
        let total_bytes = before_bytes.saturating_add(bytes);
        let rate = |bytes: u64, seconds: f64| (bytes as f64 * 8.0 / seconds) as u64;
        Entry {
            schema: SCHEMA.into(),
            measurement: Some(self.measurement.clone()),
            n: n + 1,
            run: self.run,
            time,
            interval_s,
            bytes,
            goodput_bps: rate(bytes, interval_s),
            total_s,
            total_bytes,
            mean_bps: rate(total_bytes, total_s),
        }
    }
}

/// The last whole line, after which the file is cut: what follows was not written to its end.
fn last_entry(file: &mut File) -> std::io::Result<Result<Option<Entry>, &'static str>> {
    let length = file.seek(SeekFrom::End(0))?;
    let from = length.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let Some(end) = tail.iter().rposition(|byte| *byte == b'\n') else {
        if from > 0
            || !b"{\"schema\":\"tcptailor/bench-log".starts_with(&tail[..tail.len().min(30)])
        {
            return Ok(Err("it holds something else"));
        }
        file.set_len(0)?;
        return Ok(Ok(None));
    };
    let begin = tail[..end]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let entry = std::str::from_utf8(&tail[begin..end])
        .ok()
        .and_then(|line| serde_json::from_str::<Entry>(line).ok())
        .filter(|entry| entry.schema == SCHEMA && entry.total_s >= 0.0);
    let Some(entry) = entry else {
        return Ok(Err("its last line is none of a log"));
    };
    let whole = from + end as u64 + 1;
    file.set_len(whole)?;
    Ok(Ok(Some(entry)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Globals;

    fn interval(milliseconds: u64, bytes: u64) -> Interval {
        Interval {
            end_ns: 0,
            length_ns: milliseconds * 1_000_000,
            phase: Phase::Measured,
            received_bytes: bytes,
            sent_bytes: 0,
            operations: 0,
            responses_ns: Default::default(),
            sending: None,
        }
    }

    fn stream() -> Measurement {
        Measurement {
            host: "10.0.0.9:5201".into(),
            mode: "stream".into(),
            direction: Direction::Up,
            parallel: 1,
        }
    }

    fn open(path: &Path, measurement: Measurement) -> anyhow::Result<Log> {
        Log::open(path, measurement, &Output::new(&Globals::default()))
    }

    fn entries(path: &Path) -> Vec<Entry> {
        let text = std::fs::read_to_string(path).expect("a file");
        let read = |line| serde_json::from_str(line).expect("JSON");
        text.lines().map(read).collect()
    }

    #[test]
    fn a_log_goes_on_where_it_was_interrupted() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let first = open(&path, stream()).expect("a new log");
        assert!(first.append(&interval(1000, 1000), 0));
        assert!(first.append(&interval(1000, 3000), 1));
        first.finish().expect("written");
        drop(first);
        // A line that was not written to its end.
        let mut file = OpenOptions::new().append(true).open(&path).expect("a file");
        file.write_all(br#"{"schema":"tcptailor/be"#)
            .expect("written");

        let second = open(&path, stream()).expect("a log");
        assert_eq!(second.covered(), Duration::from_secs(2));
        let warmup = Interval {
            phase: Phase::Warmup,
            ..interval(1000, 9)
        };
        assert!(second.append(&warmup, 2));
        // The wall clock went back: the numbers do not.
        assert!(second.append(&interval(500, 2000), 0));
        assert_eq!(second.progress(), "2 s, 32.0 kbit/s, mean 19.2 kbit/s");

        let entries = entries(&path);
        let shown: Vec<_> = entries.iter().map(|e| (e.n, e.run, e.total_s)).collect();
        assert_eq!(shown, [(1, 1, 1.0), (2, 1, 2.0), (3, 2, 2.5)]);
        let rates: Vec<_> = entries
            .iter()
            .map(|e| (e.goodput_bps, e.mean_bps))
            .collect();
        assert_eq!(rates, [(8000, 8000), (24_000, 16_000), (32_000, 19_200)]);
    }

    #[test]
    fn a_log_has_one_writer() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let first = open(&path, stream()).expect("a new log");
        let error = open(&path, stream()).expect_err("taken").to_string();
        assert!(
            error.contains("another process is writing the log"),
            "{error}"
        );
        assert!(first.append(&interval(1000, 1), 0));
        drop(first);
        let second = open(&path, stream()).expect("it is free");
        // Where locks are unknown: nothing is written over.
        let mut other = OpenOptions::new().append(true).open(&path).expect("a file");
        other.write_all(b"x\n").expect("written");
        assert!(second.append(&interval(1000, 1), 0));
        let text = std::fs::read_to_string(&path).expect("a file");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[1]), (3, "x"));
    }

    #[test]
    fn a_log_is_of_one_measurement() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let first = open(&path, stream()).expect("a new log");
        assert!(first.append(&interval(1000, 1), 0));
        drop(first);
        let before = std::fs::read_to_string(&path).expect("a file");
        let check = |change: fn(&mut Measurement), expected: &str| {
            let mut other = stream();
            change(&mut other);
            let error = open(&path, other).expect_err("another").to_string();
            let known = "is of `10.0.0.9:5201 --mode stream -P 1`, and this is `";
            assert!(error.contains(known) && error.contains(expected), "{error}");
        };
        check(|m| m.host = "a:1".into(), "`a:1 --mode stream -P 1`");
        check(|m| m.mode = "rr".into(), "--mode rr");
        check(|m| m.direction = Direction::Down, "-R");
        check(|m| m.parallel = 4, "-P 4");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), before);

        // A log of an older version goes on, and says from then on what it is of.
        let mut old: serde_json::Value = serde_json::from_str(&before).expect("JSON");
        let fields = old.as_object_mut().expect("fields");
        assert!(fields.remove("measurement").is_some());
        std::fs::write(&path, format!("{old}\n")).expect("written");
        let rr = || Measurement {
            mode: "rr".into(),
            ..stream()
        };
        let log = open(&path, rr()).expect("an old log");
        assert_eq!(log.covered(), Duration::from_secs(1));
        assert!(log.append(&interval(1000, 1), 0));
        drop(log);
        let kinds = entries(&path).into_iter().map(|entry| entry.measurement);
        assert_eq!(kinds.collect::<Vec<_>>(), [None, Some(rr())]);
        open(&path, stream()).expect_err("it is another now");
    }

    #[test]
    fn a_file_of_somebody_else_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let check = |content: &str, refused: bool| {
            let path = directory.path().join("file");
            std::fs::write(&path, content).expect("written");
            assert_eq!(open(&path, stream()).is_err(), refused, "{content:?}");
            if refused {
                assert_eq!(std::fs::read_to_string(&path).expect("a file"), content);
            }
        };
        check("", false);
        check(r#"{"schema":"tcptai"#, false);
        check("my thesis", true);
        check("my thesis\n", true);
        check("{}\n", true);
        check(&"x".repeat(10_000), true);
    }
}
