//! Trials by chance: path, traffic, fault and change, all by one seed.

use std::time::Duration;

use base::{Bytes, Fraction, KnobValue, QueueLimit, Rate, Rng, find_knob};
use lab::{
    Amount, Direction, End, HostSpec, PathSpec, Quotes, Records, Settings, Trial, Workload,
    WriteMethod,
};

use super::{KnobChange, LOOK, SETTLE, TruthCase, WARM_UP};

const ENDLESS: Amount = Amount::Time(Duration::from_secs(3600));
/// No queue is shorter.
const QUEUE_MIN_PKTS: f64 = 50.0;
const MTU: f64 = 1500.0;

/// The stream of one trial.
pub(super) fn rng(seed: u64, name: &str) -> Rng {
    Rng::new(seed, name)
}

/// One in `of` by chance.
fn one_in(rng: &mut Rng, of: u64) -> bool {
    rng.below(of) == 0
}

/// Each decade as likely as the next.
fn log_between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    let share = rng.below(1_000_000) as f64 / 1e6;
    low * (high / low).powf(share)
}

/// A path in numbers.
struct Drawn {
    rate_bps: f64,
    rtt: f64,
    queue_pkts: f64,
    loss: f64,
}

/// The drawn trial of this number.
pub(super) fn case(seed: u64, number: u32) -> TruthCase {
    let mut rng = rng(seed, &format!("truth {number}"));
    let path = path(&mut rng);
    let (workload, mut client, kind) = traffic(&mut rng, &path);
    let mut server = Settings::new();
    let fault = fault(&mut rng, &workload, (&mut client, &mut server), &path);
    set(&mut client, "congestion", "cubic");
    set(&mut server, "congestion", "cubic");
    let rate = Rate::from_bits_per_second(path.rate_bps as u64);
    let rtt = Duration::from_micros((path.rtt * 1e6) as u64);
    let loss = Fraction::from_parts((path.loss * 1e9) as u32);
    let queue = QueueLimit::Packets(path.queue_pkts as u64);
    let host = |settings| HostSpec {
        settings,
        ..HostSpec::default()
    };
    let trial = Trial {
        path: PathSpec::emulated(rate, rtt, queue).with_losses([loss, loss], 1.0),
        client: host(client),
        server: host(server),
        workload,
        seed: 1,
    };
    let trial = trial.with_seed(seed.wrapping_mul(1000) + u64::from(number));
    let label = format!(
        "{number}: {kind}, {}, {}, {:.0}p, loss {loss}, {fault}",
        base::human::rate(rate),
        base::human::time(rtt),
        path.queue_pkts
    );
    TruthCase {
        change: change(&trial, &mut rng),
        ..timed(trial, label)
    }
}

/// With the times of a trial that names none.
pub(super) fn timed(trial: Trial, label: String) -> TruthCase {
    let end = End::Client;
    let is_rare = matches!(trial.workload, Workload::Bursts { .. });
    TruthCase {
        label,
        warm_up: WARM_UP,
        // Of few blocks one more or less would decide.
        look: super::look_at(&trial, if is_rare { 2 * LOOK } else { LOOK }),
        trial,
        settle: SETTLE,
        change: KnobChange {
            end,
            knob: "nodelay",
            to: KnobValue::Flag(true),
        },
        kernel_only: None,
    }
}

/// Three of four are wide-area paths, the others a LAN.
fn path(rng: &mut Rng) -> Drawn {
    let (rate_bps, rtt) = if one_in(rng, 4) {
        (log_between(rng, 100e6, 1e9), log_between(rng, 0.2e-3, 3e-3))
    } else {
        (log_between(rng, 4e6, 300e6), log_between(rng, 4e-3, 120e-3))
    };
    let bdp_pkts = rate_bps * rtt / 8.0 / MTU;
    let queue_pkts = (bdp_pkts * log_between(rng, 0.5, 3.0)).max(QUEUE_MIN_PKTS);
    let loss = match one_in(rng, 5) {
        true => log_between(rng, 0.0002, 0.01),
        false => 0.0,
    };
    Drawn {
        rate_bps,
        rtt,
        queue_pkts: queue_pkts.round(),
        loss,
    }
}

/// The traffic, the settings of its client, and its name.
fn traffic(rng: &mut Rng, path: &Drawn) -> (Workload, Settings, &'static str) {
    let mut client = Settings::new();
    let bulk = |direction, flows| Workload::Bulk {
        direction,
        flows,
        write_size: Bytes(65_536),
        unacked: None,
        amount: ENDLESS,
    };
    let bytes = |rng: &mut Rng, low: f64, high: f64| Bytes(log_between(rng, low, high) as u64);
    let (workload, kind) = match rng.below(20) {
        0..=5 => (bulk(Direction::Up, 1), "bulk up"),
        6..=7 => (bulk(Direction::Down, 1), "bulk down"),
        8 => (
            bulk(Direction::Up, 2 + rng.below(3) as u32),
            "bulk of several",
        ),
        9..=11 => {
            let workload = Workload::RequestResponse {
                request: bytes(rng, 50.0, 1000.0),
                response: bytes(rng, 100.0, 60_000.0),
                flows: 1,
                amount: ENDLESS,
            };
            (workload, "request")
        }
        12..=15 => {
            if one_in(rng, 3) {
                set(&mut client, "nodelay", "on");
            }
            let workload = Workload::WriteWriteRead {
                writes: 2 + rng.below(2) as u32,
                write_size: bytes(rng, 40.0, 300.0),
                pieces: Vec::new(),
                reply: bytes(rng, 40.0, 1000.0),
                method: WriteMethod::Write,
                uncork_after: Duration::ZERO,
                amount: ENDLESS,
            };
            (workload, "write-write-read")
        }
        16..=17 => {
            let bdp = path.rate_bps * path.rtt / 8.0;
            let burst = Bytes(log_between(rng, 50e3, (bdp * 2.0).clamp(100e3, 1e6)) as u64);
            let workload = Workload::Bursts {
                burst,
                idle: Duration::from_millis(50 + rng.below(350)),
                reconnect: one_in(rng, 3),
                amount: ENDLESS,
            };
            (workload, "bursts")
        }
        18 => {
            set(&mut client, "nodelay", "on");
            (records(rng), "records")
        }
        _ => {
            let share = 0.1 + rng.below(50) as f64 / 100.0;
            let workload = Workload::Paced {
                rate: Rate::from_bits_per_second((path.rate_bps * share) as u64),
                write_size: Bytes(5000),
                amount: ENDLESS,
            };
            (workload, "paced")
        }
    };
    (workload, client, kind)
}

fn records(rng: &mut Rng) -> Workload {
    let size = Bytes(log_between(rng, 40.0, 400.0) as u64);
    Workload::Records(Records {
        per_second: Some(log_between(rng, 50.0, 1000.0) as u32),
        ..Records::new(size, ENDLESS)
    })
}

/// What is wrong, if anything, of what this traffic suffers from.
fn fault(
    rng: &mut Rng,
    workload: &Workload,
    (client, server): (&mut Settings, &mut Settings),
    path: &Drawn,
) -> String {
    let sender = workload.sender();
    let (sending, receiving) = match sender {
        End::Client => (client, server),
        End::Server => (server, client),
    };
    let bdp = path.rate_bps * path.rtt / 8.0;
    let small = (bdp * log_between(rng, 0.1, 0.6)).clamp(8192.0, 4e6) as u64;
    let drawn = match workload {
        Workload::Bulk { .. } | Workload::Bursts { .. } => rng.below(10),
        _ => 9,
    };
    match drawn {
        0 => set(sending, "sndbuf", &(small / 2).to_string()),
        1 => set(receiving, "rcvbuf", &(small / 2).to_string()),
        2 => set(receiving, "net.ipv4.tcp_moderate_rcvbuf", "off"),
        3 => set(
            receiving,
            "net.ipv4.tcp_rmem",
            &format!("4096 {0} {0}", small.max(16_384)),
        ),
        4 => set(
            sending,
            "net.ipv4.tcp_wmem",
            &format!("4096 16384 {}", small.max(16_384)),
        ),
        5 => set(sending, "net.ipv4.tcp_window_scaling", "off"),
        _ => "nothing wrong".into(),
    }
}

/// Sets a knob, and says so.
fn set(settings: &mut Settings, name: &str, value: &str) -> String {
    let knob = find_knob(name).expect("names that exist are drawn");
    let value = knob.parse(value).expect("values that knobs take are drawn");
    let text = format!("{name} = {}", knob.format(&value));
    settings.insert(knob.name, value);
    text
}

/// A change that acts on this traffic.
pub(super) fn change(trial: &Trial, rng: &mut Rng) -> KnobChange {
    let sender = trial.workload.sender();
    // Not the receive buffer: a window that was offered is not taken back.
    let bulk: &[(&str, End)] = &[("sndbuf", sender), ("congestion", sender)];
    let small: &[(&str, End)] = &[("nodelay", End::Client), ("congestion", End::Client)];
    let wwr: &[(&str, End)] = &[("nodelay", End::Client)];
    let new_ones: &[(&str, End)] = &[("route.initcwnd", End::Client)];
    let choices = match &trial.workload {
        Workload::Bursts {
            reconnect: true, ..
        }
        | Workload::ConnectRequestClose { .. } => new_ones,
        Workload::Bulk { .. } | Workload::Bursts { .. } | Workload::SlowReader { .. } => bulk,
        Workload::WriteWriteRead { .. } | Workload::Quotes(Quotes { .. }) => wwr,
        _ => small,
    };
    let (name, end) = choices[rng.below(choices.len() as u64) as usize];
    let knob = find_knob(name).expect("names that exist are drawn");
    let is_on = trial.host(end).settings.get("nodelay") == Some(&KnobValue::Flag(true));
    let to = match name {
        "nodelay" => KnobValue::Flag(!is_on),
        "congestion" => KnobValue::Name(if one_in(rng, 2) { "reno" } else { "bbr" }.into()),
        "route.initcwnd" => KnobValue::Number(log_between(rng, 3.0, 60.0) as u64),
        _ => KnobValue::Number(log_between(rng, 16e3, 400e3) as u64),
    };
    KnobChange {
        end,
        knob: knob.name,
        to,
    }
}
