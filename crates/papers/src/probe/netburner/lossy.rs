//! Clients on a clean and on a lossy path, and what they hold of the pool (NB38, NB39): where
//! packets are lost, buffers come back late.

use core::net::IpAddr;
use core::task::Poll;
use core::time::Duration;

use base::{Fraction, Instant, Rate};
use link::{LinkSpec, Loss};
use stack::profile;

use super::super::{Figures, Probe};
use super::path::{AnyTask, PEER, PORT, Sink, Site, link};
use crate::netburner::{Netburner, Task, Turn};

/// Connections of the device at once.
const CLIENTS: usize = 24;
/// Size of each record.
const RECORD_BYTES: usize = 4 * 1460;
const INTERVAL: Duration = Duration::from_millis(250);
/// Loss on the lossy path, each way.
const LOST: Fraction = Fraction::from_parts(100_000_000);
/// How long it does so.
const TIME: Duration = Duration::from_secs(60);

pub(in crate::probe) const LOSSY_POOL: Probe = Probe {
    name: "netburner-lossy-pool",
    about: "24 connections send 4 segments every 250 ms, on a clean and on a lossy path.",
    figures: &[
        "clean_low_watermark",
        "clean_refused",
        "clean_delivered_bytes",
        "lossy_low_watermark",
        "lossy_refused",
        "lossy_delivered_bytes",
        "lossy_free_at_end",
    ],
    run: Some(run),
    run_on_kernel: None,
};

fn run(seed: u64) -> Figures {
    let mut figures = Figures::new();
    let clean = Crowd::of(Loss::Never, seed);
    figures.insert("clean_low_watermark", clean.low_watermark);
    figures.insert("clean_refused", clean.refused);
    figures.insert("clean_delivered_bytes", clean.delivered_bytes);
    let lossy = Crowd::of(Loss::Random(LOST), seed);
    figures.insert("lossy_low_watermark", lossy.low_watermark);
    figures.insert("lossy_refused", lossy.refused);
    figures.insert("lossy_delivered_bytes", lossy.delivered_bytes);
    figures.insert("lossy_free_at_end", lossy.free);
    figures
}

/// Final state of the pool and of the data.
struct Crowd {
    low_watermark: f64,
    refused: f64,
    delivered_bytes: f64,
    free: f64,
}

impl Crowd {
    fn of(loss: Loss, seed: u64) -> Self {
        let sink = Sink::of(CLIENTS);
        let received = std::rc::Rc::clone(&sink.received);
        let senders = (0..CLIENTS).map(|_| {
            let sender = Sender {
                to: PEER,
                fd: 0,
                until: None,
            };
            Box::new(sender) as AnyTask
        });
        let mut device = profile::netburner();
        // Each may hold 40 buffers of the 256.
        profile::preset::netburner(&mut device.settings, 20, false);
        let rate = Rate::from_bits_per_second(25_000_000);
        let link = LinkSpec {
            loss,
            ..link(rate, Duration::from_millis(40))
        };
        let mut site = Site::new(
            (device, senders.collect()),
            (profile::textbook(), vec![Box::new(sink)]),
            &link,
            seed,
        );
        site.run();
        let pool = site.world.host(site.device).pool();
        Self {
            low_watermark: pool.low_watermark.into(),
            refused: pool.refused as f64,
            delivered_bytes: received.get() as f64,
            free: pool.free.into(),
        }
    }
}

/// Sends a record from time to time; what there is no room for is given up, as sensors do.
#[derive(Debug)]
struct Sender {
    to: IpAddr,
    fd: i32,
    until: Option<Instant>,
}

impl Task for Sender {
    fn turn(&mut self, system: &mut Netburner<'_>) -> Turn {
        if self.fd == 0 {
            match system.connect(self.to, 0, PORT, 0) {
                Poll::Pending => return Turn::Blocked,
                Poll::Ready(fd) if fd < 0 => return Turn::Sleep(INTERVAL),
                Poll::Ready(fd) => self.fd = fd,
            }
        }
        let now = system.now();
        if now >= *self.until.get_or_insert(now + TIME) {
            system.close(self.fd);
            return Turn::Done;
        }
        let _ = system.write(self.fd, &[7; RECORD_BYTES]);
        Turn::Sleep(INTERVAL)
    }
}
