//! The side that asks: `bench`, and `fit` towards another host.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lab::{Direction, Workload};

use super::SILENCE_MAX;
use super::protocol::{
    Channel, FromClient, FromServer, Key, Limits, Nonce, Nonces, PROTOCOL, Prover,
    REPORT_BYTES_MAX, harmless,
};
use super::pulse::{self, Next};
use crate::error::{Error, Result};
use crate::worker::Role;
use crate::workload::{Interval, Remote, RunSpec, Session, SocketSpec, Summary, run_client};

/// A server that has let us in.
#[derive(Debug)]
pub struct BenchClient {
    channel: Channel,
    limits: Limits,
    timeout: Duration,
}

/// What both ends saw of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchOutcome {
    /// This end.
    pub client: Summary,
    /// The server's end.
    pub server: Summary,
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

impl BenchClient {
    /// Connects to a server and shows it the key.
    ///
    /// # Errors
    /// [`Error::Peer`] where nobody answers within `timeout`, the answer is not tcptailor's, or the
    /// server refuses.
    pub fn connect(address: SocketAddr, key: Option<&Key>, timeout: Duration) -> Result<Self> {
        let stream: TcpStream = SocketSpec::default().connect(address, timeout)?;
        let mut channel = Channel::new(stream, REPORT_BYTES_MAX)?;
        let nonce = Nonce::random()?;
        channel.send(&FromClient::Hello {
            protocol: PROTOCOL,
            nonce,
        })?;
        let (nonces, key_required) = match channel.expect(timeout)? {
            FromServer::Challenge {
                protocol,
                nonce: server,
                key_required,
            } if protocol == PROTOCOL => {
                let client = nonce;
                (Nonces { client, server }, key_required)
            }
            FromServer::Challenge { protocol, .. } => {
                return Err(channel.error(&format!(
                    "speaks protocol {protocol}, this program {PROTOCOL}; use the same version"
                )));
            }
            _ => return Err(channel.error("does not keep to the protocol of tcptailor")),
        };
        if key_required && key.is_none() {
            return Err(channel.error("asks for a key; give the one that `serve` was given"));
        }
        let proof = key.map(|key| key.prove(Prover::Client, &nonces));
        channel.send(&FromClient::Answer { proof })?;
        let limits = match channel.expect(timeout)? {
            FromServer::Welcome { proof, limits } => {
                let proven = |key: &Key| key.verify(Prover::Server, &nonces, proof.as_deref());
                if !key.is_none_or(proven) {
                    return Err(channel.error("does not hold the key that was given here"));
                }
                limits
            }
            FromServer::Refused { reason } => {
                return Err(channel.error(&format!("refuses: this client {reason}")));
            }
            _ => return Err(channel.error("does not keep to the protocol of tcptailor")),
        };
        Ok(Self {
            channel,
            limits,
            timeout,
        })
    }

    /// The server's address.
    #[must_use]
    pub const fn remote(&self) -> SocketAddr {
        self.channel.remote()
    }

    /// What the server allows.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Runs a workload between here and the server; `spec.sockets` is for this end, `server` for
    /// the other one. Reports of both ends are handed over as they come, from two threads.
    ///
    /// # Errors
    /// Where the server refuses the run, vanishes, or a connection breaks.
    pub fn run(
        &mut self,
        spec: &RunSpec,
        server: &SocketSpec,
        session: &Session,
        on_interval: &(dyn Fn(Role, &Interval) + Sync),
    ) -> Result<BenchOutcome> {
        let remote = self.prepare(spec, server)?;
        let speaker = Mutex::new(self.channel.speaker()?);
        let say = |message: &FromClient| {
            let speaker = speaker.lock().unwrap_or_else(PoisonError::into_inner);
            speaker.send(message)
        };
        let channel = &mut self.channel;
        let (ours, theirs) = std::thread::scope(|scope| {
            let hearing = scope.spawn(|| hear(channel, session, &say, on_interval));
            let ours = run_client(spec, &remote, session, &mut |interval| {
                on_interval(Role::Client, interval);
            });
            // Where the server is gone, the listening side tells.
            let _ = say(&FromClient::Stop);
            (ours, hearing.join())
        });
        let theirs = theirs.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (ours, theirs) {
            (Ok(client), Ok(Ok(server))) => Ok(BenchOutcome { client, server }),
            // The server's reason explains why connections broke here.
            (_, Ok(Err(reason))) => Err(self.channel.error(&format!("ended the run: {reason}"))),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    /// Asks for a run and learns where its data connections go.
    fn prepare(&mut self, spec: &RunSpec, server: &SocketSpec) -> Result<Remote> {
        let run = Box::new(RunSpec {
            sockets: server.clone(),
            ..spec.clone()
        });
        self.channel.send(&FromClient::Prepare { run })?;
        loop {
            match self.channel.expect(self.timeout)? {
                FromServer::Prepared { token, port } => {
                    let mut address = self.channel.remote();
                    address.set_port(port.unwrap_or(address.port()));
                    return Ok(Remote {
                        address,
                        token: Some(token.token()),
                        timeout: self.timeout,
                    });
                }
                FromServer::Alive => {}
                FromServer::Failed { reason } => {
                    return Err(self.channel.error(&format!("refuses the run: {reason}")));
                }
                _ => {
                    return Err(self
                        .channel
                        .error("does not keep to the protocol of tcptailor"));
                }
            }
        }
    }
}

/// A summary of the server with which can be computed, and which can be shown.
fn checked(summary: Summary) -> Result<Summary> {
    /// A year; far above every limit of time.
    const SECONDS_MAX: f64 = 366.0 * 86_400.0;
    if !(0.0..=SECONDS_MAX).contains(&summary.measured.duration_s) {
        return Err(Error::Peer(
            "the server reports a run of impossible length".into(),
        ));
    }
    Ok(Summary {
        congestion: harmless(&summary.congestion),
        ..summary
    })
}

/// Listens to the server until it gives its summary, or the reason why there is none.
fn hear(
    channel: &mut Channel,
    session: &Session,
    say: &dyn Fn(&FromClient) -> Result<()>,
    on_interval: &(dyn Fn(Role, &Interval) + Sync),
) -> Result<Result<Summary, String>> {
    let mut end = None;
    let mut say_alive = || say(&FromClient::Alive);
    let mut on_message = |message| {
        match message {
            FromServer::Interval(interval) => on_interval(Role::Server, &interval),
            FromServer::Alive => {}
            FromServer::Done(summary) => end = Some(Ok(checked(summary)?)),
            FromServer::Failed { reason } => {
                session.stop();
                end = Some(Err(reason));
            }
            _ => {
                return Err(Error::Peer(
                    "the server does not keep to the protocol".into(),
                ));
            }
        }
        Ok(if end.is_some() {
            Next::Over
        } else {
            Next::Listen
        })
    };
    let heard = pulse::listen(channel, SILENCE_MAX, &mut say_alive, &mut on_message);
    if let Err(error) = heard {
        session.fail(Error::Peer(error.to_string()));
        return Err(error);
    }
    Ok(end.expect("listening ends with a summary or a reason"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_computed_with_only_where_it_is_possible() {
        let summary = |duration_s, congestion: &str| {
            let mut summary = Summary::default();
            summary.measured.duration_s = duration_s;
            summary.congestion = congestion.into();
            checked(summary)
        };
        let good = summary(1.5, "cu\u{1b}bic").expect("a possible one");
        assert_eq!(good.congestion, "cu\u{fffd}bic");
        for impossible in [1e300, -1.0, f64::NAN, f64::INFINITY] {
            assert!(summary(impossible, "cubic").is_err(), "{impossible}");
        }
    }
}
