//! Many tasks on several threads over a path that loses, reorders and duplicates: streams that are
//! read to the end, futures that are dropped half-way, halves that are dropped early, resets,
//! attempts that are abandoned. Whatever arrives must be exact, no task may wait for ever, and in
//! the end no socket and no task may be left.
//!
//! `TCPTAILOR_SOAK_SECONDS` says how long (default: 3), `TCPTAILOR_SOAK_SEED` which random choices.

mod client;
mod lossy;
mod server;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_channel::mpsc;
use futures_util::SinkExt as _;
use tcptailor_tokio::base::Rng;
use tcptailor_tokio::stack::{HostConfig, profile};
use tcptailor_tokio::{Net, TcpListener};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use lossy::Lossy;

/// Clients at once on each path.
const CLIENTS: u64 = 16;
/// Longest time of one exchange. With the losses here a few timers have to run out at worst.
const EXCHANGE_MAX: Duration = Duration::from_secs(120);
/// Packets that the path holds in each direction.
const PATH_PACKETS: usize = 256;

/// By how much the memory of the process may grow while nothing is kept: buffers of other sizes,
/// and holes between them. 0 to 5 MiB were seen, after 2300 exchanges as after 25 000.
const GROWTH_KIB_MAX: u64 = 8192;
/// And with each exchange; a connection that is not given back takes some KiB.
const GROWTH_BYTES_PER_EXCHANGE: u64 = 256;

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) exchanges: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Reads and writes that were dropped while they waited.
    pub(crate) cancelled: AtomicU64,
    /// Attempts to connect that were dropped.
    pub(crate) given_up: AtomicU64,
    pub(crate) broken: AtomicU64,
}

impl Tally {
    pub(crate) fn add(counter: &AtomicU64, number: u64) {
        counter.fetch_add(number, Ordering::Relaxed);
    }
}

fn number_from(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(default, |text| text.parse().expect(variable))
}

fn config(addr: [u8; 4], seed: u64) -> HostConfig {
    let mut config = HostConfig::of(&profile::linux_6_18(), addr.into(), seed);
    // Ports are to last for a soak of any length.
    config.settings.life.time_wait = Duration::from_millis(100);
    config
}

/// Two hosts that exchange packets as they have them.
fn over_packets(seed: u64) -> [Net; 2] {
    let (to_b, from_a) = mpsc::channel(PATH_PACKETS);
    let (to_a, from_b) = mpsc::channel(PATH_PACKETS);
    let host = |addr, sender: mpsc::Sender<_>, receiver| {
        let outgoing = sender.sink_map_err(io::Error::other);
        Net::over_packets(config(addr, seed), Lossy::new(receiver, seed), outgoing)
    };
    [
        host([10, 0, 0, 1], to_b, from_b),
        host([10, 0, 0, 2], to_a, from_a),
    ]
}

/// Two hosts that exchange bytes.
fn over_bytes(seed: u64) -> [Net; 2] {
    let (to_b, from_a) = mpsc::channel(PATH_PACKETS);
    let (to_a, from_b) = mpsc::channel(PATH_PACKETS);
    let host = |addr, sender: mpsc::Sender<_>, receiver| {
        let outgoing = sender.sink_map_err(io::Error::other);
        Net::over_bytes(config(addr, seed), Lossy::new(receiver, seed), outgoing)
    };
    [
        host([10, 0, 0, 1], to_b, from_b),
        host([10, 0, 0, 2], to_a, from_a),
    ]
}

#[test]
fn nothing_is_lost_stuck_or_left_behind() {
    let seconds = number_from("TCPTAILOR_SOAK_SECONDS", 3);
    let seed = number_from("TCPTAILOR_SOAK_SEED", 1);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let tally = Arc::new(Tally::default());
        let time = Duration::from_secs(seconds);
        let reports = tokio::spawn(report(Arc::clone(&tally)));
        // What the allocator and the threads keep, they keep from here on.
        both(seed, time / 2, &tally).await;
        let (exchanges, before) = (tally.exchanges.load(Ordering::Relaxed), resident_kib());
        both(seed + 1, time, &tally).await;
        reports.abort();
        let exchanges = tally.exchanges.load(Ordering::Relaxed) - exchanges;
        let grown = resident_kib().saturating_sub(before);
        println!("{tally:?}, {before} KiB resident, {grown} more after {exchanges} exchanges");
        let bound = GROWTH_KIB_MAX + exchanges * GROWTH_BYTES_PER_EXCHANGE / 1024;
        assert!(grown <= bound, "{grown} KiB, at most {bound} were expected");
        let Tally {
            exchanges,
            bytes,
            cancelled,
            given_up,
            broken,
        } = &*tally;
        // What never happened was not tested.
        for done in [exchanges, bytes, cancelled, given_up, broken] {
            assert!(done.load(Ordering::Relaxed) > 10, "{tally:?}");
        }
        for _ in 0..1000 {
            if runtime.metrics().num_alive_tasks() == 0 {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("{} tasks are left", runtime.metrics().num_alive_tasks());
    });
}

/// One soak on each kind of path.
async fn both(seed: u64, time: Duration, tally: &Arc<Tally>) {
    tokio::join!(
        soak(over_packets(seed), seed, time, tally),
        soak(over_bytes(seed), seed + 1000, time, tally)
    );
}

async fn soak(nets: [Net; 2], seed: u64, time: Duration, tally: &Arc<Tally>) {
    let [here, there] = nets;
    let listener = TcpListener::bind(&there, "10.0.0.2:80")
        .await
        .expect("free");
    let server = tokio::spawn(server::serve(listener, seed));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let (net, tally) = (here.clone(), Arc::clone(tally));
        let mut rng = Rng::new(seed + number, "client");
        clients.spawn(async move {
            let began = tokio::time::Instant::now();
            while began.elapsed() < time {
                let exchange = client::Exchange::drawn(&mut rng);
                timeout(EXCHANGE_MAX, exchange.run(&net, &mut rng, &tally))
                    .await
                    .unwrap_or_else(|_| panic!("stuck: {exchange:?} of client {number}"));
                Tally::add(&tally.exchanges, 1);
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.expect("no panic");
    }
    server.abort();
    // Whether it was told to end or had a panic of its own.
    assert!(server.await.is_err_and(|error| error.is_cancelled()));
    for net in [&here, &there] {
        timeout(EXCHANGE_MAX, net.wait_idle())
            .await
            .expect("no connection stays")
            .expect("packets move");
        assert_eq!(net.host(|host| host.sockets().count()), 0);
    }
}

/// Says now and then how it goes.
async fn report(tally: Arc<Tally>) {
    loop {
        sleep(Duration::from_secs(10)).await;
        println!("{tally:?}, {} KiB resident", resident_kib());
    }
}

/// Memory of this process.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.map_or(0, |number| number.parse().expect("a number"))
}
