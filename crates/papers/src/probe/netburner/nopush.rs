//! Bulk data with NOPUSH, which is cleared before the last write, after it, or never (experiments
//! N7b, NB35).

use core::cell::RefCell;
use core::task::Poll;
use core::time::Duration;
use std::rc::Rc;

use base::{Instant, Limit};
use stack::profile;

use super::super::{Figures, Probe};
use super::path::{DataSegment, PEER, PORT, Sink, Site, wan};
use crate::netburner::{Netburner, SO_NOPUSH, Task, Turn};

const WRITES: u32 = 100;
const WRITE_BYTES: usize = 1000;
const TOTAL: u64 = WRITES as u64 * WRITE_BYTES as u64;
const MSS: u64 = 1460;
/// From write to write: a third of what the path carries, so that nothing but the options holds
/// data back.
const INTERVAL: Duration = Duration::from_millis(1);
/// How long the program looks on before it closes.
const PATIENCE: Duration = Duration::from_secs(30);

pub(in crate::probe) const NOPUSH: Probe = Probe {
    name: "netburner-nopush",
    about: "100 writes of 1000 bytes with NOPUSH, cleared before the last one, after it, or never.",
    figures: &[
        "full_bytes",
        "tail_bytes",
        "after_small_segments",
        "after_tail_bytes",
        "after_last_byte_us",
        "before_small_segments",
        "before_extra_bytes",
        "before_last_bytes",
        "before_last_byte_us",
        "never_small_segments",
        "never_held_bytes",
        "never_limit_is_cork",
        "at_full_speed_small_segments",
        "at_full_speed_tail_bytes",
    ],
    run: Some(run),
    run_on_kernel: None,
};

/// When NOPUSH is cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clear {
    BeforeLast,
    AfterLast,
    Never,
}

fn run(seed: u64) -> Figures {
    let mut figures = Figures::from([
        ("full_bytes", MSS as f64),
        ("tail_bytes", (TOTAL % MSS) as f64),
    ]);
    let after = Upload::of(Clear::AfterLast, INTERVAL, seed);
    figures.insert("after_small_segments", after.small().len() as f64);
    figures.insert("after_tail_bytes", after.last_bytes());
    figures.insert("after_last_byte_us", after.last_byte_us());
    let before = Upload::of(Clear::BeforeLast, INTERVAL, seed);
    let small = before.small();
    figures.insert("before_small_segments", small.len() as f64);
    let extra = small.first().map_or(0.0, |segment| segment.bytes as f64);
    figures.insert("before_extra_bytes", extra);
    figures.insert("before_last_bytes", before.last_bytes());
    figures.insert("before_last_byte_us", before.last_byte_us());
    let never = Upload::of(Clear::Never, INTERVAL, seed);
    let at_end = never.log.held.expect("it looked at the end");
    figures.insert("never_small_segments", never.small_until(at_end.0) as f64);
    figures.insert("never_held_bytes", at_end.1 as f64);
    let is_cork = at_end.2 == Some(Limit::Cork);
    figures.insert("never_limit_is_cork", f64::from(u8::from(is_cork)));
    let fast = Upload::of(Clear::AfterLast, Duration::ZERO, seed);
    figures.insert("at_full_speed_small_segments", fast.small().len() as f64);
    figures.insert("at_full_speed_tail_bytes", fast.last_bytes());
    figures
}

/// Observations of one upload.
struct Upload {
    log: Log,
    segments: Vec<DataSegment>,
    /// When the last byte reached the peer, where it did before the program closed.
    last_byte: Option<Instant>,
}

impl Upload {
    fn of(clear: Clear, interval: Duration, seed: u64) -> Self {
        let log = Rc::new(RefCell::new(Log::default()));
        let uploader = Uploader {
            clear,
            interval,
            fd: 0,
            written: 0,
            log: Rc::clone(&log),
        };
        let mut site = Site::new(
            (profile::netburner(), vec![Box::new(uploader)]),
            (profile::textbook(), vec![Box::new(Sink::of(1))]),
            &wan(),
            seed,
        );
        site.run();
        Self {
            segments: site.seen.segments(),
            last_byte: site.seen.arrival(TOTAL - 1),
            log: log.take(),
        }
    }

    /// Segments that are not full.
    fn small(&self) -> Vec<DataSegment> {
        let all = self.segments.iter().copied();
        all.filter(|segment| segment.bytes < MSS).collect()
    }

    fn small_until(&self, until: Instant) -> usize {
        self.small()
            .iter()
            .filter(|small| small.at <= until)
            .count()
    }

    fn last_bytes(&self) -> f64 {
        self.segments
            .last()
            .map_or(0.0, |segment| segment.bytes as f64)
    }

    /// From the last write or the clear behind it to the arrival of the last byte.
    fn last_byte_us(&self) -> f64 {
        let began = self.log.ended.expect("all was written");
        let arrived = self.last_byte.expect("nothing is lost");
        arrived.since(began).as_secs_f64() * 1e6
    }
}

#[derive(Debug, Default)]
struct Log {
    /// When the last write was made.
    ended: Option<Instant>,
    /// When the program looked on, what was not sent then, and why.
    held: Option<(Instant, u64, Option<Limit>)>,
}

/// Writes, and looks on for a while before it closes.
#[derive(Debug)]
struct Uploader {
    clear: Clear,
    interval: Duration,
    fd: i32,
    written: u32,
    log: Rc<RefCell<Log>>,
}

impl Uploader {
    /// Notes what is still not sent.
    fn look(&self, system: &mut Netburner<'_>) {
        let id = system.sockets().id(self.fd).expect("it is open");
        let now = system.now();
        let host = system.host();
        let limit = host.limit(now, id).map(|wait| wait.limit);
        self.log.borrow_mut().held = Some((now, host.unsent_bytes(id), limit));
    }
}

impl Task for Uploader {
    fn turn(&mut self, system: &mut Netburner<'_>) -> Turn {
        if self.fd == 0 {
            let Poll::Ready(fd) = system.connect(PEER, 0, PORT, 0) else {
                return Turn::Blocked;
            };
            self.fd = fd;
            system.SetSocketTxBuffers(fd, 40);
            system.SetSocketUnackBuffers(fd, 40);
            system.setsockoption(fd, SO_NOPUSH);
            return Turn::Sleep(Duration::from_secs(1));
        }
        if self.log.borrow().ended.is_some() {
            self.look(system);
            system.close(self.fd);
            return Turn::Done;
        }
        let is_last = self.written + 1 == WRITES;
        if is_last && self.clear == Clear::BeforeLast {
            system.clrsockoption(self.fd, SO_NOPUSH);
        }
        if system.writeall(self.fd, &[7; WRITE_BYTES]).is_pending() {
            return Turn::Blocked;
        }
        self.written += 1;
        if !is_last {
            return Turn::Sleep(self.interval);
        }
        if self.clear == Clear::AfterLast {
            system.clrsockoption(self.fd, SO_NOPUSH);
        }
        self.log.borrow_mut().ended = Some(system.now());
        Turn::Sleep(PATIENCE)
    }
}
