//! Changes of which it is known beforehand whether they help, on paths and under traffic drawn from
//! a seed: what experiments are measured with.
//!
//! Whether a change helps follows from how TCP works, not from a measurement: a setting of slow
//! start does nothing for requests that fit into one segment, and a window that is half as large
//! again carries half as much again.

mod helpful;
mod useless;

use std::time::Duration;

use base::{Bytes, Live, QueueLimit, Rate, Rng, find_knob};
use doctor::{Objective, Proposal, Side};
use link::LinkSpec;

use crate::trial::{HostSpec, PathSpec, Trial};
use crate::workload::{Amount, Direction, Workload};

pub use helpful::helpful;
pub use useless::useless;

/// Course of the path's or the program's load over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Traffic {
    /// Nothing.
    Steady,
    /// It changes suddenly, up to fourfold, after a tenth of a second to two seconds.
    Bursty,
    /// It rises and falls slowly, threefold, within half a minute to two minutes.
    Drifting,
}

/// All of them.
pub const TRAFFIC: [Traffic; 3] = [Traffic::Steady, Traffic::Bursty, Traffic::Drifting];

/// A trial and a change in it.
#[derive(Clone, Debug)]
pub struct KnownChange {
    /// Workload and knobs, in words.
    pub name: String,
    /// Course of the load.
    pub traffic: Traffic,
    /// The trial in progress.
    pub trial: Trial,
    /// Metric by which the change is judged.
    pub objective: Objective,
    /// The change.
    pub proposals: Vec<Proposal>,
    /// How long the program runs before it is looked at.
    pub warm_up: Duration,
}

/// Until it is stopped.
const ENDLESS: Amount = Amount::Time(Duration::from_secs(3600));
/// Steps of a load that changes; then they are repeated.
const STEPS: usize = 64;
/// Deepest trough of a load, as a divisor.
const BURST_FACTOR: u64 = 4;
const DRIFT_FACTOR: f64 = 3.0;

impl Traffic {
    /// `steady`, `bursty` or `drifting`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Bursty => "bursty",
            Self::Drifting => "drifting",
        }
    }

    /// Shares of the full load, in thousandths, each for its time.
    fn steps(self, rng: &mut Rng) -> Vec<(Duration, u64)> {
        match self {
            Self::Steady => Vec::new(),
            Self::Bursty => (0..STEPS)
                .map(|_| {
                    let time = Duration::from_millis(100 + rng.below(1900));
                    let least = 1000 / BURST_FACTOR;
                    (time, least + rng.below(1000 - least))
                })
                .collect(),
            Self::Drifting => {
                let period = Duration::from_millis(30_000 + rng.below(90_000));
                let turn = rng.below(1000) as f64 / 1000.0;
                (0..STEPS)
                    .map(|step| {
                        let at = step as f64 / STEPS as f64 + turn;
                        let wave = 0.5 + 0.5 * (at * core::f64::consts::TAU).sin();
                        let share = DRIFT_FACTOR.powf(wave - 1.0);
                        (period / STEPS as u32, (share * 1000.0) as u64)
                    })
                    .collect()
            }
        }
    }
}

/// Source of randomness of a known change.
struct Draw {
    rng: Rng,
    traffic: Traffic,
}

impl Draw {
    fn new(seed: u64, number: usize, what: &str) -> Self {
        let mut rng = Rng::new(seed, what);
        let own = rng.next_u64().wrapping_add(number as u64);
        Self {
            rng: Rng::new(own, what),
            traffic: TRAFFIC[number % TRAFFIC.len()],
        }
    }

    /// Both ends included.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.rng.below(high - low + 1)
    }

    fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.between(low * 1000, high * 1000))
    }

    /// A path of this many kbit/s at its best, which the traffic of others shares.
    fn path(&mut self, kbps: u64, rtt: Duration, queue: Duration) -> PathSpec {
        let rate = Rate::from_bits_per_second(kbps * 1000);
        let queue = QueueLimit::Packets((rate.bdp_bytes(queue) / 1500).max(10));
        let steps = self.traffic.steps(&mut self.rng);
        let mut path = PathSpec::emulated(rate, rtt, queue);
        if let PathSpec::Emulated {
            forward, reverse, ..
        } = &mut path
        {
            for link in [forward, reverse] {
                let rate = |share: u64| Rate::from_bits_per_second(kbps * share);
                link.rate_trace = steps.iter().map(|(t, share)| (*t, rate(*share))).collect();
            }
        }
        path
    }

    fn known(
        &mut self,
        name: &str,
        path: PathSpec,
        workload: Workload,
        objective: Objective,
        proposals: Vec<Proposal>,
    ) -> KnownChange {
        KnownChange {
            name: name.to_owned(),
            traffic: self.traffic,
            trial: Trial {
                path,
                client: HostSpec::default(),
                server: HostSpec::default(),
                workload,
                seed: self.rng.next_u64(),
            },
            objective,
            proposals,
            warm_up: Duration::from_secs(2),
        }
    }
}

impl KnownChange {
    /// The same, where a host has this setting from the start.
    fn with(mut self, side: Side, knob: &str, value: &str) -> Self {
        let knob = find_knob(knob).expect("the table names knobs that exist");
        let host = match side {
            Side::Local => &mut self.trial.client,
            Side::Remote => &mut self.trial.server,
        };
        let value = knob.parse(value).expect("the table holds valid values");
        host.settings.insert(knob.name, value);
        self
    }

    /// The same, with another direction from client to server.
    fn forward(mut self, change: impl FnOnce(&mut LinkSpec)) -> Self {
        if let PathSpec::Emulated { forward, .. } = &mut self.trial.path {
            change(forward);
        }
        self
    }
}

fn propose(side: Side, knob: &str, value: &str, live: Live) -> Proposal {
    let knob = find_knob(knob).expect("the table names knobs that exist");
    Proposal {
        side,
        beside: None,
        knob,
        to: knob.parse(value).expect("the table holds valid values"),
        live,
        risk: "",
    }
}

fn requests(request: u64, response: u64) -> Workload {
    Workload::RequestResponse {
        request: Bytes(request),
        response: Bytes(response),
        flows: 1,
        amount: ENDLESS,
    }
}

fn bulk() -> Workload {
    Workload::Bulk {
        direction: Direction::Up,
        flows: 1,
        write_size: Bytes(16 * 1024),
        unacked: None,
        amount: ENDLESS,
    }
}

fn bursts(burst: u64, idle: Duration, reconnect: bool) -> Workload {
    Workload::Bursts {
        burst: Bytes(burst),
        idle,
        reconnect,
        amount: ENDLESS,
    }
}
