//! The server: admits clients, enforces their limits, runs the server's end.

mod run;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::Duration;

use base::Instant;
use lab::Workload;
use rustix::net::{Shutdown, shutdown};

use super::admission::{Admission, Offence, Rules, Source, Verdict};
use super::channel::{Channel, harmless, peer_error};
use super::key::Key;
use super::lobby::{self, OPENING_TIMEOUT, Opened, Room, Waiting};
use super::opening::{self, Heard, Refusal, ServerHandshake};
use super::protocol::{FromClient, FromServer, Limits, Nonce, REQUEST_BYTES_MAX};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::workload::{SocketSpec, Summary};

/// Connections of one address that may be at their opening.
pub(super) const STARTUPS_PER_ADDRESS: u32 = 8;
/// Interval of checks whether the server is to stop.
const STOP_LOOK: Duration = Duration::from_secs(1);
/// Refusals that are told one by one in each [`TOLD_EVERY`]; of the others, how many they were.
const TOLD_MAX: u32 = 10;
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Event reported by a server.
#[derive(Clone, Debug)]
pub enum Event {
    /// A client was let in.
    Welcomed {
        /// Client address.
        client: SocketAddr,
    },
    /// A client was rejected, or violated the protocol.
    Refused {
        /// Client address.
        client: SocketAddr,
        /// Why.
        reason: String,
    },
    /// So many were rejected beside those that were told.
    AlsoRefused {
        /// Connections.
        count: u64,
    },
    /// A run has ended.
    Ran {
        /// Whose.
        client: SocketAddr,
        /// Its traffic.
        workload: Box<Workload>,
        /// Results of this end, or an error.
        outcome: Result<Box<Summary>, String>,
    },
    /// A client has left, with the reason where it broke off.
    Left {
        /// Client address.
        client: SocketAddr,
        /// Why.
        reason: Option<String>,
    },
}

/// A server of workloads.
#[derive(Debug)]
pub struct Serve {
    listener: Arc<TcpListener>,
    limits: Limits,
    key: Option<Key>,
    stopping: Arc<AtomicBool>,
    admission: Mutex<Admission>,
    refusals: Mutex<Refusals>,
    routes: Mutex<BTreeMap<[u8; 16], Route>>,
}

/// How many refusals were told lately: a flood of them must not flood a log.
#[derive(Debug, Default)]
struct Refusals {
    since: Instant,
    told: u32,
    untold: u64,
}

/// Destination of data connections of a run.
#[derive(Debug)]
struct Route {
    client: IpAddr,
    queue: SyncSender<TcpStream>,
}

/// Ends a server from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    listener: Arc<TcpListener>,
    stopping: Arc<AtomicBool>,
}

impl Stopper {
    /// No more clients; those that are there are told to go.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        // Wakes who waits for connections. It fails only where that has happened already.
        let _ = shutdown(&self.listener, Shutdown::Read);
    }
}

type Listen<'a> = &'a (dyn Fn(Event) + Sync);

impl Serve {
    /// Listens on `address` (port 0: any).
    ///
    /// # Errors
    /// Where the address is taken or not of this host.
    pub fn bind(address: SocketAddr, limits: Limits, key: Option<Key>) -> Result<Self> {
        let rules = Rules {
            startups: limits.startups,
            startups_per_address: STARTUPS_PER_ADDRESS,
            clients: limits.clients,
            clients_per_address: limits.clients_per_address,
            spare_loopback: true,
        };
        Self::with_rules(address, limits, key, rules)
    }

    pub(super) fn with_rules(
        address: SocketAddr,
        limits: Limits,
        key: Option<Key>,
        rules: Rules,
    ) -> Result<Self> {
        Ok(Self {
            listener: Arc::new(SocketSpec::default().listen(address)?),
            limits,
            key,
            stopping: Arc::default(),
            admission: Mutex::new(Admission::new(rules)),
            refusals: Mutex::default(),
            routes: Mutex::default(),
        })
    }

    /// Local address.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(Error::os("getsockname"))
    }

    /// Handle that stops it.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper {
            listener: Arc::clone(&self.listener),
            stopping: Arc::clone(&self.stopping),
        }
    }

    /// Serves until it is stopped; with `one_off` until the first client that was let in leaves.
    ///
    /// # Errors
    /// Where the kernel gives no more connections.
    pub fn run(&self, one_off: bool, on_event: Listen<'_>) -> Result<()> {
        std::thread::scope(|scope| {
            let door = Door {
                serve: self,
                scope,
                one_off,
                on_event,
            };
            lobby::run(&self.listener, &door)
        })
    }

    /// Finishes the opening of a client that holds the key. Returns whether it was let in.
    fn receive(&self, opener: Opener<'_>, greeted: ServerHandshake, on_event: Listen<'_>) -> bool {
        let client = opener.remote;
        let mut welcomed = false;
        let outcome = self
            .welcome(opener, greeted)
            .and_then(|(mut channel, _permit)| {
                welcomed = true;
                on_event(Event::Welcomed { client });
                self.attend(&mut channel, on_event)
            });
        let reason = outcome.err().map(|error| error.to_string());
        match (welcomed, reason) {
            (false, Some(reason)) => self.tell_refused(client, reason, on_event),
            (_, reason) => on_event(Event::Left { client, reason }),
        }
        welcomed
    }

    /// Lets a client in, or refuses it with the reason.
    fn welcome(
        &self,
        opener: Opener<'_>,
        greeted: ServerHandshake,
    ) -> Result<(Channel, Permit<'_>)> {
        let Opener {
            stream,
            remote,
            began,
            place,
        } = opener;
        let source = Source::from(remote.ip());
        let (reply, noise) = greeted.answer();
        (&stream)
            .write_all(&reply)
            .map_err(|error| peer_error(remote, &format!("left: {error}")))?;
        let mut channel = Channel::new(stream, noise, REQUEST_BYTES_MAX)?;
        let left = (began + OPENING_TIMEOUT).since(Clock.now());
        match channel.receive(left) {
            Ok(Some(FromClient::Hello)) => {}
            other => {
                let (offence, why) = match other {
                    Ok(None) => (
                        Offence::GraceExceeded,
                        "did not open the connection in time",
                    ),
                    _ => (Offence::NoAuth, "does not keep to the protocol"),
                };
                self.admission().penalise(source, offence, Clock.now());
                return Err(channel.error(why));
            }
        }
        drop(place);
        if !self.admission().take_client(source) {
            let reason = "is one client too many; try again later".to_owned();
            let error = channel.error(&reason);
            // The client learns the reason if it still listens.
            let _ = channel.send(&FromServer::Refused { reason });
            return Err(error);
        }
        let permit = Permit {
            serve: self,
            source,
        };
        channel.send(&FromServer::Welcome {
            limits: self.limits,
        })?;
        Ok((channel, permit))
    }

    /// Hands a data connection to its run; `false` where it shows no valid token from the right
    /// address. It is dropped without a word then.
    fn route(&self, token: &[u8; 16], stream: TcpStream, remote: SocketAddr) -> bool {
        let routes = self.routes();
        let route = routes.get(token);
        let Some(route) = route.filter(|route| route.client == remote.ip()) else {
            return false;
        };
        // A run takes as many connections as its workload opens; more are dropped.
        let _ = route.queue.try_send(stream);
        true
    }

    /// Runs what a client asks for, until it leaves.
    fn attend(&self, channel: &mut Channel, on_event: Listen<'_>) -> Result<()> {
        let mut ran_at = Clock.now();
        while !self.stopping.load(Ordering::Relaxed) {
            match channel.receive(STOP_LOOK) {
                Ok(Some(FromClient::Prepare { mut run })) => {
                    let outcome = self.run_one(channel, &mut run)?;
                    // A client may ask whether a run is possible, and end it before it begins.
                    if outcome.as_ref().map_or(true, Summary::has_carried) {
                        on_event(Event::Ran {
                            client: channel.remote(),
                            workload: Box::new(run.workload),
                            outcome: outcome.map(Box::new).map_err(|reason| harmless(&reason)),
                        });
                    }
                }
                Ok(Some(FromClient::Ping { n })) => {
                    channel.send(&FromServer::Pong { n })?;
                    self.check_idle(channel, ran_at)?;
                    continue;
                }
                // That it is there does not keep its place.
                Ok(Some(FromClient::Alive | FromClient::Stop) | None) => {
                    self.check_idle(channel, ran_at)?;
                    continue;
                }
                Ok(Some(_)) => return Err(channel.error("does not keep to the protocol")),
                // A client that leaves between two runs simply leaves.
                Err(_) if channel.is_closed() => return Ok(()),
                Err(error) => return Err(error),
            }
            ran_at = Clock.now();
        }
        let reason = "the server is being stopped".to_owned();
        let _ = channel.send(&FromServer::Failed { reason });
        Ok(())
    }

    fn check_idle(&self, channel: &Channel, ran_at: Instant) -> Result<()> {
        if Clock.now().since(ran_at) < self.limits.idle {
            return Ok(());
        }
        Err(channel.error("has not asked for a run for too long"))
    }

    /// Tells a refusal, unless there were too many lately.
    fn tell_refused(&self, client: SocketAddr, reason: String, on_event: Listen<'_>) {
        let now = Clock.now();
        let (tells, untold) = {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            refusals.handle_refusal(now)
        };
        if untold > 0 {
            on_event(Event::AlsoRefused { count: untold });
        }
        if tells {
            on_event(Event::Refused { client, reason });
        }
    }

    fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn routes(&self) -> MutexGuard<'_, BTreeMap<[u8; 16], Route>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Refusals {
    /// Whether this refusal is told, and how many before it were not.
    fn handle_refusal(&mut self, now: Instant) -> (bool, u64) {
        let mut untold = 0;
        if self.told == 0 || now.since(self.since) >= TOLD_EVERY {
            untold = std::mem::take(&mut self.untold);
            (self.since, self.told) = (now, 0);
        }
        self.told = self.told.saturating_add(1);
        let tells = self.told <= TOLD_MAX;
        self.untold += u64::from(!tells);
        (tells, untold)
    }
}

/// Destination of the lobby's connections.
struct Door<'scope, 'env> {
    serve: &'env Serve,
    scope: &'scope Scope<'scope, 'env>,
    one_off: bool,
    on_event: Listen<'env>,
}

impl lobby::Host for Door<'_, '_> {
    fn is_stopping(&self) -> bool {
        self.serve.stopping.load(Ordering::Relaxed)
    }

    fn handle_arrival(&self, remote: SocketAddr, stream: &TcpStream) -> Option<Room> {
        let source = Source::from(remote.ip());
        // Without random numbers, as if the least likely one had come.
        let random = Nonce::random().map_or(0, |nonce| u128::from_ne_bytes(nonce.0));
        let percent = (random % 100) as u32;
        let number = (random >> 64) as u32;
        let verdict = self
            .serve
            .admission()
            .handle_arrival(source, Clock.now(), percent);
        match verdict {
            Verdict::Admit => Some(Room::Free),
            Verdict::InPlaceOfAny => Some(Room::OfAny(number)),
            Verdict::InPlaceOfOwn => Some(Room::OfSource(source)),
            Verdict::Penalty(wait) => {
                refuse(stream, Refusal::Penalty, wait);
                self.tell(remote, Refusal::Penalty.reason());
                None
            }
        }
    }

    fn handle_opened(&self, waiting: Waiting, opened: Opened) {
        let remote = waiting.remote;
        let place = Opening {
            serve: self.serve,
            source: Source::from(remote.ip()),
        };
        match opened {
            Opened::Token(token) => {
                if !self.serve.route(&token, waiting.stream, remote) {
                    self.fail(
                        &place,
                        Offence::AuthFail,
                        remote,
                        "it shows no token of a run",
                    );
                }
            }
            Opened::Hello(hello) => match opening::hear(&hello, self.serve.key.as_ref()) {
                Heard::Welcome(greeted) => {
                    let opener = Opener {
                        stream: waiting.stream,
                        remote,
                        began: waiting.began,
                        place,
                    };
                    self.begin(opener, *greeted);
                }
                Heard::Refused(why) => {
                    refuse(&waiting.stream, why, Duration::ZERO);
                    let offence = match why {
                        Refusal::WrongKey => Offence::AuthFail,
                        _ => Offence::NoAuth,
                    };
                    self.fail(&place, offence, remote, why.reason());
                }
                Heard::Foreign => {
                    self.fail(&place, Offence::NoAuth, remote, "not a tcptailor client");
                }
            },
            Opened::Left => {}
            Opened::Failed(offence, what) => self.fail(&place, offence, remote, what),
        }
    }

    fn handle_displaced(&self, waiting: Waiting) {
        self.serve
            .admission()
            .handle_opened(waiting.remote.ip().into());
        refuse(&waiting.stream, Refusal::Busy, Duration::ZERO);
        self.tell(waiting.remote, Refusal::Busy.reason());
    }
}

impl<'scope, 'env> Door<'scope, 'env> {
    fn tell(&self, remote: SocketAddr, what: &str) {
        let reason = format!("{remote}: {what}");
        self.serve.tell_refused(remote, reason, self.on_event);
    }

    fn fail(&self, place: &Opening<'_>, offence: Offence, remote: SocketAddr, what: &str) {
        let now = Clock.now();
        self.serve.admission().penalise(place.source, offence, now);
        self.tell(remote, what);
    }

    /// Goes on with a client on a thread of its own.
    fn begin(&self, opener: Opener<'env>, greeted: ServerHandshake) {
        let (serve, one_off, on_event) = (self.serve, self.one_off, self.on_event);
        let remote = opener.remote;
        let received = move || {
            let was_client = serve.receive(opener, greeted, on_event);
            if one_off && was_client {
                serve.stopper().stop();
            }
        };
        if let Err(error) = std::thread::Builder::new().spawn_scoped(self.scope, received) {
            // At the limit of threads; those that are there go on.
            self.tell(remote, &format!("no thread is left for it: {error}"));
        }
    }
}

/// Tells a client why it may not go on. The socket is new: this does not wait.
fn refuse(mut stream: &TcpStream, why: Refusal, wait: Duration) {
    // Who left need not learn it.
    let _ = stream.write_all(&opening::refusal(why, wait));
}

/// A connection at its opening, counted until this is dropped.
struct Opening<'s> {
    serve: &'s Serve,
    source: Source,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.serve.admission().handle_opened(self.source);
    }
}

/// A client that holds the key and has not been answered.
struct Opener<'s> {
    stream: TcpStream,
    remote: SocketAddr,
    began: Instant,
    place: Opening<'s>,
}

/// Makes a client one of those that are allowed at once, until it is dropped.
struct Permit<'s> {
    serve: &'s Serve,
    source: Source,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.serve.admission().handle_client_left(self.source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_told_as_a_number() {
        let mut refusals = Refusals::default();
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let told = (0..1000)
            .filter(|_| refusals.handle_refusal(at(1)).0)
            .count();
        assert_eq!(told, TOLD_MAX as usize);
        assert_eq!(refusals.handle_refusal(at(10)), (false, 0));
        assert_eq!(refusals.handle_refusal(at(11)), (true, 991));
        assert_eq!(refusals.handle_refusal(at(30)), (true, 0));
    }
}
