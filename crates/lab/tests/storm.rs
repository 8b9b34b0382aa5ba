//! Random trials: whatever paths, stacks, knobs and traffic meet, no byte is lost or misplaced,
//! nothing panics, and every trial comes to its end, unless a program has corked it for ever.
//!
//! Each run draws other trials and prints where they begin; `SIM_SEED=17` repeats a run.
//! `STORM=1147` runs one seed and tells what it drew, `STORM=0..5000` many.

#[path = "../../tailor/tests/seeds/mod.rs"]
mod seeds;

use std::fmt::Write as _;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base::{Bytes, Fraction, Instant, KnobValue, Limit, QueueLimit, Rate, Rng, find_knob};
use lab::world::Tap;
use lab::{
    Amount, Caveat, Completion, Direction, HostSpec, PathSpec, Quotes, Records, SizeRange, Trial,
    Virtual, VirtualRun, Workload, WriteMethod,
};
use link::{LinkSpec, Loss, Reorder};
use stack::Packet;
use stack::profile::PROFILES;

/// Seeds of an ordinary run.
const SEEDS: u64 = 64;

/// Knobs and what they are set to. What is left out would rightly end or halt a connection: a
/// buffer of nothing, timeouts that are over before an ACK has passed a queue, segments that are
/// never pushed.
const KNOBS: &[(&str, &[&str])] = &[
    ("nodelay", &["on", "off"]),
    ("quickack", &["on", "off"]),
    ("congestion", &["reno", "cubic", "bbr"]),
    ("sndbuf", &["4KiB", "16KiB", "64KiB", "1MiB"]),
    ("rcvbuf", &["4KiB", "16KiB", "64KiB", "1MiB"]),
    ("notsent_lowat", &["1B", "1KiB", "16KiB"]),
    ("delack_max", &["4ms", "40ms", "200ms"]),
    ("mss", &["88B", "536B", "1200B"]),
    ("nagle", &["off", "rfc896", "minshall"]),
    ("half_window", &["on", "off"]),
    ("push", &["each_write", "buffer_empty"]),
    ("delayed_ack_every", &["0", "1", "2", "8"]),
    ("delayed_ack_counts", &["segments", "packets"]),
    ("ack_on_read", &["on", "off"]),
    ("window_update_segments", &["1", "2", "none"]),
    ("send_completion", &["bsd", "linux", "winsock"]),
    ("unacked_budget", &["2KiB", "16KiB", "none"]),
    ("out_of_order_budget", &["0B", "2KiB", "16KiB", "none"]),
    ("dsack", &["on", "off"]),
    ("ecn", &["off", "accept", "request"]),
    ("window_clamp", &["1000B", "20KiB", "none"]),
    ("accept_window_zero", &["on", "off"]),
    ("loss_detection", &["rack", "dupsack", "newreno"]),
    ("dupack_threshold", &["1", "3", "10"]),
    ("tail_loss_probe", &["on", "off"]),
    ("prr", &["on", "off"]),
    ("frto", &["on", "off"]),
    ("undo", &["on", "off"]),
    ("limited_transmit", &["on", "off"]),
    ("rto_rule", &["rfc6298", "linux"]),
    ("hystart", &["off", "classic", "plusplus"]),
    ("cwnd_validation", &["off", "linux", "rfc7661"]),
    ("pacing", &["on", "off"]),
    ("byte_counting", &["on", "off"]),
    ("gso_max", &["0B", "9000B", "64KiB"]),
    ("local_queue_max", &["4KiB", "64KiB", "1MiB"]),
    ("time_wait_reuse", &["on", "off"]),
    ("route.quickack", &["on", "off"]),
    ("route.initcwnd", &["1", "10", "100"]),
    ("route.rto_min", &["200ms", "1s"]),
    ("net.ipv4.tcp_window_scaling", &["on", "off"]),
    ("net.ipv4.tcp_sack", &["on", "off"]),
    ("net.ipv4.tcp_timestamps", &["0", "1"]),
    ("net.ipv4.tcp_slow_start_after_idle", &["on", "off"]),
    ("net.ipv4.tcp_moderate_rcvbuf", &["on", "off"]),
    ("net.ipv4.tcp_autocorking", &["on", "off"]),
];

/// What is drawn of one trial, drop by drop.
struct Draw(Rng);

impl Draw {
    /// Whether something happens that happens to one of this many.
    fn one_of(&mut self, many: u64) -> bool {
        self.0.below(many) == 0
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0.below(choices.len() as u64) as usize]
    }

    /// Every magnitude equally often.
    fn between(&mut self, least: u64, most: u64) -> u64 {
        let doublings = (most / least).ilog2() + 1;
        let low = least << self.0.below(doublings.into());
        (low + self.0.below(low)).min(most)
    }

    fn percent(&mut self, most: u64) -> Fraction {
        Fraction::from_parts(self.between(100_000, most * 10_000_000) as u32)
    }

    fn micros(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_micros(self.between(least, most))
    }

    fn trial(&mut self, seed: u64) -> Trial {
        let path = self.path();
        let workload = self.workload(rates(&path));
        let mut hosts = [self.host(), self.host()];
        if has_loss(&path) {
            hosts.iter_mut().for_each(persist);
        }
        let [client, server] = hosts;
        Trial {
            path,
            client,
            server,
            workload,
            seed,
        }
    }

    fn path(&mut self) -> PathSpec {
        match self.0.below(10) {
            0 => PathSpec::Loopback,
            1 => PathSpec::Veth {
                mtu: Bytes(self.pick(&[576, 1500, 9000])),
            },
            _ => PathSpec::Emulated {
                mtu: Bytes(self.pick(&[1280, 1500, 1500, 1500, 9000])),
                forward: self.link(),
                reverse: self.link(),
                ipv6: self.one_of(4),
            },
        }
    }

    fn link(&mut self) -> LinkSpec {
        let rate = Rate::from_bits_per_second(self.between(256_000, 1_000_000_000));
        // Some stacks give up after five timeouts: a full queue is emptied in two seconds.
        let queue_max = (rate.bits_per_second() / 8 * 2 / 9000).min(1000);
        let delay = self.micros(10, 300_000);
        let loss = match self.0.below(6) {
            0 => Loss::Random(self.percent(5)),
            1 => Loss::GilbertElliott {
                good_to_bad: self.percent(1),
                bad_to_good: Fraction::from_parts(300_000_000),
                loss_good: Fraction::ZERO,
                loss_bad: Fraction::from_parts(500_000_000),
            },
            _ => Loss::Never,
        };
        let reorder = self.one_of(6).then(|| Reorder {
            share: self.percent(5),
            hold: self.micros(100, 20_000),
        });
        LinkSpec {
            rate: Some(rate),
            delay,
            jitter: if self.one_of(4) {
                delay / 4
            } else {
                Duration::ZERO
            },
            loss,
            reorder,
            duplicate: if self.one_of(8) {
                self.percent(1)
            } else {
                Fraction::ZERO
            },
            queue: QueueLimit::Packets(self.between(4, queue_max)),
            overhead_bytes: 14,
            ..LinkSpec::ideal()
        }
    }

    fn host(&mut self) -> HostSpec {
        let mut host = HostSpec {
            profile: Some(self.pick(PROFILES).0),
            ..HostSpec::default()
        };
        if self.one_of(2) {
            for _ in 0..1 + self.0.below(4) {
                let (name, values) = self.pick(KNOBS);
                let knob = find_knob(name).expect("a knob");
                let value = knob.parse(self.pick(values)).expect("a value of it");
                host.settings.insert(knob.name, value);
            }
        }
        host
    }

    /// An embedded stack and Winsock, either of which asks, over a path that may be worse than
    /// others: a new connection for each request.
    fn pair(&mut self, seed: u64) -> Trial {
        let mut trial = self.trial(seed);
        let (slower, _) = rates(&trial.path);
        let embedded = self.pick(&["netburner", "netburner_2009"]);
        let mut stacks = [embedded, "winsock"];
        if self.one_of(2) {
            stacks.reverse();
        }
        [trial.client.profile, trial.server.profile] = stacks.map(Some);
        let mut is_narrow = false;
        if let PathSpec::Emulated {
            forward, reverse, ..
        } = &mut trial.path
        {
            for link in [forward, reverse] {
                if self.one_of(4) {
                    link.queue = QueueLimit::Packets(1 + self.0.below(3));
                    is_narrow = true;
                }
                if self.one_of(4) {
                    link.loss = Loss::Random(self.percent(10));
                }
            }
        }
        persist(&mut trial.client);
        persist(&mut trial.server);
        let most = (slower.bits_per_second() / 8).clamp(10_000, 500_000) / 10;
        trial.workload = Workload::ConnectRequestClose {
            request: self.size(most),
            response: self.size(most),
            amount: match self.one_of(4) {
                true => Amount::Time(self.micros(10_000, 4_000_000)),
                // Without congestion control a queue of few packets loses most of each burst, and
                // a timeout of 64 s repairs little of it: an answer may take half an hour.
                false if is_narrow => Amount::Operations(1 + self.0.below(4)),
                false => Amount::Operations(1 + self.0.below(60)),
            },
        };
        trial
    }

    /// Traffic that the slower direction carries in seconds, and of which the faster one does not
    /// carry too much in the second that does not count.
    fn workload(&mut self, (slower, faster): (Rate, Rate)) -> Workload {
        let most = (slower.bits_per_second() / 8).clamp(10_000, 500_000);
        let takes_time = faster.bits_per_second() <= 20_000_000 && self.one_of(3);
        let time = Amount::Time(self.micros(10_000, 1_000_000));
        if self.one_of(3) {
            let bytes = Amount::Bytes(self.size(most));
            self.stream(most, if takes_time { time } else { bytes })
        } else {
            // Some stacks have 32 sockets in all, and TIME-WAIT keeps one for a minute or more.
            let operations = Amount::Operations(1 + self.0.below(30));
            self.operations(most, if takes_time { time } else { operations })
        }
    }

    fn size(&mut self, most: u64) -> Bytes {
        Bytes(self.between(1, most))
    }

    /// As much as the connection carries, or as its ends write or read.
    fn stream(&mut self, most: u64, amount: Amount) -> Workload {
        match self.0.below(3) {
            0 => Workload::Bulk {
                direction: self.pick(&[Direction::Up, Direction::Down, Direction::Both]),
                flows: 1 + self.0.below(4) as u32,
                write_size: self.size(65_536),
                unacked: None,
                amount,
            },
            1 => Workload::SlowReader {
                read_size: Bytes(self.between(most / 200, most)),
                every: self.micros(1000, 100_000),
                amount,
            },
            _ => Workload::Paced {
                rate: Rate::from_bits_per_second(self.between(100_000, 10_000_000)),
                write_size: Bytes(self.between(100, 65_536)),
                amount,
            },
        }
    }

    /// Pieces, and answers to them.
    fn operations(&mut self, most: u64, amount: Amount) -> Workload {
        let most = most / 30;
        match self.0.below(6) {
            0 => Workload::RequestResponse {
                request: self.size(most),
                response: self.size(most),
                flows: 1 + self.0.below(3) as u32,
                amount,
            },
            1 => Workload::ConnectRequestClose {
                request: self.size(most),
                response: self.size(most),
                amount,
            },
            2 => Workload::WriteWriteRead {
                writes: 1 + self.0.below(4) as u32,
                write_size: self.size(1000),
                pieces: Vec::new(),
                reply: self.size(2000),
                method: self.pick(&[
                    WriteMethod::Write,
                    WriteMethod::Writev,
                    WriteMethod::MsgMore,
                    WriteMethod::Cork,
                ]),
                amount,
                uncork_after: Duration::ZERO,
            },
            3 => Workload::Records(Records {
                rates: Vec::new(),
                record: {
                    let (one, other) = (self.size(2000), self.size(2000));
                    SizeRange {
                        min: one.min(other),
                        max: one.max(other),
                    }
                },
                seed: self.0.next_u64(),
                joined: 1 + self.0.below(4) as u32,
                header: Bytes(self.0.below(5)),
                per_second: self.pick(&[None, Some(10), Some(1000)]),
                completion: self.pick(&[Completion::Written, Completion::Acknowledged]),
                non_blocking: self.one_of(2),
                outstanding: self.pick(&[1, 1, 2, 7]),
                read_size: self.pick(&[None, Some(Bytes(200))]),
                read_pause: self.pick(&[Duration::ZERO, Duration::from_millis(1)]),
                amount,
            }),
            4 => Workload::Quotes(Quotes {
                writes: 1 + self.0.below(4) as u32,
                write_size: self.size(1000),
                reply: self.size(2000),
                delayed_acks: self.one_of(2),
                joined: 1 + self.0.below(4) as u32,
                one_connection: self.one_of(2),
                amount,
            }),
            _ => Workload::Bursts {
                burst: self.size(most),
                idle: self.micros(1000, 2_000_000),
                reconnect: self.one_of(2),
                amount,
            },
        }
    }
}

/// Some stacks give up after two SYNs.
fn persist(host: &mut HostSpec) {
    for (knob, times) in [("syn_retries", 7), ("synack_retries", 7), ("retries", 15)] {
        host.settings.insert(knob, KnobValue::Number(times));
    }
}

fn has_loss(path: &PathSpec) -> bool {
    match path {
        PathSpec::Loopback | PathSpec::Veth { .. } => false,
        PathSpec::Emulated {
            forward, reverse, ..
        } => forward.loss != Loss::Never || reverse.loss != Loss::Never,
    }
}

/// Of the slower and of the faster direction.
fn rates(path: &PathSpec) -> (Rate, Rate) {
    let PathSpec::Emulated {
        forward, reverse, ..
    } = path
    else {
        let wire = Rate::from_bits_per_second(1_000_000_000);
        return (wire, wire);
    };
    let [one, other] = [forward, reverse].map(|link| link.rate.expect("every link is drawn one"));
    (one.min(other), one.max(other))
}

/// A trial that stands still: what every connection waits for.
#[derive(Debug, Default)]
struct Standstill {
    text: String,
    /// Whether one waits for a program to uncork: a cork without a ceiling holds what is less than
    /// a segment, and where the buffer is smaller than that, the program waits for ever too.
    is_corked: bool,
}

impl Standstill {
    fn of(run: &VirtualRun) -> Self {
        let now = run.world().now();
        let mut this = Self {
            text: format!("at {now:?}"),
            is_corked: false,
        };
        for (name, host) in ["client", "server"].into_iter().zip(run.hosts()) {
            let _ = write!(this.text, "\n  {name}:");
            for id in host.sockets() {
                let wait = host.limit(now, id);
                this.is_corked |= wait.is_some_and(|wait| wait.limit == Limit::Cork);
                if let Some(sample) = host.sample(now, id) {
                    let _ = write!(this.text, "\n    {id}: {wait:?}, {sample:?}");
                }
            }
        }
        this
    }
}

/// Runs one trial of many kinds: how long it takes, or what is wrong with it.
fn storm(seed: u64, is_told: bool) -> Result<Duration, String> {
    run_trial(&Draw(Rng::new(seed, "storm")).trial(seed), is_told)
}

/// Runs one trial: how long it takes, or what is wrong with it.
fn run_trial(trial: &Trial, is_told: bool) -> Result<Duration, String> {
    if is_told {
        println!("{trial:#?}");
    }
    let engine = Virtual {
        audit: true,
        ..Virtual::default()
    };
    let stop = AtomicBool::new(false);
    // It is cut off five seconds after its planned end, however late its last SYN came through.
    let is_timed = matches!(trial.workload.amount(), Amount::Time(_));
    let run = || {
        let mut run = engine.prepare(trial);
        run.run(&stop, &mut |_| ());
        let standstill = Standstill::of(&run);
        let took = run.world().now().since(Instant::ZERO);
        let outcome = run.finish(&stop);
        let early = outcome.caveats.iter().find_map(|caveat| match caveat {
            Caveat::EndedEarly { why } => Some(why.clone()),
            _ => None,
        });
        match early {
            Some(why) if !(standstill.is_corked || is_timed && why.contains("an end")) => {
                Err(format!("{why}; {}", standstill.text))
            }
            _ => Ok(took),
        }
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("a panic".into()))
}

fn pair(seed: u64, is_told: bool) -> Result<Duration, String> {
    run_trial(&Draw(Rng::new(seed, "pair")).pair(seed), is_told)
}

fn wanted() -> Range<u64> {
    let Ok(text) = std::env::var("STORM") else {
        let runs = seeds::number("SIM_RUNS").unwrap_or(SEEDS);
        return seeds::first()..seeds::first() + runs;
    };
    let number = |text: &str| text.parse::<u64>().expect("STORM=7 or STORM=0..5000");
    match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&text)..number(&text) + 1,
    }
}

/// Runs the wanted seeds of one kind of trial.
fn all_end(run: fn(u64, bool) -> Result<Duration, String>) {
    let seeds = wanted();
    let is_told = seeds.end - seeds.start == 1;
    let mut longest = (Duration::ZERO, 0);
    let mut failed: Vec<String> = Vec::new();
    for seed in seeds {
        match run(seed, is_told) {
            Ok(took) => longest = longest.max((took, seed)),
            Err(why) => failed.push(format!("STORM={seed}: {why}")),
        }
    }
    let (took, seed) = longest;
    println!("the longest, STORM={seed}, took {took:?}");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_trial_comes_to_its_end() {
    all_end(storm);
}

#[test]
fn requests_between_netburner_and_winsock_come_to_their_end() {
    all_end(pair);
}

/// Sees packets pass, and forgets them.
#[derive(Debug)]
struct Blind;

impl Tap for Blind {
    fn on_packet(&mut self, _: Instant, _: &Packet) {}
}

/// Packets stay in the last link until the host takes them in, unless a tap watches the link:
/// either way the result is the same.
#[test]
fn a_link_that_is_watched_leads_to_the_same_outcome() {
    for seed in wanted() {
        let trial = Draw(Rng::new(seed, "storm")).trial(seed);
        let outcome = |is_watched| {
            let stop = AtomicBool::new(false);
            let mut run = Virtual::default().prepare(&trial);
            if is_watched {
                run.add_taps(|_| Box::new(Blind));
            }
            run.run(&stop, &mut |_| ());
            let ended = run.world().now();
            (ended, run.finish(&stop))
        };
        assert_eq!(outcome(false), outcome(true), "STORM={seed}");
    }
}
