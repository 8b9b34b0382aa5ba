//! Two hosts that hand each other their packets at once.

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use base::Instant;
use base::tcp::TcpFlags;

use super::*;
use crate::packet::Segment;
use crate::profile::{Profile, linux_6_18};

const CLIENT: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1));
const SERVER: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 2));

/// A client and a server without a path between them.
struct Two {
    now: Instant,
    client: Host,
    server: Host,
}

impl Two {
    fn new(profile: &Profile) -> Self {
        Self {
            now: Instant::from_nanos(1_000_000_000),
            client: Host::new(HostConfig::of(profile, CLIENT, 1)),
            server: Host::new(HostConfig::of(profile, SERVER, 2)),
        }
    }

    /// Hands packets over until there are none.
    fn exchange(&mut self) {
        loop {
            let to_server: Vec<Packet> = drain(&mut self.client, self.now);
            let to_client: Vec<Packet> = drain(&mut self.server, self.now);
            if to_server.is_empty() && to_client.is_empty() {
                return;
            }
            for mut packet in to_server {
                self.server.handle_packet_in_place(self.now, &mut packet);
            }
            for packet in to_client {
                self.client.handle_packet(self.now, packet);
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        self.exchange();
    }

    fn connect(&mut self, remote: SocketAddr) -> SocketId {
        let settings = self.client.default_settings().clone();
        let id = self.client.connect(self.now, remote, settings).unwrap();
        self.exchange();
        id
    }
}

/// All that a host has to send, every other packet into the memory of one.
fn drain(host: &mut Host, now: Instant) -> Vec<Packet> {
    let mut packets = Vec::new();
    while let Some(packet) = host.poll_transmit(now) {
        let mut next = Box::new(packet.clone());
        packets.push(packet);
        if host.poll_transmit_into(now, &mut next).is_some() {
            packets.push(*next);
        }
    }
    packets
}

fn end(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn segment(packet: &Packet) -> &Segment {
    packet.segment().unwrap()
}

/// A server with a connection, whose client has this many GSO packets on the way.
fn with_gso_packets(count: usize) -> (Two, SocketId, Vec<Packet>) {
    let profile = linux_6_18();
    let mut two = Two::new(&profile);
    let listener = two
        .server
        .listen(end("10.0.0.2:80"), ListenOptions::of(&profile))
        .unwrap();
    let client = two.connect(end("10.0.0.2:80"));
    let server = two.server.accept(two.now, listener).unwrap();
    two.client.set_quickack(two.now, client, 1);
    let data = [7; 65_536];
    for _ in 0..100 {
        two.now += Duration::from_millis(1);
        while two.client.write(two.now, client, &data).is_ok() {}
        let mut packets = drain(&mut two.client, two.now);
        let is_large = |packet: &Packet| segment(packet).segments() > 1;
        if packets.len() >= count && packets[..count].iter().all(is_large) {
            packets.truncate(count);
            return (two, server, packets);
        }
        for packet in packets.drain(..) {
            two.server.handle_packet(two.now, packet);
        }
        let _ = two.server.read_chunks(two.now, server, usize::MAX);
        for packet in drain(&mut two.server, two.now) {
            two.client.handle_packet(two.now, packet);
        }
    }
    panic!("the window does not open");
}

#[test]
fn packets_that_leave_one_at_a_time_lie_in_one_place() {
    let mut two = Two::new(&linux_6_18());
    let mut places = Vec::new();
    for port in 1..=20 {
        let settings = two.client.default_settings().clone();
        let remote = SocketAddr::new(SERVER, port);
        two.client.connect(two.now, remote, settings).unwrap();
        places.extend(
            two.client
                .shared
                .outbox
                .front()
                .map(|queued| core::ptr::from_ref(&*queued.packet)),
        );
        assert_eq!(drain(&mut two.client, two.now).len(), 1);
    }
    assert_eq!(places.len(), 20);
    places.dedup();
    assert_eq!(places.len(), 1);
}

#[test]
fn a_batch_of_gso_packets_is_acknowledged_once() {
    let (mut two, server, packets) = with_gso_packets(3);
    let last = segment(packets.last().unwrap()).clone();
    let sent_before = two.server.counters().segments_out;
    for packet in packets {
        two.server.handle_packet(two.now, packet);
        let _ = two.server.read_chunks(two.now, server, usize::MAX);
    }
    let acks = drain(&mut two.server, two.now);
    assert_eq!(acks.len(), 1);
    let ack = segment(&acks[0]);
    assert_eq!(ack.flags, TcpFlags::ACK);
    assert_eq!(ack.ack, last.seq + last.payload.len());
    let counters = two.server.counters();
    assert!(counters.acks_superseded >= 2);
    assert_eq!(counters.segments_out, sent_before + 1);
    assert_eq!(two.server.local_queue_bytes(), 0);
}

#[test]
fn each_gso_packet_is_acknowledged_where_the_driver_asks_in_between() {
    let (mut two, server, packets) = with_gso_packets(3);
    let before = two.server.counters().acks_superseded;
    for packet in packets {
        let end = segment(&packet).seq + segment(&packet).payload.len();
        two.server.handle_packet(two.now, packet);
        let acks = drain(&mut two.server, two.now);
        assert_eq!(segment(&acks[0]).ack, end);
        let _ = two.server.read_chunks(two.now, server, usize::MAX);
        drain(&mut two.server, two.now);
    }
    assert_eq!(two.server.counters().acks_superseded, before);
}

#[test]
fn duplicate_acks_are_never_merged() {
    let (mut two, _, mut packets) = with_gso_packets(3);
    let missing = packets.remove(0);
    let hole = segment(&missing).seq;
    let before = two.server.counters().acks_superseded;
    for packet in packets {
        two.server.handle_packet(two.now, packet);
    }
    // Each GSO packet behind the gap is answered, and so is the one that fills it.
    two.server.handle_packet(two.now, missing);
    let acks = drain(&mut two.server, two.now);
    let duplicates = acks.iter().filter(|ack| segment(ack).ack == hole);
    assert_eq!(duplicates.count(), 2);
    assert!(acks.len() >= 3, "{acks:?}");
    assert_eq!(two.server.counters().acks_superseded, before);
}

/// Each retransmission of old data is answered with an ACK that tells of it.
#[test]
fn answers_of_a_connection_do_not_pile_up() {
    let (mut two, server, packets) = with_gso_packets(1);
    for _ in 0..100_000 {
        two.server.handle_packet(two.now, packets[0].clone());
    }
    let answers = drain(&mut two.server, two.now).len();
    let most = 2 * linux_6_18().system.txqueuelen as usize;
    assert!((1..=most).contains(&answers), "{answers}");
    assert!(two.server.counters().local_queue_drops > 0);
    // Nothing else has suffered.
    assert!(two.server.read_chunks(two.now, server, usize::MAX).is_ok());
    assert_eq!(two.server.local_queue_bytes(), 0);
}

#[test]
fn a_host_of_any_address_accepts_what_was_meant_for_others() {
    let mut profile = linux_6_18();
    profile.system.any_address = true;
    let mut two = Two::new(&profile);
    two.client = Host::new(HostConfig {
        addrs: alloc::vec![CLIENT, "fd00::1".parse().unwrap()],
        ..HostConfig::of(&linux_6_18(), CLIENT, 1)
    });
    let options = ListenOptions::of(&profile);
    let mut listen = |at: &str| two.server.listen(end(at), options.clone());
    let every_port = listen("0.0.0.0:0").unwrap();
    let port_80 = listen("0.0.0.0:80").unwrap();
    let one_address = listen("192.0.2.7:80").unwrap();
    let every_port_v6 = listen("[::]:0").unwrap();
    assert_eq!(listen("192.0.2.7:0"), Err(ListenError::InvalidPort));
    for (remote, listener) in [
        ("198.51.100.1:80", port_80),
        ("198.51.100.1:443", every_port),
        ("192.0.2.7:80", one_address),
        ("192.0.2.7:81", every_port),
        ("10.0.0.2:80", port_80),
        ("[2001:db8::7]:443", every_port_v6),
    ] {
        let client = two.connect(end(remote));
        let server = two.server.accept(two.now, listener).expect(remote);
        assert_eq!(two.server.local_addr(server), Some(end(remote)));
        assert_eq!(
            two.server.remote_addr(server),
            two.client.local_addr(client)
        );
        two.client.write(two.now, client, b"ping").unwrap();
        two.exchange();
        let read = two.server.read_chunks(two.now, server, 10).unwrap();
        assert_eq!(read.to_vec(), b"ping", "{remote}");
    }
    // From there it connects under another address too.
    let foreign = end("198.51.100.1:9000");
    let settings = profile.settings.clone();
    let connected = two
        .server
        .connect_from(two.now, foreign, end("10.0.0.1:1"), settings);
    assert!(connected.is_ok());
}

#[test]
fn another_host_takes_nothing_that_is_not_its_own() {
    let profile = linux_6_18();
    let mut two = Two::new(&profile);
    let mut listen = |at: &str| two.server.listen(end(at), ListenOptions::of(&profile));
    assert_eq!(listen("0.0.0.0:0"), Err(ListenError::InvalidPort));
    assert_eq!(listen("198.51.100.1:80"), Err(ListenError::NoAddress));
    listen("0.0.0.0:80").unwrap();
    two.connect(end("198.51.100.1:80"));
    assert_eq!(two.server.counters().not_for_us, 1);
    assert_eq!(two.server.counters().passive_opens, 0);
}

#[test]
fn time_wait_is_bounded_and_takes_no_connection_its_room() {
    let mut profile = linux_6_18();
    profile.system.time_wait_max = 3;
    profile.system.connections_max = 4;
    let mut two = Two::new(&profile);
    let listener = two
        .server
        .listen(end("10.0.0.2:80"), ListenOptions::of(&linux_6_18()))
        .unwrap();
    for count in 0..20 {
        let client = two.connect(end("10.0.0.2:80"));
        let server = two.server.accept(two.now, listener).expect("a connection");
        // Who closes first waits.
        two.client.close(two.now, client);
        two.exchange();
        two.server.close(two.now, server);
        two.exchange();
        let overflows = u64::from(3_u32.max(count + 1)) - 3;
        assert_eq!(two.client.counters().time_wait_overflows, overflows);
    }
    assert_eq!(two.client.counters().active_opens, 20);
    assert_eq!(two.client.sockets.time_waits(), 3);
    two.pass(Duration::from_secs(61));
    assert_eq!(two.client.sockets.time_waits(), 0);
    assert_eq!(two.client.sockets.len(), 0);
    assert_eq!(two.client.poll_timeout(), None);
}

#[test]
fn without_time_wait_a_connection_still_belongs_to_its_program() {
    let mut profile = linux_6_18();
    profile.system.time_wait_max = 0;
    let mut two = Two::new(&profile);
    let listener = two
        .server
        .listen(end("10.0.0.2:80"), ListenOptions::of(&profile))
        .unwrap();
    let client = two.connect(end("10.0.0.2:80"));
    let server = two.server.accept(two.now, listener).unwrap();
    two.client.shutdown(two.now, client);
    two.exchange();
    two.server.write(two.now, server, b"last words").unwrap();
    two.server.close(two.now, server);
    two.exchange();
    let mut events = core::iter::from_fn(|| two.client.poll_event());
    assert!(events.any(|event| event == (client, Event::Closed)));
    assert_eq!(two.client.counters().time_wait_overflows, 1);
    let read = two.client.read_chunks(two.now, client, 100).unwrap();
    assert_eq!(read.to_vec(), b"last words");
    two.client.close(two.now, client);
    assert_eq!(two.client.sockets.len(), 0);
    // The server, whose FIN was acknowledged, is done as well.
    assert_eq!(two.server.sockets.len(), 1, "the listener");
}
