//! The side that serves: lets clients in, keeps them to the limits, runs the server's end.

mod run;

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lab::Workload;
use rustix::net::{Shutdown, shutdown};

use super::protocol::{
    Channel, FromClient, FromServer, Key, Limits, Nonce, Nonces, PROTOCOL, Prover,
    REQUEST_BYTES_MAX, harmless,
};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::workload::{OPENING_BYTES, SocketSpec, Summary};

/// Time for the first words of a connection.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections beside those of clients that may be at their first words.
const STRANGERS_MAX: usize = 64;
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
                    let outcome = self.run_one(channel, &mut run)?;
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

    fn routes(&self) -> MutexGuard<'_, BTreeMap<[u8; 16], Route>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
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
