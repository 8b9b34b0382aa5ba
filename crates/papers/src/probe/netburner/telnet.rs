//! One byte every 10 ms, with Nagle's algorithm and PUSH on or off (experiments N7a, NB27 to NB30).

use core::cell::RefCell;
use core::task::Poll;
use core::time::Duration;
use std::rc::Rc;

use base::settings::AckEvery;
use base::{Instant, Rate};
use stack::profile::{self, Profile};

use super::super::{Figures, Probe};
use super::path::{DataSegment, PEER, PORT, Sink, Site, link};
use crate::netburner::{Netburner, SO_NONAGLE, SO_NOPUSH, Task, Turn};

/// From one byte to the next.
const INTERVAL: Duration = Duration::from_millis(10);
/// Round-trip time of the path.
const RTT: Duration = Duration::from_millis(40);
/// A segment and 40 bytes: what NOPUSH holds back is seen too.
const BYTES: u64 = 1500;

pub(in crate::probe) const TELNET: Probe = Probe {
    name: "netburner-telnet",
    about: "A byte every 10 ms over a round trip of 40 ms, with each pair of options.",
    figures: &[
        "bytes",
        "nonagle_push_segments",
        "nonagle_push_psh",
        "nonagle_push_latency_min_us",
        "nonagle_push_latency_max_us",
        "nagle_push_segments",
        "nagle_push_psh",
        "nagle_push_gap_min_us",
        "nagle_push_latency_max_us",
        "nagle_push_delayed_ack_segments",
        "nagle_push_delayed_ack_latency_max_us",
        "nonagle_nopush_segments_before_clear",
        "nonagle_nopush_first_bytes",
        "nonagle_nopush_psh_before_clear",
        "nonagle_nopush_after_clear_bytes",
        "nonagle_nopush_latency_max_us",
        "nagle_nopush_segments_before_clear",
        "nagle_nopush_first_bytes",
        "nagle_nopush_after_clear_bytes",
    ],
    run: Some(run),
    run_on_kernel: None,
};

fn run(seed: u64) -> Figures {
    let each = AckEvery::Packets(1);
    let mut figures = Figures::from([("bytes", BYTES as f64)]);
    let typed = Session::of(SO_NONAGLE, each, seed);
    figures.insert("nonagle_push_segments", count(&typed.segments));
    figures.insert("nonagle_push_psh", typed.psh());
    let (least, most) = typed.latency_us();
    figures.insert("nonagle_push_latency_min_us", least);
    figures.insert("nonagle_push_latency_max_us", most);

    let typed = Session::of(0, each, seed);
    figures.insert("nagle_push_segments", count(&typed.segments));
    figures.insert("nagle_push_psh", typed.psh());
    figures.insert("nagle_push_gap_min_us", typed.gap_min_us());
    figures.insert("nagle_push_latency_max_us", typed.latency_us().1);

    let typed = Session::of(0, AckEvery::Packets(2), seed);
    figures.insert("nagle_push_delayed_ack_segments", count(&typed.segments));
    let most = typed.latency_us().1;
    figures.insert("nagle_push_delayed_ack_latency_max_us", most);

    let typed = Session::of(SO_NONAGLE | SO_NOPUSH, each, seed);
    let (before, after) = typed.around_clear();
    figures.insert("nonagle_nopush_segments_before_clear", count(&before));
    figures.insert("nonagle_nopush_first_bytes", bytes_of_first(&before));
    let pushed = before.iter().filter(|segment| segment.push).count();
    figures.insert("nonagle_nopush_psh_before_clear", pushed as f64);
    figures.insert("nonagle_nopush_after_clear_bytes", bytes_of_first(&after));
    figures.insert("nonagle_nopush_latency_max_us", typed.latency_us().1);

    let typed = Session::of(SO_NOPUSH, each, seed);
    let (before, after) = typed.around_clear();
    figures.insert("nagle_nopush_segments_before_clear", count(&before));
    figures.insert("nagle_nopush_first_bytes", bytes_of_first(&before));
    figures.insert("nagle_nopush_after_clear_bytes", bytes_of_first(&after));
    figures
}

fn count(segments: &[DataSegment]) -> f64 {
    segments.len() as f64
}

fn bytes_of_first(segments: &[DataSegment]) -> f64 {
    segments.first().map_or(0.0, |segment| segment.bytes as f64)
}

/// Observations of one typing session.
struct Session {
    /// When each byte was written.
    written: Vec<Instant>,
    segments: Vec<DataSegment>,
    /// When each byte reached the peer.
    arrived: Vec<Instant>,
    cleared: Instant,
}

impl Session {
    fn of(options: i32, every: AckEvery, seed: u64) -> Self {
        let log = Rc::new(RefCell::new(Log::default()));
        let typist = Typist {
            options,
            fd: 0,
            log: Rc::clone(&log),
        };
        let rate = Rate::from_bits_per_second(25_000_000);
        let mut site = Site::new(
            (profile::netburner(), vec![Box::new(typist)]),
            (peer(every), vec![Box::new(Sink::of(1))]),
            &link(rate, RTT),
            seed,
        );
        site.run();
        let Log { written, cleared } = log.take();
        let arrival = |byte| site.seen.arrival(byte).expect("nothing is lost");
        Self {
            segments: site.seen.segments(),
            arrived: (0..BYTES).map(arrival).collect(),
            written,
            cleared: cleared.expect("all was written"),
        }
    }

    fn psh(&self) -> f64 {
        self.segments.iter().filter(|segment| segment.push).count() as f64
    }

    /// From the write of a byte to its arrival: least and most.
    fn latency_us(&self) -> (f64, f64) {
        let pairs = self.written.iter().zip(&self.arrived);
        let times = pairs.map(|(written, arrived)| arrived.since(*written).as_secs_f64() * 1e6);
        times.fold((f64::INFINITY, 0.0), |(least, most), time| {
            (least.min(time), most.max(time))
        })
    }

    /// Least time between two segments.
    fn gap_min_us(&self) -> f64 {
        let pairs = self.segments.windows(2);
        let gaps = pairs.map(|pair| pair[1].at.since(pair[0].at).as_secs_f64() * 1e6);
        gaps.fold(f64::INFINITY, f64::min)
    }

    /// Segments that had left before NOPUSH was cleared, and those that left then.
    fn around_clear(&self) -> (Vec<DataSegment>, Vec<DataSegment>) {
        let first_after = self.cleared + RTT / 2;
        let all = self.segments.iter().copied();
        all.partition(|segment| segment.at < first_after)
    }
}

/// The textbook's, which acknowledges every this many segments.
fn peer(every: AckEvery) -> Profile {
    let mut profile = profile::textbook();
    profile.settings.acks.every = every;
    profile
}

/// Actions of the typist, with times.
#[derive(Debug, Default)]
struct Log {
    written: Vec<Instant>,
    cleared: Option<Instant>,
}

/// Types; then it clears NOPUSH and closes.
#[derive(Debug)]
struct Typist {
    options: i32,
    fd: i32,
    log: Rc<RefCell<Log>>,
}

impl Task for Typist {
    fn turn(&mut self, system: &mut Netburner<'_>) -> Turn {
        if self.fd == 0 {
            let Poll::Ready(fd) = system.connect(PEER, 0, PORT, 0) else {
                return Turn::Blocked;
            };
            self.fd = fd;
            system.setsockoption(fd, self.options);
            // The peer has accepted by then.
            return Turn::Sleep(2 * RTT);
        }
        let mut log = self.log.borrow_mut();
        if log.written.len() < BYTES as usize {
            let Poll::Ready(n) = system.write(self.fd, b"x") else {
                return Turn::Blocked;
            };
            assert_eq!(n, 1, "a byte fits");
            log.written.push(system.now());
            return Turn::Sleep(INTERVAL);
        }
        if log.cleared.is_none() {
            log.cleared = Some(system.now());
            system.clrsockoption(self.fd, SO_NOPUSH);
            return Turn::Sleep(10 * RTT);
        }
        system.close(self.fd);
        Turn::Done
    }
}
