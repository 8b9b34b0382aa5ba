//! One run of a client: whether it is within the limits, and the way of its data connections.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use base::{Bytes, Instant, KnobValue};
use lab::Amount;

use super::{Route, Serve};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::service::channel::Channel;
use crate::service::protocol::{FromClient, FromServer, Limits, Nonce};
use crate::service::pulse::{self, Next, Pulse};
use crate::workload::{
    Ended, FLOWS_MAX, Gate, RunSpec, Session, Source, Summary, Token, reconnects, run_server,
};

/// Time from sign to sign that this end is there.
const SIGN_EVERY: Duration = Duration::from_secs(1);
/// Time that a client has to end a run that this end has cut off.
const END_TIMEOUT: Duration = Duration::from_secs(3);
/// The sysctl with the congestion controls that this kernel has loaded.
const CONGESTION_CONTROLS: &str = "net.ipv4.tcp_available_congestion_control";

impl Serve {
    /// One run. The outer error means that the client is gone.
    pub(super) fn run_one(
        &self,
        channel: &mut Channel,
        run: &mut RunSpec,
    ) -> Result<Result<Summary, String>> {
        let wish = &mut run.sockets.default_congestion;
        wish.take_if(|name| !is_loaded_congestion(name));
        let outcome = match self.allow(run) {
            Err(reason) => Err(reason),
            Ok(()) => self.measure(channel, run)?,
        };
        channel.send(&match &outcome {
            Ok(summary) => FromServer::Done(Box::new(summary.clone())),
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
        match run.workload.amount() {
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
        let speaker = channel.speaker();
        let say = |message: &FromServer| speaker.send(message);
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
        let mut on_tick = |now: Instant| {
            if let Some(reason) = self.reason_to_end(now > deadline) {
                session.fail(Error::Peer(reason));
                // A client that does not end its run must not keep its place, or this server.
                if now.since(*cut_off_at.get_or_insert(now)) >= END_TIMEOUT {
                    return Err(Error::Peer("the client does not end its run".into()));
                }
            }
            say(&FromServer::Alive)
        };
        let mut on_message = |message, _| match message {
            FromClient::Alive => Ok(Next::Listen),
            FromClient::Ping { n } => {
                say(&FromServer::Pong { n })?;
                Ok(Next::Listen)
            }
            FromClient::Stop => {
                session.stop();
                Ok(Next::Over)
            }
            _ => Err(Error::Peer(
                "the client does not keep to the protocol".into(),
            )),
        };
        let pulse = Pulse {
            tick: SIGN_EVERY,
            silence_max: self.limits.idle,
        };
        pulse::listen(channel, &pulse, &mut on_tick, &mut on_message)
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
        let own = reconnects(&run.workload) || run.sockets.settings.contains_key("rcvbuf");
        if own {
            let address = SocketAddr::new(channel.local()?.ip(), 0);
            let listener = run.sockets.listen(address)?;
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
        let (queue, connections) = sync_channel(2 * FLOWS_MAX as usize);
        self.routes().insert(token.0, Route { client, queue });
        let entry = Entry {
            serve: self,
            token: token.token(),
        };
        Ok((Source::Queue(connections), None, Some(entry)))
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

/// Whether a congestion control is there already. For a server that runs as root, the kernel would
/// load a module for any name (Linux 6.18 net/ipv4/tcp_cong.c, tcp_ca_find_autoload): what is
/// loaded here is not for clients to say.
fn is_loaded_congestion(name: &str) -> bool {
    crate::sysctl::read(CONGESTION_CONTROLS)
        .is_ok_and(|loaded| loaded.split(' ').any(|one| one == name))
}
