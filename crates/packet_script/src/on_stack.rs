//! Scripts on our own stack, in virtual time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::{Instant, WirePacket as _};
use bytes::Bytes;
use stack::profile::Profile;
use stack::{
    Event, Failure as StackFailure, Host, HostConfig, ListenOptions, Packet, ReadError, SocketId,
    WriteError, WriteFlags,
};

use super::connection::HOST_PORT;
use super::model::{Call, CallResult, Engine, Setting, SettingValue, Setup};
use super::run::{Icmp, ScriptHost, Value, Wire, pattern};
use super::{sample, settings, wire};

/// Wake-ups without a packet that a host may have while nothing comes.
const IDLE_STEPS_MAX: u32 = 100_000;

/// Our stack as a host of scripts. The virtual time begins at 1 s and jumps from event to event.
#[derive(Debug)]
pub struct StackHost {
    host: Host,
    profile: Profile,
    now: Instant,
    local: IpAddr,
    peer: IpAddr,
    listener: Option<SocketId>,
    /// A close is a reset (`SO_LINGER` of no time), for the sockets to come.
    resets_on_close: bool,
    sockets: BTreeMap<String, Socket>,
    failures: BTreeMap<SocketId, StackFailure>,
    /// Sockets whose failure a call has reported.
    told: BTreeSet<SocketId>,
    sent: VecDeque<Packet>,
}

#[derive(Debug)]
struct Socket {
    id: SocketId,
    written: i64,
    read: i64,
    resets_on_close: bool,
}

impl Socket {
    const fn new(id: SocketId, resets_on_close: bool) -> Self {
        Self {
            id,
            written: 0,
            read: 0,
            resets_on_close,
        }
    }
}

impl StackHost {
    /// A host as the script wants it.
    ///
    /// # Errors
    /// What the stack does not have.
    pub fn new(setup: &Setup) -> Result<Self, String> {
        let profile = stack::profile::find(&setup.profile).map_err(|error| error.to_string())?;
        Self::with_profile(setup, profile, 1)
    }

    fn with_profile(setup: &Setup, mut profile: Profile, seed: u64) -> Result<Self, String> {
        let (local, peer) = wire::addresses(setup.ipv6);
        for (name, value) in &setup.sysctls {
            settings::apply_sysctl(&mut profile.settings, name, value)?;
        }
        for (name, value) in &setup.routes {
            settings::apply_route(&mut profile.settings, name, value)?;
        }
        let mut resets_on_close = false;
        for setting in &setup.settings {
            match setting.name.as_str() {
                "linger" => resets_on_close = is_no_time(setting),
                _ => settings::apply(&mut profile.settings, setting)?,
            }
        }
        // As behind the TUN device that the same script has on the kernel.
        profile.system.completes_at_once = true;
        let mut config = HostConfig::of(&profile, local, seed);
        config.mtu = setup.mtu;
        Ok(Self {
            host: Host::new(config),
            profile,
            now: Instant::ZERO + Duration::from_secs(1),
            local,
            peer,
            listener: None,
            resets_on_close,
            sockets: BTreeMap::new(),
            failures: BTreeMap::new(),
            told: BTreeSet::new(),
            sent: VecDeque::new(),
        })
    }

    fn take_events(&mut self) {
        while let Some((id, event)) = self.host.poll_event() {
            if let Event::Failed(failure) = event {
                self.failures.insert(id, failure);
            }
        }
    }

    /// The next packet on the wire; a GSO packet comes in pieces.
    fn next_sent(&mut self) -> Option<Packet> {
        let mut packet = match self.sent.pop_front() {
            Some(packet) => packet,
            None => self.host.poll_transmit(self.now)?,
        };
        if packet.segments() > 1 {
            let rest = packet.split_off(1);
            self.sent.push_front(rest);
        }
        Some(packet)
    }

    fn id(&self, name: &str) -> Result<SocketId, String> {
        let found = self.sockets.get(name).map(|socket| socket.id);
        found.ok_or_else(|| format!("there is no connection {name}"))
    }

    fn listen(&mut self, backlog: u32) -> Result<CallResult, String> {
        let mut options = ListenOptions::of(&self.profile);
        options.backlog = backlog;
        let local = SocketAddr::new(self.local, HOST_PORT);
        let made = self.host.listen(local, options);
        self.listener = Some(made.map_err(|error| format!("{error:?}"))?);
        Ok(CallResult::Done)
    }

    fn connect(&mut self, name: &str, remote: u16) -> Result<CallResult, String> {
        let remote = SocketAddr::new(self.peer, remote);
        let settings = self.profile.settings.clone();
        let made = self.host.connect(self.now, remote, settings);
        let id = made.map_err(|error| format!("{error:?}"))?;
        self.sockets
            .insert(name.to_owned(), Socket::new(id, self.resets_on_close));
        Ok(CallResult::Done)
    }

    fn accept(&mut self, name: &str) -> Result<CallResult, String> {
        let listener = self.listener.ok_or("no listener")?;
        let Some(id) = self.host.accept(self.now, listener) else {
            return Ok(CallResult::Again);
        };
        self.sockets
            .insert(name.to_owned(), Socket::new(id, self.resets_on_close));
        Ok(CallResult::Done)
    }

    fn write(&mut self, name: &str, bytes: u32, flags: WriteFlags) -> Result<CallResult, String> {
        let now = self.now;
        let socket = self
            .sockets
            .get_mut(name)
            .ok_or("there is no such connection")?;
        let start = socket.written + 1;
        let data: Vec<u8> = (start..start + i64::from(bytes)).map(pattern).collect();
        let done = self
            .host
            .write_chunk(now, socket.id, Bytes::from(data), flags);
        if let Ok(count) = &done {
            socket.written += *count as i64;
        }
        let id = socket.id;
        Ok(match done {
            Ok(count) => CallResult::Count(count as u32),
            Err(WriteError::Full | WriteError::NotConnected) => CallResult::Again,
            Err(WriteError::Closed) => broken(),
            Err(WriteError::Failed(failure)) if self.told.insert(id) => failed(failure),
            Err(WriteError::Failed(_)) => broken(),
            Err(other) => return Err(format!("{other:?}")),
        })
    }

    fn read(&mut self, name: &str, bytes: u32, peeks: bool) -> Result<CallResult, String> {
        let now = self.now;
        let socket = self
            .sockets
            .get_mut(name)
            .ok_or("there is no such connection")?;
        let start = socket.read + 1;
        let done = match peeks {
            true => self.host.peek_chunks(now, socket.id, bytes as usize),
            false => self.host.read_chunks(now, socket.id, bytes as usize),
        };
        if let Ok(payload) = &done {
            let wrong = |(at, byte): (i64, u8)| byte != pattern(start + at);
            if (0..).zip(payload.to_vec()).any(wrong) {
                return Err("it reads other bytes than the peer sent".into());
            }
            socket.read += i64::from(if peeks { 0 } else { payload.len() });
        }
        let id = socket.id;
        Ok(match done {
            Ok(payload) if payload.is_empty() => CallResult::End,
            Ok(payload) => CallResult::Count(payload.len()),
            Err(ReadError::Empty) => CallResult::Again,
            Err(ReadError::Failed(failure)) if self.told.insert(id) => failed(failure),
            Err(ReadError::Failed(StackFailure::Disconnected)) => {
                CallResult::Error("not-connected".into())
            }
            Err(_) => CallResult::End,
        })
    }

    fn set(&mut self, name: &str, call: &Call) -> Result<CallResult, String> {
        let id = self.id(name)?;
        let mut result = Ok(());
        match call {
            Call::Set(setting) if setting.name == "quickack" => {
                let value = settings::number(&setting.value);
                self.host.set_quickack(self.now, id, value as u32);
            }
            Call::Set(setting) if setting.name == "linger" => {
                if let Some(socket) = self.sockets.get_mut(name) {
                    socket.resets_on_close = is_no_time(setting);
                }
            }
            Call::Set(setting) => {
                self.host.configure(self.now, id, |settings| {
                    result = settings::apply(settings, setting);
                });
                if releases(setting) {
                    self.host.push(self.now, id);
                }
            }
            Call::Route(route, value) => self.host.configure(self.now, id, |settings| {
                result = settings::apply_route(settings, route, value);
            }),
            _ => {}
        }
        result.map(|()| CallResult::Done)
    }
}

/// Whether Linux pushes what it holds where this is set.
fn releases(setting: &Setting) -> bool {
    let is_on = || settings::number(&setting.value) != 0;
    match setting.name.as_str() {
        "nodelay" => is_on(),
        "cork" => !is_on(),
        _ => false,
    }
}

/// Whether a time to linger is none.
fn is_no_time(setting: &Setting) -> bool {
    setting.value == SettingValue::Time(Duration::ZERO)
}

fn broken() -> CallResult {
    CallResult::Error("broken".into())
}

fn failed(failure: StackFailure) -> CallResult {
    CallResult::Error(failure_name(failure).into())
}

const fn failure_name(failure: StackFailure) -> &'static str {
    match failure {
        StackFailure::Reset | StackFailure::Disconnected => "reset",
        StackFailure::BrokenPipe => "broken",
        StackFailure::Refused => "refused",
        StackFailure::TimedOut => "timed-out",
        StackFailure::Unreachable => "unreachable",
        StackFailure::Aborted => "aborted",
        _ => "a failure that scripts have no word for",
    }
}

impl ScriptHost for StackHost {
    fn engine(&self) -> Engine {
        Engine::Stack
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn slack(&self) -> Duration {
        Duration::ZERO
    }

    fn poll_packet(&mut self, until: Instant) -> Option<(Instant, Wire)> {
        for _ in 0..IDLE_STEPS_MAX {
            while let Some(packet) = self.next_sent() {
                if let Some(found) = wire::of_packet(&packet) {
                    return Some((self.now, found));
                }
            }
            self.take_events();
            let due = self.host.poll_timeout().filter(|due| *due <= until);
            self.now = self.now.max(due.unwrap_or(until));
            due?;
            self.host.handle_timeout(self.now);
        }
        panic!("the host wakes up {IDLE_STEPS_MAX} times and sends nothing");
    }

    fn handle_packet(&mut self, wire: &Wire) {
        let packet = wire::to_packet(wire, self.peer, self.local);
        self.host.handle_packet(self.now, packet);
        self.take_events();
    }

    fn handle_icmp(&mut self, icmp: &Icmp) {
        let packet = wire::icmp_packet(icmp, self.peer, self.local);
        self.host.handle_packet(self.now, packet);
        self.take_events();
    }

    fn call(&mut self, name: &str, remote: u16, call: &Call) -> Result<CallResult, String> {
        let now = self.now;
        let result = match call {
            Call::Listen { backlog } => self.listen(*backlog),
            Call::Connect => self.connect(name, remote),
            Call::Accept => self.accept(name),
            Call::Write {
                bytes,
                more,
                urgent,
            } => {
                let mut flags = WriteFlags::default();
                flags.more = *more;
                flags.urgent = *urgent;
                self.write(name, *bytes, flags)
            }
            Call::Read { bytes } => self.read(name, *bytes, false),
            Call::Peek { bytes } => self.read(name, *bytes, true),
            Call::ShutdownRead => {
                self.host.shutdown_read(now, self.id(name)?);
                Ok(CallResult::Done)
            }
            Call::ShutdownBoth => {
                let id = self.id(name)?;
                self.host.shutdown_read(now, id);
                self.host.shutdown(now, id);
                Ok(CallResult::Done)
            }
            Call::Shutdown => {
                self.host.shutdown(now, self.id(name)?);
                Ok(CallResult::Done)
            }
            Call::Close => {
                let id = self.id(name)?;
                match self.sockets[name].resets_on_close {
                    true => self.host.abort(now, id),
                    false => self.host.close(now, id),
                }
                Ok(CallResult::Done)
            }
            Call::Abort => {
                self.host.abort(now, self.id(name)?);
                Ok(CallResult::Done)
            }
            Call::Set(_) | Call::Route(..) => self.set(name, call),
        };
        self.take_events();
        result
    }

    fn sample(&mut self, connection: &str, field: &str) -> Option<Value> {
        let id = self.sockets.get(connection)?.id;
        if field == "error" {
            let name = self.failures.get(&id).copied().map_or("none", failure_name);
            return Some(Value::Name(name.into()));
        }
        if field == "readable" {
            return Some(Value::Number(self.host.is_readable(id).into()));
        }
        match self.host.sample(self.now, id) {
            Some(found) => sample::of(&found, field),
            None if field == "state" => Some(Value::Name("closed".into())),
            None => None,
        }
    }
}
