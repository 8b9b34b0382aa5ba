//! The faults that can be provoked on a lab path: for each diagnosis a path, two hosts and a
//! workload that suffer from exactly that cause, and what its fix must achieve.
//!
//! `lab faults` walks this table on the real kernel, `fit --lab FAULT` takes one row. The paths and
//! the expected effects are those measured in earlier runs; the fix itself is not in the table: the
//! doctor has to find it.

use core::time::Duration;

use base::{Bytes, QueueLimit, Rate, find_knob};
use link::{LinkSpec, Loss, Reorder, TooBig};

use crate::engine::EngineName;
use crate::trial::{HostSpec, PathSpec, Settings, Trial};
use crate::workload::{Amount, Direction, Quotes, Records, Workload, WriteMethod};

/// Required effect of a fault's fix, measured on the same workload before and after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RequiredEffect {
    /// No TCP setting fixes it; the doctor must say so.
    None,
    /// The median response time falls below this.
    ResponseBelow(Duration),
    /// The median response time falls by this factor.
    ResponseFactor(f64),
    /// Goodput reaches this share of what a connection with default settings gets on the path.
    ShareOfDefault(f64),
    /// Goodput rises by this factor.
    GoodputFactor(f64),
    /// The median time of a transfer falls by this factor.
    TransferFactor(f64),
    /// The share of the time in which data is stalled falls below this.
    StallsBelow(f64),
    /// The smoothed round-trip time falls by this factor.
    RttFactor(f64),
    /// The local interface drops no more packets.
    DropsEnd,
}

/// One row: a way to provoke a diagnosis, or a healthy flow on which nothing may be found.
#[derive(Debug)]
pub struct Fault {
    /// The name that users write: the id of the diagnosis, or `healthy-…`.
    pub id: &'static str,
    /// Shorter names.
    pub aliases: &'static [&'static str],
    /// Description of the fault, in one sentence.
    pub about: &'static str,
    /// Id of the diagnosis that must be named first.
    pub expected: &'static str,
    /// Required effect of the fix.
    pub cure: RequiredEffect,
    /// How long the workload runs before the doctor looks.
    pub warm_up: Duration,
    /// How long the doctor looks.
    pub observe: Duration,
    /// Time from a change to the look that judges it.
    pub settle: Duration,
    /// Why our own stack in virtual time does not have it; `None` where it has.
    pub kernel_only: Option<&'static str>,
    path: fn() -> PathSpec,
    client: &'static [(&'static str, &'static str)],
    server: &'static [(&'static str, &'static str)],
    workload: fn() -> Workload,
}

impl Fault {
    /// Whether it is a healthy flow, on which there must be no finding.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.id.starts_with("healthy-")
    }

    /// The engines that can provoke it between two hosts of their own.
    #[must_use]
    pub fn engines(&self) -> Vec<EngineName> {
        let on_stack = self.kernel_only.is_none().then_some(EngineName::Virtual);
        core::iter::once(EngineName::Kernel)
            .chain(on_stack)
            .collect()
    }

    /// The trial that provokes it.
    ///
    /// # Panics
    /// Where a row of the table names an unknown knob or value; a test reads them all.
    #[must_use]
    pub fn trial(&self) -> Trial {
        Trial {
            path: (self.path)(),
            client: HostSpec {
                settings: settings(self.client),
                ..HostSpec::default()
            },
            server: HostSpec {
                settings: settings(self.server),
                ..HostSpec::default()
            },
            workload: (self.workload)(),
            seed: 1,
        }
    }

    /// The same path and workload with default settings: what a healthy connection gets.
    #[must_use]
    pub fn default_trial(&self) -> Trial {
        let plain = HostSpec::default();
        Trial {
            client: plain.clone(),
            server: plain,
            ..self.trial()
        }
    }
}

/// Finds a row by its id or one of its aliases.
///
/// # Errors
/// The nearest name where there is one.
pub fn find_fault(name: &str) -> Result<&'static Fault, Option<&'static str>> {
    FAULTS
        .iter()
        .find(|fault| fault.id == name || fault.aliases.contains(&name))
        .ok_or_else(|| {
            let names = |fault: &'static Fault| fault.aliases.iter().copied().chain([fault.id]);
            base::knob::nearest(name, FAULTS.iter().flat_map(names))
        })
}

fn settings(rows: &[(&'static str, &'static str)]) -> Settings {
    rows.iter()
        .map(|(name, value)| {
            let knob = find_knob(name).expect("the fault table names knobs that exist");
            (
                knob.name,
                knob.parse(value)
                    .expect("the fault table holds valid values"),
            )
        })
        .collect()
}

fn emulated(rate_mbit: u64, rtt: Duration, queue_packets: u64) -> PathSpec {
    let link = LinkSpec {
        rate: Some(Rate::from_bits_per_second(rate_mbit * 1_000_000)),
        delay: rtt / 2,
        queue: QueueLimit::Packets(queue_packets),
        ..LinkSpec::ideal()
    };
    PathSpec::Emulated {
        mtu: Bytes(1500),
        forward: link.clone(),
        reverse: link,
        ipv6: false,
    }
}

/// A wide-area path: the product of rate and round-trip time is 250 kB.
fn wan() -> PathSpec {
    emulated(50, Duration::from_millis(40), 250)
}

/// A local network, on which a delayed ACK is two hundred round trips long.
fn lan() -> PathSpec {
    emulated(1000, Duration::from_micros(200), 1000)
}

/// Fast and not near.
fn mid() -> PathSpec {
    emulated(1000, Duration::from_millis(20), 20_000)
}

/// A slow access line with a queue of two seconds.
fn dsl() -> PathSpec {
    emulated(10, Duration::from_millis(20), 2000)
}

/// Four times as fast, so that the round trips of a slow start weigh more than the transfer.
fn fast_wan() -> PathSpec {
    emulated(200, Duration::from_millis(40), 1000)
}

/// [`wan`] with one change to the direction from client to server.
fn wan_forward(change: impl FnOnce(&mut LinkSpec)) -> PathSpec {
    let mut path = wan();
    if let PathSpec::Emulated { forward, .. } = &mut path {
        change(forward);
    }
    path
}

fn lossy_wan() -> PathSpec {
    wan_forward(|link| {
        link.queue = QueueLimit::Packets(400);
        link.loss = Loss::Random("1%".parse().expect("a valid fraction"));
    })
}

/// Loss in both directions, since requests and responses are lost alike.
fn lossy_mid() -> PathSpec {
    let mut path = emulated(100, Duration::from_millis(10), 1000);
    if let PathSpec::Emulated {
        forward, reverse, ..
    } = &mut path
    {
        for link in [forward, reverse] {
            link.loss = Loss::Random("3%".parse().expect("a valid fraction"));
        }
    }
    path
}

/// Every second packet takes a way that is 60 ms longer.
fn overtaking() -> PathSpec {
    let mut path = emulated(100, Duration::from_millis(20), 400);
    if let PathSpec::Emulated { forward, .. } = &mut path {
        forward.reorder = Some(Reorder {
            share: "50%".parse().expect("a valid fraction"),
            hold: Duration::from_millis(60),
        });
    }
    path
}

fn black_hole() -> PathSpec {
    wan_forward(|link| {
        link.mtu = Some(Bytes(1400));
        link.too_big = TooBig::Vanish;
    })
}

/// Until it is stopped.
const ENDLESS: Amount = Amount::Time(Duration::from_secs(3600));

fn bulk() -> Workload {
    bulk_of(64 * 1024, 1)
}

fn bulk_of(write_bytes: u64, flows: u32) -> Workload {
    Workload::Bulk {
        direction: Direction::Up,
        flows,
        write_size: Bytes(write_bytes),
        unacked: None,
        amount: ENDLESS,
    }
}

fn write_write_read(writes: u32, method: WriteMethod) -> Workload {
    let size = Bytes(100);
    Workload::WriteWriteRead {
        writes,
        write_size: size,
        pieces: Vec::new(),
        reply: size,
        method,
        amount: ENDLESS,
        uncork_after: Duration::ZERO,
    }
}

fn records(per_second: u32) -> Workload {
    Workload::Records(Records {
        per_second: Some(per_second),
        ..Records::new(Bytes(100), ENDLESS)
    })
}

fn paced() -> Workload {
    let rate = Rate::from_bits_per_second(10_000_000);
    Workload::Paced {
        rate,
        write_size: Bytes(5000),
        amount: ENDLESS,
    }
}

fn bursts(idle: Duration, reconnect: bool) -> Workload {
    Workload::Bursts {
        burst: Bytes(500_000),
        idle,
        reconnect,
        amount: ENDLESS,
    }
}

/// The values from which most rows differ in a few fields only.
const ROW: Fault = Fault {
    id: "",
    aliases: &[],
    about: "",
    expected: "",
    cure: RequiredEffect::None,
    warm_up: Duration::from_secs(2),
    observe: Duration::from_secs(3),
    settle: Duration::from_secs(2),
    kernel_only: None,
    path: wan,
    client: &[],
    server: &[],
    workload: bulk,
};

/// Every fault, and the healthy flows at the end.
pub const FAULTS: &[Fault] = &[
    Fault {
        id: "nagle-delack-stall",
        aliases: &["nagle"],
        about: "A request in two small writes on a LAN: the second waits for a delayed ACK.",
        expected: "nagle-delack-stall",
        cure: RequiredEffect::ResponseBelow(Duration::from_millis(1)),
        path: lan,
        workload: || write_write_read(2, WriteMethod::Write),
        ..ROW
    },
    Fault {
        id: "nagle-rtt-serialised",
        aliases: &["nagle-rtt"],
        about: "The same over 20 ms to a host that never delays ACKs: one more round trip each.",
        expected: "nagle-rtt-serialised",
        cure: RequiredEffect::ResponseFactor(1.6),
        path: mid,
        server: &[("route.quickack", "on")],
        workload: || write_write_read(2, WriteMethod::Write),
        ..ROW
    },
    Fault {
        id: "cork-not-uncorked",
        aliases: &["cork"],
        about: "The program corks its socket once and forgets to uncork it.",
        expected: "cork-not-uncorked",
        cure: RequiredEffect::ResponseBelow(Duration::from_millis(1)),
        path: lan,
        workload: || write_write_read(1, WriteMethod::CorkForever),
        ..ROW
    },
    Fault {
        id: "cork-over-nagle",
        aliases: &["stacked"],
        about: "Two faults, one behind the other: the program corks its socket and never clears the cork, \
                and writes each request in two parts.",
        expected: "cork-not-uncorked",
        cure: RequiredEffect::ResponseFactor(2.0),
        path: lan,
        workload: || write_write_read(2, WriteMethod::CorkForever),
        ..ROW
    },
    Fault {
        id: "two-one-way-connections",
        aliases: &["quotes"],
        about: "Requests on one connection, answers on another, and hosts that delay ACKs.",
        expected: "two-one-way-connections",
        cure: RequiredEffect::ResponseBelow(Duration::from_millis(1)),
        path: lan,
        workload: || {
            Workload::Quotes(Quotes {
                writes: 2,
                delayed_acks: true,
                ..Quotes::new(Bytes(100), Bytes(200), ENDLESS)
            })
        },
        ..ROW
    },
    Fault {
        id: "rcvbuf-locked",
        aliases: &["rcvbuf"],
        about: "The receiving program sets SO_RCVBUF to 32 KiB on its listener.",
        expected: "rcvbuf-locked",
        cure: RequiredEffect::ShareOfDefault(0.9),
        server: &[("rcvbuf", "32KiB")],
        ..ROW
    },
    Fault {
        id: "rmem-autotuning-off",
        aliases: &["moderate"],
        about: "The receiving host does not size receive buffers by itself.",
        expected: "rmem-autotuning-off",
        cure: RequiredEffect::ShareOfDefault(0.9),
        server: &[("net.ipv4.tcp_moderate_rcvbuf", "off")],
        ..ROW
    },
    Fault {
        id: "tcp-rmem-max-cap",
        aliases: &["rmem"],
        about: "The receiving host lets receive buffers grow to 64 KiB only.",
        expected: "tcp-rmem-max-cap",
        cure: RequiredEffect::ShareOfDefault(0.9),
        server: &[("net.ipv4.tcp_rmem", "4096 65536 65536")],
        ..ROW
    },
    Fault {
        id: "window-scaling-off",
        aliases: &["wscale"],
        about: "The sending host does not offer window scaling.",
        expected: "window-scaling-off",
        cure: RequiredEffect::ShareOfDefault(0.9),
        client: &[("net.ipv4.tcp_window_scaling", "off")],
        ..ROW
    },
    Fault {
        id: "slow-reader",
        aliases: &[],
        about: "The receiving program takes 5 kB every 10 ms.",
        expected: "slow-reader",
        workload: || Workload::SlowReader {
            read_size: Bytes(5000),
            every: Duration::from_millis(10),
            amount: ENDLESS,
        },
        ..ROW
    },
    Fault {
        id: "sndbuf-locked",
        aliases: &["sndbuf"],
        about: "The sending program sets SO_SNDBUF to 32 KiB.",
        expected: "sndbuf-locked",
        cure: RequiredEffect::ShareOfDefault(0.9),
        client: &[("sndbuf", "32KiB")],
        ..ROW
    },
    Fault {
        id: "tcp-wmem-max-cap",
        aliases: &["wmem"],
        about: "The sending host lets send buffers grow to 64 KiB only.",
        expected: "tcp-wmem-max-cap",
        cure: RequiredEffect::ShareOfDefault(0.9),
        client: &[("net.ipv4.tcp_wmem", "4096 16384 65536")],
        ..ROW
    },
    Fault {
        id: "sndbuf-tiny",
        aliases: &[],
        about: "The sending program sets SO_SNDBUF to 0.",
        expected: "sndbuf-tiny",
        cure: RequiredEffect::ShareOfDefault(0.9),
        client: &[("sndbuf", "0")],
        ..ROW
    },
    Fault {
        id: "app-limited",
        aliases: &[],
        about: "The program writes 10 Mbit/s into a path of 50.",
        expected: "app-limited",
        workload: paced,
        ..ROW
    },
    Fault {
        id: "small-writes-cpu",
        aliases: &["small-writes"],
        about: "The program writes 16 bytes at a time with TCP_NODELAY.",
        expected: "small-writes-cpu",
        cure: RequiredEffect::GoodputFactor(1.2),
        path: mid,
        client: &[("nodelay", "on")],
        workload: || bulk_of(16, 1),
        ..ROW
    },
    Fault {
        id: "unbatched-records",
        aliases: &["records"],
        about: "The program sends 4000 records of 100 bytes a second, each in a segment of its own.",
        expected: "unbatched-records",
        path: lan,
        client: &[("nodelay", "on")],
        workload: || records(4000),
        ..ROW
    },
    Fault {
        id: "round-trip-bound",
        aliases: &["rtt"],
        about: "One request, one answer, 20 ms apart, with nothing left to save.",
        expected: "round-trip-bound",
        path: mid,
        client: &[("nodelay", "on")],
        workload: || write_write_read(2, WriteMethod::Write),
        ..ROW
    },
    Fault {
        id: "retransmission-timeouts",
        aliases: &["timeouts", "rto"],
        about: "One request at a time over 10 ms on a path that loses three packets in a hundred.",
        expected: "retransmission-timeouts",
        observe: Duration::from_secs(8),
        path: lossy_mid,
        client: &[("nodelay", "on")],
        workload: || Workload::RequestResponse {
            request: Bytes(100),
            response: Bytes(1000),
            flows: 1,
            amount: ENDLESS,
        },
        ..ROW
    },
    Fault {
        id: "reordering",
        aliases: &["overtaking"],
        about: "Every second packet of a bulk transfer takes a way that is 60 ms longer.",
        expected: "reordering",
        observe: Duration::from_secs(5),
        path: overtaking,
        ..ROW
    },
    Fault {
        id: "random-loss",
        aliases: &["loss"],
        about: "One packet in a hundred is lost on the wire, and CUBIC takes it for congestion.",
        expected: "random-loss",
        cure: RequiredEffect::GoodputFactor(3.0),
        observe: Duration::from_secs(5),
        path: lossy_wan,
        ..ROW
    },
    Fault {
        id: "bufferbloat",
        aliases: &["bloat"],
        about: "A bulk transfer fills the two seconds of queue of a slow access line.",
        expected: "bufferbloat",
        cure: RequiredEffect::RttFactor(1.5),
        warm_up: Duration::from_secs(4),
        settle: Duration::from_secs(6),
        path: dsl,
        ..ROW
    },
    Fault {
        id: "local-qdisc-drops",
        aliases: &["txqueuelen"],
        about: "The sending interface has a transmit queue of two packets.",
        expected: "local-qdisc-drops",
        cure: RequiredEffect::DropsEnd,
        kernel_only: Some("the queue that drops is that of a kernel's interface"),
        path: mid,
        client: &[("link.txqueuelen", "2p")],
        workload: || bulk_of(64 * 1024, 4),
        ..ROW
    },
    Fault {
        id: "pmtu-blackhole",
        aliases: &["blackhole"],
        about: "Packets above 1400 bytes vanish on the way, without an ICMP message.",
        expected: "pmtu-blackhole",
        cure: RequiredEffect::StallsBelow(0.1),
        warm_up: Duration::from_secs(4),
        settle: Duration::from_secs(12),
        path: black_hole,
        ..ROW
    },
    Fault {
        id: "path-dead",
        aliases: &["dead"],
        about: "Every packet with data vanishes on the way.",
        expected: "path-dead",
        warm_up: Duration::from_secs(4),
        path: || {
            wan_forward(|link| {
                link.mtu = Some(Bytes(80));
                link.too_big = TooBig::Vanish;
            })
        },
        workload: || write_write_read(1, WriteMethod::Write),
        ..ROW
    },
    Fault {
        id: "slow-start-after-idle",
        aliases: &["idle"],
        about: "500 kB every 2 s on one connection, slow at the start of each block.",
        expected: "slow-start-after-idle",
        cure: RequiredEffect::TransferFactor(2.5),
        warm_up: Duration::from_secs(6),
        observe: Duration::from_secs(8),
        path: fast_wan,
        workload: || bursts(Duration::from_secs(2), false),
        ..ROW
    },
    Fault {
        id: "initcwnd-too-small",
        aliases: &["initcwnd"],
        about: "500 kB on a new connection each: over before the bottleneck rate is reached.",
        expected: "initcwnd-too-small",
        cure: RequiredEffect::TransferFactor(1.25),
        observe: Duration::from_secs(5),
        path: fast_wan,
        workload: || bursts(Duration::from_millis(300), true),
        ..ROW
    },
    Fault {
        id: "sack-or-timestamps-off",
        aliases: &["sack"],
        about: "The sending host does not offer selective acknowledgements on a lossy path.",
        expected: "sack-or-timestamps-off",
        cure: RequiredEffect::ShareOfDefault(0.9),
        warm_up: Duration::from_millis(500),
        observe: Duration::from_secs(6),
        client: &[("net.ipv4.tcp_sack", "off")],
        ..ROW
    },
    Fault {
        id: "path-full",
        aliases: &[],
        about: "A bulk transfer with nothing wrong, alone on its path.",
        expected: "path-full",
        ..ROW
    },
    Fault {
        id: "healthy-bulk",
        aliases: &[],
        about: "A bulk transfer over 20 ms at 200 Mbit/s with default settings.",
        expected: "path-full",
        warm_up: Duration::from_secs(4),
        path: || emulated(200, Duration::from_millis(20), 400),
        ..ROW
    },
    Fault {
        id: "healthy-request",
        aliases: &[],
        about: "Requests in one write each on a LAN.",
        expected: "round-trip-bound",
        path: lan,
        workload: || Workload::RequestResponse {
            request: Bytes(100),
            response: Bytes(1000),
            flows: 1,
            amount: ENDLESS,
        },
        ..ROW
    },
    Fault {
        id: "healthy-paced",
        aliases: &[],
        about: "A program that writes 10 Mbit/s into a path of 50.",
        expected: "app-limited",
        workload: paced,
        ..ROW
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cure_is_judged_by_what_its_diagnosis_makes_better() {
        for fault in FAULTS {
            let Some(objective) = fault.cure.objective() else {
                continue;
            };
            let diagnosis = doctor::find_diagnosis(fault.expected).expect(fault.expected);
            assert_eq!(objective, diagnosis.objective, "{}", fault.id);
        }
    }

    #[test]
    fn every_fault_has_a_diagnosis_and_a_trial() {
        for fault in FAULTS {
            assert!(
                doctor::find_diagnosis(fault.expected).is_some(),
                "{}",
                fault.id
            );
            assert!(fault.about.ends_with('.'), "{}", fault.id);
            let _ = fault.trial();
        }
    }

    #[test]
    fn our_stack_has_the_settings_of_each_fault_that_it_is_said_to_have() {
        let all = FAULTS.iter().filter(|fault| fault.kernel_only.is_none());
        for fault in all {
            for trial in [fault.trial(), fault.default_trial()] {
                let started = crate::Virtual::default().start(&trial);
                assert!(started.is_ok(), "{}: {:?}", fault.id, started.err());
            }
        }
    }

    #[test]
    fn names_are_unique_and_a_misspelt_one_is_recognised() {
        let names =
            |fault: &'static Fault| std::iter::once(fault.id).chain(fault.aliases.iter().copied());
        let all: Vec<&str> = FAULTS.iter().flat_map(names).collect();
        for (i, name) in all.iter().enumerate() {
            assert!(!all[..i].contains(name) || find_fault(name).is_ok_and(|f| f.id == *name));
        }
        assert!(find_fault("nagle").is_ok_and(|fault| fault.id == "nagle-delack-stall"));
        let meant = |name: &str| find_fault(name).err().flatten();
        assert_eq!(meant("nagle-delack-stal"), Some("nagle-delack-stall"));
        assert_eq!(meant("nagel"), Some("nagle"));
    }
}
