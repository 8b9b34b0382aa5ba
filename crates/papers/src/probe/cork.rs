//! Probes of cork: data held, for how long, and its release.
//!
//! Seed: Red Hat, `TCP_NODELAY` and `TCP_CORK`; the ceilings were measured on Linux.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;

use base::{Instant, Limit};
use stack::profile::linux_6_18;
use stack::{Host, HostConfig, ListenOptions, Packet, SocketId, WriteFlags};

use super::{Figures, Probe, kernel};

/// How long ten bytes are held.
pub(super) const CEILING: Probe = Probe {
    name: "cork-ceiling",
    about: "How long a cork holds 10 bytes, and what lets them go earlier.",
    figures: &[
        CORKED,
        MORE,
        UNCORKED,
        NODELAY_WHILE_CORKED,
        NODELAY_THEN_CORK,
        FULL,
        CORKED_40MS,
        CORK_LIMITS,
    ],
    run: Some(ceilings),
    run_on_kernel: Some(kernel::cork::ceilings),
};

/// A client that asks for no delay, with the preloaded library and without.
pub(super) const SHIM: Probe = Probe {
    name: "cork-shim",
    about: "An unmodified client with NODELAY, with the preloaded library and without it.",
    figures: &[
        "plain_buffers_per_message",
        "autocork_buffers_per_message",
        "plain_segments_per_message",
        "autocork_segments_per_message",
        "plain_duration_us",
        "autocork_duration_us",
        "speedup",
    ],
    run: None,
    run_on_kernel: Some(kernel::cork::with_and_without_library),
};

/// A header in front of a file.
pub(super) const SENDFILE: Probe = Probe {
    name: "cork-sendfile",
    about: "A header written, then a file sent: plain, and corked.",
    figures: &[
        "plain_segments_per_message",
        "cork_segments_per_message",
        "plain_response_us",
        "cork_response_us",
        "bulk_plain_first_read_bytes",
        "bulk_cork_first_read_bytes",
        "bulk_plain_segments_per_message",
        "bulk_cork_segments_per_message",
    ],
    run: None,
    run_on_kernel: Some(kernel::cork::files),
};

/// The two sample programs as processes.
pub(super) const SAMPLE_PROGRAMS: Probe = Probe {
    name: "cork-sample-programs",
    about: "The sample programs with the document's arguments, and the form of their lines.",
    figures: &[
        "lines_of_form",
        "baseline_response_us",
        "no_delay_response_us",
        "cork_response_us",
        "baseline_buffers_per_message",
        "no_delay_buffers_per_message",
        "cork_buffers_per_message",
    ],
    run: None,
    run_on_kernel: Some(kernel::cork::sample_programs),
};

/// Corked, and never uncorked.
const CORKED: &str = "corked_us";
/// Written with `MSG_MORE`, and nothing follows.
const MORE: &str = "msg_more_us";
/// Uncorked after 10 ms.
const UNCORKED: &str = "uncorked_after_10ms_us";
/// `TCP_NODELAY` set after 10 ms, corked.
const NODELAY_WHILE_CORKED: &str = "nodelay_while_corked_after_10ms_us";
/// `TCP_NODELAY` set first, then corked.
const NODELAY_THEN_CORK: &str = "nodelay_then_cork_us";
/// 100000 bytes, corked: the first of them.
const FULL: &str = "corked_full_segments_us";
/// Corked, and never uncorked, 20 ms away.
const CORKED_40MS: &str = "corked_40ms_path_us";
/// 1 where the sender says that the cork holds it.
const CORK_LIMITS: &str = "limited_by_cork";

/// Round-trip time of a local network.
const NEAR: Duration = Duration::from_micros(50);
const FAR: Duration = Duration::from_millis(20);
const LATER: Duration = Duration::from_millis(10);
/// Longer than any ceiling.
const PATIENCE: Duration = Duration::from_secs(5);
const PORT: u16 = 5001;

fn ceilings(_seed: u64) -> Figures {
    let cork = |pair: &mut Pair| pair.set("cork");
    let write = |pair: &mut Pair| pair.write(&[0; 10], WriteFlags::default());
    let after = |setup: &dyn Fn(&mut Pair), later: &dyn Fn(&mut Pair)| {
        let mut pair = Pair::connect(NEAR);
        setup(&mut pair);
        write(&mut pair);
        let written = pair.now;
        pair.run(written + LATER);
        later(&mut pair);
        pair.until_read(written)
    };
    let nothing = |_: &mut Pair| ();
    let more = {
        let mut pair = Pair::connect(NEAR);
        pair.write(&[0; 10], WriteFlags::default().with_more(true));
        let written = pair.now;
        pair.until_read(written)
    };
    let corked = |delay, bytes: &[u8]| {
        let mut pair = Pair::connect(delay);
        cork(&mut pair);
        pair.write(bytes, WriteFlags::default());
        let written = pair.now;
        let is_held = pair.is_held_by_cork();
        (pair.until_read(written), is_held)
    };
    let (near, is_held) = corked(NEAR, &[0; 10]);
    Figures::from([
        (CORKED, near),
        (MORE, more),
        (UNCORKED, after(&cork, &Pair::uncork)),
        (
            NODELAY_WHILE_CORKED,
            after(&cork, &|pair| pair.set("nodelay")),
        ),
        (
            NODELAY_THEN_CORK,
            after(
                &|pair| {
                    pair.set("nodelay");
                    pair.set("cork");
                },
                &nothing,
            ),
        ),
        (FULL, corked(NEAR, &vec![0; 100_000]).0),
        (CORKED_40MS, corked(FAR, &[0; 10]).0),
        (CORK_LIMITS, f64::from(u8::from(is_held))),
    ])
}

/// Two hosts with a connection, and a path that only takes time.
struct Pair {
    now: Instant,
    delay: Duration,
    /// The client's, then the server's.
    hosts: [Host; 2],
    client: SocketId,
    server: SocketId,
    /// On their way, in the order of their arrival, with the host that they go to.
    wire: VecDeque<(Instant, usize, Packet)>,
}

impl Pair {
    fn connect(delay: Duration) -> Self {
        let addresses = [1, 2].map(|host| IpAddr::from(Ipv4Addr::new(10, 0, 0, host)));
        let [mut a, mut b] = addresses.map(host_at);
        let remote = SocketAddr::new(addresses[1], PORT);
        let settings = linux_6_18().settings;
        let listener = b
            .listen(remote, ListenOptions::of(&linux_6_18()))
            .expect("the port is free");
        let client = a
            .connect(Instant::ZERO, remote, settings)
            .expect("the host has an address");
        let mut pair = Self {
            now: Instant::ZERO,
            delay,
            hosts: [a, b],
            client,
            server: listener,
            wire: VecDeque::new(),
        };
        pair.run(Instant::ZERO + PATIENCE);
        let now = pair.now;
        let accepted = pair.hosts[1].accept(now, listener);
        pair.server = accepted.expect("the connection is there");
        pair
    }

    fn set(&mut self, knob: &str) {
        self.set_to(knob, true);
    }

    fn uncork(&mut self) {
        self.set_to("cork", false);
    }

    fn set_to(&mut self, knob: &str, on: bool) {
        let value = base::KnobValue::Flag(on);
        let set = self.hosts[0].set(self.now, self.client, knob, &value);
        set.expect("a knob of sockets");
    }

    fn write(&mut self, bytes: &[u8], flags: WriteFlags) {
        let chunk = bytes::Bytes::copy_from_slice(bytes);
        self.hosts[0]
            .write_chunk(self.now, self.client, chunk, flags)
            .expect("the buffer is empty");
    }

    fn is_held_by_cork(&self) -> bool {
        let wait = self.hosts[0].limit(self.now, self.client);
        wait.is_some_and(|wait| wait.limit == Limit::Cork)
    }

    /// Microseconds from `written` until the server has something to read.
    fn until_read(&mut self, written: Instant) -> f64 {
        let end = written + PATIENCE;
        while self.hosts[1].unread_bytes(self.server) == 0 && self.step(end) {}
        self.now.since(written).as_secs_f64() * 1e6
    }

    fn run(&mut self, until: Instant) {
        while self.step(until) {}
    }

    /// Goes on to the next thing that happens; `false` where that is after `until`.
    fn step(&mut self, until: Instant) -> bool {
        for (from, host) in self.hosts.iter_mut().enumerate() {
            while let Some(packet) = host.poll_transmit(self.now) {
                let arrival = self.now + self.delay;
                self.wire.push_back((arrival, 1 - from, packet));
            }
        }
        let arrival = self.wire.front().map(|(at, ..)| *at);
        let timers = self.hosts.iter_mut().filter_map(Host::poll_timeout);
        let next = timers.chain(arrival).min().unwrap_or(Instant::MAX);
        if next > until {
            self.now = until;
            return false;
        }
        self.now = self.now.max(next);
        while let Some((at, to, packet)) = self.wire.pop_front() {
            if at > self.now {
                self.wire.push_front((at, to, packet));
                break;
            }
            self.hosts[to].handle_packet(self.now, packet);
        }
        for host in &mut self.hosts {
            host.handle_timeout(self.now);
        }
        true
    }
}

fn host_at(address: IpAddr) -> Host {
    Host::new(HostConfig::of(&linux_6_18(), address, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux measured: 203 to 209 ms, 10.2 to 10.3 ms, 0.1 to 0.2 ms, and 247 ms on the far path.
    #[test]
    fn a_cork_holds_up_to_its_ceiling() {
        let figures = ceilings(1);
        let check = |name: &str, min: f64, max: f64| {
            let got = figures[name];
            assert!((min..=max).contains(&got), "{name}: {got}");
        };
        for name in [CORKED, MORE, NODELAY_THEN_CORK] {
            check(name, 200_000.0, 209_000.0);
        }
        for name in [UNCORKED, NODELAY_WHILE_CORKED] {
            check(name, 10_050.0, 10_051.0);
        }
        check(FULL, 50.0, 51.0);
        check(CORKED_40MS, 240_000.0, 290_000.0);
        check(CORK_LIMITS, 1.0, 1.0);
    }
}
