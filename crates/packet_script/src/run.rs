//! Plays a script against a host, whichever it is.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use base::Instant;
use base::ip::Ecn;
use base::tcp::{SackBlocks, TcpFlags, TcpHeader};

use super::compare::{self, describe};
use super::connection::Connection;
use super::model::{
    Action, After, Call, CallResult, Check, CheckValue, Echo, Engine, IcmpName, PacketScript,
    PacketSpec, SackSpec, Seq, Step, TimestampSpec, When, WindowSpec,
};

mod observe;

pub use observe::{Happening, Observed, observe};

/// One tick of the timers of Linux with HZ=250.
const TICK: Duration = Duration::from_millis(4);
/// Tolerated earliness, since two clocks are compared.
const EARLY: Duration = Duration::from_millis(1);

/// A packet on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// The ECN field of its IP header.
    pub ecn: Ecn,
    /// Ports, numbers, flags and window as they stand there.
    pub header: TcpHeader,
    /// Its options.
    pub options: WireOptions,
    /// Its data.
    pub payload: Vec<u8>,
}

/// The options of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireOptions {
    /// MSS.
    pub mss: Option<u16>,
    /// Window scale.
    pub window_scale: Option<u8>,
    /// SACK permitted.
    pub sack_permitted: bool,
    /// Clock and echo.
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks.
    pub sack: Option<SackBlocks>,
}

impl Wire {
    /// Sequence numbers that it takes.
    #[must_use]
    pub fn sequence_bytes(&self) -> u32 {
        let flag = |flag| u32::from(self.header.flags.contains(flag));
        self.payload.len() as u32 + flag(TcpFlags::SYN) + flag(TcpFlags::FIN)
    }
}

/// An ICMP error that the network sends to the host.
#[derive(Clone, Copy, Debug)]
pub struct Icmp {
    /// Kind of error.
    pub kind: IcmpName,
    /// Header of the segment of the host that it quotes.
    pub quoted: TcpHeader,
}

/// Something that is known of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A count, bytes, or microseconds.
    Number(u64),
    /// A name.
    Name(String),
}

/// A host on which scripts run.
pub trait ScriptHost {
    /// Which one.
    fn engine(&self) -> Engine;
    /// The time.
    fn now(&self) -> Instant;
    /// How late it may be through no fault of the host.
    fn slack(&self) -> Duration;
    /// The next packet that the host sent, and when; waits until `until`.
    fn poll_packet(&mut self, until: Instant) -> Option<(Instant, Wire)>;
    /// A packet of the peer arrives.
    fn handle_packet(&mut self, wire: &Wire);
    /// An error of the network arrives.
    fn handle_icmp(&mut self, icmp: &Icmp);
    /// The application calls. `connection` is the name of it, `remote` the peer's port.
    ///
    /// # Errors
    /// What this host cannot do.
    fn call(&mut self, connection: &str, remote: u16, call: &Call) -> Result<CallResult, String>;
    /// Value of a quantity; `None` if this host does not know it.
    fn sample(&mut self, connection: &str, field: &str) -> Option<Value>;
}

/// Why a script failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The line of the script.
    pub line: u32,
    /// The problem.
    pub message: String,
    /// Events until then, as lines of a script.
    pub story: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}\n{}", self.line, self.message, self.story)
    }
}

/// Plays `script`.
///
/// # Errors
/// The first difference between what the script says and what the host does.
pub fn run(script: &PacketScript, host: &mut dyn ScriptHost) -> Result<(), Failure> {
    let mut play = Play::new(script, host);
    for step in &script.steps {
        if !play.includes(step) {
            continue;
        }
        if let Err(message) = play.step(step) {
            play.linger();
            return Err(Failure {
                line: step.line,
                message,
                story: play.story,
            });
        }
    }
    Ok(())
}

/// A packet or moment with a name.
struct Marked {
    at: Instant,
    clock: u32,
}

struct Play<'a> {
    script: &'a PacketScript,
    host: &'a mut dyn ScriptHost,
    start: Instant,
    /// When the last step happened.
    previous: Instant,
    labels: BTreeMap<&'a str, Marked>,
    connections: BTreeMap<&'a str, Connection>,
    /// Packets that came before a step asked for them.
    queue: VecDeque<(Instant, Wire)>,
    story: String,
}

type Told<T> = Result<T, String>;

impl<'a> Play<'a> {
    fn new(script: &'a PacketScript, host: &'a mut dyn ScriptHost) -> Self {
        let start = host.now();
        Self {
            script,
            host,
            start,
            previous: start,
            labels: BTreeMap::new(),
            connections: BTreeMap::new(),
            queue: VecDeque::new(),
            story: String::new(),
        }
    }

    /// Whether the step is for this host.
    fn includes(&self, step: &Step) -> bool {
        step.engine
            .is_none_or(|engine| engine == self.host.engine())
    }

    /// The name of the connection that a step is about, which begins with its first one.
    fn enter(&mut self, step: &'a Step) -> &'a str {
        let name = step.connection.as_str();
        let index = self.connections.len() as u16;
        self.connections
            .entry(name)
            .or_insert_with(|| Connection::new(index));
        name
    }

    fn step(&mut self, step: &'a Step) -> Told<()> {
        let base = self.base(&step.when);
        let name = self.enter(step);
        if let Action::Out(spec) = &step.action {
            return self.expect_packet(name, spec, base, &step.when);
        }
        self.wait(base + step.when.min)?;
        self.previous = self.host.now();
        match &step.action {
            Action::In(spec) => {
                self.send(name, spec);
                Ok(())
            }
            Action::Icmp { kind, seq } => {
                let icmp = self.icmp(name, *kind, *seq);
                self.host.handle_icmp(&icmp);
                Ok(())
            }
            Action::Call(call, result) => self.call(name, call, result),
            Action::Check(checks) => checks.iter().try_for_each(|check| self.check(name, check)),
            Action::Silence | Action::Out(_) => Ok(()),
        }
    }

    fn base(&self, when: &When) -> Instant {
        match &when.after {
            After::Previous => self.previous,
            After::Start => self.start,
            After::Label(label) => {
                let found = self.labels.get(label.as_str());
                found.map_or(self.previous, |marked| marked.at)
            }
        }
    }

    fn connection(&mut self, name: &str) -> &mut Connection {
        self.connections
            .get_mut(name)
            .expect("made at the step's begin")
    }

    /// Until `until`, in which time nothing may be sent.
    fn wait(&mut self, until: Instant) -> Told<()> {
        if let Some((at, wire)) = self.next_packet(until) {
            let text = self.tell_packet(at, &wire);
            return Err(format!("a packet that no line asks for: {text}"));
        }
        Ok(())
    }

    fn next_packet(&mut self, until: Instant) -> Option<(Instant, Wire)> {
        self.queue
            .pop_front()
            .or_else(|| self.host.poll_packet(until))
    }

    /// After a failure: what else comes at once is told too.
    fn linger(&mut self) {
        let until = self.host.now() + Duration::from_millis(2);
        for _ in 0..20 {
            let Some((at, wire)) = self.next_packet(until) else {
                break;
            };
            self.tell_packet(at, &wire);
        }
    }

    fn tell_packet(&mut self, at: Instant, wire: &Wire) -> String {
        let text = self.account(wire, describe);
        self.tell(at, &format!("out {text}"));
        text
    }

    /// Takes note of a packet, whosever it is, and returns its text.
    fn account(&mut self, wire: &Wire, text: fn(&Wire, &Connection) -> String) -> String {
        let found = self
            .connections
            .iter_mut()
            .find(|(_, known)| known.owns(wire));
        let Some((name, connection)) = found else {
            return format!("from port {}", wire.header.source_port);
        };
        let is_syn = wire.header.flags.contains(TcpFlags::SYN);
        if is_syn
            && connection
                .host_isn
                .is_some_and(|isn| isn != wire.header.seq)
        {
            // A new incarnation, which has other numbers.
            connection.forget_host();
        }
        if connection.host_isn.is_none() {
            connection.sent(wire);
        }
        let text = text(wire, connection);
        connection.sent(wire);
        format!("@{name} {text}")
    }

    fn tell(&mut self, at: Instant, text: &str) {
        let millis = at.since(self.start).as_micros();
        self.story.push_str(&format!(
            "  @{}.{:03}ms {text}\n",
            millis / 1000,
            millis % 1000
        ));
    }

    fn expect_packet(
        &mut self,
        name: &'a str,
        spec: &'a PacketSpec,
        base: Instant,
        when: &When,
    ) -> Told<()> {
        let slack = self.host.slack();
        let latest = base + when.max.unwrap_or(when.min + TICK) + slack;
        let early = if slack.is_zero() {
            Duration::ZERO
        } else {
            EARLY
        };
        let Some((at, wire)) = self.next_packet(latest) else {
            return Err(format!(
                "no packet until {:?} after the step before",
                latest.since(base)
            ));
        };
        let text = self.tell_packet_of(name, spec, at, &wire)?;
        let connection = &self.connections[name];
        let labels = |label: &str| self.labels.get(label).map(|marked| marked.clock);
        compare::check(spec, &wire, connection, &labels)
            .map_err(|why| format!("{why} in {text}"))?;
        self.connection(name).sent(&wire);
        let after = at.since(base);
        if after + early < when.min || at > latest {
            return Err(format!("it came after {after:?}: {text}"));
        }
        self.previous = at;
        if let Some(label) = &spec.label {
            self.mark(label, at, &wire);
        }
        Ok(())
    }

    fn mark(&mut self, label: &'a str, at: Instant, wire: &Wire) {
        let clock = wire.options.timestamps.map_or(0, |(value, _)| value);
        self.labels.insert(label, Marked { at, clock });
    }

    /// Whose packet it is, and its text.
    fn tell_packet_of(
        &mut self,
        name: &'a str,
        spec: &PacketSpec,
        at: Instant,
        wire: &Wire,
    ) -> Told<String> {
        let connection = self.connection(name);
        if spec.renew {
            connection.forget_host();
        }
        if !connection.owns(wire) {
            let text = self.tell_packet(at, wire);
            return Err(format!("a packet of another connection: {text}"));
        }
        if connection.host_isn.is_none() && wire.header.flags.contains(TcpFlags::SYN) {
            connection.host_isn = Some(wire.header.seq);
        }
        let mut after = connection.clone();
        after.sent(wire);
        let text = format!("@{name} {}", describe(wire, &after));
        self.tell(at, &format!("out {text}"));
        Ok(text)
    }

    fn send(&mut self, name: &'a str, spec: &PacketSpec) {
        let now = self.host.now();
        let wire = self.wire(name, spec, now);
        let connection = self.connection(name);
        let text = compare::describe_in(&wire, connection);
        connection.receives(&wire);
        if let Some(label) = &spec.label {
            let label = self.script_label(label);
            self.mark(label, now, &wire);
        }
        self.tell(now, &format!("in  @{name} {text}"));
        self.host.handle_packet(&wire);
    }

    /// The label as the script owns it.
    fn script_label(&self, wanted: &str) -> &'a str {
        let labels = self
            .script
            .steps
            .iter()
            .filter_map(|step| match &step.action {
                Action::In(spec) | Action::Out(spec) => spec.label.as_deref(),
                _ => None,
            });
        labels
            .into_iter()
            .find(|label| *label == wanted)
            .unwrap_or_default()
    }

    fn wire(&mut self, name: &str, spec: &PacketSpec, now: Instant) -> Wire {
        let default_window = self.script.setup.peer.window;
        let options = self.options(name, spec, now);
        let connection = self.connection(name);
        if spec.renew {
            connection.renew_peer();
        }
        let is_syn = spec.flags.contains(TcpFlags::SYN);
        let seq = match spec.seq {
            Seq::Is(seq) => seq,
            Seq::Next | Seq::Any if is_syn => 0,
            Seq::Next | Seq::Any => connection.peer_next,
        };
        let ack = match spec.ack {
            Some(Seq::Is(ack)) => connection.host_seq(ack),
            Some(_) => connection.host_seq(connection.host_next),
            None => base::SeqNum::default(),
        };
        let window = match spec.window {
            WindowSpec::Between(low, _) => low,
            WindowSpec::Default => default_window,
        };
        let shift = if is_syn { 0 } else { connection.peer_shift() };
        let mut flags = spec.flags;
        if spec.ack.is_some() {
            flags |= TcpFlags::ACK;
        }
        let first = seq.max(1);
        Wire {
            ecn: spec.ecn.unwrap_or_default(),
            header: TcpHeader {
                source_port: connection.peer_port,
                destination_port: connection.host_port.unwrap_or(super::HOST_PORT),
                seq: connection.peer_seq(seq),
                ack,
                flags,
                window: (window.div_ceil(1 << shift)).min(65_535) as u16,
                urgent: spec.urgent,
            },
            options,
            payload: (0..i64::from(spec.data))
                .map(|at| pattern(first + at))
                .collect(),
        }
    }

    fn options(&mut self, name: &str, spec: &PacketSpec, now: Instant) -> WireOptions {
        let since = Instant::ZERO + now.since(self.start);
        let labels = &self.labels;
        let connection = &self.connections[name];
        let is_syn = spec.flags.contains(TcpFlags::SYN);
        let options = &spec.options;
        let timestamps = match &options.timestamps {
            TimestampSpec::Default if is_syn || !connection.has_timestamps() => None,
            TimestampSpec::Off => None,
            TimestampSpec::Default => Some((Connection::peer_clock(since), connection.host_clock)),
            TimestampSpec::On { value, echo } => {
                let value = value.unwrap_or_else(|| Connection::peer_clock(since));
                let echo = match echo {
                    None if is_syn && spec.ack.is_none() => 0,
                    None => connection.host_clock,
                    Some(Echo::Value(value)) => *value,
                    Some(Echo::Label(label)) => {
                        labels.get(label.as_str()).map_or(0, |marked| marked.clock)
                    }
                };
                Some((value, echo))
            }
        };
        let sack = match &options.sack {
            SackSpec::Blocks(blocks) => {
                let absolute = |(start, end): &(i64, i64)| {
                    (connection.host_seq(*start), connection.host_seq(*end))
                };
                let blocks: Vec<_> = blocks.iter().map(absolute).collect();
                Some(SackBlocks::new(&blocks))
            }
            SackSpec::None | SackSpec::Any => None,
        };
        WireOptions {
            mss: options.mss,
            window_scale: options.window_scale,
            sack_permitted: options.sack_permitted,
            timestamps,
            sack,
        }
    }

    fn icmp(&mut self, name: &str, kind: IcmpName, seq: i64) -> Icmp {
        let now = self.host.now();
        self.tell(now, &format!("in  @{name} icmp {kind:?} seq {seq}"));
        let connection = self.connection(name);
        Icmp {
            kind,
            quoted: TcpHeader {
                source_port: connection.host_port.unwrap_or(super::HOST_PORT),
                destination_port: connection.peer_port,
                seq: connection.host_seq(seq),
                ..TcpHeader::default()
            },
        }
    }

    fn make_call(&mut self, name: &'a str, call: &Call) -> Told<CallResult> {
        if *call == Call::Connect {
            self.connection(name).opens();
        }
        let remote = self.connection(name).peer_port;
        let now = self.host.now();
        let found = self.host.call(name, remote, call)?;
        self.tell(now, &format!("@{name} {call:?} -> {found:?}"));
        Ok(found)
    }

    fn call(&mut self, name: &'a str, call: &Call, wanted: &CallResult) -> Told<()> {
        let found = self.make_call(name, call)?;
        let asked = match call {
            Call::Write { bytes, .. } | Call::Read { bytes } | Call::Peek { bytes } => {
                CallResult::Count(*bytes)
            }
            _ => CallResult::Done,
        };
        let wanted = match wanted {
            CallResult::Done => &asked,
            CallResult::Any => return Ok(()),
            other => other,
        };
        if found != *wanted {
            return Err(format!("{call:?} returns {found:?}, not {wanted:?}"));
        }
        Ok(())
    }

    fn check(&mut self, name: &str, check: &Check) -> Told<()> {
        let Check { field, min, max } = check;
        let Some(found) = self.host.sample(name, field) else {
            return Err(format!("{field} is not known here"));
        };
        let fits = match (&found, min, max) {
            (Value::Number(found), CheckValue::Number(min), CheckValue::Number(max)) => {
                (min..=max).contains(&found)
            }
            (Value::Name(found), CheckValue::Name(name), _) => found == name,
            _ => false,
        };
        let now = self.host.now();
        self.tell(now, &format!("@{name} {field} is {found:?}"));
        if fits {
            Ok(())
        } else {
            Err(format!("{field} is {found:?}, not {min:?} to {max:?}"))
        }
    }
}

/// The byte at `position` of a stream, from 1: so that misplaced data is seen.
#[must_use]
pub fn pattern(position: i64) -> u8 {
    (position * 7 + position / 251) as u8
}
