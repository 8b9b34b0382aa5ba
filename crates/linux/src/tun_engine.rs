//! Our stack as one end of a trial, with the kernel at the other: the worker process of that end.
//!
//! Its namespace is a router. The process makes a TUN device there with its own host behind it, and
//! the kernel forwards between that device and the path: GSO packets pass whole, the emulator sees
//! what it sees of the kernel's hosts, and what our stack costs is what the process costs.

use std::net::IpAddr;

use base::{Bytes, Instant, Limit};
use lab::app::{App, Course, Machine, Program, ProgramSpec, Scene};
use lab::world::LimitTimes;
use lab::{Amount, Caveat, End, Point, SenderOutcome, Settings, Trial};
use serde::{Deserialize, Serialize};
use stack::{Event, Host, SocketId, profile};

use crate::clock::Clock;
use crate::driver::{Driver, DriverStopper};
use crate::error::{Error, Result};
use crate::netlink::link as interfaces;
use crate::path::{INTERFACE, configure_stack_device};
use crate::tun::{Tun, TunPort};
use crate::worker::{Role, WorkerSpec};
use crate::workload::{Ended, Responses, Summary, Totals};

/// The device behind which our host is.
pub(crate) const DEVICE: &str = "stack0";

/// Which end of a trial has our stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackEnd {
    /// The end.
    pub side: Side,
    /// Its stack where the trial names none, by its name in [`stack::profile`].
    pub profile: &'static str,
}

/// An end by what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that sends what is measured: [`lab::Workload::sender`].
    Sender,
    /// The other one.
    Receiver,
}

impl StackEnd {
    /// The end of this trial.
    #[must_use]
    pub const fn end(&self, trial: &Trial) -> End {
        let sender = trial.workload.sender();
        match self.side {
            Side::Sender => sender,
            Side::Receiver => sender.other(),
        }
    }

    /// Configuration of the process at that end; `address` is its host's.
    pub(crate) fn spec(&self, trial: &Trial, address: IpAddr) -> StackSpec {
        let end = self.end(trial);
        let host = trial.host(end);
        let seed = format!("{} host", end.name());
        StackSpec {
            profile: host.profile.unwrap_or(self.profile).to_owned(),
            settings: host.settings.clone(),
            address,
            seed: base::Rng::new(trial.seed, &seed).next_u64(),
        }
    }
}

/// Stack configuration of a worker process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StackSpec {
    /// By its name in [`stack::profile`].
    pub profile: String,
    /// Knobs of any scope; those that our stack does not have are left out.
    #[serde(with = "crate::workload::settings")]
    pub settings: Settings,
    /// Address of the host.
    pub address: IpAddr,
    /// Seed of everything random on the host.
    pub seed: u64,
}

impl StackSpec {
    /// The settings that our stack does not have.
    pub(crate) fn refused(&self) -> Result<Vec<Caveat>> {
        self.machine(Bytes(1500)).map(|(_, refused)| refused)
    }

    fn machine(&self, mtu: Bytes) -> Result<(Machine, Vec<Caveat>)> {
        let profile =
            profile::find(&self.profile).map_err(|error| Error::Peer(error.to_string()))?;
        let mut machine = Machine::new(profile, mtu);
        let refused = machine.set_all(&self.settings);
        Ok((machine, refused))
    }
}

/// Results that only our own stack can report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StackSummary {
    /// Limits of the main connection with their shares of the measured time, largest first.
    pub limits: Vec<(Limit, f64)>,
    /// Packets that its device dropped, either way.
    pub dropped_packets: u64,
    /// How the flow went, at an end that sends what is measured; payload counts when it is
    /// acknowledged.
    #[serde(default)]
    pub series: Vec<Point>,
    /// Counters of this end as sender.
    #[serde(default)]
    pub sender: Option<SenderOutcome>,
}

/// One run of one end.
#[derive(Debug)]
pub(crate) struct StackRun {
    driver: Driver<Watched>,
}

impl StackRun {
    /// Makes the device and the host behind it; nothing has happened yet.
    ///
    /// # Errors
    /// Where the device cannot be made, or there is no such profile.
    pub(crate) fn new(spec: &WorkerSpec, stack: &StackSpec) -> Result<Self> {
        let mtu = interfaces::read(INTERFACE)?.mtu;
        let tun = Tun::create(DEVICE)?;
        configure_stack_device(DEVICE, mtu, stack.address)?;
        let (machine, _) = stack.machine(Bytes(mtu.into()))?;
        let host = Host::new(machine.host_config(stack.address, stack.seed));
        let end = match spec.role {
            Role::Client => End::Client,
            Role::Server => End::Server,
        };
        let program = ProgramSpec {
            warmup: spec.run.warmup,
            // The kernel's programs write other bytes.
            checks_payload: false,
            ..machine.program(end, &spec.run.workload, spec.address)
        };
        let app = Watched {
            program: match end {
                End::Client => Program::client(program),
                End::Server => Program::server(program),
            },
            end,
            cannot_listen: false,
            limits: LimitTimes::default(),
            course: (end == spec.run.workload.sender()).then(|| {
                let time = match spec.run.workload.amount() {
                    Amount::Time(time) => Some(spec.run.warmup + time),
                    Amount::Bytes(_) | Amount::Operations(_) => None,
                };
                Course::new(Clock.now(), time)
            }),
            is_two_way: spec.run.workload.is_two_way(),
        };
        let driver = Driver::new(host, app, TunPort::new(tun))?;
        Ok(Self { driver })
    }

    /// Handle that stops it.
    pub(crate) fn stopper(&self) -> DriverStopper {
        self.driver.stopper()
    }

    /// Runs until the program has ended, or is told to. Where it fails, the peers of what is still
    /// connected have not been told yet: [`StackRun::abandon`].
    ///
    /// # Errors
    /// Where a connection of a client broke, a server cannot listen, or the device was taken away.
    pub(crate) fn run(&mut self) -> Result<Summary> {
        self.driver.run()?;
        let now = Clock.now();
        if let Some(why) = self.driver.app().failure() {
            return Err(Error::Peer(why.to_owned()));
        }
        let (series, sender) = self.finish_course(now);
        // Peers still connected would wait for a host that is gone.
        self.driver.abort_all()?;
        let dropped_packets = interfaces::read(DEVICE)?.send_dropped;
        let Watched {
            program, limits, ..
        } = self.driver.app();
        let mut limits = limits.clone();
        limits.set(now, None);
        let (measured, all) = (program.totals(now), program.counts());
        let mut responses_ns = Responses::default();
        for (nanos, count) in measured.responses_ns() {
            responses_ns.record_many(nanos, count);
        }
        Ok(Summary {
            measured: Totals {
                duration_s: measured.duration.as_secs_f64(),
                received_bytes: measured.received_bytes,
                sent_bytes: measured.sent_bytes,
                operations: measured.operations,
                responses_ns,
            },
            all_received_bytes: all.received_bytes,
            all_sent_bytes: all.sent_bytes,
            all_operations: all.operations,
            congestion: String::new(),
            sent: None,
            silence_max_us: u64::try_from(measured.silence_max.as_micros()).ok(),
            ended: match program.is_done() {
                true => Ended::Complete,
                false => Ended::Stopped,
            },
            stack: Some(StackSummary {
                limits: limits.shares(),
                dropped_packets: dropped_packets + self.driver.stats().port.lost,
                series,
                sender,
            }),
        })
    }

    fn finish_course(&mut self, now: Instant) -> (Vec<Point>, Option<SenderOutcome>) {
        let Some(course) = self.driver.app_mut().course.take() else {
            return (Vec::new(), None);
        };
        let Watched {
            program,
            limits,
            is_two_way,
            ..
        } = self.driver.app();
        let ends = (program, self.driver.host());
        course.finish(now, &scene(ends, limits, *is_two_way))
    }

    /// Tells the peers of what is still connected, who would otherwise wait for a host that is
    /// gone.
    pub(crate) fn abandon(&mut self) {
        // If the device is gone too, peers cannot be told.
        let _ = self.driver.abort_all();
    }
}

/// The program, with the limits of its main connection written down.
#[derive(Debug)]
struct Watched {
    program: Program,
    end: End,
    cannot_listen: bool,
    limits: LimitTimes,
    /// At the end that sends what is measured.
    course: Option<Course>,
    is_two_way: bool,
}

impl Watched {
    /// Why it cannot go on. As with the kernel's server, a client that breaks off ends no server.
    fn failure(&self) -> Option<&str> {
        let is_server = self.end == End::Server;
        let failure = self.program.failure();
        failure.filter(|_| !is_server || self.cannot_listen)
    }
}

/// Observable state at the sending end. The peer's progress is the acknowledged part.
fn scene<'s>(
    (program, host): (&'s Program, &'s Host),
    limits: &'s LimitTimes,
    is_two_way: bool,
) -> Scene<'s> {
    let on_its_way: u64 = program.sockets().map(|id| host.unacked_bytes(id)).sum();
    let counts = program.counts();
    let acked = counts.sent_bytes.saturating_sub(on_its_way);
    Scene {
        program,
        host,
        limits,
        // The payload of a workload goes one way; what comes back are answers.
        received_bytes: match is_two_way {
            true => acked + counts.received_bytes,
            false => acked.max(counts.received_bytes),
        },
        queue_bytes: None,
        span: program.measured_span(),
    }
}

impl App for Watched {
    fn start(&mut self, now: Instant, host: &mut Host) {
        self.program.start(now, host);
        self.cannot_listen = self.program.failure().is_some();
    }

    fn handle_event(&mut self, now: Instant, id: SocketId, event: Event) {
        self.program.handle_event(now, id, event);
    }

    fn call(&mut self, now: Instant, host: &mut Host) -> bool {
        let called = self.program.call(now, host);
        let limit = self.program.watched(now).and_then(|(id, counts)| {
            let wait = host.limit(now, id)?;
            Some((wait.limit, counts))
        });
        self.limits.set(now, limit);
        if let Some(course) = self.course.as_mut().filter(|course| course.is_due(now)) {
            course.look(
                now,
                &scene((&self.program, host), &self.limits, self.is_two_way),
            );
        }
        called
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.program.poll_timeout()
    }

    fn is_done(&self) -> bool {
        self.program.is_done() || self.failure().is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::time::Duration;

    use base::Rate;
    use lab::{Amount, Direction, HostSpec, PathSpec, Workload};

    use super::*;
    use crate::kernel::LAB_PORT;
    use crate::path::LabPath;
    use crate::worker::{WorkerReport, run_worker};
    use crate::workload::RunSpec;

    /// More than a hundred of the largest packets, in segments of 1448 bytes.
    const BYTES: u64 = 10_000_000;

    fn trial(direction: Direction, path: PathSpec) -> Trial {
        Trial {
            path,
            client: HostSpec::default(),
            server: HostSpec::default(),
            workload: Workload::Bulk {
                direction,
                flows: 1,
                write_size: Bytes(1 << 16),
                unacked: None,
                amount: Amount::Bytes(Bytes(BYTES)),
            },
            seed: 1,
        }
    }

    fn emulated(ipv6: bool) -> PathSpec {
        let rate = Rate::from_bits_per_second(1_000_000_000);
        let queue = "1000p".parse().expect("a queue");
        let mut path = PathSpec::emulated(rate, Duration::from_millis(1), queue);
        if let PathSpec::Emulated { ipv6: is_set, .. } = &mut path {
            *is_set = ipv6;
        }
        path
    }

    fn stack_at(side: Side) -> StackEnd {
        StackEnd {
            side,
            profile: "linux_6_18",
        }
    }

    #[test]
    fn the_side_is_an_end_of_the_workload() {
        let check = |side, direction, expected| {
            let trial = trial(direction, PathSpec::Loopback);
            assert_eq!(
                stack_at(side).end(&trial),
                expected,
                "{side:?} {direction:?}"
            );
        };
        check(Side::Sender, Direction::Up, End::Client);
        check(Side::Receiver, Direction::Up, End::Server);
        check(Side::Sender, Direction::Down, End::Server);
        check(Side::Receiver, Direction::Down, End::Client);
        check(Side::Sender, Direction::Both, End::Client);
    }

    #[test]
    fn a_trial_says_what_the_stack_of_its_end_is() {
        let mut trial = trial(Direction::Up, PathSpec::Loopback);
        let address = IpAddr::from([10, 77, 0, 1]);
        let told = |trial: &Trial| stack_at(Side::Sender).spec(trial, address);
        assert_eq!(told(&trial).profile, "linux_6_18");
        trial.client.profile = Some("winsock");
        let knob = |name: &str, text: &str| {
            let knob = base::find_knob(name).expect("a knob");
            (knob.name, knob.parse(text).expect("a value"))
        };
        trial
            .client
            .settings
            .extend([knob("net.ipv4.tcp_sack", "off"), knob("qdisc.limit", "5")]);
        let spec = told(&trial);
        assert_eq!(spec.profile, "winsock");
        let refused = spec.refused().expect("a profile");
        assert!(
            matches!(&refused[..], [Caveat::SettingNotApplied { knob, .. }] if knob == "qdisc.limit"),
            "{refused:?}"
        );
        let text = serde_json::to_string(&spec).expect("plain data");
        let back: StackSpec = serde_json::from_str(&text).expect("what was written");
        assert_eq!(back, spec);
        trial.seed += 1;
        assert_ne!(told(&trial).seed, spec.seed);
    }

    /// Runs both workers in threads inside the namespaces, and returns what they said at their end.
    /// `before` is called when the server listens.
    fn run(path: &LabPath, trial: &Trial, stack: StackEnd, before: impl FnOnce()) -> [Summary; 2] {
        let spec = |end: End| WorkerSpec {
            role: match end {
                End::Client => Role::Client,
                End::Server => Role::Server,
            },
            address: SocketAddr::new(path.b_addr(), LAB_PORT),
            run: RunSpec {
                workload: trial.workload.clone(),
                sockets: crate::workload::SocketSpec::default(),
                warmup: Duration::ZERO,
                interval: Duration::from_millis(50),
            },
            stack: (stack.end(trial) == end).then(|| stack.spec(trial, path.address(end))),
        };
        std::thread::scope(|scope| {
            let start = |netns, end| {
                let (input, mut orders) = io::pipe().expect("pipe");
                let (reports, output) = io::pipe().expect("pipe");
                serde_json::to_writer(&mut orders, &spec(end)).expect("room in the pipe");
                orders.write_all(b"\n").expect("room in the pipe");
                let netns: &crate::netns::NetnsHandle = netns;
                scope.spawn(move || netns.run(|| run_worker(input, output, || ())));
                let mut lines = BufReader::new(reports).lines();
                let next = move || -> WorkerReport {
                    let line = lines.next().expect("a report").expect("readable");
                    serde_json::from_str(&line).expect("a report")
                };
                (orders, next)
            };
            let end_of = |mut next: Box<dyn FnMut() -> WorkerReport>| loop {
                match next() {
                    WorkerReport::Done(summary) => return *summary,
                    WorkerReport::Error { message } => panic!("{message}"),
                    WorkerReport::Interval(_) | WorkerReport::Ready { .. } => {}
                }
            };
            let (mut server_orders, mut server) = start(path.b(), End::Server);
            assert!(matches!(server(), WorkerReport::Ready { port: LAB_PORT }));
            before();
            let (client_orders, client) = start(path.a(), End::Client);
            let client = end_of(Box::new(client));
            server_orders
                .write_all(b"{\"stop\":true}\n")
                .expect("room in the pipe");
            let server = end_of(Box::new(server));
            drop((client_orders, server_orders));
            [client, server]
        })
    }

    fn lab_path(trial: &Trial, router: End) -> Option<LabPath> {
        crate::asking::permitted(LabPath::create_with_router(&trial.path, 1, router))
    }

    #[test]
    fn a_client_that_breaks_off_ends_no_server() {
        let trial = trial(Direction::Up, emulated(false));
        let Some(path) = lab_path(&trial, End::Server) else {
            return;
        };
        let remote = SocketAddr::new(path.b_addr(), LAB_PORT);
        let break_off = || {
            let mut stream = TcpStream::connect(remote).expect("it listens");
            stream.write_all(b"part of it").expect("room");
            let socket = socket2::SockRef::from(&stream);
            socket.set_linger(Some(Duration::ZERO)).expect("ours");
            drop(stream);
            // The reset is there before the next connection.
            std::thread::sleep(Duration::from_millis(100));
        };
        let [client, server] = run(&path, &trial, stack_at(Side::Receiver), || {
            path.a().run(break_off).expect("ours");
        });
        assert_eq!(client.all_sent_bytes, BYTES);
        assert_eq!(client.ended, Ended::Complete);
        assert!(server.all_received_bytes >= BYTES, "{server:?}");
    }

    #[test]
    fn a_server_that_cannot_listen_has_ended() {
        let check = |address: [u8; 4], expected: bool| {
            let own = IpAddr::from([10, 77, 0, 2]);
            let machine = Machine::new(profile::linux_6_18(), Bytes(1500));
            let mut host = Host::new(machine.host_config(own, 1));
            let at = SocketAddr::new(address.into(), LAB_PORT);
            let workload = &trial(Direction::Up, PathSpec::Loopback).workload;
            let mut app = Watched {
                program: Program::server(machine.program(End::Server, workload, at)),
                end: End::Server,
                cannot_listen: false,
                limits: LimitTimes::default(),
                course: None,
                is_two_way: false,
            };
            app.start(Instant::ZERO, &mut host);
            assert_eq!(
                (app.is_done(), app.failure().is_some()),
                (expected, expected)
            );
        };
        check([10, 77, 0, 2], false);
        check([10, 77, 0, 9], true);
    }

    #[test]
    fn gso_packets_pass_the_router_whole_and_every_byte_arrives() {
        for (side, direction, ipv6) in [
            (Side::Sender, Direction::Up, false),
            (Side::Receiver, Direction::Up, true),
            (Side::Sender, Direction::Down, true),
            (Side::Receiver, Direction::Down, false),
        ] {
            let trial = trial(direction, emulated(ipv6));
            let stack = stack_at(side);
            let end = stack.end(&trial);
            let Some(path) = lab_path(&trial, end) else {
                return;
            };
            let [client, server] = run(&path, &trial, stack, || ());
            let (sends, reads) = match direction {
                Direction::Down => (server, client),
                _ => (client, server),
            };
            assert_eq!(sends.all_sent_bytes, BYTES, "{side:?} {direction:?}");
            assert_eq!(reads.all_received_bytes, BYTES, "{side:?} {direction:?}");
            let own = sends.stack.or(reads.stack).expect("one end has our stack");
            assert_eq!(own.dropped_packets, 0, "{side:?} {direction:?}");
            assert!(!own.limits.is_empty(), "{side:?} {direction:?}");
            // What the device handed over, GSO packets counted once, beside wire packets.
            let (forward, reverse) = path.outcome();
            let router = match end {
                End::Client => path.a(),
                End::Server => path.b(),
            };
            let link = router.run(|| interfaces::read(INTERFACE));
            let link = link.expect("ours").expect("it is there");
            let (packets, wire) = match (end, direction) {
                (End::Client, Direction::Down) => (link.received_packets, reverse.delivered),
                (End::Client, _) => (link.sent_packets, forward.sent),
                (End::Server, Direction::Down) => (link.sent_packets, reverse.sent),
                (End::Server, _) => (link.received_packets, forward.delivered),
            };
            assert!(
                packets * 3 < wire,
                "{packets} packets for {wire} on the wire"
            );
        }
    }
}
