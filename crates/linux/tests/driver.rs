//! A host of ours on a TUN device against the kernel's TCP, in a namespace made for each test.
//! Needs what `LabNetns` needs; without it every test says that it was skipped, and fails instead
//! where `REQUIRE_KERNEL` is set.

mod asking;
mod tcp_info;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use base::Instant;
use base::tcp::TcpFlags;
use lab::app::App;
use linux::tun::{Offloads, Tun, TunPort};
use linux::{Driver, DriverStats, DriverStopper, LabNetns, netlink};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use stack::{
    Body, Event, Host, HostConfig, ListenOptions, Packet, Payload, Segment, SocketId, WriteFlags,
    profile, wire,
};
use tcp_info::tcp_info;

const DEVICE: &str = "stack0";
const ECHO: u16 = 7;
/// Where a program accepts and never reads.
const DEAF: u16 = 8;
const OURS: [&str; 2] = ["10.77.0.2", "fd77::2"];
const THEIRS: [&str; 2] = ["10.77.0.1", "fd77::1"];

/// Echoes what it reads on one port, and reads nothing on the other.
#[derive(Debug, Default)]
struct Echo {
    /// The listeners whose connections are not read, and these.
    deaf: Vec<SocketId>,
    unread: Vec<SocketId>,
    pending: BTreeMap<SocketId, Payload>,
}

impl App for Echo {
    fn start(&mut self, _now: Instant, host: &mut Host) {
        for addr in OURS {
            for port in [ECHO, DEAF] {
                let mut options = ListenOptions::of(&profile::linux_6_18());
                options.settings = host.default_settings().clone();
                let place = SocketAddr::new(ip(addr), port);
                let id = host.listen(place, options).expect("a free port");
                if port == DEAF {
                    self.deaf.push(id);
                }
            }
        }
    }

    fn handle_event(&mut self, _now: Instant, id: SocketId, _event: Event) {
        if !self.unread.contains(&id) {
            self.pending.entry(id).or_default();
        }
    }

    fn call(&mut self, now: Instant, host: &mut Host) -> bool {
        let Some((id, mut payload)) = self.pending.pop_first() else {
            return false;
        };
        while let Some(accepted) = host.accept(now, id) {
            if self.deaf.contains(&id) {
                self.unread.push(accepted);
                self.pending.remove(&accepted);
            } else {
                self.pending.insert(accepted, Payload::default());
            }
        }
        if payload.is_empty() {
            match host.read_chunks(now, id, 1 << 20) {
                Ok(read) if !read.is_empty() => payload = read,
                Ok(_) => host.close(now, id),
                Err(_) => {}
            }
        }
        if !payload.is_empty() {
            let written = host.write_vectored(now, id, payload.chunks(), WriteFlags::default());
            let is_full = written.is_err();
            payload.advance(written.unwrap_or(0) as u32);
            self.pending.insert(id, payload);
            // A full buffer empties by acknowledgments, which are packets: those first.
            return !is_full;
        }
        true
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        None
    }

    fn is_done(&self) -> bool {
        false
    }
}

/// A namespace with a device, behind which a driver runs on a thread of its own.
struct Rig {
    netns: LabNetns,
    stopper: DriverStopper,
    thread: JoinHandle<Ended>,
}

/// How a driver ended, and the driver.
type Ended = (linux::Result<()>, Driver<Echo>);

impl Rig {
    /// `None` where this machine does not let us and a skip is allowed.
    fn new(offloads: Offloads) -> Option<Self> {
        Self::with(offloads, |_| {})
    }

    /// As [`Rig::new`], with a host that is changed before.
    fn with(offloads: Offloads, change: fn(&mut HostConfig)) -> Option<Self> {
        let netns = namespace()?;
        let driver = netns
            .handle()
            .run(|| driver(offloads, change))
            .expect("a namespace of ours");
        let stopper = driver.stopper();
        let thread = std::thread::spawn(move || {
            let mut driver = driver;
            let outcome = driver.run();
            (outcome, driver)
        });
        Some(Self {
            netns,
            stopper,
            thread,
        })
    }

    /// What `work` does in the namespace.
    fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.netns.handle().run(work).expect("a namespace of ours")
    }

    fn connect(&self, addr: &str, port: u16) -> TcpStream {
        self.run(|| {
            let remote = SocketAddr::new(ip(addr), port);
            let stream = TcpStream::connect_timeout(&remote, Duration::from_secs(20))
                .expect("our TCP accepts");
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .expect("an option");
            stream
        })
    }

    /// What `change` makes of the device.
    fn change(&self, change: impl FnOnce(&str) -> linux::Result<()> + Send) {
        self.run(|| change(DEVICE)).expect("the device is ours");
    }

    /// How the driver ended by itself.
    fn wait(self) -> Ended {
        self.thread.join().expect("no panic")
    }

    /// Ends it, and tells what it did.
    fn stop(self) -> Driver<Echo> {
        self.stopper.stop();
        let (outcome, driver) = self.wait();
        outcome.expect("the device is there");
        driver
    }
}

fn namespace() -> Option<LabNetns> {
    asking::namespace_for_devices("driver")
}

fn driver(offloads: Offloads, change: fn(&mut HostConfig)) -> Driver<Echo> {
    netlink::link::set_up("lo").expect("loopback");
    let tun = Tun::create_with(DEVICE, offloads).expect("a device");
    netlink::link::set_txqueuelen(DEVICE, linux::tun::RING_PACKETS).expect("a queue");
    for (addr, prefix) in [(THEIRS[0], 24), (THEIRS[1], 64)] {
        netlink::addr::add(DEVICE, ip(addr), prefix).expect("an address");
    }
    netlink::link::set_up(DEVICE).expect("a device");
    let profile = profile::linux_6_18();
    let mut config = HostConfig::of(&profile, ip(OURS[0]), 5);
    config.addrs = OURS.map(ip).to_vec();
    change(&mut config);
    Driver::new(Host::new(config), Echo::default(), TunPort::new(tun)).expect("a driver")
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Sends `bytes` and reads them back, both at once.
fn echo(stream: &TcpStream, bytes: &[u8]) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = stream;
            stream.write_all(bytes).expect("our TCP reads");
        });
        let mut stream = stream;
        let mut back = vec![0; bytes.len()];
        stream.read_exact(&mut back).expect("our TCP writes");
        assert!(back == bytes, "the bytes that came back are others");
    });
}

/// Bytes of which no two places look alike.
fn noise(length: usize) -> Vec<u8> {
    let mut rng = base::Rng::new(9, "driver test");
    std::iter::repeat_with(|| rng.next_u64().to_le_bytes())
        .flatten()
        .take(length)
        .collect()
}

#[test]
fn every_byte_comes_back_whatever_the_device_offers() {
    let bytes = noise(6_000_000);
    for offloads in [Offloads::ALL, Offloads::CHECKSUMS, Offloads::NONE] {
        let Some(rig) = Rig::new(offloads) else {
            return;
        };
        for addr in OURS {
            let stream = rig.connect(addr, ECHO);
            echo(&stream, &bytes);
        }
        let driver = rig.stop();
        let has = driver.port().tun().offloads();
        assert_eq!(has.vnet_header, offloads.vnet_header);
        let DriverStats { port, .. } = driver.stats();
        // What one packet of 1500 bytes carries at most.
        let segments = 2 * bytes.len() as u64 / 1460;
        let expects_large = has.has_tso();
        assert_eq!(
            port.reads < segments,
            expects_large,
            "{port:?} of {segments}"
        );
        assert_eq!(port.writes < segments, has.vnet_header, "{port:?}");
        assert_eq!(port.lost, 0, "{port:?}");
    }
}

/// A SYN to the echo port from a neighbour.
fn syn(source: Ipv4Addr, port: u16) -> Vec<u8> {
    let packet = Packet {
        source: source.into(),
        destination: ip(OURS[0]),
        ecn: stack::EcnMark::NotEct,
        dont_fragment: true,
        hop_limit: 64,
        not_before: Instant::ZERO,
        body: Body::Tcp(Segment {
            source_port: port,
            destination_port: ECHO,
            seq: base::SeqNum::new(7),
            flags: TcpFlags::SYN,
            window: 1000,
            ..Segment::default()
        }),
    };
    let mut bytes = Vec::new();
    wire::encode(&packet, &mut bytes).expect("a packet");
    bytes
}

/// Sends whole IPv4 packets.
fn raw_socket() -> Socket {
    let protocol = Some(Protocol::from(libc::IPPROTO_RAW));
    Socket::new(Domain::IPV4, Type::RAW, protocol).expect("CAP_NET_RAW")
}

fn to_us() -> SockAddr {
    SocketAddr::new(ip(OURS[0]), 0).into()
}

#[test]
fn a_wrong_checksum_is_not_accepted_where_no_header_answers_for_it() {
    let Some(rig) = Rig::new(Offloads::NONE) else {
        return;
    };
    let source = Ipv4Addr::new(10, 77, 0, 1);
    rig.run(|| {
        let socket = raw_socket();
        let mut wrong = syn(source, 999);
        // The sequence number, which the checksum covers.
        wrong[27] ^= 1;
        socket.send_to(&wrong, &to_us()).expect("sent");
    });
    // Behind it comes what is right.
    echo(&rig.connect(OURS[0], ECHO), b"right");
    let driver = rig.stop();
    assert_eq!(driver.host().counters().passive_opens, 1);
    assert!(driver.stats().port.ignored >= 1);
}

#[test]
fn garbage_and_gso_packets_of_wrong_lengths_do_no_harm() {
    for offloads in [Offloads::ALL, Offloads::NONE] {
        let Some(rig) = Rig::new(offloads) else {
            return;
        };
        let stream = rig.connect(OURS[0], ECHO);
        echo(&stream, b"before");
        let reached = rig.run(send_garbage);
        assert!(reached > 1000, "{reached} packets were taken");
        echo(&stream, &noise(1_000_000));
        let driver = rig.stop();
        let ignored = driver.stats().port.ignored + driver.host().counters().no_socket;
        assert!(ignored > 100, "{:?}", driver.stats());
    }
}

/// Writes frames with virtio headers to the device, from the side of the kernel: half of them
/// random, half a SYN whose headers state other lengths than it has. Returns how many it took.
fn send_garbage() -> u32 {
    const PACKET_VNET_HDR: libc::c_int = 15;
    let protocol = Protocol::from(i32::from(0x0800_u16.to_be()));
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol)).expect("CAP_NET_RAW");
    switch_on(&socket, libc::SOL_PACKET, PACKET_VNET_HDR);
    let index = netlink::link::read(DEVICE).expect("the device").index;
    let to = packet_address(index);
    let mut rng = base::Rng::new(3, "garbage");
    let mut taken = 0;
    for round in 0..4000_u32 {
        let number = rng.next_u64();
        let length = 20 + (number % 1400) as usize;
        let mut frame = vec![0_u8; 10 + length];
        if round % 2 == 0 {
            frame[10..].copy_from_slice(&noise_of(&mut rng, length));
            frame[10] = 0x45;
        } else {
            let source = Ipv4Addr::from_bits(0x0a4d_0003 + round % 200);
            let packet = syn(source, 1000 + (round % 5000) as u16);
            frame[10..].fill(round as u8);
            let at = packet.len().min(length);
            frame[10..10 + at].copy_from_slice(&packet[..at]);
            // Total length of the IP header.
            frame[12..14].copy_from_slice(&((number >> 16) as u16).to_be_bytes());
        }
        if number & 1 == 1 {
            // A TCP GSO packet whose segments are of any size, its checksum open.
            frame[..2].copy_from_slice(&[1, 1]);
            frame[2..4].copy_from_slice(&40_u16.to_ne_bytes());
            frame[4..6].copy_from_slice(&((number >> 32) as u16).to_ne_bytes());
            frame[6..8].copy_from_slice(&20_u16.to_ne_bytes());
            frame[8..10].copy_from_slice(&16_u16.to_ne_bytes());
        }
        taken += u32::from(socket.send_to(&frame, &to).is_ok());
    }
    taken
}

fn noise_of(rng: &mut base::Rng, length: usize) -> Vec<u8> {
    std::iter::repeat_with(|| rng.next_u64().to_le_bytes())
        .flatten()
        .take(length)
        .collect()
}

fn switch_on(socket: &Socket, level: libc::c_int, name: libc::c_int) {
    use std::os::fd::AsRawFd;
    let on: libc::c_int = 1;
    // SAFETY: the option is a `c_int` that outlives the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

fn packet_address(index: u32) -> SockAddr {
    let fill = |storage: *mut socket2::SockAddrStorage, length: *mut libc::socklen_t| {
        // SAFETY: the storage is large enough and aligned for every kind of address.
        unsafe {
            storage
                .cast::<libc::sockaddr_ll>()
                .write(libc::sockaddr_ll {
                    sll_family: libc::AF_PACKET as u16,
                    sll_protocol: 0x0800_u16.to_be(),
                    sll_ifindex: index as i32,
                    sll_hatype: 0,
                    sll_pkttype: 0,
                    sll_halen: 0,
                    sll_addr: [0; 8],
                });
            *length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        }
        Ok(())
    };
    // SAFETY: the address was written with its length.
    let made = unsafe { SockAddr::try_init(fill) };
    made.expect("nothing fails in it").1
}

#[test]
fn a_deleted_device_ends_the_driver_and_says_so() {
    let Some(rig) = Rig::new(Offloads::ALL) else {
        return;
    };
    let _open = rig.connect(OURS[0], ECHO);
    rig.run(|| netlink::link::delete(DEVICE)).expect("deleted");
    let error = rig.wait().0.expect_err("nothing is left to drive");
    let expected = "the TUN device stack0 was deleted; start again to make a new one";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_device_that_is_switched_off_and_on_loses_only_packets() {
    let Some(rig) = Rig::new(Offloads::ALL) else {
        return;
    };
    let stream = rig.connect(OURS[0], ECHO);
    echo(&stream, &noise(100_000));
    rig.change(netlink::link::set_down);
    // Lost, and retransmitted when the device is back.
    (&stream).write_all(b"while off").expect("buffered");
    std::thread::sleep(Duration::from_millis(100));
    rig.change(netlink::link::set_up);
    let mut back = [0; 9];
    (&stream).read_exact(&mut back).expect("a retransmission");
    assert_eq!(&back, b"while off");
    echo(&stream, &noise(100_000));
    rig.stop();
}

/// What the stack announces shows where the kernel's own MTU does not hide it: after the device has
/// got its old MTU back, and before the stack has looked again.
#[test]
fn a_changed_mtu_is_noticed() {
    let Some(rig) = Rig::new(Offloads::ALL) else {
        return;
    };
    let announced = || {
        let new = rig.connect(OURS[0], ECHO);
        echo(&new, &noise(10_000));
        tcp_info(&new).tcpi_snd_mss
    };
    let old = rig.connect(OURS[0], ECHO);
    echo(&old, &noise(100_000));
    let is_noticed = (0..5).any(|_| {
        rig.change(|device| netlink::link::set_mtu(device, 800));
        for _ in 0..30 {
            // The stack looks from time to time, when it is awake.
            echo(&old, b"wake up");
            std::thread::sleep(Duration::from_millis(50));
        }
        rig.change(|device| netlink::link::set_mtu(device, 1500));
        announced() <= 760
    });
    assert!(is_noticed, "segments stayed as long as before");
    let grows_again = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        announced() > 760
    });
    assert!(grows_again, "segments stayed short");
    echo(&old, &noise(100_000));
    rig.stop();
}

#[test]
fn a_flood_of_syns_is_outlived() {
    let Some(rig) = Rig::new(Offloads::ALL) else {
        return;
    };
    let stream = rig.connect(OURS[0], ECHO);
    echo(&stream, b"before");
    let flooded = rig.run(|| {
        let socket = raw_socket();
        let mut sent = 0_u32;
        for number in 0..100_000_u32 {
            // There are no hosts at these addresses; answers to them are lost.
            let source = Ipv4Addr::from_bits(0x0a4d_000a + number % 200);
            let packet = syn(source, (number / 200 + 1024) as u16);
            sent += u32::from(socket.send_to(&packet, &to_us()).is_ok());
            if number % 20_000 == 0 {
                echo(&stream, b"meanwhile");
            }
        }
        sent
    });
    assert!(flooded > 50_000, "{flooded} SYNs were sent");
    echo(&stream, &noise(1_000_000));
    // A new client still gets in, by a cookie.
    echo(&rig.connect(OURS[0], ECHO), b"after");
    let driver = rig.stop();
    let counters = driver.host().counters();
    assert!(counters.cookies_sent > 10_000, "{counters:?}");
    assert!(driver.host().sockets().count() < 20_000);
}

#[test]
fn a_program_that_never_reads_costs_bounded_memory_and_nobody_else() {
    let Some(rig) = Rig::new(Offloads::ALL) else {
        return;
    };
    let deaf = rig.connect(OURS[0], DEAF);
    deaf.set_write_timeout(Some(Duration::from_millis(500)))
        .expect("an option");
    let chunk = noise(1 << 20);
    let mut taken = 0;
    let error = loop {
        match (&deaf).write(&chunk) {
            Ok(bytes) => taken += bytes,
            Err(error) => break error,
        }
        assert!(taken < 64 << 20, "it takes everything");
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    echo(&rig.connect(OURS[0], ECHO), &noise(1_000_000));
    let driver = rig.stop();
    let unread: u64 = driver
        .host()
        .sockets()
        .map(|id| driver.host().unread_bytes(id))
        .sum();
    let rcvbuf = profile::linux_6_18().settings.recv.buffer.max;
    assert!(unread <= rcvbuf.into(), "{unread} bytes wait");
}

/// The first bytes leave at once; the rest in packets of two segments, each at its time. Not
/// spread, the whole would be a handful of packets.
#[test]
fn paced_packets_leave_one_after_the_other() {
    for horizon in [Duration::ZERO, Duration::from_millis(500)] {
        let pace: fn(&mut HostConfig) = match horizon.is_zero() {
            true => set_pace,
            false => |config| {
                set_pace(config);
                config.system.pacing_horizon = Duration::from_millis(500);
            },
        };
        let Some(rig) = Rig::with(Offloads::ALL, pace) else {
            return;
        };
        echo(&rig.connect(OURS[0], ECHO), &noise(100_000));
        let stats = rig.stop().stats();
        assert!(stats.port.writes >= 20, "{stats:?}");
        assert!(stats.sleeps >= 20, "{stats:?}");
    }
}

fn set_pace(config: &mut HostConfig) {
    for (knob, value) in [("pacing_rate_max", "4mbit"), ("tso_rtt_log", "0")] {
        let knob = base::find_knob(knob).expect("a knob");
        let value = knob.parse(value).expect("a value");
        knob.set(&mut config.settings, &value)
            .expect("a knob of ours");
    }
}

#[test]
fn a_driver_that_ends_tells_its_peers() {
    let Some(rig) = Rig::new(Offloads::ALL) else {
        return;
    };
    let stream = rig.connect(OURS[0], ECHO);
    echo(&stream, b"before");
    let mut driver = rig.stop();
    driver.abort_all().expect("the device is there");
    let error = (&stream).read(&mut [0]).expect_err("it is over");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// Wants to be called at certain times.
#[derive(Debug)]
struct Ticker {
    due: Instant,
    left: u32,
}

impl App for Ticker {
    fn start(&mut self, now: Instant, _host: &mut Host) {
        self.due = now + Duration::from_micros(1500);
    }

    fn handle_event(&mut self, _now: Instant, _id: SocketId, _event: Event) {}

    fn call(&mut self, now: Instant, _host: &mut Host) -> bool {
        if now < self.due {
            return false;
        }
        self.due = now + Duration::from_nanos(1_500_001);
        self.left -= 1;
        true
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        Some(self.due)
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }
}

#[test]
fn the_driver_sleeps_until_the_nanosecond_and_does_not_spin() {
    let Some(netns) = namespace() else {
        return;
    };
    let ticker = Ticker {
        due: Instant::ZERO,
        left: 100,
    };
    let run = || {
        let tun = Tun::create(DEVICE).expect("a device");
        let config = HostConfig::of(&profile::linux_6_18(), ip(OURS[0]), 5);
        let host = Host::new(config);
        let mut driver = Driver::new(host, ticker, TunPort::new(tun)).expect("a driver");
        driver.run().expect("the device is there");
        driver.stats()
    };
    let stats = netns.handle().run(run).expect("a namespace of ours");
    // A turn that finds the time not yet come would be followed by another sleep.
    assert!(stats.sleeps <= 110, "{stats:?}");
    assert!(stats.turns <= 330, "{stats:?}");
}

#[test]
fn names_that_are_taken_are_told_apart_from_those_that_are_none() {
    let Some(netns) = namespace() else {
        return;
    };
    let check = |name: &str, expected: &str| {
        let error = netns
            .handle()
            .run(|| Tun::create(name).map(drop))
            .expect("a namespace of ours")
            .expect_err("no device");
        assert!(error.to_string().contains(expected), "{name}: {error}");
    };
    check("a/b", "letters, digits");
    check("sixteen-letters0", "1 to 15");
    check("", "1 to 15");
    check("lo", "is there already");
    if let Some(mut ip) = asking::witness("ip") {
        ip.args(["tuntap", "add", "dev", "kept", "mode", "tun"]);
        let made = netns.handle().run(|| ip.status());
        assert!(
            made.expect("a namespace of ours")
                .expect("it runs")
                .success()
        );
        check("kept", "is there already");
    }
    let _first = netns
        .handle()
        .run(|| Tun::create(DEVICE))
        .expect("a namespace of ours")
        .expect("a device");
    check(DEVICE, "is there already");
}
