//! The client: `bench`, and `fit` towards another host.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::Instant;
use lab::{Amount, Direction, Workload};

use super::SILENCE_MAX;
use super::channel::{Channel, MessageSender, harmless, peer_error};
use super::claims::{Claims, checked};
use super::key::Key;
use super::opening::{ClientHandshake, MAGIC, REPLY_BYTES, Refusal, Reply, VERSION};
use super::protocol::{FromClient, FromServer, Limits, REPORT_BYTES_MAX};
use super::pulse::{self, Next, Pulse};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::worker::Role;
use crate::workload::{
    Interval, Remote, Responses, RunSpec, Session, SocketSpec, Summary, connections_max,
    read_exact_by, run_client,
};

/// Time from the first attempt at an opening to the second; each pause is longer by as much.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(100);
/// Attempts with a server that hangs up without a word. One that says that it is busy is asked for
/// as long as there is time.
const SILENT_ATTEMPTS_MAX: u32 = 4;
/// Time from ping to ping.
const PING_EVERY: Duration = Duration::from_millis(100);
/// Pings before a run, and the time that they may take together.
const IDLE_PINGS: u64 = 10;
const IDLE_TIME_MAX: Duration = Duration::from_secs(2);
/// Time for the server to send its summary after this end is done.
const SUMMARY_TIME_MAX: Duration = SILENCE_MAX;
/// A run that is measured in bytes or operations is given up where this long none passes.
const STANDSTILL_MAX: Duration = Duration::from_secs(60);

/// A server that has let us in.
#[derive(Debug)]
pub struct BenchClient {
    channel: Channel,
    limits: Limits,
    timeout: Duration,
    pings: u64,
}

/// Results of both ends of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchOutcome {
    /// This end.
    pub client: Summary,
    /// The server's end.
    pub server: Summary,
    /// Round trips of the control connection while the run was on: from program to program, so
    /// with both hosts' scheduling.
    pub loaded_rtt: Responses,
}

impl BenchOutcome {
    /// Payload per second where it arrived, in bit/s; both directions together where a workload
    /// has two.
    #[must_use]
    pub fn goodput_bps(&self, workload: &Workload) -> u64 {
        let (up, down) = (
            self.server.measured.goodput_bps(),
            self.client.measured.goodput_bps(),
        );
        match workload {
            Workload::Bulk {
                direction: Direction::Down,
                ..
            } => down,
            Workload::Bulk {
                direction: Direction::Up,
                ..
            }
            | Workload::Records { .. }
            | Workload::Bursts { .. }
            | Workload::SlowReader { .. }
            | Workload::Paced { .. } => up,
            Workload::Bulk { .. }
            | Workload::RequestResponse { .. }
            | Workload::ConnectRequestClose { .. }
            | Workload::WriteWriteRead { .. }
            | Workload::Quotes { .. } => up.saturating_add(down),
        }
    }
}

/// Why an attempt to open a connection failed.
enum Attempt {
    /// Another one may succeed; this many are worth it.
    Again(Error, u32),
    Final(Error),
}

impl BenchClient {
    /// Connects to a server, shows it the key and sees that the server holds it too.
    ///
    /// # Errors
    /// [`Error::Peer`] if there is no answer within `timeout`, the answer is not tcptailor's, or
    /// the server refuses.
    pub fn connect(address: SocketAddr, key: Option<&Key>, timeout: Duration) -> Result<Self> {
        let deadline = Clock.now() + timeout;
        let mut attempt = 1;
        loop {
            match Self::attempt(address, key, deadline, timeout) {
                Ok(client) => return Ok(client),
                Err(Attempt::Final(error)) => return Err(error),
                Err(Attempt::Again(error, most)) => {
                    let pause = ATTEMPT_PAUSE * attempt;
                    if attempt >= most || Clock.now() + pause >= deadline {
                        return Err(error);
                    }
                    std::thread::sleep(pause);
                    attempt += 1;
                }
            }
        }
    }

    fn attempt(
        address: SocketAddr,
        key: Option<&Key>,
        deadline: Instant,
        timeout: Duration,
    ) -> Result<Self, Attempt> {
        let left = || deadline.since(Clock.now()).max(Duration::from_millis(1));
        let stream = SocketSpec::default().connect(address, left());
        let stream: TcpStream = stream.map_err(Attempt::Final)?;
        let (greeting, hello) = ClientHandshake::new(key);
        // Where the server has refused already, its reason can still be read.
        let _ = (&stream).write_all(&hello);
        let mut reply = [0; REPLY_BYTES];
        // The first bytes tell a server of something else, which may say less than the whole.
        let (first, rest) = reply.split_at_mut(MAGIC.len());
        let read = read_exact_by(&stream, first, deadline);
        if read.is_ok() && *first != *MAGIC {
            let what = "does not speak the protocol of tcptailor";
            return Err(Attempt::Final(peer_error(address, what)));
        }
        let read = read.and_then(|()| read_exact_by(&stream, rest, deadline));
        read.map_err(|error| match error.kind() {
            std::io::ErrorKind::TimedOut => Attempt::Final(peer_error(
                address,
                &format!(
                    "accepted the connection and sent nothing for {}, where `tcptailor serve` \
                     would have answered: run that there, or name the port that it listens on",
                    base::format_duration(timeout)
                ),
            )),
            _ => {
                let what = "closed the connection before it answered; is `tcptailor serve` \
                            running there, of the same version?";
                Attempt::Again(peer_error(address, what), SILENT_ATTEMPTS_MAX)
            }
        })?;
        let noise = match greeting.finish(&reply) {
            Reply::Accepted(noise) => *noise,
            Reply::Refused(why, wait) => return Err(refused(address, why, wait)),
            Reply::OtherVersion(version) => {
                return Err(Attempt::Final(other_version(address, Some(version))));
            }
            Reply::Invalid(what) => return Err(Attempt::Final(peer_error(address, what))),
        };
        let begin = || -> Result<Self> {
            let mut channel = Channel::new(stream, noise, REPORT_BYTES_MAX)?;
            channel.send(&FromClient::Hello)?;
            let limits = match channel.expect(left())? {
                FromServer::Welcome { limits } => limits,
                FromServer::Refused { reason } => {
                    return Err(channel.error(&format!("refuses: this client {reason}")));
                }
                _ => return Err(protocol_error(&channel)),
            };
            Ok(Self {
                channel,
                limits,
                timeout,
                pings: 0,
            })
        };
        begin().map_err(Attempt::Final)
    }

    /// The server's address.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.channel.remote()
    }

    /// Limits of the server.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Round trips of the control connection while nothing else is sent: from program to program.
    ///
    /// # Errors
    /// Where the server vanishes or does not keep to the protocol.
    pub fn idle_rtt(&mut self) -> Result<Responses> {
        let deadline = Clock.now() + IDLE_TIME_MAX;
        let mut times = Responses::default();
        for _ in 0..IDLE_PINGS {
            let n = self.pings;
            self.pings += 1;
            let asked_at = Clock.now();
            self.channel.send(&FromClient::Ping { n })?;
            let until = (asked_at + self.timeout).max(deadline);
            loop {
                let left = until.since(Clock.now());
                match self.channel.expect(left)? {
                    FromServer::Pong { n: answered } if answered == n => break,
                    FromServer::Alive if Clock.now() < until => {}
                    _ => return Err(protocol_error(&self.channel)),
                }
            }
            times.record(Clock.now().since(asked_at));
            if Clock.now() >= deadline {
                break;
            }
        }
        Ok(times)
    }

    /// Runs a workload between here and the server; `spec.sockets` is for this end, `server` for
    /// the other one. Reports of both ends are handed over as they come, from two threads.
    ///
    /// # Errors
    /// Where the server refuses the run, vanishes, does not end it in time, or reports what cannot
    /// be; or a connection breaks.
    pub fn run(
        &mut self,
        spec: &RunSpec,
        server: &SocketSpec,
        session: &Session,
        on_interval: &(dyn Fn(Role, &Interval) + Sync),
    ) -> Result<BenchOutcome> {
        let remote = self.prepare(spec, server)?;
        let speaker = self.channel.speaker();
        let ours_is_over = AtomicBool::new(false);
        let now = Clock.now();
        let mut hearing = Hearing {
            session,
            speaker: &speaker,
            ours_is_over: &ours_is_over,
            claims: Claims::new(now, connections_max(&spec.workload)),
            deadline: deadline_of(spec, &self.limits, now),
            standstill: ProgressTimeout::of(&spec.workload, now),
            ping: None,
            pings: &mut self.pings,
            loaded: Responses::default(),
            on_interval,
        };
        let channel = &mut self.channel;
        let (ours, theirs) = std::thread::scope(|scope| {
            let heard = scope.spawn(|| {
                let heard = hearing.hear(channel);
                (heard, hearing.loaded)
            });
            let ours = run_client(spec, &remote, session, &mut |interval| {
                on_interval(Role::Client, interval);
            });
            ours_is_over.store(true, Ordering::Relaxed);
            // Where the server is gone, the listening side tells.
            let _ = speaker.send(&FromClient::Stop);
            (ours, heard.join())
        });
        let (theirs, loaded_rtt) = theirs.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (ours, theirs) {
            (Ok(client), Ok(Ok(server))) => Ok(BenchOutcome {
                server: checked(server, &client, connections_max(&spec.workload))?,
                client,
                loaded_rtt,
            }),
            // The server's reason explains why connections broke here.
            (_, Ok(Err(reason))) => Err(self.channel.error(&format!("ended the run: {reason}"))),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    /// Asks whether the server would take such a run, without running it: of several runs the last
    /// one may be the one that it refuses.
    ///
    /// # Errors
    /// Those of [`Self::run`] before its beginning.
    pub fn check(&mut self, spec: &RunSpec, server: &SocketSpec) -> Result<()> {
        self.prepare(spec, server)?;
        self.channel.send(&FromClient::Stop)?;
        let deadline = Clock.now() + self.timeout;
        loop {
            match self.channel.expect(deadline.since(Clock.now()))? {
                // It ended before it began.
                FromServer::Done(_) => return Ok(()),
                FromServer::Failed { reason } => {
                    return Err(self.channel.error(&format!("ended the run: {reason}")));
                }
                FromServer::Alive | FromServer::Interval(_) if Clock.now() < deadline => {}
                _ => return Err(protocol_error(&self.channel)),
            }
        }
    }

    /// Asks for a run and learns where its data connections go.
    fn prepare(&mut self, spec: &RunSpec, server: &SocketSpec) -> Result<Remote> {
        let run = Box::new(RunSpec {
            sockets: server.clone(),
            ..spec.clone()
        });
        let deadline = Clock.now() + self.timeout;
        self.channel.send(&FromClient::Prepare { run })?;
        loop {
            match self.channel.expect(deadline.since(Clock.now()))? {
                FromServer::Prepared { token, port } => {
                    let mut address = self.channel.remote();
                    address.set_port(port.unwrap_or(address.port()));
                    return Ok(Remote {
                        address,
                        token: Some(token.token()),
                        timeout: self.timeout,
                    });
                }
                FromServer::Alive if Clock.now() < deadline => {}
                FromServer::Failed { reason } => {
                    return Err(self.channel.error(&format!("refuses the run: {reason}")));
                }
                _ => return Err(protocol_error(&self.channel)),
            }
        }
    }
}

fn protocol_error(channel: &Channel) -> Error {
    channel.error("does not keep to the protocol of tcptailor")
}

fn other_version(address: SocketAddr, version: Option<u8>) -> Error {
    let theirs = version.map_or("another protocol".into(), |version| {
        format!("protocol {version}")
    });
    peer_error(
        address,
        &format!("speaks {theirs}, this program {VERSION}; use the same version"),
    )
}

fn refused(address: SocketAddr, why: Refusal, wait: Duration) -> Attempt {
    let error = |what: &str| peer_error(address, what);
    match why {
        Refusal::KeyRequired => Attempt::Final(error(
            "asks for a key; give the one that `serve` printed (--key-file, TCPTAILOR_KEY)",
        )),
        Refusal::NoKeyHere => Attempt::Final(error("does not hold the key that was given here")),
        Refusal::WrongKey => Attempt::Final(error("refuses: this client does not hold the key")),
        Refusal::OtherVersion => Attempt::Final(other_version(address, None)),
        Refusal::Busy | Refusal::TooManyOfAddress => {
            let what = "is busy: too many connections are at their opening; try again later";
            Attempt::Again(error(what), u32::MAX)
        }
        Refusal::Penalty => Attempt::Final(error(&format!(
            "refuses connections from this address for {}: too many of them failed",
            base::format_duration(wait)
        ))),
    }
}

/// When a run must be over, whatever the server says.
fn deadline_of(spec: &RunSpec, limits: &Limits, now: Instant) -> Instant {
    let length = match spec.workload.amount() {
        Amount::Time(time) => time,
        // The server ends it there.
        Amount::Bytes(_) | Amount::Operations(_) => limits.time,
    };
    let length = length.min(crate::workload::TIME_MAX);
    // Connections are opened before, one after the other; flows are cut off a second after.
    now + spec.warmup + length + 2 * SUMMARY_TIME_MAX
}

/// Ends a run without a fixed duration that makes no progress.
struct ProgressTimeout {
    max: Option<Duration>,
    progress: (u64, Instant),
}

impl ProgressTimeout {
    fn of(workload: &Workload, now: Instant) -> Self {
        let pause = match workload {
            Workload::Bursts { idle, .. } => *idle,
            _ => Duration::ZERO,
        };
        let max = match workload.amount() {
            Amount::Time(_) => None,
            Amount::Bytes(_) | Amount::Operations(_) => Some(STANDSTILL_MAX + pause),
        };
        Self {
            max,
            progress: (0, now),
        }
    }

    /// How long nothing has passed, where that is too long.
    fn check(&mut self, passed: u64, now: Instant) -> Option<Duration> {
        if passed != self.progress.0 {
            self.progress = (passed, now);
        }
        self.max.filter(|max| now.since(self.progress.1) >= *max)
    }
}

/// Listens to a server while a run is on.
struct Hearing<'r> {
    session: &'r Session,
    speaker: &'r MessageSender,
    ours_is_over: &'r AtomicBool,
    claims: Claims,
    deadline: Instant,
    standstill: ProgressTimeout,
    /// The ping that is not answered yet.
    ping: Option<(u64, Instant)>,
    pings: &'r mut u64,
    loaded: Responses,
    on_interval: &'r (dyn Fn(Role, &Interval) + Sync),
}

impl Hearing<'_> {
    /// Until the server gives its summary, or the reason why there is none.
    fn hear(&mut self, channel: &mut Channel) -> Result<Result<Summary, String>> {
        let pulse = Pulse {
            tick: PING_EVERY,
            silence_max: SILENCE_MAX,
        };
        let mut end = None;
        let remote = channel.remote();
        let this = std::cell::RefCell::new(self);
        let heard = pulse::listen(
            channel,
            &pulse,
            &mut |now| this.borrow_mut().handle_tick(remote, now),
            &mut |message, now| {
                end = this.borrow_mut().handle_message(message, now)?;
                Ok(if end.is_some() {
                    Next::Over
                } else {
                    Next::Listen
                })
            },
        );
        if let Err(error) = heard {
            this.borrow().session.fail(Error::Peer(error.to_string()));
            return Err(error);
        }
        Ok(end.expect("listening ends with a summary or a reason"))
    }

    fn handle_tick(&mut self, remote: SocketAddr, now: Instant) -> Result<()> {
        if self.ours_is_over.load(Ordering::Relaxed) {
            self.deadline = self.deadline.min(now + SUMMARY_TIME_MAX);
        }
        if now >= self.deadline {
            return Err(peer_error(
                remote,
                "does not end the run, although its time is over",
            ));
        }
        let passed = self.session.passed_bytes();
        if let Some(max) = self.standstill.check(passed, now) {
            let shown = base::format_duration(max);
            return Err(peer_error(
                remote,
                &format!("has taken or sent no data for {shown}"),
            ));
        }
        // One at a time: behind one that is late, others would only wait.
        if self.ping.is_none() && !self.session.is_stopping() {
            self.ping = Some((*self.pings, now));
            *self.pings += 1;
            let n = self.ping.map_or(0, |(n, _)| n);
            return self.speaker.send(&FromClient::Ping { n });
        }
        self.speaker.send(&FromClient::Alive)
    }

    fn handle_message(
        &mut self,
        message: FromServer,
        now: Instant,
    ) -> Result<Option<Result<Summary, String>>> {
        match message {
            FromServer::Interval(interval) => {
                let sent = self.session.sent_bytes();
                self.claims.handle_interval(&interval, sent, now)?;
                (self.on_interval)(Role::Server, &interval);
            }
            FromServer::Alive => {}
            FromServer::Pong { n } => {
                let Some((_, asked_at)) = self.ping.take_if(|(asked, _)| *asked == n) else {
                    return Err(Error::Peer("the server answers what was not asked".into()));
                };
                if self.session.is_measuring() && !self.session.is_over() {
                    self.loaded.record(now.since(asked_at));
                }
            }
            FromServer::Done(summary) => return Ok(Some(Ok(*summary))),
            FromServer::Failed { reason } => {
                self.session.stop();
                return Ok(Some(Err(harmless(&reason))));
            }
            _ => {
                return Err(Error::Peer(
                    "the server does not keep to the protocol".into(),
                ));
            }
        }
        Ok(None)
    }
}
