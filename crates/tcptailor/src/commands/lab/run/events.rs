//! The event log of a run in virtual time: lines of JSON, in the manner of qlog.
//!
//! The first line says what the log is of; each line after it is one thing that a host told, in the
//! order in which it happened. The same seed gives the same log. Memory holds one line.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Instant;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use stack::{SocketId, Trace, TraceEvent, TraceValue};

/// Names the form of the log.
const SCHEMA: &str = "tcptailor/events/1";

/// The first line.
#[derive(Serialize)]
struct Head<'a> {
    schema: &'static str,
    version: &'static str,
    /// Scenario, variant and point of the sweep.
    trial: &'a str,
    seed: u64,
}

/// Each other line.
#[derive(Serialize)]
struct Line<'a> {
    /// Since the start of the run; three digits behind the point are nanoseconds.
    time_us: f64,
    host: &'static str,
    /// `null` for what belongs to no connection. Both hosts number their own.
    connection: Option<String>,
    kind: &'static str,
    fields: Fields<'a>,
}

/// The values of an event as an object.
struct Fields<'a>(&'a TraceEvent<'a>);

/// A log that traces write to.
pub(super) struct EventLog<W> {
    shared: Arc<Mutex<Shared<W>>>,
}

struct Shared<W> {
    output: W,
    failure: Option<io::Error>,
}

/// One host's way into the log.
struct HostTrace<W> {
    shared: Arc<Mutex<Shared<W>>>,
    host: &'static str,
}

impl<W: Write + Send + 'static> EventLog<W> {
    /// Begins the log of a trial.
    ///
    /// # Errors
    /// Where the first line cannot be written.
    pub(super) fn new(mut output: W, trial: &str, seed: u64) -> io::Result<Self> {
        let head = Head {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            trial,
            seed,
        };
        write_line(&mut output, &head)?;
        let shared = Shared {
            output,
            failure: None,
        };
        Ok(Self {
            shared: Arc::new(Mutex::new(shared)),
        })
    }

    /// Writes what a host tells under this name.
    pub(super) fn trace(&self, host: &'static str) -> Box<dyn Trace> {
        Box::new(HostTrace {
            shared: Arc::clone(&self.shared),
            host,
        })
    }

    /// Ends the log; nothing that a host still tells goes into it.
    ///
    /// # Errors
    /// The first that occurred in writing; nothing was written after it.
    pub(super) fn finish(self) -> io::Result<()> {
        let mut shared = lock(&self.shared);
        match shared.failure.take() {
            Some(failure) => Err(failure),
            None => shared.output.flush(),
        }
    }
}

impl<W: Write + Send> Trace for HostTrace<W> {
    fn on_event(&mut self, now: Instant, socket: Option<SocketId>, event: &TraceEvent<'_>) {
        let mut shared = lock(&self.shared);
        if shared.failure.is_some() {
            return;
        }
        let line = Line {
            time_us: now.as_nanos() as f64 / 1000.0,
            host: self.host,
            connection: socket.map(|socket| socket.to_string()),
            kind: event.name(),
            fields: Fields(event),
        };
        shared.failure = write_line(&mut shared.output, &line).err();
    }
}

/// A trace that panicked while it wrote has left half a line at worst.
fn lock<W>(shared: &Mutex<Shared<W>>) -> MutexGuard<'_, Shared<W>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_line(output: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *output, line)?;
    output.write_all(b"\n")
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut written = Ok(());
        self.0.visit(&mut |name, value| {
            if written.is_ok() {
                written = match value {
                    TraceValue::Number(number) => map.serialize_entry(name, &number),
                    text => map.serialize_entry(name, &text.to_string()),
                };
            }
        });
        written?;
        map.end()
    }
}

impl<W> std::fmt::Debug for HostTrace<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostTrace")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}
