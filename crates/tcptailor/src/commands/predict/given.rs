//! A path, hosts and traffic that are given by hand or by the name of a scenario.

use std::time::Duration;

use base::{Bytes, Fraction, QueueLimit, Rate};
use clap::ValueEnum;
use lab::{Amount, Direction, HostSpec, PathSpec, Settings, Trial, Workload, WriteMethod};

use super::parse_all;
use crate::exit::Problem;

/// Until it is stopped.
const ENDLESS: Amount = Amount::Time(Duration::from_secs(3600));
/// The queue of a path for which none is given holds one product of rate and round-trip time, and
/// this many packets at least.
const QUEUE_MIN_PKTS: u64 = 50;
const MTU: u64 = 1500;

/// What the programs do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Traffic {
    /// As much as the connection carries, from the client.
    #[default]
    Bulk,
    /// Requests of 100 bytes, answers of 1000, one at a time.
    Request,
    /// Requests in two writes of 100 bytes, answers of 100.
    Wwr,
}

/// The flags.
#[derive(Debug, clap::Args)]
pub(super) struct Path {
    /// Bottleneck rate, for a path given on the command line.
    #[arg(long, value_name = "RATE")]
    pub(super) rate: Option<Rate>,
    /// Its round-trip time when the queues are empty.
    #[arg(long, value_name = "TIME", value_parser = base::parse_duration)]
    rtt: Option<Duration>,
    /// Random packet loss.
    #[arg(long, value_name = "SHARE")]
    loss: Option<Fraction>,
    /// Queue limit at the bottleneck [default: one bandwidth-delay product, at
    /// least 50 packets].
    #[arg(long, value_name = "QUEUE")]
    queue: Option<QueueLimit>,
    /// Setting of the client as it is now; may be repeated.
    #[arg(long, value_name = "KNOB=VALUE")]
    set: Vec<String>,
    /// Setting of the server as it is now; may be repeated.
    #[arg(long, value_name = "KNOB=VALUE")]
    set_far: Vec<String>,
    /// What the programs do.
    #[arg(long, value_name = "WHAT")]
    traffic: Option<Traffic>,
}

impl Path {
    /// Flags of a path without a path are a mistake.
    pub(super) fn check(&self, is_given: bool) -> Result<(), Problem> {
        let flags = [
            ("--rtt", self.rtt.is_some()),
            ("--loss", self.loss.is_some()),
            ("--queue", self.queue.is_some()),
            ("--set", !self.set.is_empty()),
            ("--set-far", !self.set_far.is_empty()),
            ("--traffic", self.traffic.is_some()),
        ];
        match flags.iter().find(|(_, is_there)| *is_there && !is_given) {
            Some((flag, _)) => Err(Problem::usage(format!(
                "{flag}: it goes with a path that is given by hand"
            ))
            .hint("Give --rate and --rtt.")),
            None => Ok(()),
        }
    }

    /// The trial.
    pub(super) fn trial(&self) -> Result<Trial, Problem> {
        let missing = |what: &str, flag: &str| {
            Problem::usage(format!("the {what} of the path is missing"))
                .hint(format!("Give {flag}."))
        };
        let rate = self.rate.ok_or_else(|| missing("rate", "--rate 100mbit"))?;
        let rtt = self
            .rtt
            .ok_or_else(|| missing("round-trip time", "--rtt 40ms"))?;
        let bdp_pkts = rate.bdp_bytes(rtt) / MTU;
        let queue = self
            .queue
            .unwrap_or(QueueLimit::Packets(bdp_pkts.max(QUEUE_MIN_PKTS)));
        let loss = self.loss.unwrap_or(Fraction::ZERO);
        let host = |flag: &str, all: &[String]| {
            Ok::<_, Problem>(HostSpec {
                settings: parse_all(flag, all)?
                    .into_iter()
                    .map(|(knob, value)| (knob.name, value))
                    .collect::<Settings>(),
                ..HostSpec::default()
            })
        };
        let trial = Trial {
            path: PathSpec::emulated(rate, rtt, queue).with_losses([loss, loss], 1.0),
            client: host("--set", &self.set)?,
            server: host("--set-far", &self.set_far)?,
            workload: workload(self.traffic.unwrap_or_default()),
            seed: 1,
        };
        check(&trial)?;
        Ok(trial)
    }
}

/// Whether a link can be so, and our stack has the settings.
fn check(trial: &Trial) -> Result<(), Problem> {
    if let PathSpec::Emulated { forward, .. } = &trial.path {
        forward.check().map_err(Problem::usage)?;
    }
    let started = lab::Virtual::default().start(trial);
    started.map(drop).map_err(|refused| {
        let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
        Problem::usage(refused.join("; "))
    })
}

fn workload(traffic: Traffic) -> Workload {
    match traffic {
        Traffic::Bulk => Workload::Bulk {
            direction: Direction::Up,
            flows: 1,
            write_size: Bytes(65_536),
            unacked: None,
            amount: ENDLESS,
        },
        Traffic::Request => Workload::RequestResponse {
            request: Bytes(100),
            response: Bytes(1000),
            flows: 1,
            amount: ENDLESS,
        },
        Traffic::Wwr => Workload::WriteWriteRead {
            writes: 2,
            write_size: Bytes(100),
            pieces: Vec::new(),
            reply: Bytes(100),
            method: WriteMethod::Write,
            uncork_after: Duration::ZERO,
            amount: ENDLESS,
        },
    }
}

/// The first cell of a scenario, or the one that is named.
pub(super) fn scenario(name: &str) -> Result<Trial, Problem> {
    let (first, _) = name.split_once('/').unwrap_or((name, ""));
    let scenario = papers::experiments::find_scenario(first)
        .map_err(|error| Problem::usage(error).hint("`tcptailor lab list` names the scenarios"))?;
    let cells = scenario.trials();
    let named = cells.iter().find(|cell| cell.id == name);
    let cell = named.or_else(|| cells.first().filter(|_| first == name));
    let Some(cell) = cell else {
        let ids: Vec<&str> = cells.iter().map(|cell| cell.id.as_str()).collect();
        return Err(
            Problem::usage(format!("--scenario {name}: there is no such cell"))
                .hint(format!("there are: {}", ids.join(", "))),
        );
    };
    let mut trial = cell.trial.clone();
    trial.workload.set_endless();
    Ok(trial)
}
