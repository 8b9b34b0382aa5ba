//! Changes that make it better by a fifth or more.

use std::time::Duration;

use base::{Bytes, Live};
use doctor::{Objective, Proposal, Side};
use link::{Loss, TooBig};

use super::useless::named;
use super::{Draw, ENDLESS, KnownChange, Traffic, bulk, bursts, propose};
use crate::trial::PathSpec;
use crate::workload::{Workload, WriteMethod};

/// The helpful change number `number` of a seed; numbers cycle through all kinds of traffic, knobs
/// and objectives.
#[must_use]
pub fn helpful(seed: u64, number: usize) -> KnownChange {
    use Side::{Local, Remote};
    let draw = &mut Draw::new(seed, number, "helpful");
    match number / 3 % 11 {
        // A request in pieces waits for a delayed ACK of 40 ms.
        0 => draw.stalled(
            2,
            WriteMethod::Write,
            propose(Local, "nodelay", "on", Live::Now),
        ),
        1 => draw.stalled(
            2,
            WriteMethod::Write,
            propose(Remote, "route.quickack", "on", Live::Now),
        ),
        // A corked one waits 200 ms.
        2 => draw.stalled(
            1,
            WriteMethod::CorkForever,
            propose(Local, "cork", "off", Live::Now),
        ),
        3 => draw.held_back("rcvbuf", "16KiB", Remote, Live::Restart),
        4 => draw.held_back("sndbuf", "4KiB", Local, Live::Now),
        5 => draw.larger_window(),
        6 => draw.first_window(),
        7 => draw.after_idle(),
        8 => draw.deep_queue(),
        9 => draw.black_hole(),
        _ => draw.lossy(),
    }
}

impl Draw {
    fn stalled(&mut self, writes: u32, method: WriteMethod, proposal: Proposal) -> KnownChange {
        let rtt = self.millis(1, 15);
        let kbps = self.between(2000, 8000);
        let path = self.path(kbps, rtt, Duration::from_millis(300));
        let workload = Workload::WriteWriteRead {
            writes,
            write_size: Bytes(100),
            pieces: Vec::new(),
            reply: Bytes(100),
            method,
            amount: ENDLESS,
            uncork_after: Duration::ZERO,
        };
        let proposals = vec![proposal];
        let name = named("pieces", &proposals);
        self.known(&name, path, workload, Objective::Response, proposals)
    }

    /// By a buffer that is a small part of what the path needs at its slowest.
    fn held_back(&mut self, knob: &str, value: &str, side: Side, live: Live) -> KnownChange {
        let path = self.long_path();
        let proposals = vec![propose(side, "buf_lock", "0", live)];
        let name = named(knob, &proposals);
        let known = self.known(&name, path, bulk(), Objective::Goodput, proposals);
        known.with(side, knob, value)
    }

    /// From 25 to 60 % larger, and so much faster, below what the path has at its slowest.
    fn larger_window(&mut self) -> KnownChange {
        let path = self.long_path();
        let small = self.between(24, 40) * 1024;
        let large = small * self.between(125, 160) / 100;
        let text = |bytes: u64| Bytes(bytes).to_string();
        let proposals = vec![propose(Side::Remote, "rcvbuf", &text(large), Live::Restart)];
        let name = named("bulk into a small window", &proposals);
        let known = self.known(&name, path, bulk(), Objective::Goodput, proposals);
        known.with(Side::Remote, "rcvbuf", &text(small))
    }

    /// 90 kB in flight fill it where it is slowest.
    fn long_path(&mut self) -> PathSpec {
        let rtt = self.millis(100, 140);
        self.path(30_000, rtt, Duration::from_millis(200))
    }

    /// A short transfer ends before the window has grown.
    fn first_window(&mut self) -> KnownChange {
        let rtt = self.millis(80, 120);
        let path = self.path(20_000, rtt, Duration::from_millis(200));
        let proposals = vec![propose(
            Side::Local,
            "route.initcwnd",
            "40",
            Live::Reconnect,
        )];
        let name = named("short connections", &proposals);
        let workload = bursts(50_000, Duration::from_millis(100), true);
        self.known(&name, path, workload, Objective::Transfer, proposals)
    }

    fn after_idle(&mut self) -> KnownChange {
        let rtt = self.millis(80, 120);
        let path = self.path(20_000, rtt, Duration::from_millis(200));
        let knob = "net.ipv4.tcp_slow_start_after_idle";
        let proposals = vec![propose(Side::Local, knob, "off", Live::Now)];
        let name = named("bursts", &proposals);
        let workload = bursts(60_000, Duration::from_millis(900), false);
        self.known(&name, path, workload, Objective::Transfer, proposals)
    }

    fn deep_queue(&mut self) -> KnownChange {
        if self.traffic == Traffic::Bursty {
            // BBR takes the best rate of the last round trips for the path's, and fills the queue
            // of a path that becomes slower.
            self.traffic = Traffic::Drifting;
        }
        let rtt = self.millis(10, 30);
        let kbps = self.between(3000, 5000);
        let path = self.path(kbps, rtt, Duration::from_secs(1));
        let proposals = vec![propose(Side::Local, "congestion", "bbr", Live::Now)];
        let name = named("deep queue", &proposals);
        self.known(&name, path, bulk(), Objective::Rtt, proposals)
    }

    /// Full-sized packets vanish.
    fn black_hole(&mut self) -> KnownChange {
        let rtt = self.millis(10, 40);
        let kbps = self.between(3000, 5000);
        let path = self.path(kbps, rtt, Duration::from_millis(200));
        let knob = "net.ipv4.tcp_mtu_probing";
        let proposals = vec![propose(Side::Local, knob, "1", Live::Reconnect)];
        let name = named("black hole", &proposals);
        let known = self.known(&name, path, bulk(), Objective::Stalls, proposals);
        known.forward(|link| {
            link.mtu = Some(Bytes(1400));
            link.too_big = TooBig::Vanish;
        })
    }

    fn lossy(&mut self) -> KnownChange {
        let rtt = self.millis(40, 60);
        let path = self.path(12_000, rtt, Duration::from_millis(200));
        let proposals = vec![propose(Side::Local, "congestion", "bbr", Live::Now)];
        let name = named("loss", &proposals);
        let known = self.known(&name, path, bulk(), Objective::Goodput, proposals);
        known.forward(|link| link.loss = Loss::Random("2%".parse().expect("a valid fraction")))
    }
}
