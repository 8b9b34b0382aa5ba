//! The side that serves: lets clients in, keeps them to the limits, runs the server's end.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{Bytes, Instant, KnobValue};
use lab::{Amount, Workload};
use rustix::net::{Shutdown, shutdown};
use socket2::SockRef;

use super::protocol::{
    Channel, FromClient, FromServer, Key, Limits, Nonce, Nonces, PROTOCOL, Prover,
    REQUEST_BYTES_MAX, harmless,
};
use super::pulse::{self, Next};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::workload::{
    Ended, Gate, OPENING_BYTES, RunSpec, Session, SocketSpec, Source, Summary, Token, amount_of,
    redials, run_server,
};

/// Time for the first words of a connection.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections beside those of clients that may be at their first words.
const STRANGERS_MAX: usize = 64;
/// Time that a client has to end a run that this end has cut off.
const END_TIMEOUT: Duration = Duration::from_secs(3);
/// Time from look to look whether the server is to stop.
const STOP_LOOK: Duration = Duration::from_secs(1);

/// What a server tells about itself.
#[derive(Clone, Debug)]
pub enum Event {
    /// A client was let in.
    Welcomed {
        /// Who.
        client: SocketAddr,
    },
    /// Somebody was sent away, or did not keep to the protocol.
    Refused {
        /// Who.
        client: SocketAddr,
        /// Why.
        reason: String,
    },
    /// A run has ended.
    Ran {
        /// Whose.
        client: SocketAddr,
        /// Its traffic.
        workload: Box<Workload>,
        /// What this end saw, or what went wrong.
        outcome: Result<Box<Summary>, String>,
    },
    /// A client has left, with the reason where it broke off.
    Left {
        /// Who.
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
    clients: AtomicUsize,
    visitors: AtomicUsize,
    routes: Mutex<BTreeMap<[u8; 16], Route>>,
}

/// Where the data connections of a run go.
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
        // Wakes `accept`. It fails only where that has happened already.
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
        Ok(Self {
            listener: Arc::new(SocketSpec::default().listen(address)?),
            limits,
            key,
            stopping: Arc::default(),
            clients: AtomicUsize::new(0),
            visitors: AtomicUsize::new(0),
            routes: Mutex::default(),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(Error::os("getsockname"))
    }

    /// What ends it.
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
    /// Where the kernel gives no more connections, such as at the limit of open files.
    pub fn run(&self, one_off: bool, on_event: Listen<'_>) -> Result<()> {
        std::thread::scope(|scope| {
            loop {
                let accepted = self.listener.accept();
                if self.stopping.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let (stream, remote) = match accepted {
                    Ok(accepted) => accepted,
                    Err(error) if is_shortage(&error) => {
                        // Clients that leave give files back.
                        std::thread::sleep(Duration::from_millis(100));
                        continue;
                    }
                    Err(error) if is_lost(&error) => continue,
                    Err(error) => return Err(Error::os("accept")(error)),
                };
                let present = self.visitors.fetch_add(1, Ordering::Relaxed);
                let visit = Visit(&self.visitors);
                if present >= self.limits.clients as usize + STRANGERS_MAX {
                    continue;
                }
                let visited = move || {
                    let _visit = visit;
                    let was_client = self.receive(stream, remote, on_event);
                    if one_off && was_client {
                        self.stopper().stop();
                    }
                };
                if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, visited) {
                    // At the limit of threads; those that are there go on.
                    on_event(Event::Refused {
                        client: remote,
                        reason: format!("no thread is left for it: {error}"),
                    });
                }
            }
        })
    }

    /// Finds out what a connection is. Returns whether it was a client's that was let in.
    fn receive(&self, mut stream: TcpStream, remote: SocketAddr, on_event: Listen<'_>) -> bool {
        let mut opening = [0; OPENING_BYTES];
        let read = stream
            .set_read_timeout(Some(HANDSHAKE_TIMEOUT))
            .and_then(|()| stream.read_exact(&mut opening[..1]));
        if read.is_err() {
            return false;
        }
        if opening[0] == 0 {
            if stream.read_exact(&mut opening[1..]).is_ok() {
                self.route(&opening, stream, remote);
            }
            return false;
        }
        let mut welcomed = false;
        let outcome = Channel::new(stream, REQUEST_BYTES_MAX).and_then(|mut channel| {
            channel.push(&opening[..1]);
            let _place = self.welcome(&mut channel)?;
            welcomed = true;
            on_event(Event::Welcomed { client: remote });
            self.attend(&mut channel, on_event)
        });
        let reason = outcome.err().map(|error| error.to_string());
        on_event(match (welcomed, reason) {
            (false, Some(reason)) => Event::Refused {
                client: remote,
                reason,
            },
            (_, reason) => Event::Left {
                client: remote,
                reason,
            },
        });
        welcomed
    }

    /// Hands a data connection to its run. Whoever shows no valid token from the right address is
    /// dropped without a word.
    fn route(&self, opening: &[u8; OPENING_BYTES], stream: TcpStream, remote: SocketAddr) {
        let routes = self.routes();
        let Some(route) = routes.get(&opening[1..]) else {
            return;
        };
        if route.client == remote.ip() {
            // A run takes as many connections as its workload opens; more are dropped.
            let _ = route.queue.try_send(stream);
        }
    }

    /// Lets a client in, or refuses it with the reason.
    fn welcome(&self, channel: &mut Channel) -> Result<Place<'_>> {
        let Some(FromClient::Hello { protocol, nonce }) = channel.receive(HANDSHAKE_TIMEOUT)?
        else {
            return Err(channel.error("did not say hello"));
        };
        let nonces = Nonces {
            client: nonce,
            server: Nonce::random()?,
        };
        channel.send(&FromServer::Challenge {
            protocol: PROTOCOL,
            nonce: nonces.server,
            key_required: self.key.is_some(),
        })?;
        if protocol != PROTOCOL {
            return Err(self.refuse(channel, &format!("speaks protocol {protocol}")));
        }
        let Some(FromClient::Answer { proof }) = channel.receive(HANDSHAKE_TIMEOUT)? else {
            return Err(channel.error("did not answer the challenge"));
        };
        let proof = match &self.key {
            Some(key) if !key.verify(Prover::Client, &nonces, proof.as_deref()) => {
                return Err(self.refuse(channel, "does not hold the key"));
            }
            key => key.as_ref().map(|key| key.prove(Prover::Server, &nonces)),
        };
        let Some(place) = Place::take(&self.clients, self.limits.clients as usize) else {
            return Err(self.refuse(channel, "is one client too many; try again later"));
        };
        channel.send(&FromServer::Welcome {
            proof,
            limits: self.limits,
        })?;
        Ok(place)
    }

    fn refuse(&self, channel: &Channel, reason: &str) -> Error {
        // The client learns the reason if it still listens.
        let _ = channel.send(&FromServer::Refused {
            reason: reason.to_owned(),
        });
        channel.error(reason)
    }

    /// Runs what a client asks for, until it leaves.
    fn attend(&self, channel: &mut Channel, on_event: Listen<'_>) -> Result<()> {
        let mut heard_at = Clock.now();
        while !self.stopping.load(Ordering::Relaxed) {
            match channel.receive(STOP_LOOK) {
                Ok(Some(FromClient::Prepare { mut run })) => {
                    let wish = &mut run.sockets.default_congestion;
                    wish.take_if(|name| !is_loaded_congestion(name));
                    let outcome = self.run_one(channel, &run)?;
                    on_event(Event::Ran {
                        client: channel.remote(),
                        workload: Box::new(run.workload),
                        outcome: outcome.map(Box::new).map_err(|reason| harmless(&reason)),
                    });
                }
                Ok(Some(FromClient::Alive | FromClient::Stop)) => {}
                Ok(Some(_)) => return Err(channel.error("does not keep to the protocol")),
                Ok(None) if Clock.now().since(heard_at) >= self.limits.idle => {
                    return Err(channel.error("has not asked for anything for too long"));
                }
                Ok(None) => continue,
                // A client that leaves between two runs simply leaves.
                Err(_) if channel.is_closed() => return Ok(()),
                Err(error) => return Err(error),
            }
            heard_at = Clock.now();
        }
        let reason = "the server is being stopped".to_owned();
        let _ = channel.send(&FromServer::Failed { reason });
        Ok(())
    }

    /// One run. The outer error means that the client is gone.
    fn run_one(&self, channel: &mut Channel, run: &RunSpec) -> Result<Result<Summary, String>> {
        let outcome = match self.allow(run) {
            Err(reason) => Err(reason),
            Ok(()) => self.measure(channel, run)?,
        };
        channel.send(&match &outcome {
            Ok(summary) => FromServer::Done(summary.clone()),
            Err(reason) => FromServer::Failed {
                reason: reason.clone(),
            },
        })?;
        Ok(outcome)
    }

    /// Whether a run is sound and within the limits as far as it says them beforehand.
    fn allow(&self, run: &RunSpec) -> Result<(), String> {
        run.check()?;
        if let Some(KnobValue::Name(name)) = run.sockets.settings.get("congestion")
            && !is_loaded_congestion(name)
        {
            return Err(format!(
                "congestion control `{name}` does not exist on this server; there, `sysctl \
                 {CONGESTION_CONTROLS}` lists those there are"
            ));
        }
        let Limits { time, bytes, .. } = self.limits;
        let over = |asked: String, allowed: String| {
            Err(format!(
                "{asked} is above the limit of {allowed} per run that `tcptailor serve` was given"
            ))
        };
        match amount_of(&run.workload) {
            Amount::Time(asked) if asked.saturating_add(run.warmup) > time => over(
                base::format_duration(asked.saturating_add(run.warmup)),
                base::format_duration(time),
            ),
            Amount::Bytes(asked) if asked.0 > bytes => {
                over(asked.to_string(), Bytes(bytes).to_string())
            }
            _ => Ok(()),
        }
    }

    fn measure(&self, channel: &mut Channel, run: &RunSpec) -> Result<Result<Summary, String>> {
        let session = Session::with_byte_limit(self.limits.bytes);
        let token = Nonce::random()?;
        let (source, port, _entry) = match self.open(channel, run, token) {
            Ok(door) => door,
            Err(error) => return Ok(Err(error.to_string())),
        };
        channel.send(&FromServer::Prepared { token, port })?;
        let speaker = Mutex::new(channel.speaker()?);
        let say = |message: &FromServer| {
            let speaker = speaker.lock().unwrap_or_else(PoisonError::into_inner);
            speaker.send(message)
        };
        let deadline = Clock.now() + self.limits.time;
        let (heard, outcome) = std::thread::scope(|scope| {
            let running = scope.spawn(|| {
                run_server(run, source, &session, &mut |interval| {
                    // Where the client is gone, the listening side notices.
                    let _ = say(&FromServer::Interval(interval.clone()));
                })
            });
            let heard = self.hear(channel, &session, deadline, &say);
            if let Err(error) = &heard {
                session.fail(Error::Peer(error.to_string()));
            }
            (heard, running.join())
        });
        let outcome = outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        heard?;
        Ok(match outcome {
            Ok(summary) if summary.ended == Ended::ByteLimit => Err(format!(
                "the limit of {} per run that `tcptailor serve` was given is reached",
                Bytes(self.limits.bytes)
            )),
            Ok(summary) => Ok(summary),
            Err(error) => Err(error.to_string()),
        })
    }

    /// Listens to the client until it says that the run is over.
    fn hear(
        &self,
        channel: &mut Channel,
        session: &Session,
        deadline: Instant,
        say: &dyn Fn(&FromServer) -> Result<()>,
    ) -> Result<()> {
        let mut cut_off_at = None;
        let mut say_alive = || {
            let now = Clock.now();
            if let Some(reason) = self.reason_to_end(now > deadline) {
                session.fail(Error::Peer(reason));
                // A client that does not end its run must not keep its place, or this server.
                if now.since(*cut_off_at.get_or_insert(now)) >= END_TIMEOUT {
                    return Err(Error::Peer("the client does not end its run".into()));
                }
            }
            say(&FromServer::Alive)
        };
        let mut on_message = |message| match message {
            FromClient::Alive => Ok(Next::Listen),
            FromClient::Stop => {
                session.stop();
                Ok(Next::Over)
            }
            _ => Err(Error::Peer(
                "the client does not keep to the protocol".into(),
            )),
        };
        pulse::listen(channel, self.limits.idle, &mut say_alive, &mut on_message)
    }

    /// Why a run must end now, where it must.
    fn reason_to_end(&self, is_late: bool) -> Option<String> {
        if self.stopping.load(Ordering::Relaxed) {
            return Some("the server is being stopped".into());
        }
        is_late.then(|| {
            format!(
                "the limit of {} per run that `tcptailor serve` was given is reached",
                base::format_duration(self.limits.time)
            )
        })
    }

    /// Opens the way for the data connections: through the common port, or through a listener of
    /// the run's own where the listener's settings matter (a receive buffer decides the window
    /// scale) or where each operation opens a connection.
    fn open<'s>(
        &'s self,
        channel: &Channel,
        run: &RunSpec,
        token: Nonce,
    ) -> Result<(Source, Option<u16>, Option<Entry<'s>>)> {
        let client = channel.remote().ip();
        let own = redials(&run.workload) || run.sockets.settings.contains_key("rcvbuf");
        if own {
            let address = SocketAddr::new(channel.local()?.ip(), 0);
            let listener = run.sockets.listen(address)?;
            // Accepted sockets inherit it: nobody may keep the listener waiting for a token.
            SockRef::from(&listener)
                .set_read_timeout(Some(HANDSHAKE_TIMEOUT))
                .map_err(Error::os("SO_RCVTIMEO"))?;
            let port = listener
                .local_addr()
                .map_err(Error::os("getsockname"))?
                .port();
            let token = token.token();
            return Ok((
                Source::Gated(listener, Gate { token, client }),
                Some(port),
                None,
            ));
        }
        let (queue, connections) = sync_channel(2 * crate::workload::FLOWS_MAX as usize);
        self.routes().insert(token.0, Route { client, queue });
        let entry = Entry {
            serve: self,
            token: token.token(),
        };
        Ok((Source::Queue(connections), None, Some(entry)))
    }

    fn routes(&self) -> MutexGuard<'_, BTreeMap<[u8; 16], Route>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the route of a run; taken away when the run is over.
struct Entry<'s> {
    serve: &'s Serve,
    token: Token,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.serve.routes().remove(&self.token.0);
    }
}

/// A connection that is being looked at.
struct Visit<'s>(&'s AtomicUsize);

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The place of a client among those that are allowed at once.
struct Place<'s>(&'s AtomicUsize);

impl<'s> Place<'s> {
    fn take(clients: &'s AtomicUsize, max: usize) -> Option<Self> {
        clients
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
                (now < max).then_some(now + 1)
            })
            .ok()
            .map(|_| Self(clients))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The sysctl with the congestion controls that this kernel has loaded.
const CONGESTION_CONTROLS: &str = "net.ipv4.tcp_available_congestion_control";

/// Whether a congestion control is there already. For a server that runs as root, the kernel would
/// load a module for any name (Linux 6.18 net/ipv4/tcp_cong.c, tcp_ca_find_autoload): what is
/// loaded here is not for clients to say.
fn is_loaded_congestion(name: &str) -> bool {
    crate::sysctl::read(CONGESTION_CONTROLS)
        .is_ok_and(|loaded| loaded.split(' ').any(|one| one == name))
}

fn is_shortage(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// Whether only the connection is lost that was to be accepted. accept(2): Linux hands over what
/// the network has said about it, to be treated like EAGAIN.
fn is_lost(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNABORTED
                | libc::EINTR
                | libc::ENETDOWN
                | libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EHOSTUNREACH
                | libc::EOPNOTSUPP
                | libc::ENETUNREACH
        )
    )
}
